"""How the fake examines a request: by the rules of the package's own fakes, and by what it has sent itself and wants back."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ipy_websearch.errors import ModelError
from ipy_websearch.model.offline.rules import Turn, check, everywhere, turns

NEWEST = "2026-10-21"
VERSIONS = ("2023-06-01", NEWEST)
SAMPLING = ("temperature", "top_p", "top_k")  # taken before the newest version
THINKING = ("thinking", "redacted_thinking")


def refuse(message: str, status: int = 400, kind: str = "invalid_request_error") -> NoReturn:
    """Refuse the request with this status, error type and message."""
    raise ModelError(message, status=status, kind=kind)


@dataclass(slots=True)
class Issued:
    """What the fake has sent so far and wants back unchanged: thinking by its signature, what stood before it and which calls
    followed, encrypted texts, and the turns that it paused."""

    thinking: dict[str, str] = field(default_factory=dict)
    encrypted: set[str] = field(default_factory=set)
    paused: list[list[str]] = field(default_factory=list)
    thinking_before: dict[str, list[str]] = field(default_factory=dict)
    bound_to: dict[str, str] = field(default_factory=dict)

    def note(self, message: dict[str, Any], body: dict[str, Any] | None = None) -> None:
        """Keep what is in a message that is being sent as the answer to `body`."""
        content: list[Any] = message["content"]
        sent = [block for turn in turns(body["messages"]) for _, block in turn.blocks] if body else []
        before: list[str] = []
        for at, block in enumerate(content):
            if block["type"] in THINKING:
                before.append(sign := _sign(block))
                self.thinking[sign] = block.get("thinking", "")
                if body is not None:
                    self.bound_to[sign] = _prefix(body, [*sent, *content[:at]])
            elif block["type"] == "tool_use":
                self.thinking_before[block["id"]] = list(before)
            self.encrypted.update(_encrypted_texts(block))
        if message.get("stop_reason") == "pause_turn":
            self.paused.append([_plain(block) for block in content])

    def examine(self, body: dict[str, Any]) -> None:
        """Raise `ModelError` when a request does not give back what was sent as it was sent."""
        said = turns(body["messages"])
        self._no_prefill(said[-1])
        before: list[Any] = []
        for path, block in (placed for turn in said for placed in turn.blocks):
            if block["type"] in THINKING:
                self._thinking(path, block, _prefix(body, before))
            before.append(block)
        self._nothing_dropped(said)
        for path, block in everywhere(said):
            if any(text not in self.encrypted for text in _encrypted_texts(block)):
                refuse(f"{path}: Invalid `encrypted_content` in `{block['type']}` block")

    def _no_prefill(self, last: Turn) -> None:
        """The last message is the user's, unless it resends a turn that the API had paused."""
        sent = [_plain(block) for _, block in last.blocks]
        if last.role == "assistant" and not any(paused and sent[-len(paused) :] == paused for paused in self.paused):
            refuse("This model does not support assistant message prefill. The conversation must end with a user message.")

    def _thinking(self, path: str, block: Any, before: str) -> None:
        sign, kind = _sign(block), block["type"]
        if sign not in self.thinking:
            refuse(f"{path}: Invalid `{'signature' if kind == 'thinking' else 'data'}` in `{kind}` block")
        if self.thinking[sign] != block.get("thinking", ""):
            refuse(f"{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.")
        if self.bound_to.get(sign, before) != before:
            refuse(f"{path}: the conversation before this `thinking` block differs from the one that it was produced in")

    def _nothing_dropped(self, said: list[Turn]) -> None:
        """No thinking of the newest turn with calls is missing while its results are given."""
        answered = [turn for turn in said if turn.role == "assistant" and turn.of("tool_use")]
        if not answered or not said[-1].of("tool_result"):
            return
        there = [_sign(block) for _, block in answered[-1].of(*THINKING)]
        for path, block in answered[-1].of("tool_use"):
            if missing := [sign for sign in self.thinking_before.get(block["id"], []) if sign not in there]:
                refuse(f"{path}: {len(missing)} `thinking` block(s) before this `tool_use` were left out")


def examine(body: dict[str, Any], issued: Issued, version: str = NEWEST) -> None:
    """Raise `ModelError` when a request breaks a rule of the API's version."""
    check({name: value for name, value in body.items() if version >= NEWEST or name not in SAMPLING})
    issued.examine(body)


def _sign(block: Any) -> str:
    return str(block.get("signature") or block.get("data"))


def _prefix(body: dict[str, Any], blocks: list[Any]) -> str:
    """Return what a thinking block is tied to: the instructions, the tools and all blocks before it."""
    return json.dumps(_bare([body.get("system"), body.get("tools"), blocks]), sort_keys=True)


def _bare(value: Any) -> Any:
    """Return a value without cache breakpoints and fields that are null."""
    if isinstance(value, dict):
        return {name: _bare(inner) for name, inner in value.items() if inner is not None and name != "cache_control"}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


def _plain(block: Any) -> str:
    """Return a block as text, without what a client may add or drop: cache_control and fields that are null."""
    return json.dumps({n: v for n, v in block.items() if v is not None and n != "cache_control"}, sort_keys=True)


def _encrypted_texts(block: Any) -> Iterator[str]:
    if block["type"] == "web_search_tool_result" and isinstance(block["content"], list):
        yield from (hit["encrypted_content"] for hit in block["content"])
    for citation in block.get("citations") or [] if block["type"] == "text" else []:
        if citation["type"] == "web_search_result_location":
            yield citation["encrypted_index"]
