"""The footer of a cost table: the total, what is not known, what the cache saved. The table itself is pandas' own.

A `CostFrame` is a DataFrame with a column `usd` (NaN: unknown price), `cached` (a flag or a count) and, for sums, `unknown`
(rows without a price); `attrs` may hold `saved_usd`, what the cached calls would have cost. Without `usd`: no footer.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from ipy_websearch.display import money
from ipy_websearch.display.style import framed


def cost_footer(frame: Any) -> str:
    """Return "total 0.0123 USD · 2 calls of unknown price · 3 cached calls (saved 0.015 USD)", "" when there is no `usd`."""
    if "usd" not in frame.columns:
        return ""
    amounts = [float(value) for value in frame["usd"]]
    unknown = int(frame["unknown"].sum()) if "unknown" in frame.columns else sum(map(math.isnan, amounts))
    parts = [f"total {money.usd(math.fsum(a for a in amounts if not math.isnan(a)))}"]
    if unknown:
        parts.append(f"{money.count(unknown, 'call')} of unknown price")
    cached = int(frame["cached"].fillna(0).sum()) if "cached" in frame.columns else 0
    saved = frame.attrs.get("saved_usd")
    if cached or saved:
        amount = f" (saved {money.usd(saved)})" if saved else ""
        parts.append(f"{money.count(cached, 'cached call')}{amount}" if cached else f"caches saved {money.usd(saved)}")
    return " · ".join(parts)


def cost_html(frame: Any) -> str | None:
    """Return pandas' table with the footer under it, None when there is no footer."""
    footer = cost_footer(frame)
    return f"{frame._repr_html_()}{framed(f'<div><small>{escape(footer)}</small></div>')}" if footer else None


def cost_text(frame: Any) -> str | None:
    """Return the same as plain text, None likewise."""
    footer = cost_footer(frame)
    return f"{frame!r}\n{footer}" if footer else None
