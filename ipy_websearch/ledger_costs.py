"""What `%cost` and `cost()` give: the ledger's frame with its exact sums, for a session or for all of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

from ipy_websearch.frames import CostFrame, CostSummary
from ipy_websearch.ledger import Ledger
from ipy_websearch.ledger_report import GroupName


def cost_frame(
    ledger: Ledger, *, session: str | None = None, since: datetime | None = None, by: str | None = None
) -> CostFrame:
    """Return `Ledger.frame` of one session (None: all), from a moment on, as a `CostFrame` with its summary.

    Raises:
        ConfigError: there is no such group.
    """
    frame = CostFrame(ledger.frame(session=session, since=since, by=cast("GroupName | None", by)))
    total, _ = ledger.total(session, since)
    calls, prompts = ledger.savings(session, since)
    frame.summary = CostSummary(
        total_usd=total,
        unpriced=ledger.unpriced(session, since),
        saved_calls_usd=calls,
        saved_prompt_usd=prompts,
        scope=_scope(session, since),
        rows=len(frame),
    )
    return frame


def _scope(session: str | None, since: datetime | None) -> str:
    whose = "all sessions" if session is None else "this session"
    if since is None:
        return whose
    moment = (since if since.tzinfo else since.replace(tzinfo=UTC)).astimezone(UTC)
    return f"{whose} since {moment:%Y-%m-%d %H:%M} UTC"
