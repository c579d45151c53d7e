"""What reads the benchmarks' pages: the package, and those of its peers that are installed."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import urljoin

Reader = Callable[[bytes, str], str]

OURS = "ipy_websearch"
FORUM = "https://forum.example.org/t/topics/viewtopic-{}/123"
"""An address that looks like a forum's thread: it must not change how a page is read."""


def readers() -> dict[str, Reader]:
    """Return each reader's name with a function from a body and its address to Markdown."""
    found: dict[str, Reader] = {OURS: _ours(), f"{OURS}, addresses like a forum's": _ours(FORUM)}
    peers = (("trafilatura", "text", _trafilatura_text), ("trafilatura", "Markdown", _trafilatura))
    for package, form, make in (*peers, ("html-to-markdown", "whole page", _html_to_markdown)):
        try:
            found[f"{package} {version(package)}, {form}"] = make(importlib.import_module(package.replace("-", "_")))
        except (ImportError, PackageNotFoundError):
            continue
    return found


def _ours(address: str = "") -> Reader:
    from ipy_websearch.extract.page import extract

    extract(b"<title>t</title><p>A sentence, to be judged.</p>", url="http://localhost/")  # loads the parsers
    kind = "text/html; charset=utf-8"
    return lambda body, url: extract(body, url=address.format(len(url)) or url, content_type=kind).markdown


def _trafilatura(package: Any) -> Reader:
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    options = {"output_format": "markdown", "include_links": True, "include_comments": False}
    return lambda body, url: package.extract(_absolute(body, url), url=url, **options) or ""


def _trafilatura_text(package: Any) -> Reader:
    logging.getLogger("trafilatura").setLevel(logging.CRITICAL)
    return lambda body, url: package.extract(body.decode("utf-8", "replace"), url=url, include_comments=False) or ""


def _html_to_markdown(package: Any) -> Reader:
    return lambda body, url: str(package.convert(_absolute(body, url)).content or "")


def _absolute(body: bytes, url: str) -> str:
    """Return the page with absolute links, which the peers do not make, or make wrongly."""
    from lxml import html

    text = body.decode("utf-8", "replace").replace("\0", "")
    try:
        root = html.document_fromstring(text.encode(), parser=html.HTMLParser(encoding="utf-8", huge_tree=True))
        root.rewrite_links(lambda link: urljoin(url, link.strip()), resolve_base_href=False)
        return html.tostring(root, encoding="unicode")
    except Exception:  # what lxml cannot take apart, the peer gets as it is
        return text
