"""One enrichment: plan, look into the store, ask for what is missing, store each row as it ends, put the frame together.

Rows are asked for by an `Ask`: this process (`Rows`), Message Batches (`batch`), or the workers of a Dask cluster (`dask`). It
passes each row's outcome to `finish`. The run stops by itself when the budget is used up, at a failure that every further row
would meet, and when the first rows all fail alike. Every row has a status afterwards.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import time
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeVar

from ipy_websearch import background
from ipy_websearch.enrichment.batch import ask_in_batches, native_search
from ipy_websearch.enrichment.columns import Cell, Column, Inputs, Plan, inputs_of, parse_columns, plan_of
from ipy_websearch.enrichment.frames import added_columns, default_client, given_frame, is_dask
from ipy_websearch.enrichment.limiter import ConcurrencyLimiter
from ipy_websearch.enrichment.report import Outcome, Progress, Report, Status, alike, make_report, rest_text
from ipy_websearch.enrichment.row import PROBES, START_S, Row, RowConfig, Searches, max_tokens, system_text
from ipy_websearch.enrichment.store import cell_key, lookup_key
from ipy_websearch.errors import ConfigError, EnrichmentError
from ipy_websearch.loop.ask import model_to_ask
from ipy_websearch.money.budget import Booking, Budget, RunBudget
from ipy_websearch.money.ledger import Reservation
from ipy_websearch.money.prices import add_money, model_cost, own_prices
from ipy_websearch.options import EnrichOptions, checked
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.passages import ALL_TOKENS
from ipy_websearch.results import Usage
from ipy_websearch.text import plural
from ipy_websearch.tools.web import PageReading

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.session import Session

K = TypeVar("K")

# Seconds in which running rows may still end when a permanent failure stops the run: their requests are paid for.
GRACE_S = 5.0

# Rows that are looked up in the store together.
ROWS_AT_ONCE = 500

# New objects after which Python looks for garbage cycles while rows are asked; its own 700 are those of a third of a row.
OBJECTS_A_COLLECTION = 50_000

NATIVE = "anthropic"

# --- planning ---------------------------------------------------------------------------------------------------------


def start(session: Session, options: EnrichOptions) -> Enrichment:
    """Return an enrichment, planned and not yet run; see `ipy_websearch.enrich` for options and errors."""
    batch, most, cluster = options.mode == "batch", options.max_searches, options.cluster
    if cluster is None and is_dask(options.frame) and not batch:
        cluster = default_client()
    _check_mode(session, options, cluster, batch)
    given = given_frame(options.frame)
    columns = parse_columns(options.columns, given.names, sources=options.sources)
    fields = list(dict.fromkeys(field for column in columns for field in column.fields))
    plan = plan_of(inputs_of(given.read(fields), fields), columns, fields, options.sample)
    client, model = model_to_ask(session, options.model or session.settings.enrich_model)
    own_prices()  # a mistake in the user's price file shows here, before anything is spent
    settings, defaults = session.settings, session.search_request("placeholder")
    # A provider named by the caller must be usable even when nothing is searched; that of the settings only for a search.
    provider = session.provider_to_ask(options.provider) if options.provider or (most and not batch) else None
    budget = session.budget.for_question(
        uuid.uuid4().hex[:12],
        checked("budget_usd", options.budget_usd),
        whose="enrichment's budget",
        raised_by="--budget USD or budget_usd=…",
    )
    searches = None
    if batch:
        native_search(model, client, most, defaults)  # a platform without batches is refused here
    elif most:
        searches = searches_of(session, provider, options.concurrency, budget, defaults, client.offline)
    exact = session.recording is not None
    config = RowConfig(
        client=client,
        model=model,
        platform=client.platform_for(model),
        system=system_text(most, cites=batch and most > 0),
        limiter=ConcurrencyLimiter(options.concurrency, start_s=START_S),
        timeout_s=settings.timeout_s,
        defaults=defaults,
        searches=searches,
        max_searches=most,
        pages=PageReading(lambda: session.reader, options.read_pages, exact=exact) if options.read_pages else None,
        retrieve_first=settings.retrieve_first,
    )
    ask: Ask = ask_in_batches if batch else Rows().ask
    if cluster is not None and not exact:  # requests of workers would bypass the cassette
        ask = _workers(session, cluster, provider)
    return Enrichment(session, plan, options, config, budget, ask, put=given.put)


def _check_mode(session: Session, options: EnrichOptions, cluster: Any, batch: bool) -> None:
    elsewhere = batch or cluster is not None
    conflicts = {
        "mode='batch' needs no cluster: the API does the work; leave one of the two out": batch and cluster is not None,
        "mode='batch' searches with the API's own web search; leave provider out": batch and options.provider,
        "pages are read by this process: leave read_pages out, or mode='batch' and the cluster": elsewhere
        and options.read_pages,
        "batches do not go onto cassettes; leave mode='batch' out, or `%websearch stop` first": batch and session.recording,
    }
    for message, is_wrong in conflicts.items():
        if is_wrong:
            raise ConfigError(message)


def _workers(session: Session, cluster: Any, provider: str | None) -> Ask:
    try:
        from ipy_websearch.enrichment.dask import DaskWorkers
    except ImportError as exc:
        raise ConfigError('a Dask cluster needs distributed: pip install "ipy_websearch[dask]"') from exc
    return DaskWorkers(session, cluster, provider).ask


def searches_of(
    session: Session, provider: str | None, concurrency: int, budget: Budget, request: SearchRequest, local_stands_in: bool
) -> Searches:
    """Return the searches of a run like `request`; with `local_stands_in`, the local index may answer for Wikipedia."""
    charges = session.router.expected_charges(provider, request.count, worst=budget.bounded)
    return Searches(session.router, provider, concurrency, charges, local_stands_in)


# --- running ---------------------------------------------------------------------------------------------------------

# Asks for distinct rows and passes each outcome to `finish`; once it has ended or was cancelled, nothing is running.
Ask = Callable[["Enrichment", Sequence[int]], Coroutine[Any, Any, None]]


class Enrichment:
    """One run over one plan; `run` it once, then `frame()` gives the result, also after `stop()` or an error.

    `question` is the run's name in the ledger. Only values that were stored at `since` (seconds of the epoch) or later are
    taken from the store.
    """

    def __init__(
        self,
        session: Session,
        plan: Plan,
        options: EnrichOptions,
        config: RowConfig,
        budget: Budget,
        ask: Ask,
        *,
        put: Callable[[pd.DataFrame], Any] = lambda added: added,
        question: str = "",
        since: float = 0.0,
    ) -> None:
        self.plan = plan
        self.options = options
        self.config = config
        self.budget = budget
        self.ledger = session.ledger
        self.store = session.enrich_store
        self.outcomes = [Outcome(asked=plan.askable(inputs), lacks=plan.missing(inputs)) for inputs in plan.inputs]
        self.progress = Progress(total=sum(bool(outcome.asked) for outcome in self.outcomes))
        self.notices: dict[str, None] = {f"replayed from {session.replayed_from}": None} if session.replayed_from else {}
        self.stopped: tuple[Status, str] | None = None
        self.question = question or f"enrich {', '.join(c.name for c in plan.columns)} ({self.progress.total:,} rows)"
        self._session = session
        self._ask = ask
        self._put = put
        self._since = since
        self._asking: asyncio.Task[None] | None = None
        self._failures: Counter[str] = Counter()
        self._seconds = 0.0
        native: tuple[str, Mapping[str, Any]] = (NATIVE if options.mode == "batch" else "", {})
        planned = config.searches.first(config.defaults) if config.searches is not None else native
        self._lookup = self._lookup_key(*planned)

    # --- the caller's side -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fill every cell that can be filled. The ledger writes all changes of one turn of the event loop in one transaction,
        so a row's cost and its values stay together.

        Raises:
            EnrichmentError: every row that was asked failed alike, and rows are left that would fail too.
        """
        began = time.monotonic()
        try:
            if (rows := self._missing()) and self.stopped is None:
                self._asking = asyncio.create_task(self._prepare_and_ask(rows))
                await self._asking
        except asyncio.CancelledError:
            if self.stopped is None:  # it was not `halt` that cut the rows off
                raise
        finally:
            self._seconds = round(time.monotonic() - began, 3)
            left = self._settle()
        progress = self.progress
        if self.stopped is not None and self.stopped[0] == "error" and left and not progress.done + progress.cached:
            begun = f"stopped after {plural(progress.failed, 'row')} failed: " if progress.failed else ""
            raise EnrichmentError(f"{begun}{self.stopped[1]}")

    async def _prepare_and_ask(self, rows: Sequence[int]) -> None:
        if self.config.model:
            # The first price takes 0.1 s to look up: do that while the first rows are asked, not on the event loop.
            asyncio.get_running_loop().run_in_executor(None, model_cost, self.config.model, Usage())
            await self.config.client.prepare()
        await self._ask(self, rows)

    def stop(self) -> None:
        """Stop a run from any thread, one that is about to begin too: nothing more is sent, rows under way are cut off, `run`
        returns."""
        background.loop().call_soon_threadsafe(self.halt, "interrupted", "interrupted", 0.0)

    def frame(self) -> Any:
        """Return the frame as far as it is filled, of the kind that was given; a pandas frame has the report in
        `attrs["report"]`."""
        added = added_columns(self.plan, self.outcomes, sources=self.options.sources)
        added.attrs["report"] = self.report()
        return self._put(added)

    def report(self) -> Report:
        """Return the report of the run."""
        return make_report(self.plan, self.outcomes, self.progress.cost_usd, seconds=self._seconds, warnings=list(self.notices))

    def closing_text(self) -> str:
        """Return the closing lines: the report, and for a sample the estimate for the other rows."""
        left_out = self.plan.left_out
        rest = [rest_text(self.outcomes, left_out, self.options.concurrency)] if left_out else []
        return "\n".join([str(self.report()), *rest])

    # --- the store --------------------------------------------------------------------------------------

    def _missing(self) -> list[int]:
        """Fill rows from the store, mark those that lack their inputs, and return the numbers of the rest."""
        missing = []
        for n, cells in enumerate(self._stored()):
            outcome = self.outcomes[n]
            outcome.asked = tuple(c for c in outcome.asked if c not in cells)
            outcome.cells = cells
            if outcome.asked:
                missing.append(n)
            elif not cells:
                outcome.status, outcome.error = "skipped", f"skipped: {outcome.lacks} is missing"
            else:
                outcome.cost_usd = add_money(*(cell.cost_usd for cell in cells.values()))
                outcome.seconds, outcome.cached = sum(cell.seconds for cell in cells.values()), True
                outcome.fill(())
                self.finish(n, outcome)
        return missing

    def _stored(self) -> Iterator[dict[int, Cell]]:
        """Yield each row's stored cells, by column number."""
        columns, rows = self.plan.columns, self.plan.inputs
        for first in range(0, len(rows), ROWS_AT_ONCE):
            keys = [self._keys(inputs) for inputs in rows[first : first + ROWS_AT_ONCE]]
            wanted = {key: columns[c] for row in keys for c, key in row.items()} if self.options.resume else {}
            found = self.store.get(wanted, self._since)
            yield from ({c: found[key] for c, key in row.items() if key in found} for row in keys)

    def _keys(self, inputs: Inputs, provider: str | None = None) -> dict[int, bytes]:
        """Return the store's keys of a row's cells, by column number; `provider` answered instead of the planned one."""
        lookup = self._lookup if provider is None else self._lookup_key(provider, {})
        values, columns, model = self.plan.values(inputs), self.plan.columns, self.config.model
        return {c: cell_key(model, lookup, columns[c], values) for c in self.plan.askable(inputs)}

    def _lookup_key(self, provider: str, options: Mapping[str, Any]) -> str:
        return lookup_key(self.config.defaults, provider, options, self.config.max_searches, self.options.read_pages)

    # --- for an `Ask` --------------------------------------------------------------------------------------------

    def row_key(self, n: int) -> str:
        """Return the key of a row, 64 characters: a digest of the API's address and of the store's keys of its columns."""
        keys, address = self._keys(self.plan.inputs[n]), os.environ.get("ANTHROPIC_BASE_URL", "")
        return hashlib.sha256(b"".join([address.encode(), *(keys[c] for c in self.outcomes[n].asked)])).hexdigest()

    def asked(self, n: int) -> tuple[list[Column], dict[str, str | None]]:
        """Return the columns to ask a row for, and its values."""
        return [self.plan.columns[c] for c in self.outcomes[n].asked], self.plan.values(self.plan.inputs[n])

    def names(self) -> dict[str, Any]:
        """Return the names in a ledger row of this run: all its rows are one question."""
        return {"session": self._session.id, "question_id": self.budget.question_id, "question": self.question}

    def booking(self, budget: RunBudget) -> Booking:
        """Return the booking of one row."""
        return Booking(self.ledger, **self.names(), replayed_from=self._session.replayed_from, budget=budget)

    def reserve(self, worst: Mapping[K, Decimal | None], lease_s: float, id: str = "") -> tuple[list[K], Reservation]:
        """Reserve the worst-case cost of as many rows as fit, in order; return those rows and the reservation.

        Without a budget all rows fit, and nothing is reserved.

        Raises:
            BudgetExceededError: not even the first fits, or its price is unknown.
        """
        left = self.budget.left()
        if left is None:
            return list(worst), Reservation(self.ledger, id)
        sums = list(accumulate(worst.values(), add_money))
        fitting = max(sum(usd is not None and usd <= left for usd in sums), 1)
        return list(worst)[:fitting], self.budget.reserve(sums[fitting - 1], lease_s=lease_s, what="a row", id=id)

    def finish(self, n: int, outcome: Outcome) -> None:
        """Record a row's outcome: in the counts, and in the store when the row was answered."""
        self.outcomes[n] = outcome
        progress = self.progress
        progress.cost_usd = add_money(progress.cost_usd, outcome.spent_usd)
        self.notices.update(dict.fromkeys(outcome.notices))
        if outcome.status == "ok":
            self._keep(n, outcome)
            if outcome.cached:
                progress.cached += 1
            else:
                progress.done += 1
            return
        outcome.cells = {}
        if outcome.status == "error":
            progress.failed += 1
            self._failures[alike(outcome.error)] += 1
            in_vain = not progress.done and self._failures[alike(outcome.error)] >= PROBES
            if self.stopped is None and (outcome.permanent or in_vain):
                self.notices[f"stopped: {outcome.error}"] = None
                self.halt("error", outcome.error, GRACE_S)

    def _keep(self, n: int, outcome: Outcome) -> None:
        """Store the valid cells of a row; its cost and time are divided among them."""
        kept = {c: outcome.cells[c] for c in outcome.asked if not outcome.cells[c].fault}
        if outcome.provider == "" or not kept:
            return
        keys, columns = self._keys(self.plan.inputs[n], outcome.provider), self.plan.columns
        cost_usd = None if outcome.cost_usd is None else outcome.cost_usd / len(kept)
        shares = {c: cell._replace(cost_usd=cost_usd, seconds=outcome.seconds / len(kept)) for c, cell in kept.items()}
        self.store.put(self.config.model, [(keys[c], columns[c], cell) for c, cell in shares.items()])

    def halt(self, status: Status, error: str, grace_s: float | None) -> None:
        """Start no more rows, and cut off the running ones after `grace_s` seconds (None: let them end)."""
        self.stopped = self.stopped or (status, error)
        if grace_s is not None:
            asyncio.get_running_loop().call_later(grace_s, self._cut_off)

    def _cut_off(self) -> None:
        """Cut off the running rows, once, so that each can end properly."""
        if self._asking is not None and not self._asking.cancelling():
            self._asking.cancel()

    def _settle(self) -> int:
        """Write pending ledger rows, and set the status of the rows that did not end; return their number."""
        self.ledger.flush()
        left = [outcome for outcome in self.outcomes if outcome.status == "interrupted"]
        for outcome in left:
            outcome.cells = {}
            outcome.status, outcome.error = self.stopped or (outcome.status, outcome.error)
        self.notices.update(dict.fromkeys(self.ledger.news()))
        self._session.spent_usd = add_money(self._session.spent_usd, self.progress.cost_usd)
        return len(left)


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let Python look for garbage cycles rarely: at its usual pace that takes a fifth of the CPU time of rows, in pauses in
    which all of them wait."""
    first, *others = gc.get_threshold()
    if not 0 < first < OBJECTS_A_COLLECTION:  # switched off, or another run has set it
        yield
        return
    gc.set_threshold(OBJECTS_A_COLLECTION, *others)
    try:
        yield
    finally:
        gc.set_threshold(first, *others)


class Rows:
    """Asks for rows in this process, `concurrency` at a time. A row that does not fit into the budget waits for others."""

    def __init__(self, kind: type[Row] = Row) -> None:
        self._kind = kind
        self._asking = 0
        self._ended = asyncio.Event()

    async def ask(self, run: Enrichment, rows: Sequence[int]) -> None:
        """Ask for rows; see `Ask`."""
        run.progress.limiter = run.config.limiter
        queue = iter(rows)
        try:
            with _rare_collections():
                async with asyncio.TaskGroup() as group:
                    for _ in range(min(run.options.concurrency, len(rows))):
                        group.create_task(self._work(run, queue))
        except ExceptionGroup as failures:  # an error outside of the rows, such as the store's: the first one tells enough
            raise failures.exceptions[0] from None

    async def _work(self, run: Enrichment, queue: Iterator[int]) -> None:
        for n in queue:
            progress = run.progress
            while self._asking and not progress.done and progress.failed + self._asking >= PROBES and run.stopped is None:
                await self._ended.wait()
            if run.stopped is not None:
                return
            outcome = run.outcomes[n]
            try:
                while not await self._has_ended(run, n, outcome):
                    await self._ended.wait()
            finally:
                run.finish(n, outcome)
            await asyncio.sleep(0)  # the ledger writes what has ended in this turn before another request goes out

    async def _has_ended(self, run: Enrichment, n: int, outcome: Outcome) -> bool:
        """Ask for a row and return whether it has ended; one that the budget had no room for may be asked again later."""
        config, (columns, values) = run.config, run.asked(n)
        planned = config.searches.charges * config.max_searches if config.searches is not None else ()
        least = config.max_tokens or max_tokens(columns)
        budget = RunBudget(config.model, run.budget, least=least, timeout_s=config.timeout_s, planned=planned)
        budget.result_tokens += ALL_TOKENS if config.pages is not None else 0
        self._asking += 1
        try:
            await self._kind(config, columns, values, run.booking(budget), outcome).ask()
        finally:
            self._asking -= 1
            self._ended.set()  # for those who wait now
            self._ended.clear()
        if outcome.status != "budget" or outcome.requests:
            return True
        if self._asking and run.stopped is None:
            return False
        run.halt("budget", outcome.error, None)
        return True
