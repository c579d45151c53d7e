"""Takes replies in the native shape apart again, into turns that a model without web tools of its own understands. Pure.

What was searched here comes back as it was: real calls with real results, in the rounds in which they were made, so that
nothing is searched twice and thinking stays where it was. Results that only look like ours (made up, altered, or from
another installation) are none: what was asked and the titles that were named are all the model is told; a page, whose text
comes in the clear, is plain text then. Calls that the API itself once ran are told as text, since their results cannot be
read by anybody else. Calls of the caller's own tools stay open for the results that the caller sends. Cache breakpoints stay
on what they were set on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.interception.breakpoints import in_order, of_block
from ipy_websearch.interception.detection import FETCH_NAME, SEARCH_NAME, UPSTREAM_NAMES
from ipy_websearch.interception.opaque import MARK
from ipy_websearch.interception.reading import read_result, told
from ipy_websearch.interception.references import renamed_in
from ipy_websearch.interception.rounds import rest_after
from ipy_websearch.interception.shape import own_call, upstream_result
from ipy_websearch.interception.sources import Sources
from ipy_websearch.interception.thoughts import thought
from ipy_websearch.interception.upstream_history import UpstreamHistory
from ipy_websearch.loop.history import THINKING, Message, content_of, is_question, sendable
from ipy_websearch.model.platforms import Platform

Block = Mapping[str, Any]
_NAMES = ("web_search", "web_fetch")
_RESULTS = ("web_search_tool_result", "web_fetch_tool_result")


def has_native(messages: Sequence[Block]) -> bool:
    """Say whether a history holds calls or results of server tools for the web, or citations of them."""
    return any(_is_native(block) for message in messages for block in _assistant_blocks(message))


def has_own(messages: Sequence[Block]) -> bool:
    """Say whether a history holds calls that were made here, or citations of what was found here."""
    return any(
        own_call(block.get("id")) if block.get("type") == "server_tool_use" else _cites_own(block)
        for message in messages
        for block in _assistant_blocks(message)
    )


def called_here(messages: Sequence[Block]) -> set[str]:
    """Return the names, as the caller has them, of the web tools whose calls in a history were made here."""
    calls = (block for message in messages for block in _assistant_blocks(message) if block.get("type") == "server_tool_use")
    return {str(block.get("name")) for block in calls if own_call(block.get("id"))}


def expanded(
    messages: Sequence[Block],
    platform: Platform,
    *,
    keep_foreign: bool,
    sources: Sources,
    cited: bool = True,
    names: Mapping[str, str] | None = None,
) -> list[Message]:
    """Return a history in which every call that was made here is a real call with its result; `sources` counts it.

    `keep_foreign` leaves the API's own calls as they are, for the API; otherwise they become text. `cited` False gives results
    that may not be cited. `names` has the caller's names of the tools that are run here, and ours for each: references to
    them (see `references`) are given ours.
    """
    messages = [renamed_in(message, names) for message in messages] if names else messages
    history = UpstreamHistory(platform, keep_foreign, sources, cited)
    if not has_native(messages) and not any(_cites(block) for m in messages for block in _assistant_blocks(m)):
        history.add([dict(message) for message in messages])
        return history.messages
    pending: list[dict[str, Any]] = []
    joined = _joined(messages)
    latest = max((n for n, message in enumerate(joined) if is_question(message)), default=0)
    for n, message in enumerate(joined):
        if n == latest:
            history.begin_latest()
        if pending:
            message = history.with_results(message, pending)
        parts = _assistant_blocks(message)
        pending = _Turns(history).take(parts) if parts else []
        if not parts and message:
            history.add([dict(message)])
    if pending:
        history.add([{"role": "user", "content": pending}])
    history.end_with_what_was_told()
    return history.messages


def _assistant_blocks(message: Block) -> Sequence[Block]:
    content = message.get("content")
    if message.get("role") != "assistant" or isinstance(content, str) or not content:
        return ()
    return [block for block in content if isinstance(block, Mapping)]


def _joined(messages: Sequence[Block]) -> list[Block]:
    """Return the messages with neighbours of the assistant as one: a call may stand apart from its result.

    The API combines them too (anthropic 2.11 `types/message_create_params.py`, read 2026-11).
    """
    joined: list[Block] = []
    for message in messages:
        if joined and message.get("role") == joined[-1].get("role") == "assistant":
            message = {**message, "content": [*content_of(joined.pop()), *content_of(message)]}
        joined.append(message)
    return joined


def _is_native(block: Block) -> bool:
    kind = block.get("type")
    if kind == "server_tool_use":
        return block.get("name") in _NAMES
    return kind in _RESULTS or (kind == "text" and any(c.get("encrypted_index") for c in block.get("citations") or ()))


def _cites(block: Block) -> bool:
    return block.get("type") == "text" and bool(block.get("citations"))


def _cites_own(block: Block) -> bool:
    return _cites(block) and any(str(citation.get("encrypted_index")).startswith(MARK) for citation in block["citations"])


class _Turns:
    """Takes one message apart into the turns that it was made of; they are added to the history.

    A turn ends where the model's reply ended: behind its last call and what followed that in the same reply.
    """

    def __init__(self, history: UpstreamHistory) -> None:
        self._history = history
        self._turn: list[Block] = []
        self._results: list[dict[str, Any]] = []
        self._open = 0
        self._round: int | None = None
        self._rest: tuple[str, ...] | None = None
        self._said: tuple[str, ...] = ()
        self._silent = False
        self._answered: set[int] = set()
        self._last: dict[int, int] = {}

    def take(self, content: Sequence[Block]) -> list[dict[str, Any]]:
        """Take a message's blocks in; return the results that belong into the user's turn after it."""
        self._answered = _answered(content)
        self._last = {own[0]: n for n in sorted(self._answered) if (own := own_call(content[n].get("id")))}
        for n, block in enumerate(content):
            kind = block.get("type")
            if self._results and not self._goes_on(n, block):
                self._flush()
            if kind == "server_tool_use" and block.get("name") in _NAMES:
                self._call(block, n in self._answered)
            elif kind in _RESULTS:
                self._give(n, block)
            elif kind == "tool_use":
                self._turn.append(block)
            else:
                self._plain(block)
        if self._turn:
            self._history.add([{"role": "assistant", "content": self._turn}])
        return in_order(self._results, self._turn)

    def _goes_on(self, n: int, block: Block) -> bool:
        """Say whether a block behind results belongs to the reply with their calls."""
        handed_back = any(b.get("type") == "tool_use" and b.get("name") not in UPSTREAM_NAMES for b in self._turn)
        if self._open or handed_back or not sendable(block):
            return True
        if self._rest is not None:
            rest = rest_after(block, self._rest)
            self._rest = self._rest if rest is None else rest
            return rest is not None
        if n <= self._last.get(self._round or 0, -1):
            return True
        if block.get("type") != "tool_use" or n < max(self._last.values(), default=-1):
            return False  # the reply with a call for the caller ends its message
        # Nothing says so. Torn off the thinking before it, a call would be refused.
        return self._silent or any(b.get("type") in THINKING for b in self._turn)

    def _flush(self) -> None:
        results = in_order(self._results, self._turn)
        self._history.add([{"role": "assistant", "content": self._turn}, {"role": "user", "content": results}])
        self._turn, self._results, self._round, self._rest, self._said = [], [], None, None, ()

    def _call(self, block: Block, answered: bool) -> None:
        own = own_call(block.get("id"))
        if own is None:
            self._history.asked[str(block.get("id"))] = block
            if self._history.keep_foreign:
                self._plain(block)
            return
        if not answered:
            self._history.alter()
            return
        self._history.asked[str(block.get("id"))] = block
        self._round, self._open = own[0], self._open + 1
        name = SEARCH_NAME if block.get("name") == "web_search" else FETCH_NAME
        call = {"type": "tool_use", "id": own[1], "name": name, "input": block.get("input") or {}}
        if caller := block.get("caller"):
            call["caller"] = caller
        self._turn.append({**call, **of_block(block)})

    def _give(self, n: int, block: Block) -> None:
        history, call_id = self._history, str(block.get("tool_use_id"))
        asked, own = history.asked.get(call_id, {}), own_call(call_id)
        if own is not None and n not in self._answered:
            history.alter()
        elif own is not None:
            read, cited = read_result(asked, block, history.given), history.cited
            history.given.add(own[1])
            citable = bool(read.output.passages) and history.platform.search_results
            history.alter(not read.same or (citable and read.cited != cited))
            result = upstream_result(own[1], read.output, history.platform, cited=cited)
            self._results.append({**result, **of_block(block)})
            self._open, self._rest, self._silent = self._open - 1, read.rest, _is_silent(block, read.rest)
            if read.rest is None and n >= self._last.get(self._round or 0, n):
                self._rest = rest_after({"type": "tool_use", "id": own[1]}, self._said)
        elif history.keep_foreign:
            self._plain(block)
        else:
            history.alter()
            history.told.append({"type": "text", "text": told(asked, block), **of_block(asked), **of_block(block)})
            self._plain(history.told[-1])

    def _plain(self, block: Block) -> None:
        kind = block.get("type")
        if kind in THINKING:  # the API ties it to what stood before it
            made = thought(block)
            self._said = made.rest if made else ()
            if not self._history.takes(made.before if made else None, self._turn):
                return
        if kind == "text":
            if not str(block.get("text") or "").strip():
                return
            if block.get("citations"):
                block = self._with_citations(block)
        self._turn.append(block)

    def _with_citations(self, block: Block) -> Block:
        """Return a text block with its citations as the model wrote them, without those that point to nothing any more."""
        kept = [found for citation in block["citations"] if (found := self._citation(citation)) is not None]
        block = {name: value for name, value in block.items() if name != "citations"}
        return {**block, "citations": kept} if kept else block

    def _citation(self, citation: Block) -> Block | None:
        index = citation.get("encrypted_index")
        own = isinstance(index, str) and index.startswith(MARK)
        if index is not None and not own:
            return citation if self._history.keep_foreign else None
        found = None if own and not self._history.cited else self._history.sources.upstream(citation)
        self._history.alter(found is None or found.moved)
        return None if found is None else found.citation


def _answered(content: Sequence[Block]) -> set[int]:
    """Return the places of the calls made here that have a result behind them, and of these results; each counts once."""
    places: set[int] = set()
    calls: dict[str, int] = {}
    for n, block in enumerate(content):
        kind = block.get("type")
        if kind == "server_tool_use" and block.get("name") in _NAMES and own_call(block.get("id")):
            calls.setdefault(str(block["id"]), n)
        elif kind in _RESULTS and (call := calls.get(str(block.get("tool_use_id")))) is not None and call not in places:
            places |= {call, n}
    return places


def _is_silent(result: Block, rest: Sequence[str] | None) -> bool:
    """Say whether a result could say what follows it, and does not: it was packed before results said so."""
    content = result.get("content")
    return rest is None and bool(content) and not (isinstance(content, Mapping) and content.get("error_code"))
