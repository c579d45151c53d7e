"""The cassette's file: a YAML stream of entries, in which values are JSON or blocks of text. Written and read back here.

An entry is written when its exchange has ended, in one piece, so a killed kernel loses what was under way and nothing else.
An event of a stream takes one line, with the seconds since the request; a piece of text is `[seconds, block, "text"]`. The
reader takes the file line by line, many times faster than a YAML parser, and says the line of what it cannot read. An entry
that ends with the file before it is whole (a full disk) is left out and named in `warnings`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipy_websearch.cassette.exchange import KINDS, Exchange
from ipy_websearch.cassette.repeats import restore
from ipy_websearch.errors import ConfigError

FORMAT = 1
WIDTH = 110
"""Characters in a line, unless a single text is longer."""

INTRODUCTION = """\
# A cassette of ipy_websearch: what a notebook sent and got, without keys. Play it with `%websearch replay FILE`.
# Entries may be edited; the seconds say when a piece of an answer came.
"""
_KEY = re.compile(r"([a-z_0-9]+):(?: (.*))?$")
_BLOCK = {"|2-": "", "|2+": "\n"}
_TYPES: dict[str, Any] = {
    **dict.fromkeys(("request", "headers", "error", "message"), dict),
    **dict.fromkeys(("final_url", "content_type", "charset", "encoding", "at", "version", "platform"), str),
    **dict.fromkeys(("lines", "base64", "keys"), list),
    **{"status": int, "n": int, "took_s": int | float, "cut_off": bool},
}
_END = "..."  # YAML's own mark of a document's end: with it an entry is whole


@dataclass(slots=True)
class Written:
    """What a file holds: the head's values (keys that came later included), the exchanges, what was left out."""

    head: dict[str, Any]
    exchanges: list[Exchange] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


# --- writing ------------------------------------------------------------------------------------------------------------


def head_text(head: Mapping[str, Any]) -> str:
    """Return the beginning of a file."""
    return INTRODUCTION + _document({"cassette": FORMAT, **head})


def keys_text(keys: Sequence[str]) -> str:
    """Return the entry that says which keys are set from here on."""
    return _document({"keys": list(keys)})


def exchange_text(exchange: Exchange, request: Any) -> str:
    """Return an exchange as an entry, with its request in the form in which it is to be written."""
    values: dict[str, Any] = {exchange.kind: exchange.to, "n": exchange.n, "at": exchange.at}
    values["took_s"] = round(exchange.took_s, 3)
    if request is not None:
        values["request"] = request
    return _document({**values, **exchange.outcome})


def _document(values: Mapping[str, Any]) -> str:
    return "".join(("---\n", *(_field(name, value) for name, value in values.items()), _END, "\n"))


def _field(name: str, value: Any) -> str:
    if name == "stream":
        return f"{name}:\n" + "".join(f"  - {_json(_short(moment, event))}\n" for moment, event in value)
    if name == "text" and _fits_block(value):
        mark, text = ("|2+", value[:-1]) if value.endswith("\n") else ("|2-", value)
        return f"{name}: {mark}\n" + "".join(f"  {line}\n" if line else "\n" for line in text.split("\n"))
    if name == "text":
        return f"lines:\n  {_pretty(value.splitlines(keepends=True))}\n"
    if isinstance(value, dict | list) and value:
        return f"{name}:\n  {_pretty(value)}\n"
    return f"{name}: {_json(value)}\n"


def _fits_block(text: str) -> bool:
    return bool(text) and text.replace("\n", "").replace("\t", "").isprintable()


def _short(moment: float, event: Mapping[str, Any]) -> list[Any]:
    """Return an event as it is written; the many that carry a piece of text are short."""
    delta = event.get("delta")
    plain = event.get("type") == "content_block_delta" and isinstance(delta, dict) and len(event) == 3
    if plain and isinstance(delta, dict) and delta.get("type") == "text_delta" and len(delta) == 2:
        return [round(moment, 3), event.get("index"), delta.get("text")]
    return [round(moment, 3), dict(event)]


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if text.isprintable() else json.dumps(value, default=str)


def _pretty(value: Any, indent: int = 2) -> str:
    """Return JSON in which what fits into a line takes one."""
    flat = _json(value)
    if len(flat) + indent <= WIDTH or not isinstance(value, dict | list | tuple) or not value:
        return flat
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [f"{_json(str(name))}: {_pretty(inner, indent + 2)}" for name, inner in value.items()]
        return "{\n" + ",\n".join(pad + part for part in parts) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(pad + _pretty(inner, indent + 2) for inner in value) + "\n" + " " * indent + "]"


# --- reading ------------------------------------------------------------------------------------------------------------


def read(path: Path) -> Written:
    """Return what a cassette holds.

    Raises:
        ConfigError: there is none, or a line of it cannot be read; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ConfigError(f"there is no cassette {path}; `%websearch record {path.name}` makes one") from None
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigError(f"the cassette {path} cannot be read ({exc})") from None
    return _Reader(path, lines).read()


class _Reader:
    def __init__(self, path: Path, lines: list[str]) -> None:
        self.path = path
        self.lines = [line.removesuffix("\r") for line in lines] if lines[0].endswith("\r") else lines

    def read(self) -> Written:
        found: Written | None = None
        for start, end, whole in self._documents():
            if not whole and found is not None and self._is_last(end):
                found.warnings.append(f"the last entry (line {start + 1}) is not whole and was left out")
                break
            values = self._values(start, end)
            if found is None:
                found = Written(self._head(values, start))
            elif any(kind in values for kind in KINDS):
                found.exchanges.append(self._exchange(values, start))
            elif "keys" in values:
                found.head["keys"] = list(dict.fromkeys([*found.head.get("keys", ()), *values["keys"]]))
            else:
                raise self._wrong(start, f"an entry must name one of {', '.join(KINDS)}")
        if found is None:
            raise self._wrong(0, "the file is empty")
        if (lost := restore(found.exchanges)) is not None:
            raise self._wrong(lost.line - 1, "the request names another one by its number, which is not there")
        return found

    def _documents(self) -> Iterator[tuple[int, int, bool]]:
        """Yield (first line, line after the last, whether it has an end) of each entry."""
        marks = [n for n, line in enumerate(self.lines) if line.rstrip() == "---"]
        for n, line in enumerate(self.lines[: marks[0] if marks else None]):
            if line.strip() and not line.startswith("#"):
                raise self._wrong(n, "this is no cassette of ipy_websearch")
        for start, following in zip(marks, [*marks[1:], len(self.lines)], strict=False):
            ends = [n for n in range(start + 1, following) if self.lines[n].rstrip() == _END]
            yield (start + 1, ends[0], True) if ends else (start + 1, following, False)

    def _is_last(self, end: int) -> bool:
        return end >= len(self.lines)

    def _head(self, values: dict[str, Any], line: int) -> dict[str, Any]:
        if values.get("cassette") != FORMAT:
            raise self._wrong(line, f"it is no cassette of format {FORMAT}; another version of ipy_websearch may have made it")
        return values

    def _exchange(self, values: dict[str, Any], line: int) -> Exchange:
        kind = next(kind for kind in KINDS if kind in values)
        if kind != "page" and "request" not in values:
            raise self._wrong(line, "the entry does not say what was asked")
        if not any(name in values for name in ("stream", "message", "json", "text", "base64", "error", "cut_off", "status")):
            raise self._wrong(line, "the entry says nothing of what came back")
        return Exchange(
            kind,
            str(values.pop(kind)),
            values.pop("request", None),
            n=values.pop("n", 0),
            at=values.pop("at", ""),
            took_s=float(values.pop("took_s", 0.0)),
            outcome=values,
            line=line + 1,
        )

    def _values(self, start: int, end: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        at = start
        while at < end:
            line = self.lines[at]
            if not line.strip() or line.startswith("#"):
                at += 1
                continue
            found = _KEY.match(line)
            if found is None:
                raise self._wrong(at, f"expected `name: value`, not {line[:60]!r}")
            last = at + 1
            while last < end and (self.lines[last][:1] in (" ", "")):
                last += 1
            name, value = self._value(found[1], (found[2] or "").strip(), at, last)
            values[name] = value
            at = last
        return values

    def _value(self, name: str, first: str, at: int, last: int) -> tuple[str, Any]:
        if first in _BLOCK:
            return name, "\n".join(line[2:] for line in self.lines[at + 1 : last]) + _BLOCK[first]
        if name == "stream":
            return name, [self._event(n) for n in range(at + 1, last) if self.lines[n].strip()]
        text = "\n".join([first, *self.lines[at + 1 : last]])
        try:
            value = json.loads(text)
        except ValueError as exc:
            line = at + getattr(exc, "lineno", 1) - 1
            raise self._wrong(line, f"{name} is not JSON ({getattr(exc, 'msg', exc)})") from None
        if not isinstance(value, _TYPES.get(name, object)):
            raise self._wrong(at, f"{name} must not be {value!r:.40}")
        return ("text", "".join(map(str, value))) if name == "lines" else (name, value)

    def _event(self, line: int) -> tuple[float, dict[str, Any]]:
        try:
            value = json.loads(self.lines[line].strip().removeprefix("- "))
            if len(value) == 3:
                delta = {"type": "text_delta", "text": str(value[2])}
                return float(value[0]), {"type": "content_block_delta", "index": int(value[1]), "delta": delta}
            if not isinstance(value[1], dict):
                raise ValueError("the event is no object")
            return float(value[0]), value[1]
        except (ValueError, TypeError, LookupError) as exc:
            raise self._wrong(line, f"expected `- [seconds, event]` ({exc})") from None

    def _wrong(self, line: int, what: str) -> ConfigError:
        return ConfigError(f"the cassette {self.path} cannot be read: line {line + 1}: {what}")
