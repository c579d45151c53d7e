"""The fake search engines beside Brave and Wikipedia, and all of them by name; `hit` and `made_up` make results for them.

What each takes is from its documents as of November 2026.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tests.fakes.brave import Brave
from tests.fakes.engine import JSON, Answer, Engine, Hit, Refusal, hit, made_up, parameters
from tests.fakes.server import Handler, Received
from tests.fakes.wikipedia import Wikipedia

ID = "00000000-0000-4000-8000-000000000000"
DAY = r"\d{4}-\d\d-\d\d"


class Google(Engine):
    """Google's Custom Search JSON API. Key and engine id are query parameters; `engine_id` is the id it knows."""

    key_name, url_name = "GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_BASE_URL"
    engine_id = "0123456789abcdef0"
    query, count = "q", ("num", 10)
    fields = parameters(
        "key cx q lr sort filter gl cr googlehost c2coff hq hl siteSearch siteSearchFilter exactTerms excludeTerms linkSite "
        "orTerms relatedSite lowRange highRange searchType fileType rights imgSize imgType imgColorType imgDominantColor "
        "fields alt prettyPrint",
        num=range(1, 11),
        start=range(1, 92),
        dateRestrict=r"[dwmy]\d*",
        safe="off|active",
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /customsearch/v1."""
        return [("GET", "/customsearch/v1", self.serve(self.look, self._shape))]

    def environment(self) -> dict[str, str]:
        """Return the variables that send the package here, the engine's id among them."""
        return super().environment() | {"GOOGLE_SEARCH_ENGINE_ID": self.engine_id}

    def error_body(self, status: int, message: str = "", reason: str = "") -> JSON:
        """Return an error as Google's APIs write it."""
        names = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 429: "RESOURCE_EXHAUSTED"}
        reasons = {400: "badRequest", 403: "forbidden", 429: "rateLimitExceeded"}
        text = message or ("Quota exceeded for quota metric 'Queries'." if status == 429 else "Request failed.")
        detail = {"message": text, "domain": "global", "reason": reason or reasons.get(status, "backendError")}
        return {"error": {"code": status, "message": text, "errors": [detail], "status": names.get(status, "INTERNAL")}}

    def has_key(self, received: Received) -> bool:
        """Return True when key and engine id are right; a wrong key is answered with 400, as a wrong id is."""
        if received.params.get("key") != self.key:
            raise self.invalid("key", "API key not valid. Please pass a valid API key.")
        if received.params.get("cx") != self.engine_id:
            raise self.invalid("cx", "Request contains an invalid argument: cx.")
        return True

    def look(self, received: Received) -> tuple[str, int, int]:
        """Return the search with its start, which counts from 1."""
        query, count, _ = super().look(received)
        return query, count, int(received.params.get("start", 1)) - 1

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        total = str(len(hits))
        request = {"totalResults": total, "searchTerms": values["q"], "count": len(hits), "cx": values["cx"]}
        body: JSON = {
            "kind": "customsearch#search",
            "queries": {"request": [request | {"startIndex": int(values.get("start", 1))}]},
            "searchInformation": {"searchTime": 0.2, "totalResults": total},
        }
        return body | ({"items": [_google_item(entry) for entry in hits]} if hits else {})


def _google_item(entry: Hit) -> JSON:
    item: JSON = {
        "kind": "customsearch#result",
        "title": entry["title"],
        "htmlTitle": f"<b>{entry['title']}</b>",
        "link": entry["url"],
        "displayLink": entry["url"].split("/")[2],
        "snippet": entry["description"],
    }
    tags = [{"article:published_time": f"{entry['date'][:10]}T00:00:00+00:00"}] if entry["date"] else []
    return item | ({"pagemap": {"metatags": tags}} if tags else {})


class SearXNG(Engine):
    """A SearXNG instance, whose settings have the JSON format."""

    url_name = "SEARXNG_BASE_URL"
    query = "q"
    fields = parameters(
        "q categories engines language theme enabled_engines disabled_engines",
        format="json",
        pageno=range(1, 1000),
        time_range="day|week|month|year",
        safesearch="[012]",
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /search, to GET and POST."""
        handler = self.serve(self.look, self._shape)
        return [("GET", "/search", handler), ("POST", "/search", handler)]

    def error_body(self, status: int, message: str = "") -> Any:
        """Return an error: JSON for 400, a page otherwise."""
        return {"error": message or "No query"} if status == 400 else f"<!doctype html><title>{status}</title>"

    def look(self, received: Received) -> tuple[str, int, int]:
        """Return the search: ten results a page."""
        if received.values().get("format") != "json":
            raise Refusal(403, self.error_body(403), "format=json was not asked for")
        query, count, _ = super().look(received)
        return query, count, 10 * (int(received.values().get("pageno", 1)) - 1)

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        results = [
            {
                "url": entry["url"],
                "title": entry["title"],
                "content": entry["description"],
                "engine": "brave",
                "score": entry["score"] if entry["score"] is not None else round(4.0 / number, 3),
                "publishedDate": entry["date"],
            }
            for number, entry in enumerate(hits, 1)
        ]
        return {"query": values["q"], "results": results, "answers": [], "unresponsive_engines": []}


class Firecrawl(Engine):
    """Firecrawl v2: search, scrape and map. `pages` maps addresses to Markdown; other pages are made up."""

    key_name, url_name = "FIRECRAWL_API_KEY", "FIRECRAWL_BASE_URL"
    fields = parameters(
        "categories includeDomains excludeDomains tbs country safe ignoreInvalidURLs highlights enterprise scrapeOptions "
        "origin integration",
        query="(?s).{1,500}",
        limit=range(1, 101),
        sources=list,
        location=str,
        timeout=range(1_000, 300_001),
    )
    SCRAPE = parameters(
        "formats onlyMainContent onlyCleanContent includeTags excludeTags maxAge minAge headers waitFor mobile "
        "skipTlsVerification parsers actions removeBase64Images blockAds storeInCache lockdown redactPII zeroDataRetention "
        "origin integration",
        url=r"https?://[^/\s]+\.[^/\s]+.*",
        timeout=range(1_000, 300_001),
        proxy="basic|enhanced|stealth|auto",
        location=dict,
    )
    MAP = parameters(
        "url search includeSubdomains ignoreQueryParameters ignoreCache location origin integration",
        limit=range(1, 100_001),
        timeout=range(1_000, 300_001),
        sitemap="skip|include|only",
    )

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, str] = {}
        self.links: list[JSON] = []

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve the three paths."""
        return [
            ("POST", "/v2/search", self.serve(self.look, self._shape)),
            ("POST", "/v2/scrape", self.serve(self._scrape, lambda hits, values: {})),
            ("POST", "/v2/map", self.serve(self._map, lambda hits, values: {})),
        ]

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Firecrawl writes it."""
        usual = {
            401: "Unauthorized: Invalid token",
            402: "Insufficient credits to perform this request.",
            408: "Scrape timed out",
            429: "Rate limit exceeded.",
        }
        codes = {400: "BAD_REQUEST", 408: "SCRAPE_TIMEOUT"}
        body = {"success": False, "error": message or usual.get(status, "Internal server error")}
        return body | ({"code": codes[status]} if status in codes else {})

    def look(self, received: Received) -> tuple[str, int, int]:
        """Return the search; only one list of domains may be given."""
        values = received.values()
        if values.get("includeDomains") and values.get("excludeDomains"):
            raise self.invalid("includeDomains", "cannot be used together with excludeDomains")
        if not {"web", "news", "images"}.issuperset(values.get("sources", [])):
            raise self.invalid("sources", "one of them is no source")
        return super().look(received)

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        scrape = bool((values.get("scrapeOptions") or {}).get("formats"))
        web = [
            {name: entry[name] for name in ("url", "title", "description")}
            | {"position": position}
            | ({"markdown": self._page(entry["url"])} if scrape else {})
            for position, entry in enumerate(hits, 1)
        ]
        credits = 2 * -(-len(web) // 10) + (len(web) if scrape else 0)
        return {"success": True, "data": {"web": web}, "creditsUsed": credits, "id": ID}

    def _scrape(self, received: Received) -> tuple[str, int, int] | Answer:
        url = self.checked(received, self.SCRAPE, "url")["url"]
        metadata = {"title": url, "sourceURL": url, "url": url, "statusCode": 200, "creditsUsed": 1, "proxyUsed": "basic"}
        return self.scripted({"success": True, "data": {"markdown": self._page(url), "metadata": metadata}})

    def _map(self, received: Received) -> Answer:
        values = self.checked(received, self.MAP, "url")
        links = self.links or [{"url": f"{values['url'].rstrip('/')}/{name}", "title": name} for name in ("about", "docs")]
        return self.scripted({"success": True, "links": links[: values.get("limit", 5000)]})

    def _page(self, url: str) -> str:
        return self.pages.get(url, f"# {url}\n\nThis is the text of the page.\n")


class Tavily(Engine):
    """Tavily's search."""

    key_name, url_name = "TAVILY_API_KEY", "TAVILY_BASE_URL"
    count = ("max_results", 5)
    fields = parameters(
        "days max_age_hours chunks_per_source include_domains exclude_domains include_domains_mode include_answer "
        "include_raw_content include_images include_image_descriptions include_favicon include_usage auto_parameters "
        "exact_match language filter_by_language fetch_timeout cache_fallback",
        query="(?s).{1,400}",
        max_results=range(21),
        search_depth="basic|advanced|fast|ultra-fast",
        topic="general|news|finance",
        time_range="day|week|month|year|[dwmy]",
        start_date=DAY,
        end_date=DAY,
        country="[a-z][a-z ]{3,}",
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /search."""
        return [("POST", "/search", self.serve(self.look, self._shape))]

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Tavily writes it."""
        usual = {
            401: "Unauthorized: missing or invalid API key.",
            429: "Your request has been blocked due to excessive requests.",
            432: "This request exceeds your plan's set usage limit.",
            433: "This request exceeds the pay-as-you-go limit.",
        }
        return {"detail": {"error": message or usual.get(status, "Internal server error")}}

    def look(self, received: Received) -> tuple[str, int, int]:
        """Return the search; the lists of domains have a length each."""
        for name, most in (("include_domains", 300), ("exclude_domains", 150)):
            if len(received.values().get(name) or []) > most:
                raise self.invalid(name, f"more than {most} domains")
        return super().look(received)

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        news = values.get("topic") == "news"
        results = [
            {
                "url": entry["url"],
                "title": entry["title"],
                "content": entry["description"],
                "score": entry["score"] if entry["score"] is not None else round(0.9 - 0.05 * number, 2),
                "raw_content": None,
            }
            | ({"published_date": _rfc1123(entry["date"])} if news and entry["date"] else {})
            for number, entry in enumerate(hits)
        ]
        usage = {"usage": {"credits": 2 if values.get("search_depth") == "advanced" else 1}}
        body = {"query": values["query"], "answer": None, "results": results, "response_time": 0.5, "request_id": ID}
        return body | (usage if values.get("include_usage") else {})


def _rfc1123(date: str) -> str:
    return datetime.fromisoformat(date).strftime("%a, %d %b %Y %H:%M:%S GMT")


class Perplexity(Engine):
    """Perplexity's search API."""

    key_name, url_name = "PERPLEXITY_API_KEY", "PERPLEXITY_BASE_URL"
    count = ("max_results", 10)
    fields = parameters(
        "query max_tokens max_tokens_per_page search_context_size search_type search_domain_filter search_language_filter "
        "country display_server_time",
        max_results=range(1, 21),
        search_mode="web|academic|sec",
        search_recency_filter="hour|day|week|month|year",
        **dict.fromkeys(
            (
                "search_after_date_filter",
                "search_before_date_filter",
                "last_updated_after_filter",
                "last_updated_before_filter",
            ),
            r"\d{1,2}/\d{1,2}/\d{4}",
        ),
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /search."""
        return [("POST", "/search", self.serve(self.look, self._shape))]

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Perplexity writes it."""
        kinds = {400: "bad_request", 401: "invalid_api_key", 429: "rate_limit_exceeded"}
        return {"error": {"message": message or "Error", "type": kinds.get(status, "api_error"), "code": status}}

    def invalid(self, name: str, why: str) -> Refusal:
        """Return the refusal of a parameter, as the validation of the API writes it."""
        body = {"detail": [{"loc": ["body", name], "msg": why, "type": "value_error"}]}
        return Refusal(422, body, f"{name}: {why}")

    def look(self, received: Received) -> tuple[str, int, int]:
        """Return the search; domains are all allowed or all denied."""
        domains = received.values().get("search_domain_filter") or []
        if len(domains) > 20 or len({domain.startswith("-") for domain in domains}) > 1:
            raise self.invalid("search_domain_filter", "at most 20 domains, all allowed or all denied")
        return super().look(received)

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        results = [
            {
                "title": entry["title"],
                "url": entry["url"],
                "snippet": entry["description"],
                "date": entry["date"][:10] if entry["date"] else None,
                "last_updated": None,
            }
            for entry in hits
        ]
        return {"id": ID, "results": results}


class Exa(Engine):
    """Exa's search API."""

    key_name, url_name = "EXA_API_KEY", "EXA_BASE_URL"
    count = ("numResults", 10)
    fields = parameters(
        "query includeDomains excludeDomains startCrawlDate endCrawlDate includeText excludeText category moderation contents "
        "systemPrompt outputSchema additionalQueries objective",
        type="auto|fast|instant|neural|keyword|deep-lite|deep|deep-reasoning|lite",
        numResults=range(1, 101),
        startPublishedDate=f"{DAY}.*",
        endPublishedDate=f"{DAY}.*",
        userLocation="[A-Za-z]{2}",
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /search."""
        return [("POST", "/search", self.serve(self.look, self._shape))]

    def has_key(self, received: Received) -> bool:
        """Return True when the key is there, in Exa's own header or as a bearer token."""
        return received.headers.get("x-api-key") == self.key or super().has_key(received)

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Exa writes it."""
        tags = {400: "INVALID_REQUEST_BODY", 401: "INVALID_API_KEY", 402: "NO_MORE_CREDITS", 429: "RATE_LIMIT_EXCEEDED"}
        return {"requestId": "0" * 32, "error": message or "Error", "tag": tags.get(status, "INTERNAL_ERROR")}

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        contents = values.get("contents") or {}
        results = [
            {"id": entry["url"], "title": entry["title"], "url": entry["url"], "author": ""}
            | ({"publishedDate": f"{entry['date'][:10]}T00:00:00.000Z"} if entry["date"] else {})
            | ({"text": entry["description"]} if contents.get("text") else {})
            | ({"highlights": [entry["description"], *entry["extra"]]} if contents.get("highlights") else {})
            for entry in hits
        ]
        cost = 0.007 + 0.001 * max(0, len(results) - 10)
        return {"requestId": "0" * 32, "results": results, "costDollars": {"total": cost, "search": {"neural": cost}}}


ENGINES: dict[str, type[Engine]] = {
    "brave": Brave,
    "google": Google,
    "firecrawl": Firecrawl,
    "tavily": Tavily,
    "perplexity": Perplexity,
    "exa": Exa,
    "searxng": SearXNG,
    "wikipedia": Wikipedia,
}

__all__ = ["Brave", "ENGINES", "Firecrawl", "Wikipedia", "hit", "made_up"]
