"""An HTTP answer as a value, and how to read a refusal. No I/O and no HTTP library.

Services wrap their error text in a dozen shapes; `service_message` knows those of the engines this package speaks to. Its
text is hostile: `client` shortens it, strips control characters and takes keys out before it is shown.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

from ipy_websearch.text import plain

MAX_DEPTH = 100
"""Levels that an engine's JSON may have. The deepest real one seen has nine; what reads it is recursive."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.DOTALL | re.IGNORECASE)
_SECONDS = re.compile(r"(\d{1,9}(?:\.\d+)?)\s*(?:,|$)")  # a header that comes twice is read as a list
_MESSAGE_KEYS = ("message", "detail", "error", "msg", "info", "errorMessage", "title", "code")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """One answer: status, headers with lower-case names, the decoded body, and the address without its query.

    The query is left out of `url` because one engine takes its key there.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    url: str = ""

    @property
    def text(self) -> str:
        """The body as UTF-8, with replacement characters where it is not."""
        return self.body.decode("utf-8", errors="replace")

    @property
    def content_type(self) -> str:
        """The media type without parameters, "" when the answer names none."""
        return self.headers.get("content-type", "").split(";")[0].strip().lower()

    def json(self) -> Any:
        """Return the body parsed as JSON; half a surrogate pair in it ("\\ud83d") becomes a question mark.

        Raises:
            ValueError: it is not JSON, or nested deeper than `MAX_DEPTH`.
        """
        try:
            value = json.loads(self.body)
            if _is_deeper(value, MAX_DEPTH):
                raise RecursionError
        except RecursionError:
            raise ValueError("nested too deeply") from None
        if _SURROGATE.search(self.body):  # text that cannot be encoded would fail wherever it is shown or stored
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        return value


class JsonObject(dict[str, Any]):
    """A JSON object that knows the text it was read from. What is made of it, or with it, is a plain dict."""

    __slots__ = ("body",)

    def __init__(self, value: Mapping[str, Any], body: bytes) -> None:
        super().__init__(value)
        self.body = body


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a service refused: its words, and the seconds after which asking again may help (None: not said)."""

    text: str
    retry_after: float | None = None


Explain = Callable[[HttpResponse], Reason | None]
"""Reads an engine's own refusal; None leaves it to `explain_any`."""


def explain_any(response: HttpResponse) -> Reason:
    """Return the reason that any refusal gives: the service's message if there is one, and its Retry-After."""
    return Reason(service_message(response), retry_after(response.headers))


def service_message(response: HttpResponse) -> str:
    """Return what the service itself says about its error, one line of plain text, "" when it says nothing."""
    try:
        return plain(_message(response.json()))
    except ValueError:
        text = response.text[:20_000]
    if text.lstrip().startswith("<"):
        found = _TITLE.search(text)
        return plain(found[1]) if found else ""
    return plain(text[:2_000])


def _message(node: Any) -> str:
    """Return the first text in an error object, looking where services put it; lists give their first item."""
    match node:
        case str():
            return node
        case [first, *_]:
            return _message(first)
        # An "error" object goes first: beside it, "message" and "code" tend to repeat the HTTP status.
        case {"error": dict() | list() as inner} if text := _message(inner):
            return text
        case dict():
            return next(filter(None, (_message(node.get(key)) for key in _MESSAGE_KEYS)), "")
    return ""


def _is_deeper(node: Any, levels: int) -> bool:
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return levels < 0 or any(_is_deeper(child, levels - 1) for child in inner)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header (a number or an HTTP date), None when there is none or it is odd.

    `retry-after-ms`, which the Messages API sends too, is more exact and goes first.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if seconds := _SECONDS.match(value):
            return float(seconds[1]) * scale
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
