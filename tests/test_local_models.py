"""Models that call no tools: the question is searched for first, and the marks of the answer are held to what was found."""

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.errors import ModelError
from ipy_websearch.results import Retracted, TextDelta, ToolFinished
from ipy_websearch.testing import FakeWeb

RUBY = "Who wrote the Ruby language?"
HITS = [
    ("https://ruby.example/ruby", "Ruby", "Ruby was written by Yukihiro Matsumoto in 1995."),
    ("https://ruby.example/gem", "Gems", "A ruby is a red gemstone, a variety of corundum."),
]


@pytest.fixture
def web(request: pytest.FixtureRequest) -> Iterator[FakeWeb]:
    """A web whose model is an open one on a server of its own; the platform may be given."""
    with FakeWeb(platform=getattr(request, "param", "ollama")) as web:
        web.add_results("Ruby", *HITS)
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
