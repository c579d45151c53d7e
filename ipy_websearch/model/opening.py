"""Opens the SDK's client for a platform. Keys and addresses come from the places that the SDK documents for each (2.12).

Retries are off: the loop decides about them (`failures`).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import OFFLINE_MODEL

CLOUDS = {
    "bedrock": ("AsyncAnthropicBedrock", "AWS credentials and AWS_REGION"),
    "vertex": ("AsyncAnthropicVertex", "Google credentials, ANTHROPIC_VERTEX_PROJECT_ID and CLOUD_ML_REGION"),
    "foundry": ("AsyncAnthropicFoundry", "ANTHROPIC_FOUNDRY_API_KEY and ANTHROPIC_FOUNDRY_RESOURCE"),
}
"""The SDK's client for each cloud, and what it wants to find."""


def open_client(platform: str, key: str | None) -> Any:
    """Return the SDK's asynchronous client for a platform ("" and "anthropic": the first-party API or ANTHROPIC_BASE_URL).

    Raises:
        ConfigError: a key, an address, credentials or a package is missing; the message says which.
    """
    import anthropic

    if platform == OFFLINE_MODEL:
        return open_in_process()
    if platform in CLOUDS:
        return open_cloud(platform)
    token = os.environ.get("ANTHROPIC_AUTH_TOKEN")
    if key is None and not token and not os.environ.get("ANTHROPIC_BASE_URL"):
        raise ConfigError("no Anthropic key is set: run `%websearch key anthropic`, or use --model offline")
    try:
        http_client = anthropic.DefaultAioHttpClient()
    except OSError as exc:  # SSL_CERT_FILE or SSL_CERT_DIR leads nowhere
        raise ConfigError(
            f"the certificates of SSL_CERT_FILE or SSL_CERT_DIR cannot be read ({exc}); mend or unset it"
        ) from exc
    # A local server wants no key, but the SDK wants one to be given.
    return anthropic.AsyncAnthropic(api_key=key if key or token else "none", http_client=http_client, max_retries=0)


def open_in_process(reply: Callable[..., Any] | None = None) -> Any:
    """Return the SDK's client for a Messages API inside this process; `reply` (None: the offline server's) answers it."""
    import anthropic

    from ipy_websearch.model.offline.server import OfflineTransport, reply_to

    http_client = anthropic.DefaultAsyncHttpxClient(transport=OfflineTransport(reply or reply_to))
    return anthropic.AsyncAnthropic(
        api_key=OFFLINE_MODEL, base_url="http://offline.invalid", http_client=http_client, max_retries=0
    )


def open_cloud(platform: str) -> Any:
    """Return the SDK's asynchronous client for a cloud.

    Raises:
        ConfigError: credentials or a package are missing.
    """
    class_name, wants = CLOUDS[platform]
    try:
        return getattr(importlib.import_module("anthropic"), class_name)(max_retries=0)
    except ImportError as exc:
        raise ConfigError(f'{platform} needs more packages: pip install "anthropic[{platform}]"') from exc
    except Exception as exc:  # each cloud's library has errors of its own for what is missing
        raise ConfigError(f"{platform} could not be opened ({type(exc).__name__}); it needs {wants}") from exc
