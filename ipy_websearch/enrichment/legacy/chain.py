"""One row: asks for its values, runs the searches the model wants, takes the record. The loop of `loop`, without its prose.

It ends with the cells, or with an exception that becomes the row's error; a search that failed is such an error, because an
answer without it would be kept as if nothing could be found.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipy_websearch.enrichment.legacy.asking import (
    NO_COLUMNS,
    NUDGE,
    RECORD,
    Evidence,
    cells_of,
    has_columns,
    record_tool,
    request_body,
    row_text,
    stop_failure,
)
from ipy_websearch.enrichment.legacy.columns import Column
from ipy_websearch.enrichment.legacy.outcome import Cell
from ipy_websearch.enrichment.legacy.sender import Account, Sender
from ipy_websearch.events import ToolFinished
from ipy_websearch.loop.calls import Call, CallRunner
from ipy_websearch.loop.history import assistant_message, user_message
from ipy_websearch.loop.limits import Meter
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.requests import tool_result
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.results import Panels
from ipy_websearch.tools.addresses import addresses_in
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.web_search import UNAVAILABLE
from ipy_websearch.usage import Limits, lost

SEARCH_TIMEOUT_S = 900.0
"""Seconds for a row's searches, waiting for a limited engine included; each request has its own, shorter limit."""


class RowError(Exception):
    """A row could not be filled; the message says why."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What all rows of a run have in common."""

    model: str
    platform: Platform
    system: str
    search: Tool | None
    max_searches: int
    fetch: Tool | None = None
    max_fetches: int = 0

    def tools(self, columns: Sequence[Column]) -> list[Mapping[str, Any]]:
        """Return the definitions of the tools for these columns."""
        return [*(tool.definition() for tool in (self.search, self.fetch) if tool), record_tool(columns)]


class Chain:
    """The requests of one row."""

    def __init__(
        self, recipe: Recipe, columns: Sequence[Column], tools: Sequence[Mapping[str, Any]], values: Mapping[str, Any]
    ) -> None:
        self._recipe = recipe
        self._columns = columns
        self._tools = tools
        self._messages: list[dict[str, Any]] = [user_message(row_text(columns, values))]
        self._known = addresses_in(" ".join(value for value in values.values() if value))
        self._fetches = 0
        self._evidence = Evidence()
        self._runner: CallRunner | None = None
        self._nudged = False

    def body(self) -> dict[str, Any]:
        """Return the next request."""
        return request_body(
            model=self._recipe.model,
            system=self._recipe.system,
            messages=self._messages,
            tools=self._tools,
            platform=self._recipe.platform,
            columns=len(self._columns),
            final=self._nudged or (self._searches_left <= 0 and self._fetches_left <= 0),
        )

    async def run(self, sender: Sender, account: Account) -> tuple[Cell, ...]:
        """Return the row's cells.

        Raises:
            RowError: the model or a search gave nothing to fill the row with.
            ModelError: the API refused, or failed too often. OutOfFunds: the money is used up.
        """
        for _ in range(self._recipe.max_searches + self._recipe.max_fetches + 3):
            message = await sender.send(self.body(), account)
            calls = [block for block in message["content"] if isinstance(block, dict) and block.get("type") == "tool_use"]
            record = next((call.get("input") for call in calls if call.get("name") == RECORD), None)
            if failure := stop_failure(message):
                raise RowError(failure)
            if record is not None:
                return self._cells(record)
            if turn := assistant_message(message["content"]):
                self._messages.append(turn)
            if calls:
                await self._search(calls, account)
            else:
                self._ask_again(bool(turn))
        raise RowError(f"the model searched {self._recipe.max_searches} times and never called {RECORD}")

    @property
    def _searches_left(self) -> int:
        if self._recipe.search is None:
            return 0
        return self._recipe.max_searches - (self._runner.meter.searches if self._runner else 0)

    @property
    def _fetches_left(self) -> int:
        return self._recipe.max_fetches - self._fetches if self._recipe.fetch is not None else 0

    async def _fetch(self, given: Any, context: ToolContext) -> ToolOutput:
        """Read a page, unless the row has read as many as it may."""
        if self._recipe.fetch is None or self._fetches_left <= 0:
            text = f"Not run: max_fetches = {self._recipe.max_fetches} pages are read."
            return ToolOutput(summary=text, text=text, is_error=True)
        self._fetches += 1
        return await self._recipe.fetch.call(given, context)

    def _cells(self, record: Any) -> tuple[Cell, ...]:
        if not has_columns(record, self._columns):
            raise RowError(NO_COLUMNS)
        return cells_of(record, self._columns, self._evidence)

    def _ask_again(self, after_text: bool) -> None:
        if self._nudged:
            raise RowError(f"the model wrote text and did not call {RECORD}")
        self._nudged = True
        if after_text:
            self._messages.append(user_message(NUDGE))

    async def _search(self, blocks: Sequence[Mapping[str, Any]], account: Account) -> None:
        """Run the calls of a reply and add their results to the conversation."""
        runner = self._runner = self._runner or self._new_runner()
        calls = [Call(str(b.get("id")), str(b.get("name")), b.get("input") or {}) for b in blocks]
        start = asyncio.get_running_loop().time()
        try:
            async for event in runner.run(calls):
                if isinstance(event, ToolFinished):
                    account.charges(event.charges, status="error" if event.is_error else "ok")
        except asyncio.CancelledError:
            cut_off = [call for call in calls if call.id not in runner.outputs and call.name in runner.tools]
            charges = [charge for call in cut_off for charge in lost(runner.tools[call.name].price)]
            account.charges(charges, status="interrupted")
            raise
        finally:
            account.seconds += asyncio.get_running_loop().time() - start
        for output in runner.outputs.values():
            if output.is_error and output.text.startswith(UNAVAILABLE):
                raise RowError(f"the search failed: {output.summary}")
            for passage in output.passages:
                self._evidence.add(passage.url, (passage.title, *passage.paragraphs))
        results = [tool_result(call.id, runner.outputs[call.id], self._recipe.platform) for call in calls]
        self._messages.append({"role": "user", "content": results})

    def _new_runner(self) -> CallRunner:
        limits = Limits(max_searches=self._recipe.max_searches, timeout_s=SEARCH_TIMEOUT_S)
        search, fetch = self._recipe.search, self._recipe.fetch
        tools = {tool.name: tool for tool in (search, replace(fetch, call=self._fetch) if fetch else None) if tool}
        # The money for the row's searches is reserved already.
        return CallRunner(tools, ToolContext(known_urls=set(self._known)), Panels(), RunBudget(), Meter(limits))
