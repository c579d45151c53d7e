"""The blocking door of enrichment: `enrich`, and what stands behind `df.web`. The work runs on the background loop of `api`.

The calling thread draws the bar while it waits, and an interrupt reaches it first: the run is then told to stop. `enrich` and
`look_up` return what there is by then (whoever has to stop as well, such as a magic, is told); an estimate on half a sample is
none, so `estimate` passes the interrupt on.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import wait
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ipy_websearch import api, background
from ipy_websearch.enrichment.bar import Bar, Tally
from ipy_websearch.enrichment.clusters.dask_frame import is_dask, look_up_on_dask
from ipy_websearch.enrichment.lookup import Lookup
from ipy_websearch.enrichment.report import Estimate
from ipy_websearch.enrichment.start import closing_text, estimate_of
from ipy_websearch.options import at_least

if TYPE_CHECKING:
    import pandas as pd

STOP_S = 2.0
"""Seconds that an interrupted run has to end in; after that the frame is taken as it is."""

INTERRUPTED = "Interrupted: what was filled by then is returned, and kept for the next call."

_TICK_S = 0.2


class Work(Protocol):
    """What can be driven: something that runs, counts, and stops when told."""

    tally: Tally

    async def run(self) -> None: ...
    def stop(self) -> None: ...


def enrich(
    frame: pd.DataFrame,
    columns: Mapping[str, Any],
    *,
    model: str | None = None,
    concurrency: int = 16,
    max_searches: int = 1,
    max_fetches: int = 0,
    budget_usd: Decimal | float | str | None = None,
    resume: bool = True,
    sources: bool = True,
    sample: int | None = None,
    progress: bool = True,
    provider: str | None = None,
    mode: str | None = None,
    cluster: Any = None,
) -> pd.DataFrame:
    """Return the frame with columns filled from the web: n rows in, the same n rows, order and index out.

    `columns` maps each new column to a question that names columns of the frame in braces, or to (question, type):
    `{"ceo": "Who is the CEO of {company}?", "founded": ("In what year was {company} founded?", int)}`. Types are str, int,
    float, bool, date, list[str], or a list of the values allowed; they become string, Int64, Float64, boolean,
    datetime64[s], object and category; a type's name may stand with the column's, `{"founded: int": "In what year …"}`, or
    before the question, `{"founded": "int: In what year …"}`. What was not found is missing, never invented; so is an empty
    list, which may mean as well that there are none: where that is an answer, ask for it in a column (bool or int) of its own.

    Added are each column and, with `sources`, `{column}_source` (the address of a search result that says so),
    `{column}_quote` (its words) and `{column}_confidence` (0 to 1, as the model states it); then `enrich_status` ("ok",
    "error", "budget", "interrupted", "skipped" for rows whose inputs are missing), `enrich_error` (why, or which values of a
    filled row were left out because they fit no type: the next call asks for these again) and `enrich_cost_usd` (US dollars
    of this call; rows with equal inputs are asked once, and the first has the cost). `attrs["report"]` sums it up. A frame
    may be enriched again: what an enrichment added is replaced, your own columns never are.

    `model` None is the setting `enrich_model`; "offline" is the built-in one. `concurrency` requests run at once, fewer when
    the API says so. A row makes at most `max_searches` searches (0: none), with `provider` (None: the setting, else the chain),
    and reads at most `max_fetches` pages, whose addresses stand in the row or in results, as their robots.txt allows.
    `budget_usd` is US dollars that this call may cost; it is never passed. Rows that were filled before come from the store;
    `resume=False` asks them again. `sample=5` tries the first five distinct rows, leaves the others' new columns missing, and
    says what the whole would take. An interrupt stops the run and returns the frame as far as it is; one line says so.
    What comes after in the cell, and cells that wait, go on (the magic `%%enrich` stops those, and keeps the frame).

    `mode="batch"` hands the rows in to the Message Batches API: half the price of tokens, done within a day (mostly an hour),
    with the API's own web search; a quote is what the model cited for the value, missing where it cited nothing. An interrupt,
    or the end of the kernel, leaves what was handed in at the API, where it goes on; the same call later collects it.

    `cluster` is a `dask.distributed` client, a cluster or a scheduler's address: the rows are asked for on its workers, with
    one concurrency, one rate and one budget for all of them, and kept in this computer's store. The workers get the session's
    keys and addresses for the time of the run. A Dask DataFrame as `frame` is enriched on its own cluster (that of the default
    client, or `cluster`; in this process without either), at once and with its equal rows asked once; what comes back is a
    Dask DataFrame with the same partitions and index, whose new columns are there already.

    >>> import pandas as pd
    >>> planets = pd.DataFrame({"planet": ["Mars", "Saturn"]})
    >>> moons = {"moons": ("How many moons does {planet} have?", int)}
    >>> enrich(planets, moons, model="offline", provider="local", progress=False).moons.tolist()
    [2, 274]

    Raises:
        ConfigError: a question, type or option is wrong, or a column of your own is where a new one would go; nothing was
            sent. MissingKeyError: there is no key for the model.
        EnrichmentError: the first rows all failed in the same way, so that it was given up with nothing done.
    """
    work = api.session().enrichment(
        frame,
        columns,
        model=model,
        concurrency=concurrency,
        max_searches=max_searches,
        max_fetches=max_fetches,
        budget_usd=budget_usd,
        resume=resume,
        sources=sources,
        sample=sample,
        provider=provider,
        mode=mode,
        cluster=cluster,
    )
    enriched: pd.DataFrame = carry_out(work, progress)[0]
    return enriched


def carry_out(work: Any, progress: bool, told: str = INTERRUPTED) -> tuple[Any, bool]:
    """Run an enrichment; return its frame, as far as it is, and whether it was interrupted, which is `told` then.

    Raises:
        EnrichmentError: it was given up with nothing done.
    """
    interrupted = drive(work, progress)
    if interrupted and told:  # with `progress` or without: half a frame must not pass for a whole one
        print(told)
    if progress:
        print(closing_text(work))
    return work.frame(), interrupted


def estimate(
    frame: pd.DataFrame, columns: Mapping[str, Any], *, sample: int = 5, progress: bool = False, **options: Any
) -> Estimate:
    """Return what an enrichment would cost and take, after trying `sample` rows (which are then in the store).

    The options are those of `enrich`. An interrupt is passed on: what was tried by then is in the store.

    Raises:
        ConfigError: a question, type or option is wrong; nothing was sent.
        EnrichmentError: the rows that were tried all failed, or the budget let none be tried.
    """
    work = api.session().enrichment(frame, columns, sample=sample, **options)
    if drive(work, progress):
        raise KeyboardInterrupt
    return estimate_of(work)


def look_up(
    frame: pd.DataFrame,
    query: str,
    *,
    provider: str | None = None,
    concurrency: int = 16,
    progress: bool = True,
    **options: Any,
) -> pd.DataFrame:
    """Return the frame with the best search result for each row: search_title, search_url, search_description,
    search_provider and search_error (all text, missing where there is nothing).

    `query` names columns in braces; equal queries are searched for once. Further options are those of `search`. For a Dask
    DataFrame this process searches at once, and what comes back is a Dask DataFrame as it is from `enrich`.

    Raises:
        ConfigError: the query names no column or one that is not there; nothing was sent.
    """
    session = api.session()
    options.setdefault("count", 1)

    async def search(text: str) -> Any:
        return await session.search(text, provider=provider, **options)

    start = partial(Lookup, template=query, search=search, concurrency=at_least(1, "concurrency", concurrency, 16))
    work: Any = look_up_on_dask(start, frame, query) if is_dask(frame) else start(frame)
    if drive(work, progress):
        print("Interrupted: what was found by then is returned.")
    return work.frame()


def drive(work: Work, progress: bool) -> bool:
    """Run something on the background loop to its end, drawing its bar; return whether an interrupt stopped it."""
    bar = Bar(work.tally, progress)
    future = background.start(work.run)
    try:
        while not wait([future], _TICK_S).done:
            bar.update()
        future.result()
        return False
    except KeyboardInterrupt:
        work.stop()
        wait([future], STOP_S)
        return True
    finally:
        bar.close()
