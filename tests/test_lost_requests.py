"""What went out and came to nothing is booked: models' requests and paid searches that were cut off, lost, or said nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

from ipy_websearch.errors import BudgetExceededError, ProviderError
from ipy_websearch.events import Notice
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.money.prices import model_cost
from ipy_websearch.providers import brave
from ipy_websearch.session import Session
from ipy_websearch.usage import Usage
from tests.fakes.money import held, spent
from tests.fakes.replies import delay, tool_use
from tests.fakes.scripted import Scripted
from tests.test_ask import ask

SONNET = "claude-sonnet-5-5"
SEARCH_USD = 0.005
USAGE: dict[str, Any] = {"input_tokens": 100, "output_tokens": 20}
MESSAGE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": SONNET,
    "content": [{"type": "text", "text": "Matz wrote Ruby, in 1995."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
}


def booked(session: Session) -> pd.DataFrame:
    """Return the session's ledger rows with all that stands in them."""
    frame = session.cost()
    session.ledger.close()
    return frame


def estimated(session: Session) -> list[bool]:
    """Return of each row whether its figures are our own."""
    return [bool(flag) for (flag,) in session.ledger.read(lambda c: c.execute("SELECT estimated FROM ledger").fetchall())]


# --- a model's request -----------------------------------------------------------------------------------------------


async def stopped(session: Session, messages_api: Any) -> None:
    """Ask, and stop when the question is there."""
    task = asyncio.create_task(session.ask("Who wrote Ruby?", provider="brave"))
    while not messages_api.requests:
        await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await session.aclose()


@pytest.mark.parametrize("end", ["stopped", "timed out"])
def test_an_ask_cut_off_before_its_reply_began_is_booked_at_what_it_read(messages_api: Any, session: Any, end: str) -> None:
    """The API bills what it has read; nothing is known of it, so the row is an estimate, and the session has paid it."""
    messages_api.behave(lambda body: ["late", delay(8)])
    if end == "stopped":
        asyncio.run(stopped(session, messages_api))
    else:
        answer = ask(session, timeout_s=0.5)
        assert answer.limit == "timeout" and answer.cost_usd == session.spent_usd
    frame = booked(session)
    tokens = estimate_tokens(messages_api.bodies[0])
    assert list(frame.status) == ["interrupted"] and list(frame.input_tokens) == [tokens] and list(frame.output_tokens) == [0]
    assert session.spent_usd == model_cost(SONNET, Usage(input_tokens=tokens)) > 0
    assert estimated(session) == [True]


def test_a_native_ask_cut_off_before_its_reply_began_is_booked_at_one_reading(messages_api: Any, session: Any) -> None:
    """What ten uses of the API's own tools might have added is no part of the estimate: none was begun."""
    messages_api.behave(lambda body: ["late", delay(8)])
    answer = ask(session, timeout_s=0.5, tools="native")
    frame = booked(session)
    assert list(frame.status) == ["interrupted"] and 0 < frame.input_tokens[0] < 4_000
    assert answer.cost_usd is not None and answer.cost_usd < Decimal("0.01")


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


def test_what_never_went_out_is_not_booked(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(Exception, match="could not reach the model"):
        ask(session)
    assert session.spent_usd == 0 and not booked(session).input_tokens.any()


# --- a reply that does not say what it used ----------------------------------------------------------------------------


@pytest.fixture
def server(session: Session, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """A Messages API that answers whatever a test scripts."""
    with Scripted() as scripted:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", scripted.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-fake-key-for-the-tests")
        yield scripted
        scripted.check()


def test_a_stream_without_an_event_is_booked_and_a_refusal_is_not(server: Scripted, session: Any) -> None:
    """A server that began to answer has read the question; one that answers 529 bills nothing."""
    server.answer(b"", headers={"content-type": "text/event-stream"})
    server.answer({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}, status=529)
    server.answer({**MESSAGE, "usage": USAGE})
    assert ask(session).text == "Matz wrote Ruby, in 1995."
    frame = booked(session)
    assert list(frame.status) == ["interrupted", "error", "ok"] and estimated(session)[0]
    assert frame.usd[0] > 0 and frame.usd[1] == 0


NOTHING_SAID = [None, {}, [], "many", {"input_tokens": None}, {"input_tokens": "many", "output_tokens": "few"}]
NO_COUNTS = [{"input_tokens": -1_000_000, "output_tokens": -5}, {"input_tokens": 10**25, "output_tokens": 1e308}]


@pytest.mark.parametrize("said", [*NOTHING_SAID, *NO_COUNTS], ids=repr)
def test_a_reply_without_usage_is_not_free(server: Scripted, session: Any, said: Any) -> None:
    """What it read and wrote is estimated from the texts, and the row says so."""
    server.answer({**MESSAGE, "usage": said})
    answer = ask(session)
    frame = booked(session)
    assert frame.input_tokens[0] > 500 and frame.output_tokens[0] == len("Matz wrote Ruby, in 1995.") // 4
    assert list(frame.status) == ["ok"] and estimated(session) == [True]
    assert 0 < answer.cost_usd < Decimal("0.01") and float(answer.cost_usd) == pytest.approx(frame.usd[0])


def test_only_what_is_missing_of_a_usage_is_estimated(server: Scripted, session: Any) -> None:
    """The input was counted, the output was not."""
    server.answer({**MESSAGE, "usage": {"input_tokens": 77.0}})
    ask(session)
    frame = booked(session)
    assert frame.input_tokens[0] == 77 and frame.output_tokens[0] == 6 and estimated(session) == [True]


def test_counts_written_as_decimals_are_counts(server: Scripted, session: Any) -> None:
    """Some servers write 100.0; that is no estimate."""
    server.answer({**MESSAGE, "usage": {"input_tokens": 100.0, "output_tokens": 20.0, "cache_read_input_tokens": 3.0}})
    ask(session)
    frame = booked(session)
    assert (frame.input_tokens[0], frame.output_tokens[0], frame.cache_read_tokens[0]) == (100, 20, 3)
    assert estimated(session) == [False]


@pytest.mark.parametrize("said", [None, {"input_tokens": -3, "output_tokens": "x"}])
def test_an_enrichments_reply_without_usage_is_not_free(server: Scripted, session: Any, said: Any) -> None:
    """A row's cost is what its texts are worth."""

    def answer(received: Any) -> Any:
        record = next(tool for tool in received.body["tools"] if tool["name"] == "record")
        found = {"value": "Ann", "source": "https://a.example/", "quote": "Ann leads it", "confidence": 0.9}
        cells = {name: found for name in record["input_schema"]["properties"]}
        call = {"type": "tool_use", "id": "toolu_1", "name": "record", "input": cells}
        return {**MESSAGE, "content": [call], "stop_reason": "tool_use", "usage": said}

    server.answer(answer)
    frame = pd.DataFrame({"company": ["A"]})
    out = asyncio.run(session.enrich(frame, {"ceo": "Who leads {company}?"}, progress=False, max_searches=0))
    assert out.ceo[0] == "Ann" and 0 < out.enrich_cost_usd[0] < 0.01
    assert estimated(session) == [True] and booked(session).usd[0] == pytest.approx(out.enrich_cost_usd[0])


# --- a paid search -----------------------------------------------------------------------------------------------------

LOST: dict[str, dict[str, Any]] = {
    "no JSON": {"body": b'{"web": {"results": ['},
    "no object": {"body": b"[1, 2]"},
    "no UTF-8": {"body": b'{"web": "\xff\xfe"}'},
    "not gzip": {"body": b"plain", "headers": {"content-encoding": "br"}},
    "no answer": {"delay_s": 5.0},
    "hung up": {"hang_up": True},
}


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brave has 0.3 s for its answer."""
    monkeypatch.setattr(brave.BraveProvider, "timeout_s", 0.3)


def searched(session: Any, query: str = "ruby author", **options: Any) -> Any:
    """Search, and return the results or the error."""

    async def main() -> Any:
        try:
            return await session.search(query, **options)
        except ProviderError as exc:
            return exc
        finally:
            await session.aclose()

    return asyncio.run(main())


@pytest.mark.parametrize("how", LOST)
def test_a_paid_search_whose_answer_is_lost_is_billed(brave_api: Any, session: Any, impatient: None, how: str) -> None:
    """It went out: a 200 that is of no use and an answer that never came count at the price expected, as an estimate."""
    brave_api.behave(lambda values: brave_answer(**LOST[how]))
    assert isinstance(searched(session, provider="brave"), ProviderError)
    frame = booked(session)
    assert list(frame.usd) == [SEARCH_USD] and list(frame.status) == ["error"] and estimated(session) == [True]
    assert session.spent_usd == Decimal("0.005")


def brave_answer(**settings: Any) -> Any:
    """Return what the fake is to answer."""
    from tests.fakes.engine import Answer

    return Answer(**{"results": []} | settings)


@pytest.mark.parametrize("status", [400, 401, 429, 500])
def test_a_refused_search_costs_nothing(brave_api: Any, session: Any, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is no answer that is billed."""
    brave_api.allow_refusals = True
    brave_api.fail(status, times=3 if status == 500 else 1)
    monkeypatch.setattr("ipy_websearch.http.client.asyncio.sleep", _at_once)
    assert isinstance(searched(session, provider="brave"), ProviderError)
    assert booked(session).empty and session.spent_usd == 0


async def _at_once(seconds: float) -> None:
    """Do not wait."""


def test_a_search_that_never_left_costs_nothing(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody listens there."""
    monkeypatch.setenv("BRAVE_BASE_URL", "http://127.0.0.1:9")
    assert "could not be reached" in str(searched(session, provider="brave"))
    assert booked(session).empty and session.spent_usd == 0


def test_a_stand_ins_answer_carries_the_lost_search_as_well(
    brave_api: Any, session: Any, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wikipedia answers for Brave; both are in the books, and a budget has paid for Brave."""
    monkeypatch.setenv("IPY_WEBSEARCH_CONTACT", "tests@example.org")
    session.settings.session_budget_usd = 1.0
    brave_api.reply(delay_s=5.0)
    results = searched(session)
    assert results.provider == "wikipedia" and results.cost_usd == Decimal("0.005")
    frame = booked(session)
    assert list(frame.name) == ["brave", "wikipedia"] and list(frame.usd) == [SEARCH_USD, 0.0]
    assert spent(session) == Decimal("0.005") and held(session) == 0
    again = searched(session)
    assert again.cost_usd == 0, "the lost search is not part of what the cache keeps"


def test_equal_searches_at_once_lose_the_money_once(brave_api: Any, session: Any, impatient: None) -> None:
    """One request went out for all of them."""
    brave_api.behave(lambda values: brave_answer(delay_s=5.0))

    async def main() -> None:
        searches = (session.search("ruby author", provider="brave") for _ in range(5))
        errors = await asyncio.gather(*searches, return_exceptions=True)
        assert all(isinstance(error, ProviderError) for error in errors)
        await session.aclose()

    asyncio.run(main())
    assert len(brave_api.requests) == 1 and list(booked(session).usd) == [SEARCH_USD]


def test_a_models_search_that_is_lost_is_part_of_the_answers_cost(
    messages_api: Any, brave_api: Any, session: Any, impatient: None
) -> None:
    """The model is told that the search failed; the row is an estimate."""
    brave_api.reply(delay_s=5.0)
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply("I do not know.")
    answer = ask(session)
    frame = booked(session)
    assert list(frame.kind) == ["model", "search", "model"] and frame.usd[1] == SEARCH_USD
    assert float(answer.cost_usd) == pytest.approx(frame.usd.sum()) and estimated(session) == [False, True, False]


def test_a_models_search_that_the_time_limit_cuts_off_is_billed(messages_api: Any, brave_api: Any, session: Any) -> None:
    """The question's time was over before the engine had answered."""
    brave_api.reply(delay_s=5.0)
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply("I do not know.")
    ask(session, timeout_s=2.0)
    frame = booked(session)
    assert list(frame.kind) == ["model", "search", "model"] and frame.usd[1] == SEARCH_USD


def test_a_rows_search_that_is_stopped_is_billed(messages_api: Any, brave_api: Any, session: Any) -> None:
    """The stop button during an enrichment, while the engine has not answered yet."""
    brave_api.behave(lambda values: brave_answer(delay_s=5.0))
    messages_api.behave(lambda body: tool_use("web_search", {"query": "who leads A"}))

    async def main() -> None:
        frame = pd.DataFrame({"company": ["A"]})
        task = asyncio.create_task(session.enrich(frame, {"ceo": "Who leads {company}?"}, progress=False, provider="brave"))
        while not brave_api.requests:
            await asyncio.sleep(0.05)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await session.aclose()

    asyncio.run(main())
    frame = booked(session)
    assert list(frame.kind) == ["model", "search"] and frame.usd[1] == SEARCH_USD and frame.status[1] == "interrupted"
    assert estimated(session) == [False, True]


def test_a_rows_search_whose_answer_is_lost_is_billed(messages_api: Any, brave_api: Any, session: Any, impatient: None) -> None:
    """The row fails, or another engine answers; either way the money is in the books once."""
    brave_api.behave(lambda values: brave_answer(delay_s=5.0))
    messages_api.behave(lambda body: tool_use("web_search", {"query": "who leads A"}))
    frame = pd.DataFrame({"company": ["A"]})
    out = asyncio.run(session.enrich(frame, {"ceo": "Who leads {company}?"}, progress=False, provider="brave"))
    rows = booked(session)
    assert list(rows.kind) == ["model", "search"] and rows.usd[1] == SEARCH_USD and rows.status[1] == "error"
    assert out.enrich_cost_usd[0] == pytest.approx(rows.usd.sum()) and estimated(session) == [False, True]


def test_a_paid_tool_that_asks_its_engine_itself_is_billed_too(
    messages_api: Any, brave_api: Any, session: Any, impatient: None
) -> None:
    """Passages cost what a search costs, also when they never came."""
    brave_api.behave(lambda values: brave_answer(delay_s=5.0))
    messages_api.reply(tool_use("brave_llm_context", {"query": "ruby author"}))
    messages_api.reply("I do not know.")
    ask(session, tools="brave_llm_context")
    frame = booked(session)
    assert list(frame.kind) == ["model", "context", "model"] and frame.usd[1] == SEARCH_USD and estimated(session)[1]


def test_an_engine_that_is_left_out_is_named_once_in_an_answer(
    messages_api: Any, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three searches find Brave out of reach: one line says that it failed and until when it is not asked again."""
    monkeypatch.setenv("BRAVE_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("IPY_WEBSEARCH_CONTACT", "tests@example.org")
    for n in range(3):
        messages_api.reply(tool_use("web_search", {"query": f"ruby author {n}"}))
    messages_api.reply("Matz.")
    said = asyncio.run(_notices(session))
    assert len(said) == 1 and "could not be reached" in said[0] and "not asked again before" in said[0]


async def _notices(session: Any) -> list[str]:
    """Ask along the chain; return the notices in the order in which they were shown."""
    said = [event.text async for event in session.start("Who wrote Ruby?", read_pages=0) if isinstance(event, Notice)]
    await session.aclose()
    return said
