"""Contract: what `ask` gives back, how its loop treats calls, results and citations, and how it ends: a limit never does in
silence, and every end of a reply is handled by name."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

import ipy_websearch as web
from ipy_websearch.results import TextDelta
from tests.contract.helpers import keeps_searching, results_of, search
from tests.fakes.engines import hit
from tests.fakes.replies import (
    Content,
    Manner,
    broken_stream,
    delay,
    error_event,
    recorded,
    refusal,
    server_search,
    slow,
    stop,
    text,
    tool_use,
    truncated,
    web_citation,
)

RUBY = hit("https://ruby.example/about", "About Ruby", "Ruby was designed by Yukihiro Matsumoto in 1993.")


def test_an_answer_has_text_citations_sources_steps_and_cost(messages_api: Any, brave_api: Any) -> None:
    brave_api.reply([RUBY])
    messages_api.replies(search("ruby author"), text("Ruby was designed by Yukihiro Matsumoto.", citations=[(0, 0)]))
    answer = web.ask("Who wrote Ruby?", provider="brave")
    assert answer.text == "Ruby was designed by Yukihiro Matsumoto.[1]"
    assert list(answer.sources.url) == [RUBY["url"]] and answer.sources.n[0] == 1
    assert answer.citations[0].n == 1 and "Matsumoto" in answer.citations[0].cited_text
    assert (answer.searches, answer.stop_reason, answer.limit) == (1, "end_turn", None)
    assert isinstance(answer.cost_usd, Decimal) and answer.cost_usd > 0 and len(answer.steps) >= 2
    blocks = results_of(messages_api.bodies[1])[0]["content"]
    assert {block["type"] for block in blocks} == {"search_result"} and blocks[0]["source"] == RUBY["url"]


def test_parallel_calls_run_at_once_and_go_back_in_order(messages_api: Any, brave_api: Any) -> None:
    brave_api.latency_s = 0.2
    messages_api.replies([search(f"query {n}") for n in range(3)], "Done.")
    answer = web.ask("Who?", provider="brave")
    calls = [block["id"] for block in messages_api.bodies[1]["messages"][-2]["content"]]
    assert [block["tool_use_id"] for block in results_of(messages_api.bodies[1])] == calls
    assert brave_api.most_active == 3 and answer.searches == 3


def test_equal_searches_run_once_in_an_answer_and_are_cached_after_it(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies([search("Ruby author"), search("ruby  AUTHOR")], "Done.", *[search("ruby author"), "Done."] * 2)
    first = web.ask("Who?", provider="brave")
    assert len(brave_api.queries) == 1 and first.searches == 1 and len(results_of(messages_api.bodies[1])) == 2
    web.ask("Who?", provider="brave")
    assert len(brave_api.queries) == 1
    searches = web.cost().query("kind == 'search'")
    assert searches.usd.sum() == pytest.approx(0.005), "a cached search costs nothing"
    web.ask("Who?", provider="brave", fresh=True)
    assert len(brave_api.queries) == 2


def test_the_session_streams_events_and_awaits(messages_api: Any, brave_api: Any, session: Any) -> None:
    messages_api.replies(["Let me look. ", search("ruby author")], ["One two three four five six seven eight.", slow(0.01)])

    run = session.start("Who wrote Ruby?", provider="brave")

    async def main() -> list[str]:
        return [type(event).__name__ async for event in run]

    names = asyncio.run(main())
    assert names.index("TextDelta") < names.index("ToolStarted") < names.index("ToolFinished") < len(names) - 1
    assert "TextDelta" in names[names.index("ToolFinished") :] and run.answer.text.endswith("eight.")


def test_the_blocking_functions_work_under_a_running_loop(messages_api: Any) -> None:
    async def main() -> str:
        return web.ask("Is it?").text

    messages_api.reply("Yes.")
    assert asyncio.run(main()) == "Yes."


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (tool_use("web_serch", {"query": "x"}), "web_serch"),
        (tool_use("web_search", {}), "query"),
        *((tool_use("web_search", given), "no JSON object") for given in (["ruby author"], "ruby author", 7)),  # type: ignore[arg-type]
        (recorded("sdk_incomplete_partial_json_response.sse"), "no tool called 'make_file'"),
    ],
)
def test_a_wrong_call_is_not_run_and_gets_an_error_result(messages_api: Any, brave_api: Any, call: Any, told: str) -> None:
    """Of an input that is no object or was cut off, an empty one stays in the history."""
    messages_api.replies(call, "Then not.")
    assert web.ask("Is it?").text.endswith("Then not.")
    (result,) = results_of(messages_api.bodies[1])
    assert result["is_error"] and told in str(result["content"]) and not brave_api.requests
    sent = messages_api.bodies[1]["messages"][1]["content"]
    assert all(block["input"] in ({}, {"query": "x"}) for block in sent if block["type"] == "tool_use")


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        ("standard", "web_search web_fetch read_research"),
        ("tiers", "brave_search brave_llm_context firecrawl_scrape firecrawl_search firecrawl_map read_research"),
        ("pair", "web_search_brave web_search_google web_fetch read_research"),
        ("native", "read_research web_search web_fetch"),
        ("none", ""),
    ],
)
def test_tool_sets_offer_the_promised_tools(
    messages_api: Any, brave_api: Any, engine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any, tools: str, names: str
) -> None:
    monkeypatch.setenv("IPY_WEBSEARCH_RESEARCH_ROOT", str(tmp_path))
    for other in ("firecrawl", "google"):
        engine(other)
    messages_api.reply("Yes.")
    web.ask("Is it?", tools=tools)
    assert [tool["name"] for tool in messages_api.bodies[-1].get("tools") or ()] == names.split()


def test_the_first_request_is_what_is_promised(messages_api: Any, brave_api: Any) -> None:
    messages_api.reply("Yes.")
    question = 'Which under $500?\n\n{x} {{y}} "C++" \'tis <b>bold</b> \\n'
    web.ask(question, system="Answer in French.")
    (body,) = messages_api.bodies
    assert body["model"] == "claude-sonnet-5-5" and "untrusted" in str(body["system"]) and "French" in str(body["system"])
    assert body["messages"][0]["content"][0]["text"] == question and not {"temperature", "top_p"} & set(body)
    assert 1 <= str(body).count("'cache_control'") <= 4


def test_the_most_of_a_long_conversation_is_read_from_the_cache(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies(*(search(f"query {n}") for n in range(4)), "Done.")
    web.ask("Who?", provider="brave", system="Rules. " * 4000)
    read = [usage["cache_read_input_tokens"] for usage in messages_api.usages]
    assert all(later > 0 for later in read[1:]) and read == sorted(read)


# --- limits and ends ----------------------------------------------------------------------------------------------------

LONG = " ".join(["one two three four five six seven eight nine ten"] * 20)


@pytest.mark.parametrize(
    ("limit", "options"),
    [
        ("max_searches", {"max_searches": 2}),
        ("max_searches", {"max_searches": 0}),
        ("max_steps", {"max_steps": 2}),
        ("budget", {"budget_usd": "0.03", "max_searches": 50, "max_steps": 50}),
        ("timeout", {"timeout_s": 3}),
    ],
)
def test_at_a_limit_the_model_writes_its_answer(messages_api: Any, brave_api: Any, limit: str, options: Any) -> None:
    """Searches that are too slow are cut off in time for it."""
    brave_api.latency_s = 30 if limit == "timeout" else 0
    messages_api.behave(keeps_searching)
    answer = web.ask("Who?", provider="brave", **options)
    assert (answer.limit, answer.text) == (limit, "The answer from what there is.")
    assert messages_api.bodies[-1]["tool_choice"] == {"type": "none"}
    if limit == "budget":
        assert 0 < answer.cost_usd <= Decimal("0.03")
    else:
        (told,) = results_of(messages_api.bodies[-1])
        assert told["is_error"] and answer.searches == options.get("max_searches", 1)


def test_a_model_that_is_too_slow_gives_what_it_had_written(messages_api: Any) -> None:
    messages_api.reply(LONG, slow(0.1))
    answer = web.ask("Who?", timeout_s=3)
    assert answer.limit == "timeout" and answer.text.startswith("one two") and len(answer.text) < len(LONG)


@pytest.mark.parametrize(
    ("ending", "reason", "shown"),
    [
        ([refusal("cyber")], "refusal", "declined"),
        (["So far.", search("not run"), stop("refusal")], "refusal", "declined"),
        (["So far.", search("not run"), stop("model_context_window_exceeded")], "model_context_window_exceeded", "cut off"),
        (["So far.", stop("max_tokens")], "max_tokens", ""),
        (["So far.", stop("model_context_window_exceeded")], "model_context_window_exceeded", ""),
        (["So far.", stop("stop_sequence", stop_sequence="END")], "stop_sequence", ""),
        (["So far.", stop("solar_flare")], "solar_flare", "solar_flare"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_stop_reason_is_kept_and_a_follow_up_is_possible(
    messages_api: Any, brave_api: Any, ending: Any, reason: str, shown: str
) -> None:
    messages_api.replies(ending, "Of course.")
    answer = web.ask("Who?")
    assert answer.stop_reason == reason and ("So far." in answer.text or reason == "refusal")
    assert shown in " ".join(answer.notices) and not brave_api.queries
    assert web.ask("And now?", follow=True).text == "Of course."


def test_a_pause_is_sent_back_unchanged(messages_api: Any) -> None:
    """Both parts make one turn; code that waits over a pause goes on in its container."""
    held = Manner(extra={"container": {"id": "container_1", "expires_at": "2026-12-01T00:00:00Z"}})
    paused = ["First. ", server_search("one", [("https://a.example/1", "A")]), stop("pause_turn"), held]
    messages_api.replies(paused, text("Done.", citations=[web_citation("https://a.example/1", "A", "One.")]), "Yes.")
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
        (["one look.", Content(lambda body: server_search("x").make(body)[:1]), search("ruby author")], "while both search"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_leaving_an_answer_keeps_its_text_its_cost_and_a_legal_history(
    messages_api: Any, brave_api: Any, session: Any, reply: Any, leave: str
) -> None:
    """The loop over the events is left, or its task is cancelled, at the first text or while nothing comes."""
    brave_api.latency_s = 30
    messages_api.replies(reply, "Now it works.")
    run = session.start("Who wrote Ruby?", provider="brave")

    async def read() -> None:
        async for event in run:
            if isinstance(event, TextDelta) and leave == "break":
                break
            if isinstance(event, TextDelta) and leave == "cancel":
                asyncio.current_task().cancel()  # type: ignore[union-attr]
        assert session.answers == [run.answer], "it is there as soon as the loop is left"

    async def main() -> Any:
        task = asyncio.create_task(read())
        if leave.startswith("while"):
            waited = brave_api if "search" in leave else messages_api
            await asyncio.to_thread(waited.wait, lambda api: api.active)
            task.cancel()
        await asyncio.wait([task], timeout=10)
        return await session.ask("And now?", follow=True)

    assert asyncio.run(main()).text == "Now it works." and run.answer.limit == "interrupted" and run.answer.cost_usd > 0
    assert run.answer.text.startswith("one") or "model" in leave
