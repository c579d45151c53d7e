"""Fakes of the engines that take JSON by POST: Firecrawl, Tavily, Perplexity and Exa (their documents, November 2026)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tests.fakes.engine import JSON, Hit, Refusal
from tests.fakes.post_engine import PostEngine
from tests.fakes.server import Handler, Received
from tests.fakes.shapes import words


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
