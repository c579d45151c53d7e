"""What `%cost` shows: the bill by question with a bar a row, the ledger's rows, the total with the budget, and the picture.

A `CostFrame` is a DataFrame with a column `usd` (NaN: unknown price). Its `summary` has the exact sums. What is made from it
(some of its rows or columns) is an ordinary table, which pandas shows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from io import BytesIO
from itertools import accumulate, starmap
from typing import Any

from ipy_websearch.display.render import View
from ipy_websearch.display.text import cell, one_line
from ipy_websearch.errors import ConfigError
from ipy_websearch.text import plural, shorten, usd

_ROWS = 60
_CELL = 96
_CALL = ("time", "question", "kind", "name", "usd", "status", "cached")
_SUMS = ("calls", "searches", "input_tokens", "output_tokens", "cached", "unknown")
_HIDDEN = {"model_calls", "usd"}
# Columns that tell nothing when all their values are these.
_IDLE = {"cached": 0, "unknown": 0, "searches": 0, "status": "ok"}

# A moment, the group of the call (its kind, its model, …), and the US dollars that it added.
Step = tuple[datetime, str, Decimal]


def cost_view(frame: Any, budget_usd: float | None = None) -> View | None:
    """Return what is shown of the bill, or of the ledger's rows; None for a part of them.

    Of calls the last are shown, of sums the first. `budget_usd` is the session's budget, which its total is measured against.
    """
    summary = frame.summary
    if summary is None or summary.rows != len(frame) or "usd" not in frame.columns:
        return None
    calls = "time" in frame.columns
    shown = frame.tail(_ROWS) if calls else frame.head(_ROWS)
    known = _CALL if calls else (*(name for name in frame.columns if name not in (*_SUMS, *_HIDDEN)), "usd", *_SUMS)
    names = [name for name in known if name in frame.columns and not (name in _IDLE and (frame[name] == _IDLE[name]).all())]
    columns = {name: [usd(value) if name == "usd" else _cell(value) for value in shown[name]] for name in names}
    left, largest = len(frame) - len(shown), frame["usd"].max()
    measured = budget_usd if summary.scope == "this session" else None
    share = math.fsum(frame["usd"].dropna()) / measured if measured else 0.0
    return {
        "names": ["cost" if name == "usd" else one_line(name).replace("_", " ") for name in names],
        "numeric": [frame[name].dtype.kind in "iuf" for name in names],
        "rows": list(zip(*columns.values(), strict=True)),
        "shares": [round(100 * value / largest, 1) if value and largest > 0 else 0 for value in shown["usd"]],
        "more": f"… {plural(left, 'earlier row' if calls else 'more row')}" if left else "",
        "footer": cost_footer(frame).partition(" · ")[::2],
        "meter": min(round(100 * share, 1), 100),
        "budget": f"{share:.0%} of the session's budget of {usd(measured)}" if measured else "",
    }


def cost_footer(frame: Any) -> str:
    """Return "total 0.0123 USD · this session · 2 calls of unknown price (x) · 3 cached calls (saved 0.015 USD)"."""
    summary = frame.summary
    cached = int(frame["cached"].fillna(0).sum()) if "cached" in frame.columns else 0
    saved = f" (saved {usd(summary.saved_calls_usd)})" if summary.saved_calls_usd else ""
    names = shorten(", ".join(map(one_line, summary.unpriced)), 120)
    parts = (
        f"total {usd(summary.total_usd)}",
        summary.scope,
        f"{plural(sum(summary.unpriced.values()), 'call')} of unknown price ({names})" if summary.unpriced else "",
        f"{plural(cached, 'cached call') if cached else 'cached calls'}{saved}" if cached or saved else "",
        f"prompt caching saved {usd(summary.saved_prompt_usd)}" if summary.saved_prompt_usd else "",
    )
    return " · ".join(filter(None, parts))


def _cell(value: Any) -> str:
    """Return a value as text; counts have their thousands apart, and what was not cached needs no word."""
    if value is False:
        return ""
    return f"{value:,}" if type(value) is int else cell(value, _CELL)


# --- the picture --------------------------------------------------------------------------------------------------

# It reads on light and dark pages alike: a contrast of 4.5 with white, of 4.2 with JupyterLab's dark theme.
_INK = "#777777"
_INKED = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
_LOOK: dict[str, Any] = {
    **dict.fromkeys(_INKED, _INK),
    "savefig.transparent": True,
    "axes.titlesize": 11,
    "date.converter": "concise",
    "timezone": "UTC",
}
_GROUPS = 7


def cost_words(steps: Sequence[Step], title: str, by: str) -> str:
    """Return in words what the picture shows, for those who do not see it."""
    span = f"{steps[0][0]:%Y-%m-%d %H:%M} to {steps[-1][0]:%Y-%m-%d %H:%M} UTC"
    return f"Costs by {by}, {title}, {span}: {', '.join(starmap(_told, _by_group(steps)))}"


def cost_png(steps: Sequence[Step], title: str, by: str) -> bytes:
    """Return a PNG with the cumulative cost from the first call on, by group, the dearest below. `steps` is not empty.

    Raises:
        ConfigError: matplotlib, the extra [plot], is not installed.
    """
    try:
        matplotlib, figures, _ = map(import_module, ("matplotlib", "matplotlib.figure", "matplotlib.dates"))
    except ImportError:
        raise ConfigError('a plot needs matplotlib: run %pip install "ipy_websearch[plot]" and try again') from None
    kept = {group for group, _ in _by_group(steps)[:_GROUPS]}
    calls = [(moment, group if group in kept else "others", amount) for moment, group, amount in steps]
    groups, moments = _by_group(calls), [moment.astimezone(UTC) for moment, _, _ in calls]
    moments.append(moments[-1] + max((moments[-1] - moments[0]) / 30, timedelta(minutes=1)))  # the last step has width, too
    added = [[float(amount) if name == group else 0.0 for _, name, amount in calls] for group, _ in groups]
    with matplotlib.rc_context(_LOOK):  # without pyplot, so that no backend of the notebook's is touched
        figure = figures.Figure(figsize=(9, 3.2), dpi=110, layout="constrained")
        axes = figure.subplots()
        labels = [_told(*group).replace("$", r"\$") for group in groups]
        axes.stackplot(
            moments, [list(accumulate([*amounts, 0.0])) for amounts in added], labels=labels, step="post", alpha=0.75
        )
        axes.set(xlim=(moments[0], moments[-1]), ylim=(0, None), ylabel="USD")
        axes.set_title(f"{title} · by {by} (UTC)".replace("$", r"\$"))
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, reverse=True)
        picture = BytesIO()
        figure.savefig(picture, format="png")
    return picture.getvalue()


def _by_group(steps: Iterable[tuple[Any, str, Decimal]]) -> list[tuple[str, Decimal]]:
    """Return the US dollars of each group, the dearest first."""
    sums: Any = Counter()
    for _, group, amount in steps:
        sums[group] += amount
    return list(sums.most_common())


def _told(group: str, amount: Decimal) -> str:
    return f"{shorten(one_line(group), 40)} {usd(amount)}"
