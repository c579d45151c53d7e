"""How well pages are read, on two public benchmarks that you check out yourself; nothing of theirs is in this repository.

    git clone https://github.com/scrapinghub/article-extraction-benchmark
    git clone https://github.com/Murrough-Foley/web-content-extraction-benchmark
    python -m tests.benchmarks.extraction article-extraction-benchmark web-content-extraction-benchmark [--write]

What is scored is Markdown, by the benchmarks' own evaluation code, with link targets taken out: `[text](address)` counts as
`text`. Structure is counted on the documentation pages of the second: which of the headings, code blocks, table rows, nested
list items and links whose text belongs to the content are there as such in the Markdown. Times are CPU time.
"""

import argparse
import gc
import gzip
import json
import re
import runpy
import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin

from ipy_websearch.extract.page import extract
from tests.benchmarks import keep, table

_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\([^()\s]*(?:\([^()]*\)[^()\s]*)*\)")
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
    """One page as it was read: `score` is what the benchmark's evaluation gives, `seconds` are CPU time."""

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


def loaded(path: Path) -> SimpleNamespace:
    """Return what a benchmark's own evaluation module defines."""
    return SimpleNamespace(**runpy.run_path(str(path)))


_shared: dict[str, Any] = {}


def _begin(articles: Path, pages: Path) -> None:
    gc.disable()  # as the worker does: it collects when a page's answer is out
    extract(b"<title>t</title><p>A sentence, to be judged.</p>", url="http://localhost/")  # loads the parsers
    _shared.update(articles=loaded(articles / "evaluate.py"), pages=loaded(pages / "evaluate.py"))


def read(task: Task) -> Read:
    """Return what becomes of a page."""
    body = gzip.decompress(task.file.read_bytes())
    start = time.process_time()
    markdown = extract(body, url=task.url, content_type="text/html; charset=utf-8").content
    seconds = time.process_time() - start
    gc.collect()
    text = _LINK.sub(r"\1", markdown)
    if task.part == _ARTICLES:
        return Read(task, _shared["articles"].string_shingle_matching(true=task.reference, pred=text), seconds)
    score = _shared["pages"].word_f1(text, task.reference)
    kept = structure(body, task.url, task.reference, markdown) if task.kind == "documentation" else {}
    return Read(task, score, seconds, kept)


def tables(reads: list[Read], metrics: Callable[[Any], dict[str, float]]) -> str:
    """Return the scores, and what is kept of documentation pages."""
    articles = [r for r in reads if r.task.part == _ARTICLES]
    score = metrics([r.score for r in articles])
    times = sorted(1000 * r.seconds for r in articles)
    ms = f"{statistics.median(times):.1f} ({times[int(0.95 * len(times))]:.0f})"
    means = (f"{statistics.fmean(r.score[2] for r in reads if r.task.part == part):.4f}" for part in ("dev", "test"))
    row = ("ipy_websearch", f"{score['f1']:.4f}", f"{score['precision']:.3f}", f"{score['recall']:.3f}", ms, *means)
    head = "reader | AEB F1 | precision | recall | CPU ms a page, median (95 %) | WCXB dev F1 | test F1"
    sums = {kind: [sum(r.kept[kind][i] for r in reads if r.kept) for i in (0, 1)] for kind in KINDS}
    kept = ((f"{kind} ({there:,})", f"{count / max(1, there):.1%}") for kind, (count, there) in sums.items())
    return f"{table(head, [row])}\n\n{table('kept of documentation pages (number) | ipy_websearch', kept)}"


# --- structure: what of a page is there as such in its Markdown ---------------------------------------------------------

KINDS = ("headings", "code blocks", "table rows", "nested items", "links")
Counts = dict[str, tuple[int, int]]

_WORD = re.compile(r"\w+")
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_WHOLE_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]*(?:\([^()\s]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)")
_FENCED = re.compile(r"^[ \t>*+0-9.-]*(`{3,}|~{3,})[^\n]*\n(.*?)^[ \t>*+0-9.-]*\1[ \t]*$", re.MULTILINE | re.DOTALL)
_CHROME = ("script", "style", "nav", "footer", "aside", "noscript", "template")


def structure(body: bytes, url: str, reference: str, markdown: str) -> Counts:
    """Return (kept, there) for each kind; "there" is what is in the page's main part and, by its text, in `reference`."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True)
    root = html.document_fromstring(body.decode("utf-8", "replace").encode(), parser=parser)
    etree.strip_elements(root, *_CHROME, with_tail=False)
    mains = root.xpath('//main|//*[@role="main"]')
    scope = max(mains, key=lambda e: len(e.text_content())) if mains else root.find("body")
    text = f" {folded(reference)} "

    def content(words: str) -> bool:
        return bool(words) and f" {words} " in text

    got = _Found(markdown)
    return {
        "headings": _headings(scope, content, got),
        "code blocks": _code(scope, content, got),
        "table rows": _rows(scope, content, got),
        "nested items": _nested(scope, content, got),
        "links": _links(scope, content, got, url),
    }


def folded(text: str) -> str:
    """Return the words of `text` in lower case, one blank between them."""
    return " ".join(_WORD.findall(text.lower()))


class _Found:
    """The structure of a Markdown text."""

    def __init__(self, markdown: str) -> None:
        self.links = {(folded(_WHOLE_LINK.sub(r"\1", text)), address) for text, address in _WHOLE_LINK.findall(markdown)}
        plain = _WHOLE_LINK.sub(r"\1", markdown)
        self.code = [folded(code) for _, code in _FENCED.findall(plain)]
        lines = _FENCED.sub("", plain).split("\n")
        self.headings = {folded(m[1]) for line in lines if (m := re.match(r"[\s>*+-]*(?:\d+\. )?#{1,6} +(.*)", line))}
        self.rows = [folded(line) for line in lines if line.lstrip(" >-").startswith("|")]
        self.nested = [folded(m[1]) for line in lines if (m := re.match(r"(?:\s{2,}|[-*+] )(?:[-*+]|\d+[.)]) +(.*)", line))]


def _headings(scope: Any, content: Any, got: _Found) -> tuple[int, int]:
    there = [t for e in scope.iter(*_HEADINGS) if content(t := folded(e.text_content()))]
    return sum(t in got.headings for t in there), len(there)


def _code(scope: Any, content: Any, got: _Found) -> tuple[int, int]:
    texts = (folded(e.text_content()) for e in scope.iter("pre"))
    there = [t for t in texts if len(t) > 8 and content(" ".join(t.split()[:6]))]
    return sum(any(t[:80] in block or (block and block[:80] in t) for block in got.code) for t in there), len(there)


def _rows(scope: Any, content: Any, got: _Found) -> tuple[int, int]:
    there = []
    for row in scope.iter("tr"):
        cells = [t for cell in row if cell.tag in ("td", "th") and (t := folded(cell.text_content()))]
        if len(cells) > 1 and all(map(content, cells)) and next(row.iterdescendants("table"), None) is None:
            there.append(cells)
    return sum(any(all(cell in row for cell in cells) for row in got.rows) for cells in there), len(there)


def _nested(scope: Any, content: Any, got: _Found) -> tuple[int, int]:
    there = []
    for item in scope.iter("li"):
        parts = [item.text or ""]
        for child in item:
            parts += ["" if child.tag in ("ul", "ol") else child.text_content(), child.tail or ""]
        own = folded(" ".join(parts))
        anchor = next(item.iter("a"), None)
        contents = anchor is not None and (anchor.get("href") or "").startswith("#") and folded(anchor.text_content()) == own
        if next(item.iterancestors("li"), None) is not None and len(own) > 3 and content(own) and not contents:
            there.append(own)
    return sum(any(t[:60] in item or (len(item) > 8 and item in t) for item in got.nested) for t in there), len(there)


def _links(scope: Any, content: Any, got: _Found, url: str) -> tuple[int, int]:
    there = []
    for anchor in scope.iter("a"):
        text, href = folded(anchor.text_content()), anchor.get("href")
        block = next(anchor.iterancestors("p", "li", "td", "dd", "dt", "th", "blockquote"), None)
        around = folded(block.text_content()) if block is not None and href and text else ""
        if len(around) >= len(text) + 12 and content(around):
            try:
                address = urljoin(url, href.strip())
            except ValueError:
                continue
            if address.startswith("http"):
                there.append((text, address))
    return sum(pair in got.links for pair in there), len(there)


def main() -> None:
    """Print the tables; with `--write` put them into RESULTS.md."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("articles", type=Path, help="checkout of article-extraction-benchmark")
    parser.add_argument("pages", type=Path, help="checkout of web-content-extraction-benchmark")
    parser.add_argument("--write", action="store_true", help="put the tables into RESULTS.md")
    arguments = parser.parse_args()
    with ProcessPoolExecutor(initializer=_begin, initargs=(arguments.articles, arguments.pages)) as pool:
        reads = list(pool.map(read, tasks(arguments.articles, arguments.pages), chunksize=8))
    text = tables(reads, loaded(arguments.articles / "evaluate.py").metrics_from_tp_fp_fns)
    keep("Extraction", text, "`python -m tests.benchmarks.extraction … --write`", write=arguments.write)


if __name__ == "__main__":
    main()
