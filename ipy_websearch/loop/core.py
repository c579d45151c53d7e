"""The one tool loop: send, read, run the calls, send again. Everything that talks to a model with tools runs on it.

What differs stands in a `Face`: how a request is built, what becomes of a reply, who gets the results. There are three: `ask`
(events for people), `interception` (the caller's own message) and `enrichment` (a record for a row). The law is the same:

- the calls of one reply run concurrently, and their results go back in one message;
- a limit never ends in silence: calls beyond it get an error that names it, and the next request asks for the answer;
- money is granted before each request, with enough kept back for a final one; where it does not reach, the request becomes the
  final one, and then loses its newest results;
- a request is sent again only while nothing of its reply was shown; what it used is told, estimated where the API is silent.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from ipy_websearch.errors import BudgetExceededError, ModelError, WebSearchError
from ipy_websearch.events import Event, LimitReached, ModelRequested, ModelResponded, Notice, Retracted
from ipy_websearch.loop.calls import Call, CallRunner, Meter
from ipy_websearch.model.failures import MAX_RETRIES, may_be_billed, retry_wait_s
from ipy_websearch.model.stream import Event as RawEvent
from ipy_websearch.model.stream import Reply
from ipy_websearch.model.tokens import counted, estimate_tokens, written_tokens
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.prices import billed_model
from ipy_websearch.usage import Usage

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
