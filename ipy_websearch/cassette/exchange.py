"""One exchange: a request with what came of it, and how errors and bodies are kept so that they come back the same. Pure.

A body is kept in the form in which a person can read it: JSON as JSON, text as text, bytes as base64 only where they are no
text. What cannot be kept exactly in one form is kept in the next one; JSON alone is written anew, with the same values.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ipy_websearch.errors import (
    BlockedAddressError,
    FetchError,
    ModelError,
    ProviderError,
    RateLimitedError,
    WebSearchError,
)

Kind = Literal["model", "engine", "page"]
KINDS: tuple[Kind, ...] = ("model", "engine", "page")

KEPT_HEADERS = frozenset("content-type content-language etag last-modified link location retry-after retry-after-ms".split())
"""The response headers that are written down; cookies, ids, and what counts requests are not."""

_LINE = 96  # characters of base64 in a line


@dataclass(slots=True)
class Exchange:
    """A request and its outcome.

    `to` is the model, the engine or the page's address; `n` counts requests in the order in which they were sent; `at` is
    when (UTC, ISO 8601), `took_s` how long it took to the end. `outcome` has one of `stream` (pairs of seconds and event),
    `message`, a body, `error`; with `cut_off` (a time limit, the stop button) what had come by then. `line` is its place in
    the file.
    """

    kind: Kind
    to: str
    request: Any
    n: int = 0
    at: str = ""
    took_s: float = 0.0
    outcome: dict[str, Any] = field(default_factory=dict)
    line: int = 0

    @property
    def cut_off(self) -> bool:
        """Whether the recording had not waited for its end."""
        return bool(self.outcome.get("cut_off"))


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be written down."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in sorted(lower.items()) if name in KEPT_HEADERS}


def body_fields(body: bytes, *, is_json: bool, charset: str = "") -> dict[str, Any]:
    """Return a body in its most readable form: `json`, `text` (with `encoding` when it is not UTF-8) or `base64`."""
    if is_json:
        try:
            return {"json": json.loads(body)}
        except (ValueError, RecursionError):
            pass
    for encoding in ("utf-8", charset):
        try:
            text = body.decode(encoding)
            if text.encode(encoding) == body:
                return {"text": text} if encoding == "utf-8" else {"encoding": encoding, "text": text}
        except (UnicodeError, LookupError):
            continue
    coded = b64encode(body).decode("ascii")
    return {"base64": [coded[at : at + _LINE] for at in range(0, len(coded), _LINE)]}


def body_of(fields: Mapping[str, Any]) -> bytes:
    """Return the body that `body_fields` took apart.

    Raises:
        ValueError: there is none, or it is in no form of ours.
    """
    if "json" in fields:
        return json.dumps(fields["json"], ensure_ascii=False).encode("utf-8", "surrogatepass")
    if isinstance(text := fields.get("text"), str):
        return text.encode(str(fields.get("encoding", "utf-8")), "surrogatepass" if "encoding" not in fields else "strict")
    return b64decode("".join(fields["base64"]), validate=True) if "base64" in fields else b""


def error_fields(error: WebSearchError) -> dict[str, Any]:
    """Return an error as plain values."""
    names = ("status", "retry_after", "kind", "provider")
    known = {name: getattr(error, name, None) for name in names}
    fields = {name: value for name, value in known.items() if value not in (None, "")}
    return {"type": _TYPES.get(type(error), "FetchError"), "message": str(error), **fields}


def error_of(fields: Mapping[str, Any]) -> WebSearchError:
    """Return the error that `error_fields` took apart."""
    message, name = str(fields.get("message", "")), fields.get("type")
    if name == "ModelError":
        return ModelError(
            message,
            status=fields.get("status"),
            retry_after=fields.get("retry_after"),
            kind=str(fields.get("kind", "")),
        )
    if name in ("ProviderError", "RateLimitedError"):
        kind = RateLimitedError if name == "RateLimitedError" else ProviderError
        provider = str(fields.get("provider", ""))
        return kind(message, provider=provider, status=fields.get("status"), retry_after=fields.get("retry_after"))
    return BlockedAddressError(message) if name == "BlockedAddressError" else FetchError(message)


_TYPES: dict[type[WebSearchError], str] = {
    kind: kind.__name__ for kind in (ModelError, ProviderError, RateLimitedError, FetchError, BlockedAddressError)
}
