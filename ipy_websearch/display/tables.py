"""What is shown of a search, a fetched page and an enriched frame.

A frame is shown as it is, filtered or sorted, further columns included. One that has lost the columns that its look needs is
an ordinary table: its view is None and pandas shows it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ipy_websearch.display.render import View, words
from ipy_websearch.display.text import cell, iso, one_line, place_of, safe_href, short_address
from ipy_websearch.results import Page, SearchResults
from ipy_websearch.settings import WebSearch, settings_in_force
from ipy_websearch.text import duration, plural, shorten, usd

ENRICHED_ROWS = 20
LOW_CONFIDENCE = 0.5
# How much of a page is shown; `page.content` has all of it.
PAGE_CHARACTERS = 24_000
NEEDED = ("title", "url", "description", "published_date")
_SILENT = (*NEEDED, "extra_snippets", "score")
_PARTS = ("source", "quote", "confidence")
_NOTED = ("enrich_status", "enrich_error", "enrich_cost_usd")
_OWN = 4
_ADDRESS = 4096
NOTHING = "Try fewer words, drop --site or --freshness, or name another provider with --provider."


# --- search results ---------------------------------------------------------------------------------------------


def search_view(found: Any) -> View | None:
    """Return what is shown of a `SearchFrame` or `SearchResults`, None when its columns make no result cards."""
    frame = found.to_frame() if isinstance(found, SearchResults) else found
    names = list(frame.columns)
    if len(set(names)) != len(names) or not set(NEEDED) <= set(names):
        return None
    others = [name for name in names if name not in _SILENT]
    shown = frame.head((settings_in_force() or WebSearch()).max_rows)
    rows = [
        {
            "label": cell(label, 30),
            "title": cell(title, 300),
            "url": cell(url, _ADDRESS),
            "place": place_of(cell(url, _ADDRESS)),
            "date": iso(date),
            "snippet": cell(text, 400),
            "more": [(one_line(name), cell(value)) for name, value in zip(others, values, strict=True)],
        }
        for label, title, url, text, date, *values in zip(
            shown.index, *(shown[name] for name in (*NEEDED, *others)), strict=True
        )
    ]
    search = frame.search
    notices = list(map(one_line, search.notices)) if search is not None else []
    return {
        "rows": rows,
        "more": _more(frame, shown),
        "nothing": NOTHING,
        "notices": notices,
        "summary": words("tables", "found", search, len(frame)),
    }


def _more(frame: Any, shown: Any) -> str:
    left = len(frame) - len(shown)
    return f"… {plural(left, 'more row')}" if left else ""


# --- enriched frames --------------------------------------------------------------------------------------------


def enriched_view(frame: Any) -> View | None:
    """Return what is shown of an `EnrichedFrame`; None when no column has its source, quote and confidence."""
    names = list(frame.columns)
    parts = {name: [f"{name}_{part}" for part in _PARTS] for name in names}
    asked = [name for name in names if set(parts[name]) <= set(names)]
    if not asked or len(set(names)) != len(names):
        return None
    own = [name for name in names if name not in asked and name not in _NOTED and not any(name in parts[n] for n in asked)]
    own, shown = own[:_OWN], frame.head(ENRICHED_ROWS)
    columns = [
        [{"text": cell(label, 30)} for label in shown.index],
        *([{"text": cell(value)} for value in shown[n]] for n in own),
    ]
    columns += [list(map(_valued, shown[name], *(shown[part] for part in parts[name]))) for name in asked]
    filled = {name: int(frame[name].notna().sum()) for name in asked}
    numeric = {name: frame[name].dtype.kind in "iuf" for name in asked}
    heads = [{"name": "", "numeric": True}, *({"name": one_line(name), "numeric": False} for name in own)]
    heads += [{"name": one_line(name), "numeric": numeric[name], "filled": filled[name]} for name in asked]
    return {
        "heads": heads,
        "rows": list(zip(*columns, strict=True)),
        "total": len(frame),
        "more": _more(frame, shown),
        "failures": list(_failures(frame)),
        "summary": _enriched_summary(frame, filled),
    }


def _valued(value: Any, source: Any, quote: Any, sure: Any) -> View:
    """Return a value with its source, what is said on hover, and whether it is doubtful."""
    url, confidence = cell(source, _ADDRESS), cell(sure)
    about = (f"confidence {confidence}" if confidence else "", place_of(url), cell(quote, 300))
    low = bool(confidence) and float(confidence) < LOW_CONFIDENCE
    return {"text": cell(value) or "—", "url": safe_href(url), "title": " — ".join(filter(None, about)), "low": low}


def _enriched_summary(frame: Any, filled: Mapping[str, int]) -> str:
    low = sum(int((frame[f"{name}_confidence"] < LOW_CONFIDENCE).sum()) for name in filled)
    spent = frame["enrich_cost_usd"].sum() if "enrich_cost_usd" in frame.columns else 0.0
    report = frame.attrs.get("report")
    parts = (
        plural(len(frame), "row"),
        f"{sum(filled.values()):,} of {plural(len(frame) * len(filled), 'cell')} filled",
        f"{low} below {LOW_CONFIDENCE} confidence (marked)" if low else "",
        usd(float(spent)) if spent else "",
        duration(report["seconds"]) if isinstance(report, dict) and "seconds" in report else "",
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


def page_view(page: Page) -> View:
    """Return what is shown of a page: its title, where it is from, its text as far as it is shown, and what has the rest."""
    content = page.content
    if len(content) > PAGE_CHARACTERS:
        end = content.rfind("\n", 0, PAGE_CHARACTERS)
        content = content[: end if end > 0 else PAGE_CHARACTERS]
    left = len(page.content) - len(content)
    return {
        "title": one_line(page.title),
        "url": one_line(page.final_url),
        "place": short_address(page.final_url),
        "about": " · ".join(filter(None, (iso(page.published_date), words("tables", "lines", page)))),
        "content": content,
        "notes": [one_line(page.note) if page.total_lines else "", f"… {left:,} more characters in .content" if left else ""],
    }
