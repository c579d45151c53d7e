"""What Brave's endpoints have in common: their parameters and their errors (sources: see `brave`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ipy_websearch.http.response import HttpResponse, Reason
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.goggles import goggle_parameters

# Brave's own spellings of languages (its `search_lang` list); all others are two-letter codes as they are.
_LANGUAGES = {"ja": "jp", "zh": "zh-hans", "zh-cn": "zh-hans", "zh-tw": "zh-hant", "pt": "pt-pt", "no": "nb"}


def shared_parameters(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the parameters that every search takes; `goggles` is a list, the others are single values.

    Raises:
        ConfigError: an inline goggle is faulty.
    """
    language = request.language.lower()
    country = request.country.upper()
    params = {
        "q": query,
        "count": count,
        "freshness": request.freshness,
        "country": {"UK": "GB"}.get(country, country) or None,
        "search_lang": _LANGUAGES.get(language, language) or None,
        "safesearch": request.safe_search,
        "goggles": goggle_parameters(request) or None,
    }
    return {name: value for name, value in params.items() if value is not None}


def error_of(response: HttpResponse) -> dict[str, Any]:
    """Return the `error` object of a refusal, {} when there is none."""
    try:
        return parsing.mapping(parsing.mapping(response.json()).get("error"))
    except ValueError:
        return {}


def wrong_parameters(error: Mapping[str, Any]) -> list[str]:
    """Return "country: …" for each entry of a validation error (they are pydantic's: loc, msg, type)."""
    entries = parsing.objects(parsing.mapping(error.get("meta")).get("errors"))
    return [found for found in map(_wrong_parameter, entries) if found]


def _wrong_parameter(entry: Mapping[str, Any]) -> str:
    where = ".".join(str(part) for part in parsing.items(entry.get("loc"))[-1:])
    return ": ".join(filter(None, (where, parsing.text(entry.get("msg"), 120))))


def rate_limit(error: Mapping[str, Any], headers: Mapping[str, str]) -> Reason:
    """Return which of the two limits was passed, per second or per month, and when it is over.

    `X-RateLimit-Reset` and `-Remaining` list the windows in the order of `X-RateLimit-Policy`: second, then month.
    """
    meta = parsing.mapping(error.get("meta"))
    resets = _numbers(headers.get("x-ratelimit-reset", ""))
    left = _numbers(headers.get("x-ratelimit-remaining", ""))
    second, month = _used_up(meta, "rate"), _used_up(meta, "quota")
    # A quota of 0 means that the plan has none: "0" left of it says nothing then.
    quotas = _numbers(headers.get("x-ratelimit-limit", ""))
    unlimited = len(quotas) > 1 and quotas[1] == 0
    if not second and not month:
        month = len(left) > 1 and left[1] <= 0 and not unlimited
    if month:
        limit = parsing.number(meta.get("quota_limit"))
        shown = f" ({limit:,.0f} requests)" if limit else ""
        return Reason(f"the plan's limit per month{shown} is used up", resets[1] if len(resets) > 1 else None)
    limit = parsing.number(meta.get("rate_limit"))
    return Reason(f"the limit per second{f' ({limit:.0f})' if limit else ''} was passed", resets[0] if resets else 1.0)


def _used_up(meta: Mapping[str, Any], name: str) -> bool:
    limit, current = parsing.number(meta.get(f"{name}_limit")), parsing.number(meta.get(f"{name}_current"))
    return bool(limit and current is not None and current >= limit)


def _numbers(header: str) -> list[float]:
    parts = (part.strip() for part in header.split(","))
    return [float(part) for part in parts if part.replace(".", "", 1).isdecimal()]
