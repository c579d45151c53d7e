"""Questions, answers and sources as a file of their own, or as a cell.

Everything that came from outside goes through the renderer of the notebook's outputs, so the files are as harmless as those.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from ipy_websearch.display.answer import answer_html, answer_markdown
from ipy_websearch.display.markdown import text_markdown
from ipy_websearch.display.text import one_line
from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Answer, bibliography
from ipy_websearch.text import shorten

_TITLE = "Questions and answers"
_ALL = 1_000
"""Source cards of a page: what is folded is not printed."""
_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">
<style>
:root {{ color-scheme: light dark }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 62em; margin: 2em auto; padding: 0 1em }}
a {{ color: #2a6fc9 }}
table {{ border-collapse: collapse }}
td, th {{ padding: .3em .6em; border-bottom: 1px solid rgba(128,128,128,.35) }}
summary {{ cursor: pointer }}
@media print {{
  :root {{ color-scheme: light }}
  body {{ font-size: 11pt; margin: 0; max-width: none }}
  h2, summary {{ break-after: avoid }}
  table, blockquote, div[style*="border-radius"] {{ break-inside: avoid }}
  div[style*="nowrap"] {{ white-space: normal !important }}
  a:not([title])[href^="http"]::after {{ content: attr(href); display: block; font-size: .75em; overflow-wrap: anywhere }}
}}
</style>
</head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def export(answers: Sequence[Answer], path: Path, *, force: bool = False) -> None:
    """Write the answers to `path`, as its ending says: .md, .ipynb or .html, or their sources: .bib, .ris or .json (CSL).

    The file appears whole or not at all. `force` replaces one that is there.

    Raises:
        ConfigError: another ending, no answers, the file exists, or it cannot be written.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ConfigError(f"cannot export to {path.name!r}; the name must end in {', '.join(_WRITERS)}")
    if not answers:
        raise ConfigError("there is nothing to export yet; ask first, with %ask or %%ask")
    if path.exists() and not force:
        raise ConfigError(f"{path} exists; --force replaces it")
    text = writer(answers)
    draft = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with draft.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
        os.replace(draft, path)
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror or exc}") from exc
    finally:
        draft.unlink(missing_ok=True)


def answer_cell(answer: Answer) -> str:
    """Return one answer as harmless Markdown with its question as the heading."""
    question = text_markdown(shorten(one_line(answer.question), 300)) or "(no question)"
    return f"## {question}\n\n{answer_markdown(answer)}"


def to_cell(answer: Answer) -> None:
    """Put the answer into a new cell below, as `%%markdown`: front ends let a kernel add code cells only.

    Raises:
        ConfigError: this is not a notebook or IPython.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is None:
        raise ConfigError("to_cell() needs a notebook; print(answer) shows the answer, %websearch export answer.md writes it")
    shell.set_next_input(f"%%markdown\n{answer_cell(answer)}", replace=False)


def _markdown(answers: Sequence[Answer]) -> str:
    return "\n\n".join([f"# {_TITLE}", *map(answer_cell, answers)]) + "\n"


def _notebook(answers: Sequence[Answer]) -> str:
    cells = [
        {"cell_type": "markdown", "id": f"websearch-{n}", "metadata": {}, "source": text.splitlines(keepends=True)}
        for n, text in enumerate([f"# {_TITLE}", *map(answer_cell, answers)])
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _html(answers: Sequence[Answer]) -> str:
    parts = [f"<h2>{escape(one_line(answer.question))}</h2>\n{answer_html(answer, cards=_ALL)}" for answer in answers]
    return _PAGE.format(title=_TITLE, body="\n".join(parts))


def _sources(style: str) -> Callable[[Sequence[Answer]], str]:
    return lambda answers: bibliography((citation for answer in answers for citation in answer.citations), style)


_WRITERS: dict[str, Callable[[Sequence[Answer]], str]] = {
    ".md": _markdown,
    ".ipynb": _notebook,
    ".html": _html,
    ".bib": _sources("bibtex"),
    ".ris": _sources("ris"),
    ".json": _sources("csl"),
}
