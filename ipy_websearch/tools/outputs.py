"""What the outputs of several tools have in common: failures, counted things, results as plain text, rich results. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote_plus, urlsplit

from ipy_websearch.errors import ProviderError, WebSearchError
from ipy_websearch.results import SearchResults
from ipy_websearch.text import plain, shorten, visible
from ipy_websearch.tools.base import Passage, ToolOutput
from ipy_websearch.usage import Charge, lost

MODEL_CHARACTERS = 80_000
"""Characters that the model gets of one call, about 20,000 tokens; the panel has everything."""
RICH_CHARACTERS = 8_000


def refused(exc: WebSearchError, price: Sequence[Charge] = ()) -> ToolOutput:
    """Return the output of a call that an engine (or a check before it) refused: the error's own line.

    A call whose answer was lost is booked at its `price`, or at what the error says.
    """
    text = str(exc)
    charges: Sequence[Charge] = ()
    if isinstance(exc, ProviderError):
        text += f" (retry after {exc.retry_after:g} s)" if exc.retry_after else ""
        charges = exc.charges or (lost(price) if exc.lost else ())
    return ToolOutput(summary=shorten(text, 200), text=text, is_error=True, charges=tuple(charges))


def counted(count: int, thing: str) -> str:
    """Return a number with its noun: "1 result", "1,200 URLs"."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def for_query(query: str) -> str:
    """Return the end of a summary that says what was searched for."""
    return f"for '{shorten(plain(query), 80)}'"


def place(url: str) -> str:
    """Return the host of an address, or what there is of it, for people."""
    try:
        return plain(urlsplit(url).hostname or "") or shorten(plain(url), 80)
    except ValueError:
        return shorten(plain(url), 80)


def whole_text(passages: Sequence[Passage]) -> str:
    """Return passages as numbered plain text with nothing cut, for platforms that take no `search_result` blocks."""
    parts = (f"{n}. {p.title}\n   {p.url}\n\n" + "\n\n".join(p.paragraphs) for n, p in enumerate(passages, 1))
    return "\n\n".join(parts)


def rich_passage(results: SearchResults) -> Passage | None:
    """Return the rich result (weather, a stock, a conversion …) that came along with a search, None without one.

    Its source is the page on which Brave shows the same to people.
    """
    rich = results.extra.get("rich")
    entries = [entry for entry in rich.get("results") or () if isinstance(entry, dict)] if isinstance(rich, dict) else []
    paragraphs = tuple(text for text in map(_rich_text, entries) if text)
    if not paragraphs:
        return None
    kinds = dict.fromkeys(plain(entry.get("subtype")) for entry in entries)
    title = f"Brave rich result: {', '.join(filter(None, kinds)) or 'data'}"
    return Passage(f"https://search.brave.com/search?q={quote_plus(results.query)}", title, paragraphs)


def _rich_text(entry: dict[str, Any]) -> str:
    import yaml

    text = visible(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=1_000)).strip()
    return shorten(text, RICH_CHARACTERS)
