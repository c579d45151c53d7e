"""Hostile text: whatever goes into the renderer or a file, only our own tags and checked links come out."""

import json
import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ipy_websearch.display.export import export
from ipy_websearch.display.markdown import link_markdown, text_markdown, to_html, to_safe_markdown
from ipy_websearch.display.render import PLAIN, link
from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Answer, Citation
from ipy_websearch.text import plain, safe_href
from tests.fakes.raw_http import Seen, outputs, problems
from tests.slow.browser.payloads import payloads

PAYLOADS = payloads("http://evil.example")
SOURCES = {
    1: Citation(1, "One", "https://www.one.example/?a=1&b=2", "a <b> quote"),
    2: Citation(2, "Two", "javascript:alert(1)"),
}
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")
# fmt: off
PIECES = [
    "<script>alert(1)</script>", "<img src=x onerror=1>", "![a](http://e/x)", "![a][r]", "[r]: http://e/x", "[1]: http://e/x",
    "[a](javascript:1)", "[a](data:text/html)", "[a](<http://e/ b>)", "<http://a.b>", "<javascript:1>", "<a@b.c>",
    "<!-- ", "-->", "<![CDATA[", "<", ">", "&lt;", "&#60;", "&#10;", "&#x5d;", "`", "``", "```", "```math\n", "$`x`$", "$",
    "$x$", "\\(", "\\[", "\\begin{x}", "\\`", "\\<", "\\", "*", "**", "_", "~~", "~", "|", "| a |", "|---|---|",
    "\n", "\n\n", "\n- ", "\n1. ", "\n3) ", "\n> ", "\n# ", "\n---\n", "\n===\n", "    ", "\t",
    "[1]", "[2]", "[PDF]", "[^1]: x", "- [ ] ", "[", "]", "(", ")", "!", ":", "{=html}",
    "&#2;", "\x03", "http://e/a_b", "www.e.example", "a", "word", "x_y", "é", "\u202e", "\x1b[31m",
]
# fmt: on
hostile = st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=25).map("".join)


@given(hostile)
def test_html_holds_no_tag_attribute_or_address_from_the_content(text: str) -> None:
    assert Seen(to_html(text, SOURCES)).foreign == []


@given(hostile)
@example("http://e/`<img src=x>`")
@example("a&#10;&#10;[x]: javascript:1")
@example("[2](javascript:1)")
@example("$`x`$ and ``$``")
@example("\\![1]()")
@example("[![a](http://e/x)](http://ok.example)")
def test_safe_markdown_stays_safe_in_a_parser_that_allows_everything(text: str) -> None:
    assert problems(to_safe_markdown(text, SOURCES)) == []


@pytest.mark.parametrize("name", PAYLOADS)
def test_every_payload_is_harmless_in_every_place_of_every_output(name: str) -> None:
    for html, markdown, words in outputs(PAYLOADS[name]):
        assert Seen(html).foreign == []
        assert problems(markdown) == []
        assert PLAIN.markdown(words) == words.replace("\\[", "[").strip("\n") and not UNSEEN.search(words)


@pytest.mark.parametrize(
    "url",
    [
        *("javascript:1", "JavaScript:1", "java\tscript:1", "data:text/html,1", "vbscript:1", "ftp://a.example", "http:x"),
        *("file:///etc/passwd", "corpus://a/b", "//evil.example", "/path", "#x", "https:///x", "https://[x/"),
        *("https://user:word@evil.example/", "https://good.example\\@evil.example/"),
    ],
)
def test_an_address_that_is_not_plainly_http_https_or_mailto_is_no_link(url: str) -> None:
    assert safe_href(url) is None
    assert "<a" not in link(url, "x") + to_html(f"[x]({url}) [x](<{url}>)")
    assert link_markdown(url, "x") == "x"


def test_addresses_are_quoted_so_that_they_cannot_leave_their_attribute() -> None:
    addresses = {
        "https://a.example/x y?q=<b>\"'&z=1": "https://a.example/x%20y?q=%3Cb%3E%22'&z=1",
        "https://bücher.example/ü": "https://xn--bcher-kva.example/%C3%BC",
        "mailto:a@b.example": "mailto:a@b.example",
    }
    assert {address: safe_href(address) for address in addresses} == addresses
    assert 'href="https://a.example/?a=1&amp;b=&#39;"' in link("https://a.example/?a=1&b='", "<x>")
    assert link("https://a.example/", "<x>").endswith(">&lt;x&gt;</a>")


def test_marks_of_known_sources_become_chips_and_others_stay_text() -> None:
    html = to_html("a [1][2][3]\n\n[1]: https://evil.example", SOURCES)
    assert 'href="https://www.one.example/?a=1&amp;b=2" title="one.example — “a &lt;b&gt; quote”"' in html
    assert ">1 one</a>" in html and ">2 Two</sup>[3]</p>" in html and "evil" not in html


@pytest.mark.parametrize(
    "spoof", ["[[2]](https://evil.example)", "[[2]][x]\n\n[x]: https://evil.example", "[**2**](https://evil.example)"]
)
def test_a_link_that_looks_like_a_mark_is_text(spoof: str) -> None:
    made = to_html(f"[b [1]](https://ok.example) a {spoof}", SOURCES) + to_safe_markdown(f"a {spoof}", SOURCES)
    assert "evil" not in made and 'ok.example" target' in made and ">1 one<" not in made


STRUCTURE = (
    "# Title\n\nSome *emphasis*, **strong**, `code` and [a link](https://a.example/x).\n\n- one\n- two\n  1. inner\n\n"
    "```python\nprint(1)\n```\n\n> quoted\n\n| a | b |\n| --- | --: |\n| 1 | x\\|y |\n\n***\n\nend"
)


@pytest.mark.parametrize(
    ("text", "markdown"),
    [
        (STRUCTURE, STRUCTURE),
        ("```math\nx\n```", "```\nx\n```"),
        ("a [1][2][3]\n\n[1]: https://evil.example", "a [[1]](https://www.one.example/?a=1&amp;b=2)[2] [3]"),
        ("From $500 to $1,200, or **$7**.", "From `$500` to `$1,200`, or **`$7`**."),
        ("![an *alt* text](https://evil.example) ![](https://evil.example)", "an \\*alt\\* text image"),
    ],
)
def test_safe_markdown_keeps_the_structure_and_links_marks_and_makes_code_of_dollars(text: str, markdown: str) -> None:
    assert to_safe_markdown(text, SOURCES) == markdown


def test_plain_text_is_no_markup_and_each_paragraph_has_its_own_direction() -> None:
    assert text_markdown("a | $5 <b> [x](y)\n# z") == "a \\| `$5` &lt;b> &#91;x&#93;(y) # z"
    mixed = to_html("Mars:\n\nالقمر تابع للأرض\n\n| a |\n|---|\n| ירח |")
    assert mixed.count('<p dir="auto">') == 2 and "text-align:right" in mixed and "dir=" not in to_html("Mars")


PATTERNS = "> ,- ,> - ,*a **b ,a**b,*a_ ,~~a ,![,[a](,[a](<b,![[,` `` ,<a ,<!--,<http://,&#x41,\\(,$1 ,|,[a]: <,[1],www.,{"


@pytest.mark.parametrize("pattern", [*PATTERNS.split(","), "\x1b]8;;", "a  \n", "```\n", "***\n"])
def test_no_pattern_makes_rendering_slow(pattern: str) -> None:
    """Four times the text takes about four times the CPU time: nothing grows with the square of its length."""
    took = []
    for size in (5_000, 20_000):
        text, start = pattern * (size // len(pattern)), time.process_time()
        to_html(text, SOURCES), to_safe_markdown(text, SOURCES), plain(text)
        took.append(time.process_time() - start)
    assert took[1] < 1.0 or took[1] < 12 * took[0]


def test_a_text_that_would_grow_out_of_all_proportion_is_shown_as_it_is() -> None:
    for width, rows in ((500, 200), (90, 600)):
        bomb = "|a" * width + "|\n" + "|-" * width + "|\n" + "|a|\n" * rows
        assert len(to_html(bomb)) < 2 * len(bomb) + 400 and "|a|a" in to_html(bomb)
        assert len(to_safe_markdown(bomb)) < 2 * len(bomb)


# --- Answers leave the notebook: as a file of Markdown, a notebook or a page, and into the next cell. All


def answer(text: str = "Two moons [1], says NASA [2]; array[1].", **more: Any) -> Answer:
    found = (Citation(1, "Mars", "https://en.wikipedia.org/wiki/Mars", "two moons"), Citation(2, "N", "corpus://planets/mars"))
    return Answer("How many moons has *Mars*?", text, "claude-sonnet-5-5", **({"citations": found} | more))


def test_a_session_is_written_as_markdown_with_footnotes_and_as_a_valid_notebook(shell: Any, tmp_path: Path) -> None:
    """Question, answer and sources of every answer, as text and as cells; footnotes of several answers do not meet. An answer
    becomes a cell, too."""
    for question in ("How many moons has *Mars*?", "How big is Jupiter?"):
        assert shell.run(f"a = %ask --provider local -m offline {question}").ok
    cells = list[str]()
    shell.ip.set_next_input = lambda text, replace=False: cells.append(text)
    assert shell.run("a.to_cell()").ok and cells[0].startswith("%%markdown\n## How big is Jupiter?")
    assert "2 answers written to report.md" in shell.run("%websearch export report.md").stdout
    written = (tmp_path / "report.md").read_text()
    assert "## How many moons has \\*Mars\\*?" in written and "## How big is Jupiter?" in written
    assert "**Sources**" in written and written.replace("&#58;", ":").count("corpus://planets/mars") == 1
    assert shell.run("%websearch export refs.json").ok and '"title": "Mars"' in (tmp_path / "refs.json").read_text()
    assert shell.run("%websearch export report.ipynb").ok
    notebook = nbformat.read(tmp_path / "report.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown"] * 3
    assert notebook.cells[1].source.startswith("## How many moons has \\*Mars\\*?\n")


def test_sources_become_a_bibliography() -> None:
    found = (
        Citation(1, "50% of {x} & $5_a", "https://www.nytimes.com/a%20b#c", "q", datetime(2026, 2, 16, tzinfo=UTC)),
        Citation(1, "again", "https://www.nytimes.com/a%20b#c", "another quote"),
        Citation(2, "Mars", "corpus://planets/mars"),
    )
    made = answer(citations=found)
    bibtex, ris = made.bibliography(), made.bibliography("ris").split("\r\n")
    assert bibtex.startswith("@online{nytimes2026-1,\n  title = {{50\\% of \\{x\\} \\& \\$5\\_a}},")
    for part in ("date = {2026-02-16}", f"urldate = {{{datetime.now(UTC).date()}}}", "url = {https://www.nytimes.com/a\\%20b"):
        assert part in bibtex and bibtex.count("@online") == 2
    assert ris[0] == "TY  - ELEC" and "DA  - 2026/02/16" in ris and ris.count("ER  - ") == 2
    first, _ = json.loads(made.bibliography("csl"))
    assert first["issued"] == {"date-parts": [[2026, 2, 16]]} and first["URL"] == "https://www.nytimes.com/a%20b#c"
    with pytest.raises(ConfigError, match="bibtex, ris, csl"):
        made.bibliography("apa")


def test_every_payload_is_harmless_in_every_file(tmp_path: Path) -> None:
    """The hostile set of the browser tests, in question, text, title, address and quotation; a notebook has the same cells as
    a file of Markdown."""
    for hostile in PAYLOADS.values():
        found = (Citation(1, hostile, hostile, hostile), Citation(2, hostile, "https://ok.example/?" + hostile, hostile))
        for name in ("r.md", "r.html"):
            export([Answer(hostile, f"{hostile} [1] [2]", hostile, found, notices=(hostile,))], tmp_path / name, force=True)
        head, _, body = (tmp_path / "r.html").read_text().partition("<body>")
        assert Seen(body).foreign == [] and "default-src 'none'" in head
        assert problems((tmp_path / "r.md").read_text()) == []


def test_an_export_replaces_no_file_unless_forced_and_one_that_fails_midway_leaves_it_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "r.md"
    path.write_text("mine")
    with pytest.raises(ConfigError, match="exists; --force replaces it"):
        export([answer()], path)
    full = mock.patch.object(Path, "write_text", side_effect=OSError(27, "File too large"))
    with full, pytest.raises(ConfigError, match="cannot write .*r.md: File too large"):
        export([answer()], path, force=True)
    assert path.read_text() == "mine" and not list(tmp_path.glob(".export*"))
    export([answer()], path, force=True)
    assert "Two moons" in path.read_text()
