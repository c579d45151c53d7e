"""Budgets at the door: nothing passes them, however many questions share one, and a small one still gives an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from ipy_websearch.errors import BudgetExceededError, ProviderError
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.money.prices import model_cost
from ipy_websearch.providers import brave
from ipy_websearch.results import Usage
from ipy_websearch.session import Session
from tests.contract.helpers import ask
from tests.fakes.engines import Answer
from tests.fakes.money import held, spent
from tests.fakes.replies import delay, error, server_search, thinking, tool_use, truncated, usage
from tests.fakes.scripted import Scripted

SONNET = "claude-sonnet-5-5"
# November 2026, US dollars a token: input, output, cache read, five-minute cache write; a Brave search is half a cent.
PRICE = (Decimal("2e-6"), Decimal("10e-6"), Decimal("0.1e-6"), Decimal("2.5e-6"))
SEARCH = Decimal("0.005")
UNCACHED = {"cache_creation_input_tokens": 0, "cache_creation": None, "cache_read_input_tokens": 0}


def served(messages_api: Any, brave_api: Any = None) -> Decimal:
    """Return what the fakes really served is worth, counted from their own records."""
    total = len(brave_api.requests) * SEARCH if brave_api is not None else Decimal(0)
    for used in messages_api.usages:
        counts = (
            used["input_tokens"],
            used["output_tokens"],
            used.get("cache_read_input_tokens") or 0,
            used.get("cache_creation_input_tokens") or 0,
        )
        total += sum(count * price for count, price in zip(counts, PRICE, strict=True))
        total += ((used.get("server_tool_use") or {}).get("web_search_requests") or 0) * Decimal("0.01")
    return total


def greedy(request: dict[str, Any]) -> list[Any]:
    """Search while that is allowed, and use every output token that was asked for."""
    spent = usage(output_tokens=request["max_tokens"])
    if (request.get("tool_choice") or {}).get("type") == "none":
        return ["The answer from what there is.", spent]
    number = sum(len(m["content"]) for m in request["messages"] if isinstance(m["content"], list))
    query = f"{request['messages'][0]['content'][0]['text']} {number}"
    return ["Let me look. ", tool_use("web_search", {"query": query}), spent, delay(0.005)]


# --- many at once ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["session_budget_usd", "day_budget_usd"])
def test_fifty_questions_at_once_stay_under_one_budget(messages_api: Any, brave_api: Any, session: Any, which: str) -> None:
    """What the services served is worth no more than the budget, though every reply is as long as it may be."""
    limit = 0.40
    setattr(session.settings, which, limit)
    messages_api.behave(greedy)

    async def all_of_them() -> list[Any]:
        questions = (session.ask(f"question number {n}?", provider="brave") for n in range(50))
        return await asyncio.gather(*questions, return_exceptions=True)

    outcomes = asyncio.run(all_of_them())
    refused = [outcome for outcome in outcomes if isinstance(outcome, BudgetExceededError)]
    answers = [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert len(refused) + len(answers) == 50 and answers
    assert 0 < served(messages_api, brave_api) <= Decimal(str(limit))
    assert spent(session) == served(messages_api, brave_api)
    # Whoever began was given what a final answer takes.
    assert all(answer.text.endswith("The answer from what there is.") for answer in answers)
    assert all("raise it to at least" in str(error) for error in refused)
    assert held(session) == 0


# --- one question -----------------------------------------------------------------------------------------------------


def test_a_failed_request_is_sent_again_only_when_that_can_be_paid(messages_api: Any, session: Any) -> None:
    """A refused request costs nothing and gives its money back; one that broke off after it was billed may not."""
    messages_api.reply(error(529))
    messages_api.reply("Two.", usage(output_tokens=300))
    assert ask(session, budget_usd="0.02").text == "Two."
    for _ in range(2):
        messages_api.reply(thinking("Well, let me think."), usage(input_tokens=5_000, **UNCACHED), truncated(1))
    with pytest.raises(BudgetExceededError, match="the model did not answer, and"):
        ask(session, budget_usd="0.02")
    assert len(messages_api.bodies) == 3 and 0.01 < session.cost(everything=True).usd.iloc[-1] < 0.02
    assert spent(session) == session.spent_usd
    messages_api._queue.clear()


def test_an_unknown_price_is_refused_under_a_budget(messages_api: Any, session: Any) -> None:
    """No budget can be kept with it; the line says so and where a price can be written."""
    messages_api.models["claude-from-the-future"] = 1_000_000
    with pytest.raises(BudgetExceededError, match="price of claude-from-the-future is unknown.*prices.toml"):
        ask(session, model="claude-from-the-future", budget_usd="1")
    assert messages_api.requests == []


def test_a_search_may_be_handed_on_to_a_dearer_engine(messages_api: Any, engine: Any, brave_api: Any, session: Any) -> None:
    """The budget reckons with the dearest engine of the chain, since any of them may have to answer."""
    tavily = engine("tavily")
    session.settings.session_budget_usd = 0.006
    with pytest.raises(BudgetExceededError, match="a search with tavily"):
        asyncio.run(session.search("moons of Mars"))
    assert not brave_api.requests and not tavily.requests
    assert asyncio.run(session.search("moons of Mars", provider="brave"))


def test_native_searches_are_bounded_by_the_money(messages_api: Any, session: Any) -> None:
    """The uses that the API is allowed shrink to what the budget buys at worst; without a budget they stay."""
    found = server_search("mars moons", [("https://example.org", "Moons")])
    messages_api.behave(lambda request: [found, "Two.", usage(server_tool_use={"web_search_requests": 1})])
    answer = ask(session, tools="native", budget_usd="0.60")
    uses = {tool["name"]: tool["max_uses"] for tool in messages_api.bodies[-1]["tools"]}
    assert set(uses.values()) <= {1, 2, 3, 4} and any("native searches" in notice for notice in answer.notices)
    assert next(t for t in messages_api.bodies[-1]["tools"] if t["name"] == "web_fetch")["max_content_tokens"] > 0
    ask(session, tools="native")
    assert {tool["max_uses"] for tool in messages_api.bodies[-1]["tools"]} == {5}
    messages_api.behave(lambda request: ["Two."])
    poor = ask(session, tools="native", budget_usd="0.02")
    assert "tools" not in messages_api.bodies[-1] and any("left out" in notice for notice in poor.notices)


# --- the session and the day ---------------------------------------------------------------------------------------------


def test_a_reset_gives_the_session_its_whole_budget_again(messages_api: Any, brave_api: Any, session: Any) -> None:
    """The count starts anew, the ledger keeps the rows."""
    session.settings.session_budget_usd = 0.005
    asyncio.run(session.search("one", provider="brave"))
    with pytest.raises(BudgetExceededError, match="session budget"):
        asyncio.run(session.search("two", provider="brave"))
    session.reset_cost()
    assert asyncio.run(session.search("two", provider="brave"))
    assert len(session.cost()) == 1 and len(session.cost(everything=True)) == 2 and session.spent_usd == SEARCH


def test_a_search_that_is_in_the_cache_is_free_under_a_used_up_budget(brave_api: Any, session: Any) -> None:
    """What costs nothing is given; the next search that would be paid is refused, and so is the same one asked anew."""
    asyncio.run(session.search("ruby author", provider="brave"))
    session.settings.session_budget_usd = 0.005
    assert asyncio.run(session.search("ruby author", provider="brave")).cached
    for options in ({"query": "ruby year"}, {"query": "ruby author", "fresh": True}):
        with pytest.raises(BudgetExceededError):
            asyncio.run(session.search(**options, provider="brave"))
    assert brave_api.queries == ["ruby author"]


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
    frame = session.cost()
    assert list(frame.status) == ["interrupted", "error", "ok"] and estimated(session)[0]
    assert frame.usd[0] > 0 and frame.usd[1] == 0


NOTHING_SAID = [None, {}, [], "many", {"input_tokens": None}, {"input_tokens": "many", "output_tokens": "few"}]
NO_COUNTS = [{"input_tokens": -1_000_000, "output_tokens": -5}, {"input_tokens": 10**25, "output_tokens": 1e308}]


@pytest.mark.parametrize("said", [*NOTHING_SAID, *NO_COUNTS], ids=repr)
def test_a_reply_without_usage_is_not_free(server: Scripted, session: Any, said: Any) -> None:
    """What it read and wrote is estimated from the texts, and the row says so."""
    server.answer({**MESSAGE, "usage": said})
    answer = ask(session)
    frame = session.cost()
    assert frame.input_tokens[0] > 500 and frame.output_tokens[0] == len("Matz wrote Ruby, in 1995.") // 4
    assert list(frame.status) == ["ok"] and estimated(session) == [True]
    assert 0 < answer.cost_usd < Decimal("0.01") and float(answer.cost_usd) == pytest.approx(frame.usd[0])


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
        except ProviderError as exc:
            return exc
        finally:
            await session.aclose()

    return asyncio.run(main())


@pytest.mark.parametrize("how", LOST)
def test_a_paid_search_whose_answer_is_lost_is_billed(brave_api: Any, session: Any, impatient: None, how: str) -> None:
    """It went out: a 200 that is of no use and an answer that never came count at the price expected, as an estimate. A refusal
    is no answer that is billed."""
    brave_api.fail(429)
    assert isinstance(searched(session, provider="brave"), ProviderError) and session.cost().empty
    brave_api.behave(lambda values: Answer(**{"results": [], **LOST[how]}))
    assert isinstance(searched(session, provider="brave"), ProviderError)
    frame = session.cost()
    assert list(frame.usd) == [float(SEARCH)] and list(frame.status) == ["error"] and estimated(session) == [True]
    assert session.spent_usd == Decimal("0.005")


def test_a_stand_ins_answer_carries_the_lost_search_as_well(
    brave_api: Any, session: Any, impatient: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wikipedia answers for Brave; both are in the books, and a budget has paid for Brave."""
    monkeypatch.setenv("IPY_WEBSEARCH_CONTACT", "tests@example.org")
    session.settings.session_budget_usd = 1.0
    brave_api.reply(delay_s=60.0)
    results = searched(session)
    assert results.provider == "wikipedia" and results.cost_usd == Decimal("0.005")
    frame = session.cost()
    assert list(frame.name) == ["brave", "wikipedia"] and list(frame.usd) == [float(SEARCH), 0.0]
    assert spent(session) == Decimal("0.005") and held(session) == 0
    again = searched(session)
    assert again.cost_usd == 0, "the lost search is not part of what the cache keeps"
