"""Brave Search: the web index, rich results (weather, stocks, conversions …) fetched along, and LLM Context.

Wire facts: api-dashboard.search.brave.com, "Web search", "Rich results", "LLM context", "Rate limiting", and
brave/brave-search-skills, all read 2026-11. `extra_snippets` and `enable_rich_callback` are always sent; `text_decorations` is
off, since its tags would be removed anyway. `goggles` is the parameter, `goggles_id` is deprecated. Only answered requests are
billed, LLM Context like a search; no source says that the call for the rich result is billed apart, so it is not booked.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any

from ipy_websearch.errors import LONG_WAIT_S, ConfigError, ProviderError
from ipy_websearch.http.client import HttpResponse, Reason, retry_after
from ipy_websearch.providers import base
from ipy_websearch.results import Charge, SearchResult, SearchResults
from ipy_websearch.settings import did_you_mean
from ipy_websearch.text import visible

# What Brave takes; it refuses a search with any other value (its error texts, in brave/brave-search-mcp-server issue 74 and
# openclaw/openclaw issues 18795 and 37260, read 2026-11).
_COUNTRIES = frozenset(
    "AR AT AU BE BR CA CH CL CN DE DK ES FI FR GB GR HK ID IN IT JP KR MX MY NL NO NZ PH PL PT RU SA SE TR TW US ZA".split()
)
_LANGUAGES = frozenset(
    "ar bg bn ca cs da de el en en-gb es et eu fi fr gl gu he hi hr hu is it jp kn ko lt lv ml mr ms nb nl pa pl pt-br pt-pt "
    "ro ru sk sl sr sv ta te th tr uk vi zh-hans zh-hant".split()
)
_SPELLINGS = {"ja": "jp", "no": "nb", "pt": "pt-pt", "zh": "zh-hans", "zh-tw": "zh-hant", "zh-hk": "zh-hant"}


class BraveProvider(
    base.Engine,
    name="brave",
    key_header="X-Subscription-Token",
    timeout_s=10.0,
    max_chars=400,
    max_words=50,
    max_count=20,
    hits_at="web.results",
    fields={"published_date": "page_age"},  # `age` is words for people and may differ by days
    signs=("query", "type"),
    price=(Charge("brave", "search"),),
    refusals=(base.Refusal(r'4.*"code"\s*:\s*"SUBSCRIPTION_TOKEN_INVALID"', "key", base.KEY_REFUSED),),  # 401 or 422
):
    """Asks Brave's web search and its LLM Context."""

    async def search(self, request: base.SearchRequest) -> SearchResults:
        """Return the web results of one search; rich data is in `extra["rich"]` when there is some and no domains are set.

        Raises:
            MissingKeyError: BRAVE_API_KEY is not set.
            ProviderError: Brave refused, failed or could not be reached.
        """
        query, count, notices = self.fitted(request)
        params = {
            **self.parameters(request, query, count, notices),
            "extra_snippets": "true",
            "enable_rich_callback": "1",
            "text_decorations": "false",
            **self.context.options,
        }
        raw = await self._send("/res/v1/web/search", params, headers=_place_headers(request))
        if altered := base.text(base.at(raw, "query.altered"), 200):
            notices.append(f"brave searched for {altered!r}")
        rich = None if request.allowed_domains else await self._rich(raw, notices)  # it is on none of them
        whole = {**raw, "rich_results": rich} if rich else raw
        return self.answer(request, map(self.result, self.hits(raw)), whole, notices, extra={"rich": rich})

    async def llm_context(self, request: base.SearchRequest, *, tokens: int = 8_192, mode: str = "balanced") -> SearchResults:
        """Return pages with the passages that fit the query, uncut: the first as description, the rest as extra snippets.

        `request.count` pages are considered (Brave's own default is 20, the most 50); the passages have about `tokens` tokens
        (1,024 to 32,768) together. `mode`, how well a passage must fit, is strict, balanced, lenient or disabled.

        Raises:
            MissingKeyError, ConfigError, ProviderError: as for `search`.
        """
        query, _, notices = self.fitted(replace(request, count=1))  # the limit of a search does not bind this endpoint
        params = {
            **self.parameters(request, query, request.count, notices),
            "maximum_number_of_tokens": tokens,
            "context_threshold_mode": mode,
            # These fit every number of tokens that can be asked for.
            "maximum_number_of_urls": 20,
            "maximum_number_of_snippets": 50,
            "maximum_number_of_tokens_per_url": 4_096,
        }
        raw = await self._send("/res/v1/llm/context", params, headers=_place_headers(request))
        self.part(raw, dict, "grounding")
        return self.answer(request, _context_results(raw), raw, notices, charges=(Charge("brave", "context"),))

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the parameters that every search takes; `goggles` is a list, the others are single values."""
        country, language = request.country_code, _language(request)
        if country and country not in _COUNTRIES:
            notices.append(f"brave knows no country {country!r}; the results of all countries were searched")
            country = "ALL"
        if request.language_code and not language:
            notices.append(f"brave knows no language {request.language!r}; ignored")
        return base.present(
            q=query,
            count=count,
            freshness=request.freshness,
            country=country or request.country.upper(),
            search_lang=language,
            safesearch=request.safe_search,
            goggles=goggle_parameters(request),
        )

    async def _send(self, path: str, params: base.Json, **options: Any) -> base.Json:
        """Return the answer of an endpoint: by GET, or by POST when inline goggles are too long for a request line."""
        # Many servers refuse a request line of more; the endpoints take the same parameters as a JSON body.
        if sum(map(len, params.get("goggles", ()))) > 4_000:
            return await self.ask(params, path, **options)
        pairs = [(name, one) for name, value in params.items() for one in (value if isinstance(value, list) else [value])]
        return await self.ask(pairs, path, method="GET", **options)

    async def _rich(self, raw: base.Json, notices: list[str]) -> base.Json | None:
        """Return the rich result that an answer points to, None when there is none, or (with a notice) it cannot be had."""
        key = base.at(raw, "rich.hint.callback_key")
        if not key or not isinstance(key, str):
            return None
        try:
            answer = await self._send("/res/v1/web/rich", {"callback_key": key}, timeout_s=self.timeout_s / 2, retries=0)
        except ProviderError as exc:
            notices.append(f"the rich result could not be had: {exc}")
            return None
        return dict(answer) if answer.get("results") else None

    def refusal(self, response: HttpResponse) -> Reason:
        """Return why Brave refused, and which of its rate limits was passed."""
        return _rate_limit(response) if response.status == 429 else super().refusal(response)


def _language(request: base.SearchRequest) -> str:
    """Return the language, with its region where Brave tells regions apart; "" for none, or one that Brave does not know."""
    codes = (request.language.lower(), request.language_code)
    return next((code for code in (_SPELLINGS.get(code, code) for code in codes) if code in _LANGUAGES), "")


def _place_headers(request: base.SearchRequest) -> dict[str, str]:
    """Return the headers for a place; header values are ASCII, so "São Paulo" is sent as "Sao Paulo"."""
    city, region, zone = request.place
    headers = {
        "X-Loc-City": city,
        "X-Loc-State" if region.isupper() and len(region) <= 3 else "X-Loc-State-Name": region,
        "X-Loc-Timezone": zone,
        "X-Loc-Country": request.country_code if any(request.place) else "",
    }
    return base.present(
        **{
            name: unicodedata.normalize("NFKD", base.text(value)).encode("ascii", "ignore").decode().strip()
            for name, value in headers.items()
        }
    )


def _context_results(raw: base.Json) -> Iterator[SearchResult]:
    """Yield the pages of an LLM Context answer: the first passage as the description, all others as extra snippets."""
    for page in base.values(raw, "grounding.generic grounding.poi grounding.map"):
        if url := base.address(base.at(page, "url")):
            texts = (visible(snippet).strip() for snippet in base.values(page, "snippets") if isinstance(snippet, str))
            passages = list(filter(None, texts))
            sources = raw.get("sources")
            about = {**page, "source": sources.get(page["url"]) if isinstance(sources, dict) else None}
            title = base.text(base.values(about, "title source.title name"), 500)
            # `age` is null or [long form, ISO date, "N days ago"], sometimes shorter.
            published = base.moment(*base.values(about, "source.age"))
            yield SearchResult(title, url, "".join(passages[:1]), published, tuple(passages[1:]))


def _rate_limit(response: HttpResponse) -> Reason:
    """Return which of the two limits was passed, per second or per month, and when it is over.

    `X-RateLimit-Reset` and `-Remaining` list the windows in the order of `X-RateLimit-Policy`: second, then month. A limit of 0
    means that the plan has none.
    """
    resets, left, limits = (
        [float(window) for window in re.findall(r"\d+(?:\.\d+)?", response.headers.get(f"x-ratelimit-{name}", ""))]
        for name in ("reset", "remaining", "limit")
    )
    meta = None
    with suppress(ValueError):  # the body is no JSON
        meta = base.at(response.json(), "error.meta")
    quota, used = (base.number(base.at(meta, name)) or 0.0 for name in ("quota_limit", "quota_current"))
    wait = retry_after(response.headers) or 0.0
    is_month = (quota and used >= quota) or (left[1:2] == [0] and limits[1:2] != [0])
    wait = max([wait, *(resets[1:2] if is_month else resets[:1])])  # 0 when nothing says when it is over
    until = f"; {base.ask_again(wait)}" if wait or not is_month else ""
    if is_month or wait > LONG_WAIT_S:
        return Reason(f"the plan's limit{' per month' if is_month else ''} is used up{until}", wait or None, "quota")
    return Reason(f"the limit per second was passed{until}", wait or 1.0, "rate")


# --- goggles ------------------------------------------------------------------------------------------------------------
#
# Brave's rules for re-ranking: addresses, inline text, or names of our catalogue. `$discard` with a pattern or a site goes
# before boosts, and these before downranks; a bare `$discard` drops what no other rule matched
# (github.com/brave/goggles-quickstart, getting-started.md, read 2026-11).


def goggle_parameters(request: base.SearchRequest) -> list[str]:
    """Return the values of the repeatable `goggles` parameter for a request: addresses as they are, and everything inline (the
    request's own rules and those its domain lists amount to) as one text."""
    addresses = [goggle for goggle in request.goggles if re.fullmatch(r"https?://\S+", goggle)]
    rules = [goggle for goggle in request.goggles if goggle not in addresses]
    if request.allowed_domains:
        rules += ["$discard", *(f"$boost,site={domain}" for domain in request.allowed_domains)]
    rules += [f"$discard,site={domain}" for domain in request.blocked_domains]
    return [*addresses, "\n".join(rules)] if rules else addresses


@dataclass(frozen=True, slots=True)
class Goggle:
    """One goggle of the catalogue.

    `url` is the address of a hosted one ("": it is inline), `rules` the text of an inline one. A hosted one is `known` when
    Brave or its author names it as submitted: only such are recommended to the model.
    """

    name: str
    about: str
    url: str = ""
    rules: str = ""
    known: bool = False


@cache
def catalogue() -> dict[str, Goggle]:
    """Return every goggle by name, ours first."""
    import tomllib

    text = files("ipy_websearch.providers").joinpath("goggles.toml").read_text(encoding="utf-8")
    entries = (Goggle(**{**entry, "rules": entry.get("rules", "").strip()}) for entry in tomllib.loads(text)["goggle"])
    return {goggle.name: goggle for goggle in entries}


def resolve(goggle: str) -> str:
    """Return the address or the inline rules that `goggle` means: a name of the catalogue in any case, an address, or rules.

    Raises:
        ConfigError: there is no goggle of that name; the message says which was meant, and which there are.
    """
    text, known = goggle.strip(), catalogue()
    wanted = re.sub(r"[ _]", "-", text.casefold())
    if wanted in known:
        return known[wanted].url or known[wanted].rules
    if not re.fullmatch(r"[^\W_]+(?:[ _-][^\W_]+)*", text):
        return text
    raise ConfigError(
        f"there is no goggle {text!r}{did_you_mean(wanted, known)}; there are {', '.join(known)}; "
        "otherwise give an address or rules such as '$boost=3,site=docs.python.org'"
    )
