"""The local index: what it finds, how it reads folders, and that it can always be made again."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.local import LocalProvider
from ipy_websearch.results import SearchResults
from tests.fakes.wire import context


def ask(index: LocalProvider, query: str, **options: Any) -> SearchResults:
    """Return the engine's answer to one query."""
    return asyncio.run(index.search(SearchRequest(query, **options)))


def titles(index: LocalProvider, query: str, **options: Any) -> list[str]:
    """Return the titles that a query finds."""
    return [hit.title for hit in ask(index, query, **options)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> LocalProvider:
    """An index of the embedded corpus."""
    return LocalProvider(context(tmp_path_factory.mktemp("home")))


@pytest.fixture
def index(tmp_path: Path) -> LocalProvider:
    """An empty index: a corpus folder without articles."""
    (tmp_path / "no-corpus").mkdir()
    return LocalProvider(context(tmp_path / "home"), corpus=tmp_path / "no-corpus")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    """A folder with a file of each kind that is read."""
    folder = tmp_path / "My Notes"
    folder.mkdir()
    cells = [
        {"cell_type": "markdown", "source": ["# Tide tables\n", "Spring tides in Brest."]},
        {"cell_type": "code", "source": "# not a title\nx = 3", "outputs": [{"text": "outputword"}]},
    ]
    texts = {
        "plan.md": "---\ntitle: The plan\ndate: 2024-05-06\n---\n\nWe shall brew zweigelt wine.\n",
        "README": "quince, medlar and sorb apples",
        "page.html": "<title>A page</title><script>secretword</script><h2>Lichens</h2><p>Xanthoria grows.</p>",
        "tool.py": "# comment\n\ndef neapheight(x):\n    return x",
        "tides.ipynb": json.dumps({"cells": cells, "nbformat": 4}),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("query", "title"),
    [
        ("How many moons does Mars have?", "Mars"),
        ("what is the capital of France", "France"),
        ("Who created Python?", "Python"),
        ("atomic number of iron", "Iron"),
        ("who discovered phosphorus", "Phosphorus"),
        ("C++", "C++"),
        ("R language", "R"),
        ("Brasilia", "Brazil"),
        ("Wie heißt die Hauptstadt von Österreich?", "Austria"),
        ("money of Morroco", "Morocco"),
        ("melting point of mercury", "Mercury (element)"),
        ('title:"iron" NEAR(atomic* number)', "Iron"),
        ("Which laptop under $500 has the best keyboard in 2026?", None),
        ("Current stock price AAPL", None),
        ("zxqv blorp", None),
    ],
)
def test_a_question_finds_its_subject_first_or_nothing(corpus: LocalProvider, query: str, title: str | None) -> None:
    """Function words, plurals, accents, German names, signs and a letter too many or too few do not hide the right article;
    operators are only words. A document that shares one word of many with the question is not an answer to it."""
    assert next(iter(titles(corpus, query)), None) == title


def test_an_answer_is_free_and_holds_the_passage_that_fits(corpus: LocalProvider) -> None:
    """The description is cut at a word, further paragraphs come in full, the line of facts among them."""
    results = ask(corpus, "who discovered phosphorus")
    hit = results[0]
    assert "Brand" in hit.description and len(hit.description) <= 300 and hit.url == "corpus://elements/phosphorus"
    assert any(text.startswith("Facts: ") for text in hit.extra_snippets) and len(hit.extra_snippets) <= 4
    assert (results.provider, results.cost_usd, hit.published_date and hit.published_date.tzinfo) == ("local", Decimal(0), UTC)
    assert ask(corpus, "mercury", goggles=("$discard",)).notices == ("local cannot apply goggles; ignored",)


@settings(max_examples=60)
@given(query=st.text(min_size=2) | st.lists(st.sampled_from("\"*^:(){}+-#'\0 NEAR AND OR NOT c++ a"), min_size=2).map("".join))
def test_no_text_is_a_syntax_error(corpus: LocalProvider, query: str) -> None:
    """Whatever a query holds, it is searched for and never obeyed."""
    if len(query.strip()) > 1:
        assert len(ask(corpus, query, count=3)) <= 3


def test_a_folder_of_every_kind_of_file_is_found(index: LocalProvider, notes: Path) -> None:
    """Scripts and outputs are not read; code keeps its lines; the folder's name serves as a domain."""
    report = index.add_folder(notes)
    assert (report.added, report.updated, report.removed, report.skipped) == (5, 0, 0, [])
    words = {"zweigelt": "The plan", "medlar": "README", "xanthoria": "A page", "brest": "Tide tables", "neapheight": "tool.py"}
    assert {word: titles(index, word) for word in words} == {word: [title] for word, title in words.items()}
    assert not any(titles(index, word) for word in ("secretword", "outputword"))
    assert titles(index, "quince", allowed_domains=("my-notes",)) and not titles(index, "quince", blocked_domains=("my-notes",))
    assert titles(index, "quince", freshness="pw") and not titles(index, "zweigelt", freshness="pw"), "it says 2024"
    assert "def neapheight(x):\n    return x" in (index.document((notes / "tool.py").as_uri()) or ("", ""))[1]
    assert index.document((notes / "plan.md").as_uri()) == (
        "The plan",
        "# The plan\n\nWe shall brew zweigelt wine.",
        datetime(2024, 5, 6, tzinfo=UTC),
    )
    assert index.document("corpus://planets/vulcan") is None


def test_adding_a_folder_again_takes_in_what_changed(index: LocalProvider, notes: Path) -> None:
    """Only new and changed files are read, vanished ones leave; a run without changes does nothing."""
    assert [index.add_folder(notes).added for _ in range(2)] == [5, 0]
    (notes / "README").write_text("nothing but rhubarb")
    (notes / "new.md").write_text("# New\n\nloquat")
    (notes / "page.html").unlink()
    report = index.add_folder(notes)
    assert (report.added, report.updated, report.removed) == (1, 1, 1) and index.folders() == [(notes, 5)]
    assert titles(index, "medlar") == titles(index, "xanthoria") == [] and titles(index, "rhubarb") and titles(index, "loquat")
    with pytest.raises(ConfigError, match="My Notes"):
        index.remove_folder(notes.parent)
    assert index.remove_folder(notes) == 5 and index.folders() == [] and titles(index, "rhubarb") == []
    with pytest.raises(ConfigError, match="is not a folder"):
        index.add_folder(notes / "nowhere")


def test_what_is_not_read_is_reported_with_its_reason(index: LocalProvider, tmp_path: Path) -> None:
    """Big, binary, broken, empty and foreign files and links out of the folder are skipped, hidden ones in silence."""
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    for part in (outside, folder / ".git", folder / "node_modules"):
        part.mkdir(parents=True)
        (part / "inside.md").write_text("verboten")
    contents = {
        **{"big.txt": b"x " * 1_000_001, "binary.txt": bytes(range(32)), "broken.ipynb": b'{"cells": 3}', "empty.md": b" \n"},
        **{"image.png": b"\x89PNG", "german.txt": "Größe 7".encode("utf-16"), "cjk.txt": "東京は日本の首都です。".encode()},
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    for name, target in {"out.md": outside / "inside.md", "linked": outside, "loop.md": folder / "loop.md"}.items():
        (folder / name).symlink_to(target)
    reasons = {path.name: reason for path, reason in index.add_folder(folder).skipped}
    assert set(reasons) == {*contents, "out.md", "loop.md"} - {"german.txt", "cjk.txt"}
    assert "2,000,000" in reasons["big.txt"] and "link" in reasons["out.md"] and "binary" in reasons["binary.txt"]
    found = {query: titles(index, query) for query in ("GRÖSSE", "grosse", "日本の首都", "verboten")}
    assert found == {"GRÖSSE": ["german"], "grosse": ["german"], "日本の首都": ["cjk"], "verboten": []}


@pytest.mark.parametrize("damage", ["another version", "emptied", "broken"])
def test_an_index_is_made_anew_with_its_folders(index: LocalProvider, notes: Path, tmp_path: Path, damage: str) -> None:
    """An index of another version, an emptied file and a broken one cost the time to read the folders again, and a notice."""
    index.add_folder(notes)
    index.close()
    file = tmp_path / "home" / "index.sqlite"
    if damage == "another version":
        with closing(sqlite3.connect(file)) as other:
            other.execute("PRAGMA user_version = 999")
    else:
        file.write_bytes(b"" if damage == "emptied" else b"no database " * 500)
    again = LocalProvider(context(tmp_path / "home"), corpus=tmp_path / "no-corpus")
    results = ask(again, "zweigelt")
    assert results[0].title == "The plan" and "My Notes was read again" in " ".join(results.notices)
    assert again.folders() == [(notes, 5)]


def test_kernels_that_add_folders_at_once_lose_none(tmp_path: Path) -> None:
    """The list that the index is made again from has the folders of all."""
    folders = [tmp_path / f"notes-{n}" for n in range(6)]
    for folder in (tmp_path / "no-corpus", *folders):
        folder.mkdir()
        (folder / "note.txt").write_text("loquat")
    kernels = [LocalProvider(context(tmp_path / "home"), corpus=tmp_path / "no-corpus") for _ in folders]
    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(LocalProvider.add_folder, kernels, folders))
    assert kernels[0].folders() == [(folder, 1) for folder in folders]
