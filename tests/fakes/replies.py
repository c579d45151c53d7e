"""The parts that a scripted reply of the fake Messages API is put together from.

`api.reply(text("Let me look."), tool_use("web_search", {"query": "x"}))` queues one reply of two blocks; parts such as
`delay(0.2)` or `truncated()` say how it is sent. Parts that need the request (citations) are finished when it is there.
"""

import gzip
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from ipy_websearch import api
from ipy_websearch.money.ledger import NANO, cost_frame
from tests.fakes import sse

WIRE = Path(__file__).parent.parent / "data" / "wire"
_numbers = itertools.count(1)

Block = dict[str, Any]
JSON = dict[str, Any]

STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def new_id(prefix: str) -> str:
    """Return an id as the API makes them: toolu_01…, 24 characters after the prefix; never the same twice."""
    return f"{prefix}_01{next(_numbers):022d}"


@dataclass(slots=True)
class Content:
    """Blocks of the reply; `make` gets the request's JSON and returns them. `stop_reason` is what they imply."""

    make: Callable[[JSON], list[Block]]
    stop_reason: str | None = None


@dataclass(slots=True)
class Manner:
    """How a reply is sent: what is not None replaces the usual. A cut falls after so many pieces of the stream."""

    stop_reason: str | None = None
    usage: JSON | None = None
    delay_s: float | None = None
    piece_delay_s: float | None = None
    cut_after: int | None = None
    breaks: bool | None = None
    error: JSON | None = None
    hang_up: bool | None = None
    headers: dict[str, str] = field(default_factory=dict)
    extra: JSON = field(default_factory=dict)


@dataclass(slots=True)
class Failure:
    """An HTTP error instead of a message."""

    status: int
    body: JSON | str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Recording:
    """A recorded body: `message` for clients that do not stream, `stream` as it was recorded (None: made from it)."""

    message: JSON
    stream: str | None = None


Part = Content | Manner | Failure | Recording | str | dict


def text(content: str, *, citations: Sequence[tuple[int, int] | Mapping[str, Any]] = ()) -> Content:
    """A text block. Each citation is (search_result index, block index) into the request, or a finished citation.

    Indices count over all `search_result` blocks of the request, from 0; -1 is the last one. The whole block is cited.
    """

    def make(request: JSON) -> list[Block]:
        results = search_results(request)
        cited = [dict(one) if isinstance(one, Mapping) else search_result_location(results, *one) for one in citations]
        return [{"type": "text", "text": content, **({"citations": cited} if cited else {})}]

    return Content(make)


def tool_use(name: str, input: JSON | None = None, *, id: str | None = None) -> Content:
    """A call of a client tool; the reply's stop reason becomes tool_use."""

    call = {"type": "tool_use", "name": name, "input": input or {}, "caller": {"type": "direct"}}
    return Content(lambda _: [{**call, "id": id or new_id("toolu")}], "tool_use")


def thinking(content: str = "Let me think.", *, signature: str | None = None) -> Content:
    """A thinking block, with a signature that the fake will ask back."""
    return Content(
        lambda _: [{"type": "thinking", "thinking": content, "signature": signature or f"Eq{next(_numbers):010d}sig=="}]
    )


def server_search(query: str, results: Sequence[tuple[str, str]] = ()) -> Content:
    """A web search run by the API: `results` are (url, title)."""

    def make(_: JSON) -> list[Block]:
        call = {"type": "server_tool_use", "id": new_id("srvtoolu"), "name": "web_search", "input": {"query": query}}
        hits = [
            {
                "type": "web_search_result",
                "url": url,
                "title": title,
                "encrypted_content": f"EncC{next(_numbers):08d}",
                "page_age": None,
            }
            for url, title in results
        ]
        return [call, {"type": "web_search_tool_result", "tool_use_id": call["id"], "content": hits}]

    return Content(make)


def web_citation(url: str, title: str, cited_text: str) -> JSON:
    """A citation of a native web search's result, for `text(…, citations=[…])`."""
    return {
        "type": "web_search_result_location",
        "url": url,
        "title": title,
        "cited_text": cited_text[:150],
        "encrypted_index": f"EncI{next(_numbers):08d}",
    }


def stop(reason: str, **extra: Any) -> Manner:
    """Set the stop reason, known or not; further fields go into the message (`stop_details=…`, `stop_sequence=…`)."""
    return Manner(stop_reason=reason, extra=extra)


def refusal(category: str = "cyber", explanation: str = "This request was refused due to policy.") -> Manner:
    """A refusal with its details."""
    details = {"type": "refusal", "category": category, "explanation": explanation}
    return stop("refusal", stop_details=details)


def usage(**counts: Any) -> Manner:
    """Set usage figures, in place of those the fake counts."""
    return Manner(usage=counts)


def delay(seconds: float) -> Manner:
    """Wait before the answer begins."""
    return Manner(delay_s=seconds)


def slow(seconds: float) -> Manner:
    """Wait between the pieces of a stream."""
    return Manner(piece_delay_s=seconds)


def broken_stream(after: int = 1) -> Manner:
    """Cut the connection after so many pieces (deltas) of the stream."""
    return Manner(cut_after=after, breaks=True)


def truncated(after: int | None = None) -> Manner:
    """End the stream cleanly without `message_stop`: after so many pieces, by default after all."""
    return Manner(cut_after=1_000_000 if after is None else after)


def error_event(after: int = 1, kind: str = "overloaded_error", message: str = "Overloaded") -> Manner:
    """Send an error event inside the HTTP 200 stream, after so many pieces."""
    return Manner(cut_after=after, error={"type": kind, "message": message})


def hang_up() -> Manner:
    """Close the connection before any answer."""
    return Manner(hang_up=True)


def error(
    status: int = 529,
    kind: str | None = None,
    message: str | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    retry_after_ms: int | None = 1,
) -> Failure:
    """An HTTP error. `retry_after_ms` makes the SDK retry at once; None leaves the header out (the SDK waits 0.5 s)."""
    kind = kind or next((name for name, number in STATUS.items() if number == status), "api_error")
    body = {"type": "error", "error": {"type": kind, "message": message or kind.replace("_", " ").capitalize()}}
    sent = dict(headers or {})
    if retry_after_ms is not None and "retry-after" not in {name.lower() for name in sent}:
        sent["retry-after-ms"] = str(retry_after_ms)
    return Failure(status, body, sent)


def recorded(name: str, *, status: int | None = None) -> Any:
    """A recorded body out of tests/data/wire/anthropic: a message, a stream (packed or not), or an error body."""
    content = (WIRE / "anthropic" / name).read_bytes()
    if ".sse" in name:
        stream = (gzip.decompress(content) if name.endswith(".gz") else content).decode()
        return Recording(sse.assemble(sse.decode(stream)), stream)
    body = json.loads(content)
    return Failure(status or STATUS[body["error"]["type"]], body) if body.get("type") == "error" else Recording(body)


def search_results(request: JSON) -> list[Block]:
    """Return every `search_result` block of a request, in order, those inside tool results too."""
    found = []
    for message in request.get("messages", []):
        content = message["content"] if isinstance(message["content"], list) else []
        for item in content:
            inner = item.get("content") if item["type"] == "tool_result" else [item]
            found += [b for b in inner if b["type"] == "search_result"] if isinstance(inner, list) else []
    return found


def search_result_location(results: Sequence[Block], index: int, block: int) -> JSON:
    """Return the citation of a block of search result `index`."""
    result = results[index]
    return {
        "type": "search_result_location",
        "cited_text": "".join(part["text"] for part in result["content"][block : block + 1]),
        "source": result["source"],
        "title": result["title"],
        "search_result_index": index % len(results),
        "start_block_index": block,
        "end_block_index": block + 1,
    }


# --- What a session has spent, and what it holds for what is under way, as its ledger says; a clock for ledgers ------

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = NOW.timestamp()

    def __call__(self) -> float:
        return self.seconds


def total(ledger: Any, **scope: Any) -> tuple[Decimal, int]:
    """Return US dollars of the rows with a price, and the number of rows without one."""
    summary = cost_frame(ledger, **scope).summary
    assert summary is not None
    return summary.total_usd, sum(summary.unpriced.values())


def spent(session: Any = None) -> Decimal:
    """Return US dollars booked by a session (None: the shared one) or, during a replay, counted by its budgets."""
    session = session or api.session()
    return total(session.budget.ledger, session=session.id)[0]


def held(session: Any = None) -> Decimal:
    """Return US dollars reserved by everybody."""
    ledger = (session or api.session()).budget.ledger
    return ledger.read(lambda c: c.execute("SELECT coalesce(sum(usd), 0) FROM reservations").fetchone()[0]) / NANO


class Limited:
    """The shared session's budget: its limit, what was spent and what is reserved."""

    def __init__(self, usd: Decimal | float | str | None = None) -> None:
        if usd is not None:
            api.session().settings.session_budget_usd = float(usd)

    limit = property(lambda self: Decimal(str(api.session().settings.session_budget_usd)))
    spent = property(lambda self: spent())
    reserved = property(lambda self: held())
