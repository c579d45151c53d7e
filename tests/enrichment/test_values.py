"""What goes into a row of an enrichment and what comes out of it: nothing is misread, overwritten, cut or lost in silence."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipy_websearch
from ipy_websearch import api
from ipy_websearch.enrichment import batch
from ipy_websearch.enrichment.columns import fields_in, fill, fit, normal, parse_columns
from ipy_websearch.errors import ConfigError, EnrichmentError
from tests.contract.helpers import CEO, companies, company_in, record
from tests.contract.helpers import ROW as QUIET
from tests.contract.helpers import boss as echo


def answers(fake: Any, kind: Any, written: Sequence[Any]) -> list[Any]:
    """Return what becomes of these values of a model in a column of a type, None where nothing does."""
    fake.behave(lambda body: record(value=written[int(company_in(body).removeprefix("C"))]))
    frame = companies(*(f"C{n}" for n in range(len(written))))
    out = ipy_websearch.enrich(frame, {"value": ("{company}?", kind)}, **QUIET)
    return [None if pd.api.types.is_scalar(value) and pd.isna(value) else value for value in out.value]


# --- what a model writes ------------------------------------------------------------------------------------------------

NUMBERS: list[tuple[Any, int | None, float | None]] = [
    ("1,500", 1500, 1500.0),
    ("1,234,567.5", None, 1234567.5),
    ("12,34,567", None, None),
    ("1.234.567", None, None),
    ("1.234,5", None, None),
    ("-5", -5, -5.0),
    (1.5e3, 1500, 1500.0),
    (2.5, None, 2.5),
    ("3,14", None, None),
    ("1,5", None, None),
    ("0,500", None, None),
    ("12,34,5", None, None),
    ("2.000", None, 2.0),
    ("about 5", None, None),
    ("5 km", None, None),
    ("9" * 5000, None, None),
    (10**400, None, None),
    (2**63, None, float(2**63)),
    (True, None, None),
    (7, 7, 7.0),
]


def test_a_number_is_read_in_one_way_or_not_at_all(messages_api: Any) -> None:
    """Thousands in groups of three are read, a decimal comma is not taken for them, and nothing is guessed."""
    written = [text for text, _, _ in NUMBERS]
    assert answers(messages_api, int, written) == [whole for _, whole, _ in NUMBERS]
    assert answers(messages_api, float, written) == [real for _, _, real in NUMBERS]


def test_a_date_is_read_in_one_way_or_not_at_all(messages_api: Any) -> None:
    """As it was asked for, with a time or without; not those that differ from continent to continent."""
    good, other = ["1998-03-04", "1998-03-04T23:00:00Z"], ["03/04/1998", "1998", "March 1998", "1998-03-04 or later", 1998]
    found = answers(messages_api, date, [*good, *other])
    assert found == [pd.Timestamp("1998-03-04")] * len(good) + [None] * len(other)


@pytest.mark.parametrize("kind", [str, int, float, bool, date, list[str], ["yes", "no"]])
def test_words_for_nothing_are_null_and_kept_as_such(messages_api: Any, kind: Any) -> None:
    """N/A and its like say that nothing was found, in a column of any type: missing, no fault, not asked again."""
    words = ["N/A", "not found", "Unknown.", "NULL", "-", " — ", "", "n.a."]
    for _ in range(2):
        assert answers(messages_api, kind, words) == [None] * len(words)
    assert len(messages_api.requests) == len(words)


def test_words_that_are_answers_stay(messages_api: Any) -> None:
    """Symbols and names that look like nothing, choices with such a word, and items that only contain one."""
    words = ["Na", "None", "Nan", "Unknown Pleasures", "0"]
    assert answers(messages_api, str, words) == words
    assert answers(messages_api, ["Known", "Unknown", "N/A"], ["unknown", "n/a", "not found"]) == ["Unknown", "N/A", None]
    assert answers(messages_api, list[str], [["a", "N/A", None, "", "the unknown"]]) == [["a", "the unknown"]]


MIXED = {"name": "{company}?", "size": ("{company}?", int), "born": ("{company}?", date), "head": "{company}?"}


@pytest.mark.parametrize("mode", ["now", "batch"])
def test_what_fits_no_type_or_is_absent_is_told_and_asked_again(
    messages_api: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The row says which values are left out and what the model wrote; the others are kept, a null among them too."""
    monkeypatch.setattr(batch, "FIRST_POLL_S", 0.01)
    monkeypatch.setattr(batch, "MAX_POLL_S", 0.01)
    messages_api.behave(lambda body: record(name="Jo", size="about <b>5</b>\x1b[31m", head=None))
    out = ipy_websearch.enrich(companies("A", "A", "B"), MIXED, mode=mode, **QUIET)
    assert list(out.name) == ["Jo"] * 3 and out["size"].isna().all() and out.born.isna().all()
    assert set(out.enrich_status) == {"ok"}
    left_out = "size is left out: “about 5” is no int; born is left out: the model's record lacks it"
    assert set(out.enrich_error) == {left_out}
    report = out.attrs["report"]
    assert [group["rows"] for group in report["notes"]] == [3, 3] and "3 x size is left out: “about 5”" in str(report)

    messages_api.behave(lambda body: record(size=5, born="2001-02-03"))
    out = ipy_websearch.enrich(companies("A", "A", "B"), MIXED, mode=mode, **QUIET)
    assert list(out["size"]) == [5] * 3 and out.enrich_error.isna().all() and not out.attrs["report"]["notes"]
    asked = messages_api.bodies[-1]["tools"][-1]["input_schema"]["properties"]
    assert list(asked) == ["size", "born"] and len(messages_api.requests) == 4


def test_a_row_whose_values_all_fit_nothing_has_failed(messages_api: Any) -> None:
    """With nothing to show for it, it is an error like others: in the report, and the end of a run that only has such."""
    messages_api.behave(lambda body: record(size="many" if company_in(body) == "A" else 3))
    size = {"size": ("{company}?", int)}
    out = ipy_websearch.enrich(companies("A", "B"), size, **QUIET)
    assert list(out.enrich_status) == ["error", "ok"] and "“many” is no int" in out.enrich_error[0]
    messages_api.behave(lambda body: record(size="many"))
    with pytest.raises(EnrichmentError, match="“many” is no int"):
        ipy_websearch.enrich(companies(*(f"C{n}" for n in range(100))), size, concurrency=1, **QUIET)
    assert len(messages_api.requests) < 30


def test_a_model_that_calls_no_tools_is_told_types_and_choices(messages_api: Any) -> None:
    """It sees no schema; what it writes as text is read or left out with a word, never turned into another value."""
    api.session().settings.retrieve_first = "always"
    kinds = {"staff": int, "share": float, "born": date, "listed": bool, "size": ["big", "small"], "moons": list[str]}
    written = {"staff": "1,234", "share": "12 %", "born": "March 4, 1998", "listed": "yes", "size": "Big", "moons": "one, two"}
    messages_api.reply(json.dumps(written))
    row = ipy_websearch.enrich(companies("A"), {n: ("{company}?", kind) for n, kind in kinds.items()}, **QUIET).iloc[0]
    asked = messages_api.bodies[0]["messages"][0]["content"][0]["text"]
    assert "born: A? (type: date)" in asked and "size: A? (type: one of ['big', 'small'])" in asked
    assert (row.staff, row.listed, row["size"]) == (1234, True, "big") and row[["share", "born", "moons"]].isna().all()
    assert all(f"{name} is left out" in row.enrich_error for name in ("share", "born", "moons"))


# --- the caller's own columns -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("own", ["n", "company", "ceo", "ceo_source", "ceo_quote", "ceo_confidence"])
def test_own_columns_are_never_overwritten(messages_api: Any, own: str) -> None:
    """A column that an enrichment would add, for its values or about them, is refused; nothing is sent."""
    frame = companies("A", "B").assign(**({own: "mine"} if own != "company" else {}))
    with pytest.raises(ConfigError, match=f"already has a column '{own}'.*rename or drop it"):
        ipy_websearch.enrich(frame, {own if "_" not in own else "ceo": "Who leads {company}?"}, **QUIET)
    assert not messages_api.requests


def test_a_frame_is_enriched_again_and_again(messages_api: Any, tmp_path: Path) -> None:
    """Whole, in parts, out of a file: each column stands once. What cannot be told from the caller's own stays."""
    messages_api.behave(echo)
    out = ipy_websearch.enrich(companies("A", "B").assign(n=[1, 2]), CEO, **QUIET)
    out.to_csv(tmp_path / "all.csv", index=False)
    for frame in (out, out.query("n == 1"), pd.read_csv(tmp_path / "all.csv")):
        again = ipy_websearch.enrich(frame, CEO, **QUIET)
        assert sorted(again.columns) == sorted(out.columns) and list(again.ceo) == list(out.ceo[: len(again)])
    with pytest.raises(ConfigError, match="'ceo'.* rename or drop it"):
        ipy_websearch.enrich(out.drop(columns="enrich_cost_usd"), CEO, **QUIET)
    assert len(messages_api.requests) == 2


# --- what goes in -------------------------------------------------------------------------------------------------------


def test_every_kind_of_nan_is_missing(messages_api: Any) -> None:
    """Whoever makes a column of objects may leave any of them in it."""
    kinds = [np.float32("nan"), Decimal("NaN"), np.datetime64("NaT", "s"), pd.NaT, pd.NA, None, complex("nan")]
    frame = companies(*kinds).astype(object)
    assert set(ipy_websearch.enrich(frame, CEO, **QUIET).enrich_status) == {"skipped"} and not messages_api.requests


@given(st.text(), st.text())
def test_templates_put_values_in_once(value: str, other: str) -> None:
    """Braces in a value are text, and escaped braces in the template are braces."""
    assert fill("{{x}} {a} and {b}", {"a": value, "b": other}) == f"{{x}} {value} and {other}"
    assert fields_in("it", "{{x}} {a} and {b c} {a}", ["a", "b c"]) == ("a", "b c")


@given(st.one_of(st.none(), st.text(), st.integers(), st.floats(), st.booleans(), st.datetimes(), st.dates()))
def test_any_cell_becomes_one_line_or_is_missing(value: Any) -> None:
    """The normal form has no line breaks and no blanks around it, and is its own normal form."""
    text = normal(value)
    assert text is None or (text == text.strip() != "" and "\n" not in text and normal(text) == text)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5))
def test_any_value_fits_or_is_missing(value: Any) -> None:
    """Whatever a model puts into a record, a column gets its type or nothing."""
    kinds = {"s": str, "i": int, "f": float, "b": bool, "d": "date", "l": list}
    for column in parse_columns({name: ("{x}?", kind) for name, kind in kinds.items()}, ["x"]):
        fitted = fit(column, value)
        assert fitted is None or isinstance(fitted, column.kind)
