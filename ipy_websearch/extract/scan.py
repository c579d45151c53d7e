"""How hard a page would be on the parsers, found out before one of them sees it. One linear pass, no recursion.

libxml2 is quadratic in the attributes of one tag (25,000: 3.8 s, 100,000: 143 s) and silently drops text below its depth
limit; trafilatura's time grows faster than the page (5 MB: 24 s). Measured 2026-11. So a page that is too hard is not
parsed at all (`Verdict.refusal` says why) and a heavy one goes the cheap way, without trafilatura.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_CHARACTERS = 5_300_000
MAX_ATTRIBUTES = 2_000
MAX_DEPTH = 300
MAX_TAGS = 150_000
HEAVY_CHARACTERS = 2_000_000
HEAVY_TAGS = 25_000

# A start tag, an end tag or a comment's beginning. A start tag is read as the HTML standard's tokenizer reads it; every
# part is possessive and the end is optional, so that a match never backtracks and consumes all that it has looked at.
_ATTRIBUTE = r"[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+\"?+|'[^']*+'?+|[^\s>\"'][^\s>]*+)?+)?+"
TAG = re.compile(rf"<(?:(?P<open>[a-zA-Z][^\s/>]*+)(?P<rest>(?:[\s/]++|{_ATTRIBUTE})*+)|/(?P<close>[a-zA-Z][^\s/>]*+)|!--)")
ATTRIBUTE = re.compile(_ATTRIBUTE)
_RAW_TEXT = frozenset({"script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes", "plaintext"})
_FLAT = frozenset(
    "area base br col embed hr img input link meta param source track wbr p li dt dd option optgroup tr td th thead tbody"
    " tfoot rt rp html head body colgroup a".split()
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What may be done with a page: `refusal` is "" or why it must not be parsed, `heavy` bars the costly analysis."""

    refusal: str = ""
    heavy: bool = False


def scan(html: str) -> Verdict:
    """Return the verdict on `html`, in time linear in its length (about 10 ms for 1 MB)."""
    if len(html) > MAX_CHARACTERS:
        return Verdict(f"the page has {len(html):,} characters")
    depth = deepest = tags = raw = position = 0
    while (token := TAG.search(html, position)) is not None:
        position = token.end()
        name = token["open"]
        if name is not None:
            tags += 1
            name = name.lower()
            refusal = _too_many_attributes(token["rest"])
            if refusal:
                return Verdict(refusal)
            if name in _RAW_TEXT:
                position = _after_raw_text(html, name, position)
                raw += position - token.end()
            elif name not in _FLAT and not token["rest"].endswith("/"):
                depth += 1
                deepest = max(deepest, depth)
        elif token["close"] is not None:
            depth -= depth > 0 and token["close"].lower() not in _FLAT and token["close"].lower() not in _RAW_TEXT
        else:
            end = html.find("-->", position)
            position = len(html) if end < 0 else end + 3
            raw += position - token.end()
    if deepest > MAX_DEPTH:
        return Verdict(f"tags are nested {deepest:,} deep")
    if tags > MAX_TAGS:
        return Verdict(f"the page has {tags:,} tags")
    return Verdict(heavy=len(html) - raw > HEAVY_CHARACTERS or tags > HEAVY_TAGS)


def _too_many_attributes(rest: str) -> str:
    if len(rest) < 2 * MAX_ATTRIBUTES:
        return ""
    count = 0
    for count, _ in enumerate(ATTRIBUTE.finditer(rest), 1):
        if count > MAX_ATTRIBUTES:
            return f"a tag has more than {MAX_ATTRIBUTES:,} attributes"
    return ""


def _after_raw_text(html: str, name: str, position: int) -> int:
    """Return where the content of a raw text element that starts at `position` has ended."""
    while (at := html.find("</", position)) >= 0:
        if html[at + 2 : at + 2 + len(name)].lower() == name:
            return at
        position = at + 2
    return len(html)
