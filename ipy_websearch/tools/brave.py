"""Brave's two tools: `brave_search` gives snippets, `brave_llm_context` passages of pages that were read already.

Parameters, defaults and bounds are those of seed 003. A goggle may be given by a name of the catalogue, by its address, or
as inline rules. What the user set for the session (country, filter for adult content, domains) binds the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AliasChoices, Field

from ipy_websearch.errors import WebSearchError
from ipy_websearch.providers.base import SafeSearch, SearchRequest
from ipy_websearch.providers.goggles import resolve
from ipy_websearch.results import SearchResults
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.inputs import Bounded, Optional, ToolInput
from ipy_websearch.tools.kept import Keeper
from ipy_websearch.tools.outputs import counted, for_query, refused, rich_passage, whole_text
from ipy_websearch.tools.web_search import as_passage
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from ipy_websearch.providers.brave import BraveProvider

Search = Callable[[SearchRequest], Awaitable[SearchResults]]

_FRESHNESS = "Recency: pd, pw, pm or py (past day, week, month, year), or a range such as 2024-01-01to2024-06-30"
_GOGGLE = (
    "A Brave goggle that ranks by source: the name of one (tech: official docs, Stack Overflow, GitHub, MDN; academic: "
    "papers and universities; news: agencies and established papers), the URL of a hosted one, or inline rules"
)
_COUNTRY = "Two-letter country of the results"

SEARCH_DESCRIPTION = (
    "Search Brave's independent web index: titles, addresses and snippets, with live data (weather, stocks, sports, "
    "currencies, calculations, definitions) where there is some. The first tool for every question. One call, no further pages."
)
CONTEXT_DESCRIPTION = (
    "Get passages, tables and code out of the web pages that fit a query, chosen by relevance, with no page to open. For when "
    "the snippets of brave_search are not enough."
)


class BraveSearchInput(ToolInput):
    """What the model gives to `brave_search`."""

    query: str = Field(
        min_length=2, description='The search query. Supports operators: "exact", -exclude, site:domain, filetype:pdf'
    )
    count: Annotated[int, Bounded(1, 20)] = Field(5, description="Number of results")
    freshness: str | Optional = Field(None, description=_FRESHNESS)
    country: str = Field("US", description=_COUNTRY)
    search_lang: str = Field("en", description="Language of the results (ISO 639-1)")
    safe_search: SafeSearch = Field("moderate", description="Filter for adult content")
    # the name on the wire is `goggles` today; models that know it are understood
    goggles_id: str | Optional = Field(None, description=_GOGGLE, validation_alias=AliasChoices("goggles_id", "goggles"))


class BraveContextInput(ToolInput):
    """What the model gives to `brave_llm_context`."""

    query: str = Field(min_length=2, description="The search query")
    maximum_number_of_tokens: Annotated[int, Bounded(1_024, 32_768)] = Field(
        8_192, description="About how many tokens to return: 2048 for a fact, 16384 for detailed research"
    )
    count: Annotated[int, Bounded(1, 50)] = Field(20, description="Search results to consider")
    context_threshold_mode: Literal["strict", "balanced", "lenient", "disabled"] = Field(
        "balanced", description="How well a passage must fit: strict for facts, lenient for broad research"
    )
    freshness: str | Optional = Field(None, description=_FRESHNESS)
    country: str = Field("US", description=_COUNTRY)
    goggles: str | Optional = Field(None, description=_GOGGLE)


def brave_search_tool(search: Search, defaults: SearchRequest, *, price: tuple[Charge, ...] = ()) -> Tool:
    """Return the tool; `search` asks Brave, `defaults` holds what the user set and the domains that bind the model."""

    async def call(given: BraveSearchInput, context: ToolContext) -> ToolOutput:
        try:
            request = brave_request(given, defaults, given.goggles_id)
            results = await search(
                replace(
                    request,
                    language=given.search_lang if "search_lang" in given.model_fields_set else defaults.language or "en",
                    safe_search=_filter(given, defaults),
                )
            )
        except WebSearchError as exc:
            return refused(exc)
        return _searched(results)

    # 10 s for the search and 5 s for the live data behind it
    return Tool("brave_search", SEARCH_DESCRIPTION, BraveSearchInput, call, counts_as_search=True, price=price, timeout_s=20.0)


def brave_llm_context_tool(engine: BraveProvider, defaults: SearchRequest, keeper: Keeper) -> Tool:
    """Return the tool; `defaults` is as for `brave_search_tool`, `keeper` keeps what was paid for already."""

    async def call(given: BraveContextInput, context: ToolContext) -> ToolOutput:
        async def make() -> ToolOutput:
            results = await engine.llm_context(
                brave_request(given, defaults, given.goggles),
                maximum_number_of_tokens=given.maximum_number_of_tokens,
                context_threshold_mode=given.context_threshold_mode,
            )
            return _passages(results)

        try:
            return await keeper.output("brave_llm_context", given, defaults, make)
        except WebSearchError as exc:
            return refused(exc, price)

    price = (Charge("brave", "context"),)
    return Tool(
        "brave_llm_context", CONTEXT_DESCRIPTION, BraveContextInput, call, counts_as_search=True, price=price, timeout_s=15.0
    )


def brave_request(given: Any, defaults: SearchRequest, goggle: str | None) -> SearchRequest:
    """Return the request for what the model asked; what it left out is as the user set it.

    Raises:
        ConfigError: a value is not of its form, or the goggle is none.
    """
    return replace(
        defaults,
        query=given.query,
        count=given.count,
        freshness=given.freshness or defaults.freshness,
        country=given.country if "country" in given.model_fields_set else defaults.country or "US",
        goggles=(*defaults.goggles, *([resolve(goggle)] if goggle and goggle.strip() else [])),
    )


def _filter(given: BraveSearchInput, defaults: SearchRequest) -> SafeSearch:
    """Return the filter: the model's own choice, unless the user chose the strict one."""
    if defaults.safe_search == "strict" or "safe_search" not in given.model_fields_set:
        return defaults.safe_search
    return given.safe_search


def _searched(results: SearchResults) -> ToolOutput:
    rich = rich_passage(results)
    passages = [passage for result in results if (passage := as_passage(result)).paragraphs]
    kinds = f" and {rich.title.partition(': ')[2]}" if rich else ""
    output = _output("brave_search", results, f"{counted(len(results), 'result')}{kinds}")
    return replace(
        output,
        passages=(*([rich] if rich else []), *passages),
        text="" if rich or passages else f"No results found for {results.query!r} (brave).",
    )


def _passages(results: SearchResults) -> ToolOutput:
    passages = tuple(passage for result in results if (passage := as_passage(result)).paragraphs)
    tokens = sum(len(paragraph) for passage in passages for paragraph in passage.paragraphs) // 4
    output = _output("brave_llm_context", results, f"{counted(len(results), 'URL')}, ~{tokens:,} tokens")
    return replace(output, passages=passages, text=whole_text(passages) or f"No results found for {results.query!r} (brave).")


def _output(tool: str, results: SearchResults, found: str) -> ToolOutput:
    return ToolOutput(
        summary=f"{found} {for_query(results.query)}{' (cached)' if results.cached else ''}",
        panel_title=f"{tool}: {results.query}",
        panel_data=results.body,
        urls=tuple(result.url for result in results),
        charges=results.charges,
        notices=results.notices,
        results=results,
    )
