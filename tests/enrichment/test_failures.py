"""A failure of an engine or of the model is a status with its reason: never a value, never kept, and asked again."""

import asyncio
import selectors
import time
from collections.abc import Coroutine
from typing import Any

import duckdb
import pandas as pd
import pytest

import ipy_websearch as web
from ipy_websearch import background, sql
from ipy_websearch.enrichment.limiter import ConcurrencyLimiter
from ipy_websearch.errors import EnrichmentError
from tests.contract.helpers import CEO, ROW, boss, companies, company_in, record, results_of, search
from tests.fakes.engines import Answer, hit
from tests.fakes.replies import error, hang_up

QUOTA = {"X-RateLimit-Limit": "1, 2000", "X-RateLimit-Remaining": "0, 0", "X-RateLimit-Reset": "1, 1419704"}


def searches(body: Any) -> Any:
    """A model that searches once, then records what it was given."""
    if len(body["messages"]) == 1:
        return search(f"CEO of {company_in(body)}")
    return record(ceo="Jo Doe" if "search_result" in str(results_of(body)) else None)


def many(number: int = 100) -> pd.DataFrame:
    return companies(*(f"C{n}" for n in range(number)))


STATUSES = {"no credit": 402, "forbidden": 403, "quota": 429, "server errors": 500}
BROKEN = {
    "timeout": Answer([], delay_s=5),
    "hang-up": Answer([], hang_up=True),
    "garbage": Answer(body="<html>this is no JSON"),
}


def failing(brave: Any, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the engine into one of its ways of failing."""
    if mode == "timeout":
        monkeypatch.setattr("ipy_websearch.providers.brave.BraveProvider.timeout_s", 1.0)
    if mode == "refused key":
        brave.allow_refusals = True
        monkeypatch.setenv("BRAVE_API_KEY", "BSA-wrong-and-secret")
    elif mode == "unreachable":
        monkeypatch.setenv("BRAVE_BASE_URL", "http://127.0.0.1:9")
    else:
        status = STATUSES.get(mode, 200)
        refused = Answer(body=brave.error_body(status), status=status, headers=QUOTA if mode == "quota" else {})
        brave.behave(lambda values: BROKEN.get(mode, refused))


# How an engine fails, what is said of it, and the most requests that a hundred rows may cost it.
MODES = {
    "refused key": ("%websearch key brave", 20),
    "no credit": ("brave", 20),
    "forbidden": ("brave", 20),
    "quota": ("brave", 20),
    "server errors": ("brave", 60),
    "timeout": ("brave did not answer", 60),
    "hang-up": ("brave", 80),
    "garbage": ("brave", 20),
    "unreachable": ("brave", 0),
}


@pytest.mark.parametrize("mode", MODES)
def test_a_dead_engine_ends_the_run_and_after_its_repair_every_row_is_asked(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    (told, most_requests), key, address = MODES[mode], brave_api.key, brave_api.url
    messages_api.behave(searches)
    failing(brave_api, mode, monkeypatch)
    began = time.monotonic()
    with pytest.raises(EnrichmentError, match=told) as caught:
        web.enrich(many(), CEO, provider="brave", progress=False)
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)
    assert len(messages_api.requests) <= 20 and len(brave_api.requests) <= most_requests
    assert mode != "quota" or time.monotonic() - began < 60, "a quota that is used up is not waited for"

    monkeypatch.setenv("BRAVE_API_KEY", key)
    monkeypatch.setenv("BRAVE_BASE_URL", address)
    monkeypatch.setattr("ipy_websearch.providers.brave.BraveProvider.timeout_s", 10.0)
    brave_api.behave(None)
    out = web.enrich(many(30), CEO, provider="brave", progress=False)
    assert set(out.enrich_status) == {"ok"} and set(out.ceo) == {"Jo Doe"}


@pytest.mark.parametrize("mode", MODES)
def test_a_dead_engine_is_no_data_in_sql_and_search_either(
    brave_api: Any, offline: list[str], shell: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    failing(brave_api, mode, monkeypatch)
    with duckdb.connect() as con:
        sql.register(con)
        with pytest.warns(UserWarning, match="brave"):
            assert con.sql("SELECT web_search('moons of Mars')").fetchall() == [(None,)]
    ran = shell.run("%search --provider brave moons of Mars")
    assert not ran.ok and MODES[mode][0] in str(ran.error) and ran.value is None
    assert len(brave_api.requests) <= MODES[mode][1] + 6


def test_searched_but_empty_and_not_found_by_the_model_are_told_apart(messages_api: Any, brave_api: Any) -> None:
    brave_api.behave(lambda values: [] if "C0" in values["q"] else [hit("https://a.example/", "A", "About A")])
    messages_api.behave(lambda body: searches(body) if len(body["messages"]) == 1 else record(ceo=None))
    for _ in range(2):  # the second time from the store
        out = web.enrich(companies("C0", "C1"), CEO, provider="brave", progress=False)
        report = out.attrs["report"]
        assert (
            list(out.enrich_status) == ["ok", "ok"] and "found nothing" in out.enrich_error[0] and pd.isna(out.enrich_error[1])
        )
        assert report["columns"]["ceo"] == {"cells": 2, "filled": 0, "not_found": 1, "no_results": 1}
        assert "0 of 2 cells filled, 1 not found, 1 without a search result" in str(report)
    assert len(messages_api.requests) == 4


def test_a_web_engine_that_stands_in_is_named_in_the_rows_and_the_report_and_not_taken_for_the_first(
    messages_api: Any, brave_api: Any, wikipedia_api: Any
) -> None:
    """Values from Wikipedia are not served any more when Brave works again."""
    messages_api.behave(searches)
    brave_api.behave(lambda values: Answer(body=brave_api.error_body(402), status=402))
    out = web.enrich(many(4), CEO, progress=False)
    assert set(out.enrich_status) == {"ok"} and out.enrich_error.str.contains("wikipedia was asked instead").all()
    assert "wikipedia was asked instead" in "\n".join(out.attrs["report"]["warnings"])
    brave_api.behave(None)
    web.api.end_session()  # a new kernel knows of no failure
    again = web.enrich(many(4), CEO, progress=False)
    assert again.enrich_error.isna().all() and len(messages_api.requests) == 16


@pytest.mark.parametrize("key", ["", "BSA-wrong-and-secret"])
def test_articles_of_the_package_are_no_answer_of_the_web(
    messages_api: Any, brave_api: Any, offline: list[str], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """With no network, and no key or a refused one; unless they are named, or the built-in model asks without a key. Nothing is
    kept: with the right key the row is asked again."""
    messages_api.behave(searches)
    brave_api.allow_refusals = True
    monkeypatch.setenv("BRAVE_API_KEY", key)
    few = web.enrich(companies("Mars"), CEO, progress=False).iloc[0]
    told = "the key was refused" if key else "wikipedia could not be reached"
    assert few.enrich_status == "error" and pd.isna(few.ceo) and told in few.enrich_error and "secret" not in few.enrich_error
    assert web.api.session().enrich_store.listing().empty
    for options in ({"provider": "local"}, *([] if key else [{"model": "offline"}])):
        assert web.enrich(companies("Mars"), CEO, progress=False, **options).enrich_status[0] == "ok"
    monkeypatch.setenv("BRAVE_API_KEY", brave_api.key)
    again = web.enrich(companies("Mars"), CEO, progress=False)
    assert (again.enrich_status[0], again.ceo[0], pd.isna(again.enrich_error[0])) == ("ok", "Jo Doe", True)


def test_a_chain_whose_every_engine_failed_is_asked_again_by_the_next_call(messages_api: Any, wikipedia_api: Any) -> None:
    messages_api.behave(searches)
    wikipedia_api.behave(lambda values: Answer(hang_up=True))
    assert "wikipedia could not be reached" in web.enrich(many(4), CEO, progress=False).enrich_error[0]
    wikipedia_api.behave(None)
    again = web.enrich(many(4), CEO, progress=False)
    assert set(again.enrich_status) == {"ok"} and again.enrich_error.isna().all()


def test_an_engine_that_fails_for_a_while_is_asked_on(messages_api: Any, brave_api: Any) -> None:
    """It has worked before, so the rows behind the failures are filled, in the same run."""
    messages_api.behave(searches)
    brave_api.behave(lambda values: Answer([], hang_up=20 < len(brave_api.requests) <= 120))
    out = web.enrich(many(200), CEO, provider="brave", progress=False)
    assert set(out.enrich_status) == {"ok", "error"} and out.enrich_status.iloc[-1] == "ok"


def test_a_refused_model_key_is_one_message_after_twenty_rows_at_most(
    messages_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages_api.allow_refusals = True
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong-and-secret")
    with pytest.raises(EnrichmentError, match="%websearch key anthropic") as caught:
        web.enrich(many(500), CEO, concurrency=100, **ROW)
    assert len(messages_api.requests) <= 20 and "secret" not in str(caught.value)


def test_only_equal_failures_at_the_start_end_a_run(messages_api: Any) -> None:
    """Questions that are refused for reasons of their own do not keep the rows behind them from being asked."""
    reasons = {f"C{n}": error(400, message=chr(97 + n)) for n in range(26)}
    messages_api.behave(lambda body: reasons.get(company_in(body)) or boss(body))
    statuses = list(web.enrich(many(30), CEO, concurrency=4, **ROW).enrich_status)
    assert statuses == ["error"] * 26 + ["ok"] * 4
    messages_api.behave(lambda body: record(size=f"about {company_in(body)}"))
    with pytest.raises(EnrichmentError, match="stopped after .* rows failed: .* is no int"):
        web.enrich(many(), {"size": ("{company}?", int)}, concurrency=1, **ROW)
    assert len(messages_api.requests) < 60


def test_a_model_that_takes_nothing_from_the_start_is_given_up_soon(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it names no time to wait; measured with the real four seconds: less than ten."""
    monkeypatch.setattr("ipy_websearch.enrichment.run.START_S", 0.5)
    messages_api.behave(lambda body: error(529, retry_after_ms=None))
    with pytest.raises(EnrichmentError, match="529"):
        web.enrich(many(), CEO, **ROW)
    assert len(messages_api.requests) <= 40


@pytest.mark.parametrize(
    ("status", "message"), [(402, "no credit"), (400, "Your credit balance is too low to access the Anthropic API.")]
)
def test_credit_that_runs_out_later_keeps_what_was_filled(messages_api: Any, status: int, message: str) -> None:
    messages_api.behave(lambda body: boss(body) if len(messages_api.requests) <= 30 else error(status, message=message))
    out = web.enrich(many(200), CEO, concurrency=4, **ROW)
    assert 26 <= (out.enrich_status == "ok").sum() <= 30 and set(out.enrich_status) == {"ok", "error"}
    warnings = "\n".join(out.attrs["report"]["warnings"])
    assert len(messages_api.requests) <= 40 and "stopped: " in warnings and "add credit" in warnings


def test_a_row_is_not_asked_without_its_search_because_money_or_the_call_is_lacking(messages_api: Any, brave_api: Any) -> None:
    """What the budget leaves would pay for an answer from memory; a search that was asked for wrongly finds nothing either."""
    messages_api.behave(searches)
    out = web.enrich(many(20), CEO, provider="brave", budget_usd=0.05, progress=False)
    assert set(out.enrich_status) == {"ok", "budget"} and (out.enrich_status == "ok").sum() == len(brave_api.requests)
    assert "a search and a short answer" in out.enrich_error[out.enrich_status == "budget"].iloc[0]
    messages_api.behave(lambda body: search("x") if len(body["messages"]) == 1 else record(ceo=None))
    out = web.enrich(companies("too short"), CEO, provider="brave", progress=False)
    assert out.enrich_status[0] == "error" and "the search failed: Invalid input" in out.enrich_error[0]


def test_only_requests_that_may_be_billed_are_booked(messages_api: Any, session: Any) -> None:
    """A row that was refused and waits for its turn has cost nothing; a connection that was cut may have."""
    messages_api.behave(lambda body: error(429, headers={"retry-after": "30"}))

    work = session.enrichment(many(16), CEO, budget_usd=5, concurrency=1, **ROW)
    task = background.Task(work.run)
    while "retry-after" not in work.progress.text:
        time.sleep(0.05)
    task.cancel()
    assert len(messages_api.requests) == 1 and session.cost().usd.sum() == 0
    messages_api.behave(lambda body: [record(ceo="x"), hang_up()])
    out = web.enrich(companies("A"), CEO, budget_usd=5, **ROW)
    assert out.enrich_cost_usd[0] == pytest.approx(web.cost().usd.sum()) and out.enrich_cost_usd[0] > 0


def test_a_lost_search_is_booked_once_at_its_price(messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    messages_api.behave(searches)
    failing(brave_api, "timeout", monkeypatch)
    out = web.enrich(companies("A"), CEO, provider="brave", budget_usd=1, progress=False)
    rows = web.cost()
    assert out.enrich_status[0] == "error" and list(rows[rows.kind == "search"].usd) == [0.005]
    assert rows.usd.sum() == pytest.approx(out.enrich_cost_usd[0])


# --- The limiter, on an event loop whose time passes while it waits: nothing here takes time -------------------------


class QuickSelector(selectors.SelectSelector):
    """Waits for nothing: `now` is the time at which the loop's next timer is due."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


def quickly(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine on a loop with a time of its own."""
    selector = QuickSelector()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main)


class Server:
    """A server that takes `cap` requests at once and refuses the others with a `retry-after`."""

    def __init__(self, most: int, cap: int, retry_after: float = 1.0, **options: Any) -> None:
        self.cap, self.retry_after, self.now = cap, retry_after, asyncio.get_running_loop().time
        self.limiter = ConcurrencyLimiter(most, clock=self.now, **options)
        self.active = self.done = self.refused = self.early = 0
        self.closed_until = 0.0

    async def request(self) -> None:
        self.early += self.now() < self.closed_until
        if self.active >= self.cap:
            self.refused += 1
            await asyncio.sleep(0.01)
            self.closed_until = self.now() + self.retry_after
            raise ConnectionError
        self.active += 1
        await asyncio.sleep(0.2)
        self.active -= 1
        self.done += 1

    async def run(self, rows: int) -> float:
        """Return the seconds that it takes to send so many requests."""
        sent = (self.limiter.run(self.request, lambda exc: self.retry_after) for _ in range(rows))
        began = self.now()
        await asyncio.gather(*sent, return_exceptions=True)
        return self.now() - began


def test_the_limit_settles_at_what_the_server_takes_and_tries_more_now_and_then() -> None:
    async def main() -> None:
        server = Server(most=100, cap=20)
        assert await server.run(4000) < 1.3 * 4000 * 0.2 / 20
        assert server.done == 4000 and 80 < server.refused < 200 and server.limiter.limit <= 25

    quickly(main())


@pytest.mark.parametrize(("taken", "named_s", "least_s", "most_s"), [(1, 0, 20, 39), (0, 0, 4, 10), (0, 1, 20, 39)])
def test_after_its_patience_nobody_waits_for_a_server_that_takes_nothing(
    taken: int, named_s: float, least_s: float, most_s: float
) -> None:
    """It is shorter where nothing was taken and no time named, and requests that come later do not wait that long again."""

    async def main() -> None:
        server = Server(most=4, cap=1, retry_after=named_s, patience_s=30, start_s=5)
        await server.run(taken)
        server.cap = 0
        assert least_s < await server.run(40) < most_s and server.refused < 45

    quickly(main())


@pytest.mark.parametrize("named_s", [2.0, 5.0, 15.0])
def test_a_server_that_names_a_time_is_waited_for_from_the_start(named_s: float) -> None:
    async def main() -> None:
        server = Server(most=16, cap=0, retry_after=named_s, start_s=5)
        asyncio.get_running_loop().call_later(29, setattr, server, "cap", 16)
        assert 29 < await server.run(40) < 29 + named_s + 10 and server.done == 40 and server.early == 0

    quickly(main())


@pytest.mark.parametrize("wait_s", [3600.0, None])
def test_a_far_retry_after_and_other_errors_are_raised_at_once(wait_s: float | None) -> None:
    async def refuse() -> None:
        raise ConnectionError

    limiter = ConcurrencyLimiter(4)
    with pytest.raises(ConnectionError):
        asyncio.run(limiter.run(refuse, lambda exc: wait_s))
    assert limiter.in_flight == 0
