"""Brave's two tools: `brave_search` gives snippets, `brave_llm_context` passages of pages that were read already.

Parameters, defaults and bounds are those of seed 003. A goggle may be given by a name of the catalogue, by its address, or
as inline rules. What the user set for the session (country, filter for adult content, domains) binds the model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from pydantic import AliasChoices, BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from ipy_websearch.errors import WebSearchError
from ipy_websearch.providers.base import SafeSearch, SearchRequest
from ipy_websearch.providers.goggles import resolve
from ipy_websearch.results import SearchResults
from ipy_websearch.text import plain, plural, shorten
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput, refused, whole_text
from ipy_websearch.tools.web_search import Search, rich_passage, search_output
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from ipy_websearch.providers.brave import BraveProvider

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


class BraveSearchInput(BaseModel, extra="forbid"):
    """The input of `brave_search`."""

    query: str = Field(
        min_length=2, description='The search query. Supports operators: "exact", -exclude, site:domain, filetype:pdf'
    )
    count: int = Field(5, ge=1, le=20, description="Number of results")
    freshness: str | SkipJsonSchema[None] = Field(None, description=_FRESHNESS)
    country: str = Field("US", description=_COUNTRY)
    search_lang: str = Field("en", description="Language of the results (ISO 639-1)")
    safe_search: SafeSearch = Field("moderate", description="Filter for adult content")
    # the name on the wire is `goggles` today; models that know it are understood
    goggles_id: str | SkipJsonSchema[None] = Field(
        None, description=_GOGGLE, validation_alias=AliasChoices("goggles_id", "goggles")
    )


class BraveContextInput(BaseModel, extra="forbid"):
    """The input of `brave_llm_context`."""

    query: str = Field(min_length=2, description="The search query")
    maximum_number_of_tokens: int = Field(
        8_192, ge=1_024, le=32_768, description="About how many tokens to return: 2048 for a fact, 16384 for detailed research"
    )
    count: int = Field(20, ge=1, le=50, description="Search results to consider")
    context_threshold_mode: Literal["strict", "balanced", "lenient", "disabled"] = Field(
        "balanced", description="How well a passage must fit: strict for facts, lenient for broad research"
    )
    freshness: str | SkipJsonSchema[None] = Field(None, description=_FRESHNESS)
    country: str = Field("US", description=_COUNTRY)
    goggles: str | SkipJsonSchema[None] = Field(None, description=_GOGGLE)


def brave_search_tool(search: Search, defaults: SearchRequest, *, price: tuple[Charge, ...] = ()) -> Tool:
    """Return the tool; `search` asks Brave, `defaults` holds what the user set and the domains that bind the model."""

    async def call(given: BraveSearchInput, context: ToolContext) -> ToolOutput:
        named = given.model_fields_set
        language = given.search_lang if "search_lang" in named else defaults.language or "en"
        strict = defaults.safe_search == "strict" or "safe_search" not in named
        safe_search = defaults.safe_search if strict else given.safe_search
        try:
            request = replace(_request(given, defaults, given.goggles_id), language=language, safe_search=safe_search)
            results = await search(request)
        except WebSearchError as exc:
            return refused(exc)
        rich = rich_passage(results)
        found = plural(len(results), "result") + (f" and {rich.title.partition(': ')[2]}" if rich else "")
        output = _output("brave_search", results, found)
        return replace(output, passages=(rich, *output.passages), text="") if rich else output

    # 10 s for the search and 5 s for the live data behind it
    return Tool("brave_search", SEARCH_DESCRIPTION, BraveSearchInput, call, counts_as_search=True, price=price, timeout_s=20.0)


def brave_llm_context_tool(engine: BraveProvider, defaults: SearchRequest) -> Tool:
    """Return the tool; `defaults` is as for `brave_search_tool`."""

    async def call(given: BraveContextInput, context: ToolContext) -> ToolOutput:
        try:
            results = await engine.llm_context(
                _request(given, defaults, given.goggles),
                tokens=given.maximum_number_of_tokens,
                mode=given.context_threshold_mode,
            )
        except WebSearchError as exc:
            return refused(exc, price)
        tokens = sum(len(text) for result in results for text in (result.description, *result.extra_snippets)) // 4
        output = _output("brave_llm_context", results, f"{plural(len(results), 'URL')}, ~{tokens:,} tokens")
        passages = tuple(replace(passage, read="page") for passage in output.passages)  # Brave takes them from the pages
        return replace(output, passages=passages, text=output.text or whole_text(passages))

    price = (Charge("brave", "context"),)
    return Tool(
        "brave_llm_context", CONTEXT_DESCRIPTION, BraveContextInput, call, counts_as_search=True, price=price, timeout_s=15.0
    )


def _request(given: BraveSearchInput | BraveContextInput, defaults: SearchRequest, goggle: str | None) -> SearchRequest:
    """Return the request for the model's input; what it left out is as the user set it.

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


def _output(tool: str, results: SearchResults, found: str) -> ToolOutput:
    query = shorten(plain(results.query), 80)
    return replace(
        search_output(results),
        summary=f"{found} for '{query}'{' (cached)' if results.cached else ''}",
        panel_title=f"{tool}: {results.query}",
    )
