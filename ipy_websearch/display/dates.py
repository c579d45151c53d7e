"""Dates for people: "3 days ago", and the ISO date wherever there is room for one or nothing to hover over."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from html import escape

_DAY = 86_400
_UNITS = ((60 * _DAY, 30.44 * _DAY, "month"), (14 * _DAY, 7 * _DAY, "week"), (_DAY, _DAY, "day"), (3600, 3600, "hour"))
"""From how many seconds on a unit is used, its length, and its name."""


def iso(date: datetime | None) -> str:
    """Return the UTC date as "2026-11-17", "" for None."""
    return "" if date is None else _utc(date).date().isoformat()


def ago(date: datetime | None, now: datetime | None = None) -> str:
    """Return how long ago `date` was: "3 hours ago", "yesterday", "5 months ago"; older than a year is the ISO date.

    A date without a time of day is counted in days. What lies more than a day ahead is the ISO date too: engines get
    dates wrong, and "in 3 years" would hide it. None gives "".
    """
    if date is None:
        return ""
    date, now = _utc(date), _utc(now or datetime.now(UTC))
    days = (now.date() - date.date()).days
    if date > now + timedelta(days=1) or now - date > timedelta(days=365):
        return iso(date)
    if days <= 0 and _is_day(date):
        return "today"
    if _is_day(date) or now - date >= timedelta(days=1):
        return "yesterday" if days <= 1 else _since(days * _DAY)
    return _since(max((now - date).total_seconds(), 0))


def ago_html(date: datetime | None, now: datetime | None = None) -> str:
    """Return `ago` with the exact date shown on hover, as HTML; "" for None."""
    if date is None:
        return ""
    exact = iso(date) if _is_day(_utc(date)) else f"{_utc(date):%Y-%m-%d %H:%M} UTC"
    return f'<span title="{escape(exact)}">{escape(ago(date, now))}</span>'


def _since(elapsed: float) -> str:
    for threshold, size, name in (*_UNITS, (60, 60, "minute")):
        if elapsed >= threshold:
            number = int(elapsed // size)
            return f"{number} {name}{'' if number == 1 else 's'} ago"
    return "just now"


def _is_day(date: datetime) -> bool:
    return (date.hour, date.minute, date.second) == (0, 0, 0)


def _utc(date: datetime) -> datetime:
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
