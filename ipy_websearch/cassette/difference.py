"""What a request that is on no tape asks for, which recorded one is the nearest, and how the two differ: one line. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from ipy_websearch.cassette.exchange import Exchange
from ipy_websearch.cassette.matching import comparable_of, leaves
from ipy_websearch.text import plain, shorten

SHOWN = 3
WIDTH = 60
_CLOSE_ENOUGH = 12  # so many of the likeliest are compared in full
_ABSENT = object()
_NAMES = {"model": "the model", "engine": "the engine", "page": "the address"}


def miss_text(kind: str, to: str, request: Any, exchanges: Sequence[Exchange], name: str) -> str:
    """Return the line that says that a request is not on the tape `name`, and what the nearest one asked."""
    head = f"{name} has no recording of this {_what(kind, to)} ({_gist(kind, to, request)})"
    nearest = _nearest(kind, to, request, exchanges)
    if nearest is None:
        return f"{head}, nor of any like it; ask as the recording did, or record it anew"
    found = _differences(kind, to, request, nearest)
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    where = f"the nearest is no. {nearest.n} (line {nearest.line})"
    differs = f", which differs in {'; '.join(found[:SHOWN])}{more}" if found else ""
    return f"{head}; {where}{differs}; ask as the recording did, or record it anew"


def _what(kind: str, to: str) -> str:
    return {"model": f"request to {to}", "engine": f"request to {to}"}.get(kind, "page")


def _gist(kind: str, to: str, request: Any) -> str:
    """Return what a request is about in a few words: the last thing said to a model, a query, an address."""
    if kind == "page":
        return shorten(plain(to), WIDTH)
    if kind == "model":
        return f"“{shorten(plain(_said(request)), WIDTH)}”"
    given = {str(name): value for name, value in request.get("params") or ()}
    given |= request.get("json") if isinstance(request.get("json"), Mapping) else {}
    words = next((str(given[name]) for name in ("q", "query", "search", "srsearch", "url") if given.get(name)), "")
    return f"“{shorten(plain(words), WIDTH)}”" if words else shorten(plain(str(request.get("url"))), WIDTH)


def _said(request: Any) -> str:
    """Return the newest words of the user in a request for a message."""
    for message in reversed(request.get("messages") or ()):
        content = message.get("content")
        if message.get("role") != "user":
            continue
        if isinstance(content, str):
            return content
        texts = [str(b.get("text")) for b in content or () if isinstance(b, Mapping) and b.get("type") == "text"]
        if texts:
            return " ".join(texts)
    return ""


def _nearest(kind: str, to: str, request: Any, exchanges: Sequence[Exchange]) -> Exchange | None:
    """Return the recorded request of the same kind that is most like this one."""
    own = _outline(kind, to, request)

    def roughly(exchange: Exchange) -> float:
        matcher = SequenceMatcher(None, own, _outline(kind, exchange.to, exchange.request), autojunk=False)
        return matcher.real_quick_ratio() and matcher.quick_ratio()

    alike = [exchange for exchange in exchanges if exchange.kind == kind]
    likeliest = sorted(alike, key=roughly, reverse=True)[:_CLOSE_ENOUGH]
    return min(likeliest, key=lambda e: (len(_differences(kind, to, request, e)), -roughly(e), e.n), default=None)


def _outline(kind: str, to: str, request: Any) -> str:
    length = len(request.get("messages") or ()) if kind == "model" else 0
    return f"{to} {length} {_gist(kind, to, request)}"


def _differences(kind: str, to: str, request: Any, recorded: Exchange) -> list[str]:
    """Return the places in which two requests differ, each with both values."""
    now, then = (dict(leaves(comparable_of(kind, asked))) for asked in (request, recorded.request))
    found = [_pair(_NAMES[kind], recorded.to, to)] if to != recorded.to else []
    for path in dict.fromkeys((*now, *then)):
        a, b = then.get(path, _ABSENT), now.get(path, _ABSENT)
        if a != b:
            found.append(_pair(path, a, b))
    return found


def _pair(path: str, recorded: Any, asked: Any) -> str:
    a, b = ("" if value is _ABSENT else str(value) for value in (recorded, asked))
    same = next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, same - WIDTH // 3) if max(len(a), len(b)) > WIDTH else 0
    cut = [("…" if start else "") + shorten(plain(text[start : start + 4 * WIDTH]), WIDTH) for text in (a, b)]
    shown = ["nothing" if text is _ABSENT else f"“{words}”" for text, words in zip((recorded, asked), cut, strict=True)]
    return f"{path} (recorded {shown[0]}, now {shown[1]})"
