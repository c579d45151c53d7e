"""Sends a row's requests: through the gate, again when that may help, each one booked. Nothing here knows of rows or columns.

A refusal for load (429, 529, 503) is waited out as long as the other side answers anybody at all; other failures that may
pass (a broken connection, a time-out) are tried a few times; everything else is the row's error at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from ipy_websearch.enrichment.legacy.funds import Funds, Hold
from ipy_websearch.enrichment.legacy.schedule import Gate, Turns
from ipy_websearch.errors import ModelError
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.failures import retry_wait_s
from ipy_websearch.model.tokens import counted, estimate_tokens
from ipy_websearch.money.booking import Booking, add_money
from ipy_websearch.money.ledger import LedgerRow, Status
from ipy_websearch.money.prices import billed_model
from ipy_websearch.usage import Charge, Usage

PATIENCE_S = 120.0
"""Seconds without a single success after which an overloaded service is given up."""

ROW_PATIENCE_S = 600.0
"""Seconds after which a request is given up that is refused again and again while others get through."""

TRUSTED_S = 0.5
"""From this `retry-after` on, nothing is waited beyond it."""

MAX_FAILURES, MAX_FIRST_FAILURES = 5, 2
"""How often a broken request is sent again: less often while nobody has ever answered."""

MAX_BACKOFF_S = 8.0
_SENT = ("connection_lost", "timeout_error", "truncated")  # the request went out, and may be billed
_OVERLOAD_KINDS = ("overloaded_error", "rate_limit_error")


@dataclass(slots=True)
class Account:
    """What one row of the frame has used: its ledger rows until they are booked, its cost (None: unknown), its time."""

    booking: Booking
    hold: Hold
    cost_usd: Decimal | None = Decimal(0)
    seconds: float = 0.0
    rows: list[LedgerRow] = field(default_factory=list)
    _ended: bool = False

    def model(
        self, name: str, usage: Usage, *, status: Status = "ok", estimated: bool = False, worst: Decimal | None = None
    ) -> Decimal | None:
        """Note a model request, booked at no less than its `worst` case where nobody said its cost; return what it cost."""
        row = self.booking.model_row(name, usage, status=status, estimated=estimated)
        if worst is not None and (row.cost_usd is None or row.cost_usd < worst):
            row = replace(row, cost_usd=worst, estimated=True)
        self._note(row)
        return row.cost_usd

    def charges(self, charges: Sequence[Charge], *, status: Status) -> None:
        """Note calls to engines; those whose answer is lost count at the price expected."""
        for row in self.booking.charge_rows(charges, status=status):
            self._note(row)

    def _note(self, row: LedgerRow) -> None:
        self.rows.append(row)
        self.hold.spent += row.cost_usd or Decimal(0)
        self.cost_usd = add_money(self.cost_usd, self.booking.due(row).cost_usd)

    def close(self) -> None:
        """Book what was noted and settle the money, in one transaction; once."""
        if not self._ended:
            self._ended, rows, self.rows = True, self.rows, []
            self.booking.settle(rows, self.hold.reservation)
            self.hold.end()


@dataclass(slots=True)
class Sender:
    """Sends requests for all rows of a run."""

    client: ModelClient
    gate: Gate
    funds: Funds
    timeout_s: float
    sent: int = 0
    succeeded: int = 0
    turns: Turns = field(default_factory=Turns)

    async def send(self, body: Mapping[str, Any], account: Account) -> dict[str, Any]:
        """Return the message that answers `body`.

        Raises:
            ModelError: it was refused, or failed as often as it may.
            OutOfFunds: it does not fit into what the row has reserved; nothing was sent.
        """
        tokens = estimate_tokens(body) if self.funds.bounded else 0
        failures, since = 0, Overloads(self.gate)
        while True:
            account.hold.cover(tokens, int(body["max_tokens"]))
            error = await self._once(body, account, tokens, again=failures + since.count > 0)
            if not isinstance(error, ModelError):
                return error
            overloaded = is_overload(error)
            if overloaded:
                wait = since.wait_s(error)
            else:
                failures += 1
                wait = backoff_s(failures + since.count) if self._may_repeat(error, failures) else None
            if wait is None:
                raise error
            if wait:
                await (self.gate.pause(wait) if overloaded else asyncio.sleep(wait))

    async def _once(
        self, body: Mapping[str, Any], account: Account, tokens: int, *, again: bool
    ) -> dict[str, Any] | ModelError:
        """Send once; return the message, or why there is none."""
        ticket = await self.gate.enter(again=again)
        start = time.perf_counter()
        self.sent += 1
        name = str(body["model"])
        try:
            async with asyncio.timeout(self.timeout_s):
                message = await self.client.message(body)
        except ModelError as exc:
            if is_overload(exc):
                self.gate.refused(ticket, exc.retry_after)
            else:
                self.gate.leave(ticket)
                if exc.kind in _SENT and exc.status in (None, 200) or (exc.status, exc.kind) == (200, "no_message"):
                    self._lost(body, account, tokens, "error")
            return exc
        except TimeoutError:
            self.gate.leave(ticket)
            self._lost(body, account, tokens, "error")
            return ModelError(f"the model did not answer within {self.timeout_s:g} s", kind="timeout_error")
        except BaseException:
            self.gate.leave(ticket)
            self._lost(body, account, tokens, "interrupted")
            raise
        self.gate.succeeded(ticket)
        self.succeeded += 1
        account.seconds += time.perf_counter() - start
        usage, estimated = counted(message.get("usage"), body, message.get("content"))
        cost = account.model(billed_model(str(name), str(message.get("model") or "")), usage, estimated=estimated)
        if self.funds.bounded:
            self.funds.learn(tokens, int(body["max_tokens"]), cost)
        await self.turns.take()
        return message

    def _lost(self, body: Mapping[str, Any], account: Account, tokens: int, status: Status) -> None:
        """Book a request whose answer is lost: what it read is estimated; under a budget its worst case counts."""
        usage = Usage(input_tokens=tokens or estimate_tokens(body))
        worst = self.funds.request(tokens, int(body["max_tokens"])) if self.funds.bounded else None
        account.model(str(body["model"]), usage, status=status, estimated=True, worst=worst)

    def _may_repeat(self, error: ModelError, failures: int) -> bool:
        answered = self.succeeded or error.status is not None
        return retry_wait_s(error, 1) is not None and failures <= (MAX_FAILURES if answered else MAX_FIRST_FAILURES)


class Overloads:
    """How often one request was refused for load, and how long it waits for its next turn."""

    def __init__(self, gate: Gate) -> None:
        self.count = 0
        self._gate = gate
        self._since = 0.0

    def wait_s(self, error: ModelError) -> float | None:
        """Return the seconds to wait after another refusal, None to give up; a `retry-after` is waited out at the gate."""
        self.count += 1
        self._since = self._since or time.monotonic()
        starved = self._gate.starved_s
        if retry_wait_s(error, 1) is None or starved > PATIENCE_S or time.monotonic() - self._since > ROW_PATIENCE_S:
            return None
        told = error.retry_after or 0.0
        if told >= TRUSTED_S:
            return 0.0
        # Where others get through, an overload is bad luck: half of the usual wait is enough.
        return max(backoff_s(self.count) * (0.5 if starved < 1 else 1) - told, 0.0)


def is_overload(error: ModelError) -> bool:
    """Return whether an error says that there are too many requests, ours or everybody's."""
    return error.status in (429, 503, 529) or error.kind in _OVERLOAD_KINDS


def backoff_s(failures: int) -> float:
    """Return the seconds to wait after so many failures: half a second, doubled, at most eight, up to a quarter less."""
    return float(min(0.5 * 2 ** (failures - 1), MAX_BACKOFF_S) * (1 - 0.25 * random.random()))
