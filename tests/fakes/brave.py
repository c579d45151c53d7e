"""A fake of the Brave Search API: web search, rich results, LLM context (api-dashboard.search.brave.com, November 2026)."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.fakes.engine import JSON, Answer, Engine, Hit, Refusal, parameters
from tests.fakes.server import Handler, Received

_TOO_MANY = r"\s*(?:\S+\s+){{{}}}\S"


class Brave(Engine):
    """Brave Search: web search, rich results and LLM context, as described on api-dashboard.search.brave.com."""

    key_name, url_name = "BRAVE_API_KEY", "BRAVE_BASE_URL"

    query, count = "q", ("count", 20)
    BOTH = parameters(
        "search_lang spellcheck goggles",
        country="ALL|[A-Za-z]{2}",
        safesearch="off|moderate|strict",
        freshness=r"|p[dwmy]|\d{4}-\d\d-\d\dto\d{4}-\d\d-\d\d",
    )
    fields = BOTH | parameters(
        "ui_lang text_decorations result_filter goggles_id units extra_snippets summary enable_rich_callback "
        "include_fetch_metadata operators",
        q=f"(?s)(?!{_TOO_MANY.format(50)}).{{1,400}}",
        count=range(1, 21),
        offset=range(10),
    )
    CONTEXT = BOTH | parameters(
        "enable_local enable_source_metadata",
        q=f"(?s)(?!{_TOO_MANY.format(75)}).{{1,600}}",
        count=range(1, 51),
        maximum_number_of_urls=range(1, 51),
        maximum_number_of_tokens=range(1024, 32769),
        maximum_number_of_snippets=range(1, 257),
        maximum_number_of_tokens_per_url=range(512, 8193),
        maximum_number_of_snippets_per_url=range(1, 101),
        context_threshold_mode="disabled|strict|lenient|balanced",
    )

    def __init__(self) -> None:
        super().__init__()
        self.rich: dict[str, JSON] = {}

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve the three paths, to GET and POST."""
        web_search = self.serve(self.look, self._shape_web)
        context = self.serve(self._look_context, self._shape_context)
        return [
            ("GET", "/res/v1/web/search", web_search),
            ("POST", "/res/v1/web/search", web_search),
            ("GET", "/res/v1/llm/context", context),
            ("POST", "/res/v1/llm/context", context),
            ("GET", "/res/v1/web/rich", self.serve(self._look_rich, lambda hits, values: {})),
        ]

    def reply_rich(
        self, vertical: str, results: Sequence[JSON], hits: Sequence[Hit] = (), *, key: str = "86d06abffc884e9e"
    ) -> None:
        """Queue a web search whose rich data wait behind a callback key."""
        info = {"vertical": vertical, "callback_key": key, "callback_status": "success", "search_lang": "en"}
        self.rich[key] = {"type": "rich", "results": list(results), "response_callback_info": info}
        hint = {"type": "rich", "hint": {"vertical": vertical, "callback_key": key}}
        self.reply(hits, fields={"rich": hint})

    def answer_headers(self) -> dict[str, str]:
        """Return the rate limit headers: one window of a second, one of a month."""
        return {
            "X-RateLimit-Limit": "50, 0",
            "X-RateLimit-Policy": "50;w=1, 0;w=2592000",
            "X-RateLimit-Remaining": "49, 0",
            "X-RateLimit-Reset": "1, 1419704",
        }

    def error_body(self, status: int, code: str | None = None, detail: str | None = None, meta: JSON | None = None) -> JSON:
        """Return an error as Brave writes it."""
        codes = {401: "SUBSCRIPTION_TOKEN_INVALID", 403: "OPTION_NOT_IN_PLAN", 404: "NOT_FOUND", 422: "VALIDATION"}
        codes |= {429: "RATE_LIMITED"}
        limits = {"plan": "Search", "rate_limit": 1, "rate_current": 1, "quota_limit": 2000, "quota_current": 12}
        error = {
            "id": "0b6a7e5e-0000-4000-8000-000000000000",
            "status": status,
            "code": code or codes.get(status, "INTERNAL"),
            "detail": detail or ("Request rate limit exceeded for plan." if status == 429 else "Something went wrong."),
            "meta": meta if meta is not None else limits if status == 429 else {},
        }
        return {"type": "ErrorResponse", "error": error, "time": int(time.time())}

    def has_key(self, received: Received) -> bool:
        """Return True when the key is there; a wrong one is answered with 422."""
        if received.headers.get("x-subscription-token") != self.key:
            body = self.error_body(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.")
            raise Refusal(422, body, "the subscription token is missing or wrong")
        return True

    def invalid(self, name: str, why: str) -> Refusal:
        """Return the refusal of a parameter, as the validation of the API writes it."""
        problem = {"type": "value_error", "loc": ["query", name], "msg": why, "input": None}
        body = self.error_body(422, "VALIDATION", "Unable to validate request parameter(s)", {"errors": [problem]})
        return Refusal(422, body, f"{name}: {why}")

    def look(self, received: Received) -> tuple[str, int, int]:
        """Return the web search with its start."""
        query, count, _ = super().look(received)
        if len(str(received.values().get("goggles", ""))) > 50_000:
            raise self.invalid("goggles", "the goggle is too long")
        return query, count, count * int(received.values().get("offset", 0))

    def _look_context(self, received: Received) -> tuple[str, int, int]:
        values = self.checked(received, self.CONTEXT)
        if "api-version" in received.headers:
            raise self.invalid("Api-Version", "the header is not accepted here")
        return str(values["q"]), min(int(values.get(name, 20)) for name in ("count", "maximum_number_of_urls")), 0

    def _look_rich(self, received: Received) -> Answer:
        self.has_key(received)
        key = received.params.get("callback_key", "")
        if key not in self.rich:
            raise Refusal(404, self.error_body(404, detail="No results for this callback key."), f"no callback key {key!r}")
        return Answer(body=self.rich[key])

    def _shape_web(self, hits: Sequence[Hit], values: JSON) -> JSON:
        results = [_brave_result(entry, bool(values.get("extra_snippets"))) for entry in hits]
        query = {"original": values["q"], "more_results_available": bool(results), "spellcheck_off": False, "country": "us"}
        mixed = {"type": "mixed", "main": [{"type": "web", "index": n, "all": False} for n in range(len(results))]}
        body: JSON = {"type": "search", "query": query, "mixed": mixed | {"top": [], "side": []}}
        return body | ({"web": {"type": "search", "results": results, "family_friendly": True}} if results else {})

    def _shape_context(self, hits: Sequence[Hit], values: JSON) -> JSON:
        generic = [
            {"url": entry["url"], "title": entry["title"], "snippets": [entry["description"], *entry["extra"]]}
            for entry in hits
        ]
        sources = {
            entry["url"]: {
                "title": entry["title"],
                "hostname": entry["url"].split("/")[2],
                "age": ["a day", entry["date"][:10], "some days ago"] if entry["date"] else None,
            }
            for entry in hits
        }
        return {"grounding": {"generic": generic, "map": []}, "sources": sources}


def _brave_result(entry: Hit, snippets: bool) -> JSON:
    """Return one web result; a date is both absolute (without a zone) and in words, or both are absent."""
    host = entry["url"].split("/")[2]
    result = {
        "title": entry["title"],
        "url": entry["url"],
        "is_source_local": False,
        "is_source_both": False,
        "description": entry["description"],
        "language": "en",
        "family_friendly": True,
        "type": "search_result",
        "subtype": "generic",
        "is_live": False,
        "meta_url": {"scheme": "https", "netloc": host, "hostname": host, "path": ""},
    }
    if entry["date"]:
        result |= {"page_age": entry["date"] if "T" in entry["date"] else f"{entry['date']}T00:00:00", "age": "4 days ago"}
    return result | ({"extra_snippets": entry["extra"][:5]} if snippets and entry["extra"] else {})
