"""A history on its way to a model without web tools of its own: what was added, and whether thinking may be added to it.

The API takes thinking back behind just what it was made behind. Where that is remembered (`thoughts`), it is compared. Where
it is not (another process made it), thinking is left out once the history was altered; but not that of the turn under way
for what was altered before it: the model was sent that in the same form, and a call may not go back without its thinking.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.interception.sources import Sources
from ipy_websearch.interception.thoughts import FITS_NOWHERE, Trail
from ipy_websearch.loop.history import THINKING, Message, content_of
from ipy_websearch.model.platforms import Platform

Block = Mapping[str, Any]


@dataclass(slots=True)
class UpstreamHistory:
    """The history as far as it is taken apart.

    `altered` says that it is not what the replies were made up of; `altered_now` the same of the turn under way alone, once the
    `latest` has begun: what stands before that was altered in the same way when its thinking was made. `asked` has the calls by
    their ids, `given` the ids of the calls of ours that have results, `told` what other servers' results became.
    """

    platform: Platform
    keep_foreign: bool
    sources: Sources
    cited: bool = True
    altered: bool = False
    altered_now: bool = False
    latest: bool = False
    messages: list[Message] = field(default_factory=list)
    asked: dict[str, Block] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    told: list[Block] = field(default_factory=list)
    _trail: Trail = field(default_factory=Trail)

    def add(self, messages: list[Message]) -> None:
        """Add messages, and count what can be cited in them."""
        self.sources.count(messages)
        self.messages += messages

    def with_results(self, message: Block, pending: Sequence[Block]) -> Message:
        """Return the turn after calls with their results at its head; one that is no user's turn leaves them their own."""
        if message.get("role") != "user":
            self.add([{"role": "user", "content": list(pending)}])
            return dict(message)
        return {**message, "content": [*pending, *content_of(message)]}

    def alter(self, changed: bool = True) -> None:
        """Say that the history is no longer what it was made up of."""
        self.altered, self.altered_now = self.altered or changed, self.altered_now or changed

    def begin_latest(self) -> None:
        """Say that the user's last question is next: what follows is the turn under way, which needs its thinking."""
        self.latest, self.altered_now = True, False

    def takes(self, made_after: bytes | None, turn: Sequence[Block]) -> bool:
        """Say whether thinking that was made behind `made_after` (None: not known) may go behind a reply's blocks `turn`."""
        if made_after is None:
            return not self.altered_now
        if made_after == FITS_NOWHERE:
            return False
        trail = self._trail.at(self.messages)
        trail.add("assistant", turn)
        ours = self.altered or (not self.latest and bool(self.given or self.told))  # else the caller's own doing
        return made_after == trail.digest() or not ours

    def end_with_what_was_told(self) -> None:
        """Give what was told at the history's end as the user's: a model that answers may not find words of its own there."""
        last: Message = self.messages[-1] if self.messages else {"role": "user", "content": ""}
        blocks = content_of(last)
        told = [block for block in blocks if any(block is made for made in self.told)]
        if last["role"] != "assistant" or not told:
            return
        left = [block for block in blocks if not any(block is made for made in told)]
        while left and left[-1].get("type") in THINKING:
            left.pop()
        self.messages[-1:] = [*([{**last, "content": left}] if left else []), {"role": "user", "content": told}]
