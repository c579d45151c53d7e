"""The text of an answer with its marks, and the sources that they point to, numbered and merged. Pure.

Invariant: a source's number is its place in the order of first citation, the same address always has the same number, and
every `[n]` in the text has a row n in the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any

from ipy_websearch.citations.claims import check
from ipy_websearch.results import Citation, Cited, Claim, Read, TextDelta
from ipy_websearch.text import fold, plain, visible
from ipy_websearch.tools.base import Passage

# Where a sentence of an answer ends; initials and titles before a name end none.
SENTENCE_END = re.compile(
    r"(?<=[.!?。！？])(?<!\b[A-Z]\.)(?<!\b(?:Dr|Mr|St|No|vs)\.)(?<!\bMrs\.)[\"”’')*_]*\s+(?=[^\sa-z])"
    r"|(?<=[。！？])(?=[^\s\"”’')*_」』）\[\\])|\n+"
)

_MARKS = re.compile(r"(?<!\\)\[(\d{1,4})\]")
_NUMBERS = re.compile(r"(?<!\\)(\[\d{1,4}(?:, ?\d{1,3})*\])(?!\()")  # as a model writes them; no link
_BEGUN = re.compile(r"\[\d{0,4}(?:, ?\d{0,3}){0,5}\Z")  # at the end of a piece: what may become a mark
_BEHIND_THE_STOP = re.compile(r"([.!?。！？][\"”’')*_]*)((?:\[\d{1,4}\])+)")
_WRITTEN = re.compile(r"\\\[\d{1,4}\]")  # a number that the model wrote itself: no mark, and no fact either
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_BULLET = re.compile(r"^[#>*+\s-]+|^\d+[.)]\s+")
_EMPHASIS = re.compile(r"[*_`]{1,3}")
_FEWEST_WORDS = 4
_DOCUMENTS = ("char_location", "page_location", "content_block_location")
_TRACKERS = re.compile(r"(?<=[?&])(?:utm_\w+|gclid|fbclid|msclkid|dclid)=[^&#]*&?")


@dataclass(slots=True)
class _Source:
    """A page that the model was given: its address, titles, date, text, and whether that is the page's own."""

    url: str
    titles: set[str] = field(default_factory=set)
    published_date: datetime | None = None
    text: str = ""
    read: Read = "snippet"


class CitationBook:
    """Collects the citations of one answer, and holds its sentences against them.

    `know` tells it of the passages that the model was given. A citation of what was not given is none; one that carries only a
    title, or no date, finds its page by the passage it quotes. `native` says that the API's own tools were offered or gave
    results: what only they give may be cited then. A book that is `like` another knows the same passages, and cites none yet.
    """

    def __init__(self, *, native: bool = False, like: CitationBook | None = None) -> None:
        self.native: bool = like.native if like else native
        self._known: dict[str, _Source] = like._known if like else {}
        self._numbers: dict[str, int] = {}
        self._citations: dict[tuple[int, str], Citation] = {}
        self._spans: list[tuple[str, tuple[int, ...]]] = []

    @property
    def citations(self) -> tuple[Citation, ...]:
        """All distinct passages cited so far, in order of first citation."""
        return tuple(self._citations.values())

    def know(
        self,
        url: str,
        title: str,
        published_date: datetime | None = None,
        texts: Iterable[str] = (),
        read: Read = "snippet",
    ) -> None:
        """Remember a source that the model was given, its paragraphs, and whether they are text of the page itself."""
        source = self._known.setdefault(same_page(url), _Source(url))
        source.titles.add(plain(title))
        source.published_date = source.published_date or published_date
        source.text = " ".join((source.text, *map(_flat, texts)))
        source.read = "page" if read == "page" else source.read

    def know_history(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Remember what earlier turns of the conversation gave the model."""
        given = [block for message in messages for block in _blocks(message)]
        for block in [part for outer in given for part in (outer, *_blocks(outer))]:
            kind = str(block.get("type"))
            if kind == "search_result":
                texts = [str(part.get("text", "")) for part in _blocks(block)]
                self.know(str(block.get("source") or ""), str(block.get("title") or ""), None, texts)
            self.native = self.native or (kind.startswith("web_") and kind.endswith("_tool_result"))

    def cite(self, raw: Mapping[str, Any]) -> int | None:
        """Return the source number for an API citation, None when what it quotes was not given in this conversation.

        Understood are `search_result_location`, `web_search_result_location` (the API gave that passage itself), and the
        document locations of fetched pages (`char_location`, `page_location`, `content_block_location`), which name a title
        only.
        """
        kind, title = raw.get("type"), plain(raw.get("title")) or plain(raw.get("document_title"))
        text = visible(str(raw.get("cited_text") or "")).strip()
        url = str(raw.get("url") or raw.get("source") or self._page_of(title, text))
        source = self._known.get(same_page(url))
        given = source is not None and _flat(text) in source.text
        if not (given if kind == "search_result_location" else self.native):
            return None
        n = self._numbers.setdefault(same_page(url) if url else title or text, len(self._numbers) + 1)
        source = source or _Source(url)
        read: Read = "page" if kind in _DOCUMENTS else source.read
        self._citations.setdefault((n, text), Citation(n, title or url, url, text, source.published_date, read))
        return n

    def bind(self, block: Mapping[str, Any]) -> str:
        """Return the marks of a text block for those of its citations that quote what was given, "[1][3]"."""
        numbers = tuple(dict.fromkeys(n for n in map(self.cite, block.get("citations") or ()) if n is not None))
        if numbers:
            self._spans.append((_flat(_EMPHASIS.sub("", str(block.get("text") or ""))), numbers))
        return "".join(f"[{n}]" for n in numbers)

    def claims(self, text: str) -> tuple[Claim, ...]:
        """Return the sentences of an answer's Markdown, each held against the passages that its marks point to."""
        cited = {citation.n for citation in self._citations.values()}
        passages = cache(self._passages)  # many sentences cite the same sources
        found = []
        for part in SENTENCE_END.split(_BEHIND_THE_STOP.sub(r"\2\1", _FENCED.sub("", text))):
            sentence = _EMPHASIS.sub("", _BULLET.sub("", _MARKS.sub("", _WRITTEN.sub("", part)))).strip()
            marked = dict.fromkeys(map(int, _MARKS.findall(_CODE.sub("", part))))
            numbers = tuple(n for n in marked if n in cited) or self._numbers_of(sentence)
            heading = part.lstrip().startswith(("#", "|", ">")) or sentence.endswith(":")
            if not sentence or (not numbers and (heading or len(sentence.split()) < _FEWEST_WORDS)):
                continue
            claim = check(sentence, passages(numbers))
            found.append(Claim(claim.verdict, claim.missing, sentence, numbers))
        return tuple(found)

    def _passages(self, numbers: tuple[int, ...]) -> list[str]:
        """Return the cited passages of sources, and the titles and dates of their pages, each once."""
        cited = [citation for citation in self._citations.values() if citation.n in numbers]
        passages = dict.fromkeys(citation.cited_text for citation in cited)
        about = [f"{c.title} {c.published_date:%Y-%m-%d}" if c.published_date else c.title for c in cited]
        return list(dict.fromkeys([*passages, *about])) if any(passages) else []

    def _numbers_of(self, sentence: str) -> tuple[int, ...]:
        """Return the marks of the passage of text that a sentence without marks of its own stands in."""
        flat = _flat(sentence) if self._spans else ""
        return next((numbers for text, numbers in self._spans if flat and flat in text), ())

    def _page_of(self, title: str, text: str) -> str:
        """Return the address of the page of that title which has the text; of an untitled one, of any page that has it."""
        flat = _flat(text)
        pages = [source for source in self._known.values() if not title or title in source.titles]
        quoting = [source.url for source in pages if flat and flat in source.text]
        return quoting[0] if quoting else pages[0].url if title and len(pages) == 1 else ""


def _flat(text: str) -> str:
    return fold(visible(text))


def _blocks(part: Mapping[str, Any]) -> list[Any]:
    """Return the blocks of a message, a tool's result or a search result."""
    content = part.get("content")
    return [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []


def same_page(url: str) -> str:
    """Return the address in the form in which two addresses of one page are equal: trackers (`utm_…`) and fragments go,
    except those that name a page of their own (`#/item/1`)."""
    address, _, fragment = _TRACKERS.sub("", url.strip()).partition("#")
    path, mark, query = address.rstrip("?&").partition("?")
    page = path.rstrip("/") + mark + query
    return f"{page}#{fragment}" if fragment.startswith(("/", "!")) else page


# --- the text -----------------------------------------------------------------------------------------------------------

LOOK_BACK = 1_000  # characters of the answer in which the sentence before a mark is looked for
MOST_JUDGED = 500  # written marks that are held against their passages: small models may repeat one without end, at 10 ms each

# What a reader should see next; a passage that is cited for the first time comes before its mark.
Shown = list[Cited | TextDelta]


class AnswerText:
    """The Markdown so far, and the `book` of its sources.

    Blank space at the end is held back until more text comes, so that a mark stands right behind the words that it belongs to.
    Text of a later step begins a new paragraph. A `[n]` that the model wrote itself is, outside code, escaped; where the model
    was `given` passages by number (None: the API gives citations), it becomes a mark if the passage bears its sentence out.
    """

    def __init__(self, book: CitationBook, given: list[Passage] | None) -> None:
        self.book = book
        self.given = given
        self._told = 0  # citations that were shown
        self._marks: dict[tuple[str, str], str] = {}
        self._parts: list[str] = []
        self._backticks = 0
        self.step()

    def __str__(self) -> str:
        return "".join([*self._parts, self._held]).strip()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def step(self) -> None:
        """Say that a new step begins."""
        self._kept = (len(self._parts), self._backticks)
        self._begins = True
        self._held = self._before = ""

    def retract(self) -> None:
        """Take back the text of this step."""
        parts, self._backticks = self._kept
        del self._parts[parts:]
        self.step()

    def write(self, text: str) -> Shown:
        """Take text in."""
        text = self._held + text
        if self._begins:
            text = text.lstrip()
        body = _BEGUN.sub("", text.rstrip()).rstrip()
        self._held = text[len(body) :]
        if not body:
            return []
        lead = "\n\n" if self._begins and self._parts else ""
        self._begins = False
        return self._show(lead + self._bound(body))

    def cite(self, block: Mapping[str, Any]) -> Shown:
        """Put the marks of a text block behind its last word; the space after it stays after the marks."""
        marks = self.book.bind(block)
        return self._show(marks if self._parts else "")

    def _show(self, text: str) -> Shown:
        new = self.book.citations[self._told :]
        self._told += len(new)
        if not text:
            return [*map(Cited, new)]
        self._parts.append(text)
        return [*map(Cited, new), TextDelta(text)]

    def _bound(self, text: str) -> str:
        """Return the text with what becomes of each number in brackets, except in code, behind an odd backtick."""
        done = []
        for n, part in enumerate(_NUMBERS.split(text)):
            is_number = n % 2 == 1 and self._backticks % 2 == 0
            done.append(self._mark(part) if is_number else part)
            self._backticks += part.count("`")
            self._before = (self._before + ("" if is_number else part))[-LOOK_BACK:]
        return "".join(done)

    def _mark(self, written: str) -> str:
        """Return what stands in the place of `[2]` or `[1, 3]`: marks, and plain text for numbers whose passage does not bear
        the sentence before them out."""
        as_text, place = written if "," in written else f"\\{written}", (self._before, written)
        if self.given and place not in self._marks and len(self._marks) < MOST_JUDGED:
            sentence = SENTENCE_END.split(self._before.rstrip())[-1].strip(" \t*#>-•")
            bound = {number: self._cited(sentence, int(number)) for number in re.findall(r"\d+", written)}
            marks = "".join(dict.fromkeys(f"[{n}]" if n else f"\\[{number}]" for number, n in bound.items()))
            self._marks[place] = marks if any(bound.values()) else as_text
        return self._marks.get(place, as_text)

    def _cited(self, sentence: str, number: int) -> int | None:
        """Return the source's number in the answer, None when the passage does not bear the sentence out."""
        passage = self.given[number - 1] if self.given and 1 <= number <= len(self.given) else None
        quote = supporting(sentence, passage) if passage else ""
        if not passage or not quote:
            return None
        found = {"type": "search_result_location", "source": passage.url, "title": passage.title, "cited_text": quote}
        return self.book.cite(found)


def supporting(sentence: str, passage: Passage) -> str:
    """Return the words of a passage that bear a sentence out, "" when it does not: a paragraph, or all of it."""
    whole = " ".join(passage.paragraphs)
    best = check(sentence, [whole, passage.title]).verdict
    if best not in ("supported", "partly"):
        return ""
    return next((text for text in passage.paragraphs if check(sentence, [text, passage.title]).verdict == best), whole)
