"""One question under way: its events are booked as they pass, and every way of ending leaves an answer in the session."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

from ipy_websearch.booking import Booking
from ipy_websearch.errors import ModelError
from ipy_websearch.events import Event, Finished
from ipy_websearch.ledger import Ledger
from ipy_websearch.loop.run import AnswerLoop
from ipy_websearch.pricing import model_cost
from ipy_websearch.results import Answer
from ipy_websearch.usage import Usage

Keep = Callable[[Booking, Answer | None], Answer | None]


class AskRun:
    """Iterate over it for its events; then `answer` is there.

    `keep` takes the booking and the finished answer into the session and returns the answer with the session's cost. When
    the iteration is cancelled, `interrupted()` books what was spent and gives the answer so far.
    """

    def __init__(self, loop: AnswerLoop, ledger: Ledger, session_id: str, keep: Keep) -> None:
        self.loop = loop
        self.booking = Booking(ledger, session_id, uuid.uuid4().hex[:12], loop.job.question)
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
        # The first price of a model takes 0.1 s to look up: do that while the model thinks, not on the event loop.
        asyncio.get_running_loop().run_in_executor(None, model_cost, self.loop.job.model, Usage())
        events = self.loop.events()
        try:
            async for event in events:
                self.booking.take(event)
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
            if self.answer is None:
                self._keep_in_session(self.booking, None)

    def interrupted(self) -> Answer:
        """Book what a cut-off request has used and return the answer so far, with `limit` "interrupted"."""
        if self.answer is None:
            if booked := self.loop.interrupted():
                self.booking.take(booked)
            self._keep(self.loop.partial("interrupted"))
        assert self.answer is not None
        return self.answer

    def _keep(self, answer: Answer) -> Answer:
        full = replace(answer, cost_usd=self.booking.cost_usd, trace=tuple(self.booking.steps))
        self.answer = self._keep_in_session(self.booking, full) or full
        return self.answer
