"""A fetched body as Markdown for a model: `extract`, the one door of the extraction.

HTML goes through `scan` (may it be parsed?), `clean` (absolute links, nothing hidden), `content` (what the page is about)
and `render` (Markdown). Everything here works on hostile input; it is meant to run in the worker process, which can be killed.
"""

from __future__ import annotations

import re
from typing import Literal

from ipy_websearch.extract.charset import decode
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.formats import is_text, kind_of, looks_binary, refusal, text_markdown
from ipy_websearch.extract.plaintext import MAX_LINKS, plain_text
from ipy_websearch.extract.scan import scan

Mode = Literal["main", "page"]

_HTML_KINDS = frozenset({"text/html", "application/xhtml+xml"})
_HTML_TAG = re.compile(r"<(?:!doctype html|html)\b", re.IGNORECASE)


def extract(body: bytes | str, *, url: str, content_type: str = "", mode: Mode = "main") -> Extracted:
    """Return the page as Markdown.

    `mode` "main" keeps what the page is about, "page" everything visible but navigation. `content_type` is the header's
    value; `url` is what relative links are resolved against.

    Raises:
        FetchError: the body is not text (an image, an archive, …); the message says what it is.
    """
    size = len(body)
    data = body.encode("utf-8", "replace") if isinstance(body, str) else body
    kind = kind_of(data, content_type)
    if kind == "application/pdf":
        from ipy_websearch.extract.pdf import pdf_markdown

        return pdf_markdown(data)
    if not is_text(kind):
        raise refusal(url, kind, size)
    text = body.replace("\0", "") if isinstance(body, str) else decode(body, content_type)
    if looks_binary(text):
        raise refusal(url, f"binary data sent as {kind}", size)
    if kind in _HTML_KINDS or (kind.endswith("xml") and _HTML_TAG.search(text[:2000])):
        return _html(text, url, mode)
    if kind.endswith("xml"):
        return _xml(text, url)
    return text_markdown(text, kind, url)


def warm() -> None:
    """Read a small page, so that the first real one does not wait for imports and tables."""
    _html("<title>t</title><aside>a</aside><p>A sentence, to be judged.</p>", "http://localhost/", "main")


def _html(text: str, url: str, mode: Mode) -> Extracted:
    verdict = scan(text)
    if verdict.refusal:
        return plain_text(text, verdict.refusal)
    try:
        return _structured(text, url, mode, heavy=verdict.heavy)
    except RecursionError:
        return plain_text(text, "its elements are nested too deep")


def _structured(text: str, url: str, mode: Mode, *, heavy: bool) -> Extracted:
    from ipy_websearch.extract.about import about
    from ipy_websearch.extract.clean import clean, drop_navigation, parse
    from ipy_websearch.extract.content import choose
    from ipy_websearch.extract.embedded import EMPTY_CHARACTERS, embedded_content
    from ipy_websearch.extract.render import markdown
    from ipy_websearch.extract.runs import Page
    from ipy_websearch.extract.tree import length

    root = parse(text)
    facts = about(root)
    links = clean(root, url)
    if length(root.find("body")) < EMPTY_CHARACTERS and (filled_in := embedded_content(parse(text))):
        root = parse(filled_in)
        links = tuple(dict.fromkeys((*links, *clean(root, url))))
    body = root.find("body")
    if mode == "page":
        drop_navigation(body)
    else:
        page = Page(body)
        choose(root, page, url=url, kinds=facts.kinds, heavy=heavy)
        if any(run.keep for run in page.runs):
            page.drop_unkept()
    return Extracted(markdown(body), facts.title, facts.published_date, facts.language, links[:MAX_LINKS])


def _xml(text: str, url: str) -> Extracted:
    verdict = scan(text)
    if verdict.refusal:
        return plain_text(text, verdict.refusal)
    from ipy_websearch.extract.feed import xml_markdown

    return xml_markdown(text, url)
