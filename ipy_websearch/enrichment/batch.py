"""`mode="batch"`: rows through the Message Batches API, at half the price of tokens, with the API's own web search.

A row's `custom_id` is its key, a digest of the store's keys of its columns. What is at the API stands in the ledger's file, for
all kernels: before a batch is sent, its rows are written down under a token; the API's id is added when it is known; results
are collected in one transaction that books them, stores their values and strikes the rows off. So a run that is interrupted or
killed leaves its batches at the API, where they go on and are paid for; every call for the same rows waits for them and sends
only the others.

Facts (platform.claude.com/docs/en/build-with-claude/batch-processing, read 2026-11): results come in any order, are kept for 29
days, and requests that were not begun after 24 hours expire.
"""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import Cell, Column, Evidence, RowError, address_of, cells_of
from ipy_websearch.enrichment.row import RECORD, check_stop_reason, request_body, row_text
from ipy_websearch.errors import BudgetExceededError, ConfigError, EnrichmentError, ModelError
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.requests import FIRST_SEARCH, estimate_tokens, server_tools, user_message
from ipy_websearch.model.stream import is_transient
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.money.ledger import Ledger, LedgerRow
from ipy_websearch.money.prices import billed_model, worst_case
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.results import Usage, reported
from ipy_websearch.text import fold, plain, plural, shorten, visible

if TYPE_CHECKING:
    from ipy_websearch.enrichment.run import Enrichment

# Rows of one batch: far less than the API takes (100,000 and 256 MB), so that the first rows are back early.
CHUNK_ROWS = 2_000

# Seconds between two looks at a batch: a tenth of its age, within these bounds.
FIRST_POLL_S, MAX_POLL_S = 2.0, 60.0
MAX_WAIT_S = 600.0
# Seconds for which handing a batch in is tried; after that another kernel may send its rows. One that is at the API is waited
# for without end.
PATIENCE_S = 60.0

LEASE_S = 25 * 3_600.0
KEPT_S = 30 * 86_400.0
UNBILLED = ("errored", "canceled", "expired")
MAX_SKEW = timedelta(minutes=5)

# --- batches that are at the API --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Batch:
    """A batch for the API at `address`: our token, its id there ("": no answer has come), its rows by custom_id."""

    token: str
    id: str
    address: str
    model: str
    sent: datetime
    rows: list[str]

    @property
    def age_s(self) -> float:
        """Seconds since it was made."""
        return (datetime.now(UTC) - self.sent).total_seconds()

    def write_down(self, ledger: Ledger) -> bool:
        """Write it down; its rows leave the batches that they were in. Return whether it is on disk."""
        facts = (self.token, self.id, self.address, self.model, self.sent.timestamp())
        rows = [(row, *facts) for row in self.rows]
        ledger.write(lambda c: c.executemany("INSERT OR REPLACE INTO open_batches VALUES (?, ?, ?, ?, ?, ?, '')", rows))
        return ledger.flush()

    def forget(self, ledger: Ledger, rows: Iterable[str]) -> None:
        """Strike off rows whose results were taken, or that never arrived."""
        pairs = [(row, self.token) for row in rows]
        ledger.write(lambda c: c.executemany("DELETE FROM open_batches WHERE row = ? AND token = ?", pairs))


def open_batches(ledger: Ledger) -> list[Batch]:
    """Return the batches that were handed in and not collected, oldest first, but for those that the API has deleted."""
    query = "SELECT token, batch, address, model, time, row FROM open_batches WHERE time > ? ORDER BY time"
    found: dict[str, Batch] = {}
    since = (time.time() - KEPT_S,)
    for token, id, address, model, moment, row in ledger.read(lambda c: c.execute(query, since).fetchall()):
        sent = datetime.fromtimestamp(moment, UTC)
        found.setdefault(token, Batch(token, id, address, model, sent, [])).rows.append(row)
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
    """Ask for rows through Message Batches; see `run.Ask`. When it is cancelled, what is at the API goes on there.

    Raises:
        ConfigError: the server has no batches.
        EnrichmentError: the API refused; what is there is collected by the same call.
    """
    work = BatchRun(run, rows)
    try:
        await work.run()
    except ModelError as exc:
        if exc.status in (404, 405):  # a batch that is unknown is asked again, so it is the address
            raise ConfigError(f"the server has no Message Batches ({exc.status}); leave mode='batch' out") from exc
        raise EnrichmentError(f"a batch could not be handed in or collected: {exc}; the same call tries again") from exc
    finally:
        work.leave()


class BatchRun:
    """One run: its rows that have not ended by custom_id, and those of them that are to be sent (`queue`).

    The others are at the API. `token` is the batch that this run is handing in, `trouble` why the API could not be asked last.
    """

    def __init__(self, run: Enrichment, rows: Sequence[int]) -> None:
        config = run.config
        self._run = run
        self._client = config.client
        self._ledger = run.ledger
        self._whose = (os.environ.get("ANTHROPIC_BASE_URL", ""), config.model)
        search = native_search(config.model, config.client, config.max_searches, config.defaults)
        self._tools = [search] if search else []
        self._rows = {run.row_key(n): n for n in rows}
        self._queue = list(self._rows)
        self._token = self._trouble = ""

    async def run(self) -> None:
        """Wait for what is at the API already, send the rest, and collect all of it."""
        there = self._rows.keys() & {key for batch in self._batches() for key in batch.rows}
        if self._run.options.resume:
            self._queue = [key for key in self._queue if key not in there]
        elif there:
            text = f"{plural(len(there), 'row')} of earlier batches are asked anew; the API bills those too, "
            self._run.notices[f"{text}and no ledger has them"] = None
        while True:
            found = self._open()
            unsent = [batch for batch in found if not batch.id] or self._write_next()
            if not (unsent or found):
                return
            waits_s = [await self._advance(batch) for batch in unsent or found]
            if all(waits_s):
                rows, number = sum(len(batch.rows) for batch in found), plural(len(found), "batch", "batches")
                self._run.progress.note = f"{rows:,} in {number} at the API{self._trouble}"
                await asyncio.sleep(max(waits_s))

    def leave(self) -> None:
        """End the rows that have not ended; say of those at the API that the same call collects them."""
        self._run.progress.note = ""
        if left := len(self._rows) - len(self._queue):
            text = f"{plural(left, 'row')} at the API go on there and will be paid for: the same call collects them, "
            self._run.notices[f"{text}`%websearch store cancel` ends them"] = None
        for key in list(self._rows):
            self._finish(key)

    def _batches(self) -> list[Batch]:
        """Return all open batches of this run's address and model."""
        return [batch for batch in open_batches(self._ledger) if (batch.address, batch.model) == self._whose]

    def _open(self) -> list[Batch]:
        """Return the open batches that this run waits for. Rows that were in one and are in none were collected by another
        kernel: they end with what that has stored."""
        waiting = self._rows.keys() - {*self._queue}
        found = [batch for batch in self._batches() if not waiting.isdisjoint(batch.rows)]
        for key in waiting.difference(*(batch.rows for batch in found)):
            n = self._rows[key]
            outcome, stored = self._run.outcomes[n], next(self._run.look_up([self._run.plan.inputs[n]]))
            if stored.keys() >= set(outcome.asked):
                outcome.provider = ""  # it is stored already, with what it cost
                outcome.fill(stored[c] for c in outcome.asked)
            else:
                outcome.status, outcome.error = "error", "another kernel collected this row without an answer; run it again"
            self._finish(key)
        return found

    def _finish(self, key: str) -> None:
        n = self._rows.pop(key)
        self._run.finish(n, self._run.outcomes[n])

    async def _advance(self, batch: Batch) -> float:
        """Hand a batch in, or collect it when it has ended; failures that may pass are waited out. Return the seconds until the
        next look at it, 0.0 when something has changed."""
        wait_s = min(max(batch.age_s / 10, FIRST_POLL_S), MAX_POLL_S)
        try:
            moved = await (self._collected(batch) if batch.id else self._handed_in(batch))
            self._trouble = ""
        except ModelError as exc:
            told_s, moved = exc.retry_after or 0.0, batch.id != "" and exc.status == 404
            if moved:
                self._drop(batch)
                self._run.notices[f"batch {batch.id} is unknown to the API; its rows were asked again"] = None
            elif not is_transient(exc) or told_s > MAX_WAIT_S or (not batch.id and batch.age_s > PATIENCE_S):
                raise
            wait_s, self._trouble = max(wait_s, told_s), f" ({shorten(str(exc), 100)})"
        return 0.0 if moved else wait_s

    # --- handing in -------------------------------------------------------------------------------------------------

    def _write_next(self) -> list[Batch]:
        """Write down the next batch, with its worst case reserved, if a row is left that fits into the budget; return it."""
        if not self._queue or self._run.stopped is not None:
            return []
        batch = Batch(uuid.uuid4().hex[:16], "", *self._whose, datetime.now(UTC), [])
        try:
            worst = {key: self._worst(key) for key in self._queue[:CHUNK_ROWS]}
            batch.rows, _ = self._run.reserve(worst, LEASE_S, batch.token)
        except BudgetExceededError as exc:
            if len(self._queue) == len(self._rows):  # nothing is at the API that could come back cheaper
                self._run.halt("budget", str(exc), None)
            return []
        if not batch.write_down(self._ledger):
            self._ledger.settle([], batch.token)
            raise EnrichmentError("the ledger cannot be written, so a batch could not be found again; nothing more was sent")
        self._token, self._queue = batch.token, self._queue[len(batch.rows) :]
        for key in batch.rows:
            self._run.outcomes[self._rows[key]].requests += 1
        return [batch]

    def _worst(self, key: str) -> Decimal | None:
        body, config = self._body(key), self._run.config
        tokens, most = estimate_tokens(body), body["max_tokens"]
        return worst_case(config.model, tokens, most, batch=True, server_searches=config.max_searches)

    def _body(self, key: str) -> dict[str, Any]:
        """Return the request of a row."""
        columns, values = self._run.asked(self._rows[key])
        messages, searches = [user_message(row_text(columns, values))], bool(self._tools)
        return request_body(self._run.config, columns, messages, self._tools, final=not searches, speaks=searches)

    async def _handed_in(self, batch: Batch) -> bool:
        """Send a batch, or find it at the API: after a failure, and after its sender was killed, it may have arrived. Return
        whether anything has changed."""
        ours = batch.token == self._token
        if (self._trouble or not ours) and await self._find(batch):
            return True
        if not ours and batch.age_s < PATIENCE_S:  # another kernel may be sending it
            return False
        if not ours:
            self._drop(batch)
            return True
        try:
            requests = [{"custom_id": key, "params": self._body(key)} for key in batch.rows]
            batch.id = (await batches.submit(self._client, requests)).id
        except ModelError as exc:
            if not (self._trouble or is_transient(exc)):  # it did not arrive
                self._drop(batch)
            raise
        return batch.write_down(self._ledger)

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
        batch.forget(self._ledger, batch.rows)
        self._ledger.settle([], batch.token)
        self._queue += [key for key in batch.rows if key in self._rows]

    # --- collecting -------------------------------------------------------------------------------------------------

    async def _collected(self, batch: Batch) -> bool:
        """Take the results of a batch, if it has ended, in one transaction: what they cost and their values into the ledger's
        file, their rows off the list of open batches."""
        if (await batches.look_up(self._client, batch.id)).processing_status != "ended":
            return False
        results = await batches.results(self._client, batch.id)
        left = next((other.rows for other in self._open() if other.token == batch.token), [])
        held, ours = self._ledger.reservation(batch.token), [key for key in left if key in self._rows]
        share = held.usd / len(left) if held is not None and left else Decimal(0)
        booked = list[LedgerRow]()
        for key in ours:
            result, outcome = results.get(key, {}), self._run.outcomes[self._rows[key]]
            if result.get("type") not in UNBILLED:
                booked.append(self._priced(result.get("message"), share))
                outcome.cost_usd = booked[-1].cost_usd
            try:
                outcome.fill(answer_of(result, self._run.asked(self._rows[key])[0]))
            except RowError as exc:
                outcome.status, outcome.error = "error", str(exc)
            except Exception as exc:  # no shape of the API's: it costs this row, not those that are paid for with it
                why = f"{type(exc).__name__}: {shorten(plain(str(exc)), 200)}"
                outcome.status, outcome.error = "error", f"the batch's result for this row cannot be read ({why}); run it again"
            self._finish(key)
        self._ledger.settle(booked, batch.token, share * (len(left) - len(ours)))
        batch.forget(self._ledger, ours)
        return True

    def _priced(self, message: Any, share: Decimal) -> LedgerRow:
        """Return the ledger's row of an answer. One that cannot be read or does not say what it used costs its `share` of what
        is held; without a budget, nobody knows."""
        message = message if isinstance(message, Mapping) else {}
        model, fields = billed_model(self._run.config.model, str(message.get("model") or "")), message.get("usage")
        told = all(reported(fields, name) for name in ("input_tokens", "output_tokens"))
        row = self._run.booking(RunBudget()).model_row(model, Usage.from_api(fields), batch=True, estimated=not told)
        return row if told else replace(row, cost_usd=share or None)


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
            evidence, cited = _evidence(blocks)
            return tuple(_quoted(cell, cited) for cell in cells_of(calls[RECORD], columns, evidence))
        case {"type": "errored", "error": {"error": {"type": kind, "message": text}}}:
            raise RowError(f"the API refused the request ({kind}: {text})")
        case {"type": "canceled"}:
            raise RowError("the batch was cancelled before this row was asked")
        case {"type": "expired"}:
            raise RowError("the batch ended after 24 hours, before this row was asked; run it again")
        case _:
            raise RowError("the batch has no result for this row that can be read; run it again")


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
    value, own = fold(str(cell.value)), address_of(cell.source or "")
    said = ((url, words) for url, words in cited if value in fold(words) and own in ("", address_of(url)))
    url, words = next(said, (None, None))
    return cell if words is None else cell._replace(source=cell.source or url, quote=" ".join(visible(words).split()))
