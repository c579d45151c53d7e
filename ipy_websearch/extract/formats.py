"""Bodies that are not HTML: what they are, and the text ones as Markdown.

What a body is, its first bytes decide where they are unmistakable, then the Content-Type, then its look. Whatever is not
text is refused with a message that says what it is.
"""

from __future__ import annotations

import json
import re

from ipy_websearch.errors import FetchError
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.plaintext import web_links
from ipy_websearch.text import visible

_MAGIC = (
    (b"%PDF-", "application/pdf"), (b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp or another RIFF file"), (b"PK\x03\x04", "application/zip"), (b"\x1f\x8b", "application/gzip"),
    (b"7z\xbc\xaf", "application/x-7z-compressed"), (b"Rar!", "application/vnd.rar"), (b"\x7fELF", "application/x-elf"),
    (b"MZ\x90", "application/x-msdownload"), (b"OggS", "audio/ogg"), (b"ID3", "audio/mpeg"), (b"fLaC", "audio/flac"),
    (b"\x00\x00\x01\x00", "image/x-icon"), (b"wOF", "font/woff"), (b"BZh", "application/x-bzip2"),
    (b"SQLite format 3\x00", "application/vnd.sqlite3"), (b"\x28\xb5\x2f\xfd", "application/zstd"),
    (b"\xd0\xcf\x11\xe0", "application/x-ole-storage"), (b"PAR1", "application/vnd.apache.parquet"),
)  # fmt: skip
_HTML = re.compile(r"\s*(?:<!--.{0,2000}?-->\s*)*<(?:!doctype\s+html|[a-z][a-z0-9]{0,15}[\s>/])", re.IGNORECASE | re.DOTALL)
_XML = re.compile(r"\s*<(?:\?xml|rss|feed|urlset|sitemapindex)\b")
_MEDIA_TYPE = re.compile(r"[a-z0-9.+-]{1,60}/[a-z0-9.+_-]{1,100}")
_SAYS_NOTHING = frozenset({"application/octet-stream", "binary/octet-stream", "unknown/unknown", "application/unknown"})
_CODE = {
    "application/javascript": "js", "text/javascript": "js", "application/x-javascript": "js", "text/css": "css",
    "application/yaml": "yaml", "application/x-yaml": "yaml", "text/yaml": "yaml", "application/toml": "toml",
    "application/x-sh": "sh", "text/x-python": "python", "text/x-c": "c", "text/x-shellscript": "sh",
    "application/sql": "sql", "application/graphql": "graphql", "application/x-tex": "tex", "text/x-java-source": "java",
}  # fmt: skip
_PLAIN = frozenset({"application/rtf", "application/x-subrip", "application/pgp-signature", "application/x-httpd-php"})
_IMAGE = re.compile(r"!\[([^\]\n]{0,500})\](?:\([^)\n]{0,2000}\)|\[[^\]\n]{0,200}\])")
_FENCE = re.compile(r"^[ \t>]*(`{3,}|~{3,})", re.MULTILINE)
_PRETTY_CHARACTERS = 1_000_000
_BINARY_SHARE = 0.05
_LOOK = 4096


def kind_of(body: bytes, content_type: str) -> str:
    """Return the media type that `body` really has, in lower case without parameters; "" for binary data of no known type."""
    for magic, kind in _MAGIC:
        if body.startswith(magic):
            return kind
    kind = content_type.partition(";")[0].strip().lower()
    if not _MEDIA_TYPE.fullmatch(kind) or kind in _SAYS_NOTHING:
        return _looks_like(body)
    if kind.startswith("application/") and not is_text(kind) and _looks_like(body):
        return "text/plain"  # a type that we do not know, but text all the same
    return kind


def _looks_like(body: bytes) -> str:
    head = body[:_LOOK].decode("utf-8", "replace").lstrip("\ufeff")
    if looks_binary(head):
        return ""
    if _XML.match(head):
        return "application/xml"
    if _HTML.match(head):
        return "text/html"
    if re.match(r"\s*[\[{]", head) and _json(body[:_PRETTY_CHARACTERS].decode("utf-8", "replace")) is not None:
        return "application/json"
    return "text/plain"


def looks_binary(text: str) -> bool:
    """Return whether decoded text is no text at all: more than 5 % of its start is control or replacement characters."""
    start = text[:_LOOK]
    odd = sum(c == "\ufffd" or (c < " " and c not in "\t\n\r\f\x1b") or "\x7f" <= c < "\xa0" for c in start)
    return odd > 3 and odd > _BINARY_SHARE * len(start)


def is_text(kind: str) -> bool:
    """Return whether bodies of this media type can be shown as text."""
    return kind.startswith("text/") or kind.endswith(("json", "xml", "+yaml")) or kind in _CODE or kind in _PLAIN


def refusal(url: str, kind: str, size: int) -> FetchError:
    """Return the error for a body that cannot be read, saying what it is."""
    amount = f"{size / 1e6:.1f} MB" if size >= 1_000_000 else f"{size / 1e3:.0f} kB" if size >= 1000 else f"{size} bytes"
    return FetchError(f"{url} is {kind or 'binary data'}, {amount}; only text pages and PDFs can be read")


def text_markdown(text: str, kind: str, url: str) -> Extracted:
    """Return a text body that is neither HTML nor XML as Markdown."""
    text = visible(text.removeprefix("\ufeff"))
    links = web_links(text)
    if kind.endswith("json"):
        return Extracted(fenced(_pretty(text), "json"), links=links)
    if kind in ("text/csv", "text/tab-separated-values"):
        return Extracted(_csv_table(text, "\t" if kind.endswith("values") else ""), links=links)
    if kind in _CODE:
        return Extracted(fenced(text, _CODE[kind]), links=links)
    if "markdown" in kind or url.partition("?")[0].lower().endswith((".md", ".markdown")):
        text = _without_images(text)
        title = re.search(r"^# +(.{1,300}?)[ #]*$", text, re.MULTILINE)
        return Extracted(_ended(text), title=title[1] if title else "", links=links)
    return Extracted(_ended(text), links=links)


def fenced(text: str, language: str) -> str:
    """Return `text` as a fenced code block that nothing in it can close; "" for an empty one."""
    if not text.strip():
        return ""
    longest = max((len(m[1]) for m in _FENCE.finditer(text)), default=2)
    fence = "`" * max(3, longest + 1)
    body = text.strip("\n")
    return f"{fence}{language}\n{body}\n{fence}\n"


def _ended(text: str) -> str:
    text = text.strip("\n")
    return text + "\n" if text.strip() else ""


def _json(text: str) -> object | None:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _pretty(text: str) -> str:
    """Return JSON in lines; what comes in lines already, is huge or is no JSON stays as it is."""
    if text.count("\n") > 3 or len(text) > _PRETTY_CHARACTERS:
        return text
    value = _json(text)
    try:
        return text if value is None else json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _without_images(text: str) -> str:
    """Return Markdown with each image replaced by its text, code blocks left alone."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        lines.append(line if fence else _IMAGE.sub(r"\1", line))
    return "\n".join(lines)


def _csv_table(text: str, delimiter: str) -> str:
    import csv

    head = text[:_LOOK].partition("\n")[0]
    delimiter = delimiter or max(",;\t|", key=head.count)
    try:
        rows = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if any(row)]
    except csv.Error:
        return fenced(text, "csv")
    width = max(map(len, rows), default=0)
    if not rows or width < 2 or width * len(rows) > 20 * sum(map(len, rows)):
        return fenced(text, "csv")
    cells = [[" ".join(c.split()).replace("|", "\\|") for c in row] + [""] * (width - len(row)) for row in rows]
    lines = ["| " + " | ".join(row) + " |" for row in cells]
    return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]]) + "\n"
