"""The text of PDFs: real ones, written here byte by byte; what cannot be read says what it is."""

from __future__ import annotations

import io
import sys
import time
from datetime import UTC, datetime

import pytest

from ipy_websearch.extract.formats import Extracted
from ipy_websearch.extract.page import extract
from tests.fakes.pdf import written

INFO = "/Title (Rows & columns) /CreationDate (D:20260301120000Z)"
REPORT = written("A table has rows.\nIt has columns too.", "See https://example.org/more.", info=INFO)


def locked(password: str) -> bytes:
    """Return the report with a password to open it ("": only one to change it)."""
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(REPORT))
    writer.encrypt(user_password=password, owner_password="owner", algorithm="RC4-128")
    writer.write(out := io.BytesIO())
    return out.getvalue()


def read(body: bytes, content_type: str = "application/pdf") -> Extracted:
    """Return what the extraction makes of a body."""
    return extract(body, url="https://example.org/report.pdf", content_type=content_type)


@pytest.mark.parametrize("content_type", ["application/pdf", "application/octet-stream", "text/html; charset=utf-8", ""])
def test_a_pdf_gives_its_text_title_date_and_links(content_type: str) -> None:
    got = read(REPORT, content_type)
    assert got.markdown == "A table has rows.\nIt has columns too.\n\nSee https://example.org/more.\n"
    assert (got.title, got.note) == ("Rows & columns", "")
    assert got.published_date == datetime(2026, 3, 1, tzinfo=UTC) and got.links == ("https://example.org/more",)


def test_a_pdf_without_text_says_why() -> None:
    """Locked, broken or nothing but images: the note is one line, and there is no error."""
    assert read(locked("")).markdown == read(REPORT).markdown
    notes = [read(body).note for body in (locked("secret"), b"%PDF-1.7\n" + b"\0" * 400, written("", ""))]
    assert notes[0] == "this PDF is encrypted and needs a password"
    assert notes[1].startswith("this PDF is broken and cannot be read (")
    assert notes[2] == "this PDF holds no text, only images"


def test_a_pdf_says_what_to_install_when_its_reader_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    assert read(REPORT) == Extracted("", note='this is a PDF; to read its text: pip install "ipy_websearch[pdf]"')


def test_a_long_pdf_is_read_as_far_as_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 3))
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    got = read(written("first", "second", "third", "fourth"))
    assert got.markdown.startswith("first") and got.note == "only the first 1 of 4 pages were read"
