"""Fakes of Google Custom Search and of SearXNG, which are asked by GET (their documents and recordings, November 2026)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.fakes.engine import JSON, Engine, Hit, Refusal, whole_number
from tests.fakes.server import Handler, Received
from tests.fakes.shapes import words


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
