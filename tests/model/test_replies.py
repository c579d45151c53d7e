"""What the model's server may answer: every recorded reply comes out as it went in, and what is no reply is one clear line."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from ipy_websearch.errors import ModelError
from ipy_websearch.model import batches
from ipy_websearch.model.client import ModelClient
from ipy_websearch.money.prices import model_cost
from ipy_websearch.results import Usage
from tests.contract.helpers import ask, search
from tests.fakes import sse
from tests.fakes.raw_http import RawServer, answer
from tests.fakes.replies import WIRE, recorded

FOLDER = WIRE / "anthropic"
STREAMS = sorted(path.name for path in FOLDER.glob("*.sse*"))
BODIES = {path.name: json.loads(path.read_text()) for path in FOLDER.glob("*.json") if not path.match("*.request.json")}
MESSAGES = sorted(name for name, body in BODIES.items() if body.get("type") == "message")
ERRORS = sorted(name for name, body in BODIES.items() if body.get("type") == "error")


@pytest.mark.parametrize("name", [*STREAMS, *MESSAGES])
def test_a_recorded_reply_comes_out_of_the_loop_as_it_went_in(messages_api: Any, session: Any, name: str) -> None:
    """Its text (marks apart), its sources and its usage are those of the answer, and it costs what these tokens do;
    calls of unknown tools are refused."""
    reply = recorded(name)
    messages_api.allow_refusals = True
    messages_api.reply(reply)
    messages_api.behave(lambda request: ["And so on."])
    try:
        got = ask(session, tools="native")
    except ModelError as exc:
        assert "error_mid_stream" in name and exc.partial is not None
        got = exc.partial
    blocks = [block for block in reply.message["content"] if block["type"] == "text"]
    marks = "|".join(rf"\[{n}\]" for n in range(1, len(got.sources) + 1)) or "$"
    shown = re.sub(rf"\s|{marks}", "", got.text)
    assert "".join("".join(block["text"] for block in blocks).split()) in shown
    cited = [c for block in blocks for c in block.get("citations") or [] if c["type"] == "web_search_result_location"]
    assert {c["url"] for c in cited} <= set(got.sources.url)
    step = next(step for step in got.trace if step.kind == "model")
    if name in MESSAGES or '"message_stop"' in reply.stream:
        assert step.usage == Usage.from_api(reply.message["usage"])
        assert step.cost_usd == model_cost(reply.message["model"], step.usage)


@pytest.mark.parametrize("name", ERRORS)
def test_a_recorded_error_is_one_line_with_its_status(messages_api: Any, session: Any, name: str) -> None:
    """What the API said is told, shortened; nothing hangs in retries."""
    messages_api.behave(lambda request: recorded(name))
    with pytest.raises(ModelError) as caught:
        ask(session, timeout_s=5)
    assert "\n" not in str(caught.value) and caught.value.status and caught.value.status >= 400
    assert BODIES[name]["error"]["message"].split()[0].lower() in str(caught.value).lower()


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_a_stream_without_event_lines_with_other_line_ends_and_nulls_is_understood(
    messages_api: Any, session: Any, end: str
) -> None:
    """Some proxies send data lines only, or every field of an event, used or not; all three are line ends of such streams."""
    made = recorded("synthetic_sse_no_event_lines.sse")
    nulls = {"index": None, "delta": None, "content_block": None}
    made.stream = "".join(f"data: {json.dumps({**nulls, **event})}{end}{end}" for _, event in sse.decode(made.stream))
    messages_api.reply(made)
    assert ask(session).text == "Partial"


def test_half_a_character_of_a_model_can_be_sent_back(messages_api: Any, brave_api: Any, session: Any) -> None:
    messages_api.replies(search("ruby \ud83d"), "Matz \ude00 wrote it.")
    assert "wrote it." in ask(session).text and "ruby" in brave_api.queries[0] and len(messages_api.bodies) == 2


# --- no reply ----------------------------------------------------------------------------------------------------------

BODY: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": [{"role": "user", "content": "Grüße"}]}
CAFE = json.dumps({"type": "message", "content": [{"type": "text", "text": "caf?"}]}).encode()
JSON, STREAM = "application/json", "text/event-stream"
OVERLOADED = json.dumps({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}).encode()


async def events(client: ModelClient) -> list[dict[str, Any]]:
    return [event async for piece in client.events(BODY) for event in piece]


async def whole(client: ModelClient) -> list[dict[str, Any]]:
    return await client.whole_reply(BODY)


Ask = Callable[[ModelClient], Coroutine[Any, Any, Any]]


def answered(monkeypatch: pytest.MonkeyPatch, content: bytes, kind: str, ask: Ask, **heads: str) -> Any:
    """Return what a client makes of a server's answer."""

    async def work() -> Any:
        status = heads.pop("status", "200 OK")
        async with RawServer(answer(content, status, Content_Type=kind, Connection="close", **heads)) as server:
            monkeypatch.setenv("ANTHROPIC_BASE_URL", server.base)
            client = ModelClient(api_key=lambda: "sk-ant-api03-fake-key-of-the-tests")
            try:
                return await ask(client)
            finally:
                await client.aclose()

    return asyncio.run(work())


def refused(monkeypatch: pytest.MonkeyPatch, content: bytes, kind: str, ask: Ask, **heads: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        answered(monkeypatch, content, kind, ask, **heads)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("ask", [events, whole])
@pytest.mark.parametrize(
    ("content", "kind", "shown"),
    [
        (b'{"hello": 1}', JSON, '{"hello": 1}'),
        (b"null", JSON, "null"),
        (b"[" * 100_000, JSON, "[[[["),
        (b"<html><h1>Sign in</h1><script>x</script>", "text/html", "Sign in"),
        (b"Ollama is running", "text/plain", "Ollama is running"),
        (b'data: {"choices": []}\n\ndata: [DONE]\n\n', STREAM, "choices"),
    ],
)
def test_what_is_no_messages_api_is_told(
    content: bytes, kind: str, shown: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = refused(monkeypatch, content, kind, ask)
    assert "is ANTHROPIC_BASE_URL right" in str(error) and shown in str(error) and error.kind == "no_message"


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed"])
def test_a_wrong_address_is_told_with_its_variable_and_without_its_password(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "ANTHROPIC_BASE_URL" in str(refused(monkeypatch, b"<h1>nginx</h1>", "text/html", events, status=status))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://me:secret@127.0.0.1:1")
    with pytest.raises(ModelError, match="check ANTHROPIC_BASE_URL") as caught:
        asyncio.run(events(ModelClient(api_key=lambda: None)))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "kind", "ask"),
    [
        (b'{"type": "message", "content": [', JSON, events),
        (b"", JSON, whole),
        (b"event: ping\ndata: {not json\n\n", STREAM, events),
        (b"event: ping\ndata: " + b"[" * 100_000 + b"\n\n", STREAM, whole),
    ],
)
def test_an_answer_that_broke_off_may_be_asked_for_again(
    content: bytes, kind: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert refused(monkeypatch, content, kind, ask).kind == "truncated"


@pytest.mark.parametrize(("content", "kind"), [(b"<h1>Sign in</h1>", "text/html"), (b"{", JSON), (b"[]", JSON)])
@pytest.mark.parametrize("ask", [lambda client: batches.submit(client, []), lambda client: batches.results(client, "b")])
def test_what_is_no_batch_is_told(ask: Ask, content: bytes, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(monkeypatch, content, kind, ask)
    assert "is ANTHROPIC_BASE_URL right" in str(error) and (error.kind == "truncated") == (content == b"{")


@pytest.mark.parametrize("ask", [events, whole])
def test_odd_answers_are_understood(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """The API's error under a status of success, bytes that are no UTF-8, compressed messages, a stream by another name."""
    assert answered(monkeypatch, b'data: {"type": "ping"}\n\n', "text/plain", ask) == [{"type": "ping"}]
    assert refused(monkeypatch, OVERLOADED, JSON, ask).kind == "overloaded_error"
    zipped = gzip.compress(CAFE.replace(b"?", b"e"))
    for content, heads, said in (
        (CAFE.replace(b"?", b"\xe9"), {}, "caf\ufffd"),
        (zipped, {"Content_Encoding": "gzip"}, "cafe"),
    ):
        got = answered(monkeypatch, content, JSON, ask, **heads)
        assert [e["delta"]["text"] for e in got if e["type"] == "content_block_delta"] == [said]


@pytest.mark.parametrize(("seconds", "said"), [("99999", "for 27.8 h"), ("1", "wait a moment")])
def test_a_limit_says_for_how_long(seconds: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    error = refused(monkeypatch, OVERLOADED, JSON, events, status="429 Too Many Requests", Retry_After=seconds)
    assert said in str(error) and error.retry_after == float(seconds)
