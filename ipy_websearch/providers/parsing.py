"""From an engine's JSON to our fields: text, addresses, numbers and dates. Pure; nothing here raises on odd input.

Whatever an engine sends may be missing, null, of the wrong type or hostile: what cannot be read becomes "", None or (), never
a guess. Text is made plain (no tags, entities decoded), dates become aware UTC, relative dates ("3 days ago") are not dates.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from ipy_websearch.results import SearchResult
from ipy_websearch.text import plain, shorten, visible

DESCRIPTION_WIDTH = 2_000
"""Characters of a description or snippet; longer ones are cut at a word. The whole text stays in `raw`."""

MAX_SNIPPETS = 5

MAX_AMOUNT = 100_000
"""The most credits or dollars that an answer is believed to have cost."""

PERIODS = {"pd": "day", "pw": "week", "pm": "month", "py": "year"}
"""The periods of `SearchRequest.freshness` in the words that several engines take."""

_RFC_DATE = re.compile(r"[A-Za-z]{3}, \d{1,2} [A-Za-z]{3} \d{4} \d{2}:\d{2}(:\d{2})?( .{1,5})?")
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?")
_LEADING_DATE = re.compile(r"([A-Z][a-z]{2}) (\d{1,2}), (\d{4})\b")
_UNSAFE_IN_URL = re.compile(r"[\s<>\"\\^`{|}\x00-\x20\x7f-\x9f]")
_DAYS = {"pd": 1, "pw": 7, "pm": 31, "py": 365}
_RANGE = re.compile(r"(\d{4}-\d{2}-\d{2})to(\d{4}-\d{2}-\d{2})")


def present(**fields: Any) -> dict[str, Any]:
    """Return the parameters of a request that have a value; None, "", 0, False and empty lists are left out."""
    return {name: value for name, value in fields.items() if value}


def mapping(value: Any) -> dict[str, Any]:
    """Return the value if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def at(value: Any, *path: str) -> Any:
    """Return what stands at a path of nested JSON objects, None where there is nothing."""
    for name in path:
        value = mapping(value).get(name)
    return value


def items(value: Any) -> list[Any]:
    """Return the value if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the objects in a JSON array; anything else in it is passed over."""
    return (item for item in items(value) if isinstance(item, dict))


def text(value: Any, width: int = DESCRIPTION_WIDTH) -> str:
    """Return one line of plain text, cut at a word to `width` characters; "" for anything but a string."""
    return shorten(plain(value), width)


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


def amount(value: Any) -> Decimal | None:
    """Return what an answer says it cost, in credits or dollars; None when it does not say, or nothing believable."""
    found = number(value)
    return None if found is None or not 0 <= found <= MAX_AMOUNT else Decimal(str(found)).normalize() + 0


def address(value: Any) -> str:
    """Return an http or https address with a host, blanks and brackets escaped; "" for anything else."""
    if not isinstance(value, str):
        return ""
    url = _UNSAFE_IN_URL.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), visible(value.strip()))
    try:
        parts = urlsplit(url)
        port = parts.port or 0  # raises for one that is no number
        return url if parts.scheme in ("http", "https") and parts.hostname and port >= 0 else ""
    except ValueError:
        return ""


def moment(*values: Any) -> datetime | None:
    """Return the first of the values that is a date, as aware UTC; None when none is.

    Understood are ISO 8601 (without a zone it is UTC), RFC 1123 ("Tue, 11 Mar 2025 10:00:00 GMT"), and a text that begins with
    its day as Google's snippets do ("Jun 24, 2024 ... "). Years in which no web page was published are no dates.
    """
    for value in values:
        words = value.strip() if isinstance(value, str) else ""
        try:
            if _ISO_DATE.fullmatch(words):
                when = datetime.fromisoformat(words)
            elif _RFC_DATE.fullmatch(words):
                when = parsedate_to_datetime(words)
            elif found := _LEADING_DATE.match(words):
                when = parsedate_to_datetime(f"{found[2]} {found[1]} {found[3]} 00:00:00")
            else:
                continue
            if 1700 <= when.year <= 2200:
                return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
        except (ValueError, TypeError):
            continue
    return None


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


def clip_query(query: str, max_chars: int, max_words: int | None = None) -> str:
    """Return the query cut at a word to the length that an engine takes; a single longer word is cut inside."""
    if len(query) <= max_chars and (max_words is None or len(query.split()) <= max_words):
        return query
    return textwrap.shorten(" ".join(query.split()[:max_words]), max_chars, placeholder="") or query.split()[0][:max_chars]


def date_range(freshness: str | None, today: date | None = None) -> tuple[date, date] | None:
    """Return first and last day of a `SearchRequest.freshness`, None without one or with days that do not exist."""
    if freshness in _DAYS:
        end = today or datetime.now(UTC).date()
        return end - timedelta(days=_DAYS[freshness]), end
    found = _RANGE.fullmatch(freshness or "")
    try:
        return (date.fromisoformat(found[1]), date.fromisoformat(found[2])) if found else None
    except ValueError:
        return None


def period_or_days(freshness: str | None, periods: Mapping[str, str] = PERIODS) -> tuple[str | None, tuple[date, date] | None]:
    """Return an engine's own word for the period of a `SearchRequest.freshness`, or its days where there is no word."""
    period = periods.get(freshness or "")
    return period, None if period else date_range(freshness)


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


_COUNTRIES = """
ar argentina, at austria, au australia, be belgium, bg bulgaria, br brazil, ca canada, ch switzerland, cl chile, cn china,
co colombia, cr costa rica, cz czech republic, de germany, dk denmark, dz algeria, ec ecuador, ee estonia, eg egypt, es spain,
fi finland, fr france, gb united kingdom, gr greece, hr croatia, hu hungary, id indonesia, ie ireland, il israel, in india,
ir iran, is iceland, it italy, jp japan, ke kenya, kr south korea, lt lithuania, lu luxembourg, lv latvia, ma morocco,
mx mexico, my malaysia, ng nigeria, nl netherlands, no norway, nz new zealand, pe peru, ph philippines, pk pakistan,
pl poland, pt portugal, ro romania, rs serbia, ru russia, sa saudi arabia, se sweden, sg singapore, si slovenia, sk slovakia,
th thailand, tn tunisia, tr turkey, tw taiwan, ua ukraine, us united states, uy uruguay, ve venezuela, vn vietnam,
za south africa
"""
_COUNTRY_NAMES = dict(entry.strip().split(" ", 1) for entry in _COUNTRIES.split(","))


def country_name(code: str) -> str:
    """Return the small-letter English name of a country code, "" for one that is not in the list."""
    return _COUNTRY_NAMES.get(code.lower(), "")
