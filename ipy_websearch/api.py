"""The blocking door: the same functions as `Session`'s coroutines, for scripts, cells and magics.

They work in a plain script and under the notebook's running loop alike. Ctrl-C and the stop button reach the calling thread;
the work on the background loop is then cancelled, and has a second to put things in order. A forked process gets a session of
its own; fork before the first use where you can, since threads and connections stay with the parent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal

from ipy_websearch import background
from ipy_websearch.options import AskOptions, EnrichOptions, with_signature_of
from ipy_websearch.results import Answer, Page, SearchResults
from ipy_websearch.session import end_session, session, use_session

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ask", "cost", "end_session", "enrich", "fetch", "run_enrichment", "search", "session", "use_session"]

# Seconds between two looks at the progress of an enrichment.
TICK_S = 0.2

INTERRUPTED = "Interrupted: what was filled by then is returned, and kept for the next call."


def search(
    query: str,
    *,
    count: int | None = None,
    provider: str | None = None,
    freshness: str | None = None,
    country: str | None = None,
    language: str | None = None,
    safe_search: Literal["off", "moderate", "strict"] | None = None,
    allowed_domains: Sequence[str] = (),
    blocked_domains: Sequence[str] = (),
    goggles: str | Sequence[str] | None = None,
    fresh: bool = False,
) -> SearchResults:
    """Return the results of a web search, best first.

    `query` has 2 characters or more; `count` results at most (None: the setting, 5). `provider` names one engine (None: the
    chain of those with a key, then Wikipedia, then the local index). `freshness` is pd, pw, pm, py (past day, week,
    month, year) or "2026-01-01to2026-06-30". Only one of the domain lists may be given. `goggles` are Brave goggles, by
    address or as inline rules. `fresh` skips the cache. What it cost is in `.cost_usd` and in the ledger.

    >>> search("moons of Mars", provider="local")[0].title
    'Mars'

    Raises:
        ConfigError: an argument is wrong; nothing was sent. MissingKeyError: the engine asked for has no key.
        ProviderError: no engine answered. BudgetExceededError: it would pass the session's ceiling.
    """
    return background.run(
        lambda: session().search(
            query,
            count=count,
            provider=provider,
            freshness=freshness,
            country=country,
            language=language,
            safe_search=safe_search,
            allowed_domains=allowed_domains,
            blocked_domains=blocked_domains,
            goggles=goggles,
            fresh=fresh,
        )
    )


def fetch(url: str, *, offset: int = 1, limit: int | None = None, fresh: bool = False) -> Page:
    """Return a page as Markdown.

    `offset` is the first line of the Markdown to return, counted from 1; `limit` the most lines (None: all). Past the end
    the content is empty and `lines_read` 0. Only public http and https addresses are fetched, and the local index's own.

    >>> fetch("corpus://planets/mars").title
    'Mars'

    Raises:
        BlockedAddressError: the address is not the public web. FetchError: the page could not be had. Nothing is billed.
    """
    return background.run(lambda: session().fetch(url, offset=offset, limit=limit, fresh=fresh))


@with_signature_of(AskOptions)
def ask(question: str, **options: Any) -> Answer:
    """Return an answer from the web, with its sources.

    `model` None is the setting (without a key: the built-in offline model, which the answer says). `tools` are names of
    tools or sets. The limits (None: the settings, 5 searches, 8 steps, no budget, 120 seconds) end in an answer from what
    was found, with `limit` set. `budget_usd` is US dollars over model and searches together. `columns`
    ("name, price: float", or names with types) asks for a table, which `.to_frame()` gives. `system` adds instructions of
    your own. `follow` continues the last conversation. `check` "mark" compares every sentence with the passages that it cites
    (`.claims`), "repair" also asks the model once to mend those without support, "off" does neither. Each search reads the
    pages of its first `read_pages` results (None: the setting, 3; 0: none), in 4 seconds at most, as their robots.txt allows;
    the model gets the passages that fit the query, and `.sources` says what was read. `effort` ("low", "medium", "high") says
    how hard the model is to think, where it can be told.

    >>> ask("How many moons does Mars have?", model="offline", provider="local").sources.url[0]
    'corpus://planets/mars'

    Raises:
        ConfigError: an argument is wrong; nothing was sent. MissingKeyError: a model or engine was named without a key.
        ModelError: the API refused or broke; `.partial` has the text so far, the ledger what it cost.
        BudgetExceededError: not even a short answer fits into the ceiling; nothing was sent.
    """
    return background.run(lambda: session().ask(question, **options))


@with_signature_of(EnrichOptions)
def enrich(frame: Any, columns: Mapping[str, Any], **options: Any) -> Any:
    """Return the frame with columns filled from the web: n rows in, the same n rows, order and index out.

    `frame` is a DataFrame of pandas, Polars (a lazy one is collected) or Dask, a PyArrow table or a DuckDB relation; the same
    kind comes back, with that library's types and nulls.

    `columns` maps each new column to a question that names columns of the frame in braces, or to (question, type):
    `{"ceo": "Who is the CEO of {company}?", "founded": ("In what year was {company} founded?", int)}`. Types are str, int,
    float, bool, date, list[str], or a list of the values allowed; they become string, Int64, Float64, boolean,
    datetime64[s], object and category; a type's name may stand with the column's, `{"founded: int": "In what year …"}`.
    What was not found is missing, never invented; so is an empty list, which may mean as well that there are none: where that
    is an answer, ask for it in a column (bool or int) of its own.

    Added are each column and, with `sources`, `{column}_source` (the address of a search result that says so),
    `{column}_quote` (its words) and `{column}_confidence` (0 to 1, as the model states it, at most 0.4
    where its quote lacks the value or was made up); then `enrich_status` ("ok",
    "error", "budget", "interrupted", "skipped" for rows whose inputs are missing), `enrich_error` (why, or which values of a
    filled row were left out because they fit no type: the next call asks for these again) and `enrich_cost_usd` (US dollars
    of this call; rows with equal inputs are asked once, and the first has the cost). `attrs["report"]` sums it up. A frame
    may be enriched again: what an enrichment with sources added is replaced, your own columns never are.

    `model` None is the setting `enrich_model`; "offline" is the built-in one. `concurrency` requests run at once, fewer when
    the API says so. A row makes at most `max_searches` searches (0: none), with `provider` (None: the setting, else the chain;
    its local index answers only where it is named, or for the built-in model), and with `read_pages` each search reads the
    pages of its first results, whose passages take the place of the snippets.
    `budget_usd` is US dollars that this call may cost; it is never passed. Rows that were filled before come from the store;
    `resume=False` asks them again. `sample=5` tries the first five distinct rows, leaves the others' new columns missing, and
    says what the rest would take. An interrupt stops the run and returns the frame as far as it is; one line says so.
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
    return run_enrichment(session().enrichment(frame, columns, **options))[0]


def run_enrichment(work: Any, told: str = INTERRUPTED) -> tuple[Any, bool]:
    """Run an enrichment in the background, drawing its bar; return its frame, as far as it is, and whether it was interrupted,
    which is `told` then.

    Raises:
        EnrichmentError: it was given up with nothing done.
    """
    from ipy_websearch.enrichment.report import draw, progress_bar

    task, interrupted = background.Task(work.run, start=False), False
    with progress_bar(work.progress, work.options.progress) as bar:
        try:
            task.begin()
            while not task.wait(TICK_S):
                draw(bar, work.progress)
            task.future.result()
        except KeyboardInterrupt:
            work.stop()
            task.wait(background.GRACE_S)  # then the frame is taken as it is
            interrupted = True
    if interrupted and told:  # with `progress` or without: half a frame must not pass for a whole one
        print(told)
    if work.options.progress:
        print(work.closing_text())
    return work.frame(), interrupted


def cost(*, by: str | None = None, everything: bool = False, since: str | date | timedelta | None = None) -> pd.DataFrame:
    """Return what the session spent: one row for each model request and paid call, or sums.

    `by` is None or one of question, model, provider, kind, day, session; every grouping sums up to
    the same total. `everything` is all sessions in the ledger. `since` is only what came later: "7d", "24h", "30m" ago, a date,
    or a moment (without a zone: UTC); of all sessions, when that is before this one began. Column `usd` is US dollars; an
    unknown price is NaN, never 0. The frame's `summary` has the exact total as a Decimal.

    >>> list(cost().columns[:4])
    ['time', 'question', 'kind', 'name']

    Raises:
        ConfigError: there is no such grouping, or `since` is no moment.
    """
    return session().cost(by=by, everything=everything, since=since)
