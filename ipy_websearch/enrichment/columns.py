"""The questions of a run, one for each column, with the types of their answers; and the reading of a model's record. Pure.

A question names columns of the frame in braces: "Who is the CEO of {company}?"; `{{` and `}}` stand for the braces themselves.
Equal inputs are one distinct row, asked once. A value counts in its normal form: as text, without blanks around it, 2020.0 as
2020. Where a value that a question needs is missing, that question is not asked for the row.

An ambiguous answer is not read: "1,500" is 1500, but "1,5" may be one and a half or a slip, and "03/04/1998" is another day on
another continent. They fit no type, and the caller says so.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from ipy_websearch.citations import quote_has
from ipy_websearch.errors import ConfigError
from ipy_websearch.loop.table import TYPES, column_type
from ipy_websearch.results import Money
from ipy_websearch.settings import did_you_mean
from ipy_websearch.text import fold, plain, shorten, visible

if TYPE_CHECKING:
    import pandas as pd

# The API takes 16 unions in strict tools (platform.claude.com/docs, structured outputs, read 2026-11); each null is one.
MAX_COLUMNS = 16

# The columns about a row; those about a value are `{column}_source`, `_quote` and `_confidence`.
OWN = ("enrich_status", "enrich_error", "enrich_cost_usd")

PARTS = ("source", "quote", "confidence")

# Why a cell is empty: the model found no value in what it read, or no search gave a single result.
NOT_FOUND, NO_RESULTS = "not found", "the search found nothing"

# Why a value is less sure than the model said.
NOT_QUOTED, NO_QUOTE = "is not in its quote", "had a quote that no result has; the quote was left out"

# The most confidence that such a value has; it is below what the display shades.
DOUBTED = 0.4

_HOLE = re.compile(r"\{\{|\}\}|\{([^{}]+)\}")
_PROPERTY = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_TYPED_NAME = re.compile(rf"(.*\S)\s*:\s*({'|'.join(TYPES)}|list\[\w+\])\s*", re.DOTALL)

Inputs = tuple[str | None, ...]


class Cell(NamedTuple):
    """A value in its column's type, the address of its source, a passage of it, and how sure the model said it is (0 to 1).
    Asking for it took `cost_usd` (None: unknown) and `seconds`, its share of what the row took.

    `missing` says why there is no value ("": there is one). Only `NOT_FOUND` and `NO_RESULTS` are kept in the store; a value
    that does not fit its type is asked for again. `doubt` says why its confidence was lowered ("": it was not).
    """

    value: Any = None
    source: str | None = None
    quote: str | None = None
    confidence: float | None = None
    missing: str = ""
    doubt: str = ""
    cost_usd: Money = Decimal(0)
    seconds: float = 0.0

    @property
    def fault(self) -> str:
        """The fault of the value that the model gave, "" without one."""
        return "" if self.missing in ("", NOT_FOUND, NO_RESULTS) else self.missing


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


class RowError(Exception):
    """A row could not be filled; the message says why."""


def fields_in(what: str, template: str, known: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that a template names, each once, of the `known` ones; `what` is its name in a message.

    Raises:
        ConfigError: it names none, or one that is not there.
    """
    fields = tuple(dict.fromkeys(match[1] for match in _HOLE.finditer(template) if match[1]))
    if unknown := next((name for name in fields if name not in known), None):
        there = did_you_mean(unknown, known) or f"; it has {', '.join(map(repr, known[:12])) or 'none'}"
        raise ConfigError(f"{what} names {{{unknown}}}, which is no column of the frame{there}")
    if not fields:
        raise ConfigError(f"{what} names no column; put one in braces, such as {{{next(iter(known), 'name')}}}")
    return fields


def fill(template: str, values: Mapping[str, str | None]) -> str:
    """Return the template with its values; braces inside of a value stay as they are."""
    return _HOLE.sub(lambda match: match[0][0] if match[1] is None else (values[match[1]] or ""), template)


# --- the wanted columns -------------------------------------------------------------------------------------------------


def parse_columns(columns: Mapping[str, Any], known: Sequence[str], *, sources: bool = True) -> tuple[Column, ...]:
    """Return the wanted columns; `known` are the frame's columns. With `sources`, each has its source, quote and confidence.

    A column is a question, or a question and a type: str, int, float, bool, date, list[str], or a list of the allowed values.
    The name of the type may stand behind the column's, "founded: int".

    Raises:
        ConfigError: a type is unknown, a question names no column or one that is not there, there are none or too many, or one
            would take the place of the user's own, or of one that a question names.
    """
    if not isinstance(columns, Mapping) or not columns:
        raise ConfigError('columns must be like {"ceo": "Who is the CEO of {company}?"}; there is none')
    if len(columns) > MAX_COLUMNS:
        raise ConfigError(f"{len(columns)} columns are too many for one request; ask for {MAX_COLUMNS} at a time")
    parsed = tuple(_column(n, name, asked, known) for n, (name, asked) in enumerate(columns.items(), 1))
    names = [*added_names(parsed, True), *(column.key for column in parsed if column.key != column.name)]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(f"two of the columns would be called {doubled!r}; rename one")
    taken = (set(known) - earlier_names(known)).union(*(column.fields for column in parsed))
    if name := next((name for name in added_names(parsed, sources) if name in taken), None):
        raise ConfigError(
            f"the frame already has a column {name!r}, and only a column that an earlier run added with sources is replaced, "
            "unless a question names it; rename or drop it, or give the new one another name"
        )
    return parsed


def _column(number: int, name: Any, asked: Any, known: Sequence[str]) -> Column:
    if not isinstance(name, str) or not name.strip():
        raise ConfigError(f"{name!r} cannot be the name of a column; use text")
    if isinstance(asked, str):
        typed = _TYPED_NAME.fullmatch(name)
        name, asked = (typed[1], (asked, typed[2])) if typed else (name, (asked, str))
    if not isinstance(asked, Sequence) or len(asked) != 2 or not isinstance(asked[0], str):
        raise ConfigError(f"column {name!r} must be a question, or (question, type), not {asked!r}")
    template, kind = asked
    fields = fields_in(f"the question for {name!r}", template, known)
    key = name if _PROPERTY.fullmatch(name) else f"column_{number}"  # what the API takes as a property
    if not isinstance(kind, list | tuple):
        return Column(name, template, column_type(kind, name), (), fields, key)
    if not kind or not all(isinstance(choice, str | int | float) for choice in kind):
        raise ConfigError(f"the choices of {name!r} must be texts or numbers, not {kind!r}")
    return Column(name, template, str, tuple(dict.fromkeys(kind)), fields, key)


# --- names of columns ---------------------------------------------------------------------------------------------------


def added_names(columns: Iterable[Column], sources: bool) -> list[str]:
    """Return the names of all columns that an enrichment adds, in their order."""
    return [*(n for c in columns for n in (c.name, *(f"{c.name}_{part}" for part in PARTS if sources))), *OWN]


def earlier_names(names: Iterable[str]) -> set[str]:
    """Return the columns that an earlier enrichment added: when a frame has all columns about the row, these, and each value
    with its source, quote and confidence."""
    there = set(names)
    if not there.issuperset(OWN):
        return set()
    groups = [{name, *(f"{name}_{part}" for part in PARTS)} for name in there]
    return {*OWN}.union(*(group for group in groups if group <= there))


# --- the rows -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """The distinct rows (`inputs`, one text or None for each of `fields`) and which of them each row of the frame is.

    `place[n]` is the distinct row of row n, -1 when the row is left out of a sample. `left_out` counts the distinct rows
    outside of a sample.
    """

    columns: tuple[Column, ...]
    fields: tuple[str, ...]
    inputs: list[Inputs]
    place: Sequence[int]
    left_out: int = 0

    def askable(self, inputs: Inputs) -> tuple[int, ...]:
        """Return the numbers of the columns whose questions have all their values."""
        gone = {name for name, value in zip(self.fields, inputs, strict=True) if value is None}
        return tuple(n for n, column in enumerate(self.columns) if gone.isdisjoint(column.fields))

    def values(self, inputs: Inputs) -> dict[str, str | None]:
        """Return a distinct row's values by their columns."""
        return dict(zip(self.fields, inputs, strict=True))

    def missing(self, inputs: Inputs) -> str:
        """Return the names of a row's missing values, for its error message."""
        return ", ".join(name for name, value in zip(self.fields, inputs, strict=True) if value is None)


def plan_of(rows: Sequence[Inputs], columns: Sequence[Column], fields: Sequence[str], sample: int | None = None) -> Plan:
    """Return the plan for rows; `sample` takes the first so many distinct ones that lack nothing (None: all rows)."""
    distinct = list(dict.fromkeys(rows))
    whole = [inputs for inputs in distinct if None not in inputs]
    asked = distinct if sample is None else whole[:sample]
    numbers = {inputs: n for n, inputs in enumerate(asked)}
    place = [numbers.get(inputs, -1) for inputs in rows]
    return Plan(tuple(columns), tuple(fields), asked, place, max(len(whole) - len(asked), 0))


def inputs_of(frame: pd.DataFrame, fields: Sequence[str]) -> list[Inputs]:
    """Return the rows of a frame as the texts of these columns, None for a missing value."""
    names = [str(name) for name in frame.columns]
    if doubled := next((name for name in fields if names.count(name) > 1), None):
        raise ConfigError(f"the frame has several columns called {doubled!r}, so the question cannot name it")
    texts = []
    for name in fields:
        column = frame.iloc[:, names.index(name)]
        cells = zip(column.tolist(), column.isna(), strict=True)
        texts.append([None if gone else normal(value) for value, gone in cells])
    return list(zip(*texts, strict=True))


def normal(value: Any) -> str | None:
    """Return a cell as the text that is asked about, None when it is blank or NaN."""
    if isinstance(value, float) and isnan(value):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    elif isinstance(value, datetime) and value.time() == time.min:
        value = value.date()
    return " ".join(visible(unicodedata.normalize("NFC", str(value))).split()) or None


# --- the model's record ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Evidence:
    """The results that a row's searches found. Sources and quotes that the model claims are checked against them.

    `whole`: the evidence has everything that the model read, so a quote outside of it was made up.
    """

    whole: bool = True
    searched: bool = False
    texts: dict[str, tuple[str, str]] = field(default_factory=dict)  # by `address_of`, the address itself and what was found

    def add(self, url: str, texts: Sequence[str]) -> None:
        """Add a result."""
        key = address_of(url)
        before = self.texts.get(key, (url, ""))[1]
        self.texts[key] = (url, f"{before} {fold(' '.join(texts))}")

    def cited(self, source: Any, quote: Any) -> tuple[str | None, str | None]:
        """Return the claimed source and quote as far as the results confirm them.

        The quote stands in a result word for word (pieces between "…" each), and the source is that result; without such
        a quote it is the result with the claimed address. None stands for a source or quote that is in no result.
        """
        own = self.texts.get(address_of(source)) if isinstance(source, str) and source.strip() else None
        pieces = [fold(part).strip(" \"'“”‘’") for part in re.split(r"…|\.\.\.", quote)] if isinstance(quote, str) else []
        wanted = [piece for piece in pieces if piece]
        having = [result for result in self.texts.values() if wanted and all(piece in result[1] for piece in wanted)]
        if not having:
            return (own[0] if own else None), None
        return (own if own in having else having[0])[0], " ".join(visible(str(quote)).split())


def address_of(url: str) -> str:
    """Return an address as it is compared: without scheme, fragment and last slash."""
    return url.strip().partition("#")[0].rstrip("/").removeprefix("http://").removeprefix("https://").lower()


def cells_of(record: Any, columns: Sequence[Column], evidence: Evidence) -> tuple[Cell, ...]:
    """Return the cells of a record: values that fit their types, with sources and quotes that stand in the results.

    Raises:
        RowError: the record has none of the columns.
    """
    if not isinstance(record, Mapping) or not any(column.key in record for column in columns):
        raise RowError("the model's record has none of the columns")
    return tuple(_cell(record, column, evidence) for column in columns)


def _cell(record: Mapping[str, Any], column: Column, evidence: Evidence) -> Cell:
    entry = record.get(column.key, {})
    if not isinstance(entry, Mapping):  # a server that does not keep to schemas may leave the value bare
        entry = {"value": entry}
    if "value" not in entry:
        return Cell(missing=f"{column.name} is left out: the model's record lacks it")
    given, quoted = entry["value"], entry.get("quote")
    value = fit(column, given)
    if value is None and _says_nothing(given):
        return Cell(missing=NO_RESULTS if evidence.searched and not evidence.texts else NOT_FOUND)
    if value is None:
        kind = "none of the choices" if column.choices else f"no {_WORDS.get(column.kind, column.kind.__name__)}"
        return Cell(missing=f"{column.name} is left out: “{shorten(plain(str(given)), _SHOWN_CHARS)}” is {kind}")
    stated = entry.get("confidence")
    confidence = float(stated) if type(stated) in (int, float) and 0 <= stated <= 1 else None
    source, quote = evidence.cited(entry.get("source"), quoted)
    doubt = NO_QUOTE if evidence.whole and quote is None and quoted else ""
    if quote and not column.choices and not quote_has(value, quote):  # a choice may be the model's own word
        doubt = NOT_QUOTED
    if doubt:
        confidence = min(DOUBTED, 1.0 if confidence is None else confidence)
    return Cell(value, source, quote, confidence, doubt=doubt)


# --- values -------------------------------------------------------------------------------------------------------------

# Texts that say there is no value. "NA" is Namibia and sodium, "none" an answer, "Nan" a province: these are values.
_NOTHING = frozenset("n/a|n.a|null|unknown|not found|not available|not applicable|not known|no data|?|-|--|–|—".split("|"))

_WORDS = {str: "text", bool: "yes or no", float: "number"}
_YES_NO = {"true": True, "yes": True, "false": False, "no": False}
_SHOWN_CHARS = 60

# A number as a text: Python's own, or with commas between groups of three; none that is too large for its type.
_WHOLE = r"[-+]?(?:\d{1,18}|[1-9]\d{0,2}(?:,\d{3}){1,5})"
_REAL = r"[-+]?(?:\d{1,60}|[1-9]\d{0,2}(?:,\d{3}){1,20})(?:\.\d+)?(?:[eE][-+]?\d{1,2})?"
_NUMBERS = {int: re.compile(_WHOLE), float: re.compile(_REAL)}


def fit(column: Column, value: Any) -> Any:
    """Return a value in its column's type, None when it is no value of that type, or may be several."""
    if column.choices:  # one of them may be a word for nothing
        return next((choice for choice in column.choices if _same(choice, value)), None)
    if _says_nothing(value):
        return None
    if column.kind is date:
        return _date(value)
    if column.kind in _NUMBERS:
        return _number(column.kind, value)
    if column.kind is bool:
        return _YES_NO.get(str(value).strip(" .").lower())
    if column.kind is list:
        return [visible(str(item)) for item in value if not _says_nothing(item)] if isinstance(value, list) else None
    return visible(str(value)).strip() or None if type(value) in (str, int, float) else None


def _says_nothing(value: Any) -> bool:
    """Return whether a value says that there is none: null, a blank text, "N/A" and its like, a list without anything else.

    An empty list may mean "there are none" or "I found none": what can be read in two ways is not read at all.
    """
    if isinstance(value, list):
        return all(map(_says_nothing, value))
    if not isinstance(value, str):
        return value is None
    text = value.strip()
    return not text or (len(text) < 24 and text.strip(" .()[]<>\"'").casefold() in _NOTHING)


def _same(choice: Any, value: Any) -> bool:
    if isinstance(choice, str) and isinstance(value, str):
        return choice.strip().casefold() == value.strip().casefold()
    return bool(choice == value) and isinstance(choice, bool) is isinstance(value, bool)


def _number(kind: type, value: Any) -> int | float | None:
    """Return a number of a kind; a text may be one, True is none, and neither is "2.000", which may be two thousand."""
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    text = "" if isinstance(value, bool) else str(value).strip()
    return kind(text.replace(",", "")) if _NUMBERS[kind].fullmatch(text) else None


def _date(value: Any) -> date | None:
    """Return the date of a text in ISO form, with a time or without."""
    try:
        return datetime.fromisoformat(value.strip(" .")).date() if isinstance(value, str) else None
    except ValueError:
        return None
