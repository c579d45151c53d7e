"""The one tool loop: send, read, run the calls, send again. Everything that talks to a model with tools runs on it.

What differs stands in a `Face`: how a request is built, what becomes of a reply, who gets the results. There are three: `ask`
(events for people), `interception` (the caller's own message) and `enrichment` (a record for a row). The law is the same:

- the calls of one reply run concurrently, and their results go back in one message;
- a limit never ends in silence: calls beyond it get an error that names it, and the next request asks for the answer;
- money is granted before each request, with enough kept back for a final one; where it does not reach, the request becomes the
  final one, and then loses its newest results;
- a request is sent again only while nothing of its reply was shown; what it used is told, estimated where the API is silent.

Runs the tool calls of one reply: all at the same time, each failure as a result, none beyond a limit of the run (`Meter`).

Every call gets exactly one output, in the order of the calls. A call that may not run any more (searches, money, time) gets an
error that names the limit. The same call runs once in an answer; a repeated one is told where its results stand, unless it
failed: then it may be tried again, and counts again. A paid call that a time limit cuts off went out, and counts at its price.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ReplayError, WebSearchError
from ipy_websearch.events import Event, LimitReached, Notice, ToolFinished
from ipy_websearch.model.stream import Reply
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.results import Panel, Panels
from ipy_websearch.text import fold, plain, shorten
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.usage import LimitName, Limits, lost

if TYPE_CHECKING:
    from pydantic import BaseModel


import math
from collections.abc import AsyncIterator, Awaitable
from enum import Enum
from typing import Protocol

from ipy_websearch.errors import BudgetExceededError, ModelError
from ipy_websearch.events import ModelRequested, ModelResponded, Retracted
from ipy_websearch.model.requests import counted, estimate_tokens, written_tokens
from ipy_websearch.model.stream import MAX_RETRIES, may_be_billed, retry_wait_s
from ipy_websearch.model.stream import Event as RawEvent
from ipy_websearch.money.prices import billed_model
from ipy_websearch.usage import Usage

ANSWER_SHARE = 0.25
"""The share of `timeout_s` that is kept for the final answer: tools get none of it."""

MAX_ANSWER_RESERVE_S = 30.0
"""The most seconds that are kept for the final answer."""


@dataclass(slots=True)
class Meter:
    """Counts a run against its limits. `clock` gives seconds; the run starts when the meter is made."""

    limits: Limits
    clock: Callable[[], float] = time.monotonic
    steps: int = 0
    searches: int = 0
    reached: LimitName | None = None
    _start: float = field(init=False)

    def __post_init__(self) -> None:
        self._start = self.clock()

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return self.clock() - self._start

    @property
    def seconds_left(self) -> float:
        """Seconds until the run must have ended."""
        return max(0.0, self.limits.timeout_s - self.seconds)

    @property
    def seconds_for_tools(self) -> float:
        """Seconds until tools must have ended, so that time for the final answer is left."""
        reserve = min(MAX_ANSWER_RESERVE_S, self.limits.timeout_s * ANSWER_SHARE)
        return max(0.0, self.limits.timeout_s - reserve - self.seconds)

    def reach(self, limit: LimitName) -> None:
        """Note the limit that was reached; the first one counts."""
        self.reached = self.reached or limit

    def explain(self, limit: LimitName) -> str:
        """Return one line for people and for the model that says which limit was reached."""
        match limit:
            case "max_searches":
                return f"limit reached: max_searches = {self.limits.max_searches}"
            case "max_steps":
                return f"limit reached: max_steps = {self.limits.max_steps}"
            case "timeout":
                return f"limit reached: timeout = {self.limits.timeout_s:g} s"
            case "budget":
                amount = f" = {self.limits.budget_usd:f} USD" if self.limits.budget_usd is not None else ""
                return f"limit reached: budget{amount}"
            case "interrupted":
                return "interrupted"


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model; `malformed` when its input was cut off or is no JSON object."""

    id: str
    name: str
    input: Mapping[str, Any]
    malformed: bool = False

    @classmethod
    def of(cls, reply: Reply) -> list[Call]:
        """Return the calls of a reply that the client has to run."""
        called = [block for block in reply.content if block.get("type") == "tool_use"]
        return [
            cls(str(b.get("id")), str(b.get("name")), b.get("input") or {}, str(b.get("id")) in reply.malformed) for b in called
        ]


Render = Callable[[str, ToolOutput], dict[str, Any]]
"""Writes the result block that the model is sent for the call of that id."""

_Task = asyncio.Task[ToolOutput]


@dataclass(slots=True)
class CallRunner:
    """Runs calls for one answer. After `run`, `outputs` holds what the calls gave, by call id, and `blocks` their results as
    `render` writes them."""

    tools: Mapping[str, Tool]
    context: ToolContext
    panels: Panels
    budget: RunBudget
    meter: Meter
    render: Render | None = None
    outputs: dict[str, ToolOutput] = field(default_factory=dict)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    _first_ids: dict[Any, str] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    async def run(self, calls: Sequence[Call]) -> AsyncGenerator[Event, None]:
        """Run the calls and yield an event as each one ends.

        On cancellation the calls under way are cancelled too, and nothing is left running.
        """
        self.outputs, self.blocks = {}, {}
        began = time.perf_counter()
        under_way: dict[_Task, tuple[Call, Tool]] = {}
        for call in calls:
            limited = self.meter.reached
            begun = self._begin(call)
            if self.meter.reached != limited:
                yield self._limit_event()
            if isinstance(begun, ToolOutput):
                for event in self._end(call, begun, 0.0):
                    yield event
            else:
                tool, value = begun
                under_way[asyncio.create_task(self._guarded(tool, value))] = (call, tool)
        pending = set(under_way)
        try:
            while pending:
                left = self.meter.seconds_for_tools
                done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    limited = self.meter.reached
                    self.meter.reach("timeout")
                    if limited is None:
                        yield self._limit_event()
                    await _cancelled(pending)
                    done, pending = pending, set()
                for task in sorted(done, key=list(under_way).index):
                    call, tool = under_way[task]
                    output = task.result() if not task.cancelled() else self._out_of_time(tool)
                    for event in self._end(call, output, time.perf_counter() - began):
                        yield event
        finally:
            await _cancelled([task for task in under_way if not task.done()])

    def concludes(self, calls: Sequence[Call]) -> bool:
        """Say whether one of the calls gives the answer itself, which no limit keeps back."""
        return any(call.name in self.tools and self.tools[call.name].concludes for call in calls)

    def refuse(self, calls: Sequence[Call], limit: LimitName) -> list[Event]:
        """Answer calls with an error that names the limit, without running them."""
        self.outputs, self.blocks = {}, {}
        first = self.meter.reached is None
        self.meter.reach(limit)
        ended = [event for call in calls for event in self._end(call, self._limit_output(limit), 0.0)]
        return [self._limit_event(), *ended] if first else ended

    def _begin(self, call: Call) -> tuple[Tool, BaseModel] | ToolOutput:
        """Return the tool to run for a call with its checked input, or the output that it gets without running."""
        tool = self.tools.get(call.name)
        if tool is None:
            return _error(f"There is no tool called {call.name!r}. Available: {', '.join(self.tools)}.")
        if call.malformed:
            return _error("The input of this call was cut off; nothing was run.", "invalid_tool_input")
        value = _checked(tool, call.input)
        if isinstance(value, str):
            return _error(value, "invalid_tool_input")
        key = (tool.name, _normal(call.input))
        if first := self._first_ids.get(key):
            text = f"Same call as {first}; its result is given there."
            return ToolOutput(summary="already asked in this answer", text=text, same_as=first)
        if limit := self._limit_for(call, tool):
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
        code = "max_uses_exceeded" if limit in ("max_searches", "max_steps") else "unavailable"
        return ToolOutput(summary=f"not run: {reason}", text=f"Not run: {reason}.", is_error=True, error_code=code)

    def _out_of_time(self, tool: Tool) -> ToolOutput:
        return replace(self._limit_output("timeout"), charges=lost(tool.price))

    async def _guarded(self, tool: Tool, value: BaseModel) -> ToolOutput:
        """Run one call; whatever goes wrong in it becomes an error output, except interrupts."""
        try:
            async with asyncio.timeout(tool.timeout_s):
                return await tool.call(value, self.context)
        except TimeoutError:
            return replace(_error(f"{tool.name} did not end within {tool.timeout_s:g} s."), charges=lost(tool.price))
        except ReplayError:  # the model cannot do anything about it, and what it would answer is not recorded either
            raise
        except WebSearchError as exc:
            return _error(str(exc))
        except Exception as exc:  # a bug in a tool (or a plug-in) must not cost the user the answer
            return _error(f"{tool.name} failed: {type(exc).__name__}: {shorten(plain(str(exc)), 200)}")

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
            log=output.log,
        )
        return [*map(Notice, new), finished]

    def _limit_event(self) -> LimitReached:
        assert self.meter.reached is not None
        return LimitReached(self.meter.reached, self.meter.explain(self.meter.reached))


async def _cancelled(tasks: Collection[_Task]) -> None:
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
        return tool.parsed(value)
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


Send = Callable[[Mapping[str, Any]], AsyncIterator[list[RawEvent]]]
"""Sends a request and gives its stream events as they arrive, raising `ModelError`."""

_BROKEN = ("connection_error", "connection_lost", "truncated", "timeout_error")


class Then(Enum):
    """What follows on a reply."""

    DONE = "done"
    AGAIN = "send the next request"


class Face(Protocol):
    """What the loop asks of whoever uses it. A face keeps the messages."""

    def request(self, *, final: bool) -> dict[str, Any]:
        """Return the body of the next request; after a `final` one no more calls are run."""
        ...

    def make_smaller(self) -> bool:
        """Leave the newest results out of the next request, for want of money; say whether that was possible."""
        ...

    def take(self, reply: Reply, *, final: bool) -> Sequence[Call] | Then:
        """Take a finished or broken reply into the messages; return the calls to run, or what follows."""
        ...

    def give(self, runner: CallRunner, calls: Sequence[Call]) -> Then:
        """Take what the calls gave into the messages."""
        ...


@dataclass(slots=True)
class Loop:
    """One conversation with a model. Iterate over `run()` once; `cut_off()` books what was under way when that was left early.

    `run` yields what happens as `events`, and the raw events of replies in lists, as they arrive. Its reader sets `shown` when
    it has shown anything of the running reply. `reply` is the newest reply, `usage` the sum over all requests, `final` whether
    the request under way is the last.
    """

    face: Face
    send: Send
    runner: CallRunner
    meter: Meter
    budget: RunBudget
    request_id: Callable[[], str | None] = lambda: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    retries: int = MAX_RETRIES
    usage: Usage = Usage()
    model: str = ""
    reply: Reply = field(default_factory=Reply)
    final: bool = False
    shown: bool = False
    under_way: bool = False
    _body: Mapping[str, Any] = field(default_factory=dict)
    _began: float = 0.0
    _timed_out: bool = False

    async def run(self) -> AsyncGenerator[Event | list[RawEvent], None]:
        """Converse until the face is done or no money is left for a request.

        Raises:
            ModelError: the API refused or broke off, and sending it again is no use.
        """
        while True:
            limited = self.meter.reached
            body = self._granted()
            if self.meter.reached != limited:
                yield self._limit_event()
            if body is None:
                return
            self.meter.steps += 1
            async for signal in self._exchange(body):
                yield signal
            then = self.face.take(self.reply, final=self.final)
            if not isinstance(then, Then):
                async for event in self._calls(then):
                    yield event
                then = self.face.give(self.runner, then)
                self.final = self.final or self.meter.reached is not None
            if then is Then.DONE:
                return

    def cut_off(self) -> ModelResponded | None:
        """Return the booking of a request that was interrupted, None when none was under way."""
        return self._responded(None) if self.under_way else None

    def finish(self) -> None:
        """Make the next request the final one: a limit was reached."""
        self.meter.reach("max_steps")
        self.final = True

    # --- one request -------------------------------------------------------------------------------------------------

    def _granted(self) -> Mapping[str, Any] | None:
        """Return the next request as money allows it, None when it does not reach for any."""
        while True:
            body = self.face.request(final=self.final)
            tokens = estimate_tokens(body) if self.budget.bounded else 0
            granted = self.budget.grant(str(body["model"]), tokens, int(body.get("max_tokens") or 0), final=self.final)
            if granted is not None:
                return {**body, "max_tokens": granted} if granted != (body.get("max_tokens") or 0) else body
            self.meter.reach("budget")
            if self.final and not self.face.make_smaller():
                return None
            self.final = True

    async def _exchange(self, body: Mapping[str, Any]) -> AsyncGenerator[Event | list[RawEvent], None]:
        """Send a request, again where that is allowed; afterwards `reply` is as whole as it gets."""
        failures = 0
        while True:
            yield ModelRequested(self.meter.steps, str(body["model"]), body, self.final)
            self.reply, self.shown, self._timed_out = Reply(), False, False
            self.under_way, self._body, self._began = True, body, time.perf_counter()
            error: ModelError | None = None
            stream = self._arriving(body)
            try:
                async for events in stream:
                    yield events
            except ModelError as exc:
                error = exc
            except WebSearchError:  # a key is missing, a cassette has no reply: nothing went out
                self.under_way = False
                raise
            except TimeoutError:
                self._timed_out = True
                self.meter.reach("timeout")
                yield self._limit_event()
            finally:
                await stream.aclose()
            yield self._responded(error)
            if (error := self._fatal(error)) is None:
                return
            failures += 1
            wait = None if self.shown else retry_wait_s(error, failures, retries=self.retries)
            if wait is None or wait >= self.meter.seconds_left:
                raise error
            yield Retracted(self.meter.steps)
            yield Notice(f"{error}; trying again in {wait:.1f} s")
            if problem := self.budget.grant_again():
                raise BudgetExceededError(f"the model did not answer, and {problem}")
            await self.sleep(wait)

    async def _arriving(self, body: Mapping[str, Any]) -> AsyncGenerator[list[RawEvent], None]:
        """Yield raw events until the reply or the time is over; blocks that a break left open end with closing events."""
        stream = self.send(body).__aiter__()
        try:
            while True:
                left = self.meter.seconds_left
                async with asyncio.timeout(None if math.isinf(left) else left):
                    events = await anext(stream, None)
                if events is None:
                    break
                for event in events:
                    self.reply.apply(event)
                yield events
        except (ModelError, TimeoutError):
            yield self.reply.close()
            raise
        finally:
            await stream.aclose()  # type: ignore[attr-defined]
        yield self.reply.close()

    def _responded(self, error: ModelError | None) -> ModelResponded:
        """Return what the request under way used. One that went out and of which no usage came is "lost": what it read is
        estimated, and all that was reserved for it counts as spent."""
        reply, usage, estimated = self.reply, self.reply.usage, True
        lost = not reply.complete and not reply.usage_fields and (bool(reply.blocks) or may_be_billed(error))
        if reply.complete or lost:
            usage, estimated = counted(reply.usage_fields, self._body, reply.content)
        elif reply.blocks:
            usage += Usage(output_tokens=max(0, written_tokens(reply.content) - usage.output_tokens))
        self.under_way = False
        self.usage += usage
        self.model = reply.model or self.model
        return ModelResponded(
            step=self.meter.steps,
            model=billed_model(str(self._body["model"]), reply.model),
            usage=usage,
            stop_reason=reply.stop_reason,
            seconds=time.perf_counter() - self._began,
            content=tuple(reply.content),
            request_id=self.request_id(),
            estimated=estimated,
            lost=lost,
        )

    def _fatal(self, error: ModelError | None) -> ModelError | None:
        """Return the error that keeps a reply from being used; a broken one of which something was shown is used as it is."""
        if error is not None:
            return None if self.shown and error.kind in _BROKEN else error
        if self.reply.complete or self.shown or self._timed_out:
            return None
        return ModelError("the model's answer ended too soon", status=200, kind="truncated")

    # --- the calls of a reply ----------------------------------------------------------------------------------------

    async def _calls(self, calls: Sequence[Call]) -> AsyncGenerator[Event, None]:
        if self.meter.steps < self.meter.limits.max_steps or self.runner.concludes(calls):
            async for event in self.runner.run(calls):
                yield event
        else:
            for event in self.runner.refuse(calls, "max_steps"):
                yield event

    def _limit_event(self) -> LimitReached:
        assert self.meter.reached is not None
        return LimitReached(self.meter.reached, self.meter.explain(self.meter.reached))
