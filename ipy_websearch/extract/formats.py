"""Bodies that are not HTML: what they are, their charset, and text and PDFs as Markdown.

The first bytes decide what a body is where they are unmistakable, then the Content-Type, then its look. What is not text is
refused with a message that says what it is.
"""

from __future__ import annotations

import io
import json
import logging
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import urljoin, urlsplit

from ipy_websearch.results import Page
from ipy_websearch.text import fenced, parse_date, plain, shorten, visible

MAX_LINKS = 5_000
_MAGIC = {
    b"%PDF-": "application/pdf", b"\x89PNG\r\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif",
    b"RIFF": "image/webp or another RIFF file", b"PK\x03\x04": "application/zip", b"\x1f\x8b": "application/gzip",
    b"7z\xbc\xaf": "application/x-7z-compressed", b"Rar!": "application/vnd.rar", b"\x7fELF": "application/x-elf",
    b"OggS": "audio/ogg", b"ID3": "audio/mpeg", b"SQLite format 3\x00": "application/vnd.sqlite3",
    b"\x28\xb5\x2f\xfd": "application/zstd", b"PAR1": "application/vnd.apache.parquet",
}  # fmt: skip
_HTML = re.compile(r"\s*(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|[a-z][a-z0-9]{0,15}[\s>/])", re.IGNORECASE | re.DOTALL)
_XML = re.compile(r"\s*<(?:\?xml|rss|feed|urlset|sitemapindex)\b")
_CODE = {
    "application/javascript": "js", "text/javascript": "js", "text/css": "css", "application/yaml": "yaml", "text/yaml": "yaml",
    "application/toml": "toml", "application/x-sh": "sh", "text/x-python": "python", "text/x-c": "c", "application/sql": "sql",
    "text/csv": "csv", "text/tab-separated-values": "tsv",
}  # fmt: skip
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]{1,40})", re.IGNORECASE)
# The WHATWG encoding standard (encoding.spec.whatwg.org, section 4.2, read November 2026) reads these labels so.
_WIDER = dict.fromkeys(("latin-1", "latin1", "iso-8859-1", "us-ascii"), "windows-1252") | {"gb2312": "gb18030"}
_ADDRESS = re.compile(r"https?://[^\s\"'<>`\\^{}|\[\]]{1,2000}")
_BALANCED = re.compile(r"[^()<>]*+(?:\([^()<>]*+\)[^()<>]*+)*+")
_ESCAPES = str.maketrans({character: f"%{ord(character):02X}" for character in "()<>"})
_IMAGE = re.compile(r"!\[([^\]\n]{0,500})\](?:\([^)\n]{0,2000}\)|\[[^\]\n]{0,200}\])")
# Control characters but those of layout and the escape of ISO-2022, and what stands for bytes that are no text.
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x9f\ufffd]")
_FEW = 0.01
_LOOK = 4_096
# So many bytes beyond ASCII are needed to tell a charset by; where there are fewer, these are accents.
_SURE = 20
_ASCII = bytes(range(128))
_TITLE_CHARACTERS = 300


def page_of(
    url: str, text: str, title: str = "", date: datetime | None = None, links: Iterable[str] = (), note: str = ""
) -> Page:
    """Return a page that was read whole; `links` are those of all of it, navigation included."""
    text = text.strip("\n") if text.strip() else ""
    name = shorten(plain(title), _TITLE_CHARACTERS)
    return Page(url, url, name, text, 0, 0, published_date=date, links=tuple(islice(links, MAX_LINKS)), note=note)


def kind_of(body: bytes, content_type: str) -> str:
    """Return the media type that `body` really has, in lower case without parameters; "" for binary data of no known type."""
    if magic := next(filter(body.startswith, _MAGIC), None):
        return _MAGIC[magic]
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith(("text/", "image/", "audio/", "video/", "font/")) or kind.endswith(("json", "xml")) or kind in _CODE:
        return kind
    head = body[:_LOOK].decode("utf-8", "replace").lstrip("\ufeff")
    if is_binary(head):
        return kind if kind.startswith("application/") and "octet" not in kind else ""
    if _XML.match(head):
        return "application/xml"
    return "text/html" if _HTML.match(head) else "application/json" if head.lstrip()[:1] in ("[", "{") else "text/plain"


def is_binary(text: str) -> bool:
    """Return whether decoded text is no text at all: more than 5 % of its start is control or replacement characters."""
    return len(_NO_TEXT.findall(text[:_LOOK])) > max(3, 0.05 * min(len(text), _LOOK))


def decode(body: bytes, content_type: str = "") -> str:
    """Return the text of `body`; a charset that is wrong, unknown or hostile never raises: the next one in line is tried.

    Order: a byte order mark, UTF-8 but for ISO-2022's escapes (a header that says UTF-8 allows a few broken bytes),
    the header, the page's own declaration, detection, which mixes up Latin letters: those are windows-1252. Bytes that do not
    fit become U+FFFD; NUL bytes go.
    """
    from bs4.dammit import UnicodeDammit

    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return body.decode("utf-16", "replace").replace("\0", "")
    body = body.replace(b"\0", b"")
    header = _CHARSET.search(content_type)
    label = header[1].lower() if header else ""
    text = body.decode("utf-8-sig", "replace")
    if b"\x1b$" not in body and text.count("\ufffd") <= (_FEW * len(text) if label in ("utf-8", "utf8") else 0):
        return text
    label = "" if label.startswith("utf") else _WIDER.get(label, label)
    found = UnicodeDammit(body, [label], is_html=True)
    charset = found.original_encoding or "cp1252"
    if charset not in (label, found.declared_html_encoding, "utf-8"):
        letters = (c for c in found.unicode_markup or "" if c > "\u024f" and c.isalpha())
        charset = "cp1252" if 0 < len(body.translate(None, _ASCII)) < _SURE or not any(letters) else charset
    return body.decode(_WIDER.get(charset, charset), "replace")


def read_text(text: str, kind: str, url: str) -> Page:
    """Return a text body that is not HTML as Markdown: JSON, XML (feeds too) and code in a fence, the rest as it is."""
    text, title = visible(text.removeprefix("\ufeff")), ""
    links = web_links(text)
    if kind.endswith("json"):
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
        text = fenced(text, "json")
    elif kind.endswith("xml") or kind in _CODE:
        text = fenced(text, _CODE.get(kind, "xml"))
    elif "markdown" in kind or url.partition("?")[0].lower().endswith((".md", ".markdown")):
        text = _IMAGE.sub(r"\1", text)
        found = re.search(r"^# +(.{1,300}?)[ #]*$", text, re.MULTILINE)
        title = found[1] if found else ""
    return page_of(url, text, title, links=links)


def web_address(href: str, base: str) -> str | None:
    """Return `href` as an absolute http(s) address, or None when it is not one (mailto:, javascript:, data:, broken)."""
    href = re.sub(r"[\x00-\x1f\x7f]+", "", visible(href)).strip().replace(" ", "%20")
    try:
        address = urljoin(base, href)
        parts = urlsplit(address)
    except ValueError:
        return None
    if not _BALANCED.fullmatch(address):  # it would end a link of Markdown too early
        address = address.translate(_ESCAPES)
    return address if parts.scheme in ("http", "https") and parts.hostname else None


def web_links(text: str) -> tuple[str, ...]:
    """Return the http(s) addresses written in `text`, each once, in order, at most `MAX_LINKS`."""
    addresses = (match[0] for match in islice(_ADDRESS.finditer(text), 4 * MAX_LINKS))
    return tuple(dict.fromkeys(a.rstrip(".,;:!?*_~" if "(" in a else ".,;:!?*_~)") for a in addresses))[:MAX_LINKS]


# --- PDFs, when pypdf is installed (the extra `[pdf]`) -------------------------------------------------------------------

_SECONDS = 6.0  # after which no further page is begun; the worker would be killed at 10, and all be lost
_LIGATURES = str.maketrans({"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl", "\u00ad": ""})


def read_pdf(body: bytes, url: str) -> Page:
    """Return the text of a PDF, page by page; when there is none to be had, only a note that says why.

    A PDF is a program for a printer, and a hostile one never ends: pages are read until the time is up.
    """
    try:
        import pypdf
    except ImportError:
        return page_of(url, "", note='this is a PDF; to read its text: pip install "ipy_websearch[pdf]"')
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it says of a broken file is in the note
    try:
        return _pdf_text(pypdf.PdfReader(io.BytesIO(body)), url)
    except Exception as error:  # pypdf raises whatever a broken file makes it trip over
        return page_of(url, "", note=f"this PDF cannot be read ({type(error).__name__})")


def _pdf_text(reader: Any, url: str) -> Page:
    total, until, pages = len(reader.pages), time.monotonic() + _SECONDS, list[str]()
    while len(pages) < total and time.monotonic() < until:
        text = visible((reader.pages[len(pages)].extract_text() or "").translate(_LIGATURES))
        pages.append(re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)).strip())
    text = "\n\n".join(filter(None, pages))
    note = "" if text else "this PDF holds no text, only images"
    if len(pages) < total:
        note = f"only the first {len(pages)} of {total} pages were read"
    about = reader.metadata or {}
    made = str(about.get("/CreationDate", ""))[2:10]
    return page_of(url, text, str(about.get("/Title", "")), parse_date(made), web_links(text), note)
