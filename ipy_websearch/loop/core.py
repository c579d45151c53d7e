"""The one tool loop: send, read, run the calls, send again. Everything that talks to a model with tools runs on it.

A `Face` holds the differences: how a request is built, how a reply is handled, where the results go. There are three: `ask`
(events for people), `interception` (the caller's own message) and `enrichment` (a record for a row). The rules are the same:

- the calls of one reply run concurrently, each failure as a result, and their results go back in one message, in order;
- a limit never ends in silence: calls beyond it get an error that names it, and the next request asks for the answer;
- the same call runs once in an answer; a repeated one is told where its results stand, unless it failed: then it counts again;
- money is granted before each request, with enough kept back for a final one; where it does not reach, the request becomes the
  final one, and then loses its newest results;
- a request is sent again only while nothing of its reply was shown; what it used is told, estimated where the API is silent;
- no two calls of a conversation have the same id: small servers give every call the same one, or count anew in each reply.
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
from ipy_websearch.model.client import MAX_RETRIES, Event as RawEvent, Reply, may_be_billed, retry_wait_s
from ipy_websearch.model.requests import (
    Message,
    capped,
    content_of,
    counted,
    estimate_tokens,
    without_newest_results,
    written_tokens,
)
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.prices import billed_model
from ipy_websearch.results import (
    Event,
    LimitName,
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

    `reached` is the first limit that was reached.
    """

    limits: Limits
    steps: int = 0
    searches: int = 0
    reached: LimitName | None = None
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
        blocks = [(str(block.get("id")), block) for block in reply.content if block.get("type") == "tool_use"]
        return [cls(id, str(block.get("name")), block.get("input") or {}, id in reply.malformed) for id, block in blocks]


@dataclass(slots=True)
class CallRunner:
    """Runs calls for one answer. After `run`, `outputs` holds the calls' outputs by call id, and `blocks` the results that
    `render` makes of them for the model."""

    tools: Mapping[str, Tool]
    context: ToolContext
    panels: Panels
    budget: RunBudget
    meter: Meter
    render: Callable[[str, ToolOutput], dict[str, Any]]
    outputs: dict[str, ToolOutput] = field(default_factory=dict)
    blocks: dict[str, dict[str, Any]] = field(default_factory=dict)
    _first_ids: dict[Any, str] = field(default_factory=dict)

    async def run(self, calls: Sequence[Call]) -> AsyncGenerator[Event, None]:
        """Run the calls and yield an event as each one ends; those beyond a limit get an error that names it.

        On cancellation the calls under way are cancelled too, and nothing is left running.
        """
        self.outputs, self.blocks = {}, {}
        tasks = [asyncio.create_task(self._run(call)) for call in calls]
        try:
            for ended in asyncio.as_completed(tasks):
                for event in self._end(*await ended):
                    yield event
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, call: Call) -> tuple[Call, ToolOutput, float]:
        """Return a call with its output and the seconds that it took."""
        began = time.perf_counter()
        begun = self._begin(call)
        output = begun if isinstance(begun, ToolOutput) else await self._output(*begun)
        return call, output, time.perf_counter() - began

    def _begin(self, call: Call) -> tuple[Tool, BaseModel] | ToolOutput:
        """Return the tool to run for a call with its checked input, or the output that it gets without running."""
        from pydantic import ValidationError

        tool = self.tools.get(call.name)
        if self.meter.steps >= self.meter.limits.max_steps and not (tool and tool.concludes):
            return self._limited("max_steps")
        if tool is None:
            return _error(f"There is no tool called {call.name!r}. Available: {', '.join(self.tools)}.")
        if call.malformed or not isinstance(call.input, Mapping):
            return _error("The input of this call was cut off, or is no JSON object; nothing was run.", "invalid_tool_input")
        try:
            value = tool.parsed(call.input)
        except ValidationError as exc:
            problems = (f"{'.'.join(map(str, e['loc'])) or 'input'}: {e['msg']}" for e in exc.errors()[:5])
            return _error(f"Invalid input for {tool.name}: {'; '.join(problems)}.", "invalid_tool_input")
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
        return "budget" if tool.price and not self.budget.grant_call(call.id, tool.price) else None

    def _limited(self, limit: LimitName) -> ToolOutput:
        self.meter.reach(limit)
        reason = self.meter.explain(limit)
        code = "max_uses_exceeded" if limit in ("max_searches", "max_steps") else "unavailable"
        return replace(_error(f"Not run: {reason}.", code), summary=f"not run: {reason}")

    async def _output(self, tool: Tool, value: BaseModel) -> ToolOutput:
        """Run one call; every failure but an interrupt becomes an error output. A call that was cut off had been sent, and
        costs its price."""
        left = self.meter.seconds_for_tools
        try:
            async with asyncio.timeout(min(left, tool.timeout_s)):
                output = await tool.call(value, self.context)
        except TimeoutError as exc:
            # What is cut off on a cassette ran into the question's time where there is one: engines time out by themselves.
            late = left < (math.inf if isinstance(exc, ReplayError) else tool.timeout_s)
            said = self._limited("timeout") if late else _error(f"{tool.name} did not end within {tool.timeout_s:g} s.")
            return replace(said, charges=lost(tool.price))
        except ReplayError:  # the model cannot do anything about it, and what it would answer is not recorded either
            raise
        except WebSearchError as exc:
            return _error(str(exc))
        except Exception as exc:  # a bug in a tool (or a plug-in) must not cost the user the answer
            return _error(f"{tool.name} failed: {type(exc).__name__}: {shorten(plain(str(exc)), 200)}")
        if isinstance(output.error, ReplayError):
            raise output.error
        return output

    def _end(self, call: Call, output: ToolOutput, seconds: float) -> list[Event]:
        """Keep a call's output; return its events."""
        self.outputs[call.id] = output
        self.blocks[call.id] = self.render(call.id, output)
        self.context.known_urls.update(output.urls)
        if output.is_error:
            self._first_ids = {key: first for key, first in self._first_ids.items() if first != call.id}
        data, title = output.panel_data, output.panel_title or call.name
        finished = ToolFinished(
            id=call.id,
            name=call.name,
            summary=output.summary,
            is_error=output.is_error,
            seconds=seconds,
            panel=None if data is None else self.panels.add(title, data, tool=call.name, is_error=output.is_error),
            charges=output.charges,
            results=output.results,
            content=self.blocks[call.id],
            log=output.log,
        )
        return [*map(Notice, output.notices), finished]


def _error(text: str, code: str = "unavailable") -> ToolOutput:
    return ToolOutput(summary=shorten(plain(text), 200), text=text, is_error=True, error_code=code)


# --- the loop ---------------------------------------------------------------------------------------------------------

# Sends a request and gives its stream events as they arrive, raising `ModelError`.
Send = Callable[[Mapping[str, Any]], AsyncIterator[list[RawEvent]]]


class Then(Enum):
    """The next step, where no calls are to be run."""

    DONE = "done"
    AGAIN = "send the next request"


# The loop's next step: the calls to run, the next request, or the end.
Next = Sequence[Call] | Then


class Face(Protocol):
    """The part of a conversation that differs from one use of the loop to another."""

    def request(self, *, final: bool) -> dict[str, Any]:
        """Return the body of the next request; after a `final` one no more calls are run."""

    def take(self, reply: Reply, *, final: bool) -> Next:
        """Add a finished or broken reply to the messages; return the next step."""

    def give(self, runner: CallRunner, calls: Sequence[Call]) -> Then:
        """Add the results of the calls to the messages; return the next step."""

    def failed(self, error: WebSearchError) -> Next:
        """Return the next step after a request that was refused or broke off, or raise its error."""
        raise error


@dataclass(slots=True)
class Loop:
    """One conversation with a model. Iterate over `run()` once; `cut_off()` books a request that was left under way.

    `run` yields our own events, and the raw events of replies in lists, as they arrive. Its reader sets `shown` when it has
    shown anything of the running reply. `messages` is the conversation, to which the face adds; where money is short,
    its newest results are left out, unless the face `needs_results`. `reply` is the newest reply, `usage` the sum over all
    requests, `final` whether the request under way is the last.
    """

    face: Face
    send: Send
    runner: CallRunner
    messages: list[Message]
    retries: int = MAX_RETRIES
    needs_results: bool = False
    usage: Usage = Usage()
    model: str = ""
    reply: Reply = field(default_factory=Reply)
    final: bool = False
    shown: bool = False
    sent: bool = True
    _body: Mapping[str, Any] | None = None  # of the request under way
    _began: float = 0.0
    _ids: set[str] = field(default_factory=set)  # of all calls

    @property
    def meter(self) -> Meter:
        """The run's counts and limits."""
        return self.runner.meter

    async def run(self, then: Next = Then.AGAIN) -> AsyncGenerator[Event | list[RawEvent], None]:
        """Converse, from a first step on, until the face is done or no money is left for a request.

        Raises:
            WebSearchError: a request was refused or broke off, and the face knows nothing else to do.
        """
        self._ids = {str(block.get("id")) for message in self.messages for block in content_of(message)}
        while then is not Then.DONE:
            if isinstance(then, Then):
                if (body := self._granted()) is None:
                    return
                try:
                    async for signal in self._exchange(body):
                        yield signal
                except WebSearchError as exc:
                    then = self.face.failed(exc)
                else:
                    then = self.face.take(self.reply, final=self.final)
            else:
                async for event in self.runner.run(then):
                    yield event
                then = self.face.give(self.runner, then)
                self.final = self.final or self.meter.reached is not None

    def cut_off(self) -> ModelResponded | None:
        """Return the booking of a request that was interrupted, None when none was under way."""
        return self._responded(self._body, None) if self._body is not None and self.sent else None

    def _granted(self) -> Mapping[str, Any] | None:
        """Return the next request as money allows it, None when it does not reach for any."""
        budget = self.runner.budget
        while True:
            body = self.face.request(final=self.final)
            tokens, wanted = estimate_tokens(body) if budget.bounded else 0, int(body.get("max_tokens") or 0)
            granted = budget.grant(str(body["model"]), tokens, wanted, final=self.final)
            if granted is not None:
                return body if granted == wanted else capped(body, granted)
            self.meter.reach("budget")
            if self.final and not self._leave_out_results():
                return None
            self.final = True

    def _leave_out_results(self) -> bool:
        """Put an error that names the budget in place of each of the newest results; return whether this run had any."""
        output = _error(f"Left out: {self.meter.explain('budget')}.")
        smaller = without_newest_results(self.messages, lambda call_id: self.runner.render(call_id, output))
        if smaller is None or self.needs_results or not self.meter.steps:
            return False
        self.messages = smaller
        return True

    async def _exchange(self, body: Mapping[str, Any]) -> AsyncGenerator[Event | list[RawEvent], None]:
        """Send a request that money was granted for, again where that is allowed; afterwards `reply` is as whole as it gets."""
        self.meter.steps += 1
        for failures in count(1):
            yield ModelRequested(self.meter.steps, str(body["model"]), body, self.final)
            self.reply, self.shown, self.sent = Reply(), False, True
            self._body, self._began = body, time.perf_counter()
            error: ModelError | None = None
            stream = aiter(self.send(body))
            try:
                while (events := await self._next(stream)) is not None:
                    yield events
            except ModelError as exc:
                error = exc
            except TimeoutError:
                self.meter.reach("timeout")
            except WebSearchError:  # a key is missing, a cassette has no reply: nothing went out
                self._body = None
                raise
            finally:
                await stream.aclose()  # type: ignore[attr-defined]
            yield self.reply.close()  # the events that end what a break left open
            yield self._responded(body, error)
            if (error := self._fatal(error)) is None:
                return
            wait = None if self.shown else retry_wait_s(error, failures, retries=self.retries)
            if wait is None or wait >= self.meter.seconds_left:
                raise error
            yield Retracted()
            yield Notice(f"{error}; trying again in {wait:.1f} s")
            if problem := self.runner.budget.grant_again():
                raise BudgetExceededError(f"the model did not answer, and {problem}")
            await asyncio.sleep(wait)

    async def _next(self, stream: AsyncIterator[list[RawEvent]]) -> list[RawEvent] | None:
        """Return the next raw events, None at the end of the reply."""
        async with asyncio.timeout(self.meter.seconds_left):
            events = await anext(stream, None)
        for event in events or ():
            if event.get("type") == "content_block_start":
                self._make_unique(event.get("content_block"))
            self.reply.apply(event)
        return events

    def _make_unique(self, block: Any) -> None:
        """Give a call that begins an id that no other call of the conversation has."""
        if isinstance(block, dict) and block.get("type") == "tool_use":
            while (call_id := str(block.get("id"))) in self._ids:
                block["id"] = f"{call_id}_"
            self._ids.add(call_id)

    def _fatal(self, error: ModelError | None) -> ModelError | None:
        """Return the error that keeps a reply from being used; a broken one is used when it is whole or something was shown."""
        if error is None and not (self.reply.complete or self.shown) and self.meter.seconds_left:
            return ModelError("the model's answer ended too soon", status=200, kind="truncated")
        return None if error is not None and (self.shown or self.reply.complete) and error.kind in _BROKEN else error

    def _responded(self, body: Mapping[str, Any], error: ModelError | None) -> ModelResponded:
        """Return the usage of the request under way. A request that was sent and reported no usage is "lost": its input is
        estimated, and all the money reserved for it counts as spent."""
        reply, usage, estimated = self.reply, self.reply.usage, True
        lost = not (reply.complete or reply.usage_fields) and (bool(reply.blocks) or (self.sent and may_be_billed(error)))
        if reply.complete or lost:
            usage, estimated = counted(reply.usage_fields, body, reply.content)
        elif reply.blocks:
            usage += Usage(output_tokens=max(0, written_tokens(reply.content) - usage.output_tokens))
        self._body = None
        self.usage += usage
        self.model = reply.model or self.model
        return ModelResponded(
            step=self.meter.steps,
            model=billed_model(str(body["model"]), reply.model),
            usage=usage,
            stop_reason=reply.stop_reason,
            seconds=time.perf_counter() - self._began,
            content=tuple(reply.content),
            estimated=estimated,
            lost=lost,
        )
