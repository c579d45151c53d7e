"""An answer's steps as OpenTelemetry spans, in the JSON form of OTLP: `Session.export_trace` writes them. Pure.

Attribute names are those of OpenTelemetry's semantic conventions for generative AI, v0.1.0, the first release from their own
repository (github.com/open-telemetry/semantic-conventions-genai, read 2026-11; the Anthropic SDK 2.12 uses the same). They are
not stable yet. The encoding is opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding": ids in hexadecimal, 64-bit numbers
as texts, enums as numbers.

Spans carry names, times, tokens and costs. Questions, answers, arguments and results are added with `contents`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

from ipy_websearch.results import Answer, Step

CONVENTIONS = "open-telemetry/semantic-conventions-genai v0.1.0"
INTERNAL, CLIENT, FAILED = 1, 3, 2
PROVIDERS = {"bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai", "foundry": "azure.ai.inference"}
"""The conventions' names for platforms; others go by their own."""


def trace_of(answer: Answer, *, session: str, platform: str, contents: bool = False) -> dict[str, Any]:
    """Return the trace of an answer: one span for the question, below it one for each model request and tool call."""
    provider = "ipy_websearch" if answer.offline else PROVIDERS.get(platform, platform)
    common = {"gen_ai.provider.name": provider, "gen_ai.conversation.id": session}
    began = [step.started for step in answer.trace if step.started is not None]
    first = min(began, default=datetime.now(UTC))
    trace_id = _digest(32, session, first.isoformat(), answer.question)
    root = _digest(16, trace_id, "0")
    spans = []
    ends = [first]
    for step in answer.trace:
        start = step.started or ends[-1]
        ends.append(start + timedelta(milliseconds=step.milliseconds))
        spans.append(
            {
                **_span(trace_id, _digest(16, trace_id, str(step.n)), _name(step), start, ends[-1]),
                "parentSpanId": root,
                "kind": CLIENT if step.kind == "model" else INTERNAL,
                "attributes": _attributes(common | _facts(step) | (_contents(step) if contents else {})),
                "status": {"code": FAILED, "message": step.detail} if step.is_error else {},
            }
        )
    whole = {
        **_span(trace_id, root, "invoke_agent ipy_websearch", first, max(ends)),
        "kind": INTERNAL,
        "attributes": _attributes(common | _whole(answer) | (_asked(answer) if contents else {})),
        "status": {},
    }
    named = _attributes({"semantic_conventions": CONVENTIONS})
    scope = {"name": "ipy_websearch", "version": version("ipy_websearch"), "attributes": named}
    resource = {"attributes": _attributes({"service.name": "ipy_websearch", "service.version": version("ipy_websearch")})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": [whole, *spans]}]}]}


def _span(trace_id: str, span_id: str, name: str, start: datetime, end: datetime) -> dict[str, Any]:
    times = {"startTimeUnixNano": _nanoseconds(start), "endTimeUnixNano": _nanoseconds(end)}
    return {"traceId": trace_id, "spanId": span_id, "name": name, **times}


def _name(step: Step) -> str:
    return f"chat {step.name}" if step.kind == "model" else f"execute_tool {step.name}"


def _whole(answer: Answer) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "ipy_websearch",
        "gen_ai.request.model": answer.model,
        **_tokens(answer.usage.total_input_tokens, answer.usage.output_tokens),
        "ipy_websearch.searches": answer.searches,
        "ipy_websearch.sources": len({citation.n for citation in answer.citations}),
        "ipy_websearch.limit": answer.limit,
        "ipy_websearch.cost_usd": None if answer.cost_usd is None else float(answer.cost_usd),
    }


def _facts(step: Step) -> dict[str, Any]:
    """Return what a step's span says without its contents."""
    cost = {"ipy_websearch.cost_usd": None if step.cost_usd is None else float(step.cost_usd)}
    if step.kind == "tool":
        failed = step.log.get("error_type") or "tool_error"
        call = step.response if isinstance(step.response, Mapping) else {}
        return cost | {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": call.get("tool_use_id"),
            "error.type": failed if step.is_error else None,
        }
    request = step.request if isinstance(step.request, Mapping) else {}
    usage = step.usage
    return cost | {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": request.get("model", step.name),
        "gen_ai.request.max_tokens": request.get("max_tokens"),
        "gen_ai.response.model": step.name,
        "gen_ai.response.finish_reasons": None if step.is_error else [step.detail],
        **_tokens(usage.total_input_tokens, usage.output_tokens),
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        "error.type": "broken_off" if step.is_error else None,
    }


def _tokens(read: int, written: int) -> dict[str, int]:
    return {"gen_ai.usage.input_tokens": read, "gen_ai.usage.output_tokens": written}


def _contents(step: Step) -> dict[str, Any]:
    if step.kind == "tool":
        result = step.response.get("content") if isinstance(step.response, Mapping) else step.response
        return {"gen_ai.tool.call.arguments": _json(step.request), "gen_ai.tool.call.result": _json(result)}
    request = step.request if isinstance(step.request, Mapping) else {}
    read = [{"role": message["role"], "parts": _parts(message["content"])} for message in request.get("messages", ())]
    written = {"role": "assistant", "parts": _parts(step.response or ()), "finish_reason": step.detail}
    return {
        "gen_ai.system_instructions": _json(_parts(request.get("system") or ())),
        "gen_ai.input.messages": _json(read),
        "gen_ai.output.messages": _json([written]),
    }


def _asked(answer: Answer) -> dict[str, Any]:
    asked = {"role": "user", "parts": _parts(answer.question)}
    said = {"role": "assistant", "parts": _parts(answer.text), "finish_reason": answer.stop_reason or "error"}
    return {"gen_ai.input.messages": _json([asked]), "gen_ai.output.messages": _json([said])}


def _parts(content: Any) -> list[Any]:
    """Return blocks of the Messages API as the conventions write parts of a message."""
    if isinstance(content, str):
        return [{"type": "text", "content": content}]
    parts: list[Any] = []
    for block in content:
        match block.get("type"):
            case "text":
                parts.append({"type": "text", "content": block.get("text")})
            case "tool_use" | "server_tool_use":
                called = {"id": block.get("id"), "name": block.get("name"), "arguments": block.get("input")}
                parts.append({"type": "tool_call", **called})
            case "tool_result":
                parts.append({"type": "tool_call_response", "id": block.get("tool_use_id"), "response": block.get("content")})
            case _:
                parts.append(dict(block))
    return parts


# --- the encoding -----------------------------------------------------------------------------------------------------------


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case str():
            return {"stringValue": value}
        case _:
            items: Sequence[Any] = value
            return {"arrayValue": {"values": [_value(item) for item in items]}}


def _nanoseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1_000_000) * 1_000)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _digest(digits: int, *parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:digits]
