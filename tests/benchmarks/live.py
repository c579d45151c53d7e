"""How well questions with known answers are answered, with your keys and your money: a live card.

    python -m tests.benchmarks.live --questions simple_qa_test_set.csv --count 50 --budget 5
    python -m tests.benchmarks.live --questions frames_test.tsv --read-pages 0 --grader model --out card.jsonl

The file is CSV or TSV with a header: SimpleQA's (`metadata, problem, answer`; openaipublic.blob.core.windows.net/simple-evals/
simple_qa_test_set.csv), FRAMES's (`Prompt, Answer, …`; huggingface.co/datasets/google/frames-benchmark) or your own with
`question, answer`. `--count` questions are drawn by `--seed`, the same ones every time. Searches, answers and the model that
grades are paid from `--budget`, which nothing exceeds: when it is used up, the card is about the questions asked so far.

An answer counts as right when the known one stands in it: the same words, or all of its words in one sentence, without regard
to case, signs and articles. `--grader model` asks a model about those that do not. The interval is Wilson's, at 95 %.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import math
import random
import re
import statistics
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path

from ipy_websearch import Answer, Session
from ipy_websearch.errors import BudgetExceededError, ConfigError, WebSearchError
from ipy_websearch.settings import ENRICH_MODEL
from ipy_websearch.text import fold

QUESTION_COLUMNS, ANSWER_COLUMNS = ("question", "problem", "prompt"), ("answer", "gold")
_ARTICLES = frozenset(("a", "an", "the"))
_WORD = re.compile(r"\d+(?:[.,]\d+)*|\w+")
_MARKS = re.compile(r"\\?\[\d{1,4}\]")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\n+")
GRADING = """\
You compare an answer with the known answer to a question. Say CORRECT when the answer states the known one, in any words, and \
says nothing that contradicts it; say WRONG for anything else. Write that one word and nothing more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a question. `cost_usd` includes the grader's (None: a price is unknown), `error` is "" for an answer."""

    question: str
    known: str
    answer: str
    right: bool
    claims: int
    supported: int
    pages: int
    cost_usd: Decimal | None
    seconds: float
    error: str = ""


def questions_of(path: Path) -> list[tuple[str, str]]:
    """Return (question, known answer) of each row of a file.

    Raises:
        ConfigError: it has no such columns.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    head = [name.strip().lower() for name in rows[0]] if rows else []
    places = [next((head.index(name) for name in names if name in head), -1) for names in (QUESTION_COLUMNS, ANSWER_COLUMNS)]
    if -1 in places:
        raise ConfigError(f"{path} has the columns {head}; it needs {' or '.join(QUESTION_COLUMNS)}, and answer")
    asked, known = places
    return [(row[asked], row[known]) for row in rows[1:] if len(row) > max(places) and row[asked].strip()]


def words(text: str) -> list[str]:
    """Return the words of a text in the form in which answers are compared: 1,500 is 1500."""
    found = _WORD.findall(fold(_MARKS.sub("", text)).replace("’", "'"))
    return [re.sub(r",(?=\d{3})", "", word) for word in found if word not in _ARTICLES]


def states(answer: str, known: str) -> bool:
    """Return whether an answer states the known one.

    >>> states("It has 1,500 seats.[1]", "1500"), states("Born on 4 July 1976.", "July 4, 1976"), states("In 1976.", "1977")
    (True, True, False)
    """
    wanted = words(known)
    if not wanted:
        return False
    whole = f" {' '.join(words(answer))} "
    if f" {' '.join(wanted)} " in whole:
        return True
    return len(wanted) > 1 and any(set(wanted) <= set(words(sentence)) for sentence in _SENTENCES.split(answer))


def wilson(right: int, of: int) -> tuple[float, float]:
    """Return the ends of Wilson's 95 % interval for a share."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, right / of
    middle, spread = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z * z / of)), min(1.0, (middle + spread) / (1 + z * z / of))


async def graded(session: Session, model: str, question: str, known: str, answer: Answer) -> tuple[bool, Decimal | None]:
    """Return whether a model takes an answer for right, and what it cost to ask."""
    asked = f"Question: {question}\nKnown answer: {known}\nAnswer: {_MARKS.sub('', answer.text)[:4_000]}"
    said = await session.ask(asked, model=model, tools="none", system=GRADING, check="off")
    return "CORRECT" in said.text.upper() and "INCORRECT" not in said.text.upper(), said.cost_usd


async def asked(session: Session, question: str, known: str, options: argparse.Namespace) -> Outcome:
    """Return what became of a question.

    Raises:
        BudgetExceededError: the budget is used up.
    """
    chosen = {
        name: value for name in ("model", "provider", "effort", "read_pages") if (value := getattr(options, name)) is not None
    }
    try:
        answer = await session.ask(question, **chosen)
    except BudgetExceededError:
        raise
    except WebSearchError as exc:
        return Outcome(question, known, "", False, 0, 0, 0, None, 0.0, str(exc))
    right, cost = states(answer.text, known), answer.cost_usd
    if not right and options.grader == "model":
        right, more = await graded(session, options.grading_model, question, known, answer)
        cost = None if cost is None or more is None else cost + more
    verdicts = [claim.verdict for claim in answer.checked]
    pages = sum(page["read"] == "page" for step in answer.trace for page in step.log.get("pages", ()))
    found = len(verdicts), verdicts.count("supported")
    return Outcome(question, known, answer.text, right, *found, pages, cost, answer.seconds)


async def run(session: Session, questions: Sequence[tuple[str, str]], options: argparse.Namespace) -> list[Outcome]:
    """Return what became of the questions, as far as the budget reached."""
    found: list[Outcome] = []
    session.settings.session_budget_usd = options.budget
    with options.out.open("a", encoding="utf-8") if options.out else nullcontext() as file:
        for n, (question, known) in enumerate(questions, 1):
            try:
                outcome = await asked(session, question, known, options)
            except BudgetExceededError as exc:
                print(f"stopped after {n - 1} of {len(questions)}: {exc}")
                break
            session.reset()
            found.append(outcome)
            if file is not None:
                file.write(json.dumps(asdict(outcome), default=str, ensure_ascii=False) + "\n")
            mark = "right" if outcome.right else outcome.error or "wrong"
            print(f"{n:4} of {len(questions)}  {mark:5}  {session.spent_usd} USD  {question[:80]}")
    return found


def card(found: Sequence[Outcome], spent: Decimal | None) -> str:
    """Return the card as a Markdown table."""
    n, right = len(found), sum(each.right for each in found)
    low, high = wilson(right, n)
    claims, supported = sum(each.claims for each in found), sum(each.supported for each in found)
    seconds = [each.seconds for each in found if not each.error]
    rows = {
        "questions": f"{n} ({sum(bool(each.error) for each in found)} failed)",
        "right": f"{right} ({100 * right / n:.1f} %, 95 % interval {100 * low:.1f}–{100 * high:.1f})" if n else "-",
        "claims supported": f"{supported} of {claims} ({100 * supported / claims:.0f} %)" if claims else "-",
        "pages read": f"{sum(each.pages for each in found)}",
        "cost": "unknown" if spent is None else f"{spent:.4f} USD" + (f" ({spent / n:.4f} a question)" if n else ""),
        "seconds": f"{statistics.median(seconds):.1f} (median), {max(seconds):.1f} (most)" if seconds else "-",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask the questions and print the card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--questions", type=Path, required=True, help="CSV or TSV file with questions and known answers")
    parser.add_argument("--budget", type=float, required=True, metavar="USD", help="what all of it may cost")
    parser.add_argument("--count", type=int, default=50, help="how many questions (default 50)")
    parser.add_argument("--seed", type=int, default=0, help="which of them")
    parser.add_argument("--model")
    parser.add_argument("--provider")
    parser.add_argument("--effort", choices=("low", "medium", "high"))
    parser.add_argument("--read-pages", type=int, metavar="N")
    parser.add_argument("--grader", choices=("match", "model"), default="match")
    parser.add_argument("--grading-model", default=ENRICH_MODEL)
    parser.add_argument("--out", type=Path, help="file to which each outcome is added as a line of JSON")
    options = parser.parse_args(arguments)
    try:
        questions = questions_of(options.questions)
    except (ConfigError, OSError) as exc:
        parser.error(str(exc))
    session = Session()
    if not session.has_model_key and options.model != "offline":
        parser.error("this needs a model: set ANTHROPIC_API_KEY (or --model offline, which costs nothing)")
    chosen = random.Random(options.seed).sample(questions, min(options.count, len(questions)))

    async def all_of_it() -> list[Outcome]:
        try:
            return await run(session, chosen, options)
        finally:
            await session.aclose()

    print(card(asyncio.run(all_of_it()), session.spent_usd))


if __name__ == "__main__":
    main()
