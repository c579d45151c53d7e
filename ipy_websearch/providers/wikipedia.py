"""Wikipedia: the engine that needs no key. Finds articles and gives their introductions to read.

Wire facts: www.mediawiki.org, "API:Search" and "Extension:TextExtracts", and the rate-limit announcement of 2026-03; read
2026-11. At most three requests at once, a User-Agent with a contact, and Retry-After obeyed by handing on at once.

The search wants every word to be in the article, so a whole question often finds nothing: English questions are searched by
their words of meaning ("Who is the CEO of OpenAI?" as "CEO OpenAI"), other queries as they are. When that finds nothing,
articles with some of the words are taken. Queries with operators (quotes, `intitle:`, OR …) are left alone.
"""

from __future__ import annotations

import asyncio
import re
from decimal import Decimal
from urllib.parse import quote

from ipy_websearch.errors import ProviderError
from ipy_websearch.providers import base
from ipy_websearch.results import Charge, SearchResult, SearchResults
from ipy_websearch.text import visible

# The languages of two letters that have an edition (pywikibot, families/wikipedia_family.py, read 2026-11).
EDITIONS = frozenset(
    "ab af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo es et "
    "eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi hr ht hu hy ia id ie ig ik io is it iu ja jv ka kg ki kk kl km kn "
    "ko ks ku kv kw ky la lb lg li ln lo lt lv mg mi mk ml mn mr ms mt my na ne nl nn no nv ny oc om or os pa pi pl ps pt "
    "qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty "
    "ug uk ur uz ve vi vo wa wo xh yi yo za zh zu".split()
)

_ASKS = re.compile(
    r"(?:am|are|can|could|did|do|does|give|had|has|have|how|is|please|should|show|tell|was|were|what|when|where|which|who|whom|"
    r"whose|why|will|would)(?:['’](?:s|re|d|ll))?",
    re.IGNORECASE,
)
_FILLER = re.compile(
    r"(?:a|about|an?|and|any|as|at|be|been|but|by|for|from|if?|in|into|it|its|list|many|me|much|my|o[fn]|or|tha[nt]|the|their|"
    r"there|these|this|those|to|us|we|with|you|your)(?:['’]s)?|" + _ASKS.pattern,
    re.IGNORECASE,
)
_OPERATOR = re.compile(r'"|\b(?:OR|AND|NOT)\b|\b[a-z]+:\S|(?:^|\s)-\w')
_PUNCTUATION = re.compile(r"[^\w\s'’&+#./-]|[./-](?=\s|$)|(?<=\s)['’](?=\s)")


class WikipediaProvider(
    base.Engine,
    name="wikipedia",
    path="/w/api.php",
    method="GET",
    timeout_s=10.0,
    hits_at="query.search",
    fields={"url": "title"},
    max_chars=300,
    ignores=("goggles", "place", "freshness", "country", "safe_search"),
    price=(Charge("wikipedia", "search", usd=Decimal(0)),),
):
    """Asks the search of one language's Wikipedia."""

    def __init__(self, context: base.ProviderContext) -> None:
        super().__init__(context)
        self._turns = asyncio.Semaphore(3)  # requests at once, as its etiquette asks

    async def search(self, request: base.SearchRequest) -> SearchResults:
        """Return articles: the description is what matched, the extra snippets are the article's introduction.

        `published_date` is always None: Wikipedia knows the last edit only.

        Raises:
            ProviderError: Wikipedia refused, failed or could not be reached.
        """
        _, _, notices = self.fitted(request)
        language = {"": "en", "nb": "no"}.get(request.language_code, request.language_code)
        if language not in EDITIONS:
            notices.append(f"wikipedia has no edition in {request.language!r}; the English one was searched")
            language = "en"
        words = base.clip_query(search_words(request.query, language), self.max_chars)
        if request.allowed_domains and not base.host_matches(_page_address(language, "X"), request.allowed_domains):
            notices.append(f"wikipedia has no pages of {', '.join(request.allowed_domains)}")
            return self.answer(request, (), None, notices, charges=())
        raw = await self._find(words, request.count, language)
        found = self.hits(raw)
        telling = _words_of_meaning(words.split())
        if not found and len(telling) > 1 and not _OPERATOR.search(words):
            raw = await self._find(" OR ".join(telling), request.count, language)
            if found := self.hits(raw):
                notices.append(f"no article has all of the words {words!r}; these have some of them")
        pages = await self._introductions([str(item.get("pageid")) for item in found], language, notices)
        results = [_result(item, pages.get(str(item.get("pageid")), {}), language) for item in found]
        return self.answer(request, results, raw, notices)

    async def _find(self, words: str, count: int, language: str) -> base.Json:
        wanted = {"srnamespace": 0, "srprop": "snippet|wordcount", "srinfo": "totalhits"}
        return await self._get({"list": "search", "srsearch": words, "srlimit": count, **wanted}, language)

    async def _introductions(self, ids: list[str], language: str, notices: list[str]) -> dict[str, base.Json]:
        """Return the pages with their introductions by page id; none, and a notice, when that request fails."""
        ids = [page_id for page_id in ids if page_id.isdecimal()][:20]  # more extracts are not given at once
        wanted = {"prop": "extracts|info", "inprop": "url", "exintro": 1, "explaintext": 1, "exlimit": 20}
        try:
            raw = await self._get({**wanted, "pageids": "|".join(ids)}, language) if ids else {}
        except ProviderError as exc:
            notices.append(f"the articles' introductions are missing: {exc}")
            return {}
        return {str(page.get("pageid")): page for page in base.values(raw, "query.pages") if isinstance(page, dict)}

    async def _get(self, params: base.Json, language: str) -> base.Json:
        params = {"action": "query", "format": "json", "formatversion": 2, **params}
        async with self._turns:
            return await self.ask(params, language=language, connect_timeout_s=3.0)


def search_words(query: str, language: str) -> str:
    """Return the words to search for: the query without punctuation, and an English question without its filler words.

    >>> search_words("Who is the CEO of OpenAI?", "en"), search_words("The Who band", "en")
    ('CEO OpenAI', 'The Who band')
    """
    if _OPERATOR.search(query):
        return query
    words = _PUNCTUATION.sub(" ", query).split()
    # "Will Smith movies", "Who Framed Roger Rabbit" and "Can band" begin like questions, and are names.
    asks = query.rstrip().endswith("?") or (len(words) > 2 and bool(_ASKS.fullmatch(words[0])) and not words[1][0].isupper())
    if language == "en" and asks:
        words = _words_of_meaning(words) or words
    return " ".join(words) or query


def _words_of_meaning(words: list[str]) -> list[str]:
    """Return the words without fillers. One in capitals ("US", "IT"), or with a capital behind the first word ("The Who"), is a
    name, unless everything is in capitals."""
    case_tells = any(word[0].islower() for word in words)
    named = [word[0].isupper() and (at > 0 or (word.isupper() and len(word) > 1)) for at, word in enumerate(words)]
    return [word for word, is_name in zip(words, named, strict=True) if not _FILLER.fullmatch(word) or (case_tells and is_name)]


def _page_address(language: str, title: str) -> str:
    return f"https://{language}.wikipedia.org/wiki/{quote(title.replace(' ', '_'))}"


def _result(item: base.Json, page: base.Json, language: str) -> SearchResult | None:
    """Return one article; its address is the one that the page reports, which may be another MediaWiki's."""
    title, extract = base.text(item.get("title"), 500), page.get("extract")
    paragraphs = visible(extract).split("\n") if isinstance(extract, str) else []
    url = base.address(page.get("fullurl")) or (title and _page_address(language, title))
    return base.hit(title, url, item.get("snippet") or next(iter(paragraphs), ""), extra_snippets=paragraphs)
