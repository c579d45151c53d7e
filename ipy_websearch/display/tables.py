"""What a search, a fetched page, an enriched frame and the status look like.

A frame is shown as it is, filtered or sorted, further columns included. One that has lost the columns that its look needs is
an ordinary table: None is returned and pandas shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ipy_websearch.display.html import link, render, to_html
from ipy_websearch.display.text import (
    PLAIN,
    Terminal,
    cost,
    count,
    grid,
    iso,
    one_line,
    place_of,
    safe_href,
    seconds,
    short_address,
)
from ipy_websearch.results import Page, SearchResults
from ipy_websearch.text import shorten, usd

MAX_ROWS = 50
ENRICHED_ROWS = 20
LOW_CONFIDENCE = 0.5
PAGE_CHARACTERS = 24_000
"""How much of a page is shown; `page.content` has all of it."""
NEEDED = ("title", "url", "description", "published_date")
_SILENT = (*NEEDED, "extra_snippets", "score")
_PARTS = ("source", "quote", "confidence")
_NOTED = ("enrich_status", "enrich_error", "enrich_cost_usd")
_SNIPPET = 400
_CELL = 200
NOTHING = "Try fewer words, drop --site or --freshness, or name another provider with --provider."

Row = dict[str, Any]


def _words(value: Any, width: int = _CELL) -> str:
    """Return a cell as one line of text; a missing value is ""."""
    missing = value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    return "" if missing else shorten(one_line(value), width)


# --- search results ---------------------------------------------------------------------------------------------


def search_html(found: Any, *, max_rows: int = MAX_ROWS) -> str | None:
    """Return a `SearchFrame` or `SearchResults` as result cards, None when its columns do not make any."""
    rows = _rows_of(found, max_rows)
    if rows is None:
        return None
    search = found if isinstance(found, SearchResults) else found.search
    left = len(found) - len(rows)
    values = {"more": f"… {count(left, 'more row')}" if left else "", "nothing": NOTHING}
    return render("search", rows=rows, summary=_summary(search, len(found)), notices=_notices(search), **values)


def search_text(found: Any, *, max_rows: int = MAX_ROWS, terminal: Terminal = PLAIN) -> str | None:
    """Return the same as plain text, None likewise."""
    rows = _rows_of(found, max_rows)
    if rows is None:
        return None
    search = found if isinstance(found, SearchResults) else found.search
    width = max((len(row["label"]) for row in rows), default=0)
    blocks = [terminal.wrap(notice) for notice in _notices(search)]
    for row in rows:
        indent = " " * (width + 2)
        about = " · ".join(filter(None, (row["title"] or row["url"], row["date"])))
        lines = [terminal.bold(terminal.wrap(f"{row['label']:>{width}}  {about}")), indent + terminal.link(row["url"])]
        lines += [terminal.wrap(row["snippet"], indent)] if row["snippet"] else []
        blocks.append("\n".join([*lines, *(f"{indent}{name}: {cell}" for name, cell in row["more"] if cell)]))
    if len(found) > len(rows):
        blocks.append(f"… {count(len(found) - len(rows), 'more row')}")
    return "\n".join(
        [*blocks, *([] if rows else [terminal.wrap(f"0 results. {NOTHING}")]), terminal.faint(_summary(search, len(found)))]
    )


def _rows_of(found: Any, most: int) -> list[Row] | None:
    """Return what is shown of each result, as plain text; None when the frame's columns do not make search results."""
    if isinstance(found, SearchResults):
        hits = [(str(i), hit.title, hit.url, hit.description, hit.published_date) for i, hit in enumerate(found[:most])]
        return [_row(*hit, more=[]) for hit in hits]
    names = list(found.columns)
    if len(set(names)) != len(names) or not all(isinstance(n, str) for n in names) or not set(NEEDED) <= set(names):
        return None
    others = [name for name in names if name not in _SILENT]
    shown = found.head(most)
    columns = [shown[name] for name in (*NEEDED, *others)]
    rows = []
    for label, title, url, text, date, *cells in zip(shown.index, *columns, strict=True):
        more = [(one_line(name), _words(cell)) for name, cell in zip(others, cells, strict=True)]
        rows.append(_row(_words(label, 30), title, url, text, date, more=more))
    return rows


def _row(label: str, title: Any, url: Any, text: Any, date: Any, *, more: Sequence[tuple[str, str]]) -> Row:
    address = _words(url, 4096)
    row = {"label": label, "title": _words(title, 300), "url": address, "snippet": _words(text, _SNIPPET), "date": iso(date)}
    return {**row, "place": place_of(address), "more": more}


def _summary(search: SearchResults | None, shown: int) -> str:
    """Return the line under the results: the query, who answered, how many, for how much."""
    if search is None:
        return count(shown, "row")
    number = f"{shown} of {len(search)} results" if shown != len(search) else count(shown, "result")
    price = cost(search.cost_usd, cached=search.cached)
    return f"{shorten(one_line(search.query), 80)} — {one_line(search.provider)} · {number} · {price}"


def _notices(search: SearchResults | None) -> list[str]:
    """Return what stands above the results: who did not answer and why, and remarks."""
    if search is None:
        return []
    notices = [one_line(notice) for notice in search.notices]
    silent = [(one_line(attempt.provider), one_line(attempt.error)) for attempt in search.attempts]
    untold = [(name, error) for name, error in silent if not any(notice.startswith(error) for notice in notices)]
    told = [error if error.startswith(name) else f"{name}: {error}" for name, error in untold]
    return [*(shorten(error, 160) for error in told), *notices]


# --- enriched frames --------------------------------------------------------------------------------------------


def enriched_html(frame: Any) -> str | None:
    """Return an enriched frame: the caller's columns and the asked ones with their sources; None without any."""
    parts = _enriched(frame)
    return None if parts is None else render("enriched", **parts)


def _enriched(frame: Any) -> dict[str, Any] | None:
    asked = asked_columns(frame)
    if not asked:
        return None
    added = {f"{name}_{part}" for name in asked for part in _PARTS} | set(_NOTED)
    own = [name for name in frame.columns if name not in added and name not in asked]
    shown = frame.head(ENRICHED_ROWS)
    rows = [
        {
            "label": _words(label, 30),
            "own": [_words(shown[name].iloc[i]) for name in own[:4]],
            "cells": list(_cells(shown, asked, i)),
        }
        for i, label in enumerate(shown.index)
    ]
    filled = {name: int(frame[name].notna().sum()) for name in asked}
    heads = [{"name": one_line(name), "filled": filled[name], "numeric": frame[name].dtype.kind in "iuf"} for name in asked]
    head = {"own": list(map(one_line, own[:4])), "asked": heads, "total": len(frame)}
    return {"rows": rows, "head": head, "summary": _enriched_summary(frame, filled), "failures": _failures(frame)}


def enriched_text(frame: Any, terminal: Terminal = PLAIN) -> str | None:
    """Return the same as plain text, without sources; None likewise."""
    parts = _enriched(frame)
    if parts is None:
        return None
    head, rows = parts["head"], parts["rows"]
    names = ["", *head["own"], *(column["name"] for column in head["asked"])]
    cells = [
        [row["label"], *row["own"], *(f"{cell['text'] or '—'}{' ?' * cell['low']}" for cell in row["cells"])] for row in rows
    ]
    numeric = [True, *(False for _ in head["own"]), *(column["numeric"] for column in head["asked"])]
    left = head["total"] - len(rows)
    lines = [*grid([names, *cells], numeric, terminal.width), *([f"… {count(left, 'more row')}"] if left else [])]
    return "\n".join([*lines, *parts["failures"], terminal.wrap(parts["summary"])])


def asked_columns(frame: Any) -> list[str]:
    """Return the columns that were filled from the web: those with a source, quote and confidence beside them."""
    names = list(frame.columns)
    known = set(names) if len(set(names)) == len(names) else set()
    return [name for name in names if isinstance(name, str) and {f"{name}_{part}" for part in _PARTS} <= known]


def _cells(frame: Any, asked: Sequence[str], i: int) -> Iterator[Row]:
    for name in asked:
        value, source, quote, sure = (frame[column].iloc[i] for column in (name, *(f"{name}_{part}" for part in _PARTS)))
        url, quoted, confidence = _words(source, 4096), _words(quote, 300), _words(sure)
        low = bool(confidence) and float(confidence) < LOW_CONFIDENCE
        title = " — ".join(filter(None, (f"confidence {confidence}" if confidence else "", place_of(url), quoted)))
        number = f"{value:,.6g}" if isinstance(value, float) and value == value else _words(value)
        year = f"{value}" if _words(value).isdigit() else number
        yield {"text": year, "url": safe_href(url), "title": title, "low": low}


def _enriched_summary(frame: Any, filled: dict[str, int]) -> str:
    cells = len(frame) * len(filled)
    low = sum(int((frame[f"{name}_confidence"] < LOW_CONFIDENCE).sum()) for name in filled)
    spent = frame["enrich_cost_usd"].sum() if "enrich_cost_usd" in frame.columns else 0.0
    report = frame.attrs.get("report")
    parts = (
        count(len(frame), "row"),
        f"{sum(filled.values()):,} of {count(cells, 'cell')} filled",
        f"{low} below {LOW_CONFIDENCE} confidence (marked)" if low else "",
        usd(float(spent)) if spent else "",
        seconds(report["seconds"]) if isinstance(report, dict) and "seconds" in report else "",
        f"all {len(frame.columns)} columns: .columns",
    )
    return " · ".join(filter(None, parts))


def _failures(frame: Any) -> list[str]:
    """Return why rows have no values, equal reasons together."""
    if "enrich_error" not in frame.columns:
        return []
    reasons = frame["enrich_error"].dropna().map(lambda reason: shorten(one_line(reason), 160)).value_counts()
    return [f"{count(number, 'row')}: {reason}" for reason, number in reasons.head(5).items() if reason]


# --- pages --------------------------------------------------------------------------------------------------------


def page_html(page: Page) -> str:
    """Return a page as HTML, in a box that scrolls."""
    content, rest = _cut(page)
    about = " · ".join(filter(None, (short_address(page.final_url), iso(page.published_date), _lines(page))))
    notes = [note for note in (one_line(page.note) if page.total_lines else "", rest) if note]
    title = link(page.final_url, page.title or page.final_url)
    return render("page", title=title, about=about, content=to_html(content) if content else "", notes=notes)


def page_text(page: Page, terminal: Terminal = PLAIN) -> str:
    """Return a page as plain text."""
    content, rest = _cut(page)
    about = " · ".join(filter(None, (iso(page.published_date), _lines(page))))
    head = [terminal.bold(one_line(page.title)), terminal.link(page.final_url), about]
    note = one_line(page.note) if page.total_lines else ""
    return "\n\n".join(filter(None, ("\n".join(filter(None, head)), terminal.markdown(content), note, rest)))


def _lines(page: Page) -> str:
    if page.total_lines == 0:
        return one_line(page.note) or "the page holds no text"
    if page.lines_read == 0:
        return f"no lines here; the page has {page.total_lines:,}"
    some = page.lines_read < page.total_lines
    words = f"{page.lines_read:,} of {page.total_lines:,} lines" if some else count(page.total_lines, "line")
    fetched = f", fetched {page.fetched_at:%Y-%m-%d %H:%M} UTC" if page.fetched_at is not None else ""
    return f"{words} · cached{fetched}" if page.cached else words


def _cut(page: Page) -> tuple[str, str]:
    """Return the content that is shown and what is said of the rest ("" when there is none)."""
    content = page.content
    if len(content) <= PAGE_CHARACTERS:
        return content, ""
    end = content.rfind("\n", 0, PAGE_CHARACTERS)
    kept = content[: end if end > 0 else PAGE_CHARACTERS]
    return kept, f"… {len(content) - len(kept):,} more characters in .content"


# --- status -------------------------------------------------------------------------------------------------------

Sections = Mapping[str, Sequence[tuple[str, ...]]]
"""Headings, and under each its rows: what, how it is, and where something is missing the command that sets it."""


def status_html(sections: Sections) -> str:
    """Return the state of the package as a small table."""
    rows = [
        (title, [(one_line(row[0]), one_line(row[1]), "".join(row[2:])) for row in rows]) for title, rows in sections.items()
    ]
    return render("status", sections=rows)


def status_text(sections: Sections) -> str:
    """Return the same as plain text."""
    lines = {title: (f"  {row[0]:<24} {': '.join(row[1:])}" for row in rows) for title, rows in sections.items()}
    return "\n\n".join("\n".join((title, *rows)) for title, rows in lines.items())
