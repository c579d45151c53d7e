"""Checks of a request, with the refusals the Messages API gives, so that offline runs catch our own mistakes.

Wordings are those of recorded 400s where there is one (tool results, temperature, empty content); the rules are from
platform.claude.com/docs: API errors, tool use, search results, prompt caching, migration to 2026-10-21 (read 2026-11).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipy_websearch.model.offline.conversation import blocks_of
from ipy_websearch.model.offline.tool_checks import Refused, check_choice, check_tools

_FIELDS = frozenset(
    ["model", "messages", "max_tokens", "system", "tools", "tool_choice", "stream", "stop_sequences", "metadata", "thinking"]
    + ["service_tier", "container", "output_config", "cache_control", "inference_geo", "speed", "diagnostics", "workspace_id"]
    + ["user_profile_id", "mcp_servers", "context_management", "betas"]
)
_BREAKPOINTS = 4


def check_request(body: Any, *, counting: bool = False) -> None:
    """Return if a request is valid (`counting`: a token count, which needs no `max_tokens`).

    Raises:
        Refused: it is not; the Messages API would answer 400 with this message.
    """
    if not isinstance(body, dict):
        raise Refused("The request body is not valid JSON: expected an object")
    for name in body:
        if name not in _FIELDS:
            raise Refused(f"{name}: Extra inputs are not permitted")
    for name in ("model", "messages") if counting else ("model", "max_tokens", "messages"):
        if body.get(name) is None:
            raise Refused(f"{name}: Field required")
    if not isinstance(body["model"], str) or not body["model"]:
        raise Refused("model: Input should be a valid string")
    limit = body.get("max_tokens", 1)
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise Refused("max_tokens: Input should be greater than or equal to 1")
    _check_system(body.get("system"))
    check_tools(body.get("tools") or [])
    check_choice(body.get("tool_choice"), body.get("tools") or [])
    _check_messages(body["messages"], has_tools=bool(body.get("tools")))
    _check_references(body)
    _check_citations(body)
    _check_caching(body)


def _check_system(system: Any) -> None:
    if system is None or isinstance(system, str):
        return
    for at, block in enumerate(system if isinstance(system, list) else [system]):
        if not isinstance(block, Mapping) or block.get("type") != "text":
            raise Refused(f"system.{at}: Input should be a text block")
        if not str(block.get("text") or "").strip():
            raise Refused("system: text content blocks must be non-empty")


def _check_messages(messages: Any, *, has_tools: bool) -> None:
    if not isinstance(messages, list) or not messages:
        raise Refused("messages: at least one message is required")
    for at, message in enumerate(messages):
        role = message.get("role") if isinstance(message, Mapping) else None
        if role not in ("user", "assistant"):
            raise Refused(f"messages.{at}.role: Input should be 'user' or 'assistant'")
        _check_content(at, message)
    if messages[0]["role"] != "user":
        raise Refused('messages: first message must use the "user" role')
    if messages[-1]["role"] != "user":
        raise Refused("This model does not support assistant message prefill. The conversation must end with a user message.")
    _check_results(messages)
    used = any(b.get("type") in ("tool_use", "tool_result") for message in messages for b in blocks_of(message["content"]))
    if used and not has_tools:
        raise Refused("Requests which include `tool_use` or `tool_result` blocks must define tools")


def _check_content(at: int, message: Mapping[str, Any]) -> None:
    content = message.get("content")
    if not isinstance(content, (str, list)):
        raise Refused(f"messages.{at}.content: Field required")
    if not content:
        raise Refused(
            f"messages.{at}: all messages must have non-empty content except for the optional final assistant message"
        )
    if isinstance(content, list):
        for number, block in enumerate(content):
            _check_block(f"messages.{at}.content.{number}", block, message["role"])
    elif not content.strip():
        raise Refused("messages: text content blocks must contain non-whitespace text")


def _check_block(where: str, block: Any, role: str) -> None:
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(kind, str):
        raise Refused(f"{where}.type: Field required")
    if kind == "text":
        _check_text(where, block, role)
    elif kind == "search_result":
        _check_search_result(where, block, role)
    elif kind == "tool_use" and (role != "assistant" or not isinstance(block.get("input"), Mapping)):
        raise Refused(f"{where}: `tool_use` blocks can only be in `assistant` messages and need an `input` object")
    elif kind == "tool_result":
        if role != "user":
            raise Refused(f"{where}: `tool_result` blocks can only be in `user` messages")
        _check_tool_result(where, block)
    elif kind == "document" and role == "assistant":
        raise Refused(f"{where}: `document` blocks are not permitted in `assistant` messages")


def _check_text(where: str, block: Mapping[str, Any], role: str) -> None:
    text = block.get("text")
    if not isinstance(text, str):
        raise Refused(f"{where}.text: Field required")
    if not text:
        raise Refused("messages: text content blocks must be non-empty")
    if not text.strip():
        raise Refused("messages: text content blocks must contain non-whitespace text")
    if role == "user" and block.get("citations"):
        raise Refused(f"{where}.citations: citations are not permitted on text blocks in user messages")


def _check_search_result(where: str, block: Mapping[str, Any], role: str) -> None:
    if role != "user":
        raise Refused(f"{where}: `search_result` blocks can only be in `user` messages")
    for name in ("source", "title", "content"):
        if name not in block:
            raise Refused(f"{where}.search_result.{name}: Field required")
        if not block[name]:
            raise Refused(f"{where}.search_result.{name}: must be non-empty")
    parts = block["content"]
    if not isinstance(parts, list) or not parts:
        raise Refused(f"{where}.search_result.content: List should have at least 1 item")
    for number, part in enumerate(parts):
        if not isinstance(part, Mapping) or part.get("type") != "text":
            raise Refused(f"{where}.search_result.content.{number}: Input should be a text block")
        _check_text(f"{where}.search_result.content.{number}", part, role)


def _check_tool_result(where: str, block: Mapping[str, Any]) -> None:
    content = block.get("content")
    if block.get("is_error") and not content:
        raise Refused(f"{where}.tool_result: content cannot be empty if `is_error` is true")
    if content is None or isinstance(content, str):
        return
    parts = content if isinstance(content, list) else [content]
    kinds = {part.get("type") for part in parts if isinstance(part, Mapping)}
    if block.get("is_error") and kinds - {"text"}:
        raise Refused(f'{where}.tool_result: all content must be type "text" if `is_error` is true')
    if "search_result" in kinds and len(kinds) > 1:
        raise Refused(
            f"{where}.tool_result.content: when one block is a `search_result`, all blocks must be `search_result` blocks"
        )
    for number, part in enumerate(parts):
        _check_block(f"{where}.tool_result.content.{number}", part, "user")


def _check_results(messages: Sequence[Mapping[str, Any]]) -> None:
    """Every tool call needs its result at the head of the next user turn, and every result its call."""
    seen: set[str] = set()
    turns = _turns(messages)
    for number, (at, role, blocks) in enumerate(turns):
        if role == "assistant":
            asked = [str(b.get("id")) for _, b in blocks if b.get("type") == "tool_use"]
            if len(set(asked)) < len(asked) or seen.intersection(asked):
                raise Refused("messages: `tool_use` ids must be unique")
            seen.update(asked)
            following = turns[number + 1][2] if number + 1 < len(turns) else []
            _check_answered(at, asked, [block for _, block in following])
        else:
            before = turns[number - 1][2] if number else []
            _check_expected(blocks, {str(b.get("id")) for _, b in before if b.get("type") == "tool_use"})


def _turns(messages: Sequence[Mapping[str, Any]]) -> list[tuple[int, str, list[tuple[str, Mapping[str, Any]]]]]:
    """Return turns as (index of the first message, role, blocks with their place); the API joins messages of one role."""
    turns: list[tuple[int, str, list[tuple[str, Mapping[str, Any]]]]] = []
    for at, message in enumerate(messages):
        placed = [(f"messages.{at}.content.{n}", block) for n, block in enumerate(blocks_of(message["content"]))]
        if turns and turns[-1][1] == message["role"]:
            turns[-1][2].extend(placed)
        else:
            turns.append((at, message["role"], placed))
    return turns


def _check_answered(at: int, asked: Sequence[str], following: Sequence[Mapping[str, Any]]) -> None:
    head: set[str] = set()
    for block in following:
        if block.get("type") != "tool_result":
            break
        head.add(str(block.get("tool_use_id")))
    if missing := [name for name in asked if name not in head]:
        raise Refused(
            f"messages.{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. "
            "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        )


def _check_expected(blocks: Sequence[tuple[str, Mapping[str, Any]]], asked: set[str]) -> None:
    answered: set[str] = set()
    for where, block in blocks:
        if block.get("type") != "tool_result":
            continue
        name = str(block.get("tool_use_id"))
        if name not in asked:
            raise Refused(
                f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each `tool_result` block must have "
                "a corresponding `tool_use` block in the previous message."
            )
        if name in answered:
            raise Refused(
                f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {name}"
            )
        answered.add(name)


def _check_citations(body: Mapping[str, Any]) -> None:
    settings = {
        bool((b.get("citations") or {}).get("enabled")) for b in _nested(body["messages"]) if b.get("type") == "search_result"
    }
    if len(settings) > 1:
        raise Refused("messages: citations must be enabled on all `search_result` blocks or on none")
    if True in settings and (body.get("output_config") or {}).get("format"):
        raise Refused("output_config.format: structured outputs are not compatible with citations")


def _check_references(body: Mapping[str, Any]) -> None:
    """What a tool search has found is a tool of the request."""
    names = {tool.get("name") for tool in body.get("tools") or []}
    for block in _nested(body["messages"]):
        if block.get("type") == "tool_reference" and block.get("tool_name") not in names:
            raise Refused(f"Tool reference '{block.get('tool_name')}' not found in available tools")


def _check_caching(body: Mapping[str, Any]) -> None:
    count = sum("cache_control" in block and block["cache_control"] is not None for block in _nested(body))
    if count > _BREAKPOINTS:
        raise Refused(f"A maximum of {_BREAKPOINTS} blocks with cache_control may be provided. Found {count}.")


def _nested(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        yield value
        for name, part in value.items():
            if name not in ("input_schema", "input"):
                yield from _nested(part)
    elif isinstance(value, list):
        for part in value:
            yield from _nested(part)
