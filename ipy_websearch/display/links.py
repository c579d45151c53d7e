"""Which addresses may become links, and how. Anything that is not plainly http, https or mailto is shown as text.

Every `href` that the package writes comes from `safe_href`, in HTML and in Markdown.
"""

from __future__ import annotations

import re
from functools import lru_cache
from html import escape
from urllib.parse import quote, urlsplit

from ipy_websearch.text import shorten, visible

_AUTHORITY = re.compile(r"(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{0,5})?")
_BREAKS = re.compile(r"[\t\n\u2028\u2029]")  # browsers and urlsplit drop the first two silently
_MAILTO = re.compile(r"mailto:[^\s:@]+@[^\s:@]+", re.IGNORECASE)
_KEEP = "/?#:@!$&'()*+,;=%-._~"
_MAX_LENGTH = 4096

REL = 'rel="noopener noreferrer nofollow" target="_blank"'
"""The attributes of every link: no opener, no referrer, a tab of its own."""


@lru_cache(maxsize=2048)
def safe_href(url: str) -> str | None:
    """Return the address as printable ASCII without quotes, brackets and backslashes, or None when it may not be a link.

    Only http and https with a host and without a user name, and mailto with an address, pass; `javascript:`, `data:`,
    `file:`, `corpus:`, relative and scheme-less addresses do not. The result still needs `html.escape` (ampersands).
    """
    url = _BREAKS.sub("", visible(url)).strip()
    if len(url) > _MAX_LENGTH:
        return None
    if _MAILTO.fullmatch(url):
        return quote(url, safe=_KEEP)
    try:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
        netloc = parts.netloc if parts.netloc.isascii() else _ascii_host(parts.netloc)
    except ValueError:
        return None
    if not _AUTHORITY.fullmatch(netloc):
        return None
    rest = url.split("://", 1)[1][len(parts.netloc) :]
    href = f"{parts.scheme}://{netloc}{quote(rest, safe=_KEEP)}"
    return href if len(href) <= _MAX_LENGTH else None  # as it is written: percent codes make it longer


def _ascii_host(netloc: str) -> str:
    name, colon, port = netloc.partition(":")
    return f"{name.encode('idna').decode('ascii')}{colon}{port}"


def host_of(url: str) -> str:
    """Return the host of an address without "www.", or the scheme of one that has none ("corpus", "file")."""
    try:
        parts = urlsplit(visible(url).strip())
        return (parts.hostname or parts.scheme or "").removeprefix("www.")
    except ValueError:
        return ""


def short_address(url: str, width: int = 60) -> str:
    """Return host and path for a line of text: "example.com/docs/a.html"."""
    url = _BREAKS.sub("", visible(url)).strip()
    return shorten(re.sub(r"^[a-zA-Z][a-zA-Z0-9+.-]*://(?:www\.)?", "", url).split("?")[0].split("#")[0].rstrip("/"), width)


def link_html(url: str, text: str, *, css_class: str = "") -> str:
    """Return `text` as a link to `url`, or as mere text when the address may not be one. Both are escaped here."""
    href = safe_href(url)
    if href is None:
        return escape(visible(text))
    mark = f' class="{css_class}"' if css_class else ""
    return f'<a{mark} href="{escape(href)}" {REL}>{escape(visible(text))}</a>'
