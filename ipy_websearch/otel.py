"""An answer's steps as OpenTelemetry spans, in the JSON form of OTLP; names, times, tokens and costs, and no texts.

Attribute names are those of OpenTelemetry's semantic conventions for generative AI, v0.1.0, the first release from their own
repository (github.com/open-telemetry/semantic-conventions-genai, read 2026-11; the Anthropic SDK 2.12 uses the same). They are
not stable yet. The encoding is opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding": ids in hexadecimal, 64-bit numbers
as texts, enums as numbers.
"""

from __future__ import annotations

import secrets
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

Facts = Mapping[str, Any]


def trace_of(answer: Answer, *, session: str, platform: str) -> dict[str, Any]:
    """Return the trace of an answer: one span for the question, below it one for each model request and tool call."""
    first = min((step.started for step in answer.trace if step.started is not None), default=datetime.now(UTC))
    trace_id, ids = secrets.token_hex(16), [secrets.token_hex(8) for _ in range(len(answer.trace) + 1)]
    provider = "ipy_websearch" if answer.offline else PROVIDERS.get(platform, platform)
    common = {"gen_ai.provider.name": provider, "gen_ai.conversation.id": session}

    def span(n: int, name: str, start: datetime, end: datetime, facts: Facts, error: str | None = None) -> dict[str, Any]:
        return {
            "traceId": trace_id,
            "spanId": ids[n],
            **({"parentSpanId": ids[0]} if n else {}),
            "name": f"{facts['gen_ai.operation.name']} {name}",
            "kind": CLIENT if facts["gen_ai.operation.name"] == "chat" else INTERNAL,
            "startTimeUnixNano": _nanoseconds(start),
            "endTimeUnixNano": _nanoseconds(end),
            "attributes": _attributes({**common, **facts}),
            "status": {} if error is None else {"code": FAILED, "message": error},
        }

    spans, end = [], first
    for n, step in enumerate(answer.trace, 1):
        start = step.started or first
        ended = start + timedelta(milliseconds=step.milliseconds)
        facts = _request(step) if step.kind == "model" else _call(step)
        spans.append(span(n, step.name, start, ended, facts, step.detail if step.is_error else None))
        end = max(end, ended)
    spans.insert(0, span(0, "ipy_websearch", first, end, _question(answer)))
    us = {"name": "ipy_websearch", "version": version("ipy_websearch")}
    scope = {**us, "attributes": _attributes({"semantic_conventions": CONVENTIONS})}
    resource = {"attributes": _attributes({f"service.{name}": value for name, value in us.items()})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}


def _question(answer: Answer) -> Facts:
    """Return what is to be said of the whole answer."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "ipy_websearch",
        "gen_ai.request.model": answer.model,
        "gen_ai.usage.input_tokens": answer.usage.total_input_tokens,
        "gen_ai.usage.output_tokens": answer.usage.output_tokens,
        "ipy_websearch.searches": answer.searches,
        "ipy_websearch.sources": len({citation.n for citation in answer.citations}),
        "ipy_websearch.limit": answer.limit,
        "ipy_websearch.cost_usd": answer.cost_usd,
    }


def _call(step: Step) -> Facts:
    """Return what is to be said of a tool call."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": step.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": step.response.get("tool_use_id") if isinstance(step.response, Mapping) else None,
        "error.type": (step.log.get("error_type") or "tool_error") if step.is_error else None,
        "ipy_websearch.cost_usd": step.cost_usd,
    }


def _request(step: Step) -> Facts:
    """Return what is to be said of a model request."""
    request, usage = step.request if isinstance(step.request, Mapping) else {}, step.usage
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
        "error.type": "broken_off" if step.is_error else None,
        "ipy_websearch.cost_usd": step.cost_usd,
    }


def _attributes(facts: Facts) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in facts.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    match value:
        case list():
            return {"arrayValue": {"values": [_value(item) for item in value]}}
        case int():
            return {"intValue": str(value)}
        case Decimal():
            return {"doubleValue": float(value)}
    return {"stringValue": value}


def _nanoseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1_000_000) * 1_000)
