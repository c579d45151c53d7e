"""The price files: the one that comes with the package, and the user's own of the same form.

The invariant: a row that is read is complete and sound, or the file is refused as a whole with the line or the field that
is wrong. A user's file that is refused says so once; until it is changed, the package's own prices count.
"""

from __future__ import annotations

import os
import threading
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import did_you_mean, settings_dir

FILE_NAME = "prices.toml"
KINDS = ("search", "fetch", "context", "map", "*")

_TEXTS = ("provider", "kind", "unit")
_OPTIONAL_TEXTS = ("plan", "source", "date")
_RATES = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h", "server_search")


@dataclass(frozen=True, slots=True)
class PriceRow:
    """What one `unit` of a call of that `kind` ("*": any) to an engine costs in US dollars, on which plan, says who, when."""

    provider: str
    kind: str
    unit: str
    usd: Decimal
    plan: str = ""
    source: str = ""
    date: str = ""


@dataclass(frozen=True, slots=True)
class PriceFile:
    """The rows of a file by (provider, kind, unit), and its models' prices by name: US dollars for a million tokens."""

    rows: Mapping[tuple[str, str, str], PriceRow] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Decimal]] = field(default_factory=dict)


_PLACES = ("HOME", "XDG_CONFIG_HOME")  # what, without a folder of our own, the place of the settings follows from
LOOK_S = 0.02
"""Seconds for which the file is taken to be as it was: a question asks for half a dozen prices within one of them."""

_lock = threading.Lock()
_looked: dict[str, tuple[float, PriceFile]] = {}
_read: dict[str, tuple[tuple[int, int], PriceFile]] = {}
_NONE = PriceFile()


@cache
def built_in() -> PriceFile:
    """Return the prices that come with the package."""
    return parse((files("ipy_websearch.money") / FILE_NAME).read_text(encoding="utf-8"), FILE_NAME)


def users_own() -> PriceFile:
    """Return the user's own prices, empty without a file; a changed file is read again, `LOOK_S` seconds later at most.

    Raises:
        ConfigError: the file is wrong; raised once for each state of the file, after which it counts as empty.
    """
    home = os.environ.get("IPY_WEBSEARCH_HOME")
    path = _own_path(home) if home else _own_path(*map(os.environ.get, _PLACES))
    now = time.monotonic()
    if (seen := _looked.get(path)) is not None and now < seen[0]:
        return seen[1]
    found = _users_own(path)
    _looked[path] = (now + LOOK_S, found)
    return found


def _users_own(path: str) -> PriceFile:
    try:
        status = os.stat(path)
    except OSError:
        return _NONE
    stamp = (status.st_mtime_ns, status.st_size)
    with _lock:
        known = _read.get(path)
        if known is None or known[0] != stamp:
            _read[path] = (stamp, PriceFile())  # what the next caller gets when parsing fails
            _read[path] = (stamp, parse(_text(Path(path)), path))
        return _read[path][1]


@lru_cache(maxsize=16)
def _own_path(*_because_of: str | None) -> str:
    """Return the path of the user's file; it is asked for at every price."""
    return os.path.join(settings_dir(), FILE_NAME)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the price file {path} cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc


def parse(text: str, name: str) -> PriceFile:
    """Return the prices in a TOML text; `name` is what messages call the file.

    Raises:
        ConfigError: it is not TOML (the line is named), or an entry is wrong (the field is named).
    """
    try:
        content = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as exc:
        raise ConfigError(f"the price file {name} is not TOML: {exc}") from exc
    for key in content:
        if key not in ("price", "model"):
            raise ConfigError(f"{name}: there is no section {key!r}; the sections are [[price]] and [[model]]")
    rows = [_row(entry, f"{name}, {where}") for entry, where in _entries(content, "price", name)]
    models = [_model(entry, f"{name}, {where}") for entry, where in _entries(content, "model", name)]
    return PriceFile({(row.provider, row.kind, row.unit): row for row in rows}, dict(models))


def _entries(content: Mapping[str, Any], section: str, name: str) -> list[tuple[dict[str, Any], str]]:
    entries = content.get(section, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ConfigError(f"{name}: write [[{section}]], with two brackets, above each entry")
    return [(entry, f"[[{section}]] number {n}") for n, entry in enumerate(entries, 1)]


def _row(entry: dict[str, Any], where: str) -> PriceRow:
    _check_fields(entry, (*_TEXTS, "usd", *_OPTIONAL_TEXTS), where)
    texts = {name: _string(entry, name, where) for name in _TEXTS}
    notes = {name: str(entry.get(name, "")) for name in _OPTIONAL_TEXTS}
    if texts["kind"] not in KINDS:
        raise ConfigError(f"{where}: kind is {texts['kind']!r}; it must be one of {', '.join(KINDS)}")
    return PriceRow(**texts, usd=_money(entry, "usd", where), **notes)


def _model(entry: dict[str, Any], where: str) -> tuple[str, dict[str, Decimal]]:
    _check_fields(entry, ("id", *_RATES, *_OPTIONAL_TEXTS), where)
    required = {name: _money(entry, name, where) for name in _RATES[:2]}
    stated = {name: _money(entry, name, where) for name in _RATES[2:] if name in entry}
    return _string(entry, "id", where), required | stated


def _check_fields(entry: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    for name in entry:
        if name not in known:
            raise ConfigError(f"{where}: there is no field {name!r}{did_you_mean(name, known)}; fields: {', '.join(known)}")


def _string(entry: Mapping[str, Any], name: str, where: str) -> str:
    value = entry.get(name)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f'{where}: {name} is {_shown(value)}; it must be a text such as {name} = "…"')
    return value.strip().lower()


def _money(entry: Mapping[str, Any], name: str, where: str) -> Decimal:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | Decimal) or not Decimal(value).is_finite() or value < 0:
        raise ConfigError(f"{where}: {name} is {_shown(value)}; it must be an amount of US dollars such as 0.005")
    return Decimal(value)


def _shown(value: Any) -> str:
    return "missing" if value is None else value.isoformat() if isinstance(value, date) else repr(str(value)[:80])
