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
the instructions. The days that a freshness such as "past week" is sent as count from the day of the request. Between versions
of this package, instructions and descriptions of tools may differ too. Everything else must be equal. Equal requests are
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
from datetime import UTC, date, datetime
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

from ipy_websearch.errors import (
    BlockedAddressError,
    ConfigError,
    FetchError,
    ModelError,
    ProviderError,
    RateLimitedError,
    WebSearchError,
)
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
_TYPES = {"to": str, "n": int, "took_s": float, "status": int, "headers": dict}
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
# Subclasses first.
_ERRORS: dict[str, type[WebSearchError]] = {
    kind.__name__: kind for kind in (ModelError, RateLimitedError, ProviderError, BlockedAddressError, FetchError)
}
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
    """Return the exchange of a line, with defaults for the fields that it leaves out.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: a field is missing or of a wrong type.
    """
    exchange: Exchange = {"request": None, "stream": (), "status": 200, "headers": {}, **entry}
    exchange["at"] = datetime.fromisoformat(entry["at"])
    for name, kind in _TYPES.items():
        exchange[name] = kind(exchange[name])
    exchange["stream"] = [(float(moment), dict(event)) for moment, event in exchange["stream"]]
    body_of(exchange)
    _gist(exchange)
    return exchange


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


def error_fields(error: WebSearchError) -> dict[str, Any]:
    """Return an error as plain values."""
    kind = next(name for name, kind in _ERRORS.items() if isinstance(error, kind))
    told = {name: getattr(error, name, None) for name in _TOLD}
    return {"type": kind, "message": str(error), **{name: value for name, value in told.items() if value not in (None, "")}}


def error_of(fields: Mapping[str, Any]) -> WebSearchError:
    """Return the error that `error_fields` took apart."""
    told = {name: fields[name] for name in _TOLD if name in fields}
    return _ERRORS[fields["type"]](str(fields["message"]), **told)


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
        named = [str(value) for name, value in headers.items() if name.lower() in _SECRET_HEADERS]
        self._sent |= {value.removeprefix("Bearer ") for value in named}

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

# The three ways in which engines take a day: 2026-11-22 (with a time or without), 11/22/2026, and 20261122 in a range.
_DAY = re.compile(r"(\d{4}-\d\d-\d\d)(?:T[\d:.]+(?:Z|[+-]\d\d:?\d\d)?)?|(\d\d/\d\d/\d{4})|(?<=[r:])(\d{8})(?=[:\"])")
_DAY_FORMS = ("%Y-%m-%d", "%m/%d/%Y", "%Y%m%d")
_FREE = ("max_tokens", "stream", "metadata", "model", "timeout")  # the model is whom the request goes to
_QUERIES = ("q", "query", "search", "srsearch", "url")
_WIDTH = 60


class Matcher:
    """The recorded exchanges, found by their requests.

    `strict` compares instructions and tools in full; `clean` takes out of a request what was taken out of the recorded ones.
    """

    def __init__(self, exchanges: Iterable[Exchange], *, strict: bool, clean: Callable[[str], str]) -> None:
        self.exchanges = sorted(exchanges, key=lambda exchange: exchange["n"])
        self._strict = strict
        self._clean = clean
        self._rows: dict[str, list[Exchange]] = defaultdict(list)
        for exchange in self.exchanges:
            for key in self._keys(exchange, exchange["at"].date()):
                self._rows[key].append(exchange)

    def take(self, asked: Exchange) -> Exchange | None:
        """Return the exchange to play, None when there is none."""
        for key in self._keys(asked, datetime.now(UTC).date()):
            row = self._rows.get(key, [])
            if alike := [exchange for exchange in row if _same_path(exchange["request"], asked["request"])]:
                found = next((exchange for exchange in alike if not exchange.get("cut_off")), alike[0])
                row.remove(found)
                row.append(found)
                return found
        return None

    def miss(self, asked: Exchange, name: str) -> str:
        """Return the line that says that a request is not on the cassette `name`, and which recorded one is the nearest."""
        recorded = [exchange for exchange in self.exchanges if exchange["kind"] == asked["kind"]]
        what = "page" if asked["kind"] == "page" else f"request to {asked['to']}"
        said = [f"{name} has no recording of this {what} (“{_gist(asked)}”)", f"{len(recorded)} recorded"]
        gists = {_gist(exchange): exchange["to"] for exchange in recorded}
        for near in get_close_matches(_gist(asked), gists, 1, 0.0):
            said.append(f"the nearest is “{near}”" + (f" to {gists[near]}" if gists[near] not in (asked["to"], near) else ""))
        return "; ".join([*said, "ask as the recording did, or record it anew"])

    def _keys(self, asked: Exchange, day: date) -> Iterator[str]:
        """Yield the texts by which a request is found: as it is, then with its days counted from `day`."""
        kind = asked["kind"]
        compared = [kind, asked["to"], self._compared(kind, asked["request"])]
        text = self._clean(json.dumps(compared, sort_keys=True, ensure_ascii=False, default=str))
        yield text
        if kind == "engine" and _DAY.search(text):
            yield _counted_from(text, day)

    def _compared(self, kind: str, request: Any) -> Any:
        if kind == "page":
            return None
        if kind == "engine":
            params = sorted(pair for pair in request.get("params") or () if pair[0].lower() not in SECRET_PARAMETERS)
            return [request.get("method"), params, request.get("json")]
        body = {name: without_marks(value) for name, value in request.items() if name not in _FREE}
        if self._strict:
            return body | {"system": _DAY.sub("", json.dumps(body.get("system"), default=str))}
        return body | {"system": None, "tools": [tool.get("name") for tool in body.get("tools") or ()]}


def _same_path(recorded: Any, asked: Any) -> bool:
    """Return whether two addresses have the same path, but for a prefix that a server of one's own may add."""
    short, long = sorted((urlsplit(str((r or {}).get("url", ""))).path.rstrip("/") for r in (recorded, asked)), key=len)
    return long.endswith(short)


def _counted_from(text: str, day: date) -> str:
    def days(found: re.Match[str]) -> str:
        n = found.lastindex or 1
        try:
            return f"({(datetime.strptime(found[n], _DAY_FORMS[n - 1]).date() - day).days:+} days)"
        except ValueError:
            return found[0]

    return _DAY.sub(days, text)


def _gist(exchange: Exchange) -> str:
    """Return a request's subject in a few words: the question to a model, a query, an address."""
    words, request = exchange["to"], exchange["request"]
    if exchange["kind"] == "model":
        words = question(request.get("messages") or ())
    elif exchange["kind"] == "engine":
        given = dict(request.get("params") or ()) | (request.get("json") or {})
        words = next((str(given[name]) for name in _QUERIES if given.get(name)), str(request.get("url")))
    return shorten(plain(words), _WIDTH)
