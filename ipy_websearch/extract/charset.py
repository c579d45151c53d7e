"""Bytes to text. A charset that is wrong, unknown or hostile never raises: the next one in line is tried.

Order: a byte order mark, the pattern of UTF-16 or ISO-2022-JP in the bytes, the Content-Type header, the page's own `<meta>`
or XML declaration, UTF-8 when the bytes are valid UTF-8, one of the named charsets when nearly all bytes fit it, detection by
charset-normalizer when it is installed (trafilatura brings it), and windows-1252, in which every byte means something. The
WHATWG encoding standard has the mark win over the header (encoding.spec.whatwg.org, section 4.2, read 2026-11) and reads the
labels latin-1 and ascii as windows-1252.
"""

from __future__ import annotations

import codecs
import re

_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_HEADER = re.compile(r"charset\s*=\s*[\"']?\s*([^\s\"';,]{1,40})", re.IGNORECASE)
_META = re.compile(rb"<meta[^>]{0,200}?charset\s{0,5}=\s{0,5}[\"']?\s{0,5}([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_XML = re.compile(rb"^\s{0,20}<\?xml[^>]{0,100}?encoding\s{0,5}=\s{0,5}[\"']([A-Za-z0-9_:.-]{1,40})")
_LATIN = {
    "iso8859-1": "cp1252",
    "ascii": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
}
_HEAD_BYTES = 4096
_SAMPLE_BYTES = 65_536
_ZEROS, _STRAY_ZEROS = 0.2, 0.02
_FEW_ERRORS = 0.01


def decode(body: bytes, content_type: str = "") -> str:
    """Return the text of `body`; bytes that do not fit the charset become U+FFFD, NUL bytes are gone."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return body[len(mark) :].decode(name, "replace").replace("\0", "")
    if (pattern := _wide(body) or _escaped(body)) and (text := _strict(body, pattern)) is not None:
        return text.replace("\0", "")
    header = _HEADER.search(content_type)
    named = [header[1]] if header else []
    head = body[:_HEAD_BYTES]
    named += [m[1].decode("ascii") for m in (_META.search(head), _XML.search(head)) if m]
    for label in named:
        text = _strict(body, label)
        if text is not None:
            return text.replace("\0", "")
    return _guess(body, named).replace("\0", "")


def _codec(label: str) -> str | None:
    """Return Python's name of the text encoding that `label` stands for, or None when it is not one."""
    try:
        info = codecs.lookup(label)
    except (LookupError, ValueError):
        return None
    if not getattr(info, "_is_text_encoding", True) or info.name in (
        "idna",
        "punycode",
        "unicode_escape",
        "raw_unicode_escape",
    ):
        return None
    return _LATIN.get(info.name, info.name)


def _strict(body: bytes, label: str) -> str | None:
    name = _codec(label)
    if name is None or (name.startswith("utf-16") and b"<" in body[:100] and b"\0" not in body[:200]):
        return None
    try:
        return body.decode(name)
    except (UnicodeError, ValueError):
        return None


def _wide(body: bytes) -> str:
    """Return the UTF-16 that bytes without a mark look like, "" for none: in its markup every other byte is zero."""
    head = body[:_HEAD_BYTES]
    even, odd, pairs = head[::2].count(0), head[1::2].count(0), len(head) // 2
    if len(body) % 2 or pairs < 8 or max(even, odd) < _ZEROS * pairs or min(even, odd) > _STRAY_ZEROS * pairs:
        return ""
    return "utf-16-le" if odd > even else "utf-16-be"


def _escaped(body: bytes) -> str:
    return "iso2022_jp" if b"\x1b$B" in body[:_SAMPLE_BYTES] and b"\x1b(B" in body else ""


def _guess(body: bytes, named: list[str]) -> str:
    text = _strict(body, "utf-8")
    if text is not None:
        return text
    known = [codec for label in named if (codec := _codec(label)) and not codec.startswith(("utf-16", "utf-32"))]
    for codec in known:
        text = body.decode(codec, "replace")
        if text.count("\ufffd") <= _FEW_ERRORS * len(text):  # the right charset, and a few broken bytes
            return text
    return body.decode(_detected(body) or next(iter(known), "cp1252"), "replace")


def _detected(body: bytes) -> str | None:
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return None
    best = from_bytes(body[:_SAMPLE_BYTES]).best()
    return _codec(best.encoding) if best is not None else None
