"""The text of a PDF, when pypdf is installed."""

from __future__ import annotations

import importlib
import io
import re
from typing import Any

from ipy_websearch.extract.about import parse_date
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.inline import escape
from ipy_websearch.extract.plaintext import web_links
from ipy_websearch.text import plain, visible

INSTALL = 'pip install "ipy_websearch[pdf]"'
_MAX_PAGES = 500


def pdf_markdown(body: bytes) -> Extracted:
    """Return the text of a PDF, page by page; without pypdf, or when it cannot be read, only a note that says so."""
    try:
        pypdf: Any = importlib.import_module("pypdf")
    except ImportError:
        return Extracted("", note=f"this is a PDF; to read its text: {INSTALL}")
    try:
        reader = pypdf.PdfReader(io.BytesIO(body))
        pages = [page.extract_text() or "" for page in reader.pages[:_MAX_PAGES]]
        information = reader.metadata
        title = plain(information.title) if information is not None else ""
        created = str(information.get("/CreationDate", "")) if information is not None else ""
        total = len(reader.pages)
    except Exception as error:  # pypdf raises whatever a broken file makes it trip over
        return Extracted("", note=f"this PDF cannot be read ({type(error).__name__})")
    text = "\n\n".join(_paragraphs(page) for page in pages).strip()
    note = "" if text else "this PDF holds no text, only images"
    if total > _MAX_PAGES:
        note = f"only the first {_MAX_PAGES} of {total} pages were read"
    digits = re.match(r"D:(\d{8})", created)
    return Extracted(text + "\n" if text else "", title, parse_date(digits[1]) if digits else None, "", web_links(text), note)


def _paragraphs(text: str) -> str:
    lines = (line.rstrip() for line in visible(text).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(escape(line) for line in lines)).strip()
