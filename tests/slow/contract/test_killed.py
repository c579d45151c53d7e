"""Contract: a killed process loses nothing that was booked, and what it spent still counts."""

from __future__ import annotations

from typing import Any

import ipy_websearch as web
from tests.contract.helpers import boss, keeps_searching, run, start
from tests.fakes.engines import Answer, hit
from tests.fakes.replies import delay, usage

ASKS = """
import ipy_websearch as web
web.ask("Who wrote Ruby?", provider="brave", max_searches=50, max_steps=60)
"""
ENRICHES = """
import pandas as pd, ipy_websearch as web
frame = pd.DataFrame({"company": [f"C{n:02}" for n in range(30)]})
web.enrich(frame, {"ceo": "Who is the CEO of {company}?"}, concurrency=4, max_searches=0, progress=False)
"""


def test_kill_9_during_an_enrichment_keeps_rows_and_their_cost(messages_api: Any) -> None:
    def behave(body: Any) -> list[Any]:
        return [boss(body), usage(input_tokens=1000, output_tokens=100), delay(60 if len(messages_api.requests) > 14 else 0)]

    messages_api.behave(behave)
    child = start(ENRICHES)
    messages_api.wait(lambda api: len(api.requests) >= 18 and api.active == 4, timeout_s=60)
    child.kill()
    child.communicate()
    asked = len(messages_api.requests)
    rows = web.cost(everything=True)
    messages_api.behave(lambda body: [boss(body), usage(input_tokens=1000, output_tokens=100)])
    done = run(ENRICHES)
    assert done.returncode == 0, done.stderr
    again = len(messages_api.requests) - asked
    assert again <= 30 - asked + 4, "at most the rows that were under way are asked again"
    assert (rows.usd > 0).sum() >= 30 - again, "each stored row is in the ledger"


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
