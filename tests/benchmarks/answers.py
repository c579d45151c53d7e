"""How well citations are checked: on WiCE, on errors planted into true sentences, and on recorded citations of the API.

    git clone https://github.com/ryokamoi/wice
    python -m tests.benchmarks.answers wice [--recordings FOLDER] [--write]

WiCE (Kamoi et al., EMNLP 2023) has sentences of Wikipedia with the whole pages that they cite, labelled by people; nothing of
it is in this repository. Its claim level is used: whole sentences, labelled supported, partially supported or not supported.
"Supported" against the other two is the split, and a sentence is predicted so when the check says so. Thresholds were chosen
on its dev part alone.

Planted errors: one number, date, name, negation, unit or comparison of a sentence that passes is changed; caught means that it
passes no more. `--recordings` names a folder of recorded replies (`*.json`, `*.sse`) with citations.
"""

import argparse
import json
import random
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import ipy_websearch
from ipy_websearch.citations import check
from ipy_websearch.model.client import Reply
from tests.benchmarks import keep, table

MONTHS = "January February March April May June July August September October November December".split()
NAMES = "Kowalski Lindqvist Okonkwo Tanaka Brisbane Rotterdam Valparaíso Siemens Petronas Montoya".split()
UNITS = {
    "kilometres": "metres", "km": "m", "metres": "kilometres", "m": "km", "°C": "°F", "percent": "years", "%": "km",
    "miles": "feet", "years": "months", "days": "years", "hours": "days", "minutes": "hours", "million": "billion",
    "billion": "million",
    "grams": "kilograms", "kg": "g", "$": "€", "€": "£", "feet": "miles", "acres": "hectares", "mph": "km/h",
}  # fmt: skip
OPPOSITES = {
    "more": "less", "less": "more", "largest": "smallest", "smallest": "largest", "higher": "lower", "lower": "higher",
    "highest": "lowest", "longest": "shortest", "larger": "smaller", "smaller": "larger", "over": "under",
    "increased": "decreased",    "before": "after", "after": "before", "first": "last", "best": "worst", "most": "least",
    "older": "younger",
    "oldest": "youngest",    "won": "lost", "hottest": "coldest", "fastest": "slowest", "tallest": "shortest",
    "longer": "shorter", "earlier": "later",
}  # fmt: skip

REMAINING = (
    "Of true sentences these are not passed: other words for the same thing (a neck-and-neck race: close), what has to "
    "be inferred (a sum, an age, the year of an undated page), descriptions that the page leaves out (Knight Commander: "
    "C.B.E.). Of false ones these are passed: all words stand somewhere on a long page, but not together; a number that "
    "stands there for something else; a negation or a comparison beside another one in the same sentence."
)


def other_number(text: str, dice: random.Random) -> str | None:
    """Return a number in place of one that is not a year."""
    if re.fullmatch(r"[12]\d{3}[.,]?", text):
        return None
    at = dice.choice([i for i, c in enumerate(text) if c.isdigit()][:2])
    return text[:at] + dice.choice([d for d in "123456789" if d != text[at]]) + text[at + 1 :]


def other_date(text: str, dice: random.Random) -> str:
    """Return another year, or another month."""
    return str(int(text) + dice.choice((-9, -3, 3, 7))) if text.isdigit() else dice.choice([m for m in MONTHS if m != text])


def other_name(text: str, dice: random.Random) -> str | None:
    """Return another name."""
    return None if text in (*MONTHS, "Saturday", "Sunday") else dice.choice(NAMES)


# Each kind of error: what it is planted into, and what comes in its place (None: this one cannot be changed).
DENIED = r"\b(?:not|never) |\b(?:is|was|are|were|has|had|have|can|will)\b(?! (?:no|not|only)\b)"
PLANTS: dict[str, tuple[str, Callable[[str, random.Random], str | None]]] = {
    "number": (r"(?<![\w.,-])\d[\d,.]*(?![\w-])", other_number),
    "date": (rf"\b(?:{'|'.join(MONTHS)})(?= \d)|(?<![\w.,-])(?:1[5-9]|20)\d\d(?![\w,-])", other_date),
    "name": (r"(?<=[a-z,] )[A-Z][a-zé]{3,}(?=[ ,.])", other_name),
    "negation": (DENIED, lambda text, dice: "" if text in ("not ", "never ") else f"{text} not"),
    "unit": (r"(?<=\d)[a-zA-Z°%]+|(?<=\d )[a-zA-Z°%]+|[$€](?=\d)", lambda text, dice: UNITS.get(text)),
    "comparison": (r"\b[a-z]+\b", lambda text, dice: OPPOSITES.get(text)),
}


def planted_into(sentence: str, kind: str, dice: random.Random) -> str | None:
    """Return a sentence with one error of a kind, None when there is no place for it: not for numbers beside a date."""
    pattern, change = PLANTS[kind]
    matches = [] if kind == "number" and any(month in sentence for month in MONTHS) else list(re.finditer(pattern, sentence))
    denials = [match for match in matches if match[0] in ("not ", "never ")]  # one that is there is taken away
    found = [(match, new) for match in denials or matches if (new := change(match[0], dice)) is not None]
    if not found:
        return None
    match, new = found[0] if denials else dice.choice(found)
    return sentence[: match.start()] + new + sentence[match.end() :]


def wice_rows(folder: Path, path: str) -> list[dict[str, Any]]:
    """Return the rows of a part of WiCE."""
    return [json.loads(line) for line in (folder / path).read_text(encoding="utf-8").splitlines()]


def balanced(pairs: Sequence[tuple[bool, bool]]) -> float:
    """Return the mean of the shares of true and of false sentences that were judged rightly; a pair is (said, truth)."""
    return statistics.mean(statistics.mean(said == truth for said, truth in pairs if truth is kind) for kind in (True, False))


def wice(folder: Path, part: str) -> list[tuple[str, ...]]:
    """Return the table rows for a part of WiCE: the whole pages, and the chunks that people picked (any of them suffices)."""
    lines = []
    for what, path in (
        ("whole pages", "data/entailment_retrieval/claim"),
        ("picked chunks", "code_and_resources/entailment_inputs/oracle_chunks/claim"),
    ):
        judged: dict[str, tuple[bool, bool]] = defaultdict(lambda: (False, False))
        times = []
        for row in wice_rows(folder, f"{path}/{part}.jsonl"):
            key, truth, page = row["meta"]["id"], row["label"] == "supported", "\n".join(row["evidence"])
            began = time.process_time()
            said = check(row["claim"], [page]).verdict == "supported"
            times.append(1000 * (time.process_time() - began))
            judged[key] = (judged[key][0] or said, truth)
        size = f"{statistics.median(times):.1f} ({statistics.quantiles(times, n=20)[-1]:.1f})"
        lines.append((f"{part}, {what} ({len(judged)})", f"{balanced(list(judged.values())):.3f}", size))
    return lines


def true_pairs(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield sentences that stand in their passages: those of the small corpus, and what people found supported in WiCE."""
    for path in sorted((Path(ipy_websearch.__file__).parent / "corpus").glob("*.md")):
        for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
            if not paragraph.startswith(("#", "Facts:", "id:")):
                for sentence in re.split(r"(?<=[.!?]) (?=[A-Z])", paragraph.replace("\n", " ")):
                    yield "own corpus, its paragraph", sentence, paragraph
    for row in wice_rows(folder, "data/entailment_retrieval/claim/test.jsonl"):
        if row["label"] == "supported":
            yield "WiCE test, whole page", row["claim"], "\n".join(row["evidence"])


def planted(folder: Path) -> str:
    """Return the table of planted errors."""
    caught: dict[tuple[str, str], list[bool]] = defaultdict(list)
    dice = random.Random(7)
    for source, sentence, passage in true_pairs(folder):
        passes = check(sentence, [passage]).verdict == "supported"
        caught["true sentences not passed", source].append(not passes)
        for kind in PLANTS if passes else ():
            false = planted_into(sentence, kind, dice)
            if false is not None and false != sentence:
                caught[kind, source].append(check(false, [passage]).verdict != "supported")
    sources = sorted({source for _, source in caught})
    rows = [
        (what, *(f"{statistics.mean(caught[what, source]):.1%} of {len(caught[what, source])}" for source in sources))
        for what in [*PLANTS, "true sentences not passed"]
    ]
    return table(" | ".join(["planted error, caught", *sources]), rows)


def recorded_citations(folder: Path) -> list[tuple[str, list[str]]]:
    """Return the cited texts of recorded replies with what they cite, each once."""
    found: dict[str, list[str]] = {}
    for path in sorted((*folder.rglob("*.json"), *folder.rglob("*.sse"))):
        text, reply = path.read_text(encoding="utf-8", errors="replace"), Reply()
        for line in text.splitlines() if path.suffix == ".sse" else ():
            if line.startswith("data: {"):
                reply.apply(json.loads(line[5:]))
        body = {"content": reply.content} if path.suffix == ".sse" else json.loads(text)
        for block in body.get("content") or () if isinstance(body, dict) else ():
            if isinstance(block, dict) and block.get("citations") and block.get("text"):
                found.setdefault(block["text"], [str(citation.get("cited_text", "")) for citation in block["citations"]])
    return list(found.items())


def main() -> None:
    """Measure, print, and with `--write` keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wice", type=Path)
    parser.add_argument("--recordings", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    rows = [row for part in ("dev", "test") for row in wice(given.wice, part)]
    parts = [table("WiCE claims | balanced accuracy | CPU ms a claim, median (95 %)", rows), planted(given.wice)]
    if given.recordings:
        verdicts = Counter(check(text, passages).verdict for text, passages in recorded_citations(given.recordings))
        counts = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common())
        parts.append(f"Recorded citations of the API ({verdicts.total()}): {counts}.")
    command = "`python -m tests.benchmarks.answers wice --recordings FOLDER --write`"
    keep("Answers", "\n\n".join([*parts, REMAINING]), command, write=given.write)


if __name__ == "__main__":
    main()
