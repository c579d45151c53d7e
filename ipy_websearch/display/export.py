"""Writes questions, answers and sources to a file or a cell.

All text from outside goes through the renderer of notebook outputs, so the files are as safe as these.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from markupsafe import Markup

from ipy_websearch.display.answer import answer_view
from ipy_websearch.display.markdown import text_markdown
from ipy_websearch.display.render import fill, render
from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Answer, bibliography
from ipy_websearch.text import one_line, shorten

_TITLE = "Questions and answers"


def export(answers: Sequence[Answer], path: Path, *, force: bool = False) -> None:
    """Write the answers to `path` by its suffix: .md, .ipynb or .html, or their sources: .bib, .ris or .json (CSL).

    The file appears whole or not at all. `force` replaces an existing one.

    Raises:
        ConfigError: another suffix, no answers, the file exists, or it cannot be written.
    """
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ConfigError(f"cannot export to {path.name!r}; the name must end in {', '.join(_WRITERS)}")
    if not answers:
        raise ConfigError("there is nothing to export yet; ask first, with %ask or %%ask")
    if path.exists() and not force:
        raise ConfigError(f"{path} exists; --force replaces it")
    text = writer(answers)
    try:
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".export-") as folder:  # so that a full disk harms no old file
            draft = Path(folder, path.name)
            draft.write_text(text, encoding="utf-8", newline="")
            draft.replace(path)
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror or exc}") from exc


def answer_cell(answer: Answer) -> str:
    """Return one answer as safe Markdown with its question as the heading."""
    return f"## {text_markdown(shorten(one_line(answer.question), 300))}\n\n{render('answer', 'md', answer_view(answer))}"


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


def _cells(answers: Sequence[Answer]) -> list[str]:
    return [f"# {_TITLE}", *map(answer_cell, answers)]


def _notebook(answers: Sequence[Answer]) -> str:
    cells = [
        {"cell_type": "markdown", "id": f"websearch-{n}", "metadata": {}, "source": text.splitlines(keepends=True)}
        for n, text in enumerate(_cells(answers))
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _html(answers: Sequence[Answer]) -> str:
    """Return a page of answers. All sources are unfolded, since folded ones are not printed."""
    shown = ((answer.question, render("answer", "html", answer_view(answer, cards=999))) for answer in answers)
    return fill("export", "html", {"title": _TITLE, "answers": [(question, Markup(html)) for question, html in shown]})


def _sources(style: str) -> Callable[[Sequence[Answer]], str]:
    return lambda answers: bibliography((citation for answer in answers for citation in answer.citations), style)


_WRITERS: dict[str, Callable[[Sequence[Answer]], str]] = {
    ".md": lambda answers: "\n\n".join(_cells(answers)) + "\n",
    ".ipynb": _notebook,
    ".html": _html,
    ".bib": _sources("bibtex"),
    ".ris": _sources("ris"),
    ".json": _sources("csl"),
}
