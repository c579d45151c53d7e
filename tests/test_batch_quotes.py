"""Quotes in `mode="batch"`: the model says and cites each value before it records; a quote is words that were cited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.enrichment.columns import parse_columns
from ipy_websearch.enrichment.legacy.batches import courier
from ipy_websearch.enrichment.legacy.batches.cited import Cited
from tests.fakes.replies import server_search, text, web_citation
from tests.test_enrich import companies, record

URL, OTHER = "https://example.org/acme", "https://example.net/firms"
COLUMNS = {"ceo": "Who is the CEO of {company}?", "founded": ("When was {company} founded?", int)}
HITS = [(URL, "Acme"), (OTHER, "Firms")]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Batches of the fake need not be waited for."""
    for name in ("FIRST_POLL_S", "MAX_POLL_S", "FIND_AFTER_S"):
        monkeypatch.setattr(courier, name, 0.01)
    yield


def cites(words: str, url: str = URL) -> list[dict[str, Any]]:
    """Return the citation of some words."""
    return [web_citation(url, "Acme", words)]


def enriched(columns: Any = COLUMNS, **options: Any) -> pd.Series:
    """Return the row of Acme, asked for in a batch."""
    return ipy_websearch.enrich(companies("Acme"), columns, progress=False, mode="batch", **options).iloc[0]


@pytest.mark.parametrize("model", ["claude-haiku-5-5", "claude-sonnet-5-5"])
def test_each_value_gets_the_words_that_its_line_cites(messages_api: Any, model: str) -> None:
    """Search, a cited line for each question, the record: models that can be forced and others write before they record."""

    def answer(body: dict[str, Any]) -> Any:
        assert "tool_choice" not in body and "cites the result" in body["system"][0]["text"]
        assert body["tools"][0]["allowed_callers"] == ["direct"]
        return (
            server_search("Acme", HITS),
            text("ceo: "),
            text("Jo Doe leads Acme", citations=cites("Jo Doe has been the CEO of Acme since 2019.")),
            text(".\nfounded: "),
            text("Acme was founded in 1921", citations=cites("founded in Ohio in 1921", OTHER)),
            record(ceo={"value": "Jo Doe", "source": URL}, founded={"value": 1921, "source": OTHER + "/"}),
        )

    messages_api.behave(answer)
    row = enriched(model=model)
    assert (row.ceo_source, row.ceo_quote) == (URL, "Jo Doe has been the CEO of Acme since 2019.")
    assert (row.founded_source, row.founded_quote) == (OTHER, "founded in Ohio in 1921")
    assert len(messages_api.requests) == 1


def test_citations_before_a_reminder_count(messages_api: Any) -> None:
    """A model that only wrote is reminded in a second batch, forced if it can be; what it cited before is the quote."""
    line = text("ceo: Jo Doe leads Acme.", citations=cites("Jo Doe, CEO"))
    answers = iter([(server_search("Acme", HITS), line), record(ceo={"value": "Jo Doe", "source": URL})])
    messages_api.behave(lambda body: next(answers))
    assert enriched({"ceo": COLUMNS["ceo"]}).ceo_quote == "Jo Doe, CEO"
    assert messages_api.bodies[1]["tool_choice"] == {"type": "tool", "name": "record"}


def test_without_searches_nothing_is_cited_and_the_call_is_forced(messages_api: Any) -> None:
    """There is nothing to cite, so no words are spent on it."""
    messages_api.behave(lambda body: record(ceo="Jo"))
    enriched({"ceo": COLUMNS["ceo"]}, max_searches=0)
    body = messages_api.bodies[0]
    assert body["tool_choice"]["name"] == "record" and "cites" not in json.dumps(body["system"])


# --- what bears out what ------------------------------------------------------------------------------------------------


def supported(blocks: list[Any], source: str, quote: str = "", *, value: Any = "Jo Doe", key: str = "ceo") -> Any:
    """Return (source, quote) of a value of one of the columns, by these blocks (text, cited words, their address)."""
    columns = parse_columns({**COLUMNS, "since": ("Since when?{company}", date)}, ["company"])
    evidence = Cited(columns)
    for url in (URL, OTHER):
        evidence.add(url, [])
    written = [{"type": "text", "text": words, "citations": [web_citation(b[1], "t", b[0]) for b in c]} for words, *c in blocks]
    evidence.read(written)
    return evidence.support(next(c for c in columns if c.key == key), value, source, quote)


CEO_LINE = ("ceo: Jo Doe", ("Jo Doe is CEO of Acme", URL))
MADE_UP = "https://example.org/made-up"


@pytest.mark.parametrize(
    ("blocks", "claimed", "expected"),
    [
        ([CEO_LINE], (URL, "is CEO of Acme"), (URL, "is CEO of Acme")),  # words of the citation
        ([CEO_LINE], (URL, "Jo … of Acme"), (URL, "Jo … of Acme")),
        ([CEO_LINE], (URL, "rules Acme alone"), (URL, "Jo Doe is CEO of Acme")),  # words that were not cited
        ([CEO_LINE], (OTHER, "is CEO of Acme"), (OTHER, None)),  # cited, but from another source
        ([CEO_LINE], (MADE_UP, ""), (URL, "Jo Doe is CEO of Acme")),  # an address that was not found
        ([CEO_LINE], ("", "is CEO of Acme"), (URL, "is CEO of Acme")),
        ([("founded: 1921", ("since 1921", URL))], (URL, ""), (URL, None)),  # another column's line
        ([("founded: 1921", ("since 1921", URL))], ("", ""), (None, None)),
        ([("Jo Doe leads it.", ("CEO: Jo Doe", URL))], (URL, ""), (URL, "CEO: Jo Doe")),  # no line, but the value's words
        ([("It has a leader.", ("Ann Roe leads", URL))], (URL, ""), (URL, None)),
        ([("Jo Doe leads it.", ("CEO: Jo Doe", URL))], ("", ""), (None, None)),
        ([("**CEO**: ",), ("Jo Doe", ("Jo Doe, boss", URL))], (URL, ""), (URL, "Jo Doe, boss")),
        ([("1. `ceo`: Jo\nfounded: 1921", ("in 1921 Jo Doe", URL))], (URL, ""), (URL, "in 1921 Jo Doe")),
        ([CEO_LINE, ("\n\nAlso: ", ("Jo Doe too", URL))], (URL, ""), (URL, "Jo Doe is CEO of Acme")),
        ([("ceo: x", ("Acme is big", URL), ("CEO Jo Doe", URL))], (URL, ""), (URL, "CEO Jo Doe")),  # which has the value
        ([("ceo: x", ("a \x1b[31mred\u202e\n text", URL))], (URL, ""), (URL, "a red text")),
        ([("ceo: x", ("   ", URL))], (URL, ""), (URL, None)),
        ([("ceology: x", ("Ceology", URL))], (URL, ""), (URL, None)),
        ([], (URL, "anything"), (URL, None)),
    ],
)
def test_a_quote_is_words_that_were_cited_from_its_source(blocks: Any, claimed: Any, expected: Any) -> None:
    """What was claimed is kept as far as citations bear it out; else the column's own citation takes its place."""
    assert supported(blocks, *claimed) == expected


def test_a_recorded_answer_bears_out_what_it_cites() -> None:
    """Blocks as the API sends them, without lines of ours: the words with the value, from the source that was claimed."""
    path = Path(__file__).parent / "data/wire/anthropic/pai_web_search_json_turn1.json"
    blocks = json.loads(path.read_text(encoding="utf-8"))["content"]
    hottest, coldest = parse_columns({"hottest": ("{city}?", int), "coldest": ("{city}?", int)}, ["city"])
    evidence = Cited([hottest, coldest])
    evidence.read(blocks)
    forecast = "https://www.wunderground.com/weather/us/ca/san-francisco"
    source, quote = evidence.support(hottest, 78, forecast, "")
    assert source == forecast and "High · 78 °F" in quote
    assert evidence.support(hottest, 79, forecast, "") == (forecast, None)


def test_numbers_are_known_by_their_digits() -> None:
    """1921 stands in "1,921" and not in "19210", "31921" or "1921.5"."""
    lines = [("so", (words, URL)) for words in ("19210 or 31921 or 1921.5", "in all 1,921 of them")]
    assert supported(lines, URL, value=1921, key="founded") == (URL, "in all 1,921 of them")
