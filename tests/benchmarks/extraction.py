"""How well pages are read, on two public benchmarks that you check out yourself; nothing of theirs is in this repository.

    git clone https://github.com/scrapinghub/article-extraction-benchmark
    git clone https://github.com/Murrough-Foley/web-content-extraction-benchmark
    python -m tests.benchmarks.extraction article-extraction-benchmark web-content-extraction-benchmark [--write]

What is scored is Markdown, by the benchmarks' own evaluation code, with link targets taken out: `[text](address)` counts as
`text`. Structure is counted on the documentation pages of the second: which of the headings, code blocks, table rows, nested
list items and links whose text belongs to the content are there as such in the Markdown. Peers that are installed read the
same pages in the same run, with their links made absolute for them. Times are CPU time.
"""

from __future__ import annotations

import argparse
import gzip
import importlib.util
import json
import os
import re
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.readers import OURS, Reader, readers
from tests.benchmarks.report import write_section
from tests.benchmarks.structure import KINDS, structure

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()\s]*(?:\([^()]*\)[^()\s]*)*\)")
_TYPES = ("article", "documentation", "service", "product", "collection", "listing", "forum")
_ARTICLES = "article-extraction-benchmark"


@dataclass(frozen=True, slots=True)
class Task:
    """One page to be read: where it is, and what its content is."""

    part: str
    kind: str
    reference: str
    file: Path
    url: str


@dataclass(slots=True)
class Read:
    """One page as one reader read it: `score` is what the benchmark's evaluation gives, `seconds` are CPU time."""

    task: Task
    score: Any
    seconds: float
    kept: dict[str, tuple[int, int]] = field(default_factory=dict)


def tasks(articles: Path, pages: Path) -> Iterator[Task]:
    """Yield the pages of both checkouts."""
    for key, truth in json.loads((articles / "ground-truth.json").read_text("utf-8")).items():
        url = truth.get("url") or "https://example.org/a/b"
        yield Task(_ARTICLES, "article", truth.get("articleBody", ""), articles / "html" / f"{key}.html.gz", url)
    kind_of = loaded(pages / "evaluate.py").get_page_type
    for part in ("dev", "test"):
        for file in sorted((pages / part / "ground-truth").glob("*.json")):
            data = json.loads(file.read_text("utf-8"))
            reference = data["ground_truth"].get("main_content") or ""
            body = pages / part / "html" / f"{file.stem}.html.gz"
            if body.exists():  # a mirror may lack its largest files
                yield Task(part, kind_of(data), reference, body, data.get("url") or "https://example.org/a/b")


def loaded(path: Path) -> Any:
    """Return a benchmark's own evaluation module."""
    spec = importlib.util.spec_from_file_location(f"evaluate_{path.parent.name.replace('-', '_')}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_shared: dict[str, Any] = {}


def _begin(articles: Path, pages: Path) -> None:
    _shared.update(readers=readers(), articles=loaded(articles / "evaluate.py"), pages=loaded(pages / "evaluate.py"))


def read(task: Task) -> dict[str, Read]:
    """Return what each reader makes of a page."""
    body = gzip.decompress(task.file.read_bytes())
    return {name: _read(task, body, reader) for name, reader in _shared["readers"].items()}


def _read(task: Task, body: bytes, reader: Reader) -> Read:
    start = time.process_time()
    try:
        markdown = reader(body, task.url)
    except Exception:  # a page that breaks a peer is an empty page of its
        markdown = ""
    seconds = time.process_time() - start
    text = _LINK.sub(r"\1", markdown)
    if task.part == _ARTICLES:
        return Read(task, _shared["articles"].string_shingle_matching(true=task.reference, pred=text), seconds)
    score = _shared["pages"].word_f1(text, task.reference)
    kept = structure(body, task.url, task.reference, markdown) if task.kind == "documentation" else {}
    return Read(task, score, seconds, kept)


def tables(reads: list[dict[str, Read]], metrics: Callable[[Any], dict[str, float]]) -> str:
    """Return the readers side by side, ours page type by page type, and what each keeps of documentation pages."""
    names = list(reads[0])
    by_name = {name: [found[name] for found in reads] for name in names}
    columns = ("reader", "AEB F1", "precision", "recall", "CPU ms a page, median (95 %)", "WCXB dev F1", "test F1")
    head = f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}"
    side_by_side = [
        f"| {name} | {_articles_cells(of, metrics)} | {_mean(of, 'dev')} | {_mean(of, 'test')} |"
        for name, of in by_name.items()
    ]
    ours = by_name[OURS]
    types = ["| pages | number | F1 | precision | recall |\n|---|---|---|---|---|"]
    types += [_type_row(part, kind, ours) for part in ("dev", "test") for kind in ("", *_TYPES)]
    kept = ["| kept of documentation pages (number) | " + " | ".join(names) + " |\n|---|" + "---|" * len(names)]
    kept += [_kept_row(kind, by_name) for kind in KINDS]
    return "\n\n".join(["\n".join([head, *side_by_side]), "\n".join(kept), "\n".join(filter(None, types))])


def _articles_cells(reads: list[Read], metrics: Callable[[Any], dict[str, float]]) -> str:
    articles = [r for r in reads if r.task.part == _ARTICLES]
    score = metrics([r.score for r in articles])
    times = sorted(1000 * r.seconds for r in articles)
    ms = f"{statistics.median(times):.1f} ({times[int(0.95 * len(times))]:.0f})"
    return f"{score['f1']:.4f} | {score['precision']:.3f} | {score['recall']:.3f} | {ms}"


def _scores(reads: list[Read], part: str, kind: str = "") -> list[tuple[float, float, float]]:
    return [r.score for r in reads if r.task.part == part and kind in ("", r.task.kind)]


def _mean(reads: list[Read], part: str) -> str:
    return f"{statistics.fmean(score[2] for score in _scores(reads, part)):.4f}"


def _type_row(part: str, kind: str, reads: list[Read]) -> str:
    scores = _scores(reads, part, kind)
    if not scores:
        return ""
    precision, recall, f1 = (statistics.fmean(column) for column in zip(*scores, strict=True))
    name = f"— {kind}" if kind else f"WCXB {part}, {OURS}"
    return f"| {name} | {len(scores)} | {f1:.4f} | {precision:.3f} | {recall:.3f} |"


def _kept_row(kind: str, by_name: dict[str, list[Read]]) -> str:
    sums = [[sum(r.kept[kind][i] for r in reads if r.kept) for i in (0, 1)] for reads in by_name.values()]
    return f"| {kind} ({sums[0][1]:,}) | " + " | ".join(f"{kept / max(1, there):.1%}" for kept, there in sums) + " |"


def main() -> None:
    """Print the tables; with `--write` put them into RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("articles", type=Path, help="checkout of article-extraction-benchmark")
    parser.add_argument("pages", type=Path, help="checkout of web-content-extraction-benchmark")
    parser.add_argument("--write", action="store_true", help="put the tables into RESULTS.md")
    parser.add_argument(
        "--processes", type=int, default=os.cpu_count(), help="how many read at once (default: as many as cores)"
    )
    arguments = parser.parse_args()
    places = (arguments.articles, arguments.pages)
    with ProcessPoolExecutor(arguments.processes, initializer=_begin, initargs=places) as pool:
        reads = list(pool.map(read, tasks(*places), chunksize=8))
    text = tables(reads, loaded(arguments.articles / "evaluate.py").metrics_from_tp_fp_fns)
    print(text)
    if arguments.write:
        write_section("Extraction", text, "`python -m tests.benchmarks.extraction … --write`")


if __name__ == "__main__":
    main()
