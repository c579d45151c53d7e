"""`Session.export_trace` and `%trace --otel`: an answer's steps as OpenTelemetry's gen_ai spans in OTLP/JSON."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.session import Session
from tests.fakes.replies import text, tool_use, usage

TYPES = {"stringValue": str, "intValue": str, "doubleValue": float, "boolValue": bool, "arrayValue": dict}


def spans(path: Path) -> list[dict[str, Any]]:
    """Return the spans of a file with plain attributes, after a check of their form (opentelemetry.io/docs/specs/otlp)."""
    ((resource,),) = json.loads(path.read_text("utf-8")).values()
    (scope,) = resource["scopeSpans"]
    assert scope["scope"]["attributes"][0]["value"]["stringValue"].endswith("semantic-conventions-genai v0.1.0")
    for span in scope["spans"]:
        assert re.fullmatch(r"[0-9a-f]{32} [0-9a-f]{16}", f"{span['traceId']} {span['spanId']}")
        assert isinstance(span["startTimeUnixNano"], str) and int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        kinds = [(kind, value) for pair in span["attributes"] for kind, value in pair["value"].items()]
        assert all(type(value) is TYPES[kind] for kind, value in kinds)
        values = {pair["key"]: next(iter(pair["value"].values())) for pair in span["attributes"]}
        assert len(values) == len(span["attributes"]) == len(kinds)
        span["attributes"] = values
    return list(scope["spans"])


@pytest.fixture
def asked(session: Session, messages_api: Any, brave_api: Any) -> Session:
    """A session that asked one question with one search."""
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}), usage(input_tokens=10, cache_read_input_tokens=90))
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    asyncio.run(session.ask("Who wrote Ruby?", provider="brave"))
    return session


def test_a_trace_has_a_span_for_the_question_each_request_and_each_call(asked: Session, tmp_path: Path) -> None:
    whole, first, call, second = spans(asked.export_trace(tmp_path / "trace.json"))
    names = [span["name"].split()[0] for span in (whole, first, call, second)]
    assert names == ["invoke_agent", "chat", "execute_tool", "chat"]
    assert {span["parentSpanId"] for span in (first, call, second)} == {whole["spanId"]} and "parentSpanId" not in whole
    assert (whole["kind"], first["kind"], call["kind"]) == (1, 3, 1)
    facts, called = first["attributes"], call["attributes"]
    assert facts["gen_ai.provider.name"] == "anthropic" and facts["gen_ai.request.model"].startswith("claude-sonnet")
    assert facts["gen_ai.usage.input_tokens"] == "100" and facts["gen_ai.usage.cache_read.input_tokens"] == "90"
    assert facts["gen_ai.response.finish_reasons"] == {"values": [{"stringValue": "tool_use"}]}
    assert facts["gen_ai.conversation.id"] == asked.id and called["gen_ai.tool.name"] == "web_search"
    assert called["gen_ai.tool.call.id"] and called["ipy_websearch.cost_usd"] == pytest.approx(0.005)


def test_texts_are_in_a_trace_only_when_asked_for_and_keys_never(
    asked: Session, messages_api: Any, brave_api: Any, tmp_path: Path
) -> None:
    assert "ruby" not in asked.export_trace(tmp_path / "trace.json").read_text("utf-8").lower()
    messages_api.reply(text(f"Your key is {brave_api.key}."))
    asyncio.run(asked.ask("What is my key?"))
    _, _, call, second = spans(asked.export_trace(tmp_path / "trace.json", answer=asked.answers[0], contents=True))
    assert json.loads(call["attributes"]["gen_ai.tool.call.arguments"]) == {"query": "ruby author"}
    assert call["attributes"]["gen_ai.tool.call.result"]
    (last,) = json.loads(second["attributes"]["gen_ai.output.messages"])
    assert last["parts"][0] == {"type": "text", "content": "Matz wrote Ruby."} and last["finish_reason"] == "end_turn"
    newest = asked.export_trace(tmp_path / "trace.json", contents=True).read_text("utf-8")
    assert brave_api.key not in newest and "Your key is [key]" in newest


def test_the_magic_writes_a_trace_and_what_cannot_be_written_is_one_line(messages_api: Any, shell: Any, tmp_path: Path) -> None:
    messages_api.reply(text("Yes."))
    assert shell.run("%ask Is it?").ok
    ran = shell.run(f"%trace --otel {tmp_path / 'trace.json'}")
    assert ran.ok and "1 step" in ran.stdout and len(spans(tmp_path / "trace.json")) == 2
    assert "cannot be written" in str(shell.run(f"%trace --otel {tmp_path / 'none' / 'trace.json'}").error)
