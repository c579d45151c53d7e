"""Puts values into a frame: the caller's rows, order and index, with the new columns behind the others.

Rows are asked about as a pandas DataFrame. Of a Polars or PyArrow frame, or a DuckDB relation, only the columns that the
questions name are turned into one; the new columns go back into the frame that was given, through narwhals (`dask_frame` does
the same with partitions).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import (
    NOT_ASKED,
    NOTED,
    PARTS,
    Column,
    added_names,
    check_names,
    earlier_names,
    names_of,
    parse_columns,
)
from ipy_websearch.enrichment.report import Outcome
from ipy_websearch.errors import ConfigError
from ipy_websearch.options import EnrichOptions

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd

    from ipy_websearch.enrichment.lookup import Lookup
    from ipy_websearch.enrichment.run import Enrichment

KINDS = "a DataFrame of pandas, Polars or Dask, a PyArrow table or a DuckDB relation"

_DTYPES = {"source": "string", "quote": "string", "confidence": "Float64"}


def assemble(
    frame: pd.DataFrame, columns: Sequence[Column], place: array[int], outcomes: Sequence[Outcome | None], *, sources: bool
) -> pd.DataFrame:
    """Return n rows and their index as they came, with the added columns; the frame given is not changed.

    `place` says which outcome each row has; -1 is none, and all its added columns are missing. The cost of a distinct row
    stands in the first row that has it, so that the column adds up.
    """
    import pandas as pd

    from ipy_websearch.frames import series

    rows = [outcomes[n] if n >= 0 else None for n in place]
    data: dict[str, Any] = {}
    for number, column in enumerate(columns):
        cells = [row.cells[number] if row is not None and row.cells else NOT_ASKED for row in rows]
        values = [cell.value for cell in cells]
        chosen = pd.Categorical(values, categories=list(column.choices)) if column.choices else None
        data[column.name] = series(values, column.kind).array if chosen is None else chosen
        if sources:
            for position, part in enumerate(PARTS, 1):
                data[f"{column.name}_{part}"] = pd.array([cell[position] for cell in cells], dtype=_DTYPES[part])
    data["enrich_status"] = pd.array([row.status if row is not None else None for row in rows], dtype="string")
    data["enrich_error"] = pd.array([(row.error or None) if row is not None else None for row in rows], dtype="string")
    data["enrich_cost_usd"] = pd.array(_costs(place, outcomes), dtype="Float64")
    added = pd.DataFrame({name: data[name] for name in added_names(columns, sources)}, index=frame.index)
    return joined(frame, added)


def _costs(place: array[int], outcomes: Sequence[Outcome | None]) -> list[float | None]:
    seen: set[int] = set()
    costs: list[float | None] = []
    for n in place:
        outcome = outcomes[n] if n >= 0 else None
        costs.append(None if outcome is None else 0.0 if n in seen else outcome.cost_usd)
        seen.add(n)
    return costs


def joined(frame: pd.DataFrame, added: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with added columns behind its own; they replace those of an earlier enrichment.

    The names are noted in `attrs`, so that the next enrichment can tell them from the caller's own columns.
    """
    import pandas as pd

    names, new = names_of(frame), [str(name) for name in added.columns]
    gone = _replaced(names, new)
    kept = frame.loc[:, [name not in gone for name in names]]
    if frame.columns.nlevels > 1:
        blanks = [""] * (frame.columns.nlevels - 1)
        added.columns = pd.MultiIndex.from_tuples([(name, *blanks) for name in added.columns])
    joined = pd.concat([kept, added], axis=1)
    joined.columns.names = frame.columns.names
    noted = frame.attrs.get(NOTED)
    before = noted if isinstance(noted, list) else []
    joined.attrs = {**frame.attrs, NOTED: [*(name for name in before if name in names and name not in gone), *new]}
    return joined


def _replaced(names: Sequence[str], new: Sequence[str]) -> set[str]:
    """Return the names that new columns take the place of; without its source an old one would stand beside a new value."""
    about_values = {f"{name}_{part}" for name in new for part in PARTS}
    return {*new, *(about_values & earlier_names(names, ()))}


# --- frames of other kinds --------------------------------------------------------------------------------------------------


class FrameWork:
    """Work on pandas rows whose result goes into a frame of another kind; all else is that of the work."""

    def __init__(self, work: Enrichment | Lookup, put_back: Callable[[pd.DataFrame], Any]) -> None:
        self._work, self._put_back = work, put_back

    def __getattr__(self, name: str) -> Any:
        return getattr(self._work, name)

    def frame(self) -> Any:
        """Return the frame of the caller's kind, as far as it is filled."""
        return self._put_back(self._work.frame())


def is_pandas(frame: Any) -> bool:
    """Return whether something is a pandas DataFrame."""
    import pandas as pd

    return isinstance(frame, pd.DataFrame)


def is_frame(value: Any) -> bool:
    """Return whether something is a frame that can be enriched; no library is imported for it but narwhals."""
    from narwhals import dependencies as known

    tests = (known.is_into_dataframe, known.is_polars_lazyframe, known.is_dask_dataframe, known.is_duckdb_relation)
    return any(test(value) for test in tests)


def wanted_columns(options: EnrichOptions, names: Sequence[str], noted: Any = ()) -> tuple[list[str], list[str]]:
    """Return the names of the columns to add, and of those that the questions name; see `make_plan` for the errors."""
    wanted = parse_columns(options.columns, names)
    check_names(wanted, names, noted, options.sources)
    fields = dict.fromkeys(field for column in wanted for field in column.fields)
    return added_names(wanted, options.sources), list(fields)


def start_on_other(start: Callable[[EnrichOptions], Enrichment], options: EnrichOptions) -> Any:
    """Return an enrichment of a Polars or PyArrow frame or a DuckDB relation; `start` makes one of a pandas frame.

    Raises:
        ConfigError: it is none of these, or the columns are faulty.
    """
    import pandas as pd

    frame, native = _eager(options.frame)
    new, fields = wanted_columns(options, frame.columns)
    rows = pd.DataFrame({name: pd.Series(frame[name].to_list(), dtype=object) for name in fields})

    def put_back(filled: pd.DataFrame) -> Any:
        from ipy_websearch.frames import columns_for

        kept = frame.drop(list(_replaced(frame.columns, new)), strict=False)
        return native(kept.with_columns(*columns_for(filled[new], frame.implementation)).to_native())

    return FrameWork(start(replace(options, frame=rows)), put_back)


def _eager(given: Any) -> tuple[nw.DataFrame[Any], Callable[[Any], Any]]:
    """Return a frame in memory, and what makes one of the kind that was given of it.

    A relation stays with its connection, where it can be joined with others: only its own `query` leads there.
    """
    import narwhals as nw

    try:
        frame = nw.from_native(given)
    except (TypeError, nw.exceptions.NarwhalsError) as exc:
        raise ConfigError(f"enrich needs {KINDS}, not {type(given).__name__}") from exc
    if isinstance(frame, nw.DataFrame):
        return frame, lambda made: made
    match frame.implementation:
        case nw.Implementation.POLARS:
            return frame.collect(), lambda made: made.lazy()
        case nw.Implementation.DUCKDB:
            return _collected(frame), lambda enriched: given.query("enriched_rows", "SELECT * FROM enriched")
        case _:
            raise ConfigError(f"enrich needs {KINDS}, not {type(given).__module__}.{type(given).__name__}")


def _collected(relation: Any) -> nw.DataFrame[Any]:
    try:
        collected: nw.DataFrame[Any] = relation.collect("pyarrow")
    except ImportError as exc:
        raise ConfigError("a DuckDB relation needs a package more: pip install pyarrow") from exc
    return collected
