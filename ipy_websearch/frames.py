"""The DataFrames that the package returns, and their columns as those of other libraries. Import this module inside
functions: it imports pandas.

`WebFrame` is a DataFrame of texts from the web, which shows itself so that JupyterLab makes no formulas of amounts in dollars.
What pandas makes from one (`head`, filters, columns, `groupby`) is one as well; another library's DataFrame is not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd

from ipy_websearch.text import visible

if TYPE_CHECKING:
    import narwhals as nw

    from ipy_websearch.results import SearchResults

Frame = TypeVar("Frame", bound="WebFrame")


class WebFrame(pd.DataFrame):
    """A DataFrame of texts from the web. A pickle of it is a plain DataFrame, which needs no package of ours."""

    @property
    def _constructor(self) -> type[WebFrame]:
        return type(self)

    def _repr_html_(self) -> str | None:
        with pd.option_context("display.html.use_mathjax", False):
            return super()._repr_html_()

    def __reduce__(self) -> Any:
        return pd.DataFrame(self).__reduce__()


class SearchFrame(WebFrame):
    """Search results as a DataFrame; `.search` is the `SearchResults` it was made from (None after a pickle)."""

    _metadata = ["search"]
    search: SearchResults | None = None


class EnrichedFrame(WebFrame):
    """A frame with columns that were filled from the web: beside each stand its `_source`, `_quote` and `_confidence`."""


@dataclass(frozen=True, slots=True)
class CostSummary:
    """The sums under a table of costs: exact US dollars spent, calls without a known price, and savings.

    `unpriced` counts those calls by the name of their model or provider. `saved_usd` is what answers from the cache would have
    cost, `saved_prompt_usd` what the models' prompt caches saved (below 0 where they cost more). `rows` is the length of the
    frame that it belongs to: a frame of another length is a part of it, to which the sums do not apply.
    """

    total_usd: Decimal
    unpriced: Mapping[str, int]
    saved_usd: Decimal
    saved_prompt_usd: Decimal
    scope: str
    rows: int


class CostFrame(WebFrame):
    """Costs as a DataFrame with a column `usd`; `.summary` holds the exact sums (None after a pickle)."""

    _metadata = ["summary"]
    summary: CostSummary | None = None


def frame_of(kind: type[Frame], columns: Mapping[str, tuple[str | type, Iterable[Any]]]) -> Frame:
    """Return a frame with a RangeIndex; each column is (type, values), the type one of `series`."""
    return kind({name: series(values, of) for name, (of, values) in columns.items()})


# The nullable dtype of each Python type that a user may ask a column for.
NULLABLE = {str: "string", int: "Int64", float: "Float64", bool: "boolean", date: "datetime64[s]", list: "object"}


def series(values: Iterable[Any], of: str | type) -> pd.Series[Any]:
    """Return values as a series.

    `of` is "text" (from the web, without control characters), "utc" (datetimes, None is NaT), another dtype, or a Python type
    of `NULLABLE`, in whose dtype None is missing.
    """
    items = list(values)
    if of == "text":
        return pd.Series([visible(item) for item in items], dtype="str")
    if of == "utc":
        return pd.Series(pd.to_datetime(items, utc=True))
    if of is date:
        return pd.Series(pd.to_datetime(items, errors="coerce")).astype("datetime64[s]")
    return pd.Series(items, dtype=NULLABLE.get(of, "object") if isinstance(of, type) else of)


def columns_for(frame: pd.DataFrame, backend: Any) -> list[nw.Series[Any]]:
    """Return the columns of a frame of ours as series of another library; what is missing becomes null."""
    import narwhals as nw

    found = []
    for name, column in frame.items():
        of: Any = nw.from_native(column, series_only=True).dtype
        match of:
            case nw.Datetime(time_zone=None):  # a date: pandas has no type for it
                of, column = nw.Date(), column.dt.date
            case nw.Datetime():
                of = nw.Datetime("us", "UTC")
            case nw.Categorical() if str(column.cat.categories.dtype) not in ("str", "string", "object"):
                of = None  # numbers to choose from
            case nw.Object():
                of = nw.List(nw.String()) if any(isinstance(value, list | tuple) for value in column) else nw.String()
        values = [None if gone else value for value, gone in zip(column.tolist(), column.isna(), strict=True)]
        values = [list(value) if isinstance(value, tuple) else value for value in values]
        found.append(nw.new_series(str(name), values, of, backend=backend))
    return found
