"""From an engine's JSON to our fields: text, addresses, numbers and dates. Pure; nothing here raises on odd input.

Whatever an engine sends may be missing, null, of the wrong type or hostile: what cannot be read becomes "", None or (),
never a guess. Text is made plain, dates become aware UTC, relative dates ("3 days ago") are not dates.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from ipy_websearch.results import SearchResult
from ipy_websearch.text import plain, shorten, visible

DESCRIPTION_WIDTH = 2_000
"""Characters of a description or snippet; longer ones are cut at a word. The whole text stays in `raw`."""

MAX_SNIPPETS = 5

_RFC_DATE = re.compile(r"[A-Za-z]{3}, \d{1,2} [A-Za-z]{3} \d{4} \d{2}:\d{2}(:\d{2})?( .{1,5})?")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?")
_LEADING_DATE = re.compile(r"([A-Z][a-z]{2}) (\d{1,2}), (\d{4})\b")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_UNSAFE_IN_URL = re.compile(r"[\s<>\"\\^`{|}\x00-\x20\x7f-\x9f]")
_PLAIN_URL = re.compile(r"https?://[a-z0-9][a-z0-9.-]*(?:[/?#][!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]*)?")  # needs no mending
_DAYS = {"pd": 1, "pw": 7, "pm": 31, "py": 365}


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSON array; anything else in it is passed over."""
    return (item for item in items(value) if isinstance(item, dict))


def text(value: Any, width: int = DESCRIPTION_WIDTH) -> str:
    """Return one line of plain text, cut at a word to `width` characters; "" for anything but a string."""
    words = plain(value)
    return words if len(words) <= width else shorten(words, width)


def snippets(values: Any, *, without: str = "", most: int = MAX_SNIPPETS) -> tuple[str, ...]:
    """Return up to `most` different plain texts of a JSON array, none of them empty or equal to `without`."""
    found = dict.fromkeys(text(value) for value in items(values))
    return tuple(snippet for snippet in found if snippet and snippet != without)[:most]


def number(value: Any) -> float | None:
    """Return a finite number, None for anything else (also for True and False)."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def address(value: Any) -> str:
    """Return an http or https address with a host, blanks and brackets escaped; "" for anything else."""
    if not isinstance(value, str):
        return ""
    if _PLAIN_URL.fullmatch(value):
        return value
    url = _UNSAFE_IN_URL.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), visible(value.strip()))
    try:
        parts = urlsplit(url)
        return url if parts.scheme.lower() in ("http", "https") and parts.hostname else ""
    except ValueError:
        return ""


def iso_date(value: Any) -> datetime | None:
    """Return an ISO 8601 date or time as aware UTC (without a zone it is taken as UTC), None for anything else."""
    if not isinstance(value, str) or not _ISO_DATE.fullmatch(value.strip()):
        return None
    try:
        return _utc(datetime.fromisoformat(value.strip()))
    except ValueError:
        return None


def rfc_date(value: Any) -> datetime | None:
    """Return an RFC 1123 date ("Tue, 11 Mar 2025 10:00:00 GMT") as aware UTC, None for anything else."""
    if not isinstance(value, str) or not _RFC_DATE.fullmatch(value.strip()):
        return None
    try:
        return _utc(parsedate_to_datetime(value.strip()))
    except (ValueError, TypeError, IndexError):
        return None


def leading_date(value: Any) -> datetime | None:
    """Return the day at the beginning of a text such as "Jun 24, 2024 ... ", None when it does not begin with one."""
    found = _LEADING_DATE.match(value) if isinstance(value, str) else None
    if found is None or found[1] not in _MONTHS:
        return None
    try:
        return _utc(datetime(int(found[3]), _MONTHS.index(found[1]) + 1, int(found[2])))
    except ValueError:
        return None


def _utc(when: datetime) -> datetime | None:
    """Return aware UTC; None for years that no web page was published in (null dates such as 0001-01-01)."""
    if not 1700 <= when.year <= 2200:
        return None
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)


def first_date(*dates: datetime | None) -> datetime | None:
    """Return the first date that there is."""
    return next((when for when in dates if when is not None), None)


def hit(
    title: Any,
    url: Any,
    description: Any = "",
    published_date: datetime | None = None,
    extra_snippets: Any = (),
    score: Any = None,
) -> SearchResult | None:
    """Return one result from an engine's fields, None when its address is not one."""
    where = address(url)
    if not where:
        return None
    words = text(description)
    more = snippets(list(extra_snippets) if isinstance(extra_snippets, tuple | list) else [], without=words)
    return SearchResult(text(title, 500), where, words, published_date, more, number(score))


def hits(found: Iterable[SearchResult | None]) -> list[SearchResult]:
    """Return those that are results."""
    return [result for result in found if result is not None]


def clip_query(query: str, max_chars: int, max_words: int | None = None) -> str:
    """Return the query cut at a word to what an engine takes; a single longer word is cut inside."""
    words = query.split()
    if len(query) <= max_chars and (max_words is None or len(words) <= max_words):
        return query
    clipped = " ".join(words[:max_words])
    if len(clipped) > max_chars:
        cut = clipped[: max_chars + 1].rfind(" ")
        clipped = clipped[:cut] if cut > 0 else clipped[:max_chars]
    return clipped


def date_range(freshness: str | None, today: date | None = None) -> tuple[date, date] | None:
    """Return first and last day of a `SearchRequest.freshness`, None without one or with days that do not exist."""
    if not freshness:
        return None
    if freshness in _DAYS:
        end = today or datetime.now(UTC).date()
        return end - timedelta(days=_DAYS[freshness]), end
    start_text, _, end_text = freshness.partition("to")
    try:
        return date.fromisoformat(start_text), date.fromisoformat(end_text)
    except ValueError:
        return None


def host_of(url: str) -> str:
    """Return an address's host as names are compared: lower case, international names in ASCII; "" when there is none."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except ValueError:
        return ""


def host_matches(url: str, domains: Iterable[str]) -> bool:
    """Say whether the address is on one of the domains (as `host_of` gives them) or a subdomain of one."""
    host = host_of(url)
    return any(host == domain or host.endswith("." + domain) for domain in domains)
