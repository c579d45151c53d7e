"""Opens the SDK's client for a platform. Keys and addresses come from the places that the SDK itself documents for each.

Retries are off: the loop decides about them (`retry`). Sources: the SDK's own modules, version 2.11.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import OFFLINE_MODEL

CLOUDS = {
    "bedrock": ("AsyncAnthropicBedrock", "AWS credentials and AWS_REGION", "bedrock"),
    "vertex": ("AsyncAnthropicVertex", "Google credentials, ANTHROPIC_VERTEX_PROJECT_ID and CLOUD_ML_REGION", "vertex"),
    "foundry": ("AsyncAnthropicFoundry", "ANTHROPIC_FOUNDRY_API_KEY and ANTHROPIC_FOUNDRY_RESOURCE", ""),
}
"""The SDK's client for each cloud, what it wants to find, and the SDK's extra that it needs."""


def open_client(platform: str, key: str | None) -> Any:
    """Return the SDK's asynchronous client for a platform ("" and "anthropic": the first-party API or ANTHROPIC_BASE_URL).

    Raises:
        ConfigError: a key, an address, credentials or a package is missing; the message says which.
    """
    import anthropic

    from ipy_websearch.model.bounded import bound

    if platform == "offline":
        return open_in_process()
    if platform in CLOUDS:
        return _open_cloud(platform)
    token = os.environ.get("ANTHROPIC_AUTH_TOKEN")
    if key is None and not token and not os.environ.get("ANTHROPIC_BASE_URL"):
        raise ConfigError("no Anthropic key is set: run `%websearch key anthropic`, or use --model offline")
    # A local server wants no key, but the SDK wants one to be given.
    return anthropic.AsyncAnthropic(
        api_key=key if key or token else "none",
        http_client=anthropic.DefaultAioHttpClient(event_hooks={"response": [bound]}),
        max_retries=0,
    )


def open_in_process(**options: Any) -> Any:
    """Return the SDK's client for a Messages API inside this process; the options are those of `offline_transport`."""
    import anthropic

    from ipy_websearch.model.offline.transport import offline_transport

    http_client = anthropic.DefaultAsyncHttpxClient(transport=offline_transport(**options))
    return anthropic.AsyncAnthropic(
        api_key=OFFLINE_MODEL, base_url="http://offline.invalid", http_client=http_client, max_retries=0
    )


def _open_cloud(platform: str) -> Any:
    class_name, wants, extra = CLOUDS[platform]
    try:
        return getattr(importlib.import_module("anthropic"), class_name)(max_retries=0)
    except ImportError as exc:
        raise ConfigError(f'{platform} needs more packages: pip install "anthropic[{extra or platform}]"') from exc
    except Exception as exc:  # each cloud's library has errors of its own for what is missing
        raise ConfigError(f"{platform} could not be opened ({type(exc).__name__}); it needs {wants}") from exc
