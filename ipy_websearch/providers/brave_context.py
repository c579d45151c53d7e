"""Brave's LLM Context: pages already read, as the passages that fit the query. Reading its answer; `brave` sends it.

Wire facts: api-dashboard.search.brave.com, "LLM context", and brave/brave-search-skills, read 2026-11. One call is billed as
one search. Snippets are strings, whole and in the page's own lines; some are JSON texts (tables, schema.org data).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.brave_wire import shared_parameters
from ipy_websearch.results import SearchResult
from ipy_websearch.text import visible

MODES = ("strict", "balanced", "lenient", "disabled")
MIN_TOKENS, MAX_TOKENS = 1_024, 32_768

# What a call may hold beside the number of tokens, fixed: these fit every budget of tokens that can be asked for.
_FIXED = {"maximum_number_of_urls": 20, "maximum_number_of_snippets": 50, "maximum_number_of_tokens_per_url": 4_096}


def context_parameters(request: SearchRequest, query: str, tokens: int, mode: str) -> dict[str, Any]:
    """Return the parameters of one call.

    Raises:
        ConfigError: `tokens` or `mode` is not one that Brave takes, or an inline goggle is faulty.
    """
    if not MIN_TOKENS <= tokens <= MAX_TOKENS:
        raise ConfigError(f"maximum_number_of_tokens is {tokens}; it must be between {MIN_TOKENS} and {MAX_TOKENS}")
    if mode not in MODES:
        raise ConfigError(f"context_threshold_mode is {mode!r}; it must be one of {', '.join(MODES)}")
    return {
        **shared_parameters(request, query, request.count),
        **_FIXED,
        "maximum_number_of_tokens": tokens,
        "context_threshold_mode": mode,
    }


def context_results(raw: Mapping[str, Any]) -> Iterator[SearchResult]:
    """Yield the pages of an answer: the first passage as the description, all others as extra snippets, uncut."""
    sources = parsing.mapping(raw.get("sources"))
    grounding = parsing.mapping(raw.get("grounding"))
    poi = grounding.get("poi")
    pages = [*parsing.objects(grounding.get("generic")), *([poi] if isinstance(poi, dict) else [])]
    for page in [*pages, *parsing.objects(grounding.get("map"))]:
        url = parsing.address(page.get("url"))
        passages = [passage for passage in map(_passage, parsing.items(page.get("snippets"))) if passage]
        if not url:
            continue
        source = parsing.mapping(sources.get(str(page["url"])))
        yield SearchResult(
            title=parsing.text(page.get("title") or source.get("title") or page.get("name"), 500),
            url=url,
            description=passages[0] if passages else "",
            published_date=_date(source.get("age")),
            extra_snippets=tuple(passages[1:]),
        )


def _passage(snippet: Any) -> str:
    """Return the words of a snippet (a string; an object with a text is understood too)."""
    words = snippet.get("text") if isinstance(snippet, dict) else snippet
    return visible(words).strip() if isinstance(words, str) else ""


def _date(age: Any) -> datetime | None:
    """Return the date in `age`, which is null or [long form, ISO date, "N days ago"], sometimes shorter."""
    return parsing.first_date(*(parsing.iso_date(part) for part in parsing.items(age)))
