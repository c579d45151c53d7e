"""Puts values into a frame: the caller's rows, order and index, with the new columns behind the others.

Rows are asked about as a pandas DataFrame. Of a frame of another kind only the columns that the questions name are turned into
one; the new columns go back into the frame that was given: through narwhals into Polars, PyArrow and DuckDB, and partition by
partition into a Dask DataFrame, whose own columns stay lazy. There, equal rows of all partitions are asked once, and a
partition that has other rows when it is computed than when it was asked about is an error, never a mix-up.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import (
    PARTS,
    Cell,
    Column,
    added_names,
    earlier_names,
    inputs_of,
    names_of,
    wanted_columns,
)
from ipy_websearch.enrichment.report import Outcome
from ipy_websearch.errors import ConfigError, EnrichmentError
from ipy_websearch.options import EnrichOptions
from ipy_websearch.text import plain, shorten

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd

    from ipy_websearch.enrichment.run import Enrichment

_DTYPES = {"source": "string", "quote": "string", "confidence": "Float64"}


def assemble(
    frame: pd.DataFrame, columns: Sequence[Column], place: array[int], outcomes: Sequence[Outcome], *, sources: bool
) -> pd.DataFrame:
    """Return n rows and their index as they came, with the added columns; the frame given is not changed.

    `place` says which outcome each row has; -1 is none, and all its added columns are missing. The cost of a distinct row
    stands in the first row that has it, so that the column adds up.
    """
    import pandas as pd

    from ipy_websearch.frames import series

    left_out, nothing = Outcome(error="", cost_usd=None), Cell()
    rows = [outcomes[n] if n >= 0 else left_out for n in place]
    data: dict[str, Any] = {}
    for number, column in enumerate(columns):
        cells = [row.cells.get(number, nothing) for row in rows]
        values = [cell.value for cell in cells]
        chosen = pd.Categorical(values, categories=list(column.choices)) if column.choices else None
        data[column.name] = series(values, column.kind).array if chosen is None else chosen
        if sources:
            for position, part in enumerate(PARTS, 1):
                data[f"{column.name}_{part}"] = pd.array([cell[position] for cell in cells], dtype=_DTYPES[part])
    data["enrich_status"] = pd.array([None if row is left_out else row.status for row in rows], dtype="string")
    data["enrich_error"] = pd.array([row.error or None for row in rows], dtype="string")
    first = {n: position for position, n in reversed(list(enumerate(place))) if n >= 0}
    costs = [row.spent_usd if first.get(n, at) == at else 0.0 for at, (n, row) in enumerate(zip(place, rows, strict=True))]
    data["enrich_cost_usd"] = pd.array(costs, dtype="Float64")
    added = pd.DataFrame({name: data[name] for name in added_names(columns, sources)}, index=frame.index)
    return joined(frame, added)


def joined(frame: pd.DataFrame, added: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with added columns behind its own; they replace those of an earlier enrichment."""
    import pandas as pd

    names, new = names_of(frame), [str(name) for name in added.columns]
    gone = _replaced(names, new)
    kept = frame.loc[:, [name not in gone for name in names]]
    joined = pd.concat([kept, added], axis=1)
    joined.columns.names = frame.columns.names
    joined.attrs = dict(frame.attrs)
    return joined


def _replaced(names: Sequence[str], new: Sequence[str]) -> set[str]:
    """Return the names that new columns take the place of; without its source an old one would stand beside a new value."""
    about_values = {f"{name}_{part}" for name in new for part in PARTS}
    return {*new, *(about_values & earlier_names(names))}


# --- frames of other kinds --------------------------------------------------------------------------------------------


def is_pandas(frame: Any) -> bool:
    """Return whether something is a pandas DataFrame."""
    import pandas as pd

    return isinstance(frame, pd.DataFrame)


def is_dask(frame: Any) -> bool:
    """Return whether something is a Dask DataFrame; Dask is not imported for it."""
    return type(frame).__module__.startswith("dask.")


def is_frame(value: Any) -> bool:
    """Return whether something is a frame that can be enriched; no library is imported for it but narwhals."""
    from narwhals import dependencies as known

    tests = (known.is_into_dataframe, known.is_polars_lazyframe, known.is_dask_dataframe, known.is_duckdb_relation)
    return any(test(value) for test in tests)


def start_on_other(start: Callable[[EnrichOptions], Enrichment], options: EnrichOptions) -> Enrichment:
    """Return an enrichment of a frame that is not pandas; `start` makes one of a pandas frame.

    Raises:
        ConfigError: it is no frame, the columns are faulty, or the cluster cannot be used.
    """
    import pandas as pd

    from ipy_websearch.frames import columns_for

    if is_dask(options.frame):
        meta = options.frame._meta
        _, fields, new = wanted_columns(options.columns, names_of(meta), options.sources)
        cluster = None if options.mode == "batch" else options.cluster or _default_client()
        return on_dask(lambda rows: start(replace(options, frame=rows, cluster=cluster)), options.frame, fields, new)
    frame, native = _eager(options.frame)
    _, fields, new = wanted_columns(options.columns, frame.columns, options.sources)

    def put_back(filled: pd.DataFrame) -> Any:
        kept = frame.drop(list(_replaced(frame.columns, new)), strict=False)
        return native(kept.with_columns(*columns_for(filled[new], frame.implementation)).to_native())

    work = start(
        replace(options, frame=pd.DataFrame({name: pd.Series(frame[name].to_list(), dtype=object) for name in fields}))
    )
    work.put_back = put_back
    return work


def _eager(given: Any) -> tuple[nw.DataFrame[Any], Callable[[Any], Any]]:
    """Return a frame in memory, and a function that turns such a frame into the kind that was given.

    A relation stays with its connection, where it can be joined with others: only its own `query` leads there.
    """
    import narwhals as nw

    try:
        frame = nw.from_native(given)
        if isinstance(frame, nw.DataFrame):
            return frame, lambda made: made
        if frame.implementation.is_polars():
            return frame.collect(), lambda made: made.lazy()
        if frame.implementation.is_duckdb():
            return frame.collect("pyarrow"), lambda enriched: given.query("enriched_rows", "SELECT * FROM enriched")
        problem = ""
    except (ImportError, TypeError, nw.exceptions.NarwhalsError) as exc:
        problem = f" ({shorten(plain(str(exc)), 100)})"
    raise ConfigError(
        "enrich needs a DataFrame of pandas, Polars or Dask, a PyArrow table or a DuckDB relation, not "
        f"{type(given).__module__}.{type(given).__name__}{problem}"
    )


# --- Dask ---------------------------------------------------------------------------------------------------------------


def _default_client() -> Any:
    """Return the client that Dask uses by itself, None when it computes in this process."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def on_dask(start: Callable[[pd.DataFrame], Enrichment], frame: Any, fields: Sequence[str], new: Sequence[str]) -> Enrichment:
    """Return the work on a Dask frame, which adds the `new` columns; `start` makes that of a pandas frame with the `fields`."""
    import dask
    import pandas as pd

    wanted = frame[[name for name in frame.columns if str(name) in fields]]
    parts: Sequence[pd.DataFrame] = dask.compute(*wanted.to_delayed())
    work = start(pd.concat(parts, ignore_index=True))
    work.put_back = partial(_into_partitions, frame, parts, new)
    return work


def _into_partitions(frame: Any, parts: Sequence[pd.DataFrame], new: Sequence[str], filled: pd.DataFrame) -> Any:
    """Return a Dask frame with its `new` columns; its `parts` were asked about."""
    import dask
    from dask.dataframe import from_delayed

    added, ends = filled[list(new)], accumulate((len(part) for part in parts), initial=0)
    answers = [(part, added.iloc[a:b]) for part, (a, b) in zip(parts, pairwise(ends), strict=True)]
    # Answers are sent to the cluster once, and lists stay lists.
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB", "dataframe.convert-string": False}):
        there = dask.persist(*(dask.delayed(answer) for answer in answers))
        pieces = [dask.delayed(_put_together)(own, answer) for own, answer in zip(frame.to_delayed(), there, strict=True)]
        meta = joined(frame._meta, added.iloc[:0].set_axis(frame._meta.index))
        return from_delayed(pieces, meta=meta, divisions=frame.divisions, verify_meta=False)


def _put_together(own: pd.DataFrame, answer: tuple[pd.DataFrame, pd.DataFrame]) -> pd.DataFrame:
    """Return a partition with its new columns; the answer is what was asked about, and what was found.

    Raises:
        EnrichmentError: these are not the rows that were asked about.
    """
    asked, added = answer
    fields = names_of(asked)
    if inputs_of(own, fields) != inputs_of(asked, fields):
        raise EnrichmentError("a partition has other rows now than when it was enriched; persist the Dask DataFrame before")
    return joined(own, added.set_axis(own.index))
