"""The native shape: calls, results and citations as the API's own web tools write them. Pure.

What the model is given for a result is always made from the native block (`given`), whether the result is new or comes back in
a history: so a conversation that is sent back gives the requests that were sent before. Opaque fields (`encrypted_content`,
`encrypted_index`) hold the caller's own data as text; they are neither secret nor signed. Fields: platform.claude.com/docs,
"Web search tool", "Web fetch tool", "Search results" and "Citations", read 2026-11.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ipy_websearch.interception.tools import NATIVE_NAMES, Kind
from ipy_websearch.model.requests import plain_results
from ipy_websearch.text import plain, shorten
from ipy_websearch.tools.base import Passage, ToolOutput, blocks
from ipy_websearch.tools.web_search import UNAVAILABLE

Block = dict[str, Any]

MARK = "IPYWS3"
MAX_BYTES = 2_000_000
"""The most that opaque text may unpack to; more is refused."""

CITED_CHARACTERS = 150
"""The most characters of `cited_text` that the API's own search gives."""

_OWN_ID = re.compile(r"srvtoolu_ipy(\d+)(x?)_([A-Za-z0-9_]+)")
_LONG_BYTES = 3_000  # compressing less takes more time than it saves anybody
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


def pack(value: Any) -> str:
    """Return JSON as opaque text."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
    return MARK + urlsafe_b64encode(zlib.compress(data, 1) if len(data) > _LONG_BYTES else data).decode("ascii")


def unpack(text: Any) -> Any:
    """Return what was packed, None for text that is not ours."""
    if not isinstance(text, str) or not text.startswith(MARK):
        return None
    try:
        data = urlsafe_b64decode(text[len(MARK) :])
        return json.loads(zlib.decompressobj().decompress(data, MAX_BYTES) if data[:1] == b"\x78" else data)
    except (ValueError, zlib.error, RecursionError):
        return None


# --- calls ------------------------------------------------------------------------------------------------------------


def server_id(call_id: str, number: int) -> str:
    """Return the id of a call of round `number` as the caller sees it; ids of other servers are spelled in hex."""
    own = re.fullmatch(r"toolu_([A-Za-z0-9_]+)", call_id)
    return f"srvtoolu_ipy{number}_{own[1]}" if own else f"srvtoolu_ipy{number}x_{call_id.encode('utf-8', 'replace').hex()}"


def own_call(block: Mapping[str, Any]) -> tuple[int, str] | None:
    """Return round and upstream id of a call (or a result) that was made here, None for any other."""
    match = _OWN_ID.fullmatch(str(block.get("id") or block.get("tool_use_id")))
    if match is None or not match[2]:
        return (int(match[1]), f"toolu_{match[3]}") if match else None
    try:
        return int(match[1]), bytes.fromhex(match[3]).decode("utf-8")
    except ValueError:
        return None


# --- results ----------------------------------------------------------------------------------------------------------


def result_block(kind: Kind, tool_use_id: str, output: ToolOutput, *, cited: bool) -> Block:
    """Return the native result of a call; `cited` says whether a page may be cited."""
    block: Block = {"type": f"web_{kind}_tool_result", "tool_use_id": tool_use_id}
    if output.is_error:
        known = _SEARCH_CODES if kind == "search" else _ERRORS
        code = output.error_code if output.error_code in known else "unavailable"
        return {**block, "content": {"type": f"web_{kind}_tool_result_error", "error_code": code}}
    return {**block, "content": [_hit(p) for p in _hits(output)] if kind == "search" else _page(output, cited)}


def _hits(output: ToolOutput) -> Iterable[Passage]:
    """Yield a passage for every result, also for those without any text to cite."""
    passages = {passage.url: passage for passage in output.passages}
    for result in output.results or ():
        bare = Passage(result.url, result.title, (), result.published_date)
        yield passages.pop(result.url, bare)
    yield from passages.values()


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
    page, passage = output.page, output.passages[0] if output.passages else None
    when = (page.fetched_at if page else None) or datetime.now(UTC)
    text = "\n\n".join(filter(str.strip, passage.paragraphs)) if passage else ""
    return {
        "type": "web_fetch_result",
        "url": page.final_url if page else passage.url if passage else "",
        "retrieved_at": when.isoformat(),
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": text},
            "title": (passage.title if passage else page.title if page else "") or None,
            "citations": {"enabled": True} if cited else None,
        },
    }


def given(block: Mapping[str, Any], call: Mapping[str, Any]) -> ToolOutput:
    """Return what the model is given for a native result of `call`.

    Results of somebody else's search cannot be read here: what was asked and the titles that were found is all there is.
    """
    content = block.get("content")
    if isinstance(content, Mapping):
        if code := content.get("error_code"):
            text = _ERRORS.get(str(code), f"Not done: {plain(code)}.")
            return ToolOutput(summary=text, text=text, is_error=True, error_code=str(code))
        return _given_page(content) or ToolOutput(summary="", text="content: empty")
    hits = [hit for hit in content or () if isinstance(hit, Mapping)]
    found = [(hit, texts) for hit in hits if isinstance(texts := unpack(hit.get("encrypted_content")), list)]
    if hits and not found:
        return ToolOutput(summary="", text=told(call, block))
    passages = [
        Passage(str(hit.get("url")), str(hit.get("title") or ""), tuple(map(str, texts))) for hit, texts in found if texts
    ]
    return ToolOutput(summary="", passages=tuple(passages), text="" if passages else "No results.")


def _given_page(content: Mapping[str, Any]) -> ToolOutput | None:
    paragraphs = page_paragraphs(content)
    if not paragraphs:
        return None
    document = content["content"]
    passage = Passage(str(content.get("url") or ""), str(document.get("title") or ""), paragraphs)
    if isinstance(document.get("citations"), Mapping) and document["citations"].get("enabled"):
        return ToolOutput(summary="", passages=(passage,))
    return ToolOutput(summary="", text=plain_results((passage,)))  # what cannot be cited is plain text


def page_paragraphs(content: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the text of a fetched page in the pieces that can be cited."""
    document = content.get("content")
    source = document.get("source") if isinstance(document, Mapping) else None
    text = source.get("data") if isinstance(source, Mapping) and source.get("type") == "text" else None
    return blocks(text) if isinstance(text, str) else ()


def told(call: Mapping[str, Any], block: Mapping[str, Any]) -> str:
    """Return in words what a call gave whose results cannot be read here."""
    asked = call.get("input")
    asked = asked if isinstance(asked, Mapping) else {}
    what = _line(asked.get("query") or asked.get("url")) or "the web"
    content = block.get("content")
    if isinstance(content, Mapping):
        code = content.get("error_code")
        return f"[Looked up {what!r}: {plain(code)}]" if code else f"[Read {_line(content.get('url')) or what}]"
    hits = [hit for hit in content or () if isinstance(hit, Mapping)][:20]
    named = "; ".join(f"{_line(hit.get('title'))} ({_line(hit.get('url'))})" for hit in hits)
    return f"[Searched the web for {what!r}; found: {named or 'nothing'}]"


def _line(value: Any) -> str:
    return shorten(plain(value), 200)


# --- citations --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A `search_result` block of a request. `kind` None is the caller's own, `number` what the caller knows it by."""

    kind: Kind | None
    number: int
    block: Mapping[str, Any]

    @property
    def source(self) -> str:
        return str(self.block.get("source") or "")

    @property
    def texts(self) -> list[str]:
        return [str(part.get("text") or "") for part in self.block.get("content") or ()]


@dataclass(slots=True)
class Sources:
    """Translates citations: what cites our results becomes native, what cites the caller's keeps the caller's numbers.

    The API numbers all `search_result` blocks of a request from 0, ours among the caller's; so they are counted as they are
    sent. `kinds` has the upstream ids of our calls.
    """

    kinds: dict[str, Kind] = field(default_factory=dict)
    _entries: list[_Entry] = field(default_factory=list)
    _own: int = 0
    _documents: int = 0

    def count(self, message: Mapping[str, Any]) -> None:
        """Count the blocks of a message as the model gets it; each message is given once, in order."""
        for block in _blocks(message):
            if block.get("type") != "tool_result":
                self._count(block, None)
                continue
            kind = self.kinds.get(str(block.get("tool_use_id")))
            self._documents += kind == "fetch" and not block.get("is_error")
            for part in _blocks(block):
                self._count(part, kind)

    def _count(self, block: Mapping[str, Any], kind: Kind | None) -> None:
        self._documents += block.get("type") == "document"
        if block.get("type") == "search_result":
            number = self._own if kind is None else self._documents - 1
            self._own += kind is None
            self._entries.append(_Entry(kind, number, block))

    def native(self, citation: Mapping[str, Any]) -> Block:
        """Return a citation of the model's as the caller shall see it."""
        at, source = citation.get("search_result_index"), str(citation.get("source") or "")
        if citation.get("type") != "search_result_location" or not isinstance(at, int):
            return dict(citation)
        entries = self._entries
        if not (0 <= at < len(entries) and entries[at].source == source):  # a server that counts in another way
            at = next((n for n in reversed(range(len(entries))) if entries[n].source == source), -1)
        if at < 0:
            return dict(citation)
        entry, cited = entries[at], str(citation.get("cited_text") or "")
        if entry.kind is None:
            return {**citation, "search_result_index": entry.number}
        if entry.kind == "fetch":
            return {**_in_page(citation, entry), "encrypted_index": pack(citation)}  # beyond the API's fields, to go back by
        title, place = citation.get("title") or entry.block.get("title"), pack(citation)
        native = {"type": "web_search_result_location", "url": source, "title": title}
        return {**native, "cited_text": cited[:CITED_CHARACTERS], "encrypted_index": place}

    def upstream(self, citation: Mapping[str, Any]) -> Block | None:
        """Return a citation that the caller sends back as the model wrote it, None when it points to nothing any more."""
        raw = unpack(citation.get("encrypted_index"))
        ours = isinstance(raw, dict)
        if not ours and (citation.get("encrypted_index") or citation.get("type") != "search_result_location"):
            return None if citation.get("encrypted_index") else dict(citation)
        wanted: Mapping[str, Any] = raw if ours else citation
        same = [n for n, e in enumerate(self._entries) if (e.kind is not None) is ours and e.source == wanted.get("source")]
        first = [n for n in same if (n if ours else self._entries[n].number) == wanted.get("search_result_index")]
        for n in (*first, *reversed(same)):
            texts = self._entries[n].texts[_span(wanted)]
            if "".join(str(wanted.get("cited_text") or "").split()) in "".join("".join(texts).split()):
                return {**wanted, "search_result_index": n}
        return None


def _in_page(citation: Mapping[str, Any], page: _Entry) -> Block:
    span = _span(citation)
    start = sum(len(text) + 2 for text in page.texts[: span.start])
    return {
        "type": "char_location",
        "cited_text": citation.get("cited_text") or "",
        "document_index": page.number,
        "document_title": citation.get("title"),
        "start_char_index": start,
        "end_char_index": start + len("\n\n".join(page.texts[span])),
        "file_id": None,
    }


def _span(citation: Mapping[str, Any]) -> slice:
    first, last = citation.get("start_block_index"), citation.get("end_block_index")
    first = first if isinstance(first, int) and first > 0 else 0
    return slice(first, last if isinstance(last, int) and last > first else first + 1)


def _blocks(part: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    content = part.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list | tuple) else []


def kind_of_result(block: Mapping[str, Any]) -> Kind | None:
    """Return which web tool a native call or result is of, None for any other block."""
    for kind, name in NATIVE_NAMES.items():
        if block.get("type") == f"{name}_tool_result" or (block.get("type") == "server_tool_use" and block.get("name") == name):
            return kind
    return None
