"""An answer as plain text for terminals and as Markdown for front ends that show no HTML; the same content as `answers`."""

from __future__ import annotations

from collections.abc import Collection

from ipy_websearch.display.answers import MAX_TABLE_ROWS, Drafts, cell_text, line_text, merged, waiting
from ipy_websearch.display.dates import iso
from ipy_websearch.display.facts import facts, labels, sources, text_of
from ipy_websearch.display.links import host_of, safe_href
from ipy_websearch.display.markdown import to_plain, to_safe_markdown
from ipy_websearch.display.markdown_writer import link_markdown, text_markdown
from ipy_websearch.display.panels import heading
from ipy_websearch.display.progress import AnswerView
from ipy_websearch.display.words import one_line
from ipy_websearch.results import Answer
from ipy_websearch.text import shorten, visible


def answer_text(shown: AnswerView | Answer, *, feedback: int = 1) -> str:
    """Return the answer as plain text: labels, text, sources with their addresses, notices, facts."""
    view = shown if isinstance(shown, AnswerView) else AnswerView.of(shown)
    return "\n\n".join(filter(None, ("\n".join(labels(view, feedback)), _body_text(view, feedback), tail_text(view, feedback))))


def _body_text(view: AnswerView, feedback: int) -> str:
    if view.answer is None:
        parts = [to_plain(p) if isinstance(p, str) else "\n".join(map(line_text, p)) for p in merged(view.lines(feedback))]
        return "\n\n".join(filter(None, (*parts, waiting(view))))
    return rows_text(view.answer) if view.answer.rows else to_plain(text_of(view))


def tail_text(view: AnswerView, feedback: int = 1, *, said: Collection[str] = ()) -> str:
    """Return what stands under the text of a finished answer, "" for a running one; notices in `said` are left out."""
    if view.answer is None:
        return ""
    lines = []
    for source, _ in sources(view.citations):
        date = f" ({iso(source.published_date)})" if source.published_date else ""
        lines.append(f"[{source.n}] {one_line(source.title)}{date}  {one_line(source.url)}".rstrip())
    ids = [panel.id for panel in view.panels]
    below = [f"panels: {', '.join(ids)} (%panels {ids[0]} shows one)"] if ids else []
    below += [*(one_line(notice) for notice in view.notices if one_line(notice) not in said), facts(view.answer)]
    return "\n\n".join(filter(None, ("\n".join(lines), "\n".join(below) if feedback else "")))


def rows_text(answer: Answer) -> str:
    """Return the rows of a structured answer, one column a line."""
    rows, names = answer.rows or (), list(answer.columns or ())
    blocks = [
        "\n".join(f"{f'{i}' if j == 0 else '':<4}{one_line(name)}: {cell_text(row.get(name))}" for j, name in enumerate(names))
        for i, row in enumerate(rows[:MAX_TABLE_ROWS])
    ]
    left = len(rows) - MAX_TABLE_ROWS
    return "\n".join((*blocks, f"… {left} more") if left > 0 else blocks)


def answer_markdown(shown: AnswerView | Answer, *, feedback: int = 1, drafts: Drafts | None = None) -> str:
    """Return the answer as harmless Markdown."""
    view = shown if isinstance(shown, AnswerView) else AnswerView.of(shown)
    top = [f"> {text_markdown(label)}" for label in labels(view, feedback)]
    if view.answer is None:
        body = _items_markdown(view, feedback, drafts or Drafts())
    elif view.answer.rows:
        body = [rows_markdown(view.answer)]
    else:
        body = [to_safe_markdown(text_of(view), view.addresses)]
    tail = _tail_markdown(view, feedback) if view.answer is not None else []
    return "\n\n".join(filter(None, (*top, *body, *tail)))


def _items_markdown(view: AnswerView, feedback: int, drafts: Drafts) -> list[str]:
    out = []
    for number, part in enumerate(merged(view.lines(feedback))):
        if isinstance(part, str):
            out.append(drafts.of(number, part, view.addresses).markdown)
        else:
            out.append("  \n".join(text_markdown(line_text(line)) for line in part))
    return [*out, text_markdown(waiting(view))]


def _tail_markdown(view: AnswerView, feedback: int) -> list[str]:
    assert view.answer is not None
    found = []
    for source, passages in sources(view.citations):
        place = host_of(source.url) if safe_href(source.url) else visible(source.url)
        about = ", ".join(filter(None, (place, iso(source.published_date))))
        quote = f" — “{text_markdown(shorten(' '.join(visible(passages[0]).split()), 200))}”" if passages else ""
        found.append(f"- [{source.n}] {link_markdown(source.url, one_line(source.title))} {text_markdown(about)}{quote}")
    parts = ["**Sources**", "\n".join(found)] if found else []
    if feedback:
        parts += [text_markdown(heading(panel)) for panel in view.panels]
        parts += [text_markdown(one_line(notice)) for notice in view.notices]
        parts.append(f"*{text_markdown(facts(view.answer))}*")
    return parts


def rows_markdown(answer: Answer) -> str:
    """Return the rows of a structured answer as a Markdown table."""
    rows, names = answer.rows or (), list(answer.columns or ())
    lines = [[text_markdown(one_line(name)) for name in names], ["---"] * len(names)]
    for row in rows[:MAX_TABLE_ROWS]:
        lines.append([_cell_markdown(cell_text(row.get(name))) for name in names])
    left = len(rows) - MAX_TABLE_ROWS
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return f"{table}\n\n… {left} more" if left > 0 else table


def _cell_markdown(text: str) -> str:
    return link_markdown(text, host_of(text)) if safe_href(text) else text_markdown(text)
