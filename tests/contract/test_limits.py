"""Contract: a limit never ends in silence, and every end of a reply is handled by name."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

import ipy_websearch as web
from ipy_websearch.errors import BudgetExceededError, ConfigError
from ipy_websearch.results import TextDelta
from tests.contract.helpers import keeps_searching, results_of, search
from tests.fakes.replies import block, delay, error_event, refusal, server_search, slow, stop, text, truncated

LONG = " ".join(["one two three four five six seven eight nine ten"] * 20)


@pytest.mark.parametrize(
    ("limit", "options"),
    [
        ("max_searches", {"max_searches": 2}),
        ("max_searches", {"max_searches": 0}),
        ("max_steps", {"max_steps": 2}),
        ("budget", {"budget_usd": "0.03", "max_searches": 50, "max_steps": 50}),
    ],
)
def test_at_a_limit_the_model_writes_its_answer(messages_api: Any, brave_api: Any, limit: str, options: Any) -> None:
    messages_api.behave(keeps_searching)
    answer = web.ask("Who?", provider="brave", **options)
    assert (answer.limit, answer.text) == (limit, "The answer from what there is.")
    assert messages_api.bodies[-1]["tool_choice"] == {"type": "none"}
    if limit == "budget":
        assert 0 < answer.cost_usd <= Decimal("0.03")
    else:
        (told,) = results_of(messages_api.bodies[-1])
        assert told["is_error"] and answer.searches == options.get("max_searches", 1)


def test_slow_searches_are_cut_off_in_time_for_an_answer(messages_api: Any, brave_api: Any) -> None:
    brave_api.latency_s = 30
    messages_api.behave(keeps_searching)
    answer = web.ask("Who?", provider="brave", timeout_s=3)
    assert (answer.limit, answer.text) == ("timeout", "The answer from what there is.")


def test_a_model_that_is_too_slow_gives_what_it_had_written(messages_api: Any) -> None:
    messages_api.reply(LONG, slow(0.1))
    answer = web.ask("Who?", timeout_s=3)
    assert answer.limit == "timeout" and answer.text.startswith("one two") and len(answer.text) < len(LONG)


def test_a_budget_too_small_for_any_answer_sends_nothing(messages_api: Any) -> None:
    with pytest.raises(BudgetExceededError) as caught:
        web.ask("Who?", budget_usd="0.000001")
    assert "\n" not in str(caught.value) and messages_api.requests == []


@pytest.mark.parametrize(
    "options",
    [
        {"max_searches": -1},
        {"max_steps": 0},
        {"timeout_s": 0},
        {"budget_usd": "much"},
        {"tools": "magic"},
        {"allowed_domains": ["a.com"], "blocked_domains": ["b.com"]},
        {"follow": True},
        {"provider": "brve"},
    ],
)
def test_a_wrong_option_is_one_line_and_nothing_is_sent(messages_api: Any, options: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        web.ask("Who?", **options)
    assert "\n" not in str(caught.value) and messages_api.requests == []


@pytest.mark.parametrize(
    ("ending", "reason", "shown"),
    [
        ([refusal("cyber")], "refusal", "declined"),
        (["So far.", stop("max_tokens")], "max_tokens", ""),
        (["So far.", stop("model_context_window_exceeded")], "model_context_window_exceeded", ""),
        (["So far.", stop("stop_sequence", stop_sequence="END")], "stop_sequence", ""),
        (["So far.", stop("solar_flare")], "solar_flare", "solar_flare"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_stop_reason_is_kept_and_a_follow_up_is_possible(messages_api: Any, ending: Any, reason: str, shown: str) -> None:
    messages_api.replies(ending, "Of course.")
    answer = web.ask("Who?")
    assert answer.stop_reason == reason and ("So far." in answer.text or reason == "refusal")
    assert shown in " ".join(answer.notices)
    assert web.ask("And now?", follow=True).text == "Of course."


def test_a_pause_is_sent_back_unchanged(messages_api: Any) -> None:
    messages_api.reply(server_search("x y", finished=False))
    hits = [
        {"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": "E", "page_age": None}
    ]

    def resume(body: Any) -> list[Any]:
        call = body["messages"][-1]["content"][-1]
        return [block({"type": "web_search_tool_result", "tool_use_id": call["id"], "content": hits}), text("Done.")]

    messages_api.behave(resume)
    assert web.ask("Who?", tools="native").text == "Done."
    assert messages_api.bodies[1]["messages"][-1]["role"] == "assistant"


def test_an_empty_end_after_results_is_asked_about_once(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies(search("ruby author"), stop("end_turn"), "Matz.")
    assert web.ask("Who?", provider="brave").text == "Matz." and len(messages_api.requests) == 3


def test_a_stream_cut_off_before_text_is_retried_and_after_it_is_a_partial_answer(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies([search("ruby author"), truncated(2)], "Matz.")
    assert web.ask("Who?", provider="brave").text == "Matz."
    messages_api.reply("one two three four five six", truncated(4))
    answer = web.ask("Who?")
    assert answer.text.startswith("one") and answer.stop_reason is None and answer.notices


def test_an_error_inside_the_stream_brings_the_partial_answer_along(messages_api: Any) -> None:
    messages_api.reply("one two three four five six", error_event(5))
    with pytest.raises(web.WebSearchError, match="Overloaded") as caught:
        web.ask("Who?")
    partial = caught.value.partial
    assert partial.text.startswith("one") and partial.cost_usd > 0
    assert float(partial.cost_usd) == pytest.approx(web.cost().usd.sum())


async def read(run: Any, leave: str = "") -> None:
    """Read the events of a run; at the first text, `leave` it."""
    async for event in run:
        if leave and isinstance(event, TextDelta):
            if leave == "break":
                break
            asyncio.current_task().cancel()  # type: ignore[union-attr]


@pytest.mark.parametrize("leave", ["cancel", "break"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_leaving_an_answer_keeps_its_text_its_cost_and_a_legal_history(messages_api: Any, session: Any, leave: str) -> None:
    messages_api.replies([LONG, slow(0.05)], "Now it works.")

    async def main() -> tuple[Any, Any]:
        run = session.start("Who wrote Ruby?")
        await asyncio.wait([asyncio.create_task(read(run, leave))])
        async with asyncio.timeout(10):
            while run.answer is None:
                await asyncio.sleep(0.01)
        after = await session.ask("And now?", follow=True)
        await session.aclose()
        return run.answer, after

    answer, after = asyncio.run(main())
    assert answer.limit == "interrupted" and answer.text.startswith("one") and answer.cost_usd > 0
    assert after.text == "Now it works."


@pytest.mark.parametrize("where", ["model", "search"])
def test_an_interrupt_while_waiting_stops_within_a_second(messages_api: Any, brave_api: Any, session: Any, where: str) -> None:
    brave_api.latency_s = 30
    messages_api.reply(*([delay(30), "Late."] if where == "model" else ["Let me look.", search("ruby author")]))
    asked = messages_api if where == "model" else brave_api

    async def main() -> Any:
        run = session.start("Who?", provider="brave")
        task = asyncio.create_task(read(run))
        await asyncio.to_thread(asked.wait, lambda api: api.active)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=10)
        await session.aclose()
        return bool(done) and run.answer

    answer = asyncio.run(main())
    assert answer.limit == "interrupted" and (where == "model" or answer.text.startswith("Let me look."))
