"""The model's `web_search`: routed to the chain of engines, failures of one engine passed on to the next."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.providers.base import SearchRequest, clean_domain
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.text import shorten
from ipy_websearch.tools.base import Passage, Tool, ToolContext, ToolOutput
from ipy_websearch.usage import Charge

UNAVAILABLE = "Search unavailable. Please answer from your knowledge."
"""What the model reads when no engine answered (seed 000, "Brave API failures")."""

Search = Callable[[SearchRequest], Awaitable[SearchResults]]


class WebSearchInput(BaseModel):
    """What the model gives."""

    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=2, description="The search query to use: short and specific, a few words")
    freshness: Literal["pd", "pw", "pm", "py"] | None = Field(
        None, description="Only pages of the past day (pd), week (pw), month (pm) or year (py)"
    )
    allowed_domains: list[str] | None = Field(None, description="Only include search results from these domains")
    blocked_domains: list[str] | None = Field(None, description="Never include search results from these domains")


DESCRIPTION = (
    "Search the web and use the results to inform the answer. Provides up-to-date information beyond your knowledge. "
    "Returns search results with their addresses and text."
)


def web_search_tool(search: Search, defaults: SearchRequest, *, price: tuple[Charge, ...] = ()) -> Tool:
    """Return the tool. `search` runs a request; `defaults` gives all but the query (count, country, domains, …).

    Domains that the user allowed or blocked bind the model: it may narrow an allowed list, never widen it.
    """

    async def call(value: WebSearchInput, context: ToolContext) -> ToolOutput:
        try:
            request = narrowed(defaults, value)
            results = await search(request)
        except ConfigError as exc:
            return failed(str(exc), str(exc))
        except ProviderError as exc:
            return failed(str(exc), f"{UNAVAILABLE} ({exc})", exc.charges)
        return search_output(results)

    return Tool("web_search", DESCRIPTION, WebSearchInput, call, counts_as_search=True, price=price)


def failed(summary: str, text: str, charges: tuple[Charge, ...] = ()) -> ToolOutput:
    """Return the output of a search that did not work; `charges` are what it is booked at all the same."""
    return ToolOutput(summary=shorten(summary, 200), text=text, is_error=True, charges=charges)


def narrowed(defaults: SearchRequest, value: WebSearchInput) -> SearchRequest:
    """Return the request for what the model asked, within what the user allowed."""
    allowed = tuple(clean_domain(domain) for domain in value.allowed_domains or ())
    blocked = tuple(clean_domain(domain) for domain in value.blocked_domains or ())
    if defaults.allowed_domains:
        inside = tuple(d for d in allowed if any(d == a or d.endswith(f".{a}") for a in defaults.allowed_domains))
        allowed, blocked = inside or defaults.allowed_domains, ()
    elif defaults.blocked_domains:
        blocked = tuple(dict.fromkeys((*defaults.blocked_domains, *blocked)))
        allowed = ()
    elif allowed:
        blocked = ()
    return replace(
        defaults,
        query=value.query,
        freshness=value.freshness or defaults.freshness,
        allowed_domains=allowed,
        blocked_domains=blocked,
    )


def search_output(results: SearchResults) -> ToolOutput:
    """Return what the model and the reader get for the results of a search."""
    count = len(results)
    hits = f"{count} result{'' if count == 1 else 's'} from {results.provider}" + (" (cached)" if results.cached else "")
    return ToolOutput(
        summary=f"{hits} for “{shorten(results.query, 80)}”",
        passages=tuple(passage for result in results if (passage := as_passage(result)).paragraphs),
        text="" if count else f"No results found for {results.query!r} ({results.provider}).",
        panel_title=f"{results.provider}: {results.query}",
        panel_data=as_data(results) if results.body is None else results.body,
        urls=tuple(result.url for result in results),
        charges=results.charges,
        notices=results.notices,
        results=results,
    )


def as_passage(result: SearchResult) -> Passage:
    """Return a hit as citable paragraphs: its description, its further snippets, its date as a field of its own."""
    texts = dict.fromkeys(text for text in (result.description, *result.extra_snippets) if text)
    if result.published_date is not None and texts:
        texts[f"Published: {result.published_date.date().isoformat()}"] = None
    return Passage(result.url, result.title, tuple(texts) or ((result.title,) if result.title else ()), result.published_date)


def as_data(results: SearchResults) -> dict[str, object]:
    """Return results as plain data for a panel."""
    return {
        "query": results.query,
        "provider": results.provider,
        "results": [
            {
                "title": r.title,
                "url": r.url,
                "description": r.description,
                **({"published_date": r.published_date.isoformat()} if r.published_date else {}),
                **({"extra_snippets": list(r.extra_snippets)} if r.extra_snippets else {}),
            }
            for r in results
        ],
    }
