"""Sends a row's requests: through the gate, again when that may help, each one booked. Nothing here knows of rows or columns.

A refusal for load (429, 529, 503) is waited out as long as the other side answers anybody at all; other failures that may
pass (a broken connection, a time-out) are tried a few times; everything else is the row's error at once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

from ipy_websearch.booking import UNTAPED
from ipy_websearch.enrichment.funds import Funds, Hold
from ipy_websearch.enrichment.schedule import Gate, Turns
from ipy_websearch.errors import ModelError
from ipy_websearch.ledger import Ledger, LedgerRow
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.model.retry import retry_wait_s
from ipy_websearch.pricing import charge_cost, model_cost
from ipy_websearch.usage import Charge, Usage

PATIENCE_S = 120.0
"""Seconds without a single success after which an overloaded service is given up."""

MAX_OVERLOADS = 30
MAX_FAILURES, MAX_FIRST_FAILURES = 5, 2
"""How often a broken request is sent again: less often while nothing has ever worked."""

MAX_BACKOFF_S = 8.0
_OVERLOAD_KINDS = ("overloaded_error", "rate_limit_error")


@dataclass(slots=True)
class Books:
    """Where a run's requests and searches are written down: one question of the ledger for the whole run."""

    ledger: Ledger
    session: str
    question_id: str
    question: str
    notebook: str = ""
    replayed_from: str = ""

    def row(self, kind: Any, name: str, cost: Decimal | None, **more: Any) -> LedgerRow:
        """Return a row of the ledger; what comes from a cassette cost nothing."""
        if self.replayed_from:
            cost, more["status"] = Decimal(0), more.get("status", "ok") if name in UNTAPED else "replayed"
        return LedgerRow(
            datetime.now(UTC),
            self.session,
            self.question_id,
            self.question,
            kind,
            name,
            cost_usd=cost,
            notebook=self.notebook,
            **more,
        )


@dataclass(slots=True)
class Account:
    """What one row of the frame has used: its ledger rows until they are booked, its cost (None: unknown), its time."""

    books: Books
    hold: Hold
    cost_usd: Decimal | None = Decimal(0)
    seconds: float = 0.0
    rows: list[LedgerRow] = field(default_factory=list)

    def model(
        self, name: str, usage: Usage, *, status: Literal["ok", "error", "interrupted"] = "ok", estimated: bool = False
    ) -> Decimal | None:
        """Note a model request; return what it cost (None: unknown)."""
        cost = model_cost(name, usage)
        self._spent(cost)
        self.rows.append(self.books.row("model", name, cost, usage=usage, status=status, estimated=estimated))
        return cost

    def charges(self, charges: Sequence[Charge], *, failed: bool) -> None:
        """Note calls to engines."""
        for charge in charges:
            cost = charge_cost(charge)
            self._spent(cost)
            facts = {"units": charge.units, "unit": charge.unit, "cached": charge.cached}
            self.rows.append(self.books.row(charge.kind, charge.provider, cost, status="error" if failed else "ok", **facts))

    def _spent(self, cost: Decimal | None) -> None:
        if not self.books.replayed_from:  # else a budget counts it all the same: it ends where it did
            self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + cost
        self.hold.spent += cost or Decimal(0)

    def close(self) -> None:
        """Book what was noted and settle the money."""
        self.hold.settle()
        for row in self.rows:
            self.books.ledger.hold(row)
        self.rows = []


@dataclass(slots=True)
class Sender:
    """Sends requests for all rows of a run."""

    client: ModelClient
    gate: Gate
    funds: Funds
    timeout_s: float
    sleep: Callable[[float], Any] = asyncio.sleep
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
        failures = overloads = 0
        while True:
            account.hold.cover(tokens, int(body["max_tokens"]))
            error = await self._once(body, account, tokens, again=failures + overloads > 0)
            if not isinstance(error, ModelError):
                return error
            overloaded = is_overload(error)
            overloads, failures = overloads + overloaded, failures + (not overloaded)
            if not self._may_repeat(error, failures, overloads):
                raise error
            if error.retry_after is None or not overloaded:
                # Where others get through, an overload is bad luck: half of the usual wait is enough.
                lucky = overloaded and self.gate.starved_s < 1
                await self.sleep(backoff_s(failures + overloads) * (0.5 if lucky else 1))

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
                message = await self.client.whole(body)
        except ModelError as exc:
            if is_overload(exc):
                self.gate.refused(ticket, exc.retry_after)
            else:
                self.gate.leave(ticket)
            return exc
        except TimeoutError:
            self.gate.leave(ticket)
            account.model(name, Usage(input_tokens=tokens or estimate_tokens(body)), status="error", estimated=True)
            return ModelError(f"the model did not answer within {self.timeout_s:g} s", kind="timeout_error")
        except BaseException:
            self.gate.leave(ticket)
            account.model(name, Usage(input_tokens=tokens or estimate_tokens(body)), status="interrupted", estimated=True)
            raise
        self.gate.succeeded(ticket)
        self.succeeded += 1
        account.seconds += time.perf_counter() - start
        usage = Usage.from_api(message.get("usage"))
        cost = account.model(str(message.get("model") or name), usage)
        if self.funds.bounded:
            self.funds.learn(tokens, int(body["max_tokens"]), cost)
        await self.turns.take()
        return message

    def _may_repeat(self, error: ModelError, failures: int, overloads: int) -> bool:
        if retry_wait_s(error, 1) is None:
            return False
        if is_overload(error):
            return self.gate.starved_s < PATIENCE_S and overloads < MAX_OVERLOADS
        return failures <= (MAX_FAILURES if self.succeeded else MAX_FIRST_FAILURES)


def is_overload(error: ModelError) -> bool:
    """Return whether an error says that there are too many requests, ours or everybody's."""
    return error.status in (429, 503, 529) or error.kind in _OVERLOAD_KINDS


def backoff_s(failures: int) -> float:
    """Return the seconds to wait after so many failures: half a second, doubled, at most eight, up to a quarter less."""
    return float(min(0.5 * 2 ** (failures - 1), MAX_BACKOFF_S) * (1 - 0.25 * random.random()))
