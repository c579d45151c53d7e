"""Sentences: cutting the text of a search result or a Markdown page into them.

Every sentence comes back as readers would quote it: one line, Markdown marks and footnote numbers gone, the words and their
order untouched. Headings, tables and lists give one sentence a line; what is cut off by an engine ("… and the") is marked.
"""

from __future__ import annotations

import re

from ipy_websearch.text import visible

_SHORT_FORMS = """
    dr mr mrs ms st mt prof rev gen col capt lt sgt hon vs e.g i.e eg ie cf al approx vol fig figs eq ca est dept univ sq cu
    jan feb apr aug sep sept oct nov dec mon tue wed thu
"""
_ABBREVIATIONS = frozenset(_SHORT_FORMS.split())
_CLOSING_FORMS = "inc ltd co corp bros jr sr etc ft u.s u.k u.n u.s.a d.c a.m p.m b.c a.d ph.d"
_MAY_CLOSE = frozenset(_CLOSING_FORMS.split())
"""Abbreviations that may end a sentence too; whether they do is seen from what follows."""
_END = re.compile(r"[.!?。！？…]+[\"'”’)\]]*(?=\s|$)|(?<=[。！？])")
_TARGET = r"\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)"
_IMAGE = re.compile(r"!\[[^\[\]]{0,300}\]" + _TARGET)
_LINK = re.compile(r"\[([^\[\]]{0,300})\]" + _TARGET)
_OPENER = re.compile(
    r"(?:The|A|An|In|On|At|It|Its|He|His|She|Her|They|Their|This|That|These|Those|There|Then|For|From|By|As|But|And|Or|"
    r"However|While|When|If|Most|Many|Some|Other|Another|Since|After|Before|With|Although)\b"
)
_FOOTNOTE = re.compile(r"\[(?:\d{1,3}|[a-z]|note \d+|citation needed|edit|\^)\](?!\()")
_EMPHASIS = re.compile(r"\*\*|__|(?<=\S)\*|\*(?=\S)|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)|`")
_LINE_MARK = re.compile(r"^\s*(?:#{1,6}\s+|[-*+•]\s+|>\s?|\d{1,2}[.)]\s+)+")
_RULE = re.compile(r"^\s*(?:[-=*_|:+\s]+)$")
_SPACE = re.compile(r"\s+")
LONGEST = 600


def sentences(text: str) -> list[str]:
    """Return the sentences of a text in order; headings come without a full stop, table rows as "a; b; c"."""
    found: list[str] = []
    for paragraph in _paragraphs(visible(text)):
        found.extend(_split(paragraph))
    return [sentence for sentence in found if any(c.isalnum() for c in sentence)]


def is_cut(sentence: str) -> bool:
    """Return whether an engine cut the sentence off ("…" at either end)."""
    return sentence.endswith(("…", "...")) or sentence.startswith(("…", "..."))


def _paragraphs(text: str) -> list[str]:
    """Join wrapped lines to paragraphs; headings, list items and table rows stay on their own."""
    paragraphs: list[str] = []
    running: list[str] = []
    for line in [*text.split("\n"), ""]:
        bare = _plain_line(line)
        marked = bool(_LINE_MARK.match(line)) or line.lstrip().startswith("|")
        if (not bare or marked) and running:
            paragraphs.append(" ".join(running))
            running = []
        if not bare:
            continue
        if line.lstrip().startswith(("#", "|")):
            paragraphs.append(bare)
        else:
            running.append(bare)
    return paragraphs


def _plain_line(line: str) -> str:
    if _RULE.match(line):
        return ""
    if line.lstrip().startswith("|"):
        line = "; ".join(cell.strip() for cell in line.strip().strip("|").split("|") if cell.strip())
    line = _LINE_MARK.sub("", line)
    if "[" in line:
        line = _FOOTNOTE.sub("", _LINK.sub(r"\1", _IMAGE.sub("", line)))
    if "*" in line or "_" in line or "`" in line:
        line = _EMPHASIS.sub("", line)
    return _SPACE.sub(" ", line).strip()


def _split(paragraph: str) -> list[str]:
    parts: list[str] = []
    start = 0
    for end in _END.finditer(paragraph):
        if end.end() > start and _is_end(paragraph, start, end):
            parts.append(paragraph[start : end.end()].strip())
            start = end.end()
    parts.append(paragraph[start:].strip())
    return [part[:LONGEST] for part in parts if part]


def _is_end(paragraph: str, start: int, end: re.Match[str]) -> bool:
    if not end.group().startswith(".") or len(end.group().rstrip("\"'”’)]")) > 1:
        following = paragraph[end.end() :].lstrip()
        return not following[:1].islower()
    before = paragraph[start : end.start()].rsplit(None, 1)
    last = before[-1].lstrip("(\"'“‘[") if before else ""
    following = paragraph[end.end() :].lstrip()
    if following[:1].islower():
        return False
    if last.lower() in _ABBREVIATIONS or last == "c" or (last.lower() in ("no", "nos") and following[:1].isdigit()):
        return not following
    if last.lower() in _MAY_CLOSE:
        return not following or bool(_OPENER.match(following))
    if len(last) != 1 or not last.isupper() or not following:
        return True
    # "J. R. R. Tolkien" and "by J. Smith" go on; "is written in C. Guido …" does not
    lead = before[0].split()[-1] if len(before) > 1 else ""
    initial = not lead or lead[0].isupper() or lead in ("by", "and", "or", "after")
    return not initial or bool(_OPENER.match(following))
