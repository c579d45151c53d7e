"""Holds a sentence of an answer against the passages that it cites. Pure, and without a model.

Numbers, dates, names, negations and comparisons have to stand in the passages; the other words count by weight. What cannot be
read cannot be missed: of a passage that was cut ("…" at its end) only contradictions count.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple

from ipy_websearch.citations.quantities import Date, Number, Quantities, is_part_of_one, read
from ipy_websearch.providers.passages import stem as whole_stem
from ipy_websearch.results import Claim

_WORD = re.compile(r"[^\W_]+")
_NOT_SHORT, _APOSTROPHE = re.compile(r"n['’]t\b"), re.compile(r"(?<=\w)['’](?:s\b|(?=\w))")
_STOP = frozenset(
    "a an the of in on at to for from by with as and or but if that this these those it its is are was were be been being "
    "has have had do does did will would can could may might shall should he she they his her their them him we our you "
    "your i my there here which who whom whose what when where while than then so such into about over under after before "
    "between during also both each other some any all more most very just only own same up out off s t re ve ll d according "
    "however further der die das und ein eine ist war von zu mit den dem des im auf für le la les et un une est de du des "
    "en que el los y es con il di che per".split()
)
_NOT = frozenset(  # folded, as words are compared
    "not no never none neither nor without cannot nobody nothing nowhere hardly barely nicht kein keine keinen keinem keiner "
    "nie niemals pas jamais aucun aucune niet geen nunca jamas nao nessuno не ни никогда нет".split()
)
_SOFT = frozenset(
    "fail failed fails lack lacks lacked lacking refuse refused refuses deny denied denies unable instead rather except "
    "lost lose rejected reject declined decline few little unlike absent false untrue stopped prevent prevented avoid".split()
)
_DENYING = _NOT | _SOFT
_OPPOSITES = tuple(
    sides
    for one, other in (
        ("more over above exceed exceeds exceeded exceeding", "less fewer under below"),
        ("higher greater larger bigger taller", "lower smaller lesser shorter"),
        ("highest greatest largest biggest tallest most", "lowest smallest least shortest fewest"),
        ("longer", "shorter"), ("longest", "shortest"), ("faster quicker", "slower"), ("fastest", "slowest"),
        ("older", "younger newer"), ("oldest", "youngest newest"), ("earlier", "later"), ("earliest", "latest"),
        ("before", "after"), ("better", "worse"), ("best", "worst"), ("stronger", "weaker"), ("cheaper", "costlier dearer"),
        ("increase increases increased increasing rise rises rose rising risen grow grows grew growing grown gain gains "
        "gained climbed",
         "decrease decreases decreased decreasing fell falling fallen decline declines declining drop drops dropped dropping "
         "shrank "
         "shrink shrinks reduced"),
        ("won win wins winning", "lost lose loses losing"), ("first", "last"), ("maximum", "minimum"), ("hotter warmer",
        "colder cooler"),
        ("accepted accept accepts approved approve", "rejected reject rejects refused refuse"), ("true", "false"),
        ("always", "never"), ("majority", "minority"), ("northern north", "southern south"), ("eastern east", "western west"),
        ("possible", "impossible"), ("legal", "illegal"), ("alive", "dead"), ("allowed allow allows permitted",
        "banned ban prohibited forbidden"),
        ("opened open opens", "closed close closes"), ("bought buy buys", "sold sell sells"),
        ("success succeeded successful", "failure failed"),
    )
    for sides in permutations((frozenset(one.split()), frozenset(other.split())))
)  # fmt: skip
_OPENERS = frozenset(
    "the a an in on at by for from with as it its he she they we i you this that these those there his her their our my "
    "after before during while when since although however according both some many most each every one two no not and but "
    "or if to also then under over between among within despite because due today tonight tomorrow yesterday currently "
    "recently here what who how why where which other another all such following later early initially".split()
)
_LINKS = frozenset("of the and for".split())
# Endings of nationalities, and of their countries in their place: Italian, Canadian, Egyptian, Indian, Japanese, Polish.
_NATIONALITIES = (("ian", "y"), ("ian", "a"), ("ian", ""), ("n", ""), ("ese", ""), ("lish", "land"), ("nish", "land"))
_COMPARING = frozenset().union(*(one for one, _ in _OPPOSITES))
_LANGUAGES = {
    "en": frozenset("the of and is was were are in to with by that it from has for at on an as".split()),
    "de": frozenset("der die das und ist ein eine im von mit den dem des zu auf für wurde sind nicht war hat".split()),
    "fr": frozenset("le la les et est un une des du dans de en pour sur au qui par que a ete sont".split()),
    "es": frozenset("el la los las y es un una de en del que por con para se su al fue".split()),
    "it": frozenset("il la lo gli e un una di del della che in con per nel sono stato i le da".split()),
    "pt": frozenset("o a os as e um uma de do da em que por com para no na foi sao se".split()),
    "nl": frozenset("de het een en van in is op met voor dat zijn te door werd die aan der".split()),
}
_CALENDAR = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september "
    "october november december jan feb mar apr jun jul aug sep sept oct nov dec am pm".split()
)
_NO_NAMES = _STOP | _OPENERS | _CALENDAR | {"celsius", "fahrenheit"}
_TITLE = re.compile(r"\b[A-Z]\.$|\b(?:Mr|Mrs|Ms|Dr|St|Gov|Sen|Jr|vs)\.$")
_NAME_FOLLOWS = re.compile(
    r" (?:[A-Z]|(?:is|was|has|had|will|won|wrote|lies|became|made|said|says|opened|released|announced)\b)|['’]s\b"
)
ENOUGH, LITTLE, FACT, CLOSE, TWIN = 0.51, 0.25, 6, 3, 0.8
# The API cites at most 150 characters of a page, and ends them with dots (recorded 2026-11): more follows there.
CUT = range(140, 161)
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"”')\]]*\s+(?=[\"“'(\[]?[^\sa-z])|(?<=[。！？])|\n+|\s[·|•]\s")
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
    """Return whether the passages that a sentence cites support it, and what they lack.

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
        content = [word for part in claim.sentences for word in part.words if word not in _STOP]
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
    words = [word for word in words if word not in _STOP] or words
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
    """Return what forms of a word share: no more than six letters."""
    return whole_stem(word)[:6]


@lru_cache(1024)
def parse(text: str) -> Text:
    """Return a text as it is compared."""
    parts = [(part, tuple(tokenize(part))) for part in _SENTENCE_END.split(text) if part and part.strip()]
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
    scores = sorted(((sum(word in common for word in words), name) for name, common in _LANGUAGES.items()), reverse=True)
    return scores[0][1] if scores[0][0] >= 2 and scores[0][0] > 1.5 * scores[1][0] else ""


# --- sentences that stand in a passage nearly word by word --------------------------------------------------------------------


def _altered(claim: Text, given: Text) -> tuple[list[str], list[str], list[str]]:
    """Return what contradicts and what is missing in sentences that stand in the passages nearly word by word, and the words
    of the other sentences. Of several twins the one counts that differs least."""
    wrong: list[str] = []
    absent: list[str] = []
    others: list[str] = []
    for sentence in claim.sentences:
        enough = TWIN * len(sentence.stems)
        among = given.sentences if len(sentence.stems & given.stems) >= enough else ()
        twins = [twin for twin in among if len(sentence.stems & twin.stems) >= enough]
        changes = [change for twin in twins if (change := _change(sentence, twin, claim.language == "de")) is not None]
        nearest = min(changes, key=lambda change: len(change[0]) + len(change[1]), default=([], []))
        wrong += nearest[0]
        absent += nearest[1]
        others += () if changes else sentence.words
    return wrong, absent, others


def _change(sentence: Sentence, twin: Sentence, is_german: bool) -> tuple[list[str], list[str]] | None:
    """Return what contradicts and what is missing in one of two nearly equal sentences; None when they are not nearly equal."""
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
    found = sorted((own ^ other) & _NOT) if len(own & _NOT) != len(other & _NOT) else []
    return found + [word for one, opposite in _OPPOSITES if other & opposite for word in sorted(own & one)]


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
    initials = r"\.?".join(re.escape(word[0].upper()) for word in words if word not in _STOP)
    beginnings = (word[0] for sentence in given.sentences for word in (*sentence.words, " ") if word not in _LINKS)
    is_written_out = name.isupper() and len("".join(words)) > 1 and "".join(words) in "".join(beginnings)
    return is_written_out or (len(words) > 1 and re.search(rf"\b{initials}\b", given.source) is not None)


def _roots(word: str) -> set[str]:
    """Return the stems under which a name may stand in a passage: its own, and of a nationality that of the country."""
    countries = [word.removesuffix(ending) + rest for ending, rest in _NATIONALITIES if word.endswith(ending)]
    return {stem(form) for form in (word, *countries)}


def _names(sentence: str) -> list[str]:
    """Return the names: runs of capitalised words. A sentence's first word is one where a name or a verb follows."""
    found: list[str] = []
    last_end = -1
    for match in _NAME.finditer(sentence):
        word, bare = match[0], folded(match[0]).removesuffix("'s").removesuffix("’s")
        before = sentence[: match.start()].rstrip(" \"“‘'([*_")
        opens = before[-1:] in ".!?:;•-–\n" and not _TITLE.search(before) and not word[1:].isupper()
        is_opener = opens and (bare in _OPENERS or not _NAME_FOLLOWS.match(sentence, match.end()))
        if is_opener or bare in _NO_NAMES or len(bare) < 2 or word.islower():
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
    words = frozenset(others) & _COMPARING
    if not words:  # most sentences; a long answer has hundreds
        return []
    around = frozenset(word for sentence in near for word in sentence.words)
    opposed = [one for one, other in _OPPOSITES if not words & other and around & other and not around & one]
    return [word for one in opposed for word in sorted(words & one)]


def _negations(words: Sequence[str], near: Sequence[Sentence]) -> list[str]:
    """Return the negations in which the words and the nearest sentences of the passages differ."""
    if not near or not words:
        return []
    if denials := list(_denials(words, _NOT)):
        return [word for word, scope in denials if not any(scope & _denied(part.words, _DENYING) for part in near)]
    stems = frozenset(stem(word) for word in words if word not in _STOP)
    alike = [part for part in near if len(stems & part.stems) >= 0.6 * len(stems)]
    denied = alike and not _DENYING & set(words) and all(_denied(part.words, _NOT) & stems for part in alike)
    return ["not"] if denied else []


def _denials(words: Sequence[str], denying: frozenset[str]) -> Iterable[tuple[str, frozenset[str]]]:
    """Yield each negation with the stems of the next three words of content."""
    for i, word in enumerate(words):
        after = words[i + 1 : i + 8]
        idiom = i and words[i - 1] in ("to", "or", "and")  # little or no
        counted = word == "no" and after and after[0].isdigit()  # No. 5
        if word in denying and after and after[0] != "only" and not counted and not idiom:
            yield word, frozenset([stem(other) for other in after if other not in _STOP][:3])


def _denied(words: Sequence[str], denying: frozenset[str]) -> frozenset[str]:
    return frozenset().union(*(scope for _, scope in _denials(words, denying)))
