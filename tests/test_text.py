"""Text is made harmless the same way, whichever short cut it takes."""

from __future__ import annotations

import html
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch import text as text_module
from ipy_websearch.text import plain, sound, visible

PIECES = (
    "a word, another. <b> </b> <!-- --> < > & &amp; &lt;i&gt; &#8203; &#10; &nbsp; é “ 日本 ❤️ \u200b "
    "\u00ad \ufe00 \u3164 \u2028 \u00a0 \U000e0041 \u241b[31m \x1b[0m \x1b]8;;x\x07 \x9b1m \x07 \x00 \ud800 \r\n \r \n \t"
).split(" ") + [" ", "  "]
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20)


def slowly_visible(text: str) -> str:
    """Return `visible` of a text without short cuts."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    for pattern in (text_module._ANSI, text_module._INVISIBLE, text_module._CONTROL):
        text = pattern.sub("", text)
    return text


@given(text=texts)
def test_short_cuts_change_no_text(text: str) -> None:
    """Most text is clean, and is seen to be so at a glance; what is not goes through every pattern."""
    assert visible(text) == slowly_visible(text)
    without_tags = html.unescape(text_module._TAG.sub("", text))
    assert plain(text) == text_module._SPACE.sub(" ", slowly_visible(without_tags)).strip()


def test_no_character_is_lost_or_let_through_by_a_short_cut() -> None:
    """Every code point below U+3000, and every 97th of the others, beside other characters."""
    codes = [*range(0x3000), *range(0x3000, 0x110000, 97)]
    assert [f"U+{code:04X}" for code in codes if visible(text := f"a{chr(code)}b") != slowly_visible(text)] == []


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
    """Halves of characters and what is no number are the only things that change."""
    made = sound(value)
    text = json.dumps(made, ensure_ascii=False, allow_nan=False)
    assert text.encode() and sound(made) == made
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:
        assert made != value
    else:
        assert made == value


def test_two_halves_of_a_character_become_one() -> None:
    """They come apart where a server cuts its pieces by UTF-16."""
    assert sound({"a": ["\ud83d\ude00", "\ude00\ud83d", "\ufeff\ud83d"]}) == {"a": ["😀", "��", "\ufeff�"]}
