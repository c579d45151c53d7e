"""A fetched body as Markdown for a model: `extract`, the one door of the extraction.

HTML goes through `scan` (may it be parsed?), `clean` (absolute links, nothing hidden), `content` (what is content) and
`render`. Everything here works on hostile input; it is meant to run in the worker process, which can be killed.
"""

from __future__ import annotations

from typing import Literal

from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.charset import decode
from ipy_websearch.extract.plaintext import plain_text
from ipy_websearch.extract.scan import scan

Mode = Literal["main", "page"]


def extract(body: bytes | str, *, url: str, content_type: str = "", mode: Mode = "main") -> Extracted:
    """Return the page as Markdown.

    `mode` "main" keeps what the page is about, "page" everything visible. `content_type` is the header's value.

    Raises:
        FetchError: the body is not text (an image, an archive, …); the message says what it is.
    """
    text = body.replace("\0", "") if isinstance(body, str) else decode(body, content_type)
    return _extract_html(text, url, mode)


def warm() -> None:
    """Import what HTML pages need, so that the first one does not wait for it."""
    import html_to_markdown  # noqa: F401
    import trafilatura  # noqa: F401

    from ipy_websearch.extract import about, clean, content, render # noqa: F401


def _extract_html(text: str, url: str, mode: Mode) -> Extracted:
    verdict = scan(text)
    if verdict.refusal:
        return plain_text(text, verdict.refusal)
    from ipy_websearch.extract.about import about
    from ipy_websearch.extract.clean import clean, parse
    from ipy_websearch.extract.content import choose
    from ipy_websearch.extract.embedded import EMPTY_CHARACTERS, embedded_content
    from ipy_websearch.extract.render import markdown
    from ipy_websearch.extract.runs import Page
    from ipy_websearch.extract.tree import length

    root = parse(text)
    facts = about(root)
    links = clean(root, url)
    filled_in = None
    if length(root.find("body")) < EMPTY_CHARACTERS and (filled_in := embedded_content(parse(text))):
        root = parse(filled_in)
        links = tuple(dict.fromkeys((*links, *clean(root, url))))
    body = root.find("body")
    if mode == "main":
        page = Page(body)
        choose(root, page, url=url, kinds=facts.kinds, heavy=verdict.heavy)
        if any(run.keep for run in page.runs):
            page.drop_unkept()
    return Extracted(markdown(body), facts.title, facts.published_date, facts.language, links)
