"""Takes replies in the native shape apart again, into turns that a model without web tools of its own understands. Pure.

What was searched here comes back as it was: real calls with real results, in the rounds in which they were made, so that
nothing is searched twice and thinking stays where it was. Calls that the API itself once ran are told as text, since their
results cannot be read by anybody else. Calls of the caller's own tools stay open for the results that the caller sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.interception.detection import FETCH_NAME, SEARCH_NAME
from ipy_websearch.interception.opaque import MARK, unpack
from ipy_websearch.interception.shape import own_call
from ipy_websearch.loop.history import Message
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.requests import tool_result
from ipy_websearch.text import plain
from ipy_websearch.tools.base import Passage, ToolOutput
from ipy_websearch.tools.blocks import blocks

Block = Mapping[str, Any]
_RESULTS = ("web_search_tool_result", "web_fetch_tool_result")


def has_native(messages: Sequence[Block]) -> bool:
    """Say whether a history holds calls or results of server tools for the web, or citations of them."""
    return any(_is_native(block) for message in messages for block in _assistant_blocks(message))


def has_own(messages: Sequence[Block]) -> bool:
    """Say whether a history holds calls that were made here."""
    return any(
        block.get("type") == "server_tool_use" and own_call(block.get("id"))
        for message in messages
        for block in _assistant_blocks(message)
    )


def expanded(messages: Sequence[Block], platform: Platform, *, keep_foreign: bool) -> list[Message]:
    """Return a history in which every call that was made here is a real call with its result.

    `keep_foreign` leaves the API's own calls as they are, for the API; otherwise they become text.
    """
    if not has_native(messages):
        return [dict(message) for message in messages]
    result: list[Message] = []
    pending: list[Block] = []
    for message in messages:
        if pending:
            message = _with_results(message, pending, result)
            pending = []
        parts = _assistant_blocks(message)
        if any(_is_native(block) for block in parts):
            pending = _Turns(result, platform, keep_foreign).take(parts)
        elif message:
            result.append(dict(message))
    if pending:
        result.append({"role": "user", "content": pending})
    return result


def _with_results(message: Block, pending: Sequence[Block], result: list[Message]) -> Message:
    """Return the turn after calls with their results at its head; where it is no user's turn, the results get their own."""
    if message.get("role") != "user":
        result.append({"role": "user", "content": list(pending)})
        return dict(message)
    content = message.get("content")
    rest = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    return {**message, "content": [*pending, *rest]}


def _assistant_blocks(message: Block) -> Sequence[Block]:
    content = message.get("content")
    if message.get("role") != "assistant" or isinstance(content, str) or not content:
        return ()
    return [block for block in content if isinstance(block, Mapping)]


def _is_native(block: Block) -> bool:
    kind = block.get("type")
    if kind == "server_tool_use":
        return block.get("name") in ("web_search", "web_fetch")
    return kind in _RESULTS or (kind == "text" and any(_is_web(c) for c in block.get("citations") or ()))


def _is_web(citation: Block) -> bool:
    return citation.get("type") in ("web_search_result_location", "char_location")


class _Turns:
    """Builds the turns of one reply; they are added to `result`."""

    def __init__(self, result: list[Message], platform: Platform, keep_foreign: bool) -> None:
        self._result = result
        self._platform = platform
        self._keep_foreign = keep_foreign
        self._turn: list[Block] = []
        self._results: list[Block] = []
        self._round: int | None = None
        self._asked: dict[str, Block] = {}

    def take(self, content: Sequence[Block]) -> list[Block]:
        """Take a reply's blocks in; return the results that belong into the user's turn after it."""
        answered = {block.get("tool_use_id") for block in content if block.get("type") in _RESULTS}
        for block in content:
            kind = block.get("type")
            if kind == "server_tool_use" and block.get("name") in ("web_search", "web_fetch"):
                self._call(block, block.get("id") in answered)
            elif kind in _RESULTS:
                self._give(block)
            elif kind == "tool_use":
                self._turn.append(block)
            else:
                self._plain(block)
        if self._turn:
            self._result.append({"role": "assistant", "content": self._turn})
        return self._results

    def _flush(self) -> None:
        if self._results:
            self._result.append({"role": "assistant", "content": self._turn})
            self._result.append({"role": "user", "content": self._results})
            self._turn, self._results = [], []

    def _call(self, block: Block, answered: bool) -> None:
        own = own_call(block.get("id"))
        if own is None:
            self._asked[str(block.get("id"))] = block
            if self._keep_foreign:
                self._plain(block)
            return
        if not answered:
            return
        if own[0] != self._round:
            self._flush()
        self._round = own[0]
        name = SEARCH_NAME if block.get("name") == "web_search" else FETCH_NAME
        self._turn.append({"type": "tool_use", "id": own[1], "name": name, "input": block.get("input") or {}})

    def _give(self, block: Block) -> None:
        own = own_call(block.get("tool_use_id"))
        if own is not None:
            self._results.append(tool_result(own[1], _output(block), self._platform))
        elif self._keep_foreign:
            self._plain(block)
        else:
            self._plain({"type": "text", "text": _told(self._asked.get(str(block.get("tool_use_id")), {}), block)})

    def _plain(self, block: Block) -> None:
        self._flush()
        if block.get("type") == "text":
            if not str(block.get("text") or "").strip():
                return
            if block.get("citations"):
                block = self._with_citations(block)
        self._turn.append(block)

    def _with_citations(self, block: Block) -> Block:
        """Return a text block without the citations that point to results the model cannot see in that form."""
        kept = [c for c in block["citations"] if not _is_web(c) or (self._keep_foreign and not _is_own(c))]
        block = {name: value for name, value in block.items() if name != "citations"}
        return {**block, "citations": kept} if kept else block


def _is_own(citation: Block) -> bool:
    return str(citation.get("encrypted_index") or "").startswith(MARK)


def _output(block: Block) -> ToolOutput:
    """Return what a call gave, out of its result block; what was altered on the way counts as lost."""
    content = block.get("content")
    if isinstance(content, Mapping) and content.get("error_code"):
        text = f"Not done: {content['error_code']}."
        return ToolOutput(summary=text, text=text, is_error=True)
    if isinstance(content, Mapping):
        document = content.get("content") or {}
        text = str((document.get("source") or {}).get("data") or "")
        page = Passage(str(content.get("url")), str(document.get("title") or ""), blocks(text))
        return ToolOutput(summary="", passages=(page,)) if page.paragraphs else ToolOutput(summary="", text="content: empty")
    passages = tuple(filter(None, (_passage(hit) for hit in content or () if isinstance(hit, Mapping))))
    return ToolOutput(summary="", passages=passages, text="" if passages else "No results.")


def _passage(hit: Block) -> Passage | None:
    packed = unpack(hit.get("encrypted_content"))
    url, title = str(hit.get("url") or ""), plain(hit.get("title"))
    if packed is None or packed.get("u") != url:
        return Passage(url, title, (title,)) if title else None
    paragraphs = tuple(str(text) for text in packed.get("p") or () if str(text).strip()) or ((title,) if title else ())
    return Passage(url, title, paragraphs) if paragraphs else None


def _told(call: Block, block: Block) -> str:
    """Return in words what a call that the API ran once gave."""
    asked = call.get("input") or {}
    what = plain(asked.get("query")) or plain(asked.get("url")) or "the web"
    content = block.get("content")
    if isinstance(content, Mapping):
        if content.get("error_code"):
            return f"[Looked up {what!r}: {content['error_code']}]"
        return f"[Read {content.get('url') or what}]"
    hits = [f"{plain(hit.get('title'))} ({hit.get('url')})" for hit in content or () if isinstance(hit, Mapping)]
    return f"[Searched the web for {what!r}; found: {'; '.join(hits) or 'nothing'}]"
