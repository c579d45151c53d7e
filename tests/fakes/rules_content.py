"""What the Messages API refuses about tool results, citations, structured output, caching and tool search; see `rules.py`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.fakes.examination import Call, refuse, rule
from tests.fakes.rules_tools import MAX_BREAKPOINTS, tools_of
from tests.fakes.schemas import check_schema
from tests.fakes.shapes import check_fields


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


@rule
def deferred_tools_are_found_and_not_cached(call: Call) -> None:
    """A tool with `defer_loading` has no breakpoint, and one tool at least is loaded without a search."""
    tools = [tool for _, tool in tools_of(call)]
    if tools and all(tool.get("defer_loading") for tool in tools):
        refuse("At least one tool must have defer_loading=false. All tools cannot be deferred.")
    for tool in tools:
        if tool.get("defer_loading") and tool.get("cache_control"):
            refuse(
                f"Tool '{tool['name']}' cannot have both defer_loading=true and cache_control set. "
                "Tools with defer_loading cannot use prompt caching."
            )


@rule
def references_are_to_tools_of_the_request(call: Call) -> None:
    """A `tool_reference`, in the API's own search results or in a client's, names a tool that is there."""
    names = [tool["name"] for _, tool in tools_of(call)]
    for _, block in call.everywhere():
        content = block.get("content")
        found = content.get("tool_references", []) if isinstance(content, dict) else [block]
        for reference in found:
            if reference["type"] == "tool_reference" and reference["tool_name"] not in names:
                refuse(f"Tool reference '{reference['tool_name']}' not found in available tools")


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
