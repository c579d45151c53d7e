"""`mode="batch"`: rows through the Message Batches API, at half the price of tokens, with the API's own web search.

A row's `custom_id` is its key, a digest of the store's keys of its columns. Before a batch is sent, its rows are written
into the store's file under a token; the API's id is added when it is known. So a run that is interrupted or killed leaves its
batches at the API, where they go on and are paid for; the next call for the same rows waits for them and sends only the others.

Facts (platform.claude.com/docs/en/build-with-claude/batch-processing, read 2026-11): results come in any order, are kept for 29
days, and requests that were not begun after 24 hours expire.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import Cell, Column
from ipy_websearch.enrichment.limiter import backoff_s
from ipy_websearch.enrichment.prompt import (
    NUDGE,
    RECORD,
    Evidence,
    RowError,
    address_of,
    cells_of,
    check_stop_reason,
    record_tool,
    request_body,
    row_text,
)
from ipy_websearch.enrichment.row import RowResult
from ipy_websearch.enrichment.store import Store
from ipy_websearch.errors import BudgetExceededError, EnrichmentError, ModelError
from ipy_websearch.loop.history import assistant_message, user_message
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.requests import FIRST_SEARCH, server_tools
from ipy_websearch.model.tokens import estimate_tokens
from ipy_websearch.money.booking import add_money
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.ledger import LedgerRow, Reservation
from ipy_websearch.money.prices import billed_model, model_cost, worst_case
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.text import fold, shorten, visible
from ipy_websearch.usage import Usage, reported

if TYPE_CHECKING:
    from ipy_websearch.enrichment.run import Enrichment

CHUNK_ROWS, CHUNK_BYTES = 5_000, 32_000_000
"""What goes into one batch: far less than the API takes (100,000 and 256 MB), so that the first rows are back early."""

FIRST_POLL_S, MAX_POLL_S, SLOWER = 2.0, 60.0, 1.5
LEASE_S = 25 * 3_600.0
KEPT_DAYS = 30
MAX_TURNS = 4
"""How many answers a row may take: the API pauses its own searches after a while and wants to be asked to go on."""

BROKEN_TRIES = 3
MAX_SKEW = timedelta(minutes=5)


@dataclass(slots=True)
class PendingBatch:
    """A batch at the API: our token, its id there ("" when no answer came to its creation), and the turns of its rows.

    `rows` maps each custom_id to the messages after the row's first one: empty for a new row.
    """

    token: str
    id: str
    sent: datetime
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    held: Reservation | None = None
    worst: dict[str, Decimal] = field(default_factory=dict)
    poll_s: float = 0.0
    due: float = 0.0
    failures: int = 0
    trouble: str = ""
    bodies: dict[str, Any] = field(default_factory=dict)

    def later(self, told_s: float = 0.0) -> None:
        """Ask after it later, and later each time, not before the API's `retry-after` has passed."""
        self.poll_s = min(max(self.poll_s * SLOWER, FIRST_POLL_S), MAX_POLL_S)
        self.due = time.monotonic() + max(self.poll_s, min(told_s, 600.0))


class BatchStore:
    """The batches that were handed in and not collected, in the file of the enrichment store; only those sent to `address`."""

    def __init__(self, store: Store, model: str = "", address: str | None = None) -> None:
        self._store = store
        self._model = model
        self._address = os.environ.get("ANTHROPIC_BASE_URL", "") if address is None else address

    def open(self) -> list[PendingBatch]:
        """Return the batches of the model, oldest first; those that the API has deleted by now are forgotten."""

        def work(connection: sqlite3.Connection) -> list[PendingBatch]:
            for (token,) in connection.execute("SELECT token FROM batches WHERE time < ?", (time.time() - KEPT_DAYS * 86_400,)):
                self._forget(connection, token)
            query = "SELECT token, batch, time FROM batches WHERE address = ? AND model = ? ORDER BY time"
            found = connection.execute(query, (self._address, self._model)).fetchall()
            made = [PendingBatch(token, id or "", datetime.fromtimestamp(moment, UTC)) for token, id, moment in found]
            for batch in made:
                rows = connection.execute("SELECT row, turns FROM batch_rows WHERE token = ?", (batch.token,))
                batch.rows = {row: json.loads(turns) for row, turns in rows}
            return made

        return self._store.write(work)

    def begin(self, batch: PendingBatch) -> None:
        """Write down a batch that is about to be sent; its rows leave the batches that they were in."""

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany("DELETE FROM batch_rows WHERE row = ?", [(row,) for row in batch.rows])
            moment = batch.sent.timestamp()
            connection.execute(
                "INSERT INTO batches VALUES (?, NULL, ?, ?, ?)", (batch.token, self._address, self._model, moment)
            )
            rows = [(row, batch.token, json.dumps(turns)) for row, turns in batch.rows.items()]
            connection.executemany("INSERT INTO batch_rows VALUES (?, ?, ?)", rows)

        self._store.write(work)

    def name(self, batch: PendingBatch, id: str) -> None:
        """Write down the API's id of a batch."""
        batch.id = id
        self._store.write(lambda c: c.execute("UPDATE batches SET batch = ? WHERE token = ?", (id, batch.token)))

    def collected(self, batch: PendingBatch, rows: Sequence[str]) -> None:
        """Forget rows whose results were taken, and the batch with its last row."""

        def work(connection: sqlite3.Connection) -> None:
            pairs = [(row, batch.token) for row in rows]
            connection.executemany("DELETE FROM batch_rows WHERE row = ? AND token = ?", pairs)
            if not connection.execute("SELECT 1 FROM batch_rows WHERE token = ?", (batch.token,)).fetchone():
                self._forget(connection, batch.token)

        self._store.write(work)

    def forget(self, batch: PendingBatch) -> None:
        """Forget a batch that never arrived or is gone."""
        self._store.write(lambda connection: self._forget(connection, batch.token))

    def _forget(self, connection: sqlite3.Connection, token: str) -> None:
        connection.execute("DELETE FROM batch_rows WHERE token = ?", (token,))
        connection.execute("DELETE FROM batches WHERE token = ?", (token,))


def open_batches(store: Store) -> list[tuple[str, str, int, datetime, str]]:
    """Return (id, model, rows, when, address) of all batches that were handed in and not collected."""
    query = (
        "SELECT coalesce(batch, ''), model, count(row), time, address FROM batches "
        "LEFT JOIN batch_rows ON batch_rows.token = batches.token GROUP BY batches.token ORDER BY time"
    )
    rows = store.read(lambda connection: connection.execute(query).fetchall())
    return [(id, model, count, datetime.fromtimestamp(moment, UTC), where) for id, model, count, moment, where in rows]


async def cancel_open(client: ModelClient, store: Store, address: str) -> tuple[int, list[str]]:
    """Ask the API to end all batches that were handed in at this address; return how many it ends, and what it said of others.

    What was answered by then is paid for, and collected by the call that handed it in.
    """
    ended, said = 0, []
    for id, _, _, _, where in open_batches(store):
        if id and where == address:
            try:
                await batches.cancel(client, id)
                ended += 1
            except ModelError as exc:
                said.append(f"{id}: {exc}")
    return ended, said


class Batches:
    """Asks for the rows of a run through Message Batches; see `run.Asker`."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None

    def cancel(self) -> None:
        """Stop waiting; what is at the API goes on there."""
        if self._task is not None:
            self._task.cancel()

    async def ask(self, run: Enrichment, rows: Sequence[int]) -> None:
        """Hand rows in and collect them; see `run.Asker`."""
        work = BatchRun(run, rows)
        self._task = asyncio.create_task(work.work())
        try:
            await asyncio.wait([self._task])
        finally:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            work.leave()
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error


class BatchRun:
    """One run: rows to send (`queue`), batches at the API (`pending`), and which rows of the run each custom_id stands for."""

    def __init__(self, run: Enrichment, rows: Sequence[int]) -> None:
        self._run = run
        self._client = run.config.client
        config = run.config
        self._search = native_search(config.model, config.client, config.max_searches, config.defaults)
        self._store = BatchStore(run.accounts.store, config.model)
        self._places: dict[str, int] = {row_key(run.keys(n).values()): n for n in rows}
        self._results = {key: RowResult(run.numbers(n)) for key, n in self._places.items()}
        self._queue: dict[str, list[dict[str, Any]]] = {}
        self._pending: list[PendingBatch] = []
        self._known: set[str] = set()
        self._read_lines = 0
        self._refusal = ""
        self._booking = run.booking(RunBudget())

    async def work(self) -> None:
        """Find what is at the API already, send the rest, and wait until all of it has been collected."""
        at_the_api = await self._adopted() if self._run.options.resume else set()
        self._queue.update({key: [] for key in self._places if key not in at_the_api and key not in self._queue})
        while self._pending or (self._queue and self._run.stopped is None):
            while self._queue and self._run.stopped is None and await self._submit():
                pass
            for batch in [batch for batch in self._pending if batch.due <= time.monotonic()]:
                await self._attend(batch)
            self._tell()
            if self._pending and not self._queue:
                await asyncio.sleep(max(min(batch.due for batch in self._pending) - time.monotonic(), 0.0))

    def leave(self) -> None:
        """Say of the rows that are at the API when the run ends that the same call collects them."""
        left = 0
        for batch in self._pending:
            for key in batch.rows:
                if key in self._places:
                    where = f"at the API in batch {batch.id or '(no id yet)'}, {batch.trouble or 'which goes on'}"
                    self._results[key].error = f"{where}; the same call collects it"
                    self._finish(key)
                    left += 1
        if left:
            text = f"{left:,} row{'s' * (left != 1)} at the API go on there and will be paid for: the same call collects them, "
            self._run.notices[f"{text}`%websearch store cancel` ends them"] = None

    # --- what is at the API already ---------------------------------------------------------------------------------

    async def _adopted(self) -> set[str]:
        """Take over open batches that have rows of this run; return the keys of these rows."""
        taken: set[str] = set()
        found = self._store.open()
        self._known.update(batch.id for batch in found)
        for batch in found:
            if not (ours := batch.rows.keys() & self._places.keys()):
                continue
            if batch.id or await self._found(batch):
                batch.held = self._run.accounts.ledger.reservation(batch.token)
                self._pending.append(batch)
                taken |= ours
            else:  # it was written down and never arrived
                self._queue.update({key: batch.rows[key] for key in ours})
                self._store.forget(batch)
        return taken

    async def _found(self, batch: PendingBatch) -> bool:
        """Look among the newest batches for one whose creation got no answer; its results tell in the end."""
        states = [
            state
            for state in await batches.recent(self._client, batch.sent - MAX_SKEW)
            if state.requests == len(batch.rows) and state.id not in self._known
        ]
        if states:
            nearest = min(states, key=lambda state: abs(state.created - batch.sent))
            self._known.add(nearest.id)
            self._store.name(batch, nearest.id)
        return bool(states)

    # --- handing in -------------------------------------------------------------------------------------------------

    async def _submit(self) -> bool:
        """Hand in the next chunk, as far as the money reaches; return whether another one may follow."""
        if any(not batch.id for batch in self._pending):
            return False  # the API takes no more at the moment
        batch = self._chunk()
        if not batch.rows:
            if not self._pending:
                self._run.halt("budget", self._refusal, None)
            return False
        try:
            self._store.begin(batch)
        except sqlite3.Error as exc:
            self._settle(batch, [])
            text = f"the store cannot be written ({exc}), so a batch could not be found again; nothing more was sent"
            raise EnrichmentError(text) from exc
        self._pending.append(batch)
        await self._send(batch)
        return True

    def _chunk(self) -> PendingBatch:
        """Return the next batch with the bodies of its rows, its money reserved."""
        batch = PendingBatch(uuid.uuid4().hex[:16], "", datetime.now(UTC))
        size = 0
        for key, turns in list(self._queue.items())[:CHUNK_ROWS]:
            body = self._body(key, turns)
            size += len(json.dumps(body))
            if (batch.rows and size > CHUNK_BYTES) or not self._reserve(batch, key, body):
                break
            batch.bodies[key] = body
            batch.rows[key] = self._queue.pop(key)
        return batch

    def _reserve(self, batch: PendingBatch, key: str, body: Mapping[str, Any]) -> bool:
        """Reserve what a further row of a batch may cost at worst; say whether it fits."""
        budget, config = self._run.accounts.budget, self._run.config
        if not budget.bounded:
            return True
        tokens, most = estimate_tokens(body), int(body["max_tokens"])
        worst = worst_case(config.model, tokens, most, batch=True, server_searches=config.max_searches)
        total = None if worst is None else worst + sum(batch.worst.values())
        try:
            batch.held = budget.reserve(total, lease_s=LEASE_S, what="a row", id=batch.token)
        except BudgetExceededError as exc:
            self._refusal = str(exc)
            return False
        batch.worst[key] = worst or Decimal(0)
        return True

    async def _send(self, batch: PendingBatch) -> None:
        """Send a batch that is written down. One that may have arrived is looked for before it is sent again."""
        requests = [{"custom_id": key, "params": body} for key, body in batch.bodies.items()]
        try:
            if not (batch.failures and await self._found(batch)):
                self._run.requests += len(requests) if not batch.failures else 0
                state = await asyncio.shield(asyncio.ensure_future(self._submitted(batch, requests)))
                self._known.add(state.id)
        except ModelError as exc:
            self._not_taken(batch, exc)
        else:
            batch.bodies, batch.failures, batch.trouble = {}, 0, ""
            batch.later()

    async def _submitted(self, batch: PendingBatch, requests: Sequence[Mapping[str, Any]]) -> batches.BatchState:
        """Send and name a batch; this goes on when the run is interrupted meanwhile."""
        state = await batches.submit(self._client, requests)
        self._store.name(batch, state.id)
        return state

    def _not_taken(self, batch: PendingBatch, error: ModelError) -> None:
        if error.status in (None, 200, 429) or error.status >= 500:
            batch.failures += 1
            batch.trouble = str(error)
            batch.due = time.monotonic() + max(backoff_s(batch.failures), min(error.retry_after or 0.0, 600.0), 1.0)
            return
        self._drop(batch, again=False)
        self._run.halt("error", f"the batch was not taken: {error}", None)

    def _drop(self, batch: PendingBatch, *, again: bool) -> None:
        """Forget a batch; its rows are sent again, or have failed with the run."""
        self._pending.remove(batch)
        self._store.forget(batch)
        self._settle(batch, [])
        if again:
            self._queue.update({key: turns for key, turns in batch.rows.items() if key in self._places})

    # --- collecting -------------------------------------------------------------------------------------------------

    async def _attend(self, batch: PendingBatch) -> None:
        """Ask after a batch whose time has come, and collect it when it has ended."""
        if not batch.id:
            await self._send(batch)
            return
        try:
            state = await batches.look_up(self._client, batch.id)
            batch.trouble = ""
            if state.ended:
                await self._collect(batch, state)
            else:
                batch.later()
        except ModelError as exc:
            if exc.status == 404:
                self._run.notices[f"batch {batch.id} is not known to the API under this key; its rows were asked again"] = None
                self._drop(batch, again=True)
            elif exc.status in (401, 403):
                raise EnrichmentError(f"batch {batch.id} cannot be collected: {exc}") from exc
            else:
                self._not_read(batch, exc)

    def _not_read(self, batch: PendingBatch, error: ModelError) -> None:
        """Ask again later; give up lines that are broken each time, and leave to a later call what the API does not give."""
        batch.trouble = str(error)
        batch.failures += error.kind == batches.BROKEN
        batch.later(error.retry_after or 0.0)
        if error.kind == batches.BROKEN and not batch.rows.keys() & self._places.keys():
            self._give_up(batch)
        elif error.kind == batches.BROKEN and self._read_lines and batch.failures >= BROKEN_TRIES:
            self._run.notices[f"{error}, however often; {len(batch.rows):,} of its rows have no result"] = None
            self._give_up(batch)

    async def _collect(self, batch: PendingBatch, state: batches.BatchState) -> None:
        """Take the results of an ended batch, each into ledger, store and row."""
        seen = ours = self._read_lines = 0
        async for key, result in batches.results(self._client, state):
            seen = self._read_lines = seen + 1
            if key in batch.rows:
                ours += 1
                if key in self._places:
                    self._take(batch, key, result)
        if seen and not ours:  # its id was a guess, and a wrong one
            self._store.name(batch, "")
            if not await self._found(batch):
                self._drop(batch, again=True)
            return
        self._give_up(batch)

    def _take(self, batch: PendingBatch, key: str, result: Mapping[str, Any]) -> None:
        """Take one result. A row that has to go on stays in the batch's file entry until its next batch is written down."""
        row, turns, message = self._results[key], batch.rows.pop(key), result.get("message")
        booked = []
        if result.get("type") == "succeeded" and isinstance(message, Mapping):
            booked = [self._priced(message, batch.worst.get(key))]
            row.cost_usd = add_money(row.cost_usd, booked[0].cost_usd)
        batch.worst.pop(key, None)
        self._settle(batch, booked)
        columns = [self._run.plan.columns[c] for c in row.numbers]
        try:
            more = answer_of(result, columns, turns)
        except RowError as exc:
            row.status, row.error = "error", str(exc)
        else:
            if isinstance(more, list):
                self._queue[key] = more
                return
            row.cells, row.status, row.error = more, "ok", ""
        self._finish(key)
        self._store.collected(batch, [key])

    def _give_up(self, batch: PendingBatch) -> None:
        """End a batch that has been read: rows of ours that have no result have failed."""
        for key in [key for key in batch.rows if key in self._places]:
            self._take(batch, key, {"type": "missing"})
        self._pending.remove(batch)
        self._settle(batch, [])

    def _priced(self, message: Mapping[str, Any], worst: Decimal | None) -> LedgerRow:
        """Return the ledger's row of an answer; one that does not say what it used has no known price."""
        model = billed_model(self._run.config.model, str(message.get("model") or ""))
        fields = message.get("usage")
        usage = Usage.from_api(fields)
        told = all(reported(fields, name) for name in ("input_tokens", "output_tokens"))
        cost = model_cost(model, usage, batch=True) if told else worst
        return replace(self._booking.model_row(model, usage, batch=True, estimated=not told), cost_usd=cost)

    def _settle(self, batch: PendingBatch, rows: Sequence[LedgerRow]) -> None:
        """Insert rows and lower what is held for a batch to what its other rows may cost."""
        if batch.held is not None:
            batch.held.settle(rows, keep=sum(batch.worst.values(), Decimal(0)))
        else:
            self._run.accounts.ledger.book(rows)

    def _finish(self, key: str) -> None:
        self._run.finish(self._places.pop(key), self._results.pop(key))

    def _body(self, key: str, turns: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the next request of a row."""
        run, config = self._run, self._run.config
        columns = [run.plan.columns[c] for c in self._results[key].numbers]
        first = user_message(row_text(columns, run.plan.values(run.plan.inputs[self._places[key]])))
        nudged = bool(turns) and turns[-1].get("role") == "user"
        return request_body(
            model=config.model,
            system=config.system,
            messages=[first, *turns],
            tools=[*([self._search] if self._search else ()), record_tool(columns)],
            platform=config.client.platform,
            columns=len(columns),
            final=nudged or self._search is None,
            speaks=self._search is not None,
        )

    def _tell(self) -> None:
        """Say in the bar what is being waited for."""
        count = sum(len(batch.rows) for batch in self._pending)
        number = len(self._pending)
        note = f"{count:,} in {number} batch{'es' * (number != 1)} at the API" if number else ""
        trouble = next((batch.trouble for batch in self._pending if batch.trouble), "")
        self._run.progress.note = f"{note} ({shorten(trouble, 100)})" if trouble else note


def row_key(keys: Iterable[bytes]) -> str:
    """Return the custom_id of a row: a digest of the store's keys of its columns, 64 characters."""
    return hashlib.sha256(b"".join(keys)).hexdigest()


def native_search(model: str, client: ModelClient, most: int, defaults: SearchRequest) -> Mapping[str, Any] | None:
    """Return the API's own search tool for at most `most` searches a row, None for none.

    Newer versions search from code that the model writes, which filters results before they can be cited; here they are called
    directly.

    Raises:
        ConfigError: the platform has no batches, or runs no tools.
    """
    batches.check(client)
    if not most:
        return None
    search = server_tools(model, client.platform, most, defaults)[0]
    return search if search["type"].endswith(FIRST_SEARCH) else {**search, "allowed_callers": ["direct"]}


def answer_of(
    result: Mapping[str, Any], columns: Sequence[Column], turns: Sequence[dict[str, Any]]
) -> tuple[Cell, ...] | list[dict[str, Any]]:
    """Return the cells of a row's result, or the turns with which the row goes on.

    Raises:
        RowError: there is neither; the message says why.
    """
    match result.get("type"):
        case "succeeded":
            message = result.get("message")
            if isinstance(message, Mapping) and isinstance(message.get("content"), list):
                return _message_of(message, columns, turns)
            raise RowError("the batch's result has no message")
        case "errored":
            outer = result.get("error")
            inner = outer.get("error") if isinstance(outer, Mapping) else None
            error = next((each for each in (inner, outer) if isinstance(each, Mapping)), {})
            raise RowError(f"the API refused the request ({error.get('type')}: {error.get('message')})")
        case "canceled":
            raise RowError("the batch was cancelled before this row was asked")
        case "expired":
            raise RowError("the batch ended after 24 hours, before this row was asked; run it again")
        case _:
            raise RowError("the batch has no result for this row that can be read; run it again")


def _message_of(
    message: Mapping[str, Any], columns: Sequence[Column], before: Sequence[dict[str, Any]]
) -> tuple[Cell, ...] | list[dict[str, Any]]:
    check_stop_reason(message.get("stop_reason"), message.get("stop_details"))
    blocks = [block for block in message["content"] if isinstance(block, dict)]
    turn = assistant_message(blocks)
    turns = [*before, *([turn] if turn else [])]
    calls = {str(block.get("name")): block.get("input") for block in blocks if block.get("type") == "tool_use"}
    if RECORD in calls:
        said = [block for turn in turns if turn["role"] == "assistant" for block in turn["content"]]
        evidence, cited = _evidence(said)
        return tuple(_quoted(cell, cited) for cell in cells_of(calls[RECORD], columns, evidence))
    if calls:
        raise RowError(f"the model called {next(iter(calls))!r}, which is no tool of this run")
    if sum(turn["role"] == "assistant" for turn in turns) >= MAX_TURNS:
        raise RowError(f"the model kept searching and never called {RECORD}")
    if message.get("stop_reason") == "pause_turn":
        return turns
    if any(turn["role"] == "user" for turn in turns):
        raise RowError(f"the model did not call {RECORD}")
    return [*turns, user_message(NUDGE)]


def _evidence(blocks: Sequence[Mapping[str, Any]]) -> tuple[Evidence, list[tuple[str, str]]]:
    """Return what the API's searches found, and (address, words) of every citation: passages themselves come encrypted.

    Raises:
        RowError: no search worked.
    """
    evidence, cited, failed = Evidence(whole=False), list[tuple[str, str]](), ""
    for block in blocks:
        content = block.get("content")
        if block.get("type") == "web_search_tool_result" and isinstance(content, list):
            evidence.searched = True
            for hit in content:
                evidence.add(str(hit.get("url")), [])
        elif block.get("type") == "web_search_tool_result" and isinstance(content, Mapping):
            code = str(content.get("error_code"))
            failed = code if code in ("unavailable", "too_many_requests") else failed
        for citation in block.get("citations") or ():
            if citation.get("url") and str(citation.get("cited_text") or "").strip():
                cited.append((str(citation["url"]), str(citation["cited_text"])))
                evidence.add(*cited[-1][:1], [cited[-1][1]])
    if failed and not evidence.searched:
        raise RowError(f"the search failed: {failed}")
    return evidence, cited


def _quoted(cell: Cell, cited: Sequence[tuple[str, str]]) -> Cell:
    """Return a cell with the first words that were cited for its value, from its source if it has one."""
    if cell.value is None or cell.quote:
        return cell
    value = fold(str(cell.value))
    for url, words in cited:
        if value in fold(words) and (cell.source is None or address_of(url) == address_of(cell.source)):
            return cell._replace(source=cell.source or url, quote=" ".join(visible(words).split()))
    return cell
