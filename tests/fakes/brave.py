"""A fake of the Brave Search API: web search, rich results, LLM context (api-dashboard.search.brave.com, November 2026)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Sequence

from tests.fakes.engine import JSON, Answer, Engine, Hit, Refusal, whole_number
from tests.fakes.server import Handler, Received
from tests.fakes.shapes import words


class Brave(Engine):
    """Brave Search: web search, rich results and LLM context, as described on api-dashboard.search.brave.com."""

    key_name, url_name = "BRAVE_API_KEY", "BRAVE_BASE_URL"

    WEB = set(
        words(
            "q country search_lang ui_lang count offset safesearch freshness text_decorations spellcheck "
            "result_filter goggles goggles_id units extra_snippets summary enable_rich_callback "
            "include_fetch_metadata operators"
        )
    )
    CONTEXT = set(
        words(
            "q country search_lang count maximum_number_of_urls maximum_number_of_tokens "
            "maximum_number_of_snippets maximum_number_of_tokens_per_url maximum_number_of_snippets_per_url "
            "context_threshold_mode enable_local enable_source_metadata goggles freshness spellcheck "
            "safesearch"
        )
    )
    LIMITS = {
        "maximum_number_of_urls": (1, 50),
        "maximum_number_of_tokens": (1024, 32768),
        "maximum_number_of_snippets": (1, 256),
        "maximum_number_of_tokens_per_url": (512, 8192),
        "maximum_number_of_snippets_per_url": (1, 100),
    }

    def __init__(self) -> None:
        super().__init__()
        self.rich: dict[str, JSON] = {}

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve the three paths, to GET and POST."""
        web_search = self.serve(self._look_web, self._shape_web)
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

    def _invalid(self, name: str, message: str, kind: str = "value_error") -> Refusal:
        problem = {"type": kind, "loc": ["query", name], "msg": message, "input": None}
        body = self.error_body(422, "VALIDATION", "Unable to validate request parameter(s)", {"errors": [problem]})
        return Refusal(422, body, f"{name}: {message}")

    def _check(self, received: Received, known: Iterable[str]) -> JSON:
        """Check key, field names and what both searches share; return the parameters."""
        if received.headers.get("x-subscription-token") != self.key:
            body = self.error_body(422, "SUBSCRIPTION_TOKEN_INVALID", "The provided subscription token is invalid.")
            raise Refusal(422, body, "the subscription token is missing or wrong")
        values = received.values()
        for name in values:
            if name not in set(known):
                raise self._invalid(name, "Extra inputs are not permitted", "extra_forbidden")
        if not str(values.get("q") or "").strip():
            raise self._invalid("q", "Field required", "missing")
        country = str(values.get("country", "US"))
        if country != "ALL" and not re.fullmatch("[A-Za-z]{2}", country):
            raise self._invalid("country", "Input should be a 2 character country code or 'ALL'", "enum")
        if values.get("safesearch", "moderate") not in ("off", "moderate", "strict"):
            raise self._invalid("safesearch", "Input should be 'off', 'moderate' or 'strict'", "enum")
        if not re.fullmatch(r"|p[dwmy]|\d{4}-\d\d-\d\dto\d{4}-\d\d-\d\d", str(values.get("freshness", ""))):
            raise self._invalid("freshness", "Input should be pd, pw, pm, py or YYYY-MM-DDtoYYYY-MM-DD")
        return values

    def _length(self, query: str, characters: int, word_count: int) -> None:
        if len(query) > characters or len(query.split()) > word_count:
            raise self._invalid("q", f"Value should have at most {characters} characters and {word_count} words")

    def _look_web(self, received: Received) -> tuple[str, int, int]:
        values = self._check(received, self.WEB)
        self._length(values["q"], 400, 50)
        count = whole_number(values.get("count", 20), 1, 20)
        if count is None:
            raise self._invalid("count", "Input should be between 1 and 20", "less_than_equal")
        page = whole_number(values.get("offset", 0), 0, 9)
        if page is None:
            raise self._invalid("offset", "Input should be between 0 and 9", "less_than_equal")
        if len(str(values.get("goggles", ""))) > 50_000:
            raise self._invalid("goggles", "the goggle is too long")
        return str(values["q"]), count, page * count

    def _look_context(self, received: Received) -> tuple[str, int, int]:
        values = self._check(received, self.CONTEXT)
        self._length(values["q"], 600, 75)
        if "api-version" in received.headers:
            raise self._invalid("Api-Version", "the header is not accepted here")
        count = whole_number(values.get("count", 20), 1, 50)
        if count is None:
            raise self._invalid("count", "Input should be between 1 and 50", "less_than_equal")
        for name, (least, most) in self.LIMITS.items():
            if name in values and whole_number(values[name], least, most) is None:
                raise self._invalid(name, f"Input should be between {least} and {most}", "less_than_equal")
        if values.get("context_threshold_mode", "balanced") not in ("disabled", "strict", "lenient", "balanced"):
            raise self._invalid("context_threshold_mode", "Input should be 'strict', 'balanced' or 'lenient'", "enum")
        return str(values["q"]), min(count, int(values.get("maximum_number_of_urls", 20))), 0

    def _look_rich(self, received: Received) -> Answer:
        if received.headers.get("x-subscription-token") != self.key:
            raise Refusal(422, self.error_body(422, "SUBSCRIPTION_TOKEN_INVALID"), "the subscription token is wrong")
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
