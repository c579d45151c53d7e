"""Text is made harmless the same way, whichever short cut it takes."""

from __future__ import annotations

import html

from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch import text as text_module
from ipy_websearch.text import plain, visible

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
    """Every code point, alone and beside others."""
    for start in range(0, 0x110000, 0x100):
        for code in range(start, start + 0x100):
            text = f"a{chr(code)}b"
            if visible(text) != slowly_visible(text):
                raise AssertionError(f"U+{code:04X}")
