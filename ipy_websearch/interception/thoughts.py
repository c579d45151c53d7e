"""What stood before the model's thinking when it was made, and what the model said behind it, as long as this process knows it.

The API ties thinking to all that stands before it, and takes it back behind nothing else. Whether a history that is sent back
gives just that cannot always be told from the history: results may be cited in one request and not in the next, what other
servers searched becomes words, a client leaves things out. So the newest thinking that came by is remembered, as digests alone.

What the API does not compare is not compared here either: breakpoints, fields that are null, whether neighbours of the same
role are one message, whether a text stands alone or as a block, and empty texts, which may not be sent back.
"""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from ipy_websearch.interception.rounds import mark_of
from ipy_websearch.loop.history import THINKING, content_of, sendable

Block = Mapping[str, Any]

KEPT = 4_096
"""Thinking blocks that are remembered, some hundred bytes each."""

FITS_NOWHERE = b""
"""What thinking is taken to be made behind that was refused."""

_REFUSED = re.compile(r"thinking\W{0,3} block|\bsignature\b")
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True, default=str).encode
_lock = threading.Lock()
_known: OrderedDict[bytes, Thought | None] = OrderedDict()


class Thought(NamedTuple):
    """A digest of what stood before a thinking block, and the marks (see `rounds`) of what follows it in the same reply."""

    before: bytes
    rest: tuple[str, ...]


class Trail:
    """Takes in a history message by message, as the API reads it."""

    def __init__(self) -> None:
        self._state = blake2b(digest_size=16)
        self._role = ""
        self._taken: list[Block] = []

    def at(self, messages: Sequence[Block]) -> Trail:
        """Return the trail of a history, to go on with. What the last one began with is not taken in again."""
        taken = self._taken
        if len(taken) > len(messages) or any(old is not new for old, new in zip(taken, messages, strict=False)):
            self._state, self._role, self._taken = blake2b(digest_size=16), "", []
        for message in messages[len(self._taken) :]:
            self.add(str(message.get("role")), content_of(message))
            self._taken.append(message)
        copy = Trail()
        copy._state, copy._role = self._state.copy(), self._role
        return copy

    def add(self, role: str, blocks: Sequence[Any]) -> None:
        """Take in blocks of one side."""
        for block in blocks:
            if isinstance(block, Mapping) and not sendable(block):
                continue
            turn = "" if role == self._role else f"\0{role}"
            self._role = role
            self._state.update(f"{turn}\n{_encode(_bare(block))}".encode("utf-8", "replace"))

    def digest(self) -> bytes:
        """Return what stands for all that was taken in."""
        return self._state.digest()


class Thoughts:
    """Remembers the thinking of one conversation's replies."""

    def __init__(self) -> None:
        self._trail = Trail()

    def note(self, messages: Sequence[Block], content: Sequence[Block]) -> None:
        """Remember the thinking of a reply with the blocks `content` to a request with the history `messages`."""
        if not any(block.get("type") in THINKING for block in content):
            return
        trail = self._trail.at(messages)
        for n, block in enumerate(content):
            if block.get("type") in THINKING:
                _remember(block, Thought(trail.digest(), tuple(mark_of(b) for b in content[n + 1 :] if sendable(b))))
            trail.add("assistant", [block])


def thought(block: Block) -> Thought | None:
    """Return what is known of a thinking block, None when it was made elsewhere, or too long ago."""
    with _lock:
        return _known.get(_key(block))


def refuses_thinking(status: int, said: str) -> bool:
    """Say whether an answer is the API's to thinking that is not as it was, or not where it was (not: that is missing)."""
    return status == 400 and "Expected" not in said and bool(_REFUSED.search(said))


def forget(messages: Sequence[Block]) -> None:
    """Take the thinking in messages that were refused for one that fits nowhere, as far as nothing else is known of it."""
    for message in messages:
        content = message.get("content")
        for block in content if isinstance(content, list) else ():
            if block.get("type") in THINKING and thought(block) is None:
                _remember(block, Thought(FITS_NOWHERE, ()))


def _remember(block: Block, made: Thought) -> None:
    key = _key(block)
    with _lock:
        # Small servers sign nothing: the same words of two replies then say nothing.
        _known[key] = None if _known.get(key, made) != made else made
        _known.move_to_end(key)
        while len(_known) > KEPT:
            _known.popitem(last=False)


def _key(block: Block) -> bytes:
    said = "\0".join(str(block.get(name) or "") for name in ("type", "signature", "data", "thinking"))
    return blake2b(said.encode("utf-8", "replace"), digest_size=16).digest()


def _bare(value: Any) -> Any:
    """Return a value without breakpoints and fields that say nothing."""
    if isinstance(value, Mapping):
        left = {name: _bare(inner) for name, inner in value.items() if inner is not None and name != "cache_control"}
        return {name: inner for name, inner in left.items() if name != "citations" or inner != []}
    return [_bare(inner) for inner in value] if isinstance(value, list | tuple) else value
