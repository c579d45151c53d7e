"""The citations of an answer: its text with its marks, the sources that they point to, and whether these support it. Pure.

Invariant: a source's number is its place in the order of first citation, the same address always has the same number, and
every `[n]` in the text has a row n in the sources.

`check` holds a sentence against passages without a model: numbers, dates, names, negations and comparisons have to stand in
them; the other words count by weight. Of a passage that was cut ("..." at its end) only contradictions count, since the rest
cannot be read.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import Any, NamedTuple

from ipy_websearch.citations.quantities import Date, Number, Quantities, is_part_of_one, read
from ipy_websearch.citations.words import (
    COMPARING,
    DENYING,
    LANGUAGES,
    LINKS,
    NATIONALITIES,
    NO_NAMES,
    NOT,
    OPENERS,
    OPPOSITES,
    STOP,
)
from ipy_websearch.providers.passages import stem as whole_stem
from ipy_websearch.results import Citation, Cited, Claim, Read, TextDelta
from ipy_websearch.text import fold, plain, visible
from ipy_websearch.tools.base import Passage

# --- the sources -------------------------------------------------------------------------------------------------------

# Where a sentence of an answer ends; initials and titles before a name end none.
SENTENCE_END = re.compile(
    r"(?<=[.!?。！？])(?<!\b[A-Z]\.)(?<!\b(?:Dr|Mr|St|No|vs)\.)(?<!\b(?:Mrs|e\.g|i\.e)\.)[\"”’')*_]*\s+(?=[^\sa-z])"
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

    `know` adds the passages that the model was given. A citation of any other text is dropped; one that carries only a title,
    or no date, finds its page by the passage it quotes. `native` means that the API's own tools were offered or gave results:
    then passages that only the API has seen may be cited. A book that is `like` another knows the same passages, and cites none
    yet.
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
                texts = (str(part.get("text", "")) for part in _blocks(block))
                self.know(str(block.get("source") or ""), str(block.get("title") or ""), texts=texts)
            self.native = self.native or (kind.startswith("web_") and kind.endswith("_tool_result"))

    def cite(self, raw: Mapping[str, Any]) -> int | None:
        """Return the source number for an API citation, None when its quoted text was not given in this conversation.

        Understood are `search_result_location`, `web_search_result_location` (the API gave that passage itself), and the
        document locations of fetched pages (`char_location`, `page_location`, `content_block_location`), which name a title
        only.
        """
        kind, title = raw.get("type"), plain(raw.get("title")) or plain(raw.get("document_title"))
        text = visible(str(raw.get("cited_text") or "")).strip()
        url = str(raw.get("url") or raw.get("source") or self._page_of(title, text))
        source = self._known.get(same_page(url))
        if not (source and _flat(text) in source.text if kind == "search_result_location" else self.native):
            return None
        n = self._numbers.setdefault(same_page(url) if url else title or text, len(self._numbers) + 1)
        source = source or _Source(url)
        read: Read = "page" if kind in _DOCUMENTS else source.read
        self._citations.setdefault((n, text), Citation(n, title or url, url, text, source.published_date, read))
        return n

    def bind(self, block: Mapping[str, Any]) -> str:
        """Return the marks of a text block, such as "[1][3]", for those of its citations that quote a given passage."""
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
        """Return the address of a page of that title, "" when there is none; of several, that of the one which has the text."""
        pages = [source for source in self._known.values() if title and title in source.titles]
        pages.sort(key=lambda source: _flat(text) in source.text)
        return pages[-1].url if pages else ""


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

# The events to show next; a passage that is cited for the first time comes before its mark.
Shown = list[Cited | TextDelta]


class AnswerText:
    """The Markdown so far, and the `book` of its sources.

    Blank space at the end is held back until more text comes, so that a mark stands right behind the words that it belongs to.
    Text of a later step begins a new paragraph. A `[n]` that the model wrote itself is, outside code, escaped; where the model
    was `given` passages by number (None: the API gives citations), it becomes a mark if the passage supports its sentence.
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
        """Begin a new step."""
        self._begins = True
        self._held = self._before = ""

    def retract(self) -> None:
        """Take back all text: the question is asked anew."""
        self._parts, self._backticks = [], 0
        self.step()

    def write(self, text: str) -> Shown:
        """Add text; return the events to show."""
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
        written = [text] if text else []
        self._parts += written
        return [*map(Cited, new), *map(TextDelta, written)]

    def _bound(self, text: str) -> str:
        """Return the text with each number in brackets made a mark or plain text, except in code (behind an odd backtick)."""
        done = []
        for n, part in enumerate(_NUMBERS.split(text)):
            is_number = n % 2 == 1 and self._backticks % 2 == 0
            done.append(self._mark(part) if is_number else part)
            self._backticks += part.count("`")
            self._before = (self._before + ("" if is_number else part))[-LOOK_BACK:]
        return "".join(done)

    def _mark(self, written: str) -> str:
        """Return the marks for a written `[2]` or `[1, 3]`, and plain text for numbers whose passage does not support the
        sentence before them."""
        as_text, place = written if "," in written else f"\\{written}", (self._before, written)
        if self.given and place not in self._marks and len(self._marks) < MOST_JUDGED:
            sentence = SENTENCE_END.split(self._before.rstrip())[-1].strip(" \t*#>-•")
            bound = {number: self._cited(sentence, int(number)) for number in re.findall(r"\d+", written)}
            marks = "".join(dict.fromkeys(f"[{n}]" if n else f"\\[{number}]" for number, n in bound.items()))
            self._marks[place] = marks if any(bound.values()) else as_text
        return self._marks.get(place, as_text)

    def _cited(self, sentence: str, number: int) -> int | None:
        """Return the source's number in the answer, None when the passage does not support the sentence."""
        if not self.given or not 1 <= number <= len(self.given):
            return None
        passage = self.given[number - 1]
        quote = {"source": passage.url, "title": passage.title, "cited_text": supporting(sentence, passage)}
        return self.book.cite({"type": "search_result_location", **quote}) if quote["cited_text"] else None


def supporting(sentence: str, passage: Passage) -> str:
    """Return the paragraph of a passage, or all of it, that supports a sentence, "" when it does not."""
    whole = " ".join(passage.paragraphs)
    best = check(sentence, [whole, passage.title]).verdict
    if best not in ("supported", "partly"):
        return ""
    return next((text for text in passage.paragraphs if check(sentence, [text, passage.title]).verdict == best), whole)


# --- a sentence and its passages ---------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\W_]+")
_NOT_SHORT, _APOSTROPHE = re.compile(r"n['’]t\b"), re.compile(r"(?<=\w)['’](?:s\b|(?=\w))")
_TITLE = re.compile(r"\b[A-Z]\.$|\b(?:Mr|Mrs|Ms|Dr|St|Gov|Sen|Jr|vs)\.$")
_NAME_FOLLOWS = re.compile(
    r" (?:[A-Z]|(?:is|was|has|had|will|won|wrote|lies|became|made|said|says|opened|released|announced)\b)|['’]s\b"
)
ENOUGH, LITTLE, FACT, CLOSE, TWIN = 0.51, 0.25, 6, 3, 0.8
# The API cites at most 150 characters of a page, and ends them with dots (recorded 2026-11): more follows there.
CUT = range(140, 161)
_LAST_LATIN = "\u024f"
_KANA = re.compile(r"[\u3040-\u30ff]")
_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
_NAME = re.compile(
    r"(?:[A-Z]\.){2,}|(?<!\w)[^\W\d_a-z][\w’']*(?:[.&-][\w’']+)*|[a-z]+[A-Z]\w*|\b(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z]\w*(?:-\d\w*)?"
)


class Sentence(NamedTuple):
    """A sentence as written, its words as they are compared, and their stems."""

    source: str
    words: tuple[str, ...]
    stems: frozenset[str]


@dataclass(frozen=True, slots=True)
class Text:
    """A parsed text, or several passages in one; its `language` is "" when it does not show."""

    source: str
    sentences: tuple[Sentence, ...]
    stems: frozenset[str]
    quantities: Quantities
    language: str


def check(sentence: str, passages: Sequence[str]) -> Claim:
    """Return whether the passages that a sentence cites support it, and the facts that they lack.

    "unsupported": a number, date, name, negation or comparison is another one than in the passages, or little of the sentence
    stands there. "partly": something is missing, and nothing contradicts. "uncited": there are no passages. Between two
    languages only numbers and dates are compared.

    >>> check("The tower is 330 m tall.", ["It was built in 1889 and is 324 metres tall."])
    Claim(verdict='unsupported', missing=('330 m',), sentence='', numbers=())
    """
    texts = tuple(passage for passage in passages if passage.strip())
    if not texts:
        return Claim("uncited")
    claim, given = parse(sentence), parse("\n".join(texts))
    is_cut = any(len(text) in CUT and text.endswith("...") for text in texts)
    wrong, absent = _lacking_quantities(claim.quantities, given.quantities)
    changed, lacking, others = _altered(claim, given)
    score, is_other_name = 1.0, False
    if claim.language == given.language or "" in (claim.language, given.language):
        content = [word for part in claim.sentences for word in part.words if word not in STOP]
        facts = len(claim.quantities.numbers) + len(claim.quantities.dates)
        score = _overlap(content, given.stems, facts, facts - len(wrong) - len(absent))
        near, names = _nearest(frozenset(map(stem, content)), given), _lacking_names(claim, given)
        # When nearly all else of it stands in one sentence of the passages, the name is another one.
        is_other_name = bool(names or is_cut) and any(_overlap(content, part.stems) >= 0.7 for part in near)
        wrong += changed + _comparisons(others, near[:CLOSE]) + _negations(others, near[:CLOSE])
        absent += lacking
        (wrong if is_other_name else absent).extend(names)
    if is_cut:
        wrong, absent, score = wrong if is_other_name else changed, [], 1.0
    missing = tuple(dict.fromkeys(wrong + absent))
    if wrong or score < LITTLE:
        return Claim("unsupported", missing)
    return Claim("partly" if absent or score < ENOUGH else "supported", missing)


def quote_has(value: object, quote: str) -> bool:
    """Return whether a quote has a value: its words, its number in any spelling or magnitude, its date, all its items.

    Of four words and more, three quarters are enough. True and False stand in no quote, and are not looked for.

    >>> quote_has(5_000_000, "It has 5M people."), quote_has(date(1998, 3, 4), "born on 4 March 1998"), quote_has("Jo", "Al")
    (True, True, False)
    """
    if isinstance(value, bool):
        return True
    if isinstance(value, list | tuple):
        return all(quote_has(item, quote) for item in value)
    given = read(quote)
    if isinstance(value, date):
        asked = Date("", ((value.year, value.month, value.day),))
        return any(asked.agrees(other) for other in given.dates) or (not given.dates and quote_has(value.year, quote))
    if isinstance(value, int | float | Decimal):
        return any(number.is_about(float(value)) for number in given.numbers) or any(value in day.years for day in given.dates)
    text, there = parse(str(value)), parse(quote)
    wrong, absent = _lacking_quantities(text.quantities, given)
    words = [word for word in tokenize(text.source) if not is_part_of_one(word)]
    words = [word for word in words if word not in STOP] or words
    found = sum(stem(word) in there.stems for word in words)
    whole = found == len(words) if len(words) < 4 else found >= 0.75 * len(words)
    return not wrong and not absent and (whole or _abbreviated(str(value), words, there))


def folded(text: str) -> str:
    """Return lower case without accents."""
    if text.isascii():
        return text.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))


def tokenize(text: str) -> list[str]:
    """Return the words in the form in which they are compared; scripts without blanks give pairs of characters."""
    found: list[str] = []
    for word in _WORD.findall(_APOSTROPHE.sub("", _NOT_SHORT.sub(" not", folded(text)))):
        found += [word[i : i + 2] for i in range(max(1, len(word) - 1))] if _CJK.match(word) else [word]
    return found


@lru_cache(65_536)
def stem(word: str) -> str:
    """Return the stem that the forms of a word share, at most six letters."""
    return whole_stem(word)[:6]


@lru_cache(1024)
def parse(text: str) -> Text:
    """Return a text, parsed for comparison."""
    parts = [(part, tuple(tokenize(part))) for part in SENTENCE_END.split(text) if part.strip()]
    sentences = tuple(Sentence(part, words, frozenset(map(stem, words))) for part, words in parts)
    stems = frozenset().union(*(sentence.stems for sentence in sentences))
    language = _language(text, [word for _, words in parts for word in words])
    return Text(text, sentences, stems, read(text), language)


def _overlap(content: Sequence[str], known: frozenset[str], facts: int = 0, found: int = 0) -> float:
    """Return the share of the words and facts (numbers, dates) that are known; long words weigh more."""
    weights = {word: min(len(word), 10) for word in content if not is_part_of_one(word)}
    everything = sum(weights.values()) + FACT * facts
    return (sum(w for word, w in weights.items() if stem(word) in known) + FACT * found) / everything if everything else 1.0


def _nearest(stems: frozenset[str], given: Text) -> list[Sentence]:
    """Return the sentences of the passages that share most with the stems, best first, down to 60 % of the best one."""
    shared = [(len(stems & sentence.stems), sentence) for sentence in given.sentences]
    shared.sort(key=lambda pair: -pair[0])
    return [sentence for n, sentence in shared if n and n >= 0.6 * shared[0][0]]


def _language(source: str, words: Sequence[str]) -> str:
    """Return the language of a text or, where a quarter is not Latin, its script; "" when it does not show."""
    letters = [c for c in source[:400] if c.isalpha()]
    others = [c for c in letters if c > _LAST_LATIN]
    if 4 * len(others) > len(letters):
        return "kana" if _KANA.search(source) else unicodedata.name(others[0], "").split(" ")[0]
    scores = sorted(((sum(word in common for word in words), name) for name, common in LANGUAGES.items()), reverse=True)
    return scores[0][1] if scores[0][0] >= 2 and scores[0][0] > 1.5 * scores[1][0] else ""


# --- sentences that stand in a passage nearly word by word --------------------------------------------------------------------


def _altered(claim: Text, given: Text) -> tuple[list[str], list[str], list[str]]:
    """Return the facts that are contradicted and those that are missing, for sentences that have a twin in the passages (a
    sentence that is nearly equal), and the words of the other sentences. Of several twins the one that differs least counts."""
    wrong: list[str] = []
    absent: list[str] = []
    others: list[str] = []
    for sentence in claim.sentences:
        enough = TWIN * len(sentence.stems)
        twins = [twin for twin in given.sentences if len(sentence.stems & twin.stems) >= enough]
        changes = [change for twin in twins if (change := _change(sentence, twin, claim.language == "de")) is not None]
        nearest = min(changes, key=lambda change: len(change[0]) + len(change[1]), default=([], []))
        wrong += nearest[0]
        absent += nearest[1]
        others += () if changes else sentence.words
    return wrong, absent, others


def _change(sentence: Sentence, twin: Sentence, is_german: bool) -> tuple[list[str], list[str]] | None:
    """Return the facts that a twin contradicts and those that it lacks; None when the two are not nearly equal."""
    turned = _turned(sentence.words, twin.words)
    if turned is None:
        return None
    own, other = read(sentence.source), read(twin.source)
    wrong, absent = _lacking_quantities(own, other)
    # In German, capitalised words behind the first may be names.
    names = [word for word in _WORD.findall(sentence.source)[1:] if word[0].isupper()] if is_german else []
    absent += [name for name in names if twin.stems.isdisjoint(map(stem, tokenize(name)))]
    return turned + wrong + _replaced(own, other), absent


def _replaced(own: Quantities, twin: Quantities) -> list[str]:
    """Return the numbers and dates that stand where a twin with as many has another one."""
    numbers = zip(own.numbers, twin.numbers, strict=True) if len(own.numbers) == len(twin.numbers) else ()
    days = zip(own.dates, twin.dates, strict=True) if len(own.dates) == len(twin.dates) else ()
    found = [number.text for number, other in numbers if number.demanded and not number.stands_for(other)]
    return found + [day.text for day, other in days if not day.agrees(other)]


def _turned(words: Sequence[str], twin: Sequence[str]) -> list[str] | None:
    """Return the negations and comparisons in which two nearly equal sentences differ; None when they are not nearly equal."""
    matcher = SequenceMatcher(None, words, twin, autojunk=False)
    blocks = matcher.get_matching_blocks()[:-1]
    if not blocks or sum(block.size for block in blocks) < TWIN * len(words):
        return None
    # of a longer twin, the part that stands opposite to the words
    start = max(0, blocks[0].b - blocks[0].a)
    end = blocks[-1].b + len(words) - blocks[-1].a
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    own = {word for _, i, j, _, _ in changes for word in words[i:j]}
    other = {word for _, _, _, i, j in changes for word in twin[max(i, start) : min(j, end)]}
    found = sorted((own ^ other) & NOT) if len(own & NOT) != len(other & NOT) else []
    return found + [word for one, opposite in OPPOSITES if other & opposite for word in sorted(own & one)]


# --- numbers and dates ------------------------------------------------------------------------------------------------------


def _lacking_quantities(asked: Quantities, given: Quantities) -> tuple[list[str], list[str]]:
    """Return the numbers and dates which the passages contradict, and those that they lack."""
    numbers = [number for number in asked.numbers if number.demanded and not _stands(number, given)]
    days = [day.text for day in asked.dates if not _is_given(day, given)]
    others = dict.fromkeys(given.numbers) if numbers else ()  # each once: pages repeat their years
    unused = [other for other in others if not any(other.agrees(m) or m.agrees(other) for m in asked.numbers)]
    kinds = {kind for other in unused for kind in other.kinds}
    contradicted = [
        n for n in numbers if kinds & n.kinds or any(o.plain == n.plain and "" not in o.kinds | n.kinds for o in others)
    ]
    wrong = [number.text for number in contradicted] + (days if given.dates else [])
    return wrong, [n.text for n in numbers if n not in contradicted] + ([] if given.dates else days)


def _is_given(day: Date, given: Quantities) -> bool:
    return any(map(day.agrees, given.dates)) and not (day.years and not day.years & given.years)


def _stands(number: Number, given: Quantities) -> bool:
    return any(map(number.agrees, given.numbers)) or (number.plain in given.years and number.kinds == {""})


# --- names ------------------------------------------------------------------------------------------------------------------


def _lacking_names(claim: Text, given: Text) -> list[str]:
    """Return the names that do not stand in the passages, neither as words nor as initials."""
    lacking = []
    for name in _names(claim.source) if claim.language != "de" else ():  # in German all nouns are capitalised
        words = tokenize(name)
        absent = {word for word in words if given.stems.isdisjoint(_roots(word))}
        if absent and not _abbreviated(name, words, given):
            lacking.append(" ".join(word for word in name.split() if absent & set(tokenize(word))) or name)
    return lacking


def _abbreviated(name: str, words: Sequence[str], given: Text) -> bool:
    """Return whether the passages have the initials of a name, or the words whose initials it is (US: United States)."""
    initials = r"\.?".join(re.escape(word[0].upper()) for word in words if word not in STOP)
    beginnings = (word[0] for sentence in given.sentences for word in (*sentence.words, " ") if word not in LINKS)
    is_written_out = name.isupper() and len("".join(words)) > 1 and "".join(words) in "".join(beginnings)
    return is_written_out or (len(words) > 1 and re.search(rf"\b{initials}\b", given.source) is not None)


def _roots(word: str) -> set[str]:
    """Return the stems under which a name may stand in a passage: its own, and of a nationality that of the country."""
    countries = [word.removesuffix(ending) + rest for ending, rest in NATIONALITIES if word.endswith(ending)]
    return {stem(form) for form in (word, *countries)}


def _names(sentence: str) -> list[str]:
    """Return the names: runs of capitalised words. A sentence's first word is one where a name or a verb follows."""
    found: list[str] = []
    last_end = -1
    for match in _NAME.finditer(sentence):
        word, bare = match[0], folded(match[0]).removesuffix("'s").removesuffix("’s")
        before = sentence[: match.start()].rstrip(" \"“‘'([*_")
        opens = before[-1:] in ".!?:;•-–\n" and not _TITLE.search(before) and not word[1:].isupper()
        is_opener = opens and (bare in OPENERS or not _NAME_FOLLOWS.match(sentence, match.end()))
        if is_opener or bare in NO_NAMES or len(bare) < 2 or word.islower():
            continue
        if found and match.start() - last_end == 1 and sentence[last_end] == " ":
            found[-1] += " " + word
        else:
            found.append(word)
        last_end = match.end()
    return found


# --- negations and comparisons ----------------------------------------------------------------------------------------------


def _comparisons(others: Sequence[str], near: Sequence[Sentence]) -> list[str]:
    """Return the comparisons of which the nearest sentences of the passages have the opposite alone."""
    words = frozenset(others) & COMPARING
    if not words:  # most sentences; a long answer has hundreds
        return []
    around = frozenset(word for sentence in near for word in sentence.words)
    opposed = [one for one, other in OPPOSITES if not words & other and around & other and not around & one]
    return [word for one in opposed for word in sorted(words & one)]


def _negations(words: Sequence[str], near: Sequence[Sentence]) -> list[str]:
    """Return the negations in which the words and the nearest sentences of the passages differ."""
    if not near or not words:
        return []
    if denials := list(_denials(words, NOT)):
        return [word for word, scope in denials if not any(scope & _denied(part.words, DENYING) for part in near)]
    stems = frozenset(stem(word) for word in words if word not in STOP)
    alike = [part for part in near if len(stems & part.stems) >= 0.6 * len(stems)]
    denied = alike and not DENYING & set(words) and all(_denied(part.words, NOT) & stems for part in alike)
    return ["not"] if denied else []


def _denials(words: Sequence[str], denying: frozenset[str]) -> Iterable[tuple[str, frozenset[str]]]:
    """Yield each negation with the stems of the next three words of content."""
    for i, word in enumerate(words):
        after = words[i + 1 : i + 8]
        idiom = i and words[i - 1] in ("to", "or", "and")  # little or no
        counted = word == "no" and after and after[0].isdigit()  # No. 5
        if word in denying and after and after[0] != "only" and not counted and not idiom:
            yield word, frozenset([stem(other) for other in after if other not in STOP][:3])


def _denied(words: Sequence[str], denying: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*(scope for _, scope in _denials(words, denying)))
