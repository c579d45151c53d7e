"""How well pages are read, on two public benchmarks that you check out yourself; nothing of theirs is in this repository.

    git clone https://github.com/scrapinghub/article-extraction-benchmark
    git clone https://github.com/Murrough-Foley/web-content-extraction-benchmark
    python -m tests.benchmarks.extraction article-extraction-benchmark web-content-extraction-benchmark [--write]

What is scored is our Markdown, by the benchmarks' own evaluation code, with link targets taken out: `[text](address)` counts
as `text`. Structure is counted on the documentation pages of the second: which of the headings, code blocks, table rows,
nested list items and links whose text belongs to the content are there as such in the Markdown.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipy_websearch.extract.html import extract, warm
from tests.benchmarks.report import write_section
from tests.benchmarks.structure import KINDS, structure

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()\s]*(?:\([^()]*\)[^()\s]*)*\)")
_TYPES = ("article", "documentation", "service", "product", "collection", "listing", "forum")


@dataclass(slots=True)
class Read:
    """One page as it was read: `text` is the Markdown without link targets, `reference` the content it is compared with."""

    key: str
    kind: str
    reference: str
    markdown: str
    text: str
    seconds: float
    body: bytes
    url: str


def read(key: str, kind: str, reference: str, body: bytes, url: str) -> Read:
    """Return the page as we read it, and how long that took."""
    start = time.perf_counter()
    markdown = extract(body, url=url, content_type="text/html; charset=utf-8").markdown
    return Read(key, kind, reference, markdown, _LINK.sub(r"\1", markdown), time.perf_counter() - start, body, url)


def articles(checkout: Path) -> Iterator[Read]:
    """Yield the pages of article-extraction-benchmark."""
    for key, truth in json.loads((checkout / "ground-truth.json").read_text("utf-8")).items():
        body = gzip.decompress((checkout / "html" / f"{key}.html.gz").read_bytes())
        yield read(key, "article", truth.get("articleBody", ""), body, truth.get("url") or "https://example.org/a/b")


def pages(checkout: Path, split: str, evaluation: Any) -> Iterator[Read]:
    """Yield the pages of one part ("dev", "test") of WCXB."""
    for file in sorted((checkout / split / "ground-truth").glob("*.json")):
        data = json.loads(file.read_text("utf-8"))
        body = gzip.decompress((checkout / split / "html" / f"{file.stem}.html.gz").read_bytes())
        reference = data["ground_truth"].get("main_content") or ""
        yield read(file.stem, evaluation.get_page_type(data), reference, body, data.get("url") or "https://example.org/a/b")


def loaded(path: Path) -> Any:
    """Return a benchmark's own evaluation module."""
    spec = importlib.util.spec_from_file_location(f"evaluate_{path.parent.name.replace('-', '_')}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def milliseconds(reads: list[Read]) -> str:
    """Return the median and the 95th percentile of the reading times."""
    times = sorted(1000 * r.seconds for r in reads)
    return f"{statistics.median(times):.1f} (95 %: {times[int(0.95 * len(times))]:.0f})"


def article_rows(checkout: Path) -> list[str]:
    """Return the table row of article-extraction-benchmark."""
    evaluation = loaded(checkout / "evaluate.py")
    reads = list(articles(checkout))
    counts = [evaluation.string_shingle_matching(true=r.reference, pred=r.text) for r in reads]
    score = evaluation.metrics_from_tp_fp_fns(counts)
    f1, precision, recall = score["f1"], score["precision"], score["recall"]
    return [
        f"| article-extraction-benchmark | {len(reads)} | {f1:.4f} | {precision:.3f} | {recall:.3f} | {milliseconds(reads)} |"
    ]


def page_rows(checkout: Path, split: str) -> tuple[list[str], list[Read]]:
    """Return the table rows of one part of WCXB, all pages first and then by type, and the pages as read."""
    evaluation = loaded(checkout / "evaluate.py")
    reads = list(pages(checkout, split, evaluation))
    scores: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for r in reads:
        scores[r.kind].append(evaluation.word_f1(r.text, r.reference))
    every = [score for kind in scores.values() for score in kind]
    rows = [_row(f"WCXB {split}", every, milliseconds(reads))]
    return rows + [_row(f"— {kind}", scores[kind], "") for kind in _TYPES if kind in scores], reads


def _row(name: str, scores: list[tuple[float, float, float]], times: str) -> str:
    precision, recall, f1 = (statistics.fmean(column) for column in zip(*scores, strict=True))
    return f"| {name} | {len(scores)} | {f1:.4f} | {precision:.3f} | {recall:.3f} | {times} |"


def structure_rows(reads: list[Read]) -> list[str]:
    """Return how much of the structure of the documentation pages is kept, kind by kind."""
    found = [structure(r.body, r.url, r.reference, r.markdown) for r in reads if r.kind == "documentation"]
    rows = [f"| documentation pages | {len(found)} | | | | |"]
    for kind in KINDS:
        kept, there = (sum(counts[kind][i] for counts in found) for i in (0, 1))
        rows.append(f"| — {kind} kept | {there} | {kept / max(1, there):.1%} | | | |")
    return rows


def main() -> None:
    """Print the table; with `--write` put it into RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("articles", type=Path, help="checkout of article-extraction-benchmark")
    parser.add_argument("pages", type=Path, help="checkout of web-content-extraction-benchmark")
    parser.add_argument("--write", action="store_true", help="put the table into RESULTS.md")
    arguments = parser.parse_args()
    warm()
    dev, dev_reads = page_rows(arguments.pages, "dev")
    test, test_reads = page_rows(arguments.pages, "test")
    rows = [*article_rows(arguments.articles), *dev, *test, *structure_rows(dev_reads + test_reads)]
    head = "| pages | number | F1 | precision | recall | ms a page, median |\n|---|---|---|---|---|---|"
    table = "\n".join([head, *rows])
    print(table)
    if arguments.write:
        write_section("Extraction", table, "`python -m tests.benchmarks.extraction … --write`")


if __name__ == "__main__":
    main()
