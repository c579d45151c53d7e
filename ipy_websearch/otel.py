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
from decimal import Decimal
from importlib.metadata import version
from typing import Any

from ipy_websearch.results import Answer, Step

CONVENTIONS = "open-telemetry/semantic-conventions-genai v0.1.0"
INTERNAL, CLIENT, FAILED = 1, 3, 2
# The conventions' names for platforms; others go by their own.
PROVIDERS = {"bedrock": "aws.bedrock", "vertex": "gcp.vertex_ai", "foundry": "azure.ai.inference"}
# Attributes with the words of people, models and pages, as JSON; they are left out unless asked for.
TEXTS = """gen_ai.system_instructions gen_ai.input.messages gen_ai.output.messages
           gen_ai.tool.call.arguments gen_ai.tool.call.result""".split()

_ENCODINGS: dict[type, tuple[str, Any]] = {
    int: ("intValue", str),
    Decimal: ("doubleValue", float),
    str: ("stringValue", str),
}
Facts = Mapping[str, Any]


def trace_of(answer: Answer, *, session: str, platform: str, contents: bool = False) -> dict[str, Any]:
    """Return the trace of an answer: one span for the question, below it one for each model request and tool call."""
    first = min((step.started for step in answer.trace if step.started is not None), default=datetime.now(UTC))
    spans: list[tuple[str, datetime, datetime, Facts, Facts]] = []  # name, start, end, facts, status
    for step in answer.trace:
        start = step.started or first
        facts = _request(step) if step.kind == "model" else _call(step)
        status = {"code": FAILED, "message": step.detail} if step.is_error else {}
        name = f"{facts['gen_ai.operation.name']} {step.name}"
        spans.append((name, start, start + timedelta(milliseconds=step.milliseconds), facts, status))
    end = max((span[2] for span in spans), default=first)
    spans.insert(0, ("invoke_agent ipy_websearch", first, end, _question(answer), {}))
    trace_id = _digest(32, session, first.isoformat(), answer.question)
    provider = "ipy_websearch" if answer.offline else PROVIDERS.get(platform, platform)
    common = {"gen_ai.provider.name": provider, "gen_ai.conversation.id": session}
    shown = [
        {
            "traceId": trace_id,
            "spanId": _digest(16, trace_id, str(n)),
            **({"parentSpanId": _digest(16, trace_id, "0")} if n else {}),
            "name": name,
            "kind": CLIENT if name.startswith("chat ") else INTERNAL,
            "startTimeUnixNano": _nanoseconds(start),
            "endTimeUnixNano": _nanoseconds(end),
            "attributes": _attributes({**common, **facts}, contents),
            "status": status,
        }
        for n, (name, start, end, facts, status) in enumerate(spans)
    ]
    us = {"name": "ipy_websearch", "version": version("ipy_websearch")}
    scope = {**us, "attributes": _attributes({"semantic_conventions": CONVENTIONS})}
    resource = {"attributes": _attributes({f"service.{name}": value for name, value in us.items()})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": shown}]}]}


def _question(answer: Answer) -> Facts:
    """Return what is to be said of the whole answer."""
    said = {"role": "assistant", "parts": _parts(answer.text), "finish_reason": answer.stop_reason or "error"}
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "ipy_websearch",
        "gen_ai.request.model": answer.model,
        "gen_ai.usage.input_tokens": answer.usage.total_input_tokens,
        "gen_ai.usage.output_tokens": answer.usage.output_tokens,
        "gen_ai.input.messages": [{"role": "user", "parts": _parts(answer.question)}],
        "gen_ai.output.messages": [said],
        "ipy_websearch.searches": answer.searches,
        "ipy_websearch.sources": len({citation.n for citation in answer.citations}),
        "ipy_websearch.limit": answer.limit,
        "ipy_websearch.cost_usd": answer.cost_usd,
    }


def _call(step: Step) -> Facts:
    """Return what is to be said of a tool call."""
    result = step.response if isinstance(step.response, Mapping) else {"content": step.response}
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": step.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": result.get("tool_use_id"),
        "gen_ai.tool.call.arguments": step.request,
        "gen_ai.tool.call.result": result.get("content"),
        "error.type": (step.log.get("error_type") or "tool_error") if step.is_error else None,
        "ipy_websearch.cost_usd": step.cost_usd,
    }


def _request(step: Step) -> Facts:
    """Return what is to be said of a model request."""
    request, usage = step.request if isinstance(step.request, Mapping) else {}, step.usage
    said = {"role": "assistant", "parts": _parts(step.response or ()), "finish_reason": step.detail}
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": request.get("model", step.name),
        "gen_ai.request.max_tokens": request.get("max_tokens"),
        "gen_ai.response.model": step.name,
        "gen_ai.response.finish_reasons": None if step.is_error else [step.detail],
        "gen_ai.usage.input_tokens": usage.total_input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        "gen_ai.system_instructions": _parts(request.get("system") or ()),
        "gen_ai.input.messages": [{"role": m["role"], "parts": _parts(m["content"])} for m in request.get("messages", ())],
        "gen_ai.output.messages": [said],
        "error.type": "broken_off" if step.is_error else None,
        "ipy_websearch.cost_usd": step.cost_usd,
    }


def _parts(content: Any) -> list[Any]:
    """Return a message's blocks as parts: texts in the conventions' form, calls and results as the Messages API has them."""
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [{"type": "text", "content": block["text"]} if block.get("type") == "text" else dict(block) for block in blocks]


def _attributes(facts: Facts, contents: bool = False) -> list[dict[str, Any]]:
    told = {key: value for key, value in facts.items() if value is not None and (contents or key not in TEXTS)}
    told |= {key: json.dumps(told[key], ensure_ascii=False, default=str) for key in told if key in TEXTS}
    return [{"key": key, "value": _value(value)} for key, value in told.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    name, encode = _ENCODINGS[type(value)]
    return {name: encode(value)}


def _nanoseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1_000_000) * 1_000)


def _digest(digits: int, *parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode("utf-8", "replace")).hexdigest()[:digits]
