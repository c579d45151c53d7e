"""The fake search engines: strict about keys, parameters and limits, scripted or answering by themselves.

    with Brave() as brave:
        brave.reply(results=[hit("https://a.example/", "A", "About A")])
        brave.fail(429)

With nothing queued, an engine makes up results for the query, as many as were asked for; `behave` takes a function from
the parameters to results or a whole body. What is refused goes into `refusals` and fails the test in `check` unless
`allow_refusals` is set. What each engine takes is
from its documents as of November 2026 (Brave: api-dashboard.search.brave.com; Wikipedia: mediawiki.org/wiki/API:Search).
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web
from hypothesis import strategies as st

from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.providers.base import ProviderContext, SearchRequest
from ipy_websearch.providers.router import create
from ipy_websearch.results import Charge, SearchResults
from tests.fakes.replies import WIRE
from tests.fakes.server import Handler, Received, Server, receive

JSON = dict[str, Any]
# What a parameter may be: a regular expression, whole numbers, the most entries of a list, or a JSON type; "" is anything.
Form = str | range | int | type
Hit = dict[str, Any]


def hit(
    url: str,
    title: str = "",
    description: str = "",
    *,
    date: str | None = None,
    extra: Sequence[str] = (),
    score: float | None = None,
) -> Hit:
    """One search result in the words all engines share; `date` is ISO, YYYY-MM-DD or with a time."""
    return {
        "url": url,
        "title": title or url,
        "description": description,
        "date": date,
        "extra": list(extra),
        "score": score,
    }


def made_up(query: str, count: int) -> list[Hit]:
    """Return `count` results for a query, the same ones every time."""
    slug = re.sub(r"\W+", "-", query.lower()).strip("-")[:40]
    return [
        hit(
            f"https://site{n}.example/{slug}",
            f"{query} ({n})",
            f"Page {n} says that {query} has {n} parts.",
            date=f"2026-10-{n % 28 + 1:02d}T08:00:00",
        )
        for n in range(1, count + 1)
    ]


@dataclass(slots=True)
class Answer:
    """One scripted answer: `results` in shared words, or a whole `body`; with a status, a delay, or a cut connection."""

    results: Sequence[Hit] | None = None
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    hang_up: bool = False
    fields: JSON = field(default_factory=dict)


class Refusal(Exception):
    """The engine refuses a request: `args` are the status, the body, and the reason for the test's author."""


class Engine(Server):
    """Base of the fake engines. A subclass says its paths, checks parameters and puts results into its own shape."""

    # Environment variable of the key; "" for engines without one.
    key_name = ""
    # Environment variable of the base address.
    url_name = ""
    path, method, key_header = "/search", "POST", "authorization"
    # The status with which a wrong parameter is refused.
    refused_with = 400
    # The parameters of a search; `query` and `count` (with its default) name two of them.
    fields: Mapping[str, Form] = {}
    query = "query"
    count: tuple[str, int] = ("limit", 10)

    def __init__(self) -> None:
        super().__init__()
        self.key = f"fake-{self.key_name.lower().replace('_', '-')}-of-the-tests"
        self.allow_refusals = False
        self.latency_s = 0.0
        self._queue: deque[Answer] = deque()
        self._behaviour: Callable[[JSON], Any] | None = None

    def reply(self, results: Sequence[Hit] | None = None, **settings: Any) -> None:
        """Queue one answer: results in shared words, or `body=`; also `status headers delay_s hang_up fields`.

        `fields` are put into the body beside the results.
        """
        self._queue.append(Answer(results, **settings))

    def fail(self, status: int, *, times: int = 1, headers: Mapping[str, str] | None = None, body: Any = None) -> None:
        """Queue an error, in the engine's own shape unless a body is given."""
        body = self.error_body(status) if body is None else body
        self._queue.extend([Answer(body=body, status=status, headers=dict(headers or {}))] * times)

    def behave(self, function: Callable[[JSON], Any] | None) -> None:
        """Let a function from the parameters answer whenever the queue is empty."""
        self._behaviour = function

    @property
    def queries(self) -> list[str]:
        """The search words of all searches, in order."""
        words = (request.values().get(self.query) for request in self.requests)
        return [str(entry) for entry in words if entry]

    @property
    def refusals(self) -> list[str]:
        """Why requests were refused, in order."""
        return [request.refusal for request in self.requests if request.refusal]

    def check(self) -> None:
        """Raise AssertionError for what a test should have noticed."""
        super().check()
        assert not self._queue, f"{len(self._queue)} answers queued for {type(self).__name__} were not asked for"
        assert self.allow_refusals or not self.refusals, f"{type(self).__name__} refused a request: {self.refusals}"

    def environment(self) -> dict[str, str]:
        """Return the variables that send the package here."""
        return {self.url_name: self.url} | ({self.key_name: self.key} if self.key_name else {})

    def error_body(self, status: int, message: str = "") -> Any:
        """Return an error body in the engine's own shape."""
        return {"error": {"code": status, "message": message or f"Error {status}"}}

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve one path."""
        return [(self.method, self.path, self.serve(self.look))]

    def shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        """Return a body with these results: they have the names of several engines at once."""
        results = [
            {
                "url": entry["url"],
                "title": entry["title"],
                **dict.fromkeys(("content", "snippet", "text"), entry["description"]),
                "highlights": [entry["description"], *entry["extra"]],
                "date": entry["date"] and entry["date"][:10],
                **dict.fromkeys(("publishedDate", "published_date"), entry["date"]),
                "score": entry["score"],
            }
            for entry in hits
        ]
        credits = 2 if values.get("search_depth") == "advanced" else 1
        return {"results": results, "usage": {"credits": credits}, "costDollars": {"total": 0.007}}

    def serve(self, look: Callable[[Received], Any], shape: Callable[[Sequence[Hit], JSON], JSON] | None = None) -> Handler:
        """Return the handler of one path.

        `look` refuses, or returns (query, count) for the script to answer, or an `Answer` of its own; `shape` makes the body
        out of results (None: as the class does it).
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            received = await receive(request)
            self.requests.append(received)
            try:
                seen = look(received)
            except Refusal as refusal:
                received.status, body, received.refusal = refusal.args
                return _respond(refusal.args[0], body, {})
            answer = seen if isinstance(seen, Answer) else self._next(received.values(), *seen)
            await asyncio.sleep(self.latency_s + answer.delay_s)
            if answer.hang_up and request.transport is not None:
                request.transport.abort()
                return web.Response()
            body = answer.body
            if body is None:
                body = (shape or self.shape)(list(answer.results or [])[: seen[1]], received.values()) | answer.fields
            received.status, received.answer = answer.status, body
            return _respond(answer.status, body, answer.headers)

        return handle

    def look(self, received: Received) -> tuple[str, int]:
        """Refuse what the engine does not take; return query and count."""
        values = self.checked(received, self.fields)
        name, usual = self.count
        return values[self.query], int(values.get(name, usual))

    def checked(self, received: Received, fields: Mapping[str, Form], required: str = "") -> JSON:
        """Check the key and every parameter; return the parameters."""
        values = received.values()
        if self.key_name and not self.has_key(received):
            raise Refusal(401, self.error_body(401), "the key is missing or wrong")
        wrong = [name for name, value in values.items() if name not in fields or not fits(value, fields[name])]
        if wrong or not values.get(required or self.query):
            name = [*wrong, required or self.query][0]
            raise self.invalid(name, f"{values.get(name)!r} is not {fields.get(name, 'known')}")
        return values

    def has_key(self, received: Received) -> bool:
        """Return True when the key is there."""
        scheme = "Bearer " if self.key_header == "authorization" else ""
        return received.headers.get(self.key_header) == scheme + self.key

    def invalid(self, name: str, why: str) -> Refusal:
        """Return the refusal of a parameter."""
        return Refusal(self.refused_with, self.error_body(self.refused_with, f"{name}: {why}"), f"{name}: {why}")

    def scripted(self, body: JSON) -> Answer:
        """Return the next scripted answer, or else this body."""
        return self._queue.popleft() if self._queue else Answer(body=body)

    def _next(self, values: JSON, query: str, count: int) -> Answer:
        if self._queue:
            return self._queue.popleft()
        made = self._behaviour(values) if self._behaviour else made_up(query, count)
        if isinstance(made, Answer):
            return made
        return Answer(body=made) if isinstance(made, dict) else Answer(made)


def _respond(status: int, body: Any, headers: Mapping[str, str]) -> web.Response:
    if isinstance(body, bytes | str):
        data = body if isinstance(body, bytes) else body.encode()
        return web.Response(body=data, status=status, headers=headers, content_type="text/html")
    return web.json_response(body, status=status, headers=headers)


def parameters(names: str, **forms: Form) -> dict[str, Form]:
    """Return the parameters that an engine takes: those that may be anything, and those of a form."""
    return dict.fromkeys(names.split(), "") | forms


def fits(value: Any, form: Form) -> bool:
    """Return whether a parameter has its form; numbers in a query string are text."""
    if isinstance(form, type):
        return isinstance(value, form)
    if isinstance(form, range):
        return str(value).isdigit() and int(value) in form
    if isinstance(form, int):
        return isinstance(value, list) and len(value) <= form
    return not form or (isinstance(value, str) and re.fullmatch(form, value) is not None)


# --- Brave -----------------------------------------------------------------------------------------------------------


class Brave(Engine):
    """Brave Search: web search, rich results and LLM context, as described on api-dashboard.search.brave.com."""

    key_name, url_name, key_header = "BRAVE_API_KEY", "BRAVE_BASE_URL", "x-subscription-token"
    query, count, refused_with = "q", ("count", 20), 422
    BOTH = parameters(
        "search_lang spellcheck goggles",
        country="ALL|[A-Za-z]{2}",
        safesearch="off|moderate|strict",
        freshness=r"|p[dwmy]|\d{4}-\d\d-\d\dto\d{4}-\d\d-\d\d",
    )
    fields = BOTH | parameters(
        "ui_lang text_decorations result_filter goggles_id units extra_snippets summary enable_rich_callback "
        "include_fetch_metadata operators",
        q=r"(?s)(?!\s*(\S+\s+){50}\S).{1,400}",
        count=range(1, 21),
        offset=range(10),
    )
    CONTEXT = BOTH | parameters(
        "enable_local enable_source_metadata",
        q=r"(?s)(?!\s*(\S+\s+){75}\S).{1,600}",
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
        self.rich: JSON = {}

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve the three paths, the searches to GET and POST."""
        return [
            ("*", "/res/v1/web/search", self.serve(self.look)),
            ("*", "/res/v1/llm/context", self.serve(self._look_context, self._shape_context)),
            ("GET", "/res/v1/web/rich", self.serve(self._look_rich)),
        ]

    def reply_rich(self, vertical: str, results: Sequence[JSON], hits: Sequence[Hit] = ()) -> None:
        """Queue a web search whose rich data wait behind a callback key."""
        where = {"vertical": vertical, "callback_key": "86d06abffc884e9e"}
        info = {**where, "callback_status": "success", "search_lang": "en"}
        self.rich = {"type": "rich", "results": list(results), "response_callback_info": info}
        self.reply(hits, fields={"rich": {"type": "rich", "hint": where}})

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Brave writes it."""
        codes = {401: "SUBSCRIPTION_TOKEN_INVALID", 403: "OPTION_NOT_IN_PLAN", 422: "VALIDATION", 429: "RATE_LIMITED"}
        error = {"status": status, "code": codes.get(status, "INTERNAL"), "detail": message or "An error.", "meta": {}}
        return {"type": "ErrorResponse", "error": error, "time": 1_764_000_000}

    def _look_context(self, received: Received) -> tuple[str, int]:
        values = self.checked(received, self.CONTEXT)
        return str(values["q"]), min(int(values.get(name, 20)) for name in ("count", "maximum_number_of_urls"))

    def _look_rich(self, received: Received) -> Answer:
        self.checked(received, {"callback_key": ""}, "callback_key")
        if not self.rich:
            raise Refusal(404, self.error_body(404), "the callback key is an old one")
        return Answer(body=self.rich)

    def shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        """Return web results; without any, there is no `web`."""
        results = [
            {name: entry[name] for name in ("title", "url", "description")}
            | {"extra_snippets": entry["extra"][:5]}
            # A date is both absolute (without a zone) and in words, or both are absent.
            | ({"page_age": f"{entry['date']}T00:00:00"[:19], "age": "4 days ago"} if entry["date"] else {})
            for entry in hits
        ]
        web = {"web": {"type": "search", "results": results}} if hits else {}
        return {"type": "search", "query": {"original": values["q"]}} | web

    def _shape_context(self, hits: Sequence[Hit], values: JSON) -> JSON:
        ages = {entry["url"]: ["a day", entry["date"][:10], "some days ago"] if entry["date"] else None for entry in hits}
        generic = [
            {"url": entry["url"], "title": entry["title"], "snippets": [entry["description"], *entry["extra"]]}
            for entry in hits
        ]
        sources = {entry["url"]: {"title": entry["title"], "age": ages[entry["url"]]} for entry in hits}
        return {"grounding": {"generic": generic, "map": []}, "sources": sources}


# --- Wikipedia -------------------------------------------------------------------------------------------------------


class Wikipedia(Engine):
    """The MediaWiki search of Wikipedia (`action=query&list=search`), and page extracts; errors come with HTTP 200."""

    url_name, path, method, refused_with = "WIKIPEDIA_BASE_URL", "/w/api.php", "*", 200
    query, count = "srsearch", ("srlimit", 10)
    fields = parameters(
        "list formatversion srsearch sroffset srnamespace srprop srinfo srsort srwhat srinterwiki srenablerewrites redirects "
        "utf8 maxlag origin errorformat uselang prop titles pageids exintro explaintext exchars exlimit exsentences inprop",
        action="query",
        format="json",
        srlimit=range(1, 501),
    )

    def __init__(self) -> None:
        super().__init__()
        self.articles: list[Hit] = []
        self.is_read_only = False

    def error_body(self, status: int, message: str = "") -> Any:
        """Return an error as MediaWiki writes it."""
        return {"error": {"code": "bad_request", "info": message}}

    def look(self, received: Received) -> Any:
        """Return the search, or the answer to a request for articles; a client has to say who asks."""
        agent = received.headers.get("user-agent", "")
        if not re.search(r"\(.*(@|https?://|\+|contact).*\)", agent):
            raise Refusal(403, "Please set a user-agent and respect our robot policy", f"user agent {agent!r}")
        if received.values().get("list") == "search":
            return super().look(received)
        ids = self.checked(received, self.fields, "action").get("pageids", "").split("|")
        pages = [
            {
                "pageid": number,
                "ns": 0,
                "title": entry["title"],
                "extract": entry["description"],
                "fullurl": f"https://en.wikipedia.org/wiki/{entry['title'].replace(' ', '_')}",
            }
            for number, entry in enumerate(self.articles, 1)
            if str(number) in ids
        ]
        found = {"batchcomplete": True, "query": {"pages": pages}}
        return Answer(body=self.error_body(200, "The wiki is read-only") if self.is_read_only else found)

    def shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        """Return articles, which are known by page id from then on."""
        self.articles += [entry for entry in hits if entry not in self.articles]
        search = [
            {
                "ns": 0,
                "title": entry["title"],
                "pageid": 1 + self.articles.index(entry),
                "wordcount": 200,
                "snippet": entry["description"],
                "timestamp": f"{(entry['date'] or '2026-10-01')[:10]}T12:00:00Z",
            }
            for entry in hits
        ]
        return {"batchcomplete": True, "query": {"searchinfo": {"totalhits": len(search)}, "search": search}}


# --- the others ------------------------------------------------------------------------------------------------------


DAY = r"\d{4}-\d\d-\d\d"


class Google(Engine):
    """Google's Custom Search JSON API. Key and engine id are query parameters; `engine_id` is the id it knows."""

    key_name, url_name = "GOOGLE_SEARCH_API_KEY", "GOOGLE_SEARCH_BASE_URL"
    path, method, engine_id = "/customsearch/v1", "GET", "0123456789abcdef0"
    query, count = "q", ("num", 10)
    fields = parameters(
        "key cx q lr sort filter gl cr googlehost c2coff hq hl siteSearch siteSearchFilter exactTerms excludeTerms linkSite "
        "orTerms relatedSite lowRange highRange searchType fileType rights imgSize imgType imgColorType imgDominantColor "
        "fields alt prettyPrint",
        num=range(1, 11),
        start=range(1, 92),
        dateRestrict=r"[dwmy]\d*",
        safe="off|active",
    )

    def environment(self) -> dict[str, str]:
        """Return the variables that send the package here, the engine's id among them."""
        return super().environment() | {"GOOGLE_SEARCH_ENGINE_ID": self.engine_id}

    def has_key(self, received: Received) -> bool:
        """Return True when key and engine id are right."""
        return (received.params.get("key"), received.params.get("cx")) == (self.key, self.engine_id)

    def shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        """Return items, each with its day in the page's own words; without any, there is no `items`."""
        items = [
            {
                **{"title": entry["title"], "link": entry["url"], "snippet": entry["description"]},
                "pagemap": {"metatags": [{"article:published_time": entry["date"] and entry["date"][:10]}]},
            }
            for entry in hits
        ]
        return {"kind": "customsearch#search"} | ({"items": items} if hits else {})


class Firecrawl(Engine):
    """Firecrawl v2: search, scrape and map. `pages` maps addresses to Markdown; other pages are made up."""

    key_name, url_name = "FIRECRAWL_API_KEY", "FIRECRAWL_BASE_URL"
    fields = parameters(
        "categories includeDomains excludeDomains tbs country safe ignoreInvalidURLs highlights enterprise scrapeOptions "
        "origin integration",
        query="(?s).{1,500}",
        limit=range(1, 101),
        sources=list,
        location=str,
        timeout=range(1_000, 300_001),
    )
    SCRAPE = parameters(
        "formats onlyMainContent onlyCleanContent includeTags excludeTags maxAge minAge headers waitFor mobile "
        "skipTlsVerification parsers actions removeBase64Images blockAds storeInCache lockdown redactPII zeroDataRetention "
        "origin integration",
        url=r"https?://[^/\s]+\.[^/\s]+.*",
        timeout=range(1_000, 300_001),
        proxy="basic|enhanced|stealth|auto",
        location=dict,
    )
    MAP = parameters(
        "url search includeSubdomains ignoreQueryParameters ignoreCache location origin integration",
        limit=range(1, 100_001),
        timeout=range(1_000, 300_001),
        sitemap="skip|include|only",
    )

    def __init__(self) -> None:
        super().__init__()
        self.pages: dict[str, str] = {}
        self.links: list[JSON] = []

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve the three paths."""
        return [
            ("POST", "/v2/search", self.serve(self.look)),
            ("POST", "/v2/scrape", self.serve(self._scrape)),
            ("POST", "/v2/map", self.serve(self._map)),
        ]

    def error_body(self, status: int, message: str = "") -> JSON:
        """Return an error as Firecrawl writes it."""
        return {"success": False, "error": message or f"Error {status}"}

    def look(self, received: Received) -> tuple[str, int]:
        """Return the search; only one list of domains may be given."""
        values = received.values()
        if values.get("includeDomains") and values.get("excludeDomains"):
            raise self.invalid("includeDomains", "cannot be used together with excludeDomains")
        if not {"web", "news", "images"}.issuperset(values.get("sources", [])):
            raise self.invalid("sources", "one of them is no source")
        return super().look(received)

    def shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        """Return results of the web, with their pages where these were asked for."""
        scrape = bool((values.get("scrapeOptions") or {}).get("formats"))
        web = [
            {name: entry[name] for name in ("url", "title", "description")}
            | {"position": position}
            | ({"markdown": self._page(entry["url"])} if scrape else {})
            for position, entry in enumerate(hits, 1)
        ]
        credits = 2 * -(-len(web) // 10) + (len(web) if scrape else 0)
        return {"success": True, "data": {"web": web}, "creditsUsed": credits, "id": "0"}

    def _scrape(self, received: Received) -> tuple[str, int] | Answer:
        url = self.checked(received, self.SCRAPE, "url")["url"]
        metadata = {"title": url, "sourceURL": url, "url": url, "statusCode": 200, "creditsUsed": 1, "proxyUsed": "basic"}
        return self.scripted({"success": True, "data": {"markdown": self._page(url), "metadata": metadata}})

    def _map(self, received: Received) -> Answer:
        values = self.checked(received, self.MAP, "url")
        links = self.links or [{"url": f"{values['url'].rstrip('/')}/{name}", "title": name} for name in ("about", "docs")]
        return self.scripted({"success": True, "links": links[: values.get("limit", 5000)]})

    def _page(self, url: str) -> str:
        return self.pages.get(url, f"# {url}\n\nThis is the text of the page.\n")


class SearXNG(Engine):
    """A SearXNG instance, whose settings have the JSON format."""

    url_name = "SEARXNG_BASE_URL"
    query, method = "q", "GET"
    fields = parameters(
        "q categories engines language theme enabled_engines disabled_engines",
        format="json",
        pageno=range(1, 1000),
        time_range="day|week|month|year",
        safesearch="[012]",
    )

    def error_body(self, status: int, message: str = "") -> Any:
        """Return an error: JSON for 400, a page otherwise."""
        return {"error": message or "No query"} if status == 400 else f"<!doctype html><title>{status}</title>"


class Tavily(Engine):
    """Tavily's search."""

    key_name, url_name = "TAVILY_API_KEY", "TAVILY_BASE_URL"
    count = ("max_results", 5)
    fields = parameters(
        "days max_age_hours chunks_per_source include_domains_mode include_answer "
        "include_raw_content include_images include_image_descriptions include_favicon include_usage auto_parameters "
        "exact_match language filter_by_language fetch_timeout cache_fallback",
        query="(?s).{1,400}",
        max_results=range(21),
        search_depth="basic|advanced|fast|ultra-fast",
        topic="general|news|finance",
        time_range="day|week|month|year|[dwmy]",
        start_date=DAY,
        end_date=DAY,
        country="[a-z][a-z ]{3,}",
        include_domains=300,
        exclude_domains=150,
    )


class Perplexity(Engine):
    """Perplexity's search API."""

    key_name, url_name = "PERPLEXITY_API_KEY", "PERPLEXITY_BASE_URL"
    count = ("max_results", 10)
    fields = parameters(
        "query max_tokens max_tokens_per_page search_context_size search_type search_domain_filter search_language_filter "
        "country display_server_time",
        max_results=range(1, 21),
        search_mode="web|academic|sec",
        search_recency_filter="hour|day|week|month|year",
        **dict.fromkeys(
            (
                "search_after_date_filter",
                "search_before_date_filter",
                "last_updated_after_filter",
                "last_updated_before_filter",
            ),
            r"\d{1,2}/\d{1,2}/\d{4}",
        ),
    )


class Exa(Engine):
    """Exa's search API."""

    key_name, url_name, key_header = "EXA_API_KEY", "EXA_BASE_URL", "x-api-key"
    count = ("numResults", 10)
    fields = parameters(
        "query includeDomains excludeDomains startCrawlDate endCrawlDate includeText excludeText category moderation contents "
        "systemPrompt outputSchema additionalQueries objective",
        type="auto|fast|instant|neural|keyword|deep-lite|deep|deep-reasoning|lite",
        numResults=range(1, 101),
        startPublishedDate=f"{DAY}.*",
        endPublishedDate=f"{DAY}.*",
        userLocation="[A-Za-z]{2}",
    )


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


# --- Searching with one engine alone: its context, recorded and odd answers, and what every answer has to be ---------

T = TypeVar("T")


def recorded(name: str) -> Any:
    """Return a recorded body, such as "brave/helmut_web"."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def context(folder: Path | str = ".") -> ProviderContext:
    """Return a context whose keys and addresses are those of the environment."""
    keys = Keys(Path(folder) / "settings")
    http = HttpClient(user_agent="ipy_websearch-tests/1 (https://tests.example/)", secrets=keys.secrets)
    return ProviderContext(http, keys, Path(folder))


def run(work: Coroutine[Any, Any, T], made: ProviderContext) -> T:
    """Return what a coroutine gives, and close the context's connections."""

    async def and_close() -> T:
        try:
            return await work
        finally:
            await made.http.aclose()

    return asyncio.run(and_close())


def search(name: str, query: str = "window functions", **fields: Any) -> SearchResults:
    """Return what an engine gives for one search."""
    made = context()
    return run(create(name, made).search(SearchRequest(query, **fields)), made)


# Fields under the names that engines use, with anything in them: what a changed or broken engine might send.
_NAMES = st.sampled_from(
    str.split(
        "web results items query search pages title url link description snippet snippets content date page_age age rich "
        "hint callback_key grounding generic sources data news error detail meta score publishedDate published_date pagemap "
        "metatags answers unresponsive_engines costDollars total usage credits creditsUsed altered extra_snippets text "
        "highlights pageid extract timestamp metadata markdown links success"
    )
)
_TEXTS = st.sampled_from(
    [
        *("", "<b>x</b>&amp;\x1b[31m", "https://a.example/x", "http://[", "javascript:alert(1)", "3 days ago", "\ud800"),
        *("2026-01-01T00:00:00", "2026-13-01T00:00:00", "2026-01-01T00:00:00+99:00", "0001-01-01T00:00:00Z"),
        *("Tue, 11 Mar 2025 10:00:00 GMT", "Tue, 99 Mar 2025 10:00:00 GMT"),
    ]
) | st.text(max_size=20)
odd_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | _TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=6),
    max_leaves=25,
)


def check_sound(results: SearchResults) -> None:
    """Check that every field is of its type, plain, and of its length."""
    for result in results:
        assert result.url.startswith(("http://", "https://")) and " " not in result.url
        for text in (result.title, result.description, *result.extra_snippets):
            assert isinstance(text, str) and "\x1b" not in text and len(text) <= 2_000
        assert result.published_date is None or result.published_date.tzinfo is UTC
        assert result.score is None or isinstance(result.score, float)
        assert len(result.extra_snippets) <= 5 and "" not in result.extra_snippets
    assert all(isinstance(charge, Charge) and charge.provider for charge in results.charges)


# Fields of requests that between them use everything a request can have.
EVERY_FILTER: tuple[dict[str, Any], ...] = (
    {},
    {"count": 1},
    {"count": 50},
    *({"freshness": period} for period in ("pd", "pw", "pm", "py", "2026-01-05to2026-06-30")),
    *({"country": code} for code in ("us", "GB", "uk", "de", "tw", "ALL")),
    *({"language": code} for code in ("en", "de", "ja", "zh", "zh-TW", "pt-BR", "ALL")),
    {"country": "ch", "language": "de"},
    *({"safe_search": level} for level in ("off", "moderate", "strict")),
    {"allowed_domains": ("a.example",)},
    {"allowed_domains": tuple(f"site{n}.example" for n in range(1, 30))},
    {"blocked_domains": ("a.example",)},
    {"blocked_domains": tuple(f"spam{n}.example" for n in range(160))},
    {"goggles": ("$discard\n$boost=3,site=docs.python.org",)},
)
