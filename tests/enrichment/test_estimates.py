"""What an enrichment would cost, told before it is asked for."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from ipy_websearch.errors import EnrichmentError
from ipy_websearch.testing import FakeWeb

CEO = {"ceo": "Who is the CEO of {company}?"}


@pytest.mark.parametrize(
    ("companies", "text"),
    [
        ([f"C{n}" for n in range(2000)], r"looks like 2,000 rows ≈ 0\.\d+ USD, .*\(5 already in the store\)"),
        (["A", "A", None], r"looks like 3 rows ≈ 0 USD, 0\.0 s \(1 distinct, 1 already in the store\)"),
        ([], r"looks like 0 rows ≈ 0 USD, 0\.0 s"),
    ],
)
def test_an_estimate_says_what_the_whole_will_take(companies: list[Any], text: str) -> None:
    """Rows, dollars, time; what is left to ask counts, not what the sample has filled already."""
    frame = pd.DataFrame({"company": pd.Series(companies, dtype="object")})
    with FakeWeb() as web:
        web.behave(lambda request: web.record(ceo="Jo"))
        estimate = frame.web.estimate(CEO, max_searches=0)
        assert pd.Series([str(estimate)]).str.fullmatch(text)[0], str(estimate)


@pytest.mark.parametrize("sample", [1, 2])
def test_an_estimate_of_rows_that_all_fail_is_none(sample: int, capsys: pytest.CaptureFixture[str]) -> None:
    """What failed was not billed, so that the whole would look free; a sample says so under its report."""
    frame = pd.DataFrame({"company": [f"C{n}" for n in range(1_000)]})
    with FakeWeb() as web:
        web.behave(lambda request: "no record")
        with pytest.raises(EnrichmentError) as raised:
            frame.web.estimate(CEO, sample=sample)
        assert (
            "none of the rows tried" in str(raised.value)
            and "did not call record" in str(raised.value)
            and "\n" not in str(raised.value)
        )
        frame.web.enrich(CEO, sample=sample)
        said = capsys.readouterr().out
        assert "there is no estimate, since none" in said and "looks like" not in said


def test_an_estimate_under_a_budget_that_lets_no_row_be_tried_is_none() -> None:
    """The reason names the enrichment's budget, not a question's."""
    with FakeWeb() as web, pytest.raises(EnrichmentError) as raised:
        web.behave(lambda request: web.record(ceo="Jo"))
        pd.DataFrame({"company": ["A", "B"]}).web.estimate(CEO, budget_usd="0.000001")
    assert "none of the rows tried was filled: the enrichment's budget of 0.000001 USD has" in str(raised.value)
