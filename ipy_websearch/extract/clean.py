"""A parsed page made ready: absolute links, no scripts, nothing hidden, code languages where Markdown can see them.

The page is untrusted: only http(s) addresses stay, and nothing that a reader would not see reaches the model.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any
from urllib.parse import urljoin, urlsplit

from lxml import etree, html

from ipy_websearch.extract.codeblocks import mark_code_blocks
from ipy_websearch.extract.hidden import drop_hidden, drop_hidden_code, place_streamed_parts
from ipy_websearch.extract.stylesheet import stylesheet
from ipy_websearch.extract.tree import HEADINGS, remove, replace_by_text
from ipy_websearch.text import visible

_NEVER_CONTENT = (
    "script", "style", "noscript", "template", "iframe", "object", "embed", "applet", "canvas", "svg", "audio", "video",
    "head", "title", "link", "meta", "base", "frameset", "map", "datalist", "select", "input", "textarea", "dialog",
    "progress", "meter", "param", "source", "track", "noframes", "noembed",
)  # fmt: skip
_HEAD_TAGS = frozenset({"title", "meta", "link", "base", "script", "style", "noscript", "template"})
_ANCHOR_MARKS = frozenset({"¶", "#", "§", "🔗", "\uf0c1", "link", "permalink", ""})
_NO_ALT = re.compile(
    r"\S+\.(?:jpe?g|png|gif|webp|svg|avif|bmp)|[^\s_-]+(?:[_-][^\s_-]+)+|[\s\d_.,-]*"
    r"|(?:the )?(?:image|photo|picture|logo|icon|avatar|placeholder|img|alt|untitled)\d*",
    re.IGNORECASE,
)
# Commands of TeX, with their arguments where these are names and not text.
_COMMAND = re.compile(
    r"\\(?:begin|end|color|textcolor|mathcolor|hspace|vspace|label|tag|class|style|cssId|operatorname\*?)\s*\{[^{}]*\}|\\[a-zA-Z]+"
)
_FOLDED_WORD = re.compile(r"[^\W\d_]{4,}")
_BRACKET_CHARACTERS = 3
_NO_WORD = re.compile(r"[\W_]+")
_COMPLETE = re.compile(r"https?://[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+(?::\d{1,5})?(?:[/?#]|$)")
# Sloppy templates close the document in its middle; libxml2 then drops all that follows, browsers do not.
_EARLY_END = re.compile(r"</(?:body|html)\s*>", re.IGNORECASE)


def parse(text: str) -> Any:
    """Return the `<html>` element of `text`; an empty document for text without any element."""
    streamed = '<template id="B:' in text
    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=not streamed, remove_pis=True)
    # lxml.html's own lookup runs Python code for every element; trafilatura asks only that they are HtmlElements.
    parser.set_element_class_lookup(etree.ElementDefaultClassLookup(element=html.HtmlElement, comment=html.HtmlComment))
    data = _EARLY_END.sub("", text).encode("utf-8", "replace")
    try:
        root = html.document_fromstring(data, parser=parser)
    except (etree.ParserError, etree.XMLSyntaxError, AssertionError):
        root = html.document_fromstring("<html><body></body></html>")
    _part_head_from_body(root)
    if streamed:
        place_streamed_parts(root)
        etree.strip_tags(root, etree.Comment)
    return root


def _part_head_from_body(root: Any) -> None:
    """Move what does not belong into the head to the body: libxml2 ends a head at HTML 4's elements alone."""
    body, head = root.find("body"), root.find("head")
    if body is None:
        body = etree.SubElement(root, "body")
    if head is None:
        return
    strays = [e for e in head if isinstance(e.tag, str) and e.tag not in _HEAD_TAGS]
    if strays:
        text, body.text = body.text, None
        moved = head[head.index(strays[0]) :]
        for place, element in enumerate(moved):
            body.insert(place, element)
        if text:
            moved[-1].tail = (moved[-1].tail or "") + text


def clean(root: Any, url: str) -> tuple[str, ...]:
    """Prepare the page in place for selection and rendering; return its http(s) links, each once, in order."""
    links = absolute_links(root, url)
    sheet = stylesheet(root)
    body = root.find("body")
    for element in list(body.iter(*_NEVER_CONTENT)):
        if element.tag == "input" and element.get("type") == "checkbox" and element.getparent().tag in ("li", "p"):
            replace_by_text(element, "[ ] " if element.get("checked") is None else "[x] ")
        else:
            remove(element)
    for bracket in list(body.iter("rp")):
        if len("".join(bracket.itertext())) > _BRACKET_CHARACTERS:  # shown by browsers that know no ruby, so by none
            remove(bracket)
    _drop_invisible_characters(body)
    write_formulas(body)
    drop_hidden_code(body, sheet)
    mark_code_blocks(body)
    drop_hidden(body, sheet)
    _drop_anchor_marks(body)
    _clean_images(body)
    return links


def write_formulas(body: Any) -> None:
    """Put the TeX source that MathML carries in its place, as `$…$`; what nobody sees of a formula is left out."""
    for formula in list(body.iter("math")):
        notes = (n for n in formula.iter("annotation") if n.get("encoding") == "application/x-tex")
        source = next(("".join(n.itertext()) for n in notes), formula.get("alttext") or "")
        for unseen in list(formula.iter("annotation", "annotation-xml", "mphantom")):
            remove(unseen)
        if source.strip() and _says_the_same(source, "".join(formula.itertext())):
            mark = "$$" if formula.get("display") == "block" else "$"
            replace_by_text(formula, f"{mark}{' '.join(source.split())}{mark}")


def _says_the_same(source: str, seen: str) -> bool:
    """Return whether the words in TeX source are those of the formula that is seen: nobody sees the source itself."""
    seen = _folded(unicodedata.normalize("NFKC", seen))
    words = _FOLDED_WORD.findall(_COMMAND.sub(" ", source))
    return all(word.casefold() in seen for word in words)


def drop_navigation(body: Any) -> None:
    """Remove the page's menus, for a rendering of all the rest of it."""
    for element in list(body.iterdescendants()):
        if element.tag == "nav" or element.get("role") in ("navigation", "menu", "menubar"):
            remove(element)


def absolute_links(root: Any, url: str) -> tuple[str, ...]:
    """Make every address absolute against `<base>` and `url`, drop those that are not http(s); return the links."""
    base = root.find(".//base[@href]")
    if base is not None:
        url = web_address(base.get("href"), url) or url
    addresses: dict[str, str | None] = {}
    for element in root.iter("a", "area"):
        href = element.get("href")
        if href is None:
            continue
        if href.startswith("#"):
            # A place on this page: nothing to go to from elsewhere, and headings link to themselves or to the contents.
            if element.getparent().tag in HEADINGS:
                del element.attrib["href"]
            else:
                element.set("href", web_address(href, url) or "")
            continue
        if href not in addresses:
            addresses[href] = web_address(href, url)
        address = addresses[href]
        if address is None:
            del element.attrib["href"]
        elif address != href:
            element.set("href", address)
    return tuple(dict.fromkeys(address for address in addresses.values() if address))


def web_address(href: str, base: str) -> str | None:
    """Return `href` as an absolute http(s) address, or None when it is not one (mailto:, javascript:, data:, broken)."""
    if _COMPLETE.match(href) and href.isascii() and href.isprintable() and " " not in href:
        return href
    href = re.sub(r"[\x00-\x1f\x7f]+", "", visible(href)).strip().replace(" ", "%20")
    try:
        address = urljoin(base, href)
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            return None
    except ValueError:
        return None
    return address


def _drop_invisible_characters(body: Any) -> None:
    whole = "".join(body.itertext())
    if visible(whole) == whole:
        return
    for element in body.iter():
        if element.text:
            element.text = visible(element.text)
        if element.tail:
            element.tail = visible(element.tail)


def _clean_images(body: Any) -> None:
    """Leave of each image its text alone; drop those whose text says nothing that the page does not say itself."""
    images = list(body.iter("img"))
    said = _folded("".join(body.itertext())) if images else ""
    for image in images:
        text = " ".join(visible(image.get("alt") or "").split())
        image.attrib.clear()
        folded = _folded(text)
        if not text or _NO_ALT.fullmatch(text) or folded in said or _is_decoration(image):
            remove(image)
        else:
            said += folded
            image.set("alt", text)


def _folded(text: str) -> str:
    return _NO_WORD.sub("", text.casefold())


def _is_decoration(image: Any) -> bool:
    """Return whether a figure says in words what the image shows, or it is a link's: a button, a card, an advertisement."""
    holder = next(image.iterancestors("a", "figure"), None)
    return holder is not None and (holder.tag == "a" or any(t.strip() for t in holder.itertext()))


def _drop_anchor_marks(body: Any) -> None:
    """Remove the pilcrows and link icons that documentation puts on headings and paragraphs."""
    for anchor in list(body.iter("a")):
        text = "".join(anchor.itertext()).strip().lower()
        in_heading = any(a.tag in HEADINGS or a.tag == "dt" for a in anchor.iterancestors())
        if text in _ANCHOR_MARKS and (in_heading or text in ("¶", "§")) and (text or anchor.find(".//img") is None):
            remove(anchor)
