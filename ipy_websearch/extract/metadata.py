"""What a page says about itself: title, date of publication, and the kinds of page it claims to be."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from ipy_websearch.text import plain

_DATE_NAMES = (
    "article:published_time", "og:article:published_time", "datepublished", "date", "dc.date", "dc.date.issued",
    "dcterms.date", "dcterms.created", "dc.date.created", "citation_publication_date", "citation_date", "pubdate",
    "publish-date", "publish_date", "publication_date", "parsely-pub-date", "sailthru.date", "article.published",
    "cxenseparse:recs:publishtime", "published_time",
)  # fmt: skip
_TITLE_NAMES = ("og:title", "twitter:title", "citation_title", "dc.title", "dcterms.title")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?\s*(?:Z|[+-]\d\d:?\d\d)?)?")
_DIGITS = re.compile(r"(\d{4})[/.](\d{1,2})[/.](\d{1,2})$|^(\d{4})(\d\d)(\d\d)$")
_MAX_JSON = 500_000


@dataclass(frozen=True, slots=True)
class Metadata:
    """A page's own claims; `kinds` are its schema.org and Open Graph types in lower case ("article", "qapage", …)."""

    title: str
    published_date: datetime | None
    kinds: frozenset[str]


def metadata(root: Any) -> Metadata:
    """Return what the page says about itself; nothing is guessed from its text."""
    metas: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = meta.get("property") or meta.get("name") or meta.get("itemprop") or meta.get("http-equiv")
        content = meta.get("content")
        if name and content and content.strip():
            metas.setdefault(name.strip().lower(), content)
    items = list(_schema_items(root))
    types = [kind for item in items for kind in _strings(item.get("@type"))]
    kinds = frozenset(kind.lower() for kind in (*types, metas.get("og:type", "")))
    return Metadata(_title(root, metas), _published(root, metas, items), kinds)


def _title(root: Any, metas: dict[str, str]) -> str:
    named = [metas[name] for name in _TITLE_NAMES if name in metas]
    elements = [e for path in ("head/title", ".//title", ".//h1") if (e := root.find(path)) is not None]
    texts = [*named, *("".join(e.itertext()) for e in elements)]
    return next((title for text in texts if (title := plain(text[:1000]))), "")


def _published(root: Any, metas: dict[str, str], items: list[dict[str, Any]]) -> datetime | None:
    said = [text for item in items for text in _strings(item.get("datePublished"))]
    said += [metas[name] for name in _DATE_NAMES if name in metas]
    for element in root.iter("time", "span", "abbr"):
        published = element.tag == "time" and "published" in (element.get("class") or "").lower().split()
        if element.get("itemprop") == "datePublished" or element.get("pubdate") is not None or published:
            said.append(element.get("datetime") or element.get("content") or element.get("title") or "")
    return next((when for text in said if (when := parse_date(text)) is not None), None)


def parse_date(text: str) -> datetime | None:
    """Return the date that `text` gives in ISO 8601, RFC 2822 or as 2026/3/1 or 20260301, as aware UTC, else None.

    A date without a time is midnight UTC; a time without a zone is read as UTC.
    """
    text = text.strip()[:40]
    try:
        if match := _ISO.match(text):
            when = datetime.fromisoformat(re.sub(r"\s+(?=[Z+-])", "", match[0]))
        elif match := _DIGITS.match(text):
            year, month, day = (int(group) for group in match.groups() if group)
            when = datetime.combine(date(year, month, day), datetime.min.time())
        else:
            when = parsedate_to_datetime(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None


def _schema_items(root: Any) -> Iterator[dict[str, Any]]:
    """Yield the JSON-LD objects at the top of the page's graphs."""
    for script in root.iter("script"):
        if "ld+json" not in (script.get("type") or "") or not script.text or len(script.text) > _MAX_JSON:
            continue
        try:
            data = json.loads(script.text, strict=False)
        except (ValueError, RecursionError):
            continue
        for item in data if isinstance(data, list) else [data]:
            if isinstance(item, dict):
                graph = item.get("@graph")
                yield from (part for part in (item, *(graph if isinstance(graph, list) else ())) if isinstance(part, dict))


def _strings(value: Any) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
