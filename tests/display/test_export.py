"""Answers leave the notebook: as a file of Markdown, a notebook or a page, and into the next cell. All of it harmless."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.display.export import export
from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Answer, Citation
from tests.fakes.hostile import Seen, problems
from tests.slow.browser.payloads import payloads


def answer(text: str = "Two moons [1], says NASA [2]; array[1].", **more: Any) -> Answer:
    found = (Citation(1, "Mars", "https://en.wikipedia.org/wiki/Mars", "two moons"), Citation(2, "N", "corpus://planets/mars"))
    return Answer("How many moons has *Mars*?", text, "claude-sonnet-5-5", **({"citations": found} | more))


def test_a_session_is_written_as_markdown_with_footnotes(shell: Any, tmp_path: Path) -> None:
    """Question, answer and sources of every answer; footnotes of several answers do not meet. An answer becomes a cell, too."""
    for question in ("How many moons has Mars?", "How big is Jupiter?"):
        assert shell.run(f"a = %ask --provider local -m offline {question}").ok
    cells = list[str]()
    shell.ip.set_next_input = lambda text, replace=False: cells.append(text)
    assert shell.run("a.to_cell()").ok and cells[0].startswith("%%markdown\n## How big is Jupiter?")
    assert "2 answers written to report.md" in shell.run("%websearch export report.md").stdout
    written = (tmp_path / "report.md").read_text()
    assert "## How many moons has Mars?" in written and "## How big is Jupiter?" in written
    assert "**Sources**" in written and written.replace("&#58;", ":").count("corpus://planets/mars") == 1
    assert shell.run("%websearch export refs.json").ok and '"title": "Mars"' in (tmp_path / "refs.json").read_text()


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


def test_a_notebook_has_markdown_cells_and_is_valid(tmp_path: Path) -> None:
    """nbformat finds nothing wrong; each question is a heading, each answer a cell."""
    import nbformat

    export([answer()], tmp_path / "r.ipynb")
    notebook = nbformat.read(tmp_path / "r.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert [cell.cell_type for cell in notebook.cells] == ["markdown"] * 2
    assert notebook.cells[1].source.startswith("## How many moons has \\*Mars\\*?\n")


def test_every_payload_is_harmless_in_every_file(tmp_path: Path) -> None:
    """The hostile set of the browser tests, in question, text, title, address and quotation; a notebook has the same cells as
    a file of Markdown."""
    for hostile in payloads("http://evil.example").values():
        found = (Citation(1, hostile, hostile, hostile), Citation(2, hostile, "https://ok.example/?" + hostile, hostile))
        for name in ("r.md", "r.html"):
            export([Answer(hostile, f"{hostile} [1] [2]", hostile, found, notices=(hostile,))], tmp_path / name, force=True)
        head, _, body = (tmp_path / "r.html").read_text().partition("<body>")
        assert Seen(body).foreign == [] and "default-src 'none'" in head
        assert problems((tmp_path / "r.md").read_text()) == []


def test_an_export_replaces_no_file_unless_forced(shell: Any, tmp_path: Path) -> None:
    """One clear line, the file as it was; --force replaces it, wherever the option stands."""
    shell.run("a = %ask --provider local -m offline moons of Mars")
    (tmp_path / "r.html").write_text("mine")
    error = shell.run("%websearch export r.html").error
    assert isinstance(error, ConfigError) and "--force" in str(error) and (tmp_path / "r.html").read_text() == "mine"
    assert shell.run("%websearch export --force r.html").ok and "moons of Mars" in (tmp_path / "r.html").read_text()


def test_an_export_that_fails_midway_leaves_the_old_file_as_it_was(tmp_path: Path) -> None:
    """A limit on the size of files stands for a full disk."""
    resource = pytest.importorskip("resource")
    (tmp_path / "r.md").write_text("mine")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(ConfigError, match="cannot write .*r.md: File too large"):
            export([answer("word " * 50_000)], tmp_path / "r.md", force=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "r.md").read_text() == "mine" and not list(tmp_path.glob(".export*"))
