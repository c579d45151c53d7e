"""One intercepted call with everything around it: its replies are read, its tools run, and all of it is booked.

The drivers in `model.intercepted` send what `next_body` gives and hand over what comes back; they know nothing of searching,
and nothing here knows how a request is sent.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.events import Event as Happening
from ipy_websearch.events import ModelResponded, Money
from ipy_websearch.interception.conversation import Conversation
from ipy_websearch.interception.plain_results import in_text, refuses_blocks
from ipy_websearch.interception.replay import has_native
from ipy_websearch.interception.stream import Event, EventWriter
from ipy_websearch.interception.thoughts import forget, refuses_thinking
from ipy_websearch.loop.history import without_thinking
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.stream import Reply
from ipy_websearch.model.tokens import counted, estimate_tokens
from ipy_websearch.money.booking import Booking
from ipy_websearch.money.budget import MIN_ANSWER_TOKENS
from ipy_websearch.money.prices import billed_model

_lock = (
    threading.RLock()
)  # what happened is booked in one thread at a time; what is collected meanwhile may end calls of its own


class InterceptedRun:
    """A call under way. `done` is True when the caller's message is complete; `spent` is told what the call has cost.

    `attempts` counts how often the newest request was sent.
    """

    def __init__(self, conversation: Conversation, booking: Booking, spent: Callable[[Money], None]) -> None:
        self.conversation = conversation
        self.booking = booking
        booking.traces = False  # the caller has the message, and never the booking
        self._asked = str(conversation.body.get("model"))
        self._spent = spent
        self._told: Money = Decimal(0)
        self._writer = EventWriter(conversation)
        self._reply = Reply()
        self.attempts = 0
        self._pending: dict[str, Any] | None = None
        self._held = True  # the money for the request under way
        self._sent: dict[str, Any] = {}
        self._tail: Mapping[str, Any] = {}
        self._start = 0.0
        self._open = self._closed = False

    @property
    def done(self) -> bool:
        """Whether the caller's message is complete."""
        return self.conversation.done

    @property
    def begun(self) -> bool:
        """Whether a reply was already taken: what fails from now on must not begin anew."""
        return bool(self.conversation.head)

    @property
    def written(self) -> bool:
        """Whether the caller has seen anything of the running reply."""
        return self._writer.written

    def draft(self) -> dict[str, Any]:
        """Return what the next request would be; nothing is reserved for it."""
        return self.conversation.draft()

    @property
    def platform(self) -> Platform:
        """What the model's server takes, as far as that is known."""
        return self.conversation.platform

    def in_text(self, status: int, said: str) -> bool:
        """Give the refused request its results as text; say whether that was done, which is once, and where it may help."""
        platform = self.conversation.platform
        if not (self._pending and platform.assumed and platform.search_results and refuses_blocks(status, said)):
            return False
        if (messages := in_text(self._pending["messages"])) is None:
            return False
        self._pending = self._sent = {**self._pending, "messages": messages}
        self.conversation.messages = in_text(self.conversation.messages) or self.conversation.messages
        self.conversation.platform = replace(platform, assumed=False, search_results=False)
        self.attempts = 0
        return True

    def without_thinking(self, status: int, said: str) -> bool:
        """Leave the thinking out of a refused first request whose history was taken apart; say whether that was done.

        Another process made it, behind results in another form, and nobody here can tell.
        """
        conversation = self.conversation
        if self.begun or not self._pending or not refuses_thinking(status, said):
            return False
        left = without_thinking(conversation.messages)
        if left == conversation.messages or not has_native(conversation.body["messages"]):
            return False
        forget(conversation.messages)
        conversation.messages = left
        self._pending = self._sent = {**self._pending, "messages": left}
        self.attempts = 0
        return True

    def next_body(self) -> dict[str, Any] | None:
        """Return the request to send: the same one until its reply was taken; None when the message has to end here.

        Where the money that was held for it is spent or given back, money is asked for again, and the request may become a
        smaller one, or the last.

        Raises:
            BudgetExceededError: the session's budget does not reach for a request, and there is nothing yet to end with.
        """
        if self.done:
            return None
        self._closed = False  # a call that was given up may be taken up again
        if self._pending is None:
            self.attempts = 0
        elif not self._held:
            self._pending = None
            self.conversation.requests -= 1
        if self._pending is None:
            self._pending = self._sent = self.conversation.request() or {}
        if not self._pending:
            self._pending = None
            if not self.conversation.content:
                raise BudgetExceededError(self.booking.budget.refusal(estimate_tokens(self.draft())))
            return None
        self._held, self._start = True, time.perf_counter()
        self.attempts += 1
        return self._pending

    def begin(self) -> None:
        """Say that a reply to the request begins."""
        self._reply, self._start, self._open = Reply(), time.perf_counter(), True
        self._tail = {}
        self.conversation.ids.begin()
        self._writer.begin()

    def event(self, raw: Event) -> list[Event]:
        """Take a stream event of the reply; return the events for the caller."""
        if raw.get("type") == "content_block_start" and isinstance(block := raw.get("content_block"), dict):
            raw = {**raw, "content_block": self.conversation.under_our_name(block)}
        self._reply.apply(raw)
        if raw.get("type") == "message_delta":
            self._tail = raw
        return self._writer.feed(raw)

    def message(self, message: Mapping[str, Any]) -> None:
        """Take a reply that came whole."""
        self.conversation.open(message)
        reply = self._reply
        reply.model, reply.complete = str(message.get("model") or ""), True
        reply.blocks = dict(enumerate(map(self.conversation.under_our_name, message.get("content") or ())))
        reply.stop_reason, reply.stop_details = message.get("stop_reason"), message.get("stop_details")
        reply.usage_fields = {name: value for name, value in (message.get("usage") or {}).items() if value is not None}
        stops = ("stop_reason", "stop_sequence", "stop_details")
        known = ("id", "type", "role", "model", "content", *stops)
        rest = {name: value for name, value in message.items() if name not in known}
        self._tail = {**rest, "delta": {name: message[name] for name in stops if name in message}}

    @property
    def complete(self) -> bool:
        """Whether the reply came to its end."""
        return self._reply.complete

    def taken(self, request_id: str | None = None) -> bool:
        """Take the finished reply into the conversation; return whether calls are to be run now."""
        self._pending = None
        self._book(request_id)
        return bool(self.conversation.take(self._reply, self._tail))

    async def run_calls(self) -> None:
        """Run the calls of the reply, all at the same time, and take what they gave."""
        runner, calls = self.conversation.runner, self.conversation.calls
        async for event in runner.run(calls):
            if not self._closed:  # what was under way then is booked
                self._happened(event)
        self.conversation.give(runner.outputs)

    def results(self) -> list[Event]:
        """Return the stream events for the results of the calls, and for what was held back until now."""
        return self._writer.results()

    def end(self) -> list[Event]:
        """Return the stream events that end the caller's message."""
        return self._writer.end()

    def final(self) -> dict[str, Any]:
        """Return the caller's message."""
        return self.conversation.message()

    def close(self) -> None:
        """Book what broke off or was no longer wanted, and give back the money that was held; it may be called again."""
        self.drop()
        self._held, self._closed = not self.booking.budget.bounded, True
        with _lock:
            self.booking.close()
        cost, told = self.booking.cost_usd, self._told
        self._spent(None if cost is None or told is None else cost - told)
        self._told = cost

    def drop(self) -> None:
        """Book a reply that broke off; it may be asked for again."""
        if self._open and self._reply.usage_fields:
            self._book(None)
        elif self._open:
            self.lost()

    def lost(self) -> None:
        """Book the request under way, of whose reply nothing came: it went out, and may be billed."""
        self._reply = Reply()
        self._book(None, lost=True)

    def _book(self, request_id: str | None, *, lost: bool = False) -> None:
        reply = self._reply
        self._open = False
        usage, estimated = counted(reply.usage_fields, self._sent, reply.content)
        if self.booking.budget.bounded:
            self._held = False
        self._happened(
            ModelResponded(
                step=self.conversation.requests,
                model=billed_model(self._asked, reply.model),
                usage=usage,
                stop_reason=reply.stop_reason,
                seconds=time.perf_counter() - self._start,
                request_id=request_id,
                estimated=estimated or not reply.complete,
                lost=lost,
            )
        )

    def _happened(self, event: Happening) -> None:
        with _lock:
            self.booking.take(event)


def least_tokens(body: Mapping[str, Any]) -> int:
    """Return the tokens that a reply to a request must be able to have: room for all of its thinking, and for an answer.

    The API refuses a `max_tokens` that is not above the thinking's budget (but where the caller's own is not, either).
    """
    thinking = body.get("thinking")
    budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) and thinking.get("type") == "enabled" else None
    wanted = body.get("max_tokens")
    if not isinstance(budget, int) or not isinstance(wanted, int) or wanted <= budget:
        return MIN_ANSWER_TOKENS
    return min(wanted, budget + MIN_ANSWER_TOKENS)
