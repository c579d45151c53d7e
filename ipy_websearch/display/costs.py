"""A cost table: calls or sums with their money in sight, and a footer with the total, what is not known, what caches saved.

A `CostFrame` is a DataFrame with a column `usd` (NaN: unknown price), `cached` (a flag or a count) and, for sums, `unknown`
(rows without a price). Its `summary` has the exact sums; a part of a frame (some rows of it) gets those of its own columns,
and `attrs` may hold `saved_usd`, what the cached calls would have cost. Without `usd`: no footer.
"""

from __future__ import annotations

import math
from html import escape
from typing import Any

from ipy_websearch.display import money
from ipy_websearch.display.style import LEFT, framed
from ipy_websearch.display.words import one_line
from ipy_websearch.text import shorten, visible

MAX_NAMES = 5

_DETAILS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "server_searches", "units", "unit")
_NUMBER = ' class="ipyws-num"'
_TIME = ' class="ipyws-name"'
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
    """Return the table with its money in sight and the footer under it, None when there is no footer."""
    footer = cost_footer(frame)
    if not footer:
        return None
    calls = "time" in frame.columns  # of calls the latest are shown, of sums the first
    shown = _in_sight(frame)
    names = [name for name in shown.columns if name != "usd" and not _is_idle(shown[name])] + ["usd"]
    marks = [_mark(name, shown[name]) for name in names]
    head = "".join(f"<th{mark}>{escape(name.replace('_', ' '))}</th>" for name, mark in zip(names, marks, strict=True))
    body = ""
    for values in (shown.tail(_ROWS) if calls else shown.head(_ROWS))[names].itertuples(index=False):
        cells = (f"<td{mark}>{escape(_cell(n, v))}</td>" for n, mark, v in zip(names, marks, values, strict=True))
        body += f"<tr>{''.join(cells)}</tr>"
    left = len(shown) - _ROWS
    rest = f"<div><small>… {money.count(left, 'earlier row' if calls else 'more row')}</small></div>" if left > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if len(shown) else ""
    return framed(*((rest, table) if calls else (table, rest)), f"<div><small>{escape(footer)}</small></div>")


def _mark(name: str, column: Any) -> str:
    """Return the attributes of a column's cells: numbers to the right, moments on one line."""
    if name == "time":
        return _TIME
    return _NUMBER if name == "usd" or column.dtype.kind in "iuf" else LEFT


def _is_idle(column: Any) -> bool:
    """Say whether a column tells nothing: no call was cached, all went well, no price is unknown."""
    return bool(column.name in ("cached", "unknown") and not column.any()) or bool(
        column.name == "status" and (column == "ok").all()
    )


def _cell(name: str, value: Any) -> str:
    """Return a cell as words: money as money, moments to the second, numbers with commas, no for False."""
    if name == "usd":
        return money.usd(value)
    if name == "time":
        return f"{value:%Y-%m-%d %H:%M:%S}"
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return "yes" if value else ""
    if isinstance(value, float) or hasattr(value, "dtype"):
        return "" if value != value else f"{value:,.10g}"
    return f"{value:,}" if isinstance(value, int) else shorten(one_line(str(value)), _QUESTION * 2)


def cost_text(frame: Any) -> str | None:
    """Return the same as plain text, None likewise."""
    footer = cost_footer(frame)
    return f"{_table_text(frame)}\n{footer}" if footer else None


def _table_text(frame: Any) -> str:
    """Return the table with its money in sight: in a terminal, pandas leaves the middle columns out, `usd` first of all."""
    if not len(frame):
        return "no calls"
    shown = _in_sight(frame)
    if "question" in shown.columns:
        shown = shown.assign(question=[shorten(visible(text), _QUESTION) for text in shown["question"]])
    formatters = {"time": lambda moment: f"{moment:%Y-%m-%d %H:%M:%S}"} if "time" in shown.columns else {}
    return str(shown.to_string(max_rows=_ROWS, formatters=formatters))


def _in_sight(frame: Any) -> Any:
    """Return the frame without the details of single calls, for which there is no room beside the money."""
    return frame.drop(columns=[name for name in _DETAILS if "time" in frame.columns and name in frame.columns])
