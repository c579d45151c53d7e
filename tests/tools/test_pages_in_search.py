"""Pages that a search reads: what the model gets of them, and what is said of those that could not be read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes.engines import hit
from tests.fakes.replies import text, tool_use
from tests.tools.helpers import results_of, sources, words_of

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def time_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy, the first page takes longer than a reader has patience."""
    monkeypatch.setattr("ipy_websearch.tools.web.READ_S", 60.0)


SEARCH = tool_use("web_search", {"query": "ruby author"})
QUESTION = "Who wrote Ruby?"
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


async def asked(session: Any, messages_api: Any, *replies: Any, **options: Any) -> Any:
    """Let the model search (or call these) and answer; return the answer."""
    messages_api.replies(SEARCH, *replies, "Matz.")
    return await session.ask(QUESTION, **{"provider": "brave", **options})


def paths(public_web: Any) -> list[str]:
    """Return what was asked of the web."""
    return [request.path for request in public_web.requests]


async def test_the_passages_that_fit_the_query_stand_in_place_of_the_snippet(
    messages_api: Any, brave_api: Any, public_web: Any, session: Any
) -> None:
    """Under their headings, as blocks that can be cited; the sources, the panel and the next fetch know of the page."""
    public_web.page("http://linked.example.org/x", "<p>Nothing.</p>")
    brave_api.reply([hit(about(public_web), "Ruby", "A snippet."), hit("https://b.example/", "Other", "Another snippet.")])
    cited = [text("Matz did.", citations=[(0, 0)]), text(" There are others.", citations=[(1, 0)])]
    answer = await asked(session, messages_api, [*cited, tool_use("web_fetch", {"url": "http://linked.example.org/x"})])
    body = messages_api.bodies[1]["messages"][-1]["content"][0]
    (page, other), words = body["content"], words_of(body)
    assert "Yukihiro Matsumoto" in words and "Origin" in words and "A snippet." not in words and "umbrella" not in words
    assert page["citations"] == {"enabled": True} and page["source"] == "http://ruby.example.org/about"
    assert other["content"][0]["text"] == "Another snippet." and "Only a snippet: the page was not read" in words
    assert list(answer.sources.read) == [page["read"] for page in answer.panels[0].data["pages_read"]] == ["page", "snippet"]
    assert "1 of 2 pages read" in answer.steps.detail[1]
    assert "/x" in paths(public_web), "a page that was read in a search makes its links known"


@pytest.mark.parametrize("most", [0, 2])
async def test_only_the_first_pages_are_read_and_the_second_time_from_the_cache(
    messages_api: Any, brave_api: Any, public_web: Any, session: Any, most: int
) -> None:
    brave_api.reply([hit(about(public_web, f"http://s{n}.example.org/about"), "Ruby", "A snippet.") for n in range(4)])
    await asked(session, messages_api, read_pages=most)
    texts = [block["content"][0]["text"] for block in results_of(messages_api)[0]["content"]]
    assert [text != "A snippet." for text in texts] == [at < most for at in range(4)]
    answer = await asked(session, messages_api, read_pages=most)
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
async def test_what_cannot_be_read_keeps_its_snippet_and_says_why(
    messages_api: Any, brave_api: Any, public_web: Any, session: Any, url: str, why: str
) -> None:
    public_web.page("http://blocked.example.org/robots.txt", "User-agent: *\nDisallow: /", content_type="text/plain")
    public_web.page(BLOCKED, ABOUT)
    public_web.page("http://gone.example.org/page", "Gone", status=404)
    public_web.page("http://picture.example.org/page", b"\x89PNG", content_type="image/png")
    public_web.redirect("http://moved.example.org/page", about(public_web, "http://bad.example.org/about"))
    public_web.page("http://down.example.org/robots.txt", "", status=503)
    public_web.page("http://empty.example.org/page", "<html><body></body></html>")
    brave_api.reply([hit(url, "Ruby", "A snippet.")])
    answer = await asked(session, messages_api, blocked_domains=["bad.example.org"])
    snippet, note = results_of(messages_api)[0]["content"][0]["content"]
    assert snippet["text"] == "A snippet." and why in note["text"] and answer.trace[1].log["pages"][0]["read"] == "snippet"


async def test_a_slow_page_keeps_nobody_waiting(messages_api: Any, brave_api: Any, public_web: Any, session: Any) -> None:
    """The others are used, and its download ends."""
    slow = about(public_web, "http://slow.example.org/about", delay_s=600)
    brave_api.reply([hit(slow, "Ruby", "A snippet."), hit(about(public_web), "Ruby", "Other.")])
    answer = await asked(session, messages_api)
    assert [page["read"] for page in answer.trace[1].log["pages"]] == ["snippet", "page"]
    assert "it took too long" in words_of(results_of(messages_api)[0]) and answer.trace[1].milliseconds < 50_000
    while public_web.active:
        await asyncio.sleep(0.02)


async def test_reading_pages_stays_within_the_budget(messages_api: Any, brave_api: Any, public_web: Any, session: Any) -> None:
    long = "<h1>Ruby</h1>" + "".join(f"<h2>Part {n}</h2><p>{'The author of Ruby is Matz. ' * 30}</p>" for n in range(60))
    brave_api.reply([hit(public_web.page(f"http://s{n}.example.org/", long), "Ruby", "A snippet.") for n in range(3)])
    answer = await asked(session, messages_api, budget_usd=0.06)
    assert answer.cost_usd <= 0.06 and sum(page["tokens"] for page in answer.trace[1].log["pages"]) <= 4_000
    assert len(sources(results_of(messages_api)[0])) == 3
