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
from tests.fakes.replies import (
    Manner,
    broken_stream,
    delay,
    error_event,
    refusal,
    server_search,
    slow,
    stop,
    text,
    truncated,
    web_citation,
)

HIT = ("https://a.example/1", "A")
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
    """Both parts make one turn; code that waits over a pause goes on in its container."""
    held = Manner(extra={"container": {"id": "container_1", "expires_at": "2026-12-01T00:00:00Z"}})
    paused = ["First. ", server_search("one", [HIT]), stop("pause_turn"), held]
    messages_api.replies(paused, text("Done.", citations=[web_citation(*HIT, "One.")]), "Yes.")
    answer = web.ask("Who?", tools="native")
    assert answer.text == "First.\n\nDone.[1]"
    assert (
        [m["role"] for m in messages_api.bodies[1]["messages"]] == [m["role"] for m in answer.messages] == ["user", "assistant"]
    )
    assert [body.get("container") for body in messages_api.bodies] == [None, "container_1"]
    assert web.ask("And?", tools="native", follow=True).text == "Yes."


def test_an_empty_end_after_results_is_asked_about_once(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies(search("ruby author"), stop("end_turn"), "Matz.")
    assert web.ask("Who?", provider="brave").text == "Matz." and len(messages_api.requests) == 3


@pytest.mark.parametrize("cut", [truncated, broken_stream])
@pytest.mark.parametrize("after", range(1, 10))
def test_a_stream_cut_at_any_event_is_asked_for_again_or_a_partial_answer(
    messages_api: Any, brave_api: Any, cut: Any, after: int
) -> None:
    """Where nothing was shown the request is sent again; what was shown is kept and said to have broken off."""
    parts = [text("Matz wrote Ruby.", citations=[(0, 0)]), text(" In 1993, in Japan."), cut(after)]
    messages_api.replies(search("ruby author"), parts)
    messages_api.behave(lambda body: "Again.")
    answer = web.ask("Who wrote Ruby?", provider="brave")
    if answer.text == "Again.":
        assert len(messages_api.requests) == 3 and answer.stop_reason == "end_turn"
    else:
        assert answer.text.startswith("Matz") and answer.stop_reason in (None, "end_turn")
        assert (answer.stop_reason is None) == ("broke off" in " ".join(answer.notices))
    assert answer.cost_usd > 0 and [m["role"] for m in answer.messages][-1] == "assistant"


def test_an_error_inside_the_stream_brings_the_partial_answer_along(messages_api: Any) -> None:
    messages_api.reply("one two three four five six", error_event(5))
    with pytest.raises(web.WebSearchError, match="Overloaded") as caught:
        web.ask("Who?")
    partial = caught.value.partial
    assert partial.text.startswith("one") and partial.cost_usd > 0
    assert float(partial.cost_usd) == pytest.approx(web.cost().usd.sum())


@pytest.mark.parametrize(
    ("reply", "leave"),
    [
        ([LONG, slow(0.05)], "break"),
        ([LONG, slow(0.05)], "cancel"),
        ([delay(30), "Late."], "while the model thinks"),
        (["one look.", search("ruby author")], "while it searches"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_leaving_an_answer_keeps_its_text_its_cost_and_a_legal_history(
    messages_api: Any, brave_api: Any, session: Any, reply: Any, leave: str
) -> None:
    """The loop over the events is left, or its task is cancelled, at the first text or while nothing comes."""
    brave_api.latency_s = 30
    messages_api.replies(reply, "Now it works.")

    async def read(run: Any) -> None:
        async for event in run:
            if isinstance(event, TextDelta) and leave == "break":
                break
            if isinstance(event, TextDelta) and leave == "cancel":
                asyncio.current_task().cancel()  # type: ignore[union-attr]
        assert session.answers == [run.answer], "it is there as soon as the loop is left"

    async def main() -> tuple[Any, Any]:
        run = session.start("Who wrote Ruby?", provider="brave")
        task = asyncio.create_task(read(run))
        if leave.startswith("while"):
            waited = brave_api if "searches" in leave else messages_api
            await asyncio.to_thread(waited.wait, lambda api: api.active)
            task.cancel()
        done, _ = await asyncio.wait([task], timeout=10)
        after = await session.ask("And now?", follow=True)
        await session.aclose()
        return done and run.answer, after

    answer, after = asyncio.run(main())
    assert answer.limit == "interrupted" and (answer.text.startswith("one") or "model" in leave) and answer.cost_usd > 0
    assert after.text == "Now it works."
