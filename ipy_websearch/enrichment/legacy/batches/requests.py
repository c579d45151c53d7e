"""The requests of a batch and what their answers mean. Pure.

In a batch nobody can run our tools in between, so the search is the API's own: its passages come encrypted, their addresses
do not. A value's source is therefore checked as ever, and its quote is taken from what the model cited for it (`cited`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipy_websearch.enrichment.legacy.asking import (
    NO_COLUMNS,
    NUDGE,
    RECORD,
    cells_of,
    has_columns,
    record_tool,
    request_body,
    row_text,
    stop_failure,
)
from ipy_websearch.enrichment.legacy.batches.cited import Cited
from ipy_websearch.enrichment.legacy.batches.handed_in import Request
from ipy_websearch.enrichment.legacy.columns import Column
from ipy_websearch.enrichment.legacy.outcome import Cell
from ipy_websearch.loop.history import assistant_message, user_message
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.requests import FIRST_SEARCH, server_tools
from ipy_websearch.providers.base import SearchRequest

MAX_TURNS = 4
"""How many answers a row may take: the API pauses its own searches after a while and wants to be asked to go on."""

_PASSING = ("unavailable", "too_many_requests")


@dataclass(frozen=True, slots=True)
class BatchRecipe:
    """What all requests of a run have in common; `search` is the API's search tool, None for none."""

    model: str
    platform: Platform
    system: str
    search: Mapping[str, Any] | None

    def body(self, columns: Sequence[Column], request: Request) -> dict[str, Any]:
        """Return the next request of a row."""
        nudged = bool(request.turns) and request.turns[-1].get("role") == "user"
        first = user_message(row_text(columns, request.inputs))
        return request_body(
            model=self.model,
            system=self.system,
            messages=[first, *request.turns],
            tools=[*([self.search] if self.search else ()), record_tool(columns)],
            platform=self.platform,
            columns=len(columns),
            final=nudged or self.search is None,
            speaks=self.search is not None,
        )


def native_search(model: str, platform: Platform, most: int, defaults: SearchRequest) -> Mapping[str, Any] | None:
    """Return the API's own search tool for at most `most` searches a row, None for none.

    Newer versions search from code that the model writes, which filters the results before they can be cited; here they are
    called directly, once or twice for a row.

    Raises:
        ConfigError: the platform runs no tools.
    """
    if not most:
        return None
    search = server_tools(model, platform, most, defaults)[0]
    return search if search["type"].endswith(FIRST_SEARCH) else {**search, "allowed_callers": ["direct"]}


@dataclass(frozen=True, slots=True)
class Read:
    """What an answer means: cells, or why there are none, or (with `turns`) how the row goes on."""

    cells: tuple[Cell, ...] = ()
    error: str = ""
    turns: list[dict[str, Any]] | None = None


def read(result: Mapping[str, Any], columns: Sequence[Column], request: Request) -> Read:
    """Return what the result of a request in a batch means."""
    match result.get("type"):
        case "succeeded":
            message = result.get("message")
            if not isinstance(message, Mapping) or not isinstance(message.get("content"), list):
                return Read(error="the batch's result has no message")
            return _read_message(message, columns, request)
        case "errored":
            outer = result.get("error")
            inner = outer.get("error") if isinstance(outer, Mapping) else None
            error = next((each for each in (inner, outer) if isinstance(each, Mapping)), {})
            return Read(error=f"the API refused the request ({error.get('type')}: {error.get('message')})")
        case "canceled":
            return Read(error="the batch was cancelled before this row was asked")
        case "expired":
            return Read(error="the batch ended after 24 hours, before this row was asked; run it again")
        case "missing":
            return Read(error="the batch has no result for this row that can be read; run it again")
        case other:
            return Read(error=f"the batch's result is of an unknown kind ({other!r})")


def _read_message(message: Mapping[str, Any], columns: Sequence[Column], request: Request) -> Read:
    if failure := stop_failure(message):
        return Read(error=failure)
    blocks = [block for block in message["content"] if isinstance(block, dict)]
    record = next((b.get("input") for b in blocks if b.get("type") == "tool_use" and b.get("name") == RECORD), None)
    turns = [*request.turns, *_turn(blocks)]
    if record is None:
        return _go_on(message, turns)
    if not has_columns(record, columns):
        return Read(error=NO_COLUMNS)
    evidence, failed = _evidence(columns, [b for turn in turns if turn["role"] == "assistant" for b in turn["content"]])
    if failed:
        return Read(error=f"the search failed: {failed}")
    return Read(cells_of(record, columns, evidence))


def _go_on(message: Mapping[str, Any], turns: list[dict[str, Any]]) -> Read:
    """Return how a row goes on that has no record yet: as it was after a pause, with a reminder after text."""
    if stray := next((b.get("name") for b in message["content"] if b.get("type") == "tool_use"), None):
        return Read(error=f"the model called {stray!r}, which is no tool of this run")
    if sum(turn["role"] == "assistant" for turn in turns) >= MAX_TURNS:
        return Read(error=f"the model searched on and on and never called {RECORD}")
    if message.get("stop_reason") == "pause_turn":
        return Read(turns=turns)
    if any(turn["role"] == "user" for turn in turns):
        return Read(error=f"the model wrote text and did not call {RECORD}")
    return Read(turns=[*turns, user_message(NUDGE)])


def _turn(blocks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    turn = assistant_message(blocks)
    return [turn] if turn else []


def _evidence(columns: Sequence[Column], blocks: Sequence[Mapping[str, Any]]) -> tuple[Cited, str]:
    """Return what the searches found, and why none of them worked ("": one did, or there was none)."""
    evidence, errors, worked = Cited(columns), [], False
    for block in blocks:
        content = block.get("content")
        if block.get("type") == "web_search_tool_result" and isinstance(content, Mapping):
            errors.append(str(content.get("error_code")))
        elif block.get("type") == "web_search_tool_result" and isinstance(content, list):
            worked = True
            for hit in content:
                evidence.add(str(hit.get("url")), [])
    evidence.read(blocks)
    failed = next((code for code in errors if code in _PASSING), "")
    return evidence, "" if worked else failed
