"""Contract: a killed process loses nothing that was booked, and what it spent still counts."""

from __future__ import annotations

from typing import Any

import ipy_websearch as web
from tests.contract.helpers import keeps_searching, start
from tests.fakes.engines import Answer, hit
from tests.fakes.replies import usage

ASKS = """
import ipy_websearch as web
web.ask("Who wrote Ruby?", provider="brave", max_searches=50, max_steps=60)
"""


def test_what_a_killed_process_spent_still_counts_against_the_day(messages_api: Any, brave_api: Any) -> None:
    messages_api.behave(lambda body: [*keeps_searching(body), usage(input_tokens=1000, output_tokens=100)])
    brave_api.behave(lambda values: slow_after(brave_api, 8))
    child = start(ASKS, IPY_WEBSEARCH_DAY_BUDGET_USD="0.3")
    brave_api.wait(lambda api: len(api.requests) == 9, timeout_s=60)
    child.kill()
    child.communicate()
    assert web.cost(everything=True).usd.sum() >= 8 * (0.005 + 0.003) - 1e-9


def slow_after(fake: Any, number: int) -> Any:
    """Answer so many searches at once and let the next one hang."""
    hits = [hit(f"https://a.example/{len(fake.requests)}", "A", "About A")]
    return Answer(hits, delay_s=60 if len(fake.requests) > number else 0)
