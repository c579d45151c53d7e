"""One intercepted call: a face of the tool loop (`loop.core`) that gives the caller's own message, in the native shape.

`InterceptedCall.events` is the caller's stream; a caller who does not stream takes `message` afterwards. Results of a round go
back in one message, a forced choice of the tool is let go once it was used, and the last request asks for words. What the
caller's other tools are called for is handed back, and the conversation can be resumed (`native.Unpacked`).
"""

from __future__ import annotations

import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import BudgetExceededError, ModelError
from ipy_websearch.interception.native import EventWriter, Unpacked, blocks_of, given, own_kind, result_block, server_id
from ipy_websearch.interception.tools import NAMES, OUR_NAMES, Kind, WebTool, failed
from ipy_websearch.loop.core import Call, CallRunner, Face, Loop, Meter, Then
from ipy_websearch.loop.offer import FINAL_NUDGE
from ipy_websearch.model.client import Event, Reply
from ipy_websearch.model.requests import (
    CACHE_CONTROL,
    THINKING,
    Message,
    Platform,
    assistant_message,
    cache_marks,
    capped,
    forces_tools,
    with_nudge,
    without_thinking,
)
from ipy_websearch.money.budget import Booking
from ipy_websearch.money.prices import add_money
from ipy_websearch.results import Limits, ModelRequested, ModelResponded, Panels
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.web import addresses_of

if TYPE_CHECKING:
    from ipy_websearch.model.sdk_hook import Exchange
    from ipy_websearch.session import Session

# Rounds of calls that one call of the caller may have: the API's own loop pauses after as many (platform.claude.com/docs, read
# 2026-11). A tool's `max_uses` may ask for more, up to the second. Two requests follow: a call too many, and the answer.
MAX_ROUNDS, MOST_ROUNDS = 10, 48

_lock = threading.RLock()  # calls of several threads and event loops are booked one after the other


@dataclass(slots=True)
class InterceptedCall(Face):
    """A call of the caller's under way. Iterate over `events` once; `close` books what was left over, and may be called again.

    `body` is the caller's request, `wanted` its web tools, `tools` those that run for them, `history` its messages as the model
    gets them.
    """

    body: Mapping[str, Any]
    wanted: Sequence[WebTool]
    tools: Mapping[str, Tool]
    history: Unpacked
    platform: Platform
    booking: Booking
    session: Session
    writer: EventWriter = field(init=False)
    usage: dict[str, Any] = field(
        default_factory=lambda: {"server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0}}
    )
    done: bool = False
    closed: bool = False
    loop: Loop = field(init=False)
    _wire: Exchange = field(init=False)
    _container: Mapping[str, Any] | None = None
    _places: dict[int, WebTool] = field(init=False)
    _kinds: dict[str, Kind] = field(init=False)
    _outbox: list[Event] = field(default_factory=list)
    _replies: int = 0
    _refusals: int = 0

    def __post_init__(self) -> None:
        self.writer = EventWriter(self.history.sources)
        self._places = {tool.index: tool for tool in self.wanted if tool.index >= 0}
        others = {tool.get("name") for n, tool in enumerate(self.body.get("tools") or ()) if n not in self._places}
        self._kinds = {name: kind for name, kind in NAMES.items() if name not in others and OUR_NAMES[kind] in self.tools}
        self._kinds |= {tool.name: tool.kind for tool in self._places.values()}
        told = self.history.messages if OUR_NAMES["fetch"] in self.tools else ()
        context = ToolContext({url for message in told for url in known_addresses(message)})
        rounds = min(max([MAX_ROUNDS, *(tool.max_uses or 0 for tool in self.wanted)]), MOST_ROUNDS)
        # Uses and seconds have limits of each tool's own.
        meter = Meter(Limits(max_searches=10_000, max_steps=rounds + 1, timeout_s=3_600.0))
        runner = CallRunner(self.tools, context, Panels(), self.booking.budget, meter, self.history.render)
        # A first request is the SDK's to send again.
        self.loop = Loop(self, self._sent, runner, self.history.messages, retries=0)

    # --- the caller's stream ------------------------------------------------------------------------------------------

    async def events(self, wire: Exchange) -> AsyncGenerator[list[Event], None]:
        """Converse, and yield the caller's stream, as many events at once as there are.

        Raises:
            ModelError: the API refused or broke off; `wire.first` says whether that was the first request.
            BudgetExceededError: there is no money for a request; nothing was sent.
        """
        self._wire, loop = wire, self.loop
        with closing(self):
            async with aclosing(loop.run()) as signals:
                async for signal in signals:
                    if isinstance(signal, list):
                        events = [event for raw in signal for event in self.writer.feed(raw)]
                        loop.shown = loop.shown or any(event["type"] == "content_block_start" for event in events)
                    else:
                        if isinstance(signal, ModelRequested):
                            self.writer.begin(self._replies + 1)
                        elif isinstance(signal, ModelResponded) and wire.first:
                            loop.retries = wire.retries
                        self._book(signal)
                        events, self._outbox = self._outbox, []
                    if events:
                        yield events
            if not self._replies:
                raise BudgetExceededError(self.booking.budget.refusal)
            if not self.done:  # no money is left: the caller may go on from here, as after a pause of the API's own
                self.writer.delta, self.writer.rest = {"stop_reason": "pause_turn"}, {}
            yield [*self._outbox, *self.writer.end(self.usage)]

    def close(self) -> None:
        """Book what broke off or was no longer wanted, and give back the money that was held."""
        with _lock:
            if not self.closed:
                self.closed = True
                self.booking.close(self.loop.cut_off())
                self.session.spent_usd = add_money(self.session.spent_usd, self.booking.cost_usd)

    def _book(self, event: Any) -> None:
        if isinstance(event, ModelResponded) and not (event.lost or event.stop_reason or event.usage.total_input_tokens):
            return  # it never went out, or was refused: what was reserved for it is given back in the end
        with _lock:
            self.booking.take(event)

    async def _sent(self, body: Mapping[str, Any]) -> AsyncIterator[list[Event]]:
        """Send a request; a first one whose thinking is refused, in a history that was edited, goes up once more without."""
        wire = self._wire
        send: Callable[[Mapping[str, Any]], AsyncIterator[list[Event]]] = wire.send
        if recording := self.session.recording:
            send = recording.through(send, wire.headers)
            if recording.replayed_from and not wire.first:
                wire.pretend()
        while True:
            try:
                async for events in send(body):
                    yield [self._under_our_name(event) for event in events]
                return
            except ModelError as exc:
                history = without_thinking(self.loop.messages)
                refused = exc.status in (400, 422) and "thinking" in str(exc).lower()
                if not refused or self._replies or not self.history.sources.natives or history == self.loop.messages:
                    raise
                self.loop.messages = history
            body = capped(self.request(final=self.loop.final), int(body.get("max_tokens") or 0))

    def _under_our_name(self, event: Event) -> Event:
        """Return an event with calls of our tools by our names: models remember others."""
        block = event.get("content_block")
        if event.get("type") != "content_block_start" or not isinstance(block, Mapping) or block.get("type") != "tool_use":
            return event
        kind = self._kinds.get(str(block.get("name")))
        return {**event, "content_block": {**block, "name": OUR_NAMES[kind]}} if kind else event

    # --- what the loop asks (see `core.Face`) -------------------------------------------------------------------------

    def request(self, *, final: bool) -> dict[str, Any]:
        """Return the next request; the final one may not call our tools."""
        body = {name: value for name, value in self.body.items() if name not in ("stream", "tools", "tool_choice")}
        body["messages"] = self._marked() if self._replies else self.loop.messages
        if self._container:  # the API refuses a request without it while its own code waits for results
            own = body.get("container")
            body["container"] = {**own, "id": self._container["id"]} if isinstance(own, Mapping) else self._container["id"]
        if tools := self._offered(final):
            body["tools"] = tools
            if choice := self._choice(final):
                body["tool_choice"] = choice
        return body

    def take(self, reply: Reply, *, final: bool) -> Sequence[Call] | Then:
        """Decide by the reply's calls of our tools and its stop reason."""
        if not (reply.complete and self.writer.head):
            raise ModelError("the model's answer ended too soon, or has no beginning", status=200, kind="api_error")
        self._replies += 1
        self._container = reply.container or self._container
        self.usage = summed(self.usage, reply.usage_fields)
        self.loop.runner.context.known_urls |= known_addresses({"role": "assistant", "content": reply.content})
        own = [call for call in Call.of(reply) if call.name in OUR_NAMES.values()]
        if own and not final and reply.stop_reason not in ("max_tokens", "refusal", "model_context_window_exceeded"):
            return own
        for call in own:
            self._give(call, failed("max_uses_exceeded" if final else "invalid_tool_input"), reply)
        if own and final and reply.stop_reason == "tool_use" and not _handed_back(reply):
            self.writer.delta["stop_reason"] = "end_turn"
        self._outbox += self.writer.release()
        empty = all(block.get("type") in THINKING for block in reply.content)
        asked = with_nudge(self.loop.messages, FINAL_NUDGE)  # once, when results were followed by nothing at all
        self.done = not (empty and reply.stop_reason == "end_turn" and self._replies > 1 and asked != self.loop.messages)
        if self.done:
            return Then.DONE
        self.loop.messages = asked
        return Then.AGAIN

    def give(self, runner: CallRunner, calls: Sequence[Call]) -> Then:
        """Put the results into one user message, unless calls of the caller's tools are handed back with them."""
        reply = self.loop.reply
        results = [self._give(call, runner.outputs[call.id], reply) for call in calls]
        self._outbox += self.writer.release()
        if _handed_back(reply):
            self.done = True
            return Then.DONE
        for message in filter(None, (assistant_message(reply.content), {"role": "user", "content": results})):
            self.history.sources.count(message)
            self.loop.messages = [*self.loop.messages, message]
        # Other tools may still be needed after the limit of one; a second call beyond it is one too many.
        alone = len(self._places) < 2 and len(self.body.get("tools") or ()) <= len(self._places)
        refused = any(runner.outputs[call.id].error_code == "max_uses_exceeded" for call in calls)
        self._refusals += refused
        self.loop.final = self.loop.final or (refused and (alone or self._refusals > 1))
        return Then.AGAIN

    # --- requests -----------------------------------------------------------------------------------------------------

    def _offered(self, final: bool) -> list[Any]:
        """Return the tools of a request: ours in the places of the caller's, and those that only the history calls."""
        given = enumerate(self.body.get("tools") or ())
        if final and not self.platform.tool_choice:
            return [tool for n, tool in given if n not in self._places]
        made = [self._ours(self._places[n], tool) if n in self._places else tool for n, tool in given]
        return made + [self._ours(tool, {}) for tool in self.wanted if tool.index < 0]

    def _ours(self, tool: WebTool, given: Mapping[str, Any]) -> dict[str, Any]:
        marks = {"cache_control": given["cache_control"]} if given.get("cache_control") else {}
        return {**self.loop.runner.tools[OUR_NAMES[tool.kind]].definition(), **marks}

    def _choice(self, final: bool) -> Mapping[str, Any] | None:
        """Return the `tool_choice` of a request: the caller's, under our names, and let go once it was used."""
        if final or not self.body.get("tools"):
            return {"type": "none"} if self.platform.tool_choice else None
        choice = self.body.get("tool_choice")
        if not isinstance(choice, Mapping):
            return None
        named = next((t for t in self._places.values() if choice.get("type") == "tool" and t.name == choice.get("name")), None)
        # Claude Code forces its search on every model; those that cannot be forced are left the choice.
        ours = named or (choice.get("type") == "any" and len(self._places) == len(self.body["tools"]))
        forced = choice.get("type") in ("tool", "any")
        if forced and (self._replies or (ours and not forces_tools(str(self.body.get("model"))))):
            return {"type": "auto", **{k: v for k, v in choice.items() if k == "disable_parallel_tool_use"}}
        return {**choice, "name": OUR_NAMES[named.kind]} if named else choice

    def _marked(self) -> list[Message]:
        """Return the history with a cache breakpoint on its last block, if the caller caches and one of four places is left.

        Where the whole request is marked, the API sets that one itself.
        """
        caches = self.platform.caching and 0 < len(cache_marks(self.body)) < 4
        if self.body.get("cache_control") or not caches:
            return self.loop.messages
        *others, last = self.loop.messages
        *blocks, newest = last["content"]
        return [*others, {**last, "content": [*blocks, {**newest, "cache_control": CACHE_CONTROL}]}]

    def _give(self, call: Call, output: ToolOutput, reply: Reply) -> dict[str, Any]:
        """Take the output of a call; return the result for the model, made of that for the caller."""
        tool = next(tool for tool in self.wanted if OUR_NAMES[tool.kind] == call.name)
        natives, own_id = self.history.sources.natives, server_id(call.id, self._replies)
        if output.same_as:
            native = {**natives[output.same_as], "tool_use_id": own_id}
        else:
            native = result_block(tool.kind, own_id, output, cited=tool.citations.get("enabled", False))
            self.usage = summed(self.usage, {"server_tool_use": {f"web_{tool.kind}_requests": int(not output.is_error)}})
        natives[call.id] = native
        return self.history.render(call.id, given(native))


def summed(total: Any, usage: Any) -> Any:
    """Return the sum of two usage objects: counts are added, lists joined, all else is taken from the later one."""
    if isinstance(total, Mapping) and isinstance(usage, Mapping):
        return {**total, **{name: summed(total.get(name), value) for name, value in usage.items()}}
    if type(usage) in (int, list) and type(total) is type(usage):
        return total + usage
    return total if usage is None else usage


def known_addresses(message: Mapping[str, Any]) -> set[str]:
    """Return the addresses that a message made known: the user's, those of results, those the platform's own tools found."""
    if message["role"] == "user":
        return addresses_of(message)
    blocks = (block for block in blocks_of(message) if str(block.get("type")).endswith("_tool_result"))
    return {hit["url"] for block in blocks for hit in blocks_of(block) if isinstance(hit.get("url"), str)}


def _handed_back(reply: Reply) -> bool:
    """Return whether a reply calls tools of the caller's."""
    return any(block.get("type") == "tool_use" and not own_kind(block) for block in reply.content)
