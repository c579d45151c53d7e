"""Contract: money is reserved before it is spent, counts once, and is never passed, over all processes of a home."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ipy_websearch as web
from ipy_websearch import api
from ipy_websearch.errors import BudgetExceededError
from tests.contract.helpers import CEO, ROW, boss, companies, keeps_searching, search, start
from tests.fakes.money import held, spent
from tests.fakes.replies import Manner, delay, error, thinking, truncated, usage

SEARCHER = """
import sys
import ipy_websearch as web
from ipy_websearch.errors import BudgetExceededError
print("ready", flush=True)
sys.stdin.readline()
done = 0
for n in range(8):
    try:
        web.search(f"{sys.argv[1]} query {n}", provider="brave")
        done += 1
    except BudgetExceededError:
        pass
print(done, flush=True)
"""


def used(tokens_in: int, tokens_out: int) -> Any:
    """Bill so many tokens, none of them from the cache."""
    uncached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation": None}
    return usage(input_tokens=tokens_in, output_tokens=tokens_out, **uncached)


def booked() -> pd.DataFrame:
    """Return the rows of the ledger, those of other processes too."""
    return web.cost(everything=True)


def test_every_request_and_paid_call_is_a_row_of_the_ledger(messages_api: Any, brave_api: Any) -> None:
    messages_api.reply(search("ruby author"), used(1000, 100))
    messages_api.reply("Matz.", used(2000, 10))
    answer = web.ask("Who?", provider="brave")
    rows = web.cost()
    assert sorted(rows.kind) == ["model", "model", "search"]
    assert Decimal(str(rows.usd.sum())).quantize(Decimal("1e-9")) == answer.cost_usd.quantize(Decimal("1e-9"))
    assert rows.usd[rows.kind == "search"].iloc[0] == pytest.approx(0.005)
    assert rows.usd[rows.kind == "model"].sum() == pytest.approx((3000 * 2 + 110 * 10) / 1e6), "2 and 10 USD a million"
    assert answer.usage.input_tokens == 3000 and answer.usage.output_tokens == 110


def test_an_unknown_price_is_unknown_and_never_zero(messages_api: Any) -> None:
    messages_api.models["claude-from-the-future"] = 1_000_000
    messages_api.reply("Hello.")
    assert web.ask("Who?", model="claude-from-the-future").cost_usd is None
    assert web.cost().usd.isna().all()


def test_fifty_questions_at_once_stay_under_one_budget(messages_api: Any, brave_api: Any, session: Any) -> None:
    """What the services served is worth no more, though every reply is as long as it may be; who began has an answer."""
    session.settings.session_budget_usd = 0.40
    messages_api.behave(lambda body: [*keeps_searching(body), used(3_000, body["max_tokens"]), delay(0.005)])

    async def all_of_them() -> list[Any]:
        questions = (session.ask(f"question number {n}?", provider="brave") for n in range(50))
        return await asyncio.gather(*questions, return_exceptions=True)

    outcomes = asyncio.run(all_of_them())
    answers = [outcome for outcome in outcomes if not isinstance(outcome, BudgetExceededError)]
    refused = [str(outcome) for outcome in outcomes if isinstance(outcome, BudgetExceededError)]
    assert refused and all("raise it to at least" in line and "\n" not in line for line in refused)
    tokens = sum(used["input_tokens"] * 2 + used["output_tokens"] * 10 for used in messages_api.usages)
    served = Decimal(tokens) / 1_000_000 + len(brave_api.requests) * Decimal("0.005")
    assert answers and all(answer.text.endswith("The answer from what there is.") for answer in answers)
    assert spent(session) == served <= Decimal("0.40") and held(session) == 0


def test_a_request_is_sent_again_only_when_that_can_be_paid(messages_api: Any) -> None:
    """A refused request costs nothing and gives its money back; one that broke off after it was billed may not."""
    messages_api.replies(error(529), ["Two.", used(300, 300)])
    assert web.ask("How many?", budget_usd="0.02").text == "Two."
    messages_api.replies(*[[thinking("Well, let me think."), used(5_000, 0), truncated(1)]] * 2)
    with pytest.raises(BudgetExceededError, match="the model did not answer, and"):
        web.ask("How many?", budget_usd="0.02")
    assert len(messages_api.bodies) == 3 and 0.01 < web.cost().usd.iloc[-1] < 0.02
    messages_api._queue.clear()


def test_a_whole_reply_is_not_paid_for_again_although_its_connection_broke(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies([search("ruby author"), Manner(breaks=True)], "Matz.")
    assert web.ask("Who?", provider="brave").searches == 1 and len(messages_api.requests) == 2


def test_what_is_cached_is_free_under_a_used_up_budget_and_a_reset_gives_all_of_it_again(brave_api: Any) -> None:
    """The count starts anew, the ledger keeps the rows."""
    web.search("ruby author", provider="brave")
    api.session().settings.session_budget_usd = 0.005
    assert web.search("ruby author", provider="brave").cached
    for query, fresh in (("ruby year", False), ("ruby author", True)):
        with pytest.raises(BudgetExceededError, match="session budget"):
            web.search(query, provider="brave", fresh=fresh)
    api.session().reset_cost()
    assert web.search("ruby year", provider="brave") and len(brave_api.requests) == 2
    assert len(web.cost()) == 1 and len(booked()) == 3


def test_the_budget_reckons_with_the_dearest_engine_of_the_chain(brave_api: Any, engine: Any) -> None:
    """Any of them may have to answer; one that is named costs its own price."""
    tavily = engine("tavily")
    api.session().settings.session_budget_usd = 0.006
    with pytest.raises(BudgetExceededError, match="a search with tavily"):
        web.search("moons of Mars")
    assert not brave_api.requests and not tavily.requests and web.search("moons of Mars", provider="brave")


def test_a_stand_ins_results_cost_what_was_lost_before_and_are_free_from_the_cache(brave_api: Any, wikipedia_api: Any) -> None:
    brave_api.reply(body=b'{"web": {"results": [')
    results = web.search("moons of Mars")
    assert results.provider == "wikipedia" and results.cost_usd == Decimal("0.005")
    assert list(web.cost().name) == ["brave", "wikipedia"] and list(web.cost().usd) == [0.005, 0.0]
    assert web.search("moons of Mars").cost_usd == 0


def test_a_row_cannot_be_changed_and_holds_no_key(brave_api: Any, tmp_path: Path) -> None:
    web.search(f"is {brave_api.key} a key?", provider="brave")
    (path,) = tmp_path.rglob("ledger.sqlite")
    assert brave_api.key not in web.cost().question[0] and path.stat().st_mode & 0o077 == 0
    for statement in ("UPDATE ledger SET usd = 0", "DELETE FROM ledger"):
        with closing(sqlite3.connect(path)) as file, pytest.raises(sqlite3.IntegrityError, match="append-only"):
            file.execute(statement)


def test_a_full_disk_costs_no_result_and_no_row(brave_api: Any, tmp_path: Path) -> None:
    """It is said, the row counts meanwhile, and is on file when the kernel ends."""
    web.search("first query", provider="brave")
    with closing(sqlite3.connect(next(tmp_path.rglob("ledger.sqlite")))) as file:
        file.execute("CREATE TRIGGER full BEFORE INSERT ON ledger BEGIN SELECT raise(ABORT, 'database or disk is full'); END")
        assert "disk is full" in str(web.search("second query", provider="brave").notices)
        assert web.cost().usd.sum() == pytest.approx(0.01)
        file.execute("DROP TRIGGER full")
        file.commit()
    api.end_session()
    assert booked().usd.sum() == pytest.approx(0.01)


def test_three_processes_of_a_home_never_pass_the_budget_of_a_day(brave_api: Any) -> None:
    children = [start(SEARCHER, name, IPY_WEBSEARCH_DAY_BUDGET_USD="0.05") for name in ("one", "two", "three")]
    try:
        assert [child.stdout.readline() for child in children] == ["ready\n"] * 3  # type: ignore[union-attr]
        done = [child.communicate("\n", timeout=60)[0] for child in children]
    finally:
        for child in children:
            child.kill()
    assert sum(int(line) for line in done) == len(brave_api.requests) == 10
    assert booked().usd.sum() == pytest.approx(0.05)


def test_enrichment_never_passes_its_budget_and_says_which_rows_were_not_asked(messages_api: Any) -> None:
    messages_api.behave(lambda body: [boss(body), used(900, 100)])
    out = web.enrich(companies(*(f"C{n}" for n in range(100))), CEO, budget_usd=0.005, **ROW)
    counts = out.enrich_status.value_counts()
    assert set(counts.index) == {"ok", "budget"} and 0 < counts["ok"] == len(messages_api.requests)
    assert 0 < out.enrich_cost_usd.sum() <= 0.005 and web.cost().usd.sum() == pytest.approx(out.enrich_cost_usd.sum())


ASKS = """
import ipy_websearch as web
web.ask("Who wrote Ruby?", provider="brave")
"""


def test_kill_9_during_a_question_loses_nothing_that_was_spent(messages_api: Any, brave_api: Any) -> None:
    messages_api.reply(search("ruby author"), used(1000, 100))
    messages_api.reply(delay(60), "Late.")
    child = start(ASKS)
    messages_api.wait(lambda api: len(api.requests) == 2, timeout_s=60)
    child.kill()
    child.communicate()
    rows = booked()
    assert sorted(rows.kind[rows.usd > 0])[-1] == "search" and rows.usd.sum() > 0.0079
