"""An answer's steps as OpenTelemetry spans, in the JSON form of OTLP.

Attribute names are those of OpenTelemetry's semantic conventions for generative AI, v0.1.0, the first release from their own
repository (github.com/open-telemetry/semantic-conventions-genai, read 2026-11; the Anthropic SDK 2.12 uses the same). They are
not stable yet. The encoding is opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding": ids in hexadecimal, 64-bit numbers
as texts, enums as numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from typing import Any

from ipy_websearch.results import Answer, Step

CONVENTIONS = "open-telemetry/semantic-conventions-genai v0.1.0"
INTERNAL, CLIENT, FAILED = 1, 3, 2
# The conventions' names for platforms; others go by their own.
PROVIDERS = {"bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai", "foundry": "azure.ai.inference"}


def trace_of(answer: Answer, *, session: str, platform: str, contents: bool = False) -> dict[str, Any]:
    """Return the trace of an answer: one span for the question, below it one for each model request and tool call."""
    provider = "ipy_websearch" if answer.offline else PROVIDERS.get(platform, platform)
    common = {"gen_ai.provider.name": provider, "gen_ai.conversation.id": session}
    first = min((step.started for step in answer.trace if step.started is not None), default=datetime.now(UTC))
    trace_id = _digest(32, session, first.isoformat(), answer.question)
    root, at, end = _digest(16, trace_id, "0"), first, first
    spans = []
    for step in answer.trace:
        start = step.started or at
        at = start + timedelta(milliseconds=step.milliseconds)
        end = max(end, at)
        kind, name = (CLIENT, f"chat {step.name}") if step.kind == "model" else (INTERNAL, f"execute_tool {step.name}")
        status = {"code": FAILED, "message": step.detail} if step.is_error else {}
        ids = {"traceId": trace_id, "spanId": _digest(16, trace_id, str(step.n)), "parentSpanId": root, "status": status}
        spans.append(_span(name, kind, start, at, common | _facts(step, contents)) | ids)
    ids = {"traceId": trace_id, "spanId": root, "status": {}}
    whole = _span("invoke_agent ipy_websearch", INTERNAL, first, end, common | _question(answer, contents)) | ids
    number = version("ipy_websearch")
    scope = {"name": "ipy_websearch", "version": number, "attributes": _attributes({"semantic_conventions": CONVENTIONS})}
    resource = {"attributes": _attributes({"service.name": "ipy_websearch", "service.version": number})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": [whole, *spans]}]}]}


def _span(name: str, kind: int, start: datetime, end: datetime, facts: Mapping[str, Any]) -> dict[str, Any]:
    nanoseconds = (str(int(moment.timestamp() * 1_000_000) * 1_000) for moment in (start, end))
    times = zip(("startTimeUnixNano", "endTimeUnixNano"), nanoseconds, strict=True)
    return {"name": name, "kind": kind, **dict(times), "attributes": _attributes(facts)}


def _question(answer: Answer, contents: bool) -> dict[str, Any]:
    """Return what is to be said of the whole answer."""
    said = {"role": "assistant", "parts": _parts(answer.text), "finish_reason": answer.stop_reason or "error"}
    texts = {
        "gen_ai.input.messages": [{"role": "user", "parts": _parts(answer.question)}],
        "gen_ai.output.messages": [said],
    }
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "ipy_websearch",
        "gen_ai.request.model": answer.model,
        "gen_ai.usage.input_tokens": answer.usage.total_input_tokens,
        "gen_ai.usage.output_tokens": answer.usage.output_tokens,
        "ipy_websearch.searches": answer.searches,
        "ipy_websearch.sources": len({citation.n for citation in answer.citations}),
        "ipy_websearch.limit": answer.limit,
        "ipy_websearch.cost_usd": None if answer.cost_usd is None else float(answer.cost_usd),
    } | _as_json(texts, contents)


def _facts(step: Step, contents: bool) -> dict[str, Any]:
    """Return what is to be said of a model request or a tool call."""
    cost = {"ipy_websearch.cost_usd": None if step.cost_usd is None else float(step.cost_usd)}
    if step.kind == "tool":
        result = step.response if isinstance(step.response, Mapping) else {"content": step.response}
        texts = {"gen_ai.tool.call.arguments": step.request, "gen_ai.tool.call.result": result.get("content")}
        facts = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": step.name,
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": result.get("tool_use_id"),
            "error.type": (step.log.get("error_type") or "tool_error") if step.is_error else None,
        }
        return cost | facts | _as_json(texts, contents)
    request, usage = step.request if isinstance(step.request, Mapping) else {}, step.usage
    texts = {
        "gen_ai.system_instructions": _parts(request.get("system") or ()),
        "gen_ai.input.messages": [{"role": m["role"], "parts": _parts(m["content"])} for m in request.get("messages", ())],
        "gen_ai.output.messages": [{"role": "assistant", "parts": _parts(step.response or ()), "finish_reason": step.detail}],
    }
    facts = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": request.get("model", step.name),
        "gen_ai.request.max_tokens": request.get("max_tokens"),
        "gen_ai.response.model": step.name,
        "gen_ai.response.finish_reasons": None if step.is_error else [step.detail],
        "gen_ai.usage.input_tokens": usage.total_input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        "error.type": "broken_off" if step.is_error else None,
    }
    return cost | facts | _as_json(texts, contents)


def _parts(content: Any) -> list[Any]:
    """Return a message's blocks as parts: texts in the conventions' form, calls and results as the Messages API has them."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{"type": "text", "content": block["text"]} if block.get("type") == "text" else dict(block) for block in blocks]


def _as_json(texts: Mapping[str, Any], contents: bool) -> dict[str, str]:
    wanted = texts if contents else {}
    return {name: json.dumps(value, ensure_ascii=False, default=str) for name, value in wanted.items()}


_KINDS = {bool: "boolValue", int: "intValue", float: "doubleValue", str: "stringValue"}


def _attributes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in values.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {_KINDS[type(value)]: str(value) if type(value) is int else value}


def _digest(digits: int, *parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:digits]
