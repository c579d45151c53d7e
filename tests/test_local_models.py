"""Models that call no tools: the question is searched for first, and the marks of the answer are held to what was found."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal

import aiohttp.web
import pandas as pd
import pytest

import ipy_websearch as web
from ipy_websearch.errors import ModelError
from ipy_websearch.results import Retracted, TextDelta, ToolFinished
from ipy_websearch.session import Session
from tests.fakes.engines import hit
from tests.fakes.server import Handler, Server, receive

BLOCKS = {"text", "tool_use", "tool_result", "thinking"}


class LocalModels(Server):
    """A strict server of an open model that speaks the Messages API as Ollama, vLLM and llama.cpp do: text, and perhaps tools.

    It refuses what none of them takes (`search_result` and `document` blocks, as vLLM does), and with `tools` "refused" also
    tools, in Ollama's words. "ignored" tools are taken and never called. `formats` says whether `output_config.format` is
    known; where it is not, a request with one is refused. `replies` are texts, or blocks of a reply, in the order of the
    requests that are not refused.
    """

    def __init__(self, tools: Literal["refused", "ignored", "called"] = "refused", *, formats: bool = True) -> None:
        super().__init__()
        self.tools, self.formats = tools, formats
        self.replies: deque[str | dict[str, Any]] = deque()
        self.behave: Callable[[dict[str, Any]], str] | None = None

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [("POST", "/v1/messages", self._messages)]

    @property
    def bodies(self) -> list[Any]:
        """The requests that were answered."""
        return [request.body for request in self.requests if request.refusal is None]

    async def _messages(self, request: aiohttp.web.Request) -> aiohttp.web.StreamResponse:
        received = await receive(request)
        self.requests.append(received)
        body = received.body
        if said := self._refusal(body):
            received.refusal = said
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
            return aiohttp.web.json_response(error, status=400)
        reply = self.replies.popleft() if self.replies or self.behave is None else self.behave(body)
        block = {"type": "text", "text": reply} if isinstance(reply, str) else reply
        message = {
            "id": f"msg_{len(self.requests)}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [block],
            "stop_reason": "tool_use" if block["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 50, "output_tokens": 10},
        }
        return aiohttp.web.json_response(message)  # as some servers do, though a stream was asked for

    def _refusal(self, body: dict[str, Any]) -> str:
        if body.get("tools") and self.tools == "refused":
            return f"registry.ollama.ai/library/{body['model']} does not support tools"
        if "output_config" in body and not self.formats:
            return "output_config: Extra inputs are not permitted"
        for message in body["messages"]:
            content = message["content"] if isinstance(message["content"], list) else []
            inner = [part for block in content if block["type"] == "tool_result" for part in block.get("content", ())]
            if wrong := {block["type"] for block in [*content, *inner]} - BLOCKS:
                return f"Input should be one of {sorted(BLOCKS)}, not {sorted(wrong)}"
        return ""


def words_of(body: dict[str, Any]) -> str:
    """Return all text that a request's messages hold."""
    return "\n".join(block.get("text", "") for message in body["messages"] for block in message["content"])


RUBY = "Who wrote the Ruby language?"
HITS = [
    hit("https://ruby.example/ruby", "Ruby", "Ruby was written by Yukihiro Matsumoto in 1995."),
    hit("https://ruby.example/gem", "Gems", "A ruby is a red gemstone, a variety of corundum."),
]


@pytest.fixture
def local(brave_api: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LocalModels]]:
    """A function that starts a server of an open model, to which ANTHROPIC_BASE_URL leads."""
    started: list[LocalModels] = []

    def start(*args: Any, **options: Any) -> LocalModels:
        started.append(LocalModels(*args, **options).start())
        monkeypatch.setenv("ANTHROPIC_BASE_URL", started[-1].url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        return started[-1]

    yield start
    for server in started:
        server.stop()
        server.check()


def asked(session: Session, question: str = RUBY, **options: Any) -> tuple[Any, list[Any]]:
    """Return the answer of a local model and the events on the way."""

    async def main() -> tuple[Any, list[Any]]:
        run = session.start(question, model="llama3.2", provider="brave", **options)
        events = [event async for event in run]
        return run.answer, events

    return asyncio.run(main())


@pytest.mark.parametrize("platform", ["", "ollama", "lmstudio", "llamacpp", "vllm"])
def test_a_server_that_refuses_tools_is_asked_with_what_a_search_found(local: Any, brave_api: Any, platform: str) -> None:
    server = local("refused")
    brave_api.reply(HITS)
    server.replies.append("Ruby was written by Yukihiro Matsumoto [1]. It is sold in blue boxes [2].")
    session = Session()
    session.settings.platform = platform
    answer, _ = asked(session)
    assert answer.text == "Ruby was written by Yukihiro Matsumoto [1]. It is sold in blue boxes \\[2]."
    assert list(answer.sources.url) == ["https://ruby.example/ruby"] and answer.searches == 1
    assert answer.citations[0].cited_text == "Ruby was written by Yukihiro Matsumoto in 1995."
    (body,) = server.bodies
    assert "tools" not in body and words_of(body).endswith(RUBY) and "1. Ruby\n   https://ruby.example/ruby" in words_of(body)
    brave_api.reply(HITS)
    server.replies.append("Again Yukihiro Matsumoto wrote Ruby [1].")
    asked(session, "Who wrote Ruby in 1995?")
    assert len(server.requests) == 3, "what the server said of the model is remembered"
    server.replies.append("372.")
    answer, _ = asked(session, "12 * 31?")
    assert answer.text == "372." and not answer.searches and len(server.requests) == 4


@pytest.mark.parametrize(
    ("question", "first"),
    [
        (RUBY, "Guido wrote Ruby."),
        ("Tell me about the ruby language", '{"name": "web_search", "parameters": {"query": "Guido"}}'),
    ],
)
def test_a_first_answer_without_a_call_is_taken_back_and_asked_again(
    local: Any, brave_api: Any, shell: Any, question: str, first: str
) -> None:
    """So is a call that was written as text; neither the answer, the history nor the cell keeps it."""
    server = local("ignored")
    brave_api.reply(HITS)
    server.replies += [first, "Ruby was written by Yukihiro Matsumoto in 1995 [1, 2]."] * 2
    answer, events = asked(Session(), question)
    assert answer.text == "Ruby was written by Yukihiro Matsumoto in 1995 [1]\\[2]." and "tools" in server.bodies[0]
    assert any("called no tool" in notice for notice in answer.notices) and answer.searches == 1
    void = next(n for n, event in enumerate(events) if isinstance(event, Retracted))
    shown = "".join(event.text for event in events[void:] if isinstance(event, TextDelta))
    assert "Guido" not in shown and "Guido" not in str(answer.messages) and answer.claims.verdict[0] == "supported"
    ran = shell.run(f"%%ask -m llama3.2 --provider brave\n{question}")
    cell = "".join(str(output.data) for output in ran.shown())
    assert ran.ok and "Matsumoto" in cell and "Guido" not in cell and len(ran.value.sources) == 1


def test_a_model_that_repeats_a_mark_without_end_takes_seconds_and_not_minutes(local: Any, brave_api: Any) -> None:
    server = local("refused")
    brave_api.reply([hit(f"https://ruby.example/{n}", "Ruby", "Ruby was written by Yukihiro Matsumoto.") for n in range(5)])
    server.replies.append("Ruby was written by Yukihiro Matsumoto" + " and [1]" * 10_000 + "[1]" * 40_000)
    assert len(asked(Session())[0].sources) == 1


@pytest.mark.parametrize("question", ["12 * 31?", "Write a limerick about rain.", "Thanks, that will do."])
def test_what_needs_no_search_is_answered_at_once(local: Any, brave_api: Any, question: str) -> None:
    server = local("ignored")
    server.replies.append("Here it is [1].")
    answer, _ = asked(Session(), question)
    assert answer.text == "Here it is \\[1]." and not answer.searches and len(server.requests) == 1


def test_a_local_model_that_calls_tools_has_sources_too(local: Any, brave_api: Any) -> None:
    server = local("called")
    brave_api.reply(HITS)
    call = {"type": "tool_use", "id": "toolu_1", "name": "web_search", "input": {"query": "ruby author"}}
    server.replies += [call, "Ruby was written by Yukihiro Matsumoto [1], not by Guido van Rossum [2][7]."]
    answer, _ = asked(Session())
    assert answer.text == "Ruby was written by Yukihiro Matsumoto [1], not by Guido van Rossum \\[2]\\[7]."
    assert answer.sources.n.tolist() == [1] and "square brackets" in server.bodies[0]["system"][0]["text"]


def test_a_failed_search_is_told_to_the_model_in_the_seeds_words(local: Any, brave_api: Any) -> None:
    server = local("refused")
    brave_api.allow_refusals = True
    brave_api.fail(403)
    server.replies.append("I think it was Matz [1].")
    answer, events = asked(Session())
    assert "Search unavailable. Please answer from your knowledge." in words_of(server.bodies[0])
    assert answer.text == "I think it was Matz \\[1]." and any(e.is_error for e in events if isinstance(e, ToolFinished))


def test_the_setting_has_the_first_word(local: Any, brave_api: Any, messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    session.settings.retrieve_first = "always"
    brave_api.reply(HITS)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", messages_api.url)
    messages_api.reply("Matz.")
    answer = asyncio.run(session.ask(RUBY, provider="brave"))
    content = messages_api.bodies[0]["messages"][-1]["content"]
    assert [block["type"] for block in content] == ["search_result", "search_result", "text"] and answer.searches == 1
    server = local("refused")
    session.settings.retrieve_first = "never"
    with pytest.raises(ModelError, match="does not support tools"):
        asked(session)
    assert len(server.requests) == 1


# --- columns ------------------------------------------------------------------------------------------------------------

CEO: dict[str, Any] = {"ceo": "Who is the CEO of {company}?"}
ACME = [hit("https://example.org/acme", "Acme", "The CEO of Acme is Jo Doe since 2019.")]
CELL = {"value": "Jo Doe", "source": "https://example.org/acme", "quote": "CEO of Acme is Jo Doe", "confidence": 0.9}
RECORD = json.dumps({"ceo": CELL})


def enriched(*names: str) -> pd.DataFrame:
    frame = pd.DataFrame({"company": list(names)})
    out: pd.DataFrame = web.enrich(frame, CEO, model="llama3.2", provider="brave", progress=False, concurrency=1)
    return out


@pytest.mark.parametrize("formats", [True, False])
@pytest.mark.parametrize("tools", ["refused", "ignored"])
def test_a_row_is_read_from_a_search_and_written_as_json(local: Any, brave_api: Any, tools: Any, formats: bool) -> None:
    server = local(tools, formats=formats)
    brave_api.behave(lambda values: ACME)
    server.behave = lambda body: "It may be Jo." if "tools" in body else RECORD
    row = enriched("Acme").iloc[0]
    assert (row.ceo, row.ceo_source, row.ceo_quote, row.enrich_status) == ("Jo Doe", CELL["source"], CELL["quote"], "ok")
    body = server.bodies[-1]
    assert "The CEO of Acme is Jo Doe" in words_of(body) and "tools" not in body
    assert ("output_config" in body) is formats
    if formats:
        assert body["output_config"]["format"]["schema"]["required"] == ["ceo"]
    requests = len(server.requests)
    assert enriched("Bolt").enrich_status[0] == "ok" and len(server.requests) == requests + 1, "it is remembered"


def test_json_that_is_none_is_asked_for_once_more(local: Any, brave_api: Any) -> None:
    server = local("refused")
    brave_api.behave(lambda values: ACME)
    server.replies += ["Sure! The CEO is Jo.", f"```json\n{RECORD}\n```", "Jo Doe.", "Jo Doe, as I said."]
    out = enriched("Acme", "Bolt")
    assert list(out.enrich_status) == ["ok", "error"] and out.ceo[0] == "Jo Doe" and "no JSON object" in out.enrich_error[1]
    assert len(server.bodies) == 4 and len(server.requests) == 5
