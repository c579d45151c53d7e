"""Budgets: reserved before anything is sent, over questions, sessions and days; what a refusal says is true."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.money.budget import Booking, Budgets, RunBudget
from ipy_websearch.money.ledger import DAY_US, Ledger, LedgerRow
from ipy_websearch.money.prices import worst_case
from ipy_websearch.results import Charge, ModelResponded, Usage
from ipy_websearch.settings import WebSearch
from tests.fakes.money import total
from tests.money.test_ledger import Clock

SONNET = "claude-sonnet-5-5"
SEARCH = (Charge("brave"),)
DAY_S = DAY_US / 1_000_000


def budgets(ledger: Ledger, **limits: float | None) -> Budgets:
    """Return the budgets of session "s"."""
    wanted = WebSearch()
    for name, usd in limits.items():
        setattr(wanted, f"{name}_budget_usd", usd)
    return Budgets(lambda: wanted, lambda: ledger, "s")


def paid(ledger: Ledger, usd: str, *, session: str = "s", question: str = "q") -> LedgerRow:
    """Return a row that was paid just now."""
    now = datetime.fromtimestamp(ledger.clock(), UTC)
    return LedgerRow(now, session, question, "why?", "search", "brave", cost_usd=Decimal(usd))


def test_each_limit_counts_its_own() -> None:
    """A question's, the session's since its reset, and the day's over all sessions, from midnight UTC on."""
    clock = Clock()
    clock.seconds = datetime.now(UTC).replace(hour=23).timestamp()  # the last hour of the day
    ledger = Ledger(None, clock=clock)
    made = budgets(ledger, session=0.10, day=1.0)
    first, second = (made.for_question(id, Decimal("0.05")) for id in ("q1", "q2"))
    first.reserve(Decimal("0.05"), lease_s=60).settle([paid(ledger, "0.04", question="q1")])
    ledger.book([paid(ledger, "0.30", session="another")])
    assert first.left() == Decimal("0.01") and second.left() == Decimal("0.05")
    assert made.for_question("q3").left() == Decimal("0.06")
    clock.seconds += 1
    made.reset()
    assert made.for_question("q3").left() == Decimal("0.10") and first.left() == Decimal("0.01")
    everyone = budgets(ledger, day=0.35).for_question("q4")
    assert everyone.left() == Decimal("0.01")
    clock.seconds += DAY_S
    assert everyone.left() == Decimal("0.35")


def test_an_unusable_ledger_is_one_clear_line_under_a_limit(tmp_path: Any) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(BudgetExceededError, match=r"ledger .* cannot be written .*no budget can be kept"):
        budgets(Ledger(tmp_path / "data" / "l.sqlite"), day=1).for_question("q").reserve(Decimal("0.1"))


@settings(max_examples=60)
@given(
    limit=st.decimals("0.0001", "1", places=6),
    spent=st.decimals("0", "1", places=9),
    price=st.decimals("0.000000001", "1", places=9),
)
def test_what_a_refusal_says_is_true(limit: Decimal, spent: Decimal, price: Decimal) -> None:
    """What is left is less than what is needed, in the very figures that are shown, and the advice is enough."""
    ledger = Ledger(None)
    spent = min(spent, limit)
    ledger.book([paid(ledger, str(spent))])
    made = budgets(ledger, session=float(limit))
    try:
        made.for_question("q").reserve(price, what="a search with brave").settle([])
    except BudgetExceededError as exc:
        left, needed, enough = map(Decimal, re.findall(r"(\d+\.\d+) USD(?: left|;| \()", str(exc)))
        assert left < needed and left <= limit - spent and needed >= price and "%cost --budget" in str(exc)
        budgets(ledger, session=float(enough)).for_question("q").reserve(price)


# --- a run of the loop ----------------------------------------------------------------------------------------------------

actions = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["ask", "final", "search", "reply", "lost", "refused", "found", "close"]),
        st.integers(0, 120_000),
        st.integers(1, 20_000),
        st.floats(0, 1),
    ),
    max_size=50,
)


@settings(max_examples=60)
@given(
    steps=actions,
    limit=st.decimals("0.0001", "1", places=4),
    model=st.sampled_from([SONNET, "claude-haiku-5-5", "claude-opus-5-5", "claude-sonnet-4-5"]),
)
def test_no_sequence_of_events_passes_a_limit(steps: list[Any], limit: Decimal, model: str) -> None:
    """Four runs share a session's budget in any order; spent and held stay below it, and add up in the ledger."""
    ledger = Ledger(None)
    made = budgets(ledger, session=float(limit))
    runs = [RunBudget(model, made.for_question(f"q{n}")) for n in range(4)]
    books = [Booking(ledger, "s", f"q{n}", "why?", budget=run) for n, run in enumerate(runs)]
    granted: dict[int, tuple[int, int]] = {}
    calls: dict[int, list[str]] = {n: [] for n in range(4)}
    for n, action, tokens_in, tokens_out, share in steps:
        run, booking = runs[n], books[n]
        match action:
            case "ask" | "final" if n not in granted:
                got = run.grant(model, tokens_in, tokens_out, final=action == "final")
                if got is not None:
                    assert min(tokens_out, 256) <= got <= tokens_out
                    granted[n] = (tokens_in, got)
            case "search" if n not in granted and run.grant_call(f"c{len(calls[n])}", SEARCH):
                calls[n].append(f"c{len(calls[n])}")
            case "reply" | "lost" | "refused" if n in granted:
                most_in, most_out = granted.pop(n)
                used = Usage() if action == "refused" else Usage(0, int(most_out * share), 0, int(most_in * share))
                reason = None if action == "lost" else "end_turn"
                booking.take(ModelResponded(1, model, used, reason, 0.1, lost=reason is None))
            case "found" if calls[n]:
                booking.charges(SEARCH, id=calls[n].pop())
            case "close":
                granted.pop(n, None)
                calls[n].clear()
                booking.close()
            case _:
                pass
        (standing,) = ledger.standings(made.limits())
        assert standing.left >= 0
    for booking in books:
        booking.close()
    (standing,) = ledger.standings(made.limits())
    assert standing.held == 0 and standing.spent == total(ledger)[0] == sum(b.cost_usd or 0 for b in books)


@given(tokens=st.integers(0, 300_000), wanted=st.integers(1, 64_000), limit=st.decimals("0", "2", places=4))
@settings(max_examples=60)
def test_a_grant_is_the_most_that_fits(tokens: int, wanted: int, limit: Decimal) -> None:
    """As many tokens as were wanted, or as many as the money buys; fewer than 256 only where fewer were wanted."""
    run = RunBudget(SONNET, budgets(Ledger(None)).for_question("q", limit))

    def cost(most: int) -> Decimal:
        return worst_case(SONNET, tokens, most) or Decimal(0)

    got = run.grant(SONNET, tokens, wanted, final=True)
    if got is None:
        assert cost(min(wanted, 256)) > limit
    else:
        assert cost(got) <= limit and (got == wanted or cost(got + 1) > limit)
