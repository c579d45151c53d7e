"""How often the answer's text is in the request: passages of pages against snippets, on real pages with questions of ours.

    git clone https://github.com/Murrough-Foley/web-content-extraction-benchmark
    python -m tests.benchmarks.passages web-content-extraction-benchmark [--write]

Each question (`passages.tsv`: page, query, a text that answers it) gets three results: its page, and the two others of the
benchmark that share most with the query. The pages are extracted as `web_fetch` does it. A snippet is played by the 300
characters of the page that fit the query best, which is more than many engines give. Weights were chosen on the `dev` part
alone.
"""

import argparse
import gzip
import json
import random
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ipy_websearch.extract.page import extract
from ipy_websearch.providers.passages import best_passages, bm25, content_words, stem, stems, tokens_of
from ipy_websearch.text import fold
from tests.benchmarks import keep, table

QUESTIONS = Path(__file__).with_suffix(".tsv")
SNIPPET = 300
Page = tuple[str, str]
_MARKUP = re.compile(r"[*_`\\]+|\[([^\[\]]*)\]\([^()]*\)")


def plain(text: str) -> str:
    """Return Markdown as its words."""
    return " ".join(_MARKUP.sub(lambda match: match[1] or "", text).split())


def pages_of(root: Path, part: str, wanted: set[str]) -> dict[str, Page]:
    """Return title and text of the pages of a part: those with questions, and others, chosen at random, as company."""
    files = {f"{part}/{file.name.partition('.')[0]}": file for file in sorted((root / part / "html").glob("*.html.gz"))}
    others = sorted(set(files) - wanted)
    found = {}
    for name in [*sorted(wanted & set(files)), *random.Random(part).sample(others, min(120, len(others)))]:
        truth = json.loads((root / part / "ground-truth" / f"{name.partition('/')[2]}.json").read_text("utf-8"))
        page = extract(gzip.decompress(files[name].read_bytes()), url=truth.get("url") or "https://example.org/a/b")
        found[name] = (page.title, page.content)
    return found


def best(query: str, texts: Sequence[str], most: int) -> list[int]:
    """Return the places of the texts that fit a query best."""
    scores = bm25([stem(word) for word in content_words(query)], [Counter(stems(text)) for text in texts])
    return sorted(range(len(texts)), key=lambda n: -scores[n])[:most]


def snippet(query: str, content: str) -> str:
    """Return the piece of a page of `SNIPPET` characters that fits a query best."""
    text = plain(content)
    windows = [text[at : at + SNIPPET] for at in range(0, max(1, len(text)), SNIPPET // 2)]
    return windows[best(query, windows, 1)[0]]


def tried(query: str, answer: str, page: Page, others: Sequence[Page]) -> tuple[bool, bool, int]:
    """Return whether the answer stands in the snippet and in the passages, and the tokens of all passages."""
    near = [others[n] for n in best(query, [" ".join(other) for other in others], 2)]
    passages = best_passages(query, [near[0], page, near[1]])
    texts = (snippet(query, page[1]), "\n".join(passages[1]))
    in_snippet, in_passages = (fold(plain(answer)) in fold(plain(text)) for text in texts)
    return in_snippet, in_passages, sum(tokens_of(text) for texts in passages for text in texts)


def main() -> None:
    """Run it and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path)
    parser.add_argument("--write", action="store_true", help="keep the table in RESULTS.md")
    options = parser.parse_args()
    rows = [line.split("\t") for line in QUESTIONS.read_text("utf-8").splitlines()]
    lines = []
    for part in ("dev", "test"):
        asked = [row for row in rows if row[0].startswith(part)]
        pages = pages_of(options.root, part, {row[0] for row in asked})
        found = [tried(q, a, pages[id], [p for name, p in pages.items() if name != id]) for id, q, a in asked if id in pages]
        snippets, passages, tokens = zip(*found, strict=True)
        shares = f"{statistics.mean(snippets):.0%}", f"{statistics.mean(passages):.0%}"
        lines.append((part, len(found), *shares, f"{statistics.mean(tokens):.0f} ({max(tokens)})"))
    head = "part | questions | snippet | passages | tokens of passages (most)"
    command = "`python -m tests.benchmarks.passages web-content-extraction-benchmark`"
    keep("Passages of pages", table(head, lines), command, write=options.write)


if __name__ == "__main__":
    main()
