"""The footer of a cost table: the total, what is not known, what caches saved. The table itself is pandas' own.

A `CostFrame` is a DataFrame with a column `usd` (NaN: unknown price), `cached` (a flag or a count) and, for sums, `unknown`
(rows without a price). Its `summary` has the exact sums; a part of a frame (some rows of it) gets those of its own columns,
and `attrs` may hold `saved_usd`, what the cached calls would have cost. Without `usd`: no footer.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from ipy_websearch.display import money
from ipy_websearch.display.style import framed
from ipy_websearch.text import shorten, visible

MAX_NAMES = 5

_DETAILS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "server_searches", "units", "unit")
_QUESTION = 32
_ROWS = 60


def cost_footer(frame: Any) -> str:
    """Return "total 0.0123 USD · 2 calls of unknown price · 3 cached calls (saved 0.015 USD)", "" when there is no `usd`."""
    if "usd" not in frame.columns:
        return ""
    summary = getattr(frame, "summary", None)
    if summary is not None and summary.rows != len(frame):
        summary = None
    cached = int(frame["cached"].fillna(0).sum()) if "cached" in frame.columns else 0
    parts = _of_columns(frame, cached) if summary is None else _of_summary(summary, cached)
    return " · ".join(parts)


def _of_summary(summary: Any, cached: int) -> list[str]:
    parts = [f"total {money.usd(summary.total_usd)}", summary.scope]
    if summary.unpriced:
        names = [visible(name) for name in summary.unpriced]
        listed = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else "")
        parts.append(f"{money.count(sum(summary.unpriced.values()), 'call')} of unknown price ({listed})")
    if cached or summary.saved_calls_usd:
        saved = f" (saved {money.usd(summary.saved_calls_usd)})" if summary.saved_calls_usd else ""
        parts.append(f"{money.count(cached, 'cached call')}{saved}" if cached else f"cached calls{saved}")
    if summary.saved_prompt_usd:
        parts.append(f"prompt caching saved {money.usd(summary.saved_prompt_usd)}")
    return parts


def _of_columns(frame: Any, cached: int) -> list[str]:
    amounts = [float(value) for value in frame["usd"]]
    unknown = int(frame["unknown"].sum()) if "unknown" in frame.columns else sum(map(math.isnan, amounts))
    parts = [f"total {money.usd(math.fsum(a for a in amounts if not math.isnan(a)))}"]
    if unknown:
        parts.append(f"{money.count(unknown, 'call')} of unknown price")
    saved = frame.attrs.get("saved_usd")
    if cached or saved:
        amount = f" (saved {money.usd(saved)})" if saved else ""
        parts.append(f"{money.count(cached, 'cached call')}{amount}" if cached else f"caches saved {money.usd(saved)}")
    return parts


def cost_html(frame: Any) -> str | None:
    """Return pandas' table with the footer under it, None when there is no footer."""
    footer = cost_footer(frame)
    return f"{frame._repr_html_()}{framed(f'<div><small>{escape(footer)}</small></div>')}" if footer else None


def cost_text(frame: Any) -> str | None:
    """Return the same as plain text, None likewise."""
    footer = cost_footer(frame)
    return f"{_table_text(frame)}\n{footer}" if footer else None


def _table_text(frame: Any) -> str:
    """Return the table with its money in sight: in a terminal, pandas leaves the middle columns out, `usd` first of all."""
    if not len(frame):
        return repr(frame)
    shown = frame.drop(columns=[name for name in _DETAILS if "time" in frame.columns and name in frame.columns])
    if "question" in shown.columns:
        shown = shown.assign(question=[shorten(visible(text), _QUESTION) for text in shown["question"]])
    formatters = {"time": lambda moment: f"{moment:%Y-%m-%d %H:%M:%S}"} if "time" in shown.columns else {}
    return str(shown.to_string(max_rows=_ROWS, formatters=formatters))
