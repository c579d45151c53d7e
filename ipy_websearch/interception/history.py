"""Histories in the native shape, taken apart into turns that a model without web tools of its own understands. Pure.

What was searched here comes back as real calls with real results, in the rounds in which they were made (a call's id names its
round), so nothing is searched twice. What the API's own tools once found cannot be read by anybody else and becomes text.
Calls of the caller's own tools stay open for the results that the caller sends.

The API ties thinking to all that stood before it. In a history that nobody edited it comes back in its place; where it does
not, the API refuses the request, and the same request goes up once more without thinking (see `run`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.interception.native import Block, Sources, given, native_kind, own_call, told
from ipy_websearch.interception.tools import OUR_NAMES, Kind
from ipy_websearch.model.requests import THINKING, Message, content_of, sendable
from ipy_websearch.tools.base import ToolOutput

# Writes the result that the model is given for the call of that id.
Render = Callable[[str, ToolOutput], Block]


def is_sound(messages: Any) -> bool:
    """Say whether messages have the form that is relied on here; what has not is for the API to refuse, in its own words."""
    return isinstance(messages, list) and all(
        isinstance(message, Mapping)
        and isinstance(message.get("role"), str)
        and (isinstance(content := message.get("content"), str) or _are_blocks(content))
        for message in messages
    )


def _are_blocks(content: Any) -> bool:
    return isinstance(content, list | tuple) and all(
        isinstance(block, Mapping)
        and isinstance(block.get("type"), str)
        and isinstance(block.get("text", ""), str)
        and (not isinstance(inner := block.get("content"), list | tuple) or _are_blocks(inner))
        and _are_mappings(block.get("citations") if block["type"] == "text" else None)
        for block in content
    )


def _are_mappings(values: Any) -> bool:
    return values is None or (isinstance(values, list | tuple) and all(isinstance(value, Mapping) for value in values))


def web_blocks(messages: Sequence[Mapping[str, Any]]) -> list[tuple[Kind, bool]]:
    """Return the calls and results of web tools in a history: the kind of each, and whether it was made here."""
    turns = (content_of(message) for message in messages if message["role"] == "assistant")
    return [(kind, own_call(block) is not None) for turn in turns for block in turn if (kind := native_kind(block))]


@dataclass(slots=True)
class Unpacked:
    """The history as the model gets it, in `messages`; `sources` has counted it and knows our results.

    `keep_foreign` leaves the API's own calls as they are, for the API.
    """

    render: Render
    keep_foreign: bool = False
    sources: Sources = field(default_factory=Sources)
    messages: list[Message] = field(default_factory=list)
    _turn: list[Block] = field(default_factory=list)
    _results: list[Block] = field(default_factory=list)
    _round: int = 0
    _calls: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def unpack(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Take the caller's history apart."""
        for message in messages:
            if message["role"] == "assistant" and not isinstance(message["content"], str):
                self._flush()
                self._take_apart(message["content"])
            elif self._results:  # of the reply before, whose other calls the caller answers here
                self._add(message["role"], [*self._results, *content_of(message)])
                self._results = []
            else:
                self._add(message["role"], message["content"])
        self._flush()

    def _add(self, role: str, content: Any) -> None:
        message = {"role": role, "content": content}
        self.sources.count(message)
        self.messages.append(message)

    def _flush(self) -> None:
        """End the running turn, and the results behind it."""
        if self._turn:
            self._add("assistant", self._turn)
        if self._results:
            self._add("user", self._results)
        self._turn, self._results = [], []

    def _take_apart(self, content: Sequence[Mapping[str, Any]]) -> None:
        answered = {b.get("tool_use_id") for b in content if str(b.get("type")).endswith("_tool_result")}
        for block in content:
            kind = native_kind(block)
            own = own_call(block) if kind else None
            if self._results and self._begins_turn(block, own):
                self._flush()
            if kind and own:
                self._own(block, kind, own, answered)
            elif kind and not self.keep_foreign:
                self._foreign(block)
            elif sendable(block):
                self._turn.append(self._with_citations(block))
        if self._turn:  # the results stay: calls of the caller's tools are answered in one message with them
            self._add("assistant", self._turn)
            self._turn = []

    def _begins_turn(self, block: Mapping[str, Any], own: tuple[int, str] | None) -> bool:
        """Say whether a block behind results is of the model's next reply. A call of the caller's tool that follows at once
        counts to the reply with our calls: apart from the thinking before it, it would be refused."""
        if own is not None:
            return block["type"] == "server_tool_use" and own[0] != self._round
        return block["type"] in THINKING or (block["type"] != "tool_use" and sendable(block))

    def _own(self, block: Mapping[str, Any], kind: Kind, own: tuple[int, str], answered: set[Any]) -> None:
        number, call_id = own
        kept = {name: block[name] for name in ("caller", "cache_control") if block.get(name)}
        if block["type"] == "server_tool_use":
            if block.get("id") in answered:  # a stream that was cut off may lack the result
                self._round, self._calls[call_id] = number, block
                called = {"id": call_id, "name": OUR_NAMES[kind], "input": block.get("input") or {}}
                self._turn.append({"type": "tool_use", **called, **kept})
        elif call_id in self._calls and call_id not in self.sources.natives:
            kept.pop("caller", None)
            self.sources.natives[call_id] = native = (block, self._calls[call_id])
            self._results.append({**self.render(call_id, given(*native)), **kept})

    def _foreign(self, block: Mapping[str, Any]) -> None:
        if block["type"] == "server_tool_use":
            self._calls[str(block.get("id"))] = block
        else:
            text = told(self._calls.get(str(block.get("tool_use_id")), {}), block)
            self._turn.append({"type": "text", "text": text})

    def _with_citations(self, block: Mapping[str, Any]) -> Block:
        """Return a text block with its citations as the model wrote them, without those that point to nothing any more."""
        if block.get("type") != "text" or not block.get("citations"):
            return dict(block)
        found = [(citation, self.sources.upstream(citation)) for citation in block["citations"]]
        kept = [dict(citation) if made is None else made for citation, made in found if made is not None or self.keep_foreign]
        bare = {name: value for name, value in block.items() if name != "citations"}
        return {**bare, "citations": kept} if kept else bare
