"""Every recorded reply of the Messages API goes through the loop: what it shows is what comes out, to the last token."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from typing import Any

import pytest

from ipy_websearch.errors import ModelError
from ipy_websearch.model.client import Reply
from ipy_websearch.money.prices import model_cost
from ipy_websearch.results import Usage
from tests.contract.helpers import ask
from tests.fakes.replies import WIRE, recorded

FOLDER = WIRE / "anthropic"
STREAMS = sorted(path.name for path in FOLDER.glob("*.sse*"))
BODIES = {path.name: json.loads(path.read_text()) for path in FOLDER.glob("*.json") if not path.match("*.request.json")}
MESSAGES = sorted(name for name, body in BODIES.items() if body.get("type") == "message")
ERRORS = sorted(name for name, body in BODIES.items() if body.get("type") == "error")


def events_of(name: str) -> list[dict[str, Any]]:
    path = FOLDER / name
    content = gzip.decompress(path.read_bytes()).decode() if name.endswith(".gz") else path.read_text()
    return [json.loads(line[5:]) for line in content.splitlines() if line.startswith("data:")]


def replayed(name: str) -> Reply:
    reply = Reply()
    for event in events_of(name):
        reply.apply(event)
    reply.close()
    return reply


@pytest.mark.parametrize("name", STREAMS)
def test_a_recorded_stream_is_put_together_as_it_was_sent(name: str) -> None:
    """Text, citations, tool inputs and signatures of the blocks are those of the deltas; nothing is lost or changed."""
    events, reply = events_of(name), replayed(name)
    deltas = [e["delta"] for e in events if e["type"] == "content_block_delta"]
    assert reply.text == "".join(d["text"] for d in deltas if d["type"] == "text_delta")
    assert len(reply.content) == len({e["index"] for e in events if e["type"] == "content_block_start"})
    cited = [c for block in reply.content for c in block.get("citations") or []]
    assert cited == [d["citation"] for d in deltas if d["type"] == "citations_delta"]
    for block in reply.content:
        if block["type"] in ("tool_use", "server_tool_use") and block["id"] not in reply.malformed:
            assert isinstance(block["input"], dict)
    assert reply.complete == any(e["type"] == "message_stop" for e in events)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_recorded_message_comes_out_of_the_loop_as_it_went_in(messages_api: Any, session: Any, name: str) -> None:
    """Its text (marks apart), its sources and its usage are those of the answer; calls of unknown tools are refused."""
    message = BODIES[name]
    messages_api.allow_refusals = True
    messages_api.reply(recorded(name))
    messages_api.behave(lambda request: ["And so on."])
    answer = ask(session)
    words = "".join(block["text"] for block in message["content"] if block["type"] == "text").split()
    shown = answer.text
    for n in range(len(answer.sources), 0, -1):
        shown = shown.replace(f"[{n}]", "")
    if words:
        assert "".join(words) in "".join(shown.split())
    step = next(step for step in answer.trace if step.kind == "model")
    assert step.usage == Usage.from_api(message["usage"]) and step.cost_usd == model_cost(message["model"], step.usage)
    sources = {
        c.get("url") or c.get("source")
        for block in message["content"]
        for c in block.get("citations") or []
        if c["type"] != "search_result_location"  # of results that this conversation was never given
        if c.get("url") or c.get("source")
    }
    assert sources <= set(answer.sources.url)


@pytest.mark.parametrize("name", ERRORS)
def test_a_recorded_error_is_one_line_with_its_status(messages_api: Any, session: Any, name: str) -> None:
    """What the API said is told, shortened; nothing hangs in retries."""
    body = BODIES[name]
    for _ in range(3):
        messages_api.reply(recorded(name))
    messages_api.behave(lambda request: ["Never."])
    with pytest.raises(ModelError) as caught:
        ask(session, timeout_s=5)
    assert "\n" not in str(caught.value) and caught.value.status and caught.value.status >= 400
    assert body["error"]["message"].split()[0].lower() in str(caught.value).lower()
    messages_api._queue.clear()


def test_a_stream_without_event_lines_is_understood(messages_api: Any, session: Any) -> None:
    """Some proxies send data lines only; the SDK alone would ignore every event."""
    messages_api.reply(recorded("synthetic_sse_no_event_lines.sse"))
    answer = ask(session)
    assert answer.text == "Partial" and answer.cost_usd is not None and answer.cost_usd > Decimal(0)


@pytest.mark.parametrize("end", ["\r\n", "\r"], ids=["crlf", "cr"])
def test_a_stream_with_other_line_ends_and_nulls_is_understood(messages_api: Any, session: Any, end: str) -> None:
    """Both are line ends of server-sent events; some servers write every field of an event, used or not."""
    made: Any = recorded("synthetic_sse_no_event_lines.sse")
    nulls = {"index": None, "delta": None, "content_block": None}
    made.stream = "".join(
        f"data: {json.dumps({**nulls, **e})}{end}{end}" for e in events_of("synthetic_sse_no_event_lines.sse")
    )
    messages_api.reply(made)
    assert ask(session).text == "Partial"
