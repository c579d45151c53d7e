"""Brave Search: the web index, with rich results (weather, stocks, conversions …) fetched along.

Wire facts: api-dashboard.search.brave.com, "Web search", "Rich results", "Rate limiting", and brave/brave-search-skills,
all read 2026-11. `extra_snippets` and `enable_rich_callback` are always sent; `text_decorations` is off, since its tags
would be taken out anyway. `goggles` is the parameter, `goggles_id` is deprecated. Only answered requests are billed, one
request each; that the call for the rich result is billed apart is said nowhere, so it is not booked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ipy_websearch.errors import ProviderError
from ipy_websearch.http.response import HttpResponse, Reason
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderInfo, SearchRequest
from ipy_websearch.providers.brave_context import context_parameters, context_results
from ipy_websearch.providers.brave_wire import error_of, rate_limit, shared_parameters, wrong_parameters
from ipy_websearch.providers.engine import Engine
from ipy_websearch.providers.place import place_headers
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

TIMEOUT_S = 10.0
MAX_CHARS, MAX_WORDS, MAX_COUNT = 400, 50, 20

# A request line longer than this is refused by many servers; the endpoint takes the same parameters as a JSON body.
_LONG_GOGGLES = 4_000


class BraveProvider(Engine):
    """Asks Brave's web search."""

    name: ClassVar[str] = "brave"
    info: ClassVar[ProviderInfo] = PROVIDERS["brave"]
    price = (Charge("brave", "search"),)
    options: ClassVar[tuple[str, ...]] = ("result_filter", "spellcheck", "ui_lang", "units", "operators")

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the web results of one search; rich data is in `extra["rich"]` when Brave has some.

        Raises:
            MissingKeyError: BRAVE_API_KEY is not set.
            ConfigError: an inline goggle is faulty.
            ProviderError: Brave refused, failed or could not be reached.
        """
        query, notices = self.clipped(request.query, MAX_CHARS, MAX_WORDS)
        count, fewer = self.count(request, MAX_COUNT)
        notices += fewer
        params = web_parameters(request, query, count) | self.chosen_options()
        raw = self.readable(await self._ask("/res/v1/web/search", params, TIMEOUT_S, request=request))
        if altered := parsing.text(parsing.mapping(raw.get("query")).get("altered"), 200):
            notices.append(f"brave searched for {altered!r}")
        extra: dict[str, Any] = {}
        if key := _callback_key(raw):
            rich = await self._rich(key, notices)
            if rich is not None:
                extra["rich"] = rich
                raw = {**raw, "rich_results": rich}
        results = parsing.objects(parsing.mapping(raw.get("web")).get("results"))
        return self.answer(
            request,
            map(web_result, results),
            raw=raw,
            extra=extra,
            notices=notices,
            charges=self.price,
        )

    async def llm_context(
        self, request: SearchRequest, *, maximum_number_of_tokens: int = 8_192, context_threshold_mode: str = "balanced"
    ) -> SearchResults:
        """Return pages with the passages that fit the query, uncut: the first as description, the rest as extra snippets.

        `request.count` pages are considered (Brave's own default is 20); the passages have about
        `maximum_number_of_tokens` tokens (1,024 to 32,768) together. `context_threshold_mode` is strict, balanced, lenient
        or disabled: how well a passage must fit.

        Raises:
            MissingKeyError, ConfigError, ProviderError: as for `search`.
        """
        query, notices = self.clipped(request.query, MAX_CHARS, MAX_WORDS)
        params = context_parameters(request, query, maximum_number_of_tokens, context_threshold_mode)
        raw = self.readable(await self._ask("/res/v1/llm/context", params, TIMEOUT_S, request=request))
        results = list(context_results(raw))
        charges = (Charge("brave", "context"),)
        return self.answer(request, results, raw=raw, notices=notices, charges=charges)

    async def _ask(
        self,
        path: str,
        params: Mapping[str, Any],
        timeout_s: float,
        retries: int = 2,
        request: SearchRequest | None = None,
    ) -> Any:
        """Return the JSON of an endpoint: by GET, or by POST when inline goggles are too long for a request line.

        The place of `request` goes along.
        """
        goggles = params.get("goggles") or []
        long = sum(map(len, goggles)) > _LONG_GOGGLES
        pairs = [(name, value) for name, value in params.items() if name != "goggles"]
        body = {**dict(pairs), "goggles": goggles} if long else None
        return await self.http.request_json(
            "POST" if long else "GET",
            self.url(path),
            provider=self.name,
            params=None if long else [*pairs, *(("goggles", goggle) for goggle in goggles)],
            json=body,
            headers={"X-Subscription-Token": self.key(), **(place_headers(request.place, request.country) if request else {})},
            timeout_s=timeout_s,
            retries=retries,
            explain=self.explain,
        )

    async def _rich(self, key: str, notices: list[str]) -> dict[str, Any] | None:
        """Return the rich result behind a callback key, None (and a notice) when it could not be had."""
        try:
            answer = await self._ask("/res/v1/web/rich", {"callback_key": key}, TIMEOUT_S / 2, retries=0)
        except ProviderError as exc:
            notices.append(f"the rich result could not be had: {exc}")
            return None
        return dict(answer) if isinstance(answer, dict) and answer.get("results") else None

    def explain(self, response: HttpResponse) -> Reason:
        """Return why Brave refused: a refused key, which rate limit was passed, or which parameter is wrong."""
        error = error_of(response)
        code = parsing.text(error.get("code"), 80)
        if code == "SUBSCRIPTION_TOKEN_INVALID":
            return Reason(f"the key was refused ({code}); {self.how_to_set()}")
        if response.status == 429:
            return rate_limit(error, response.headers)
        reason = super().explain(response)
        return Reason("; ".join([reason.text, *wrong_parameters(error)]), reason.retry_after)


def web_parameters(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the parameters of a web search."""
    always = {"extra_snippets": "true", "enable_rich_callback": "1", "text_decorations": "false"}
    return {**shared_parameters(request, query, count), **always}


def web_result(item: Mapping[str, Any]) -> SearchResult | None:
    """Return one of `web.results`; the date is `page_age` (`age` is words for people and may differ by days)."""
    return parsing.hit(
        item.get("title"),
        item.get("url"),
        item.get("description"),
        parsing.iso_date(item.get("page_age")),
        item.get("extra_snippets"),
    )


def _callback_key(raw: Mapping[str, Any]) -> str:
    hint = parsing.mapping(parsing.mapping(raw.get("rich")).get("hint"))
    key = hint.get("callback_key")
    return key if isinstance(key, str) else ""
