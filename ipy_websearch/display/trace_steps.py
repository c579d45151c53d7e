"""The steps of an answer as plain values for the trace widget and its page: when each began, its facts, its messages. Pure.

A message is cut into cards: who speaks, what kind of block it is, its text. What an earlier request had sent already is only
named. Texts are made harmless as characters (`visible`) and rid of keys here; as HTML they are the shower's business.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ipy_websearch.display import money
from ipy_websearch.display.trace_json import compact, requests_news, response_of
from ipy_websearch.results import Answer, Step
from ipy_websearch.text import plain, shorten, visible
from ipy_websearch.usage import Usage

WHOLE_CHARACTERS = 300_000
"""The most that all cards together hold: they are stored with the notebook."""

CARD_CHARACTERS = 8_000
LEAST_CHARACTERS = 200

Card = dict[str, Any]


def step_views(answer: Answer, redact: Callable[[str], str] = str) -> list[dict[str, Any]]:
    """Return each step as JSON: n, kind, name, detail, error, start, ms and until (milliseconds from the question on), tokens
    (pairs of name and count), cost, so_far (tokens and money up to its end), sent and got (cards)."""
    news = requests_news(answer.trace)
    cards = [
        (list(_sent(step, request)), list(_got(step, response_of(answer, step))))
        for step, request in zip(answer.trace, news, strict=True)
    ]
    count = sum(len(sent) + len(got) for sent, got in cards)
    most = max(LEAST_CHARACTERS, min(CARD_CHARACTERS, WHOLE_CHARACTERS // max(count, 1)))
    usage, cost, until = Usage(), Decimal(0), 0.0
    known: Decimal | None = cost
    views = []
    for step, start, (sent, got) in zip(answer.trace, starts(answer.trace), cards, strict=True):
        usage, until = usage + step.usage, max(until, start + step.milliseconds)
        known = None if known is None or step.cost_usd is None else known + step.cost_usd
        views.append(
            {
                "n": step.n,
                "kind": step.kind,
                "name": shorten(redact(plain(step.name)), 60),
                "detail": shorten(redact(plain(step.detail)), 300),
                "error": step.is_error,
                "start": round(start, 1),
                "ms": round(step.milliseconds, 1),
                "until": round(until, 1),
                "tokens": _tokens(step.usage) if step.kind == "model" else [],
                "cost": money.cost(step.cost_usd),
                "so_far": f"{usage.total_input_tokens:,} → {usage.output_tokens:,} tokens, {money.cost(known)}",
                "sent": [_cut(card, most, redact) for card in sent],
                "got": [_cut(card, most, redact) for card in got],
            }
        )
    return views


def starts(trace: Sequence[Step]) -> list[float]:
    """Return when each step began, in milliseconds: requests one after the other, the calls of a reply all at the same time."""
    found: list[float] = []
    calls_from = end = 0.0
    for step in trace:
        start = end if step.kind == "model" else calls_from
        found.append(start)
        end = max(end, start + step.milliseconds)
        if step.kind == "model":
            calls_from = end
    return found


def _tokens(usage: Usage) -> list[list[str]]:
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    counts = {
        "tokens in": usage.input_tokens,
        "read from the cache": usage.cache_read_tokens,
        "written to the cache": written,
        "tokens out": usage.output_tokens,
    }
    return [[name, f"{count:,}"] for name, count in counts.items() if count or name.startswith("tokens")]


def _sent(step: Step, request: Any) -> Iterator[Card]:
    if step.kind != "model" or not isinstance(request, Mapping):
        if request is not None:
            yield _card("input", "", _json(request))
        return
    settings = {name: value for name, value in request.items() if name not in ("system", "messages", "tools")}
    yield _card("settings", "", _json(settings), is_open=False)
    if system := request.get("system"):
        yield _card("system", "", "\n\n".join(_text(block) for block in _listed(system)), is_open=False)
    if tools := request.get("tools"):
        named = tools if isinstance(tools, str) else ", ".join(str(tool.get("name")) for tool in tools)
        yield _card("tools", named, named if isinstance(tools, str) else _json(tools), is_open=False)
    for message in request.get("messages") or ():
        if isinstance(message, Mapping):
            yield from _blocks(str(message.get("role")), message.get("content"))
        else:
            yield _card("earlier", "", str(message), is_open=False)


def _got(step: Step, response: Any) -> Iterator[Card]:
    if response is None:
        return
    if step.kind == "model":
        yield from _blocks("assistant", response)
    elif isinstance(response, Mapping) and response.get("type") == "tool_result":
        yield from _blocks("result", response.get("content"))
    else:
        yield _card("result", "", _json(response))


def _blocks(who: str, content: Any) -> Iterator[Card]:
    for block in _listed(content):
        kind = str(block.get("type", "")) if isinstance(block, Mapping) else ""
        if kind == "tool_result" and isinstance(block.get("content"), list | tuple):
            for inner in _listed(block["content"]):
                yield _card("result", str(inner.get("type", "")) if isinstance(inner, Mapping) else "", _text(inner))
            continue
        label = f"{kind} {block.get('name')}" if kind.endswith("tool_use") else kind
        yield _card(who, "" if kind == "text" else label, _text(block))


def _listed(content: Any) -> Sequence[Any]:
    return content if isinstance(content, list | tuple) else [content]


def _text(block: Any) -> str:
    """Return a block as text for people: its words, a result's with title and address, a call's input, others as JSON."""
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return _json(block)
    match block.get("type"):
        case "text":
            cited = {str(c.get("source") or c.get("url") or "") for c in block.get("citations") or () if isinstance(c, Mapping)}
            marks = "".join(f"\n  ↳ {url}" for url in sorted(filter(None, cited)))
            return f"{block.get('text', '')}{marks}"
        case "thinking":
            return str(block.get("thinking", ""))
        case "tool_use" | "server_tool_use":
            return _json(block.get("input"))
        case "search_result":
            words = "\n".join(_text(part) for part in _listed(block.get("content")))
            return f"{block.get('title', '')}\n{block.get('source', '')}\n\n{words}"
        case _:
            return _json(block)


def _json(value: Any) -> str:
    return json.dumps(compact(value), indent=2, ensure_ascii=False, default=str)


def _card(who: str, kind: str, text: str, *, is_open: bool = True) -> Card:
    return {"who": who, "kind": kind, "text": text, "open": is_open}


def _cut(card: Card, most: int, redact: Callable[[str], str]) -> Card:
    text = visible(redact(card["text"]))
    kind = shorten(redact(plain(card["kind"])), 120)
    return {**card, "who": plain(card["who"]), "kind": kind, "text": text[:most], "more": max(0, len(text) - most)}
