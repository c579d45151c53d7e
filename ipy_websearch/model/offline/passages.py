"""Reads what a request asks and quotes the passages that fit it best; one sentence goes first where a strict gate holds. Pure.

The gate asks for every content word of the question in one sentence or its title, of an article that the question names and
whose fact line says the same of the thing asked for. It stays shut for questions about who, when and where, what is current,
first or largest, for reasons, comparisons, choices and arithmetic: a sentence that shares their words is often about something
else. A page without a fact line is quoted and never put first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby
from typing import Any

from ipy_websearch.citations import SENTENCE_END, quote_has
from ipy_websearch.model.requests import content_of
from ipy_websearch.providers.passages import Piece, content_words, scores, stem, stems, words_in
from ipy_websearch.tools.base import UNREAD
from ipy_websearch.tools.web import UNAVAILABLE

# --- what a request asks -----------------------------------------------------------------------------------------------

Block = Mapping[str, Any]

_POINTS_BACK = re.compile(
    r"\b(?:it|its|they|their|them|he|his|she|her)\b|(?<!\bis )(?<!\bare )(?<!\bwas )(?<!\bwere )\bthere\b"
    r"|\b(?:is|are|was|were|do|does|did|of|to|from|in|on|for|with|than|about)\s+(?:that|this|those|these)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=\w\s)[A-Z]")
# What our tools say about a page, beside its own words.
_REMARKS = (UNREAD, "Published: ")
_ASKS = re.compile(
    r"\b(?:who|whom|whose|which|when|where|why|(?:what|how)(?! about))\b|^\W*(?:is|are|was|were|do|does|did|has|have|can)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Source:
    """One page or hit. `index` is its place among the request's `search_result` blocks, None where it cannot be cited."""

    title: str
    url: str
    paragraphs: tuple[str, ...]
    index: int | None = None

    @property
    def facts(self) -> tuple[int, list[str]]:
        """The place of the line of facts, and the facts as they stand there; none where there is no such line."""
        for at, text in enumerate(self.paragraphs):
            if text.startswith(FACTS):
                return at, text.removeprefix(FACTS).strip().rstrip(".").split("; ")
        return 0, []


@dataclass(slots=True)
class Conversation:
    """A request's open question and all that belongs to it.

    `previous` is what the question before was searched with, `subject` the title that the newest answer cited first. `calls`
    are the names of the tools called for the open question, `sources` what came back, `failure` the text of the last call that
    failed.
    """

    question: str = ""
    previous: str = ""
    subject: str = ""
    calls: list[str] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    failure: str = ""

    @property
    def query(self) -> str:
        """The words to search for; a follow-up carries what it leaves out: the subject, the words of the one before."""
        asks, names_one = _ASKS.search(self.question), _NAME.search(self.question)
        if not self.previous or not self.subject:
            return self.question
        if _POINTS_BACK.search(self.question) or (asks and not names_one):
            return f"{self.subject}: {self.question}"
        replaced = stems(self.subject) if names_one else ()  # "And the moons?", "What about Brazil?"
        kept = [word for word in content_words(self.previous) if stem(word) not in replaced]
        return self.question if asks else " ".join([*content_words(self.question), *kept])


def read_conversation(messages: Sequence[Mapping[str, Any]]) -> Conversation:
    """Return what the messages of a valid request say: each message with words of the user's own opens a question."""
    talk, places = Conversation(), count()
    for message in messages:
        blocks = content_of(message)
        if message["role"] == "assistant":
            talk.calls += [block["name"] for block in blocks if block["type"] == "tool_use"]
            titles = [cited.get("title") for block in blocks for cited in block.get("citations") or ()]
            talk.subject = next(filter(None, titles), talk.subject)
        elif message["role"] == "user":
            results = [block for block in blocks if block["type"] == "tool_result"]
            if not results and (words := text_of(blocks)):
                talk = Conversation(words, talk.query, talk.subject)
            talk.failure = next((text_of(content_of(block)) for block in results if block.get("is_error")), talk.failure)
            given = [part for block in blocks for part in (block, *(content_of(block) if block in results else ()))]
            talk.sources += [cited_source(part, next(places)) for part in given if part["type"] == "search_result"]
    return talk


def text_of(blocks: Sequence[Block]) -> str:
    """Return the text blocks' words."""
    return "\n".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text").strip()


def cited_source(block: Block, index: int) -> Source:
    """Return a `search_result` block, the one at `index` of its request, as a source."""
    texts = [str(part.get("text") or "") for part in content_of(block)]
    # Engines cut the best paragraph to a description, so that one text is the beginning or a part of another.
    within = [any(text != other and text.rstrip("…") in other for other in texts) for text in texts]
    whole = ["" if double or text.startswith(_REMARKS) else text for text, double in zip(texts, within, strict=True)]
    citable = bool((block.get("citations") or {}).get("enabled"))
    return Source(str(block.get("title") or ""), str(block.get("source") or ""), tuple(whole), index if citable else None)


# --- the passages that fit it ------------------------------------------------------------------------------------------

# Passages in an answer.
SHOWN = 3
# Characters of a passage; a longer paragraph is cut to its best sentences.
LONGEST = 480

SETS_KEY = "`%websearch key anthropic` sets a key for answers by Claude."
LABEL = f"**No model read these: they are the passages that share your words. {SETS_KEY}**"
_PARTS_OF_NAMES = [[stem(word)] for word in "new north northern south southern east eastern west western equatorial".split()]
# What the line of an article with its facts begins with, and the fact that names it otherwise.
FACTS, OTHER_NAMES = "Facts:", "other names: "


@dataclass(frozen=True, slots=True)
class Passage:
    """A paragraph of a source, with its place there."""

    source: Source
    at: int
    text: str


def answer_blocks(talk: Conversation) -> list[dict[str, Any]]:
    """Return the text blocks of the answer: the gated sentence if any, the label, the passages with their citations."""
    passages = best_passages(talk.query, talk.sources)
    if not passages:
        return [{"type": "text", "text": f"No model read these words. {_why_nothing(talk)} {SETS_KEY}"}]
    wanted = {stem(word) for word in content_words(talk.query)}
    quotes = [
        replace(passage, text=_excerpt(passage.text, wanted.difference(stems(passage.source.title)))) for passage in passages
    ]
    first = answering_sentence(talk.query, talk.sources)
    parts = [cited_text(first, first.text)] if first else []
    parts += [{"type": "text", "text": LABEL}, *(cited_text(quote, f"> {_emphasized(quote.text, wanted)}") for quote in quotes)]
    gap = {"type": "text", "text": "\n\n"}
    return [block for part in parts for block in (part, gap)][:-1]


def _why_nothing(talk: Conversation) -> str:
    if talk.failure:
        reason = talk.failure.removeprefix(UNAVAILABLE).strip(" ()").removeprefix("the search failed: ")
        return f"The search failed: {reason or 'no reason is known'}."
    if not talk.calls:
        return "There is no search tool in this question, and without one there is nothing to quote."
    return f"The search gave no passage for “{talk.query}”."


def best_passages(query: str, sources: Sequence[Source], most: int = SHOWN) -> list[Passage]:
    """Return the passages that fit a query best: BM25 over paragraphs, at most two of a source.

    Facts that are asked of an article come first. Where a question about one article asks for none by name, its fact line comes
    last; where it names several, theirs come first, to be compared.
    """
    wanted = [stem(word) for word in content_words(query)] or stems(query)
    about = named_in(query, sources)
    lines = [Passage(source, at, source.paragraphs[at]) for source in about for at, facts in [source.facts] if facts[1:]]
    by_name = [Passage(source, source.facts[0], text) for source in about for text in _asked_facts(source, set(wanted))]
    chosen = (by_name or (lines if len(about) > 1 else []))[:most]
    last = [] if chosen else lines[:1]
    for passage in _ranked(wanted, sources, about):
        alike = sum(other.source is passage.source for other in chosen)
        if alike < 2 and len(chosen) + len(last) < most:
            chosen.append(passage)
    return chosen + last


def named_in(text: str, sources: Sequence[Source]) -> list[Source]:
    """Return the articles that a text names, in its order: by the title, or by the other names in the fact line. "Mercury" is
    enough for "Mercury (planet)".

    "New Mexico" does not name Mexico, a verb not the language Go, and moons not the Moon.
    """
    said, exactly = stems(text), {match[0] for match in words_in(text)}
    lower = {word.casefold() for word in exactly}
    places: dict[int, int] = {}
    for n, source in enumerate(sources):
        others = next((fact for fact in source.facts[1] if fact.startswith(OTHER_NAMES)), OTHER_NAMES)
        for name in [re.sub(r"\s*\(.*\)$", "", source.title), *others.removeprefix(OTHER_NAMES).split(", ")]:
            words = stems(name)
            begins = [at for at, word in enumerate(said) if words[:1] == [word] and said[at - 1 : at] not in _PARTS_OF_NAMES]
            is_many = f"{name.casefold()}s" in lower and name.casefold() not in lower
            if begins and set(words) <= set(said) and not is_many and (len(name) > 2 or name in exactly):
                places.setdefault(n, begins[0])
    return [sources[n] for n in sorted(places, key=lambda n: places[n])]


def _asked_facts(source: Source, wanted: set[str]) -> list[str]:
    """Return the facts of an article that are asked for by name, neighbours as one text."""
    runs = groupby(source.facts[1], lambda fact: wanted.issuperset(map(stem, content_words(fact.partition(":")[0]))))
    return ["; ".join(run) for is_asked, run in runs if is_asked]


def _ranked(wanted: Sequence[str], sources: Sequence[Source], about: Sequence[Source]) -> list[Passage]:
    """Return the paragraphs of sources, best first, by the score that a page's have; sources that the question names, and those
    that the search ranked higher, go before equal ones."""
    placed = [(n, Passage(source, at, text)) for n, source in enumerate(sources) for at, text in enumerate(source.paragraphs)]
    pieces = [(n, Piece((found.source.title,), found.text)) for n, found in placed]
    fits = scores(wanted, [source.title for source in sources], pieces)
    ranked = [
        (fit * (2.0 if found.source in about else 1.0) / (1 + 0.12 * n), found)
        for (n, found), fit in zip(placed, fits, strict=True)
        if found.text.strip() and not found.text.startswith(FACTS)
    ]
    return [found for _, found in sorted(ranked, key=lambda pair: -pair[0])]


# --- the sentence that may stand first ---------------------------------------------------------------------------------

_SHUT = re.compile(
    r"""\b(?:who|whom|whose|where|when|why|how(?!\s+many\b)|current(?:ly)?|now|today|tonight|yesterday|latest|newest|recent(?:ly)?|next
    |upcoming|still|ever|this\s+(?:year|week|month)|first|last|most|least|best|worst|top|only|more|less|fewer|than|vs|versus
    |compared?|difference|better|or|not|never|made|without|except|if|should|would|could|recommend|plus|minus|times
    |divided|sum|average|percent|altogether|total|year|date|day|century|\w+ed|wrote|written|built|won|found|led|began
    |(?!(?:west|east|forest|interest|harvest|guest|request|test|budapest|everest|bucharest|modest|honest|priest|protest|contest|invest|quest|chest|nest|rest|arrest)\b)[a-z]{2,}est)\b
    |^\W*(?:is|are|was|were|do|does|did|has|have|had|can|will|may|might|must|shall)\b
    |\d\s*[-+*/^×÷x]\s*\d|\?.*\?|\b(?:19|20)[2-9]\d\b""",
    re.IGNORECASE | re.VERBOSE,
)


def answering_sentence(question: str, sources: Sequence[Source]) -> Passage | None:
    """Return the shortest sentence that may stand as the answer, None unless the gate holds for one."""
    wanted = {stem(word) for word in content_words(question)}
    about = [] if _SHUT.search(question) else named_in(question, sources)
    fitting = [
        Passage(source, at, sentence.strip())
        for source in about
        for at, paragraph in enumerate(source.paragraphs)
        if not paragraph.startswith(FACTS)
        for sentence in SENTENCE_END.split(paragraph)
        if _answers(sentence, wanted, source)
    ]
    return min(fitting, key=lambda passage: len(passage.text), default=None)


def _answers(sentence: str, wanted: set[str], source: Source) -> bool:
    """Return whether a sentence has all that is wanted, and what the article's fact line says of the thing asked for."""
    facts = [fact.partition(": ")[2] for run in _asked_facts(source, wanted) for fact in run.split("; ")]
    values = [re.sub(r" \(.*", "", value) for value in facts]
    return wanted <= {*stems(sentence), *stems(source.title)} and any(quote_has(value, sentence) for value in values)


def _excerpt(text: str, wanted: set[str]) -> str:
    """Return a passage as it is, or the part of it that holds most of the wanted words, from the beginning of a sentence."""
    text = ". " + " ".join(text.split())
    hits = [match.start() for match in words_in(text) if stem(match[0]) in wanted] if len(text) > LONGEST + 2 else []
    begins = [(text.rfind(". ", 0, hit) + 2, text.rfind(" ", 0, max(0, hit - LONGEST // 2)) + 1) for hit in hits]
    windows = [text[max(places) :][: LONGEST + 1] for places in begins] or [text[2:][: LONGEST + 1]]
    best = max(windows, key=lambda window: len(wanted & set(stems(window))))
    return best if len(best) <= LONGEST else best.rsplit(" ", 1)[0]


def _emphasized(text: str, wanted: set[str]) -> str:
    """Return a passage as Markdown that shows its own characters, the wanted words in bold."""
    shown = re.sub(r"([\\`*\[\]<]|(?<!\w)_|_(?!\w))", r"\\\1", text)
    for match in reversed(list(words_in(shown))):
        if stem(match[0]) in wanted:
            shown = f"{shown[: match.start()]}**{match[0]}**{shown[match.end() :]}"
    return shown.replace("** **", " ")


def cited_text(passage: Passage, shown: str) -> dict[str, Any]:
    """Return a text block that cites its passage, where the source can be cited."""
    source = passage.source
    if source.index is None:
        return {"type": "text", "text": shown}
    citation = {
        "type": "search_result_location",
        "source": source.url,
        "title": source.title,
        "cited_text": passage.text,
        "search_result_index": source.index,
        "start_block_index": passage.at,
        "end_block_index": passage.at + 1,
    }
    return {"type": "text", "text": shown, "citations": [citation]}
