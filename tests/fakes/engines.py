"""The fake search engines beside Brave and Wikipedia, and all of them by name; `hit` and `made_up` make results for them.

What each takes is from its documents as of November 2026.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.brave import Brave
from tests.fakes.engine import JSON, Answer, Engine, Hit, PostEngine, Refusal, hit, made_up, whole_number
from tests.fakes.server import Handler, Received
from tests.fakes.shapes import words
from tests.fakes.wikipedia import Wikipedia


class Google(Engine):
    """Google's Custom Search JSON API. Key and engine id are query parameters; `engine_id` is the id it knows."""

    key_name, url_name = "GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_BASE_URL"
    engine_id = "0123456789abcdef0"
    KNOWN = words(
        "key cx q num start lr safe sort filter gl cr googlehost c2coff hq hl siteSearch siteSearchFilter exactTerms "
        "excludeTerms linkSite orTerms relatedSite dateRestrict lowRange highRange searchType fileType rights imgSize imgType "
        "imgColorType imgDominantColor fields alt prettyPrint"
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /customsearch/v1."""
        return [("GET", "/customsearch/v1", self.serve(self._look, self._shape))]

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

    def _invalid(self, why: str) -> Refusal:
        return Refusal(400, self.error_body(400, why), why)

    def _look(self, received: Received) -> tuple[str, int, int]:
        values = received.values()
        if values.get("key") != self.key:
            raise self._invalid("API key not valid. Please pass a valid API key.")
        if values.get("cx") != self.engine_id:
            raise self._invalid("Request contains an invalid argument: cx.")
        for name in values:
            if name not in self.KNOWN:
                raise self._invalid(f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter.')
        if not values.get("q"):
            raise self._invalid("Request contains an invalid argument: q.")
        count, start = whole_number(values.get("num", 10), 1, 10), whole_number(values.get("start", 1), 1, 100)
        if count is None or start is None or start + count > 101:
            raise self._invalid("Request contains an invalid argument: num or start.")
        if not re.fullmatch(r"|[dwmy]\d*", values.get("dateRestrict", "")):
            raise self._invalid("Request contains an invalid argument: dateRestrict.")
        if values.get("safe", "off") not in ("off", "active"):
            raise self._invalid("Request contains an invalid argument: safe.")
        return values["q"], count, start - 1

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        request = {"totalResults": str(len(hits)), "count": len(hits), "startIndex": int(values.get("start", 1))}
        items = [_google_item(entry) for entry in hits]
        body: JSON = {
            "kind": "customsearch#search",
            "url": {"type": "application/json"},
            "queries": {"request": [request | {"searchTerms": values["q"], "cx": values["cx"]}]},
            "context": {"title": "The web"},
            "searchInformation": {"searchTime": 0.2, "totalResults": str(len(hits))},
        }
        return body | ({"items": items} if items else {})


def _google_item(entry: Hit) -> JSON:
    item: dict[str, Any] = {
        "kind": "customsearch#result",
        "title": entry["title"],
        "htmlTitle": f"<b>{entry['title']}</b>",
        "link": entry["url"],
        "displayLink": entry["url"].split("/")[2],
        "snippet": entry["description"],
        "htmlSnippet": entry["description"],
        "formattedUrl": entry["url"],
    }
    if entry["date"]:
        item["pagemap"] = {"metatags": [{"article:published_time": f"{entry['date'][:10]}T00:00:00+00:00"}]}
    return item


class SearXNG(Engine):
    """A SearXNG instance. `json_enabled = False` makes it answer as instances do whose settings lack the JSON format."""

    url_name = "SEARXNG_BASE_URL"
    KNOWN = words("q format categories engines language pageno time_range safesearch theme enabled_engines disabled_engines")
    CHOICES = {"time_range": ("", "day", "week", "month", "year"), "safesearch": ("0", "1", "2")}

    def __init__(self) -> None:
        super().__init__()
        self.json_enabled = True
        self.page_size = 10

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /search, to GET and POST."""
        handler = self.serve(self._look, self._shape)
        return [("GET", "/search", handler), ("POST", "/search", handler)]

    def error_body(self, status: int) -> Any:
        """Return an error: JSON for 400, a page otherwise."""
        return {"error": "No query"} if status == 400 else f"<!doctype html><title>{status}</title>"

    def _look(self, received: Received) -> tuple[str, int, int]:
        values = received.values()
        if values.get("format") != "json" or not self.json_enabled:
            raise Refusal(403, "<!doctype html><title>403 Forbidden</title>", "format=json is not enabled")
        if not values.get("q"):
            raise Refusal(400, {"error": "No query"}, "no query")
        for name, value in values.items():
            if name not in self.KNOWN:
                raise Refusal(400, {"error": f"Unknown parameter {name}"}, f"unknown parameter {name}")
            if name in self.CHOICES and str(value) not in self.CHOICES[name]:
                message = f"Invalid value {value} for parameter {name}"
                raise Refusal(400, {"error": message}, message)
        page = whole_number(values.get("pageno", 1), 1, 1000)
        if page is None:
            raise Refusal(400, {"error": "Invalid value for parameter pageno"}, "pageno")
        return values["q"], self.page_size, (page - 1) * self.page_size

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        results = [
            {
                "url": entry["url"],
                "title": entry["title"],
                "content": entry["description"],
                "engine": "brave",
                "engines": ["brave"],
                "positions": [number],
                "score": entry["score"] if entry["score"] is not None else round(4.0 / number, 3),
                "category": "general",
                "template": "default.html",
                "parsed_url": ["https", entry["url"].split("/")[2], "/", "", "", ""],
                "publishedDate": entry["date"],
            }
            for number, entry in enumerate(hits, 1)
        ]
        rest: JSON = {"answers": [], "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": []}
        return {"query": values["q"], "results": results} | rest


class Firecrawl(PostEngine):
    """Firecrawl v2: search, scrape and map. `pages` maps addresses to Markdown; other pages are made up."""

    key_name, url_name = "FIRECRAWL_API_KEY", "FIRECRAWL_BASE_URL"
    SEARCH = words(
        "query limit sources categories includeDomains excludeDomains tbs location country safe timeout ignoreInvalidURLs "
        "highlights enterprise scrapeOptions origin integration"
    )
    SCRAPE = words(
        "url formats onlyMainContent onlyCleanContent includeTags excludeTags maxAge minAge headers waitFor mobile "
        "skipTlsVerification timeout parsers actions location removeBase64Images blockAds proxy storeInCache lockdown "
        "redactPII zeroDataRetention origin integration"
    )
    MAP = words(
        "url search sitemap includeSubdomains ignoreQueryParameters ignoreCache limit timeout location origin integration"
    )

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, str] = {}
        self.links: list[JSON] = []

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve the three paths."""
        return [
            ("POST", "/v2/search", self.serve(self._look_search, self._shape_search)),
            ("POST", "/v2/scrape", self.serve(self._look_scrape, self._shape_scrape)),
            ("POST", "/v2/map", self.serve(self._look_map, self._shape_map)),
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

    def _look_search(self, received: Received) -> tuple[str, int, int]:
        body = self.check_request(received, self.SEARCH, "query")
        if len(body["query"]) > 500:
            raise self.invalid("query", "too long, at most 500 characters")
        if body.get("includeDomains") and body.get("excludeDomains"):
            raise self.invalid("includeDomains", "cannot be used together with excludeDomains")
        for source in body.get("sources", []):
            if (source if isinstance(source, str) else source.get("type")) not in ("web", "news", "images"):
                raise self.invalid("sources", f"{source!r} is not a source")
        if "location" in body and not isinstance(body["location"], str):
            raise self.invalid("location", "is a string here")
        return body["query"], self.number(body, "limit", 10, 1, 100), 0

    def _shape_search(self, hits: Sequence[Hit], values: JSON) -> JSON:
        scrape = bool((values.get("scrapeOptions") or {}).get("formats"))
        web: list[JSON] = []
        for position, entry in enumerate(hits, 1):
            found = {
                "url": entry["url"],
                "title": entry["title"],
                "description": entry["description"],
                "position": position,
            }
            web.append(found | ({"markdown": self._page(entry["url"])} if scrape else {}))
        credits = 2 * -(-len(web) // 10) + (len(web) if scrape else 0)
        return {"success": True, "data": {"web": web}, "creditsUsed": credits, "id": "0199a000-0000-7000-8000-000000000000"}

    def _look_scrape(self, received: Received) -> tuple[str, int, int]:
        body = self.check_request(received, self.SCRAPE, "url")
        if not re.match(r"https?://[^/\s]+\.[^/\s]+", body["url"]):
            raise self.invalid("url", "Invalid URL")
        self.number(body, "timeout", 60000, 1000, 300000)
        self.one_of(body, "proxy", "basic enhanced stealth auto")
        if "location" in body and not isinstance(body["location"], dict):
            raise self.invalid("location", "is an object here")
        return body["url"], 0, 0

    def _shape_scrape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        metadata = {
            "title": values["url"],
            "sourceURL": values["url"],
            "url": values["url"],
            "statusCode": 200,
            "contentType": "text/html",
            "creditsUsed": 1,
            "proxyUsed": "basic",
        }
        return {"success": True, "data": {"markdown": self._page(values["url"]), "metadata": metadata}}

    def _look_map(self, received: Received) -> tuple[str, int, int]:
        body = self.check_request(received, self.MAP, "url")
        self.one_of(body, "sitemap", "skip include only")
        return body["url"], self.number(body, "limit", 5000, 1, 100_000), 0

    def _shape_map(self, hits: Sequence[Hit], values: JSON) -> JSON:
        links = self.links or [{"url": f"{values['url'].rstrip('/')}/{name}", "title": name} for name in ("about", "docs")]
        return {"success": True, "links": links[: values.get("limit", 5000)]}

    def _page(self, url: str) -> str:
        return self.pages.get(url, f"# {url}\n\nThis is the text of the page.\n")


class Tavily(PostEngine):
    """Tavily search and extract."""

    key_name, url_name = "TAVILY_API_KEY", "TAVILY_BASE_URL"
    SEARCH = words(
        "query search_depth topic time_range start_date end_date days max_age_hours max_results chunks_per_source "
        "include_domains exclude_domains include_domains_mode include_answer include_raw_content include_images "
        "include_image_descriptions include_favicon include_usage country auto_parameters exact_match language "
        "filter_by_language fetch_timeout cache_fallback"
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /search."""
        return [("POST", "/search", self.serve(self._look, self._shape))]

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Tavily writes it."""
        usual = {
            401: "Unauthorized: missing or invalid API key.",
            429: "Your request has been blocked due to excessive requests.",
            432: "This request exceeds your plan's set usage limit.",
            433: "This request exceeds the pay-as-you-go limit.",
        }
        return {"detail": {"error": message or usual.get(status, "Internal server error")}}

    def _look(self, received: Received) -> tuple[str, int, int]:
        body = self.check_request(received, self.SEARCH, "query")
        if len(body["query"]) > 400:
            raise self.invalid("query", "Query is too long. Max query length is 400 characters.")
        self.one_of(body, "search_depth", "basic advanced fast ultra-fast")
        self.one_of(body, "topic", "general news finance")
        self.one_of(body, "time_range", "day week month year d w m y")
        for name in ("start_date", "end_date"):
            if body.get(name) and not re.fullmatch(r"\d{4}-\d\d-\d\d", body[name]):
                raise self.invalid(name, "is not YYYY-MM-DD")
        for name, most in (("include_domains", 300), ("exclude_domains", 150)):
            if len(body.get(name) or []) > most:
                raise self.invalid(name, f"more than {most} domains")
        if body.get("country") and not re.fullmatch("[a-z][a-z ]{3,}", body["country"]):
            raise self.invalid("country", f"{body['country']!r} is not the lower-case name of a country")
        return body["query"], self.number(body, "max_results", 5, 0, 20), 0

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        results = [
            {
                "url": entry["url"],
                "title": entry["title"],
                "content": entry["description"],
                "score": entry["score"] if entry["score"] is not None else round(0.9 - 0.05 * number, 2),
                "raw_content": None,
            }
            | ({"published_date": _rfc1123(entry["date"])} if values.get("topic") == "news" and entry["date"] else {})
            for number, entry in enumerate(hits)
        ]
        body = {"query": values["query"], "answer": None, "follow_up_questions": None, "images": [], "results": results}
        credits = 2 if values.get("search_depth") == "advanced" else 1
        body |= {"response_time": 0.5, "request_id": "00000000-0000-4000-8000-000000000000"}
        return body | ({"usage": {"credits": credits}} if values.get("include_usage") else {})


def _rfc1123(date: str) -> str:
    from datetime import datetime

    return datetime.fromisoformat(date).strftime("%a, %d %b %Y %H:%M:%S GMT")


class Perplexity(PostEngine):
    """Perplexity's search API."""

    key_name, url_name = "PERPLEXITY_API_KEY", "PERPLEXITY_BASE_URL"
    SEARCH = words(
        "query max_results max_tokens max_tokens_per_page search_context_size search_type search_mode search_domain_filter "
        "search_language_filter search_recency_filter search_after_date_filter search_before_date_filter "
        "last_updated_after_filter last_updated_before_filter country display_server_time"
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /search."""
        return [("POST", "/search", self.serve(self._look, self._shape))]

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Perplexity writes it."""
        kinds = {400: "bad_request", 401: "invalid_api_key", 429: "rate_limit_exceeded"}
        return {"error": {"message": message or "Error", "type": kinds.get(status, "api_error"), "code": status}}

    def invalid(self, name: str, why: str) -> Refusal:
        """Return the refusal of a field, as the validation of the API writes it."""
        body = {"detail": [{"loc": ["body", name], "msg": why, "type": "value_error"}]}
        return Refusal(422, body, f"{name}: {why}")

    def _look(self, received: Received) -> tuple[str, int, int]:
        body = self.check_request(received, self.SEARCH, "query")
        self.one_of(body, "search_recency_filter", "hour day week month year")
        self.one_of(body, "search_mode", "web academic sec")
        domains = body.get("search_domain_filter") or []
        if len(domains) > 20 or len({domain.startswith("-") for domain in domains}) > 1:
            raise self.invalid("search_domain_filter", "at most 20 domains, all allowed or all denied")
        for name in (name for name in body if name.endswith("_date_filter") or name.startswith("last_updated")):
            if not re.fullmatch(r"\d{1,2}/\d{1,2}/\d{4}", body[name]):
                raise self.invalid(name, "is not MM/DD/YYYY")
        return str(body["query"]), self.number(body, "max_results", 10, 1, 20), 0

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
        return {"id": "00000000-0000-4000-8000-000000000000", "results": results}


class Exa(PostEngine):
    """Exa's search API."""

    key_name, url_name = "EXA_API_KEY", "EXA_BASE_URL"
    SEARCH = words(
        "query type numResults includeDomains excludeDomains startPublishedDate endPublishedDate startCrawlDate endCrawlDate "
        "includeText excludeText category userLocation moderation contents systemPrompt outputSchema additionalQueries "
        "objective"
    )

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /search."""
        return [("POST", "/search", self.serve(self._look, self._shape))]

    def has_key(self, headers: Mapping[str, str]) -> bool:
        """Return True when the key is there, in Exa's own header or as a bearer token."""
        return headers.get("x-api-key") == self.key or super().has_key(headers)

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Exa writes it."""
        tags = {400: "INVALID_REQUEST_BODY", 401: "INVALID_API_KEY", 402: "NO_MORE_CREDITS", 429: "RATE_LIMIT_EXCEEDED"}
        return {"requestId": "0" * 32, "error": message or "Error", "tag": tags.get(status, "INTERNAL_ERROR")}

    def _look(self, received: Received) -> tuple[str, int, int]:
        body = self.check_request(received, self.SEARCH, "query")
        self.one_of(body, "type", "auto fast instant neural keyword deep-lite deep deep-reasoning lite")
        for name in ("startPublishedDate", "endPublishedDate"):
            if name in body and not re.match(r"\d{4}-\d\d-\d\d", body[name]):
                raise self.invalid(name, "is not an ISO 8601 date")
        location = body.get("userLocation")
        if location is not None and not re.fullmatch("[A-Za-z]{2}", location):
            raise self.invalid("userLocation", "is not a two-letter country")
        return body["query"], self.number(body, "numResults", 10, 1, 100), 0

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        contents = values.get("contents") or {}
        results = []
        for entry in hits:
            found = {"id": entry["url"], "title": entry["title"], "url": entry["url"], "author": ""}
            if entry["date"]:
                found["publishedDate"] = f"{entry['date'][:10]}T00:00:00.000Z"
            if contents.get("text"):
                found["text"] = entry["description"]
            if contents.get("highlights"):
                found |= {"highlights": [entry["description"], *entry["extra"]], "highlightScores": [0.5]}
            results.append(found)
        cost = 0.007 + 0.001 * max(0, len(results) - 10)
        return {
            "requestId": "0" * 32,
            "resolvedSearchType": "neural",
            "results": results,
            "searchTime": 500.0,
            "costDollars": {"total": cost, "search": {"neural": cost}},
        }


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

__all__ = [
    "Answer",
    "Brave",
    "ENGINES",
    "Engine",
    "Exa",
    "Firecrawl",
    "Google",
    "Hit",
    "Perplexity",
    "Refusal",
    "SearXNG",
    "Tavily",
    "Wikipedia",
    "hit",
    "made_up",
]
