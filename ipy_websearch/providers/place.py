"""Where the person who asks is, beyond the country: what engines that take it are told, each in its own form. Pure.

Brave takes headers (api-dashboard.search.brave.com, "Web search", `X-Loc-*`), Firecrawl a place in words
(docs.firecrawl.dev, `location`), both read 2026-11; the other engines take a country alone.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

from ipy_websearch.providers.countries import country_name


@dataclass(frozen=True, slots=True)
class Place:
    """A city, a region (its name, or its code: "CA"), and an IANA time zone; each "" when it is not known."""

    city: str = ""
    region: str = ""
    timezone: str = ""

    def __bool__(self) -> bool:
        return bool(self.city or self.region or self.timezone)


NOWHERE = Place()


def place_headers(place: Place, country: str) -> dict[str, str]:
    """Return Brave's headers for a place; header values are ASCII, so "São Paulo" is sent as "Sao Paulo"."""
    if not place:
        return {}
    code = place.region.isalnum() and place.region.isupper() and len(place.region) <= 3
    headers = {
        "X-Loc-City": place.city,
        "X-Loc-State" if code else "X-Loc-State-Name": place.region,
        "X-Loc-Timezone": place.timezone,
        "X-Loc-Country": country.upper() if len(country) == 2 else "",
    }
    return {name: text for name, value in headers.items() if (text := _ascii(value))}


def place_words(place: Place, country: str) -> str:
    """Return Firecrawl's words for a place ("San Francisco,California,United States"), "" when there is none to name."""
    named = [place.city, place.region]
    return ",".join(filter(None, [*named, country_name(country).title()])) if any(named) else ""


def _ascii(value: str) -> str:
    folded = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode("ascii")
    return "".join(c for c in folded if c.isprintable()).strip()
