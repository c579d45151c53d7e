"""The tools of a request, by what the offline model can do with them: search, open a page, fill a record."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ipy_websearch.model.offline.conversation import Conversation
from ipy_websearch.model.offline.record import fill
from ipy_websearch.model.offline.values import types_of
from ipy_websearch.tools.addresses import likely_readings, without_addresses

PREFERRED = ("web_search", "brave_search", "web_search_brave")
_RECORDS = re.compile(r"^(?:record|answer|submit|save|extract|fill|output|respond|return|structured|final)", re.IGNORECASE)
_OPENED = ("http://", "https://", "corpus://")
_PATH = re.compile(r"(?<![\w/:])(?:[\w-]+/)*[\w-]+\.(?:md|txt|rst|csv|json)\b")


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The request's custom tools. `search` and `page` are the ones to use (None: not offered), `record` the one to fill."""

    tools: Mapping[str, Mapping[str, Any]]
    search: str | None = None
    page: str | None = None
    file: str | None = None
    record: str | None = None


def open_toolbox(tools: Sequence[Mapping[str, Any]]) -> Toolbox:
    """Return the tools of a request; tools that the API itself would run have no schema and are left out."""
    custom = {str(tool["name"]): tool for tool in tools if isinstance(tool.get("input_schema"), Mapping) and tool.get("name")}
    searching = [name for name in custom if _takes(custom[name], "query")]
    others = [name for name in custom if name not in searching]
    opening = [name for name in others if _takes(custom[name], "url")]
    recording = [n for n in others if n not in opening and not _takes(custom[n], "path") and _is_record(custom[n])]
    return Toolbox(
        tools=custom,
        search=next((name for name in PREFERRED if name in searching), searching[0] if searching else None),
        page=next((n for n in opening if n == "web_fetch"), next((n for n in opening if "map" not in n), None)),
        file=next((name for name in others if _takes(custom[name], "path")), None),
        record=recording[0] if recording else None,
    )


def schema_of(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool's input schema."""
    schema = tool.get("input_schema")
    return schema if isinstance(schema, Mapping) else {}


def _takes(tool: Mapping[str, Any], name: str) -> bool:
    part = (schema_of(tool).get("properties") or {}).get(name)
    return isinstance(part, Mapping) and "string" in types_of(part)


def _is_record(tool: Mapping[str, Any]) -> bool:
    """A record is told by its name, by `strict`, or by a list of rows."""
    properties = schema_of(tool).get("properties") or {}
    return bool(tool.get("strict") or _RECORDS.match(str(tool.get("name"))) or "rows" in properties)


def search_input(tool: Mapping[str, Any], query: str) -> dict[str, Any]:
    """Return the input of a search: the query, and the least that other required properties allow."""
    return {"query": query, **_required(tool, but=("query",))}


def pages_to_open(conversation: Conversation) -> list[str]:
    """Return the addresses in the question that were not opened yet, at most three.

    Each is tried as it was probably meant; when that failed, as what else it may be, such as with the comma and what follows.
    """
    opened = {str(arguments.get("url")) for _, arguments in conversation.calls}
    named = likely_readings(conversation.question)
    addresses = [tuple(url for url in urls if url.lower().startswith(_OPENED)) for urls in named]
    first = [urls[0] for urls in dict.fromkeys(addresses) if urls and urls[0] not in opened]
    if first or not conversation.failures:
        return list(dict.fromkeys(first))[:3]
    read = {source.url for source in conversation.sources}
    others = [urls[1] for urls in addresses if len(urls) > 1 and not read.intersection(urls)]
    return [url for url in dict.fromkeys(others) if url not in opened and (url[-1].isalnum() or url[-1] in "/.")][:3]


def files_to_open(text: str, done: Sequence[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Return the file paths in a question that were not read yet, at most three."""
    opened = {str(arguments.get("path")) for _, arguments in done}
    return [path for path in dict.fromkeys(_PATH.findall(without_addresses(text))) if path not in opened][:3]


def input_for(tool: Mapping[str, Any], conversation: Conversation, query: str) -> dict[str, Any]:
    """Return an input for any tool whose use was demanded."""
    if _takes(tool, "query"):
        return search_input(tool, query)
    if _takes(tool, "url"):
        named = pages_to_open(replace(conversation, calls=(), failures=()))
        known = [*named, *(source.url for source in conversation.sources if source.url)]
        return {"url": known[0] if known else "", **_required(tool, but=("url",))}
    return fill(schema_of(tool), conversation.question, [*conversation.older, *conversation.sources])


def _required(tool: Mapping[str, Any], *, but: Sequence[str]) -> dict[str, Any]:
    schema = schema_of(tool)
    properties = schema.get("properties") or {}
    return {name: _least(properties.get(name) or {}) for name in schema.get("required") or () if name not in but}


def _least(schema: Mapping[str, Any]) -> Any:
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    types = types_of(schema)
    if "null" in types:
        return None
    if types & {"integer", "number"}:
        low = schema.get("minimum")
        return low if isinstance(low, int) and low > 5 else 5
    plain: dict[str, Any] = {"string": "", "boolean": False, "array": [], "object": {}}
    return next((value for name, value in plain.items() if name in types), None)
