"""What `%cost` shows: the bill by question with a bar a row, the ledger's rows, the total with the budget, and the picture.

A `CostFrame` is a DataFrame with a column `usd` (NaN: unknown price). Its `summary` has the exact sums; a part of a frame (some
of its rows) gets the sum of its own column. Without `usd` it is an ordinary table, which pandas shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from io import BytesIO
from itertools import accumulate
from typing import Any

from ipy_websearch.display.html import render
from ipy_websearch.display.text import PLAIN, Terminal, count, grid, one_line
from ipy_websearch.errors import ConfigError
from ipy_websearch.text import shorten, usd

MAX_NAMES = 5
_ROWS = 60
_QUESTION = 48
_CALL = ("time", "question", "kind", "name", "status", "cached")
_SUMS = ("calls", "searches", "input_tokens", "output_tokens", "cached", "unknown")
_COUNTS = {"status", *(name.replace("_", " ") for name in _SUMS)}

Step = tuple[datetime, str, Decimal]
"""A moment, the group of the call (its kind, its model, …), and the US dollars that it added."""


def cost_html(frame: Any, budget_usd: float | None = None) -> str | None:
    """Return the bill as HTML; `budget_usd` is the session's budget, which its total is measured against."""
    if "usd" not in frame.columns:
        return None
    heads, rows, more = _shown(frame)
    words = next((i for i, (name, _) in enumerate(heads) if name in _COUNTS), len(heads))  # the money follows the words
    spent, summary = _total(frame), getattr(frame, "summary", None)
    meter = None
    if budget_usd and summary is not None and summary.scope == "this session":
        text = f"{spent / budget_usd:.0%} of the session's budget of {usd(budget_usd)}"
        meter = {"share": min(round(100 * spent / budget_usd, 1), 100), "text": text}
    footer = cost_footer(frame).partition(" · ")
    return render("cost", heads=heads, words=words, rows=rows, more=more, footer=footer, meter=meter)


def cost_text(frame: Any, terminal: Terminal = PLAIN) -> str | None:
    """Return the same as plain text, None likewise."""
    if "usd" not in frame.columns:
        return None
    heads, rows, more = _shown(frame)
    lines = [[name for name, _ in heads] + ["cost"], *([*row["cells"], row["usd"]] for row in rows)]
    table = grid(lines, [*(is_number for _, is_number in heads), True], terminal.width) if rows else ["no calls"]
    return "\n".join((*([more] if more else []), *table, terminal.bold(terminal.wrap(cost_footer(frame)))))


def _shown(frame: Any) -> tuple[list[tuple[str, bool]], list[dict[str, Any]], str]:
    """Return (name, is it a number) of each column, the rows, and what is left out: of calls the first, of sums the last."""
    calls = "time" in frame.columns
    shown = frame.tail(_ROWS) if calls else frame.head(_ROWS)
    names = [name for name in _names(frame) if not _is_idle(frame[name])]
    largest = max((value for value in frame["usd"] if value == value), default=0.0)
    rows = [
        {
            "cells": [_cell(name, shown[name].iloc[i]) for name in names],
            "usd": usd(amount),
            "share": round(100 * amount / largest, 1) if amount == amount and largest > 0 else 0,
        }
        for i, amount in enumerate(shown["usd"])
    ]
    left = len(frame) - len(shown)
    more = f"… {count(left, 'earlier row' if calls else 'more row')}" if left else ""
    return [(one_line(name).replace("_", " "), frame[name].dtype.kind in "iuf") for name in names], rows, more


def cost_footer(frame: Any) -> str:
    """Return "total 0.0123 USD · this session · 2 calls of unknown price (x) · 3 cached calls (saved 0.015 USD)"."""
    summary = getattr(frame, "summary", None)
    cached = int(frame["cached"].fillna(0).sum()) if "cached" in frame.columns else 0
    if summary is None or summary.rows != len(frame):
        unknown = int(frame["unknown"].sum()) if "unknown" in frame.columns else sum(map(math.isnan, frame["usd"]))
        words = [f"{count(unknown, 'call')} of unknown price"] if unknown else []
        words += [count(cached, "cached call")] if cached else []
        return " · ".join([f"total {usd(_total(frame))}", *words])
    parts = [f"total {usd(summary.total_usd)}", summary.scope]
    if summary.unpriced:
        names = [one_line(name) for name in summary.unpriced]
        listed = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
        parts.append(f"{count(sum(summary.unpriced.values()), 'call')} of unknown price ({listed})")
    saved = f" (saved {usd(summary.saved_calls_usd)})" if summary.saved_calls_usd else ""
    parts += [f"{count(cached, 'cached call') if cached else 'cached calls'}{saved}"] if cached or saved else []
    parts += [f"prompt caching saved {usd(summary.saved_prompt_usd)}"] if summary.saved_prompt_usd else []
    return " · ".join(parts)


def _total(frame: Any) -> float:
    return math.fsum(value for value in map(float, frame["usd"]) if value == value)


def _names(frame: Any) -> list[str]:
    """Return the columns for which there is room beside the money."""
    if "time" in frame.columns:
        return [name for name in _CALL if name in frame.columns]
    known = {*_SUMS, "model_calls", "usd"}
    return [name for name in frame.columns if name not in known] + [name for name in _SUMS if name in frame.columns]


def _is_idle(column: Any) -> bool:
    """Say whether a column tells nothing: no call was cached, all went well, no price is unknown."""
    idle = column.name in ("cached", "unknown", "searches") and not column.any()
    return bool(idle) or bool(column.name == "status" and (column == "ok").all())


def _cell(name: str, value: Any) -> str:
    if isinstance(value, datetime):
        return "" if value != value else f"{value:%Y-%m-%d}" if name == "day" else f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else ""
    if hasattr(value, "dtype") or isinstance(value, int | float):
        return "" if value != value else f"{value:,.10g}" if isinstance(value, float) else f"{value:,}"
    return shorten(one_line(value), _QUESTION * 2)


# --- the picture --------------------------------------------------------------------------------------------------

_INK, _PAPER = "#555555", "#fafafa"
"""The picture brings its own background: no ink has a contrast of 4.5 with both a white page and a black one."""


def cost_words(steps: Sequence[Step], by: str) -> str:
    """Return in words what the picture shows, for those who do not see it."""
    groups = _by_group(steps)
    split = ", ".join(f"{shorten(one_line(group), 40)} {usd(amount)}" for group, amount in groups)
    first, last = steps[0][0], steps[-1][0]
    total = usd(sum((amount for _, amount in groups), Decimal(0)))
    return f"Costs by {by} from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC: {total} ({split})"


def cost_png(steps: Sequence[Step], title: str, by: str) -> bytes:
    """Return a PNG with the cumulative cost from the first call on, and its split by group. `steps` is not empty.

    Raises:
        ConfigError: matplotlib, the extra [plot], is not installed.
    """
    try:  # without pyplot, so that no backend of the notebook's is touched
        figure = import_module("matplotlib.figure").Figure(figsize=(9, 3.2), dpi=110, layout="constrained", facecolor=_PAPER)
    except ImportError:
        raise ConfigError('a plot needs matplotlib: run %pip install "ipy_websearch[plot]" and try again') from None
    curve, split = figure.subplots(1, 2, width_ratios=(2, 1))
    moments = [moment.astimezone(UTC) for moment, _, _ in steps]
    sums = [float(total) for total in accumulate(amount for _, _, amount in steps)]
    end = moments[-1] + max((moments[-1] - moments[0]) / 30, timedelta(minutes=1))  # the last step has width, too
    curve.step([moments[0], *moments, end], [0.0, *sums, sums[-1]], where="post", color="#3b82c4")
    curve.fill_between([*moments, end], [*sums, sums[-1]], step="post", color="#3b82c4", alpha=0.2)
    curve.set(xlim=(moments[0], end), ylabel="USD")
    curve.set_ylim(bottom=0)
    curve.set_title("cumulative (UTC)", fontsize=10, color=_INK)
    curve.grid(alpha=0.3)
    dates = import_module("matplotlib.dates")
    locator = dates.AutoDateLocator(tz=UTC, minticks=3, maxticks=8)
    curve.xaxis.set_major_locator(locator)
    curve.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC))
    groups = list(reversed(_by_group(steps)[:8]))
    labels = [shorten(one_line(group), 24).replace("$", r"\$") for group, _ in groups]
    bars = split.barh(range(len(groups)), [float(amount) for _, amount in groups], color="#c2703d", tick_label=labels)
    split.bar_label(bars, [usd(amount) for _, amount in groups], padding=3, fontsize=8, color=_INK)
    split.margins(x=0.45)
    split.set_title(f"by {by}", fontsize=10, color=_INK)
    split.xaxis.set_visible(False)
    split.spines[["top", "right", "bottom"]].set_visible(False)
    for axes in (curve, split):
        axes.set_facecolor(_PAPER)
        axes.tick_params(colors=_INK, labelcolor=_INK)
        axes.yaxis.label.set_color(_INK)
        axes.spines[:].set_color(_INK)
        axes.xaxis.get_offset_text().set_color(_INK)
    figure.suptitle(title, fontsize=11, color=_INK)
    picture = BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _by_group(steps: Sequence[Step]) -> list[tuple[str, Decimal]]:
    """Return the US dollars of each group, the dearest first."""
    sums: dict[str, Decimal] = {}
    for _, group, amount in steps:
        sums[group] = sums.get(group, Decimal(0)) + amount
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))
