"""What `%cost` shows: the bill by question with a bar a row, the ledger's rows, the total with the budget, and the picture.

A `CostFrame` is a DataFrame with a column `usd` (NaN: unknown price). Its `summary` has the exact sums. What is made from it
(some of its rows or columns) is an ordinary table, which pandas shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from io import BytesIO
from typing import Any

from ipy_websearch.display.render import View
from ipy_websearch.display.text import cell, one_line
from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import WebSearch, settings_in_force
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


def cost_view(frame: Any) -> View | None:
    """Return what is shown of the bill, or of the ledger's rows; None for a part of them.

    Of calls the last are shown, of sums the first. The session's total is measured against its budget.
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
    budget_usd = (settings_in_force() or WebSearch()).session_budget_usd if summary.scope == "this session" else None
    share = math.fsum(frame["usd"].dropna()) / budget_usd if budget_usd else 0.0
    return {
        "names": ["cost" if name == "usd" else one_line(name).replace("_", " ") for name in names],
        "numeric": [frame[name].dtype.kind in "iuf" for name in names],
        "rows": list(zip(*columns.values(), strict=True)),
        "shares": [round(100 * value / largest, 1) if value and largest > 0 else 0 for value in shown["usd"]],
        "more": f"… {plural(left, 'earlier row' if calls else 'more row')}" if left else "",
        "footer": cost_footer(frame).partition(" · ")[::2],
        "meter": min(round(100 * share, 1), 100),
        "budget": f"{share:.0%} of the session's budget of {usd(budget_usd)}" if budget_usd else "",
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
    "text.parse_math": False,
}
# The groups that are shown by name, the dearest.
_GROUPS = 7


def cost_png(steps: Sequence[Step], title: str, by: str) -> bytes:
    """Return a PNG with the cumulative cost from the first call on, by group, the dearest below. `steps` is not empty.

    Raises:
        ConfigError: matplotlib, the extra [plot], is not installed.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure  # without pyplot, so that no backend of the notebook's is touched
    except ImportError:
        raise ConfigError('a plot needs matplotlib: run %pip install "ipy_websearch[plot]" and try again') from None
    import pandas as pd

    calls = pd.DataFrame(steps, columns=["moment", "group", "usd"]).astype({"usd": float})
    dearest = calls.groupby("group").usd.sum().nlargest(_GROUPS).index
    calls["group"] = calls["group"].where(calls["group"].isin(dearest), "others")
    curve = calls.pivot_table(index="moment", columns="group", values="usd", aggfunc="sum", fill_value=0).cumsum()
    first, last = curve.index[[0, -1]]
    curve.loc[last + max((last - first) / 30, pd.Timedelta(minutes=1))] = curve.loc[last]  # the last step has width, too
    groups = curve.loc[last].sort_values(ascending=False).index
    with matplotlib.rc_context(_LOOK):
        figure = Figure(figsize=(9, 3.2), dpi=110, layout="constrained")
        axes = figure.subplots()
        labels = [shorten(one_line(group), 40) for group in groups]
        axes.stackplot(curve.index, curve[groups].T, labels=labels, step="post", alpha=0.75)
        axes.set(xlim=curve.index[[0, -1]], ylim=(0, None), ylabel="USD", title=f"{title} · by {by} (UTC)")
        axes.grid(alpha=0.3)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, reverse=True)
        picture = BytesIO()
        figure.savefig(picture, format="png")
    return picture.getvalue()
