"""The text of PDFs: real ones, written here byte by byte; what cannot be read says what it is."""

from __future__ import annotations

import asyncio
import io
import sys
import time
from datetime import UTC, datetime
from typing import Any

import pytest

from ipy_websearch.errors import FetchError
from ipy_websearch.extract import pdf
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.html import extract
from ipy_websearch.extract.reader import PageReader
from ipy_websearch.extract.worker import ExtractionWorker
from tests.fakes.raw_http import RawServer, answer

URL = "https://example.org/report.pdf"


def written(*pages: str, link: str = "https://example.org/data", info: str = "") -> bytes:
    """Return a PDF with these pages, one line of text for each line; `info` is what its information dictionary holds."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R /Lang (en-GB) >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    annotation = f"<< /Type /Annot /Subtype /Link /Rect [0 0 9 9] /A << /S /URI /URI ({link}) >> >>"
    for n, text in enumerate(pages):
        shown = "".join(f"({line}) Tj T*\n" for line in text.split("\n"))
        stream = f"BT /F1 12 Tf 14 TL 72 720 Td\n{shown}ET" if text else ""
        resources = f"/Resources << /Font << /F1 3 0 R >> >> /Annots [{annotation}]"
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
REPORT = written("A table has rows.\nIt has columns too.", "See https://example.org/more, [1](x).", info=INFO)


def locked(password: str, algorithm: str = "RC4-128") -> bytes:
    """Return the report with a password to open it ("": only one to change it)."""
    import pypdf

    writer = pypdf.PdfWriter(clone_from=io.BytesIO(REPORT))
    writer.encrypt(user_password=password, owner_password="owner", algorithm=algorithm)
    writer.write(out := io.BytesIO())
    return out.getvalue()


def read(body: bytes, content_type: str = "application/pdf") -> Extracted:
    """Return what the extraction makes of a body."""
    return extract(body, url=URL, content_type=content_type)


@pytest.mark.parametrize("content_type", ["application/pdf", "application/octet-stream", "text/html; charset=utf-8", ""])
def test_a_pdf_gives_its_text_title_date_language_and_links(content_type: str) -> None:
    """Page by page, known by its first bytes whatever the header says; text is escaped, so that it stays text."""
    got = read(REPORT, content_type)
    assert got.markdown == "A table has rows.\nIt has columns too.\n\nSee https://example.org/more, [1]\\(x).\n"
    assert (got.title, got.published_date, got.language) == ("Rows & columns", datetime(2026, 3, 1, tzinfo=UTC), "en-GB")
    assert got.links == ("https://example.org/data", "https://example.org/more") and got.note == ""


def test_a_pdf_is_read_from_the_web_as_any_page() -> None:
    """In the extraction process, with lines, links that may be fetched next, and the kind of file."""
    worker = ExtractionWorker()

    async def fetched() -> Any:
        async with RawServer(answer(REPORT, Content_Type="application/pdf")) as server:
            return await PageReader(worker=worker, allow=server.allow).read(server.base, offset=2, limit=1)

    try:
        page = asyncio.run(fetched())
    finally:
        worker.close()
    assert (page.content, page.lines_read, page.total_lines) == ("It has columns too.", 1, 4)
    assert page.content_type == "application/pdf" and "https://example.org/data" in page.links


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-256"])
def test_an_encrypted_pdf_is_read_or_says_what_it_needs(algorithm: str) -> None:
    """Without a password to open it, anybody may read it."""
    assert "A table has rows." in read(locked("", algorithm)).markdown
    got = read(locked("secret", algorithm))
    assert (got.markdown, got.note) == ("", "this PDF is encrypted and needs a password")


BROKEN = {
    "cut": REPORT[: len(REPORT) // 3],
    "head alone": b"%PDF-1.7\n",
    "garbage": b"%PDF-1.7\n" + bytes(range(256)) * 20,
    "pages in a circle": REPORT.replace(b"/Kids [4 0 R 6 0 R]", b"/Kids [2 0 R 2 0 R]"),
}


@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_a_broken_pdf_says_that_it_is_broken(body: bytes) -> None:
    """Or that nothing is in it; never an exception, never bytes as text."""
    got = read(body)
    assert got.markdown == "" and got.note.startswith(("this PDF is broken and cannot be read (", "this PDF holds no text"))


def test_a_pdf_whose_table_is_lost_is_read_all_the_same() -> None:
    """Readers look for the objects themselves then."""
    body = REPORT[: REPORT.rindex(b"startxref")] + b"startxref\n7\n%%EOF\n"
    assert "A table has rows." in read(body).markdown


def test_a_pdf_of_images_says_so() -> None:
    """There is nothing to read without recognising letters."""
    assert read(written("", "")).note == "this PDF holds no text, only images"


def test_a_pdf_says_what_to_install_when_its_reader_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """pypdf is an extra; the note names the command, and the model gets to know it too."""
    from ipy_websearch.results import Page
    from ipy_websearch.tools.web_fetch import _output

    monkeypatch.setitem(sys.modules, "pypdf", None)
    got = read(REPORT)
    assert got.markdown == "" and 'pip install "ipy_websearch[pdf]"' in got.note
    assert got.note in _output(Page(URL, URL, "", "", 0, 0, note=got.note), 1, 500).text
    assert "this PDF is broken" in read(b"%PDF-1.4 broken").note  # which no installation would mend


def test_a_long_pdf_is_read_as_far_as_time_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the note says how far that is."""
    now = iter(range(100))
    monkeypatch.setattr(pdf, "_SECONDS", 3.5)
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    got = read(written(*(f"Page {n}." for n in range(9))))
    assert got.markdown == "Page 0.\n\nPage 1.\n\nPage 2.\n" and got.note == "only the first 3 of 9 pages were read"


def test_a_pdf_that_defeats_the_reader_is_refused_by_name() -> None:
    """Its bytes are no text to fall back on, whatever the header calls them."""
    worker = ExtractionWorker(memory_mb=1)
    try:
        with pytest.raises(FetchError, match="is a PDF that cannot be read: "):
            asyncio.run(worker.extract(REPORT, url=URL, content_type="application/octet-stream"))
    finally:
        worker.close()
