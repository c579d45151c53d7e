"""Budgets, ledger and prices: money is reserved before it is spent, and what was sent and lost counts too."""

import asyncio
import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies as st

from ipy_websearch.errors import BudgetExceededError, ConfigError, ProviderError
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.money.budget import Booking, Budget, RunBudget
from ipy_websearch.money.ledger import BUSY_S, DAY_US, GROUPS, RETRY_S, Kind, Ledger, LedgerRow, Limit, cost_frame
from ipy_websearch.money.prices import billed_model, charge_cost, model_cost, own_prices, worst_case
from ipy_websearch.providers import brave
from ipy_websearch.results import Charge, ModelResponded, Usage
from ipy_websearch.session import Session
from ipy_websearch.settings import WebSearch
from tests.contract.helpers import ask
from tests.fakes.engines import Answer
from tests.fakes.replies import NOW, Clock, delay, error, held, spent, thinking, total, truncated, usage

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


# --- The ledger: what is booked stays and counts once, whatever happens to the file; every report is the exact sum of its rows

CENT = Decimal("0.01")
OLD_FILE = Path(__file__).parents[1] / "data" / "ledger_0_1_0.sqlite"


def row(usd: str | None = "0.01", *, session: str = "s", question: str = "why?", **more: Any) -> LedgerRow:
    """Return a row of a paid search."""
    cost = None if usd is None else Decimal(usd)
    return LedgerRow(NOW, session, "q", question, "search", "brave", cost_usd=cost, **more)


@contextmanager
def locked(path: Path, mode: str) -> Iterator[None]:
    """Hold the file's write lock, as a program does that hangs; in the mode EXCLUSIVE nobody can read it either."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA locking_mode = {mode}")
        connection.execute("BEGIN IMMEDIATE")
        yield


@contextmanager
def in_the_way(path: Path, mode: str) -> Iterator[None]:
    """Have a file where the ledger's folder should be, as good as a home that is read-only."""
    path.parent.rmdir()
    path.parent.touch()
    yield
    path.parent.unlink()


# --- rows ---------------------------------------------------------------------------------------------------------------


@given(
    counts=st.lists(st.integers(), min_size=7, max_size=7),
    units=st.decimals(),
    usd=st.decimals(),
    name=st.text(),
)
def test_no_row_is_lost_because_of_what_a_server_said(counts: list[int], units: Decimal, usd: Decimal, name: str) -> None:
    ledger = Ledger(None)
    ledger.book([LedgerRow(NOW, "s", "q", name, "model", name, Usage(*counts), units, cost_usd=usd), row()])
    assert len(cost_frame(ledger)) == 2


def test_rows_cannot_be_changed(tmp_path: Path) -> None:
    Ledger(tmp_path / "l.sqlite").book([row()])
    with closing(sqlite3.connect(tmp_path / "l.sqlite")) as other:
        for statement in ("UPDATE ledger SET usd = 0", "DELETE FROM ledger"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                other.execute(statement)


def test_a_file_of_0_1_0_is_read_once_and_then_flat(tmp_path: Path) -> None:
    """Its rows, sums and unknown prices stay."""
    path = Path(shutil.copy(OLD_FILE, tmp_path / "l.sqlite"))
    for _ in range(2):
        with closing(Ledger(path)) as ledger:
            frame = cost_frame(ledger)
            assert total(ledger) == (Decimal("0.0173"), 1) and total(ledger, session="s1") == (Decimal("0.0173"), 0)
    assert list(frame.name) == ["claude-sonnet-5-5", "brave", "claude-from-the-future", "exa"]
    assert list(frame.units) == [0, 1, 0, 1.5] and list(frame.cache_write_tokens) == [12, 0, 0, 0]
    assert frame.summary is not None and frame.summary.saved_usd == Decimal("0.007")


# --- reservations -------------------------------------------------------------------------------------------------------


def reserve(ledger: Ledger, usd: str, limit: str = "0.10", *, lease_s: float = 60, session: str = "s", id: str = "") -> Any:
    """Reserve under a session's and a day's limit."""
    limits = [Limit("session budget", Decimal(limit), "", "session", session), Limit("day's budget", Decimal(limit), "")]
    return ledger.reserve(session, "q", Decimal(usd), lease_s=lease_s, limits=limits, id=id)


def test_settling_is_one_transaction(tmp_path: Path) -> None:
    """Whoever looks sees the money held or spent, never both and never neither, also when the insert fails."""
    ledger = Ledger(tmp_path / "l.sqlite")
    held = reserve(ledger, "0.06")
    with closing(sqlite3.connect(tmp_path / "l.sqlite")) as other:
        sums = "SELECT (SELECT total(usd) FROM ledger) + (SELECT total(usd) FROM reservations)"
        other.execute("CREATE TRIGGER refuse BEFORE INSERT ON ledger BEGIN SELECT raise(ABORT, 'the disk is full'); END")
        held.settle([row("0.06")])
        assert other.execute(sums).fetchone() == (60_000_000,) and ledger.news()
        other.execute("DROP TRIGGER refuse")
        other.commit()
        assert other.execute("SELECT count(*) FROM reservations").fetchone() == (1,)
    assert total(ledger)[0] == Decimal("0.06")


# --- a file in trouble --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "mode", "before", "within"),
    [(locked, "EXCLUSIVE", "0.02", "0"), (locked, "NORMAL", "0.04", "0.04"), (in_the_way, "", "0", "0")],
    ids=["locked at opening", "locked later", "no folder"],
)
def test_where_nothing_can_be_written_that_is_said_and_rows_wait_until_it_can(
    tmp_path: Path, trouble: Any, mode: str, before: str, within: str
) -> None:
    """They count meanwhile; nothing is reserved, since nobody knows what the others hold."""
    path, clock = tmp_path / "data" / "l.sqlite", Clock()
    path.parent.mkdir()
    ledger = Ledger(path, clock=clock)
    if mode:
        with closing(ledger if mode == "NORMAL" else Ledger(path)) as earlier:
            earlier.book([row(before)])
    with trouble(path, mode):
        with pytest.raises((sqlite3.Error, OSError)):
            reserve(ledger, "0.01")
        ledger.book([row("0.03", usage=Usage(5))])
        (said,) = ledger.news()
        assert f"{path} cannot be written" in said and ledger.news() == []
        assert total(ledger)[0] == Decimal("0.03") + Decimal(within)
    clock.seconds += RETRY_S + BUSY_S
    assert reserve(ledger, "0.01").usd == CENT
    assert total(Ledger(path))[0] == Decimal("0.03") + Decimal(before)


# --- reports ------------------------------------------------------------------------------------------------------------

rows = st.builds(
    LedgerRow,
    time=st.integers(0, 10**6).map(lambda seconds: NOW - timedelta(seconds=seconds)),
    session=st.sampled_from("st"),
    question_id=st.sampled_from("abc"),
    question=st.sampled_from(["why?", "how?"]),
    kind=st.sampled_from(get_args(Kind)),
    name=st.sampled_from(["claude", "brave"]),
    usage=st.builds(Usage, *[st.integers(0, 10**6)] * 7),
    cost_usd=st.none() | st.decimals(0, 10, places=9),
    cached=st.booleans(),
    saved_usd=st.none() | st.decimals(0, 1, places=9),
)


@settings(max_examples=30)
@given(booked=st.lists(rows, max_size=12), seconds=st.integers(0, 10**6), session=st.none() | st.sampled_from("st"))
def test_every_report_is_the_exact_sum_of_its_rows(booked: list[LedgerRow], seconds: int, session: str | None) -> None:
    """For any rows, session and moment: sums, counts, savings and unknown prices, in every grouping."""
    ledger, since = Ledger(None), NOW - timedelta(seconds=seconds)
    ledger.book(booked)
    mine = [row for row in booked if session in (None, row.session) and row.time >= since]
    known = [row.cost_usd for row in mine if row.cost_usd is not None]
    assert total(ledger, session=session, since=since) == (sum(known, Decimal(0)), len(mine) - len(known))
    for by in (None, *GROUPS):
        frame = cost_frame(ledger, session=session, since=since, by=by)
        summary = frame.summary
        assert (
            summary is not None and summary.total_usd == sum(known) and sum(summary.unpriced.values()) == len(mine) - len(known)
        )
        assert summary.saved_usd == sum(row.saved_usd or 0 for row in mine if row.cached)
        assert summary.saved_prompt_usd == sum(row.saved_usd or 0 for row in mine if not row.cached)
        assert frame.input_tokens.sum() == sum(row.usage.input_tokens for row in mine)
        assert frame.cached.sum() == sum(row.cached for row in mine)
        assert len(frame) == len(mine) if by is None else frame.calls.sum() == len(mine)


# --- What requests and calls cost: exact, from the right table, and unknown rather than wrong ------------------------

HAIKU, SONNET, OPUS = "claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5"
US_SONNET = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVEMBER = datetime(2026, 11, 20, tzinfo=UTC)
MILLION = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}


def write_prices(text: str) -> Path:
    """Write the user's own price file into the test's settings folder, as before a start."""
    path = Path(os.environ["IPY_WEBSEARCH_HOME"]) / "prices.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("model", "used", "batch", "usd"),
    [
        # A million Sonnet 5.5 tokens of each class cost 2, 10, 0.10, 2.50 and 4 dollars; a search costs a cent.
        (SONNET, {"input_tokens": 1_000_000}, False, "2"),
        (SONNET, {"output_tokens": 1_000_000}, False, "10"),
        (SONNET, {"cache_read_tokens": 1_000_000}, False, "0.1"),
        (SONNET, {"cache_write_5m_tokens": 1_000_000}, False, "2.5"),
        (SONNET, {"cache_write_1h_tokens": 1_000_000}, False, "4"),
        (SONNET, {"server_searches": 3, "server_fetches": 5}, False, "0.03"),
        # Above 100,000 tokens of input, cached ones included, all of a Haiku 5.5 request is billed five times as high.
        (HAIKU, {"input_tokens": 40_000, "cache_read_tokens": 60_000, "output_tokens": 1000}, False, "0.0051"),
        (HAIKU, {"input_tokens": 40_001, "cache_read_tokens": 60_000, "output_tokens": 1000}, False, "0.0255005"),
        # A batch halves tokens and not searches; a cached Haiku token costs 10 nano-dollars.
        (HAIKU, {"cache_read_tokens": 1}, False, "0.00000001"),
        (HAIKU, {"cache_read_tokens": 1}, True, "0.000000005"),
        (HAIKU, {"server_searches": 1}, True, "0.01"),
        ("claude-sonnet-4-20250514", {"output_tokens": 1_000_000}, True, "7.5"),
    ],
)
def test_a_request_costs_what_its_tokens_do(model: str, used: dict[str, int], batch: bool, usd: str) -> None:
    assert model_cost(model, Usage(**used), batch=batch, at=NOVEMBER) == Decimal(usd)


@pytest.mark.parametrize(
    ("spelling", "usd"),
    [
        ("claude-haiku-4-5@20251001", "6"),
        ("claude-haiku-4-5-20251001", "6"),
        ("Claude-Haiku-4-5", "6"),
        ("anthropic/claude-haiku-4.5", "6"),
        ("global.anthropic.claude-haiku-4-5-20251001-v1:0", "6"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "6.6"),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "19.8"),
        ("arn:aws:bedrock:eu-west-1:1234:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "19.8"),
        ("claude-sonnet-5-5[1m]", "12"),
    ],
)
def test_models_are_known_by_the_names_other_platforms_give_them(spelling: str, usd: str) -> None:
    """Bedrock's regional ids cost a tenth more than its global ones and the Claude API; Vertex has "@" before the date."""
    cost = model_cost(spelling, Usage(input_tokens=1000, output_tokens=1000), at=NOVEMBER)
    assert cost == Decimal(usd) / 1000


@pytest.mark.parametrize(
    ("model", "fields", "usd"),
    [
        (OPUS, {"speed": "standard", "inference_geo": "global"}, "30"),
        (OPUS, {"speed": "fast"}, "60"),
        (OPUS, {"inference_geo": "us"}, "33"),
        (OPUS, {"speed": "fast", "inference_geo": "us"}, "66"),
        ("claude-opus-4-6", {"inference_geo": "us"}, "33"),
        ("claude-opus-4-5-20251101", {"inference_geo": "us"}, "30"),
        ("claude-sonnet-4-20250514", {"inference_geo": "us"}, "18"),
        (OPUS, {"speed": ["fast"], "inference_geo": {}}, "30"),
        ("claude-haiku-4-5", {"speed": "fast"}, None),
    ],
)
def test_tokens_cost_what_the_reply_says_they_were_had_at(model: str, fields: dict[str, Any], usd: str | None) -> None:
    """Fast mode by the price list, or unknown; the US alone a tenth more, from version 4.6 on; searches cost the same. A batch
    has no fast mode."""
    counts = Usage.from_api({**MILLION, **fields, "server_tool_use": {"web_search_requests": 100}})
    assert model_cost(model, counts) == (None if usd is None else Decimal(usd) + 1)
    if fields == {"speed": "fast"}:
        assert model_cost(model, counts, batch=True) == (15 if model == OPUS else 3) + 1


@pytest.mark.parametrize(
    ("asked", "answered", "billed"),
    [
        (US_SONNET, "claude-sonnet-4-5-20250929", US_SONNET),
        (US_SONNET, "claude-sonnet-4-5", US_SONNET),
        (US_SONNET, "anthropic.claude-sonnet-4-5-20250929-v1:0", US_SONNET),
        ("us.anthropic.claude-opus-5", OPUS, "us.anthropic.claude-opus-5"),
        ("claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20260101", "claude-haiku-4-5-20260101"),
        ("us.anthropic.claude-opus-5-5", OPUS, OPUS),
        ("claude-fable-5-1", "claude-fable-5", "claude-fable-5"),
        ("us.anthropic.claude-opus-5", "claude-sonnet-5", "claude-sonnet-5"),
        (OPUS, "my-gateway-model", OPUS),
        ("my-deployment", OPUS, OPUS),
        ("my-deployment", "their-name", "their-name"),
        (OPUS, "", OPUS),
        (OPUS, "5", OPUS),
    ],
)
def test_the_id_that_is_billed_is_the_one_that_says_most(asked: str, answered: str, billed: str) -> None:
    """Another model is believed; a name without a price, or one without the region that the request named, is not."""
    assert billed_model(asked, answered) == billed


def test_a_worst_case_counts_cache_writes_and_native_searches() -> None:
    """A million tokens written to the cache cost 2.50 dollars with Sonnet 5.5, 4 for an hour; ten native searches ten cents."""
    assert worst_case(SONNET, 1_000_000, 0) == Decimal("2.5") and worst_case(SONNET, 1_000_000, 0, hour_cache=True) == 4
    assert worst_case(SONNET, 0, 0, server_searches=10) == Decimal("0.1")


@pytest.mark.parametrize(
    ("charge", "usd"),
    [
        (Charge("brave"), "0.005"),
        (Charge("brave", "context"), "0.005"),
        (Charge("google"), "0.005"),
        (Charge("firecrawl", "fetch", Decimal(1), "credit"), "0.00099"),
        (Charge("firecrawl", "search", Decimal(3), "credit"), "0.00297"),
        (Charge("tavily", "search", Decimal(2), "credit"), "0.016"),
        (Charge("perplexity"), "0.005"),
        (Charge("exa"), "0.007"),
        (Charge("wikipedia"), "0"),
        (Charge("searxng"), "0"),
        (Charge("local"), "0"),
        (Charge("web_fetch", "fetch"), "0"),
        (Charge("exa", usd=Decimal("0.0123")), "0.0123"),
        (Charge("unheard-of", usd=Decimal("0.5")), "0.5"),
        (Charge("brave", cached=True), "0"),
        (Charge("unheard-of"), None),
        (Charge("brave", unit="credit"), None),
    ],
)
def test_engines_cost_what_they_report_or_what_the_table_says(charge: Charge, usd: str | None) -> None:
    """The answer's own figure wins over the table; a cached call costs nothing; unknown is None, never 0."""
    assert charge_cost(charge) == (None if usd is None else Decimal(usd))


def test_the_users_own_prices_win() -> None:
    """A row for the same provider, kind and unit is replaced, a new one added, a model priced."""
    write_prices(
        '[[price]]\nprovider = "Brave"\nkind = "search"\nunit = "request"\nusd = 0.009\nplan = "old Pro"\n'
        '[[price]]\nprovider = " tavily "\nkind = "*"\nunit = "Request"\nusd = 1\nplan = 2\ndate = 2026-11-01\n'
        '[[model]]\nid = "claude-mythos-5-1"\ninput = 10\noutput = 50\ncache_read = 0.25\n'
        '[[model]]\nid = "my-gateway/claude-opus-5"\ninput = 1\noutput = 1\n'
    )
    assert billed_model("my-gateway/claude-opus-5", OPUS) == "my-gateway/claude-opus-5"
    assert billed_model("my-gateway/claude-opus-5", SONNET) == SONNET
    assert charge_cost(Charge("brave")) == Decimal("0.009")
    assert charge_cost(Charge("brave", "context")) == Decimal("0.005")
    assert charge_cost(Charge("tavily", "map")) == 1
    assert own_prices().rows["brave", "search", "request"].plan == "old Pro"
    usage = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
    assert model_cost("claude-mythos-5-1", usage) == Decimal("70.25")
    assert model_cost("claude-mythos-5-1", usage, batch=True) == Decimal("35.125")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[price]]\nprovider = "brave"\nkind = search', "line 3"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = "five"', r"price.1.usd: .* not 'five'"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = nan', "price.1.usd: .*NaN"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = -1', "price.1: .* -1 US dollars are less"),
        ('[[model]]\nid = "m"\ninput = 1e400\noutput = 1', "model.1: .* more than a million"),
        ('[[price]]\nprovider = "x"\nkind = "serch"\nunit = "request"\nusd = 1', "price.1.kind: .*'serch'"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nusd = 1', "price.1.unit: "),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunits = "request"\nusd = 1', "price.1.unit"),
        ('[price]\nprovider = "x"', "price: "),
        ("[[models]]\nid = 1", "models: "),
        ('[[model]]\nid = "m"\ninput = 1', "model.1.output: "),
    ],
)
def test_a_wrong_price_file_is_one_line_until_it_is_mended(text: str, message: str) -> None:
    """The line or field is named; nothing is priced with a file that is half understood."""
    path = write_prices(text)
    for _ in range(2):
        with pytest.raises(ConfigError, match=message) as caught:
            charge_cost(Charge("brave"))
        assert "\n" not in str(caught.value) and path.name in str(caught.value)
    path.write_text("# mended\n")
    assert charge_cost(Charge("brave")) == Decimal("0.005")
