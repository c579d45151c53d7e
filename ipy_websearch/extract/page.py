"""A fetched body as Markdown: `extract`, the one door of the extraction.

HTML is scanned (may it be parsed at all?), parsed, asked what it says about itself, cleaned, cut to its content (`content`) and
rendered (`markdown`). All of it works on hostile input and is meant to run in the worker process, which can be killed.
"""

from __future__ import annotations

import html as entities
import json
import re
from datetime import datetime
from typing import Any

from lxml import etree, html

from ipy_websearch.extract.content import HEADINGS, keep_content
from ipy_websearch.extract.formats import (
    decode,
    is_binary,
    kind_of,
    page_of,
    parse_date,
    read_pdf,
    read_text,
    refusal,
    web_address,
)
from ipy_websearch.extract.markdown import markdown, plain_code, plain_formulas
from ipy_websearch.results import Page
from ipy_websearch.text import visible

# libxml2 is quadratic in the attributes of one tag (25,000 take 3.8 s, 100,000 take 143 s) and drops text below its depth
# limit without a word. Measured November 2026.
_MAX_CHARACTERS = 5_300_000
_MAX_TAG = 10_000  # characters of a tag besides its quoted values: 5,000 attributes at most
_MAX_DEPTH = 300
_MAX_TAGS = 150_000

# A comment, an element whose text is not for readers, or a tag. Whatever is begun ends at the latest at the end of the page,
# and every part is possessive, so that a match never backtracks and a scan takes linear time.
_QUOTED = r"=\s*+(?:\"[^\"]*+\"?+|'[^']*+'?+)"
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</\1[^>]*+>?+|\Z)"
    rf"|<(?P<end>/)?+(?P<name>[a-z][^\s/>]*+)(?P<rest>(?:{_QUOTED}|[^>])*+)>?+",
    re.IGNORECASE | re.DOTALL,
)
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


def extract(body: bytes, *, url: str, content_type: str = "", plain: str = "") -> Page:
    """Return the page as Markdown; relative links are resolved against `url`.

    `content_type` is the header's value. `plain` asks for the words alone and says why: they take linear time, whatever the
    page is.

    Raises:
        FetchError: the body is not text (an image, an archive, …); the message says what it is.
    """
    kind = kind_of(body, content_type)
    if kind == "application/pdf":
        return read_pdf(body, url)
    is_text = kind.startswith("text/") or kind.endswith(("json", "xml", "javascript", "yaml", "toml", "x-sh", "sql"))
    text = decode(body, content_type) if is_text else ""
    if not is_text or is_binary(text):
        raise refusal(url, f"binary data sent as {kind}" if is_text else kind, len(body))
    if kind not in _HTML_KINDS and not (kind.endswith("xml") and _HTML_TAG.search(text[:2000])):
        return read_text(text, kind, url)
    why = plain or too_hard(text)
    return _words(text, url, why) if why else _html(text, url)


def too_hard(page: str) -> str:
    """Return why a page must not be parsed, "" when it may be: one linear pass without recursion, about 10 ms for 1 MB."""
    if len(page) > _MAX_CHARACTERS:
        return f"the page has {len(page):,} characters"
    depth = tags = 0
    for found in _MARKUP.finditer(page):
        name = (found["name"] or "").lower()
        if name and len(found[0]) > _MAX_TAG and len(re.sub(_QUOTED, "", found[0])) > _MAX_TAG:
            return "a tag has too many attributes"
        if name and name not in _UNNESTED and not found["rest"].endswith("/"):
            depth = max(0, depth + (-1 if found["end"] else 1))
        tags += not found["end"]
        if depth > _MAX_DEPTH or tags > _MAX_TAGS:
            return f"more than {_MAX_TAGS:,} tags, or {_MAX_DEPTH} within each other"
    return ""


def _words(page: str, url: str, why: str) -> Page:
    """Return the page's words without any structure, in linear time: the last resort."""
    bare = _MARKUP.sub(lambda m: "\n" if (m["name"] or "").lower() in _BLOCKS else "", page[:_MAX_CHARACTERS])
    lines = (" ".join(line.split()) for line in visible(entities.unescape(bare)).split("\n"))
    words = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return page_of(url, words, note=f"plain text only: {why}")


def _html(text: str, url: str) -> Page:
    try:
        root = parse(text)
        title, date, kinds = metadata(root)
        links = clean(root, url)
        if _length(root.body) < _EMPTY_CHARACTERS and (filled_in := embedded_content(parse(text))):
            root = parse(filled_in)
            links |= clean(root, url)
        keep_content(root, url=url, kinds=kinds)
        return page_of(url, visible(markdown(root.body)), title, date, links)
    except RecursionError:
        return _words(text, url, "its elements are nested too deep")


def parse(text: str) -> Any:
    """Return the `<html>` element of `text`, with a head and a body."""
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    # lxml.html's own lookup runs Python code for every element; trafilatura asks only that they are HtmlElements.
    parser.set_element_class_lookup(etree.ElementDefaultClassLookup(element=html.HtmlElement, comment=html.HtmlComment))
    whole = "<html>" + _EARLY_END.sub("", text)  # lxml refuses a document without any element
    root = html.document_fromstring(whole.encode("utf-8", "replace"), parser=parser, ensure_head_body=True)
    # libxml2 ends a head at HTML 4's elements alone: <main> and <article> right behind it land in the head.
    root.body[:0] = [element for element in root.head if element.tag not in _NEVER_CONTENT]
    return root


# --- cleaning -------------------------------------------------------------------------------------------------------------


def clean(root: Any, url: str) -> dict[str, None]:
    """Take out scripts, images and what is hidden, make links absolute; return the http(s) links, each once, in order."""
    body = root.body
    for frame in root.xpath(".//frame[@src]"):  # all that a frameset shows stands at other addresses
        link = etree.SubElement(etree.SubElement(body, "p"), "a", href=frame.get("src"))
        link.text = f"Frame: {frame.get('title') or frame.get('name') or frame.get('src')}"
    links = _absolute_links(root, url)
    if visible(words := "".join(body.itertext())) != words:  # what is not visible could not be set again, nor should it be read
        for element in body.iter():
            element.text = visible(element.text) if element.text else None
            element.tail = visible(element.tail) if element.tail else None
    etree.strip_elements(body, *_NEVER_CONTENT, with_tail=False)
    plain_formulas(body)
    _drop_hidden(body)
    plain_code(body)
    for anchor in list(body.iter("a")):  # the pilcrows and link icons on headings
        text = anchor.text_content().strip().lower()
        if text in ("¶", "§") or (text in ("#", "🔗", "\uf0c1", "link", "permalink") and _in_heading(anchor)):
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
    return next(element.iterancestors(*HEADINGS, "dt"), None) is not None


def _absolute_links(root: Any, url: str) -> dict[str, None]:
    """Make every address absolute against `<base>` and `url`, drop those that are not http(s); return the links."""
    base = root.find(".//base[@href]")
    if base is not None:
        url = web_address(base.get("href"), url) or url
    links: dict[str, None] = {}
    for element in root.iter("a", "area"):
        href = element.attrib.pop("href", "")
        within = href.startswith("#")
        if not (within and _in_heading(element)) and (address := web_address(href, url)):  # headings link to themselves
            element.set("href", address)
            links |= {} if within else {address: None}
    return links


# --- what a page says about itself ----------------------------------------------------------------------------------------

_DATE_NAMES = (
    "article:published_time", "og:article:published_time", "datepublished", "date", "dc.date", "dc.date.issued",
    "dcterms.date", "dcterms.created", "dc.date.created", "citation_publication_date", "citation_date", "pubdate",
    "publish-date", "publish_date", "publication_date", "parsely-pub-date", "sailthru.date", "article.published",
    "cxenseparse:recs:publishtime", "published_time",
)  # fmt: skip
_TITLE_NAMES = ("og:title", "twitter:title", "citation_title", "dc.title", "dcterms.title")
_META = etree.XPath("//meta[normalize-space(@content)]")
_TITLES = etree.XPath("//title | //h1")
_DATED = etree.XPath("//*[@itemprop='datePublished' or @pubdate] | //time[contains(@class, 'published')]")


def metadata(root: Any) -> tuple[str, datetime | None, frozenset[str]]:
    """Return a page's own title, date of publication, and schema.org and Open Graph types in lower case ("article", "qapage").

    Nothing is guessed from its text.
    """
    metas: dict[str, str] = {}
    for meta in _META(root):
        name = meta.get("property") or meta.get("name") or meta.get("itemprop") or ""
        metas.setdefault(name.strip().lower(), meta.get("content"))
    items = [_json(script.text or "") for script in root.iter("script") if "ld+json" in (script.get("type") or "")]
    for found in items:  # which grows
        items += found if isinstance(found, list) else [found.get("@graph")] if isinstance(found, dict) else []
    items = [found for found in items if isinstance(found, dict)]
    titles = [metas[name] for name in _TITLE_NAMES if name in metas]
    titles += ["".join(element.itertext()) for element in _TITLES(root)]
    dates = [str(item.get("datePublished")) for item in items]
    dates += [metas[name] for name in _DATE_NAMES if name in metas]
    dates += [e.get("datetime") or e.get("content") or e.get("title") or "" for e in _DATED(root)]
    kinds = " ".join((metas.get("og:type", ""), *(str(item.get("@type")) for item in items)))
    title = next((text[:1000] for text in titles if text.strip()), "")
    return title, next(filter(None, map(parse_date, dates)), None), frozenset(re.findall(r"\w+", kinds.lower()))


def _json(text: str) -> Any:
    """Return the object or list that a text is, None for anything else."""
    if len(text) > _MAX_JSON or not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


# --- pages that are empty until a script fills them -----------------------------------------------------------------------

_ENOUGH_CHARACTERS = 400
_MAX_JSON = 3_000_000
_MAX_TEXTS = 2_000
_BLANK_LINE = "\n\n"
_TEXT_KEYS = re.compile(r"articleBody|cooked|body|content|contentHtml|html|text|description", re.IGNORECASE)
_PROSE = re.compile(r"\s*<(?:p|div|h[1-6]|ul|ol|table|blockquote|pre)\b", re.IGNORECASE)


def embedded_content(root: Any) -> str:
    """Return HTML for the page's body out of its noscript parts or its JSON, "" when neither holds enough.

    Asked only when the page shows next to nothing without it, so that no text that a reader cannot see is added to others.
    """
    parts = [e for e in root.iter("noscript") if len(e.text_content().strip()) > _ENOUGH_CHARACTERS]
    if parts:
        found = "".join(etree.tostring(e, encoding="unicode", method="html", with_tail=False) for e in parts)
        return found.replace("noscript", "div")
    texts = _texts([script.text or "" for script in root.iter("script") if "json" in (script.get("type") or "")])
    parts = [t if _PROSE.search(t) else f"<p>{entities.escape(t).replace(_BLANK_LINE, '<p>')}" for t in texts]
    return "".join(f"<article>{part}</article>" for part in parts) if sum(map(len, texts)) >= _ENOUGH_CHARACTERS else ""


def _texts(scripts: list[str]) -> list[str]:
    """Return the strings in JSON texts that are prose, each once; JSON within strings is looked into."""
    stack: list[tuple[str, Any]] = [("", script) for script in reversed(scripts)]
    texts: dict[str, None] = {}
    while stack and len(texts) < _MAX_TEXTS:
        key, value = stack.pop()
        value = (_json(value) or value) if isinstance(value, str) else value
        if isinstance(value, dict):
            stack.extend(reversed(value.items()))
        elif isinstance(value, list):
            stack.extend((key, item) for item in reversed(value))
        elif isinstance(value, str) and _is_prose(key, value):
            texts[value] = None
    return list(texts)


def _is_prose(key: str, value: str) -> bool:
    if _TEXT_KEYS.fullmatch(key) is None or "function(" in value or "{" in value[:200]:
        return False
    return _PROSE.match(value) is not None or (len(value) > 80 and value.count(" ") > len(value) / 12)
