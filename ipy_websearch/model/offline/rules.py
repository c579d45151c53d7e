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

MAX_STRICT, MAX_OPTIONAL, MAX_UNIONS, MAX_BREAKPOINTS = 20, 24, 16, 4
MIN_THINKING_TOKENS = 1_024

_REQUEST = frozenset(
    "cache_control container diagnostics inference_geo max_tokens messages metadata model output_config service_tier speed "
    "stop_sequences stream system thinking tool_choice tools user_profile_id billing_policy compaction context_management "
    "fallback_credit_token fallbacks mcp_servers thread".split()
)
_SAMPLING = ("temperature", "top_p", "top_k")  # refused from API version 2026-10-21 on, even with their defaults
_BLOCKS = {  # the fields that a block must have, and those that it may have besides `type` and `cache_control`
    "text": ("text", "citations"),
    "image": ("source", "transformations"),
    "document": ("source", "title context citations"),
    "search_result": ("source title content", "citations"),
    "thinking": ("thinking signature", ""),
    "redacted_thinking": ("data", ""),
    "tool_use": ("id name input", "caller toolset_name"),
    "tool_result": ("tool_use_id", "content is_error toolset_name"),
    "server_tool_use": ("id name input", "caller"),
    "web_search_tool_result": ("tool_use_id content", "caller"),
    "web_fetch_tool_result": ("tool_use_id content", "caller"),
    "container_upload": ("file_id", ""),
    "tool_reference": ("tool_name", ""),
}
_CODE = re.compile(r"(bash_|text_editor_)?code_execution_tool_result|tool_search_tool_result")
_INSIDE = {
    "system": "text",
    "user": "text image document search_result tool_result container_upload",
    "assistant": "text thinking redacted_thinking tool_use server_tool_use web_search_tool_result web_fetch_tool_result",
    "tool_result": "text image document search_result tool_reference",
    "search_result": "text",
}
_TYPES: dict[str, type] = {"input": dict, "is_error": bool, **dict.fromkeys("text thinking title source id name".split(), str)}
_CUSTOM_TOOL = frozenset(
    "allowed_callers cache_control defer_loading description eager_input_streaming input_examples input_schema name strict "
    "type".split()
)
_SERVER_TOOL = frozenset("allowed_callers allowed_domains blocked_domains defer_loading max_uses response_inclusion".split())
_SERVER_TOOL |= {"cache_control", "name", "strict", "type"}
_SERVER_TOOLS = {
    "web_search": (("20250305", "20260209", "20260318"), _SERVER_TOOL | {"user_location"}),
    "web_fetch": (
        ("20250910", "20260209", "20260309", "20260318"),
        _SERVER_TOOL | {"citations", "max_content_tokens", "url_sources", "use_cache"},
    ),
}
_OTHER_TOOL = re.compile(r"(bash|code_execution|memory|text_editor|tool_search_tool_(bm25|regex))_20\d{6}")
_UNFORCED = re.compile(r"claude-(opus-5-5|sonnet-5-5|fable-5-[12]|mythos-5-[12])$")  # cannot be made to call a tool
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_IDS = {"tool_use": r"[a-zA-Z0-9_-]+", "server_tool_use": r"srvtoolu_[a-zA-Z0-9_]+"}
_NOT_IN_STRICT = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength maxItems uniqueItems minProperties "
    "maxProperties patternProperties not if then else dependentSchemas prefixItems contains".split()
)
_EACH_RESULT = "block must have a corresponding `tool_use` block in the previous message."
_EACH_CALL = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
_NO_MORE = "Extra inputs are not permitted"


def check(request: Mapping[str, Any], *, newest: bool = True) -> None:
    """Check a request. `newest` False is the API before version 2026-10-21.

    Raises:
        ModelError: the API would refuse it; `status` is 400.
    """
    for words in _faults(request, newest):
        raise ModelError(words, status=400, kind="invalid_request_error")


def _faults(request: Mapping[str, Any], newest: bool) -> Iterator[str]:
    """Yield faults; each rule may rely on those before it."""
    yield from _fields(request, newest)
    yield from _shapes(request)
    tools = [(f"tools.{n}", tool) for n, tool in enumerate(request.get("tools") or ())]
    said = turns(request["messages"])
    yield from _texts(said, newest)
    yield from _tools(tools)
    yield from _choice(request, tools)
    yield from _calls(said, bool(tools))
    yield from _results(said)
    yield from _server_calls(said)
    yield from _citations(request, said, tools)
    yield from _breakpoints(request, said, tools)


# --- fields and blocks ------------------------------------------------------------------------------------------------


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
    """Yield every block with its path, those inside of results after their result."""
    for turn in said:
        for path, block in turn.blocks:
            yield path, block
            if block["type"] in ("tool_result", "search_result"):
                yield from _inner(path, block)


def _inner(path: str, block: Block) -> Iterator[tuple[str, Block]]:
    content = block.get("content")
    for n, part in enumerate(content if isinstance(content, list) else ()):
        yield f"{path}.{block['type']}.content.{n}", part
        if part.get("type") == "search_result":
            yield from _inner(f"{path}.{block['type']}.content.{n}", part)


def _fields(request: Mapping[str, Any], newest: bool) -> Iterator[str]:
    for name in request:
        if name not in _REQUEST and (newest or name not in _SAMPLING):
            yield f"{name}: {_NO_MORE}"
    if not isinstance(request.get("model"), str) or not request["model"]:
        yield "model: Field required"
    most = request.get("max_tokens")
    if not isinstance(most, int) or isinstance(most, bool):
        yield "max_tokens: Field required" if most is None else "max_tokens: Input should be a valid integer"
    elif most < 0:
        yield "max_tokens: Input should be greater than or equal to 0"
    yield from _thinking(request)


def _thinking(request: Mapping[str, Any]) -> Iterator[str]:
    thinking = request.get("thinking") or {"type": "disabled"}
    if thinking.get("type") not in ("enabled", "disabled", "adaptive", "between_tools"):
        yield f"thinking: Input tag '{thinking.get('type')}' found using 'type' does not match any of the expected tags"
    if thinking["type"] == "enabled":
        tokens = thinking.get("budget_tokens")
        if not isinstance(tokens, int) or tokens < MIN_THINKING_TOKENS:
            yield f"thinking.enabled.budget_tokens: Input should be greater than or equal to {MIN_THINKING_TOKENS}"
        if tokens >= request["max_tokens"]:
            yield "`max_tokens` must be greater than `thinking.budget_tokens`."
        if (request.get("tool_choice") or {}).get("type") in ("any", "tool"):
            yield "Thinking may not be enabled when tool_choice forces tool use."


def _shapes(request: Mapping[str, Any]) -> Iterator[str]:
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        yield "messages: Field required" if not isinstance(messages, list) else "messages: at least one message is required"
    for n, message in enumerate(messages or ()):
        yield from _message(n, message)
    if messages and messages[0]["role"] != "user":
        yield 'messages: first message must use the "user" role'
    system = request.get("system")
    if not isinstance(system, str | list | None):
        yield "system: Input should be a valid string or list"
    for n, block in enumerate(system if isinstance(system, list) else ()):
        yield from _block(block, f"system.{n}", "system")
        if not block["text"]:
            yield "system: text content blocks must be non-empty"


def _message(n: int, message: Mapping[str, Any]) -> Iterator[str]:
    role, content = message.get("role"), message.get("content")
    if role == "system":
        yield 'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, ' + (
            'not "system" as an input message role.'
        )
    if role not in ("user", "assistant"):
        yield f"messages.{n}.role: Input should be 'user' or 'assistant'"
    if more := set(message) - {"role", "content"}:
        yield f"messages.{n}.{min(more)}: {_NO_MORE}"
    if not isinstance(content, str | list):
        yield f"messages.{n}.content: Field required"
    if not content:
        yield f"messages.{n}: all messages must have non-empty content except for the optional final assistant message"
    for i, block in enumerate(content if isinstance(content, list) else ()):
        yield from _block(block, f"messages.{n}.content.{i}", str(role))


def _block(block: Any, path: str, place: str) -> Iterator[str]:
    """Yield what is wrong with a block and those in it. `place` is a role, or the kind of the block around it."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if kind is None:
        yield f"{path}.type: Field required"
    if place == "assistant" and _CODE.fullmatch(str(kind)):
        return
    if kind not in _INSIDE[place].split():
        yield f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    wanted, more = (names.split() for names in _BLOCKS[str(kind)])
    yield from (f"{path}.{kind}.{name}: Field required" for name in wanted if block.get(name) is None)
    known = {"type", "cache_control", *wanted, *more}
    yield from (f"{path}.{kind}.{name}: {_NO_MORE}" for name in block if name not in known)
    for name, type_ in _TYPES.items():
        if name in block and kind not in ("document", "image") and not isinstance(block[name], type_):
            yield f"{path}.{kind}.{name}: Input should be a valid {type_.__name__}"
    setting = block.get("citations")
    if kind in ("search_result", "document") and setting is not None and set(setting) != {"enabled"}:
        yield f"{path}.{kind}.citations: Input should be a valid dictionary with the field `enabled`"
    content = block.get("content")
    if kind == "search_result" or (kind == "tool_result" and not isinstance(content, str | None)):
        if not isinstance(content, list):
            yield f"{path}.{kind}.content: Input should be a valid list"
        for n, part in enumerate(content):
            yield from _block(part, f"{path}.{kind}.content.{n}", kind)


def _texts(said: Sequence[Turn], newest: bool) -> Iterator[str]:
    for turn in said:
        for path, block in everywhere([turn]):
            if block["type"] == "text":
                yield from _text(path, block, citable=not newest or turn.role == "assistant")
            if block["type"] == "search_result":
                for name in ("source", "title", "content"):
                    if not block[name]:
                        yield f"{path}.search_result.{name}: should have at least 1 character or item after validation, not 0"


def _text(path: str, block: Block, *, citable: bool) -> Iterator[str]:
    if not block["text"]:
        marked = block.get("cache_control")
        yield (
            "messages: text content blocks must be non-empty"
            if not marked
            else (f"{path}.text: cache_control cannot be set for empty text blocks")
        )
    if not block["text"].strip():
        yield "messages: text content blocks must be non-empty and contain non-whitespace text"
    if block.get("citations") and not citable:
        yield f"{path}.text.citations: citations are not permitted on text blocks in user messages"


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(tools: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    seen = set()
    for path, tool in tools:
        yield from _custom_tool(path, tool) if tool.get("type") in (None, "custom") else _server_tool(path, tool)
        if not _NAME.fullmatch(str(tool.get("name") or "")):
            yield f"{path}.custom.name: String should match pattern '^{_NAME.pattern}$'"
        if tool["name"] in seen:
            yield "tools: Tool names must be unique."
        seen.add(tool["name"])
    strict = [tool["input_schema"] for _, tool in tools if tool.get("strict") and tool.get("input_schema")]
    if len(strict) > MAX_STRICT:
        yield f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported is {MAX_STRICT}."
    parts = [part for schema in strict for part in _schemas(schema)]
    optional = sum(len(set(part.get("properties") or ()) - set(part.get("required") or ())) for part in parts)
    if optional > MAX_OPTIONAL:
        yield f"Schemas contains too many optional parameters ({optional}), the limit is {MAX_OPTIONAL}"
    unions = sum("anyOf" in part or isinstance(part.get("type"), list) for part in parts)
    if unions > MAX_UNIONS:
        yield f"Schemas contains too many parameters with union types ({unions}), the limit is {MAX_UNIONS}"


def _custom_tool(path: str, tool: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"{path}.custom.{name}: {_NO_MORE}" for name in tool if name not in _CUSTOM_TOOL)
    schema = tool.get("input_schema")
    if not isinstance(schema, Mapping) or "type" not in schema:
        yield f"{path}.custom.input_schema{'.type' if schema is not None else ''}: Field required"
    elif schema["type"] != "object":
        yield f"{path}.custom.input_schema.type: Input should be 'object'"
    elif tool.get("strict"):
        yield from (f"{path}.custom: {words}" for words in _strict(schema))


def _server_tool(path: str, tool: Mapping[str, Any]) -> Iterator[str]:
    kind = str(tool["type"])
    name, _, version = kind.rpartition("_")
    versions, known = _SERVER_TOOLS.get(name, ((), frozenset()))
    if _OTHER_TOOL.fullmatch(kind):
        return
    if version not in versions:
        yield f"{path}: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    if tool.get("name") != name:
        yield f"{path}.{kind}.name: Input should be '{name}'"
    yield from (f"{path}.{kind}.{field}: {_NO_MORE}" for field in tool if field not in known)
    allowed, blocked = tool.get("allowed_domains"), tool.get("blocked_domains")
    if allowed and blocked:
        yield f"{path}.{kind}: Only one of `allowed_domains` and `blocked_domains` can be specified."
    yield from (f"{path}.{kind}: domains must not include a scheme: {d}" for d in allowed or blocked or () if "://" in d)
    if tool.get("max_uses") is not None and tool["max_uses"] < 1:
        yield f"{path}.{kind}.max_uses: Input should be greater than 0"


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
        if part.get("type") == "object" and part.get("additionalProperties") is not False:
            yield "For 'object' type, 'additionalProperties' must be explicitly set to false"
        if wrong := sorted(_NOT_IN_STRICT & set(part)):
            yield f"For '{part.get('type')}' type, properties {', '.join(wrong)} are not supported"
        if part.get("minItems") not in (None, 0, 1):
            yield "For 'array' type, 'minItems' values other than 0 or 1 are not supported"
        if not set(part.get("required") or ()) <= set(part.get("properties") or ()):
            yield "'required' names properties that are not defined"


def _choice(request: Mapping[str, Any], tools: Sequence[tuple[str, Mapping[str, Any]]]) -> Iterator[str]:
    choice = request.get("tool_choice")
    if choice is None:
        return
    if not tools:
        yield "tool_choice may only be specified while providing tools."
    kind = choice.get("type") if isinstance(choice, Mapping) else None
    fields = {"none": (), "tool": ("name", "disable_parallel_tool_use")}.get(str(kind), ("disable_parallel_tool_use",))
    if kind not in ("auto", "any", "tool", "none"):
        yield f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the expected tags"
    yield from (f"tool_choice.{kind}.{name}: {_NO_MORE}" for name in choice if name not in ("type", *fields))
    if kind in ("any", "tool") and _UNFORCED.search(request["model"]):
        yield 'tool_choice: type "tool" and "any" are not supported for this model.'
    if kind == "tool" and choice.get("name") not in [tool["name"] for _, tool in tools]:
        yield f"Tool '{choice.get('name')}' not found in provided tools"


# --- calls and results ------------------------------------------------------------------------------------------------


def _calls(said: Sequence[Turn], offered: bool) -> Iterator[str]:
    """Every call has an id of its own and is answered in the next message, where results come first."""
    if not offered and any(turn.of("tool_use", "tool_result") for turn in said):
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    seen = set()
    asked: list[str] = []
    for turn in [*said, Turn("user", len(said))]:
        leading = [b["tool_use_id"] for _, b in takewhile(lambda placed: placed[1]["type"] == "tool_result", turn.blocks)]
        if missing := [id for id in asked if id not in leading]:
            yield f"messages.{turn.number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: " + (
                f"{', '.join(missing)}. {_EACH_CALL}"
            )
        for path, block in turn.of(*_CALL_IDS):
            if not re.fullmatch(_CALL_IDS[block["type"]], block["id"]):
                yield f"{path}.{block['type']}.id: String should match pattern '^{_CALL_IDS[block['type']]}$'"
            if block["id"] in seen:
                yield f"messages.{turn.number}: `tool_use` ids must be unique"
            seen.add(block["id"])
        answered = set()
        for path, block in turn.of("tool_result"):
            if (id := block["tool_use_id"]) not in asked:
                yield f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` {_EACH_RESULT}"
            if id in answered:
                yield f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}"
            answered.add(id)
        asked = [block["id"] for _, block in turn.of("tool_use")]


def _results(said: Sequence[Turn]) -> Iterator[str]:
    for path, block in (placed for turn in said for placed in turn.of("tool_result")):
        content, failed = block.get("content"), block.get("is_error")
        kinds = {part["type"] for part in content} if isinstance(content, list) else set()
        if "search_result" in kinds and len(kinds) > 1:
            yield f"{path}.tool_result.content: if any block is of type `search_result`, all blocks must be"
        if failed and not content:
            yield f"{path}.tool_result: content cannot be empty if `is_error` is true"
        if failed and kinds - {"text"}:
            yield f'{path}.tool_result: all content must be type "text" if `is_error` is true'


def _server_calls(said: Sequence[Turn]) -> Iterator[str]:
    """A server tool's call has its result, unless the API is still to run it; a result has its call before it."""
    waiting: dict[str, str] = {}
    for n, turn in enumerate(said):
        for path, block in turn.blocks:
            kind = block["type"]
            if kind == "server_tool_use":
                waiting[block["id"]] = block["name"]
            elif kind.endswith("_tool_result") and waiting.pop(block["tool_use_id"], None) is None:
                yield f"{path}: unexpected `tool_use_id` found in `{kind}` blocks: {block['tool_use_id']}. " + (
                    f"Each `{kind}` block must have a corresponding `server_tool_use` block before it."
                )
        if waiting and turn.role == "assistant" and not _still_running(said[n:]):
            id, name = next(iter(waiting.items()))
            yield f"messages.{turn.number}: `{name}` tool use with id `{id}` was found without a corresponding " + (
                f"`{name}_tool_result` block"
            )


def _still_running(rest: Sequence[Turn]) -> bool:
    """Say whether a turn is the last, or only results of client calls follow it, or its own results come next."""
    if len(rest) == 1:
        return True
    only_results = all(block["type"] == "tool_result" for _, block in rest[1].blocks)
    if len(rest) == 2:
        return only_results and bool(rest[0].of("tool_use"))
    answers = [{b.get("tool_use_id") for _, b in turn.blocks if b["type"].endswith("tool_result")} for turn in rest[:3:2]]
    return only_results and {b["id"] for _, b in rest[0].of("server_tool_use")} <= answers[0] | answers[1]


# --- citations and caching --------------------------------------------------------------------------------------------


def _citations(
    request: Mapping[str, Any], said: Sequence[Turn], tools: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterator[str]:
    """All search results may be cited or none; with the API's own search all, with structured output none."""
    found = [block for _, block in everywhere(said) if block["type"] in ("search_result", "document")]
    enabled = [(block["type"], bool((block.get("citations") or {}).get("enabled"))) for block in found]
    settings = {on for kind, on in enabled if kind == "search_result"}
    if len(settings) > 1:
        yield "citations must be enabled for all `search_result` blocks of a request, or for none of them"
    if settings == {False} and any(str(tool.get("type")).startswith("web_search_") for _, tool in tools):
        yield "citations must be enabled on `search_result` blocks when the `web_search` tool is present"
    config = request.get("output_config") or {}
    yield from (f"output_config.{name}: {_NO_MORE}" for name in config if name not in ("effort", "format"))
    if config.get("effort") not in (None, "low", "medium", "high", "xhigh", "max"):
        yield "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
    if (form := config.get("format")) is not None:
        if form.get("type") != "json_schema" or not isinstance(form.get("schema"), Mapping):
            yield "output_config.format: Input should be a json_schema with a `schema`"
        yield from (f"output_config.format.schema: {words}" for words in _strict(form["schema"]))
        if any(on for _, on in enabled):
            yield "output_config.format cannot be used when citations are enabled"


def _breakpoints(
    request: Mapping[str, Any], said: Sequence[Turn], tools: Sequence[tuple[str, Mapping[str, Any]]]
) -> Iterator[str]:
    """At most four, a long one never after a short one; the request's own mark stands for one on its last block."""
    system = request.get("system")
    places = [*tools, *((f"system.{n}", block) for n, block in enumerate(system if isinstance(system, list) else ()))]
    marks = [(path, block["cache_control"]) for path, block in [*places, *everywhere(said)] if block.get("cache_control")]
    own = request.get("cache_control")
    for path, mark in [*marks, *([("", own)] if own else [])]:
        if not isinstance(mark, Mapping) or mark.get("type") != "ephemeral" or set(mark) - {"type", "ttl"}:
            yield f"{path}.cache_control.type: Input should be 'ephemeral'"
        if mark.get("ttl") not in (None, "5m", "1h"):
            yield f"{path}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'"
    if (count := len(marks) + bool(own)) > MAX_BREAKPOINTS:
        yield f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {count}."
    lives = [mark.get("ttl") or "5m" for _, mark in marks]
    if own and marks and marks[-1][0] == said[-1].blocks[-1][0] and lives[-1] != (own.get("ttl") or "5m"):
        yield "cache_control: the last block has a cache_control with another ttl"
    if "5m" in lives and "1h" in lives[lives.index("5m") :]:
        yield "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
