"""How often the answer's text is in the request: passages of pages against snippets, on real pages with questions of ours.

    git clone https://github.com/Murrough-Foley/web-content-extraction-benchmark
    python -m tests.benchmarks.passages web-content-extraction-benchmark [--part dev|test] [--misses] [--write]

Each question (`passages.tsv`: page, query, a text that answers it) gets three results: its page, and the two others of the
benchmark that share most with the query. The pages are extracted as `web_fetch` does it. A snippet is played by the 300
characters of the page that fit the query best, which is more than many engines give; "6 snippets" are the best six such pieces,
as Brave gives on request. "Half" asks with a random half of each query's words, since a model's query often shares fewer words
with the page than ours do. Weights were chosen on the `dev` part alone.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from ipy_websearch.extract.page import extract
from ipy_websearch.text import fold
from ipy_websearch.tools.passages import best_passages, bm25, content_words, stem, stems, tokens_of
from tests.benchmarks.report import write_section

QUESTIONS = Path(__file__).with_suffix(".tsv")
SNIPPET = 300
_MARKUP = re.compile(r"[*_`\\]+|\[([^\[\]]*)\]\([^()]*\)")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of the benchmark as it is read."""

    id: str
    title: str
    content: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether the answer stands in the page, in one snippet, in six, and in the passages, with tokens and milliseconds."""

    id: str
    page: bool
    snippet: bool
    snippets: bool
    passages: bool
    snippet_tokens: int
    passage_tokens: int
    milliseconds: float


def flat(text: str) -> str:
    """Return a text in the form in which an answer is looked for."""
    return fold(_MARKUP.sub(lambda match: match[1] or "", text))


def pages_of(root: Path, part: str, wanted: set[str]) -> list[Page]:
    """Return the pages of a part: those with questions, and as many others, chosen at random, as company."""
    files = sorted((root / part / "html").glob("*.html.gz"))
    name = lambda file: f"{part}/{file.name.partition('.')[0]}"  # noqa: E731
    others = [file for file in files if name(file) not in wanted]
    chosen = [file for file in files if name(file) in wanted] + random.Random(part).sample(others, min(120, len(others)))
    found = []
    for file in chosen:
        truth = json.loads((root / part / "ground-truth" / f"{file.name.partition('.')[0]}.json").read_text("utf-8"))
        try:
            page = extract(gzip.decompress(file.read_bytes()), url=truth.get("url") or "https://example.org/a/b")
        except Exception:  # a page that cannot be read is none that a search would have read
            continue
        found.append(Page(name(file), page.title, page.markdown))
    return found


def company(query: str, page: Page, pages: list[Page], words: dict[str, Counter[str]]) -> list[Page]:
    """Return the page between the two others that share most with the query."""
    others = [other for other in pages if other is not page]
    scores = bm25([stem(word) for word in content_words(query)], [words[other.id] for other in others])
    near = sorted(range(len(others)), key=lambda n: -scores[n])[:2]
    return [others[near[0]], page, others[near[1]]]


def snippets(query: str, content: str, most: int) -> list[str]:
    """Return the pieces of a page of `SNIPPET` characters that fit a query best."""
    text = " ".join(_MARKUP.sub(lambda match: match[1] or "", content).split())
    windows = [text[at : at + SNIPPET] for at in range(0, max(1, len(text)), SNIPPET // 2)]
    scores = bm25([stem(word) for word in content_words(query)], [Counter(stems(window)) for window in windows])
    best = sorted(range(len(windows)), key=lambda n: -scores[n])[:most]
    return [windows[n] for n in best]


def tried(id: str, query: str, answer: str, pages: list[Page], words: dict[str, Counter[str]]) -> tuple[Outcome, str]:
    """Return what came of a question, and the passages of its page."""
    page = next(page for page in pages if page.id == id)
    three, sought = company(query, page, pages, words), flat(answer)
    begin = time.perf_counter()
    passages = best_passages(query, [(each.title, each.content) for each in three])
    took = (time.perf_counter() - begin) * 1000
    six = snippets(query, page.content, 6)
    one = [snippets(query, each.content, 1)[0] for each in three]
    given = "\n".join(passages[1])
    tokens = sum(tokens_of(text) for texts in passages for text in texts)
    outcome = Outcome(
        id,
        sought in flat(page.content),
        sought in flat(one[1]),
        any(sought in flat(text) for text in six),
        sought in flat(given),
        sum(map(tokens_of, one)),
        tokens,
        took,
    )
    return outcome, given


def halved(query: str) -> str:
    """Return a random half of a query's words, two at least, in their order."""
    words = query.split()
    kept = random.Random(query).sample(range(len(words)), max(2, len(words) // 2))
    return " ".join(words[n] for n in sorted(kept))


def row_of(label: str, found: list[Outcome]) -> str:
    """Return the table's row for a part."""
    n = len(found)
    shares = (f"{100 * sum(getattr(each, kind) for each in found) / n:.0f} %" for kind in ("snippet", "snippets", "passages"))
    tokens, times = (sorted(getattr(each, kind) for each in found) for kind in ("passage_tokens", "milliseconds"))
    before = sum(each.snippet_tokens for each in found) / n
    return (
        f"| {label} | {n} | {' | '.join(shares)} | {before:.0f} | {sum(tokens) / n:.0f} ({tokens[-1]}) "
        f"| {times[n // 2]:.0f} ms (most {times[-1]:.0f}) |"
    )


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("root", type=Path)
    parser.add_argument("--part", choices=("dev", "test"))
    parser.add_argument("--misses", action="store_true", help="print the questions whose answer is not in the passages")
    parser.add_argument("--write", action="store_true", help="keep the table in RESULTS.md")
    options = parser.parse_args()
    rows = [line.split("\t") for line in QUESTIONS.read_text("utf-8").splitlines()]
    lines = ["| part | questions | 1 snippet | 6 snippets | passages | tokens, 1 snippet | tokens, passages (most) | time |"]
    lines.append("|---|---|---|---|---|---|---|---|")
    for part in (options.part,) if options.part else ("dev", "test"):
        asked = [row for row in rows if row[0].startswith(part)]
        pages = pages_of(options.root, part, {row[0] for row in asked})
        words = {page.id: Counter(stems(f"{page.title} {page.content}")) for page in pages}
        for label, change in ((part, str), (f"{part}, half", halved)):
            found = []
            for id, query, answer in asked:
                outcome, given = tried(id, change(query), answer, pages, words)
                found.append(outcome)
                if options.misses and not outcome.passages:
                    print(f"--- {id}: {change(query)} -> {answer} (on the page: {outcome.page})\n{given[:1500]}\n")
            lines.append(row_of(label, found))
    print("\n".join(lines))
    if options.write:
        write_section(
            "Passages of pages", "\n".join(lines), "`python -m tests.benchmarks.passages web-content-extraction-benchmark`"
        )


if __name__ == "__main__":
    main()
