"""Runs the tool calls of one reply: all at the same time, each failure as a result, none beyond a limit.

Every call gets exactly one output, in the order of the calls. A call that may not run any more (searches, money, time) gets
an error that names the limit. The same call runs once in an answer; a repeated one is told where its results stand, unless it
failed: then it may be tried again, and counts again. A paid call that a time limit cuts off went out, and counts at its price.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ReplayError, WebSearchError
from ipy_websearch.events import Event, LimitReached, Notice, ToolFinished
from ipy_websearch.loop.limits import Meter
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.results import Panel, Panels
from ipy_websearch.text import fold, plain, shorten
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.usage import Charge, LimitName, lost

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model; `malformed` when its input was cut off or is no JSON object."""

    id: str
    name: str
    input: Mapping[str, Any]
    malformed: bool = False


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call that may run: its tool, its checked input, and when it began."""

    call: Call
    tool: Tool
    value: BaseModel
    start: float


Render = Callable[[str, ToolOutput], dict[str, Any]]
"""Writes the result block that the model is sent for the call of that id."""


@dataclass(slots=True)
class CallRunner:
    """Runs calls for one answer; `outputs` holds what the calls of the last `run` gave, by call id, and `blocks` their
    results as `render` writes them. `cut_off` is what the calls may be billed that were under way when it was cancelled."""

    tools: Mapping[str, Tool]
    context: ToolContext
    panels: Panels
    budget: RunBudget
    meter: Meter
    render: Render | None = None
    outputs: dict[str, ToolOutput] = field(default_factory=dict)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    cut_off: tuple[Charge, ...] = ()
    _first_ids: dict[Any, str] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    async def run(self, calls: Sequence[Call]) -> AsyncIterator[Event]:
        """Run the calls and yield an event as each one ends.

        On cancellation the calls under way are cancelled too, and nothing is left running.
        """
        self.outputs, self.blocks, self.cut_off = {}, {}, ()
        ready: list[_Ready] = []
        for call in calls:
            unlimited = self.meter.reached is None
            begun = self._begin(call)
            if unlimited and self.meter.reached is not None:
                yield LimitReached(self.meter.reached, self.meter.explain(self.meter.reached))
            if isinstance(begun, ToolOutput):
                for event in self._end(call, begun, 0.0):
                    yield event
            else:
                ready.append(_Ready(call, *begun, time.perf_counter()))
        if len(ready) == 1:
            for event in await self._alone(ready[0]):
                yield event
        elif ready:
            async with aclosing(self._together(ready)) as events:
                async for event in events:
                    yield event

    def refuse(self, calls: Sequence[Call], limit: LimitName) -> list[Event]:
        """Answer calls with an error that names the limit, without running them."""
        self.outputs, self.blocks = {}, {}
        events: list[Event] = self._reach(limit)
        for call in calls:
            events += self._end(call, self._limit_output(limit), 0.0)
        return events

    def _begin(self, call: Call) -> tuple[Tool, BaseModel] | ToolOutput:
        """Return the tool to run for a call with its checked input, or the output that it gets without running."""
        tool = self.tools.get(call.name)
        if tool is None:
            known = ", ".join(self.tools)
            return _error(f"There is no tool called {call.name!r}. Available: {known}.")
        if call.malformed:
            return _error("The input of this call was cut off; nothing was run.", "invalid_tool_input")
        value = _checked(tool, call.input)
        if isinstance(value, str):
            return _error(value, "invalid_tool_input")
        key = (tool.name, _normal(call.input))
        if key in self._first_ids:
            first = self._first_ids[key]
            text = f"Same call as {first}; its result is given there."
            return ToolOutput(summary="already asked in this answer", text=text, same_as=first)
        limit = self._limit_for(call, tool)
        if limit:
            return self._limit_output(limit)
        self._first_ids[key] = call.id
        if tool.counts_as_search:
            self.meter.searches += 1
        return tool, value

    def _limit_for(self, call: Call, tool: Tool) -> LimitName | None:
        if self.meter.seconds_for_tools <= 0:
            return "timeout"
        if tool.counts_as_search and self.meter.searches >= self.meter.limits.max_searches:
            return "max_searches"
        if tool.price and not self.budget.grant_call(call.id, tool.price):
            return "budget"
        return None

    def _limit_output(self, limit: LimitName) -> ToolOutput:
        self.meter.reach(limit)
        reason = self.meter.explain(limit)
        code = "max_uses_exceeded" if limit == "max_searches" else "unavailable"
        return ToolOutput(summary=f"not run: {reason}", text=f"Not run: {reason}.", is_error=True, error_code=code)

    def _reach(self, limit: LimitName) -> list[Event]:
        first = self.meter.reached is None
        self.meter.reach(limit)
        return [LimitReached(limit, self.meter.explain(limit))] if first else []

    async def _guarded(self, tool: Tool, value: BaseModel) -> ToolOutput:
        """Run one call; whatever goes wrong in it becomes an error output, except interrupts."""
        try:
            async with asyncio.timeout(tool.timeout_s):
                return await tool.call(value, self.context)
        except asyncio.CancelledError:
            self.cut_off += lost(tool.price)
            raise
        except TimeoutError:
            text = f"{tool.name} did not end within {tool.timeout_s:g} s."
            return replace(_error(text), charges=lost(tool.price))
        except ReplayError:  # the model cannot do anything about it, and what it would answer is not recorded either
            raise
        except WebSearchError as exc:
            return _error(str(exc))
        except Exception as exc:  # a bug in a tool (or a plug-in) must not cost the user the answer
            return _error(f"{tool.name} failed: {type(exc).__name__}: {shorten(plain(str(exc)), 200)}")

    async def _alone(self, ready: _Ready) -> list[Event]:
        """Run the only call: nothing runs beside it, so it takes neither a task nor somebody who waits for one."""
        seconds, output = self.meter.seconds_for_tools, None
        if seconds >= ready.tool.timeout_s:
            return self._ran(ready, await self._guarded(ready.tool, ready.value))
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                output = await self._guarded(ready.tool, ready.value)
        reached = [] if output is not None else self._reach("timeout")
        return [*reached, *self._ran(ready, output)]

    async def _together(self, ready: Sequence[_Ready]) -> AsyncGenerator[Event, None]:
        """Run calls side by side; nothing of them is left when this ends, however it does."""
        started = {asyncio.create_task(self._guarded(one.tool, one.value)): one for one in ready}
        pending = set(started)
        try:
            while pending:
                done, pending = await asyncio.wait(
                    pending, timeout=self.meter.seconds_for_tools, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    for event in self._reach("timeout"):
                        yield event
                    await _cancelled(pending)
                    done, pending = pending, set()
                for task in sorted(done, key=list(started).index):
                    for event in self._ran(started[task], None if task.cancelled() else task.result()):
                        yield event
        finally:
            await _cancelled([task for task in started if not task.done()])

    def _ran(self, ready: _Ready, output: ToolOutput | None) -> list[Event]:
        """Take what a call gave, None when the time for tools was over."""
        if output is None:  # it was cut off, and may be billed
            output = replace(self._limit_output("timeout"), charges=lost(ready.tool.price))
        return self._end(ready.call, output, time.perf_counter() - ready.start)

    def _end(self, call: Call, output: ToolOutput, seconds: float) -> list[Event]:
        self.outputs[call.id] = output
        if output.is_error:
            self._first_ids = {key: first for key, first in self._first_ids.items() if first != call.id}
        self.context.known_urls.update(output.urls)
        block = None if self.render is None else self.blocks.setdefault(call.id, self.render(call.id, output))
        panel: Panel | None = None
        if output.panel_data is not None:
            title = output.panel_title or call.name
            panel = self.panels.add(title, output.panel_kind, output.panel_data, tool=call.name, is_error=output.is_error)
        new = [text for text in output.notices if text not in self._said]
        self._said.update(new)
        notices: list[Event] = [Notice(text) for text in new]
        finished = ToolFinished(
            id=call.id,
            name=call.name,
            summary=output.summary,
            is_error=output.is_error,
            seconds=seconds,
            panel=panel,
            charges=output.charges,
            results=output.results,
            content=block,
        )
        return [*notices, finished]


async def _cancelled(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


def _error(text: str, code: str = "unavailable") -> ToolOutput:
    return ToolOutput(summary=shorten(plain(text), 200), text=text, is_error=True, error_code=code)


def _checked(tool: Tool, value: Any) -> BaseModel | str:
    """Return a call's input as the tool takes it, or what is wrong with it in words that the model can act on."""
    from pydantic import ValidationError

    if not isinstance(value, Mapping):
        return f"The input of {tool.name} must be a JSON object."
    try:
        return tool.input_model.model_validate(dict(value))
    except ValidationError as exc:
        problems = (f"{'.'.join(str(part) for part in e['loc']) or 'input'}: {e['msg']}" for e in exc.errors()[:5])
        return f"Invalid input for {tool.name}: {'; '.join(problems)}."


def _normal(value: Any) -> Any:
    """Return an input in the form in which equal calls are equal: text folded, lists sorted, nulls and empties left out."""
    if isinstance(value, Mapping):
        return tuple(sorted((k, n) for k, v in value.items() if (n := _normal(v)) not in (None, (), "")))
    if isinstance(value, list | tuple):
        return tuple(sorted((_normal(v) for v in value), key=repr))
    if isinstance(value, str):
        return fold(value)
    return value if value is None or isinstance(value, int | float | bool) else json.dumps(value, sort_keys=True, default=str)
