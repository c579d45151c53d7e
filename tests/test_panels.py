"""`%panels`: the whole outputs of tool calls, listed and shown, page by page where they are long."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

from ipy_websearch.magics.panels import PAGE_CHARACTERS, PAGE_LINES, split_pages
from tests.fakes.engines import hit
from tests.fakes.replies import tool_use


@pytest.fixture
def panels(messages_api: Any, brave_api: Any, shell: Any) -> Any:
    """The shell, after an answer with two searches: P1 is short, P2 has several pages."""
    brave_api.reply([hit("https://a.example/", "Short <b>&", "one")])
    brave_api.reply([hit(f"https://b.example/{n}", f"Page {n}", f"text {n} …") for n in range(20)])
    messages_api.reply(
        tool_use("web_search_brave", {"query": "short $5 one"}), tool_use("web_search_brave", {"query": "long one"})
    )
    messages_api.reply("Done.")
    shell.run("%config WebSearch.count = 20")
    assert shell.run("a = %ask --tools web_search_brave what is long?").ok
    return shell


def test_without_an_answer_there_are_none(shell: Any) -> None:
    """The empty list says how panels come about."""
    assert shell.run("%panels").texts() == "No panels yet: each tool call of an answer makes one."


def test_panels_are_listed_with_their_size(panels: Any) -> None:
    """Id, tool, lines, characters and title of each, and how to see one; nothing but plain text is put out."""
    ran = panels.run("%panels")
    lines = ran.texts().splitlines()
    assert lines[0].split() == ["id", "tool", "lines", "characters", "title"]
    assert lines[1].startswith("P1  web_search_brave") and "short $5 one" in lines[1]
    assert lines[2].startswith("P2  web_search_brave") and lines[-1] == "%panels P2 shows one whole"
    assert f"{len(ran.value[1].content.splitlines()):,}" in lines[2] and f"{len(ran.value[1].content):,}" in lines[2]
    assert [panel.id for panel in ran.value] == ["P1", "P2"] and ran.html == ""


@pytest.mark.parametrize("typed", ["P1", "p1", "1"])
def test_a_short_panel_is_shown_whole(panels: Any, typed: str) -> None:
    """What comes back is the panel itself, the same as in the answer."""
    ran = panels.run(f"%panels {typed}")
    assert ran.value is panels.ns["a"].panels[0]
    assert "https://a.example/" in ran.texts() and "Short &lt;b&gt;&amp;" in ran.html


def test_a_long_panel_comes_in_pages(panels: Any) -> None:
    """The first page says how many there are and how to see the next; together they are all of it."""
    first, second = panels.run("%panels P2"), panels.run("%panels P2 --page 2")
    whole = panels.ns["a"].panels[1]
    assert len(first.value.content.splitlines()) == PAGE_LINES and first.value.whole is whole
    count = len(split_pages(whole.content))
    assert f"page 1 of {count}, %panels P2 --page 2 shows the next" in first.texts() and f"page 2 of {count}" in second.html
    pages = [panels.run(f"%panels P2 --page {n}").value.content for n in range(1, count + 1)]
    assert "\n".join(pages) == whole.content and "text 19 …" in pages[-1]


def test_a_long_panel_can_be_had_whole(panels: Any) -> None:
    """`--all` gives the panel with nothing cut, also into a variable."""
    assert panels.run("panel = %panels --all P2").ok
    assert panels.ns["panel"] is panels.ns["a"].panels[1]
    panels.run("%panels P2 -o kept;")
    assert panels.ns["kept"].whole is panels.ns["panel"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("P9", "there is no panel 'P9'; there are P1 to P2"),
        ("P2 --page 99", "P2 has [0-9] pages; there is no page 99"),
        ("P1 --page 0", "P1 has 1 page; there is no page 0"),
        ("--page 2", "need a panel"),
        ("P2 --all --page 2", "not both"),
        ("P2 --pgae 2", "did you mean '--page'"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(panels: Any, line: str, told: str) -> None:
    """One line, and the cell fails."""
    ran = panels.run(f"%panels {line}")
    assert isinstance(ran.error, UsageError) and re.search(told, str(ran.error))


def test_panels_stay_when_the_conversation_is_forgotten(panels: Any) -> None:
    """They belong to the session, and the numbers go on."""
    panels.run("%ask --reset")
    assert len(panels.run("%panels").value) == 2


@given(st.text(alphabet="ab\n", max_size=3_000))
def test_pages_put_together_are_the_text(text: str) -> None:
    """No page is longer than it may be, and nothing is lost between them."""
    pages = split_pages(text)
    assert "\n".join(pages) == text
    assert all(len(page.split("\n")) <= PAGE_LINES for page in pages)


def test_a_page_is_bounded_in_characters_too() -> None:
    """Long lines fill a page earlier; one that is longer than a page stands alone, uncut."""
    text = "\n".join(["x" * (PAGE_CHARACTERS // 3)] * 7 + ["y" * (2 * PAGE_CHARACTERS), "z"])
    pages = split_pages(text)
    assert "\n".join(pages) == text and [page.count("\n") + 1 for page in pages[:3]] == [2, 2, 2]
    assert any(set(page) == {"y"} for page in pages)
