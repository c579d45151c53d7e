"""The one tool loop: send, read, run the calls, send again. Everything that talks to a model with tools runs on it.

What differs stands in a `Face`: how a request is built, what becomes of a reply, who gets the results. There are three: `ask`
(events for people), `interception` (the caller's own message) and `enrichment` (a record for a row). The law is the same:

- the calls of one reply run concurrently, each failure as a result, and their results go back in one message, in order;
- a limit never ends in silence: calls beyond it get an error that names it, and the next request asks for the answer;
- the same call runs once in an answer; a repeated one is told where its results stand, unless it failed: then it counts again;
- money is granted before each request, with enough kept back for a final one; where it does not reach, the request becomes the
  final one, and then loses its newest results;
- a request is sent again only while nothing of its reply was shown; what it used is told, estimated where the API is silent.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from ipy_websearch.errors import BudgetExceededError, ModelError, ReplayError, WebSearchError
from ipy_websearch.model.requests import counted, estimate_tokens, written_tokens
from ipy_websearch.model.stream import MAX_RETRIES, Reply, may_be_billed, retry_wait_s
from ipy_websearch.model.stream import Event as RawEvent
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.prices import billed_model
from ipy_websearch.results import (
    Event,
    LimitName,
    LimitReached,
    Limits,
    ModelRequested,
    ModelResponded,
    Notice,
    Panels,
    Retracted,
    ToolFinished,
    Usage,
    lost,
)
from ipy_websearch.text import fold, plain, shorten
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput

if TYPE_CHECKING:
    from pydantic import BaseModel

# The share of `timeout_s` that is kept for the final answer: tools get none of it.
ANSWER_SHARE = 0.25

# The most seconds that are kept for the final answer.
MAX_ANSWER_RESERVE_S = 30.0

_BROKEN = ("connection_error", "connection_lost", "truncated", "timeout_error")


@dataclass(slots=True)
class Meter:
    """Counts a run against its limits; the run starts when the meter is made.

    `reached` is the first limit that was reached; `news` tells of it once.
    """

    limits: Limits
    steps: int = 0
    searches: int = 0
    reached: LimitName | None = None
    _told: bool = False
    _start: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    @property
    def seconds_left(self) -> float:
        """Seconds until the run must have ended."""
        return max(0.0, self.limits.timeout_s - self.seconds)

    @property
    def seconds_for_tools(self) -> float:
        """Seconds until tools must have ended, so that time for the final answer is left."""
        return max(0.0, self.seconds_left - min(MAX_ANSWER_RESERVE_S, self.limits.timeout_s * ANSWER_SHARE))

    def reach(self, limit: LimitName) -> None:
        """Note the limit that was reached; the first one counts."""
        self.reached = self.reached or limit

    def news(self) -> list[LimitReached]:
        """Return the event for a limit that was reached and not told of yet."""
        if self.reached is None or self._told:
            return []
        self._told = True
        return [LimitReached(self.reached, self.explain(self.reached))]

    def explain(self, limit: LimitName) -> str:
        """Return one line for people and for the model that says which limit was reached."""
        usd = self.limits.budget_usd
        values = {
            "max_searches": f"max_searches = {self.limits.max_searches}",
            "max_steps": f"max_steps = {self.limits.max_steps}",
            "budget": "budget" if usd is None else f"budget = {usd:f} USD",
            "timeout": f"timeout = {self.limits.timeout_s:g} s",
        }
        return f"limit reached: {values[limit]}" if limit in values else limit


# --- the calls of a reply ---------------------------------------------------------------------------------------------


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


@dataclass(slots=True)
class CallRunner:
    """Runs calls for one answer. After `run`, `outputs` holds what the calls gave, by call id, and `blocks` their results as
    `render` writes them for the model."""

    tools: Mapping[str, Tool]
    context: ToolContext
    panels: Panels
    budget: RunBudget
    meter: Meter
    render: Callable[[str, ToolOutput], dict[str, Any]] | None = None
    outputs: dict[str, ToolOutput] = field(default_factory=dict)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    _first_ids: dict[Any, str] = field(default_factory=dict)
    _said: set[str] = field(default_factory=set)

    async def run(self, calls: Sequence[Call], *, refused: LimitName | None = None) -> AsyncGenerator[Event, None]:
        """Run the calls and yield an event as each one ends; where a limit has `refused` them, they get an error that names it.

        On cancellation the calls under way are cancelled too, and nothing is left running.
        """
        self.outputs, self.blocks = {}, {}
        began = time.perf_counter()
        under_way: dict[asyncio.Task[ToolOutput], tuple[Call, Tool]] = {}
        for call in calls:
            begun = self._limited(refused) if refused else self._begin(call)
            if isinstance(begun, ToolOutput):
                for event in self._end(call, begun, 0.0):
                    yield event
            else:
                tool, value = begun
                under_way[asyncio.create_task(self._guarded(tool, value))] = (call, tool)
                for told in self.meter.news():
                    yield told
        pending = set(under_way)
        try:
            while pending:
                left = self.meter.seconds_for_tools
                done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    await _cancelled(pending)
                    done, pending = pending, set()
                for task in sorted(done, key=list(under_way).index):
                    call, tool = under_way[task]
                    # A paid call that is cut off went out, and counts at its price.
                    late = task.cancelled()
                    output = replace(self._limited("timeout"), charges=lost(tool.price)) if late else task.result()
                    for event in self._end(call, output, time.perf_counter() - began):
                        yield event
        finally:
            await _cancelled([task for task in under_way if not task.done()])

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
        key = (tool.name, fold(value.model_dump_json(exclude_defaults=True)))
        if first := self._first_ids.get(key):
            text = f"Same call as {first}; its result is given there."
            return ToolOutput(summary="already asked in this answer", text=text, same_as=first)
        if limit := self._limit_for(call, tool):
            return self._limited(limit)
        self._first_ids[key] = call.id
        self.meter.searches += tool.counts_as_search
        return tool, value

    def _limit_for(self, call: Call, tool: Tool) -> LimitName | None:
        if self.meter.seconds_for_tools <= 0:
            return "timeout"
        if tool.counts_as_search and self.meter.searches >= self.meter.limits.max_searches:
            return "max_searches"
        if tool.price and not self.budget.grant_call(call.id, tool.price):
            return "budget"
        return None

    def _limited(self, limit: LimitName) -> ToolOutput:
        self.meter.reach(limit)
        reason = self.meter.explain(limit)
        code = "max_uses_exceeded" if limit in ("max_searches", "max_steps") else "unavailable"
        return replace(_error(f"Not run: {reason}.", code), summary=f"not run: {reason}")

    async def _guarded(self, tool: Tool, value: BaseModel) -> ToolOutput:
        """Run one call; whatever goes wrong in it becomes an error output, except interrupts."""
        try:
            async with asyncio.timeout(tool.timeout_s):
                output = await tool.call(value, self.context)
            if isinstance(output.error, ReplayError):
                raise output.error
            return output
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
        if self.render is not None:
            self.blocks[call.id] = self.render(call.id, output)
        panel = None
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
            content=self.blocks.get(call.id),
            log=output.log,
        )
        return [*self.meter.news(), *map(Notice, new), finished]


async def _cancelled(tasks: set[asyncio.Task[ToolOutput]] | list[asyncio.Task[ToolOutput]]) -> None:
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


# --- the loop ---------------------------------------------------------------------------------------------------------

# Sends a request and gives its stream events as they arrive, raising `ModelError`.
Send = Callable[[Mapping[str, Any]], AsyncIterator[list[RawEvent]]]


class Then(Enum):
    """What follows on a reply."""

    DONE = "done"
    AGAIN = "send the next request"


class Face(Protocol):
    """What the loop asks of whoever uses it. A face keeps the messages."""

    def request(self, *, final: bool) -> dict[str, Any]:
        """Return the body of the next request; after a `final` one no more calls are run."""

    def make_smaller(self) -> bool:
        """Leave the newest results out of the next request, for want of money; say whether that was possible."""

    def take(self, reply: Reply, *, final: bool) -> Sequence[Call] | Then:
        """Take a finished or broken reply into the messages; return the calls to run, or what follows."""

    def give(self, runner: CallRunner, calls: Sequence[Call]) -> Then:
        """Take what the calls gave into the messages."""


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
    request_id: Callable[[], str | None] = lambda: None
    retries: int = MAX_RETRIES
    usage: Usage = Usage()
    model: str = ""
    reply: Reply = field(default_factory=Reply)
    final: bool = False
    shown: bool = False
    sent: bool = True
    _under_way: bool = False
    _body: Mapping[str, Any] = field(default_factory=dict)
    _began: float = 0.0

    @property
    def meter(self) -> Meter:
        """The run's counts and limits."""
        return self.runner.meter

    async def run(self) -> AsyncGenerator[Event | list[RawEvent], None]:
        """Converse until the face is done or no money is left for a request.

        Raises:
            ModelError: the API refused or broke off, and sending it again is no use.
        """
        then: Sequence[Call] | Then = Then.AGAIN
        while then is not Then.DONE:
            body = self.granted()
            for told in self.meter.news():
                yield told
            if body is None:
                return
            async for signal in self.exchange(body):
                yield signal
            then = self.face.take(self.reply, final=self.final)
            if not isinstance(then, Then):
                async for event in self.runner.run(then, refused=self._refused(then)):
                    yield event
                then = self.face.give(self.runner, then)
                self.final = self.final or self.meter.reached is not None

    def cut_off(self) -> ModelResponded | None:
        """Return the booking of a request that was interrupted, None when none was under way."""
        return self._responded(None) if self._under_way and self.sent else None

    def finish(self) -> None:
        """Make the next request the final one: a limit was reached."""
        self.meter.reach("max_steps")
        self.final = True

    def _refused(self, calls: Sequence[Call]) -> LimitName | None:
        """Return the limit that keeps calls from being run; one that gives the answer itself runs in any case."""
        tools = self.runner.tools
        concludes = any(call.name in tools and tools[call.name].concludes for call in calls)
        return "max_steps" if self.meter.steps >= self.meter.limits.max_steps and not concludes else None

    def granted(self) -> Mapping[str, Any] | None:
        """Return the next request as money allows it, None when it does not reach for any."""
        budget = self.runner.budget
        while True:
            body = self.face.request(final=self.final)
            tokens, wanted = estimate_tokens(body) if budget.bounded else 0, int(body.get("max_tokens") or 0)
            granted = budget.grant(str(body["model"]), tokens, wanted, final=self.final)
            if granted is not None:
                return body if granted == wanted else {**body, "max_tokens": granted}
            self.meter.reach("budget")
            if self.final and not self.face.make_smaller():
                return None
            self.final = True

    async def exchange(self, body: Mapping[str, Any]) -> AsyncGenerator[Event | list[RawEvent], None]:
        """Send a request that money was granted for, again where that is allowed; afterwards `reply` is as whole as it gets."""
        self.meter.steps += 1
        for failures in count(1):
            yield ModelRequested(self.meter.steps, str(body["model"]), body, self.final)
            self.reply, self.shown, self.sent = Reply(), False, True
            self._under_way, self._body, self._began = True, body, time.perf_counter()
            error: ModelError | None = None
            stream = self._arriving(body)
            try:
                async for events in stream:
                    yield events
            except ModelError as exc:
                error = exc
            except WebSearchError:  # a key is missing, a cassette has no reply: nothing went out
                self._under_way = False
                raise
            except TimeoutError:
                self.meter.reach("timeout")
                for told in self.meter.news():
                    yield told
            finally:
                await stream.aclose()
            yield self.reply.close()  # the events that end what a break left open
            yield self._responded(error)
            if (error := self._fatal(error)) is None:
                return
            wait = None if self.shown else retry_wait_s(error, failures, retries=self.retries)
            if wait is None or wait >= self.meter.seconds_left:
                raise error
            yield Retracted(self.meter.steps)
            yield Notice(f"{error}; trying again in {wait:.1f} s")
            if problem := self.runner.budget.grant_again():
                raise BudgetExceededError(f"the model did not answer, and {problem}")
            await asyncio.sleep(wait)

    async def _arriving(self, body: Mapping[str, Any]) -> AsyncGenerator[list[RawEvent], None]:
        """Yield raw events until the reply or the time is over."""
        stream = self.send(body).__aiter__()
        try:
            while True:
                left = self.meter.seconds_left
                async with asyncio.timeout(None if math.isinf(left) else left):
                    events = await anext(stream, None)
                if events is None:
                    return
                for event in events:
                    self.reply.apply(event)
                yield events
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    def _fatal(self, error: ModelError | None) -> ModelError | None:
        """Return the error that keeps a reply from being used; a broken one of which something was shown is used as it is."""
        if error is None and not (self.reply.complete or self.shown) and self.meter.seconds_left:
            return ModelError("the model's answer ended too soon", status=200, kind="truncated")
        return None if error is not None and self.shown and error.kind in _BROKEN else error

    def _responded(self, error: ModelError | None) -> ModelResponded:
        """Return what the request under way used. One that went out and of which no usage came is "lost": what it read is
        estimated, and all that was reserved for it counts as spent."""
        reply, usage, estimated = self.reply, self.reply.usage, True
        lost = not (reply.complete or reply.usage_fields) and (bool(reply.blocks) or (self.sent and may_be_billed(error)))
        if reply.complete or lost:
            usage, estimated = counted(reply.usage_fields, self._body, reply.content)
        elif reply.blocks:
            usage += Usage(output_tokens=max(0, written_tokens(reply.content) - usage.output_tokens))
        self._under_way = False
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
