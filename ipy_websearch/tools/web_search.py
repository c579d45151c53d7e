"""The searches that the model is offered: `web_search`, and the pair `web_search_brave` and `web_search_google`.

`web_search` is routed to the chain of engines, failures of one engine passed on to the next. A tool of the pair asks the
engine that it names and no other; the two schemas differ in the name and in the engine's name in the description, in nothing
else (seed 002), so that either can stand in for the other. Domains that the user allowed or blocked bind the model: it may
narrow an allowed list, never widen it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import asdict, replace
from typing import Any, Literal
from urllib.parse import quote_plus

from pydantic import ConfigDict, Field

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.providers.base import SearchRequest, clean_domain, permitted
from ipy_websearch.results import SearchResults
from ipy_websearch.text import plain, shorten, visible
from ipy_websearch.tools.base import Passage, Tool, ToolContext, ToolOutput, as_passage, counted, refused
from ipy_websearch.tools.inputs import Optional, ToolInput
from ipy_websearch.tools.schemas import SCHEMAS, SEARCH_PARAMETERS
from ipy_websearch.usage import Charge

UNAVAILABLE = "Search unavailable. Please answer from your knowledge."
"""What the model reads when no engine answered (seed 000, "Brave API failures")."""

DESCRIPTION = (
    "Search the web and use the results to inform the answer. Provides up-to-date information beyond your knowledge. "
    "Returns search results with their addresses and text."
)
_RICH_CHARACTERS = 8_000

Search = Callable[[SearchRequest], Awaitable[SearchResults]]


class WebSearchInput(ToolInput):
    """The input of `web_search`."""

    query: str = Field(min_length=2, description="The search query to use: short and specific, a few words")
    freshness: Literal["pd", "pw", "pm", "py"] | Optional = Field(
        None, description="Only pages of the past day (pd), week (pw), month (pm) or year (py)"
    )
    allowed_domains: list[str] = Field([], description="Only include search results from these domains")
    blocked_domains: list[str] = Field([], description="Never include search results from these domains")


def _as_specified(schema: dict[str, Any]) -> None:
    schema.clear()
    schema.update(deepcopy(SEARCH_PARAMETERS))


class PairInput(ToolInput):
    """The input of either tool of the pair; the schema is that of seed 002, word for word."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_as_specified)

    query: str = Field(min_length=2)
    allowed_domains: list[str] = []
    blocked_domains: list[str] = []


def web_search_tool(search: Search, defaults: SearchRequest, *, price: tuple[Charge, ...] = ()) -> Tool:
    """Return `web_search`. `search` runs a request; `defaults` gives all but the query (count, country, domains, …)."""

    async def call(given: WebSearchInput, context: ToolContext) -> ToolOutput:
        try:
            return search_output(await search(narrowed(defaults, given)))
        except (ConfigError, ProviderError) as exc:
            return unavailable(exc)

    return Tool("web_search", DESCRIPTION, WebSearchInput, call, counts_as_search=True, price=price)


def pair_tool(name: str, search: Search, defaults: SearchRequest, *, price: tuple[Charge, ...] = ()) -> Tool:
    """Return `web_search_brave` or `web_search_google`; `search` asks its engine, `defaults` is as for `web_search_tool`."""

    async def call(given: PairInput, context: ToolContext) -> ToolOutput:
        try:
            output = search_output(without(await search(narrowed(defaults, given)), given.blocked_domains))
        except (ConfigError, ProviderError) as exc:
            return unavailable(exc)
        rich = rich_passage(output.results) if output.results is not None else None
        return replace(output, passages=(rich, *output.passages), text="") if rich else output

    return Tool(name, SCHEMAS[name]["description"], PairInput, call, counts_as_search=True, price=price, timeout_s=20.0)


def unavailable(exc: ConfigError | ProviderError) -> ToolOutput:
    """Return the output of a search that failed: seed 000's sentence and the reason, or what is wrong with the input."""
    return refused(exc, text=f"{UNAVAILABLE} ({exc})" if isinstance(exc, ProviderError) else "")


def narrowed(defaults: SearchRequest, given: WebSearchInput | PairInput) -> SearchRequest:
    """Return the request for the model's input, within what the user allowed.

    Raises:
        ConfigError: a domain of the input is none.
    """
    allowed = tuple(map(clean_domain, given.allowed_domains))
    blocked = tuple(map(clean_domain, given.blocked_domains))
    if defaults.allowed_domains:
        inside = tuple(d for d in allowed if any(d == a or d.endswith(f".{a}") for a in defaults.allowed_domains))
        allowed, blocked = inside or defaults.allowed_domains, ()
    elif defaults.blocked_domains:
        allowed, blocked = (), tuple(dict.fromkeys((*defaults.blocked_domains, *blocked)))
    elif allowed:
        blocked = ()
    freshness = getattr(given, "freshness", None) or defaults.freshness
    return replace(defaults, query=given.query, freshness=freshness, allowed_domains=allowed, blocked_domains=blocked)


def without(results: SearchResults, domains: list[str]) -> SearchResults:
    """Return the results that are on none of the domains; an engine takes only one of the two lists.

    Raises:
        ConfigError: one of them is no domain.
    """
    if not domains:
        return results
    blocked = SearchRequest(results.query, blocked_domains=tuple(map(clean_domain, domains)))
    return replace(results, results=tuple(permitted(results, blocked)))


def search_output(results: SearchResults) -> ToolOutput:
    """Return the output for the results of a search."""
    hits = f"{counted(len(results), 'result')} from {results.provider}" + (" (cached)" if results.cached else "")
    return ToolOutput(
        summary=f"{hits} for “{shorten(results.query, 80)}”",
        passages=tuple(passage for result in results if (passage := as_passage(result)).paragraphs),
        text="" if results else f"No results found for {results.query!r} ({results.provider}).",
        panel_title=f"{results.provider}: {results.query}",
        panel_data=_as_data(results) if results.body is None else results.body,
        urls=tuple(result.url for result in results),
        charges=results.charges,
        notices=results.notices,
        results=results,
    )


def _as_data(results: SearchResults) -> dict[str, object]:
    """Return results as plain data for a panel."""
    listed = [asdict(replace(result, score=None)) for result in results]
    rows = [
        {name: value.isoformat() if name == "published_date" else value for name, value in row.items() if value}
        for row in listed
    ]
    return {"query": results.query, "provider": results.provider, "results": rows}


def rich_passage(results: SearchResults) -> Passage | None:
    """Return the rich result (weather, a stock, a conversion …) that came along with a search, None without one.

    Its source is the page on which Brave shows the same to people.
    """
    import yaml

    rich = results.extra.get("rich")
    entries = [entry for entry in rich.get("results") or () if isinstance(entry, dict)] if isinstance(rich, dict) else []
    texts = (visible(yaml.safe_dump(entry, sort_keys=False, allow_unicode=True, width=1_000)).strip() for entry in entries)
    paragraphs = tuple(shorten(text, _RICH_CHARACTERS) for text in texts if text)
    if not paragraphs:
        return None
    kinds = ", ".join(filter(None, dict.fromkeys(plain(entry.get("subtype")) for entry in entries)))
    url = f"https://search.brave.com/search?q={quote_plus(results.query)}"
    return Passage(url, f"Brave rich result: {kinds or 'data'}", paragraphs)
