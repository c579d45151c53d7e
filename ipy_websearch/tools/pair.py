"""The pair `web_search_brave` and `web_search_google`: one schema, two engines, so that either can stand in for the other.

The schemas differ in the name and in the engine's name in the description, in nothing else (seed 002). Unlike `web_search`,
a call goes to the engine that it names and to no other; its failure is told to the model, which can ask the other one.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, Field

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.providers.base import SearchRequest, clean_domain, permitted
from ipy_websearch.results import SearchResults
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.inputs import ToolInput
from ipy_websearch.tools.outputs import rich_passage
from ipy_websearch.tools.schemas import SCHEMAS, SEARCH_PARAMETERS
from ipy_websearch.tools.web_search import UNAVAILABLE, Search, WebSearchInput, failed, narrowed, search_output
from ipy_websearch.usage import Charge


def _as_specified(schema: dict[str, Any]) -> None:
    schema.clear()
    schema.update(deepcopy(SEARCH_PARAMETERS))


class PairInput(ToolInput):
    """What the model gives to either tool; the schema is that of the specification, word for word."""

    model_config = ConfigDict(extra="ignore", json_schema_extra=_as_specified)

    query: str = Field(min_length=2)
    allowed_domains: list[str] = []
    blocked_domains: list[str] = []


def pair_tool(name: str, search: Search, defaults: SearchRequest, *, price: tuple[Charge, ...] = ()) -> Tool:
    """Return the tool of that name, `web_search_brave` or `web_search_google`; `search` asks its engine.

    `defaults` gives all but the query (count, country, …) and the domains that bind the model.
    """

    async def call(given: PairInput, context: ToolContext) -> ToolOutput:
        try:
            results = await search(_request(given, defaults))
            return _output(without(results, given.blocked_domains))
        except ConfigError as exc:
            return failed(str(exc), str(exc))
        except ProviderError as exc:
            return failed(str(exc), f"{UNAVAILABLE} ({exc})", exc.charges)

    return Tool(name, SCHEMAS[name]["description"], PairInput, call, counts_as_search=True, price=price, timeout_s=20.0)


def _request(given: PairInput, defaults: SearchRequest) -> SearchRequest:
    allowed, blocked = given.allowed_domains or None, given.blocked_domains or None
    wish = WebSearchInput(query=given.query, freshness=None, allowed_domains=allowed, blocked_domains=blocked)
    return narrowed(defaults, wish)


def without(results: SearchResults, domains: list[str]) -> SearchResults:
    """Return the results that are on none of the domains; an engine takes only one of the two lists.

    Raises:
        ConfigError: one of them is no domain.
    """
    if not domains:
        return results
    blocked = SearchRequest(results.query, blocked_domains=tuple(map(clean_domain, domains)))
    return replace(results, results=tuple(permitted(results, blocked)))


def _output(results: SearchResults) -> ToolOutput:
    output = search_output(results)
    rich = rich_passage(results)
    return replace(output, passages=(rich, *output.passages), text="") if rich else output
