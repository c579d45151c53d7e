"""The local search engine: what it finds, how it reads folders, and what it does with a damaged file."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.providers.base import Provider, ProviderContext, SearchRequest
from ipy_websearch.providers.local import LocalProvider
from ipy_websearch.providers.local_index import LocalIndex
from ipy_websearch.results import SearchResults


def provider_in(folder: Path) -> LocalProvider:
    """Return the engine with its data in `folder`; it uses neither HTTP nor keys."""
    return LocalProvider(cast(ProviderContext, SimpleNamespace(data_dir=folder)))


def ask(provider: LocalProvider, query: str, **options: Any) -> SearchResults:
    """Return the engine's answer to one query."""
    return asyncio.run(provider.search(SearchRequest(query, **options)))


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> LocalProvider:
    """An engine over the embedded corpus."""
    return provider_in(tmp_path_factory.mktemp("home"))


@pytest.fixture
def index(tmp_path: Path) -> LocalIndex:
    """An empty index: a corpus folder without articles."""
    (tmp_path / "no-corpus").mkdir()
    return LocalIndex(tmp_path / "home" / "index.sqlite", corpus=tmp_path / "no-corpus")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder with one file of each kind that is read."""
    folder = tmp_path / "My Notes"
    folder.mkdir()
    (folder / "plan.md").write_text("---\ntitle: The plan\ndate: 2024-05-06\n---\n\nWe shall brew zweigelt wine.\n")
    (folder / "shopping.txt").write_text("quince, medlar and sorb apples")
    (folder / "page.html").write_text(
        "<html><head><title>A page</title><script>var secretword = 1</script><style>.stylename{}</style></head><body>"
        "<h2>Lichens</h2><p>Xanthoria grows <b>on</b>\nroofs.</p><ul><li>item one</li></ul>"
        "<pre>for x in y:\n    go()</pre></body></html>"
    )
    cells = [
        {"cell_type": "markdown", "source": ["# Tide tables\n", "Spring tides in Brest."]},
        {"cell_type": "code", "source": "# not a title\nneapheight = 3", "outputs": [{"text": "outputword"}]},
    ]
    (folder / "tides.ipynb").write_text(json.dumps({"cells": cells, "nbformat": 4}))
    return folder


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("How many moons does Mars have?", "Mars"),
        ("moons of Mars", "Mars"),
        ("what is the capital of France", "France"),
        ("Who created Python?", "Python"),
        ("who created JavaScript and when", "JavaScript"),
        ("atomic number of iron", "Iron"),
        ("who discovered phosphorus", "Phosphorus"),
        ("Which planet has the most moons?", "Saturn"),
        ("largest planet", "Jupiter"),
        ("C++", "C++"),
        ("R language", "R"),
        ("C language", "C"),
        ("Brasilia", "Brazil"),
        ("phosph", "Phosphorus"),
        ("melting point of mercury", "Mercury (element)"),
    ],
)
def test_a_question_finds_its_subject_first(provider: LocalProvider, query: str, title: str) -> None:
    """Function words, plurals, accents and the letters and signs of language names do not hide the right article."""
    assert ask(provider, query)[0].title == title


def test_the_description_holds_the_answer(provider: LocalProvider) -> None:
    """The passage shown is the one that fits the question, cut at a word; further paragraphs come in full."""
    hit = ask(provider, "who discovered phosphorus")[0]
    assert "Brand" in hit.description and len(hit.description) <= 300
    assert 1 <= len(hit.extra_snippets) <= 4 and hit.description not in hit.extra_snippets
    assert hit.url == "corpus://elements/phosphorus"
    assert hit.published_date is not None and hit.published_date.tzinfo is UTC


def test_an_answer_is_free_and_says_who_gave_it(provider: LocalProvider) -> None:
    """Provider, cost and scores are set; scores fall from hit to hit."""
    results = ask(provider, "moons", count=7)
    assert isinstance(provider, Provider)
    assert (results.provider, results.cost_usd, len(results)) == ("local", Decimal(0), 7)
    assert [charge.usd for charge in results.charges] == [Decimal(0)]
    scores = [cast(float, hit.score) for hit in results]
    assert scores == sorted(scores, reverse=True) and scores[0] > 0


def test_a_question_about_something_else_finds_nothing(provider: LocalProvider) -> None:
    """A document that shares one word of many with the question is not an answer to it."""
    assert len(ask(provider, "Which laptop under $500 has the best keyboard in 2026?")) == 0
    assert len(ask(provider, "zxqv blorp")) == 0


def test_domain_filters_match_the_part_after_corpus(provider: LocalProvider) -> None:
    """`planets` lets in corpus://planets/… only; blocking it leaves the rest."""
    allowed = ask(provider, "mercury", allowed_domains=("planets",))
    assert allowed and all(hit.url.startswith("corpus://planets/") for hit in allowed)
    blocked = ask(provider, "mercury", blocked_domains=("planets",))
    assert blocked and not any(hit.url.startswith("corpus://planets/") for hit in blocked)
    assert len(ask(provider, "mercury", allowed_domains=("example.com",))) == 0


def test_freshness_is_a_filter_on_the_date(index: LocalIndex, tmp_path: Path) -> None:
    """The past week lets in what is younger, a range what lies in it, and neither what has no date."""
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    days = {"new": datetime.now(UTC) - timedelta(days=3), "old": datetime(2020, 2, 29, tzinfo=UTC)}
    articles = [f"# {name}\nid: corpus://t/{name}\ndate: {day:%Y-%m-%d}\n\ngalena\n" for name, day in days.items()]
    (corpus / "a.md").write_text("\n".join([*articles, "# undated\nid: corpus://t/undated\n\ngalena\n"]))
    engine = provider_in(tmp_path / "other")
    engine.index = LocalIndex(tmp_path / "other.sqlite", corpus=corpus)
    assert {hit.title for hit in ask(engine, "galena")} == {"new", "old", "undated"}
    assert [hit.title for hit in ask(engine, "galena", freshness="pw")] == ["new"]
    assert [hit.title for hit in ask(engine, "galena", freshness="2020-02-29to2020-02-29")] == ["old"]
    assert len(ask(engine, "galena", freshness="pd")) == 0


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(min_size=2) | st.lists(st.sampled_from("\"*^:(){}+-#'\0 NEAR AND OR NOT c++ a"), min_size=2).map("".join))
def test_no_text_is_a_syntax_error(provider: LocalProvider, query: str) -> None:
    """Whatever a query holds (quotes, operators, NEAR, lone surrogates), it is searched for and never obeyed."""
    assert len(provider.index.search(query, count=3)) <= 3


def test_operators_are_only_words(provider: LocalProvider) -> None:
    """A column filter or NEAR in a query is text like any other."""
    assert ask(provider, 'title:"iron" NEAR(atomic* number)')[0].title == "Iron"


def test_the_first_search_is_quick_and_the_next_ones_quicker(tmp_path: Path) -> None:
    """Building in a fresh home takes less than 0.3 s, a later search less than 10 ms; constructing does nothing."""
    engine = provider_in(tmp_path / "fresh")
    assert not (tmp_path / "fresh").exists()
    started = time.perf_counter()
    ask(engine, "moons of Mars")
    assert time.perf_counter() - started < 0.3
    laps = []
    for _ in range(5):
        started = time.perf_counter()
        engine.index.search("How many moons does Mars have?")
        laps.append(time.perf_counter() - started)
    assert min(laps) < 0.01
    assert engine.index.warnings == []


def test_a_whole_document_can_be_read(provider: LocalProvider) -> None:
    """`document` gives title, Markdown with its heading, and date; an unknown address gives None."""
    title, markdown, date = cast(tuple[str, str, datetime], provider.document("corpus://planets/mars#moons"))
    assert title == "Mars" and markdown.startswith("# Mars\n\n") and "Phobos" in markdown
    assert date.tzinfo is UTC
    assert provider.document("corpus://planets/vulcan") is None


def test_a_changed_corpus_is_read_again(tmp_path: Path) -> None:
    """The index follows the package's corpus: what was taken out is gone, what is new is found, nothing is doubled."""
    corpus, path = tmp_path / "corpus", tmp_path / "index.sqlite"
    corpus.mkdir()
    (corpus / "a.md").write_text(
        "# One\nid: corpus://t/one\ndate: 2026-01-01\n\nalpha common\n\n# Two\nid: corpus://t/two\n\nbeta"
    )
    first = LocalIndex(path, corpus=corpus)
    assert [hit.document.title for hit in first.search("alpha")] == ["One"]
    first.close()
    (corpus / "a.md").write_text("# One\nid: corpus://t/one\ndate: 2026-01-02\n\ngamma common")
    second = LocalIndex(path, corpus=corpus)
    assert second.search("alpha") == [] and second.search("beta") == []
    assert [hit.document.date for hit in second.search("gamma common")] == ["2026-01-02"]
    assert second.stats()["corpus_documents"] == 1


def test_a_folder_of_every_kind_of_file_is_found(index: LocalIndex, notes: Path) -> None:
    """Markdown, text, HTML and notebooks are searched; scripts, styles and outputs are not."""
    report = index.add_folder(notes)
    assert (report.added, report.updated, report.removed, report.skipped) == (4, 0, 0, [])
    found = {q: [h.document.title for h in index.search(q)] for q in ("zweigelt", "medlar", "xanthoria", "brest", "neapheight")}
    expected = {"zweigelt": "The plan", "medlar": "shopping", "xanthoria": "A page", "brest": "Tide tables"}
    assert found == {query: [title] for query, title in {**expected, "neapheight": "Tide tables"}.items()}
    assert not any(index.search(word) for word in ("secretword", "stylename", "outputword"))
    plan = index.search("zweigelt")[0].document
    assert (plan.url, plan.date) == ((notes / "plan.md").as_uri(), "2024-05-06")
    assert index.folders() == [(notes, 4)] and index.stats()["folder_documents"] == 4


def test_html_keeps_its_shape(index: LocalIndex, notes: Path) -> None:
    """Headings, list items and code of a page come out as Markdown; prose is folded, code is not."""
    index.add_folder(notes)
    _, markdown, _ = cast(tuple[str, str, datetime], index.document((notes / "page.html").as_uri()))
    assert "## Lichens\n\nXanthoria grows on roofs.\n\n- item one\n\n```\nfor x in y:\n    go()\n```" in markdown


def test_files_can_be_narrowed_by_folder_name(index: LocalIndex, notes: Path) -> None:
    """The added folder's name and those inside it serve as domains, written as a host name would be."""
    (notes / "Deep").mkdir()
    (notes / "Deep" / "x.txt").write_text("quince again")
    index.add_folder(notes)
    assert len(index.search("quince", allowed=("my-notes",))) == 2
    assert [hit.document.title for hit in index.search("quince", allowed=("deep",))] == ["x"]
    assert [hit.document.title for hit in index.search("quince", blocked=("deep",))] == ["shopping"]


def test_adding_a_folder_again_takes_in_what_changed(index: LocalIndex, notes: Path) -> None:
    """Only new and changed files are read, vanished ones leave; a second run without changes does nothing."""
    index.add_folder(notes)
    assert index.add_folder(notes) == type(index.add_folder(notes))()
    (notes / "shopping.txt").write_text("nothing but rhubarb")
    (notes / "new.md").write_text("# New\n\nloquat")
    (notes / "page.html").unlink()
    report = index.add_folder(notes)
    assert (report.added, report.updated, report.removed) == (1, 1, 1)
    assert index.search("medlar") == [] and index.search("xanthoria") == []
    assert index.search("rhubarb") and index.search("loquat")


def test_removing_a_folder_leaves_its_files_alone(index: LocalIndex, notes: Path) -> None:
    """The documents leave the index; a folder that was never added is an error that names those that were."""
    index.add_folder(notes)
    with pytest.raises(ConfigError, match="My Notes"):
        index.remove_folder(notes.parent)
    assert index.remove_folder(notes) == 4
    assert index.folders() == [] and index.search("zweigelt") == [] and (notes / "plan.md").exists()


def test_what_is_not_read_is_reported_with_its_reason(index: LocalIndex, tmp_path: Path) -> None:
    """Big, binary, broken, empty and foreign files and links out of the folder are skipped, hidden ones in silence."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    for part in (folder, outside, folder / ".git", folder / "node_modules", folder / ".hidden"):
        part.mkdir()
        (part / "inside.md").write_text("verboten")
    (folder / "inside.md").unlink()
    (folder / "big.txt").write_text("x " * 1_000_001)
    (folder / "binary.txt").write_bytes(b"a\0b")
    (folder / "broken.ipynb").write_text('{"cells": 3}')
    (folder / "empty.md").write_text(" \n")
    (folder / "image.png").write_bytes(b"\x89PNG")
    (folder / "out.md").symlink_to(outside / "inside.md")
    (folder / "linked").symlink_to(outside, target_is_directory=True)
    (folder / "loop.md").symlink_to(folder / "loop.md")
    (folder / "latin.txt").write_bytes("caf\u00e9 crème".encode("latin-1"))
    report = index.add_folder(folder)
    reasons = {path.name: reason for path, reason in report.skipped}
    assert set(reasons) == {"big.txt", "binary.txt", "broken.ipynb", "empty.md", "image.png", "out.md", "loop.md"}
    assert "2,000,000" in reasons["big.txt"] and "link" in reasons["out.md"] and "binary" in reasons["binary.txt"]
    assert report.added == 1 and index.search("café creme") and not index.search("verboten")


def test_folders_inside_each_other_share_their_documents(index: LocalIndex, notes: Path) -> None:
    """A folder around one that was added takes it over; one inside is brought up to date there."""
    inner = notes / "inner"
    inner.mkdir()
    (inner / "a.txt").write_text("sassafras")
    index.add_folder(inner)
    index.add_folder(notes)
    assert index.folders() == [(notes, 5)]
    (inner / "b.txt").write_text("sassafras too")
    assert index.add_folder(inner).added == 1
    assert index.folders() == [(notes, 6)]
    assert len(index.search("sassafras", allowed=("my-notes",))) == 2


def test_a_path_that_is_no_folder_is_refused(index: LocalIndex, tmp_path: Path) -> None:
    """The message names the path."""
    with pytest.raises(ConfigError, match="nowhere"):
        index.add_folder(tmp_path / "nowhere")


def test_unspaced_scripts_are_found_by_their_words(index: LocalIndex, tmp_path: Path) -> None:
    """Chinese and Japanese words are found inside a sentence without blanks."""
    folder = tmp_path / "cjk"
    folder.mkdir()
    (folder / "a.txt").write_text("東京は日本の首都です。", encoding="utf-8")
    index.add_folder(folder)
    assert [hit.document.title for hit in index.search("日本の首都")] == ["a"]
    assert index.search("京東") == []


@pytest.mark.parametrize("content", [b"this is no database at all, " * 50, b"SQLite format 3\0" + b"\xff" * 4000])
def test_a_broken_file_is_moved_aside(tmp_path: Path, content: bytes) -> None:
    """The file is kept under another name, a line says so, and the search works."""
    path = tmp_path / "index.sqlite"
    path.write_bytes(content)
    engine = provider_in(tmp_path)
    results = ask(engine, "moons of Mars")
    assert results[0].title == "Mars"
    (kept,) = tmp_path.glob("index.sqlite.broken-*[0-9Z]")
    assert kept.read_bytes() == content
    assert len(engine.index.warnings) == 1 and kept.name in engine.index.warnings[0]
    assert results.notices == tuple(engine.index.warnings)
    assert ask(engine, "moons of Mars").notices == ()


def test_a_file_that_breaks_while_it_is_open_is_replaced(tmp_path: Path) -> None:
    """A page overwritten by something else is noticed at the next search."""
    path = tmp_path / "index.sqlite"
    index = LocalIndex(path)
    index.open()
    index.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(data)
    assert index.search("moons of Mars")[0].document.title == "Mars"
    assert len(list(tmp_path.glob("index.sqlite.broken-*[0-9Z]"))) == 1


def test_another_programs_database_is_kept(tmp_path: Path) -> None:
    """A valid database that is not ours is moved aside with its tables."""
    path = tmp_path / "index.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE precious (x)")
    other.close()
    index = LocalIndex(path)
    assert index.search("moons of Mars") and "another program" in index.warnings[0]
    (kept,) = tmp_path.glob("index.sqlite.broken-*[0-9Z]")
    again = sqlite3.connect(kept)
    assert again.execute("SELECT count(*) FROM precious").fetchone() == (0,)
    again.close()


def test_where_nothing_can_be_written_the_index_is_in_memory(tmp_path: Path) -> None:
    """A home that is no folder costs a warning, not the search."""
    (tmp_path / "nofolder").write_text("a file where a folder should be")
    index = LocalIndex(tmp_path / "nofolder" / "index.sqlite")
    assert index.search("moons of Mars")[0].document.title == "Mars"
    assert len(index.warnings) == 1 and "memory" in index.warnings[0]
    assert index.stats()["path"] is None


def test_sqlite_without_full_text_search_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names FTS5; it is the engine's error, so that the chain can go on."""

    class Plain(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if "fts5" in sql:
                raise sqlite3.OperationalError("no such module: fts5")
            return super().execute(sql, *values)

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **kwargs: connect(*args, **kwargs, factory=Plain))
    with pytest.raises(ProviderError, match="FTS5") as caught:
        ask(provider_in(tmp_path), "moons of Mars")
    assert caught.value.provider == "local"


def test_an_index_of_another_version_is_made_anew(index: LocalIndex, notes: Path, tmp_path: Path) -> None:
    """The corpus comes back by itself; the folders to add again are named."""
    index.add_folder(notes)
    index.close()
    other = sqlite3.connect(tmp_path / "home" / "index.sqlite")
    other.execute("PRAGMA user_version = 999")
    other.close()
    assert index.search("zweigelt") == []
    assert len(index.warnings) == 1 and "My Notes" in index.warnings[0]
    assert index.add_folder(notes).added == 4


def test_several_kernels_may_build_the_index_at_once(tmp_path: Path) -> None:
    """Processes that start together in one fresh home all find the same, and the file is sound."""
    code = (
        "import sys; from pathlib import Path; from ipy_websearch.providers.local_index import LocalIndex\n"
        "index = LocalIndex(Path(sys.argv[1]) / 'index.sqlite'); index.add_folder(Path(sys.argv[1]) / 'notes')\n"
        "print(index.search('moons of Mars')[0].document.title, len(index.search('sassafras', count=9)), index.warnings)"
    )
    (tmp_path / "notes").mkdir()
    for n in range(3):
        (tmp_path / "notes" / f"{n}.txt").write_text("sassafras")
    command = [sys.executable, "-c", code, str(tmp_path)]
    root = str(Path(__file__).parent.parent)
    kernels = [
        subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": root}, text=True) for _ in range(3)
    ]
    assert [kernel.communicate(timeout=60)[0].strip() for kernel in kernels] == ["Mars 3 []"] * 3
    index = LocalIndex(tmp_path / "index.sqlite")
    assert index.folders() == [(tmp_path / "notes", 3)]
    check = sqlite3.connect(tmp_path / "index.sqlite")
    assert check.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    check.execute("INSERT INTO words (words) VALUES ('integrity-check')")
    check.close()
