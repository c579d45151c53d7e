"""What a model is offered and told for one question: its instructions, tools, the table that is wanted, and what is done for
models that call no tools. Pure.

The instructions are one template, stable within a day, so that prompt caches hold. Under a budget, Anthropic's own tools are
bounded to the uses that the money buys. A table comes through a strict tool, not an output format, because the API refuses
citations and output formats together (platform.claude.com/docs/en/build-with-claude/structured-outputs, read 2026-11).

Where a model calls no tools (`retrieve_first`), the question is searched for first and comes with the results, in seed 000's
form: when the setting says so, when a server has refused the tools, or when the first answer of a model that is not Anthropic's
came without a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ConfigError, ModelError, WebSearchError
from ipy_websearch.keys import Keys
from ipy_websearch.loop.core import Call
from ipy_websearch.model.client import Platform, cites
from ipy_websearch.model.requests import SEARCH_RESULT_TOKENS, native_tokens, server_searches, server_tools, without_native
from ipy_websearch.model.stream import Reply
from ipy_websearch.money.budget import MIN_ANSWER_TOKENS
from ipy_websearch.money.prices import worst_case
from ipy_websearch.options import TEXTS, in_form
from ipy_websearch.results import Limits
from ipy_websearch.settings import did_you_mean
from ipy_websearch.text import plain, plural, shorten
from ipy_websearch.tools.base import Offer, Tool, ToolContext, ToolFactory, ToolOutput, build_tools

if TYPE_CHECKING:
    from jinja2 import Template

# --- what it is told ---------------------------------------------------------------------------------------------------

FINAL_NUDGE = "Please write the answer now, from what you have."

REPAIR_NUDGE = """\
Your answer was compared with the passages that it cites. They do not support these sentences:

{sentences}

Write the whole answer again, with its citations. Correct these sentences by what the results above say, or leave them out, or \
say that it was not found. Keep everything else as it is. Do not mention this comparison.
"""


def system_prompt(tools: Collection[str], own: str | None = None, **how: object) -> str:
    """Return the instructions for the tools that are offered, by their names, with the user's own at the end.

    `how` may say that the question comes with results (`reading`), how many pages `web_search` reads (`read_pages`), that a
    table is wanted (`table`), and that the model is to write the numbers of results (`marked`).
    """
    from ipy_websearch.providers.brave import catalogue

    today, own = date.today().isoformat(), (own or "").strip()
    return _template().render(today=today, tools=tools, own=own, catalogue=catalogue, table_tool=TABLE_TOOL, **how)


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader

    blocks: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    return Environment(loader=PackageLoader("ipy_websearch", "loop"), **blocks).get_template("system.md.j2")


# --- what it is offered ------------------------------------------------------------------------------------------------

NATIVE_PAGE_TOKENS = 12_000  # the most of a page that Anthropic's own web_fetch may read under a budget; else there is no bound

_PROMPT_TOKENS = 4_000
Definition = Mapping[str, Any]


def offered(
    factory: ToolFactory,
    tools: str | Sequence[str],
    keys: Keys,
    platform: Platform,
    model: str,
    limits: Limits,
    room: Decimal | None,
) -> Offer:
    """Return the tools of one question; where `room` USD is left, Anthropic's own with uses that can be held to it.

    Raises:
        ConfigError: there is no such tool, or the platform runs none of its own. MissingKeyError: a tool lacks its key.
    """
    names, native = without_native(tools)
    ours = build_tools(names, factory, keys, native=native)
    if not native:
        return ours
    server: Sequence[Definition] = server_tools(model, platform, limits.max_searches, factory.defaults)
    notices: list[str] = []
    if room is not None:
        server, notices = affordable_native(server, model, room)
    return replace(ours, server_tools=tuple(server), notices=(*ours.notices, *notices))


def affordable_native(tools: Sequence[Definition], model: str, room: Decimal) -> tuple[list[Definition], list[str]]:
    """Return Anthropic's own tools with as many uses as `room` USD buys at worst, and a notice when these are fewer.

    Pages are cut at `NATIVE_PAGE_TOKENS`. When not one use fits, there are no tools.
    """
    wanted = max((int(tool["max_uses"]) for tool in tools), default=0)
    for uses in range(wanted, 0, -1):
        bounded: list[Definition] = [{**tool, "max_uses": uses} for tool in tools]
        bounded = [{**t, "max_content_tokens": NATIVE_PAGE_TOKENS} if t["name"] == "web_fetch" else t for t in bounded]
        tokens = _PROMPT_TOKENS + native_tokens(_PROMPT_TOKENS, bounded)
        cost = worst_case(model, tokens, MIN_ANSWER_TOKENS, server_searches=server_searches(bounded))
        after = worst_case(model, tokens // (uses + 1) + SEARCH_RESULT_TOKENS, MIN_ANSWER_TOKENS)
        if cost is None or after is None or cost + after <= room:
            return bounded, [] if uses == wanted else [f"the budget is enough for {uses} of {wanted} native searches"]
    return [], ["the budget is not enough for a native search, whose results may be long; it was left out"] if wanted else []


# --- answers as a table ------------------------------------------------------------------------------------------------

TABLE_TOOL = "answer_table"
SOURCE = "source"
# The types that a column may be asked for in, by the names that people write; enrichment's columns have the same.
TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "date": date, "list": list}
_TEXTS = ("list[str]", "typing.List[str]", "typing.List")
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
    """Return the columns by name with their types; "name, price: float" means a text and a number.

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
    return {name: column_type(kind, name) for name, kind in pairs}


def column_type(kind: Any, column: str) -> type:
    """Return the type that a caller gave for a column: itself, its name, or `list[str]`.

    Raises:
        ConfigError: there is no such type.
    """
    name = kind.__name__ if isinstance(kind, type) and kind in SCHEMAS else str(kind).strip()
    if name not in TYPES and name not in _TEXTS:
        there = "str, int, float, bool, date, list[str]"
        raise ConfigError(f"{name!r} is no type for {column!r}{did_you_mean(name, TYPES)} (there are {there})")
    return TYPES.get(name, list)


def with_source(columns: Mapping[str, type]) -> dict[str, type]:
    """Return the columns with the one for a row's source, which every table has."""
    return {**columns, SOURCE: columns.get(SOURCE, str)}


def table_tool(columns: Mapping[str, type], keep: Callable[[tuple[dict[str, Any], ...]], None]) -> Tool:
    """Return the tool that takes the rows; `keep` gets them with all columns, and None where a value is not of its type."""
    from pydantic import BaseModel

    class Rows(BaseModel):
        rows: list[dict[str, Any]]

    names = with_source(columns)

    async def call(value: Rows, context: ToolContext) -> ToolOutput:
        rows = tuple({name: _fitted(row.get(name), kind) for name, kind in names.items()} for row in value.rows)
        keep(rows)
        return ToolOutput(summary=plural(len(rows), "row"), text="The rows were taken.")

    row = _object({name: {"anyOf": [SCHEMAS[kind], {"type": "null"}]} for name, kind in names.items()})
    schema = _object({"rows": {"type": "array", "items": row}})
    return Tool(TABLE_TOOL, "Give the answer as rows of a table.", Rows, call, strict_schema=schema, concludes=True)


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _fitted(value: Any, kind: type) -> Any:
    """Return a value of JSON in its column's type, None when it is of another."""
    from pydantic import TypeAdapter, ValidationError

    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    wanted: Any = list[str] if kind is list else kind
    try:
        return TypeAdapter(wanted).validate_json(json.dumps(value), strict=True)
    except ValidationError:
        return None


def table_text(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, type]) -> str:
    """Return the rows as a Markdown table."""
    names = list(with_source(columns))
    lines = ["| " + " | ".join(names) + " |", "|" + " --- |" * len(names)]
    for row in rows:
        cells = ("" if row.get(n) is None else str(row[n]).replace("|", "\\|").replace("\n", " ") for n in names)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) if rows else "*No rows were found.*"


# --- models that call no tools -----------------------------------------------------------------------------------------

RETRIEVED = "the model called no tool: the question was searched for, and the model reads what was found"

# What Brave takes as a query (api-dashboard.search.brave.com, read 2026-11); other providers take more.
QUERY_CHARACTERS, QUERY_WORDS = 400, 50

# How servers refuse tools: Ollama ("… does not support tools"), vLLM (its two command line options) and llama.cpp ("tools param
# requires --jinja flag"); from their issues, read 2026-11.
_REFUSALS = re.compile(
    r"not support (?:tool|function)|tools? (?:are|is) not supported|enable-auto-tool-choice|requires? --jinja", re.IGNORECASE
)

_FORMATS = re.compile(r"output_(?:config|format)|extra inputs", re.IGNORECASE)
_WRITTEN_CALL = re.compile(r"[{\[<][^{}]{0,80}\b(?:web_search|brave_search|firecrawl_search|tool_call|function)\b")
_ASKS = re.compile(
    r"\?|\b(?:who|whom|whose|when|where|which|what|how (?:many|much|old|long|far|tall|high|big|large)|latest|newest|current"
    r"|today|wer|wann|wo|welche[rsn]?|wie ?viele?|qui|quand|où|quel(?:le)?s?|combien|quién|cuándo|dónde|cuál|cuántos?)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=\w )[A-Z]\w+|\b(?:19|20)\d\d\b")
_SUM = re.compile(r"\W*(?:what is|calculate|compute|how much is)?[\s\d.,+*/^()x×÷=-]+\??\s*", re.IGNORECASE)


def refuses_tools(error: WebSearchError) -> bool:
    """Return whether a server says that the model, or the way it was started, takes no tools."""
    return isinstance(error, ModelError) and error.status in (400, 422, 500, 501) and _REFUSALS.search(str(error)) is not None


def refuses_formats(error: ModelError) -> bool:
    """Return whether a server says that it knows no `output_config`."""
    return error.status in (400, 422) and _FORMATS.search(str(error)) is not None


def call_free(reply: Reply, model: str) -> bool:
    """Return whether a whole reply has no call, of a model that may not know how: one of Anthropic's has decided so."""
    return not cites(model) and reply.complete and not Call.of(reply)


def answers_unsearched(reply: Reply, model: str, question: str) -> bool:
    """Return whether a first reply is that of a model which should have searched, and seems not to know how.

    Models that were not made for calling write the call as text.
    """
    if not call_free(reply, model) or reply.stop_reason not in ("end_turn", "stop_sequence", "tool_use"):
        return False
    begins = reply.text.lstrip("` \n").removeprefix("json")[:200]
    return needs_search(question) or _WRITTEN_CALL.search(begins) is not None


def needs_search(question: str) -> bool:
    """Return whether a question asks for a fact of the world: it has a question word, a name or a year, and is no sum."""
    return not _SUM.fullmatch(question) and bool(_ASKS.search(question) or _NAME.search(question))


def search_call(tools: Mapping[str, Tool], question: str) -> Call | None:
    """Return the call that searches with the question, None when no tool searches."""
    tool = next((tool for tool in tools.values() if tool.counts_as_search), None)
    query = shorten(" ".join(plain(question).split()[:QUERY_WORDS]), QUERY_CHARACTERS)
    return Call("retrieved_1", tool.name, {"query": query}) if tool is not None else None


def json_record(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object that a reply is, alone or in a code fence, None when it is anything else."""
    body = re.fullmatch(r"\s*(?:```(?:json)?\s*\n)?(\{.*\})\s*(?:```)?\s*", text, re.DOTALL)
    try:
        found = json.loads(body[1]) if body else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
