"""What is asked: columns, each a question with a type, for the distinct rows of a frame. Pure.

A question names columns of the frame in braces: "Who is the CEO of {company}?"; `{{` and `}}` stand for the braces themselves.
Equal inputs are one distinct row, asked once. A value counts in its normal form: as text, without blanks around it, 2020.0 as
2020. Where a value that a question needs is missing, that question is not asked for the row.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import TYPE_CHECKING, Any, NamedTuple

from ipy_websearch.errors import ConfigError
from ipy_websearch.loop.offer import TYPES, column_type
from ipy_websearch.options import checked
from ipy_websearch.settings import did_you_mean
from ipy_websearch.text import visible

if TYPE_CHECKING:
    import pandas as pd

MAX_COLUMNS = 16
"""The API takes 16 unions in strict tools (platform.claude.com/docs, structured outputs, read 2026-11); each null is one."""

MAX_INPUT_CHARS = 20_000
"""Longer cells are cut in what is asked, and the report says so: a question about a row needs a name, at most an article."""

OWN = ("enrich_status", "enrich_error", "enrich_cost_usd")
"""The columns about a row; those about a value are `{column}_source`, `_quote` and `_confidence`."""

PARTS = ("source", "quote", "confidence")

NOTED = "enrich_columns"
"""Where a frame's `attrs` name the columns that enrichments have added to it: those alone may be replaced."""

NOT_FOUND, NO_RESULTS = "not found", "the search found nothing"
"""Why a cell is empty: the model found no value in what it read, or no search gave a single result."""

_CUT = " … (cut: "
_HOLE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_PROPERTY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_KIND = rf"(?P<kind>(?:{'|'.join(TYPES)}|list\[\w+\]))"
_TYPED_NAME = re.compile(rf"(?P<name>.*\S)\s*(?::\s*{_KIND}|\(\s*{_KIND.replace('<kind>', '<bare>')}\s*\))\s*", re.DOTALL)
_TYPED_QUESTION = re.compile(rf"\s*{_KIND}\s*(?::\s*(?P<question>.*))?", re.DOTALL)

Inputs = tuple[str | None, ...]


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


def template_fields(template: str) -> tuple[str, ...]:
    """Return the columns that a template names, each once, in order."""
    return tuple(dict.fromkeys(match[1] for match in _HOLE.finditer(template) if match[1]))


def fields_in(what: str, template: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that a template names, of the `known` ones; `what` is the template's name in a message.

    Raises:
        ConfigError: it names none, or one that is not there.
    """
    fields = template_fields(template)
    if unknown := next((name for name in fields if name not in known), None):
        there = did_you_mean(unknown, known) or f"; it has {', '.join(map(repr, known[:12])) or 'none'}"
        raise ConfigError(f"{what} names {{{unknown}}}, which is no column of the frame{there}")
    if not fields:
        raise ConfigError(f"{what} names no column; put one in braces, such as {{{next(iter(known), 'name')}}}")
    return fields


def fill(template: str, values: Mapping[str, str | None]) -> str:
    """Return the template with the values put in; what is put in is not looked at again."""
    return _HOLE.sub(lambda match: match[0][0] if match[1] is None else (values[match[1]] or ""), template)


# --- the wanted columns -------------------------------------------------------------------------------------------------


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
    parsed = tuple(_column(n, name, asked, known) for n, (name, asked) in enumerate(columns.items(), 1))
    names = [*added_names(parsed, True), *(column.key for column in parsed if column.key != column.name)]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two of the columns would be called {doubled!r}; rename one")
    return parsed


def _column(number: int, name: Any, asked: Any, known: Sequence[str]) -> Column:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{name!r} cannot be the name of a column; use text")
    if isinstance(asked, str):
        name, asked = _typed(name, asked)
    if not isinstance(asked, Sequence) or len(asked) != 2 or not isinstance(asked[0], str):
        raise ConfigError(f"column {name!r} must be a question, or (question, type), not {asked!r}")
    template, kind = asked
    fields = fields_in(f"the question for {name!r}", template, known)
    key = name if _PROPERTY.fullmatch(name) else f"column_{number}"  # what the API takes as a property
    return Column(name, template, *_type(name, kind), fields, key)


def _typed(name: str, asked: str) -> tuple[str, tuple[str, Any]]:
    """Return a column's name and (question, type) where one of the two texts may hold the type.

    What stands where a type would and is none is text: "height (m)", "note: what is known of {city}".
    """
    if match := _TYPED_NAME.fullmatch(name):
        return match["name"], (asked, match["kind"] or match["bare"])
    match = _TYPED_QUESTION.fullmatch(asked)
    if match is None:
        return name, (asked, str)
    if not match["question"]:
        raise ConfigError(
            f"the column {name!r} has a type ({match['kind']}) and no question; write one behind it, with a colon"
        )
    return name, (match["question"], match["kind"])


def _type(name: str, kind: Any) -> tuple[type, tuple[Any, ...]]:
    """Return (type, allowed values) for what a caller gave as a column's type."""
    if isinstance(kind, list | tuple):
        choices = tuple(dict.fromkeys(kind))
        if not choices or not all(isinstance(choice, str | int | float) for choice in choices):
            raise ConfigError(f"the choices of {name!r} must be texts or numbers, not {kind!r}")
        return str, choices
    return column_type(kind, name), ()


# --- names of columns ---------------------------------------------------------------------------------------------------


def names_of(frame: pd.DataFrame) -> list[str]:
    """Return the names of a frame's columns as text; of several levels the first, where the others are blank."""
    if frame.columns.nlevels == 1:
        return [str(name) for name in frame.columns]
    return [str(name[0] if set(name[1:]) == {""} else name) for name in frame.columns]


def added_names(columns: Iterable[Column], sources: bool) -> list[str]:
    """Return the names of all columns that an enrichment adds, in their order."""
    return [*(n for c in columns for n in (c.name, *(f"{c.name}_{part}" for part in PARTS if sources))), *OWN]


def earlier_names(names: Iterable[str], noted: Any) -> set[str]:
    """Return which of a frame's columns an earlier enrichment added.

    They are `noted` in the frame's `attrs`, which pandas often loses, or are known by what stands beside them: the columns
    about the row, and a value's source, quote and confidence.
    """
    there = set(names)
    listed = there.intersection(noted) if isinstance(noted, list | tuple) else set()
    whole = there >= {*OWN}
    rows = (there if whole else listed) & {*OWN}
    found = set(rows)
    for name in there - rows:
        group = {name, *(f"{name}_{part}" for part in PARTS)}
        if whole and group <= there:
            found |= group
        elif name in listed and (rows or len(group & there) > 1):
            found |= group & listed
    return found


def check_names(columns: Sequence[Column], names: Sequence[str], noted: Any = (), sources: bool = True) -> None:
    """Refuse to overwrite the user's own columns, and those that a question names; an earlier enrichment's are replaced.

    `noted` is what the frame's `attrs` say of earlier ones.

    Raises:
        ConfigError: which column is in the way, and what to do.
    """
    own = set(names) - earlier_names(names, noted)
    named = {field for column in columns for field in column.fields}
    for name in added_names(columns, sources):
        if name in named:
            raise ConfigError(f"the frame already has a column {name!r}, which a question names; give the new one another name")
        if name in own:
            remedy = "rename or drop it" if name in OWN else "rename or drop it, or give the new one another name"
            raise ConfigError(f"the frame already has a column {name!r}, not known to be from an enrichment; {remedy}")


# --- the rows -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Plan:
    """The distinct rows (`inputs`, one text or None for each of `fields`) and which of them each row of the frame is.

    `place[n]` is the distinct row of row n, -1 when the row is left out of a sample. `all_inputs` are the distinct rows of the
    whole frame, `sample` how many were asked for (None: all). `notes` are for the report.
    """

    columns: tuple[Column, ...]
    fields: tuple[str, ...]
    inputs: list[Inputs]
    place: array[int]
    all_inputs: list[Inputs]
    sample: int | None = None
    notes: tuple[str, ...] = ()
    _askable: dict[tuple[bool, ...], tuple[int, ...]] = field(default_factory=dict)

    def askable(self, inputs: Inputs) -> tuple[int, ...]:
        """Return the numbers of the columns whose questions have all their values."""
        missing = tuple(value is None for value in inputs)
        if missing not in self._askable:
            gone = {name for name, without in zip(self.fields, missing, strict=True) if without}
            self._askable[missing] = tuple(n for n, c in enumerate(self.columns) if not gone & set(c.fields))
        return self._askable[missing]

    def values(self, inputs: Inputs) -> dict[str, str | None]:
        """Return a distinct row's values by their columns."""
        return dict(zip(self.fields, inputs, strict=True))

    def missing(self, inputs: Inputs) -> str:
        """Return which values a row lacks, for its error message."""
        return ", ".join(name for name, value in zip(self.fields, inputs, strict=True) if value is None)


def make_plan(frame: pd.DataFrame, columns: Any, *, sample: int | None = None, sources: bool = True) -> Plan:
    """Return the plan for a frame; `sample` takes the first rows with as many distinct inputs (None: all rows).

    Raises:
        ConfigError: the columns are faulty, or the frame has a column of its own where one would go (`sources`: with theirs).
    """
    names = names_of(frame)
    wanted = parse_columns(columns, names)
    sample = checked("sample", sample)
    check_names(wanted, names, frame.attrs.get(NOTED), sources)
    fields = tuple(dict.fromkeys(field for column in wanted for field in column.fields))
    rows = inputs_of(frame, fields)
    numbers: dict[Inputs, int] = {}
    place, cut = array("q", [-1]) * len(rows), 0
    for position, inputs in enumerate(rows):
        if sample is not None and (len(numbers) >= sample or inputs in numbers or None in inputs):
            continue
        place[position] = numbers.setdefault(inputs, len(numbers))
        cut += any(value is not None and _CUT in value[MAX_INPUT_CHARS - 99 :] for value in inputs)
    values = f"{cut:,} row{'s have values' if cut > 1 else ' has a value'} of more than {MAX_INPUT_CHARS:,} characters"
    notes = (f"{values}, of which only the beginning was sent",) if cut else ()
    chosen = list(numbers)
    return Plan(wanted, fields, chosen, place, chosen if sample is None else list(dict.fromkeys(rows)), sample, notes)


def inputs_of(frame: pd.DataFrame, fields: Sequence[str]) -> list[Inputs]:
    """Return the rows of a frame as the texts of these columns, None for a missing value, none of them too long."""
    names = names_of(frame)
    if doubled := next((name for name in fields if names.count(name) > 1), None):
        raise ConfigError(f"the frame has several columns called {doubled!r}, so the question cannot name it")
    cells = [[_bounded(normal(value)) for value in frame.iloc[:, names.index(name)].tolist()] for name in fields]
    return list(zip(*cells, strict=True))


def normal(value: Any) -> str | None:
    """Return a cell as the text that is asked about, None when it is missing or blank."""
    if not isinstance(value, str):
        from pandas import isna
        from pandas.api.types import is_scalar

        if is_scalar(value) and isna(value):
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        elif isinstance(value, datetime) and value.time() == time.min:
            value = value.date()
        value = str(value)
    if value.isascii() and value.isprintable() and "  " not in value:
        return value.strip() or None
    return " ".join(visible(unicodedata.normalize("NFC", value)).split()) or None


def _bounded(text: str | None) -> str | None:
    """Return a text of at most `MAX_INPUT_CHARS`; a digest in one that was cut tells it from others that begin alike."""
    if text is None or len(text) <= MAX_INPUT_CHARS:
        return text
    mark = f"{_CUT}{len(text):,} characters in all, {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]})"
    return text[: MAX_INPUT_CHARS - len(mark)] + mark
