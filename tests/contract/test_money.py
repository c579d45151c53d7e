"""Contract: money is reserved before it is spent, counts once, and is never passed, over all processes of a home."""

import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ipy_websearch as web
from ipy_websearch import api
from ipy_websearch.errors import BudgetExceededError, MissingKeyError, ModelError, ProviderError, RateLimitedError
from tests.contract.helpers import CEO, ROW, boss, companies, keeps_searching, results_of, search, start
from tests.fakes.engines import Answer
from tests.fakes.replies import Manner, Recording, delay, error, recorded, usage

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


# --- Contract: what goes wrong outside is retried by law, said in one line, and never becomes data -------------------

UNAVAILABLE = "Search unavailable. Please answer from your knowledge."


def test_an_overloaded_model_is_asked_again_and_a_third_failure_is_one_line(messages_api: Any) -> None:
    messages_api.replies(error(529), error(429), "Here I am.", *[error(529)] * 3)
    assert web.ask("Who?").text == "Here I am."
    with pytest.raises(ModelError, match="529") as caught:
        web.ask("Who?")
    assert "\n" not in str(caught.value) and caught.value.status == 529 and len(messages_api.requests) == 6


def test_a_spend_cap_and_a_refused_request_are_not_retried(messages_api: Any) -> None:
    messages_api.replies(recorded("synthetic_error_429_spend_cap.json", status=429), error(400, message="messages.0: too odd"))
    for told in ("spend cap", "too odd"):
        with pytest.raises(ModelError, match=told):
            web.ask("Who?")
    assert len(messages_api.requests) == 2


def test_a_refused_model_key_names_the_fix_and_not_the_key(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    messages_api.allow_refusals = True
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong-and-secret")
    with pytest.raises(ModelError, match="%websearch key anthropic") as caught:
        web.ask("Who?")
    assert "secret" not in str(caught.value) and len(messages_api.requests) == 1


@pytest.mark.parametrize(("status", "requests"), [(500, 3), (503, 3), (400, 1), (403, 1), (429, 1)])
def test_engines_are_retried_on_server_errors_alone(brave_api: Any, status: int, requests: int) -> None:
    brave_api.behave(lambda values: Answer(body=brave_api.error_body(status), status=status))
    with pytest.raises(RateLimitedError if status == 429 else ProviderError) as caught:
        web.search("ruby author", provider="brave")
    assert len(brave_api.requests) == requests and "\n" not in str(caught.value)
    times = [request.at for request in brave_api.requests]
    assert all(later - before >= 0.9 for before, later in pairwise(times)), "a second lies between two tries"


def test_in_an_answer_a_failed_search_is_an_error_result_in_the_agreed_words(messages_api: Any, brave_api: Any) -> None:
    brave_api.fail(429)
    messages_api.replies(search("ruby author"), "From memory: Matz.")
    answer = web.ask("Who?", provider="brave")
    assert answer.text == "From memory: Matz." and answer.notices[0].startswith("brave answered 429")
    (result,) = results_of(messages_api.bodies[1])
    assert result["is_error"] and UNAVAILABLE in str(result["content"])


LONG = {"Retry-After": "400000"}


@pytest.mark.parametrize("name", ["brave", "google", "firecrawl", "tavily", "perplexity", "exa", "searxng"])
@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (401, {}, None),
        (402, {}, None),
        (403, {}, None),
        (429, LONG, None),
        (200, {}, "<h1>Log in</h1>"),
        (200, {}, {}),
        (200, {}, b"{"),
    ],
    ids=["key", "credit", "plan", "quota", "login page", "empty", "cut off"],
)
def test_a_failing_engine_hands_on_says_so_and_is_not_asked_again_at_once(
    engine: Any, wikipedia_api: Any, name: str, status: int, headers: Any, body: Any
) -> None:
    fake = engine(name)
    fake.fail(status, headers=headers, body=body)
    found = [web.search("moons of Mars", fresh=True) for _ in range(2)]
    assert {results.provider for results in found} == {"wikipedia"} and len(fake.requests) == 1
    assert name in found[0].notices[0] and found[0].notices == found[1].notices
    assert "wikipedia was asked instead" in found[0].notices[0]
    assert len(re.findall(r"(?:not asked again before|ask again at) 20\d\d-", found[0].notices[0])) == 1


@pytest.mark.parametrize("status", [403, 429])
def test_the_embedded_index_never_stands_in_for_a_failed_engine(brave_api: Any, offline: list[str], status: int) -> None:
    """A quota that is used up is said at once."""
    brave_api.fail(status, headers=LONG)
    with pytest.raises(ProviderError, match=f"the search failed: brave answered {status}.*; wikipedia could not be reached"):
        web.search("moons of Mars")
    assert len(brave_api.requests) == 1


@pytest.mark.parametrize("name", ["brave", "google", "tavily", "perplexity", "exa"])
def test_every_engine_gives_the_same_frame_and_refuses_without_a_key(engine: Any, name: str) -> None:
    with pytest.raises(MissingKeyError, match=f"%websearch key {name}") as caught:
        web.search("ruby author", provider=name)
    assert ".env" in str(caught.value)
    engine(name)
    frame = web.search("ruby author", provider=name, count=3).to_frame()
    assert list(frame.columns) == ["title", "url", "description", "published_date", "extra_snippets", "score"]
    assert len(frame) == 3 and frame.url.str.startswith("https://").all() and str(frame.published_date.dt.tz) == "UTC"


@pytest.mark.parametrize("body", [{"web": {"results": [None, 3, {"title": 5}]}}, "[" * 400 + "]" * 400])
def test_an_odd_answer_of_an_engine_is_one_line(brave_api: Any, body: Any) -> None:
    brave_api.reply(body=body)
    with pytest.raises(ProviderError, match=r"\A[^\n]+\Z"):
        web.search("ruby author", provider="brave")


def test_half_an_emoji_in_an_answer_can_be_shown_and_stored(brave_api: Any) -> None:
    brave_api.reply(body={"web": {"results": [{"title": "half an emoji \ud83d", "url": "https://a.example/"}]}})
    assert "half an emoji \ufffd".encode() in web.search("ruby author", provider="brave").to_frame().to_csv().encode()


def test_an_odd_event_of_a_stream_is_a_model_error(messages_api: Any) -> None:
    stream = recorded("mira_max_tokens_stream.sse")
    assert isinstance(stream, Recording) and stream.stream
    odd = Recording(stream.message, stream.stream.replace('"index":0', '"index":"first"'))
    messages_api.behave(lambda body: [odd])  # a stream that showed no text may be asked for again
    with pytest.raises(ModelError):
        web.ask("Who?")
