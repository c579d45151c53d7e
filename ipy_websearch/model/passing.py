"""A request of the SDK's and its response on their way through our middleware: what is changed of them, and what is read.

The invariant: nothing that is the caller's is changed; a request is sent on as another one, with all else as it was.
Facts: anthropic 2.11 `_base_client.py`, `_client.py`, read 2026-11.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anthropic
import httpx2


def with_body(request: Any, body: dict[str, Any]) -> Any:
    """Return the SDK's request with another body; its own `copy` would copy the old one deeply first.

    A caller who wants the bare response (`cast_to=httpx2.Response`) gets it in the end; on the way, there is one of the SDK's.
    """
    options = request.options.model_copy()
    options.json_data = body
    return anthropic.APIRequest(
        options=options,
        cast_to=object if request.cast_to is httpx2.Response else request.cast_to,
        stream=request.stream,
        stream_cls=request.stream_cls,
        retries_taken=request.retries_taken,
    )


def raw_response(response: Any) -> Any:
    """Return what a response of the SDK is of; one that was asked for bare is itself."""
    return getattr(response, "http_response", response)


def settle(http: httpx2.Response) -> None:
    """Have the SDK not begin anew after a response: by its header, and by the mark of a second attempt, which a 401 needs."""
    http.headers["x-should-retry"] = "false"
    with suppress(RuntimeError):  # one that other middleware made may be of no request
        http.request.headers["x-stainless-retry-count"] = "1"


def cut_off(response: Any, exc: httpx2.HTTPError) -> None:
    """Deal with a body that broke off while it was read. That of an error counts as empty: its status says enough.

    Raises:
        anthropic.APIConnectionError: it was a reply's; the SDK raises the same where it reads the body itself.
    """
    http = response.http_response
    if response.status_code >= 400:
        http._content = b""
        return
    kind = anthropic.APITimeoutError if isinstance(exc, httpx2.TimeoutException) else anthropic.APIConnectionError
    raise kind(request=http.request) from exc
