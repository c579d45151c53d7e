"""`Session.export_trace` and `%trace --otel`: an answer's steps as OpenTelemetry's gen_ai spans in OTLP/JSON."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError
from ipy_websearch.session import Session
from tests.fakes.replies import text, tool_use, usage

SPAN_FIELDS = {
    "traceId",
    "spanId",
    "parentSpanId",
    "name",
    "kind",
    "startTimeUnixNano",
    "endTimeUnixNano",
    "attributes",
    "status",
}


def plain(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return attributes as Python's values, after a check of their encoding (opentelemetry.io/docs/specs/otlp)."""
    found = {}
    for pair in attributes:
        ((kind, value),) = pair["value"].items()
        if kind == "arrayValue":
            value = [next(iter(item.values())) for item in value["values"]]
        else:
            wanted = {"stringValue": str, "intValue": str, "doubleValue": float, "boolValue": bool}[kind]
            assert type(value) is wanted, pair
        found[pair["key"]] = int(value) if kind == "intValue" else value
    assert len(found) == len(attributes)
    return found


def spans(path: Path) -> list[dict[str, Any]]:
    """Return the spans of a file with plain attributes, after a check of their form."""
    ((resource,),) = json.loads(path.read_text("utf-8")).values()
    assert plain(resource["resource"]["attributes"])["service.name"] == "ipy_websearch"
    (scope,) = resource["scopeSpans"]
    assert plain(scope["scope"]["attributes"])["semantic_conventions"].endswith("semantic-conventions-genai v0.1.0")
    for span in scope["spans"]:
        assert set(span) <= SPAN_FIELDS and re.fullmatch(r"[0-9a-f]{32}", span["traceId"])
        assert re.fullmatch(r"[0-9a-f]{16}", span["spanId"])
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) and isinstance(span["startTimeUnixNano"], str)
    return [{**span, "attributes": plain(span["attributes"])} for span in scope["spans"]]


def asked(session: Session, messages_api: Any, brave_api: Any) -> None:
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}), usage(input_tokens=10, cache_read_input_tokens=90))
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    asyncio.run(session.ask("Who wrote Ruby?", provider="brave"))


def test_a_trace_has_a_span_for_the_question_each_request_and_each_call(
    session: Session, messages_api: Any, brave_api: Any, tmp_path: Path
) -> None:
    began = datetime.now(UTC).timestamp() * 1e9
    asked(session, messages_api, brave_api)
    whole, first, call, second = spans(session.export_trace(tmp_path / "trace.json"))
    assert [span["name"].split()[0] for span in (whole, first, call, second)] == [
        "invoke_agent",
        "chat",
        "execute_tool",
        "chat",
    ]
    assert {span["parentSpanId"] for span in (first, call, second)} == {whole["spanId"]} and "parentSpanId" not in whole
    assert (whole["kind"], first["kind"], call["kind"]) == (1, 3, 1)
    assert began <= int(first["startTimeUnixNano"]) <= int(call["startTimeUnixNano"]) <= int(second["startTimeUnixNano"])
    facts = first["attributes"]
    assert facts["gen_ai.provider.name"] == "anthropic" and facts["gen_ai.request.model"].startswith("claude-sonnet")
    assert facts["gen_ai.usage.input_tokens"] == 100 and facts["gen_ai.usage.cache_read.input_tokens"] == 90
    assert facts["gen_ai.response.finish_reasons"] == ["tool_use"] and facts["gen_ai.conversation.id"] == session.id
    assert call["attributes"]["gen_ai.tool.name"] == "web_search" and call["attributes"]["gen_ai.tool.call.id"]
    assert call["attributes"]["ipy_websearch.cost_usd"] == pytest.approx(0.005)


def test_texts_are_in_a_trace_only_when_asked_for_and_keys_never(
    session: Session, messages_api: Any, brave_api: Any, tmp_path: Path
) -> None:
    asked(session, messages_api, brave_api)
    without = session.export_trace(tmp_path / "trace.json").read_text("utf-8")
    assert "ruby" not in without.lower()
    messages_api.reply(text(f"Your key is {brave_api.key}."))
    asyncio.run(session.ask("What is my key?"))
    path = session.export_trace(tmp_path / "trace.json", answer=session.answers[0], contents=True)
    (call,) = (span["attributes"] for span in spans(path) if span["name"] == "execute_tool web_search")
    assert json.loads(call["gen_ai.tool.call.arguments"]) == {"query": "ruby author"} and call["gen_ai.tool.call.result"]
    (last,) = json.loads(spans(path)[-1]["attributes"]["gen_ai.output.messages"])
    assert last["parts"][0] == {"type": "text", "content": "Matz wrote Ruby."} and last["finish_reason"] == "end_turn"
    newest = session.export_trace(tmp_path / "trace.json", contents=True).read_text("utf-8")
    assert brave_api.key not in newest and "Your key is [key]" in newest


def test_the_magic_writes_a_trace_and_what_cannot_be_written_is_one_line(
    session: Session, messages_api: Any, shell: Any, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match="no answer to export yet"):
        session.export_trace(tmp_path / "trace.json")
    messages_api.reply(text("Yes."))
    assert shell.run("%ask Is it?").ok
    ran = shell.run(f"%trace --otel {tmp_path / 'trace.json'}")
    assert ran.ok and "1 step" in ran.stdout and len(spans(tmp_path / "trace.json")) == 2
    assert "cannot be written" in str(shell.run(f"%trace --otel {tmp_path / 'none' / 'trace.json'}").error)
