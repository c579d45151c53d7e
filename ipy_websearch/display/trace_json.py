"""What the steps of a trace sent and got, as JSON for people: results found for tool calls, repetitions named. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from ipy_websearch.model.requests import without_marks
from ipy_websearch.results import Answer, Step

LONGEST = 20_000
"""Characters of one text; encrypted content and pictures in base64 say nothing beyond."""


def compact(value: Any) -> Any:
    """Return a value with mappings and sequences as plain JSON, texts over `LONGEST` characters cut with their length."""
    if isinstance(value, str):
        return value if len(value) <= LONGEST else f"{value[:LONGEST]}… ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {str(name): compact(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [compact(inner) for inner in value]
    return value


def requests_news(trace: Sequence[Step]) -> list[Any]:
    """Return the requests of all steps, in which what an earlier model request had sent already is only named."""
    found: list[Any] = []
    before: Step | None = None
    for step in trace:
        if step.kind == "model" and isinstance(step.request, Mapping):
            found.append(_news(step.request, before) if before else step.request)
            before = step
        else:
            found.append(step.request)
    return found


def _news(body: Mapping[str, Any], before: Step) -> dict[str, Any]:
    same = f"… as in step {before.n}"
    known = before.request
    news = {
        name: same if name in ("system", "tools") and without_marks(value) == without_marks(known.get(name)) else value
        for name, value in body.items()
    }
    messages, earlier = list(body.get("messages", ())), list(known.get("messages", ()))
    pairs = takewhile(lambda pair: without_marks(pair[0]) == without_marks(pair[1]), zip(messages, earlier, strict=False))
    count = sum(1 for _ in pairs)
    if count:
        news["messages"] = [f"… {count} message{'' if count == 1 else 's'} {same[2:]}", *messages[count:]]
    return news


def response_of(answer: Answer, step: Step) -> Any:
    """Return what a step got: a reply's blocks, or the result of a tool call as the model was given it (None: nothing)."""
    if step.response is not None or step.kind == "model":
        return step.response
    identity = _call_id(answer.trace, step)
    if identity is None:
        return None
    requests = [s.request.get("messages", ()) for s in answer.trace[step.n :] if s.kind == "model" and s.request]
    for block in _results(requests[0] if requests else answer.messages):
        if block.get("tool_use_id") == identity:
            return block
    return None


def _call_id(trace: Sequence[Step], step: Step) -> str | None:
    """Return the id of the call that a tool step ran; equal calls of one reply are told apart by their order."""
    asked = max((s.n for s in trace[: step.n] if s.kind == "model"), default=0)
    reply = trace[asked - 1].response if asked else ()
    calls = [
        b["id"] for b in reply or () if b.get("type") == "tool_use" and (b["name"], b["input"]) == (step.name, step.request)
    ]
    earlier = sum(1 for s in trace[asked : step.n - 1] if (s.name, s.request) == (step.name, step.request))
    return str(calls[earlier]) if earlier < len(calls) else None


def _results(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for message in messages:
        if isinstance(message["content"], list | tuple):
            yield from (block for block in message["content"] if block.get("type") == "tool_result")
