"""Results, panels and answers as the user holds them, and text from the web made harmless."""

import json
import pickle
import unicodedata
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Answer, Citation, Panel, Panels, SearchResult, SearchResults
from ipy_websearch.text import plain, visible

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
    kept = [panels.add(f"search {n}", value) for n, value in enumerate(values)]
    assert list(panels) == ["P1", "P2", "P3", "P4"] and panels["P3"] is kept[2]
    assert kept[0].data == values[0] and kept[1].data == json.loads(BODY) and kept[2].content == "b: 1\na:\n- x\n"
    assert yaml.safe_load(kept[1].content) == json.loads(BODY) and "Result 39 ❤️" in kept[1].content
    assert "2026-10-02" in kept[3].content and pickle.loads(pickle.dumps(kept[1])) == kept[1]
    assert Panel("P9", "t", {"n": 1}).content == "n: 1\n"
    assert "half" in panels.add("half", b'{"half": "\\ud83d", "deep": ' + b"[" * 400 + b"]" * 400 + b"}").content


# --- text ---


PIECES = (
    "a word, another. <b> </b> <!-- --> < > & &amp; &lt;i&gt; &#8203; &#10; &nbsp; é “ 日本 ❤️ \u200b "
    "\u00ad \ufe00 \u3164 \u2028 \u00a0 \U000e0041 \u241b[31m \x1b[0m \x1b]8;;x\x07 \x9b1m \x07 \x00 \ud800 \r\n \r \n \t"
).split(" ") + [" ", "  "]
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20)


@given(text=texts)
def test_nothing_invisible_and_no_control_character_is_left(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown and not {unicodedata.category(c) for c in shown.replace("\u200d", "")} & {"Cs"}
    assert not set(shown) & set("\x00\x07\x1b\x9b\u200b\u00ad\u202e\u2066\ufeff\U000e0041\r")
    line = plain(text)
    assert "\n" not in line and line == line.strip() and "  " not in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I ❤️ 👩‍👧", "I ❤️ 👩‍👧"),
        ("می‌خواهم", "می‌خواهم"),
        ("क्‍ष", "क्‍ष"),
        ("pay‍pal u‌ser", "paypal user"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("\x1b[31mred\x1b[0m \x1b]8;;http://a\x07link\x1b]8;;\x07", "red link"),
        ("abc\u202egpj.exe", "abcgpj.exe"),
        ("❤\ufe0f\u200d🔥 a\ufe0f\u200d\ufe0f\u200c\ufe0fb", "❤\ufe0f\u200d🔥 a\ufe0f\ufe0f\ufe0fb"),
    ],
)
def test_joiners_stay_where_a_word_or_an_emoji_needs_them(text: str, shown: str) -> None:
    assert visible(text) == shown
