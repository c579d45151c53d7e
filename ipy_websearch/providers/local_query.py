"""From a question to a full-text expression, and from a document to the passages that answer it. Pure string work.

The invariant: whatever characters a query holds, the expression made of it is legal FTS5 (every word is quoted, and holds
letters and digits only). Documents and queries pass through the same `index_form`, so what is typed finds what is written.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from ipy_websearch.text import plain, shorten

DESCRIPTION_CHARS = 300
EXTRA_SNIPPETS = 4
MAX_TERMS = 32
PARAGRAPH_CHARS = 1500

_CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af\U00020000-\U0003134f"
_CJK_CHARACTER = re.compile(f"([{_CJK}])")
_WORD = re.compile(rf"[{_CJK}]+|[^\W_{_CJK}]+")
_SYMBOLS = re.compile(r"(?<![^\W_])(?:([a-z])(\+\+|#)(?![^\W_])|\.(net)\b)", re.IGNORECASE)
_CONTRACTION = re.compile(r"['\u2019](?:s|t|re|ve|ll|d|m)\b", re.IGNORECASE)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]*[^\Wa-z_])")
_SUFFIX = re.compile(r"(?:ational|ations?|ings?|ments?|ers?|ors?|ied|ies|eed|ed|es|ly|[sye])$")


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STOP = _set(
    """a an and are as at be been being but by can could did do does for from had has have having he her here him his how i
    if in into is it its me my of on or our shall she should so some such than that the their them then there these they
    this those to was we were what when where which while who whom whose why will with would you your about"""
)
_COMMANDS = _set("define describe explain find give list name please show tell")
_WEAK = _set("current currently latest least many more most much news today")
_ALIKE = tuple(
    map(
        _set,
        (
            "created creator designed designer developed developer invented inventor made wrote author",
            "largest biggest",
            "tallest highest",
            "population inhabitants",
            "born birth",
            "died death",
        ),
    )
)
"""Words that ask the same; a document that holds one of them answers the others."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a query asks for: `terms` to find, each once, and `phrases`, pairs of words that count for more together."""

    terms: tuple[str, ...]
    phrases: tuple[str, ...]

    @property
    def expressions(self) -> list[str]:
        """One FTS5 expression for each term, for documents that hold it or a word that asks the same."""
        return [f"({' OR '.join(map(quoted, alike(term)))})" for term in self.terms]

    @property
    def any_term(self) -> str:
        """The FTS5 expression for documents with any of the terms; phrases raise the rank of those that hold them."""
        return " OR ".join((*self.expressions, *map(quoted, self.phrases)))

    @property
    def all_terms(self) -> str:
        """The FTS5 expression for documents that hold every term, ranked like `any_term`."""
        return f"({' AND '.join(self.expressions)}) AND ({self.any_term})"

    @property
    def beginnings(self) -> str:
        """The FTS5 expression for words that begin like a term: the last resort ("phosph" finds phosphorus)."""
        return " OR ".join(f"{quoted(term)}*" for term in self.terms if len(term) > 2)


def alike(term: str) -> tuple[str, ...]:
    """Return the term, and after it the words that ask the same."""
    others = next((group for group in _ALIKE if term in group), frozenset())
    return (term, *sorted(others - {term}))


def quoted(term: str) -> str:
    """Return a term as an FTS5 string; Chinese, Japanese and Korean runs become a phrase of their characters."""
    return '"' + _CJK_CHARACTER.sub(r"\1 ", term.replace('"', " ")).strip() + '"'


def index_form(text: str) -> str:
    """Return `text` as it is indexed: C++, C# and .NET as words, and each character of an unspaced script by itself."""
    if not text.isascii():
        text = _CJK_CHARACTER.sub(r" \1 ", text)
    return _SYMBOLS.sub(_symbol_word, text)


def _symbol_word(match: re.Match[str]) -> str:
    letter, sign, net = match.groups()
    return "dotnet" if net else f"{letter}{'plusplus' if sign == '++' else 'sharp'}"


def parse_question(query: str) -> Question:
    """Return the terms of a natural-language query; when it holds nothing but function words, those are the terms."""
    words = _words(_SYMBOLS.sub(_symbol_word, _CONTRACTION.sub("", query)))[: 4 * MAX_TERMS]
    ranks = [_rank(words, at) for at in range(len(words))]
    best = max(ranks, default=0)
    terms = dict.fromkeys(word for word, rank in zip(words, ranks, strict=True) if rank == best)
    pairs = zip(words, words[1:], ranks, ranks[1:], strict=False)
    phrases = dict.fromkeys(f"{a} {b}" for a, b, x, y in pairs if x and y and max(x, y) == 2)
    if "most" in words:
        phrases["any other"] = None  # "more moons than any other planet" is how an answer says it
    return Question(tuple(terms)[:MAX_TERMS], tuple(phrases)[:MAX_TERMS])


def _rank(words: Sequence[str], at: int) -> int:
    """Return 2 for a word with meaning, 1 for one that counts only beside such a word, 0 for a function word."""
    word = words[at]
    if word in _WEAK or (at > 0 and words[at - 1] == "how" and word not in _STOP):
        return 1
    opening = word in _COMMANDS and all(w in _STOP or w in _COMMANDS for w in words[:at])
    return 0 if word in _STOP or (opening and len(words) > 1) else 2


def _words(text: str) -> list[str]:
    return [_folded(word) for word in _WORD.findall(text)]


def _folded(word: str) -> str:
    """Return the word in lower case without accents, as `unicode61 remove_diacritics 2` does."""
    if word.isascii():
        return word.lower()
    return "".join(c for c in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(c)) or word


def _root(word: str) -> str:
    """Return a rough stem, enough to see that "moons" and "moon", "discovered" and "discovery" belong together."""
    if len(word) <= 3 or word.isdigit():
        return word
    stem = _SUFFIX.sub("", word)
    return stem if len(stem) >= 3 else word


def bare_title(title: str) -> str:
    """Return a title without the words in brackets that tell it from others: "Mercury" for "Mercury (planet)"."""
    return re.sub(r"\s*\([^()]*\)", "", title).strip() or title


def title_share(title: str, question: Question) -> float:
    """Return which part of the title's words the question names: 1.0 for "Mars" asked about Mars, 0.0 for none."""
    words = [_root(word) for word in _words(index_form(bare_title(title))) if word not in _STOP]
    if not words:
        return 0.0
    roots = set(map(_root, question.terms))
    return sum(word in roots for word in words) / len(words)


def paragraphs(body: str) -> list[str]:
    """Return the paragraphs of a Markdown text as plain lines; headings go with what follows, long ones are divided."""
    found: list[str] = []
    heading = ""
    for block in re.split(r"\n\s*\n", body):
        text = plain(re.sub(r"^\s*#{1,6} +", "", block)) if block.lstrip().startswith("#") else plain(block)
        if not text:
            continue
        if block.lstrip().startswith("#") and "\n" not in block.strip():
            heading = text
            continue
        found += _pieces(f"{heading}: {text}" if heading else text)
        heading = ""
    return found + ([heading] if heading else [])


def _pieces(text: str) -> list[str]:
    """Return a paragraph in pieces of at most `PARAGRAPH_CHARS`, divided between sentences where there are any."""
    if len(text) <= PARAGRAPH_CHARS:
        return [text]
    pieces, rest = [""], _SENTENCE_END.split(text)
    for sentence in rest:
        if len(pieces[-1]) + len(sentence) + 1 > PARAGRAPH_CHARS and pieces[-1]:
            pieces.append("")
        pieces[-1] = f"{pieces[-1]} {sentence}".strip()
    cuts = (piece[i : i + PARAGRAPH_CHARS] for piece in pieces for i in range(0, len(piece), PARAGRAPH_CHARS))
    return [cut for cut in cuts if cut]


def best_passages(body: str, question: Question) -> tuple[str, tuple[str, ...]]:
    """Return (description, further paragraphs): the best words for the question, then up to four paragraphs in full.

    When the best paragraph is longer than a description may be, it comes first among the paragraphs: nothing is lost.
    """
    roots = [frozenset(map(_root, alike(term))) for term in question.terms]
    pairs = [tuple(map(_root, phrase.split(" "))) for phrase in question.phrases]
    texts = paragraphs(body)
    scores = [_passage_score(text, roots, pairs) for text in texts]
    scores[:1] = [score + 0.2 for score in scores[:1]]  # the opening says what the document is about
    order = sorted(range(len(texts)), key=lambda at: (-scores[at], at))
    if not order:
        return "", ()
    first = texts[order[0]]
    description = first if len(first) <= DESCRIPTION_CHARS else _best_sentences(first, roots, pairs)
    further = [texts[at] for at in order if texts[at] != description]
    return description, tuple(further[:EXTRA_SNIPPETS])


def _passage_score(text: str, roots: Sequence[frozenset[str]], pairs: Sequence[tuple[str, ...]]) -> float:
    """Return one for each term held, half for each phrase, and a little for repetition; CJK words are found anywhere."""
    words = [_root(word) for word in _words(text)]
    held, neighbours = set(words), set(zip(words, words[1:], strict=False))
    score = sum(1.0 if group & held else 0.8 if _holds_cjk(text, group) else 0.0 for group in roots)
    score += 0.5 * sum(pair in neighbours for pair in pairs)
    return score + 0.05 * min(6, sum(any(word in group for group in roots) for word in words))


def _holds_cjk(text: str, group: frozenset[str]) -> bool:
    return any(_CJK_CHARACTER.match(root) and root in text for root in group)


def _best_sentences(paragraph: str, roots: Sequence[frozenset[str]], pairs: Sequence[tuple[str, ...]]) -> str:
    """Return the best sentence and those after it, as many as a description holds."""
    sentences = _SENTENCE_END.split(paragraph)
    scores = [_passage_score(sentence, roots, pairs) for sentence in sentences]
    start = scores.index(max(scores))
    chosen = sentences[start]
    for sentence in sentences[start + 1 :]:
        if len(chosen) + len(sentence) + 1 > DESCRIPTION_CHARS:
            break
        chosen += f" {sentence}"
    return shorten(chosen, DESCRIPTION_CHARS)
