"""Reports: every figure of the ledger is the one worked out by hand, however it is grouped."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.client import Reply
from ipy_websearch.money.budget import Booking
from ipy_websearch.money.ledger import GROUPS, Kind, Ledger, LedgerRow, cost_frame, curve
from ipy_websearch.results import ModelResponded, Usage
from tests.fakes.money import total
from tests.fakes.replies import WIRE

RECORDED = WIRE / "anthropic"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

# US dollars for a million tokens, November 2026, from the provider's price page: input, output, cache read, cache write
# (five minutes). Sonnet 4.5 has a second list for requests above 200,000 tokens of input. A native search is a cent.
TABLE = {
    "claude-haiku-4-5-20251001": ("1", "5", "0.1", "1.25"),
    "claude-opus-4-1-20250805": ("15", "75", "1.5", "18.75"),
    "claude-sonnet-4-20250514": ("3", "15", "0.3", "3.75"),
    "claude-sonnet-4-5-20250929": ("3", "15", "0.3", "3.75"),
    "claude-sonnet-4-5-20250929 above 200,000": ("6", "22.5", "0.6", "7.5"),
    "claude-3-7-sonnet-20250219": ("3", "15", "0.3", "3.75"),
    "claude-opus-4-7": ("5", "25", "0.5", "6.25"),
    "claude-haiku-5-5": ("0.1", "0.5", "0.01", "0.125"),
    "claude-sonnet-5-5": ("2", "10", "0.1", "2.5"),
    "claude-sonnet-4-6": ("3", "15", "0.3", "3.75"),
}


def whole(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a message that came whole as stream events, without its content."""
    delta = {"stop_reason": message.get("stop_reason")}
    start = {"type": "message_start", "message": {**message, "content": []}}
    return [start, {"type": "message_delta", "delta": delta, "usage": message.get("usage")}, {"type": "message_stop"}]


def events(path: Path) -> list[dict[str, Any]]:
    """Return a recording as stream events, a whole message made into them."""
    raw = path.read_bytes()
    content = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    if ".sse" not in path.name:
        return whole(json.loads(content))
    return [json.loads(line[5:]) for line in content.splitlines() if line.startswith("data:")]


def messages() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the name and the events of every recorded message with usage."""
    for path in sorted(RECORDED.glob("*")):
        if path.name.endswith(".jsonl"):
            for line in path.read_text().splitlines():
                result = json.loads(line)["result"]
                yield f"{path.name} {json.loads(line)['custom_id']}", whole(result["message"])
        elif ".sse" in path.name or (".request." not in path.name and json.loads(path.read_text()).get("type") == "message"):
            yield path.name, events(path)


MESSAGES = dict(messages())


def by_hand(recorded: list[dict[str, Any]]) -> Decimal:
    """Return what a recording cost, from its own figures and the table above: the last word on each figure counts."""
    used: dict[str, Any] = {}
    model = ""
    for event in recorded:
        if event["type"] == "message_start":
            model, used = event["message"]["model"], dict(event["message"].get("usage") or {})
        elif event["type"] == "message_delta":
            used |= {name: value for name, value in (event.get("usage") or {}).items() if value is not None}
    counts = [used.get(name) or 0 for name in ("input_tokens", "output_tokens")]
    counts += [used.get(name) or 0 for name in ("cache_read_input_tokens", "cache_creation_input_tokens")]
    if model == "claude-sonnet-4-5-20250929" and counts[0] + counts[2] + counts[3] > 200_000:
        model += " above 200,000"
    tokens = sum(count * Decimal(price) for count, price in zip(counts, TABLE[model], strict=True)) / 1_000_000
    return tokens + Decimal("0.01") * ((used.get("server_tool_use") or {}).get("web_search_requests") or 0)


def replayed(recorded: list[dict[str, Any]]) -> ModelResponded:
    """Return what the loop would report of a recorded message."""
    reply = Reply()
    for event in recorded:
        if event["type"] != "error":
            reply.apply(event)
    reply.close()
    return ModelResponded(1, reply.model, reply.usage, reply.stop_reason, 0.1)


@pytest.mark.parametrize("name", MESSAGES)
def test_the_ledgers_figure_for_a_recording_is_the_one_worked_out_by_hand(name: str) -> None:
    """Every recorded reply, streamed, whole or out of a batch's results, to the last digit."""
    ledger = Ledger(None)
    booking = Booking(ledger, "s", "q", name)
    booking.take(replayed(MESSAGES[name]))
    assert total(ledger) == (by_hand(MESSAGES[name]), 0) and booking.cost_usd == by_hand(MESSAGES[name])


rows = st.builds(
    LedgerRow,
    time=st.integers(0, 10**6).map(lambda seconds: NOW - timedelta(seconds=seconds)),
    session=st.sampled_from("st"),
    question_id=st.sampled_from("abc"),
    question=st.sampled_from(["why?", "how?"]),
    kind=st.sampled_from(get_args(Kind)),
    name=st.sampled_from(["claude", "brave"]),
    usage=st.builds(Usage, *[st.integers(0, 10**6)] * 7),
    cost_usd=st.none() | st.decimals(0, 10, places=9),
    cached=st.booleans(),
    saved_usd=st.none() | st.decimals(0, 1, places=9),
)


@settings(max_examples=30)
@given(booked=st.lists(rows, max_size=12), seconds=st.integers(0, 10**6), session=st.none() | st.sampled_from("st"))
def test_every_report_is_the_exact_sum_of_its_rows(booked: list[LedgerRow], seconds: int, session: str | None) -> None:
    """For any rows, session and moment: sums, counts, savings and unknown prices, in every grouping and in the curve."""
    ledger, since = Ledger(None), NOW - timedelta(seconds=seconds)
    ledger.book(booked)
    mine = [row for row in booked if session in (None, row.session) and row.time >= since]
    known = [row.cost_usd for row in mine if row.cost_usd is not None]
    assert total(ledger, session=session, since=since) == (sum(known, Decimal(0)), len(mine) - len(known))
    for by in (None, *GROUPS):
        frame = cost_frame(ledger, session=session, since=since, by=by)
        summary = frame.summary
        assert (
            summary is not None and summary.total_usd == sum(known) and sum(summary.unpriced.values()) == len(mine) - len(known)
        )
        assert summary.saved_calls_usd + summary.saved_prompt_usd == sum(row.saved_usd or 0 for row in mine)
        assert frame.input_tokens.sum() == sum(row.usage.input_tokens for row in mine)
        assert frame.cached.sum() == sum(row.cached for row in mine)
        assert len(frame) == len(mine) if by is None else frame.calls.sum() == len(mine)
    steps = curve(ledger, session=session, since=since, by="model")
    assert sum(usd for _, _, usd in steps) == sum(known)


def test_unknown_prices_and_groups_are_named() -> None:
    """NaN and a count, never 0; providers and models stand for each other where there is no group."""
    ledger = Ledger(None)
    ledger.book([LedgerRow(NOW, "s", "q", "why?", "model", "claude-next"), LedgerRow(NOW, "s", "q", "why?", "search", "exa")])
    frame = cost_frame(ledger, by="provider")
    assert frame.usd.isna().all() and list(frame.unknown) == [1, 1] and set(frame.provider) == {"(models)", "exa"}
    assert frame.summary is not None and frame.summary.unpriced == {"claude-next": 1, "exa": 1}
    assert set(cost_frame(ledger, by="model").model) == {"claude-next", "(engines)"}
    with pytest.raises(ConfigError, match="did you mean 'model'"):
        cost_frame(ledger, by="models")
