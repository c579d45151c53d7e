"""Text from the web becomes harmless as characters, and what people write survives."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.text import fold, plain, shorten, sound, visible

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


def test_every_other_character_stays() -> None:
    """All code points that are neither controls, formats, surrogates nor fillers, alone and beside others."""
    lost = [
        code
        for code in range(0x20, 0x110000)
        if unicodedata.category(chr(code)) not in ("Cc", "Cf", "Cs", "Cn", "Co", "Mn", "Zl", "Zp")
        and not unicodedata.name(chr(code), "").endswith(("FILLER", "VOWEL INHERENT AQ", "VOWEL INHERENT AA"))
        and code != 0xFFFC  # stands for an object that a text cannot show
        and visible(f"a{chr(code)}b") != f"a{chr(code)}b"
    ]
    assert lost == []


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
    ],
)
def test_joiners_stay_where_a_word_or_an_emoji_needs_them(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_fields_become_one_line_of_plain_text() -> None:
    assert plain(" <b>Tom</b> &amp; Jerry&nbsp;<!-- x --> 3 &lt; 4 \n &lt;i&gt; ") == "Tom & Jerry 3 < 4 <i>"
    assert [plain(value) for value in (None, 3, ["a"])] == ["", "", ""]
    assert fold("Ｆｕｌｌ  Straße\u200d ") == "full strasse"
    assert (shorten("four little words", 12), shorten("unbreakable", 5)) == ("four little…"[:12], "unbr…")


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(st.characters(exclude_categories=()), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=()), max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(value=json_values)
def test_what_a_model_wrote_can_always_be_sent_back(value: Any) -> None:
    made = sound(value)
    text = json.dumps(made, ensure_ascii=False, allow_nan=False)
    assert text.encode() and sound(made) == made
    assert sound({"a": ["\ud83d\ude00", "\ude00\ud83d"]}) == {"a": ["😀", "��"]}
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        assert made != value
    else:
        assert made == value
