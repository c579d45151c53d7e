"""The fake search engines, one name each; `hit` and `made_up` make results for any of them."""

from __future__ import annotations

from tests.fakes.brave import Brave
from tests.fakes.engine import Answer, Engine, Hit, Refusal, hit, made_up
from tests.fakes.other_engines import Google, SearXNG
from tests.fakes.paid_engines import Exa, Firecrawl, Perplexity, Tavily
from tests.fakes.wikipedia import Wikipedia

ENGINES: dict[str, type[Engine]] = {
    "brave": Brave,
    "google": Google,
    "firecrawl": Firecrawl,
    "tavily": Tavily,
    "perplexity": Perplexity,
    "exa": Exa,
    "searxng": SearXNG,
    "wikipedia": Wikipedia,
}

__all__ = [
    "Answer",
    "Brave",
    "ENGINES",
    "Engine",
    "Exa",
    "Firecrawl",
    "Google",
    "Hit",
    "Perplexity",
    "Refusal",
    "SearXNG",
    "Tavily",
    "Wikipedia",
    "hit",
    "made_up",
]
