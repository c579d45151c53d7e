"""What stands for pages: an extraction process that gives the body back, and real PDFs, written byte by byte."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ipy_websearch.extract.formats import page_of
from ipy_websearch.results import Page
from ipy_websearch.text import visible


@dataclass
class Extractor:
    """Stands for the extraction process: gives the body back as the page's Markdown."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    def warm(self) -> None:
        """Nothing has to be started."""

    async def extract(self, body: bytes, **known: Any) -> Page:
        """Return the body as it is, with a title, a date and a link."""
        self.seen.append(known)
        if self.error:
            raise self.error
        date = datetime(2026, 3, 1, tzinfo=UTC)
        return page_of(known["url"], visible(body.decode()), "A <b>title</b>\x07", date, ["https://example.com/next"], "a note")


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
