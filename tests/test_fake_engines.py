"""The fake search engines: strict about keys, parameters and limits, and their answers have the engines' own shapes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.fakes.engines import ENGINES, Brave, Engine, Firecrawl, SearXNG, hit
from tests.fakes.replies import WIRE

AGENT = {"User-Agent": "ipy_websearch/1 (https://example.org/contact)"}
JSON = dict[str, Any]

ASK: dict[str, tuple[str, str, str]] = {
    "brave": ("GET", "/res/v1/web/search", "q"),
    "google": ("GET", "/customsearch/v1", "q"),
    "firecrawl": ("POST", "/v2/search", "query"),
    "tavily": ("POST", "/search", "query"),
    "perplexity": ("POST", "/search", "query"),
    "exa": ("POST", "/search", "query"),
    "searxng": ("GET", "/search", "q"),
    "wikipedia": ("GET", "/w/api.php", "srsearch"),
}
"""Method, path and the field of the query."""


def headers_of(fake: Engine) -> dict[str, str]:
    """Return the headers that hold an engine's key."""
    if isinstance(fake, Brave):
        return AGENT | {"X-Subscription-Token": fake.key}
    return AGENT | {"Authorization": f"Bearer {fake.key}"}


def fields_of(fake: Engine) -> JSON:
    """Return the fields that an engine wants in every request."""
    match type(fake).__name__:
        case "Google":
            return {"key": fake.key, "cx": "0123456789abcdef0"}
        case "SearXNG":
            return {"format": "json"}
        case "Wikipedia":
            return {"format": "json", "action": "query", "list": "search"}
        case _:
            return {}


def ask(fake: Engine, name: str, query: str = "what is it", *, headers: JSON | None = None, **fields: Any) -> httpx.Response:
    """Send one search."""
    method, path, field = ASK[name]
    values = fields_of(fake) | {field: query} | fields
    where = {"params": values} if method == "GET" else {"json": values}
    return httpx.request(method, fake.url + path, headers=headers_of(fake) if headers is None else headers, **where)


@pytest.fixture(params=sorted(ENGINES))
def named(request: pytest.FixtureRequest) -> Iterator[tuple[str, Engine]]:
    """Each engine, with its name."""
    with ENGINES[request.param]() as fake:
        yield request.param, fake


@pytest.fixture
def brave() -> Iterator[Brave]:
    """Brave alone."""
    with Brave() as fake:
        yield fake
    fake.check()


def test_every_engine_makes_up_results_for_any_query(named: tuple[str, Engine]) -> None:
    """Without a script the answer holds the query's words, the same ones each time, and is noted."""
    name, fake = named
    first, again = ask(fake, name), ask(fake, name)
    assert first.status_code == 200
    assert "https://site1.example/what-is-it" in first.text or "what is it (1)" in first.text
    drop = {"response_time", "time"}
    assert {k: v for k, v in first.json().items() if k not in drop} == {k: v for k, v in again.json().items() if k not in drop}
    assert fake.queries == ["what is it", "what is it"]
    fake.check()


def test_every_engine_answers_what_was_queued_then_makes_up_again(named: tuple[str, Engine]) -> None:
    """Results in shared words take the engine's shape; unused answers fail the check."""
    name, fake = named
    fake.reply([hit("https://a.example/x", "A title", "A text", date="2026-05-04")])
    fake.reply([])
    with pytest.raises(AssertionError, match="2 answers queued"):
        fake.check()
    assert "A title" in ask(fake, name).text
    assert "site1.example" not in ask(fake, name).text
    fake.check()


def test_every_engine_refuses_an_unknown_parameter(named: tuple[str, Engine]) -> None:
    """A misspelt parameter is an error, and fails the test that did not expect it."""
    name, fake = named
    response = ask(fake, name, colour="red")
    assert response.status_code >= 400 or "error" in response.json()
    with pytest.raises(AssertionError, match="refused a request: .*colour"):
        fake.check()


def test_every_engine_with_a_key_refuses_a_wrong_one(named: tuple[str, Engine]) -> None:
    """The key has to be the fake's own."""
    name, fake = named
    if fake.key_name:
        wrong = {"key": "other"} if name == "google" else {}
        response = ask(fake, name, headers={"Authorization": "Bearer other", "X-Subscription-Token": "other"}, **wrong)
        assert response.status_code in (400, 401, 422)
        assert fake.key not in response.text


def test_every_engine_fails_in_its_own_words_when_told_to(named: tuple[str, Engine]) -> None:
    """Scripted errors have status, shape and headers, and are no refusals."""
    name, fake = named
    fake.fail(429, headers={"Retry-After": "7"})
    fake.fail(503, times=2)
    statuses = [ask(fake, name) for _ in range(3)]
    assert [response.status_code for response in statuses] == [429, 503, 503]
    assert statuses[0].headers["retry-after"] == "7"
    fake.check()


def test_a_function_can_answer_instead(named: tuple[str, Engine]) -> None:
    """`behave` sees the parameters and returns results or a whole body."""
    name, fake = named
    fake.behave(lambda values: [hit("https://b.example/", f"About {values[ASK[name][2]]}")])
    assert "About cats" in ask(fake, name, "cats").text
    fake.behave(lambda values: {"whole": "body"})
    assert ask(fake, name, "cats").json() == {"whole": "body"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"count": 21}, "count"),
        ({"offset": 10}, "offset"),
        ({"freshness": "yesterday"}, "freshness"),
        ({"country": "Germany"}, "country"),
        ({"safesearch": "on"}, "safesearch"),
    ],
)
def test_brave_refuses_values_beyond_its_limits(brave: Brave, fields: JSON, problem: str) -> None:
    """422 with the code VALIDATION, and the field's name in meta.errors."""
    response = ask(brave, "brave", **fields)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["meta"]["errors"][0]["loc"]) == (422, "VALIDATION", ["query", problem])
    brave.allow_refusals = True


def test_brave_refuses_too_long_a_query(brave: Brave) -> None:
    """400 characters and 50 words are the limit of a web search, 600 and 75 that of the LLM context."""
    brave.allow_refusals = True
    assert ask(brave, "brave", "x" * 401).status_code == ask(brave, "brave", "x " * 51).status_code == 422
    context = f"{brave.url}/res/v1/llm/context"
    assert httpx.get(context, params={"q": "x " * 75}, headers=headers_of(brave)).status_code == 200
    assert httpx.get(context, params={"q": "x " * 76}, headers=headers_of(brave)).status_code == 422


def test_braves_pages_follow_one_another(brave: Brave) -> None:
    """`offset` counts pages of `count` results."""
    pages = [ask(brave, "brave", count=3, offset=page).json()["web"]["results"] for page in (0, 1)]
    assert [result["url"].split(".")[0] for page in pages for result in page] == [f"https://site{n}" for n in range(1, 7)]


def test_braves_answers_have_the_fields_of_a_recorded_one(brave: Brave) -> None:
    """A made-up result has no field that the recording lacks, and dates come in pairs or not at all."""
    brave.reply([hit("https://a.example/", "A", date="2026-05-04"), hit("https://b.example/", "B")])
    recorded = json.loads((WIRE / "brave" / "helmut_web.json").read_text()) if _has_brave() else None
    dated, undated = ask(brave, "brave").json()["web"]["results"]
    assert dated["page_age"] == "2026-05-04T00:00:00" and "age" in dated
    assert "page_age" not in undated and "age" not in undated
    if recorded:
        known = {field for result in recorded["web"]["results"] for field in result}
        assert set(undated) <= known | {"subtype"}


def _has_brave() -> bool:
    return (WIRE / "brave" / "helmut_web.json").exists()


def test_braves_rich_results_take_two_steps(brave: Brave) -> None:
    """The search gives a callback key, the key gives the data; an unknown key is 404."""
    brave.reply_rich("weather", [{"type": "rich", "subtype": "weather", "weather": {"temp": 20}}])
    hint = ask(brave, "brave", enable_rich_callback="1").json()["rich"]["hint"]
    rich = f"{brave.url}/res/v1/web/rich"
    data = httpx.get(rich, params={"callback_key": hint["callback_key"]}, headers=headers_of(brave)).json()
    assert data["results"][0]["weather"] == {"temp": 20}
    assert httpx.get(rich, params={"callback_key": "stale"}, headers=headers_of(brave)).status_code == 404
    brave.allow_refusals = True


def test_a_recorded_answer_can_be_served(brave: Brave) -> None:
    """Bodies out of tests/data/wire are served as they are."""
    if not _has_brave():
        pytest.skip("the recording is not here")
    brave.recorded("brave/helmut_web.json")
    assert ask(brave, "brave").json() == json.loads((WIRE / "brave" / "helmut_web.json").read_text())


def test_wikipedia_wants_a_contact_in_the_user_agent(engine: Any) -> None:
    """Clients without one are turned away, as the Foundation's policy says."""
    fake = engine("wikipedia")
    assert ask(fake, "wikipedia", headers={"User-Agent": "python"}).status_code == 403
    fake.allow_refusals = True


def test_wikipedias_introductions_do_not_use_up_the_script(engine: Any) -> None:
    """A search gives page ids; the articles' introductions are had by these, and queued answers wait for searches."""
    fake = engine("wikipedia")
    fake.reply([hit("https://x.example/", "Ruby", "A language.")])
    page_id = ask(fake, "wikipedia").json()["query"]["search"][0]["pageid"]
    fake.reply([hit("https://x.example/", "Python", "Another.")])
    wanted = {"action": "query", "format": "json", "formatversion": 2, "prop": "extracts", "pageids": page_id}
    pages = httpx.get(f"{fake.url}/w/api.php", params=wanted, headers=AGENT).json()["query"]["pages"]
    assert [(page["title"], page["extract"]) for page in pages] == [("Ruby", "A language.")]
    assert "Python" in ask(fake, "wikipedia").text


def test_google_gives_at_most_a_hundred_results(engine: Any) -> None:
    """`start` and `num` together stay within 100, and ten come at once."""
    fake = engine("google")
    fake.allow_refusals = True
    assert ask(fake, "google", num=11).status_code == ask(fake, "google", start=92, num=10).status_code == 400
    assert len(ask(fake, "google", start=91, num=10).json()["items"]) == 10


def test_firecrawl_scrapes_the_pages_it_was_given() -> None:
    """`pages` holds Markdown by address; every scrape says what it cost."""
    with Firecrawl() as fake:
        fake.pages["https://a.example/"] = "# A"
        body = {"url": "https://a.example/", "formats": ["markdown"]}
        answer = httpx.post(f"{fake.url}/v2/scrape", json=body, headers=headers_of(fake)).json()
        assert answer["data"]["markdown"] == "# A" and answer["data"]["metadata"]["creditsUsed"] == 1
        mapped = httpx.post(f"{fake.url}/v2/map", json={"url": "https://a.example", "limit": 1}, headers=headers_of(fake))
        assert mapped.json()["links"] == [{"url": "https://a.example/about", "title": "about"}]
        fake.check()


def test_searxng_may_have_json_switched_off() -> None:
    """Instances are shipped so: they answer 403 with a page."""
    with SearXNG() as fake:
        fake.json_enabled = False
        response = ask(fake, "searxng")
        assert response.status_code == 403 and response.headers["content-type"].startswith("text/html")
