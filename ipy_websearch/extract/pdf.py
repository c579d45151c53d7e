"""The text of a PDF, when pypdf is installed.

A PDF is a program for a printer, and a hostile one never ends: pages are read until the time is up, and the note says how far.
"""

from __future__ import annotations

import importlib
import io
import re
import time
from collections.abc import Iterator
from typing import Any

from ipy_websearch.extract.about import parse_date
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.inline import escape
from ipy_websearch.extract.plaintext import MAX_LINKS, web_links
from ipy_websearch.text import plain, visible

INSTALL = 'pip install "ipy_websearch[pdf]"'
_MAX_PAGES = 500
_SECONDS = 6.0
"""Seconds after which no further page is begun; the worker would be killed at 10, and all be lost."""

_LIGATURES = str.maketrans({"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\u00ad": ""})
_OBJECT = re.compile(rb"\d\s+obj\b")  # what every PDF is made of
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{2,8}){0,3}")


def pdf_markdown(body: bytes) -> Extracted:
    """Return the text of a PDF, page by page; when there is none to be had, only a note that says why."""
    try:
        pypdf: Any = importlib.import_module("pypdf")
    except ImportError:
        note = f"this is a PDF; to read its text: {INSTALL}"
        return Extracted("", note=note if _OBJECT.search(body) else "this PDF is broken and cannot be read (nothing is in it)")
    try:
        return _read(pypdf.PdfReader(io.BytesIO(body)))
    except Exception as error:  # pypdf raises whatever a broken file makes it trip over
        return Extracted("", note=_why(error))


def _read(reader: Any) -> Extracted:
    total = len(reader.pages)
    pages: list[str] = []
    links: dict[str, None] = {}
    until = time.monotonic() + _SECONDS
    while len(pages) < min(total, _MAX_PAGES) and time.monotonic() < until:
        page = reader.pages[len(pages)]
        pages.append(_paragraphs(page.extract_text() or ""))
        links.update(dict.fromkeys(_links(page)))
    text = "\n\n".join(filter(None, pages))
    note = "" if text else "this PDF holds no text, only images"
    if len(pages) < total:
        note = f"only the first {len(pages)} of {total} pages were read"
    links.update(dict.fromkeys(web_links(text)))
    title, created, language = _about(reader)
    digits = re.match(r"D:(\d{8})", created)
    date = parse_date(digits[1]) if digits else None
    return Extracted(text + "\n" if text else "", title, date, language, tuple(links)[:MAX_LINKS], note)


def _about(reader: Any) -> tuple[str, str, str]:
    """Return title, date of creation and language as the PDF gives them, "" each when it does not, or not legibly."""
    try:
        information = reader.metadata
        title = plain(information.title) if information is not None else ""
        created = str(information.get("/CreationDate", "")) if information is not None else ""
        language = str(reader.root_object.get("/Lang", ""))
    except Exception:
        return "", "", ""
    return title, created, language if _LANGUAGE.fullmatch(language) else ""


def _links(page: Any) -> Iterator[str]:
    """Yield the web addresses that the page's links lead to."""
    try:
        for annotation in page.get("/Annots") or ():
            action = annotation.get_object().get("/A")
            address = str(action.get_object().get("/URI", "")) if action is not None else ""
            yield from web_links(address)[:1]
    except Exception:
        return


def _why(error: Exception) -> str:
    match type(error).__name__:
        case "FileNotDecryptedError" | "WrongPasswordError":
            return "this PDF is encrypted and needs a password"
        case "DependencyError":
            return f"this PDF is encrypted; to read its text: {INSTALL}"
    return f"this PDF is broken and cannot be read ({type(error).__name__})"


def _paragraphs(text: str) -> str:
    lines = (line.rstrip() for line in visible(text.translate(_LIGATURES)).splitlines())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(escape(line) for line in lines)).strip()
