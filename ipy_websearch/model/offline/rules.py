"""What the Messages API refuses in a request: status 400, in the API's words where a recording or its documentation has them.

One set for all who play the API: the offline server, `testing.FakeWeb` and the server of our own tests, so that a loop that
passes here passes there. What only a server can know that remembers its replies (signatures of thinking) is not in it, nor what
is in images and what code gave. Sources: recordings, platform.claude.com/docs, the request types of the SDK 2.11; read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from ipy_websearch.errors import ModelError

Block = Mapping[str, Any]
# The fields of an object with their types; a "?" stands behind the names of those that may be missing.
Fields = Mapping[str, Any]

MAX_STRICT, MAX_OPTIONAL, MAX_UNIONS, MAX_BREAKPOINTS = 20, 24, 16, 4
MIN_THINKING_TOKENS = 1_024


def _optional(names: str) -> Fields:
    return {f"{name}?": object for name in names.split()}


_REQUEST: Fields = {
    "model": str,
    "max_tokens": int,
    "messages": list,
    "system?": (str, list),
    "tools?": list,
    "tool_choice?": dict,
    "thinking?": dict,
    "output_config?": dict,
    **_optional("cache_control container diagnostics inference_geo metadata service_tier speed stop_sequences stream"),
    **_optional(
        "user_profile_id billing_policy compaction context_management fallback_credit_token fallbacks mcp_servers thread"
    ),
}
_SAMPLING = _optional("temperature top_p top_k")  # refused from API version 2026-10-21 on, even with their defaults
_MARK: Fields = {"type": object, "ttl?": object}
_BLOCK: Fields = {"type": str, "cache_control?": object}
_RESULT: Fields = {"tool_use_id": str, "content": object, **_optional("caller")}
_BLOCKS: Mapping[str, Fields] = {
    "text": {"text": str, "citations?": list},
    "image": {"source": dict, **_optional("transformations")},
    "document": {"source": dict, "citations?": dict, **_optional("title context")},
    "search_result": {"source": str, "title": str, "content": list, "citations?": dict},
    "thinking": {"thinking": str, "signature": str},
    "redacted_thinking": {"data": str},
    "tool_use": {"id": str, "name": str, "input": dict, **_optional("caller toolset_name")},
    "tool_result": {"tool_use_id": str, "content?": (str, list), "is_error?": bool, **_optional("toolset_name")},
    "server_tool_use": {"id": str, "name": str, "input": dict, **_optional("caller")},
    "web_search_tool_result": _RESULT,
    "web_fetch_tool_result": _RESULT,
    "container_upload": {"file_id": str},
    "tool_reference": {"tool_name": str},
}
_CODE = re.compile(r"(bash_|text_editor_)?code_execution_tool_result|tool_search_tool_result")
_INSIDE = {
    "system": "text",
    "user": "text image document search_result tool_result container_upload",
    "assistant": "text thinking redacted_thinking tool_use server_tool_use web_search_tool_result web_fetch_tool_result",
    "tool_result": "text image document search_result tool_reference",
    "search_result": "text",
}
_CUSTOM_TOOL: Fields = {
    "name": str,
    "input_schema": dict,
    **_optional("allowed_callers cache_control defer_loading description eager_input_streaming input_examples strict type"),
}
_SERVER_TOOL: Fields = {
    "name": str,
    "type": str,
    **_optional(
        "allowed_callers allowed_domains blocked_domains cache_control defer_loading max_uses response_inclusion strict"
    ),
}
_SERVER_TOOLS: Mapping[str, tuple[str, Fields]] = {
    "web_search": ("20250305 20260209 20260318", {**_SERVER_TOOL, **_optional("user_location")}),
    "web_fetch": (
        "20250910 20260209 20260309 20260318",
        {**_SERVER_TOOL, **_optional("citations max_content_tokens url_sources use_cache")},
    ),
}
_OTHER_TOOL = re.compile(r"(bash|code_execution|memory|text_editor|tool_search_tool_(bm25|regex))_20\d{6}")
_CHOICES = {
    "auto": {"type": str, **_optional("disable_parallel_tool_use")},
    "any": {"type": str, **_optional("disable_parallel_tool_use")},
    "tool": {"type": str, "name": str, **_optional("disable_parallel_tool_use")},
    "none": {"type": str},
}
_UNFORCED = re.compile(r"claude-(opus-5-5|sonnet-5-5|fable-5-[12]|mythos-5-[12])$")  # cannot be made to call a tool
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_IDS = {"tool_use": r"[a-zA-Z0-9_-]+", "server_tool_use": r"srvtoolu_[a-zA-Z0-9_]+"}
_NOT_IN_STRICT = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength maxItems uniqueItems minProperties "
    "maxProperties patternProperties not if then else dependentSchemas prefixItems contains".split()
)
_EACH_RESULT = "block must have a corresponding `tool_use` block in the previous message."
_EACH_CALL = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
_UNKNOWN_TAG = "found using 'type' does not match any of the expected tags"
_EMPTY_TEXT = "text content blocks must be non-empty"


def check(request: Mapping[str, Any], *, newest: bool = True) -> None:
    """Check a request. `newest` False is the API before version 2026-10-21.

    Raises:
        ModelError: the API would refuse it; `status` is 400.
    """
    if words := next(_faults(request, newest), None):
        raise ModelError(words, status=400, kind="invalid_request_error")


def _faults(request: Mapping[str, Any], newest: bool) -> Iterator[str]:
    """Yield faults; each rule may rely on those before it."""
    yield from _fits(request, "", _REQUEST if newest else {**_REQUEST, **_SAMPLING})
    yield from _where({"max_tokens: Input should be greater than or equal to 0": request["max_tokens"] < 0})
    yield from _thinking(request)
    yield from _messages(request)
    tools, said = request.get("tools") or (), turns(request["messages"])
    yield from _texts(said, newest)
    yield from _tools(tools)
    yield from _choice(request, tools)
    yield from _calls(said, bool(tools))
    yield from _server_calls(said)
    yield from _citations(request, said, tools)
    yield from _breakpoints(request, said, tools)


# --- fields and blocks ------------------------------------------------------------------------------------------------


def _where(faults: Mapping[str, object]) -> list[str]:
    """Return the faults that are there: each is told in its words, with whether it was made."""
    return [words for words, is_made in faults.items() if is_made]


def _fits(value: Any, path: str, fields: Fields) -> Iterator[str]:
    """Yield what is wrong with the fields of an object."""
    if not isinstance(value, Mapping):
        yield f"{path.rstrip('.') or 'request'}: Input should be a valid dictionary"
    for name, kind in fields.items():
        given = value.get(name.rstrip("?"))
        if given is None or (given == "" and name == "model"):
            if not name.endswith("?"):
                yield f"{path}{name}: Field required"
        elif not isinstance(given, kind) or (kind is int and isinstance(given, bool)):
            wanted = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
            yield f"{path}{name.rstrip('?')}: Input should be a valid {wanted}"
    known = {name.rstrip("?") for name in fields}
    yield from (f"{path}{name}: Extra inputs are not permitted" for name in value if name not in known)


@dataclass(slots=True)
class Turn:
    """All that one side said in a row, its blocks with their paths; `number` is its first message's."""

    role: str
    number: int
    blocks: list[tuple[str, Block]] = field(default_factory=list)

    def of(self, *kinds: str) -> list[tuple[str, Block]]:
        """Return the blocks of these types with their paths."""
        return [(path, block) for path, block in self.blocks if block["type"] in kinds]


def turns(messages: Iterable[Mapping[str, Any]]) -> list[Turn]:
    """Return messages as turns: neighbours of the same role are one, as the API merges them."""
    made: list[Turn] = []
    for n, message in enumerate(messages):
        if not made or made[-1].role != message["role"]:
            made.append(Turn(message["role"], n))
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made[-1].blocks += [(f"messages.{n}.content.{i}", block) for i, block in enumerate(blocks)]
    return made


def everywhere(said: Iterable[Turn]) -> Iterator[tuple[str, Block]]:
    """Yield every block with its path, those inside of others after these."""
    for turn in said:
        for path, block in turn.blocks:
            yield from _within(path, block)


def _within(path: str, block: Block) -> Iterator[tuple[str, Block]]:
    yield path, block
    content = block.get("content")
    for n, part in enumerate(content if isinstance(content, list) else ()):
        yield from _within(f"{path}.{block['type']}.content.{n}", part)


def _thinking(request: Mapping[str, Any]) -> Iterator[str]:
    thinking, most, least = request.get("thinking") or {}, request["max_tokens"], MIN_THINKING_TOKENS
    kind, tokens = thinking.get("type"), thinking.get("budget_tokens")
    enabled, forced = kind == "enabled", (request.get("tool_choice") or {}).get("type") in ("any", "tool")
    size = tokens if isinstance(tokens, int) else 0
    known = ("enabled", "disabled", "adaptive", "between_tools")
    yield from _where(
        {
            f"thinking: Input tag '{kind}' {_UNKNOWN_TAG}": thinking and kind not in known,
            f"thinking.enabled.budget_tokens: Input should be greater than or equal to {least}": enabled and size < least,
            "`max_tokens` must be greater than `thinking.budget_tokens`.": enabled and size >= most,
            "Thinking may not be enabled when tool_choice forces tool use.": enabled and forced,
        }
    )


def _messages(request: Mapping[str, Any]) -> Iterator[str]:
    messages, system = request["messages"], request.get("system")
    yield from _where({"messages: at least one message is required": not messages})
    for n, message in enumerate(messages):
        yield from _fits(message, f"messages.{n}.", {"role": str, "content?": (str, list)})
        role, content = message["role"], message.get("content")
        yield from _where(
            {
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
                'not "system" as an input message role.': role == "system",
                f"messages.{n}.role: Input should be 'user' or 'assistant'": role not in ("user", "assistant"),
                f"messages.{n}: all messages must have non-empty content except for the optional final assistant message": (
                    not content
                ),
            }
        )
        yield from _blocks(content, f"messages.{n}.content", role)
    yield from _where({'messages: first message must use the "user" role': messages[0]["role"] != "user"})
    yield from _blocks(system, "system", "system")
    yield from _where({f"system: {_EMPTY_TEXT}": isinstance(system, list) and not all(block["text"] for block in system)})


def _blocks(content: Any, path: str, place: str) -> Iterator[str]:
    """Yield what is wrong with blocks and those in them. `place` is a role, or the kind of the block around them."""
    for n, block in enumerate(content if isinstance(content, list) else ()):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if place == "assistant" and _CODE.fullmatch(str(kind)):
            continue
        if kind not in _INSIDE[place].split():
            yield f"{path}.{n}: Input tag '{kind}' {_UNKNOWN_TAG}" if kind else f"{path}.{n}.type: Field required"
        yield from _fits(block, f"{path}.{n}.{kind}.", {**_BLOCK, **_BLOCKS[str(kind)]})
        if kind in ("search_result", "document") and set(block.get("citations") or ["enabled"]) != {"enabled"}:
            yield f"{path}.{n}.{kind}.citations: Input should be a valid dictionary with the field `enabled`"
        if kind in ("search_result", "tool_result"):
            yield from _blocks(block.get("content"), f"{path}.{n}.{kind}.content", str(kind))


def _texts(said: Sequence[Turn], newest: bool) -> Iterator[str]:
    for turn in said:
        for path, block in everywhere([turn]):
            if block["type"] == "search_result":
                empty = [name for name in ("source", "title", "content") if not block[name]]
                yield from (f"{path}.search_result.{name}: should have at least 1 character or item, not 0" for name in empty)
            if block["type"] != "text":
                continue
            text, cited = block["text"], block.get("citations") and newest and turn.role != "assistant"
            yield from _where(
                {
                    f"{path}.text: cache_control cannot be set for empty text blocks": not text and block.get("cache_control"),
                    f"messages: {_EMPTY_TEXT}": not text,
                    f"messages: {_EMPTY_TEXT} and contain non-whitespace text": not text.strip(),
                    f"{path}.text.citations: citations are not permitted on text blocks in user messages": cited,
                }
            )


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for n, tool in enumerate(tools):
        yield from _tool(f"tools.{n}", tool)
    strict = [tool["input_schema"] for tool in tools if tool.get("strict") and tool.get("input_schema")]
    parts = [part for schema in strict for part in _schemas(schema)]
    optional = sum(len(set(part.get("properties") or ()) - set(part.get("required") or ())) for part in parts)
    unions = sum("anyOf" in part or isinstance(part.get("type"), list) for part in parts)
    too_many = "Schemas contains too many"
    yield from _where(
        {
            "tools: Tool names must be unique.": len({tool["name"] for tool in tools}) < len(tools),
            f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported is {MAX_STRICT}.": (
                len(strict) > MAX_STRICT
            ),
            f"{too_many} optional parameters ({optional}), the limit is {MAX_OPTIONAL}": optional > MAX_OPTIONAL,
            f"{too_many} parameters with union types ({unions}), the limit is {MAX_UNIONS}": unions > MAX_UNIONS,
        }
    )


def _tool(path: str, tool: Any) -> Iterator[str]:
    if not isinstance(tool, Mapping):
        yield from _fits(tool, f"{path}.", {})
    kind = tool.get("type")
    if kind not in (None, "custom"):
        if not _OTHER_TOOL.fullmatch(str(kind)):
            yield from _server_tool(path, tool)
        return
    yield from _fits(tool, f"{path}.custom.", _CUSTOM_TOOL)
    schema, name = tool["input_schema"], tool["name"]
    what = "Input should be object" if "type" in schema else "Field required"
    yield from _where(
        {
            f"{path}.custom.name: String should match pattern '^{_NAME.pattern}$'": not _NAME.fullmatch(name),
            f"{path}.custom.input_schema.type: {what}": schema.get("type") != "object",
        }
    )
    yield from (f"{path}.custom: {words}" for words in (_strict(schema) if tool.get("strict") else ()))


def _server_tool(path: str, tool: Mapping[str, Any]) -> Iterator[str]:
    name, _, version = str(tool["type"]).rpartition("_")
    versions, fields = _SERVER_TOOLS.get(name, ("", {}))
    yield from _where({f"{path}: Input tag '{tool['type']}' {_UNKNOWN_TAG}": version not in versions.split()})
    path = f"{path}.{tool['type']}"
    yield from _fits(tool, f"{path}.", fields)
    allowed, blocked, uses = (tool.get(name) for name in ("allowed_domains", "blocked_domains", "max_uses"))
    schemes = [domain for domain in allowed or blocked or () if "://" in domain]
    yield from _where(
        {
            f"{path}.name: Input should be '{name}'": tool["name"] != name,
            f"{path}: Only one of `allowed_domains` and `blocked_domains` can be specified.": allowed and blocked,
            f"{path}: domains must not include a scheme: {', '.join(schemes)}": schemes,
            f"{path}.max_uses: Input should be greater than 0": uses is not None and uses < 1,
        }
    )


def _schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and all schemas in it."""
    if isinstance(schema, Mapping):
        yield schema
        inner = [part for name in ("properties", "$defs", "definitions") for part in (schema.get(name) or {}).values()]
        inner += [part for name in ("anyOf", "allOf", "oneOf") for part in schema.get(name) or ()]
        for part in [*inner, schema.get("items")]:
            yield from _schemas(part)


def _strict(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield what strict tools and structured output do not take in a schema."""
    for part in _schemas(schema):
        kind, wrong = part.get("type"), sorted(_NOT_IN_STRICT & set(part))
        is_open = kind == "object" and part.get("additionalProperties") is not False
        unknown = set(part.get("required") or ()) - set(part.get("properties") or ())
        yield from _where(
            {
                "For 'object' type, 'additionalProperties' must be explicitly set to false": is_open,
                f"For '{kind}' type, properties {', '.join(wrong)} are not supported": wrong,
                "For 'array' type, 'minItems' values other than 0 or 1 are not supported": (part.get("minItems") or 0) > 1,
                "'required' names properties that are not defined": unknown,
            }
        )


def _choice(request: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    choice = request.get("tool_choice")
    if choice is None:
        return
    kind = str(choice.get("type"))
    yield from _where(
        {
            "tool_choice may only be specified while providing tools.": not tools,
            f"tool_choice: Input tag '{kind}' {_UNKNOWN_TAG}": kind not in _CHOICES,
        }
    )
    yield from _fits(choice, f"tool_choice.{kind}.", _CHOICES[kind])
    forced, name = kind in ("any", "tool"), choice.get("name")
    yield from _where(
        {
            'tool_choice: type "tool" and "any" are not supported for this model.': (
                forced and _UNFORCED.search(request["model"])
            ),
            f"Tool '{name}' not found in provided tools": kind == "tool" and name not in [tool["name"] for tool in tools],
        }
    )


# --- calls and results ------------------------------------------------------------------------------------------------


def _calls(said: Sequence[Turn], offered: bool) -> Iterator[str]:
    """Every call has an id of its own and is answered in the next message, where results come first."""
    if not offered and any(turn.of("tool_use", "tool_result") for turn in said):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    seen: list[str] = []
    asked: list[str] = []
    for turn in [*said, Turn("user", len(said))]:
        leading = [b["tool_use_id"] for _, b in takewhile(lambda placed: placed[1]["type"] == "tool_result", turn.blocks)]
        missing = ", ".join(id for id in asked if id not in leading)
        without = "`tool_use` ids were found without `tool_result` blocks immediately after"
        yield from _where({f"messages.{turn.number - 1}: {without}: {missing}. {_EACH_CALL}": missing})
        for path, block in turn.of(*_CALL_IDS):
            kind, id = block["type"], block["id"]
            pattern = _CALL_IDS[kind]
            yield from _where(
                {
                    f"{path}.{kind}.id: String should match pattern '^{pattern}$'": not re.fullmatch(pattern, id),
                    f"messages.{turn.number}: `tool_use` ids must be unique": id in seen,
                }
            )
            seen.append(id)
        yield from _results(turn.of("tool_result"), asked)
        asked = [block["id"] for _, block in turn.of("tool_use")]


def _results(results: Sequence[tuple[str, Block]], asked: Sequence[str]) -> Iterator[str]:
    """Each result belongs to a call of the turn before, and is of one form."""
    answered: list[str] = []
    for path, block in results:
        id, content, failed = block["tool_use_id"], block.get("content"), block.get("is_error")
        kinds = {part["type"] for part in content} if isinstance(content, list) else set()
        mixed = "search_result" in kinds and len(kinds) > 1
        unexpected, several = "unexpected `tool_use_id` found in `tool_result` blocks", "Found multiple `tool_result` blocks"
        yield from _where(
            {
                f"{path}: {unexpected}: {id}. Each `tool_result` {_EACH_RESULT}": id not in asked,
                f"{path}: each tool_use must have a single result. {several} with id: {id}": id in answered,
                f"{path}.tool_result.content: if any block is of type `search_result`, all blocks must be": mixed,
                f"{path}.tool_result: content cannot be empty if `is_error` is true": failed and not content,
                f'{path}.tool_result: all content must be type "text" if `is_error` is true': failed and kinds - {"text"},
            }
        )
        answered.append(id)


def _server_calls(said: Sequence[Turn]) -> Iterator[str]:
    """A server tool's call has its result before the user says more, and a result has its call before it."""
    waiting: dict[str, str] = {}
    for turn in said:
        says_more = turn.role == "user" and any(block["type"] != "tool_result" for _, block in turn.blocks)
        for id, name in waiting.items() if says_more else ():
            without = f"was found without a corresponding `{name}_tool_result` block"
            yield f"messages.{turn.number - 1}: `{name}` tool use with id `{id}` {without}"
        for path, block in turn.blocks:
            kind = block["type"]
            if kind == "server_tool_use":
                waiting[block["id"]] = block["name"]
            elif kind.endswith("_tool_result") and waiting.pop(block["tool_use_id"], None) is None:
                needs = f"Each `{kind}` block must have a corresponding `server_tool_use` block before it."
                yield f"{path}: unexpected `tool_use_id` found in `{kind}` blocks: {block['tool_use_id']}. {needs}"


# --- citations and caching --------------------------------------------------------------------------------------------


def _citations(request: Mapping[str, Any], said: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """All search results may be cited or none; with the API's own search all, with structured output none."""
    found = [block for _, block in everywhere(said) if block["type"] in ("search_result", "document")]
    enabled = [(block["type"], bool((block.get("citations") or {}).get("enabled"))) for block in found]
    settings = {on for kind, on in enabled if kind == "search_result"}
    searches = any(str(tool.get("type")).startswith("web_search_") for tool in tools)
    config = request.get("output_config") or {}
    yield from _fits(config, "output_config.", {"effort?": str, "format?": dict})
    form, efforts = config.get("format") or {}, (None, "low", "medium", "high", "xhigh", "max")
    schema, blocks = form.get("schema"), "`search_result` blocks"
    is_schema = form.get("type") == "json_schema" and isinstance(schema, Mapping)
    yield from _where(
        {
            f"citations must be enabled for all {blocks} of a request, or for none of them": len(settings) > 1,
            f"citations must be enabled on {blocks} when the `web_search` tool is present": settings == {False} and searches,
            f"output_config.effort: Input should be one of {', '.join(efforts[1:])}": config.get("effort") not in efforts,
            "output_config.format cannot be used when citations are enabled": form and any(on for _, on in enabled),
            "output_config.format: Input should be a json_schema with a `schema`": form and not is_schema,
        }
    )
    yield from (f"output_config.format.schema: {words}" for words in (_strict(schema or {}) if form else ()))


def _breakpoints(request: Mapping[str, Any], said: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """At most four, a long one never after a short one; the request's own mark stands for one on its last block."""
    system, own = request.get("system"), request.get("cache_control")
    places = [*tools, *(system if isinstance(system, list) else ()), *(block for _, block in everywhere(said))]
    marks = [place["cache_control"] for place in places if place.get("cache_control")]
    count = len(marks) + bool(own)
    for mark in [*marks, *([own] if own else [])]:
        yield from _fits(mark, "cache_control.ephemeral.", _MARK)
        yield from _where(
            {
                "cache_control.type: Input should be 'ephemeral'": mark["type"] != "ephemeral",
                "cache_control.ephemeral.ttl: Input should be '5m' or '1h'": mark.get("ttl") not in (None, "5m", "1h"),
            }
        )
    lives, last = [_life(mark) for mark in marks], said[-1].blocks[-1][1].get("cache_control")
    too_many = count > MAX_BREAKPOINTS
    yield from _where(
        {
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {count}.": too_many,
            "cache_control: the last block has a cache_control with another ttl": own and last and _life(own) != _life(last),
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block": (
                "5m" in lives and "1h" in lives[lives.index("5m") :]
            ),
        }
    )


def _life(mark: Mapping[str, Any]) -> str:
    return mark.get("ttl") or "5m"
