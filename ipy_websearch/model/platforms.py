"""What each place that speaks the Messages API can take, in one table. Requests are built from it.

Sources: platform.claude.com/docs (search results, server tools, prompt caching) and the servers' own sources, read
2026-11: Ollama's anthropic.go drops unknown blocks, `is_error` and `tool_choice`; vLLM's protocol.py rejects
`search_result`; llama.cpp and LM Studio promise text and tools only.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Platform:
    """What a platform takes.

    `search_results`: `search_result` blocks with citations. `is_error`: the flag on tool results. `tool_choice`: "none"
    for a last answer in words. `caching`: `cache_control`. `server_tools`: web search run by the API itself.
    `other_models`: it serves models that are not Anthropic's.
    """

    name: str
    search_results: bool = True
    is_error: bool = True
    tool_choice: bool = True
    caching: bool = True
    server_tools: bool = False
    other_models: bool = False


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
_LOCAL_PORTS = {11434: "ollama", 1234: "lmstudio"}


def platform_at(base_url: str | None) -> Platform:
    """Return the platform behind a base address; an unknown server is taken to speak the whole Messages API.

    Ollama and LM Studio are known by their default ports on this machine.
    """
    parts = urlsplit(base_url or "")
    try:
        local = parts.hostname in ("localhost", "127.0.0.1", "::1") and _LOCAL_PORTS.get(parts.port or 0)
    except ValueError:
        local = None
    return PLATFORMS[local] if local else ANTHROPIC
