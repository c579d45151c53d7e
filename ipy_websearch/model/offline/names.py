"""Names: the place or thing in a sentence that a question asks for, read from turns of phrase.

"X is the capital of E", "the capital of E is X", "the symbol X", "X as the head of E": each gives the words that stand for
X, cut out of the sentence as they are. No list of known names is used.
"""

from __future__ import annotations

import re

from ipy_websearch.model.offline.clauses import owner_of
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import SOFT, STOP, is_stop, located, stem

_CAP = r"(?:[A-ZÀ-ÖØ-ÞŁŚŽČŠ][\w’'ʻ+#&-]*\.?(?<!\b[a-zà-ÿ]\.)(?<![a-zà-ÿ]{3}\.))"
_PARTICLE = r"(?:(?:van|von|der|den|de|da|di|du|del|la|le|bin|ibn|al|el|zu|ten|ter|es)\s+){0,2}"
NAME = rf"{_CAP}(?:\s+{_PARTICLE}(?:{_CAP}|[0-9IVX]+(?:\.\d+)*\b))*(?:,\s(?:[A-Z]\.){{2,}})?"
NAMES = rf"{NAME}(?:(?:\s*,\s*{NAME})*\s*,?\s+(?:and|&)\s+{NAME})?"
RUN = re.compile(NAME)
COPULA = re.compile(
    r"\b(?:is|are|was|were|became|becomes|remains|(?:has|have)\s+been|serves?\s+as|means)\b(?:\s+(?:called|named|known\s+as|appointed|elected|made))?"
)
CLAUSE_END = re.compile(r"[;:]|,\s+(?=(?:and|but|while|whereas|although|so)\b)|[.!?]$|—|\s–\s")
_AFTER_VALUE = re.compile(
    r"\s*(?:[,;:(.!?]|\s(?:and|but|or|which|who|that|with|since|because|although|while|where|whose|when|itself|as|at|from|near|in|on|"
    r"after|before|until|for|under|over|to|by)\b)"
)
ARTICLE = re.compile(r"^(?:the|an?|also|its|called|named|now|currently|simply|about)\s+", re.IGNORECASE)
_OF_PHRASE = re.compile(
    r"\s*(?:,\s*)?(?:(?:of|for|in|on|to|used\s+in|and)\s+(?:the\s+)?[^,;:]*?)?\s*(?=(?:is|are|was|were|has\s+been|have\s+been|:)(?:\s|$))"
)
_DIRECT = re.compile(rf"(?:\s+city)?\s*(?:[,:]\s*)?(?:\(\s*)?[\"“‘]?({NAME}|[A-Z][a-z]?)(?![\w])")
PRONOUN = re.compile(r"^(?:it|he|she|they|this|that|there|these|those|one|who|which)\b", re.IGNORECASE)
_TOOK_OVER = re.compile(
    rf"({NAME})(?:\s+(?:has|had))?\s+(?:succeeded|replaced|followed)\s+(?:{NAME})\s+as\s+(?:(?:its|the|an?)\s+)?(?:[a-z]+\s+)?$"
)
SUPERLATIVE = re.compile(r"\w{2,}est|most|least|first|last|only|second|third|next|previous", re.IGNORECASE)
RANKED = re.compile(
    r"\b(?:(?:one\s+of|among)\s+(?:the|its)|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:nd|rd|th)|"
    r"two|three|four|five|six|seven|eight|nine|ten)[\s-]+$",
    re.I,
)
_KIND_OF_NAME = re.compile(r"\b(?!the\b|a\b|an\b)([a-z]+)\s+names?\s+(?:of|for)\b")
_STRANDED = re.compile(r"\b(?:for|from|after|with|by|to)\s*\?\s*$", re.IGNORECASE)
_TERM_ASKED = re.compile(r"\b([A-Z]\w+)\s+(?:name|word|term)\s+(?:of|for)\s+(?:the\s+)?([\w-]+)")
_INSIDE = re.compile(r"\b(?:with|of|for|in|by|from|like|as|at|on|than|to)\b")
MONTHS = frozenset(
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
)


def find_name(question: Question, text: str, title: str = "") -> Found | None:
    """Return what a "what is the A of E" or "which A …" asks for, in the sentence's own words."""
    if term := _term_in(question, text):
        return term
    best: Found | None = None
    for start, end, share in _mentions(question, text):
        found_object = as_object(text, end)
        subject = as_subject(
            text, start, title, through=question.sought != "" and stem(text[start:end].split()[0]) != question.sought
        )
        for found in (subject, found_object, beside(text, end)):
            if found is None or not _says_more(str(found.value), question, as_object=found is found_object):
                continue
            if best is None or share * found.strength > best.strength:
                best = Found(found.value, share * found.strength, found.start, found.end)
    return best


def _term_in(question: Question, text: str) -> Found | None:
    """ "ferrum, the Latin word for iron": return what the thing is called in the language that the question names."""
    asked = _TERM_ASKED.search(question.text)
    if asked is None:
        return None
    thing = "|".join(re.escape(name) for name in (*question.entities, asked[2]))
    match = re.search(
        rf"([\w-]+),?\s+(?:is\s+)?(?:the|an?)\s+{asked[1]}\s+(?:name|word|term)\s+(?:of|for)\s+(?:the\s+)?(?:{thing})\b",
        text,
        re.I,
    )
    return Found(match[1], 0.95, match.start(1), match.end(1)) if match else None


def _mentions(question: Question, text: str) -> list[tuple[int, int, float]]:
    """Return where the asked aspect is named: start, end and how fully (0 to 1).

    The head noun carries it: "the symbol Fe" names a chemical symbol, "the national day" names no national anthem; but a
    superlative may not be missing.
    """
    aspect = (question.aspect - SOFT or question.aspect) - {question.sought} or {question.sought}
    if _TERM_ASKED.search(question.text) or (
        question.about and (aspect <= question.entity_stems or _STRANDED.search(question.text))
    ):
        return []  # nothing is asked that the thing's own name could stand for
    ordered = [stem(term) for term in question.terms if stem(term) in aspect]
    demanded = {stem(term) for term in question.terms if SUPERLATIVE.fullmatch(term)}
    if not says_ranks(question, text) or not _says_kind_of_name(question, text):
        return []
    head = _head_of(question, ordered)
    spots = located(text)
    found = []
    for i, word in enumerate(spots):
        if word.stem not in aspect:
            continue
        group = [w for w in spots[i : i + 4] if w.stem in aspect]
        if question.about and not question.sought and owner_of(text, group[-1].end, question.about) is False:
            continue  # "the first president of Ghana" asked about Togo
        named = {w.stem for w in group}
        share = len(named) / len(aspect)
        if share < 1 and head not in named:
            share *= 0.6 * share
        elif share < 1 and not demanded <= named:
            share *= 0.0 if question.about else share
        else:
            share = max(share, 0.75)
        found.append((word.start, group[-1].end, share))
    return found


def says_ranks(question: Question, text: str) -> bool:
    """Return whether a sentence says the superlatives that are asked for: "one of the largest lakes" is not the largest."""
    demanded = {stem(term) for term in question.terms if SUPERLATIVE.fullmatch(term)}
    if not question.about or not demanded or RANKED.search(question.text):
        return not question.about or demanded <= {word.stem for word in located(text)}
    said = {word.stem for word in located(text) if not RANKED.search(text[: word.start])}
    return demanded <= said


def _says_kind_of_name(question: Question, text: str) -> bool:
    """Return whether a sentence speaks of the kind of name that a record asks for: "the official name of …"."""
    kind = _KIND_OF_NAME.search(question.text) if question.about else None
    return kind is None or bool(re.search(rf"\b{kind[1]}\s+names?\b", text, re.IGNORECASE))


def _head_of(question: Question, ordered: list[str]) -> str:
    """Return the noun that says what is asked: "religion" in "the religion of most people"."""
    for piece in re.split(r"\b(?:of|in|for|from|on|at|by)\b", question.text):
        if said := [word.stem for word in located(piece) if word.stem in ordered]:
            return said[-1]
    return ordered[-1]


def as_subject(text: str, mention: int, title: str, *, through: bool = False) -> Found | None:
    """ "X is the A of E": return X; a pronoun stands for the page's title.

    `through` lets the mention stand behind a preposition: asked which element has the symbol Fe, "iron is a metal with the
    symbol Fe" names it; asked for iron's symbol, the same words do not make it a metal.
    """
    left = text[:mention]
    copulas = list(COPULA.finditer(left))
    if not copulas:
        return _as_role(left)
    copula = copulas[-1]
    between = left[copula.end() :]
    if CLAUSE_END.search(between) or re.search(r",\s*(?:which|who)\b", between):
        return None
    nearest = re.split(r"\band\b", between)[-1]
    if not through and _INSIDE.search(re.sub(r"\bone\s+of\s+the\b", "", nearest)):
        return None  # "a noble gas with the symbol …": the noble gas is not the symbol
    start = max((m.end() for m in CLAUSE_END.finditer(left[: copula.start()])), default=0)
    subject = re.sub(r"^\s*(?:and|but|while|whereas|although|so)\s+", "", left[start : copula.start()]).strip()
    if PRONOUN.match(subject):
        return Found(title, 0.8, start, copula.start()) if title else None
    name = _leading(subject)
    fillers = len(between.split())
    return Found(name, max(0.4, 1.0 - 0.03 * max(fillers - 3, 0)), start, copula.start()) if name else None


def _as_role(left: str) -> Found | None:
    """ "X as the A", "X succeeded Y as A": return X."""
    taken = _TOOK_OVER.search(left)
    match = taken or re.search(rf"({NAME}|[a-z]+)\s+as\s+(?:its|the|an?)\s+(?:[a-z]+\s+)?$", left)
    return Found(tidy(match[1]), 0.7, match.start(1), match.end(1)) if match and not is_stop(match[1]) else None


def as_object(text: str, mention_end: int) -> Found | None:
    """ "the A of E is X": return X."""
    right = text[mention_end:]
    of = _OF_PHRASE.match(right)
    if of is None:
        return None
    copula = re.match(
        r"\s*(?::|(is|are|was|were|has\s+been|have\s+been)\b(?:\s+(?:called|named|known\s+as))?)\s*", right[of.end() :]
    )
    if copula is None:
        return None
    start = mention_end + of.end() + copula.end()
    if re.match(r"(?:not|no|never)\b", text[start:]):
        return None
    phrase = text[start:]
    many = copula[1] in ("are", "were")
    value = _phrase(phrase, joined=many)
    return Found(value, 0.95 if len(of[0]) < 60 else 0.6, start, start + len(value)) if value else None


def beside(text: str, end: int) -> Found | None:
    """ "the symbol X", "its capital, X,": return X."""
    match = _DIRECT.match(text, end)
    if match is None or match[1].split()[0].lower() in STOP and len(match[1]) > 2:
        return None
    return Found(tidy(match[1]), 0.85 if text[end : match.start(1)].strip() == "" else 0.6, match.start(1), match.end(1))


def _says_more(value: str, question: Question, *, as_object: bool) -> bool:
    """Return whether a value is more than the question's own words ("the capital of Singapore is Singapore" may repeat)."""
    said = {w.stem for w in located(value)}
    if (
        not said
        or value.split()[0] in ("Most", "Many", "Some", "All")
        or (len(value) > 2 and all(is_stop(w.text) for w in located(value)))
    ):
        return False
    return as_object or not said <= (question.entity_stems or question.stems)


def _leading(subject: str) -> str:
    """Return the name at the head of a subject: "Rysy in the Tatra Mountains, at 2,500 m" → "Rysy"."""
    subject = ARTICLE.sub("", subject)
    kind_before = re.match(rf"[a-z]+\s+({NAME})(?=,|$)", subject)  # "the volcano Pico de Orizaba"
    subject = kind_before[1] if kind_before else subject
    head = RUN.match(subject)
    if head and len(subject.split()) <= 5 and re.match(r"\s+[a-z]", subject[head.end() :]) and " " not in head[0]:
        following = subject[head.end() :].split()[0]
        if not is_stop(following):
            return tidy(subject)  # "Natural gas and oil"
    if head:
        joined = re.match(NAMES, subject)
        return tidy(joined[0] if joined and joined.end() == len(subject) else head[0])
    return _phrase(subject)


def _phrase(text: str, *, joined: bool = False) -> str:
    """Return the words of a value at the head of a text, up to where something else begins (six words at most)."""
    text = ARTICLE.sub("", ARTICLE.sub("", text.strip()))
    if joined and (names := re.match(NAMES, text)):
        return tidy(names[0])
    if names := re.match(rf"{NAME}(?=\s*(?:[.,;:(!?]|$))", text):
        return tidy(names[0])
    end = _AFTER_VALUE.search(text)
    words = text[: end.start()].split() if end else text.split()
    return tidy(" ".join(words)) if 0 < len(words) <= 6 else ""


def tidy(name: str) -> str:
    """Return a name without what clings to it: quotation marks, a possessive ending, a full stop that is no initial's."""
    name = name.strip(' ,;:"“”‘')
    for ending in ("'s", "’s"):
        name = name.removesuffix(ending)
    initials = re.search(r"(?:^|[\s.])[A-Z]\.$", name)
    return name if initials and not name.endswith("..") else name.rstrip(".")
