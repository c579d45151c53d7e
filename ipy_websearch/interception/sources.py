"""What the model's citations point to: our results become native citations, the caller's own keep the caller's numbers. Pure.

The API numbers all `search_result` blocks of a request from 0, and all documents likewise (platform.claude.com/docs, "Search
results" and "Citations", read 2026-11). What we put into the request would shift the caller's, so every request is counted
as it is sent: an entry for each block, with whose it is and which number the caller knows it by.

A caller may send back less than there was. So a citation says what it was of, and goes back only to an entry that is just
that: the one in its place, or else the newest there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

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
    block: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The block's title."""
        return str(self.block.get("title") or "")

    @property
    def paragraphs(self) -> Sequence[str]:
        """The texts that can be cited one by one."""
        return tuple(_texts(self.block))


class SentBack(NamedTuple):
    """A citation as it goes back to the model; `moved` says that it is no longer as the model wrote it."""

    citation: Block
    moved: bool = False


@dataclass(slots=True)
class Sources:
    """Counts the blocks of the requests and translates citations."""

    _entries: list[Entry] = field(default_factory=list)
    _ours: dict[str, int] = field(default_factory=dict)
    _documents: list[int] = field(default_factory=list)
    _calls: dict[str, Kind] = field(default_factory=dict)
    _callers: int = 0
    _all_documents: int = 0
    _foreign_pages: bool = False

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
            self._foreign_pages = self._foreign_pages or kind == "web_fetch_tool_result"
            self._count_source(block, None)

    def _count_source(self, block: Mapping[str, Any], kind: Kind | None) -> None:
        if block.get("type") == "document":
            self._documents.append(self._all_documents)
            self._all_documents += 1
        if block.get("type") != "search_result":
            return
        number = self._callers if kind is None else self._all_documents - 1
        self._callers += kind is None
        entry = Entry(kind, number, str(block.get("source") or ""), block)
        if kind is not None:
            self._ours[entry.source] = len(self._entries)
        self._entries.append(entry)

    def native(self, citation: Mapping[str, Any]) -> Block:
        """Return a citation as the caller shall see it."""
        if citation.get("type") != "search_result_location":
            place = citation.get("document_index")
            known = isinstance(place, int) and 0 <= place < len(self._documents)
            return {**citation, "document_index": self._documents[place]} if known else dict(citation)  # type: ignore[index]
        at = self._place(citation)
        if at is None:
            return dict(citation)
        entry = self._entries[at]
        if entry.kind is None:
            return {**citation, "search_result_index": entry.number}
        if entry.kind == "fetch":
            return _in_page(citation, entry, at)
        return {
            "type": "web_search_result_location",
            "url": entry.source,
            "title": citation.get("title") or entry.title,
            "cited_text": str(citation.get("cited_text") or "")[:CITED_CHARACTERS],
            "encrypted_index": pack(_facts(citation, entry, at)),
        }

    def upstream(self, citation: Mapping[str, Any]) -> SentBack | None:
        """Return a citation that the caller sends back as the model wrote it, None when it points to nothing any more."""
        if citation.get("encrypted_index") is not None:
            packed = unpack(citation["encrypted_index"])
            return self._ours_again(packed) if packed is not None and isinstance(packed.get("c"), dict) else None
        if citation.get("type") == "search_result_location":
            return self._callers_again(citation)
        place = citation.get("document_index")
        if place in self._documents:
            return SentBack({**citation, "document_index": self._documents.index(place)})
        # The API's own pages are documents that are not counted here; any other number has no document any more.
        return SentBack(dict(citation)) if self._foreign_pages or not isinstance(place, int) else None

    def _ours_again(self, packed: Mapping[str, Any]) -> SentBack | None:
        raw = packed["c"]
        place, (first, last) = packed.get("at", raw.get("search_result_index")), _span(raw)
        if isinstance(place, int) and 0 <= place < len(self._entries) and _is_of(packed, self._entries[place], first, last):
            return SentBack(raw)
        if "at" in packed:  # the server counts in a way that is not known here
            return None
        for n in reversed(range(len(self._entries))):
            if self._entries[n].kind is None:
                continue
            for start in _starts(self._entries[n], first, last):
                if _is_of(packed, self._entries[n], start, end := start + last - first):
                    there = {"search_result_index": n, "start_block_index": start, "end_block_index": end}
                    return SentBack({**raw, **there}, moved=True)
        return None

    def _callers_again(self, citation: Mapping[str, Any]) -> SentBack | None:
        number, source = citation.get("search_result_index"), citation.get("source")
        places = [n for n, e in enumerate(self._entries) if e.kind is None and (e.source == source or not source)]
        same = [n for n in places if self._entries[n].number == number]
        found = same or places[-1:]
        return SentBack({**citation, "search_result_index": found[0]}, moved=not same) if found else None

    def _place(self, citation: Mapping[str, Any]) -> int | None:
        """Return which entry a citation points to: by its number, and by its address where a server counts in another way."""
        place, source = citation.get("search_result_index"), str(citation.get("source") or "")
        place = place if isinstance(place, int) and 0 <= place < len(self._entries) else None
        return place if place is not None and self._entries[place].source == source else self._ours.get(source, place)

    def text_block(self, block: Mapping[str, Any]) -> Block:
        """Return a text block with native citations."""
        if not block.get("citations"):
            return dict(block)
        return {**block, "citations": [self.native(raw) for raw in block["citations"]]}


def _texts(block: Mapping[str, Any]) -> Iterator[str]:
    for part in block.get("content") or ():
        yield str(part.get("text") or "")


def _span(citation: Mapping[str, Any]) -> tuple[int, int]:
    """Return the first of the cited paragraphs and the one after the last."""
    first, last = citation.get("start_block_index"), citation.get("end_block_index")
    first = first if isinstance(first, int) and first > 0 else 0
    return first, last if isinstance(last, int) and last > first else first + 1


def _starts(entry: Entry, first: int, last: int) -> Iterator[int]:
    """Yield where in an entry as many paragraphs may stand: in their old place first."""
    every = range(len(entry.paragraphs) - (last - first) + 1)
    yield from (first, *every) if first in every else every


def _facts(citation: Mapping[str, Any], entry: Entry, at: int) -> Block:
    """Return a citation as the model wrote it, with what it is of."""
    counted = {} if citation.get("search_result_index") == at else {"at": at}
    return {"c": citation, "of": _hash(entry, *_span(citation)), **counted}


def _hash(entry: Entry, first: int, last: int) -> str:
    text = "\0".join((entry.source, *entry.paragraphs[first:last]))
    return blake2b(text.encode("utf-8", "replace"), digest_size=9).hexdigest()


def _is_of(packed: Mapping[str, Any], entry: Entry, first: int, last: int) -> bool:
    """Say whether a citation is of these paragraphs of an entry."""
    if "of" in packed:
        return bool(packed["of"] == _hash(entry, first, last))
    raw = packed["c"]  # packed before 2026-11-22
    there = "".join("".join(entry.paragraphs[first:last]).split())
    return bool(entry.source == raw.get("source") and "".join(str(raw.get("cited_text") or "").split()) in there)


def _in_page(citation: Mapping[str, Any], page: Entry, at: int) -> Block:
    first, last = _span(citation)
    start = sum(len(paragraph) + 2 for paragraph in page.paragraphs[:first])
    return {
        "type": "char_location",
        "cited_text": citation.get("cited_text") or "",
        "document_index": page.number,
        "document_title": citation.get("title"),
        "start_char_index": start,
        "end_char_index": start + len("\n\n".join(page.paragraphs[first:last])),
        "file_id": None,
        "encrypted_index": pack(_facts(citation, page, at)),  # not one of the API's fields here: it is what the model wrote
    }
