"""Requests as they are written: what an earlier request had said already is named, not said again. Pure.

Every request of a question repeats the instructions, the tools and all earlier messages. On the tape they stand once, so that
a reader sees what is new: `{"as_in": 3}` is the same part of request no. 3, `{"as_in": 3, "messages": 5}` its first five
messages. Cache breakpoints, which move from request to request, do not count as a difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ipy_websearch.cassette.exchange import Exchange
from ipy_websearch.model.requests import without_marks

AS_IN = "as_in"
_PARTS = ("system", "tools")
_REMEMBERED = 200  # requests of other conversations that may go on: an enrichment has hundreds under way


class Repeats:
    """Shortens requests on their way into the file, in the order in which they are written."""

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}
        self._conversations: dict[str, list[tuple[int, list[str]]]] = {}

    def shortened(self, exchange: Exchange) -> Any:
        """Return an exchange's request as it is written."""
        body = exchange.request
        if exchange.kind != "model" or not isinstance(body, Mapping):
            return body
        short = dict(body)
        for name in _PARTS:
            if name in body and (known := self._parts.setdefault(f"{name} {_text(body[name])}", exchange.n)) != exchange.n:
                short[name] = {AS_IN: known}
        if isinstance(messages := body.get("messages"), Sequence) and messages and not isinstance(messages, str):
            short["messages"] = self._new(exchange.n, messages)
        return short

    def _new(self, n: int, messages: Sequence[Any]) -> list[Any]:
        texts = [_text(message) for message in messages]
        earlier = self._conversations.setdefault(texts[0], [])
        known, count = max(((at, _common(texts, before)) for at, before in earlier), key=lambda pair: pair[1], default=(n, 0))
        earlier.append((n, texts))
        del earlier[:-4]
        if len(self._conversations) > _REMEMBERED:
            del self._conversations[next(iter(self._conversations))]
        return [{AS_IN: known, "messages": count}, *messages[count:]] if count else list(messages)


def restore(exchanges: Sequence[Exchange]) -> Exchange | None:
    """Put back what was left out of requests, in place; return an exchange that names a request which is not there."""
    by_number = {exchange.n: exchange.request for exchange in exchanges if exchange.kind == "model"}
    for exchange in exchanges:
        if exchange.kind == "model" and isinstance(exchange.request, dict):
            try:
                _put_back(exchange.request, by_number)
            except (LookupError, TypeError, RecursionError):
                return exchange
    return None


def _put_back(body: dict[str, Any], by_number: Mapping[int, Any]) -> None:
    for name in _PARTS:
        if isinstance(part := body.get(name), dict) and AS_IN in part:
            body[name] = _request(part, by_number)[name]
    messages = body.get("messages") or [None]
    first = messages[0]
    if isinstance(first, dict) and AS_IN in first:
        count = first["messages"]
        whole = _request(first, by_number)["messages"]
        if len(whole) < count:
            raise LookupError(count)
        body["messages"] = [*whole[:count], *messages[1:]]


def _request(part: Mapping[str, Any], by_number: Mapping[int, Any]) -> Any:
    """Return the request that is named, itself put back first."""
    body = by_number[part[AS_IN]]
    _put_back(body, by_number)
    return body


def _common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _text(value: Any) -> str:
    return json.dumps(without_marks(value), sort_keys=True, ensure_ascii=False, default=str)
