"""Contract: money is reserved before it is spent, counts once, and is never passed, over all processes of a home."""

from __future__ import annotations

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
from tests.fakes.replies import Manner, delay, usage

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


def test_the_sessions_budget_holds_over_questions(messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IPY_WEBSEARCH_SESSION_BUDGET_USD", "0.1")
    messages_api.behave(lambda body: [*keeps_searching(body), used(3000, 50)])
    with pytest.raises(BudgetExceededError) as caught:
        for _ in range(60):
            web.ask("Who?", provider="brave", max_searches=50, max_steps=50)
    assert 0.05 < web.cost().usd.sum() <= 0.1 and "\n" not in str(caught.value)


def test_a_whole_reply_is_not_paid_for_again_although_its_connection_broke(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies([search("ruby author"), Manner(breaks=True)], "Matz.")
    assert web.ask("Who?", provider="brave").searches == 1 and len(messages_api.requests) == 2


def test_a_key_in_a_question_is_not_in_the_ledger(brave_api: Any, tmp_path: Path) -> None:
    web.search(f"is {brave_api.key} a key?", provider="brave")
    (path,) = tmp_path.rglob("ledger.sqlite")
    assert brave_api.key not in web.cost().question[0] and path.stat().st_mode & 0o077 == 0


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
