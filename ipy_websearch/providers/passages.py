"""Picks the passages of pages that fit a query: BM25 over paragraphs under their headings. Pure.

A paragraph counts with the words of its headings and of the page's title, and lends a part of its score to its neighbours: the
answer often stands in the sentence after the one that has the question's words. What is picked keeps the order of the page.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

# The most tokens of one page, and of all pages of a search.
PAGE_TOKENS, ALL_TOKENS = 1_500, 4_000
# Characters of a page that are looked at: a long book would take seconds.
MOST_CHARACTERS = 200_000

_PIECE_CHARACTERS = 1_000  # a longer paragraph, list or table is cut into pieces of about this size
# A code fence with its lines: it is closed by one as long with nothing after, else by the end.
_FENCED = re.compile(
    r"^[ \t>]{0,12}(?:(?P<ticks>`{3,})(?!`)[^`\n]*|(?P<tildes>~{3,})(?!~)[^\n]*)(?:\n|\Z)"
    r"(?:.*?^[ \t>]{0,12}(?:(?P=ticks)`*|(?P=tildes)~*)[^\S\n]*(?=\n|\Z)|.*\Z)",
    re.MULTILINE | re.DOTALL,
)
_BLANK_LINES = re.compile(r"^[^\S\n\f]*(?:\n|\Z)|\n(?:[^\S\n\f]*(?:\n|\Z))+", re.MULTILINE)
# A heading waits for its text, and a sentence that ends in a colon for the code or the list that it announces.
_LEADS_ON = re.compile(r"(?:^#{1,6} [^\n]*|:)\Z", re.MULTILINE)
_IS_CODE = re.compile(r"```|~~~")
_HEADINGS = re.compile(r"(#{1,6}) ([^\n]*)\n*")
_LINK = re.compile(r"!?\[([^\[\]\n]{0,500})\]\((?:[^()\s]|\([^()\s]{0,200}\)){0,2000}(?: \"[^\"\n]{0,300}\")?\)")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？])")
# Chosen on the dev part of `tests/benchmarks/passages.py`: the share of its better neighbour's score that a piece gets, what a
# word in its headings and in the page's title counts, what the first piece of a page gets, and the share of the best score that
# is enough to be taken.
_LENT, _ABOVE, _TITLE, _FIRST, _ENOUGH = 0.5, 0.5, 0.3, 0.25, 0.25

_WORD = re.compile(r"[぀-ヿ㐀-鿿]|[^\W_]+(?:['’.\-+#][^\W_]+)*[+#]*")
_PLURAL = re.compile(r"(?<=...)(?:(i)es|es|s)$")
_ENDING = re.compile(r"(?<=...)(?:(i)est|ing|ed|er)$")
_STOP_WORDS = frozenset(
    """a an the of in on at to for from by with about into under over as
    and or but is are was were be been being am do does did has have
    had can could will would shall should may might must i you he she it we they me him her us them my your his its our their
    this that these those there here what which who whom whose when where why how many much please tell give show list name
    named called find say explain describe know want's s some any also then so just 's""".split()
)


# --- words ------------------------------------------------------------------------------------------------------------


def words_in(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text; in scripts without spaces every character is one."""
    return _WORD.finditer(text)


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return a word without case, accents and common English endings, for comparing words alone."""
    plain = word.casefold()
    if not plain.isascii():
        plain = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    plain = re.sub("['’]s$", "", plain)
    if plain.isalpha():
        plain = _ENDING.sub(r"\1", _PLURAL.sub(r"\1", plain))
    if len(plain) > 4 and plain[-1] == plain[-2]:
        plain = plain[:-1]
    return re.sub("y$", "i", plain).removesuffix("e") if len(plain) > 3 else plain


def stems(text: str) -> list[str]:
    """Return the stems of all words of a text, in order."""
    return [stem(word) for word in _WORD.findall(text)]


def content_words(text: str) -> list[str]:
    """Return the words of a question that carry meaning, in order, each once."""
    words = (match[0] for match in words_in(text))
    return list({stem(word): word for word in words if word.casefold() not in _STOP_WORDS}.values())


# --- blocks of a page ------------------------------------------------------------------------------------------------


def blocks(markdown: str, *, most: int = 60) -> tuple[str, ...]:
    """Return the blocks of `markdown` in order, neighbours joined so that there are at most `most`; no block is empty.

    A citation names whole blocks. They end at blank lines; a code fence is never cut and stays with the paragraph above it, a
    heading, or a sentence that ends in a colon, with what follows it.
    """
    parts: list[str] = []
    # A line feed inside a fence becomes a form feed for a moment, so that blank lines in it part nothing.
    hidden = _FENCED.sub(lambda fence: fence[0].replace("\n", "\f"), markdown.replace("\f", " "))
    for part in filter(None, _BLANK_LINES.split(hidden)):
        if parts and (_LEADS_ON.search(parts[-1]) or _IS_CODE.match(part) and not _IS_CODE.match(parts[-1])):
            parts[-1] += f"\n\n{part}"
        else:
            parts.append(part)
    parts = [part.replace("\f", "\n").rstrip("\n") for part in parts]
    size = -(-len(parts) // most)
    return tuple("\n\n".join(parts[at : at + size]) for at in range(0, len(parts), size or 1))


# --- pieces of a page -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Piece:
    """A paragraph, or a part of a long one, and the headings that it stands under, the outermost first."""

    headings: tuple[str, ...]
    text: str


def pieces_of(markdown: str) -> list[Piece]:
    """Return the paragraphs of a page in order; a list, a table or a code block is one, long ones are cut.

    The addresses of links are left out: they take half the tokens of many pages, and `ToolOutput.urls` has them.
    """
    found: list[Piece] = []
    path: dict[int, str] = {}
    for block in blocks(markdown[:MOST_CHARACTERS], most=MOST_CHARACTERS):
        at = 0
        while heading := _HEADINGS.match(block, at):
            level, at = len(heading[1]), heading.end()
            path = {n: text for n, text in path.items() if n < level} | {level: heading[2].strip(" #")}
        headings = tuple(filter(None, (_LINK.sub(r"\1", text) for text in path.values())))
        text = block[at:].strip("\n")
        found += [Piece(headings, part) for part in _parts(text if "```" in text else _LINK.sub(r"\1", text))]
    return found


def _parts(text: str) -> Iterator[str]:
    """Yield a paragraph in parts of about `_PIECE_CHARACTERS`: whole lines or sentences; each part of a table has its head."""
    if len(text) <= _PIECE_CHARACTERS * 1.5:
        yield from [text] if text.strip() else []
        return
    lines = text.split("\n")
    if len(lines) == 1:
        lines = SENTENCE_END.split(text)
    is_table = len(lines) > 2 and text.startswith("|") and set(lines[1]) <= set("|-: ")
    head, glue = lines[:2] if is_table else [], "\n" if "\n" in text else " "
    part: list[str] = []
    for line in lines[len(head) :]:
        if part and len(glue.join(part)) + len(line) > _PIECE_CHARACTERS:
            yield glue.join([*head, *part])
            part = []
        part.append(line[: _PIECE_CHARACTERS * 3])
    yield glue.join([*head, *part])


# --- which pieces -----------------------------------------------------------------------------------------------------


def bm25(wanted: Sequence[str], texts: Sequence[Counter[str]]) -> list[float]:
    """Return how well each text fits the wanted words, by Okapi BM25 (k1 = 1.2, b = 0.6) over these texts."""
    usual = sum(text.total() for text in texts) / max(1, len(texts)) or 1
    weights = word_weights(wanted, texts)
    lengths = [1.2 * (0.4 + 0.6 * text.total() / usual) for text in texts]
    return [
        sum(weight * text[word] * 2.2 / (text[word] + length) for word, weight in weights.items() if word in text)
        for text, length in zip(texts, lengths, strict=True)
    ]


def word_weights(wanted: Sequence[str], texts: Sequence[Collection[str]]) -> dict[str, float]:
    """Return the weight of each wanted word: the fewer texts have it, the more."""
    return {word: math.log(1 + len(texts) / (1 + sum(word in text for text in texts))) for word in wanted}


def best_passages(
    query: str, pages: Sequence[tuple[str, str]], *, page_tokens: int = PAGE_TOKENS, all_tokens: int = ALL_TOKENS
) -> list[tuple[str, ...]]:
    """Return for each page (its title and its Markdown) the passages that fit the query, in the page's order.

    A passage has the headings that it stands under in front, where they differ from those before it. Every page gives at least
    its best passage, or its beginning when it has no word of the query, as far as there is room.
    """
    wanted = [stem(word) for word in content_words(query)] or stems(query)
    pieces = [(n, piece) for n, (_, markdown) in enumerate(pages) for piece in pieces_of(markdown)]
    ranks = scores(wanted, [title for title, _ in pages], pieces)
    enough = _ENOUGH * max(ranks, default=0.0)
    kept: set[int] = set()
    left, room = all_tokens, [page_tokens] * len(pages)
    for at in sorted(range(len(pieces)), key=lambda at: -ranks[at]):
        page, piece = pieces[at]
        size = tokens_of(_shown(piece, ()))
        if size <= min(left, room[page]) and (ranks[at] >= enough or room[page] == page_tokens):
            kept.add(at)
            left, room[page] = left - size, room[page] - size
    chosen: list[list[str]] = [[] for _ in pages]
    above: tuple[str, ...] = ()
    for at in sorted(kept):
        page, piece = pieces[at]
        chosen[page].append(_shown(piece, above if len(chosen[page]) else ()))
        above = piece.headings
    return [tuple(texts) for texts in chosen]


def scores(wanted: Sequence[str], titles: Sequence[str], pieces: Sequence[tuple[int, Piece]]) -> list[float]:
    """Return the score of each piece: its own words, its headings, its page's title, and a part of its neighbours' score."""
    texts = [Counter(stems(piece.text)) for _, piece in pieces]
    above = [set(stems(" ".join(piece.headings))) for _, piece in pieces]
    named = [set(stems(title)) for title in titles]
    for (page, _), text in zip(pieces, texts, strict=True):
        text.update({word: 1 - text[word] for word in named[page] & text.keys()})  # a page says what it is about all the time
    weights = word_weights(wanted, [text.keys() | words for text, words in zip(texts, above, strict=True)])

    def weight(words: Collection[str]) -> float:
        return sum(weight for word, weight in weights.items() if word in words)

    own = [
        score + _ABOVE * weight(words) + (_TITLE * weight(named[page]) if score else 0.0)
        for (page, _), words, score in zip(pieces, above, bm25(wanted, texts), strict=True)
    ]
    pages = [None, *(page for page, _ in pieces), None]
    found = []
    for at, score in enumerate(own):
        before, after = (pages[other] == pages[at + 1] for other in (at, at + 2))
        near = max(own[at - 1] if before else 0.0, own[at + 1] if after else 0.0)
        found.append(score + _LENT * near + (0.0 if before else _FIRST))
    return found


def _shown(piece: Piece, above: tuple[str, ...]) -> str:
    """Return a piece with its headings, unless they are those `above`."""
    if not piece.headings or piece.headings == above:
        return piece.text
    return f"{'#' * len(piece.headings)} {' › '.join(piece.headings[-3:])}\n\n{piece.text}"


def tokens_of(text: str) -> int:
    """Return about how many tokens a text has: letters a quarter, digits and signs a half, other scripts by their bytes."""
    raw = text.encode("utf-8", "replace")
    letters = len(raw) - len(raw.translate(None, _LETTERS))
    ascii_signs = len(raw.translate(None, _BEYOND)) - letters
    return -(-(letters * 3 + ascii_signs * 6 + (len(raw) - letters - ascii_signs) * 4) // 12)


_LETTERS = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ "
_BEYOND = bytes(range(128, 256))
