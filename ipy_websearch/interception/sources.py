"""What the model's citations point to: our results become native citations, the caller's own keep the caller's numbers. Pure.

The API numbers all `search_result` blocks of a request from 0, and all documents likewise (platform.claude.com/docs, "Search
results" and "Citations", read 2026-11). What we put into the request would shift the caller's, so every request is counted
as it is sent: an entry for each block, with whose it is and which number the caller knows it by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.interception.detection import UPSTREAM_NAMES, Kind
from ipy_websearch.interception.opaque import pack, unpack

Block = dict[str, Any]

CITED_CHARACTERS = 150
"""The most characters of `cited_text` that the API's own search gives."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A `search_result` block of a request. `kind` None is the caller's own.

    `number` is what the caller knows it by: the place among the caller's own, or for a page the place among all documents.
    """

    kind: Kind | None
    number: int
    source: str
    title: str
    paragraphs: Sequence[str] = ()


@dataclass(slots=True)
class Sources:
    """Counts the blocks of the requests and translates citations. `cite_pages` False leaves those of fetched pages out."""

    cite_pages: bool = True
    _entries: list[Entry] = field(default_factory=list)
    _ours: dict[str, Entry] = field(default_factory=dict)
    _documents: list[int] = field(default_factory=list)
    _calls: dict[str, Kind] = field(default_factory=dict)
    _callers: int = 0
    _all_documents: int = 0

    def count(self, messages: Iterable[Mapping[str, Any]]) -> None:
        """Count the blocks of messages as the model gets them; each message is given once, in order."""
        for message in messages:
            content = message.get("content")
            for block in content if isinstance(content, list) else ():
                if isinstance(block, Mapping):
                    self._count_block(block)

    def _count_block(self, block: Mapping[str, Any]) -> None:
        kind = block.get("type")
        if kind == "tool_use" and block.get("name") in UPSTREAM_NAMES:
            self._calls[str(block.get("id"))] = UPSTREAM_NAMES[str(block["name"])]
        elif kind == "tool_result":
            call = self._calls.get(str(block.get("tool_use_id")))
            if call == "fetch" and not block.get("is_error"):
                self._all_documents += 1
            inner = block.get("content")
            for part in inner if isinstance(inner, list) else ():
                if isinstance(part, Mapping):
                    self._count_source(part, call)
        else:
            self._count_source(block, None)

    def _count_source(self, block: Mapping[str, Any], kind: Kind | None) -> None:
        if block.get("type") == "document":
            self._documents.append(self._all_documents)
            self._all_documents += 1
        if block.get("type") != "search_result":
            return
        number = self._callers if kind is None else self._all_documents - 1
        self._callers += kind is None
        texts = tuple(_texts(block)) if kind == "fetch" else ()
        entry = Entry(kind, number, str(block.get("source") or ""), str(block.get("title") or ""), texts)
        self._entries.append(entry)
        if kind is not None:
            self._ours[entry.source] = entry

    def native(self, citation: Mapping[str, Any]) -> Block | None:
        """Return a citation as the caller shall see it, None when it is to be left out."""
        if citation.get("type") != "search_result_location":
            place = citation.get("document_index")
            known = isinstance(place, int) and 0 <= place < len(self._documents)
            return {**citation, "document_index": self._documents[place]} if known else dict(citation)  # type: ignore[index]
        entry = self._entry(citation)
        if entry is None:
            return dict(citation)
        if entry.kind is None:
            return {**citation, "search_result_index": entry.number}
        if entry.kind == "fetch":
            return _in_page(citation, entry) if self.cite_pages else None
        return {
            "type": "web_search_result_location",
            "url": entry.source,
            "title": citation.get("title") or entry.title,
            "cited_text": str(citation.get("cited_text") or "")[:CITED_CHARACTERS],
            "encrypted_index": pack({"c": citation}),
        }

    def upstream(self, citation: Mapping[str, Any]) -> Block | None:
        """Return a citation that the caller sends back as the model wrote it, None when it is not known any more."""
        if citation.get("encrypted_index") is not None:
            raw = (unpack(citation["encrypted_index"]) or {}).get("c")
            return raw if isinstance(raw, dict) else None
        if citation.get("type") == "search_result_location":
            places = [
                n for n, e in enumerate(self._entries) if e.kind is None and e.number == citation.get("search_result_index")
            ]
            return {**citation, "search_result_index": places[0]} if places else dict(citation)
        place = citation.get("document_index")
        known = place in self._documents
        return {**citation, "document_index": self._documents.index(place)} if known else dict(citation)  # type: ignore[arg-type]

    def _entry(self, citation: Mapping[str, Any]) -> Entry | None:
        """Return what a citation points to: by its number, and by its address where a server counts in another way."""
        place, source = citation.get("search_result_index"), str(citation.get("source") or "")
        entry = self._entries[place] if isinstance(place, int) and 0 <= place < len(self._entries) else None
        return entry if entry is not None and entry.source == source else self._ours.get(source, entry)

    def text_block(self, block: Mapping[str, Any]) -> Block:
        """Return a text block with native citations."""
        if not block.get("citations"):
            return dict(block)
        cited = [native for raw in block["citations"] if (native := self.native(raw)) is not None]
        return {**block, "citations": cited or None}


def _texts(block: Mapping[str, Any]) -> Iterator[str]:
    for part in block.get("content") or ():
        yield str(part.get("text") or "")


def _in_page(citation: Mapping[str, Any], page: Entry) -> Block:
    first = int(citation.get("start_block_index") or 0)
    last = int(citation.get("end_block_index") or first + 1)
    start = sum(len(paragraph) + 2 for paragraph in page.paragraphs[:first])
    return {
        "type": "char_location",
        "cited_text": citation.get("cited_text") or "",
        "document_index": page.number,
        "document_title": citation.get("title"),
        "start_char_index": start,
        "end_char_index": start + len("\n\n".join(page.paragraphs[first:last])),
        "file_id": None,
        "encrypted_index": pack({"c": citation}),  # not one of the API's fields here: it is what the model wrote
    }
