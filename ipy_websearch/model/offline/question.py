"""Questions: what a user's text asks for, cut into parts that can each be searched and answered.

A part knows its content words, the named things it is about and the kind of answer it wants. The rules are shallow on
purpose: they look at question words, capitals and a few turns of phrase, and where they see nothing, all words count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from ipy_websearch.model.offline import lexicon
from ipy_websearch.model.offline.words import content_words, is_stop, stem, stems, words

Kind = Literal["number", "person", "year", "place", "name", "boolean", "definition", "text"]

_NAME = r"(?:[A-Z0-9][\w.+#’'&-]*|[a-z]{1,2}[A-Z][\w.+#-]*)"
ENTITY = rf"{_NAME}(?:\s+(?:(?:of|de|del|da|di|la|van|von|der|the)\s+)*{_NAME})*"
_ENTITY = re.compile(rf"[\"“]([^\"“”]{{2,80}})[\"”]|({ENTITY}|(?<![\w.])[a-z][\w+-]+\s+v?\d+(?:\.\d+)+)")
_ROLE = re.compile(
    r"^(?:(?:Vice\s+|Prime\s+)?(?:President|Minister|Chancellor|King|Queen|Emperor|Mayor|Governor|Head|Capital|Currency|"
    r"Population)|C[A-Z]O|GDP)\s+of\s+(?:the\s+)?"
)
_NUMERIC = re.compile(
    rf"\b(?:{'|'.join(lexicon.NUMERIC.split())}|(?:melting|boiling|freezing|flash|triple)\s+points?)\b(?!\s*$)(?!\s+of\s+the\s+year)"
    rf"|\b(?:{'|'.join(lexicon.NUMERIC.split())}|points?)\s*\??$",
    re.IGNORECASE,
)
_SOUGHT = re.compile(
    r"^\W*(?:and\s+|in\s+|on\s+|at\s+|of\s+|by\s+|to\s+|from\s+|for\s+)*(?:which|what)\s+(?!is\b|are\b|was\b|were\b|does\b|do\b|did\b|has\b|"
    r"have\b|had\b|of\b|the\b|can\b|will\b|would\b|other\b)(?:[\w-]+\s+)??([\w-]+)\s+(?:is|are|was|were|has|have|had|does|do|did|can|"
    r"will|would|(?-i:[a-z]\w*(?:s|ed|t))|made|began|won|led|gave|came|grew|took|fell|lies?|orbits?)\b",
    re.IGNORECASE,
)
_MEASURE = re.compile(
    r"\bhow\s+(?:many|much|tall|high|long|old|far|large|big|heavy|deep|hot|cold|fast|wide|dense|massive|bright|often)\b", re.I
)
_YEAR = re.compile(r"\bwhen\b|\b(?:what|which)\s+(?:year|date|day|month|decade|century)\b|\byear\b|\bdate\b", re.I)
_PERSON = re.compile(r"\b(?:who|whom|whose)\b|\b(?:what|which)\s+(?:person|people|scientist|author|artist|man|woman)\b", re.I)
_PLACE = re.compile(r"\bwhere\b|\b(?:location|headquarters)\b", re.I)
_BOOLEAN = re.compile(r"^(?:is|are|was|were|does|do|did|can|could|has|have|will|should|may)\b", re.I)
_WHICH = re.compile(r"\b(?:what|which)\b", re.I)
_THING = r"(?:the\s+|an?\s+)?([a-z][\w-]*(?:\s+[a-z][\w-]*){0,2}?)"
_OBJECTS = (
    re.compile(
        rf"^who\s+(?:first\s+)?(?:\w+ed|made|wrote|built|found|won|led|stole|sang|shot|drew)\s+{_THING}(?:\s+and\s+when)?\s*\??$",
        re.I,
    ),
    re.compile(
        rf"^(?:when|where|in\s+(?:what|which)\s+year)\s+(?:was|were)\s+{_THING}\s+(?:first\s+)?\w+(?:ed|en|t|nd|n|de)\s*\??$",
        re.I,
    ),
    re.compile(rf"^(?:when|where)\s+did\s+{_THING}\s+\w+\s*\??$", re.I),
    re.compile(rf"^(?:(?:what|which)\b.*?\b)?(?:the\s+)?\w+\s+of\s+{_THING}\s*\??$", re.I),
    re.compile(
        rf"^how\s+(?:many|much)\b.*?\b(?:does|do|did|has|have)\s+{_THING}\s+(?:have|has|contain|weigh|cost|last|take)\s*\??$",
        re.I,
    ),
    re.compile(rf"^how\s+\w+\s+(?:is|are|was|were)\s+{_THING}\s*\??$", re.I),
)
_NUMBER_OF = re.compile(r"(?:^|\b(?:the|total)\s+)number\s+of\s+((?:[a-z’'-]+\s+){0,1}?[a-z’'-]+)")
_PLURAL = re.compile(r"(?:[^s]s|people|men|women|children)$")
_CLASSIFIED = re.compile(
    rf"\b(?:the|a)\s+{ENTITY}\s+((?:programming\s+)?(?:language|company|element|planet|country|film|movie|book|novel|band|framework|"
    r"library|app|river|city|town|game|series|software|magazine|newspaper|university|moon|dwarf\s+planet))\b"
)
_CAPITAL_CITY = re.compile(r"\bcapital\s+cit(?:y|ies)\b", re.IGNORECASE)
_OPEN = frozenset(map(stem, ["new", "news", "change", "feature", "happen", "update", "latest", "history", "story"]))
_DEFINITION = re.compile(
    r"(?:what(?:’s|'s|\s+is|\s+are|\s+was|\s+were)|who(?:'s|\s+is|\s+was)|define|explain)\s+(?!the\b|it\b)(?:an?\s+)?"
    r"(?:[\w’'-]+\s*){1,3}\??$", re.I)  # fmt: skip
_COUNTED = re.compile(
    r"\bhow\s+(?:many|much)\s+((?:[\w’'-]+\s+){0,3}?[\w’'-]+)"
    r"(?=\s+(?:do|does|did|is|are|was|were|has|have|had|can|could|will|live|lives|in|on|of|exist|there|orbit)\b|\s*[?.]|$)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Question:
    """One part of what was asked.

    `terms` are its content words in order, each once; `entities` the named or quoted things among them; `kinds` what an
    answer must hold, most wanted first ("Who created Python and when?" wants a person and a year); `counted` the stems of
    what a "how many" counts; `sought` is the stem of the noun of a "which planet …", "" for others;
    `classifiers` say what kind of thing an entity is ("the Ruby programming language") and ask nothing; `about` are the
    stems of the things that a record is about, each by itself, empty for an open question.
    """

    text: str
    terms: tuple[str, ...]
    entities: tuple[str, ...]
    kinds: tuple[Kind, ...]
    counted: tuple[str, ...] = ()
    stems: frozenset[str] = field(default=frozenset())
    entity_stems: frozenset[str] = field(default=frozenset())
    sought: str = ""
    classifiers: frozenset[str] = field(default=frozenset())
    about: tuple[frozenset[str], ...] = ()

    @property
    def spoken(self) -> str:
        """The question and the things it is about, in small letters."""
        return " ".join([self.text, *self.entities]).lower()

    @property
    def subjects(self) -> tuple[frozenset[str], ...]:
        """The stems of each thing that something is asked about: the record's, else the first that is named."""
        first = frozenset(stems(self.entities[0])) & self.stems if self.entities else self.entity_stems
        return self.about or ((first,) if first else ())

    @property
    def aspect(self) -> frozenset[str]:
        """The stems that say what is asked about the entities; all of them when no entity is named."""
        return (self.stems - self.entity_stems - self.classifiers) or (self.stems - self.entity_stems) or self.stems


def read_question(text: str, *, about: Sequence[str] = ()) -> Question:
    """Return a question with what it asks for; `about` are entities from the context, for a question that names none."""
    text = " ".join(text.split())
    entities = entities_of(text)
    borrowed = [] if entities else [name for name in about if not re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text, re.I)]
    entities = entities or tuple(borrowed) or _object_of(text)
    terms: dict[str, str] = {}
    for word in [*content_words(text), *(word for entity in borrowed for word in content_words(entity))]:
        terms.setdefault(stem(word), word)
    for word in (word for entity in entities if " " in entity for word in words(entity) if len(word) == 1):
        terms.setdefault(stem(word), word)  # the "I" of "World War I"
    entity_stems = {s for entity in entities for s in stems(entity) if s in terms}
    number = {stem("number")} if _NUMBER_OF.search(text) else set()
    classifiers = number | {stem(word) for match in _CLASSIFIED.finditer(text) for word in match[1].split()} - entity_stems
    if _CAPITAL_CITY.search(text):
        classifiers |= {stem("city")}
    return Question(
        text=text,
        terms=tuple(terms.values()),
        entities=entities,
        kinds=_kinds(text, frozenset(terms) - entity_stems),
        counted=_counted(text),
        stems=frozenset(terms),
        entity_stems=frozenset(entity_stems),
        classifiers=frozenset(classifiers) if set(terms) - entity_stems - classifiers else frozenset(),
        sought=stem(match[1]) if (match := _SOUGHT.match(text)) and not is_stop(match[1]) else "",
    )


def _object_of(text: str) -> tuple[str, ...]:
    """Return what a question without capitals is about: "who discovered phosphorus", "the atomic number of iron"."""
    for pattern in _OBJECTS:
        match = pattern.search(text)
        if match and (name := " ".join(content_words(match[1]))) and len(name.split()) <= 3:
            rest = [word for word in content_words(text) if word not in name.split()]
            return (name,) if rest else ()
    return ()


def entities_of(text: str) -> tuple[str, ...]:
    """Return the named and quoted things in a text, in order, each once; question words at its start are none."""
    found: dict[str, None] = {}
    for match in _ENTITY.finditer(text):
        name = match[1] or _without_lead(match[2], at_start=_starts_sentence(text, match.start()))
        name = name.removesuffix("'s").removesuffix("’s").rstrip("'’")
        name = name if re.search(r"\.\w\.$", name) else name.rstrip(".")
        name = _ROLE.sub("", name)
        if any(c.isalpha() for c in name) and (match[1] or content_words(name)):
            found.setdefault(name)
    return tuple(found)


def _starts_sentence(text: str, at: int) -> bool:
    before = text[:at].rstrip(" \"“('")
    return not before or before[-1] in ".?!:;-*"


def _without_lead(name: str, *, at_start: bool) -> str:
    """Drop what is capitalised only because a sentence begins: "How", "Compare Mars" → "Mars"."""
    first, _, rest = name.partition(" ")
    if at_start and (is_stop(first) and not (first.isupper() and len(first) > 1)):
        return _without_lead(rest, at_start=True) if rest else ""
    return name


def _kinds(text: str, aspect: frozenset[str]) -> tuple[Kind, ...]:
    kinds: list[Kind] = []
    if _PERSON.search(text) and aspect:
        kinds.append("person")
    sought = _SOUGHT.match(text)
    numeric = _NUMERIC.search(text if sought is None else sought[1])
    if _MEASURE.search(text) or (numeric and aspect and not kinds):
        kinds.append("number")
    if _YEAR.search(text):
        kinds.append("year")
    if _PLACE.search(text):
        kinds.append("place")
    if kinds:
        return tuple(kinds)
    if _BOOLEAN.match(text):
        return ("boolean",)
    if not aspect or _DEFINITION.match(text):
        return ("definition",)
    if aspect <= _OPEN:
        return ("text",)
    return ("name",) if _WHICH.search(text) or text.rstrip().endswith("?") else ("text",)


def _counted(text: str) -> tuple[str, ...]:
    match = _COUNTED.search(text)
    if match is None:
        match = _NUMBER_OF.search(text)
    counted: list[str] = []
    for word in content_words(match[1]) if match else ():
        counted.append(stem(word))
        if _PLURAL.search(word):
            break
    return tuple(counted)
