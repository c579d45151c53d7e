"""The native shape: calls, results, citations and usage as the API's own web tools write them. Pure.

Fields: platform.claude.com/docs, "Web search tool" and "Web fetch tool", read 2026-11. A call's id names the round that it
belongs to, so that a reply that is sent back can be taken apart into the turns that it was made of.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from ipy_websearch.interception.detection import NATIVE_NAMES, UPSTREAM_NAMES, Bounds, Kind
from ipy_websearch.interception.opaque import pack
from ipy_websearch.interception.reading import OVER, packed_hit, packed_page
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.requests import tool_result
from ipy_websearch.tools.base import Passage, ToolOutput

Block = dict[str, Any]

_OWN_ID = re.compile(r"srvtoolu_ipy(\d+)(x?)_([A-Za-z0-9_]+)")
_PLAIN_ID = re.compile(r"toolu_([A-Za-z0-9_]+)")
_SEARCH_CODES = frozenset(
    "invalid_tool_input unavailable max_uses_exceeded too_many_requests query_too_long request_too_large".split()
)
_MONTHS = "January February March April May June July August September October November December".split()


def server_id(call_id: str, number: int) -> str:
    """Return the id of a call of round `number` as the caller sees it; ids of other servers are spelled in hex."""
    plain = _PLAIN_ID.fullmatch(call_id)
    return f"srvtoolu_ipy{number}_{plain[1]}" if plain else f"srvtoolu_ipy{number}x_{call_id.encode('utf-8', 'replace').hex()}"


def own_call(server: Any) -> tuple[int, str] | None:
    """Return round and upstream id of a call that was made here, None for any other id."""
    match = _OWN_ID.fullmatch(str(server))
    if match is None or not match[2]:
        return (int(match[1]), f"toolu_{match[3]}") if match else None
    try:
        return int(match[1]), bytes.fromhex(match[3]).decode("utf-8")
    except ValueError:
        return None


def server_tool_use(block: Mapping[str, Any], number: int) -> Block:
    """Return the model's call of our tool as the call of a server tool.

    Its `caller` is the model's own: the API's replies say it or not, by their age and not by the tool's version, and what is
    sent back has to say what was sent.
    """
    name = NATIVE_NAMES[UPSTREAM_NAMES[str(block["name"])]]
    return {
        "type": "server_tool_use",
        "id": server_id(str(block.get("id")), number),
        "name": name,
        "input": block.get("input") or {},
        **({"caller": caller} if (caller := block.get("caller")) else {}),
    }


def may_cite(body: Mapping[str, Any]) -> bool:
    """Say whether results in a request may be cited: not together with an output format, nor beside some that may not be."""
    config = body.get("output_config")
    if body.get("output_format") or (isinstance(config, Mapping) and config.get("format")):
        return False
    contents = [message.get("content") for message in body.get("messages") or () if isinstance(message, Mapping)]
    return all(map(_all_cited, contents))


def _all_cited(content: Any) -> bool:
    """Say whether all search results of the caller's in a message or in a tool's result may be cited."""
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    for block in blocks:
        cited = block.get("citations")
        if block.get("type") == "search_result" and not (isinstance(cited, Mapping) and cited.get("enabled")):
            return False
        if block.get("type") == "tool_result" and not _all_cited(block.get("content")):
            return False
    return True


def upstream_result(call_id: str, output: ToolOutput, platform: Platform, *, cited: bool) -> Block:
    """Return the result of a call as the model gets it."""
    block = tool_result(call_id, output, platform)
    if not cited:
        block["content"] = [{k: v for k, v in part.items() if k != "citations"} for part in block["content"]]
    return block


def result_block(kind: Kind, tool_use_id: str, output: ToolOutput, bounds: Bounds, facts: Mapping[str, Any]) -> Block:
    """Return the native result of a call; its opaque text says the `facts` too (see `reading.packed_facts`)."""
    content: Any
    if output.is_error:
        content = _search_error(output) if kind == "search" else _fetch_error(output)
    else:
        content = [_hit(passage, facts) for passage in _hits(output)] if kind == "search" else _page(output, bounds, facts)
    block = {"type": f"web_{kind}_tool_result", "tool_use_id": tool_use_id, "content": content}
    if output.error_code == OVER:
        block["signature"] = pack({"o": 1})
    if facts.get("e") and (output.is_error or not content):
        # Not one of the API's fields: there is no opaque text here to say it in.
        (content if isinstance(content, dict) else block)["signature"] = pack(facts)
    return block


def _hits(output: ToolOutput) -> Iterator[Passage]:
    """Yield a passage for every result, also for those without any text to cite."""
    passages = list(output.passages)
    for result in output.results or ():
        given = passages and passages[0].url == result.url
        yield passages.pop(0) if given else Passage(result.url, result.title, (), result.published_date)
    yield from passages


def _hit(passage: Passage, facts: Mapping[str, Any]) -> Block:
    when = passage.published_date
    return {
        "type": "web_search_result",
        "url": passage.url,
        "title": passage.title,
        "page_age": f"{_MONTHS[when.month - 1]} {when.day}, {when.year}" if when else None,
        "encrypted_content": packed_hit(passage, facts),
    }


def _search_error(output: ToolOutput) -> Block:
    code = output.error_code if output.error_code in _SEARCH_CODES else "unavailable"
    return {"type": "web_search_tool_result_error", "error_code": code}


def _fetch_error(output: ToolOutput) -> Block:
    return {"type": "web_fetch_tool_result_error", "error_code": output.error_code or "unavailable"}


def _page(output: ToolOutput, bounds: Bounds, facts: Mapping[str, Any]) -> Block:
    page, passage = output.page, output.passages[0] if output.passages else None
    title = (passage.title if passage else page.title if page else "") or None
    when = (page.fetched_at if page else None) or datetime.now(UTC)
    url = page.final_url if page else passage.url if passage else ""
    text = "\n\n".join(filter(str.strip, passage.paragraphs)) if passage else ""
    return {
        "type": "web_fetch_result",
        "url": url,
        "retrieved_at": when.isoformat(),
        "content": {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": text},
            "title": title,
            "citations": {"enabled": True} if bounds.citations else None,
        },
        # Not one of the API's fields: a page's text comes in the clear, and this proves that it was read here.
        "signature": packed_page(url, text, passage, facts, cited=bounds.citations),
    }


def summed(total: Mapping[str, Any], usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sum of two usage objects: counts are added, lists joined, all else is taken from the later one."""
    if not total:
        return dict(usage)
    result = dict(total)
    for name, value in usage.items():
        before = result.get(name)
        if isinstance(value, Mapping):
            result[name] = summed(before if isinstance(before, Mapping) else {}, value)
        elif isinstance(value, int) and isinstance(before, int) and not isinstance(value, bool):
            result[name] = before + value
        elif isinstance(value, list) and isinstance(before, list):
            result[name] = [*before, *value]
        elif value is not None or name not in result:
            result[name] = value
    return result
