"""The DataFrames that the package hands out. The only floor-0 module that imports pandas; import it inside functions.

`SearchFrame` is a DataFrame that remembers which search it came from: `head`, filters and `sort_values` keep the type
and the memory, `df[["title"]]` and friends fall back to a plain view of the columns that are left. Every frame made here is a
`WebFrame`: shown in a notebook, amounts of dollars in it do not become formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pandas as pd

from ipy_websearch.errors import ConfigError
from ipy_websearch.text import visible

if TYPE_CHECKING:
    from ipy_websearch.results import Answer, SearchResults

SEARCH_COLUMNS = ("title", "url", "description", "published_date", "extra_snippets", "score")


class WebFrame(pd.DataFrame):
    """A DataFrame with texts from outside: two amounts of dollars in it do not become a formula. Pickled, it is a plain one."""

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return WebFrame

    def __reduce__(self) -> Any:
        return pd.DataFrame(self).__reduce__()

    def _repr_html_(self) -> str | None:
        """Return pandas' own table, out of MathJax's reach."""
        with pd.option_context("display.html.use_mathjax", False):
            html: str | None = super()._repr_html_()
        return html


class SearchFrame(WebFrame):
    """Search results as a DataFrame; `.search` is the `SearchResults` it was made from (None after a pickle)."""

    _metadata = ["search"]
    search: SearchResults | None = None

    @property
    def _constructor(self) -> type[SearchFrame]:
        return SearchFrame


def search_frame(results: SearchResults) -> SearchFrame:
    """Return the results as a frame: n rows, RangeIndex, `SEARCH_COLUMNS`."""
    frame = SearchFrame(
        {
            "title": _texts(r.title for r in results),
            "url": _texts(r.url for r in results),
            "description": _texts(r.description for r in results),
            "published_date": utc_series(r.published_date for r in results),
            "extra_snippets": pd.Series([r.extra_snippets for r in results], dtype="object"),
            "score": pd.Series([r.score for r in results], dtype="float64"),
        }
    )
    frame.search = results
    return frame


@dataclass(frozen=True, slots=True)
class CostSummary:
    """What stands under a table of costs: exact US dollars spent, what is not known, and what caches saved.

    `unpriced` counts the calls without a known price by the name of their model or engine. `saved_calls_usd` is what
    answers from the cache would have cost, `saved_prompt_usd` what the models' prompt caches saved. `rows` is the length of
    the frame that it was made with: a frame of another length is a part, to which the sums do not apply. `cut_off_usd` is what
    the session's ceilings hold beyond `total_usd`, for requests that were cut off.
    """

    total_usd: Decimal
    unpriced: Mapping[str, int]
    saved_calls_usd: Decimal
    saved_prompt_usd: Decimal
    scope: str
    rows: int
    cut_off_usd: Decimal = Decimal(0)


class CostFrame(WebFrame):
    """Costs as a DataFrame with a column `usd`; `.summary` holds the exact sums (None after a pickle)."""

    _metadata = ["summary"]
    summary: CostSummary | None = None

    @property
    def _constructor(self) -> type[CostFrame]:
        return CostFrame


def _texts(values: Iterable[str]) -> pd.Series[Any]:
    """Return texts as a series, without what a terminal would obey or a string column cannot hold (lone surrogates)."""
    return pd.Series([visible(value) for value in values], dtype="str")


def utc_series(dates: Iterable[datetime | None]) -> pd.Series[Any]:
    """Return the dates as one UTC datetime64 series, missing ones as NaT."""
    return pd.Series(pd.to_datetime(list(dates), utc=True))


def sources_frame(answer: Answer) -> pd.DataFrame:
    """Return one row for each cited source of the answer: n, title, url, published_date, cited_text (passages joined)."""
    merged: dict[int, list[Any]] = {}
    for c in answer.citations:
        row = merged.setdefault(c.n, [c.title, c.url, c.published_date, []])
        if c.cited_text and c.cited_text not in row[3]:
            row[3].append(c.cited_text)
    numbers = sorted(merged)
    return WebFrame(
        {
            "n": pd.Series(numbers, dtype="int64"),
            "title": _texts(merged[n][0] for n in numbers),
            "url": _texts(merged[n][1] for n in numbers),
            "published_date": utc_series(merged[n][2] for n in numbers),
            "cited_text": _texts(" … ".join(merged[n][3]) for n in numbers),
        }
    )


def usd(value: Decimal | None) -> float:
    """Return dollars as a float for a column; an unknown price is NaN, never 0."""
    return float("nan") if value is None else float(value)


def steps_frame(answer: Answer) -> pd.DataFrame:
    """Return one row for each step of the answer, in order."""
    steps = answer.trace
    return WebFrame(
        {
            "n": pd.Series([s.n for s in steps], dtype="int64"),
            "kind": pd.Series([s.kind for s in steps], dtype="str"),
            "name": _texts(s.name for s in steps),
            "detail": _texts(s.detail for s in steps),
            "milliseconds": pd.Series([s.milliseconds for s in steps], dtype="float64"),
            "input_tokens": pd.Series([s.usage.input_tokens for s in steps], dtype="int64"),
            "output_tokens": pd.Series([s.usage.output_tokens for s in steps], dtype="int64"),
            "cache_read_tokens": pd.Series([s.usage.cache_read_tokens for s in steps], dtype="int64"),
            "cache_write_tokens": pd.Series(
                [s.usage.cache_write_5m_tokens + s.usage.cache_write_1h_tokens for s in steps], dtype="int64"
            ),
            "cost_usd": pd.Series([usd(s.cost_usd) for s in steps], dtype="float64"),
            "is_error": pd.Series([s.is_error for s in steps], dtype="bool"),
        }
    )


NULLABLE = {str: "string", int: "Int64", float: "Float64", bool: "boolean", date: "datetime64[s]", list: "object"}
"""The nullable dtype of each Python type that a column may be asked for in."""


def typed_series(values: Iterable[Any], kind: type) -> pd.Series[Any]:
    """Return the values as a series of the nullable dtype for `kind`, None as missing."""
    items = list(values)
    if kind is date:
        return pd.Series(pd.to_datetime(items, errors="coerce")).astype("datetime64[s]")
    return pd.Series(items, dtype=NULLABLE.get(kind, "object"))


def rows_frame(answer: Answer) -> pd.DataFrame:
    """Return the rows of a structured answer; see `Answer.to_frame`."""
    if answer.rows is None and answer.columns is not None:
        raise ConfigError("this answer has no table: the model gave no rows (its words are in .text); ask again")
    if answer.rows is None or answer.columns is None:
        raise ConfigError('this answer is prose; ask with columns=… (in a cell: %%ask --table "name, price: float")')
    rows = answer.rows
    return WebFrame(
        {name: typed_series((_shown(row.get(name)) for row in rows), kind) for name, kind in answer.columns.items()}
    )


def _shown(value: Any) -> Any:
    """Return a cell of a structured answer without what a terminal would obey: a frame shows its texts as they are."""
    if isinstance(value, str):
        return visible(value)
    return [_shown(item) for item in value] if isinstance(value, list) else value
