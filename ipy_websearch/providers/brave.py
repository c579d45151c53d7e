"""Brave Search: the web index, rich results (weather, stocks, conversions …) fetched along, and LLM Context.

Wire facts: api-dashboard.search.brave.com, "Web search", "Rich results", "LLM context", "Rate limiting", and
brave/brave-search-skills, all read 2026-11. `extra_snippets` and `enable_rich_callback` are always sent; `text_decorations` is
off, since its tags would be removed anyway. `goggles` is the parameter, `goggles_id` is deprecated. Only answered requests are
billed, LLM Context like a search; no source says that the call for the rich result is billed apart, so it is not booked.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.http.response import HttpResponse, Reason
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import Engine, SearchRequest
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.text import visible
from ipy_websearch.usage import Charge

CONTEXT_MODES = ("strict", "balanced", "lenient", "disabled")
MIN_TOKENS, MAX_TOKENS = 1_024, 32_768

# A request line longer than this is refused by many servers; the endpoints take the same parameters as a JSON body.
_LONG_GOGGLES = 4_000
_ALWAYS = {"extra_snippets": "true", "enable_rich_callback": "1", "text_decorations": "false"}
# What one LLM Context call may hold beside the number of tokens: these fit every token limit that can be asked for.
_CONTEXT = {"maximum_number_of_urls": 20, "maximum_number_of_snippets": 50, "maximum_number_of_tokens_per_url": 4_096}
# Brave's own spellings of languages (its `search_lang` list); all others are two-letter codes as they are.
_LANGUAGES = {"ja": "jp", "zh": "zh-hans", "zh-cn": "zh-hans", "zh-tw": "zh-hant", "pt": "pt-pt", "no": "nb"}


class BraveProvider(Engine):
    """Asks Brave's web search and its LLM Context."""

    name = "brave"
    timeout_s = 10.0
    max_chars, max_words, max_count = 400, 50, 20
    options = ("result_filter", "spellcheck", "ui_lang", "units", "operators")
    price = (Charge("brave", "search"),)

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the web results of one search; rich data is in `extra["rich"]` when Brave has some.

        Raises:
            MissingKeyError: BRAVE_API_KEY is not set.
            ConfigError: an inline goggle is faulty.
            ProviderError: Brave refused, failed or could not be reached.
        """
        query, count, notices = self.fitted(request)
        params = {**_parameters(request, query, count), **_ALWAYS, **self.chosen}
        raw = await self._send("/res/v1/web/search", params, request)
        if altered := parsing.text(parsing.at(raw, "query", "altered"), 200):
            notices.append(f"brave searched for {altered!r}")
        rich = await self._rich(raw, notices)
        results = parsing.objects(parsing.at(raw, "web", "results"))
        whole = {**raw, "rich_results": rich} if rich else raw
        return self.answer(request, map(_result, results), whole, notices, extra={"rich": rich})

    async def llm_context(
        self, request: SearchRequest, *, maximum_number_of_tokens: int = 8_192, context_threshold_mode: str = "balanced"
    ) -> SearchResults:
        """Return pages with the passages that fit the query, uncut: the first as description, the rest as extra snippets.

        `request.count` pages are considered (Brave's own default is 20); the passages have about `maximum_number_of_tokens`
        tokens (1,024 to 32,768) together. `context_threshold_mode`, how well a passage must fit, is strict, balanced, lenient
        or disabled.

        Raises:
            MissingKeyError, ConfigError, ProviderError: as for `search`.
        """
        tokens, mode = maximum_number_of_tokens, context_threshold_mode
        if not MIN_TOKENS <= tokens <= MAX_TOKENS:
            raise ConfigError(f"maximum_number_of_tokens is {tokens}; it must be between {MIN_TOKENS} and {MAX_TOKENS}")
        if mode not in CONTEXT_MODES:
            raise ConfigError(f"context_threshold_mode is {mode!r}; it must be one of {', '.join(CONTEXT_MODES)}")
        query, _, notices = self.fitted(request)
        limits = {"maximum_number_of_tokens": tokens, "context_threshold_mode": mode}
        params = {**_parameters(request, query, request.count), **_CONTEXT, **limits}
        raw = await self._send("/res/v1/llm/context", params, request)
        cut = [notice for notice in notices if "the query was cut" in notice]  # this endpoint gives up to 50 results
        return self.answer(request, _context_results(raw), raw, cut, charges=(Charge("brave", "context"),))

    async def _send(
        self, path: str, params: Mapping[str, Any], request: SearchRequest | None = None, **options: Any
    ) -> dict[str, Any]:
        """Return the answer of an endpoint: by GET, or by POST when inline goggles are too long for a request line."""
        headers = {"X-Subscription-Token": self.key(), **(_place_headers(request) if request else {})}
        goggles = params.get("goggles", [])
        if sum(map(len, goggles)) > _LONG_GOGGLES:
            return await self.ask("POST", path, json=dict(params), headers=headers, **options)
        pairs = [(name, value) for name, value in params.items() if name != "goggles"]
        pairs += [("goggles", goggle) for goggle in goggles]
        return await self.ask("GET", path, params=pairs, headers=headers, **options)

    async def _rich(self, raw: Mapping[str, Any], notices: list[str]) -> dict[str, Any] | None:
        """Return the rich result that an answer points to, None when there is none, or (with a notice) it cannot be had."""
        key = parsing.at(raw, "rich", "hint", "callback_key")
        if not key or not isinstance(key, str):
            return None
        try:
            answer = await self._send("/res/v1/web/rich", {"callback_key": key}, timeout_s=self.timeout_s / 2, retries=0)
        except ProviderError as exc:
            notices.append(f"the rich result could not be had: {exc}")
            return None
        return dict(answer) if answer.get("results") else None

    def refusal(self, response: HttpResponse) -> Reason:
        """Return why Brave refused: a refused key (401 or 422, told by its code), which rate limit, which parameter."""
        error: dict[str, Any] = {}
        with suppress(ValueError):
            error = parsing.mapping(parsing.mapping(response.json()).get("error"))
        code = parsing.text(error.get("code"), 80)
        if code == "SUBSCRIPTION_TOKEN_INVALID":
            return self.refused_key(code)
        if response.status == 429:
            return _rate_limit(error, response.headers)
        words, wait, reason = super().refusal(response)
        faults = parsing.objects(parsing.at(error, "meta", "errors"))  # pydantic's: loc, msg, type
        return Reason("; ".join([words, *filter(None, map(_wrong_parameter, faults))]), wait, reason)


def _parameters(request: SearchRequest, query: str, count: int) -> dict[str, Any]:
    """Return the parameters that every search takes; `goggles` is a list, the others are single values."""
    language = request.language.lower()
    return parsing.present(
        q=query,
        count=count,
        freshness=request.freshness,
        country=request.country_code or request.country.upper(),
        search_lang="" if language == "all" else _LANGUAGES.get(language, language),
        safesearch=request.safe_search,
        goggles=_goggles(request),
    )


def _goggles(request: SearchRequest) -> list[str]:
    """Return the goggles of a request; their rules are loaded only where there are some, or lists of domains."""
    if not (request.goggles or request.allowed_domains or request.blocked_domains):
        return []
    from ipy_websearch.providers.goggles import goggle_parameters

    return goggle_parameters(request)


def _place_headers(request: SearchRequest) -> dict[str, str]:
    """Return the headers for a place; header values are ASCII, so "São Paulo" is sent as "Sao Paulo"."""
    place = request.place
    if not place:
        return {}
    is_code = place.region.isalnum() and place.region.isupper() and len(place.region) <= 3
    headers = {
        "X-Loc-City": place.city,
        "X-Loc-State" if is_code else "X-Loc-State-Name": place.region,
        "X-Loc-Timezone": place.timezone,
        "X-Loc-Country": request.country_code,
    }
    folded = {name: unicodedata.normalize("NFKD", value).encode("ascii", "ignore") for name, value in headers.items()}
    texts = {name: "".join(filter(str.isprintable, value.decode())).strip() for name, value in folded.items()}
    return {name: value for name, value in texts.items() if value}


def _result(item: Mapping[str, Any]) -> SearchResult | None:
    """Return one of `web.results`; the date is `page_age` (`age` is words for people and may differ by days)."""
    published = parsing.moment(item.get("page_age"))
    return parsing.hit(item.get("title"), item.get("url"), item.get("description"), published, item.get("extra_snippets"))


def _context_results(raw: Mapping[str, Any]) -> Iterator[SearchResult]:
    """Yield the pages of an LLM Context answer: the first passage as the description, all others as extra snippets."""
    sources = parsing.mapping(raw.get("sources"))
    grounding = parsing.mapping(raw.get("grounding"))
    listed = [grounding.get("generic"), [grounding.get("poi")], grounding.get("map")]
    for page in (page for pages in listed for page in parsing.objects(pages)):
        passages = [passage for passage in map(_passage, parsing.items(page.get("snippets"))) if passage]
        if not (url := parsing.address(page.get("url"))):
            continue
        source = parsing.mapping(sources.get(str(page["url"])))
        title = parsing.text(page.get("title") or source.get("title") or page.get("name"), 500)
        # `age` is null or [long form, ISO date, "N days ago"], sometimes shorter.
        published = parsing.moment(*parsing.items(source.get("age")))
        yield SearchResult(title, url, passages[0] if passages else "", published, tuple(passages[1:]))


def _passage(snippet: Any) -> str:
    """Return the words of a snippet in its own lines (a string, maybe JSON text; an object with a text is understood too)."""
    words = snippet.get("text") if isinstance(snippet, dict) else snippet
    return visible(words).strip() if isinstance(words, str) else ""


def _wrong_parameter(fault: Mapping[str, Any]) -> str:
    """Return "country: Input should be …" for an entry of a validation error."""
    where = ".".join(str(part) for part in parsing.items(fault.get("loc"))[-1:])
    return ": ".join(filter(None, (where, parsing.text(fault.get("msg"), 120))))


def _rate_limit(error: Mapping[str, Any], headers: Mapping[str, str]) -> Reason:
    """Return which of the two limits was passed, per second or per month, and when it is over.

    `X-RateLimit-Reset` and `-Remaining` list the windows in the order of `X-RateLimit-Policy`: second, then month. A limit of 0
    means that the plan has none.
    """
    meta = parsing.mapping(error.get("meta"))
    resets, left, limits = (_numbers(headers.get(f"x-ratelimit-{name}", "")) for name in ("reset", "remaining", "limit"))
    month = _used_up(meta, "quota") or (left[1:2] == [0] and limits[1:2] != [0])
    limit = parsing.number(meta.get("quota_limit" if month else "rate_limit"))
    if not month:
        shown = f" ({limit:.0f})" if limit else ""
        return Reason(f"the limit per second{shown} was passed", resets[0] if resets else 1.0, "rate")
    shown = f" ({limit:,.0f} requests)" if limit else ""
    return Reason(f"the plan's limit per month{shown} is used up", resets[1] if len(resets) > 1 else None, "quota")


def _used_up(meta: Mapping[str, Any], name: str) -> bool:
    limit, current = parsing.number(meta.get(f"{name}_limit")), parsing.number(meta.get(f"{name}_current"))
    return bool(limit and current is not None and current >= limit)


def _numbers(header: str) -> list[float]:
    parts = (part.strip() for part in header.split(","))
    return [float(part) for part in parts if part.replace(".", "", 1).isdecimal()]
