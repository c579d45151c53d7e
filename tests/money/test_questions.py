"""Budgets at the door: nothing passes them, however many questions share one, and a small one still gives an answer."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.money.ledger import LedgerRow
from tests.fakes.money import held, spent
from tests.fakes.replies import delay, error, server_search, thinking, tool_use, truncated, usage
from tests.test_ask import ask

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


def test_searches_at_once_stay_under_the_budget(messages_api: Any, brave_api: Any, session: Any) -> None:
    """Twenty searches under three cents: six are sent, the others are refused in one line with what it would take."""
    session.settings.session_budget_usd = 0.03

    async def all_of_them() -> list[Any]:
        searches = (session.search(f"query number {n}", provider="brave") for n in range(20))
        return await asyncio.gather(*searches, return_exceptions=True)

    outcomes = asyncio.run(all_of_them())
    refused = [outcome for outcome in outcomes if isinstance(outcome, BudgetExceededError)]
    assert len(refused) == 14 and len(brave_api.requests) == 6
    assert all("a search with brave may cost up to 0.0050 USD" in str(error) for error in refused)


# --- one question -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ["0.012", "0.02", "0.05", "0.2"])
def test_a_budget_holds_for_whatever_the_model_does(messages_api: Any, brave_api: Any, session: Any, budget: str) -> None:
    """With replies as long as they may be and many searches, the cost stays below, and there is an answer in words."""
    messages_api.behave(greedy)
    answer = ask(session, budget_usd=budget, max_searches=30, max_steps=30)
    assert answer.limit == "budget" and "The answer from what there is." in answer.text
    assert answer.cost_usd == served(messages_api, brave_api) <= Decimal(budget)
    assert all(256 <= body["max_tokens"] <= 16_000 for body in messages_api.bodies)


@pytest.mark.parametrize(
    "question", ["火星有多少颗卫星？" * 300, "🛰️👩‍🚀🪐" * 300, "Сколько спутников у Марса? " * 100, "0123456789 " * 300]
)
def test_a_budget_holds_for_every_script(messages_api: Any, session: Any, question: str) -> None:
    """A service that counts a token for every character, and two or three for emoji, does not take it past the budget."""

    def dear(request: dict[str, Any]) -> list[Any]:
        said = "".join(block["text"] for message in request["messages"] for block in message["content"])
        tokens = sum(3 if ord(character) > 0xFFFF else 1 for character in said)
        return ["Two.", usage(input_tokens=tokens, **UNCACHED, output_tokens=request["max_tokens"])]

    messages_api.behave(dear)
    answer = ask(session, question, budget_usd="0.06")
    assert 0 < served(messages_api) == answer.cost_usd <= Decimal("0.06")


def test_what_a_refusal_asks_for_is_enough(messages_api: Any, session: Any) -> None:
    """The amount named is neither too little nor more than a short answer takes."""
    with pytest.raises(BudgetExceededError, match="question's budget") as caught:
        ask(session, budget_usd="0.0001")
    needed = Decimal(str(caught.value).split("raise it to at least ")[1].split()[0])
    assert messages_api.requests == [] and "\n" not in str(caught.value) and "--budget" in str(caught.value)
    messages_api.reply("Two.")
    assert ask(session, budget_usd=needed).text == "Two."
    with pytest.raises(BudgetExceededError):
        ask(session, budget_usd=needed - Decimal("0.001"))


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


def test_an_abandoned_question_gives_its_money_back(messages_api: Any, brave_api: Any, session: Any) -> None:
    """Interrupted in the middle of a search: the search counts, nothing stays reserved."""
    session.settings.session_budget_usd = 1.0
    brave_api.latency_s = 5.0
    messages_api.reply(tool_use("web_search", {"query": "mars moons"}))

    async def interrupted() -> None:
        task = asyncio.create_task(session.ask("how many moons?", provider="brave"))
        while not brave_api.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(interrupted())
    frame = session.cost()
    assert list(frame.status) == ["ok", "interrupted"] and frame.usd.iloc[1] == 0.005
    assert held(session) == 0
    assert spent(session) == session.spent_usd


# --- the session and the day ---------------------------------------------------------------------------------------------


def test_the_days_budget_counts_every_session(messages_api: Any, brave_api: Any, session: Any) -> None:
    """What other sessions spent today counts, what was spent yesterday does not; UTC days."""
    now = datetime.now(UTC)
    for when, usd in ((now, "0.03"), (now - timedelta(days=1), "5")):
        session.ledger.book([LedgerRow(when, "another", "q", "why?", "search", "exa", cost_usd=Decimal(usd))])
    session.settings.day_budget_usd = 0.04
    assert asyncio.run(session.search("one", provider="brave")) and asyncio.run(session.search("two", provider="brave"))
    with pytest.raises(BudgetExceededError, match="the day's budget of 0.04 USD has 0.0000 USD left.*--day-budget"):
        asyncio.run(session.search("three", provider="brave"))
    session.settings.day_budget_usd = None
    assert asyncio.run(session.search("three", provider="brave"))


def test_a_reset_gives_the_session_its_whole_budget_again(messages_api: Any, brave_api: Any, session: Any) -> None:
    """The count starts anew, the ledger keeps the rows, the day's budget goes on counting."""
    session.settings.session_budget_usd = 0.005
    asyncio.run(session.search("one", provider="brave"))
    with pytest.raises(BudgetExceededError, match="session budget"):
        asyncio.run(session.search("two", provider="brave"))
    session.reset_cost()
    assert asyncio.run(session.search("two", provider="brave"))
    assert len(session.cost()) == 1 and len(session.cost(everything=True)) == 2 and session.spent_usd == SEARCH
    session.settings.day_budget_usd = 0.01
    session.settings.session_budget_usd = None
    with pytest.raises(BudgetExceededError, match="day's budget"):
        asyncio.run(session.search("three", provider="brave"))


def test_a_search_that_is_in_the_cache_is_free_under_a_used_up_budget(brave_api: Any, session: Any) -> None:
    """What costs nothing is given; the next search that would be paid is refused, and so is the same one asked anew."""
    asyncio.run(session.search("ruby author", provider="brave"))
    session.settings.session_budget_usd = 0.005
    assert asyncio.run(session.search("ruby author", provider="brave")).cached
    for options in ({"query": "ruby year"}, {"query": "ruby author", "fresh": True}):
        with pytest.raises(BudgetExceededError):
            asyncio.run(session.search(**options, provider="brave"))
    assert brave_api.queries == ["ruby author"]
