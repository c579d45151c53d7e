"""Results, panels and answers as the user holds them, and their DataFrames."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
import yaml

from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Answer, Citation, Panel, Panels, SearchResult, SearchResults, Step
from ipy_websearch.usage import Usage

DAY = datetime(2026, 10, 2, 8, tzinfo=UTC)
BODY = json.dumps({"web": {"results": [{"title": f"Result {n} ❤️", "url": f"https://a.example/{n}"} for n in range(40)]}})


def test_results_are_a_sequence_and_a_frame_with_utc_dates() -> None:
    hits = (
        SearchResult("A\x1b[31m", "https://a.example/", "of $5", DAY, ("more",), 0.5),
        SearchResult("B", "https://b.example/"),
    )
    results = SearchResults(hits, "q", "brave", body=b'{"a": [1]}')
    assert len(results) == 2 and results[0] is hits[0] and results[1:] == hits[1:] and results.raw == {"a": [1]}
    frame = results.to_frame()
    assert list(frame.columns) == ["title", "url", "description", "published_date", "extra_snippets", "score"]
    assert list(frame.title) == ["A", "B"] and frame.extra_snippets[0] == ("more",)
    assert frame.published_date[0] == DAY and str(frame.published_date.dt.tz) == "UTC" and frame.published_date.isna()[1]
    assert frame.score.isna()[1] and isinstance(frame, pd.DataFrame)
    assert frame.head(1).search is results and type(pickle.loads(pickle.dumps(frame))) is pd.DataFrame
    empty = SearchResults((), "q", "brave").to_frame()
    assert len(empty) == 0 and str(empty.published_date.dt.tz) == "UTC"


def test_a_frame_from_the_web_shows_no_formulas_and_other_frames_are_not_touched() -> None:
    frame = SearchResults((SearchResult("$5 or $6", "https://a.example/"),), "q", "brave").to_frame()
    assert all("mathjax_ignore" in part._repr_html_() for part in (frame, frame[["title"]], frame.groupby("url").first()))
    assert "mathjax_ignore" not in (pd.DataFrame({"x": ["$5 or $6"]})._repr_html_() or "")


def answer(**values: Any) -> Answer:
    return Answer("q", "Ruby [1][2].", "m", **values)


def test_sources_are_one_row_each_with_their_passages_joined() -> None:
    cited = (
        Citation(2, "B", "https://b.example/", "later"),
        Citation(1, "A", "https://a.example/", "one", DAY),
        Citation(1, "A", "https://a.example/", "two"),
        Citation(1, "A", "https://a.example/", "one"),
    )
    frame = answer(citations=cited).sources
    assert list(frame.columns) == ["n", "title", "url", "published_date", "read", "cited_text"]
    assert frame.values.tolist()[0][:3] == [1, "A", "https://a.example/"] and list(frame.cited_text) == ["one … two", "later"]
    assert frame.published_date[0] == DAY and len(answer().sources) == 0
    assert set(frame.read) == {"snippet"}


def test_steps_have_their_tokens_and_an_unknown_cost_is_missing() -> None:
    usage = Usage(10, 5, 100, 20, 30)
    frame = answer(
        trace=(Step(1, "model", "m", usage=usage, cost_usd=None), Step(2, "tool", "web_search", is_error=True))
    ).steps
    tokens = "input_tokens output_tokens cache_read_tokens cache_write_tokens"
    assert (
        list(frame.columns)
        == f"n kind name detail milliseconds {tokens} cost_usd is_error effort pages_read path bytes error_type".split()
    )
    assert (
        frame.iloc[0, 5:9].tolist() == [10, 5, 100, 50]
        and pd.isna(frame.cost_usd[0])
        and frame.is_error.tolist() == [False, True]
    )


def test_rows_have_nullable_types_and_prose_has_none() -> None:
    columns = {"name": str, "price": float, "n": int, "day": date, "ok": bool, "tags": list}
    rows = ({"name": "a\x07", "price": 1.5, "n": 2, "day": "2026-10-02", "ok": True, "tags": ["x"]}, {"name": None})
    frame = answer(rows=rows, columns=columns).to_frame()
    assert [str(kind) for kind in frame.dtypes] == ["string", "Float64", "Int64", "datetime64[s]", "boolean", "object"]
    assert frame.name[0] == "a" and frame.iloc[1, :5].isna().all()
    with pytest.raises(ConfigError, match="%%ask --table"):
        answer().to_frame()
    with pytest.raises(ConfigError, match="gave no rows"):
        answer(columns=columns).to_frame()


def test_panels_are_numbered_and_come_back_as_they_were() -> None:
    panels = Panels()
    values: list[Any] = ["# Page ❤️ \ud83d", BODY.encode(), {"b": 1, "a": ["x"]}, {"when": DAY, "price": Decimal("0.5")}]
    kept = [panels.add(f"search {n}", "yaml", value) for n, value in enumerate(values)]
    assert [panel.id for panel in panels] == ["P1", "P2", "P3", "P4"] and panels.get(" p3 ") is kept[2]
    assert kept[0].data == values[0] and kept[1].data == json.loads(BODY) and kept[2].content == "b: 1\na:\n- x\n"
    assert yaml.safe_load(kept[1].content) == json.loads(BODY) and "Result 39 ❤️" in kept[1].content
    assert "2026-10-02" in kept[3].content and pickle.loads(pickle.dumps(kept[1])) == kept[1]
    assert Panel("P9", "t", "yaml", {"n": 1}).content == "n: 1\n"
    assert "half" in panels.add("half", "yaml", b'{"half": "\\ud83d", "deep": ' + b"[" * 400 + b"]" * 400 + b"}").content


def test_the_panels_of_a_long_session_take_bounded_memory() -> None:
    """The oldest leave, and the numbers go on."""
    few = Panels(max_bytes=5_000)
    for n in range(100):
        few.add(f"search {n}", "yaml", BODY.encode() + b" " * n)
    assert few.get("P1") is None and few.get("P100") is not None and 1 <= len(few) < 50
