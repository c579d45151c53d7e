"""The native shape: calls, results, citations and usage as the API's own web tools write them. Pure.

Fields: platform.claude.com/docs, "Web search tool" and "Web fetch tool", read 2026-11. A call's id names the round that it
belongs to, so that a reply that is sent back can be taken apart into the turns that it was made of.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ipy_websearch.interception.detection import NATIVE_NAMES, UPSTREAM_NAMES, Bounds, Kind
from ipy_websearch.interception.opaque import pack
from ipy_websearch.tools.base import Passage, ToolOutput

Block = dict[str, Any]

CITED_CHARACTERS = 150
"""The most characters of `cited_text` that the API's own search gives."""

_OWN_ID = re.compile(r"srvtoolu_ipy(\d+)_([A-Za-z0-9_]+)")
_SEARCH_CODES = ("invalid_tool_input", "unavailable", "max_uses_exceeded", "too_many_requests", "query_too_long")


def server_id(call_id: str, number: int) -> str:
    """Return the id of a call of round `number` as the caller sees it."""
    return f"srvtoolu_ipy{number}_{re.sub('[^A-Za-z0-9_]', '_', call_id.removeprefix('toolu_'))}"


def own_call(server: Any) -> tuple[int, str] | None:
    """Return round and upstream id of a call that was made here, None for any other id."""
    match = _OWN_ID.fullmatch(str(server))
    return (int(match[1]), f"toolu_{match[2]}") if match else None


def server_tool_use(block: Mapping[str, Any], number: int) -> Block:
    """Return the model's call of our tool as the call of a server tool."""
    name = NATIVE_NAMES[UPSTREAM_NAMES[str(block["name"])]]
    return {
        "type": "server_tool_use",
        "id": server_id(str(block.get("id")), number),
        "name": name,
        "input": block.get("input") or {},
    }


def result_block(kind: Kind, tool_use_id: str, output: ToolOutput, bounds: Bounds) -> Block:
    """Return the native result of a call."""
    if kind == "search":
        found: Any = _search_error(output) if output.is_error else [_hit(passage) for passage in _hits(output)]
        return {"type": "web_search_tool_result", "tool_use_id": tool_use_id, "content": found}
    content = _fetch_error(output) if output.is_error else _page(output, bounds)
    return {"type": "web_fetch_tool_result", "tool_use_id": tool_use_id, "content": content}


def _hits(output: ToolOutput) -> Sequence[Passage]:
    """Return a passage for every result, also for those without any text to cite."""
    if output.results is None:
        return output.passages
    given = {passage.url: passage for passage in output.passages}
    return [given.get(r.url) or Passage(r.url, r.title, (), r.published_date) for r in output.results]


def _hit(passage: Passage) -> Block:
    when = passage.published_date
    return {
        "type": "web_search_result",
        "url": passage.url,
        "title": passage.title,
        "page_age": f"{when:%B} {when.day}, {when.year}" if when else None,
        "encrypted_content": pack({"u": passage.url, "p": list(passage.paragraphs)}),
    }


def _search_error(output: ToolOutput) -> Block:
    code = output.error_code if output.error_code in _SEARCH_CODES else "unavailable"
    return {"type": "web_search_tool_result_error", "error_code": code}


def _fetch_error(output: ToolOutput) -> Block:
    return {"type": "web_fetch_tool_result_error", "error_code": output.error_code or "unavailable"}


def _page(output: ToolOutput, bounds: Bounds) -> Block:
    page, passage = output.page, output.passages[0] if output.passages else None
    title = (passage.title if passage else page.title if page else "") or None
    when = (page.fetched_at if page else None) or datetime.now(UTC)
    return {
        "type": "web_fetch_result",
        "url": page.final_url if page else passage.url if passage else "",
        "retrieved_at": when.isoformat(),
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": page_text(output)},
            "title": title,
            "citations": {"enabled": True} if bounds.citations else None,
        },
    }


def page_text(output: ToolOutput) -> str:
    """Return the text of a fetched page as the caller gets it."""
    return "\n\n".join(output.passages[0].paragraphs) if output.passages else ""


@dataclass(slots=True)
class Sources:
    """Turns the model's citations of our results into the native ones; those of the caller's own results stay.

    `searched` maps the addresses of results to their titles, `read` those of fetched pages to (number of the document,
    paragraphs). `foreign` are the places, among all `search_result` blocks of the request, of those that are the caller's.
    """

    searched: dict[str, str] = field(default_factory=dict)
    read: dict[str, tuple[int, Sequence[str]]] = field(default_factory=dict)
    cite_pages: bool = True

    def know(self, kind: Kind, output: ToolOutput) -> None:
        """Remember what a call gave."""
        for passage in output.passages:
            if kind == "search":
                self.searched[passage.url] = passage.title
            else:
                self.read[passage.url] = (len(self.read), passage.paragraphs)

    def native(self, citation: Mapping[str, Any]) -> Block | None:
        """Return a citation as the caller shall see it, None when it is to be left out."""
        source = str(citation.get("source") or "")
        if citation.get("type") != "search_result_location":
            return dict(citation)
        if source in self.read:
            return self._in_page(citation, *self.read[source]) if self.cite_pages else None
        if source not in self.searched:
            return dict(citation)
        first, last = citation.get("start_block_index"), citation.get("end_block_index")
        return {
            "type": "web_search_result_location",
            "url": source,
            "title": citation.get("title") or self.searched[source],
            "cited_text": str(citation.get("cited_text") or "")[:CITED_CHARACTERS],
            "encrypted_index": pack({"u": source, "b": [first, last]}),
        }

    def _in_page(self, citation: Mapping[str, Any], number: int, paragraphs: Sequence[str]) -> Block:
        first = int(citation.get("start_block_index") or 0)
        last = int(citation.get("end_block_index") or first + 1)
        start = sum(len(paragraph) + 2 for paragraph in paragraphs[:first])
        return {
            "type": "char_location",
            "cited_text": citation.get("cited_text") or "",
            "document_index": number,
            "document_title": citation.get("title"),
            "start_char_index": start,
            "end_char_index": start + len("\n\n".join(paragraphs[first:last])),
            "file_id": None,
        }

    def text_block(self, block: Mapping[str, Any]) -> Block:
        """Return a text block with native citations."""
        if not block.get("citations"):
            return dict(block)
        cited = [native for raw in block["citations"] if (native := self.native(raw)) is not None]
        return {**block, "citations": cited or None}


def summed(total: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of two usage objects: counts are added, whatever is no count is taken from the later one."""
    result = dict(total)
    for name, value in usage.items():
        before = result.get(name)
        if isinstance(value, Mapping):
            result[name] = summed(before if isinstance(before, Mapping) else {}, value)
        elif isinstance(value, int) and isinstance(before, int) and not isinstance(value, bool):
            result[name] = before + value
        elif value is not None or name not in result:
            result[name] = value
    return result
