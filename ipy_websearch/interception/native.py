"""The native shape: calls, results, citations and events as the API's own web tools write them, and histories of them. Pure.

What the model is given for a result is always made from the native block (`given`), whether the result is new or comes back in
a history: so a conversation that is sent back gives the requests that were sent before. Opaque fields (`encrypted_content`,
`encrypted_index`) hold the caller's own data as text; they are neither secret nor signed. Fields: platform.claude.com/docs,
"Web search tool", "Web fetch tool", "Search results", "Citations" and "Streaming", read 2026-11.

A history is taken apart into turns that a model without web tools of its own understands. What was searched here comes back as
real calls with real results, in the rounds in which they were made (a call's id names its round), so nothing is searched twice.
What the API's own tools once found cannot be read by anybody else and becomes text. Calls of the caller's own tools stay open
for the results that the caller sends. The API ties thinking to all that stood before it. In a history that nobody edited it
comes back in its place; where it does not, the API refuses the request, and the same request goes up once more without
thinking (see `run`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ipy_websearch.interception.tools import NATIVE_NAMES, OUR_NAMES, Kind, code_of
from ipy_websearch.model.client import Event
from ipy_websearch.model.requests import THINKING, Message, content_of, plain_results, sendable
from ipy_websearch.providers.passages import blocks
from ipy_websearch.text import plain, shorten
from ipy_websearch.tools.base import Passage, ToolOutput
from ipy_websearch.tools.web import UNAVAILABLE

Block = dict[str, Any]

MARK = "IPYWS4"

_OWN_ID = re.compile(r"srvtoolu_ipy(\d+)_((?:[0-9a-f]{2})+)")
# As the API writes them, whatever the process's locale is.
_MONTHS = "January February March April May June July August September October November December".split()
_SEARCH_CODES = "invalid_tool_input unavailable max_uses_exceeded too_many_requests query_too_long request_too_large".split()
_ERRORS = {
    "max_uses_exceeded": "Not run: the tool was used as often as it may be. Answer from what there is.",
    "invalid_tool_input": "Not run: the input is not as the tool's schema wants it, or it was cut off.",
    "query_too_long": "Not run: the query is too long. Use a few words.",
    "too_many_requests": f"{UNAVAILABLE} (too many requests)",
    "request_too_large": f"{UNAVAILABLE} (the request was too large)",
    "unavailable": UNAVAILABLE,
    "url_not_in_prior_context": "Not read: only addresses that the user gave, or that results or pages contained, can be read.",
    "url_not_allowed": "Not read: this address is not allowed.",
    "url_not_accessible": "Not read: the page could not be had.",
    "unsupported_content_type": "Not read: there is no text to read.",
    "content_too_large": "Not read: the page is too large.",
}
_KINDS: dict[str, Kind] = {name: kind for kind, name in OUR_NAMES.items()}
_NATIVE_KINDS: dict[str, Kind] = {f"{name}{end}": kind for kind, name in NATIVE_NAMES.items() for end in ("", "_tool_result")}
_NO_REASON = {"stop_reason": None, "stop_sequence": None}


def pack(value: Any) -> str:
    """Return JSON as opaque text."""
    return MARK + json.dumps(value)


def unpack(text: Any) -> Any:
    """Return what was packed, None for text that is not ours."""
    with suppress(ValueError, RecursionError):
        return json.loads(text.removeprefix(MARK)) if isinstance(text, str) and text.startswith(MARK) else None
    return None


def blocks_of(part: Mapping[str, Any]) -> list[Any]:
    """Return the blocks that a message, or a block, is made of."""
    content = part.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list | tuple) else []


# --- calls ------------------------------------------------------------------------------------------------------------


def own_kind(block: Mapping[str, Any]) -> Kind | None:
    """Return which of our tools a block of a reply calls, None when it calls none."""
    return _KINDS.get(str(block.get("name"))) if block.get("type") == "tool_use" else None


def native_kind(block: Mapping[str, Any]) -> Kind | None:
    """Return which web tool a native call or result is of, None for any other block."""
    return _NATIVE_KINDS.get(str(block.get("name" if block.get("type") == "server_tool_use" else "type")))


def server_id(call_id: str, number: int) -> str:
    """Return the id of a call of round `number` as the caller sees it: the model's own is spelled in hex."""
    return f"srvtoolu_ipy{number}_{call_id.encode('utf-8', 'replace').hex()}"


def own_call(block: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return round and upstream id of a call (or a result) that was made here, None for any other."""
    match = _OWN_ID.fullmatch(str(block.get("id") or block.get("tool_use_id")))
    return (int(match[1]), bytes.fromhex(match[2]).decode("utf-8", "replace")) if match else None


# --- results ----------------------------------------------------------------------------------------------------------


def result_block(kind: Kind, tool_use_id: str, output: ToolOutput, *, cited: bool) -> Block:
    """Return the native result of a call; `cited` says whether a page may be cited."""
    if output.is_error:
        known, code = _SEARCH_CODES if kind == "search" else _ERRORS, code_of(output)
        content: Any = {"type": f"web_{kind}_tool_result_error", "error_code": code if code in known else "unavailable"}
    elif kind == "fetch":
        content = _page(output, cited)
    else:
        content = [_hit(passage) for passage in {passage.url: passage for passage in output.passages}.values()]
    return {"type": f"web_{kind}_tool_result", "tool_use_id": tool_use_id, "content": content}


def _hit(passage: Passage) -> Block:
    when = passage.published_date
    return {
        "type": "web_search_result",
        "url": passage.url,
        "title": passage.title,
        "page_age": f"{_MONTHS[when.month - 1]} {when.day}, {when.year}" if when else None,
        "encrypted_content": pack([paragraph for paragraph in passage.paragraphs if paragraph.strip()]),
    }


def _page(output: ToolOutput, cited: bool) -> Block:
    page = output.page
    assert page is not None
    paragraphs = output.passages[0].paragraphs if output.passages else ()
    return {
        "type": "web_fetch_result",
        "url": page.final_url,
        "retrieved_at": (page.fetched_at or datetime.now(UTC)).isoformat(),
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "\n\n".join(filter(str.strip, paragraphs))},
            "title": page.title or None,
            "citations": {"enabled": True} if cited else None,
        },
    }


def given(block: Mapping[str, Any]) -> ToolOutput:
    """Return what the model is given for a native result.

    Where no text can be read in it, the titles that were found are all there is. What the model asked is not repeated: its own
    words must make no address known.
    """
    content = block.get("content")
    if isinstance(content, Mapping):
        if not (code := str(content.get("error_code") or "")):
            return _given_page(content)
        text = _ERRORS.get(code, f"Not done: {plain(code)}.")
        return ToolOutput(summary=text, text=text, is_error=True, error_code=code)
    hits = blocks_of(block)
    passages = tuple(
        Passage(str(hit.get("url")), str(hit.get("title") or ""), tuple(map(str, texts)))
        for hit in hits
        if isinstance(texts := unpack(hit.get("encrypted_content")), list) and texts
    )
    if passages:
        return ToolOutput(summary="", passages=passages)
    return ToolOutput(summary="", text=told({}, block) if hits else "No results.")


def _given_page(content: Mapping[str, Any]) -> ToolOutput:
    """Return a page in the pieces that can be cited, as plain text where it may not be."""
    document = _mapping(content.get("content"))
    if not (paragraphs := blocks(str(_mapping(document.get("source")).get("data") or ""))):
        return ToolOutput(summary="", text="content: empty")
    passage = Passage(str(content.get("url") or ""), str(document.get("title") or ""), paragraphs)
    cited = _mapping(document.get("citations")).get("enabled")
    return ToolOutput("", passages=(passage,)) if cited else ToolOutput("", text=plain_results((passage,)))


def told(call: Mapping[str, Any], block: Mapping[str, Any]) -> str:
    """Return in words what a call gave whose results cannot be read here."""
    asked, content = _mapping(call.get("input")), block.get("content")
    what = _line(asked.get("query") or asked.get("url")) or "the web"
    if isinstance(content, Mapping):  # a page, or an error
        named = _line(content.get("url") or content.get("error_code"))
    else:
        named = "; ".join(f"{_line(hit.get('title'))} ({_line(hit.get('url'))})" for hit in blocks_of(block)[:20])
    return f"[Looked up {what!r}; found: {named or 'nothing'}]"


def _line(value: Any) -> str:
    return shorten(plain(value), 200)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


# --- citations --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A `search_result` block of a request. `kind` None is the caller's own, `number` what the caller knows it by."""

    kind: Kind | None
    number: int
    block: Mapping[str, Any]


@dataclass(slots=True)
class Sources:
    """Translates citations: what cites our results becomes native, what cites the caller's keeps the caller's numbers.

    The API numbers all `search_result` blocks of a request from 0, ours among the caller's; so they are counted as they are
    sent. `natives` has our results by upstream id.
    """

    natives: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    _entries: list[_Entry] = field(default_factory=list)
    _documents: int = 0

    def count(self, message: Mapping[str, Any]) -> None:
        """Count the blocks of a message as the model gets it; each message is given once, in order."""
        for block in blocks_of(message):
            native = self.natives.get(str(block.get("tool_use_id")))
            kind = native_kind(native) if native else None
            self._documents += kind == "fetch" and not block.get("is_error")
            for part in blocks_of(block) if block.get("type") == "tool_result" else [block]:
                self._documents += part.get("type") == "document"
                if part.get("type") == "search_result":
                    callers = sum(entry.kind is None for entry in self._entries)
                    self._entries.append(_Entry(kind, callers if kind is None else self._documents - 1, part))

    def native(self, citation: Mapping[str, Any]) -> Block:
        """Return a citation of the model's as the caller shall see it."""
        at, source = citation.get("search_result_index"), citation.get("source")
        same = [n for n, entry in enumerate(self._entries) if entry.block.get("source") == source]
        if citation.get("type") != "search_result_location" or not same:
            return dict(citation)
        entry = self._entries[at if at in same else same[-1]]  # a small server may count in another way
        if entry.kind is None:
            return {**citation, "search_result_index": entry.number}
        if entry.kind == "fetch":
            return {**_in_page(citation, entry), "encrypted_index": pack(citation)}  # beyond the API's fields, to go back by
        return {  # the API's own search gives at most 150 characters of `cited_text`
            "type": "web_search_result_location",
            "url": source,
            "title": citation.get("title") or entry.block.get("title"),
            "cited_text": str(citation.get("cited_text") or "")[:150],
            "encrypted_index": pack(citation),
        }

    def upstream(self, citation: Mapping[str, Any]) -> Block | None:
        """Return a citation that the caller sends back as the model wrote it, None when it points to nothing any more."""
        raw = unpack(citation.get("encrypted_index"))
        ours = isinstance(raw, dict)
        if not ours and citation.get("type") != "search_result_location":
            return None if citation.get("encrypted_index") else dict(citation)
        wanted: Mapping[str, Any] = raw if ours else citation
        place = wanted.get("search_result_index"), wanted.get("source")
        for n, entry in enumerate(self._entries):
            if (ours or entry.kind is None) and place == (n if ours else entry.number, entry.block.get("source")):
                return {**wanted, "search_result_index": n}
        return None


def _in_page(citation: Mapping[str, Any], page: _Entry) -> Block:
    """Return a citation of some blocks of a page as the place in its text, whose paragraphs two line breaks part."""
    texts = [str(part.get("text") or "") for part in blocks_of(page.block)]
    first, last = citation.get("start_block_index"), citation.get("end_block_index")
    first = first if isinstance(first, int) and first > 0 else 0
    last = last if isinstance(last, int) and last > first else first + 1
    start = sum(len(text) + 2 for text in texts[:first])
    return {
        "type": "char_location",
        "cited_text": citation.get("cited_text") or "",
        "document_index": page.number,
        "document_title": citation.get("title"),
        "start_char_index": start,
        "end_char_index": start + len("\n\n".join(texts[first:last])),
        "file_id": None,
    }


# --- the caller's stream ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class EventWriter:
    """Writes the events of several replies as those of one message, in the API's own order.

    Text goes on at once. A call is announced as it is written; what the model writes after it in the same reply is held back
    until the call has its result, so that every call is followed by its own. `head` is the message that the stream began with;
    `delta` and `rest` end it as the newest reply did.
    """

    sources: Sources
    head: dict[str, Any] = field(default_factory=dict)
    delta: dict[str, Any] = field(default_factory=dict)
    rest: dict[str, Any] = field(default_factory=dict)
    _number: int = 0
    _next: int = 0
    _indices: dict[Any, int] = field(default_factory=dict)
    _calls: dict[Any, str] = field(default_factory=dict)
    _held: list[Event] = field(default_factory=list)
    _waiting: str = ""

    def begin(self, number: int) -> None:
        """Say that the reply with this number, from 1, begins, or begins once more."""
        self._number, self._indices, self._calls = number, {}, {}
        self._held, self._waiting = [], ""

    def feed(self, raw: Event) -> list[Event]:
        """Take an event of a reply; return those that the caller gets now."""
        match str(raw.get("type")):
            case "message_start" if not self.head:  # the first reply gives the whole its id and model
                message = raw.get("message") or {}
                usage = message.get("usage") or {}  # small servers say none
                self.head = {**message, "content": [], **_NO_REASON, "usage": usage}
                return [{"type": "message_start", "message": self.head}]
            case "message_delta":
                self.delta = dict(raw.get("delta") or {})
                self.rest = {name: value for name, value in raw.items() if name not in ("type", "delta", "usage")}
            case "ping":
                return [dict(raw)]
            case kind if kind.startswith("content_block_"):
                if not self._waiting:
                    return [self._written(raw)]
                self._held.append(raw)
        return []

    def release(self) -> list[Event]:
        """Return the results that are there now, and what was held back for them."""
        events = self._result()
        held, self._held = self._held, []
        for raw in held:
            events += [self._written(raw), *self._result()]
        return events

    def end(self, usage: Mapping[str, Any]) -> list[Event]:
        """Return the events that end the message with the usage of all requests."""
        # At the end the API repeats counts, and not what else is said at the beginning.
        counts = {name: value for name, value in usage.items() if isinstance(value, int) or name == "server_tool_use"}
        ending = {"type": "message_delta", "delta": {**_NO_REASON, **self.delta}, **self.rest, "usage": counts}
        return [ending, {"type": "message_stop"}]

    def message(self, content: list[Block], usage: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message as a whole, with the blocks that its events add up to."""
        return {**self.head, **self.rest, "content": content, **self.delta, "usage": dict(usage)}

    def _written(self, raw: Event) -> Event:
        """Return an event of a block as the caller gets it: calls of our tools are the server's."""
        place, block, delta = raw.get("index") or 0, raw.get("content_block") or {}, raw.get("delta") or {}
        if raw["type"] == "content_block_start":
            self._indices[place], self._next = self._next, self._next + 1
        event = {**raw, "index": self._indices.get(place, 0)}
        if kind := own_kind(block):
            self._calls[place] = call_id = str(block.get("id"))
            named = {"id": server_id(call_id, self._number), "name": NATIVE_NAMES[kind]}
            event["content_block"] = {**block, "type": "server_tool_use", **named}
        elif raw["type"] == "content_block_stop":
            self._waiting = self._calls.get(place, "")
        elif delta.get("type") == "citations_delta":
            event["delta"] = {**delta, "citation": self.sources.native(delta.get("citation") or {})}
        return event

    def _result(self) -> list[Event]:
        """Return the result that the call written last waits for; it comes whole, as the API sends it."""
        call_id, self._waiting = self._waiting, ""
        if call_id not in self.sources.natives:
            return []
        index, self._next = self._next, self._next + 1
        return [
            {"type": "content_block_start", "index": index, "content_block": self.sources.natives[call_id]},
            {"type": "content_block_stop", "index": index},
        ]


# --- histories --------------------------------------------------------------------------------------------------------


def is_sound(messages: Any) -> bool:
    """Return whether messages have the form that this code relies on; the API refuses others in its own words."""
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
        and (block["type"] != "text" or isinstance(block.get("citations") or (), list | tuple))
        for block in content
    )


def web_blocks(messages: Sequence[Mapping[str, Any]]) -> list[tuple[Kind, bool]]:
    """Return the calls and results of web tools in a history: the kind of each, and whether it was made here."""
    turns = (content_of(message) for message in messages if message["role"] == "assistant")
    return [(kind, own_call(block) is not None) for turn in turns for block in turn if (kind := native_kind(block))]


@dataclass(slots=True)
class Unpacked:
    """The history as the model gets it, in `messages`; `sources` has counted it and knows our results.

    `render` writes the result that the model is given for the call of an id. `keep_foreign` leaves the API's own calls as they
    are, for the API.
    """

    render: Callable[[str, ToolOutput], Block]
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
            if message["role"] == "user" and self._results:  # of the reply before, whose other calls the caller answers here
                self._results += content_of(message)
                self._flush()
                continue
            self._flush()
            if message["role"] == "assistant" and not isinstance(message["content"], str):
                self._take_apart(message["content"])
            else:
                self._add(message["role"], message["content"])
        self._flush()

    def _add(self, role: str, content: Any) -> None:
        message = {"role": role, "content": content}
        self.sources.count(message)
        self.messages.append(message)

    def _flush(self) -> None:
        """End the running turn, and the results behind it."""
        for role, content in (("assistant", self._turn), ("user", self._results)):
            if content:
                self._add(role, content)
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
                if block["type"] == "server_tool_use":
                    self._calls[str(block.get("id"))] = block
                else:
                    text = told(self._calls.get(str(block.get("tool_use_id")), {}), block)
                    self._turn.append({"type": "text", "text": text})
            elif sendable(block):
                self._turn.append(self._with_citations(block))

    def _begins_turn(self, block: Mapping[str, Any], own: tuple[int, str] | None) -> bool:
        """Return whether a block behind results is of the model's next reply. A call of the caller's tool that follows at once
        counts to the reply with our calls: apart from the thinking before it, it would be refused."""
        if own is not None:
            return block["type"] == "server_tool_use" and own[0] != self._round
        return block["type"] in THINKING or (block["type"] != "tool_use" and sendable(block))

    def _own(self, block: Mapping[str, Any], kind: Kind, own: tuple[int, str], answered: set[Any]) -> None:
        number, call_id = own
        mark = {"cache_control": block["cache_control"]} if block.get("cache_control") else {}
        if block["type"] == "server_tool_use":
            if block.get("id") in answered:  # a stream that was cut off may lack the result
                self._round, self._calls[call_id] = number, block
                call = {"type": "tool_use", "id": call_id, "name": OUR_NAMES[kind], "input": block.get("input") or {}, **mark}
                self._turn.append(call | ({"caller": block["caller"]} if block.get("caller") else {}))
        elif call_id in self._calls and call_id not in self.sources.natives:
            self.sources.natives[call_id] = block
            self._results.append({**self.render(call_id, given(block)), **mark})

    def _with_citations(self, block: Mapping[str, Any]) -> Block:
        """Return a text block with its citations as the model wrote them, without those that point to nothing any more."""
        if block.get("type") != "text" or not block.get("citations"):
            return dict(block)
        made = (self.sources.upstream(_mapping(each)) or (self.keep_foreign and each) for each in block["citations"])
        kept = list(filter(None, made))
        return {**block, "citations": kept} if kept else {name: value for name, value in block.items() if name != "citations"}
