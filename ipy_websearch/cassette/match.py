"""Which recorded request is the one that is asked now. Pure.

Left out of the comparison is what differs from one run to the next and changes no answer: cache breakpoints, `max_tokens` (a
budget makes it smaller), keys, the engine's host, the day in the instructions. The days that a freshness such as "past week"
is sent as count from the day of the request. Between versions of this package, instructions and descriptions of tools may
differ too. Everything else must be equal.

Equal requests are answered in the order in which they were sent, and from the first again after the last. One that was cut
off is passed over where the same request was answered another time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from difflib import SequenceMatcher
from typing import Any
from urllib.parse import urlsplit

from ipy_websearch.cassette.format import SECRET_PARAMETERS, Exchange
from ipy_websearch.model.requests import without_marks
from ipy_websearch.text import plain, shorten

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

    def __init__(self, exchanges: Sequence[Exchange], *, strict: bool, clean: Any) -> None:
        self.exchanges = sorted(exchanges, key=lambda exchange: exchange.n)
        self._strict = strict
        self._clean = clean
        self._rows: dict[str, list[Exchange]] = {}
        self._played: dict[str, int] = {}
        for exchange in self.exchanges:
            for key in self._keys(exchange.kind, exchange.to, exchange.request, [_day(exchange.at)]):
                self._rows.setdefault(key, []).append(exchange)

    def take(self, kind: str, to: str, request: Any) -> tuple[Exchange, bool] | None:
        """Return the exchange to play, and whether the same request was recorded again after it; None: there is none."""
        today = datetime.now(UTC).date()
        near = [today + timedelta(days) for days in (0, -1, 1)]  # an engine's day may be that of another time zone
        for key in self._keys(kind, to, request, near):
            if row := [exchange for exchange in self._rows.get(key, ()) if _same_path(exchange.request, request)]:
                row = [exchange for exchange in row if not exchange.outcome.get("cut_off")] or row
                played = self._played[key] = self._played.get(key, -1) + 1
                return row[played % len(row)], (played + 1) % len(row) != 0
        return None

    def miss(self, kind: str, to: str, request: Any, name: str) -> str:
        """Return the line that says that a request is not on the cassette `name`, and which recorded one is the nearest."""
        alike = [exchange for exchange in self.exchanges if exchange.kind == kind]
        gist = _gist(kind, to, request)
        what = "page" if kind == "page" else f"request to {to}"
        said = [f"{name} has no recording of this {what} (“{gist}”)", f"{len(alike)} recorded"]
        if alike:
            gists = [(_gist(kind, other.to, other.request), other.to) for other in alike]
            words, whom = max(gists, key=lambda near: (SequenceMatcher(None, gist, near[0]).ratio(), near[1] == to))
            said.append(f"the nearest is “{words}”" + (f" to {whom}" if whom != to and kind != "page" else ""))
        return "; ".join([*said, "ask as the recording did, or record it anew"])

    def _keys(self, kind: str, to: str, request: Any, days: Sequence[date]) -> Iterator[str]:
        """Yield the texts by which a request is found: as it is, then with its days counted from each of `days`."""
        text = self._clean(
            json.dumps([kind, to, self._compared(kind, request)], sort_keys=True, ensure_ascii=False, default=str)
        )
        yield text
        if kind == "engine" and _DAY.search(text):
            yield from (_counted_from(text, day) for day in days)

    def _compared(self, kind: str, request: Any) -> Any:
        if kind == "page":
            return None
        if kind == "engine":
            params = sorted(
                [name, value] for name, value in request.get("params") or () if name.lower() not in SECRET_PARAMETERS
            )
            return [request.get("method"), params, request.get("json")]
        body = {name: without_marks(value) for name, value in request.items() if name not in _FREE}
        if self._strict:
            return body | {"system": _DAY.sub("", json.dumps(body.get("system"), default=str))}
        return body | {"system": None, "tools": [tool.get("name") for tool in body.get("tools") or ()]}


def _counted_from(text: str, day: date) -> str:
    def days(found: re.Match[str]) -> str:
        n = found.lastindex or 1
        try:
            return f"({(datetime.strptime(found[n], _DAY_FORMS[n - 1]).date() - day).days:+} days)"
        except ValueError:
            return found[0]

    return _DAY.sub(days, text)


def _day(at: str) -> date:
    try:
        return datetime.fromisoformat(at).astimezone(UTC).date()
    except ValueError:
        return datetime.now(UTC).date()


def _same_path(recorded: Any, asked: Any) -> bool:
    """Say whether two addresses have the same path, but for a prefix that one engine's address may have."""
    short, long = sorted((urlsplit(str((r or {}).get("url", ""))).path.rstrip("/") for r in (recorded, asked)), key=len)
    return long.endswith(short)


def _gist(kind: str, to: str, request: Any) -> str:
    """Return what a request is about in a few words: the question to a model, a query, an address."""
    words = to
    if kind == "model":
        words = next((text for message in reversed(request.get("messages") or ()) if (text := _said(message))), "")
    elif kind == "engine":
        given = {str(name): value for name, value in request.get("params") or ()} | (request.get("json") or {})
        words = next((str(given[name]) for name in _QUERIES if given.get(name)), str(request.get("url")))
    return shorten(plain(words), _WIDTH)


def _said(message: Mapping[str, Any]) -> str:
    """Return the words of a message by the user, "" for any other and for one with results alone."""
    content = message.get("content") if message.get("role") == "user" else ""
    if isinstance(content, str):
        return content
    return " ".join(str(block.get("text")) for block in content or () if block.get("type") == "text")
