"""What the Messages API refuses about fields, messages, blocks, thinking, results, citations and caching; one function a rule.

The wording is the API's where a recording or its documentation shows it (tests/data/wire/anthropic, read November 2026);
elsewhere it is ours, and a test should only look at the status and the error's type. The rules about tools, their calls and
their results are in `rules_tools.py`, the shapes of blocks in `shapes.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fakes.examination import NEWEST, Call, encrypted_texts, plain, prefix, refuse, rule, since_2026_10_21
from tests.fakes.rules_tools import MAX_BREAKPOINTS, tools_of
from tests.fakes.shapes import FIELDS, check_blocks, check_fields, check_schema, is_filled

SAMPLING = ("temperature", "top_p", "top_k")


@since_2026_10_21
def no_sampling_parameters(call: Call) -> None:
    """`temperature`, `top_p` and `top_k` are refused, even with their default values."""
    for name in SAMPLING:
        if name in call.body:
            refuse(f"{name}: Extra inputs are not permitted")


@rule
def known_fields_only(call: Call) -> None:
    """Top-level fields that the API does not know are refused."""
    allowed = [*(SAMPLING if call.version < NEWEST else ()), *(FIELDS["beta request"] if call.beta else ())]
    if problem := check_fields(call.body, "request", "", allowed):
        refuse(problem)


@rule
def model_is_named(call: Call) -> None:
    """`model` is a non-empty string."""
    if not isinstance(call.body.get("model"), str) or not call.body["model"]:
        refuse("model: Field required")


@rule
def max_tokens_is_a_count(call: Call) -> None:
    """`max_tokens` is required and at least 0, which only fills the cache."""
    if call.body.get("max_tokens") is None:
        refuse("max_tokens: Field required")
    if not isinstance(call.body["max_tokens"], int) or isinstance(call.body["max_tokens"], bool):
        refuse("max_tokens: Input should be a valid integer")
    if call.body["max_tokens"] < 0:
        refuse("max_tokens: Input should be greater than or equal to 0")


@rule
def messages_are_there(call: Call) -> None:
    """`messages` is a list with at least one message."""
    if not isinstance(call.body.get("messages"), list):
        refuse("messages: Field required")
    if not call.body["messages"]:
        refuse("messages: at least one message is required")


@rule
def roles_are_user_and_assistant(call: Call) -> None:
    """A message has a role and content only; the system prompt is no message but the top-level `system`."""
    for number, message in enumerate(call.body["messages"]):
        if message.get("role") == "system":
            refuse(
                'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, '
                'not "system" as an input message role.'
            )
        if message.get("role") not in ("user", "assistant"):
            refuse(f"messages.{number}.role: Input should be 'user' or 'assistant'")
        for name in message:
            if name not in ("role", "content"):
                refuse(f"messages.{number}.{name}: Extra inputs are not permitted")


@rule
def content_is_not_empty(call: Call) -> None:
    """Every message has content: text, or a list of at least one block."""
    for number, message in enumerate(call.body["messages"]):
        content = message.get("content")
        if content is None:
            refuse(f"messages.{number}.content: Field required")
        if not isinstance(content, (str, list)):
            refuse(f"messages.{number}.content: Input should be a valid string or list")
        if not content:
            refuse(
                f"messages.{number}: all messages must have non-empty content except for the optional final assistant message"
            )


@rule
def first_message_is_the_users(call: Call) -> None:
    """The first message has the role user."""
    if call.body["messages"][0]["role"] != "user":
        refuse('messages: first message must use the "user" role')


@rule
def blocks_have_their_shape(call: Call) -> None:
    """Blocks are of a known type, allowed for their role, with all required and no unknown fields."""
    for turn in call.turns:
        for path, block in turn.blocks:
            if problem := check_blocks(block, path, turn.role):
                refuse(problem)


@rule
def system_prompt_has_text(call: Call) -> None:
    """`system` is text or a list of text blocks that are not empty."""
    system = call.body.get("system")
    if isinstance(system, list):
        for number, block in enumerate(system):
            if problem := check_blocks(block, f"system.{number}", "system"):
                refuse(problem)
            if not block["text"]:
                refuse("system: text content blocks must be non-empty")
    elif system is not None and not isinstance(system, str):
        refuse("system: Input should be a valid string or list")


@rule
def text_is_not_empty(call: Call) -> None:
    """Text blocks hold text, and not white space alone, in tool results too."""
    for path, block in call.everywhere():
        if block["type"] == "text" and not block["text"]:
            if block.get("cache_control"):
                refuse(f"{path}.text: cache_control cannot be set for empty text blocks")
            refuse("messages: text content blocks must be non-empty")
        if block["type"] == "text" and not block["text"].strip():
            refuse("messages: text content blocks must contain non-whitespace text")


@since_2026_10_21
def users_text_has_no_citations(call: Call) -> None:
    """Text blocks of user messages carry no `citations` list, those inside search results neither."""
    for path, block in call.everywhere():
        inner = block["content"] if block["type"] == "search_result" else [block]
        for part in inner:
            if part["type"] == "text" and part.get("citations") and not _in_assistant(call, path):
                refuse(f"{path}.text.citations: citations are not permitted on text blocks in user messages")


def _in_assistant(call: Call, path: str) -> bool:
    return call.body["messages"][int(path.split(".")[1])]["role"] == "assistant"


@rule
def last_message_is_no_prefill(call: Call) -> None:
    """The last message is the user's, unless it resends a turn that the API had paused."""
    last = call.turns[-1]
    if last.role == "user":
        return
    sent = [plain(block) for _, block in last.blocks]
    if not any(paused and sent[-len(paused) :] == paused for paused in call.issued.paused):
        refuse("This model does not support assistant message prefill. The conversation must end with a user message.")


@rule
def thinking_comes_back_unchanged(call: Call) -> None:
    """Thinking blocks are those that the API sent, byte for byte, and none of the latest turn with calls is missing."""
    for path, block in call.everywhere():
        if block["type"] == "thinking":
            if block["signature"] not in call.issued.thinking:
                refuse(f"{path}: Invalid `signature` in `thinking` block")
            if call.issued.thinking[block["signature"]] != block["thinking"]:
                refuse(
                    f"{path}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. "
                    "These blocks must remain as they were in the original response."
                )
        if block["type"] == "redacted_thinking" and block["data"] not in call.issued.thinking:
            refuse(f"{path}: Invalid `data` in `redacted_thinking` block")
    _nothing_dropped(call)


@rule
def nothing_before_thinking_has_changed(call: Call) -> None:
    """A thinking block comes back behind the instructions, tools and messages that it was thought after."""
    before: list[dict[str, Any]] = []
    for turn in call.turns:
        for path, block in turn.blocks:
            sign = block.get("signature") if block["type"] == "thinking" else block.get("data")
            if sign in call.issued.bound_to and call.issued.bound_to[sign] != prefix(call.body, before):
                refuse(f"{path}: the conversation before this `thinking` block differs from the one that it was produced in")
            before.append(block)


def _nothing_dropped(call: Call) -> None:
    answered = [turn for turn in call.turns if turn.role == "assistant" and turn.of("tool_use")]
    if not answered or call.turns[-1].role != "user" or not any(b for b in call.turns[-1].of("tool_result")):
        return
    there = [block.get("signature") or block.get("data") for _, block in answered[-1].of("thinking", "redacted_thinking")]
    for path, block in answered[-1].of("tool_use"):
        if missing := [s for s in call.issued.thinking_before.get(block["id"], []) if s not in there]:
            refuse(f"{path}: {len(missing)} `thinking` block(s) before this `tool_use` were left out")


@rule
def encrypted_texts_are_the_apis(call: Call) -> None:
    """`encrypted_content` and `encrypted_index` are those that the API sent."""
    for path, block in call.everywhere():
        for text in encrypted_texts(block):
            if text not in call.issued.encrypted:
                refuse(f"{path}: Invalid `encrypted_content` in `{block['type']}` block")


@rule
def search_results_are_complete(call: Call) -> None:
    """A search result names its source and title and holds text blocks that are not empty."""
    for path, block in call.everywhere():
        if block["type"] == "search_result":
            for name in ("source", "title"):
                if not is_filled(block.get(name)):
                    refuse(f"{path}.search_result.{name}: String should have at least 1 character")
            if not block["content"]:
                refuse(f"{path}.search_result.content: List should have at least 1 item after validation, not 0")
            if any(part["type"] != "text" or not part["text"].strip() for part in block["content"]):
                refuse(f"{path}.search_result.content: text content blocks must be non-empty")


@rule
def search_results_stay_among_themselves(call: Call) -> None:
    """If one block of a tool result is a search result, all of them are."""
    for turn in call.turns:
        for path, block in turn.of("tool_result"):
            kinds = {inner["type"] for inner in block["content"]} if isinstance(block.get("content"), list) else set()
            if "search_result" in kinds and len(kinds) > 1:
                others = ", ".join(sorted(kinds - {"search_result"}))
                refuse(
                    f"{path}.tool_result.content: if any block is of type `search_result`, all blocks must be; "
                    f"found also: {others}"
                )


@rule
def failed_results_are_text(call: Call) -> None:
    """A result with `is_error` has content, and only text."""
    for turn in call.turns:
        for path, block in turn.of("tool_result"):
            content = block.get("content")
            if block.get("is_error") and not content:
                refuse(f"{path}.tool_result: content cannot be empty if `is_error` is true")
            if block.get("is_error") and isinstance(content, list) and any(b["type"] != "text" for b in content):
                refuse(f'{path}.tool_result: all content must be type "text" if `is_error` is true')


@rule
def citations_are_on_for_all_or_none(call: Call) -> None:
    """All search results of a request have the same `citations` setting; with the API's own web search it is on."""
    settings = {
        bool((block.get("citations") or {}).get("enabled"))
        for _, block in call.everywhere()
        if block["type"] == "search_result"
    }
    if len(settings) > 1:
        refuse("citations must be enabled for all `search_result` blocks of a request, or for none of them")
    searches = any(str(tool.get("type")).startswith("web_search_") for _, tool in tools_of(call))
    if searches and settings == {False}:
        refuse("citations must be enabled on `search_result` blocks when the `web_search` tool is present")


@rule
def structured_output_excludes_citations(call: Call) -> None:
    """`output_config` has known fields; its `format` is a closed schema and is refused together with citations."""
    config = call.body.get("output_config")
    if config is None:
        return
    if problem := check_fields(config, "", "output_config", fields=("effort", "format")):
        refuse(problem)
    if config.get("effort") not in (None, "low", "medium", "high", "xhigh", "max"):
        refuse("output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'")
    if (wanted := config.get("format")) is None:
        return
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema" or not isinstance(wanted.get("schema"), dict):
        refuse("output_config.format: Input should be a json_schema with a `schema`")
    if problem := check_schema(wanted["schema"]):
        refuse(f"output_config.format.schema: {problem}")
    for _, block in call.everywhere():
        if block["type"] in ("search_result", "document") and (block.get("citations") or {}).get("enabled"):
            refuse("output_config.format cannot be used when citations are enabled")


@rule
def cache_breakpoints_are_few_and_sound(call: Call) -> None:
    """At most 4 breakpoints, of type ephemeral, with a ttl of 5m or 1h; a long one never after a short one.

    The request's own mark stands for one on its last block, which may have no other ttl.
    """
    marks = list(breakpoints(call))
    for path, mark in marks:
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
            refuse(f"{path}.cache_control.type: Input should be 'ephemeral'")
        if problem := check_fields(mark, "", f"{path}.cache_control".lstrip("."), fields=("type", "ttl")):
            refuse(problem)
        if mark.get("ttl") not in (None, "5m", "1h"):
            refuse(f"{path}.cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
    automatic = 1 if call.body.get("cache_control") else 0
    if len(marks) + automatic > MAX_BREAKPOINTS:
        refuse(f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(marks) + automatic}.")
    lives = [mark.get("ttl") or "5m" for _, mark in marks]
    last = call.turns[-1].blocks[-1:] if automatic and call.turns else []
    if last and marks and marks[-1][0] == last[0][0] and lives[-1] != (call.body["cache_control"].get("ttl") or "5m"):
        refuse("cache_control: the last block has a cache_control with another ttl")
    if "5m" in lives and "1h" in lives[lives.index("5m") :]:
        refuse("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")


def breakpoints(call: Call) -> Iterator[tuple[str, Any]]:
    """Yield (path, cache_control) in the order in which the prompt is read: tools, system, messages."""
    system = call.body.get("system")
    places = [*tools_of(call)]
    if isinstance(system, list):
        places += [(f"system.{number}", block) for number, block in enumerate(system)]
    for turn in call.turns:
        for path, block in turn.blocks:
            content = block.get("content")
            if block["type"] in ("tool_result", "search_result") and isinstance(content, list):
                places += [(f"{path}.content.{number}", inner) for number, inner in enumerate(content)]
            places.append((path, block))
    for path, block in places:
        if block.get("cache_control") is not None:
            yield path, block["cache_control"]
