"""The display data of searches, enriched frames, pages and costs, and the plot of costs.

A frame is shown as it is, filtered or sorted. Where its columns are not those of its view, the view is None and pandas shows an
ordinary table.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from io import BytesIO
from typing import Any

from ipy_websearch.display.render import View, cell, iso, words
from ipy_websearch.errors import ConfigError
from ipy_websearch.results import Page, SearchResults
from ipy_websearch.settings import WebSearch, settings_in_force
from ipy_websearch.text import MAX_ADDRESS, one_line, place_of, plural, safe_href, short_address, shorten, usd

ENRICHED_ROWS = 20
LOW_CONFIDENCE = 0.5
# How much of a page is shown; `page.content` has all of it.
PAGE_CHARACTERS = 24_000
NEEDED = ("title", "url", "description", "published_date")
_PARTS = ("source", "quote", "confidence")
_NOTED = ("enrich_status", "enrich_error", "enrich_cost_usd")
_OWN = 4


# --- search results ---------------------------------------------------------------------------------------------


def search_view(found: Any) -> View | None:
    """Return the display data of a `SearchFrame` or `SearchResults`, None for a frame with other columns."""
    frame = found.to_frame() if isinstance(found, SearchResults) else found
    names = list(frame.columns)
    if len(set(names)) != len(names) or not set(NEEDED) <= set(names) <= {*NEEDED, "extra_snippets", "score"}:
        return None
    shown = frame.head((settings_in_force() or WebSearch()).max_rows)
    return {
        "rows": [
            {
                "label": cell(label, 30),
                "title": cell(title, 300),
                "url": cell(url, MAX_ADDRESS),
                "place": place_of(cell(url, MAX_ADDRESS)),
                "date": iso(date),
                "snippet": cell(text, 400),
            }
            for label, title, url, text, date in zip(shown.index, *(shown[name] for name in NEEDED), strict=True)
        ],
        "more": _more(len(frame) - len(shown)),
        "nothing": "Try fewer words, drop --site or --freshness, or name another provider with --provider.",
        "notices": [] if frame.search is None else list(map(one_line, frame.search.notices)),
        "summary": words("tables", "found", frame.search, len(frame)),
    }


def _more(left: int, what: str = "more row") -> str:
    return f"… {plural(left, what)}" if left else ""


# --- enriched frames --------------------------------------------------------------------------------------------


def enriched_view(frame: Any) -> View | None:
    """Return the display data of an `EnrichedFrame`, None when no column has its source, quote and confidence."""
    names = list(frame.columns)
    parts = {name: [f"{name}_{part}" for part in _PARTS] for name in names}
    asked = [name for name in names if set(parts[name]) <= set(names)]
    if not asked or len(set(names)) != len(names):
        return None
    ours = {*asked, *_NOTED, *(part for name in asked for part in parts[name])}
    own, shown = [name for name in names if name not in ours][:_OWN], frame.head(ENRICHED_ROWS)
    columns = [
        [{"text": cell(label, 30)} for label in shown.index],
        *([{"text": cell(value)} for value in shown[name]] for name in own),
        *(map(_valued, shown[name], *(shown[part] for part in parts[name])) for name in asked),
    ]
    filled = {name: int(frame[name].notna().sum()) for name in asked}
    low = sum(int((frame[f"{name}_confidence"] < LOW_CONFIDENCE).sum()) for name in asked)
    return {
        "heads": [
            {"name": "", "numeric": True},
            *({"name": one_line(name), "numeric": False} for name in own),
            *({"name": one_line(n), "numeric": frame[n].dtype.kind in "iuf", "filled": filled[n]} for n in asked),
        ],
        "rows": list(zip(*columns, strict=True)),
        "total": len(frame),
        "more": _more(len(frame) - len(shown)),
        "failures": _failures(frame),
        "summary": words("tables", "enriched", frame, sum(filled.values()), len(frame) * len(filled), low, LOW_CONFIDENCE),
    }


def _valued(value: Any, source: Any, quote: Any, sure: Any) -> View:
    """Return a value with its source, its tooltip, and whether it is doubtful."""
    url, confidence = cell(source, MAX_ADDRESS), cell(sure)
    about = (f"confidence {confidence}" if confidence else "", place_of(url), cell(quote, 300))
    return {
        "text": cell(value) or "—",
        "url": safe_href(url),
        "title": " — ".join(filter(None, about)),
        "low": bool(confidence) and float(confidence) < LOW_CONFIDENCE,
    }


def _failures(frame: Any) -> list[str]:
    """Return the errors of rows without values and the remarks on the others, equal ones counted."""
    if not {"enrich_error", "enrich_status"} <= set(frame.columns):
        return []
    told = frame[frame["enrich_error"].notna()]
    counts = Counter(zip(told["enrich_status"] == "ok", map(one_line, told["enrich_error"]), strict=True)).most_common(5)
    return [f"{'·' if ok else '✗'} {plural(number, 'row')}: {shorten(reason, 160)}" for (ok, reason), number in counts]


# --- pages --------------------------------------------------------------------------------------------------------


def page_view(page: Page) -> View:
    """Return the display data of a page: title, origin, the start of its text, and a note on the rest."""
    left = len(page.content) - PAGE_CHARACTERS
    return {
        "title": one_line(page.title),
        "url": one_line(page.final_url),
        "place": short_address(page.final_url),
        "about": " · ".join(filter(None, (iso(page.published_date), words("tables", "lines", page)))),
        "content": page.content[:PAGE_CHARACTERS],
        "notes": [
            one_line(page.note) if page.total_lines else "",
            f"… {left:,} more characters in .content" if left > 0 else "",
        ],
    }


# --- costs -----------------------------------------------------------------------------------------------------

_COST_ROWS = 60
_CALL = ("time", "question", "kind", "name", "usd", "status", "cached")
_SUMS = ("calls", "searches", "input_tokens", "output_tokens", "cached", "unknown")
_HIDDEN = {"model_calls", "usd"}
# Columns that are left out when all their values are these.
_IDLE = {"cached": 0, "unknown": 0, "searches": 0, "status": "ok"}


def cost_view(frame: Any) -> View | None:
    """Return the display data of the bill or of the ledger's rows; None for a part of them, to which the sums do not apply.

    Of calls the last are shown, of sums the first. The session's total is measured against its budget.
    """
    summary = frame.summary
    if summary is None or summary.rows != len(frame) or "usd" not in frame.columns:
        return None
    calls = "time" in frame.columns
    shown = frame.tail(_COST_ROWS) if calls else frame.head(_COST_ROWS)
    known = _CALL if calls else (*(name for name in frame.columns if name not in (*_SUMS, *_HIDDEN)), "usd", *_SUMS)
    names = [name for name in known if name in frame.columns and not (name in _IDLE and (frame[name] == _IDLE[name]).all())]
    written = {"usd": usd, "input_tokens": "{:,}".format, "output_tokens": "{:,}".format}
    columns = {name: list(map(written.get(name, partial(cell, width=96)), shown[name])) for name in names}
    largest = frame["usd"].max()
    budget_usd = (settings_in_force() or WebSearch()).session_budget_usd if summary.scope == "this session" else None
    share = math.fsum(frame["usd"].dropna()) / budget_usd if budget_usd else 0.0
    cached = int(frame["cached"].fillna(0).sum()) if "cached" in names else 0
    return {
        "names": ["cost" if name == "usd" else one_line(name).replace("_", " ") for name in names],
        "numeric": [frame[name].dtype.kind in "iuf" for name in names],
        "rows": list(zip(*columns.values(), strict=True)),
        "shares": [round(100 * value / largest, 1) if value and largest > 0 else 0 for value in shown["usd"]],
        "more": _more(len(frame) - len(shown), "earlier row" if calls else "more row"),
        "footer": words("tables", "bill", summary, cached).partition(" · ")[::2],
        "meter": min(round(100 * share, 1), 100),
        "budget": f"{share:.0%} of the session's budget of {usd(budget_usd)}" if budget_usd else "",
    }


_INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
_LOOK: dict[str, Any] = {
    # legible on light and dark pages: a contrast of 4.5 with white, of 4.2 with JupyterLab's dark theme
    **dict.fromkeys(_INKED, "#777777"),
    "savefig.transparent": True,
    "axes.titlesize": 11,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "date.converter": "concise",
    "text.parse_math": False,
}
# The number of groups that are shown by name: the most expensive.
_GROUPS = 7


def cost_png(calls: Any, title: str, by: str) -> bytes:
    """Return a PNG with the cumulative cost from the first call on, by group, the most expensive at the bottom.

    `calls` are rows of `cost()`, at least one; their groups are those of the table.

    Raises:
        ConfigError: matplotlib, the extra [plot], is not installed.
    """
    try:
        from matplotlib import figure, rc_context  # without pyplot, so that no backend of the notebook's is touched
    except ImportError:
        raise ConfigError('a plot needs matplotlib: run %pip install "ipy_websearch[plot]" and try again') from None
    import pandas as pd

    is_model = calls["kind"] == "model"
    groups_by = {
        "model": calls["name"].where(is_model, "(engines)"),
        "provider": calls["name"].where(~is_model, "(models)"),
        "day": calls["time"].dt.strftime("%Y-%m-%d"),
    }
    group = groups_by[by] if by in groups_by else calls[by]
    calls = pd.DataFrame({"moment": calls["time"], "group": group, "usd": calls["usd"].fillna(0.0)})
    dearest = calls.groupby("group").usd.sum().nlargest(_GROUPS).index
    calls["group"] = calls["group"].where(calls["group"].isin(dearest), "others")
    curve = calls.pivot_table(index="moment", columns="group", values="usd", aggfunc="sum", fill_value=0).cumsum()
    first, last = curve.index[[0, -1]]
    curve.loc[last + max((last - first) / 30, pd.Timedelta(minutes=1))] = curve.loc[last]  # the last step has width, too
    groups = curve.loc[last].sort_values(ascending=False).index
    curve = curve.iloc[:: -(len(curve) // 500 + 1)].iloc[::-1]  # more points are too close to distinguish
    picture, labels = BytesIO(), [shorten(one_line(group), 40) for group in groups]
    with rc_context(_LOOK):
        drawing = figure.Figure(figsize=(9, 3.2), dpi=110, layout="constrained")
        axes = drawing.subplots()
        axes.stackplot(curve.index, curve[groups].T, labels=labels, step="post", alpha=0.75)
        axes.set(xlim=curve.index[[0, -1]], ylim=(0, None), ylabel="USD", title=f"{title} · by {by} (UTC)")
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, reverse=True)
        drawing.savefig(picture, format="png")
    return picture.getvalue()
