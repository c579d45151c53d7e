"""Frames of every kind: reads the rows to ask about, and puts the values in as new columns behind the others.

Rows are asked about as a pandas DataFrame. Of a frame of another kind only the columns that the questions name are turned into
one; the new columns go back into the frame that was given: through narwhals into Polars, PyArrow and DuckDB, and partition by
partition into a Dask DataFrame, whose own columns stay lazy. There, equal rows of all partitions are asked once, and a
partition that has other rows when it is computed than when it was asked about is an error, never a mix-up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import narwhals as nw
from narwhals import dependencies as known

from ipy_websearch.enrichment.columns import PARTS, Cell, Plan, earlier_names, inputs_of
from ipy_websearch.enrichment.report import Outcome
from ipy_websearch.errors import ConfigError, EnrichmentError
from ipy_websearch.text import plain, shorten

if TYPE_CHECKING:
    import pandas as pd

_DTYPES = {"source": "string", "quote": "string", "confidence": "Float64"}


@dataclass(frozen=True, slots=True)
class Given:
    """A frame that was given: the names of its columns, `read` returns those of some names as a pandas DataFrame, and `put` the
    frame with new columns of as many rows."""

    names: list[str]
    read: Callable[[Sequence[str]], pd.DataFrame]
    put: Callable[[pd.DataFrame], Any]


def given_frame(frame: Any) -> Given:
    """Return how a frame is read and filled.

    Raises:
        ConfigError: it is no frame, or one that cannot be read.
    """
    import pandas as pd

    from ipy_websearch.frames import EnrichedFrame, columns_for

    if isinstance(frame, pd.DataFrame):
        if frame.columns.nlevels > 1:
            raise ConfigError(
                "the frame's columns have several levels, and a question names a column by one; join them first: "
                'frame.columns = ["_".join(map(str, names)).strip("_") for names in frame.columns]'
            )
        names = [str(name) for name in frame.columns]
        return Given(names, lambda fields: frame, partial(joined, EnrichedFrame(frame).__finalize__(frame)))
    if is_dask(frame):
        return _dask_frame(frame)
    eager, native = _eager(frame)

    def read(fields: Sequence[str]) -> pd.DataFrame:
        return pd.DataFrame({name: pd.Series(eager[name].to_list(), dtype=object) for name in fields})

    def put(added: pd.DataFrame) -> Any:
        kept = eager.drop(list(_replaced(eager.columns, added)), strict=False)
        return native(kept.with_columns(*columns_for(added, eager.implementation)).to_native())

    return Given(eager.columns, read, put)


def is_dask(frame: Any) -> bool:
    """Return whether something is a Dask DataFrame; Dask is not imported for it."""
    return type(frame).__module__.startswith("dask.")


def is_frame(value: Any) -> bool:
    """Return whether something is a frame that can be enriched; no library is imported for it."""
    others = known.is_polars_lazyframe(value) or is_dask(value) or known.is_duckdb_relation(value)
    return others or known.is_into_dataframe(value)


def added_columns(plan: Plan, outcomes: Sequence[Outcome], *, sources: bool) -> pd.DataFrame:
    """Return the added columns of all rows of the frame; in a row that was left out, all are missing.

    The cost of a distinct row stands in the first row that has it, so that the column adds up.
    """
    import pandas as pd

    from ipy_websearch.frames import series

    left_out, nothing = Outcome(error="", cost_usd=None), Cell()
    rows = [outcomes[n] if n >= 0 else left_out for n in plan.place]
    data: dict[str, Any] = {}
    for number, column in enumerate(plan.columns):
        cells = [row.cells.get(number, nothing) for row in rows]
        values = series([cell.value for cell in cells], object if column.choices else column.kind)
        data[column.name] = pd.Categorical(values, categories=list(column.choices)) if column.choices else values
        if sources:
            for position, part in enumerate(PARTS, 1):
                data[f"{column.name}_{part}"] = pd.array([cell[position] for cell in cells], dtype=_DTYPES[part])
    data["enrich_status"] = pd.array([None if row is left_out else row.status for row in rows], dtype="string")
    data["enrich_error"] = pd.array([row.error or None for row in rows], dtype="string")
    repeated = pd.Series(plan.place).duplicated()
    costs = [0 if again and row is not left_out else row.spent_usd for row, again in zip(rows, repeated, strict=True)]
    data["enrich_cost_usd"] = pd.array([None if usd is None else float(usd) for usd in costs], dtype="Float64")
    return pd.DataFrame(data)


def joined(frame: pd.DataFrame, added: pd.DataFrame) -> pd.DataFrame:
    """Return n rows and their index as they came, with n added rows behind the frame's own columns; these replace those of an
    earlier enrichment. The frame given is not changed."""
    import pandas as pd

    gone = _replaced([str(name) for name in frame.columns], added)
    kept = frame.loc[:, [str(name) not in gone for name in frame.columns]]
    joined = pd.concat([kept, added.set_axis(frame.index)], axis=1)
    joined.columns.names = frame.columns.names
    joined.attrs = {**frame.attrs, **added.attrs}
    return joined


def _replaced(names: Sequence[str], added: pd.DataFrame) -> set[str]:
    """Return the names that new columns take the place of; without its source an old one would stand beside a new value."""
    return earlier_names(names) & {*added.columns, *(f"{name}_{part}" for name in added.columns for part in PARTS)}


def _eager(given: Any) -> tuple[nw.DataFrame[Any], Callable[[Any], Any]]:
    """Return a frame in memory, and a function that turns such a frame into the kind that was given.

    A relation stays with its connection, where it can be joined with others: only its own `query` leads there.
    """
    try:
        frame = nw.from_native(given, pass_through=True)
        if isinstance(frame, nw.DataFrame):
            return frame, lambda made: made
        if isinstance(frame, nw.LazyFrame) and frame.implementation.is_polars():
            return frame.collect(), lambda made: made.lazy()
        if isinstance(frame, nw.LazyFrame) and frame.implementation.is_duckdb():
            return frame.collect("pyarrow"), lambda enriched: given.query("enriched_rows", "SELECT * FROM enriched")
    except ImportError as exc:
        raise ConfigError('a DuckDB relation needs pyarrow: pip install "ipy_websearch[sql]"') from exc
    except nw.exceptions.NarwhalsError as exc:
        raise ConfigError(f"this {type(given).__name__} cannot be read: {shorten(plain(str(exc)), 100)}") from exc
    raise ConfigError(
        "enrich needs a DataFrame of pandas, Polars or Dask, a PyArrow table or a DuckDB relation, not "
        f"{type(given).__module__}.{type(given).__name__}"
    )


# --- Dask ---------------------------------------------------------------------------------------------------------------


def default_client() -> Any:
    """Return the client that Dask uses by itself, None when it computes in this process."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def _dask_frame(frame: Any) -> Given:
    """Return how a Dask frame is read, all its partitions at once, and filled."""
    import dask
    import pandas as pd

    parts: list[pd.DataFrame] = []

    def read(fields: Sequence[str]) -> pd.DataFrame:
        wanted = frame[[name for name in frame.columns if str(name) in fields]]
        parts.extend(dask.compute(*wanted.to_delayed()))
        return pd.concat(parts, ignore_index=True)

    return Given([str(name) for name in frame.columns], read, partial(_into_partitions, frame, parts))


def _into_partitions(frame: Any, parts: Sequence[pd.DataFrame], added: pd.DataFrame) -> Any:
    """Return a Dask frame with added columns; its `parts` were asked about."""
    import dask
    from dask.dataframe import from_delayed

    ends = accumulate((len(part) for part in parts), initial=0)
    answers = [(part, added.iloc[a:b]) for part, (a, b) in zip(parts, pairwise(ends), strict=True)]
    # Answers are sent to the cluster once, and lists stay lists.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB", "dataframe.convert-string": False}):
        there = dask.persist(*(dask.delayed(answer) for answer in answers))
        pieces = [dask.delayed(_put_together)(own, answer) for own, answer in zip(frame.to_delayed(), there, strict=True)]
        meta = joined(frame._meta, added.iloc[:0])
        return from_delayed(pieces, meta=meta, divisions=frame.divisions, verify_meta=False)


def _put_together(own: pd.DataFrame, answer: tuple[pd.DataFrame, pd.DataFrame]) -> pd.DataFrame:
    """Return a partition with its new columns; the answer is what was asked about, and what was found.

    Raises:
        EnrichmentError: these are not the rows that were asked about.
    """
    asked, added = answer
    fields = [str(name) for name in asked.columns]
    if inputs_of(own, fields) != inputs_of(asked, fields):
        raise EnrichmentError("a partition has other rows now than when it was enriched; persist the Dask DataFrame before")
    return joined(own, added)
