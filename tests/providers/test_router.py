"""The chain of engines: which is asked, which may stand in, what is remembered, kept and shared, and what it costs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.http.client import Cache
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import SearchRouter, plugins, provider_to_ask
from ipy_websearch.results import Charge, SearchResults
from tests.fakes.wire import SERVED, Service, context, run

ARTICLE = {"query": {"search": [{"title": "Article", "pageid": 1, "snippet": "words"}]}}
NOTHING: dict[str, Any] = {"query": {"search": []}}
QUOTA = {"X-RateLimit-Reset": "1, 900", "X-RateLimit-Remaining": "1, 0", "X-RateLimit-Limit": "1, 2000"}


@pytest.fixture
def wikipedia(served: Callable[[str], Service]) -> Service:
    """Wikipedia's stand-in, which knows one article."""
    server = served("wikipedia")
    server.answer(ARTICLE)
    return server


@pytest.fixture
def brave(served: Callable[[str], Service], wikipedia: Service) -> Service:
    """Brave's stand-in, with a key; Wikipedia is behind it."""
    return served("brave")


def page(title: str = "T") -> dict[str, Any]:
    """Return a web answer of Brave's with one result."""
    return {
        "web": {
            "results": [{"title": title, "url": "https://a.example/", "description": "D", "page_age": "2026-01-02T03:04:05"}]
        }
    }


class Use:
    """A router with its context and a clock in the test's hand; connections are closed after each piece of work."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.now = 100.0
        self.cache: Cache = Cache(folder / "cache.sqlite")
        self.context = context(folder)
        self.router = SearchRouter(
            self.context, **{"cache": self.cache, "cache_ttl_s": 900, "clock": lambda: self.now} | settings
        )

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return run(work, self.context)

    def search(
        self, query: str = "duckdb release", provider: str | None = None, fresh: bool = False, **fields: Any
    ) -> SearchResults:
        found: SearchResults = self.run(self.router.search(SearchRequest(query, **fields), provider=provider, fresh=fresh))
        return found


# --- the chain --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "titles"), [(ARTICLE, ["Article"]), (NOTHING, [])])
def test_without_any_key_wikipedia_answers_and_nothing_found_is_an_answer(
    wikipedia: Service, tmp_path: Path, body: Any, titles: list[str]
) -> None:
    wikipedia.forget()
    wikipedia.answer(body)
    results = Use(tmp_path).search("planets of the solar system")
    assert (results.provider, results.cost_usd, results.attempts) == ("wikipedia", 0, ())
    assert [hit.title for hit in results] == titles


def test_without_a_key_and_a_network_the_local_index_answers(tmp_path: Path, offline: list[str]) -> None:
    """The notice says that Wikipedia was tried, and why it did not answer; where the index has nothing, the search failed."""
    use = Use(tmp_path)
    results = use.search("planets of the solar system")
    assert results.provider == "local" and results.cost_usd == 0
    assert "could not be reached" in results.notices[0] and "local was asked instead" in results.notices[0]
    with pytest.raises(ProviderError, match="wikipedia could not be reached"):
        use.search("Which laptop under $500 has the best keyboard?")


@pytest.mark.parametrize("wiki", [NOTHING, None])
def test_the_index_never_stands_in_for_a_keyed_engine(brave: Service, wikipedia: Service, tmp_path: Path, wiki: Any) -> None:
    """Where no other engine of the web has a hit, the search is an error with the engine's reason."""
    brave.answer({}, status=401)
    wikipedia.forget()
    wikipedia.answer(*([wiki] if wiki else [b""]), status=200 if wiki else 429)
    with pytest.raises(ProviderError, match="the search failed: brave answered 401.*; wikipedia") as caught:
        Use(tmp_path).search("planets of the solar system")
    assert (caught.value.provider, caught.value.reason, caught.value.permanent) == ("brave", "key", False)


def test_a_key_or_an_address_that_is_none_is_said_and_hides_nothing(
    brave: Service, wikipedia: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain goes on to other engines of the web; what was lost before stays booked."""
    monkeypatch.setenv("BRAVE_API_KEY", "two words")
    (notice,) = Use(tmp_path).search().notices
    assert "BRAVE_API_KEY (environment)" in notice and notice.endswith("wikipedia was asked instead")
    monkeypatch.setenv("BRAVE_API_KEY", "fake-brave-key-0000")
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", "nowhere")
    brave.answer(b"no JSON")
    with pytest.raises(ProviderError, match="brave answered 200 .*; WIKIPEDIA_BASE_URL is 'nowhere'") as caught:
        Use(tmp_path).search()
    assert [charge.lost for charge in caught.value.charges] == [True]


def test_no_results_are_no_reason_to_pay_another_engine(brave: Service, wikipedia: Service, tmp_path: Path) -> None:
    brave.answer({"web": {"results": []}})
    results = Use(tmp_path).search()
    assert (results.provider, len(results), wikipedia.requests) == ("brave", 0, [])


@pytest.mark.parametrize(
    ("script", "tries", "seconds"),
    [
        ({"body": {"error": {"code": "SUBSCRIPTION_TOKEN_INVALID"}}, "status": 422}, 1, 300),
        ({"body": {}, "status": 429, "headers": QUOTA}, 1, 900),
        ({"body": {}, "status": 503}, 3, 30),
    ],
)
def test_a_failure_is_remembered_and_not_asked_for_again(
    brave: Service, tmp_path: Path, script: dict[str, Any], tries: int, seconds: int
) -> None:
    """The chain passes the engine over with the same words each time, and asks it again when the time is over."""
    brave.answer(**script)
    brave.answer(page()) if tries == 1 else [brave.answer(**script), brave.answer(**script), brave.answer(page())]
    use = Use(tmp_path)
    first, second, third = use.search("first one"), use.search("second one"), use.search("third one")
    assert len(brave.requests) == tries and {r.provider for r in (first, second, third)} == {"wikipedia"}
    assert first.notices == second.notices == third.notices and first.attempts == second.attempts
    assert "; not asked again before" in first.notices[0] and first.attempts[0].status == script["status"]
    assert "not asked again before" in {name: why for name, _, why in use.router.chain()}["brave"]
    assert use.router.first() == "wikipedia" and use.router.plan(SearchRequest("fourth one")).provider == "wikipedia"
    use.now += seconds + 1
    assert use.search("fourth one").provider == "brave"


def test_a_new_key_ends_an_outage_and_an_engine_by_name_is_always_asked(
    brave: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brave.answer({}, status=401)
    use = Use(tmp_path)
    assert [use.search(query).provider for query in ("first one", "second one")] == ["wikipedia", "wikipedia"]
    with pytest.raises(ProviderError, match="refused"):
        use.search("by name", provider="brave")
    assert len(brave.requests) == 2
    brave.forget()
    brave.answer(page())
    monkeypatch.setenv("BRAVE_API_KEY", "another-fake-key-0000")
    assert use.search("one more query").provider == "brave"


def test_a_short_429_is_forgotten_at_once(brave: Service, tmp_path: Path) -> None:
    """And the stand-in's answer is not served as the engine's."""
    brave.answer({}, status=429)
    brave.answer(page())
    use = Use(tmp_path)
    assert [use.search().provider, use.search().provider, use.search().cached] == ["wikipedia", "brave", True]


# --- by name ----------------------------------------------------------------------------------------------------------


def test_an_engine_that_cannot_be_asked_is_a_setting_to_correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", "en.wikipedia.org")
    tools = {"odd": {"provider": "nobody"}, "none": 5}
    told = {
        "searxng": "SEARXNG_BASE_URL is not set",
        "wikipdia": r"no search engine 'wikipdia'; did you mean 'wikipedia'\?; there are: brave",
        "odd": "no search engine 'nobody'",
        "none": "search_tools: 'none' is 5; write it as",
        "": "WIKIPEDIA_BASE_URL is 'en.wikipedia.org'",
    }
    for name, words in told.items():
        with pytest.raises(ConfigError, match=words):
            Use(tmp_path, search_tools=lambda: tools).search(provider=name)


def test_a_named_tool_is_an_engine_with_options(brave: Service, tmp_path: Path) -> None:
    """Its answers are kept apart from the plain engine's."""
    brave.answer(page())
    use = Use(tmp_path, search_tools=lambda: {"metric": {"provider": "brave", "units": "metric"}})
    use.search(provider="metric")
    assert brave.requests[0].params["units"] == "metric"
    assert not use.search(provider="brave").cached and use.search(provider="metric").cached


@pytest.mark.parametrize(
    ("typed", "setting", "asked"),
    [("exa", "brave", "exa"), (None, "brave", "brave"), ("", "", "my-tavily"), (None, "", "my-tavily")],
)
def test_a_typed_name_goes_before_the_setting_and_the_setting_before_the_first_tool(
    typed: str | None, setting: str, asked: str
) -> None:
    assert provider_to_ask(typed, setting, {"my-tavily": {"provider": "tavily"}}) == asked
    assert provider_to_ask(None, "", {}) is None


# --- plans, costs, cache ----------------------------------------------------------------------------------------------


def test_a_plan_says_what_a_search_will_cost(brave: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing, once the answer is in the cache; the worst is that of the dearest engine that may stand in."""
    monkeypatch.setenv("EXA_API_KEY", "fake-exa-key-0000")
    brave.answer(page())
    use, request = Use(tmp_path), SearchRequest("duckdb release", count=20)
    plan = use.router.plan(request)
    assert (plan.provider, plan.expected_charges, plan.cached) == ("brave", (Charge("brave"),), None)
    assert use.router.expected_charges(count=20, worst=True) == (Charge("exa", units=Decimal(3)),)
    use.run(use.router.run(plan))
    again = use.router.plan(request)
    assert again.expected_charges == () and again.cached is not None and again.cached.cached
    assert use.router.plan(request, fresh=True).expected_charges == (Charge("brave"),)


def test_the_same_search_is_paid_for_once(brave: Service, tmp_path: Path) -> None:
    """Within the cache's time it comes back whole, marked, with its age, for nothing, for the chain and by name."""
    brave.answer(page() | {"query": {"altered": "other"}})
    first = Use(tmp_path).search("DuckDB  Release")
    again = Use(tmp_path).search("duckdb release", provider="brave")
    assert len(brave.requests) == 1 and again.cached and again.cost_usd == 0
    assert again.charges == (Charge("brave", cached=True),) and 0 <= again.extra["cache_age_s"] < 60
    assert again.results == first.results and again.notices == first.notices and again.raw == first.raw
    assert again[0].published_date == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_another_filter_address_or_freshness_is_another_search(
    brave: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    brave.answer(page())
    use = Use(tmp_path)
    domains = ("a.example", "b.example")
    different: list[dict[str, Any]] = [
        *({}, {"count": 6}, {"freshness": "pd"}, {"country": "de"}, {"language": "de"}, {"safe_search": "off"}),
        *({"allowed_domains": domains}, {"blocked_domains": domains}, {"goggles": ("$discard",)}),
    ]
    assert not any(use.search(**fields).cached for fields in different)
    assert all(use.search(**fields).cached for fields in different)
    assert use.search(allowed_domains=domains[::-1]).cached and not use.search(fresh=True).cached
    monkeypatch.setenv("BRAVE_BASE_URL", "https://api.search.brave.com/proxy")
    assert not use.search().cached


# --- in flight ----------------------------------------------------------------------------------------------------------


def test_equal_searches_in_flight_are_one_and_one_of_them_pays(brave: Service, tmp_path: Path) -> None:
    """Also when the one who asked first leaves."""
    brave.answer(page(), delay_s=0.1)
    use = Use(tmp_path)

    async def four() -> list[SearchResults]:
        first = asyncio.create_task(use.router.search(SearchRequest("a b")))
        others = [asyncio.create_task(use.router.search(SearchRequest(query))) for query in ("A b", "a  b", "a B")]
        while not brave.requests:
            await asyncio.sleep(0.01)
        first.cancel()
        return await asyncio.gather(*others)

    results = use.run(four())
    assert len(brave.requests) == 1 and [r.cached for r in results].count(False) == 1
    assert sum(r.cost_usd for r in results) == Decimal("0.005")


# --- engines of other packages ------------------------------------------------------------------------------------------

PLUGIN = """
from decimal import Decimal
from ipy_websearch.errors import ProviderError
from ipy_websearch.providers import base
from ipy_websearch.providers.base import ProviderInfo
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.results import Charge

class Down(ProviderError):
    def __init__(self, host, status):
        super().__init__(f"{host} is down", status=status)

class Engine(base.Engine):
    name = "mine"
    async def search(self, request):
        if "down" in request.query:
            raise Down("mine.example", 503)
        if "broken" in request.query:
            raise KeyError("oops")
        hits = tuple(SearchResult(u, f"https://{u}/") for u in ("a.example", "b.example"))
        return SearchResults(hits, request.query, "mine", charges=(Charge("mine", usd=Decimal("0.25")),))

class Table(base.Engine, name="table", fields={"title": "names", "url": "link.href"}, billed=("usd", "meta.cost")):
    def parameters(self, request, query, count, notices):
        return {"q": query}

TABLE = ProviderInfo("table", "Table", "their_engine:Table", ("TABLE_API_KEY",), "TABLE_BASE_URL", "https://table.example")
MINE = ProviderInfo("mine", "My engine", "their_engine:Engine")
LOST = ProviderInfo("lost", "Lost engine", "no_such_module:Engine", keys=("LOST_API_KEY",))
TAKEN = ProviderInfo("brave", "Not Brave", "their_engine:Engine")
NONSENSE = "x"
"""
POINTS = "\n".join(
    ["[ipy_websearch.providers]", *(f"{n} = their_engine:{n}" for n in ("TABLE", "MINE", "LOST", "TAKEN", "NONSENSE", "GONE"))]
)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with an engine, as pip would install it."""
    info = tmp_path / "site" / "their_engine-1.0.dist-info"
    info.mkdir(parents=True)
    (tmp_path / "site" / "their_engine.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    plugins.cache_clear()
    yield
    plugins.cache_clear()
    sys.modules.pop("their_engine", None)


def test_another_package_can_bring_an_engine(plugin: None, wikipedia: Service, tmp_path: Path, monkeypatch: Any) -> None:
    """It is asked before the free ones, held to the domain lists, and may report its price; broken ones stop nothing."""
    use = Use(tmp_path)
    with pytest.warns(UserWarning, match="cannot be loaded") as broken:
        results = use.search(blocked_domains=("b.example",))
    assert len(broken) == 3 and any("'brave' is taken" in str(warning.message) for warning in broken)
    assert (results.provider, results.cost_usd, [r.url for r in results]) == ("mine", Decimal("0.25"), ["https://a.example/"])
    assert use.search("a broken query").provider == "wikipedia"
    with pytest.raises(ProviderError, match="mine failed: KeyError"):
        use.search("a broken query", provider="MINE")
    with pytest.raises(ProviderError, match="mine.example is down"):
        use.search("who is down", provider="mine")
    monkeypatch.setenv("TABLE_API_KEY", "fake-table-key-0000")
    SERVED["table.example"] = Service()
    SERVED["table.example"].answer({"results": [{"link": {"href": "https://c.example/"}, "names": ["C"]}], "meta": {"cost": 1}})
    results = use.search(provider="table")
    assert (results.cost_usd, results[0].title, results[0].url) == (1, "C", "https://c.example/")
    monkeypatch.setenv("LOST_API_KEY", "fake-lost-key-0000")
    with pytest.raises(ConfigError, match="'lost' cannot be loaded from no_such_module"):
        use.search(provider="lost")
