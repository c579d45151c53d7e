"""The chain of engines: who is asked, who stands in, what is kept, what is shared, and what it costs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError, MissingKeyError, ProviderError, RateLimitedError
from ipy_websearch.http.cache import Cache
from ipy_websearch.providers import registry
from ipy_websearch.providers.base import ProviderContext, SearchRequest
from ipy_websearch.providers.router import SearchRouter
from ipy_websearch.providers.stored import from_json, request_key, to_json
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge
from tests.fakes.engine_checks import context, run
from tests.fakes.scripted import Scripted

WEB = "/res/v1/web/search"


@pytest.fixture
def wikipedia(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """Wikipedia's stand-in, which knows one article."""
    with Scripted() as server:
        monkeypatch.setenv("WIKIPEDIA_BASE_URL", server.url)
        server.answer({"query": {"search": [{"title": "Article", "pageid": 1, "snippet": "words"}]}})
        yield server
        server.check()


@pytest.fixture
def brave(monkeypatch: pytest.MonkeyPatch, wikipedia: Scripted) -> Iterator[Scripted]:
    """Brave's stand-in, with a key; Wikipedia is behind it."""
    with Scripted() as server:
        monkeypatch.setenv("BRAVE_BASE_URL", server.url)
        monkeypatch.setenv("BRAVE_API_KEY", "BSA-fake-key-for-the-tests-0000")
        yield server
        server.check()


class Clock:
    """Monotonic seconds in the test's hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def page(title: str = "T", **fields: Any) -> dict[str, Any]:
    """Return a web answer of Brave's with one result."""
    return {"web": {"results": [{"title": title, "url": "https://a.example/", "description": "D", **fields}]}}


class Use:
    """A router with its context, closed after each piece of work."""

    def __init__(self, folder: Path, *, cache: bool = True, **settings: Any) -> None:
        self.folder = folder
        self.clock = Clock()
        self.cache = Cache(folder / "cache.sqlite") if cache else None
        self.context: ProviderContext = context(folder)
        settings = {"cache_ttl_s": 900, "clock": self.clock} | settings
        self.router = SearchRouter(self.context, cache=self.cache, **settings)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return run(work, self.context)

    def search(
        self, query: str = "duckdb release", *, provider: str | None = None, fresh: bool = False, **fields: Any
    ) -> SearchResults:
        found: SearchResults = self.run(self.router.search(SearchRequest(query, **fields), provider=provider, fresh=fresh))
        return found


# --- the chain --------------------------------------------------------------------------------------------------------


def test_with_a_key_its_engine_is_asked(brave: Scripted, wikipedia: Scripted, tmp_path: Path) -> None:
    """An engine whose key is set comes before the free ones, and the search costs what it charges."""
    brave.answer(page())
    results = Use(tmp_path).search()
    assert (results.provider, results.cost_usd, results.cached) == ("brave", Decimal("0.005"), False)
    assert results.attempts == () and wikipedia.requests == []


def test_without_any_key_wikipedia_answers(wikipedia: Scripted, tmp_path: Path) -> None:
    """It works the moment it is loaded, for nothing."""
    results = Use(tmp_path).search()
    assert (results.provider, results.cost_usd, results[0].title) == ("wikipedia", 0, "Article")


def test_without_a_network_the_local_index_answers(tmp_path: Path, offline: list[str]) -> None:
    """The end of the chain needs nothing; that Wikipedia was tried is said, with why it did not answer."""
    results = Use(tmp_path).search("planets of the solar system")
    assert results.provider == "local" and results.cost_usd == 0
    assert [attempt.provider for attempt in results.attempts] == ["wikipedia"]
    assert "could not be reached" in results.notices[0] and "local was asked instead" in results.notices[0]


@pytest.mark.parametrize(("status", "tries"), [(429, 1), (401, 1), (403, 1), (422, 1)])
def test_a_failing_engine_hands_on_and_is_named(brave: Scripted, tmp_path: Path, status: int, tries: int) -> None:
    """The next engine answers, and the results say who did not, with which status."""
    brave.answer({"error": {"detail": "no more"}}, status=status)
    results = Use(tmp_path).search()
    assert results.provider == "wikipedia" and len(brave.requests) == tries
    assert [(attempt.provider, attempt.status) for attempt in results.attempts] == [("brave", status)]
    assert "no more" in results.attempts[0].error or status == 429
    assert results.notices[0].startswith(f"brave answered {status}") and results.notices[0].endswith(
        "wikipedia was asked instead"
    )


def test_a_stand_ins_answer_is_not_kept_as_the_engines(brave: Scripted, tmp_path: Path) -> None:
    """When Brave is back a second later, it is asked, and Wikipedia's answer is not served in its place."""
    brave.answer({}, status=429)
    brave.answer(page())
    use = Use(tmp_path)
    assert use.search().provider == "wikipedia"
    assert use.search().provider == "brave"
    assert use.search().cached


def test_an_engine_out_of_reach_is_left_alone_for_five_minutes(
    wikipedia: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No answer at all means no more tries for a while; by name it is asked all the same."""
    monkeypatch.setenv("BRAVE_API_KEY", "BSA-fake-key-for-the-tests-0000")
    monkeypatch.setenv("BRAVE_BASE_URL", "http://127.0.0.1:9")
    use = Use(tmp_path)
    assert use.search().attempts[0].error.startswith("brave could not be reached")
    assert use.router.first() == "wikipedia"
    again = use.search("another query")
    assert again.attempts[0].error.startswith("brave is not asked again before") and again.attempts[0].status is None
    use.clock.now += 7.5
    assert use.search("one more query").notices[0] == again.notices[0], "the same words each time, so they are said once"
    assert "not asked again before" in dict((name, why) for name, _, why in use.router.chain())["brave"]
    with pytest.raises(ProviderError, match="could not be reached"):
        use.search("another query", provider="brave")
    use.clock.now += 301
    assert use.router.first() == "brave"
    assert use.search("a third query").attempts[0].error.startswith("brave could not be reached")
    use.router.forget_failures()
    assert use.router.first() == "brave"


def test_an_engine_that_answers_badly_is_asked_again(brave: Scripted, tmp_path: Path) -> None:
    """A refusal is no outage: with a status, the engine stays in the chain."""
    brave.answer(b"<html>", headers={"content-type": "text/html"})
    use = Use(tmp_path)
    use.search()
    use.search("another query")
    assert len(brave.requests) == 2


def test_no_results_are_an_answer_and_not_a_reason_to_pay_more(brave: Scripted, wikipedia: Scripted, tmp_path: Path) -> None:
    """A paid engine that finds nothing is not followed by others."""
    brave.answer({"web": {"results": []}})
    results = Use(tmp_path).search()
    assert (results.provider, len(results), results.attempts) == ("brave", 0, ()) and wikipedia.requests == []


def test_where_wikipedia_finds_nothing_the_local_index_is_tried(wikipedia: Scripted, tmp_path: Path) -> None:
    """Both are free; that Wikipedia had nothing is said."""
    wikipedia.forget()
    wikipedia.answer({"query": {"search": []}})
    results = Use(tmp_path).search("planets of the solar system")
    assert results.provider == "local" and "wikipedia found nothing" in results.notices
    empty = Use(tmp_path).search("qqzzxxy")
    assert len(empty) == 0 and empty.provider == "wikipedia"


def test_when_nobody_answers_the_error_names_everybody(
    brave: Scripted, wikipedia: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One line with every engine and its reason."""
    monkeypatch.setattr(registry, "PROVIDERS", {k: v for k, v in registry.PROVIDERS.items() if k != "local"})
    brave.answer({}, status=403)
    wikipedia.forget()
    wikipedia.answer({"error": {"code": "x", "info": "closed"}})
    with pytest.raises(ProviderError, match=r"no search engine answered: brave answered 403.*; wikipedia: closed \(x\)"):
        Use(tmp_path).search()


# --- by name ----------------------------------------------------------------------------------------------------------


def test_an_engine_asked_by_name_has_no_stand_in(brave: Scripted, wikipedia: Scripted, tmp_path: Path) -> None:
    """Its error is the answer, as it is."""
    brave.answer({}, status=429, headers={"X-RateLimit-Reset": "1, 5"})
    with pytest.raises(RateLimitedError) as caught:
        Use(tmp_path).search(provider="Brave")
    assert caught.value.retry_after == 1 and wikipedia.requests == []


def test_an_engine_without_its_key_cannot_be_asked_by_name(tmp_path: Path) -> None:
    """The error names every way to set the key."""
    use = Use(tmp_path)
    with pytest.raises(MissingKeyError, match="BRAVE_API_KEY is not set: run `%websearch key brave`"):
        use.search(provider="brave")
    with pytest.raises(MissingKeyError):
        use.router.check("brave")
    use.router.check("wikipedia")


def test_an_unknown_engine_is_met_with_a_suggestion(tmp_path: Path) -> None:
    """What there is, and what was probably meant."""
    with pytest.raises(ConfigError, match=r"no search engine 'wikipdia'; did you mean 'wikipedia'\?; there are: brave"):
        Use(tmp_path).search(provider="wikipdia")


def test_a_named_tool_is_an_engine_with_parameters(brave: Scripted, tmp_path: Path) -> None:
    """A search tool of the settings is asked by its name; its answers are kept apart from the plain engine's."""
    tools: Mapping[str, Mapping[str, Any]] = {
        "metric-brave": {"provider": "brave", "units": "metric"},
        "odd": {"provider": "nobody"},
    }
    brave.answer(page())
    use = Use(tmp_path, search_tools=lambda: tools)
    use.search(provider="metric-brave")
    assert brave.requests[0].params["units"] == "metric"
    assert not use.search(provider="brave").cached and use.search(provider="metric-brave").cached
    with pytest.raises(ConfigError, match="nobody"):
        use.search(provider="odd")


def test_what_a_search_will_cost_is_known_before(brave: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For ceilings: the engine that would be asked first says what one search is billed."""
    use = Use(tmp_path)
    assert use.router.expected_charges() == (Charge("brave"),)
    monkeypatch.delenv("BRAVE_API_KEY")
    assert use.router.expected_charges() == (Charge("wikipedia", usd=Decimal(0)),)
    assert use.router.provider("local") is use.router.provider("local")


def test_the_chain_says_what_can_be_used_and_why(brave: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For the status: every engine in order, with the variable that is missing."""
    rows = Use(tmp_path).router.chain()
    names = [name for name, _, _ in rows]
    assert names[0] == "brave" and names[-2:] == ["wikipedia", "local"]
    assert rows[0] == ("brave", True, "key set")
    monkeypatch.delenv("BRAVE_API_KEY")
    assert Use(tmp_path).router.chain()[0] == ("brave", False, "BRAVE_API_KEY is not set")


# --- the cache --------------------------------------------------------------------------------------------------------


def test_the_same_search_is_paid_for_once(brave: Scripted, tmp_path: Path) -> None:
    """Within the cache's time it comes back whole, marked, with its age, for nothing; folded queries are the same."""
    rich = page(page_age="2026-01-02T03:04:05", extra_snippets=["one", "two"])
    brave.answer(rich | {"query": {"altered": "other"}, "n": [1, 2.5, None]}, path=WEB)
    first = Use(tmp_path).search("DuckDB  Release")
    again = Use(tmp_path).search("duckdb release")
    assert len(brave.requests) == 1
    assert again.cached and again.cost_usd == 0 and again.charges == (Charge("brave", cached=True),)
    assert 0 <= again.extra["cache_age_s"] < 5
    assert again.results == first.results and again.notices == first.notices and again.raw == first.raw
    assert again[0].published_date == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC) and again[0].extra_snippets == ("one", "two")


def test_another_filter_is_another_search(brave: Scripted, tmp_path: Path) -> None:
    """Whatever changes what is found is part of the key; the order of domains is not."""
    brave.answer(page())
    use = Use(tmp_path)
    different: list[dict[str, Any]] = [
        {},
        {"count": 6},
        {"freshness": "pd"},
        {"country": "de"},
        {"language": "de"},
        {"safe_search": "off"},
        {"allowed_domains": ("a.example", "b.example")},
        {"blocked_domains": ("a.example", "b.example")},
        {"goggles": ("$discard",)},
    ]
    for fields in different:
        assert not use.search(**fields).cached, fields
    for fields in different:
        assert use.search(**fields).cached, fields
    assert use.search(allowed_domains=("b.example", "a.example")).cached
    assert not use.search("duckdb OR release").cached and not use.search("duckdb or release").cached


def test_fresh_asks_again_and_keeps_the_answer(brave: Scripted, tmp_path: Path) -> None:
    """`--fresh` skips what is kept, and what comes is kept for the next."""
    brave.answer(page("old"))
    brave.answer(page("new"))
    use = Use(tmp_path)
    assert use.search()[0].title == "old"
    fresh = use.search(fresh=True)
    assert fresh[0].title == "new" and not fresh.cached
    assert use.search()[0].title == "new"


def test_without_a_lifetime_or_a_cache_nothing_is_kept(brave: Scripted, tmp_path: Path) -> None:
    """0 seconds keep nothing; the setting may change while the session runs."""
    brave.answer(page())
    ttl = [0]
    use = Use(tmp_path, cache_ttl_s=lambda: ttl[0])
    assert not use.search().cached and not use.search().cached
    ttl[0] = 60
    assert not use.search().cached and use.search().cached
    bare = Use(tmp_path, cache=False)
    assert not bare.search().cached and not bare.search().cached


def test_what_the_chain_has_paid_for_serves_a_search_by_name(brave: Scripted, tmp_path: Path) -> None:
    """The cache knows engines, not ways to them."""
    brave.answer(page())
    use = Use(tmp_path)
    use.search()
    assert use.search(provider="brave").cached


def test_another_server_is_another_engine(brave: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that was changed is not answered from the old one's cache."""
    brave.answer(page())
    use = Use(tmp_path)
    use.search()
    monkeypatch.setenv("BRAVE_BASE_URL", brave.url + "/proxy")
    assert not use.search().cached


def test_entries_that_cannot_be_read_are_asked_for_again(brave: Scripted, tmp_path: Path) -> None:
    """What another version has written is not trusted."""
    brave.answer(page())
    use = Use(tmp_path)
    use.search()
    assert use.cache is not None
    put: Callable[..., None] = use.cache.put
    use.cache.clear()
    use.cache.put = lambda kind, key, value: put(kind, key, {"results": [["only", "three", "fields"]]})  # type: ignore[method-assign]
    use.search()
    assert not use.search().cached


texts = st.text(max_size=10)
moments = st.none() | st.datetimes(min_value=datetime(1700, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC))
found = st.builds(
    SearchResult, texts, texts, texts, moments, st.lists(texts, max_size=3).map(tuple), st.none() | st.floats(0, 1)
)
charges = st.builds(
    Charge,
    texts,
    st.sampled_from(["search", "fetch"]),
    st.decimals(0, 100, places=3),
    texts,
    st.none() | st.decimals(0, 9, places=6),
)


@given(
    results=st.builds(
        SearchResults,
        st.lists(found, max_size=3).map(tuple),
        texts,
        texts,
        charges=st.lists(charges, max_size=2).map(tuple),
        notices=st.lists(texts, max_size=2).map(tuple),
        extra=st.dictionaries(texts, texts, max_size=2),
        raw=st.dictionaries(texts, st.integers() | texts, max_size=2),
    )
)
def test_results_come_out_of_the_cache_as_they_went_in(results: SearchResults) -> None:
    """Dates, tuples, money and raw answers survive."""
    cache = Cache(None)
    cache.put("search", "k", to_json(results))
    stored = cache.get("search", "k", 900)
    cache.close()
    assert stored is not None
    back = from_json(stored[0])
    assert back == results and back is not None and back.raw == results.raw


@given(query=st.text(min_size=2, max_size=20).filter(lambda text: len(text.strip()) > 1))
def test_case_and_blanks_make_no_other_search(query: str) -> None:
    """The key folds the query; it is the same for the same request."""
    request = SearchRequest(query)
    assert request_key(request) == request_key(replace(request, query=f"  {query}  "))


# --- in flight ----------------------------------------------------------------------------------------------------------


def test_equal_searches_in_flight_are_one(brave: Scripted, tmp_path: Path) -> None:
    """Five at once are one request; one of them pays."""
    brave.answer(page(), delay_s=0.05)
    use = Use(tmp_path)

    async def five() -> list[SearchResults]:
        return await asyncio.gather(
            *(use.router.search(SearchRequest(query)) for query in ("a b", "A b", "a  b", "a b", "a B"))
        )

    results = use.run(five())
    assert len(brave.requests) == 1
    assert [r.cached for r in results].count(False) == 1 and sum(r.cost_usd for r in results) == Decimal("0.005")


def test_one_who_leaves_does_not_disturb_the_others(brave: Scripted, tmp_path: Path) -> None:
    """The one who asked first is cancelled: the other gets the results, and pays for them."""
    brave.answer(page(), delay_s=0.1)
    use = Use(tmp_path)

    async def leave() -> SearchResults:
        first = asyncio.create_task(use.router.search(SearchRequest("a b")))
        second = asyncio.create_task(use.router.search(SearchRequest("a b")))
        await asyncio.sleep(0.03)
        first.cancel()
        results = await second
        assert first.cancelled()
        return results

    results = use.run(leave())
    assert len(brave.requests) == 1 and not results.cached and results.cost_usd == Decimal("0.005")


def test_when_all_have_left_the_search_is_stopped(brave: Scripted, tmp_path: Path) -> None:
    """Nothing goes on behind the back of an interrupt, and the next search begins anew."""
    brave.answer(page(), delay_s=5)
    brave.answer(page("new"))
    use = Use(tmp_path)

    async def leave() -> SearchResults:
        tasks = [asyncio.create_task(use.router.search(SearchRequest("a b"))) for _ in range(2)]
        while not brave.requests:
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert brave.active == 0 and all(task.cancelled() for task in tasks)
        return await use.router.search(SearchRequest("a b"))

    results = use.run(leave())
    assert results[0].title == "new" and not results.cached


def test_a_failure_is_shared_too(brave: Scripted, wikipedia: Scripted, tmp_path: Path) -> None:
    """One failing request sends everybody on, to one request of the next engine."""
    brave.answer({}, status=403, delay_s=0.05)
    use = Use(tmp_path)

    async def three() -> list[SearchResults]:
        return await asyncio.gather(*(use.router.search(SearchRequest("a b")) for _ in range(3)))

    results = use.run(three())
    assert {r.provider for r in results} == {"wikipedia"} and len(brave.requests) == 1
    assert all(r.attempts[0].provider == "brave" for r in results)
    assert len([r for r in wikipedia.requests if r.params.get("list") == "search"]) == 1


# --- engines of other packages ------------------------------------------------------------------------------------------

PLUGIN = """
from decimal import Decimal
from ipy_websearch.providers.base import ProviderInfo
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

class Engine:
    name = "mine"
    def __init__(self, context): pass
    async def search(self, request):
        if "broken" in request.query:
            raise KeyError("oops")
        hits = tuple(SearchResult(u, f"https://{u}/") for u in ("a.example", "b.example"))
        return SearchResults(hits, request.query, "mine", charges=(Charge("mine", usd=Decimal("0.25")),))

MINE = ProviderInfo("mine", "My engine", "their_engine:Engine")
TAKEN = ProviderInfo("brave", "Not Brave", "their_engine:Engine")
NONSENSE = "x"
"""

ENTRY_POINTS = """[ipy_websearch.providers]
a = their_engine:MINE
b = their_engine:TAKEN
c = their_engine:NONSENSE
d = their_engine:MISSING
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package with an engine, as pip would install it."""
    site = tmp_path / "site"
    info = site / "their_engine-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "their_engine.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-engine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(site))
    registry._plugins.cache_clear()
    yield
    registry._plugins.cache_clear()
    sys.modules.pop("their_engine", None)


def test_another_package_can_bring_an_engine(plugin: None, wikipedia: Scripted, tmp_path: Path) -> None:
    """It is found by its entry point, asked before the free ones, held to the domain lists, and may report its price."""
    use = Use(tmp_path)
    results = use.search(blocked_domains=("b.example",))
    assert (results.provider, results.cost_usd) == ("mine", Decimal("0.25"))
    assert [r.url for r in results] == ["https://a.example/"]
    assert use.search("by name", provider="MINE").provider == "mine"


def test_broken_plug_ins_stop_nothing(plugin: None, wikipedia: Scripted, tmp_path: Path) -> None:
    """What cannot be loaded is named in the status; what raises is a failed engine like any other."""
    use = Use(tmp_path)
    assert use.search("a broken query").provider == "wikipedia"
    with pytest.raises(ProviderError, match="mine failed: KeyError"):
        use.search("a broken query", provider="mine")
    warnings = [name for name, available, why in use.router.chain() if why == "broken plug-in" and not available]
    assert len(warnings) == 3 and any("'brave', which is taken" in warning for warning in warnings)


def test_an_engine_that_cannot_be_loaded_is_a_setting_to_correct(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says which and from where."""
    broken = replace(registry.PROVIDERS["local"], load="ipy_websearch.no_such_module:Engine")
    monkeypatch.setitem(registry.PROVIDERS, "local", broken)
    with pytest.raises(ConfigError, match="'local' cannot be loaded from ipy_websearch.no_such_module"):
        Use(tmp_path).search(provider="local")
