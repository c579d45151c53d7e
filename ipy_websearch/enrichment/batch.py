"""`mode="batch"`: rows through the Message Batches API, at half the price of tokens, with the API's own web search.

A row's `custom_id` is its key, a digest of the API's address and of its columns' keys in the store. The rows of a batch are
written into the ledger's file before it is sent, for all kernels, and the API's id when it is known. Results are collected in
one transaction that strikes the rows off, books those that it struck off, and stores their values. So a run that is interrupted
or killed leaves its batches at the API, where they go on and are paid for; every later call for the same rows, with `resume`
False too, waits for them and sends only the others. A batch whose creation got no answer, or whose kernel ended before, may be
there as well: its rows are errors that are booked at the most that they may cost, and the next call asks for them again.

Facts (platform.claude.com/docs/en/build-with-claude/batch-processing, read 2026-11): results come in any order, are kept for 29
days, and requests that were not begun after 24 hours expire.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ipy_websearch.citations import quote_has
from ipy_websearch.enrichment.columns import Cell, Column, Evidence, RowError, cells_of
from ipy_websearch.enrichment.row import RECORD, check_stop_reason, request_body, row_text
from ipy_websearch.errors import BudgetExceededError, ConfigError, EnrichmentError, ModelError, WebSearchError
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient, is_transient, may_be_billed
from ipy_websearch.model.requests import FIRST_SEARCH, estimate_tokens, server_tools, user_message
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.ledger import Ledger, LedgerRow
from ipy_websearch.money.prices import billed_model, worst_case
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.results import Usage, reported
from ipy_websearch.text import plural, shorten

if TYPE_CHECKING:
    from ipy_websearch.enrichment.run import Enrichment

# Rows of one batch: far less than the API takes (100,000 and 256 MB), so that the first rows are back early.
CHUNK_ROWS = 2_000

# Seconds between two looks at batches: a tenth of the age of the oldest, within these bounds.
FIRST_POLL_S, MAX_POLL_S = 2.0, 60.0
# Seconds for which the API may refuse new batches, when no batch of this run is there to be waited for; and seconds after which
# a batch is lost that another kernel began to send.
PATIENCE_S = 60.0

LEASE_S = 25 * 3_600.0
KEPT_S = 30 * 86_400.0
UNBILLED = ("errored", "canceled", "expired")

# --- batches that are at the API --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch: its id at the API, the id of the reservation for it, when it was sent, its rows by custom_id.

    Until the API has answered, the id of the reservation stands for that of the batch.
    """

    id: str
    reservation: str
    sent: datetime
    rows: list[str]

    @property
    def is_answered(self) -> bool:
        """Whether the API is known to have it."""
        return self.id != self.reservation

    @property
    def age_s(self) -> float:
        """Seconds since it was sent."""
        return (datetime.now(UTC) - self.sent).total_seconds()


def open_batches(ledger: Ledger) -> list[Batch]:
    """Return the batches that were sent and not collected, oldest first, but for those that the API has deleted."""
    query = "SELECT batch, reservation, time, json_group_array(row) FROM batch_rows WHERE time > ? GROUP BY batch ORDER BY time"
    found = ledger.read(lambda connection: connection.execute(query, (time.time() - KEPT_S,)).fetchall())
    return [Batch(id, held, datetime.fromtimestamp(sent, UTC), json.loads(rows)) for id, held, sent, rows in found]


# --- a run ------------------------------------------------------------------------------------------------------------


async def ask_in_batches(run: Enrichment, rows: Sequence[int]) -> None:
    """Ask for rows through Message Batches; see `run.Ask`. When it is cancelled, what is at the API goes on there.

    Raises:
        ConfigError: the server has no batches.
        EnrichmentError: the API refused; what is there is collected by the same call.
    """
    work = BatchRun(run, rows)
    try:
        await work.run()
    except ModelError as exc:
        if exc.status in (404, 405):  # a batch that is unknown is no failure, so it is the address
            raise ConfigError(f"the server has no Message Batches ({exc.status}); leave mode='batch' out") from exc
        raise EnrichmentError(f"a batch could not be handed in or collected: {exc}; the same call tries again") from exc
    finally:
        run.progress.note = ""
        if left := work.rows_at_the_api:
            run.notices[
                f"{plural(left, 'row')} at the API go on there and will be paid for: the same call collects them, "
                "the API's console cancels them"
            ] = None


class BatchRun:
    """One run: `_rows` has the rows that have not ended, by custom_id; `_queue` those that are in no batch of `_open`."""

    def __init__(self, run: Enrichment, rows: Sequence[int]) -> None:
        config = run.config
        self._run = run
        self._ledger = run.ledger
        search = native_search(config.model, config.client, config.max_searches, config.defaults)
        self._tools = [search] if search else []
        self._rows = {run.row_key(n): n for n in rows}
        self._open: list[Batch] = []
        self._look()

    async def run(self) -> None:
        """Send what is not at the API, and collect all of it. Failures that pass are waited out, but not without end where
        nothing is at the API."""
        moved_at = time.monotonic()
        while True:
            trouble, least_s = "", FIRST_POLL_S
            try:
                await self._collect()  # before more is sent: the API refuses more than so many batches at once
                while await self._send():
                    pass
                moved_at = time.monotonic()
            except ModelError as exc:
                if not is_transient(exc) or (not self._open and time.monotonic() - moved_at > PATIENCE_S):
                    raise
                trouble, least_s = f" ({shorten(str(exc), 100)})", max(exc.retry_after or 0.0, least_s)
            self._look()
            if not (self._open or (self._queue and self._run.stopped is None)):
                return
            number = plural(len(self._open), "batch", "batches")
            self._run.progress.note = f"{self.rows_at_the_api:,} in {number} at the API{trouble}"
            await asyncio.sleep(max([least_s, *(min(batch.age_s / 10, MAX_POLL_S) for batch in self._open)]))

    @property
    def rows_at_the_api(self) -> int:
        """The number of rows that were sent and have not ended."""
        return len(self._rows) - len(self._queue)

    def _look(self) -> None:
        """Look which rows are in a batch, perhaps of another kernel: only the others are sent."""
        self._open = [batch for batch in self._open if batch.is_answered]
        waiting = self._rows.keys() - {key for batch in self._open for key in batch.rows}
        self._open += [batch for batch in open_batches(self._ledger) if not waiting.isdisjoint(batch.rows)]
        there = {key for batch in self._open for key in batch.rows}
        self._queue = [key for key in self._rows if key not in there]

    # --- sending ----------------------------------------------------------------------------------------------------

    async def _send(self) -> bool:
        """Send the next batch, with its worst case reserved; return whether there was one and the budget has room for it.

        Raises:
            EnrichmentError: the ledger cannot be written, so that a killed kernel's batch could not be found again.
        """
        self._look()
        if not self._queue or self._run.stopped is not None:
            return False
        reservation = uuid.uuid4().hex[:16]
        try:
            keys, _ = self._run.reserve({key: self._worst(key) for key in self._queue[:CHUNK_ROWS]}, LEASE_S, reservation)
        except BudgetExceededError as exc:
            if not self._open:  # nothing is at the API that could come back cheaper
                self._run.halt("budget", str(exc), None)
            return False
        batch = Batch(reservation, reservation, datetime.now(UTC), keys)
        self._ledger.write(
            lambda c: c.executemany(
                "INSERT INTO batch_rows VALUES (?, ?, ?, ?)", [(reservation, key, reservation, time.time()) for key in keys]
            )
        )
        if not self._ledger.flush():
            self._end(batch, dict.fromkeys(keys))
            raise EnrichmentError(
                "the ledger cannot be written, and a batch could be lost with the kernel; nothing more was sent"
            )
        self._look()
        try:
            id = await batches.submit(self._run.config.client, [{"custom_id": key, "params": self._body(key)} for key in keys])
        except WebSearchError as exc:
            if isinstance(exc, ModelError) and may_be_billed(exc):
                self._lose(batch, str(exc))
                return True
            self._end(batch, dict.fromkeys(keys))
            self._look()
            raise
        self._ledger.write(lambda c: c.execute("UPDATE batch_rows SET batch = ? WHERE batch = ?", (id, reservation)))
        self._open.append(replace(batch, id=id))
        return True

    def _worst(self, key: str) -> Decimal | None:
        body, searches = self._body(key), self._run.config.max_searches
        return worst_case(body["model"], estimate_tokens(body), body["max_tokens"], batch=True, server_searches=searches)

    def _body(self, key: str) -> dict[str, Any]:
        """Return the request of a row."""
        columns, values = self._run.asked(self._rows[key])
        messages, searches = [user_message(row_text(columns, values))], bool(self._tools)
        return request_body(self._run.config, columns, messages, self._tools, final=not searches, speaks=searches)

    # --- collecting -------------------------------------------------------------------------------------------------

    async def _collect(self) -> None:
        """Take the results of the batches that have ended, and give up those whose sending was cut off long ago."""
        for batch in list(self._open):
            if not batch.is_answered:
                if batch.age_s > PATIENCE_S:
                    self._lose(batch, "its sending was cut off")
                continue
            try:
                results = await batches.results(self._run.config.client, batch.id)
            except ModelError as exc:
                if exc.status != 404:
                    raise
                results = {}  # it was deleted, or is another workspace's
            if results is not None:
                self._take(batch, results)

    def _lose(self, batch: Batch, why: str) -> None:
        """End the rows of a batch that may be at the API, without its id: they are booked at their worst case."""
        self._take(batch, dict.fromkeys(batch.rows, {"type": "lost", "why": why}))

    def _take(self, batch: Batch, results: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the results of a batch: what they cost and their values go into the ledger's file."""
        booked = dict[str, LedgerRow | None]()
        for key in [key for key in batch.rows if key in self._rows]:
            result = results.get(key, {})
            booked[key] = row = self._booked(key, result)
            n = self._rows.pop(key)
            outcome = self._run.outcomes[n]
            outcome.requests += 1
            outcome.cost_usd = row.cost_usd if row is not None else Decimal(0)
            try:
                outcome.fill(answer_of(result, self._run.asked(n)[0]))
            except Exception as exc:  # whatever is wrong with it costs this row, not those that are paid for with it
                outcome.status = "error"
                outcome.error = str(exc) if isinstance(exc, RowError) else f"{UNREADABLE} ({type(exc).__name__})"
            self._run.finish(n, outcome)
        self._end(batch, booked)

    def _booked(self, key: str, result: Mapping[str, Any]) -> LedgerRow | None:
        """Return the ledger row of a result: None when it costs nothing; without a cost when it does not report its usage."""
        own, booking = self._run.config.model, self._run.booking(RunBudget())
        if result.get("type") in UNBILLED:
            return None
        if result.get("type") == "lost":
            row = booking.model_row(own, Usage(), status="error", batch=True)
            return replace(row, cost_usd=self._worst(key), estimated=True)
        message = result.get("message")
        message = message if isinstance(message, Mapping) else {}
        used = message.get("usage")
        row = booking.model_row(billed_model(own, str(message.get("model") or "")), Usage.from_api(used), batch=True)
        return row if reported(used, "input_tokens") and reported(used, "output_tokens") else replace(row, cost_usd=None)

    def _end(self, batch: Batch, booked: Mapping[str, LedgerRow | None]) -> None:
        """Strike rows off the list and book them (None: they cost nothing), but for those that another kernel has struck off
        meanwhile; in one transaction with the values that this turn of the event loop has stored."""

        def strike_off(connection: sqlite3.Connection) -> None:
            for key, row in booked.items():
                struck = connection.execute("DELETE FROM batch_rows WHERE row = ? AND batch = ?", (key, batch.id))
                if struck.rowcount and row is not None:
                    self._ledger.insert(connection, row)

        self._open = [other for other in self._open if other.id != batch.id]
        self._ledger.write(strike_off)
        if len(booked) == len(batch.rows):  # the cost of rows that this run does not ask for stays reserved
            self._ledger.book([], batch.reservation)


def native_search(model: str, client: ModelClient, most: int, defaults: SearchRequest) -> Mapping[str, Any] | None:
    """Return the API's own search tool for at most `most` searches a row, None for none.

    Newer versions search from code that the model writes, which filters results before they can be cited; here they are called
    directly.

    Raises:
        ConfigError: the platform has no batches, or runs no tools.
    """
    if client.platform.name != "anthropic":
        raise ConfigError(
            f"{client.platform.name} has no Message Batches; leave mode='batch' out, or ask a model of the Anthropic API"
        )
    if not most:
        return None
    search = server_tools(model, client.platform, most, defaults)[0]
    return search if search["type"].endswith(FIRST_SEARCH) else {**search, "allowed_callers": ["direct"]}


# --- results ----------------------------------------------------------------------------------------------------------

UNREADABLE = "the batch has no result for this row that can be read; run it again"
_UNANSWERED = {
    "canceled": "the batch was cancelled before this row was asked",
    "expired": "the batch ended after 24 hours, before this row was asked; run it again",
}


def answer_of(result: Mapping[str, Any], columns: Sequence[Column]) -> tuple[Cell, ...]:
    """Return the cells of a row's result.

    Raises:
        RowError: there are none; the message says why.
    """
    match result:
        case {"type": "succeeded", "message": {"content": [*blocks]} as message}:
            check_stop_reason(message.get("stop_reason"), message.get("stop_details"))
            calls = {block.get("name"): block.get("input") for block in blocks if block.get("type") == "tool_use"}
            if RECORD not in calls:
                raise RowError(f"the model did not call {RECORD} (it stopped at {message.get('stop_reason')}); run it again")
            cited = [(c["url"], c["cited_text"]) for b in blocks for c in b.get("citations") or () if c.get("url")]
            for entry in calls[RECORD].values():
                if not isinstance(entry["value"], bool):  # a quote has no "yes"
                    entry["quote"] = next((words for _, words in cited if quote_has(entry["value"], words)), entry["quote"])
            return cells_of(calls[RECORD], columns, _evidence(blocks, cited))
        case {"type": "lost", "why": why}:
            raise RowError(
                f"the batch with this row got no answer and may have been created ({why}); the most that the row may cost is "
                "booked, and the same call asks again"
            )
        case {"type": "errored", "error": {"error": {"type": kind, "message": text}}}:
            raise RowError(f"the API refused the request ({kind}: {text})")
        case _:
            raise RowError(_UNANSWERED.get(str(result.get("type")), UNREADABLE))


def _evidence(blocks: Sequence[Mapping[str, Any]], cited: Sequence[tuple[str, str]]) -> Evidence:
    """Return the results of the API's searches. Their passages come encrypted, so only cited words are known.

    Raises:
        RowError: no search worked.
    """
    searches = [block["content"] for block in blocks if block.get("type") == "web_search_tool_result"]
    found = [hits for hits in searches if isinstance(hits, list)]
    if searches and not found:
        raise RowError(f"the search failed: {searches[0]['error_code']}")
    evidence = Evidence(whole=False)
    evidence.searched = bool(found)
    for hit in (hit for hits in found for hit in hits):
        evidence.add(hit["url"], [])
    for url, words in cited:
        evidence.add(url, [words])
    return evidence
