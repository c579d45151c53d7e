"""A fetched body as Markdown: `extract`, the one door of the extraction.

HTML is scanned (may it be parsed at all?), parsed, asked what it says about itself, cleaned, cut to its content (`content`) and
rendered. All of it works on hostile input and is meant to run in the worker process, which can be killed.
"""

from __future__ import annotations

import html as entities
import json
import re
from contextlib import suppress
from datetime import datetime
from itertools import islice, product
from typing import Any

import markdownify
from bs4 import Tag
from lxml import etree, html

from ipy_websearch.errors import FetchError
from ipy_websearch.extract.content import HEADINGS, keep_content
from ipy_websearch.extract.formats import (
    decode,
    is_binary,
    kind_of,
    page_of,
    read_pdf,
    read_text,
    web_address,
)
from ipy_websearch.results import Page
from ipy_websearch.text import fenced, parse_date, visible

# A tag takes 20 µs (a table of 7,000 rows has 140,000) and up to 50, so many take up to 7.5 s: less than a page may take.
# libxml2 is quadratic in the attributes of one tag (100,000 take over 10 s); quoted values do not count.
_MAX_TAGS, _MAX_TAG = 150_000, 50_000

# A comment, an element whose text is not for readers, or a tag. Whatever is begun ends at the latest at the end of the page,
# and every part is possessive, so that a match never backtracks and a scan takes linear time.
_QUOTED = r"=\s*+(?:\"[^\"]*+\"?+|'[^']*+'?+)"
_MARKUP = re.compile(
    r"<!--.*?(?:-->|\Z)|<(script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</\1[^>]*+>?+|\Z)"
    rf"|</?+(?P<name>[a-z][^\s/>]*+)(?:{_QUOTED}|[^>])*+>?+",
    re.IGNORECASE | re.DOTALL,
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
_length = etree.XPath("string-length(normalize-space())")
_HIDING = etree.XPath(".//*[@style or @hidden or @popover]")
# The pilcrows and link icons on headings, and KaTeX's second form of a formula.
_REPEATED = etree.XPath(
    ".//span[@class='katex-html'][preceding-sibling::*[1]//math] | .//a[contains('|¶|§|', concat('|', normalize-space(), '|'))"
    " or (contains('|#|🔗|\uf0c1|link|Link|permalink|Permalink|', concat('|', normalize-space(), '|'))"
    " and ancestor::*[contains('|h1|h2|h3|h4|h5|h6|dt|', concat('|', name(), '|'))])]"
)
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
        what = f"binary data sent as {kind}" if is_text else kind or "binary data"
        raise FetchError(f"{url} is {what}, {len(body):,} bytes; only text pages and PDFs can be read")
    if kind not in _HTML_KINDS and not (kind.endswith("xml") and _HTML_TAG.search(text[:2000])):
        return read_text(text, kind, url)
    why = plain or _too_hard(text)
    return _words(text, url, why) if why else _html(text, url)


def _too_hard(page: str) -> str:
    """Return why a page must not be parsed, "" when it may be; takes linear time."""
    long = (re.sub(_QUOTED, "", m[0]) for m in _MARKUP.finditer(page) if m["name"] and len(m[0]) > _MAX_TAG)
    return "it has too many tags or attributes" if page.count("<") > _MAX_TAGS or any(len(t) > _MAX_TAG for t in long) else ""


def _words(page: str, url: str, why: str) -> Page:
    """Return the page's words without any structure, in linear time: the last resort."""
    bare = _MARKUP.sub(lambda m: "\n" if (m["name"] or "").lower() in _BLOCKS else "", page)
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
    """Return the `<html>` element of `text`, with a head and a body; raises RecursionError where they lack some of it."""
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    # lxml.html's own lookup runs Python code for every element; trafilatura asks only that they are HtmlElements.
    parser.set_element_class_lookup(etree.ElementDefaultClassLookup(element=html.HtmlElement, comment=html.HtmlComment))
    whole = "<html>" + _EARLY_END.sub("", text)  # lxml refuses a document without any element
    root = html.document_fromstring(whole.encode("utf-8", "replace"), parser=parser, ensure_head_body=True)
    if parser.error_log.filter_from_fatals():  # beyond a depth of 2,048 elements it drops all text
        raise RecursionError
    # libxml2 ends a head at HTML 4's elements alone: <main> and <article> right behind it land in the head.
    root.body[:0] = [element for element in root.head if element.tag not in _NEVER_CONTENT]
    return root


# --- cleaning -------------------------------------------------------------------------------------------------------------


def clean(root: Any, url: str) -> dict[str, None]:
    """Take out scripts, images and what is hidden, make links absolute; return the http(s) links, each once, in order."""
    body = root.body
    links = _absolute_links(root, url)
    root.head.clear()  # trafilatura copies the tree several times
    etree.strip_elements(body, *_NEVER_CONTENT, with_tail=False)
    if visible(words := "".join(body.itertext())) != words:  # what is not visible could not be set again, nor should it be read
        for element in body.iter():
            element.text = visible(element.text) if element.text else None
            element.tail = visible(element.tail) if element.tail else None
    plain_formulas(body)
    _drop_hidden(body)
    plain_code(body)
    for element in _REPEATED(body):
        element.drop_tree()
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


def _absolute_links(root: Any, url: str) -> dict[str, None]:
    """Make every address absolute against `<base>` and `url`, drop those that are not http(s); return the links."""
    url = web_address(root.xpath("string(.//base/@href)"), url) or url
    links: dict[str, None] = {}
    for element in root.iter("a", "area"):
        href = element.attrib.pop("href", "")
        if href.startswith("#") and next(element.iterancestors(*HEADINGS, "dt"), None) is not None:
            continue  # headings link to themselves
        if href and (address := web_address(href, url)):
            element.set("href", address)
            links |= {} if href.startswith("#") else {address: None}
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
    metas = {
        (meta.get("property") or meta.get("name") or meta.get("itemprop") or "").strip().lower(): meta.get("content")
        for meta in reversed(_META(root))  # so that the first of a name counts
    }
    items = [_json(script.text or "") for script in root.iter("script") if "ld+json" in (script.get("type") or "")]
    for found in items:  # which grows
        items += found if isinstance(found, list) else [found.get("@graph")] if isinstance(found, dict) else []
    items = [found for found in items if isinstance(found, dict)]
    titles = [
        *(metas[name] for name in _TITLE_NAMES if name in metas),
        *("".join(element.itertext()) for element in _TITLES(root)),
    ]
    dates = [
        *(str(item.get("datePublished")) for item in items),
        *(metas[name] for name in _DATE_NAMES if name in metas),
        *(e.get("datetime") or e.get("content") or e.get("title") or "" for e in _DATED(root)),
    ]
    kinds = " ".join((metas.get("og:type", ""), *(str(item.get("@type")) for item in items)))
    title = next((text[:1000] for text in titles if text.strip()), "")
    return title, next(filter(None, map(parse_date, dates)), None), frozenset(re.findall(r"\w+", kinds.lower()))


def _json(text: str, look: Any = None) -> Any:
    """Return the object or list that a text is, None for anything else; `look` is given the pairs of each object."""
    if len(text) <= _MAX_JSON and text.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            return json.loads(text, strict=False, object_pairs_hook=look)
    return None


# --- pages that are empty until a script fills them -----------------------------------------------------------------------

_ENOUGH_CHARACTERS = 400
_MAX_JSON = 3_000_000
_BLANKS = 12  # a string with more of them is text
_BLANK_LINE = "\n\n"
_TEXT_KEYS = re.compile(r"articleBody|cooked|body|content|contentHtml|html|text|description", re.IGNORECASE)
_PROSE = re.compile(r"\s*<(?:p|div|h[1-6]|ul|ol|table|blockquote|pre)\b", re.IGNORECASE)


def embedded_content(root: Any) -> str:
    """Return HTML for the page's body out of its noscript parts or its JSON, "" when neither holds enough.

    Asked only when the page shows next to nothing without it, so that no text that a reader cannot see is added to others.
    """
    if unseen := [e for e in root.xpath("//noscript[not(ancestor::noscript)]") if _length(e) > _ENOUGH_CHARACTERS]:
        parts = (etree.tostring(e, encoding="unicode", method="html", with_tail=False) for e in unseen)
        return "".join(parts).replace("noscript", "div")
    texts: dict[str, None] = {}

    def look(pairs: list[tuple[str, Any]]) -> None:
        for key, value in pairs:
            if isinstance(value, str) and _TEXT_KEYS.fullmatch(key) and (_PROSE.match(value) or value.count(" ") > _BLANKS):
                texts[value] = None

    for script in root.iter("script"):
        if "json" in (script.get("type") or ""):
            _json(script.text or "", look)
    parts = (t if _PROSE.match(t) else f"<p>{entities.escape(t).replace(_BLANK_LINE, '<p>')}" for t in texts)
    return "".join(f"<article>{part}</article>" for part in parts) if sum(map(len, texts)) >= _ENOUGH_CHARACTERS else ""


# --- rendering, by markdownify: CommonMark with GitHub's tables ---------------------------------------------------------

_LANGUAGE = re.compile(
    r"(?<!\S)(?:language-|lang-|highlight-source-|highlight-text-|highlight-|brush:\s*|sourceCode\s+|hljs\s+|src-)"
    r"(?!(?:default|none|text|plain|plaintext|highlight|notranslate|source|language|copyable|wrap|wrapper|code|nohighlight|unknown)\b)"
    r"([A-Za-z][\w+#.-]{0,30})"
)
_LINE_NUMBERS = frozenset(
    "linenos lineno linenodiv linenumber line-number line-numbers gutter blob-num ln-num hljs-ln-numbers"
    " react-code-line-number".split()
)
_TEX = etree.XPath("string(.//annotation[@encoding='application/x-tex'])")
_LINES = ("br", "div", "li", "p", "tr")
_NOT_IN_DATA = ("table", "blockquote", "h1", "h2", "h3", "h4", "form")
_TABLE_PARTS = ("table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption")
_CELL_CHARACTERS = 800
_MAX_SPAN, _MAX_COLUMNS = 50, 100  # that one cell may cover in a direction, and that are looked at for cells from above
# What begins an image, a link, the address of a reference, or HTML (its name may stand in the next text). Backslashes before
# HTML are escaped as well: an even number of them would leave it as it is.
_STRUCTURE = re.compile(r"(?<=!)\[|(?<=\])[(\[:]|(?<!\\)\\*+(?:<(?=[A-Za-z/!?]|\Z)|\Z)")
_TEXTS = etree.XPath(".//text()")
_IN_LINK = etree.XPath("boolean(ancestor-or-self::a)")
_IN_CODE = etree.XPath("boolean(ancestor-or-self::*[self::pre or self::code or self::kbd or self::samp])")
_EXPONENT = re.compile(r"[-+−=()\dn]+")


def plain_formulas(body: Any) -> None:
    """Replace formulas by the TeX source that MathML carries, as `$…$`."""
    for formula in list(body.iter("math")):
        source = " ".join(_TEX(formula).split()) or formula.get("alttext")
        if source:
            formula.getparent().attrib.pop("style", None)  # Wikipedia hides it and shows an image of the formula
            formula.clear(keep_tail=True)
            formula.text = f"${source}$"


def plain_code(body: Any) -> None:
    """Reduce each code block to a `<pre>` with its text; its class is the language that any wrapper names.

    Line numbers go, line breaks stay.
    """
    for element in list(body.iter("td", "span", "div", "pre", "a")):
        numbered = not _LINE_NUMBERS.isdisjoint((element.get("class") or "").lower().split())
        if numbered and not "".join(element.itertext()).strip("0123456789 \t\n\r.:|"):
            element.drop_tree()
    for pre in list(body.iter("pre")):
        holders = (*pre.iter("code"), pre, *islice(pre.iterancestors("div", "figure", "span"), 2))
        named = (f"lang-{e.get('data-lang') or e.get('data-language', '')} {e.get('class', '')}" for e in holders)
        language = _LANGUAGE.search(" ".join(named))
        for line in pre.iter(*_LINES):
            is_ended = "".join(line.itertext()).endswith("\n") or (line.tag != "br" and (line.tail or "").startswith("\n"))
            line.tail = ("" if is_ended else "\n") + (line.tail or "")
        text = "".join(pre.itertext()).strip("\n")
        pre.clear(keep_tail=True)
        pre.text = text
        pre.set("class", language[1].lower() if language else "")


def markdown(body: Any) -> str:
    """Return `body` as Markdown."""
    _part_texts(body)
    for table in reversed(list(body.iter("table"))):
        _complete(table) if _holds_data(table) else _unwrap(table)
    for quote in body.iter("blockquote"):
        if [child.tag for child in quote] in (["div"], ["ul"], ["ol"]) and not (quote.text or "").strip():
            quote.tag = "div"  # docutils indents lists with it
    for inner in list(body.iter("ul", "ol")):
        parent, before = inner.getparent(), inner.getprevious()
        if parent is not None and parent.tag in ("ul", "ol") and before is not None and before.tag == "li":
            before.append(inner)  # a list right in a list belongs to the item before it, as browsers show it
    return str(_CONVERTER.convert(etree.tostring(body, encoding="unicode", method="html")))


def _part_texts(body: Any) -> None:
    """Part texts of neighbouring elements that Markdown would read as one image, link or address of a reference."""
    before = ""
    for text in _TEXTS(body):
        element, where = text.getparent(), "text" if text.is_text else "tail"
        holder = element if text.is_text else element.getparent()
        if before == "!" and _IN_LINK(holder):
            setattr(element, where, f" {text}")
        elif before + text[:1] in ("![", "](", "][", "]:") and not _IN_CODE(holder):  # where a backslash is one
            setattr(element, where, f"\\{text}")
        before = text[-1:] or before


def _rows(table: Any) -> list[list[Any]]:
    """Return the cells of a table's own rows, those of tables within it left out."""
    rows = (row for row in table.iter("tr") if next(row.iterancestors("table")) is table)
    return [[cell for cell in row if cell.tag in ("td", "th")] for row in rows]


def _holds_data(table: Any) -> bool:
    """Return whether a table holds rows and columns; a table that merely lays out the page does not."""
    if table.get("role") in ("presentation", "none") or next(table.iterdescendants(*_NOT_IN_DATA), None) is not None:
        return False
    rows = _rows(table)
    limit = _CELL_CHARACTERS * (5 if next(table.iter("th"), None) is not None else 1)
    return any(len(row) > 1 for row in rows) and all(sum(map(len, cell.itertext())) <= limit for row in rows for cell in row)


def _unwrap(table: Any) -> None:
    for part in table.iter(*_TABLE_PARTS):
        part.tag = "div"


def _complete(table: Any) -> None:
    """Make rows the table's only children, and put an empty cell wherever one from above reaches down.

    So each value stays in its column, and markdownify takes the first row for the head.
    """
    etree.strip_tags(table, "thead", "tbody", "tfoot")
    rows = [cells for cells in _rows(table) if cells]
    for other in set(table) - {cells[0].getparent() for cells in rows}:
        table.addprevious(other)
    covered = set[tuple[int, int]]()  # (row, column) of the places that a cell from above reaches
    for row, cells in enumerate(rows):
        column = 0
        for cell in cells:
            while (row, column) in covered and column < _MAX_COLUMNS:
                cell.addprevious(etree.Element("td"))
                column += 1
            width, height = _span(cell, "colspan"), _span(cell, "rowspan")
            covered.update(product(range(row + 1, row + height), range(column, column + width)))
            column += width


def _span(cell: Any, name: str) -> int:
    """Return how many columns or rows a cell covers, by its attribute."""
    value = (cell.get(name) or "").strip()
    return min(_MAX_SPAN, max(1, int(value))) if value.isdecimal() else 1


class _Tag(Tag):
    """An element; markdownify asks each for a `<pre>` around it, which takes a third of its time: they hold text alone here."""

    def find_parent(self, *_: Any, **__: Any) -> None:
        return None


class _Converter(markdownify.MarkdownConverter):
    """Text that cannot turn into markup, links around blocks, fenced code with its language, definition lists."""

    def escape(self, text: str, parent_tags: Any) -> str:
        """Return text of the page so that Markdown reads no link, image or HTML into it."""
        return _STRUCTURE.sub(lambda match: "".join(f"\\{character}" for character in match[0]), text)

    def convert_a(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return a link; of a link around a heading and more, the first line is the link."""
        href, bare = el.get("href"), " ".join(text.split())
        if not href or not bare or "](" in bare or "_noformat" in parent_tags:
            return text
        if "\n" in text.strip():
            first, _, rest = text.strip().partition("\n")
            marks, _, title = first.rpartition("# ")
            return f"\n\n{marks}{'# ' if marks else ''}[{title}]({href})\n{rest}\n\n"
        return f"{' ' * text[:1].isspace()}[{bare}]({href}){' ' * text[-1:].isspace()}"

    def convert_pre(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return a fenced block; the fence is longer than any in the code."""
        text = el.get_text()
        return f"\n\n{fenced(text, ''.join(el.get('class') or []))}\n\n" if text.strip() else ""

    def convert_dd(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return the meaning of the term before it; a long one is not indented, so that its blocks stay what they are."""
        text = text.strip()
        return f"\n{text}\n\n" if "\n" in text else f": {text}\n" if text else ""

    def convert_td(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return a cell; `tr` adds the line's first bar."""
        return f" {' '.join(text.split()).replace('|', chr(92) + '|')} |" + "  |" * (_span(el, "colspan") - 1)

    convert_th = convert_td

    def convert_sup(self, el: Any, text: str, parent_tags: Any) -> str:
        """Return a raised number with a mark before it, so that 10 to the power of 6 does not become 106."""
        return f"^{text}" if _EXPONENT.fullmatch(text) else text


_OPTIONS: Any = {
    "bs4_options": {"features": "lxml", "element_classes": {Tag: _Tag}},
    "heading_style": "ATX",
    "bullets": "-",
    "autolinks": False,
    "table_infer_header": True,
}
_CONVERTER = _Converter(**_OPTIONS)
