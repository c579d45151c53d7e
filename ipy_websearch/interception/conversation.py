"""One call of the caller as the conversation that it becomes: what to send next, and what the caller gets. Pure.

The state lives in one object for each call, so that whatever is sent again is the newest request alone: what was searched
and paid for is never repeated. Its rules are those of `%%ask`: results go back in one message, a limit never ends in
silence, a forced choice of the tool is let go once it was used, and the last request asks for words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.interception.breakpoints import on_newest_results
from ipy_websearch.interception.call_ids import CallIds
from ipy_websearch.interception.choice import tool_choice
from ipy_websearch.interception.detection import EVERY_NAME, FETCH_NAME, SEARCH_NAME, UPSTREAM_NAMES, Bounds, Kind, Wanted
from ipy_websearch.interception.reading import error_output, given_output, packed_facts
from ipy_websearch.interception.references import renamed_edits
from ipy_websearch.interception.rounds import after_last_call
from ipy_websearch.interception.shape import Block, result_block, server_id, server_tool_use, summed, upstream_result
from ipy_websearch.interception.sources import Sources
from ipy_websearch.interception.thoughts import Thoughts
from ipy_websearch.interception.url_sources import found_natively
from ipy_websearch.loop.calls import Call, CallRunner
from ipy_websearch.loop.history import THINKING, Message, assistant_message, with_nudge, without_newest_results
from ipy_websearch.loop.prompts import FINAL_NUDGE
from ipy_websearch.model.containers import wanted_container, with_container
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.stream import Reply, container_in
from ipy_websearch.tools.base import ToolOutput

MAX_ROUNDS, MOST_ROUNDS = 10, 48
"""Rounds of calls that one call of the caller may have: the API's own loop pauses after as many (platform.claude.com/docs, read
2026-11). A tool's `max_uses` may ask for more, up to the second. Two requests follow: a call too many, and the answer."""

PATIENCE = 3
"""Refused calls of a tool that is only defined for the history's sake, after which all tools are taken away."""

_CUT = ("max_tokens", "refusal", "model_context_window_exceeded")

Grant = Callable[[Mapping[str, Any], bool], int | None]


@dataclass(slots=True)
class Conversation:
    """A call under way. `body` is the caller's request, `messages` its history as the model gets it.

    `cited` says whether results may be cited, `grant` how many tokens the next request may write (None: no money is left
    for it; 0: as many as the caller wanted, who only fills the cache). `container` is what the platform ran code in last.
    """

    body: Mapping[str, Any]
    wanted: Wanted
    messages: list[Message]
    platform: Platform
    runner: CallRunner
    bounds: Bounds
    sources: Sources
    cited: bool = True
    grant: Grant | None = None
    requests: int = 0
    content: list[Block] = field(default_factory=list)
    head: dict[str, Any] = field(default_factory=dict)
    tail: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    searches: int = 0
    fetches: int = 0
    calls: list[Call] = field(default_factory=list)
    done: bool = False
    container: Mapping[str, Any] | None = None
    results: dict[str, Block] = field(default_factory=dict)
    ids: CallIds = field(init=False)
    thoughts: Thoughts = field(default_factory=Thoughts)
    _final: bool = False
    _refusals: int = 0
    _nudged: bool = False
    _reply: Reply = field(default_factory=Reply)
    _outputs: dict[str, ToolOutput] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.ids = CallIds(self.messages)

    # --- what is sent -----------------------------------------------------------------------------------------------

    def request(self) -> dict[str, Any] | None:
        """Return the body of the next request, None when no money is left for one (`done` is set then)."""
        rounds = max([MAX_ROUNDS, *(bounds.max_uses or 0 for bounds in self.wanted.bounds.values())])
        self._final = self._final or self.requests > min(rounds, MOST_ROUNDS)
        body = self.draft()
        if self.grant:
            granted = self.grant(body, self._final)
            while granted is None and self._made_smaller():
                body = self.draft()
                granted = self.grant(body, True)
            if granted is None:
                self._end({"delta": {"stop_reason": "pause_turn", "stop_sequence": None}})
                self.done = True
                return None
            body = {**body, "max_tokens": granted} if body.get("max_tokens") else body
        self.requests += 1
        return body

    def _made_smaller(self) -> bool:
        """Make the next request the last one or, where it is, leave the newest results out of it; say whether that was done."""
        if not self._final:
            self._final = True
            return True
        smaller = without_newest_results(self.messages, self._left_out) if self.requests else None
        self.messages = smaller or self.messages
        return smaller is not None

    def _left_out(self, call_id: str) -> Block:
        reason = f"Left out: {self.runner.meter.explain('budget')}."
        output = ToolOutput(summary=reason, text=reason, is_error=True)
        return upstream_result(call_id, output, self.platform, cited=self.cited)

    def draft(self) -> dict[str, Any]:
        """Return the body of the next request as it stands; nothing is counted or reserved."""
        body = {name: value for name, value in self.body.items() if name != "stream"}
        body["messages"] = on_newest_results(self.messages, self.body, self.platform) if self.requests else self.messages
        if self.requests:
            body.pop("fallback_credit_token", None)  # it is for the refused request again, and for no other
        if self.container:
            body["container"] = wanted_container(body.get("container"), self.container)
        if edits := body.get("context_management"):
            body["context_management"] = renamed_edits(edits, self.wanted.upstream)
        offered = not self._final or self.platform.tool_choice
        tools = [*self.wanted.others, *(self._definitions() if offered else ())]
        body.pop("tools", None)
        if tools:
            body["tools"] = tools
        choice = self._tool_choice()
        body.pop("tool_choice", None)
        if choice is not None and tools:
            body["tool_choice"] = choice
        return body

    def _definitions(self) -> list[dict[str, Any]]:
        return self.wanted.defined(tool.definition() for tool in self.runner.tools.values())

    def _tool_choice(self) -> Mapping[str, Any] | None:
        if self._final:
            return {"type": "none"} if self.platform.tool_choice else None
        return tool_choice(self.body, self.wanted, first=not self.requests)

    # --- what comes back --------------------------------------------------------------------------------------------

    def open(self, message: Mapping[str, Any]) -> bool:
        """Take the head of a reply; return whether it is the first one, which gives the whole its id and model."""
        first = not self.head
        self.container = container_in(message) or self.container
        if first:
            self.head = {**message, "content": [], "stop_reason": None, "stop_sequence": None}
        return first

    def under_our_name(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a block of a reply; a call by the caller's name for a tool of ours is one of ours (models remember names)."""
        if block.get("type") != "tool_use":
            return block
        block = self.ids.own(block)
        if _is_own(block):
            return block
        name = str(block.get("name"))
        kind = self.wanted.names.get(name) or EVERY_NAME.get(name)
        if kind not in self.wanted.bounds or any(tool.get("name") == name for tool in self.wanted.others):
            return block
        return {**block, "name": SEARCH_NAME if kind == "search" else FETCH_NAME}

    def take(self, reply: Reply, tail: Mapping[str, Any]) -> list[Call]:
        """Take a whole reply; return the calls to run. Without any, `done` says whether it was the last reply."""
        self._reply, self.results = reply, {}
        self._end(tail)
        self.ids.take()
        self.thoughts.note(self.messages, reply.content)
        self.usage = summed(self.usage, reply.usage_fields)
        if fetch := self.wanted.bounds.get("fetch"):  # the platform's own search may have found what is to be read
            self.runner.context.known_urls.update(found_natively(reply.content, fetch.sources))
        own = [b for b in reply.content if _is_own(b)]
        if own and reply.stop_reason not in _CUT and not (self._final and self.platform.tool_choice):
            names = reply.malformed
            self.calls = [Call(str(b["id"]), str(b["name"]), b.get("input") or {}, str(b["id"]) in names) for b in own]
            return self.calls
        self.calls = []
        for block in own:
            self._refuse(block, "max_uses_exceeded" if self._final else "invalid_tool_input")
        if own and self._final and reply.stop_reason == "tool_use" and not self._handed_back():
            self.tail = {**self.tail, "delta": {**self.tail.get("delta", {}), "stop_reason": "end_turn"}}
        self._keep_content()
        self.done = not self._ask_for_words()
        return []

    def _end(self, tail: Mapping[str, Any]) -> None:
        """Take what ends a reply; the caller's message ends with that of the last one."""
        self.container = container_in(tail) or self.container
        self.tail = with_container(tail, self.container) if self.container else dict(tail)

    def give(self, outputs: Mapping[str, ToolOutput]) -> dict[str, Block]:
        """Take the outputs of the calls; return the native result of each, by the call's id."""
        self._outputs.update({call_id: output for call_id, output in outputs.items() if not output.same_as})
        refused, patience, given = False, 0, dict[str, ToolOutput]()
        for call in self.calls:
            same_as = outputs[call.id].same_as
            output = self._outputs.get(same_as) or outputs[call.id]
            kind = UPSTREAM_NAMES[call.name]
            native = self._native(call.id, kind, output, same_as)
            self.results[call.id] = native
            given[call.id] = given_output(output, native, same_as)
            if output.error_code == "max_uses_exceeded":
                refused = True
                patience = max(patience, PATIENCE if self.wanted.bounds[kind].max_uses == 0 else 1)
            elif not output.is_error and output is outputs[call.id]:
                self.searches += kind == "search"
                self.fetches += kind == "fetch"
        self._keep_content()
        if self._handed_back():
            self.done = True
        else:
            self._answer(given)
            # Other tools may still be needed after the limit; a second call beyond it is one too many.
            alone = not self.wanted.others and sum(b.max_uses != 0 for b in self.wanted.bounds.values()) < 2
            self._final = refused and (alone or self._refusals >= patience)
            self._refusals += refused
        return self.results

    def _answer(self, outputs: Mapping[str, ToolOutput]) -> None:
        turn = assistant_message(self._reply.content)
        results = [upstream_result(call.id, outputs[call.id], self.platform, cited=self.cited) for call in self.calls]
        added = [*([turn] if turn else []), {"role": "user", "content": results}]
        self.sources.count(added)
        self.messages += added

    def _handed_back(self) -> bool:
        return any(b.get("type") == "tool_use" and not _is_own(b) for b in self._reply.content)

    def _refuse(self, block: Mapping[str, Any], code: str) -> None:
        """Give a call its error without running it, so that no call is left without a result."""
        call_id = str(block["id"])
        self.results[call_id] = self._native(call_id, UPSTREAM_NAMES[str(block["name"])], error_output(code))

    def _native(self, call_id: str, kind: Kind, output: ToolOutput, same_as: str = "") -> Block:
        facts = packed_facts(same_as, after_last_call(self._reply.content).get(call_id), cited=self.cited)
        made = result_block(kind, server_id(call_id, self.requests), output, self.bounds, facts)
        caller = next((block.get("caller") for block in self._reply.content if block.get("id") == call_id), None)
        return {**made, "caller": caller} if caller else made

    def _keep_content(self) -> None:
        for block in self._reply.content:
            if self.hides(block):
                continue
            if _is_own(block):
                self.content += [server_tool_use(block, self.requests), self.results[str(block["id"])]]
            elif block.get("type") == "text":
                self.content.append(self.sources.text_block(block))
            else:
                self.content.append(dict(self.wanted.for_caller(block)))

    def _ask_for_words(self) -> bool:
        """Ask once more when results were followed by nothing at all; say whether that was done."""
        empty = not any(b.get("type") not in THINKING for b in self._reply.content)
        if not (empty and self._reply.stop_reason == "end_turn" and self.results_given) or self._nudged:
            return False
        self._nudged = True
        self.messages = with_nudge(self.messages, FINAL_NUDGE)
        return True

    def hides(self, block: Mapping[str, Any]) -> bool:
        """Whether the caller does not get a block: thinking after the request for words, which the caller never saw.

        The API ties thinking to all that stood before it, and would refuse it where that request is missing.
        """
        return self._nudged and block.get("type") in THINKING

    @property
    def results_given(self) -> bool:
        """Whether any call was run in this conversation."""
        return bool(self._outputs)

    # --- what the caller gets ---------------------------------------------------------------------------------------

    def message(self) -> dict[str, Any]:
        """Return the finished message."""
        rest = {name: value for name, value in self.tail.items() if name not in ("delta", "usage", "type")}
        return {**self.head, **rest, "content": self.content, **self.tail.get("delta", {}), "usage": self.total_usage()}

    def total_usage(self) -> dict[str, Any]:
        """Return the usage of all requests together, with the calls that were run here as server tool uses."""
        ran = {"web_search_requests": self.searches, "web_fetch_requests": self.fetches}
        return {**self.usage, "server_tool_use": summed(ran, self.usage.get("server_tool_use") or {})}


def _is_own(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_use" and block.get("name") in UPSTREAM_NAMES


__all__ = ["Conversation"]
