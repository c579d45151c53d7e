"""What the Messages API refuses in a request: status 400, in the API's words where a recording or its documentation has them.

One set for all who play the API: the offline server, `testing.FakeWeb` and the server of our own tests, so that a loop that
passes here passes there. The API describes its fields with pydantic, whose words its refusals are; so do these tables. They
hold what this package sends. Requests that only callers of `intercept` make are not judged (system messages between the others,
lifetimes of cache breakpoints), nor is what takes a memory of earlier replies (signatures of thinking).
Sources: recordings, platform.claude.com/docs, the request types of the SDK 2.12; read 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import chain, groupby, pairwise, takewhile
from operator import or_
from typing import Annotated, Any, Literal, get_args

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
from ipy_websearch.model.requests import forces_tools

Block = Mapping[str, Any]

MAX_BREAKPOINTS = 4

# Of the schemas of strict tools and structured output (platform.claude.com/docs/en/build-with-claude/structured-outputs, read
# 2026-11); the numbers of parameters are for all such schemas of a request together.
MAX_STRICT_TOOLS, MAX_OPTIONAL_PARAMETERS, MAX_UNION_PARAMETERS = 20, 24, 16
_UNSUPPORTED_KEYWORDS = frozenset(
    "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength maxItems uniqueItems minProperties "
    "maxProperties patternProperties not if then else dependentSchemas prefixItems contains".split()
)

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
_SERVER_TOOLS = "web_search web_fetch code_execution bash_code_execution text_editor_code_execution tool_search".split()
_USER = _one_of(*_GIVEN, _TOOL_RESULT, _block("container_upload", file_id=StrictStr))
_ASSISTANT = _one_of(
    _TEXT,
    _block("thinking", thinking=StrictStr, signature=StrictStr),
    _block("redacted_thinking", data=StrictStr),
    _block("tool_use", "caller toolset_name", id=_ID, name=StrictStr, input=dict),
    _block("server_tool_use", "caller", id=_SERVER_ID, name=StrictStr, input=dict),
    *(_block(f"{name}_tool_result", "caller", tool_use_id=StrictStr, content=_ANY) for name in _SERVER_TOOLS),
)
_SCHEMA = _object("input_schema", extra="allow", type=Literal["object"], properties=dict | None, required=list[str] | None)
_CUSTOM_TOOL = _object(
    "custom",
    "allowed_callers defer_loading description eager_input_streaming input_examples strict",
    type=Literal["custom"] | None,
    name=_NAME,
    input_schema=_SCHEMA,
    cache_control=_MARK | None,
)
# The API's own tools, of which a request may set anything else.
_OWN_TOOL = _object(
    "own",
    extra="allow",
    type=Annotated[StrictStr, Field(pattern=r"^[a-z_]+_20\d{6}$")],
    name=StrictStr,
    max_uses=Annotated[StrictInt, Field(gt=0)] | None,
    cache_control=_MARK | None,
)
_TOOL: Any = Annotated[
    Annotated[_CUSTOM_TOOL, Tag("custom")] | Annotated[_OWN_TOOL, Tag("own")],
    Discriminator(lambda tool: "custom" if not isinstance(tool, Mapping) or tool.get("type") in (None, "custom") else "own"),
]
_MESSAGE: Any = _one_of(
    _object("user", role=Literal["user"], content=_content(_USER) | None),
    _object("assistant", role=Literal["assistant"], content=_content(_ASSISTANT) | None),
    _object("system", "clear_at output_config", role=Literal["system"], content=Any),
    by="role",
)
_CHOICE = _one_of(
    _tagged("auto", "disable_parallel_tool_use"),
    _tagged("any", "disable_parallel_tool_use"),
    _tagged("tool", "disable_parallel_tool_use", name=StrictStr),
    _tagged("none"),
)
_THINKING = _one_of(
    _tagged("enabled", extra="allow", budget_tokens=Annotated[StrictInt, Field(ge=1_024)]),
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
        path = ".".join(str(p) for n, p in enumerate(fault["loc"]) if n == 0 or p not in ("user", "assistant", "system"))
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
        _schemas(request, tools),
        _choice(request, tools),
        _calls(said, bool(tools)),
        _server_calls(said),
        _citations(request, said),
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
    for turn in said:
        for path, block in turn.blocks:
            yield from _inside(path, block)


def _inside(path: str, block: Block) -> Iterator[tuple[str, Block]]:
    yield path, block
    inner = blocks_of(block.get("content") or ()) if block["type"] in ("search_result", "tool_result") else ()
    for n, part in enumerate(inner):
        yield from _inside(f"{path}.{block['type']}.content.{n}", part)


def _messages(request: Mapping[str, Any]) -> list[str]:
    messages, system = request["messages"], request.get("system")
    empty = "all messages must have non-empty content except for the optional final assistant message"
    return _where(
        {
            "messages: at least one message is required": not messages,
            **{f"messages.{n}: {empty}": not message.get("content") for n, message in enumerate(messages)},
            'messages: first message must use the "user" role': any(message["role"] != "user" for message in messages[:1]),
            f"system: {_EMPTY_TEXT}": isinstance(system, list) and not all(block["text"] for block in system),
        }
    )


def _blocks(said: Sequence[Turn]) -> Iterator[str]:
    """Texts hold something, and those of users cite nothing; a result is of one form."""
    for role, path, block in ((turn.role, path, block) for turn in said for path, block in everywhere([turn])):
        text, content = block["text"] if block["type"] == "text" else "x", block.get("content")
        cited = role != "assistant" and block["type"] == "text" and block.get("citations")
        is_result = block["type"] == "tool_result"
        kinds = {part["type"] for part in blocks_of(content or ())} if is_result else set()
        failed = is_result and block.get("is_error")
        yield from _where(
            {
                f"{path}.text: cache_control cannot be set for empty text blocks": not text and block.get("cache_control"),
                f"messages: {_EMPTY_TEXT}": not text,
                f"messages: {_EMPTY_TEXT} and contain non-whitespace text": not text.strip(),
                f"{path}.text.citations: citations are not permitted on text blocks in user messages": cited,
                f"{path}.tool_result.content: if any block is of type `search_result`, all blocks must be": (
                    "search_result" in kinds and len(kinds) > 1
                ),
                f"{path}.tool_result: content cannot be empty if `is_error` is true": failed and not content,
                f'{path}.tool_result: all content must be type "text" if `is_error` is true': failed and kinds - {"text"},
            }
        )


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for n, tool in enumerate(tools):
        allowed, blocked = tool.get("allowed_domains") or (), tool.get("blocked_domains") or ()
        schemes = [domain for domain in (*allowed, *blocked) if "://" in domain]
        yield from _where(
            {
                f"tools.{n}: Only one of `allowed_domains` and `blocked_domains` can be specified.": allowed and blocked,
                f"tools.{n}: domains must not include a scheme: {', '.join(schemes)}": schemes,
            }
        )
    yield from _where({"tools: Tool names must be unique.": len({tool["name"] for tool in tools}) < len(tools)})


def _schemas(request: Mapping[str, Any], tools: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The schemas of strict tools and of structured output are closed, of supported keywords only, and not too large."""
    schemas = {f"tools.{n}.custom.input_schema": tool["input_schema"] for n, tool in enumerate(tools) if tool.get("strict")}
    strict_tools = len(schemas)
    if output := (request.get("output_config") or {}).get("format"):
        schemas["output_config.format.schema"] = output.get("schema") or {}
    parts = [(path, part) for path, schema in schemas.items() for part in _subschemas(schema)]
    for path, part in parts:
        kind, unsupported = part.get("type"), sorted(_UNSUPPORTED_KEYWORDS & set(part))
        is_open = kind == "object" and part.get("additionalProperties") is not False
        yield from _where(
            {
                f"{path}: For 'object' type, 'additionalProperties' must be explicitly set to false": is_open,
                f"{path}: For '{kind}' type, properties {', '.join(unsupported)} are not supported": unsupported,
            }
        )
    optional = sum(len(set(part.get("properties") or ()) - set(part.get("required") or ())) for _, part in parts)
    unions = sum("anyOf" in part or isinstance(part.get("type"), list) for _, part in parts)
    yield from _where(
        {
            f"Too many strict tools ({strict_tools}). The maximum number of strict tools supported is {MAX_STRICT_TOOLS}.": (
                strict_tools > MAX_STRICT_TOOLS
            ),
            f"Schemas contains too many optional parameters ({optional}), the limit is {MAX_OPTIONAL_PARAMETERS}": (
                optional > MAX_OPTIONAL_PARAMETERS
            ),
            f"Schemas contains too many parameters with union types ({unions}), the limit is {MAX_UNION_PARAMETERS}": (
                unions > MAX_UNION_PARAMETERS
            ),
        }
    )


def _subschemas(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and the schemas in it of properties, items and variants."""
    yield schema
    items = [schema["items"]] if "items" in schema else []
    for part in (*(schema.get("properties") or {}).values(), *items, *(schema.get("anyOf") or ())):
        yield from _subschemas(part)


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
                forced and not forces_tools(request["model"])
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
        results = {path: block["tool_use_id"] for path, block in turn.of("tool_result")}
        leading = [b["tool_use_id"] for _, b in takewhile(lambda placed: placed[1]["type"] == "tool_result", turn.blocks)]
        missing = ", ".join(id for id in asked if id not in leading)
        yield from _where(
            {
                f"messages.{turn.number - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{missing}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.": missing,
                **{
                    f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block must have "
                    "a corresponding `tool_use` block in the previous message.": id not in asked
                    for path, id in results.items()
                },
                **{
                    f"{path}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {id}": (
                        [*results.values()].count(id) > 1
                    )
                    for path, id in results.items()
                },
            }
        )


def _server_calls(said: Sequence[Turn]) -> Iterator[str]:
    """A server tool's call has its result before the user says more."""
    answered = {block.get("tool_use_id") for turn in said for _, block in turn.blocks}
    for turn, following in pairwise(said):
        says_more = any(block["type"] != "tool_result" for _, block in following.blocks)
        yield from _where(
            {
                f"messages.{following.number - 1}: `{block['name']}` tool use with id `{block['id']}` was found without a "
                f"corresponding `{block['name']}_tool_result` block": says_more and block["id"] not in answered
                for _, block in turn.of("server_tool_use")
            }
        )


# --- citations and caching --------------------------------------------------------------------------------------------


def _citations(request: Mapping[str, Any], said: Sequence[Turn]) -> list[str]:
    """All search results may be cited or none; with structured output nothing."""
    found = [block for _, block in everywhere(said) if block["type"] in ("search_result", "document")]
    enabled = {(block["type"], bool((block.get("citations") or {}).get("enabled"))) for block in found}
    is_formed, cited = (request.get("output_config") or {}).get("format"), any(on for _, on in enabled)
    return _where(
        {
            "citations must be enabled for all `search_result` blocks of a request, or for none of them": (
                {("search_result", True), ("search_result", False)} <= enabled
            ),
            "output_config.format cannot be used when citations are enabled": is_formed and cited,
        }
    )


def _breakpoints(request: Mapping[str, Any], said: Sequence[Turn], tools: Sequence[Mapping[str, Any]]) -> list[str]:
    """There are at most four; the request's own mark stands for one on its last block."""
    system = request.get("system")
    places = [request, *tools, *(system if isinstance(system, list) else ()), *(block for _, block in everywhere(said))]
    found = sum(bool(place.get("cache_control")) for place in places)
    most = f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided."
    return _where({f"{most} Found {found}.": found > MAX_BREAKPOINTS})
