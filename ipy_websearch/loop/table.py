"""An answer as a table: its columns, the tool that takes its rows, and the rows as Markdown.

A table comes through a strict tool, not an output format, because the API refuses citations and output formats together
(platform.claude.com/docs/en/build-with-claude/structured-outputs, read 2026-11).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.options import TEXTS, in_form
from ipy_websearch.settings import did_you_mean
from ipy_websearch.text import host_label, plural, safe_href, shorten
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput

TABLE_TOOL = "answer_table"
SOURCE = "source"
# The types that a column may be asked for in, by the names that people write; enrichment's columns have the same.
TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "date": date, "list": list}
# The API takes 16 unions in strict tools; each column is one, for the null.
MAX_COLUMNS = 12

SCHEMAS: dict[type, dict[str, Any]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    date: {"type": "string", "format": "date"},
    list: {"type": "array", "items": {"type": "string"}},
}

NO_TABLE = "there is no table: the model gave no rows"
TABLE_NUDGE = f"Please call {TABLE_TOOL} now, with what you have."


def parse_columns(columns: str | Mapping[str, type] | Sequence[str]) -> dict[str, type]:
    """Return the columns by name with their types; "name, price: float" means a text and a number. At the end comes the source
    of the row, which every table has.

    Raises:
        ConfigError: a name is no identifier or stands twice, a type is unknown, or there are none or too many.
    """
    if isinstance(columns, Mapping):
        pairs: list[tuple[str, Any]] = list(columns.items())
    else:
        parts = columns.split(",") if isinstance(columns, str) else in_form(TEXTS, "columns", columns)
        split = (part.partition(":") for part in parts if part.strip())
        pairs = [(name.strip(), kind.strip() or "str") for name, _, kind in split]
    names = [name for name, _ in pairs]
    sound = all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_]{0,63}", name) for name in names) and len(set(names)) == len(names)
    if not sound or not 1 <= len(names) <= MAX_COLUMNS:
        said = shorten(", ".join(map(repr, names)), 200)
        raise ConfigError(f"a table has 1 to {MAX_COLUMNS} columns, named by letters, digits and _, each once; not {said}")
    types = {name: column_type(kind, name) for name, kind in pairs}
    return {**types, SOURCE: types.get(SOURCE, str)}


def column_type(kind: Any, column: str) -> type:
    """Return the type that a caller gave for a column: itself, its name, or `list[str]`.

    Raises:
        ConfigError: there is no such type.
    """
    name = kind.__name__ if isinstance(kind, type) and kind in SCHEMAS else str(kind).strip()
    found = list if name == "list[str]" else TYPES.get(name)
    if found is None:
        hint = f"{did_you_mean(name, TYPES)} (there are str, int, float, bool, date, list[str])"
        raise ConfigError(f"{name!r} is no type for {column!r}{hint}")
    return found


def table_tool(columns: Mapping[str, type], keep: Callable[[tuple[dict[str, Any], ...]], None]) -> Tool:
    """Return the tool that takes the rows; `keep` gets them with all columns, and None where a value is not of its type."""
    from pydantic import BaseModel

    class Rows(BaseModel):
        rows: list[dict[str, Any]]

    async def call(value: Rows, context: ToolContext) -> ToolOutput:
        rows = tuple({name: _fitted(row.get(name), kind) for name, kind in columns.items()} for row in value.rows)
        keep(rows)
        return ToolOutput(summary=plural(len(rows), "row"), text="The rows were taken.")

    row = closed_object({name: {"anyOf": [SCHEMAS[kind], {"type": "null"}]} for name, kind in columns.items()})
    schema = closed_object({"rows": {"type": "array", "items": row}})
    return Tool(TABLE_TOOL, "Give the answer as rows of a table.", Rows, call, schema=schema, concludes=True)


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has these properties, all of them and no others."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _fitted(value: Any, kind: type) -> Any:
    """Return a value of JSON in its column's type, None when it is of another."""
    from pydantic import TypeAdapter, ValidationError

    wanted: Any = list[str] if kind is list else kind
    try:
        return TypeAdapter(wanted).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return None


def table_text(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, type]) -> str:
    """Return the rows as a Markdown table: numbers stand to the right, addresses are links."""
    rules = [" --: |" if kind in (int, float) else " --- |" for kind in columns.values()]
    lines = ["| " + " | ".join(columns) + " |", "|" + "".join(rules)]
    lines += ["| " + " | ".join(_cell(row.get(name)) for name in columns) + " |" for row in rows]
    return "\n".join(lines) if rows else "*No rows were found.*"


def _cell(value: Any) -> str:
    if isinstance(value, int | float) and abs(value) >= 10_000:  # a year is not "1,926"
        return f"{value:,}"
    text = "" if value is None else str(value).replace("\n", " ").replace("|", "\\|")
    href = (safe_href(str(value)) or "").replace("(", "%28").replace(")", "%29")
    return f"[{host_label(href)}]({href})" if href else text
