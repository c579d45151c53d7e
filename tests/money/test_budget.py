"""Budgets: reserved before anything is sent, over questions, sessions and days; what was sent and lost counts too."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_websearch.errors import BudgetExceededError, ProviderError
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.money.budget import Booking, Budget, RunBudget
from ipy_websearch.money.ledger import DAY_US, Ledger, LedgerRow
from ipy_websearch.money.prices import model_cost
from ipy_websearch.providers import brave
from ipy_websearch.results import Charge, ModelResponded, Usage
from ipy_websearch.session import Session
from ipy_websearch.settings import WebSearch
from tests.contract.helpers import ask
from tests.fakes.engines import Answer
from tests.fakes.replies import Clock, delay, error, held, spent, thinking, total, truncated, usage

SONNET = "claude-sonnet-5-5"
SEARCH = (Charge("brave"),)
DAY_S = DAY_US / 1_000_000
SEARCH_USD = Decimal("0.005")


def budget(ledger: Ledger, **limits: float | None) -> Budget:
    """Return the budget of session "s"."""
    wanted = WebSearch()
    for name, usd in limits.items():
        setattr(wanted, f"{name}_budget_usd", usd)
    return Budget(ledger, "s", lambda: wanted)


def paid(ledger: Ledger, usd: str, *, session: str = "s", question: str = "q") -> LedgerRow:
    """Return a row that was paid just now."""
    now = datetime.fromtimestamp(ledger.clock(), UTC)
    return LedgerRow(now, session, question, "why?", "search", "brave", cost_usd=Decimal(usd))


def test_each_limit_counts_its_own() -> None:
    """A question's, the session's since its reset, and the day's over all sessions, from midnight UTC on."""
    clock = Clock()
    clock.seconds = datetime.now(UTC).replace(hour=23).timestamp()  # the last hour of the day
    ledger = Ledger(None, clock=clock)
    made = budget(ledger, session=0.10, day=1.0)
    first, second = (made.for_question(id, Decimal("0.05")) for id in ("q1", "q2"))
    first.reserve(Decimal("0.05"), lease_s=60).settle([paid(ledger, "0.04", question="q1")])
    ledger.book([paid(ledger, "0.30", session="another")])
    assert first.left() == Decimal("0.01") and second.left() == Decimal("0.05")
    assert made.for_question("q3").left() == Decimal("0.06")
    clock.seconds += 1
    made.reset()
    assert made.for_question("q3").left() == Decimal("0.10") and first.left() == Decimal("0.01")
    everyone = budget(ledger, day=0.35).for_question("q4")
    assert everyone.left() == Decimal("0.01")
    clock.seconds += DAY_S
    assert everyone.left() == Decimal("0.35")


def test_an_unusable_ledger_is_one_clear_line_under_a_limit(tmp_path: Any) -> None:
    (tmp_path / "data").write_text("in the way")
    with pytest.raises(BudgetExceededError, match=r"ledger .* cannot be written .*no budget can be kept"):
        budget(Ledger(tmp_path / "data" / "l.sqlite"), day=1).for_question("q").reserve(Decimal("0.1"))


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
    made = budget(ledger, session=float(limit))
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


# --- questions ----------------------------------------------------------------------------------------------------------


def test_a_failed_request_is_sent_again_only_when_that_can_be_paid(messages_api: Any, session: Any) -> None:
    """A refused request costs nothing and gives its money back; one that broke off after it was billed may not."""
    messages_api.replies([error(529)], ["Two.", usage(output_tokens=300)])
    assert ask(session, budget_usd="0.02").text == "Two."
    messages_api.reply(thinking("Well."), usage(input_tokens=5_000, cache_creation_input_tokens=0), truncated(1))
    with pytest.raises(BudgetExceededError, match="the model did not answer, and"):
        ask(session, budget_usd="0.02")
    assert len(messages_api.bodies) == 3 and spent(session) == session.spent_usd


def test_a_search_may_be_handed_on_to_a_dearer_engine(engine: Any, brave_api: Any, session: Any) -> None:
    """The budget reckons with the dearest engine of the chain, since any of them may have to answer."""
    engine("tavily")
    session.settings.session_budget_usd = 0.006
    assert "a search with tavily" in str(searched(session, "moons of Mars")) and not brave_api.requests
    assert searched(session, "moons of Mars", provider="brave").cost_usd == SEARCH_USD


def test_a_used_up_budget_leaves_what_is_cached_and_a_reset_begins_anew(brave_api: Any, session: Any) -> None:
    """The count starts anew, the ledger keeps the rows."""
    session.settings.session_budget_usd = 0.005
    assert searched(session, provider="brave") and searched(session, provider="brave").cached
    for options in ({"query": "ruby year"}, {"fresh": True}):
        assert isinstance(searched(session, provider="brave", **options), BudgetExceededError)
    session.reset_cost()
    assert searched(session, "ruby year", provider="brave") and brave_api.queries == ["ruby author", "ruby year"]
    assert session.spent_usd == SEARCH_USD and len(session.cost(everything=True)) == 3


def test_an_unknown_price_is_refused_under_a_budget(messages_api: Any, session: Any) -> None:
    """No budget can be kept with it; the line says so and where a price can be written."""
    messages_api.models["claude-from-the-future"] = 1_000_000
    with pytest.raises(BudgetExceededError, match="price of claude-from-the-future is unknown.*prices.toml"):
        ask(session, model="claude-from-the-future", budget_usd="1")
    assert messages_api.requests == []


def test_native_searches_are_bounded_by_the_money(messages_api: Any, session: Any) -> None:
    """The uses that the API is allowed shrink to what the budget buys at worst; without a budget they stay."""
    messages_api.behave(lambda request: ["Two."])
    most = [5, 4, 0]
    for budget, uses in zip((None, "0.60", "0.02"), most, strict=True):
        answer = ask(session, tools="native", budget_usd=budget)
        offered = {tool["name"]: tool["max_uses"] for tool in messages_api.bodies[-1].get("tools", ())}
        assert all(0 < used <= uses for used in offered.values()) and bool(offered) == bool(uses)
        assert any("native searches" in notice or "left out" in notice for notice in answer.notices) == (budget is not None)


def estimated(session: Session) -> list[bool]:
    """Return of each row whether its figures are our own."""
    return [bool(flag) for (flag,) in session.ledger.read(lambda c: c.execute("SELECT estimated FROM ledger").fetchall())]


# --- a model's request -----------------------------------------------------------------------------------------------


def test_a_budget_counts_all_that_was_reserved_for_a_lost_request(messages_api: Any, session: Any) -> None:
    """It is booked at that; questions that time out do not leave the session's budget untouched."""
    session.settings.session_budget_usd = 0.02
    messages_api.behave(lambda body: ["late", delay(8)])
    ask(session, timeout_s=2)
    read = model_cost(SONNET, Usage(input_tokens=estimate_tokens(messages_api.bodies[0])))
    assert read and spent(session) == session.spent_usd > 2 * read and estimated(session) == [True]
    with pytest.raises(BudgetExceededError):
        for _ in range(3):
            ask(session, timeout_s=2)
    assert spent(session) <= Decimal("0.02") and held(session) == 0


# --- a reply that does not say what it used ----------------------------------------------------------------------------


@pytest.mark.parametrize("said", [(None, -5), ("many", -5), (-1_000_000, -5), (10**25, 1e308)])
def test_a_reply_without_usage_is_not_free(messages_api: Any, session: Any, said: tuple[Any, Any]) -> None:
    """What it read and wrote is estimated from the texts, and the row says so."""
    messages_api.reply("Matz wrote Ruby, in 1995.", usage(input_tokens=said[0], output_tokens=said[1]))
    answer, frame = ask(session), session.cost()
    assert frame.input_tokens[0] > 500 and frame.output_tokens[0] == len("Matz wrote Ruby, in 1995.") // 4
    assert list(frame.status) == ["ok"] and estimated(session) == [True]
    assert 0 < answer.cost_usd < Decimal("0.01") and float(answer.cost_usd) == pytest.approx(frame.usd[0])


def test_a_stream_without_an_event_is_booked_and_a_refusal_is_not(messages_api: Any, session: Any) -> None:
    """A server that began to answer has read the question; one that answers 529 bills nothing."""
    messages_api.replies(["Matz.", truncated(0)], [error(529)], "Matz.")
    assert ask(session).text == "Matz."
    frame = session.cost()
    assert list(frame.status) == ["interrupted", "error", "ok"] and estimated(session)[0]
    assert frame.usd[0] > 0 and frame.usd[1] == 0


# --- a paid search -----------------------------------------------------------------------------------------------------

LOST: dict[str, dict[str, Any]] = {
    "no JSON": {"body": b'{"web": {"results": ['},
    "no object": {"body": b"[1, 2]"},
    "no UTF-8": {"body": b'{"web": "\xff\xfe"}'},
    "not gzip": {"body": b"plain", "headers": {"content-encoding": "br"}},
    "no answer": {"delay_s": 60.0},
    "hung up": {"hang_up": True},
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brave has 1.5 s for its answer, which a busy machine needs to give one at all."""
    monkeypatch.setattr(brave.BraveProvider, "timeout_s", 1.5)


def searched(session: Any, query: str = "ruby author", **options: Any) -> Any:
    """Search, and return the results or the error."""

    async def main() -> Any:
        try:
            return await session.search(query, **options)
        except (BudgetExceededError, ProviderError) as exc:
            return exc
        finally:
            await session.aclose()

    return asyncio.run(main())


@pytest.mark.parametrize("how", LOST)
def test_a_paid_search_whose_answer_is_lost_is_billed(brave_api: Any, session: Any, impatient: None, how: str) -> None:
    """It went out: a 200 that is of no use and an answer that never came count at the price expected, as an estimate. A refusal
    is no answer that is billed. Where Wikipedia answers in its place, its results carry the lost search as well."""
    session.settings.session_budget_usd = 1.0
    brave_api.fail(429)
    assert isinstance(searched(session, provider="brave"), ProviderError) and session.cost().empty
    brave_api.behave(lambda values: Answer(**{"results": [], **LOST[how]}))
    results = searched(session)
    assert results.provider == "wikipedia" and results.cost_usd == spent(session) == session.spent_usd == SEARCH_USD
    frame = session.cost()
    assert list(frame.status) == ["error", "ok"] and estimated(session) == [True, False] and held(session) == 0
    assert searched(session).cost_usd == 0, "the lost search is not part of what the cache keeps"
