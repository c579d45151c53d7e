"""What `ask` keeps beyond the contract (`tests/contract`): odd calls, native tools, tables, thinking, streams cut anywhere.

The model and the engine are real HTTP servers that refuse what is not allowed.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.errors import ConfigError, ModelError
from ipy_websearch.results import Retracted, TextDelta, ToolFinished
from ipy_websearch.testing import FakeWeb
from tests.contract.helpers import results_of, search
from tests.fakes.replies import (
    search_results,
    server_search,
    stop,
    text,
    thinking,
    tool_use,
    usage,
    web_citation,
)

HITS = [("https://a.example/1", "A"), ("https://b.example/2", "B")]
ROWS = {"rows": [{"name": "A", "price": 499, "source": HITS[0][0]}, {"name": "B", "price": None, "source": None}]}


pytestmark = pytest.mark.usefixtures("brave_api")
ask = partial(ipy_websearch.ask, provider="brave")


def is_last(body: dict[str, Any]) -> bool:
    """Return whether a request asks for the answer or the table, and no longer for calls."""
    choice = body.get("tool_choice", {}).get("type")
    return choice in ("none", "tool") or "Please call answer_table" in str(body["messages"][-1])


# --- calls and streams ---------------------------------------------------------------------------------------------------


def test_a_search_that_failed_may_be_made_again_in_an_answer(messages_api: Any, brave_api: Any) -> None:
    """It counts again; once it gave results, or while it runs, it is not made twice."""
    brave_api.fail(429)
    messages_api.replies([search("ruby author"), search("Ruby author")], search("ruby author"), search("ruby author"), "Matz.")
    answer = ask("Who wrote Ruby?", max_searches=3)
    assert len(brave_api.queries) == 2 and answer.searches == 2
    failed, again, known = (results_of(body) for body in messages_api.bodies[1:])
    assert [result.get("is_error", False) for result in (*failed, *again, *known)] == [True, False, False, False]
    assert again[0]["content"][0]["type"] == "search_result" and known[0]["content"][0]["text"].startswith("Same call as")


def test_calls_with_the_same_id_are_told_apart(messages_api: Any, brave_api: Any) -> None:
    """Small servers give every call of a reply, or the first one of each reply, the same id."""
    first, second = (tool_use("web_search", {"query": f"query {n}"}, id="call_0") for n in range(2))
    messages_api.replies([first, second], tool_use("web_search", {"query": "query 2"}, id="call_0"), "Done.")
    answer = ask("Who wrote Ruby?")
    calls = [block["id"] for m in answer.messages for block in m["content"] if block["type"] == "tool_use"]
    given = [block["tool_use_id"] for m in answer.messages for block in m["content"] if block["type"] == "tool_result"]
    assert calls == given and len(set(calls)) == 3 and len(brave_api.queries) == 3 and answer.searches == 3


# --- search run by the API itself ----------------------------------------------------------------------------------------


def test_native_search_is_cited_priced_and_shown(messages_api: Any) -> None:
    """The citation of a native result becomes [1]; the API's count of searches is priced at 10 USD for 1,000."""
    messages_api.reply(
        server_search("ruby author", HITS),
        text("Matz.", citations=[web_citation(*HITS[1], "Ruby was written by Matz.")]),
        usage(input_tokens=0, output_tokens=0, server_tool_use={"web_search_requests": 1}),
    )
    answer = ask("Who wrote Ruby?", tools="native")
    assert answer.text == "Matz.[1]" and list(answer.sources.url) == ["https://b.example/2"]
    assert answer.searches == 1 and answer.cost_usd == Decimal("0.01")
    assert answer.panels[0].tool == "web_search" and "https://a.example/1" in answer.panels[0].content
    assert "EncC" not in answer.panels[0].content


@pytest.mark.parametrize(
    ("model", "version"), [("claude-sonnet-5-5", "web_search_20260318"), ("claude-haiku-4-5", "web_search_20250305")]
)
def test_the_newest_version_that_the_model_takes_is_asked_for(messages_api: Any, model: str, version: str) -> None:
    messages_api.reply("No need.")
    ask("Who wrote Ruby?", model=model, tools="native", max_searches=3, allowed_domains=["a.example"])
    search, fetch = messages_api.bodies[0]["tools"]
    assert search == {"type": version, "name": "web_search", "max_uses": 3, "allowed_domains": ["a.example"]}
    assert fetch["name"] == "web_fetch" and fetch["citations"] == {"enabled": True}


def test_endless_pauses_end_in_an_answer(messages_api: Any) -> None:
    messages_api.behave(lambda body: "The answer." if is_last(body) else [server_search("again", HITS), stop("pause_turn")])
    answer = ask("Who wrote Ruby?", tools="native", max_steps=3)
    assert answer.text == "The answer." and answer.limit == "max_steps" and len(messages_api.requests) == 4


# --- tables --------------------------------------------------------------------------------------------------------------


def test_a_table_has_typed_columns_nulls_and_sources(messages_api: Any, brave_api: Any) -> None:
    """The rows come through a strict tool; the frame has nullable dtypes, and null where a value is not of its type."""
    wrong, dear = {"name": 7, "price": "much", "source": None}, {"name": "D", "price": 1234567, "source": None}
    messages_api.replies(search("laptops"), tool_use("answer_table", {"rows": [*ROWS["rows"], wrong, dear]}))
    answer = ask("Who wrote Ruby?", columns="name, price: float")
    frame = answer.to_frame()
    assert list(frame.columns) == ["name", "price", "source"]
    assert [str(t) for t in frame.dtypes] == ["string", "Float64", "string"]
    assert frame.price[0] == 499.0 and frame.price.isna().tolist() == [False, True, True, False] and frame.name.isna()[2]
    assert answer.text.startswith("| name | price | source |") and "| D | 1,234,567" in answer.text and answer.limit is None
    table = next(t for t in messages_api.bodies[0]["tools"] if t["name"] == "answer_table")
    assert table["strict"] is True and search_results(messages_api.bodies[1])


@pytest.mark.parametrize(("model", "choice"), [("haiku", {"type": "tool", "name": "answer_table"}), ("sonnet", None)])
def test_a_model_that_answers_in_words_is_asked_for_the_table(
    messages_api: Any, model: str, choice: dict[str, str] | None
) -> None:
    """The second request forces the tool where the model lets itself be forced, and asks for it in words."""
    messages_api.replies("A costs 499.", tool_use("answer_table", ROWS))
    assert len(ask("Who wrote Ruby?", columns={"name": str, "price": float}, model=model).to_frame()) == 2
    assert messages_api.bodies[1].get("tool_choice") == choice
    assert "Please call answer_table" in str(messages_api.bodies[1]["messages"][-1])


@pytest.mark.parametrize(("model", "gives"), [("haiku", True), ("sonnet", True), ("sonnet", False)])
def test_at_a_limit_the_table_is_what_is_asked_for(messages_api: Any, brave_api: Any, model: str, gives: bool) -> None:
    """In place of words alone; a model that gives none even then ends the answer, with a legal history."""

    def behave(body: dict[str, Any]) -> Any:
        wanted = gives and is_last(body)
        return tool_use("answer_table", ROWS) if wanted else search(f"q {len(messages_api.requests)}")

    messages_api.behave(behave)
    answer = ask("Who wrote Ruby?", columns="name, price: float", max_searches=1, model=model)
    assert answer.limit == "max_searches" and (answer.rows is not None) is gives and len(messages_api.requests) <= 4
    messages_api.behave(lambda body: "Well.")
    assert ask("Why?", follow=True, model=model).text == "Well."


@pytest.mark.parametrize(
    "columns", ["", "a, a", "a b", "a: colour", "a: list[int]", "1st", ",".join(f"c{n}" for n in range(13))]
)
def test_wrong_columns_are_refused_before_anything_is_sent(messages_api: Any, columns: str) -> None:
    with pytest.raises(ConfigError):
        ask("Who wrote Ruby?", columns=columns)
    assert messages_api.requests == []


# --- thinking ------------------------------------------------------------------------------------------------------------
# From Fable 5.1 on a thinking block is tied to its model and to all that stands before it
# (platform.claude.com/docs/en/build-with-claude/preserved-thinking, read 2026-11); the fake holds the package to that.


@pytest.mark.parametrize("change", [{}, {"model": "opus"}, {"tools": "none"}, {"system": "Be brief."}, {"columns": "name"}])
def test_a_follow_up_takes_the_thinking_along_where_nothing_else_changed(
    messages_api: Any, brave_api: Any, change: dict[str, Any]
) -> None:
    """Another model, other tools or instructions would make the API refuse the old thoughts; words and results stay."""
    messages_api.replies([thinking("Search."), search("ruby author")], [thinking("Found."), text("Matz.")])
    ask("Who wrote Ruby?")
    table = tool_use("answer_table", {"rows": [{"name": "Ruby", "source": None}]})
    messages_api.behave(lambda body: [thinking("Year."), table if "columns" in change else text("1995.")])
    ask("When?", follow=True, **change)
    body = messages_api.bodies[2]
    assert str(body["messages"]).count("'type': 'thinking'") == (0 if change else 2)
    assert search_results(body) and "Matz." in str(body["messages"])


# --- Models that call no tools: the question is searched for first, and the marks of the answer are held to what was found

RUBY = "Who wrote the Ruby language?"
PASSAGES = [
    ("https://ruby.example/ruby", "Ruby", "Ruby was written by Yukihiro Matsumoto in 1995."),
    ("https://ruby.example/gem", "Gems", "A ruby is a red gemstone, a variety of corundum."),
]


@pytest.fixture
def web(request: pytest.FixtureRequest) -> Iterator[FakeWeb]:
    """A web whose model is an open one on a server of its own; the platform may be given."""
    with FakeWeb(platform=getattr(request, "param", "ollama")) as web:
        web.add_results("Ruby", *PASSAGES)
        yield web


def saying(*texts: str, tools: bool = True) -> Callable[[Mapping[str, Any]], str]:
    """Return the behaviour of an open model that says texts in turn; its server may refuse tools."""
    left = deque(texts)

    def say(request: Mapping[str, Any]) -> str:
        if request.get("tools") and not tools:
            raise ModelError(f"registry.ollama.ai/library/{request['model']} does not support tools", status=400)
        return left.popleft()

    return say


def words_of(request: Mapping[str, Any]) -> str:
    """Return all text that a request's messages hold, which have no other blocks."""
    blocks = [block for message in request["messages"] for block in message["content"]]
    assert {block["type"] for block in blocks} == {"text"}
    return "\n".join(block["text"] for block in blocks)


def asked(web: FakeWeb, question: str = RUBY, **options: Any) -> tuple[Any, list[Any]]:
    """Return the answer of a local model and the events on the way."""
    run = web.session.start(question, model="llama3.2", **options)
    events = list(run)
    return run.answer, events


@pytest.mark.parametrize("web", ["ollama", "lmstudio", "llamacpp", "vllm"], indirect=True)
def test_a_server_that_refuses_tools_is_asked_with_what_a_search_found(web: FakeWeb) -> None:
    said = "Ruby was written by Yukihiro Matsumoto [1]. It is sold in blue boxes [2]."
    web.behave(saying(said, "Again Yukihiro Matsumoto wrote Ruby [1].", "372.", tools=False))
    answer, _ = asked(web)
    assert answer.text == "Ruby was written by Yukihiro Matsumoto [1]. It is sold in blue boxes \\[2]."
    assert list(answer.sources.url) == ["https://ruby.example/ruby"] and answer.searches == 1
    assert answer.citations[0].cited_text == "Ruby was written by Yukihiro Matsumoto in 1995."
    body = web.requests[-1]
    assert "tools" not in body and words_of(body).endswith(RUBY) and "1. Ruby\n   https://ruby.example/ruby" in words_of(body)
    asked(web, "Who wrote Ruby in 1995?")
    assert len(web.requests) == 3, "what the server said of the model is remembered"
    answer, _ = asked(web, "12 * 31?")
    assert answer.text == "372." and not answer.searches and len(web.requests) == 4


@pytest.mark.parametrize(
    ("question", "first"),
    [
        (RUBY, "Guido wrote Ruby."),
        ("Tell me about the ruby language", '{"name": "web_search", "parameters": {"query": "Guido"}}'),
    ],
)
def test_a_first_answer_without_a_call_is_taken_back_and_asked_again(web: FakeWeb, question: str, first: str) -> None:
    """So is a call that was written as text; neither the answer nor the history keeps it."""
    web.behave(saying(first, "Ruby was written by Yukihiro Matsumoto in 1995 [1, 2]."))
    answer, events = asked(web, question)
    assert answer.text == "Ruby was written by Yukihiro Matsumoto in 1995 [1]\\[2]." and "tools" in web.requests[0]
    assert any("called no tool" in notice for notice in answer.notices) and answer.searches == 1
    void = next(n for n, event in enumerate(events) if isinstance(event, Retracted))
    shown = "".join(event.text for event in events[void:] if isinstance(event, TextDelta))
    assert "Guido" not in shown and "Guido" not in str(answer.messages) and answer.claims.verdict[0] == "supported"


def test_a_model_that_repeats_a_mark_without_end_takes_seconds_and_not_minutes(web: FakeWeb) -> None:
    web.behave(saying("Ruby was written by Yukihiro Matsumoto" + " and [1]" * 10_000 + "[1]" * 40_000, tools=False))
    assert len(asked(web)[0].sources) == 1


@pytest.mark.parametrize("question", ["12 * 31?", "Write a limerick about rain.", "Thanks, that will do."])
def test_what_needs_no_search_is_answered_at_once(web: FakeWeb, question: str) -> None:
    web.reply("Here it is [1].")
    answer, _ = asked(web, question)
    assert answer.text == "Here it is \\[1]." and not answer.searches and len(web.requests) == 1


def test_a_local_model_that_calls_tools_has_sources_too(web: FakeWeb) -> None:
    web.reply(web.call("web_search", query="Ruby author"))
    web.reply("Ruby was written by Yukihiro Matsumoto [1], not by Guido van Rossum [2][7].")
    answer, _ = asked(web)
    assert answer.text == "Ruby was written by Yukihiro Matsumoto [1], not by Guido van Rossum \\[2]\\[7]."
    assert answer.sources.n.tolist() == [1] and "square brackets" in web.requests[0]["system"][0]["text"]


def test_a_failed_search_is_told_to_the_model_in_the_seeds_words(web: FakeWeb) -> None:
    web.fail_search()
    web.behave(saying("I think it was Matz [1].", tools=False))
    answer, events = asked(web)
    assert "Search unavailable. Please answer from your knowledge." in words_of(web.requests[-1])
    assert answer.text == "I think it was Matz \\[1]." and any(e.is_error for e in events if isinstance(e, ToolFinished))


@pytest.mark.parametrize("web", ["anthropic"], indirect=True)
def test_the_setting_has_the_first_word(web: FakeWeb) -> None:
    web.session.settings.retrieve_first = "always"
    web.reply("Matz.")
    answer = ipy_websearch.ask(RUBY)
    content = web.requests[0]["messages"][-1]["content"]
    assert [block["type"] for block in content] == ["search_result", "search_result", "text"] and answer.searches == 1
    web.session.settings.retrieve_first = "never"
    web.behave(saying(tools=False))
    with pytest.raises(ModelError, match="does not support tools"):
        asked(web)
    assert len(web.requests) == 2


# --- columns ------------------------------------------------------------------------------------------------------------

CEO: dict[str, Any] = {"ceo": "Who is the CEO of {company}?"}
CELL = {"value": "Jo Doe", "source": "https://example.org/acme", "quote": "CEO of Acme is Jo Doe", "confidence": 0.9}
RECORD = json.dumps({"ceo": CELL})


def enriched(web: FakeWeb, *names: str) -> Any:
    web.add_results("", ("https://example.org/acme", "Acme", "The CEO of Acme is Jo Doe since 2019."))
    return ipy_websearch.enrich(pd.DataFrame({"company": names}), CEO, model="llama3.2", progress=False, concurrency=1)


@pytest.mark.parametrize("tools", [True, False])
def test_a_row_is_read_from_a_search_and_written_as_json(web: FakeWeb, tools: bool) -> None:
    """A model that may call tools and calls none is asked like one that has none."""
    web.behave(saying(*["It may be Jo."] * tools, RECORD, RECORD, tools=tools))
    row = enriched(web, "Acme").iloc[0]
    assert (row.ceo, row.ceo_source, row.ceo_quote, row.enrich_status) == ("Jo Doe", CELL["source"], CELL["quote"], "ok")
    body = web.requests[-1]
    assert "The CEO of Acme is Jo Doe" in words_of(body) and "tools" not in body
    requests = len(web.requests)
    assert enriched(web, "Bolt").enrich_status[0] == "ok" and len(web.requests) == requests + 1, "it is remembered"


def test_json_that_is_none_is_asked_for_once_more(web: FakeWeb) -> None:
    said = ["Sure! The CEO is Jo.", f"```json\n{RECORD}\n```", "Jo Doe.", "Jo Doe, as I said."]
    web.behave(saying(*said, tools=False))
    out = enriched(web, "Acme", "Bolt")
    assert list(out.enrich_status) == ["ok", "error"] and out.ceo[0] == "Jo Doe" and "no JSON object" in out.enrich_error[1]
    assert len(web.requests) == 5
