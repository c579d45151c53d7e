"""The search table: titles as safe links, host, date and snippet, and under it which engine answered and what it cost.

It shows the frame as it is, filtered or sorted, further columns included. A frame that has lost one of the columns it
needs is not a search table any more: None is returned and pandas shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from html import escape
from typing import Any

from ipy_websearch.display import money
from ipy_websearch.display.dates import ago, ago_html, iso
from ipy_websearch.display.links import host_of, link_html, safe_href
from ipy_websearch.display.markdown_writer import link_markdown, text_markdown
from ipy_websearch.display.style import LEFT, framed
from ipy_websearch.display.words import one_line
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.text import shorten, visible

MAX_ROWS = 50
NEEDED = ("title", "url", "description", "published_date")
_SILENT = (*NEEDED, "extra_snippets", "score")
_SNIPPET = 300
_CELL = 200


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, as plain text; `label` is its index in the frame, `more` the cells of further columns."""

    label: str
    title: str
    url: str
    snippet: str
    date: datetime | None
    more: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """What is shown of a search: the rows there is room for, how many there are, and where they come from."""

    rows: tuple[Row, ...]
    total: int
    more: tuple[str, ...] = ()
    search: SearchResults | None = None

    @property
    def rest(self) -> str:
        """What is said in place of the rows that are not shown, "" when all are."""
        left = self.total - len(self.rows)
        return f"… {money.count(left, 'more row')}" if left else ""


def search_html(found: Any, *, max_rows: int = MAX_ROWS, now: datetime | None = None) -> str | None:
    """Return a `SearchFrame` or `SearchResults` as HTML, None when its columns do not make a search table."""
    table = table_of(found, max_rows)
    if table is None:
        return None
    heads = "".join(f"<th{LEFT}>{escape(name)}</th>" for name in ("", "title", "description", *table.more))
    body = "".join(_row_html(row, now) for row in table.rows)
    grid = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>" if table.rows else ""
    rest = f"<div><small>{table.rest}</small></div>" if table.rest else ""
    lines = "".join(f"<div><small>{escape(line)}</small></div>" for line in summary(table))
    return framed(grid, rest, lines)


def search_text(found: Any, *, max_rows: int = MAX_ROWS, now: datetime | None = None) -> str | None:
    """Return the same as plain text, None likewise."""
    table = table_of(found, max_rows)
    if table is None:
        return None
    width = max((len(row.label) for row in table.rows), default=0)
    lines = [line for row in table.rows for line in _row_lines(row, table.more, width, now)]
    return "\n".join((*lines, *filter(None, (table.rest,)), *summary(table)))


def search_markdown(found: Any, *, max_rows: int = MAX_ROWS) -> str | None:
    """Return the same as Markdown, None likewise."""
    table = table_of(found, max_rows)
    if table is None:
        return None
    heads = ("", "title", "published", "description", *table.more)
    lines = [heads, ("---",) * len(heads), *(_row_cells(row) for row in table.rows)] if table.rows else []
    grid = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    return "\n\n".join(filter(None, (grid, table.rest, *(text_markdown(line) for line in summary(table)))))


def table_of(found: Any, max_rows: int) -> Table | None:
    """Return what there is to show of a frame or of results, None when the frame's columns do not make a search table."""
    if isinstance(found, SearchResults):
        rows = tuple(_row_of(str(i), result) for i, result in enumerate(found[:max_rows]))
        return Table(rows, len(found), (), found)
    names = list(found.columns)
    if len(set(names)) != len(names) or not all(isinstance(n, str) for n in names) or not set(NEEDED) <= set(names):
        return None
    more = tuple(name for name in names if name not in _SILENT)
    return Table(tuple(_rows_of(found.head(max_rows), more)), len(found), tuple(map(one_line, more)), found.search)


def _row_of(label: str, result: SearchResult) -> Row:
    return Row(label, _words(result.title), _words(result.url), _words(result.description), result.published_date)


def _rows_of(frame: Any, more: tuple[str, ...]) -> Iterator[Row]:
    columns = [frame[name] for name in (*NEEDED, *more)]
    for label, title, url, text, date, *cells in zip(frame.index, *columns, strict=True):
        yield Row(
            shorten(_words(label), 30),
            _words(title),
            _words(url),
            _words(text),
            date if isinstance(date, datetime) and not _is_missing(date) else None,
            tuple(shorten(_words(cell), _CELL) for cell in cells),
        )


def _is_missing(value: Any) -> bool:
    return value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)


def _words(value: Any) -> str:
    """Return a cell as one line of text; a missing value is "". Angle brackets stay: they are escaped when written."""
    return "" if _is_missing(value) else " ".join(visible(str(value)).split())


def _row_html(row: Row, now: datetime | None) -> str:
    place = escape(host_of(row.url)) if safe_href(row.url) else escape(row.url)
    about = " · ".join(filter(None, (place, ago_html(row.date, now))))
    cells = "".join(f"<td{LEFT}>{_cell_html(cell)}</td>" for cell in row.more)
    return (
        f"<tr><th>{escape(row.label)}</th>"
        f'<td class="ipyws-what"{LEFT}>{link_html(row.url, row.title or row.url)}<br><small>{about}</small></td>'
        f"<td{LEFT}>{escape(shorten(row.snippet, _SNIPPET))}</td>{cells}</tr>"
    )


def _cell_html(cell: str) -> str:
    return link_html(cell, host_of(cell)) if safe_href(cell) else escape(cell)


def _row_cells(row: Row) -> tuple[str, ...]:
    title = link_markdown(row.url, row.title or row.url)
    if not safe_href(row.url):
        title = text_markdown(f"{row.title} ({row.url})")
    others = (iso(row.date), shorten(row.snippet, _SNIPPET), *row.more)
    return (text_markdown(row.label), title, *map(text_markdown, others))


def _row_lines(row: Row, more: tuple[str, ...], width: int, now: datetime | None) -> list[str]:
    when = f"  ({ago(row.date, now)})" if row.date else ""
    indent = " " * (width + 2)
    lines = [f"{row.label:>{width}}  {row.title or row.url}{when}", f"{indent}{row.url}"]
    lines += [f"{indent}{shorten(row.snippet, _SNIPPET)}"] if row.snippet else []
    return lines + [f"{indent}{name}: {cell}" for name, cell in zip(more, row.more, strict=True) if cell]


def summary(table: Table) -> list[str]:
    """Return the lines under the table: who answered, how many, for how much, who did not, and what should be known."""
    search = table.search
    if search is None:
        return [] if table.rows else ["no rows"]
    shown = f"{table.total} of {len(search)} results" if table.total != len(search) else money.count(len(search), "result")
    price = money.cost(search.cost_usd, cached=search.cached)
    lines = [f"{shorten(one_line(search.query), 80)} — {one_line(search.provider)} · {shown} · {price}"]
    notices = [one_line(notice) for notice in search.notices]
    silent = [(one_line(attempt.provider), one_line(attempt.error)) for attempt in search.attempts]
    untold = [(name, error) for name, error in silent if not any(notice.startswith(error) for notice in notices)]
    return [*lines, *(f"not from {name}: {shorten(error, 160)}" for name, error in untold), *notices]
