"""Wikipedia: the engine that needs no key. Finds articles and gives their introductions to read.

Wire facts: www.mediawiki.org, "API:Search" and "Extension:TextExtracts", and the rate-limit announcement of 2026-03; read
2026-11. At most three requests at once, a User-Agent with a contact, and Retry-After obeyed by handing on at once.

The search wants every word to be in the article, so a question as people ask it finds nothing: for English, question and
filler words are taken out ("Who is the CEO of OpenAI?" is searched as "CEO OpenAI"), and when even that finds nothing,
articles with some of the words are taken. Queries with operators (quotes, `intitle:`, OR …) are left as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar
from urllib.parse import quote

from ipy_websearch.errors import ProviderError
from ipy_websearch.http.loops import PerLoop
from ipy_websearch.http.places import Places
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderInfo, SearchRequest
from ipy_websearch.providers.engine import Engine
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.text import visible
from ipy_websearch.usage import Charge

TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 3.0
MAX_CHARS = 300
MAX_EXTRACTS = 20

_FILLER = re.compile(
    r"(?:a|about|an?|and|any|are|as|at|be|been|but|by|can|could|did|do|does|for|from|give|had|ha[sv]e?|how|if?|in|into|is|its?|"
    r"list|many|me|much|my|o[fn]|or|please|should|tell|tha[nt]|the|their|there|these|this|those|to|us|was|we|were|what|when|"
    r"where|which|who|whom|whose|why|will|with|would|you|your)(?:['’]s)?",
    re.IGNORECASE,
)
_OPERATOR = re.compile(r'"|\b(?:OR|AND|NOT)\b|\b[a-z]+:\S|(?:^|\s)-\w')
_PUNCTUATION = re.compile(r"[^\w\s'’&+#./-]|[./-](?=\s|$)|(?<=\s)['’](?=\s)")

AT_ONCE = 3
"""How many requests Wikipedia takes at once from one asker."""

_places: PerLoop[Places] = PerLoop(lambda: Places(AT_ONCE))


def places() -> Places:
    """Return the places of the running loop; one that shares them with other processes gives them another number."""
    return _places.get()


class WikipediaProvider(Engine):
    """Asks the search of one language's Wikipedia."""

    name: ClassVar[str] = "wikipedia"
    info: ClassVar[ProviderInfo] = PROVIDERS["wikipedia"]
    price = (Charge("wikipedia", "search", usd=Decimal(0)),)

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return articles: the description is what matched, the extra snippets are the article's introduction.

        `published_date` is always None: Wikipedia knows the last edit only, which is in `extra["last_edited"]` by
        address.

        Raises:
            ProviderError: Wikipedia refused, failed or could not be reached.
        """
        language = _language(request.language)
        notices = self.unsupported(request, "goggles", "place", "freshness", "country", "safe_search")
        if request.allowed_domains and not parsing.host_matches(_page_address(language, "X"), request.allowed_domains):
            notices.append(f"wikipedia has no pages of {', '.join(request.allowed_domains)}")
            return self.answer(request, (), raw=None, notices=notices)
        words, clipped = self.clipped(search_words(request.query, language), MAX_CHARS)
        raw = await self._find(words, request.count, language)
        if not _found(raw) and (looser := _any_of(words)):
            raw = await self._find(looser, request.count, language)
            if _found(raw):
                notices.append(f"no article has all of the words {words!r}; these have some of them")
        pages = await self._introductions(_found(raw), language, notices)
        elsewhere = "{lang}" not in self.info.address(self.keys)
        results = [_result(item, pages.get(_page_id(item), {}), language, elsewhere) for item in _found(raw)]
        edited = {
            result.url: item.get("timestamp")
            for result, item in zip(results, _found(raw), strict=True)
            if result is not None and parsing.iso_date(item.get("timestamp"))
        }
        return self.answer(
            request,
            results,
            raw=raw,
            notices=[*notices, *clipped],
            extra={"last_edited": edited} if edited else None,
            charges=self.price,
        )

    async def _find(self, words: str, count: int, language: str) -> dict[str, Any]:
        return await self._ask(
            {
                "list": "search",
                "srsearch": words,
                "srlimit": count,
                "srnamespace": 0,
                "srprop": "snippet|timestamp|wordcount",
                "srinfo": "totalhits|suggestion",
            },
            language,
        )

    async def _introductions(self, found: list[dict[str, Any]], language: str, notices: list[str]) -> dict[int, dict[str, Any]]:
        """Return the pages with their introductions by page id; none (and a notice) when they could not be had."""
        ids = [str(_page_id(item)) for item in found[:MAX_EXTRACTS] if _page_id(item)]
        if not ids:
            return {}
        wanted = {"prop": "extracts|info", "inprop": "url", "exintro": 1, "explaintext": 1, "exlimit": MAX_EXTRACTS}
        try:
            raw = await self._ask({**wanted, "pageids": "|".join(ids)}, language)
        except ProviderError as exc:
            notices.append(f"the articles' introductions could not be had: {exc}")
            return {}
        query = parsing.mapping(raw.get("query"))
        return {_page_id(page): page for page in parsing.objects(query.get("pages"))}

    async def _ask(self, params: Mapping[str, Any], language: str) -> dict[str, Any]:
        async with places():
            raw = await self.http.request_json(
                "GET",
                self.url("/w/api.php").replace("{lang}", language),
                provider=self.name,
                params={"action": "query", "format": "json", "formatversion": 2, **params},
                timeout_s=TIMEOUT_S,
                connect_timeout_s=CONNECT_TIMEOUT_S,
            )
        answer = self.readable(raw)
        if "error" in answer:  # MediaWiki reports its errors with status 200
            error = parsing.mapping(answer["error"])
            code, info = parsing.text(error.get("code"), 80), parsing.text(error.get("info"), 200)
            raise self.failure(f"{info or 'an error'} ({code})", status=429 if code == "ratelimited" else 200)
        return answer


def search_words(query: str, language: str) -> str:
    """Return what to search for: the query without punctuation and, in English, without question and filler words."""
    if _OPERATOR.search(query):
        return query
    words = _PUNCTUATION.sub(" ", query).split()
    if language == "en":
        words = [word for word in words if not _FILLER.fullmatch(word)] or words
    return " ".join(words) or query


def _any_of(words: str) -> str:
    """Return a search for articles with some of the words, "" when that makes no difference."""
    parts = words.split()
    return " OR ".join(parts) if len(parts) > 1 and not _OPERATOR.search(words) else ""


def _language(code: str) -> str:
    """Return the subdomain for a language code: its letters before the hyphen ("pt-BR" → "pt"), "en" for none."""
    letters = code.lower().partition("-")[0]
    return letters if re.fullmatch(r"[a-z]{2,3}", letters) and letters != "all" else "en"


def _found(raw: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(parsing.objects(parsing.mapping(raw.get("query")).get("search")))


def _page_id(item: Mapping[str, Any]) -> int:
    value = item.get("pageid")
    return value if isinstance(value, int) else 0


def _page_address(language: str, title: str) -> str:
    return f"https://{language}.wikipedia.org/wiki/{quote(title.replace(' ', '_'))}"


def _result(item: Mapping[str, Any], page: Mapping[str, Any], language: str, elsewhere: bool) -> SearchResult | None:
    """Return one article; its address is Wikipedia's, or what another MediaWiki (`elsewhere`) says its own is."""
    title = parsing.text(item.get("title"), 500)
    if not title:
        return None
    extract = page.get("extract")
    paragraphs = visible(extract).split("\n") if isinstance(extract, str) else []
    return parsing.hit(
        title,
        (elsewhere and parsing.address(page.get("fullurl"))) or _page_address(language, title),
        item.get("snippet") or next(iter(paragraphs), ""),
        extra_snippets=paragraphs,
    )
