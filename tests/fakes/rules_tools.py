"""What the Messages API refuses about tools, their calls and results; see `rules.py`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tests.fakes.examination import Call, Turn, refuse, rule
from tests.fakes.shapes import check_fields, check_schema, optional_parameters, unions, words

NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
UNFORCED = re.compile(r"claude-(opus-5-5|sonnet-5-5|fable-5-[12]|mythos-5-[12])$")
"""Models that cannot be forced to call a tool (platform.claude.com/docs, "What's new" of each, read 2026-11)."""
MAX_STRICT, MAX_OPTIONAL, MAX_UNIONS, MAX_BREAKPOINTS = 20, 24, 16, 4

CUSTOM = words(
    "allowed_callers cache_control defer_loading description eager_input_streaming input_examples input_schema name strict type"
)
_SHARED = words("allowed_callers allowed_domains blocked_domains cache_control defer_loading max_uses name strict type")
_FETCH = [*_SHARED, "citations", "max_content_tokens", "url_sources"]
SERVER_TOOLS = {
    "web_search_20250305": [*_SHARED, "user_location"],
    "web_search_20260209": [*_SHARED, "user_location"],
    "web_search_20260318": [*_SHARED, "user_location", "response_inclusion"],
    "web_fetch_20250910": _FETCH,
    "web_fetch_20260209": _FETCH,
    "web_fetch_20260309": [*_FETCH, "use_cache"],
    "web_fetch_20260318": [*_FETCH, "use_cache", "response_inclusion"],
}
OTHER_TOOLS = words(
    "bash_20250124 code_execution_20250522 code_execution_20250825 code_execution_20260120 code_execution_20260521 "
    "memory_20250818 text_editor_20250124 text_editor_20250429 text_editor_20250728 tool_search_tool_bm25_20251119 "
    "tool_search_tool_regex_20251119"
)


def tools_of(call: Call) -> list[tuple[str, dict[str, Any]]]:
    """Return the request's tools with their paths."""
    return [(f"tools.{number}", tool) for number, tool in enumerate(call.body.get("tools") or [])]


def is_custom(tool: dict[str, Any]) -> bool:
    """Return True for a tool that the client runs itself."""
    return tool.get("type") in (None, "custom")


@rule
def tools_are_known(call: Call) -> None:
    """A tool is a client's own, or of one of the types and versions that the API runs; with known fields only."""
    for path, tool in tools_of(call):
        if is_custom(tool):
            if problem := check_fields(tool, "", f"{path}.custom", fields=CUSTOM):
                refuse(problem)
        elif tool["type"] in SERVER_TOOLS:
            if problem := check_fields(tool, "", f"{path}.{tool['type']}", fields=SERVER_TOOLS[tool["type"]]):
                refuse(problem)
            expected = tool["type"].rsplit("_", 1)[0]
            if tool.get("name") != expected:
                refuse(f"{path}.{tool['type']}.name: Input should be '{expected}'")
        elif tool["type"] not in OTHER_TOOLS:
            tags = ", ".join(repr(tag) for tag in sorted([*SERVER_TOOLS, *OTHER_TOOLS, "custom"]))
            refuse(f"{path}: Input tag '{tool['type']}' found using 'type' does not match any of the expected tags: {tags}")


@rule
def tool_names_are_plain_and_unique(call: Call) -> None:
    """Names have 1 to 128 letters, digits, hyphens and underscores, and no two tools share one."""
    seen = set()
    for path, tool in tools_of(call):
        name = tool.get("name")
        if name is None:
            refuse(f"{path}.custom.name: Field required")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            refuse(f"{path}.custom.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if name in seen:
            refuse("tools: Tool names must be unique.")
        seen.add(name)


@rule
def input_schemas_are_objects(call: Call) -> None:
    """A client's tool has an `input_schema` whose type is object."""
    for path, tool in tools_of(call):
        if is_custom(tool):
            schema = tool.get("input_schema")
            if schema is None:
                refuse(f"{path}.custom.input_schema: Field required")
            if not isinstance(schema, dict) or "type" not in schema:
                refuse(f"{path}.custom.input_schema.type: Field required")
            if schema["type"] != "object":
                refuse(f"{path}.custom.input_schema.type: Input should be 'object'")


@rule
def strict_tools_stay_in_their_limits(call: Call) -> None:
    """Strict tools close every object; 20 of them, with 24 optional parameters and 16 unions in all."""
    strict = [(path, tool) for path, tool in tools_of(call) if is_custom(tool) and tool.get("strict")]
    if len(strict) > MAX_STRICT:
        refuse(f"Too many strict tools ({len(strict)}). The maximum number of strict tools supported is {MAX_STRICT}.")
    for path, tool in strict:
        if problem := check_schema(tool["input_schema"]):
            refuse(f"{path}.custom: {problem}")
    if (count := sum(optional_parameters(tool["input_schema"]) for _, tool in strict)) > MAX_OPTIONAL:
        refuse(f"Schemas contains too many optional parameters ({count}), the limit is {MAX_OPTIONAL}")
    if (count := sum(unions(tool["input_schema"]) for _, tool in strict)) > MAX_UNIONS:
        refuse(f"Schemas contains too many parameters with union types ({count}), the limit is {MAX_UNIONS}")


@rule
def domains_are_allowed_or_blocked(call: Call) -> None:
    """A server tool has allowed or blocked domains, not both; an allowed use count is at least 1."""
    for path, tool in tools_of(call):
        if not is_custom(tool):
            if tool.get("allowed_domains") and tool.get("blocked_domains"):
                refuse(f"{path}.{tool['type']}: Only one of `allowed_domains` and `blocked_domains` can be specified.")
            for domain in [*(tool.get("allowed_domains") or []), *(tool.get("blocked_domains") or [])]:
                if "://" in domain:
                    refuse(f"{path}.{tool['type']}: domains must not include a scheme: {domain}")
            if tool.get("max_uses") is not None and tool["max_uses"] < 1:
                refuse(f"{path}.{tool['type']}.max_uses: Input should be greater than 0")


@rule
def tool_choice_fits_the_tools(call: Call) -> None:
    """`tool_choice` is of a known kind, comes with tools and names one of them."""
    choice = call.body.get("tool_choice")
    if choice is None:
        return
    if not call.body.get("tools"):
        refuse("tool_choice may only be specified while providing tools.")
    kind = choice.get("type") if isinstance(choice, dict) else None
    if kind not in ("auto", "any", "tool", "none"):
        refuse(
            f"tool_choice: Input tag '{kind}' found using 'type' does not match any of the expected tags: "
            "'any', 'auto', 'none', 'tool'"
        )
    fields = {"none": ("type",), "tool": ("type", "name", "disable_parallel_tool_use")}
    if problem := check_fields(
        choice, "", f"tool_choice.{kind}", fields=fields.get(kind, ("type", "disable_parallel_tool_use"))
    ):
        refuse(problem)
    if kind in ("any", "tool") and UNFORCED.search(call.body["model"]):
        refuse('tool_choice: type "tool" and "any" are not supported for this model.')
    if kind == "tool" and choice.get("name") not in [tool["name"] for _, tool in tools_of(call)]:
        refuse(f"Tool '{choice.get('name')}' not found in provided tools")


@rule
def thinking_fits_the_request(call: Call) -> None:
    """A thinking budget is 1,024 tokens or more, below `max_tokens`, and not combined with a forced tool."""
    thinking = call.body.get("thinking")
    if thinking is None:
        return
    if thinking.get("type") not in ("enabled", "disabled", "adaptive", "between_tools"):
        refuse(f"thinking: Input tag '{thinking.get('type')}' found using 'type' does not match any of the expected tags")
    if thinking["type"] == "enabled":
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < 1024:
            refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if budget >= call.body["max_tokens"]:
            refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if (call.body.get("tool_choice") or {}).get("type") in ("any", "tool"):
            refuse("Thinking may not be enabled when tool_choice forces tool use.")


@rule
def histories_with_calls_define_tools(call: Call) -> None:
    """A request whose messages hold calls or results says which tools there are."""
    used = any(turn.of("tool_use", "tool_result") for turn in call.turns)
    if used and not call.body.get("tools"):
        refuse("Requests which include `tool_use` or `tool_result` blocks must define tools")


@rule
def call_ids_are_plain_and_unique(call: Call) -> None:
    """The id of a call has letters, digits, hyphens and underscores, and occurs once."""
    seen = set()
    for turn in call.turns:
        for path, block in turn.of("tool_use", "server_tool_use"):
            pattern = CALL_ID.pattern if block["type"] == "tool_use" else "srvtoolu_[a-zA-Z0-9_]+"
            if not re.fullmatch(pattern, block["id"]):
                refuse(f"{path}.{block['type']}.id: String should match pattern '^{pattern}$'")
            if block["id"] in seen:
                refuse(f"{path.rsplit('.content', 1)[0]}: `tool_use` ids must be unique")
            seen.add(block["id"])


@rule
def results_answer_the_message_before(call: Call) -> None:
    """A result answers a call of the message before it; one result for a call."""
    for before, turn in _pairs(call):
        asked = {block["id"] for _, block in before.of("tool_use")} if before else set()
        seen = set()
        for path, block in turn.of("tool_result"):
            if block["tool_use_id"] not in asked:
                refuse(
                    f"{path}: unexpected `tool_use_id` found in `tool_result` blocks: {block['tool_use_id']}. Each "
                    "`tool_result` block must have a corresponding `tool_use` block in the previous message."
                )
            if block["tool_use_id"] in seen:
                refuse(
                    f"{path}: each tool_use must have a single result. "
                    f"Found multiple `tool_result` blocks with id: {block['tool_use_id']}"
                )
            seen.add(block["tool_use_id"])


@rule
def calls_are_answered_at_once(call: Call) -> None:
    """Every call is answered in the next message, and the results come first in it."""
    for turn, after in zip(call.turns, [*call.turns[1:], None], strict=True):
        asked = [block["id"] for _, block in turn.of("tool_use")]
        leading = []
        for _, block in after.blocks if after else []:
            if block["type"] != "tool_result":
                break
            leading.append(block["tool_use_id"])
        if missing := [id for id in asked if id not in leading]:
            refuse(
                f"messages.{turn.number}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
                "message."
            )


@rule
def server_calls_have_their_results(call: Call) -> None:
    """A server tool's call has its result, unless the API is still to run it; a result has its call before it."""
    open_calls: dict[str, str] = {}
    for number, turn in enumerate(call.turns):
        for path, block in turn.blocks:
            if block["type"] == "server_tool_use":
                open_calls[block["id"]] = block["name"]
            elif block["type"].endswith("_tool_result") and open_calls.pop(block["tool_use_id"], None) is None:
                refuse(
                    f"{path}: unexpected `tool_use_id` found in `{block['type']}` blocks: {block['tool_use_id']}. "
                    f"Each `{block['type']}` block must have a corresponding `server_tool_use` block before it."
                )
        if open_calls and turn.role == "assistant" and not _still_running(call.turns[number:]):
            id, name = next(iter(open_calls.items()))
            refuse(
                f"messages.{turn.number}: `{name}` tool use with id `{id}` was found without a corresponding "
                f"`{name}_tool_result` block"
            )


def _still_running(rest: list[Turn]) -> bool:
    """Return True when the turn is the last, or only results of client calls follow it, or its results come next."""
    if len(rest) == 1:
        return True
    only_results = all(block["type"] == "tool_result" for _, block in rest[1].blocks)
    if len(rest) == 2:
        return only_results and bool(rest[0].of("tool_use"))
    asked = {block["id"] for _, block in rest[0].of("server_tool_use")} - rest[0].results()
    return only_results and asked <= rest[2].results()


def _pairs(call: Call) -> Iterator[tuple[Turn | None, Turn]]:
    """Yield each turn with the one before it."""
    yield from zip([None, *call.turns], call.turns, strict=False)
