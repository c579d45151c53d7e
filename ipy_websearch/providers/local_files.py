"""Reading documents: the corpus that comes with the package, and the files of a folder the user adds.

Markdown, plain text, HTML and notebooks are read, never run; what cannot be read is reported with its reason and left
out. Nothing outside the folder is touched: a link that leads out of it is not followed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes, urlsplit

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.base import clean_domain
from ipy_websearch.text import plain, visible

MAX_FILE_BYTES = 2_000_000
SKIPPED_FOLDERS = ("node_modules", "__pycache__")
TEXT_SUFFIXES = (".md", ".markdown", ".txt", ".text", ".rst")
HTML_SUFFIXES = (".html", ".htm", ".xhtml")

_ARTICLE = re.compile(r"^# +(.+)\n+id: *(\S+) *\n(?:date: *(\S+) *\n)?", re.MULTILINE)
_FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
_HEADING = re.compile(r"^#{1,3} +(.+?) *#*$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
_DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_BLOCKS = "p div section article main header footer aside li ul ol dl dt dd table tr pre blockquote figure h1 h2 h3 h4 h5 h6"
_HIDDEN = {ord("\n"): "\ue000", ord(" "): "\ue001"}  # white space of code, hidden while that of prose is folded
_SHOWN = {0xE000: "\n", 0xE001: " "}
_MARKS = {"li": "- "} | {f"h{level}": f"{'#' * level} " for level in range(1, 7)}
_DROPPED = ("script", "style", "noscript", "template", "svg", "head")


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it is indexed: `body` is Markdown, `date` is "YYYY-MM-DD" or "" when unknown.

    `site` lists what a domain filter matches, between slashes: "/planets/", "/notes/2026/".
    """

    url: str
    title: str
    body: str
    date: str
    site: str


class UnreadableError(Exception):
    """A file cannot be read as a document; the text is the reason. Never leaves the local engine."""


def read_corpus(folder: Traversable) -> tuple[str, list[Document]]:
    """Return (stamp, documents) of the articles in the `*.md` files of `folder`; the stamp changes when any file does."""
    digest = hashlib.sha256()
    documents: list[Document] = []
    for file in sorted((f for f in folder.iterdir() if f.name.endswith(".md")), key=lambda f: f.name):
        data = file.read_bytes()
        digest.update(file.name.encode() + b"\0" + data)
        documents += _articles(data.decode("utf-8").replace("\r\n", "\n"))
    return digest.hexdigest(), documents


def _articles(text: str) -> Iterator[Document]:
    heads = list(_ARTICLE.finditer(text))
    ends = [head.start() for head in heads[1:]] + [len(text)]
    for head, end in zip(heads, ends, strict=True):
        title, url, date = head.groups()
        yield Document(url, title.strip(), text[head.end() : end].strip(), date or "", f"/{urlsplit(url).netloc}/")


def find_files(folder: Path) -> Iterator[tuple[Path, os.stat_result | str]]:
    """Yield every visible file below `folder` with its status, or with the reason why it is not read.

    Hidden files and folders, node_modules and linked folders are passed over in silence.
    """
    for parent, names, files in os.walk(folder):
        names[:] = sorted(n for n in names if not n.startswith(".") and n not in SKIPPED_FOLDERS)
        for name in sorted(n for n in files if not n.startswith(".")):
            path = Path(parent, name)
            yield path, _status(path, folder)


def _status(path: Path, folder: Path) -> os.stat_result | str:
    if path.suffix.lower() not in (*TEXT_SUFFIXES, *HTML_SUFFIXES, ".ipynb"):
        return f"not a kind of file that is read ({path.suffix or 'no ending'})"
    try:
        if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
            return "a link that leads out of the folder"
        status = path.stat()
    except (OSError, RuntimeError) as exc:  # RuntimeError: a loop of links, before Python 3.13
        return getattr(exc, "strerror", None) or str(exc)
    if not path.is_file():
        return "not a regular file"
    if status.st_size > MAX_FILE_BYTES:
        return f"{status.st_size:,} bytes; files up to {MAX_FILE_BYTES:,} are read"
    return status


def read_file(path: Path, root: Path) -> Document:
    """Return the file as a document; its date is the one it states, else that of its last change.

    Raises:
        UnreadableError: it is binary, broken or empty, or may not be read.
    """
    try:
        data = path.read_bytes()
        changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()
    except (OSError, OverflowError, ValueError) as exc:
        raise UnreadableError(getattr(exc, "strerror", None) or str(exc)) from exc
    suffix = path.suffix.lower()
    if suffix in HTML_SUFFIXES:
        title, date, body = _read_html(data)
    elif suffix == ".ipynb":
        title, date, body = _read_notebook(data)
    else:
        title, date, body = _read_text(_decoded(data))
    if not body.strip():
        raise UnreadableError("there is no text in it")
    title = plain(title) or plain(path.stem) or "untitled"
    return Document(path.as_uri(), title, body.strip(), date or changed, site_of(path.parent, root))


def site_of(folder: Path, root: Path) -> str:
    """Return the names of `root` and the folders below it down to `folder`, in the form that domain filters have."""
    names = (root.name, *folder.relative_to(root).parts)
    return f"/{'/'.join(filter(None, map(_domain_form, names)))}/"


def _domain_form(name: str) -> str:
    try:
        return clean_domain(re.sub(r"\s+", "-", name.strip()))
    except ConfigError:
        return ""


def path_of(uri: str) -> Path:
    """Return the path of a `file:` address that `Path.as_uri` made."""
    path = os.fsdecode(unquote_to_bytes(uri.removeprefix("file://")))
    return Path(path.removeprefix("/") if os.name == "nt" else path)


def _decoded(data: bytes) -> str:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    if encoding == "utf-8-sig" and b"\0" in data:
        raise UnreadableError("it is binary")
    try:
        return visible(data.decode(encoding))
    except UnicodeDecodeError:
        return visible(data.decode("cp1252", errors="replace"))


def _read_text(text: str) -> tuple[str, str, str]:
    title = date = ""
    if front := _FRONT_MATTER.match(text):
        fields = dict(re.findall(r"^(title|date): *[\"']?(.*?)[\"']? *$", front[1], re.MULTILINE))
        title, text = fields.get("title", ""), text[front.end() :]
        date = stated[0] if (stated := _DATE.match(fields.get("date", ""))) else ""
    heading = _HEADING.search(_FENCED.sub("", text))
    return title or (heading[1] if heading else ""), date, text


def _read_notebook(data: bytes) -> tuple[str, str, str]:
    """Return what people wrote into a notebook: its Markdown and its code; outputs are left out."""
    try:
        content = json.loads(_decoded(data))
        sheets: list[Any] = content.get("worksheets") or [content]
        parts = [_cell_text(cell) for sheet in sheets for cell in sheet.get("cells", ())]
    except (ValueError, AttributeError, TypeError, RecursionError) as exc:
        raise UnreadableError("it is not a notebook that can be read") from exc
    return _read_text(visible("\n\n".join(filter(None, parts))))


def _cell_text(cell: Any) -> str:
    source = cell.get("source", cell.get("input", ""))
    text = ("".join(source) if isinstance(source, list) else str(source)).strip()
    return f"```\n{text}\n```" if text and cell.get("cell_type") == "code" else text


def _read_html(data: bytes) -> tuple[str, str, str]:
    """Return title, date and text of a page; headings and list items keep their Markdown marks."""
    from lxml import etree, html

    text = _decoded(data)
    try:
        page = html.document_fromstring(text.encode(), parser=html.HTMLParser(encoding="utf-8", remove_comments=True))
    except (etree.LxmlError, ValueError, AssertionError) as exc:
        raise UnreadableError("it is not HTML that can be read") from exc
    title = page.findtext(".//title") or page.findtext(".//h1") or ""
    dates = page.xpath("//meta[@property='article:published_time' or @name='date']/@content")
    stated = _DATE.match(dates[0]) if dates else None
    etree.strip_elements(page, *_DROPPED, with_tail=False)
    for code in page.xpath("//pre"):
        listing = f"```\n{code.text_content().strip()}\n```"
        code[:] = []
        code.text = listing.translate(_HIDDEN)
    for element in page.iter(*_BLOCKS.split()):
        mark = _MARKS.get(element.tag, "")
        element.text = f"\n\n{mark}{(element.text or '').lstrip() if mark else element.text or ''}"
        element.tail = f"\n\n{element.tail or ''}"
    for element in page.iter("td", "th", "br"):
        element.tail = ("\n" if element.tag == "br" else " | ") + (element.tail or "")
    blocks = (plain(block).translate(_SHOWN) for block in re.split(r"\n\s*\n", page.text_content()))
    return title, stated[0] if stated else "", "\n\n".join(block for block in blocks if block not in ("", "-", "|"))
