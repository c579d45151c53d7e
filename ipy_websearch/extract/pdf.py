"""The text of a PDF, when pypdf is installed (the extra `[pdf]`).

A PDF is a program for a printer, and a hostile one never ends: pages are read until the time is up, and the note says how far.
"""

from __future__ import annotations

import importlib
import io
import re
import time
from typing import Any

from ipy_websearch.extract.formats import Extracted, web_links
from ipy_websearch.extract.metadata import parse_date
from ipy_websearch.text import plain, visible

INSTALL = 'pip install "ipy_websearch[pdf]"'
_MAX_PAGES = 500
_SECONDS = 6.0  # after which no further page is begun; the worker would be killed at 10, and all be lost
_LIGATURES = str.maketrans({"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\u00ad": ""})


def pdf_markdown(body: bytes) -> Extracted:
    """Return the text of a PDF, page by page; when there is none to be had, only a note that says why."""
    try:
        pypdf: Any = importlib.import_module("pypdf")
    except ImportError:
        return Extracted("", note=f"this is a PDF; to read its text: {INSTALL}")
    try:
        return _read(pypdf.PdfReader(io.BytesIO(body)))
    except Exception as error:  # pypdf raises whatever a broken file makes it trip over
        match type(error).__name__:
            case "FileNotDecryptedError" | "WrongPasswordError":
                note = "this PDF is encrypted and needs a password"
            case "DependencyError":
                note = f"this PDF is encrypted; to read its text: {INSTALL}"
            case name:
                note = f"this PDF is broken and cannot be read ({name})"
        return Extracted("", note=note)


def _read(reader: Any) -> Extracted:
    total = len(reader.pages)
    pages: list[str] = []
    until = time.monotonic() + _SECONDS
    while len(pages) < min(total, _MAX_PAGES) and time.monotonic() < until:
        pages.append(_paragraphs(reader.pages[len(pages)].extract_text() or ""))
    text = "\n\n".join(filter(None, pages))
    note = "" if text else "this PDF holds no text, only images"
    if len(pages) < total:
        note = f"only the first {len(pages)} of {total} pages were read"
    information = reader.metadata or {}
    created = re.match(r"D:(\d{8})", str(information.get("/CreationDate", "")))
    return Extracted(
        text + "\n" if text else "",
        title=plain(str(information.get("/Title", ""))),
        published_date=parse_date(created[1]) if created else None,
        links=web_links(text),
        note=note,
    )


def _paragraphs(text: str) -> str:
    lines = (line.rstrip() for line in visible(text.translate(_LIGATURES)).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
