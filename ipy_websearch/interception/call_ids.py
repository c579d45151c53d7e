"""The ids of the calls in a conversation: none twice. Pure.

Small servers give every call the same id, or count anew in each reply; results then would go to the wrong call.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class CallIds:
    """Keeps the ids of the history `messages`, of the replies that were taken, and of the one that comes in."""

    def __init__(self, messages: Iterable[Mapping[str, Any]] = ()) -> None:
        contents = [content for message in messages if isinstance(content := message.get("content"), list | tuple)]
        calls = [block for content in contents for block in content if isinstance(block, Mapping) and "id" in block]
        self._taken = {str(block["id"]) for block in calls if block.get("type") in ("tool_use", "server_tool_use")}
        self._coming: set[str] = set()

    def begin(self) -> None:
        """Say that a reply begins; what came of the one before is forgotten, unless it was taken."""
        self._coming = set()

    def take(self) -> None:
        """Take the reply that came."""
        self._taken |= self._coming

    def own(self, block: dict[str, Any]) -> dict[str, Any]:
        """Return a call with an id that no other has: its own, or its own with a number."""
        given = str(block.get("id"))
        made, n = given, 1
        while made in self._coming or made in self._taken:
            n += 1
            made = f"{given}_{n}"
        self._coming.add(made)
        return block if made == given else {**block, "id": made}
