"""The wanted columns: a question template and a type each, the schema that the model fills, and the cells that come back. Pure.

A template names columns of the frame in braces: "Who is the CEO of {company}?"; `{{` and `}}` stand for the braces themselves.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, get_origin

from ipy_websearch.enrichment.values import fit, number, says_nothing
from ipy_websearch.errors import ConfigError
from ipy_websearch.loop.table import SCHEMAS, TYPES
from ipy_websearch.settings import did_you_mean
from ipy_websearch.text import plain, shorten

MAX_COLUMNS = 16
"""The API takes 16 unions in strict tools (platform.claude.com/docs, structured outputs, read 2026-11); each null is one."""

OWN = ("enrich_status", "enrich_error", "enrich_cost_usd")
"""The columns about a row; those about a value are `{column}_source`, `_quote` and `_confidence`."""

PARTS = ("source", "quote", "confidence")

NOTED = "enrich_columns"
"""Where a frame's `attrs` name the columns that enrichments have added to it: those alone may be replaced."""

ABSENT: Any = object()
"""Stands for a value that a record does not have at all; null is one that was not found."""

NOT_FOUND, NO_RESULTS = "not found", "the search found nothing"
"""Why a cell is empty: the model found no value in what it read, or no search gave a single result."""

NOT_QUOTED, NO_QUOTE = "is not in its quote", "had a quote that no result has; the quote was left out"
"""Why a value is less sure than the model said."""

DOUBTED = 0.4
"""The most confidence that such a value has; it is below what the display shades."""

_HOLE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_PROPERTY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_KIND = rf"(?P<kind>(?:{'|'.join(TYPES)}|list\[str\]))"
_TYPED_NAME = re.compile(rf"(?P<name>.*\S)\s*(?::\s*{_KIND}|\(\s*{_KIND.replace('<kind>', '<bare>')}\s*\))\s*", re.DOTALL)
_TYPED_QUESTION = re.compile(rf"\s*{_KIND}\s*(?::\s*(?P<question>.*))?", re.DOTALL)

_WORDS = {str: "text", bool: "yes or no", float: "number"}
_SHOWN_CHARS = 60


class Cell(NamedTuple):
    """A value in its column's type, the address of its source, a passage of it, and how sure the model said it is (0 to 1).

    `missing` says why there is no value ("": there is one). Only `NOT_FOUND` and `NO_RESULTS` are kept in the store; a value
    that does not fit its type is asked for again. `doubt` says why its confidence was lowered ("": it was not).
    """

    value: Any = None
    source: str | None = None
    quote: str | None = None
    confidence: float | None = None
    missing: str = ""
    doubt: str = ""

    @property
    def fault(self) -> str:
        """What is wrong with the value that the model gave, "" for nothing."""
        return "" if self.missing in ("", NOT_FOUND, NO_RESULTS, NOT_ASKED.missing) else self.missing


NOT_ASKED = Cell(missing="not asked")


@dataclass(frozen=True, slots=True)
class Column:
    """A wanted column: its name, its question template, the type of its values.

    `choices` are the only values allowed (empty: any), `fields` the columns that the question names, `key` the property of the
    `record` tool.
    """

    name: str
    template: str
    kind: type
    choices: tuple[Any, ...]
    fields: tuple[str, ...]
    key: str

    @property
    def type_name(self) -> str:
        """The type in words that enter the store's keys: "int", "list", "one of ['a', 'b']"."""
        return f"one of {list(self.choices)!r}" if self.choices else self.kind.__name__

    def question(self, values: Mapping[str, str | None]) -> str:
        """Return the question for one row."""
        return fill(self.template, values)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the value with its source; the value may be null, so that none need be invented."""
        value = {"enum": list(self.choices)} if self.choices else SCHEMAS[self.kind]
        if self.choices and all(isinstance(choice, str) for choice in self.choices):
            value = {"type": "string", **value}
        properties = {
            "value": {"anyOf": [value, {"type": "null"}]},
            "source": {"type": "string", "description": "Address of the search result that says so, empty without one"},
            "quote": {"type": "string", "description": "The passage of that result that says so, word for word"},
            "confidence": {"type": "number", "description": "How sure the value is right: 0 to 1"},
        }
        return {"description": self.template, **closed_object(properties)}

    def fit(self, value: Any) -> Any:
        """Return a value in the column's type, None when it does not fit."""
        if self.choices:
            return next((choice for choice in self.choices if _same(choice, value)), None)
        return fit(self.kind, value)

    def is_nothing(self, value: Any) -> bool:
        """Return whether a value says that none was found, in whatever words, unless these are one of the choices."""
        return says_nothing(value) and (not self.choices or self.fit(value) is None)

    def fault(self, value: Any) -> str:
        """Return what is wrong with a value that does not fit, in a few words, "" when it says that none was found."""
        if self.is_nothing(value):
            return ""
        if value is ABSENT:
            return f"{self.name} is left out: the model's record lacks it"
        kind = "none of the choices" if self.choices else f"no {_WORDS.get(self.kind, self.kind.__name__)}"
        return f"{self.name} is left out: “{shorten(plain(str(value)), _SHOWN_CHARS)}” is {kind}"


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def parse_columns(columns: Mapping[str, Any], known: Sequence[str]) -> tuple[Column, ...]:
    """Return the wanted columns; `known` are the frame's columns.

    A column is a question, or a question and a type: str, int, float, bool, date, list[str], or a list of the allowed values.
    The type may stand with the name as well, "founded: int" or "founded (int)", or before the question: "int: In what year …".

    Raises:
        ConfigError: a type is unknown, a question names no column or one that is not there, there are none or too many.
    """
    if not isinstance(columns, Mapping) or not columns:
        raise ConfigError('columns must be like {"ceo": "Who is the CEO of {company}?"}; there is none')
    if len(columns) > MAX_COLUMNS:
        raise ConfigError(f"{len(columns)} columns are too many for one request; ask for {MAX_COLUMNS} at a time")
    parsed = [_column(*_typed(name, asked), known) for name, asked in columns.items()]
    names = _names(parsed)
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two of the columns would be called {doubled!r}; rename one")
    return tuple(_with_key(column, number, names) for number, column in enumerate(parsed, 1))


def added_names(columns: Iterable[Column], sources: bool) -> list[str]:
    """Return the names of all columns that an enrichment adds, in their order."""
    return [*(n for c in columns for n in (c.name, *(f"{c.name}_{part}" for part in PARTS if sources))), *OWN]


def earlier_names(names: Iterable[str], noted: Any) -> set[str]:
    """Return which of a frame's columns an earlier enrichment added.

    They are `noted` in the frame's `attrs`, which pandas often loses, or are known by what stands beside them: the columns
    about the row, and a value's source, quote and confidence.
    """
    there = set(names)
    listed = {name for name in noted if isinstance(name, str)} if isinstance(noted, list | tuple) else set()
    whole = there >= {*OWN}
    about_rows = there & {*OWN} & (there if whole else listed)
    about_values = {f"{name}_{part}" for name in listed for part in PARTS}
    found = set(about_rows)
    for name in (there | listed) - {*OWN}:
        group = {name, *(f"{name}_{part}" for part in PARTS)}
        if whole and group <= there:
            found |= group
        elif name in listed - about_values and (len(group & there) > 1 or (about_rows and name in there)):
            found |= group & listed & there
    return found


def _names(columns: Sequence[Column]) -> list[str]:
    return added_names(columns, True)


def _typed(name: Any, asked: Any) -> tuple[Any, Any]:
    """Return a column's name and (question, type) where one of the two texts holds the type; else both as they are.

    What stands where a type would and is none is text: "height (m)", "note: what is known of {city}".
    """
    if not isinstance(name, str) or not isinstance(asked, str):
        return name, asked
    if match := _TYPED_NAME.fullmatch(name):
        return match["name"], (asked, match["kind"] or match["bare"])
    match = _TYPED_QUESTION.fullmatch(asked)
    if match is None:
        return name, asked
    if not match["question"]:
        raise ConfigError(
            f"the column {name!r} has a type ({match['kind']}) and no question; write one behind it, with a colon"
        )
    return name, (match["question"], match["kind"])


def _column(name: Any, asked: Any, known: Sequence[str]) -> Column:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{name!r} cannot be the name of a column; use text")
    template, kind = (asked, str) if isinstance(asked, str) else _pair(name, asked)
    fields = template_fields(template)
    for field in fields:
        if field not in known:
            raise ConfigError(
                f"the question for {name!r} names {{{field}}}, which is no column of the frame"
                f"{did_you_mean(field, known) or '; it has ' + ', '.join(map(repr, known[:12]))}"
            )
    if not fields:
        raise ConfigError(
            f"the question for {name!r} names no column; put one in braces, such as {{{next(iter(known), 'name')}}}"
        )
    return Column(name, template, *_type(name, kind), fields, name)


def _pair(name: str, asked: Any) -> tuple[str, Any]:
    if not isinstance(asked, Sequence) or len(asked) != 2 or not isinstance(asked[0], str):
        raise ConfigError(f"column {name!r} must be a question, or (question, type), not {asked!r}")
    return asked[0], asked[1]


def _with_key(column: Column, number: int, taken: Container[str]) -> Column:
    """Return the column with a key that the API takes, where its name is none."""
    if _PROPERTY.fullmatch(column.name):
        return column
    key = f"column_{number}"
    while key in taken:
        key += "_"
    return replace(column, key=key)


def _type(name: str, kind: Any) -> tuple[type, tuple[Any, ...]]:
    """Return (type, allowed values) for what a caller gave as a column's type."""
    if isinstance(kind, list | tuple):
        choices = tuple(dict.fromkeys(kind))
        if not choices or not all(isinstance(choice, str | int | float) for choice in choices):
            raise ConfigError(f"the choices of {name!r} must be texts or numbers, not {kind!r}")
        return str, choices
    if isinstance(kind, type) and kind in SCHEMAS:
        return kind, ()
    if get_origin(kind) is list:
        return list, ()
    text = str(kind).strip().removesuffix("[str]")
    if text not in TYPES:
        raise ConfigError(f"{kind!r} is no type for {name!r}{did_you_mean(text, TYPES)} (there are {', '.join(TYPES)})")
    return TYPES[text], ()


def template_fields(template: str) -> tuple[str, ...]:
    """Return the columns that a template names, each once, in order."""
    return tuple(dict.fromkeys(match[1] for match in _HOLE.finditer(template) if match[1]))


def fill(template: str, values: Mapping[str, str | None]) -> str:
    """Return the template with the values put in; what is put in is not looked at again."""
    return _HOLE.sub(lambda match: match[0][0] if match[1] is None else (values[match[1]] or ""), template)


def _same(choice: Any, value: Any) -> bool:
    if isinstance(choice, str) and isinstance(value, str):
        return choice.strip().casefold() == value.strip().casefold()
    if isinstance(choice, bool) or isinstance(value, bool):
        return choice is value
    wanted = number(choice)
    return wanted is not None and wanted == number(value)
