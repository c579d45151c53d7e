"""One enrichment: plan, look into the store, ask for what is missing, store each row as it ends, put the frame together.

Who asks is an `Asker`: this process (`Rows`), Message Batches (`batch`), or the workers of a Dask cluster (`dask`). It tells
`finish` what came of each row. The run stops by itself when the budget is used up, at a failure that every further row would
meet, and when the first rows all fail alike. Every row has a status afterwards.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ipy_websearch.enrichment.columns import NOT_ASKED, Cell
from ipy_websearch.enrichment.frames import assemble
from ipy_websearch.enrichment.plan import Inputs, Plan
from ipy_websearch.enrichment.progress import Progress
from ipy_websearch.enrichment.prompt import max_tokens, record_tool
from ipy_websearch.enrichment.report import Estimate, Outcome, Report, Status, alike, answered, make_estimate, make_report
from ipy_websearch.enrichment.row import Row, RowConfig, RowResult
from ipy_websearch.enrichment.store import Record, Store, Stored, StoreView, lookup_key
from ipy_websearch.errors import EnrichmentError
from ipy_websearch.events import Money
from ipy_websearch.money.budget import Booking, Budget, RunBudget
from ipy_websearch.money.ledger import Ledger, LedgerRow, Reservation
from ipy_websearch.money.prices import add_money, model_cost
from ipy_websearch.options import EnrichOptions
from ipy_websearch.tools.passages import ALL_TOKENS
from ipy_websearch.usage import Usage

if TYPE_CHECKING:
    import pandas as pd

K = TypeVar("K")

PROBES = 20
"""So many rows are begun before one has succeeded. When all of them fail alike, the run ends."""

GRACE_S = 5.0
"""Seconds that rows under way have to end in when a permanent failure stops the run: their requests are paid for."""


class Asker(Protocol):
    """Asks for rows and tells `run.finish` what came of each."""

    async def ask(self, run: Enrichment, rows: Sequence[int]) -> None:
        """Ask for these distinct rows; when it returns or raises, nothing is under way any more."""

    def cancel(self) -> None:
        """Cut off what is under way."""


@dataclass(frozen=True, slots=True)
class Accounts:
    """Where a run books and keeps things: ledger, store, budget, the names in its ledger rows; `spent` is told the cost."""

    ledger: Ledger
    store: Store
    budget: Budget
    session_id: str
    notebook: str
    replayed_from: str
    spent: Callable[[Money], None]

    def names(self, question: str) -> dict[str, str]:
        """Return the names in a ledger row of this run."""
        whose = {"session": self.session_id, "question_id": self.budget.question_id, "question": question}
        return {**whose, "notebook": self.notebook}


class Enrichment:
    """One run over one plan; `run` it once, then `frame()` gives the result, also after `stop()` or an error.

    `provider` is the search provider planned for, with its options: part of the store's keys.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        plan: Plan,
        options: EnrichOptions,
        config: RowConfig,
        accounts: Accounts,
        asker: Asker,
        provider: tuple[str, Any],
    ) -> None:
        self.plan = plan
        self.options = options
        self.config = config
        self.accounts = accounts
        self.outcomes: list[Outcome | None] = [None] * len(plan.inputs)
        self.progress = Progress(total=sum(bool(plan.askable(inputs)) for inputs in plan.inputs))
        self.cost_usd: Money = Decimal(0)
        self.requests = 0
        self.notices: dict[str, None] = dict.fromkeys(plan.notes)
        self.stopped: tuple[Status, str] | None = None
        self.question = f"enrich {', '.join(c.name for c in plan.columns)} ({self.progress.total:,} rows)"
        self.asker = asker
        self._frame = frame
        self._stored: dict[int, dict[int, Stored]] = {}
        self._ended: list[tuple[int, RowResult]] = []
        self._unbooked: list[LedgerRow] = []
        self._flush_due = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._same_failures = ("", 0)
        self._seconds = 0.0
        self._view = StoreView(accounts.store, plan, config.model, self._lookup(*provider))
        if accounts.replayed_from:
            self.notices[f"replayed from {accounts.replayed_from}"] = None

    def _lookup(self, provider: str, options: Any = None) -> str:
        given = self.options
        return lookup_key(
            self.config.defaults, provider, options or {}, given.max_searches, given.max_fetches, given.read_pages
        )

    # --- from outside -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fill what can be filled.

        Raises:
            EnrichmentError: every row that was asked failed alike, and rows are left that would fail too.
        """
        self._loop = asyncio.get_running_loop()
        # The first price of a model takes 0.1 s to look up: do that while the first rows are asked, not on the event loop.
        self._loop.run_in_executor(None, model_cost, self.config.model, Usage())
        began = time.monotonic()
        try:
            if (rows := self._missing()) and self.stopped is None:
                await self.config.client.prepare()
                await self.asker.ask(self, rows)
        finally:
            self._seconds = time.monotonic() - began
            left = self._settle()
        if self.stopped is not None and self.stopped[0] == "error" and left and not self._any_ok():
            failed = sum(o is not None and o.status == "error" for o in self.outcomes) - left
            begun = f"stopped after {failed:,} row{'s' * (failed != 1)} failed: " if failed else ""
            raise EnrichmentError(f"{begun}{self.stopped[1]}")

    def stop(self) -> None:
        """Stop a run from any thread: nothing more is sent, rows under way are cut off, `run` returns."""
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.halt, "interrupted", "interrupted", 0.0)

    def frame(self) -> pd.DataFrame:
        """Return the frame as far as it is filled, which shows its sources, with the report in `attrs["report"]`."""
        from ipy_websearch.frames import EnrichedFrame

        frame = assemble(self._frame, self.plan.columns, self.plan.place, self.outcomes, sources=self.options.sources)
        shown = EnrichedFrame(frame)
        shown.attrs = {**frame.attrs, "report": self.report()}
        return shown

    def report(self) -> Report:
        """Return what the run came to."""
        counts = [0] * len(self.outcomes)
        for n in self.plan.place:
            if n >= 0:
                counts[n] += 1
        return make_report(
            self.outcomes,
            counts,
            (", ".join(value or "–" for value in inputs) for inputs in self.plan.inputs),
            self.plan.columns,
            requests=self.requests,
            cost_usd=_float(self.cost_usd),
            seconds=round(self._seconds, 3),
            warnings=[*self._view.warnings, *self.notices],
        )

    def estimate(self) -> Estimate:
        """Return what the whole frame would take, judged by the rows that have been asked."""
        askable = [inputs for inputs in self.plan.all_inputs if self.plan.askable(inputs)]
        stored = 0
        if self.options.resume:
            stored = sum(len(self.plan.askable(askable[n])) == len(cells) for n, cells in self._view.look_up(askable))
        return make_estimate(self.outcomes, len(self.plan.place), len(askable), stored, self.options.concurrency)

    # --- what is there already --------------------------------------------------------------------------------------

    def _missing(self) -> list[int]:
        """Fill what the store has, mark what cannot be asked, and return the rows to ask."""
        missing = []
        inputs_of = self.plan.inputs
        found = self._view.look_up(inputs_of) if self.options.resume else ((n, {}) for n in range(len(inputs_of)))
        for n, stored in found:
            columns = self.plan.askable(inputs_of[n])
            if not columns:
                self.outcomes[n] = Outcome("skipped", error=f"skipped: {self.plan.missing(inputs_of[n])} is missing")
            elif len(stored) == len(columns):
                self.outcomes[n] = self._from_store(inputs_of[n], stored)
                self.progress.cached += 1
            else:
                self._stored.update({n: stored} if stored else {})
                missing.append(n)
        return missing

    def _from_store(self, inputs: Inputs, stored: dict[int, Stored]) -> Outcome:
        outcome = answered(self._ordered({c: s.cell for c, s in stored.items()}), self._gap(inputs))
        known = [s.cost_usd for s in stored.values() if s.cost_usd is not None]
        outcome.worth_usd = sum(known) if len(known) == len(stored) else None
        outcome.seconds, outcome.cached = sum(s.seconds for s in stored.values()), True
        return outcome

    def _ordered(self, cells: dict[int, Cell]) -> tuple[Cell, ...]:
        return tuple(cells.get(c, NOT_ASKED) for c in range(len(self.plan.columns)))

    def _gap(self, inputs: Inputs) -> list[str]:
        """Return what a filled row should say of columns that could not be asked."""
        return [f"not all columns were asked: {self.plan.missing(inputs)} is missing"] if None in inputs else []

    # --- for the asker ----------------------------------------------------------------------------------------------

    def numbers(self, n: int) -> tuple[int, ...]:
        """Return the columns that a row lacks."""
        stored = self._stored.get(n, {})
        return tuple(c for c in self.plan.askable(self.plan.inputs[n]) if c not in stored)

    def keys(self, n: int) -> dict[int, bytes]:
        """Return the store's keys of the columns that a row lacks."""
        keys = self._view.keys(self.plan.inputs[n])
        return {c: keys[c] for c in self.numbers(n)}

    def book(self, rows: Sequence[LedgerRow]) -> None:
        """Take ledger rows; see `flush`."""
        self._unbooked += rows
        self._flush_soon()

    def finish(self, n: int, result: RowResult) -> None:
        """Take what came of a row; see `flush`. A failure is looked at now: it may keep the next row from being sent."""
        self._ended.append((n, result))
        if result.status == "ok":
            self._flush_soon()
        else:
            self.flush()

    def booking(self, budget: RunBudget) -> Booking:
        """Return the booking of one row: all rows of a run are one question of the ledger."""
        accounts = self.accounts
        whose = (accounts.session_id, accounts.budget.question_id, self.question, accounts.notebook, accounts.replayed_from)
        return Booking(accounts.ledger, *whose, traces=False, budget=budget, write=self.book)

    def reserve(self, worst: Mapping[K, Decimal | None], lease_s: float, id: str = "") -> tuple[list[K], Reservation | None]:
        """Reserve what rows may cost at worst: of as many as fit, in their order; return these, and what is held.

        Without a budget they all fit, and nothing is held.

        Raises:
            BudgetExceededError: not even the first fits, or its price is unknown.
        """
        budget, fitting, total = self.accounts.budget, list[K](), Decimal(0)
        left = budget.left()
        if left is None:
            return list(worst), None
        for key, usd in worst.items():
            if fitting and (usd is None or total + usd > left):
                break
            fitting.append(key)
            if usd is None:
                return fitting, budget.reserve(None, what="a row")
            total += usd
        return fitting, budget.reserve(total, lease_s=lease_s, what="a row", id=id)

    def _flush_soon(self) -> None:
        if not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Write what was taken in this turn of the event loop into ledger and store, and only then show it.

        A hundred rows under way end in groups; a transaction for each row would take as long as its request's own work.
        """
        (rows, self._unbooked), (ended, self._ended), self._flush_due = (self._unbooked, []), (self._ended, []), False
        self.accounts.ledger.book(rows)
        self._view.keep([record for n, result in ended for record in self._records(n, result)])
        for n, result in ended:
            self._show(n, result)

    def _records(self, n: int, result: RowResult) -> list[Record]:
        if result.status != "ok" or result.provider == "":  # several providers answered: no later call can expect the same
            return []
        lookup = "" if result.provider is None else self._lookup(result.provider)
        cells = dict(zip(result.numbers, result.cells, strict=True))
        return self._view.record(self.plan.inputs[n], cells, _float(result.cost_usd), result.seconds, lookup)

    def _show(self, n: int, result: RowResult) -> None:
        self.requests += result.requests
        self.cost_usd = add_money(self.cost_usd, result.cost_usd)
        self.notices.update(dict.fromkeys(result.notices))
        inputs, stored = self.plan.inputs[n], self._stored.pop(n, {})
        if result.status == "ok":
            cells = {c: s.cell for c, s in stored.items()} | dict(zip(result.numbers, result.cells, strict=True))
            outcome = answered(self._ordered(cells), [*result.notices, *self._gap(inputs)])
        else:
            cut_off = self.stopped is not None and result.error == "interrupted"
            status, error = self.stopped if cut_off and self.stopped else (result.status, result.error)
            outcome = Outcome(status, error=error)
        outcome.cost_usd = outcome.worth_usd = _float(result.cost_usd)
        outcome.seconds = result.seconds
        self.outcomes[n] = outcome
        self.progress.cost_usd = float(self.cost_usd or 0)
        self.progress.cells += sum(not cell.missing for cell in outcome.cells)
        if outcome.status == "ok":
            self.progress.done += 1
        elif outcome.status == "error":
            self.progress.failed += 1
            self._count_failure(outcome.error, result.permanent)

    def halt(self, status: Status, error: str, grace_s: float | None) -> None:
        """Take no more rows, and cut off those under way after `grace_s` seconds (None: let them end)."""
        if self.stopped is None:
            self.stopped = (status, error)
        if grace_s is not None and self._loop is not None:
            self._loop.call_later(grace_s, self.asker.cancel)

    def _count_failure(self, message: str, permanent: bool) -> None:
        """End the run when every further row would fail too, or seems to."""
        if self.stopped is not None:
            return
        same, count = self._same_failures
        self._same_failures = (alike(message), count + 1 if alike(message) == same else 1)
        if permanent or (not self.progress.done and self._same_failures[1] >= PROBES):
            self.notices[f"stopped: {message}"] = None
            self.halt("error", message, GRACE_S)

    def _any_ok(self) -> bool:
        return any(outcome is not None and outcome.status == "ok" for outcome in self.outcomes)

    def _settle(self) -> int:
        """Give the rows that were never asked their status; return how many there were."""
        self.flush()
        status, error = self.stopped or ("interrupted", "interrupted")
        left = [n for n, outcome in enumerate(self.outcomes) if outcome is None]
        for n in left:
            self.outcomes[n] = Outcome(status, error=error)
        self.notices.update(dict.fromkeys([*self.progress.end(), *self.accounts.ledger.news()]))
        self.accounts.spent(self.cost_usd)
        return len(left)


def _float(usd: Money) -> float | None:
    return None if usd is None else float(usd)


class Rows:
    """Asks for rows in this process, `concurrency` at a time. A row that does not fit into the budget waits for others."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._asking = self._begun = 0
        self._ended = asyncio.Event()
        self._tools: dict[tuple[int, ...], Any] = {}

    async def ask(self, run: Enrichment, rows: Sequence[int]) -> None:
        """Ask for rows; see `Asker`."""
        run.progress.limiter = run.config.limiter
        queue = iter(rows)
        count = min(run.options.concurrency, len(rows))
        self._tasks = [asyncio.create_task(self._work(run, queue)) for _ in range(count)]
        try:
            await asyncio.wait(self._tasks)
        finally:
            self.cancel()
            results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def cancel(self) -> None:
        """Cut off what is under way."""
        for task in self._tasks:
            task.cancel()

    async def _work(self, run: Enrichment, queue: Iterable[int]) -> None:
        for n in queue:
            self._begun += 1
            while self._begun > PROBES and self._asking and not run.progress.done and run.stopped is None:
                await self._ended.wait()
            if run.stopped is not None:
                return
            result = RowResult(run.numbers(n))
            try:
                await self._row(run, n, result)
            finally:
                run.finish(n, result)

    async def _row(self, run: Enrichment, n: int, result: RowResult) -> None:
        """Ask for a row, again after others have ended when the money did not reach for its first request."""
        while True:
            row = self._new(run, n, result)
            self._asking += 1
            try:
                await row.ask()
            finally:
                self._asking -= 1
                ended, self._ended = self._ended, asyncio.Event()
                ended.set()
            if result.status != "budget" or result.requests:
                return
            if not self._asking or run.stopped is not None:
                run.halt("budget", result.error, None)
                return
            await self._ended.wait()

    def _new(self, run: Enrichment, n: int, result: RowResult) -> Row:
        config, numbers = run.config, result.numbers
        columns = [run.plan.columns[c] for c in numbers]
        if numbers not in self._tools:
            self._tools[numbers] = record_tool(columns)
        planned = config.searches.charges * config.max_searches if config.searches is not None else ()
        least = max_tokens(len(columns))
        budget = RunBudget(config.model, run.accounts.budget, least=least, timeout_s=config.timeout_s, planned=planned)
        budget.result_tokens += ALL_TOKENS if config.pages is not None else 0
        return Row(config, columns, self._tools[numbers], run.plan.values(run.plan.inputs[n]), run.booking(budget), result)
