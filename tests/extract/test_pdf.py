"""The text of PDFs: real ones, written here byte by byte; what cannot be read says what it is."""

from __future__ import annotations

import io
import sys
import time
from datetime import UTC, datetime

import pytest

from ipy_websearch.extract.formats import Extracted
from ipy_websearch.extract.page import extract


def written(*pages: str, info: str = "") -> bytes:
    """Return a PDF with these pages, one line of text for each line; `info` is what its information dictionary holds."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R /Lang (en-GB) >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for n, text in enumerate(pages):
        shown = "".join(f"({line}) Tj T*\n" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td\n{shown}ET" if text else ""
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * n} 0 R {resources} >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    objects.append(f"<< {info} >>")
    body, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(objects) + 1
    tail = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R /Info {size - 1} 0 R >>\n"
    return body + f"{tail}startxref\n{len(body)}\n%%EOF\n".encode("latin-1")


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
