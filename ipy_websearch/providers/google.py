"""Google's Custom Search JSON API, over the search engine (`cx`) that the user has made there.

Wire facts: developers.google.com/custom-search/v1, reference and overview, read 2026-11, and recordings of 2024. The service
is closed to new customers and ends on 2027-01-01. It takes key and `cx` in the query string, which therefore is never shown or
logged. At most 10 results come at once; more would be further requests, each billed.
"""

from __future__ import annotations

from ipy_websearch.providers import base
from ipy_websearch.results import Charge

# Google tells the two scripts of Chinese apart.
_CHINESE = {"zh": "zh-CN", "zh-tw": "zh-TW", "zh-hk": "zh-TW", "zh-mo": "zh-TW", "zh-hant": "zh-TW"}


class GoogleProvider(
    base.Engine,
    name="google",
    path="/customsearch/v1",
    method="GET",
    key_header="",
    timeout_s=10.0,
    max_chars=2_048,
    max_count=10,
    hits_at="items",
    # The date is the page's own, else the day its snippet begins with.
    fields={
        "url": "link",
        "description": "snippet",
        "published_date": "pagemap.metatags.article:published_time snippet",
    },
    signs=("kind", "searchInformation", "queries", "context"),
    ignores=("goggles", "place"),
    price=(Charge("google", "search"),),
    # A refused key and a wrong engine id both come as 400, the quota of the day as 403 or 429.
    refusals=(
        base.Refusal("400.*api key", "key", base.KEY_REFUSED),
        base.Refusal("400.*invalid argument", "request", remedy="is GOOGLE_SEARCH_ENGINE_ID right?"),
        base.Refusal("(403|429).*(per day|dailylimit)", "quota", "the quota of the day is used up", "see {obtain}"),
    ),
):
    """Asks a programmable search engine of Google's."""

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the parameters of one search, the keys among them."""
        sites = request.allowed_domains or request.blocked_domains
        single = sites[0] if len(sites) == 1 else None
        days = request.days
        key, engine = map(self.context.keys.require, self.info.keys)
        country, code = request.country_code.lower(), request.language_code
        language = _CHINESE.get(request.language.lower()) or _CHINESE.get(code, code)
        return base.present(
            q=query if single else base.with_site_operators(query, request),
            num=count,
            siteSearch=single,
            siteSearchFilter=single and ("i" if request.allowed_domains else "e"),
            gl={"gb": "uk"}.get(country, country),
            lr=language and f"lang_{language}",
            # There is no middle between on and off, and off must be asked for.
            safe="off" if request.safe_search == "off" else "active",
            dateRestrict=request.period and f"{request.period[0]}1",
            sort=days and f"date:r:{days[0]:%Y%m%d}:{days[1]:%Y%m%d}",
            key=key,
            cx=engine,
        )
