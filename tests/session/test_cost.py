"""What was spent and done: `%cost`, reports that add up, estimates, and prices with their age."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from ipy_websearch import api
from ipy_websearch.money.ledger import LedgerRow
from ipy_websearch.options import checked
from tests.fakes.money import held
from tests.fakes.replies import tool_use, usage

# --- %cost --------------------------------------------------------------------------------------------------------------


def answered(messages_api: Any, shell: Any) -> None:
    """Ask a question that searches once, whose second request reads 20,000 tokens from the prompt cache."""
    messages_api.replies(tool_use("web_search", {"query": "mars moons"}), ["Two.", usage(cache_read_input_tokens=20_000)])
    assert shell.run("a = %ask --provider brave how many moons?").ok


def test_reports_reach_back_over_sessions(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """--all is every session; --since a span or date, over all sessions when it is before this one began."""
    answered(messages_api, shell)
    now = datetime.now(UTC)
    for days, usd in ((3, "0.5"), (40, "4")):
        row = LedgerRow(now - timedelta(days=days), "old", "q", "why?", "search", "exa", cost_usd=Decimal(usd))
        api.session().ledger.book([row])
    own = shell.run("%cost").value.usd.sum()

    def total(line: str) -> Any:
        return pytest.approx(shell.run(line).value.usd.sum())

    assert own + 4.5 == total("%cost --all") and own + 0.5 == total("%cost --since 7d")
    assert own + 4.5 == total(f"%cost --since {(now - timedelta(days=41)):%Y-%m-%d}")
    assert own == total("%cost --all --since 30m --by question")
    assert "all sessions since" in shell.run("%cost --since 7d").texts()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", timedelta(days=7)),
        ("24h", timedelta(days=1)),
        ("1.5H", timedelta(minutes=90)),
        ("30m", timedelta(minutes=30)),
        ("2w", timedelta(days=14)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01 14:30", datetime(2026, 11, 1, 14, 30, tzinfo=UTC)),
        ("2026-11-01T14:30+01:00", datetime(2026, 11, 1, 13, 30, tzinfo=UTC)),
    ],
)
def test_moments_can_be_spans_or_dates(text: str, expected: Any) -> None:
    """Dates and times without a zone are UTC."""
    found, now = checked("since", text), datetime.now(UTC)
    assert found == expected if isinstance(expected, datetime) else abs(now - expected - found) < timedelta(minutes=1)


# --- the picture --------------------------------------------------------------------------------------------------------


def test_a_plot_is_a_picture_in_the_notebook_or_names_the_extra(
    messages_api: Any, brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PNG with a description in words; matplotlib's own backend and state are left alone."""
    pytest.importorskip("matplotlib")
    answered(messages_api, shell)
    (shown,) = (output.data for output in shell.run("%cost --plot --by kind").outputs if "image/png" in output.data)
    assert len(shown["image/png"]) > 5_000 and shown["text/plain"] == "Costs by kind, this session."
    assert "matplotlib.pyplot" not in sys.modules
    for module in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, module, None)
    assert "ipy_websearch[plot]" in str(shell.run("%cost --plot --by kind").error)


# --- estimates ----------------------------------------------------------------------------------------------------------


def test_an_estimate_sends_nothing_and_is_near_the_truth(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """Tokens, searches, expected and worst cost; the real first request is within a quarter of it, the real cost below."""
    ran = shell.run("e = %ask --estimate --provider brave how many moons has Mars?")
    assert ran.ok and messages_api.requests == [] and brave_api.requests == []
    estimate = shell.ns["e"]
    text = repr(estimate)
    assert "first request" in text and "5 searches" in text and "Nothing was sent." in text
    answered(messages_api, shell)
    used = messages_api.usages[0]
    sent = used["input_tokens"] + used["cache_creation_input_tokens"] + used["cache_read_input_tokens"]
    # The fake adds no prompt of its own for tools, as the API does (about 350 tokens).
    assert 0.75 * sent <= estimate.input_tokens - 350 <= 1.25 * sent and sent <= estimate.most_input_tokens
    assert 0 < shell.ns["a"].cost_usd < estimate.worst_usd and 0 < estimate.expected_usd < estimate.worst_usd
    assert shell.run("%cost --rows --all").value.kind.tolist().count("model") == 2


def test_an_estimate_knows_ceilings_and_unknown_prices(messages_api: Any, session: Any) -> None:
    """The worst case is not above the ceiling; too small a one is said to be refused; an unknown price is unknown."""
    capped = session.estimate("how many?", budget_usd="0.05")
    assert capped.worst_usd == Decimal("0.05") == capped.ceiling_usd and capped.refusal == ""
    poor = session.estimate("how many?", budget_usd="0.0001")
    assert "raise it to at least" in poor.refusal and poor.refusal in repr(poor)
    unknown = session.estimate("how many?", model="claude-from-the-future")
    assert unknown.worst_usd is None and unknown.expected_usd is None and "unknown" in repr(unknown)
    assert held(session) == 0
    assert messages_api.requests == []
