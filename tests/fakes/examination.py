"""How the fake examines a request: the request in a form that rules can read, and the list of rules.

A rule is a function in `rules.py` or `rules_tools.py`; they run in the order of their definition and the first that refuses
decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NoReturn

NEWEST = "2026-10-21"
VERSIONS = ("2023-06-01", NEWEST)


class Refused(Exception):
    """The request is refused with this status, error type and message."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error"):
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind


def refuse(message: str, status: int = 400, kind: str = "invalid_request_error") -> NoReturn:
    """Raise `Refused`."""
    raise Refused(message, status, kind)


@dataclass(slots=True)
class Issued:
    """What the fake has sent so far and wants back unchanged."""

    thinking: dict[str, str] = field(default_factory=dict)
    encrypted: set[str] = field(default_factory=set)
    paused: list[list[str]] = field(default_factory=list)
    thinking_before: dict[str, list[str]] = field(default_factory=dict)
    bound_to: dict[str, str] = field(default_factory=dict)

    def note(self, message: dict[str, Any], body: dict[str, Any] | None = None) -> None:
        """Keep the signatures, encrypted texts and paused turns of a message that is being sent as the answer to `body`."""
        before: list[str] = []
        if body is not None:
            sent = [block for turn in Call(body, self).turns for _, block in turn.blocks]
            for at, block in enumerate(message["content"]):
                if sign := block.get("signature") if block["type"] == "thinking" else block.get("data"):
                    self.bound_to[sign] = prefix(body, [*sent, *message["content"][:at]])
        for block in message["content"]:
            if block["type"] == "thinking":
                self.thinking[block["signature"]] = block["thinking"]
                before.append(block["signature"])
            elif block["type"] == "redacted_thinking":
                self.thinking[block["data"]] = ""
                before.append(block["data"])
            elif block["type"] == "tool_use":
                self.thinking_before[block["id"]] = list(before)
            self.encrypted.update(encrypted_texts(block))
        if message.get("stop_reason") == "pause_turn":
            self.paused.append([plain(block) for block in message["content"]])


@dataclass
class Call:
    """One request under examination."""

    body: dict[str, Any]
    issued: Issued
    version: str = NEWEST
    beta: bool = False

    @cached_property
    def turns(self) -> list[Turn]:
        """The messages, neighbours of the same role merged, as the API merges them."""
        turns: list[Turn] = []
        for number, message in enumerate(self.body["messages"]):
            if not turns or turns[-1].role != message["role"]:
                turns.append(Turn(message["role"], number))
            content = message["content"]
            blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
            turns[-1].blocks += [(f"messages.{number}.content.{i}", block) for i, block in enumerate(blocks)]
        return turns

    def everywhere(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (path, block) for every block of the messages, those inside tool results after their result."""
        for turn in self.turns:
            for path, block in turn.blocks:
                yield path, block
                if block["type"] == "tool_result" and isinstance(block.get("content"), list):
                    yield from ((f"{path}.tool_result.content.{i}", b) for i, b in enumerate(block["content"]))


@dataclass(slots=True)
class Turn:
    """All that one side said in a row; `number` is its first message's."""

    role: str
    number: int
    blocks: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def of(self, *kinds: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the blocks of these types with their paths."""
        return [(path, block) for path, block in self.blocks if block["type"] in kinds]

    def results(self) -> set[str]:
        """Return the ids that blocks of this turn answer."""
        return {block["tool_use_id"] for _, block in self.blocks if block["type"].endswith("tool_result")}


Rule = Callable[[Call], None]
SINCE_2026_10_21: set[Rule] = set()
_rules: dict[str, list[Rule]] = {"rules": [], "rules_tools": []}


def rule(function: Rule) -> Rule:
    """Add a function to the rules of its module, in the order of their definition."""
    _rules[function.__module__.rsplit(".", 1)[-1]].append(function)
    return function


def all_rules() -> list[Rule]:
    """Return all rules in the order in which they are asked: fields and messages, then tools."""
    from tests.fakes import rules, rules_tools  # noqa: F401  (importing them fills the lists)

    return [check for checks in _rules.values() for check in checks]


def since_2026_10_21(function: Rule) -> Rule:
    """Add a rule that only holds from that API version on."""
    SINCE_2026_10_21.add(function)
    return rule(function)


def examine(call: Call) -> None:
    """Raise `Refused` when a rule of the request's API version is broken."""
    for check in all_rules():
        if call.version >= NEWEST or check not in SINCE_2026_10_21:
            check(call)


def prefix(body: dict[str, Any], blocks: list[dict[str, Any]]) -> str:
    """Return what a thinking block is tied to: the instructions, the tools and all blocks before it."""
    return json.dumps(_bare([body.get("system"), body.get("tools"), blocks]), sort_keys=True)


def _bare(value: Any) -> Any:
    """Return a value without cache breakpoints and fields that are null."""
    if isinstance(value, dict):
        return {name: _bare(inner) for name, inner in value.items() if inner is not None and name != "cache_control"}
    return [_bare(inner) for inner in value] if isinstance(value, list) else value


def plain(block: dict[str, Any]) -> str:
    """Return a block as text, without what a client may add or drop: cache_control and fields that are null."""
    kept = {name: value for name, value in block.items() if value is not None and name != "cache_control"}
    return json.dumps(kept, sort_keys=True)


def encrypted_texts(block: dict[str, Any]) -> Iterator[str]:
    """Yield the encrypted texts that a block carries."""
    if block["type"] == "web_search_tool_result" and isinstance(block["content"], list):
        yield from (hit["encrypted_content"] for hit in block["content"])
    for citation in block.get("citations") or [] if block["type"] == "text" else []:
        if citation["type"] == "web_search_result_location":
            yield citation["encrypted_index"]
