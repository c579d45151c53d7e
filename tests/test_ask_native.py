"""Search run by the API itself: asked for in the newest version, resumed after pauses, its content returned untouched."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError
from tests.fakes.replies import Manner, block, search_results, server_search, stop, text, tool_use, usage, web_citation
from tests.test_ask import ask, watch

HITS = [("https://a.example/1", "A"), ("https://b.example/2", "B")]


def test_native_search_is_cited_priced_and_shown(messages_api: Any, session: Any) -> None:
    """The citation of a native result becomes [1]; the API's count of searches is priced at 10 USD for 1,000."""
    messages_api.reply(
        server_search("ruby author", HITS),
        text("Matz.", citations=[web_citation(*HITS[1], "Ruby was written by Matz.")]),
        usage(input_tokens=0, output_tokens=0, server_tool_use={"web_search_requests": 1}),
    )
    answer = ask(session, tools="native")
    assert answer.text == "Matz.[1]" and list(answer.sources.url) == ["https://b.example/2"]
    assert answer.searches == 1 and answer.cost_usd == Decimal("0.01")
    assert answer.panels[0].tool == "web_search" and "https://a.example/1" in answer.panels[0].content
    assert "EncC" not in answer.panels[0].content


@pytest.mark.parametrize(
    ("model", "version"), [("claude-sonnet-5-5", "web_search_20260318"), ("claude-haiku-4-5", "web_search_20250305")]
)
def test_the_newest_version_that_the_model_takes_is_asked_for(
    messages_api: Any, session: Any, model: str, version: str
) -> None:
    """Limits and domains go along."""
    messages_api.reply("No need.")
    ask(session, model=model, tools="native", max_searches=3, allowed_domains=["a.example"])
    search, fetch = messages_api.bodies[0]["tools"]
    assert search == {"type": version, "name": "web_search", "max_uses": 3, "allowed_domains": ["a.example"]}
    assert fetch["name"] == "web_fetch" and fetch["citations"] == {"enabled": True}


def test_a_paused_turn_is_sent_back_unchanged_and_goes_on(messages_api: Any, session: Any) -> None:
    """The strict server checks that its encrypted content comes back as it was; both parts make one turn."""
    messages_api.reply("First. ", server_search("one", HITS), stop("pause_turn"))
    messages_api.reply(text("Done.", citations=[web_citation(*HITS[0], "One.")]))
    answer = ask(session, tools="native")
    assert answer.text == "First.\n\nDone.[1]"
    assert [m["role"] for m in messages_api.bodies[1]["messages"]] == ["user", "assistant"]
    assert [m["role"] for m in answer.messages] == ["user", "assistant"]
    messages_api.reply("Yes.")
    assert ask(session, "And?", tools="native", follow=True).text == "Yes."


def test_a_pause_in_the_middle_of_a_search_resumes_with_its_result(messages_api: Any, session: Any) -> None:
    """The continuation begins with the result of the call that stood open."""
    messages_api.reply(server_search("one", finished=False))
    call_id = "pending"

    def behave(request: dict[str, Any]) -> list[Any]:
        nonlocal call_id
        call_id = request["messages"][-1]["content"][-1]["id"]
        found = [{"type": "web_search_result", "url": HITS[0][0], "title": "A", "encrypted_content": "EncX", "page_age": None}]
        return [block({"type": "web_search_tool_result", "tool_use_id": call_id, "content": found}), text("Done.")]

    messages_api.behave(behave)
    answer = ask(session, tools="native")
    assert answer.text == "Done."
    assert [b["type"] for b in answer.messages[-1]["content"]] == ["server_tool_use", "web_search_tool_result", "text"]


def test_code_that_waits_over_a_pause_goes_on_in_its_container(messages_api: Any, session: Any) -> None:
    """The newest web tools filter what they find with code; the API refuses to go on with it elsewhere."""
    code = {"type": "server_tool_use", "id": "srvtoolu_9", "name": "code_execution", "input": {"code": "1"}}
    ran = {"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0, "content": []}
    held = Manner(extra={"container": {"id": "container_1", "expires_at": "2026-12-01T00:00:00Z"}})
    messages_api.reply(block(code), stop("pause_turn"), held)
    messages_api.reply(block({"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_9", "content": ran}), "Done.")
    assert ask(session, tools="native").text == "Done."
    assert [body.get("container") for body in messages_api.bodies] == [None, "container_1"]


def test_endless_pauses_end_in_an_answer(messages_api: Any, session: Any) -> None:
    """After five resumptions the model is asked for the answer without tools."""

    def behave(request: dict[str, Any]) -> list[Any]:
        if request.get("tool_choice", {}).get("type") == "none":
            return ["The answer."]
        return [server_search("again", HITS), stop("pause_turn")]

    messages_api.behave(behave)
    answer = ask(session, tools="native")
    assert answer.text == "The answer." and answer.limit == "max_steps"
    assert len(messages_api.requests) <= 8


def test_an_error_of_a_native_search_is_shown(messages_api: Any, session: Any) -> None:
    """The code is in the events and in the panel; the answer goes on."""
    messages_api.reply(server_search("x y", error="max_uses_exceeded"), "From memory.")
    events, answer = watch(session, tools="native")
    assert answer.text == "From memory."
    assert any("max_uses_exceeded" in getattr(e, "summary", "") for e in events)


def test_a_platform_without_native_tools_is_refused_clearly(session: Any) -> None:
    """The offline model runs no search of its own."""
    with pytest.raises(ConfigError, match="--tools standard"):
        ask(session, model="offline", tools="native")


# --- tables --------------------------------------------------------------------------------------------------------------

ROWS = {
    "rows": [
        {"name": "A", "price": 499, "source": "https://a.example/1"},
        {"name": "B", "price": None, "source": None},
    ]
}


def test_a_table_has_typed_columns_nulls_and_sources(messages_api: Any, brave_api: Any, session: Any) -> None:
    """The rows come through a strict tool; the frame has nullable dtypes."""
    messages_api.reply(tool_use("web_search", {"query": "laptops"}))
    messages_api.reply(tool_use("answer_table", ROWS))
    answer = ask(session, columns="name, price: float")
    frame = answer.to_frame()
    assert list(frame.columns) == ["name", "price", "source"] and [str(t) for t in frame.dtypes] == [
        "string",
        "Float64",
        "string",
    ]
    assert frame.price[0] == 499.0 and frame.price.isna()[1]
    assert answer.text.startswith("| name | price | source |") and answer.limit is None
    table = next(t for t in messages_api.bodies[0]["tools"] if t["name"] == "answer_table")
    assert table["strict"] is True and search_results(messages_api.bodies[1])


@pytest.mark.parametrize(
    ("model", "choice"),
    [("haiku", {"type": "tool", "name": "answer_table"}), ("sonnet", None), ("opus", None), ("fable", None)],
)
def test_a_model_that_answers_in_words_is_asked_for_the_table(
    messages_api: Any, session: Any, model: str, choice: dict[str, str] | None
) -> None:
    """The second request forces the tool where the model lets itself be forced, and asks for it in words."""
    messages_api.reply("A costs 499.")
    messages_api.reply(tool_use("answer_table", ROWS))
    answer = ask(session, columns={"name": str, "price": float}, model=model)
    assert len(answer.to_frame()) == 2
    assert messages_api.bodies[1].get("tool_choice") == choice
    assert "Please call answer_table" in str(messages_api.bodies[1]["messages"][-1])
    messages_api.reply("Because.")
    assert ask(session, "Why?", follow=True, model=model).text == "Because."


@pytest.mark.parametrize("model", ["haiku", "sonnet"])
def test_at_a_limit_the_table_is_what_is_asked_for(messages_api: Any, brave_api: Any, session: Any, model: str) -> None:
    """In place of words alone, the final request forces the table, or asks for it."""

    def behave(request: dict[str, Any]) -> list[Any]:
        forced = request.get("tool_choice", {}).get("type") == "tool"
        if forced or "Please call answer_table" in str(request["messages"][-1]):
            return [tool_use("answer_table", ROWS)]
        return [tool_use("web_search", {"query": f"q {len(messages_api.requests)}"})]

    messages_api.behave(behave)
    answer = ask(session, columns="name, price: float", max_searches=1, model=model)
    assert answer.limit == "max_searches" and len(answer.to_frame()) == 2


def test_a_model_that_goes_on_searching_is_asked_for_the_table_once_more(
    messages_api: Any, brave_api: Any, session: Any
) -> None:
    """It cannot be forced: after the second refusal to give a table the answer ends, with a legal history."""
    messages_api.behave(lambda request: [tool_use("web_search", {"query": f"q {len(messages_api.requests)}"})])
    answer = ask(session, columns="name, price: float", max_searches=1)
    assert answer.limit == "max_searches" and answer.rows is None and len(messages_api.requests) == 4
    messages_api.behave(None)
    messages_api.reply("Well.")
    assert ask(session, "Why?", follow=True).text == "Well."


@pytest.mark.parametrize("columns", ["", "a, a", "a b", "a: colour", "1st", ",".join(f"c{n}" for n in range(13))])
def test_wrong_columns_are_refused_before_anything_is_sent(messages_api: Any, session: Any, columns: str) -> None:
    """Names, types and their number are checked."""
    with pytest.raises(ConfigError):
        ask(session, columns=columns)
    assert messages_api.requests == []


def test_prose_has_no_frame(messages_api: Any, session: Any) -> None:
    """to_frame of an answer in words says how to ask for a table."""
    messages_api.reply("Hello.")
    with pytest.raises(ConfigError, match="--table"):
        ask(session).to_frame()
