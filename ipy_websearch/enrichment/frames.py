"""Puts values into a frame: the caller's rows, order and index, with the new columns behind the others.

Rows are asked about as a pandas DataFrame. Of a frame of another kind only the columns that the questions name are turned into
one; the new columns go back into the frame that was given: through narwhals into Polars, PyArrow and DuckDB, and partition by
partition into a Dask DataFrame, whose own columns stay lazy. There, equal rows of all partitions are asked once, and a
partition that has other rows when it is computed than when it was asked about is an error, never a mix-up.

`Lookup` is `df.web.search("{company} CEO")`: one search for each distinct row, its best result as columns. No model is asked.
A 429 is waited out for all rows together. What no row will get past, such as a refused key, ends the run.
"""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import (
    NOT_ASKED,
    NOTED,
    PARTS,
    Column,
    added_names,
    check_names,
    earlier_names,
    fields_in,
    fill,
    inputs_of,
    names_of,
    parse_columns,
)
from ipy_websearch.enrichment.report import Outcome, Progress
from ipy_websearch.enrichment.row import Searches
from ipy_websearch.errors import ConfigError, EnrichmentError, ProviderError, WebSearchError
from ipy_websearch.options import EnrichOptions

if TYPE_CHECKING:
    import narwhals as nw
    import pandas as pd

    from ipy_websearch.enrichment.run import Enrichment
    from ipy_websearch.session import Session

KINDS = "a DataFrame of pandas, Polars or Dask, a PyArrow table or a DuckDB relation"

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
    first = {n: position for position, n in reversed(list(enumerate(place)))}
    numbered = enumerate(zip(place, rows, strict=True))
    costs = [row and (row.spent_usd if first[n] == position else 0.0) for position, (n, row) in numbered]
    data["enrich_cost_usd"] = pd.array(costs, dtype="Float64")
    added = pd.DataFrame({name: data[name] for name in added_names(columns, sources)}, index=frame.index)
    return joined(frame, added)


def joined(frame: pd.DataFrame, added: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with added columns behind its own; they replace those of an earlier enrichment.

    The names are noted in `attrs`, so that the next enrichment can tell them from the caller's own columns.
    """
    import pandas as pd

    names, new = names_of(frame), [str(name) for name in added.columns]
    gone = _replaced(names, new)
    kept = frame.loc[:, [name not in gone for name in names]]
    joined = pd.concat([kept, added], axis=1)
    joined.columns.names = frame.columns.names
    before = [name for name in frame.attrs.get(NOTED, ()) if name in names and name not in gone]
    joined.attrs = {**frame.attrs, NOTED: [*before, *new]}
    return joined


def _replaced(names: Sequence[str], new: Sequence[str]) -> set[str]:
    """Return the names that new columns take the place of; without its source an old one would stand beside a new value."""
    about_values = {f"{name}_{part}" for name in new for part in PARTS}
    return {*new, *(about_values & earlier_names(names, ()))}


# --- frames of other kinds --------------------------------------------------------------------------------------------


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


def is_dask(frame: Any) -> bool:
    """Return whether something is a Dask DataFrame; Dask is not imported for it."""
    return type(frame).__module__.startswith("dask.")


def is_frame(value: Any) -> bool:
    """Return whether something is a frame that can be enriched; no library is imported for it but narwhals."""
    from narwhals import dependencies as known

    tests = (known.is_into_dataframe, known.is_polars_lazyframe, known.is_dask_dataframe, known.is_duckdb_relation)
    return any(test(value) for test in tests)


def start_on_other(start: Callable[[EnrichOptions], Enrichment], options: EnrichOptions) -> Any:
    """Return an enrichment of a frame that is not pandas; `start` makes one of a pandas frame.

    Raises:
        ConfigError: it is no frame, the columns are faulty, or the cluster cannot be used.
    """
    import pandas as pd

    from ipy_websearch.frames import columns_for

    if is_dask(options.frame):
        return _start_on_dask(start, options)
    frame, native = _eager(options.frame)
    new, fields = _wanted(options, frame.columns)

    def put_back(filled: pd.DataFrame) -> Any:
        kept = frame.drop(list(_replaced(frame.columns, new)), strict=False)
        return native(kept.with_columns(*columns_for(filled[new], frame.implementation)).to_native())

    rows = pd.DataFrame({name: pd.Series(frame[name].to_list(), dtype=object) for name in fields})
    return FrameWork(start(replace(options, frame=rows)), put_back)


def _wanted(options: EnrichOptions, names: Sequence[str], noted: Any = ()) -> tuple[list[str], list[str]]:
    """Return the names of the columns to add, and of those that the questions name; see `make_plan` for the errors."""
    wanted = parse_columns(options.columns, names)
    check_names(wanted, names, noted, options.sources)
    fields = dict.fromkeys(field for column in wanted for field in column.fields)
    return added_names(wanted, options.sources), list(fields)


def _eager(given: Any) -> tuple[nw.DataFrame[Any], Callable[[Any], Any]]:
    """Return a frame in memory, and what makes one of the kind that was given of it.

    A relation stays with its connection, where it can be joined with others: only its own `query` leads there.
    """
    import narwhals as nw

    doubled = "the frame has several columns of one name; rename one"
    try:
        frame = nw.from_native(given)
        _ = frame.columns
    except nw.exceptions.DuplicateError as exc:
        raise ConfigError(doubled) from exc
    except (TypeError, nw.exceptions.NarwhalsError) as exc:
        raise ConfigError(f"enrich needs {KINDS}, not {type(given).__name__}") from exc
    if isinstance(frame, nw.DataFrame):
        return frame, lambda made: made
    if frame.implementation.is_polars():
        return frame.collect(), lambda made: made.lazy()
    if not frame.implementation.is_duckdb():
        raise ConfigError(f"enrich needs {KINDS}, not {type(given).__module__}.{type(given).__name__}")
    try:
        return frame.collect("pyarrow"), lambda enriched: given.query("enriched_rows", "SELECT * FROM enriched")
    except nw.exceptions.DuplicateError as exc:
        raise ConfigError(doubled) from exc
    except ImportError as exc:
        raise ConfigError("a DuckDB relation needs a package more: pip install pyarrow") from exc


# --- Dask ---------------------------------------------------------------------------------------------------------------


def _start_on_dask(start: Callable[[EnrichOptions], Enrichment], options: EnrichOptions) -> Any:
    """Return an enrichment of a Dask frame by the cluster that is named, else by the one that Dask uses."""
    from ipy_websearch.enrichment.dask import connect

    frame, default = options.frame, _default_client()
    new, fields = _wanted(options, [str(name) for name in frame.columns], frame._meta.attrs.get(NOTED))
    client, is_own = (default, False) if options.cluster is None else connect(options.cluster)
    with client if is_own else nullcontext():
        parts, rows = _computed(frame, fields, client)
    cluster = None if options.mode == "batch" else options.cluster or default
    work = start(replace(options, frame=rows, cluster=cluster))
    return FrameWork(work, partial(_into_partitions, frame, parts, fields, new, default))


def look_up_on_dask(start: Callable[[pd.DataFrame], Lookup], frame: Any, query: str) -> Any:
    """Return the searches for a Dask frame, made by this process; `start` makes those of a pandas frame.

    Raises:
        ConfigError: the query names no column or one that is not there.
    """
    fields, client = query_fields(query, [str(name) for name in frame.columns], frame._meta.attrs.get(NOTED)), _default_client()
    parts, rows = _computed(frame, fields, client)
    return FrameWork(start(rows), partial(_into_partitions, frame, parts, fields, SEARCHED, client))


def _default_client() -> Any:
    """Return the client that Dask uses by itself, None when it computes in this process."""
    try:
        from distributed import default_client

        return default_client()
    except (ImportError, ValueError):
        return None


def _computed(frame: Any, fields: Sequence[str], client: Any) -> tuple[Sequence[pd.DataFrame], pd.DataFrame]:
    """Return the partitions of a Dask frame with these columns, and their rows together."""
    import dask
    import pandas as pd

    wanted = frame[[name for name in frame.columns if str(name) in fields]]
    parts: Sequence[pd.DataFrame] = dask.compute(*wanted.to_delayed(), scheduler=client)
    return parts, pd.concat(parts, ignore_index=True)


def _into_partitions(
    frame: Any, parts: Sequence[pd.DataFrame], fields: Sequence[str], new: Sequence[str], client: Any, filled: pd.DataFrame
) -> Any:
    """Return a Dask frame with its `new` columns; `parts` were asked about, `client` holds the answers (None: the graph)."""
    from dask import config, delayed
    from dask.dataframe import from_delayed

    added, ends = filled[list(new)], accumulate((len(part) for part in parts), initial=0)
    answers = [delayed(added.iloc[a:b].reset_index(drop=True)) for a, b in pairwise(ends)]
    if client is not None:  # they are sent there once
        with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            answers = client.persist(answers)
    pieces = [
        delayed(put_together)(own, answer, fields, rows_digest(part, fields))
        for own, answer, part in zip(frame.to_delayed(), answers, parts, strict=True)
    ]
    meta = put_together(frame._meta, added.iloc[:0], (), "")
    with config.set({"dataframe.convert-string": False}):  # it makes texts of lists
        return from_delayed(pieces, meta=meta, divisions=frame.divisions, verify_meta=False)


def put_together(own: pd.DataFrame, added: pd.DataFrame, fields: Sequence[str], digest: str) -> pd.DataFrame:
    """Return a partition with its new columns (`digest` "": whatever its rows are).

    Raises:
        EnrichmentError: these are not the rows that were asked about.
    """
    if digest and rows_digest(own, fields) != digest:
        raise EnrichmentError("a partition has other rows now than when it was enriched; persist the Dask DataFrame before")
    return joined(own, added.set_axis(own.index))


def rows_digest(part: pd.DataFrame, fields: Sequence[str]) -> str:
    return hashlib.sha256(repr(inputs_of(part, fields)).encode("utf-8", "replace")).hexdigest()


# --- a search for each row ----------------------------------------------------------------------------------------------

SEARCHED = ("search_title", "search_url", "search_description", "search_provider", "search_error")


def query_fields(template: str, names: Sequence[str], noted: Any = ()) -> tuple[str, ...]:
    """Return the columns that a query names; `names` are the frame's, `noted` what its `attrs` say of earlier runs.

    Raises:
        ConfigError: it names none, or one that is not there, or a column of the caller's is where a new one would go.
    """
    fields = fields_in("the query", template, names)
    earlier = SEARCHED if set(SEARCHED) <= set(names) else noted or ()
    for name in SEARCHED:
        if name in fields or (name in names and name not in earlier):
            why = "the query names" if name in fields else "no search added"
            raise ConfigError(f"the frame already has a column {name!r}, which {why}; rename it")
    return fields


class Lookup:
    """The searches of one frame; `run` it once, then `frame()` gives the rows as far as they are, also after `stop()`.

    `options` are those of `ipy_websearch.search`.
    """

    def __init__(self, session: Session, template: str, frame: pd.DataFrame, *, concurrency: int = 16, **options: Any) -> None:
        fields = query_fields(template, names_of(frame), frame.attrs.get(NOTED))
        rows = inputs_of(frame, fields)
        self._queries = [None if None in row else fill(template, dict(zip(fields, row, strict=True))) for row in rows]
        self._found: dict[str, tuple[str | None, ...]] = {}
        self._frame = frame
        self._session = session
        self._options = {"count": 1, **options}
        session.search_request("any", **{name: given for name, given in options.items() if name not in ("provider", "fresh")})
        self._concurrency = concurrency
        self._refusal = ""  # why no further search is begun
        engine, _ = session.provider_to_ask(options.get("provider"))
        self._searches = Searches(session.router, engine, concurrency, ())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Future[Any] | None = None
        self._distinct = list(dict.fromkeys(query for query in self._queries if query is not None))
        self.progress = Progress(total=len(self._distinct), name="search")

    async def run(self) -> None:
        """Search for every distinct query."""
        self._loop, places = asyncio.get_running_loop(), asyncio.Semaphore(self._concurrency)
        self._work = asyncio.gather(*(self._search_for(query, places) for query in self._distinct), return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await self._work

    def stop(self) -> None:
        """Stop from any thread."""
        if self._work is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._work.cancel)

    def frame(self) -> pd.DataFrame:
        """Return the frame with the columns of `SEARCHED` (text) behind its own."""
        import pandas as pd

        from ipy_websearch.frames import WebFrame

        missing: tuple[str | None, ...] = (None, None, None, None, "a value that the query needs is missing")
        left: tuple[str | None, ...] = (None, None, None, None, self._refusal or "interrupted")
        rows = [missing if query is None else self._found.get(query, left) for query in self._queries]
        data = {name: pd.array([row[n] for row in rows], dtype="string") for n, name in enumerate(SEARCHED)}
        return WebFrame(joined(self._frame, pd.DataFrame(data, index=self._frame.index)))

    async def _search_for(self, query: str, places: asyncio.Semaphore) -> None:
        try:
            async with places:
                if self._refusal:
                    return
                results = await self._session.searched(query, self._searches.run, **self._options)
        except WebSearchError as exc:
            if isinstance(exc, ProviderError) and exc.permanent:
                self._refusal = f"not searched: {exc}"  # those under way end by themselves: cut off, they would count as paid
            self._found[query] = (None, None, None, None, str(exc))
            self.progress.failed += 1
            return
        best = next(iter(results), None)
        facts = (best.title, best.url, best.description) if best else (None, None, None)
        self._found[query] = (*facts, results.provider, None if best else "nothing was found")
        self.progress.done += 1
        self.progress.cells += best is not None
        self.progress.cost_usd += float(results.cost_usd or 0)
