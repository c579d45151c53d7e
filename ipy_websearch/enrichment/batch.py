"""`mode="batch"`: rows through the Message Batches API, at half the price of tokens, with the API's own web search.

A row's `custom_id` is its key, a digest of the store's keys of its columns. Before a batch is sent, its rows are written
into the ledger's file under a token; the API's id is added when it is known. So a run that is interrupted or killed leaves its
batches at the API, where they go on and are paid for; the next call for the same rows waits for them and sends only the
others. Ledger rows name the row that they are for.

Facts (platform.claude.com/docs/en/build-with-claude/batch-processing, read 2026-11): results come in any order, are kept for 29
days, and requests that were not begun after 24 hours expire.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import Cell, Column, Evidence, RowError, address_of, cells_of
from ipy_websearch.enrichment.row import NUDGE, RECORD, check_stop_reason, request_body, row_text
from ipy_websearch.errors import BudgetExceededError, ConfigError, EnrichmentError, ModelError
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.requests import FIRST_SEARCH, assistant_message, estimate_tokens, server_tools, user_message
from ipy_websearch.model.stream import is_transient
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.ledger import Ledger, LedgerRow
from ipy_websearch.money.prices import add_money, billed_model, worst_case
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.results import Usage, reported
from ipy_websearch.text import fold, plural, shorten, visible

if TYPE_CHECKING:
    from ipy_websearch.enrichment.run import Enrichment

# Rows of one batch: far less than the API takes (100,000 and 256 MB), so that the first rows are back early.
CHUNK_ROWS = 2_000

FIRST_POLL_S, MAX_POLL_S, SLOWER = 2.0, 60.0, 1.5
MAX_WAIT_S = 600.0
# Seconds for which handing a batch in is tried. One that is at the API is waited for without end.
PATIENCE_S = 60.0

LEASE_S = 25 * 3_600.0
KEPT_S = 30 * 86_400.0
# How many answers a row may take: the API pauses its own searches after a while and wants to be asked to go on.
MAX_TURNS = 4

UNBILLED = ("errored", "canceled", "expired")
MAX_SKEW = timedelta(minutes=5)

# The messages of a row after its first one: none for a new row.
Turns = list[dict[str, Any]]


# --- batches that are at the API --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Batch:
    """A batch that was handed in at `address`: our token, its id at the API ("": no answer came), its rows by custom_id.

    `trouble` says why it could not be sent or asked after, "" when it could.
    """

    token: str
    id: str
    address: str
    model: str
    sent: datetime
    rows: dict[str, Turns] = field(default_factory=dict)
    trouble: str = ""

    def write_down(self, ledger: Ledger) -> bool:
        """Write it down; its rows leave the batches that they were in. Return whether it is on disk."""
        facts = (self.token, self.id, self.address, self.model, self.sent.timestamp())
        rows = [(row, *facts, json.dumps(turns)) for row, turns in self.rows.items()]
        ledger.write(lambda c: c.executemany("INSERT OR REPLACE INTO open_batches VALUES (?, ?, ?, ?, ?, ?, ?)", rows))
        return ledger.flush()

    def forget(self, ledger: Ledger, rows: Iterable[str]) -> None:
        """Forget rows whose results were taken, or that never arrived."""
        pairs = [(row, self.token) for row in rows]
        ledger.write(lambda c: c.executemany("DELETE FROM open_batches WHERE row = ? AND token = ?", pairs))


def open_batches(ledger: Ledger) -> list[Batch]:
    """Return the batches that were handed in and not collected, oldest first, but for those that the API has deleted."""
    query = "SELECT token, batch, address, model, time, row, turns FROM open_batches WHERE time > ? ORDER BY time"
    found: dict[str, Batch] = {}
    for *facts, moment, row, turns in ledger.read(lambda c: c.execute(query, (time.time() - KEPT_S,)).fetchall()):
        token, id, address, model = facts
        batch = found.setdefault(token, Batch(token, id, address, model, datetime.fromtimestamp(moment, UTC)))
        batch.rows[row] = json.loads(turns)
    return list(found.values())


async def cancel_open(client: ModelClient, ledger: Ledger, address: str) -> tuple[int, list[str]]:
    """Ask the API to end all batches that were handed in at this address; return how many it ends, and what it said of others.

    What was answered by then is paid for, and collected by the call that handed it in.
    """
    ended, said = 0, []
    for batch in open_batches(ledger):
        if batch.id and batch.address == address:
            try:
                await batches.cancel(client, batch.id)
                ended += 1
            except ModelError as exc:
                said.append(f"{batch.id}: {exc}")
    return ended, said


# --- a run ------------------------------------------------------------------------------------------------------------


async def ask_in_batches(run: Enrichment, rows: Sequence[int]) -> None:
    """Ask for rows through Message Batches; see `run.Ask`. When it is cancelled, what is at the API goes on there."""
    await BatchRun(run, rows).work()


class BatchRun:
    """One run: its rows that have not ended by custom_id, those to send (`queue`), and the batches at the API (`pending`)."""

    def __init__(self, run: Enrichment, rows: Sequence[int]) -> None:
        config = run.config
        self._run = run
        self._client = config.client
        self._ledger = run.ledger
        self._whose = (os.environ.get("ANTHROPIC_BASE_URL", ""), config.model)
        search = native_search(config.model, config.client, config.max_searches, config.defaults)
        self._tools = [search] if search else []
        self._rows = {run.row_key(n): n for n in rows}
        self._queue: dict[str, Turns] = {key: [] for key in self._rows}
        self._pending: list[Batch] = []

    async def work(self) -> None:
        """Find what is at the API already, send the rest, and collect all of it, the oldest batch first.

        Raises:
            ConfigError: the server has no batches.
            EnrichmentError: the API refused; what is there is collected by the same call.
        """
        try:
            if self._run.options.resume:
                await self._adopt()
            while (batch := self._next()) is not None:
                await self._advance(batch)
        except ModelError as exc:
            if exc.status in (404, 405):  # a batch that is unknown is asked again, so it is the address
                raise ConfigError(f"the server has no Message Batches ({exc.status}); leave mode='batch' out") from exc
            raise EnrichmentError(f"a batch could not be handed in or collected: {exc}; the same call tries again") from exc
        finally:
            self._leave()

    def _leave(self) -> None:
        """Say of the rows that are at the API when the run ends that the same call collects them."""
        if left := sum(len(batch.rows.keys() & self._rows.keys()) for batch in self._pending):
            text = f"{plural(left, 'row')} at the API go on there and will be paid for: the same call collects them, "
            self._run.notices[f"{text}`%websearch store cancel` ends them"] = None
        for key in list(self._rows):
            self._finish(key)

    async def _adopt(self) -> None:
        """Take over open batches that have rows of this run. One that was written down and never arrived is sent anew."""
        for batch in open_batches(self._ledger):
            ours = batch.rows.keys() & self._queue.keys()
            if ours and (batch.address, batch.model) == self._whose:
                self._pending.append(batch)
                self._queue = {key: turns for key, turns in self._queue.items() if key not in ours}
                if not (batch.id or await self._find(batch)):
                    self._drop(batch)

    async def _find(self, batch: Batch) -> bool:
        """Look among the API's newest batches for one whose creation got no answer: as many rows, at about that time."""
        known = {other.id for other in open_batches(self._ledger)}
        recent = await batches.recent(self._client, batch.sent - MAX_SKEW)
        alike = [state for state in recent if batches.size(state) == len(batch.rows) and state.id not in known]
        if alike:
            batch.id = min(alike, key=lambda state: abs(state.created_at - batch.sent)).id
            batch.write_down(self._ledger)
        return bool(alike)

    def _drop(self, batch: Batch) -> None:
        """Forget a batch that the API does not have; its rows are to be sent again."""
        self._pending.remove(batch)
        batch.forget(self._ledger, batch.rows)
        self._ledger.settle([], batch.token)
        self._queue.update({key: turns for key, turns in batch.rows.items() if key in self._rows})

    # --- handing in -------------------------------------------------------------------------------------------------

    def _next(self) -> Batch | None:
        """Return a new batch, written down, with its worst case reserved; when no row is left or fits into the budget, the
        oldest one at the API, None without any."""
        waiting = self._pending[0] if self._pending else None
        if not self._queue or self._run.stopped is not None:
            return waiting
        batch = self._made({})
        worst = {key: self._worst(key, turns) for key, turns in islice(self._queue.items(), CHUNK_ROWS)}
        try:
            fitting, _ = self._run.reserve(worst, LEASE_S, batch.token)
        except BudgetExceededError as exc:
            if waiting is None:
                self._run.halt("budget", str(exc), None)
            return waiting
        batch.rows = {key: self._queue.pop(key) for key in fitting}
        if not batch.write_down(self._ledger):
            self._ledger.settle([], batch.token)
            raise EnrichmentError("the ledger cannot be written, so a batch could not be found again; nothing more was sent")
        self._pending.append(batch)
        for key in fitting:
            self._run.outcomes[self._rows[key]].requests += 1
        return batch

    def _made(self, rows: dict[str, Turns]) -> Batch:
        return Batch(uuid.uuid4().hex[:16], "", *self._whose, datetime.now(UTC), rows)

    def _worst(self, key: str, turns: Turns) -> Decimal | None:
        body, config = self._body(key, turns), self._run.config
        tokens, most = estimate_tokens(body), body["max_tokens"]
        return worst_case(config.model, tokens, most, batch=True, server_searches=config.max_searches)

    def _body(self, key: str, turns: Turns) -> dict[str, Any]:
        """Return the next request of a row."""
        columns, values = self._run.asked(self._rows[key])
        messages = [user_message(row_text(columns, values)), *turns]
        final = not self._tools or (bool(turns) and turns[-1]["role"] == "user")  # reminded of `record`
        return request_body(self._run.config, columns, messages, self._tools, final=final, speaks=bool(self._tools))

    async def _advance(self, batch: Batch) -> None:
        """Hand a batch in, or collect it when it has ended. Failures that may pass are waited out, and the bar says so."""
        wait_s, began = FIRST_POLL_S, time.monotonic()
        while True:
            told_s = 0.0
            try:
                if await (self._collected(batch) if batch.id else self._sent(batch)):
                    return
                batch.trouble = ""
            except ModelError as exc:
                if batch.id and exc.status == 404:
                    self._drop(batch)
                    self._run.notices[f"batch {batch.id} is unknown to the API; its rows were asked again"] = None
                    return
                may_pass = is_transient(exc) and (exc.retry_after or 0.0) <= MAX_WAIT_S
                if not may_pass and not (batch.id or batch.trouble):  # it did not arrive
                    self._drop(batch)
                if not may_pass or (not batch.id and time.monotonic() - began > PATIENCE_S):
                    raise
                batch.trouble, told_s = str(exc), exc.retry_after or 0.0
            rows, number = sum(len(batch.rows) for batch in self._pending), plural(len(self._pending), "batch", "batches")
            trouble = f" ({shorten(batch.trouble, 100)})" if batch.trouble else ""
            self._run.progress.note = f"{rows:,} in {number} at the API{trouble}"
            await asyncio.sleep(max(wait_s, told_s))
            wait_s = min(wait_s * SLOWER, MAX_POLL_S)

    async def _sent(self, batch: Batch) -> bool:
        """Send a batch. After a failure it may have arrived: it is looked for before it is sent again."""
        if not (batch.trouble and await self._find(batch)):
            batch.trouble = ""
            requests = [{"custom_id": key, "params": self._body(key, turns)} for key, turns in batch.rows.items()]
            batch.id = (await batches.submit(self._client, requests)).id
            batch.write_down(self._ledger)
        batch.trouble = ""
        return True

    # --- collecting -------------------------------------------------------------------------------------------------

    async def _collected(self, batch: Batch) -> bool:
        """Take the results of a batch that has ended, in one transaction: what they cost and their values into the ledger's
        file, their rows off the list of open batches. What another kernel has collected is not booked again."""
        if (await batches.look_up(self._client, batch.id)).processing_status != "ended":
            return False
        found = {key: result async for key, result in batches.results(self._client, batch.id)}
        unbooked = {row for other in open_batches(self._ledger) if other.token == batch.token for row in other.rows}
        held = self._ledger.reservation(batch.token)
        share = held.usd / len(batch.rows) if held is not None else Decimal(0)
        booked, again, theirs = list[LedgerRow](), dict[str, Turns](), dict[str, Turns]()
        ours = batch.rows.keys() & self._rows.keys()
        for key in ours:
            result, outcome = found.get(key, {}), self._run.outcomes[self._rows[key]]
            if key in unbooked and result.get("type") not in UNBILLED:
                booked.append(self._priced(key, result.get("message"), share))
                outcome.cost_usd = add_money(outcome.cost_usd, booked[-1].cost_usd)
            try:
                answer = answer_of(result, self._run.asked(self._rows[key])[0], batch.rows[key])
                if isinstance(answer, list):
                    (again if key in unbooked else theirs)[key] = answer
                    continue
                outcome.fill(answer)
            except RowError as exc:
                outcome.status, outcome.error = "error", str(exc)
            self._finish(key)
        self._ledger.settle(booked, batch.token, share * (len(batch.rows) - len(ours)))
        batch.forget(self._ledger, ours)
        self._made(again).write_down(self._ledger)
        self._pending.remove(batch)
        self._run.progress.note = ""
        if theirs:
            await self._follow(theirs)
        self._queue |= again
        return True

    async def _follow(self, rows: Mapping[str, Turns]) -> None:
        """Go on with rows that another kernel goes on with: by its batches, which it may just send, or with what it stored."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until and any(rows.keys() & b.rows.keys() for b in open_batches(self._ledger) if not b.id):
            await asyncio.sleep(FIRST_POLL_S)
        self._queue |= rows
        await self._adopt()
        for key in self._queue.keys() & rows.keys():
            n = self._rows[key]
            outcome, stored = self._run.outcomes[n], next(self._run.look_up([self._run.plan.inputs[n]]))
            if stored.keys() >= set(outcome.asked):
                del self._queue[key]
                outcome.fill(stored[c] for c in outcome.asked)
                self._finish(key)

    def _priced(self, key: str, message: Any, share: Decimal) -> LedgerRow:
        """Return the ledger's row of an answer. One that cannot be read or does not say what it used costs its `share` of what
        is held; without a budget, nobody knows."""
        message = message if isinstance(message, Mapping) else {}
        model, fields = billed_model(self._run.config.model, str(message.get("model") or "")), message.get("usage")
        told = all(reported(fields, name) for name in ("input_tokens", "output_tokens"))
        row = self._run.booking(RunBudget()).model_row(model, Usage.from_api(fields), batch=True, estimated=not told)
        return replace(row, unit=f"row {key[:16]}", cost_usd=row.cost_usd if told else share or None)

    def _finish(self, key: str) -> None:
        n = self._rows.pop(key)
        self._run.finish(n, self._run.outcomes[n])


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
    match result:
        case {"type": "succeeded", "message": {"content": [*blocks]} as message}:
            check_stop_reason(message.get("stop_reason"), message.get("stop_details"))
            return _answered(blocks, message.get("stop_reason") == "pause_turn", columns, before)
        case {"type": "errored", "error": {"error": {"type": kind, "message": text}}}:
            raise RowError(f"the API refused the request ({kind}: {text})")
        case {"type": "canceled"}:
            raise RowError("the batch was cancelled before this row was asked")
        case {"type": "expired"}:
            raise RowError("the batch ended after 24 hours, before this row was asked; run it again")
        case _:
            raise RowError("the batch has no result for this row that can be read; run it again")


def _answered(
    blocks: Sequence[dict[str, Any]], paused: bool, columns: Sequence[Column], before: Turns
) -> tuple[Cell, ...] | Turns:
    """Return the cells of a message, or the turns with which the row goes on: `paused`, or reminded of `record` once."""
    turn = assistant_message(blocks)
    turns = [*before, *([turn] if turn else [])]
    calls = {block.get("name"): block.get("input") for block in blocks if block.get("type") == "tool_use"}
    if RECORD in calls:
        evidence, cited = _evidence([block for turn in turns if turn["role"] == "assistant" for block in turn["content"]])
        return tuple(_quoted(cell, cited) for cell in cells_of(calls[RECORD], columns, evidence))
    nudged = any(turn["role"] == "user" for turn in turns)
    if calls or len(turns) >= MAX_TURNS or (nudged and not paused):
        raise RowError(f"the model did not call {RECORD}")
    return turns if paused else [*turns, user_message(NUDGE)]


def _evidence(blocks: Sequence[Mapping[str, Any]]) -> tuple[Evidence, list[tuple[str, str]]]:
    """Return what the API's searches found, and (address, words) of every citation: passages themselves come encrypted.

    Raises:
        RowError: no search worked.
    """
    evidence, cited, failed = Evidence(whole=False), list[tuple[str, str]](), ""
    for block in blocks:
        match block:
            case {"type": "web_search_tool_result", "content": [*hits]}:
                evidence.searched = True
                for hit in hits:
                    evidence.add(str(hit.get("url")), [])
            case {"type": "web_search_tool_result", "content": {"error_code": code}}:
                failed = str(code)
            case {"citations": [*citations]}:
                cited += [(each["url"], each["cited_text"].strip()) for each in citations if each.get("url")]
    for url, words in cited:
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
