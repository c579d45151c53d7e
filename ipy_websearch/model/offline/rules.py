"""What the Messages API refuses in a request: status 400, in the API's words where a recording or its documentation has them.

One set for all who play the API: the offline server, `testing.FakeWeb` and the server of our own tests, so that a loop that
passes here passes there. The API describes its fields with pydantic, whose words its refusals are; so do these tables. What
only a server can know that remembers its replies (signatures of thinking) is not in it, nor what is in images and what code
gave. Sources: recordings, platform.claude.com/docs, the request types of the SDK 2.12; read 2026-11.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, groupby, pairwise, takewhile
from operator import or_
from typing import Annotated, Any, Literal, Optional, get_args

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    ValidationError,
    create_model,
)

from ipy_websearch.errors import ModelError

Block = Mapping[str, Any]

MAX_STRICT, MAX_OPTIONAL, MAX_UNIONS, MAX_BREAKPOINTS = 20, 24, 16, 4
MIN_THINKING_TOKENS = 1_024

_UNFORCED = re.compile(r"claude-(opus-5-5|sonnet-5-5|fable-5-[12]|mythos-5-[12])$")  # cannot be made to call a tool
# Models before Opus 4.8 take no system messages between the others; for the rules of their places see
# https://platform.claude.com/docs/en/build-with-claude/mid-conversation-system-messages (read 2026-11-23).
_OLD = re.compile(r"claude-(?:[1-3]|instant|(?:sonnet|haiku)-4|opus-4(?:-[0-7]\b|-20\d{6}|@|$))")
_OTHER_TOOL = re.compile(r"(bash|code_execution|memory|text_editor)_20\d{6}|tool_search_tool_(bm25|regex)(_20\d{6})?")
_NOT_IN_STRICT = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength maxItems uniqueItems minProperties "
    "maxProperties patternProperties not if then else dependentSchemas prefixItems contains".split()
)
_CALLS_SERVER = re.compile("server_tool_use|._tool_result")
_EMPTY_TEXT = "text content blocks must be non-empty"

# --- the fields of a request -------------------------------------------------------------------------------------------


def _object(name: str, may_have: str = "", /, *, extra: str = "forbid", **fields: Any) -> Any:
    """Return the type of an object. A field whose type allows None may be missing; those it `may_have` hold anything."""
    made = {key: (kind, None if type(None) in get_args(kind) else ...) for key, kind in fields.items()}
    anything = dict.fromkeys(may_have.split(), (Any, None))
    config: Any = {"extra": extra, "defer_build": True}
    return create_model(name, __config__=config, **made, **anything)  # type: ignore[call-overload]


def _tagged(kind: str, may_have: str = "", /, **fields: Any) -> Any:
    return _object(kind, may_have, type=Literal[kind], **fields)


def _block(kind: str, may_have: str = "", /, **fields: Any) -> Any:
    return _tagged(kind, may_have, cache_control=_MARK | None, **fields)


def _one_of(*kinds: Any, by: str = "type") -> Any:
    return Annotated[reduce(or_, kinds), Field(discriminator=by)]


def _content(block: Any) -> Any:
    """Return the type of a content: blocks, or a string, which is one of text."""
    return Annotated[list[block], BeforeValidator(blocks_of)]


def blocks_of(content: Any) -> Any:
    """Return the blocks of a content."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


_MARK = _object("cache_control", type=Literal["ephemeral"], ttl=Literal["5m", "1h"] | None)
_ANY: Any = dict[str, Any] | list[dict[str, Any]]
_FILLED = Annotated[StrictStr, Field(min_length=1)]
_ID, _SERVER_ID, _NAME = (
    Annotated[StrictStr, Field(pattern=rf"^{pattern}$")]
    for pattern in ("[a-zA-Z0-9_-]+", "srvtoolu_[a-zA-Z0-9_]+", "[a-zA-Z0-9_-]{1,128}")
)

_CITATIONS = _object("citations", "enabled")
_TEXT: Any = _block("text", text=StrictStr, citations=list | None)
_SEARCH_RESULT = _block(
    "search_result",
    source=_FILLED,
    title=_FILLED,
    content=Annotated[list[_TEXT], Field(min_length=1)],
    citations=_CITATIONS | None,
)
_GIVEN = (  # what a user and a tool's result may hold
    _TEXT,
    _SEARCH_RESULT,
    _block("image", "transformations", source=dict),
    _block("document", "title context", source=dict, citations=_CITATIONS | None),
)
_IN_RESULT = _one_of(*_GIVEN, _block("tool_reference", tool_name=StrictStr))
_TOOL_RESULT = _block(
    "tool_result", "toolset_name", tool_use_id=StrictStr, content=_content(_IN_RESULT) | None, is_error=StrictBool | None
)
_CODE_RESULTS = Literal[
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
]
_USER = _one_of(*_GIVEN, _TOOL_RESULT, _block("container_upload", file_id=StrictStr))
_ASSISTANT = _one_of(
    _TEXT,
    _block("thinking", thinking=StrictStr, signature=StrictStr),
    _block("redacted_thinking", data=StrictStr),
    _block("tool_use", "caller toolset_name", id=_ID, name=StrictStr, input=dict),
    _block("server_tool_use", "caller", id=_SERVER_ID, name=StrictStr, input=dict),
    *(_block(f"{name}_tool_result", "caller", tool_use_id=StrictStr, content=_ANY) for name in ("web_search", "web_fetch")),
    _object("code_result", extra="allow", type=_CODE_RESULTS, tool_use_id=StrictStr, cache_control=_MARK | None),
)
_SYSTEM = _one_of(_TEXT, *(_block(kind, tool=dict) for kind in ("tool_addition", "tool_removal")))


def _tool_tag(tool: Any) -> str:
    kind = str((tool.get("type") if isinstance(tool, Mapping) else None) or "custom")
    return "other tool" if _OTHER_TOOL.fullmatch(kind) else kind


# The API's own tools: their versions, and the fields that they have besides those of all.
_SERVER_TOOLS = {
    "web_search": ("20250305 20260209 20260318", "user_location"),
    "web_fetch": ("20250910 20260209 20260309 20260318", "citations max_content_tokens url_sources use_cache"),
}
_SCHEMA = _object("input_schema", extra="allow", type=Literal["object"], properties=dict | None, required=list[str] | None)
_CUSTOM_TOOL = _object(
    "custom",
    "allowed_callers defer_loading description eager_input_streaming input_examples strict",
    type=Literal["custom"] | None,
    name=_NAME,
    input_schema=_SCHEMA,
    cache_control=_MARK | None,
)
_DOMAINS = list[str] | None
_OWN_TOOLS: list[Any] = [
    Annotated[
        _block(
            f"{name}_{version}",
            f"{may_have} allowed_callers defer_loading response_inclusion strict",
            name=Literal[name],
            max_uses=Annotated[StrictInt, Field(gt=0)] | None,
            allowed_domains=_DOMAINS,
            blocked_domains=_DOMAINS,
        ),
        Tag(f"{name}_{version}"),
    ]
    for name, (versions, may_have) in _SERVER_TOOLS.items()
    for version in versions.split()
]
_OTHER: Any = Annotated[_object("other", extra="allow", name=StrictStr, cache_control=_MARK | None), Tag("other tool")]
_TOOL: Any = Annotated[reduce(or_, (Annotated[_CUSTOM_TOOL, Tag("custom")], _OTHER, *_OWN_TOOLS)), Discriminator(_tool_tag)]
_MESSAGE: Any = _one_of(
    _object("user", role=Literal["user"], content=_content(_USER) | None),
    _object("assistant", role=Literal["assistant"], content=_content(_ASSISTANT) | None),
    _object("system", "clear_at output_config", role=Literal["system"], content=_content(_SYSTEM) | None),
    by="role",
)
_CHOICE = _one_of(
    _tagged("auto", "disable_parallel_tool_use"),
    _tagged("any", "disable_parallel_tool_use"),
    _tagged("tool", "disable_parallel_tool_use", name=StrictStr),
    _tagged("none"),
)
_THINKING = _one_of(
    _tagged("enabled", extra="allow", budget_tokens=Annotated[StrictInt, Field(ge=MIN_THINKING_TOKENS)]),
    *(_tagged(kind, extra="allow") for kind in ("disabled", "adaptive", "between_tools")),
)
_OUTPUT = _object(
    "output_config",
    effort=Literal["low", "medium", "high", "xhigh", "max"] | None,
    format=_tagged("json_schema", extra="allow") | None,
)
_REQUEST = _object(
    "request",
    "container diagnostics inference_geo metadata service_tier speed stop_sequences stream user_profile_id billing_policy "
    "compaction context_management fallback_credit_token fallbacks mcp_servers thread",
    model=_FILLED,
    max_tokens=Annotated[StrictInt, Field(ge=0)],
    messages=list[_MESSAGE],
    system=_content(_TEXT) | None,
    tools=list[_TOOL] | None,
    tool_choice=_CHOICE | None,
    thinking=_THINKING | None,
    output_config=_OUTPUT | None,
    cache_control=_MARK | None,
)
# What is read of a JSON schema; the rest of it may be anything.
_PART: Any = "JsonSchema | bool"
_JSON_SCHEMA = _object(
    "JsonSchema",
    extra="allow",
    type=str | list[str] | None,
    properties=dict[str, _PART] | None,
    required=list[str] | None,
    items=Optional[_PART],  # noqa: UP045 (a string takes no "|")
    minItems=StrictInt | None,
    **dict.fromkeys(("$defs", "definitions"), dict[str, _PART] | None),
    **dict.fromkeys(("anyOf", "allOf", "oneOf"), list[_PART] | None),
)


def check(request: Mapping[str, Any]) -> None:
    """Check a request by the rules of API version 2026-10-21, which takes no `temperature`, `top_p` and `top_k` any more.

    Raises:
        ModelError: the API would refuse it; `status` is 400.
    """
    try:
        _REQUEST.model_validate(request)
        words = next(_faults(request), "")
    except ValidationError as exc:
        fault = exc.errors(include_url=False)[0]
        parts = enumerate(fault["loc"])
        path = ".".join(str(part) for n, part in parts if n == 0 or part not in ("user", "assistant", "system"))
        words = f"{path or 'request'}: {fault['msg']}"
    if words:
        raise ModelError(words, status=400, kind="invalid_request_error")


def _faults(request: Mapping[str, Any]) -> Iterator[str]:
    """Return the faults of a request whose fields are in order; each rule may rely on those before it."""
    tools, said = request.get("tools") or (), turns(request["messages"])
    return chain(
        _messages(request),
        _blocks(said),
        _tools(tools),
        _choice(request, tools),
        _calls(said, bool(tools)),
        _server_calls(said),
        _citations(request, said, tools),
        _breakpoints(request, said, tools),
    )


def _where(faults: Mapping[str, object]) -> list[str]:
    """Return the faults that are there: each is told in its words, with whether it was made."""
    return [words for words, is_made in faults.items() if is_made]


# --- messages ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """All that one side said in a row, its blocks with their paths; `number` is its first message's."""

    role: str
    number: int
    blocks: Sequence[tuple[str, Block]] = ()

    def of(self, *kinds: str) -> list[tuple[str, Block]]:
        """Return the blocks of these types with their paths."""
        return [(path, block) for path, block in self.blocks if block["type"] in kinds]


def turns(messages: Iterable[Mapping[str, Any]]) -> list[Turn]:
    """Return messages as turns: neighbours of the same role are one, as the API merges them."""
    made = []
    for role, group in groupby(enumerate(messages), lambda placed: str(placed[1]["role"])):
        members = [(n, blocks_of(message.get("content") or ())) for n, message in group]
        blocks = [(f"messages.{n}.content.{i}", block) for n, content in members for i, block in enumerate(content)]
        made.append(Turn(role, members[0][0], blocks))
    return made


def everywhere(said: Iterable[Turn]) -> Iterator[tuple[str, Block]]:
    """Yield every block with its path, those inside of others after these."""
    waiting = [placed for turn in said for placed in turn.blocks]
    while waiting:
        path, block = waiting.pop(0)
        yield path, block
        inner = blocks_of(block.get("content") or ()) if block["type"] in ("search_result", "tool_result") else ()
        waiting[:0] = [(f"{path}.{block['type']}.content.{n}", part) for n, part in enumerate(inner)]


def _messages(request: Mapping[str, Any]) -> Iterator[str]:
    messages, system = request["messages"], request.get("system")
    yield from _where({"messages: at least one message is required": not messages})
    empty = "all messages must have non-empty content except for the optional final assistant message"
    yield from _where(
        {
            **{f"messages.{n}: {empty}": not message.get("content") for n, message in enumerate(messages)},
            'messages: first message must use the "user" role': messages[0]["role"] != "user",
            f"system: {_EMPTY_TEXT}": isinstance(system, list) and not all(block["text"] for block in system),
        }
    )
    for n, (before, message) in enumerate(pairwise(messages), 1):
        if message["role"] == "system":
            follows = before["role"] == "user" or _CALLS_SERVER.search(blocks_of(before["content"])[-1]["type"])
            path, ends = f"messages.{n}: role 'system'", [after["role"] for after in messages[n + 1 : n + 2]]
            yield from _where(
                {
                    f"{path} is not supported on this model": _OLD.search(request["model"]),
                    f"{path} must follow a 'user' message or an 'assistant' message that ends in a server tool": not follows,
                    f"{path} must precede an 'assistant' message or end the array": ends not in ([], ["assistant"]),
                }
            )


def _blocks(said: Sequence[Turn]) -> Iterator[str]:
    """Texts hold something, and those of users cite nothing; a result is of one form."""
    for turn in said:
        for path, block in everywhere([turn]):
            text = block["text"] if block["type"] == "text" else "x"
            cited = turn.role != "assistant" and block["type"] == "text" and block.get("citations")
            content, failed = block.get("content"), block["type"] == "tool_result" and block.get("is_error")
            kinds = (
                {part["type"] for part in content} if isinstance(content, list) and block["type"] == "tool_result" else set()
            )
            mixed = "search_result" in kinds and len(kinds) > 1
            yield from _where(
                {
                    f"{path}.text: cache_control cannot be set for empty text blocks": not text and block.get("cache_control"),
                    f"messages: {_EMPTY_TEXT}": not text,
                    f"messages: {_EMPTY_TEXT} and contain non-whitespace text": not text.strip(),
                    f"{path}.text.citations: citations are not permitted on text blocks in user messages": cited,
                    f"{path}.tool_result.content: if any block is of type `search_result`, all blocks must be": mixed,
                    f"{path}.tool_result: content cannot be empty if `is_error` is true": failed and not content,
                    f'{path}.tool_result: all content must be type "text" if `is_error` is true': failed and kinds - {"text"},
                }
            )


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for n, tool in enumerate(tools):
        allowed, blocked = tool.get("allowed_domains"), tool.get("blocked_domains")
        schemes = [domain for domain in allowed or blocked or () if "://" in domain]
        path = f"tools.{n}.{tool.get('type')}"
        yield from _where(
            {
                f"{path}: Only one of `allowed_domains` and `blocked_domains` can be specified.": allowed and blocked,
                f"{path}: domains must not include a scheme: {', '.join(schemes)}": schemes,
            }
        )
        if "input_schema" in tool:
            yield from _schema(f"tools.{n}.custom.input_schema", tool["input_schema"], strict=bool(tool.get("strict")))
    strict = [tool["input_schema"] for tool in tools if tool.get("strict") and "input_schema" in tool]
    parts = [part for schema in strict for part in _parts(schema)]
    optional = sum(len(set(part.get("properties") or ()) - set(part.get("required") or ())) for part in parts)
    unions = sum("anyOf" in part or isinstance(part.get("type"), list) for part in parts)
    yield from _where(
        {
            "tools: Tool names must be unique.": len({tool["name"] for tool in tools}) < len(tools),
            f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported is {MAX_STRICT}.": (
                len(strict) > MAX_STRICT
            ),
            f"Schemas contains too many optional parameters ({optional}), the limit is {MAX_OPTIONAL}": optional > MAX_OPTIONAL,
            f"Schemas contains too many parameters with union types ({unions}), the limit is {MAX_UNIONS}": unions > MAX_UNIONS,
        }
    )


def _parts(schema: Any) -> list[Mapping[str, Any]]:
    """Return a schema and all schemas in it."""
    if not isinstance(schema, Mapping):
        return []
    named = [part for name in ("properties", "$defs", "definitions") for part in (schema.get(name) or {}).values()]
    others = [part for name in ("anyOf", "allOf", "oneOf") for part in schema.get(name) or ()]
    return [schema, *(part for inner in (*named, *others, schema.get("items")) for part in _parts(inner))]


def _schema(path: str, schema: Mapping[str, Any], *, strict: bool) -> Iterator[str]:
    """Yield what is wrong with a schema, and what strict tools and structured output do not take in one."""
    try:
        _JSON_SCHEMA.model_validate(schema)
    except ValidationError:
        yield f"{path}: JSON schema is invalid. It must match JSON Schema draft 2020-12"
    for part in _parts(schema) if strict else ():
        kind, wrong = part.get("type"), sorted(_NOT_IN_STRICT & set(part))
        is_open = kind == "object" and part.get("additionalProperties") is not False
        unknown = set(part.get("required") or ()) - set(part.get("properties") or ())
        yield from _where(
            {
                f"{path}: For 'object' type, 'additionalProperties' must be explicitly set to false": is_open,
                f"{path}: For '{kind}' type, properties {', '.join(wrong)} are not supported": wrong,
                f"{path}: For 'array' type, 'minItems' values other than 0 or 1 are not supported": (part.get("minItems") or 0)
                > 1,
                f"{path}: 'required' names properties that are not defined": unknown,
            }
        )


def _choice(request: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> list[str]:
    choice, thinking = request.get("tool_choice") or {}, request.get("thinking") or {}
    name, forced = choice.get("name"), choice.get("type") in ("any", "tool")
    return _where(
        {
            "`max_tokens` must be greater than `thinking.budget_tokens`.": (
                thinking.get("type") == "enabled" and thinking["budget_tokens"] >= request["max_tokens"]
            ),
            "Thinking may not be enabled when tool_choice forces tool use.": thinking.get("type") == "enabled" and forced,
            "tool_choice may only be specified while providing tools.": choice and not tools,
            'tool_choice: type "tool" and "any" are not supported for this model.': (
                forced and _UNFORCED.search(request["model"])
            ),
            f"Tool '{name}' not found in provided tools": name is not None and name not in [tool["name"] for tool in tools],
        }
    )


# --- calls and results ------------------------------------------------------------------------------------------------


def _calls(said: Sequence[Turn], offered: bool) -> Iterator[str]:
    """Every call has an id of its own and is answered once in the next message, where results come first."""
    ids = [block["id"] for turn in said for _, block in turn.of("tool_use", "server_tool_use")]
    used = any(turn.of("tool_use", "tool_result") for turn in said)
    yield from _where(
        {
            "Requests which include `tool_use` or `tool_result` blocks must define tools": used and not offered,
            "messages: `tool_use` ids must be unique": len(set(ids)) < len(ids),
        }
    )
    for before, turn in pairwise([Turn("assistant", 0), *said, Turn("user", len(said))]):
        asked = [block["id"] for _, block in before.of("tool_use")]
        leading = [b["tool_use_id"] for _, b in takewhile(lambda placed: placed[1]["type"] == "tool_result", turn.blocks)]
        missing = ", ".join(id for id in asked if id not in leading)
        yield from _where(
            {
                f"messages.{turn.number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{missing}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.": missing
            }
        )
        results = [(path, block["tool_use_id"]) for path, block in turn.of("tool_result")]
        for n, (path, id) in enumerate(results):
            yield from _where(
                {
                    f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have "
                    "a corresponding `tool_use` block in the previous message.": id not in asked,
                    f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}": (
                        id in [other for _, other in results[:n]]
                    ),
                }
            )


def _server_calls(said: Sequence[Turn]) -> Iterator[str]:
    """A server tool's call has its result before the user says more, and a result has its call before it."""
    waiting: dict[str, str] = {}
    for turn in said:
        for path, block in turn.blocks:
            kind = block["type"]
            if waiting and turn.role == "user" and kind != "tool_result":
                id, name = next(iter(waiting.items()))
                yield (
                    f"messages.{turn.number - 1}: `{name}` tool use with id `{id}` was found without a corresponding "
                    f"`{name}_tool_result` block"
                )
            if kind == "server_tool_use":
                waiting[block["id"]] = block["name"]
            elif kind.endswith("_tool_result") and waiting.pop(block["tool_use_id"], None) is None:
                yield (
                    f"{path}: unexpected `tool_use_id` found in `{kind}` blocks: {block['tool_use_id']}. "
                    f"Each `{kind}` block must have a corresponding `server_tool_use` block before it."
                )


# --- citations and caching --------------------------------------------------------------------------------------------


def _citations(request: Mapping[str, Any], said: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """All search results may be cited or none; with the API's own search all, with structured output none."""
    found = [block for _, block in everywhere(said) if block["type"] in ("search_result", "document")]
    enabled = {(block["type"], bool((block.get("citations") or {}).get("enabled"))) for block in found}
    settings = {on for kind, on in enabled if kind == "search_result"}
    searches = any(str(tool.get("type")).startswith("web_search_") for tool in tools)
    form, blocks = (request.get("output_config") or {}).get("format"), "`search_result` blocks"
    yield from _where(
        {
            f"citations must be enabled for all {blocks} of a request, or for none of them": len(settings) > 1,
            f"citations must be enabled on {blocks} when the `web_search` tool is present": settings == {False} and searches,
            "output_config.format cannot be used when citations are enabled": form and any(on for _, on in enabled),
        }
    )
    if form:
        yield from _schema("output_config.format.schema", form.get("schema"), strict=True)


def _breakpoints(request: Mapping[str, Any], said: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """At most four, a long one never after a short one; the request's own mark stands for one on its last block."""
    system, own = request.get("system"), request.get("cache_control")
    places = [*tools, *(system if isinstance(system, list) else ()), *(block for _, block in everywhere(said))]
    marks = [place["cache_control"] for place in places if place.get("cache_control")]
    count, last = len(marks) + bool(own), said[-1].blocks[-1][1].get("cache_control")
    lives = list(map(_life, marks))
    yield from _where(
        {
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {count}.": count
            > MAX_BREAKPOINTS,
            "cache_control: the last block has a cache_control with another ttl": own and last and _life(own) != _life(last),
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block": (
                "5m" in lives and "1h" in lives[lives.index("5m") :]
            ),
        }
    )


def _life(mark: Mapping[str, Any]) -> str:
    return mark.get("ttl") or "5m"
