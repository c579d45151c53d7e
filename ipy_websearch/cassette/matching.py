"""Which recorded request is the one that is asked now. Pure.

Left out of the comparison is what differs from one run to the next and changes no answer: cache breakpoints, `max_tokens` (a
budget makes it smaller), keys, the engine's host. Days count from the day of the request: "Today is …" in the instructions, and
the days that a freshness such as "past week" is sent as. Everything else must be equal; instructions and descriptions of
tools may differ when another version of this package recorded.

Equal requests play in the order in which they were recorded, the first one again after the last. One that was cut off is
passed over where the same request was answered another time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from ipy_websearch.cassette.exchange import Exchange
from ipy_websearch.cassette.redaction import MARK, SECRET_PARAMETERS

_DAY = re.compile(
    r"(?P<iso>\d{4}-\d{2}-\d{2})(?:T[\d:.]+(?:Z|[+-]\d{2}:?\d{2})?)?|(?P<us>\d{2}/\d{2}/\d{4})|(?<=[r:])(?P<bare>\d{8})(?=:|$)"
)
_FORMS = {"iso": "%Y-%m-%d", "us": "%m/%d/%Y", "bare": "%Y%m%d"}
_TODAY = "{day}"
_LEFT_OUT = ("cache_control",)
_LEFT_OUT_ON_TOP = ("max_tokens", "stream", "metadata")
_ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request in the form in which requests are compared: `key` without days, and the days in their order."""

    key: str
    days: tuple[str, ...]
    on: date
    path: str = ""

    def fits(self, recorded: Asked) -> bool:
        """Say whether this request, made now, is the recorded one."""
        paths = sorted((self.path, recorded.path), key=len)
        if self.key != recorded.key or not paths[1].endswith(paths[0]):
            return False
        passed = self.on - recorded.on
        return all(a == b or _moved(a, b, passed) for a, b in zip(self.days, recorded.days, strict=True))


def asked(kind: str, to: str, request: Any, on: date, *, strict: bool = True) -> Asked:
    """Return a request as it is compared. `strict` False leaves the wording of instructions and tools out."""
    days: list[str] = []
    if kind == "model":
        comparable: Any = _model(request, strict, days)
    elif kind == "engine":
        comparable = _engine(request, days)
    else:
        comparable = None
    key = json.dumps([kind, to, comparable], sort_keys=True, ensure_ascii=False, default=str)
    return Asked(key, tuple(days), on, urlsplit(str(request.get("url", ""))).path.rstrip("/") if kind == "engine" else "")


def comparable_of(kind: str, request: Any) -> Any:
    """Return a request as it is shown where two are compared for a reader."""
    if kind == "model":
        return _model(request, True, [])
    if kind == "page":
        return None
    found = _engine(request, [])
    params: dict[str, Any] = {}
    for name, value in found["params"]:
        params[name] = value if name not in params else f"{params[name]}, {value}"
    return {**found, "path": urlsplit(str(request.get("url", ""))).path, "params": params}


def _model(body: Mapping[str, Any], strict: bool, days: list[str]) -> dict[str, Any]:
    plain = {name: _plain(value) for name, value in body.items() if name not in _LEFT_OUT_ON_TOP}
    plain.pop("model", None)  # it is `to`
    system, tools = plain.pop("system", None), plain.pop("tools", None)
    plain["tools"] = tools if strict else [tool.get("name") for tool in tools or ()]
    if strict:
        plain["system"] = _without_days(system, days)
    return plain


def _engine(request: Mapping[str, Any], days: list[str]) -> dict[str, Any]:
    params = sorted([name, value] for name, value in request.get("params") or () if str(name).lower() not in SECRET_PARAMETERS)
    return {
        "method": request.get("method"),
        "params": _without_days(params, days),
        "json": _without_days(_plain(request.get("json")), days),
    }


def _plain(value: Any) -> Any:
    """Return a value without cache breakpoints, in JSON's own types."""
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in value.items() if name not in _LEFT_OUT}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value


def _without_days(value: Any, days: list[str]) -> Any:
    """Return a value with a mark in place of each day; `days` gets them."""
    if isinstance(value, str):
        days += [found[0] for found in _DAY.finditer(value)]
        return _DAY.sub(_TODAY, value)
    if isinstance(value, Mapping):
        return {name: _without_days(value[name], days) for name in sorted(value)}
    return [_without_days(inner, days) for inner in value] if isinstance(value, list | tuple) else value


def _moved(now: str, then: str, passed: timedelta) -> bool:
    """Say whether two days are as far apart as the two requests (to the day: one may have been in another time zone)."""
    days = [_day(text) for text in (now, then)]
    if days[0] is None or days[1] is None:
        return False
    return abs((days[0] - days[1]) - passed) <= _ONE_DAY


def _day(text: str) -> date | None:
    found = _DAY.fullmatch(text)
    if found is None or found.lastgroup is None:
        return None
    try:
        return datetime.strptime(found[found.lastgroup], _FORMS[found.lastgroup]).date()
    except ValueError:
        return None


@dataclass(slots=True)
class _Row:
    """Equal recorded requests, and how many of them have been played."""

    exchanges: list[Exchange] = field(default_factory=list)
    played: int = 0


class Shelf:
    """The recorded exchanges, found by what they asked."""

    def __init__(self, exchanges: Sequence[Exchange], *, strict: bool = True, clean: Any = str) -> None:
        self.exchanges = sorted(exchanges, key=lambda exchange: exchange.n)
        self._strict = strict
        self._clean = clean
        self._rows: dict[str, list[tuple[Asked, _Row]]] = {}
        for exchange in self.exchanges:
            self._put(exchange)

    def _put(self, exchange: Exchange) -> None:
        wanted = asked(exchange.kind, exchange.to, exchange.request, _recorded_on(exchange), strict=self._strict)
        rows = self._rows.setdefault(wanted.key, [])
        for known, row in rows:
            if known.days == wanted.days and known.path == wanted.path:
                row.exchanges.append(exchange)
                return
        rows.append((wanted, _Row([exchange])))

    def take(self, kind: str, to: str, request: Any) -> tuple[Exchange, bool] | None:
        """Return the exchange to play, and whether the same request was recorded again after it; None: there is none."""
        request = json.loads(self._clean(json.dumps(request, ensure_ascii=False, default=str)))
        wanted = asked(kind, to, request, datetime.now(UTC).date(), strict=self._strict)
        rows = [(known, row) for known, row in self._rows.get(wanted.key, ()) if wanted.fits(known)]
        exact = [row for known, row in rows if known.days == wanted.days]
        row = exact[0] if exact else rows[0][1] if rows else None
        if row is None:
            return None
        answered = [exchange for exchange in row.exchanges if not exchange.cut_off] or row.exchanges
        exchange = answered[row.played % len(answered)]
        row.played += 1
        return exchange, row.played % len(answered) != 0


def _recorded_on(exchange: Exchange) -> date:
    try:
        return datetime.fromisoformat(exchange.at).astimezone(UTC).date()
    except ValueError:
        return datetime.now(UTC).date()


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of everything in a JSON value that holds nothing else."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple) and value:
        for n, inner in enumerate(value):
            yield from leaves(inner, f"{path}[{n}]")
    else:
        yield path, MARK if value == MARK else value
