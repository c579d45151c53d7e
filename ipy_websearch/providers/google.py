"""Google's Custom Search JSON API, over the search engine (`cx`) that the user has made there.

Wire facts: developers.google.com/custom-search/v1, reference and overview, read 2026-11, and recordings of 2024. The service
is closed to new customers and ends on 2027-01-01. It takes key and `cx` in the query string, which therefore is never shown or
logged. At most 10 results come at once; more would be further requests, each billed.
"""

from __future__ import annotations

from ipy_websearch.http.client import HttpResponse, Reason
from ipy_websearch.providers import base
from ipy_websearch.results import Charge, SearchResult

# Google tells the two scripts of Chinese apart.
_CHINESE = {"zh": "zh-CN", "zh-tw": "zh-TW", "zh-hk": "zh-TW", "zh-mo": "zh-TW", "zh-hant": "zh-TW"}
_PERIODS = {"pd": "d1", "pw": "w1", "pm": "m1", "py": "y1"}


class GoogleProvider(base.Engine):
    """Asks a programmable search engine of Google's."""

    name = "google"
    path, method, key_header = "/customsearch/v1", "GET", ""
    timeout_s = 10.0
    max_chars, max_count = 2_048, 10
    hits_at, address_field, signs = ("items",), "link", ("kind", "searchInformation", "queries", "context")
    ignores = ("goggles", "place")
    options = ("cr", "exactTerms", "excludeTerms", "fileType", "filter", "hl", "orTerms", "rights", "sort")
    price = (Charge("google", "search"),)

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the parameters of one search, the keys among them."""
        sites = request.allowed_domains or request.blocked_domains
        single = sites[0] if len(sites) == 1 else None
        period, days = base.period_or_days(request.freshness, _PERIODS)
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
            dateRestrict=period,
            sort=days and f"date:r:{days[0]:%Y%m%d}:{days[1]:%Y%m%d}",
            key=key,
            cx=engine,
        )

    def result(self, item: base.Json) -> SearchResult | None:
        """Return one item; its date is the page's own `article:published_time`, else the day its snippet begins with."""
        tags = base.objects(base.at(item, "pagemap", "metatags"))
        snippet = item.get("snippet")
        published = base.moment(*(tag.get("article:published_time") for tag in tags), snippet)
        return base.hit(item.get("title"), item.get("link"), snippet, published)

    def refusal(self, response: HttpResponse) -> Reason:
        """Return why Google refused; a refused key and a wrong engine id both come as 400, the daily quota as 403 or 429."""
        words, wait, reason = super().refusal(response)
        if response.status == 400 and "api key" in words.lower():
            return self.refused_key(words.rstrip("."))
        if response.status == 400 and "invalid argument" in words.lower():
            words = f"{words.rstrip('.')}; is GOOGLE_SEARCH_ENGINE_ID right?"
        if response.status in (403, 429) and ("per day" in words.lower() or "dailylimit" in response.text.lower()):
            reason = "quota"
        return Reason(words, wait, reason)
