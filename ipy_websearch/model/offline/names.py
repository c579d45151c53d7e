"""Names: the person, place or thing in a sentence that a question asks for, read from turns of phrase.

"X created E", "E was created by X", "X is the capital of E", "the capital of E is X", "the symbol X", "born in X": each
gives the words that stand for X, cut out of the sentence as they are. No list of known names is used.
"""

from __future__ import annotations

import re

from ipy_websearch.model.offline.acts import aim
from ipy_websearch.model.offline.found import Found
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.words import SOFT, STOP, Word, is_stop, located, related, stem

_CAP = r"(?:[A-ZÀ-ÖØ-ÞŁŚŽČŠ][\w’'ʻ+#&-]*\.?(?<!\b[a-zà-ÿ]\.)(?<![a-zà-ÿ]{3}\.))"
_PARTICLE = r"(?:(?:van|von|der|den|de|da|di|du|del|la|le|bin|ibn|al|el|zu|ten|ter)\s+){0,2}"
NAME = rf"{_CAP}(?:\s+{_PARTICLE}(?:{_CAP}|[0-9IVX]+(?:\.\d+)*\b))*(?:,\s(?:[A-Z]\.){{2,}})?"
_NAMES = rf"{NAME}(?:(?:\s*,\s*{NAME})*\s*,?\s+(?:and|&)\s+{NAME})?"
_RUN = re.compile(NAME)
_BY = re.compile(
    rf"\bby\s+((?:(?:[a-z][\w-]*|[A-Z][a-z]+(?:ish|ese|ian|an|ch|ss|ic|ek|sh)(?=\s+[a-z]))\s+(?:and\s+)?){{0,7}})({_NAMES})"
)
_COPULA = re.compile(
    r"\b(?:is|are|was|were|became|becomes|remains|(?:has|have)\s+been|serves?\s+as|means)\b(?:\s+(?:called|named|known\s+as|appointed|elected|made))?"
)
_CLAUSE_END = re.compile(r"[;:]|,\s+(?=(?:and|but|while|whereas|although|so)\b)|[.!?]$|—|\s–\s")
_AFTER_VALUE = re.compile(
    r"\s*(?:[,;:(.!?]|\s(?:and|but|or|which|who|that|with|since|because|although|while|where|whose|when|itself|as|at|from|near|in|on|"
    r"after|before|until|for|under|over|to|by)\b)"
)
_ARTICLE = re.compile(r"^(?:the|an?|also|its|called|named|now|currently|simply|about)\s+", re.IGNORECASE)
_OF_PHRASE = re.compile(
    r"\s*(?:,\s*)?(?:(?:of|for|in|on|to|used\s+in|and)\s+(?:the\s+)?[^,;:]*?)?\s*(?=(?:is|are|was|were|has\s+been|have\s+been|:)(?:\s|$))"
)
_DIRECT = re.compile(rf"(?:\s+city)?\s*(?:[,:]\s*)?(?:\(\s*)?[\"“‘]?({NAME}|[A-Z][a-z]?)(?![\w])")
_PRONOUN = re.compile(r"^(?:it|he|she|they|this|that|there|these|those|one|who|which)\b", re.IGNORECASE)
_TOOK_OVER = re.compile(
    rf"({NAME})(?:\s+(?:has|had))?\s+(?:succeeded|replaced|followed)\s+(?:{NAME})\s+as\s+(?:(?:its|the|an?)\s+)?(?:[a-z]+\s+)?$"
)
_SUPERLATIVE = re.compile(r"\w{2,}est|most|least|first|last|only|second|third|next|previous", re.IGNORECASE)
_INSIDE = re.compile(r"\b(?:with|of|for|in|by|from|like|as|at|on|than|to)\b")
_RELATIVE = re.compile(r"\b(?:that|which|who|is|was|are|were)\b")
MONTHS = frozenset(
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
)
_PASSIVE = re.compile(r"\b(?:was|were|is|are|been|being|be)\s+(?:\w+\s+)?$")


def find_person(question: Question, text: str, title: str = "") -> Found | None:
    """Return who did or is what the question asks: "by X" after its verb, else the subject before it, else its role."""
    act = next((stem(t) for t in question.terms if stem(t) in question.aspect and not _SUPERLATIVE.fullmatch(t)), "")
    best: Found | None = None
    said = False
    for word in located(text):
        weight = 1.0 if word.stem == act else 0.75 if word.stem in related(act) else 0.0
        if not weight:
            continue
        said = True
        weight *= aim(question, text, word)
        for found in (_agent_after(text, word), _subject_before(text, word, question)):
            if found and (best is None or weight * found.strength > best.strength):
                best = Found(found.value, weight * found.strength, found.start, found.end)
    role = find_name(question, text, title) if said else None
    if role and _RUN.match(str(role.value)) and not {w.stem for w in located(str(role.value))} & question.entity_stems:
        # asked who designed it, "JetBrains designed" says more than "X was the lead designer"
        same = any(term in text.lower() for term in question.terms if stem(term) == act)
        strength = role.strength * (1.0 if same else 0.85)
        if best is None or strength > best.strength:
            best = Found(role.value, strength, role.start, role.end)
    return best


def _agent_after(text: str, verb: Word) -> Found | None:
    match = _BY.search(text, verb.end)
    if match is None or match.start() - verb.end > 60 or _CLAUSE_END.search(text[verb.end : match.start()]):
        return None
    return Found(tidy(match[2]), 1.0, match.start(2), match.end(2))


def _subject_before(text: str, verb: Word, question: Question) -> Found | None:
    """ "X, a Dutch programmer, created": return X, the first name of the clause (or its short subject: "a committee")."""
    start = max((m.end() for m in re.finditer(r"[;:.]\s", text[: verb.start])), default=0)
    clause = text[start : verb.start]
    if _PASSIVE.search(clause) or not verb.text.islower():
        return None
    for match in re.finditer(_NAMES, clause):
        name = tidy(match[0])
        following = clause[match.end() :]
        if is_stop(name) or name in MONTHS or {w.stem for w in located(name)} & question.stems:
            continue
        if " " not in name and re.match(r"(?:\s+[a-z]+){1,4}\s+[A-Z]", following):
            continue  # "German merchant Hennig Brand": a nationality before the name
        if clause[: match.start()].rstrip().endswith((" of", " at", " from")):
            break  # "A committee of CODASYL": the name is not the subject
        far = 0.5 if following.count(" ") > 14 else 0.7 if _RELATIVE.search(following) else 0.95
        return Found(name, far, start + match.start(), start + match.end())
    return _short_subject(clause, start)


def _short_subject(clause: str, start: int) -> Found | None:
    subject = clause.strip()
    words = subject.split()
    if not 2 <= len(words) <= 6 or _PRONOUN.match(subject) or re.search(r"[,;]", subject) or _COPULA.search(subject):
        return None
    return Found(subject[0].lower() + subject[1:], 0.8, start, start + len(clause)) if _ARTICLE.match(subject) else None


def find_name(question: Question, text: str, title: str = "") -> Found | None:
    """Return what a "what is the A of E" or "which A …" asks for, in the sentence's own words."""
    best: Found | None = None
    for start, end, share in _mentions(question, text):
        found_object = _as_object(text, end)
        subject = _as_subject(
            text, start, title, through=question.sought != "" and stem(text[start:end].split()[0]) != question.sought
        )
        for found in (subject, found_object, _beside(text, end)):
            if found is None or not _says_more(str(found.value), question, as_object=found is found_object):
                continue
            if best is None or share * found.strength > best.strength:
                best = Found(found.value, share * found.strength, found.start, found.end)
    return best


def _mentions(question: Question, text: str) -> list[tuple[int, int, float]]:
    """Return where the asked aspect is named: start, end and how fully (0 to 1).

    The head noun carries it: "the symbol Fe" names a chemical symbol, "the national day" names no national anthem; but a
    superlative may not be missing.
    """
    aspect = (question.aspect - SOFT or question.aspect) - {question.sought} or {question.sought}
    ordered = [stem(term) for term in question.terms if stem(term) in aspect]
    demanded = {stem(term) for term in question.terms if _SUPERLATIVE.fullmatch(term)}
    spots = located(text)
    found = []
    for i, word in enumerate(spots):
        if word.stem not in aspect:
            continue
        group = [w for w in spots[i : i + 4] if w.stem in aspect]
        named = {w.stem for w in group}
        share = len(named) / len(aspect)
        if share < 1 and ordered[-1] not in named:
            share *= 0.6 * share
        elif share < 1 and not demanded <= named:
            share *= share
        else:
            share = max(share, 0.75)
        found.append((word.start, group[-1].end, share))
    return found


def _as_subject(text: str, mention: int, title: str, *, through: bool = False) -> Found | None:
    """ "X is the A of E": return X; a pronoun stands for the page's title.

    `through` lets the mention stand behind a preposition: asked which element has the symbol Fe, "iron is a metal with the
    symbol Fe" names it; asked for iron's symbol, the same words do not make it a metal.
    """
    left = text[:mention]
    copulas = list(_COPULA.finditer(left))
    if not copulas:
        return _as_role(left)
    copula = copulas[-1]
    between = left[copula.end() :]
    if _CLAUSE_END.search(between) or re.search(r",\s*(?:which|who)\b", between):
        return None
    nearest = re.split(r"\band\b", between)[-1]
    if not through and _INSIDE.search(re.sub(r"\bone\s+of\s+the\b", "", nearest)):
        return None  # "a noble gas with the symbol …": the noble gas is not the symbol
    start = max((m.end() for m in _CLAUSE_END.finditer(left[: copula.start()])), default=0)
    subject = re.sub(r"^\s*(?:and|but|while|whereas|although|so)\s+", "", left[start : copula.start()]).strip()
    if _PRONOUN.match(subject):
        return Found(title, 0.8, start, copula.start()) if title else None
    name = _leading(subject)
    fillers = len(between.split())
    return Found(name, max(0.4, 1.0 - 0.03 * max(fillers - 3, 0)), start, copula.start()) if name else None


def _as_role(left: str) -> Found | None:
    """ "X as the A", "X succeeded Y as A": return X."""
    taken = _TOOK_OVER.search(left)
    match = taken or re.search(rf"({NAME}|[a-z]+)\s+as\s+(?:its|the|an?)\s+(?:[a-z]+\s+)?$", left)
    return Found(tidy(match[1]), 0.7, match.start(1), match.end(1)) if match and not is_stop(match[1]) else None


def _as_object(text: str, mention_end: int) -> Found | None:
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
    phrase = text[start:]
    many = copula[1] in ("are", "were")
    value = _phrase(phrase, joined=many)
    return Found(value, 0.95 if len(of[0]) < 60 else 0.6, start, start + len(value)) if value else None


def _beside(text: str, end: int) -> Found | None:
    """ "the symbol X", "its capital, X,": return X."""
    match = _DIRECT.match(text, end)
    if match is None or match[1].split()[0].lower() in STOP and len(match[1]) > 2:
        return None
    return Found(tidy(match[1]), 0.85 if text[end : match.start(1)].strip() == "" else 0.6, match.start(1), match.end(1))


def _says_more(value: str, question: Question, *, as_object: bool) -> bool:
    """Return whether a value is more than the question's own words ("the capital of Singapore is Singapore" may repeat)."""
    said = {w.stem for w in located(value)}
    if not said or (len(value) > 2 and all(is_stop(w.text) for w in located(value))):
        return False
    return as_object or not said <= (question.entity_stems or question.stems)


def _leading(subject: str) -> str:
    """Return the name at the head of a subject: "Rysy in the Tatra Mountains, at 2,500 m" → "Rysy"."""
    subject = _ARTICLE.sub("", subject)
    head = _RUN.match(subject)
    if head:
        joined = re.match(_NAMES, subject)
        return tidy(joined[0] if joined and joined.end() == len(subject) else head[0])
    return _phrase(subject)


def _phrase(text: str, *, joined: bool = False) -> str:
    """Return the words of a value at the head of a text, up to where something else begins (six words at most)."""
    text = _ARTICLE.sub("", _ARTICLE.sub("", text.strip()))
    if joined and (names := re.match(_NAMES, text)):
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
