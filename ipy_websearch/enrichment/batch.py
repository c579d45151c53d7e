"""`mode="batch"`: rows through the Message Batches API, at half the price of tokens, with the API's own web search.

A row's `custom_id` is its key, a digest of the API's address and of its columns' keys in the store. What is at the API stands
in the ledger's file, for all kernels: before a batch is sent, its rows are written down under a token, each in one batch only;
the API's id is added when it is known; results are collected in one transaction that strikes the rows off, books those that it
struck off, and stores their values. So a run that is interrupted or killed leaves its batches at the API, where they go on and
are paid for; every call for the same rows, with `resume` False too, waits for them and sends only the others.

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
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

from ipy_websearch.citations import quote_has
from ipy_websearch.enrichment.columns import Cell, Column, Evidence, RowError, cells_of
from ipy_websearch.enrichment.row import RECORD, check_stop_reason, request_body, row_text
from ipy_websearch.errors import BudgetExceededError, ConfigError, EnrichmentError, ModelError
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient, is_transient
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
# Seconds for which a batch whose creation got no answer is looked for before its rows are sent anew; its sender may be another
# kernel. One that is at the API is waited for without end.
PATIENCE_S = 60.0

LEASE_S = 25 * 3_600.0
KEPT_S = 30 * 86_400.0
UNBILLED = ("errored", "canceled", "expired")
# The largest difference between a batch's creation time at the API and ours: clocks differ, and uploads take time.
MAX_SKEW = timedelta(minutes=5)

# A row stands in one batch, that of the kernel which wrote it down first, unless the API has deleted that.
_WRITE_DOWN = (
    "INSERT INTO open_batches VALUES (?1, ?2, '', '', ?3, ?4, '') "
    "ON CONFLICT (row) DO UPDATE SET token = excluded.token, batch = '', time = excluded.time WHERE time < ?5"
)

# --- batches that are at the API --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch: our token, its id at the API ("": no answer has come), when it was written down, its rows by custom_id."""

    token: str
    id: str
    sent: datetime
    rows: list[str]

    @property
    def age_s(self) -> float:
        """Seconds since it was written down."""
        return (datetime.now(UTC) - self.sent).total_seconds()


def open_batches(ledger: Ledger) -> list[Batch]:
    """Return the batches that were handed in and not collected, oldest first, but for those that the API has deleted."""
    query = "SELECT token, batch, time, json_group_array(row) FROM open_batches WHERE time > ? GROUP BY token ORDER BY time"
    found = ledger.read(lambda connection: connection.execute(query, (time.time() - KEPT_S,)).fetchall())
    return [Batch(token, id, datetime.fromtimestamp(sent, UTC), json.loads(rows)) for token, id, sent, rows in found]


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
            text = f"{plural(left, 'row')} at the API go on there and will be paid for: the same call collects them, "
            run.notices[f"{text}the API's console cancels them"] = None


class BatchRun:
    """One run: `_rows` has the rows that have not ended, by custom_id, `_queue` those to send; the others are in a batch."""

    def __init__(self, run: Enrichment, rows: Sequence[int]) -> None:
        config = run.config
        self._run = run
        self._client = config.client
        self._ledger = run.ledger
        search = native_search(config.model, config.client, config.max_searches, config.defaults)
        self._tools = [search] if search else []
        self._rows = {run.row_key(n): n for n in rows}
        self._queue = list(self._rows)

    async def run(self) -> None:
        """Wait for what is at the API already, send the rest, and collect all of it. Failures that pass are waited out, but not
        without end where nothing is known to be at the API."""
        there = {key for batch in open_batches(self._ledger) for key in batch.rows}
        self._queue = [key for key in self._queue if key not in there]
        while (found := self._open()) or (self._queue and self._run.stopped is None):
            lost = [batch for batch in found if not batch.id]
            wait_s = min(max([FIRST_POLL_S, *(batch.age_s / 10 for batch in found)]), MAX_POLL_S)
            changed, trouble = False, ""
            try:
                changed = await (self._found_again(lost[0]) if lost else self._advance(found))
            except ModelError as exc:
                if not is_transient(exc) or any(batch.age_s > PATIENCE_S for batch in lost):
                    raise
                wait_s, trouble = max(wait_s, exc.retry_after or 0.0), f" ({shorten(str(exc), 100)})"
            if not changed:
                rows, number = sum(len(batch.rows) for batch in found), plural(len(found), "batch", "batches")
                self._run.progress.note = f"{rows:,} in {number} at the API{trouble}"
                await asyncio.sleep(wait_s)

    @property
    def rows_at_the_api(self) -> int:
        """The number of rows that were sent and have not ended."""
        return len(self._rows) - len(self._queue)

    def _open(self) -> list[Batch]:
        """Return the open batches that this run waits for. Rows that were in one and are in none were collected by another
        kernel."""
        waiting = self._rows.keys() - {*self._queue}
        found = [batch for batch in open_batches(self._ledger) if not waiting.isdisjoint(batch.rows)]
        for key in waiting.difference(*(batch.rows for batch in found)):
            outcome = self._run.outcomes[self._rows.pop(key)]
            outcome.error = "another kernel has collected this row; the same call takes what it found"
        return found

    async def _advance(self, found: Sequence[Batch]) -> bool:
        """Hand in the next batch, or collect what has ended; return whether anything has changed."""
        if self._queue and self._run.stopped is None and (batch := self._next()) is not None:
            await self._hand_in(batch)
            return True
        collected = [await self._collected(batch) for batch in found]
        # With none there is nothing to wait for: the budget is used up, or other kernels have the rows.
        return any(collected) or not found

    # --- handing in -------------------------------------------------------------------------------------------------

    def _next(self) -> Batch | None:
        """Write down the next batch, with its worst case reserved; None when no row fits into the budget, or another kernel
        has just written down the same rows.

        Raises:
            EnrichmentError: the ledger cannot be written, so that a killed kernel's batch could not be found again.
        """
        token = uuid.uuid4().hex[:16]
        try:
            worst = {key: self._worst(key) for key in self._queue[:CHUNK_ROWS]}
            rows, _ = self._run.reserve(worst, LEASE_S, token)
        except BudgetExceededError as exc:
            if not self.rows_at_the_api:  # nothing is at the API that could come back cheaper
                self._run.halt("budget", str(exc), None)
            return None
        facts = (token, self._run.config.model, time.time(), time.time() - KEPT_S)
        self._ledger.write(lambda c: c.executemany(_WRITE_DOWN, [(row, *facts) for row in rows]))
        if not self._ledger.flush():
            raise EnrichmentError(
                "the ledger cannot be written, and a batch could be lost with the kernel; nothing more was sent"
            )
        self._queue = self._queue[len(rows) :]
        batch = next((batch for batch in open_batches(self._ledger) if batch.token == token), None)
        if batch is None:
            self._ledger.settle([], token)
        return batch

    def _worst(self, key: str) -> Decimal | None:
        body, searches = self._body(key), self._run.config.max_searches
        return worst_case(body["model"], estimate_tokens(body), body["max_tokens"], batch=True, server_searches=searches)

    def _body(self, key: str) -> dict[str, Any]:
        """Return the request of a row."""
        columns, values = self._run.asked(self._rows[key])
        messages, searches = [user_message(row_text(columns, values))], bool(self._tools)
        return request_body(self._run.config, columns, messages, self._tools, final=not searches, speaks=searches)

    async def _hand_in(self, batch: Batch) -> None:
        """Send a batch, and write down its id. One that may have arrived all the same is looked for afterwards."""
        rows = set(batch.rows)
        requests = [{"custom_id": key, "params": self._body(key)} for key in self._rows if key in rows]
        try:
            id = await batches.submit(self._client, requests)
        except ModelError as exc:
            if not is_transient(exc):  # it did not arrive
                self._give_up(batch)
            raise
        self._identify(batch, id)

    def _identify(self, batch: Batch, id: str) -> None:
        self._ledger.write(lambda c: c.execute("UPDATE open_batches SET batch = ? WHERE token = ?", (id, batch.token)))

    async def _found_again(self, batch: Batch) -> bool:
        """Look among the API's newest batches for one whose creation got no answer, or whose sender was killed: as many rows,
        at about that time. Return whether it was there, or was given up."""
        recent = await batches.recent(self._client, batch.sent - MAX_SKEW)
        known = {other.id for other in open_batches(self._ledger)}
        others = (made for made in recent if made.size == len(batch.rows) and made.id not in known)
        nearest = min(others, key=lambda made: abs(made.created_at - batch.sent), default=None)
        if nearest is not None and abs(nearest.created_at - batch.sent) <= MAX_SKEW:
            self._identify(batch, nearest.id)
            return True
        if batch.age_s <= PATIENCE_S:
            return False
        self._give_up(batch)
        return True

    def _give_up(self, batch: Batch) -> None:
        """Forget a batch that the API does not have; its rows are to be sent again."""
        self._ledger.write(lambda c: c.execute("DELETE FROM open_batches WHERE token = ?", (batch.token,)))
        self._ledger.settle([], batch.token)
        self._queue += [key for key in batch.rows if key in self._rows]

    # --- collecting -------------------------------------------------------------------------------------------------

    async def _collected(self, batch: Batch) -> bool:
        """Take the results of a batch, if it has ended, in one transaction: what they cost and their values into the ledger's
        file, their rows off the list of open batches."""
        try:
            results = await batches.results(self._client, batch.id)
        except ModelError as exc:
            if exc.status != 404:
                raise
            results = {}  # it was deleted, or is another workspace's
        if results is None:
            return False
        ours, booked = [key for key in batch.rows if key in self._rows], dict[str, LedgerRow]()
        for key in ours:
            n, result = self._rows.pop(key), results.get(key, {})
            outcome = self._run.outcomes[n]
            outcome.requests += 1
            if result.get("type") not in UNBILLED:
                booked[key] = self._priced(result.get("message"))
                outcome.cost_usd = booked[key].cost_usd
            try:
                outcome.fill(answer_of(result, self._run.asked(n)[0]))
            except Exception as exc:  # whatever is wrong with it costs this row, not those that are paid for with it
                why = str(exc) if isinstance(exc, RowError) else f"{UNREADABLE} ({type(exc).__name__})"
                outcome.status, outcome.error = "error", why
            self._run.finish(n, outcome)
        self._ledger.write(partial(self._strike_off, batch.token, ours, booked))
        if len(ours) == len(batch.rows):  # the cost of rows that this run does not ask for stays reserved
            self._ledger.settle([], batch.token)
        return True

    def _strike_off(
        self, token: str, keys: Sequence[str], booked: Mapping[str, LedgerRow], connection: sqlite3.Connection
    ) -> None:
        """Strike rows off the list and book them, but for those that another kernel has struck off meanwhile."""
        for key in keys:
            struck = connection.execute("DELETE FROM open_batches WHERE row = ? AND token = ?", (key, token))
            if struck.rowcount and key in booked:
                self._ledger.insert(connection, booked[key])

    def _priced(self, message: Any) -> LedgerRow:
        """Return the ledger row of an answer, without a cost when the answer does not report its usage."""
        message = message if isinstance(message, Mapping) else {}
        model, used = billed_model(self._run.config.model, str(message.get("model") or "")), message.get("usage")
        row = self._run.booking(RunBudget()).model_row(model, Usage.from_api(used), batch=True)
        is_known = reported(used, "input_tokens") and reported(used, "output_tokens")
        return row if is_known else replace(row, cost_usd=None)


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
                    having = (words for _, words in cited if quote_has(entry["value"], words))
                    entry["quote"] = next(having, entry["quote"])
            return cells_of(calls[RECORD], columns, _evidence(blocks, cited))
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
