"""`mode="batch"`: rows through the Message Batches API, at half the price of tokens, with the API's own web search.

A row's `custom_id` is its key, a digest of the store's keys of its columns. Before a batch is sent, its rows are written
into the store's file under a token; the API's id is added when it is known. So a run that is interrupted or killed leaves its
batches at the API, where they go on and are paid for; the next call for the same rows waits for them and sends only the
others. Ledger rows name the row that they are for, so that a result that was booked just before a kill is not booked again.

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
from dataclasses import dataclass, replace
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
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.requests import FIRST_SEARCH, assistant_message, estimate_tokens, server_tools, user_message
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.ledger import LedgerRow, Reservation, microseconds
from ipy_websearch.money.prices import add_money, billed_model, model_cost, worst_case
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

MAX_SKEW = timedelta(minutes=5)

Turns = list[dict[str, Any]]
"""The messages of a row after its first one: none for a new row."""


# --- batches that are at the API --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Batch:
    """A batch that was handed in: our token, its id at the API ("": no answer came to its creation), its rows by custom_id."""

    token: str
    id: str
    sent: datetime
    rows: dict[str, Turns]
    held: Reservation | None = None
    poll_s: float = 0.0
    due: float = 0.0
    failures: int = 0
    trouble: str = ""

    def later(self, told_s: float = 0.0) -> None:
        """Ask after it later, and later each time, not before the API's `retry-after` has passed."""
        self.poll_s = min(max(self.poll_s * SLOWER, FIRST_POLL_S), MAX_POLL_S)
        self.due = time.monotonic() + max(self.poll_s, min(told_s, 600.0))

    @property
    def share(self) -> Decimal | None:
        """US dollars that are held for each of its rows, None without a budget."""
        return self.held.usd / len(self.rows) if self.held is not None and self.rows else None


class OpenBatches:
    """The batches that were sent to the address in force and not collected, in the file of the enrichment store."""

    def __init__(self, store: Store, model: str) -> None:
        self._store = store
        self._whose = (os.environ.get("ANTHROPIC_BASE_URL", ""), model)

    def all(self) -> list[Batch]:
        """Return the batches of the model, oldest first; those that the API has deleted by now are forgotten."""
        forget, query = "DELETE FROM open_batches WHERE time < ?", "SELECT token, batch, time, row, turns FROM open_batches "

        def work(connection: sqlite3.Connection) -> list[tuple[str, str, float, str, str]]:
            connection.execute(forget, (time.time() - KEPT_DAYS * 86_400,))
            return connection.execute(f"{query} WHERE address = ? AND model = ? ORDER BY time", self._whose).fetchall()

        found: dict[str, Batch] = {}
        for token, id, moment, row, turns in self._store.write(work):
            batch = found.setdefault(token, Batch(token, id, datetime.fromtimestamp(moment, UTC), {}))
            batch.rows[row] = json.loads(turns)
        return list(found.values())

    def put(self, batch: Batch) -> None:
        """Write down a batch that is about to be sent; its rows leave the batches that they were in."""
        whose = (batch.token, batch.id, *self._whose, batch.sent.timestamp())
        rows = [(row, *whose, json.dumps(turns)) for row, turns in batch.rows.items()]
        self._store.write(lambda c: c.executemany("INSERT OR REPLACE INTO open_batches VALUES (?, ?, ?, ?, ?, ?, ?)", rows))

    def name(self, batch: Batch, id: str) -> None:
        """Write down the API's id of a batch."""
        batch.id = id
        self._store.write(lambda c: c.execute("UPDATE open_batches SET batch = ? WHERE token = ?", (id, batch.token)))

    def remove(self, batch: Batch, rows: Iterable[str]) -> None:
        """Forget rows whose results were taken, or that never arrived."""
        pairs = [(row, batch.token) for row in rows]
        self._store.write(lambda c: c.executemany("DELETE FROM open_batches WHERE row = ? AND token = ?", pairs))


def open_batches(store: Store) -> list[tuple[str, str, int, datetime, str]]:
    """Return (id, model, rows, when, address) of all batches that were handed in and not collected."""
    query = "SELECT batch, model, count(*), time, address FROM open_batches GROUP BY token ORDER BY time"
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


# --- a run ------------------------------------------------------------------------------------------------------------


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
        self._open = OpenBatches(run.accounts.store, config.model)
        self._places = {row_key(run.keys(n).values()): n for n in rows}
        self._results = {key: RowResult(run.numbers(n)) for key, n in self._places.items()}
        self._queue: dict[str, Turns] = {key: [] for key in self._places}
        self._pending: list[Batch] = []
        self._known: set[str] = set()
        self._booking = run.booking(RunBudget())

    async def work(self) -> None:
        """Find what is at the API already, send the rest, and wait until all of it has been collected."""
        if self._run.options.resume:
            await self._adopt()
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
            where = f"at the API in batch {batch.id or '(no id yet)'}, {batch.trouble or 'which goes on'}"
            for key in batch.rows.keys() & self._places.keys():
                self._results[key].error = f"{where}; the same call collects it"
                self._finish(key)
                left += 1
        if left:
            text = f"{left:,} row{'s' * (left != 1)} at the API go on there and will be paid for: the same call collects them, "
            self._run.notices[f"{text}`%websearch store cancel` ends them"] = None

    async def _adopt(self) -> None:
        """Take over open batches that have rows of this run. One that was written down and never arrived is sent anew."""
        found = self._open.all()
        self._known.update(batch.id for batch in found)
        for batch in found:
            ours = batch.rows.keys() & self._places.keys()
            if ours and (batch.id or await self._found(batch)):
                batch.held = self._run.accounts.ledger.reservation(batch.token)
                self._pending.append(batch)
                for key in ours:
                    del self._queue[key]
            elif ours:
                self._queue.update({key: batch.rows[key] for key in ours})
                self._open.remove(batch, batch.rows)

    async def _found(self, batch: Batch) -> bool:
        """Look among the API's newest batches for one whose creation got no answer: as many rows, at about that time."""
        states = [
            state
            for state in await batches.recent(self._client, batch.sent - MAX_SKEW)
            if state.requests == len(batch.rows) and state.id not in self._known
        ]
        if states:
            nearest = min(states, key=lambda state: abs(state.created - batch.sent))
            self._known.add(nearest.id)
            self._open.name(batch, nearest.id)
        return bool(states)

    # --- handing in -------------------------------------------------------------------------------------------------

    async def _submit(self) -> bool:
        """Hand in the next chunk, as far as the money reaches; return whether another one may follow."""
        if any(not batch.id for batch in self._pending):
            return False  # the API takes no more at the moment
        rows, size = dict[str, dict[str, Any]](), 0
        for key in list(self._queue)[:CHUNK_ROWS]:
            body = self._body(key, self._queue[key])
            size += len(json.dumps(body))
            if rows and size > CHUNK_BYTES:
                break
            rows[key] = body
        batch = Batch(uuid.uuid4().hex[:16], "", datetime.now(UTC), {})
        try:
            fitting, batch.held = self._run.reserve({k: self._worst(b) for k, b in rows.items()}, LEASE_S, batch.token)
        except BudgetExceededError as exc:
            if not self._pending:
                self._run.halt("budget", str(exc), None)
            return False
        batch.rows = {key: self._queue[key] for key in fitting}
        try:
            self._open.put(batch)
        except sqlite3.Error as exc:
            self._settle(batch, [], Decimal(0))
            text = f"the store cannot be written ({exc}), so a batch could not be found again; nothing more was sent"
            raise EnrichmentError(text) from exc
        for key in fitting:
            del self._queue[key]
        self._pending.append(batch)
        self._run.requests += len(batch.rows)
        await self._send(batch)
        return True

    def _worst(self, body: Mapping[str, Any]) -> Decimal | None:
        config, most = self._run.config, int(body["max_tokens"])
        return worst_case(config.model, estimate_tokens(body), most, batch=True, server_searches=config.max_searches)

    async def _send(self, batch: Batch) -> None:
        """Send a batch that is written down. One that may have arrived is looked for before it is sent again."""
        try:
            if not (batch.failures and await self._found(batch)):
                requests = [{"custom_id": key, "params": self._body(key, turns)} for key, turns in batch.rows.items()]
                state = await batches.submit(self._client, requests)
                self._known.add(state.id)
                self._open.name(batch, state.id)
        except ModelError as exc:
            if exc.status in (None, 200, 429) or exc.status >= 500:
                batch.failures, batch.trouble = batch.failures + 1, str(exc)
                batch.due = time.monotonic() + max(backoff_s(batch.failures), min(exc.retry_after or 0.0, 600.0), 1.0)
                return
            self._drop(batch)
            self._run.halt("error", f"the batch was not taken: {exc}", None)
        else:
            batch.trouble = ""
            batch.later()

    def _drop(self, batch: Batch) -> None:
        """Forget a batch that the API does not have; its rows are to be sent again."""
        self._pending.remove(batch)
        self._open.remove(batch, batch.rows)
        self._settle(batch, [], Decimal(0))
        self._queue.update({key: turns for key, turns in batch.rows.items() if key in self._places})

    # --- collecting -------------------------------------------------------------------------------------------------

    async def _attend(self, batch: Batch) -> None:
        """Ask after a batch whose time has come, and collect it when it has ended."""
        if not batch.id:
            await self._send(batch)
            return
        try:
            state = await batches.look_up(self._client, batch.id)
            batch.trouble = ""
            if state.ended:
                self._collect(batch, await self._read(state))
            else:
                batch.later()
        except ModelError as exc:
            if exc.status == 404:
                self._run.notices[f"batch {batch.id} is not known to the API under this key; its rows were asked again"] = None
                self._drop(batch)
            elif exc.status in (401, 403):
                raise EnrichmentError(f"batch {batch.id} cannot be collected: {exc}") from exc
            else:
                batch.trouble = str(exc)
                batch.later(exc.retry_after or 0.0)

    async def _read(self, state: batches.BatchState) -> dict[str, Mapping[str, Any]]:
        found = {}
        try:
            async for key, result in batches.results(self._client, state):
                found[key] = result
        except ModelError as exc:
            if exc.kind != batches.BROKEN:
                raise
            self._run.notices[str(exc)] = None
        return found

    def _collect(self, batch: Batch, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the results of a batch for the rows of this run: into the ledger, into the store, off the list of open batches.

        A row that has to go on stays on the list until its next batch is written down.
        """
        self._pending.remove(batch)
        ours = [key for key in batch.rows if key in self._places]
        share, before, rows = batch.share, self._booked_since(batch.sent), []
        for key in ours:
            priced = self._priced(key, results.get(key, {}), share)
            if priced is not None and priced.unit not in before:
                self._results[key].cost_usd = add_money(self._results[key].cost_usd, priced.cost_usd)
                rows.append(priced)
        self._settle(batch, rows, (share or Decimal(0)) * (len(batch.rows) - len(ours)))
        ended = [key for key in ours if self._took(key, results.get(key, {}), batch.rows[key])]
        self._run.flush()
        self._open.remove(batch, ended)

    def _took(self, key: str, result: Mapping[str, Any], turns: Turns) -> bool:
        """Take a row's result; return whether the row has ended, else it goes on in another batch."""
        row = self._results[key]
        try:
            answer = answer_of(result, [self._run.plan.columns[c] for c in row.numbers], turns)
        except RowError as exc:
            row.status, row.error = "error", str(exc)
        else:
            if isinstance(answer, list):
                self._queue[key] = answer
                return False
            row.cells, row.status, row.error = answer, "ok", ""
        self._finish(key)
        return True

    def _finish(self, key: str) -> None:
        self._run.finish(self._places.pop(key), self._results.pop(key))

    def _booked_since(self, moment: datetime) -> set[str]:
        """Return which rows the ledger has since a batch was sent; a kernel that was killed may have booked some of it."""
        query = "SELECT unit FROM ledger WHERE time >= ? AND kind = 'model' AND unit <> ''"
        found = self._run.accounts.ledger.read(lambda c: c.execute(query, (microseconds(moment),)).fetchall())
        return {unit for (unit,) in found}

    def _priced(self, key: str, result: Mapping[str, Any], share: Decimal | None) -> LedgerRow | None:
        """Return the ledger's row of an answer, None without one.

        An answer that does not say what it used costs its `share` of what is held, and without a budget nobody knows what.
        """
        message = result.get("message")
        if result.get("type") != "succeeded" or not isinstance(message, Mapping):
            return None
        model, fields = billed_model(self._run.config.model, str(message.get("model") or "")), message.get("usage")
        usage = Usage.from_api(fields)
        told = all(reported(fields, name) for name in ("input_tokens", "output_tokens"))
        cost = model_cost(model, usage, batch=True) if told else share
        row = self._booking.model_row(model, usage, batch=True, estimated=not told)
        return replace(row, cost_usd=cost, unit=f"row {key[:16]}")

    def _settle(self, batch: Batch, rows: Sequence[LedgerRow], keep: Decimal) -> None:
        if batch.held is not None:
            batch.held.settle(rows, keep=keep)
        else:
            self._run.accounts.ledger.book(rows)

    def _body(self, key: str, turns: Turns) -> dict[str, Any]:
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
        count, number = sum(len(batch.rows) for batch in self._pending), len(self._pending)
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


# --- results ----------------------------------------------------------------------------------------------------------


def answer_of(result: Mapping[str, Any], columns: Sequence[Column], before: Turns) -> tuple[Cell, ...] | Turns:
    """Return the cells of a row's result, or the turns with which the row goes on; `before` are those that it had.

    Raises:
        RowError: there is neither; the message says why.
    """
    match result.get("type"):
        case "succeeded":
            message = result.get("message")
            if isinstance(message, Mapping) and isinstance(message.get("content"), list):
                return _message_of(message, columns, before)
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


def _message_of(message: Mapping[str, Any], columns: Sequence[Column], before: Turns) -> tuple[Cell, ...] | Turns:
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
            url, words = str(citation.get("url") or ""), str(citation.get("cited_text") or "").strip()
            if url and words:
                cited.append((url, words))
                evidence.add(url, [words])
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
