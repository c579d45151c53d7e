"""The cassette's file: JSON Lines. The first line says what a player must know, each further one is an exchange.

    {"cassette": 2, "version": "0.2.0", "platform": "anthropic", "keys": ["ANTHROPIC_API_KEY"]}
    {"kind": "model", "to": "claude-sonnet-5-5", "n": 1, "at": "2026-11-22T10:00:00.000Z", "took_s": 1.2,
     "request": {…}, "stream": [[0.31, {"type": "message_start", …}], …]}
    {"kind": "engine", "to": "brave", …, "request": {"method": "GET", …}, "status": 200, "headers": {…}, "json": {…}}
    {"kind": "page", "to": "https://example.org/", …, "status": 200, "text": "<html>…"}

`n` counts requests in the order in which they were sent, `at` is the moment (UTC), seconds in `stream` count from there. An
exchange that failed has an `error`, one that was stopped or ran out of time is `cut_off`. A line is written when its exchange
has ended, in one piece: a killed kernel loses what was under way and nothing else.

Invariant: a line passes `Redactor.text` as the last thing before it is written, so no key is in the file.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, quote_plus

from ipy_websearch.errors import (
    BlockedAddressError,
    ConfigError,
    FetchError,
    ModelError,
    ProviderError,
    RateLimitedError,
    WebSearchError,
)

FORMAT = 2
Kind = Literal["model", "engine", "page"]
KINDS: tuple[Kind, ...] = ("model", "engine", "page")

KEPT_HEADERS = frozenset("content-type content-language etag last-modified link location retry-after retry-after-ms".split())
"""The response headers that are written down; cookies, ids, and what counts requests are not."""

MARK = "[key]"
"""What stands in the place of a key."""

SECRET_PARAMETERS = frozenset("key cx api_key apikey api-key access_token auth token client_secret subscription-token".split())
"""Query parameters whose values are keys, whoever's they are."""

_SECRET_HEADERS = ("authorization", "x-subscription-token", "x-api-key", "api-key", "x-goog-api-key")
_VARIABLE = re.compile(r"(_API_KEY|_AUTH_TOKEN|_TOKEN|_SECRET|_SECRET_ACCESS_KEY|_PASSWORD)$")
_SHORTEST, _LONG_ENOUGH = 4, 12  # a variable with such a name may hold a common word
# Keys by their looks: one that somebody typed into a question is known to no session.
_SHAPES = re.compile(
    r"sk-ant-[\w-]{8,}|tvly-[\w-]{12,}|pplx-\w{20,}|AIza[\w-]{30,}|gh[pousr]_\w{20,}|github_pat_\w{20,}"
    r"|(?<=Bearer )[\w.~+/-]{16,}"
)
_USER_INFO = re.compile(r"(?<=//)[^/@:\s\"']+:[^/@\s\"']+@")  # with a password: `ssh://git@host` is no secret
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_ERRORS: dict[type[WebSearchError], tuple[str, ...]] = {  # subclasses first
    ModelError: ("status", "retry_after", "kind"),
    RateLimitedError: ("status", "retry_after", "provider"),
    ProviderError: ("status", "retry_after", "provider"),
    BlockedAddressError: (),
    FetchError: ("status",),
}


@dataclass(slots=True)
class Exchange:
    """A request to a model, an engine or a page, and its outcome as the fields of the file; `line` is its place there."""

    kind: Kind
    to: str
    request: Any
    n: int
    at: str
    took_s: float = 0.0
    outcome: dict[str, Any] = field(default_factory=dict)
    line: int = 0

    def text(self) -> str:
        """Return the exchange as a line of the file, with its keys still in it."""
        fields = {name: getattr(self, name) for name in ("kind", "to", "n", "at", "took_s", "request")}
        return json.dumps({**fields, **self.outcome}, ensure_ascii=False, default=str)

    @classmethod
    def of(cls, entry: dict[str, Any], line: int) -> Exchange:
        """Return the exchange of a line.

        Raises:
            ValueError, TypeError, LookupError: something in it is missing or not what it must be.
        """
        kind, request = entry.pop("kind"), entry.pop("request", None)
        if kind not in KINDS:
            raise ValueError(f"kind is {kind!r:.40}; it must be one of {', '.join(KINDS)}")
        if kind != "page" and not isinstance(request, dict):
            raise ValueError("the request is missing")
        if kind == "engine":
            dict(request.get("params") or ())  # raises what is wrong with them
        facts = str(entry.pop("to")), request, int(entry.pop("n")), str(entry.pop("at")), float(entry.pop("took_s"))
        entry["stream"] = [(float(moment), dict(event)) for moment, event in entry.get("stream", ())]
        entry["status"], entry["headers"] = int(entry.get("status", 200)), dict(entry.get("headers", {}))
        body_of(entry)
        return cls(kind, *facts, entry, line)


def read(path: Path) -> tuple[dict[str, Any], list[Exchange], list[str]]:
    """Return the first line of a cassette, its exchanges, and a warning when its last line is not whole.

    Raises:
        ConfigError: there is none, or a line of it cannot be read; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except FileNotFoundError:
        raise ConfigError(f"there is no cassette {path}; `%websearch record {path.name}` makes one") from None
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the cassette {path} cannot be read ({exc})") from None
    head: dict[str, Any] = {}
    exchanges: list[Exchange] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line or "{}")  # editors add empty lines
            if not head and entry and entry["cassette"] != FORMAT:
                raise ValueError(f"format {FORMAT} was expected, not {entry['cassette']!r:.40}; record it again")
            if not head or set(entry) <= {"keys"}:
                head |= entry
            else:
                exchanges.append(Exchange.of(entry, number))
        except (ValueError, TypeError, LookupError, RecursionError) as exc:
            if number == len(lines) > 1:
                return head, exchanges, [f"line {number} is not whole and was left out"]
            reason = exc if head or isinstance(exc, ValueError) else "this is no cassette of ipy_websearch"
            raise ConfigError(f"the cassette {path} cannot be read: line {number}: {reason}") from None
    if not head:
        raise ConfigError(f"the cassette {path} is empty; record it again")
    return head, exchanges, []


# --- bodies and errors ------------------------------------------------------------------------------------------------


def answer_fields(status: int, headers: Mapping[str, str], body: bytes, redactor: Redactor, *, is_json: bool) -> dict[str, Any]:
    """Return an answer's fields, its body in the most readable form: `json`, `text` or `base64`."""
    lower = {name.lower(): value for name, value in headers.items()}
    fields = {"status": status, "headers": {name: value for name, value in sorted(lower.items()) if name in KEPT_HEADERS}}
    try:
        return {**fields, "json": json.loads(body)} if is_json else {**fields, "text": body.decode()}
    except (ValueError, RecursionError):
        return {**fields, "base64": b64encode(redactor.data(body)).decode()}


def body_of(fields: Mapping[str, Any]) -> bytes:
    """Return the body of an answer's fields; a JSON body has the same values, not the same blanks."""
    if "json" in fields:
        return json.dumps(fields["json"], ensure_ascii=False).encode("utf-8", "surrogatepass")
    return str(fields["text"]).encode("utf-8", "surrogatepass") if "text" in fields else b64decode(fields.get("base64", ""))


def error_fields(error: ModelError | ProviderError | FetchError) -> dict[str, Any]:
    """Return an error as plain values."""
    kind = next(kind for kind in _ERRORS if isinstance(error, kind))
    known = {name: getattr(error, name) for name in _ERRORS[kind]}
    return {"type": kind.__name__, "message": str(error), **{n: value for n, value in known.items() if value not in (None, "")}}


def error_of(fields: Mapping[str, Any]) -> WebSearchError:
    """Return the error that `error_fields` took apart."""
    kind = next((kind for kind in _ERRORS if kind.__name__ == fields.get("type")), FetchError)
    return kind(str(fields.get("message", "")), **{name: fields[name] for name in _ERRORS[kind] if name in fields})


# --- keys -------------------------------------------------------------------------------------------------------------


class Redactor:
    """Takes keys out of text: plain, quoted for an address or for JSON, in base64, split over the pieces of a stream.

    `secrets` gives the session's keys each time, since some may be set later.
    """

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        self.secrets = secrets
        self._sent: set[str] = set()
        self._forms: tuple[frozenset[str], list[str]] = (frozenset(), [])

    def learn(self, headers: Mapping[str, Any]) -> None:
        """Note the keys that go out in a request's headers, whoever keeps them."""
        named = [str(value) for name, value in headers.items() if name.lower() in _SECRET_HEADERS]
        self._sent |= {value.removeprefix("Bearer ") for value in named}

    def text(self, text: str) -> str:
        """Return text without keys, and without passwords in addresses."""
        for form in self._all_forms():
            text = text.replace(form, MARK)
        return _SHAPES.sub(MARK, _USER_INFO.sub("", text))

    def data(self, data: bytes) -> bytes:
        """Return bytes that are no text without keys."""
        for form in self._all_forms():
            data = data.replace(form.encode("utf-8", "surrogatepass"), MARK.encode())
        return data

    def stream(self, events: list[tuple[float, dict[str, Any]]]) -> list[tuple[float, dict[str, Any]]]:
        """Return events without keys that came in several pieces; such a text then stands whole in its first piece."""
        pieces: dict[tuple[Any, str], list[dict[str, Any]]] = {}
        clean = [
            (moment, {**event, "delta": dict(event["delta"])} if event.get("delta") else event) for moment, event in events
        ]
        for _, event in clean:
            if name := _PIECES.get(str((event.get("delta") or {}).get("type"))):
                pieces.setdefault((event.get("index"), name), []).append(event["delta"])
        for (_, name), deltas in pieces.items():
            text = "".join(str(delta.get(name)) for delta in deltas)
            if (mended := self.text(text)) != text:
                for n, delta in enumerate(deltas):
                    delta[name] = "" if n else mended
        return clean

    def _all_forms(self) -> list[str]:
        named = (value for name, value in os.environ.items() if len(value) >= _LONG_ENOUGH and _VARIABLE.search(name))
        secrets = frozenset(secret for secret in (*self.secrets(), *self._sent, *named) if len(secret) >= _SHORTEST)
        if self._forms[0] != secrets:
            forms = {form for secret in secrets for form in _forms(secret)}
            self._forms = (secrets, sorted(forms, key=len, reverse=True))
        return self._forms[1]


def _forms(secret: str) -> set[str]:
    """Return how a key may be written: plain, quoted, inside JSON, and inside any longer text in base64."""
    forms = {secret, quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace"), json.dumps(secret)[1:-1]}
    data = secret.encode("utf-8", "replace")
    for shift in range(3 if len(data) >= 8 else 0):
        # The first and the last characters also depend on what stands beside the key.
        first, last = -(-shift * 8 // 6), (shift + len(data)) * 8 // 6
        forms |= {encode(b"\0" * shift + data).decode()[first:last] for encode in (b64encode, urlsafe_b64encode)}
    return forms
