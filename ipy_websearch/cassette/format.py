"""The cassette's file: JSON Lines. The first line says what a player must know, each further one is an exchange.

    {"cassette": 2, "version": "0.2.0", "platform": "anthropic", "keys": ["ANTHROPIC_API_KEY"]}
    {"kind": "model", "to": "claude-sonnet-5-5", "n": 1, "at": "2026-11-22T10:00:00.000Z", "took_s": 1.2,
     "request": {…}, "stream": [[0.31, {"type": "message_start", …}], …]}
    {"kind": "engine", "to": "brave", …, "request": {"method": "GET", …}, "status": 200, "headers": {…}, "json": {…}}
    {"kind": "page", "to": "https://example.org/", …, "status": 200, "text": "<html>…"}
    {"keys": ["ANTHROPIC_API_KEY", "BRAVE_API_KEY"]}

`n` counts requests in the order in which they were sent, `at` is the moment (UTC), seconds in `stream` count from there. An
exchange that failed has an `error`, one that was stopped or ran out of time is `cut_off`. A line is written when its exchange
has ended, in one piece: a killed kernel loses what was under way and nothing else. The last line names the keys once more,
since some may have been set meanwhile.

Invariant: a line passes `Redactor.text` as the last thing before it is written, so no key is in the file.

`Matcher` says which recorded request is the one that is asked now. Left out of the comparison is what differs from one run to
the next and changes no answer: cache breakpoints, `max_tokens` (a budget makes it smaller), keys, the engine's host, the day in
the instructions. The days that Exa is sent for a freshness such as "past week" count from the day of the request. Instructions
and descriptions of tools may differ too between versions of this package. Everything else must be equal. Equal requests are
answered in the order in which they were sent, and from the first again after the last. One that was cut off is passed over
where the same request was answered another time.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from ipy_websearch import errors
from ipy_websearch.errors import ConfigError, ReplayError, WebSearchError
from ipy_websearch.model.requests import question, without_marks
from ipy_websearch.text import plain, shorten

FORMAT = 2
# A line of the file: a request to a model, an engine or a page, and its outcome.
Exchange = dict[str, Any]

# The response headers that are written down; cookies, ids, and what counts requests are not.
KEPT_HEADERS = frozenset("content-type content-language etag last-modified link location retry-after retry-after-ms".split())

# What stands in the place of a key.
MARK = "[key]"

# Query parameters whose values are keys, whoever's they are.
SECRET_PARAMETERS = frozenset("key cx api_key apikey api-key access_token auth token client_secret subscription-token".split())

_SECRET_HEADERS = ("authorization", "x-subscription-token", "x-api-key", "api-key", "x-goog-api-key")
_VARIABLE = re.compile(r"(_API_KEY|_AUTH_TOKEN|_TOKEN|_SECRET|_SECRET_ACCESS_KEY|_PASSWORD)$")
_SHORTEST, _LONG_ENOUGH = 4, 12  # a variable with such a name may hold a common word
# Keys by their looks: one that somebody typed into a question is known to no session.
_SHAPES = re.compile(
    r"sk-ant-[\w-]{8,}|tvly-[\w-]{12,}|pplx-\w{20,}|AIza[\w-]{30,}|gh[pousr]_\w{20,}|github_pat_\w{20,}"
    r"|(?<=Bearer )[\w.~+/-]{16,}"
)
_USER_INFO = re.compile(r"(?<=//)[^/@:\s\"']+:[^/@\s\"']+@")  # with a password: `ssh://git@host` is no secret
_TYPES: dict[str, Callable[[Any], Any]] = {
    "at": datetime.fromisoformat,
    "to": str,
    "n": int,
    "took_s": float,
    "request": dict,
    "status": int,
    "headers": dict,
}
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_TOLD = ("status", "retry_after", "kind", "provider")


def read(path: Path) -> tuple[dict[str, Any], list[Exchange], str]:
    """Return the first line of a cassette, its exchanges, and a sentence when its last line is not whole.

    Raises:
        ConfigError: there is none, or a line of it cannot be read; the message names the line.
    """
    try:
        lines = path.read_bytes().split(b"\n")  # not as one text: a cut may go through a character
    except OSError as exc:
        raise ConfigError(f"the cassette {path} cannot be read ({exc})") from None
    head: dict[str, Any] = {}
    exchanges, problem = list[Exchange](), ""
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line.strip() or b"{}")  # editors add empty lines
            if "kind" in entry:
                exchanges.append(_checked(entry))
            else:
                head |= entry
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as exc:
            if number != len(lines):
                raise ConfigError(f"the cassette {path} cannot be read: line {number}: {exc}") from None
            problem = f"line {number} is not whole and was left out"
    if head.get("cassette") != FORMAT:
        raise ConfigError(f"{path} is no cassette of format {FORMAT}; record it again")
    return head, exchanges, problem


def _checked(entry: dict[str, Any]) -> Exchange:
    """Return the exchange of a line, which a hand may have edited.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: a field is missing or of a wrong type.
    """
    exchange = {"status": 200, "headers": {}, "stream": (), **entry, "request": entry.get("request") or {}}
    for name, kind in _TYPES.items():
        exchange[name] = kind(exchange[name])
    exchange["stream"] = [(float(moment), dict(event)) for moment, event in exchange["stream"]]
    body_of(exchange)
    if "error" in exchange:
        error_of(exchange["error"])
    return exchange


# --- bodies and errors ------------------------------------------------------------------------------------------------


def answer_fields(status: int, headers: Mapping[str, str], body: bytes, redactor: Redactor, *, is_json: bool) -> dict[str, Any]:
    """Return an answer's fields, its body in the most readable form: `json`, `text` or `base64`. Names of `headers` are in
    lower case."""
    fields = {"status": status, "headers": {name: value for name, value in sorted(headers.items()) if name in KEPT_HEADERS}}
    try:
        return {**fields, "json": json.loads(body)} if is_json else {**fields, "text": body.decode()}
    except (ValueError, RecursionError):
        return {**fields, "base64": b64encode(redactor.data(body)).decode()}


def body_of(fields: Mapping[str, Any]) -> bytes:
    """Return the body of an answer's fields; a JSON body has the same values, not the same blanks."""
    if "json" in fields:
        return json.dumps(fields["json"], ensure_ascii=False).encode("utf-8", "surrogatepass")
    return str(fields["text"]).encode("utf-8", "surrogatepass") if "text" in fields else b64decode(fields.get("base64", ""))


def error_fields(error: WebSearchError) -> dict[str, Any]:
    """Return an error as plain values."""
    told = {name: value for name in _TOLD if (value := getattr(error, name, None)) not in (None, "")}
    return {"type": type(error).__name__, "message": str(error), **told}


def error_of(fields: Mapping[str, Any]) -> WebSearchError:
    """Return the error that `error_fields` took apart."""
    kind: type[WebSearchError] = getattr(errors, fields["type"])
    return kind(str(fields["message"]), **{name: fields[name] for name in _TOLD if name in fields})


# --- keys -------------------------------------------------------------------------------------------------------------


class Redactor:
    """Takes keys out of text: plain, quoted for an address or for JSON, in hex or base64, split over the pieces of a stream.

    `secrets` gives the session's keys each time, since some may be set later.
    """

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        self.secrets = secrets
        self._sent: set[str] = set()

    def learn(self, headers: Mapping[str, Any]) -> None:
        """Note the keys that go out in a request's headers, whoever keeps them."""
        self._sent |= {str(text).removeprefix("Bearer ") for name, text in headers.items() if name.lower() in _SECRET_HEADERS}

    def text(self, text: str) -> str:
        """Return text without keys, and without passwords in addresses."""
        return _SHAPES.sub(MARK, _USER_INFO.sub("", self._without_keys(text)))

    def data(self, data: bytes) -> bytes:
        """Return bytes that are no text without keys; by its looks alone, anything may stand in them."""
        return self._without_keys(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def _without_keys(self, text: str) -> str:
        named = (value for name, value in os.environ.items() if len(value) >= _LONG_ENOUGH and _VARIABLE.search(name))
        for form in _forms(frozenset((*self.secrets(), *self._sent, *named))):
            text = text.replace(form, MARK)
        return text

    def stream(self, events: list[tuple[float, dict[str, Any]]]) -> list[tuple[float, dict[str, Any]]]:
        """Return events without keys that came in several pieces; such a text then stands whole in its first piece."""
        clean = deepcopy(events)
        pieces: dict[tuple[Any, str], list[dict[str, Any]]] = defaultdict(list)
        for _, event in clean:
            delta = event.get("delta") or {}
            if name := _PIECES.get(str(delta.get("type"))):
                pieces[event.get("index"), name].append(delta)
        for (_, name), deltas in pieces.items():
            text = "".join(str(delta.get(name)) for delta in deltas)
            if (mended := self.text(text)) != text:
                for n, delta in enumerate(deltas):
                    delta[name] = "" if n else mended
        return clean


@lru_cache(maxsize=4)
def _forms(secrets: frozenset[str]) -> list[str]:
    """Return how keys may be written, longest first: plain, quoted, in JSON, in hex, and inside any longer text in base64."""
    forms: set[str] = set()
    for secret in (secret for secret in secrets if len(secret) >= _SHORTEST):
        forms |= {quote(secret, safe=safe, errors="replace") for safe in ("", "/")}  # in a query, in a path
        data = secret.encode("utf-8", "replace")
        forms |= {secret, quote_plus(secret, errors="replace"), json.dumps(secret)[1:-1], data.hex(), data.hex().upper()}
        for shift in range(3 if len(data) >= 8 else 0):
            # The first and the last characters also depend on what stands beside the key.
            first, last = -(-shift * 8 // 6), (shift + len(data)) * 8 // 6
            forms |= {encode(b"\0" * shift + data).decode()[first:last] for encode in (b64encode, urlsafe_b64encode)}
    return sorted(forms, key=len, reverse=True)


# --- which recorded request is asked now ---------------------------------------------------------------------------------

_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_FREE = ("max_tokens", "stream", "metadata", "model", "timeout")  # the model is whom the request goes to


class Matcher:
    """The exchanges of the cassette `name`, found by their requests.

    `strict` compares instructions and tools in full; `clean` takes out of a request what was taken out of the recorded ones.
    """

    def __init__(self, name: str, exchanges: Iterable[Exchange], *, strict: bool, clean: Callable[[str], str]) -> None:
        self._name = name
        self._exchanges = sorted(exchanges, key=lambda exchange: exchange["n"])
        self._strict = strict
        self._clean = clean
        self._rows: dict[str, list[Exchange]] = defaultdict(list)
        for exchange in self._exchanges:
            for key in self._keys(exchange, exchange["at"].date()):
                self._rows[key].append(exchange)

    def take(self, kind: str, to: str, request: Any) -> Exchange:
        """Return the exchange to play.

        Raises:
            ReplayError: there is none.
        """
        asked = {"kind": kind, "to": to, "request": request}
        for key in self._keys(asked, datetime.now(UTC).date()):
            row = self._rows.get(key, [])
            if alike := [exchange for exchange in row if _same_path(exchange["request"], asked["request"])]:
                found = next((exchange for exchange in alike if not exchange.get("cut_off")), alike[0])
                row.remove(found)
                row.append(found)
                return found
        about = ""
        if request:
            words = question(request["messages"]) if kind == "model" else request.get("json") or dict(request["params"])
            about = f" (“{shorten(plain(str(words)), 150)}”)"
        what = f"{self._name} has no recording of this request to {to}{about}"
        number = sum(exchange["kind"] == kind for exchange in self._exchanges)
        raise ReplayError(f"{what}; {number} recorded; ask as the recording did, or record it anew")

    def _keys(self, asked: Exchange, day: date) -> Iterator[str]:
        """Yield the texts by which a request is found: as it is, then with its days counted from `day`."""
        kind = asked["kind"]
        compared = [kind, asked["to"], self._compared(kind, asked["request"])]
        text = self._clean(json.dumps(compared, sort_keys=True, ensure_ascii=False, default=str))
        yield text
        if kind == "engine" and _DAY.search(text):
            for days in range(367):
                text = text.replace(f"{day - timedelta(days)}", f"{days} days ago")
            yield text

    def _compared(self, kind: str, request: Any) -> Any:
        if kind == "page":
            return None
        if kind == "engine":
            return [request.get("method"), sorted(request.get("params") or ()), request.get("json")]
        body = {name: without_marks(value) for name, value in request.items() if name not in _FREE}
        if self._strict:
            return body | {"system": _DAY.sub("", json.dumps(body.get("system"), default=str))}
        return body | {"system": None, "tools": [tool.get("name") for tool in body.get("tools") or ()]}


def _same_path(recorded: Any, asked: Any) -> bool:
    """Return whether two addresses have the same path, but for a prefix that a server of one's own may add."""
    short, long = sorted((urlsplit(str((r or {}).get("url", ""))).path.rstrip("/") for r in (recorded, asked)), key=len)
    return long.endswith(short)
