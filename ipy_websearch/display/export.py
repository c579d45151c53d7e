"""Questions, answers and sources as a file of their own: Markdown, a notebook of Markdown cells, or a page of HTML.

Everything that came from outside goes through the renderer of the notebook's outputs, so the files are as harmless as
those. A source is a footnote `[^2-1]` (answer 2, source 1), written so that it is one on GitHub and a link to the source in
renderers without footnotes, JupyterLab's among them.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from ipy_websearch.display.answer_text import rows_markdown
from ipy_websearch.display.answers import answer_html
from ipy_websearch.display.dates import iso
from ipy_websearch.display.facts import facts, labels, sources, text_of
from ipy_websearch.display.links import host_of, safe_href
from ipy_websearch.display.markdown import to_safe_markdown
from ipy_websearch.display.markdown_writer import link_markdown, text_markdown
from ipy_websearch.display.progress import AnswerView
from ipy_websearch.display.words import one_line
from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Answer
from ipy_websearch.text import shorten, visible

_MARK = "https://footnote.invalid/"
"""Stands for a footnote while the text is rendered."""

_LINKED = re.compile(r"\[\[\d+\]\]\(https://footnote\.invalid/(\d+-\d+)\)")
_TITLE = "Questions and answers"
_PAGE = """\
<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">
<style>body{{font-family:system-ui,sans-serif;max-width:62em;margin:2em auto;padding:0 1em}}
:root{{color-scheme:light dark}}</style>
</head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def export(answers: Sequence[Answer], path: Path, *, force: bool = False) -> None:
    """Write the answers to `path`, as its ending says: .md, .ipynb or .html.

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
    try:
        _write(path, writer(answers), force)
    except FileExistsError:
        raise ConfigError(f"{path} exists; --force replaces it") from None
    except OSError as exc:
        raise ConfigError(f"cannot write {path}: {exc.strerror or exc}") from exc


def _write(path: Path, text: str, force: bool) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # mkstemp makes it private; a report is like any other file
        if path.exists() and not force:
            raise FileExistsError(path)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def answer_cell(answer: Answer, number: int = 1) -> str:
    """Return one answer as harmless Markdown: question, text, sources, footnotes."""
    return f"## {_question(answer)}\n\n{_body(answer, number)}"


def _question(answer: Answer) -> str:
    return text_markdown(shorten(one_line(answer.question), 300)) or "(no question)"


def _body(answer: Answer, number: int) -> str:
    """Return everything but the question; `number` tells the footnotes of several answers apart."""
    view = AnswerView.of(answer)
    found = sources(view.citations)
    # a source without an address that may be a link has no footnote to lead to: its mark stays a mark
    marks = {source.n: f"{_MARK}{number}-{source.n}" for source, _ in found if safe_href(source.url)}
    text = rows_markdown(answer) if answer.rows else _LINKED.sub(r"[^\1]", to_safe_markdown(text_of(view), marks))
    parts = [*(f"> {text_markdown(label)}" for label in labels(view)), text]
    lines, notes = [], []
    for source, passages in found:
        mark = f"[^{number}-{source.n}]" if source.n in marks else f"\\[{source.n}\\]"
        place = host_of(source.url) if source.n in marks else visible(source.url)
        about = ", ".join(filter(None, (place, iso(source.published_date))))
        quote = f" — “{text_markdown(shorten(' '.join(visible(passages[0]).split()), 200))}”" if passages else ""
        lines.append(f"- {mark} {link_markdown(source.url, one_line(source.title))} {text_markdown(about)}{quote}")
        if source.n in marks:
            notes.append(f"[^{number}-{source.n}]: <{safe_href(source.url)}>")
    if lines:
        parts += ["**Sources**", "\n".join(lines)]
    parts += [text_markdown(one_line(notice)) for notice in answer.notices]
    parts += [f"*{text_markdown(facts(answer))}*", "\n\n".join(notes)]
    return "\n\n".join(filter(None, parts))


def _markdown(answers: Sequence[Answer]) -> str:
    cells = (answer_cell(answer, number) for number, answer in enumerate(answers, 1))
    return f"# {_TITLE}\n\n" + "\n\n".join(cells) + "\n"


def _notebook(answers: Sequence[Answer]) -> str:
    texts = [f"# {_TITLE}"]
    for number, answer in enumerate(answers, 1):
        texts += [f"## {_question(answer)}", _body(answer, number)]
    cells = [
        {"cell_type": "markdown", "id": f"websearch-{n}", "metadata": {}, "source": text.splitlines(keepends=True)}
        for n, text in enumerate(texts)
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    notebook = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _html(answers: Sequence[Answer]) -> str:
    parts = [f"<h2>{escape(one_line(answer.question))}</h2>\n{answer_html(answer)}" for answer in answers]
    return _PAGE.format(title=_TITLE, body="\n".join(parts))


_WRITERS: dict[str, Callable[[Sequence[Answer]], str]] = {".md": _markdown, ".ipynb": _notebook, ".html": _html}
