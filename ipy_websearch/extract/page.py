"""A fetched body as Markdown: `extract`, the one door of the extraction.

HTML is scanned (may it be parsed at all?), parsed, cleaned, cut to its content (`content`) and rendered (`markdown`).
All of it works on hostile input and is meant to run in the worker process, which can be killed.
"""

from __future__ import annotations

import html as entities
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin, urlsplit

from lxml import etree, html

from ipy_websearch.extract.content import keep_content
from ipy_websearch.extract.embedded import embedded_content
from ipy_websearch.extract.formats import MAX_LINKS, Extracted, decode, is_binary, kind_of, refusal, text_markdown
from ipy_websearch.extract.markdown import markdown, plain_code, plain_formulas
from ipy_websearch.extract.metadata import metadata
from ipy_websearch.text import visible

# libxml2 is quadratic in the attributes of one tag (25,000 take 3.8 s, 100,000 take 143 s) and drops text below its depth
# limit without a word; trafilatura's time grows faster than the page (5 MB take 24 s). Measured November 2026.
_MAX_CHARACTERS = 5_300_000
_MAX_ATTRIBUTES = 2_000
_MAX_DEPTH = 300
_MAX_TAGS = 150_000
_HEAVY_CHARACTERS = 2_000_000
_HEAVY_TAGS = 25_000

# A start tag as the HTML standard's tokenizer reads it, an end tag, or the start of a comment. Every part is possessive, so
# that a match never backtracks and the scan takes linear time.
_ATTRIBUTE = r"[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"?+|'[^']*+'?+|[^\s>\"'][^\s>]*+)?+)?+"
_TAG = re.compile(rf"<(?:(?P<open>[a-zA-Z][^\s/>]*+)(?P<rest>(?:[\s/]++|{_ATTRIBUTE})*+)|/(?P<close>[a-zA-Z][^\s/>]*+)|!--)")
_ATTRIBUTES = re.compile(_ATTRIBUTE)
_RAW_TEXT = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes"})
_UNNESTED = frozenset(
    "area base br col embed hr img input link meta param source track wbr p li dt dd option optgroup tr td th thead tbody"
    " tfoot rt rp html head body colgroup a".split()
)

_BLOCKS = frozenset(
    "address article aside blockquote br dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav"
    " ol p pre section table tbody td th tr ul".split()
)
_HTML_KINDS = frozenset({"text/html", "application/xhtml+xml"})
_HTML_TAG = re.compile(r"<(?:!doctype html|html)\b", re.IGNORECASE)
# Sloppy templates close the document in its middle; libxml2 then drops all that follows, browsers do not.
_EARLY_END = re.compile(r"</(?:body|html)\s*>", re.IGNORECASE)
_NEVER_CONTENT = (
    "script", "style", "noscript", "template", "iframe", "object", "embed", "applet", "canvas", "svg", "audio", "video",
    "head", "title", "link", "meta", "base", "frameset", "map", "datalist", "select", "input", "textarea", "dialog",
    "progress", "meter", "param", "source", "track", "noframes", "noembed", "img", "picture", "rp",
)  # fmt: skip
_HIDDEN = re.compile(
    r"display:none|visibility:hidden|font-size:0(?![.\d])|opacity:0(?!\.?[1-9])|(?:left|top|text-indent):-\d{3,}"
)
_HIDING = etree.XPath(".//*[@style or @hidden or @popover]")
_MOST_OF_THE_PAGE, _TOO_SHORT = 0.6, 800  # share and characters: short pages are what smuggled instructions are tried on
_EMPTY_CHARACTERS = 250
_COMPLETE = re.compile(r"https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d{1,5})?(?:[/?#]|$)")
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})


def extract(body: bytes, *, url: str, content_type: str = "", plain: str = "") -> Extracted:
    """Return the page as Markdown; relative links are resolved against `url`.

    `content_type` is the header's value. `plain` asks for the words alone and says why: they take linear time, whatever the
    page is.

    Raises:
        FetchError: the body is not text (an image, an archive, …); the message says what it is.
    """
    kind = kind_of(body, content_type)
    if kind == "application/pdf":
        from ipy_websearch.extract.pdf import pdf_markdown

        return pdf_markdown(body)
    is_text = kind.startswith("text/") or kind.endswith(("json", "xml", "javascript", "yaml", "toml", "x-sh", "sql"))
    text = decode(body, content_type) if is_text else ""
    if not is_text or is_binary(text):
        raise refusal(url, f"binary data sent as {kind}" if is_text else kind, len(body))
    is_html = kind in _HTML_KINDS or (kind.endswith("xml") and _HTML_TAG.search(text[:2000]) is not None)
    if not is_html and not kind.endswith("xml"):
        return text_markdown(text, kind, url)
    refused, heavy = (plain, True) if plain else scan(text)
    if refused:
        return _words(text, refused)
    return _html(text, url, heavy=heavy) if is_html else text_markdown(text, kind, url)


def scan(page: str) -> tuple[str, bool]:
    """Return why a page must not be parsed ("" when it may be), and whether it is too heavy for trafilatura.

    One linear pass without recursion, about 10 ms for 1 MB.
    """
    if len(page) > _MAX_CHARACTERS:
        return f"the page has {len(page):,} characters", True
    depth = deepest = tags = raw = 0
    for tag, name, end in _tags(page):
        raw += end - tag.end()
        if tag["open"]:
            tags += 1
            rest = tag["rest"]
            if len(rest) > 2 * _MAX_ATTRIBUTES and sum(1 for _ in _ATTRIBUTES.finditer(rest)) > _MAX_ATTRIBUTES:
                return f"a tag has more than {_MAX_ATTRIBUTES:,} attributes", True
        if name and name not in _UNNESTED and name not in _RAW_TEXT and not (tag["rest"] or "").endswith("/"):
            depth = max(0, depth + (1 if tag["open"] else -1))
            deepest = max(deepest, depth)
    if deepest > _MAX_DEPTH:
        return f"tags are nested {deepest:,} deep", True
    if tags > _MAX_TAGS:
        return f"the page has {tags:,} tags", True
    return "", len(page) - raw > _HEAVY_CHARACTERS or tags > _HEAVY_TAGS


def _tags(page: str) -> Iterator[tuple[re.Match[str], str, int]]:
    """Yield each tag or comment, its name ("" for a comment), and where the text after it begins."""
    position = 0
    while (tag := _TAG.search(page, position)) is not None:
        name = (tag["open"] or tag["close"] or "").lower()
        position = tag.end()
        if not name or (tag["open"] and name in _RAW_TEXT):
            ending = re.compile(re.escape(f"</{name}" if name else "-->"), re.IGNORECASE)
            found = ending.search(page, position)
            position = found.start() if found else len(page)
        yield tag, name, position


def _words(page: str, why: str) -> Extracted:
    """Return the page's words without any structure, in linear time: the last resort."""
    pieces, position = list[str](), 0
    for tag, name, end in _tags(page[:_MAX_CHARACTERS]):
        pieces += [page[position : tag.start()], "\n" if name in _BLOCKS else ""]
        position = end + (1 if page.startswith(">", end) else 0 if name else len("-->"))
    pieces.append(page[position:_MAX_CHARACTERS])
    lines = (" ".join(line.split()) for line in visible(entities.unescape("".join(pieces))).split("\n"))
    words = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return Extracted(words + "\n", note=f"plain text only: {why}")


def _html(text: str, url: str, *, heavy: bool) -> Extracted:
    try:
        root = parse(text)
        facts = metadata(root)
        links = clean(root, url)
        if _length(root.find("body")) < _EMPTY_CHARACTERS and (filled_in := embedded_content(parse(text))):
            root = parse(filled_in)
            links = tuple(dict.fromkeys((*links, *clean(root, url))))
        keep_content(root, url=url, kinds=facts.kinds, heavy=heavy)
        content = visible(markdown(root.find("body")))
    except RecursionError:
        return _words(text, "its elements are nested too deep")
    return Extracted(content, facts.title, facts.published_date, links[:MAX_LINKS])


def parse(text: str) -> Any:
    """Return the `<html>` element of `text`, with a body; an empty document for text without any element."""
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    # lxml.html's own lookup runs Python code for every element; trafilatura asks only that they are HtmlElements.
    parser.set_element_class_lookup(etree.ElementDefaultClassLookup(element=html.HtmlElement, comment=html.HtmlComment))
    try:
        root = html.document_fromstring(_EARLY_END.sub("", text).encode("utf-8", "replace"), parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, AssertionError):
        root = html.document_fromstring("<html><body></body></html>")
    body, head = root.find("body"), root.find("head")
    if body is None:
        body = etree.SubElement(root, "body")
    # libxml2 ends a head at HTML 4's elements alone: <main> and <article> right behind it land in the head.
    strays = [e for e in head if isinstance(e.tag, str) and e.tag not in _NEVER_CONTENT] if head is not None else []
    for place, element in enumerate(strays):
        body.insert(place, element)
    return root


def clean(root: Any, url: str) -> tuple[str, ...]:
    """Take out scripts, images and what is hidden, make links absolute; return the http(s) links, each once, in order."""
    links = _absolute_links(root, url)
    body = root.find("body")
    for element in body.iter():  # what is not visible could neither be set again, nor should it be read
        element.text = visible(element.text) if element.text else None
        element.tail = visible(element.tail) if element.tail else None
    for element in list(body.iter(*_NEVER_CONTENT)):
        if element.tag == "input" and element.get("type") == "checkbox":
            element.tail = f"[{' ' if element.get('checked') is None else 'x'}] {(element.tail or '').lstrip()}"
        element.drop_tree()
    plain_formulas(body)
    _drop_hidden(body)
    plain_code(body)
    for anchor in list(body.iter("a")):  # the pilcrows and link icons on headings
        text = anchor.text_content().strip().lower()
        if text in ("¶", "§") or (text in ("#", "🔗", "\uf0c1", "link", "permalink", "") and _in_heading(anchor)):
            anchor.drop_tree()
    return links


def _drop_hidden(body: Any) -> None:
    """Remove what its own attributes hide: but not closed tabs, and nothing that holds most of the page's text."""
    total = _length(body)
    for element in _HIDING(body):
        style = "".join((element.get("style") or "").split()).lower()
        hidden = element.get("hidden") is not None or element.get("popover") is not None or _HIDDEN.search(style)
        # A tab that a reader can open, or a part that React streams hidden and moves into place by script.
        shown_later = element.get("role") in ("tabpanel", "region") or (element.get("id") or "").startswith("S:")
        if hidden and not shown_later and _length(element) <= max(_MOST_OF_THE_PAGE * total, _TOO_SHORT):
            element.drop_tree()


def _length(element: Any) -> int:
    return sum(len(text.strip()) for text in element.itertext())


def _in_heading(element: Any) -> bool:
    return any(holder.tag in _HEADINGS or holder.tag == "dt" for holder in element.iterancestors())


def _absolute_links(root: Any, url: str) -> tuple[str, ...]:
    """Make every address absolute against `<base>` and `url`, drop those that are not http(s); return the links."""
    base = root.find(".//base[@href]")
    if base is not None:
        url = web_address(base.get("href"), url) or url
    links: dict[str, None] = {}
    for element in root.iter("a", "area"):
        href = element.attrib.pop("href", None)
        if href is None or (href.startswith("#") and _in_heading(element)):
            continue  # headings link to themselves or back to the contents
        address = web_address(href, url)
        if address:
            element.set("href", address)
            if not href.startswith("#"):
                links.setdefault(address)
    return tuple(links)


def web_address(href: str, base: str) -> str | None:
    """Return `href` as an absolute http(s) address, or None when it is not one (mailto:, javascript:, data:, broken)."""
    if _COMPLETE.match(href) and href.isascii() and href.isprintable() and " " not in href:
        return href
    href = re.sub(r"[\x00-\x1f\x7f]+", "", visible(href)).strip().replace(" ", "%20")
    try:
        address = urljoin(base, href)
        parts = urlsplit(address)
    except ValueError:
        return None
    return address if parts.scheme in ("http", "https") and parts.hostname else None
