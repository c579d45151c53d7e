"""One enrichment: plan, look into the store, ask for what is missing, keep each row as it comes, assemble.

Rows go through a fixed number of slots; each slot takes a row, asks, keeps what it got in the store, and takes the next one, so
that at no time more than `concurrency` rows are under way. What stops a run (a budget, an interrupt, the same failure again
and again at the start) stops it between rows or by cancelling them; every row gets a status either way.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from ipy_websearch.enrichment.legacy.assemble import assemble
from ipy_websearch.enrichment.legacy.bar import Tally
from ipy_websearch.enrichment.legacy.bench import Bench
from ipy_websearch.enrichment.legacy.funds import Funds
from ipy_websearch.enrichment.legacy.outcome import NOT_ASKED, Cell, Outcome, Status, answered
from ipy_websearch.enrichment.legacy.plan import Inputs, Plan
from ipy_websearch.enrichment.legacy.report import Estimate, Report, alike, make_estimate, make_report
from ipy_websearch.enrichment.legacy.row import Asked, RowAsker, make_recipe
from ipy_websearch.enrichment.legacy.schedule import Gate
from ipy_websearch.enrichment.legacy.sender import Sender
from ipy_websearch.enrichment.legacy.shelf import Shelf
from ipy_websearch.enrichment.legacy.store import Stored
from ipy_websearch.errors import EnrichmentError
from ipy_websearch.events import Money
from ipy_websearch.money.booking import Booking
from ipy_websearch.money.prices import model_cost
from ipy_websearch.options import EnrichOptions
from ipy_websearch.usage import Usage

if TYPE_CHECKING:
    import pandas as pd

SAME_FAILURES = 20
"""More equal failures in a row than this, before anything has succeeded, end the run."""


class Used(Protocol):
    """What a row has used: US dollars (None: unknown) and seconds."""

    @property
    def cost_usd(self) -> Money:
        """US dollars, None when a price is unknown."""

    @property
    def seconds(self) -> float:
        """Seconds of requests and searches, waiting for admission left out."""


class Enrichment:
    """One run over one plan; `run` it once, then `frame()` gives the result, also after `stop()` or an error."""

    def __init__(self, frame: pd.DataFrame, plan: Plan, bench: Bench, options: EnrichOptions) -> None:
        self.plan = plan
        self.outcomes: list[Outcome | None] = [None] * len(plan.inputs)
        self.progress = Tally(total=sum(bool(plan.askable(inputs)) for inputs in plan.inputs))
        self.cost_usd: Money = Decimal(0)
        self._frame = frame
        self._bench = bench
        self._options = options
        self._stored: dict[int, dict[int, Stored]] = {}
        self._stop: tuple[Status, str] | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._same_failures: tuple[str, int] = ("", 0)
        self._gave_up = ""
        self._book: Booking | None = None
        self._scale = Decimal(1)
        self._notes = [*plan.notes, *([f"replayed from {bench.replayed_from}"] if bench.replayed_from else [])]
        self._requests = 0
        self._seconds = 0.0
        tools = f"web_search({bench.provider or ''}) x {options.max_searches}" if options.max_searches else "none"
        tools += f", web_fetch x {options.max_fetches}" if options.max_fetches else ""
        self._shelf = Shelf(plan, bench.store, bench.model, tools)

    # --- from outside -----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Fill what can be filled.

        Raises:
            EnrichmentError: it was stopped because every row failed alike, and there is nothing to give back.
        """
        self._loop = asyncio.get_running_loop()
        # The first price of a model takes 0.1 s to look up: do that while the first rows are asked, not on the event loop.
        self._loop.run_in_executor(None, model_cost, self._bench.model, Usage())
        start = time.monotonic()
        try:
            await self._ask_all(self._missing())
        finally:
            self._seconds = time.monotonic() - start
            self._settle()
        if self._stop is not None and self._stop[0] == "error" and not any(o and o.status == "ok" for o in self.outcomes):
            raise EnrichmentError(self._gave_up)

    def stop(self) -> None:
        """Stop a run from any thread: nothing more is sent, rows under way are cut off, `run` returns."""
        if self._loop is not None and not self._loop.is_closed():
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._halt, "interrupted", "interrupted", True)

    def frame(self) -> pd.DataFrame:
        """Return the frame as far as it is, with the report in `attrs["report"]`."""
        frame = assemble(self._frame, self.plan.columns, self.plan.place, self.outcomes, sources=self._options.sources)
        frame.attrs["report"] = self.report()
        return frame

    def report(self) -> Report:
        """Return what the run came to."""
        counts = [0] * len(self.outcomes)
        for n in self.plan.place:
            if n >= 0:
                counts[n] += 1
        names = (", ".join(value or "–" for value in inputs) for inputs in self.plan.inputs)
        cost = None if self.cost_usd is None else float(self.cost_usd)
        return make_report(
            self.outcomes,
            counts,
            names,
            requests=self._requests,
            cost_usd=cost,
            seconds=self._seconds,
            warnings=[*self._shelf.warnings, *self._notes],
        )

    @property
    def options(self) -> EnrichOptions:
        """How it is done."""
        return self._options

    @property
    def is_sample(self) -> bool:
        """Whether only a sample of the rows is asked."""
        return self.plan.sample is not None

    def estimate(self) -> Estimate:
        """Return what the whole frame would take, judged by the rows that have been asked."""
        stored = self._shelf.count(self.plan.all_inputs) if self._options.resume else 0
        return make_estimate(self.outcomes, len(self.plan.place), self._askable_in_all(), stored, self._options.concurrency)

    def _askable_in_all(self) -> int:
        return sum(bool(self.plan.askable(inputs)) for inputs in self.plan.all_inputs)

    # --- what is there already --------------------------------------------------------------------------------------

    def _missing(self) -> list[int]:
        """Fill what the store has, mark what cannot be asked, and return the rows to ask."""
        missing = []
        for n, stored in self._shelf.look_up(self.plan.inputs, self._options.resume):
            inputs = self.plan.inputs[n]
            columns = self.plan.askable(inputs)
            if not columns:
                self.outcomes[n] = Outcome("skipped", error=f"skipped: {self.plan.missing(inputs)} is missing")
            elif all(c in stored for c in columns):
                self.outcomes[n] = self._from_store(inputs, stored)
                self.progress.cached += 1
            else:
                if stored:
                    self._stored[n] = stored
                missing.append(n)
        return missing

    def _from_store(self, inputs: Inputs, stored: Mapping[int, Stored]) -> Outcome:
        known = [s.cost_usd for s in stored.values() if s.cost_usd is not None]
        worth = sum(known) if len(known) == len(stored) else None
        cells = self._ordered({c: s.cell for c, s in stored.items()})
        seconds = sum(s.seconds for s in stored.values())
        return Outcome("ok", cells, self._note(inputs), 0.0, worth, seconds, cached=True)

    def _ordered(self, cells: Mapping[int, Cell]) -> tuple[Cell, ...]:
        return tuple(cells.get(c, NOT_ASKED) for c in range(len(self.plan.columns)))

    def _note(self, inputs: Inputs) -> str:
        """Return what a filled row should say of columns that could not be asked, "" when all could."""
        return "" if None not in inputs else f"not all columns were asked: {self.plan.missing(inputs)} is missing"

    # --- asking -----------------------------------------------------------------------------------------------------

    async def _ask_all(self, rows: list[int]) -> None:
        if not rows or self._stop is not None:
            return
        books = self._book = self._book or self._books(len(rows))
        funds = Funds(self._bench.model, self._bench.budget)
        gate = self.progress.gate = Gate(self._options.concurrency)
        sender = Sender(self._bench.client, gate, funds, self._bench.timeout_s)
        queue = iter(rows)
        slots = min(self._options.concurrency, len(rows))
        asker = RowAsker(make_recipe(self._bench, self._options), self.plan.columns, sender, books)
        try:
            if funds.bounded:  # under a ceiling the first row goes alone: it shows whether rows cost what they are taken to
                await self._together([self._slot(itertools.islice(queue, 1), asker)])
            await self._together([self._slot(queue, asker) for _ in range(slots)])
        finally:
            self._requests, self._scale = self._requests + sender.sent, funds.scale

    def _books(self, rows: int) -> Booking:
        """Return where the run's requests are written down: it is one question of the ledger."""
        question = f"enrich {', '.join(c.name for c in self.plan.columns)} ({rows:,} rows)"
        bench = self._bench
        whose = (bench.ledger, bench.session_id, bench.budget.question_id, question)
        return Booking(*whose, bench.notebook, bench.replayed_from)

    async def _together(self, slots: Sequence[Coroutine[Any, Any, None]]) -> None:
        """Run slots to their end; nothing of them is left when this returns, however it does."""
        self._tasks = [asyncio.create_task(slot) for slot in slots]
        try:
            await asyncio.wait(self._tasks)
        finally:
            for task in self._tasks:
                task.cancel()
            results = await asyncio.gather(*self._tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _slot(self, queue: Iterator[int], asker: RowAsker) -> None:
        await asker.sender.turns.take()
        for n in queue:
            if self._stop is not None:
                return
            await self._row(n, asker)

    async def _row(self, n: int, asker: RowAsker) -> None:
        """Ask for one row; its outcome is set however that ends, and what it cost is booked."""
        inputs, stored = self.plan.inputs[n], self._stored.pop(n, {})
        numbers = tuple(c for c in self.plan.askable(inputs) if c not in stored)
        asked = Asked()
        try:
            await asker.ask(asked, numbers, self.plan.values(inputs))
            if asked.status == "ok":
                account = asked.account
                assert account is not None
                account.close()  # before its values are kept: what is in the store has its cost in the ledger
                self.keep(inputs, numbers, asked.cells, account.cost_usd, account.seconds)
            elif asked.status == "budget":
                self._halt("budget", asked.error, False)
        finally:
            if asked.account is not None:
                asked.account.close()
            self._finish(n, self._outcome(n, stored, numbers, asked), asked.account)

    def keep(self, inputs: Inputs, numbers: Sequence[int], cells: Sequence[Cell], cost: Money, seconds: float) -> None:
        """Put a row's new cells into the store; they are on disk when this returns."""
        self._shelf.keep(inputs, numbers, cells, None if cost is None else float(cost), seconds)

    def _outcome(self, n: int, stored: Mapping[int, Stored], numbers: Sequence[int], asked: Asked) -> Outcome:
        """Return the outcome of a row of which some cells may have been in the store."""
        if asked.status != "ok":
            return Outcome(asked.status, error=asked.error)
        found = {**{c: s.cell for c, s in stored.items()}, **dict(zip(numbers, asked.cells, strict=True))}
        return answered(self._ordered(found), self._note(self.plan.inputs[n]))

    def _finish(self, n: int, outcome: Outcome, used: Used | None) -> None:
        """Take a row's outcome; `used` says what it cost and took, when it was asked at all."""
        if used is not None:
            cost = used.cost_usd
            self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost
            outcome.cost_usd = outcome.worth_usd = None if cost is None else float(cost)
            outcome.seconds = used.seconds
        if outcome.error == "interrupted" and self._stop is not None:
            outcome.status, outcome.error = self._stop
        self.outcomes[n] = outcome
        self.progress.cost_usd = float(self.cost_usd or 0)
        if outcome.status == "ok":
            self.progress.done += 1
        elif outcome.status == "error":
            self.progress.failed += 1
            self._count_failure(outcome.error)

    def _count_failure(self, message: str) -> None:
        """End the run when it begins with the same failure over and over."""
        if self.progress.done or self._stop is not None:
            return
        same, count = self._same_failures
        self._same_failures = (alike(message), count + 1 if alike(message) == same else 1)
        if self._same_failures[1] > SAME_FAILURES:
            self._gave_up = f"stopped after {SAME_FAILURES + 1} rows failed alike: {message}"
            self._halt("error", message, True)

    def _halt(self, status: Status, error: str, now: bool) -> None:
        """Take no more rows; `now` also cuts off those under way."""
        self._stop = self._stop or (status, error)
        if now:
            current = asyncio.current_task()
            for task in self._tasks:
                if task is not current:
                    task.cancel()

    def _settle(self) -> None:
        """Give the rows that were never asked their status, and tell the session what was spent."""
        status, error = self._stop or ("interrupted", "interrupted")
        for n, outcome in enumerate(self.outcomes):
            if outcome is None:
                self.outcomes[n] = Outcome(status, error=error)
        self._notes += self.progress.end()
        self._notes += self._bench.ledger.news()
        self._bench.spent(self.cost_usd)
