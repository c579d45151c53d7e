"""What is to be asked: the distinct rows of a frame, by the values that the questions name. Pure.

Equal inputs are one distinct row, asked once. A value counts in its normal form: as text, without blanks around it, 2020.0 as
2020; as a whole, also where it is too long to be sent as a whole. Where a value that a question needs is missing, that question
is not asked for the row.
"""

from __future__ import annotations

import hashlib
import unicodedata
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import NOTED, OWN, Column, added_names, earlier_names, parse_columns
from ipy_websearch.errors import ConfigError
from ipy_websearch.options import at_least
from ipy_websearch.text import visible

if TYPE_CHECKING:
    import pandas as pd

MAX_INPUT_CHARS = 20_000
"""Longer cells are cut in what is asked, and the report says so: a question about a row needs a name, at most an article."""

_CUT = " … (cut: "

Inputs = tuple[str | None, ...]


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
    sample = None if sample is None else at_least(1, "sample", sample, 1)
    check_names(wanted, names, frame.attrs.get(NOTED), sources)
    fields = tuple(dict.fromkeys(field for column in wanted for field in column.fields))
    return _distinct(wanted, fields, inputs_of(frame, fields), sample)


def names_of(frame: pd.DataFrame) -> list[str]:
    """Return the names of a frame's columns as text; of several levels the first, where the others are blank."""
    if frame.columns.nlevels == 1:
        return [str(name) for name in frame.columns]
    return [str(name[0] if set(name[1:]) == {""} else name) for name in frame.columns]


def inputs_of(frame: pd.DataFrame, fields: Sequence[str]) -> list[Inputs]:
    """Return the rows of a frame as the texts of these columns, None for a missing value, none of them too long."""
    names = names_of(frame)
    cells = [[_bounded(normal(value)) for value in frame.iloc[:, _position(name, names)].tolist()] for name in fields]
    return list(zip(*cells, strict=True))


def distinct_texts(texts: Sequence[str | None]) -> list[str]:
    """Return the distinct texts in their order, without None."""
    return [text for text in dict.fromkeys(texts) if text is not None]


def _distinct(columns: tuple[Column, ...], fields: tuple[str, ...], rows: Sequence[Inputs], sample: int | None) -> Plan:
    numbers: dict[Inputs, int] = {}
    place = array("q", [-1]) * len(rows)
    for position, inputs in enumerate(rows):
        if sample is not None and (len(numbers) >= sample or inputs in numbers or None in inputs):
            continue
        place[position] = numbers.setdefault(inputs, len(numbers))
    chosen = list(numbers)
    notes = _notes(inputs for inputs, n in zip(rows, place, strict=True) if n >= 0)
    return Plan(columns, fields, chosen, place, chosen if sample is None else list(dict.fromkeys(rows)), sample, notes)


def _notes(rows: Iterable[Inputs]) -> tuple[str, ...]:
    """Return what is to be said of the rows that are asked about."""
    cut = sum(any(value is not None and len(value) == MAX_INPUT_CHARS and _CUT in value[-99:] for value in row) for row in rows)
    if not cut:
        return ()
    values = f"{cut:,} row{'s have values' if cut > 1 else ' has a value'} of more than {MAX_INPUT_CHARS:,} characters"
    return (f"{values}, of which only the beginning was sent",)


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


def _position(name: str, names: list[str]) -> int:
    if names.count(name) > 1:
        raise ConfigError(f"the frame has several columns called {name!r}, so the question cannot name it")
    return names.index(name)


def normal(value: Any) -> str | None:
    """Return a cell as the text that is asked about, None when it is missing or blank."""
    if isinstance(value, str):
        text = value
    elif _is_missing(value):
        return None
    elif isinstance(value, float):
        text = str(int(value)) if value.is_integer() else repr(value)
    elif isinstance(value, datetime) and (value.hour, value.minute, value.second) == (0, 0, 0):
        text = value.date().isoformat()
    elif isinstance(value, date):
        text = value.isoformat()
    else:
        text = str(value)
    return _one_line(text) or None


def _is_missing(value: Any) -> bool:
    """Return whether a cell is None or one of the many kinds of NaN and NaT, each of which is unequal to itself."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # to compare a signalling one is an error
    try:
        return not hasattr(value, "__len__") and bool(value != value)
    except Exception:  # whatever a stranger's type does when it is compared
        return False


def _one_line(text: str) -> str:
    if text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    return " ".join(visible(unicodedata.normalize("NFC", text)).split())


def _bounded(text: str | None) -> str | None:
    """Return a text of at most `MAX_INPUT_CHARS`; a digest in one that was cut tells it from others that begin alike."""
    if text is None or len(text) <= MAX_INPUT_CHARS:
        return text
    mark = f"{_CUT}{len(text):,} characters in all, {hashlib.sha256(text.encode('utf-8', 'replace')).hexdigest()[:16]})"
    return text[: MAX_INPUT_CHARS - len(mark)] + mark
