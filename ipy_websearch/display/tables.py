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
    grid,
    iso,
    one_line,
    place_of,
    safe_href,
    seconds,
    short_address,
)
from ipy_websearch.results import Page, SearchResults
from ipy_websearch.text import plural, shorten, usd

MAX_ROWS = 50
ENRICHED_ROWS = 20
LOW_CONFIDENCE = 0.5
PAGE_CHARACTERS = 24_000
"""How much of a page is shown; `page.content` has all of it."""
NEEDED = ("title", "url", "description", "published_date")
_SILENT = (*NEEDED, "extra_snippets", "score")
_PARTS = ("source", "quote", "confidence")
_NOTED = ("enrich_status", "enrich_error", "enrich_cost_usd")
_OWN = 4
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
    view = _search(found, max_rows)
    return None if view is None else render("search", **view)


def search_text(found: Any, *, max_rows: int = MAX_ROWS, terminal: Terminal = PLAIN) -> str | None:
    """Return the same as plain text, None likewise."""
    view = _search(found, max_rows)
    if view is None:
        return None
    lines = [terminal.wrap(notice) for notice in view["notices"]]
    width = max((len(row["label"]) for row in view["rows"]), default=0)
    indent = " " * (width + 2)
    for row in view["rows"]:
        about = " · ".join(filter(None, (row["title"] or row["url"], row["date"])))
        lines += [terminal.bold(terminal.wrap(f"{row['label']:>{width}}  {about}")), indent + terminal.link(row["url"])]
        lines += [terminal.wrap(row["snippet"], indent)] if row["snippet"] else []
        lines += [f"{indent}{name}: {cell}" for name, cell in row["more"] if cell]
    nothing = "" if view["rows"] else terminal.wrap(f"0 results. {NOTHING}")
    return "\n".join(filter(None, (*lines, view["more"], nothing, terminal.faint(view["summary"]))))


def _search(found: Any, max_rows: int) -> dict[str, Any] | None:
    """Return what is shown of search results, as plain text; None when the frame's columns do not make any."""
    frame = found.to_frame() if isinstance(found, SearchResults) else found
    names = list(frame.columns)
    if len(set(names)) != len(names) or not set(NEEDED) <= set(names):
        return None
    others = [name for name in names if name not in _SILENT]
    shown = frame.head(max_rows)
    rows = [
        {
            "label": _words(label, 30),
            "title": _words(title, 300),
            "url": _words(url, 4096),
            "place": place_of(_words(url, 4096)),
            "date": iso(date),
            "snippet": _words(text, _SNIPPET),
            "more": [(one_line(name), _words(cell)) for name, cell in zip(others, cells, strict=True)],
        }
        for label, title, url, text, date, *cells in zip(shown.index, *(shown[n] for n in (*NEEDED, *others)), strict=True)
    ]
    left = len(frame) - len(rows)
    notices, summary = _about(frame.search, len(frame))
    more = f"… {plural(left, 'more row')}" if left else ""
    return {"rows": rows, "more": more, "nothing": NOTHING, "notices": notices, "summary": summary}


def _about(search: SearchResults | None, rows: int) -> tuple[list[str], str]:
    """Return what stands above the results (who did not answer and why, remarks) and below: query, engine, number, cost."""
    if search is None:
        return [], plural(rows, "row")
    number = f"{rows} of {len(search)} results" if rows != len(search) else plural(rows, "result")
    price = cost(search.cost_usd, cached=search.cached)
    summary = f"{shorten(one_line(search.query), 80)} — {one_line(search.provider)} · {number} · {price}"
    return list(map(one_line, search.notices)), summary


# --- enriched frames --------------------------------------------------------------------------------------------


def enriched_html(frame: Any) -> str | None:
    """Return an enriched frame: the caller's columns and the asked ones with their sources; None without any."""
    view = _enriched(frame)
    return None if view is None else render("enriched", **view)


def enriched_text(frame: Any, terminal: Terminal = PLAIN) -> str | None:
    """Return the same as plain text, without sources; None likewise."""
    view = _enriched(frame)
    if view is None:
        return None
    names = ["", *view["own"], *(column["name"] for column in view["asked"])]
    numeric = [True, *(False for _ in view["own"]), *(column["numeric"] for column in view["asked"])]
    cells = [
        [row["label"], *row["own"], *(f"{cell['text'] or '—'}{' ?' * cell['low']}" for cell in row["cells"])]
        for row in view["rows"]
    ]
    lines = grid([names, *cells], numeric, terminal.width)
    return "\n".join(filter(None, (*lines, view["more"], *view["failures"], terminal.wrap(view["summary"]))))


def _enriched(frame: Any) -> dict[str, Any] | None:
    """Return what is shown of an enriched frame, as plain text; None when no column has its source, quote and confidence."""
    names = list(frame.columns)
    parts = {name: [f"{name}_{part}" for part in _PARTS] for name in names}
    asked = [name for name in names if set(parts[name]) <= set(names)]
    if not asked or len(set(names)) != len(names):
        return None
    own = [name for name in names if name not in asked and name not in _NOTED and not any(name in parts[n] for n in asked)]
    shown = frame.head(ENRICHED_ROWS)
    columns = [[shown[n] for n in (name, *parts[name])] for name in asked]
    filled = {name: int(frame[name].notna().sum()) for name in asked}
    left = len(frame) - len(shown)
    return {
        "own": list(map(one_line, own[:_OWN])),
        "asked": [{"name": one_line(n), "filled": filled[n], "numeric": frame[n].dtype.kind in "iuf"} for n in asked],
        "total": len(frame),
        "rows": [
            {
                "label": _words(label, 30),
                "own": [_words(shown[name].iloc[i]) for name in own[:_OWN]],
                "cells": [_cell(*(part.iloc[i] for part in column)) for column in columns],
            }
            for i, label in enumerate(shown.index)
        ],
        "more": f"… {plural(left, 'more row')}" if left else "",
        "failures": list(_failures(frame)),
        "summary": _enriched_summary(frame, filled),
    }


def _cell(value: Any, source: Any, quote: Any, sure: Any) -> Row:
    url, confidence = _words(source, 4096), _words(sure)
    about = (f"confidence {confidence}" if confidence else "", place_of(url), _words(quote, 300))
    text = _words(value)
    if isinstance(value, float) and text:
        text = f"{value:,.6g}"
    low = bool(confidence) and float(confidence) < LOW_CONFIDENCE
    return {"text": text, "url": safe_href(url), "title": " — ".join(filter(None, about)), "low": low}


def _enriched_summary(frame: Any, filled: Mapping[str, int]) -> str:
    low = sum(int((frame[f"{name}_confidence"] < LOW_CONFIDENCE).sum()) for name in filled)
    spent = frame["enrich_cost_usd"].sum() if "enrich_cost_usd" in frame.columns else 0.0
    report = frame.attrs.get("report")
    parts = (
        plural(len(frame), "row"),
        f"{sum(filled.values()):,} of {plural(len(frame) * len(filled), 'cell')} filled",
        f"{low} below {LOW_CONFIDENCE} confidence (marked)" if low else "",
        usd(float(spent)) if spent else "",
        seconds(report["seconds"]) if isinstance(report, dict) and "seconds" in report else "",
        f"all {len(frame.columns)} columns: .columns",
    )
    return " · ".join(filter(None, parts))


def _failures(frame: Any) -> Iterator[str]:
    """Yield why rows have no values, and remarks on rows that have, equal ones together."""
    if {"enrich_error", "enrich_status"} <= set(frame.columns):
        told = frame[frame["enrich_error"].notna()]
        glyphs = told["enrich_status"].map(lambda status: "·" if status == "ok" else "✗")
        reasons = told["enrich_error"].map(lambda reason: shorten(one_line(reason), 160))
        counts = reasons.groupby([glyphs, reasons], sort=False).size().nlargest(5)
        yield from (f"{glyph} {plural(number, 'row')}: {reason}" for (glyph, reason), number in counts.items() if reason)


# --- pages --------------------------------------------------------------------------------------------------------


def page_html(page: Page) -> str:
    """Return a page as HTML, in a box that scrolls."""
    content, notes = _shown_of(page)
    about = " · ".join(filter(None, (short_address(page.final_url), iso(page.published_date), _lines(page))))
    title = link(page.final_url, page.title or page.final_url)
    return render("page", title=title, about=about, content=to_html(content) if content else "", notes=notes)


def page_text(page: Page, terminal: Terminal = PLAIN) -> str:
    """Return a page as plain text."""
    content, notes = _shown_of(page)
    about = " · ".join(filter(None, (iso(page.published_date), _lines(page))))
    head = "\n".join(filter(None, (terminal.bold(one_line(page.title)), terminal.link(page.final_url), about)))
    return "\n\n".join(filter(None, (head, terminal.markdown(content), *notes)))


def _lines(page: Page) -> str:
    if page.total_lines == 0:
        return one_line(page.note) or "the page holds no text"
    if page.lines_read == 0:
        return f"no lines here; the page has {page.total_lines:,}"
    some = page.lines_read < page.total_lines
    words = f"{page.lines_read:,} of {page.total_lines:,} lines" if some else plural(page.total_lines, "line")
    fetched = f", fetched {page.fetched_at:%Y-%m-%d %H:%M} UTC" if page.fetched_at is not None else ""
    return f"{words} · cached{fetched}" if page.cached else words


def _shown_of(page: Page) -> tuple[str, list[str]]:
    """Return the content that is shown, and what is said below it."""
    content = page.content
    if len(content) > PAGE_CHARACTERS:
        end = content.rfind("\n", 0, PAGE_CHARACTERS)
        content = content[: end if end > 0 else PAGE_CHARACTERS]
    left = len(page.content) - len(content)
    notes = [one_line(page.note) if page.total_lines else "", f"… {left:,} more characters in .content" if left else ""]
    return content, list(filter(None, notes))


# --- status -------------------------------------------------------------------------------------------------------

Sections = Mapping[str, Sequence[tuple[str, ...]]]
"""Headings, and under each its rows: what, how it is, and where something is missing the command that sets it."""


def status_html(sections: Sections) -> str:
    """Return the state of the package as a small table."""
    return render("status", sections=sections)


def status_text(sections: Sections) -> str:
    """Return the same as plain text."""
    lines = {title: (f"  {row[0]:<24} {': '.join(row[1:])}" for row in rows) for title, rows in sections.items()}
    return "\n\n".join("\n".join((title, *rows)) for title, rows in lines.items())
