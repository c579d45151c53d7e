"""One question under way: its events are booked as they pass, and every way of ending leaves an answer in the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from ipy_websearch.booking import Booking
from ipy_websearch.errors import BudgetExceededError, ModelError
from ipy_websearch.events import Event, Finished
from ipy_websearch.loop.run import AnswerLoop
from ipy_websearch.pricing import is_at_hand, model_cost
from ipy_websearch.purse import CeilingPurse
from ipy_websearch.results import Answer
from ipy_websearch.usage import Usage

Keep = Callable[[Booking, Answer | None], Answer | None]


def paid_sleep(purse: CeilingPurse) -> Callable[[float], Awaitable[None]]:
    """Return the wait before a failed request is sent again: its worst case is reserved once more first.

    Raises (when awaited):
        BudgetExceededError: there is not enough money to send it again.
    """

    async def sleep(seconds: float) -> None:
        if problem := purse.again():
            raise BudgetExceededError(f"the model did not answer, and {problem}")
        await asyncio.sleep(seconds)

    return sleep


class AskRun:
    """Iterate over it for its events; then `answer` is there.

    `keep` takes the booking and the finished answer into the session and returns the answer with the session's cost. When
    the iteration is cancelled, `interrupted()` books what was spent and gives the answer so far.
    """

    def __init__(self, loop: AnswerLoop, booking: Booking, keep: Keep, purse: CeilingPurse) -> None:
        self.loop = loop
        self.booking = booking
        self._purse = purse
        booking.holds = True
        self.answer: Answer | None = None
        self._keep_in_session = keep

    @property
    def question(self) -> str:
        """The question, variables put in."""
        return self.loop.job.question

    @property
    def offline(self) -> bool:
        """Whether the built-in model answers."""
        return self.loop.client.offline

    async def __aiter__(self) -> AsyncIterator[Event]:
        if not is_at_hand(self.loop.job.model):  # look it up while the model thinks, not on the event loop
            asyncio.get_running_loop().run_in_executor(None, model_cost, self.loop.job.model, Usage())
        events = self.loop.events()
        try:
            async for event in events:
                self.booking.take(event)
                if isinstance(event, Finished):
                    self.booking.written()
                    self.booking.check()
                yield Finished(self._keep(event.answer)) if isinstance(event, Finished) else event
        except ModelError as exc:
            if exc.partial is not None:
                exc.partial = self._keep(exc.partial)
            raise
        except asyncio.CancelledError:
            self.interrupted()
            raise
        finally:
            await events.aclose()  # type: ignore[attr-defined]
            self._book_the_rest()
            if self.answer is None:
                self._keep_in_session(self.booking, None)

    def interrupted(self) -> Answer:
        """Book what a cut-off request has used and return the answer so far, with `limit` "interrupted"."""
        if self.answer is None:
            self._book_the_rest()
            self._keep(self.loop.partial("interrupted"))
        assert self.answer is not None
        return self.answer

    def _book_the_rest(self) -> None:
        """Book what was sent and has not come to its end, and give back the money that was held for it."""
        if booked := self.loop.interrupted():
            self.booking.take(booked)
        self.booking.written()
        self.booking.charges(self._purse.close(), status="interrupted")
        self.booking.written()

    def _keep(self, answer: Answer) -> Answer:
        facts = {"cost_usd": self.booking.cost_usd, "replayed_from": self.booking.replayed_from}
        full = replace(answer, trace=tuple(self.booking.steps), **facts)  # type: ignore[arg-type]
        self.answer = self._keep_in_session(self.booking, full) or full
        return self.answer
