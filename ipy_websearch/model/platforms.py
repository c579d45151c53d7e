"""What models and the places that serve them can take, in tables. Requests are built from it.

Sources: platform.claude.com/docs (models, search results, server tools, prompt caching) and the servers' own sources, read
2026-11: Ollama's anthropic.go drops unknown blocks, `is_error` and `tool_choice`; vLLM's protocol.py rejects `search_result`;
llama.cpp and LM Studio promise text and tools only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Platform:
    """What a platform takes.

    `search_results`: `search_result` blocks with citations. `is_error`: the flag on tool results. `tool_choice`: "none" for a
    last answer in words. `caching`: `cache_control`. `server_tools`: web search run by the API itself. `other_models`: it
    serves models that are not Anthropic's. `assumed`: nothing says that it is this one (see `settled`). `label`: what messages
    call it, where that is not its name.
    """

    name: str
    search_results: bool = True
    is_error: bool = True
    tool_choice: bool = True
    caching: bool = True
    server_tools: bool = False
    other_models: bool = False
    assumed: bool = False
    label: str = ""


def _text_and_tools(name: str) -> Platform:
    """Return a server of open models that promises text and tools only."""
    return Platform(name, search_results=False, is_error=False, tool_choice=False, caching=False, other_models=True)


ANTHROPIC = Platform("anthropic", server_tools=True)
OFFLINE = Platform("offline", other_models=True)
PLATFORMS = {
    platform.name: platform
    for platform in (
        ANTHROPIC,
        OFFLINE,
        Platform("bedrock"),
        Platform("vertex", server_tools=True),
        Platform("foundry"),
        _text_and_tools("ollama"),
        _text_and_tools("lmstudio"),
        _text_and_tools("llamacpp"),
        Platform("vllm", search_results=False, is_error=False, caching=False, other_models=True),
        Platform("litellm", other_models=True),
    )
}
_PORTS = {11434: "ollama", 1234: "lmstudio"}
_CITING = re.compile(r"claude|sonnet|opus|haiku|fable|mythos|^offline$", re.IGNORECASE)


@cache
def platform_at(base_url: str | None) -> Platform:
    """Return the platform behind a base address; an unknown server is taken to speak the whole Messages API.

    Ollama and LM Studio are known by their ports, on any machine.
    """
    try:
        port = urlsplit(base_url or "").port
    except ValueError:
        port = None
    return PLATFORMS[_PORTS[port]] if port in _PORTS else ANTHROPIC


def settled(found: Platform, setting: str, model: object) -> Platform:
    """Return the platform to build a request to a model for.

    At an address that may be anybody's, `setting` counts where there is one ("": none). Where all kinds of models are served,
    only those that cite get results as blocks, and all others plain text: servers drop such blocks without a word.
    """
    if found.assumed and setting:
        return replace(PLATFORMS[setting], assumed=True)
    blocks = found.search_results and (cites(str(model)) or not (found.assumed or found.other_models))
    return replace(found, search_results=blocks)


ALIASES = {
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}
"""Short names that people say, and the ids that the API takes."""

_CLAUDE = re.compile(r"(^|[./])claude-(opus|sonnet|haiku|fable|mythos|\d)")
_SMALL_WINDOW = re.compile(r"claude-(3|haiku-4|opus-4-[015]|sonnet-4-[05])")
_VERSION = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2}))?(?!\d)")


def model_id(name: str) -> str:
    """Return the id for a model's name; a name that is no alias is passed on as it is."""
    return ALIASES.get(name.strip().lower(), name.strip())


def is_known(name: str) -> bool:
    """Say whether a model's id looks like one of Anthropic's; others are passed on all the same."""
    return bool(_CLAUDE.search(name))


def cites(name: str) -> bool:
    """Say whether a model may be one that calls tools and cites: Anthropic's, under whatever name, and the offline one."""
    return bool(_CITING.search(name))


def forces_tools(name: str) -> bool:
    """Say whether a request may force a model to call a tool (`tool_choice` "any" or "tool").

    From Fable and Mythos 5.1, Opus and Sonnet 5.5 on the API answers 400 to that; Haiku takes it up to 5.5
    (platform.claude.com/docs/en/models/…/whats-new, "Forced tool use is not supported", read 2026-11). Later models are taken
    not to: "auto" with a request in words works everywhere.
    """
    found = _VERSION.search(name)
    if not found:
        return True
    version = (int(found[2]), int(found[3] or 0))
    return version <= (5, 5) if found[1] == "haiku" else version < (5, 1)


_EFFORT_FROM = {"opus": (4, 5), "sonnet": (4, 6), "haiku": (5, 5), "fable": (5, 0), "mythos": (5, 0)}


def thinking_fields(name: str, effort: str | None) -> dict[str, Any]:
    """Return the fields of a request that ask a model for an effort, with adaptive thinking; {} when it takes none.

    `output_config.effort` is there from Opus 4.5, Sonnet 4.6, Haiku 5.5, Fable 5 and Mythos 5 on, `thinking` of type "adaptive"
    in all of these but Opus 4.5. What is thought counts as output, within `max_tokens` (platform.claude.com/docs/en/
    build-with-claude/effort; docs.aws.amazon.com/bedrock, "Adaptive thinking"; support.claude.com, 8664678; read 2026-11).
    """
    found = _VERSION.search(name)
    version = (int(found[2]), int(found[3] or 0)) if found else (0, 0)
    if effort is None or not found or version < _EFFORT_FROM[found[1]]:
        return {}
    adaptive = {"thinking": {"type": "adaptive"}} if version > (4, 5) else {}
    return {"output_config": {"effort": effort}, **adaptive}


def unknown_note(name: str) -> str:
    """Return a note for a name that is not like Anthropic's models, with the one that it may have meant; "" for the others."""
    if is_known(name):
        return ""
    return f"{name!r} is not a model that is known here; the name is passed on as it is{did_you_mean(name)}"


def did_you_mean(name: str) -> str:
    """Return "; did you mean …?" for a name that is near to one of ours, "" for others."""
    near = get_close_matches(name.lower(), [*ALIASES.values(), *ALIASES], n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near and near[0] != name else ""


def context_window(name: str) -> int:
    """Return how many tokens a model reads at once; 32,000 for models that are not Anthropic's, whose size is not known."""
    if not is_known(name):
        return 32_000
    return 200_000 if _SMALL_WINDOW.search(name) and not name.endswith("[1m]") else 1_000_000
