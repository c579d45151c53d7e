"""What each place that speaks the Messages API can take, in one table. Requests are built from it.

Sources: platform.claude.com/docs (search results, server tools, prompt caching) and the servers' own sources, read
2026-11: Ollama's anthropic.go drops unknown blocks, `is_error` and `tool_choice`; vLLM's protocol.py rejects
`search_result`; llama.cpp and LM Studio promise text and tools only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Platform:
    """What a platform takes.

    `search_results`: `search_result` blocks with citations. `is_error`: the flag on tool results. `tool_choice`: "none"
    for a last answer in words. `caching`: `cache_control`. `server_tools`: web search run by the API itself.
    `other_models`: it serves models that are not Anthropic's. `assumed`: nobody knows that it is this one (see `settled`).
    """

    name: str
    search_results: bool = True
    is_error: bool = True
    tool_choice: bool = True
    caching: bool = True
    server_tools: bool = False
    other_models: bool = False
    assumed: bool = False


def _small(name: str) -> Platform:
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
        _small("ollama"),
        _small("lmstudio"),
        _small("llamacpp"),
        Platform("vllm", search_results=False, is_error=False, caching=False, other_models=True),
        Platform("litellm", other_models=True),
    )
}
_PORTS = {11434: "ollama", 1234: "lmstudio"}
_CITING = re.compile(r"claude|sonnet|opus|haiku|fable|mythos|^offline$", re.IGNORECASE)
"""Names of models that read `search_result` blocks and cite them: Anthropic's, and the built-in one."""


def platform_at(base_url: str | None) -> Platform:
    """Return the platform behind a base address; an unknown server is taken to speak the whole Messages API.

    Ollama and LM Studio are known by their ports, on any machine (a container's, the one under the desk).
    """
    try:
        port = urlsplit(base_url or "").port
    except ValueError:
        port = None
    return PLATFORMS[_PORTS[port]] if port in _PORTS else ANTHROPIC


def settled(found: Platform, setting: str, model: object) -> Platform:
    """Return the platform to build a request for at an address that may be anybody's; one that is known stays as it is.

    `setting` counts where there is one ("": none). Otherwise a server that nothing is known of gets results as blocks that
    can be cited for the models that cite, and as plain text for all others: many servers of open models drop such blocks
    without a word, and nobody would see that the model got nothing.
    """
    if not found.assumed:
        return found
    if setting:
        return replace(PLATFORMS[setting], assumed=True)
    return found if not found.search_results or _CITING.search(str(model)) else replace(found, search_results=False)
