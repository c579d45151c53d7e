"""robots.txt in bulk reading: which rule decides, which answers of a server mean what, and that one page is no bulk."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import BlockedAddressError, FetchError
from ipy_websearch.extract.reader import PageReader
from ipy_websearch.http.cache import Cache
from ipy_websearch.http.robots import MAX_BYTES, Rule, product_token, refusing_rule, rules_for
from tests.fakes.raw_http import RawServer, answer, gzipped, html
from tests.test_reader import Extractor

pytestmark = pytest.mark.anyio

OURS = "ipy_websearch"


def allowed(text: str, path: str, token: str = OURS) -> bool:
    """Return whether the file lets the program of that name read the path."""
    return refusing_rule(rules_for(text, token), path) is None


# --- the file ---------------------------------------------------------------------------------------------------------

LONGEST = "User-agent: *\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n"
RFC = (  # the example of RFC 9309, section 5.1
    "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\nUser-Agent: foobot\nDisallow:/\n"
    "Allow:/example/page.html\nAllow:/example/allowed.gif\n\nUser-Agent: barbot\nUser-Agent: bazbot\n"
    "Disallow: /example/page.html\n\nUser-Agent: quxbot\n\nEOF\n"
)
CASES = [
    (LONGEST, "/example/page/disallowed.gif", OURS, False),
    (LONGEST, "/example/page/x", OURS, True),
    (RFC, "/a.gif", OURS, False),
    (RFC, "/publications/a.gif?x", OURS, True),
    (RFC, "/example/page.html", "foobot", True),
    (RFC, "/publications/", "foobot", False),
    (RFC, "/example/page.html", "bazbot", False),
    (RFC, "/example/", "barbot", True),
    (RFC, "/example/page.html", "quxbot", True),  # a group without rules allows all, whatever is said to others
    ("User-agent: *\nDisallow: /a\nAllow: /a\n", "/a", OURS, True),  # allow among equals
    ("User-agent: *\nAllow: /\nDisallow: /*.php$\n", "/x.php", OURS, False),
    ("User-agent: *\nDisallow: /*.php$\n", "/x.php?y", OURS, True),
    ("User-agent: *\nDisallow: /*?\n", "/x?y", OURS, False),
    ("User-agent: *\nDisallow: /a*b*c\n", "/axbxxcx", OURS, False),
    ("User-agent: *\nDisallow: /a*b$\n", "/ab/b/x", OURS, True),
    ("User-agent: *\nDisallow: /a*aa$\n", "/aa", OURS, True),  # the two parts may not share a letter
    ("User-agent: *\nDisallow: /$\n", "/", OURS, False),
    ("User-agent: *\nDisallow: /$\n", "/a", OURS, True),
    ("User-agent: *\nDisallow: /a$b\n", "/a$b", OURS, False),  # elsewhere it stands for itself
    ("User-agent: *\nDisallow: /a%24\n", "/a$", OURS, False),
    ("User-agent: *\nDisallow: /a%2A\n", "/ab", OURS, True),
    ("User-agent: *\nDisallow: /foo/bar/ツ\n", "/foo/bar/%E3%83%84", OURS, False),
    ("User-agent: *\nDisallow: /foo/bar/%E3%83%84\n", "/foo/bar/%e3%83%84", OURS, False),
    ("User-agent: *\nDisallow: /foo/%62%61r\n", "/foo/bar", OURS, False),
    ("User-agent: *\nDisallow: /a%2Fb\n", "/a/b", OURS, True),  # an escaped slash is none
    ("User-agent: *\nDisallow:\n", "/a", OURS, True),
    ("User-agent: *\nDisallow: /\n", "/robots.txt", OURS, True),
    ("USER-AGENT: IPY_Websearch/2.0\nDISALLOW : /a # private\nUser-agent: *\nDisallow: /b\n", "/a", OURS, False),
    ("User-agent: ipy_websearch\nDisallow: /a\nUser-agent: *\nDisallow: /b\n", "/b", OURS, True),  # only our group counts
    (
        "User-agent: ipy_websearch\nDisallow: /a\n\nUser-agent: x\n\nUser-agent: ipy_websearch\nDisallow: /b\n",
        "/b",
        OURS,
        False,
    ),
    ("User-agent: ipy_websearch\nDisallow: /a\n\nUser-agent: ipy_websearch\nDisallow: /b\n", "/a", OURS, False),  # both groups
    ("User-agent: *\nSitemap: https://example.org/s.xml\nCrawl-delay: 9\nUser-agent: x\nDisallow: /\n", "/a", OURS, False),
    ("User-agent: ipy\nDisallow: /\n", "/a", OURS, True),
    ("Disallow: /\n", "/a", OURS, True),  # in no group
    ("<html><body>Not found: 404</body></html>", "/a", OURS, True),
    ("\ufeffUser-agent: *\rDisallow: /a\r", "/a", OURS, False),
]


@pytest.mark.parametrize(("text", "path", "token", "may"), CASES)
def test_a_file_means_what_the_standard_says(text: str, path: str, token: str, may: bool) -> None:
    """RFC 9309: the longest match decides, groups of one name are one, `*` and a final `$` are special, escapes are equal."""
    assert allowed(text, path, token) is may


def test_our_name_is_the_first_word_of_the_user_agent() -> None:
    """Without the version, in lower case."""
    assert product_token("IPY_websearch/0.1.0 (https://example.org) httpx") == OURS


HUGE = {
    "agents": "".join(f"User-agent: a{i}\n" for i in range(20_000)) + "Disallow: /\n" * 20_000,
    "stars": "User-agent: *\nDisallow: /" + "*a" * 250_000,
    "wild": "User-agent: *\n" + "".join(f"Disallow: /*a*b*{i}\n" for i in range(25_000)),
    "escapes": "User-agent: *\nDisallow: /" + "%zz" * 160_000,
    "one line": "User-agent: *" + " " * 500_000,
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_no_file_takes_long(text: str) -> None:
    """A stranger writes it, and it is read in the user's process."""
    start = time.process_time()
    refusing_rule(rules_for(text, OURS), "/" + "ab" * 4_000)
    assert time.process_time() - start < 2


@given(st.text(alphabet="ab*$", max_size=6), st.text(alphabet="ab", max_size=8))
def test_a_pattern_matches_as_the_same_regular_expression_does(pattern: str, path: str) -> None:
    """The matching is our own, so that no pattern can make it slow."""
    import re

    end = pattern.endswith("$")
    parts = re.escape("/" + pattern.removesuffix("$")).replace(r"\*", ".*")
    rules = rules_for(f"User-agent: *\nDisallow: /{pattern}", OURS)
    expected = re.match(parts + ("$" if end else ""), f"/{path}") is not None
    assert (refusing_rule(rules, f"/{path}") is not None) is expected


@given(st.binary(max_size=200), st.text(max_size=40))
def test_any_bytes_are_a_file(body: bytes, path: str) -> None:
    """Whatever a server sends, and whatever the path is, there is an answer."""
    rule = refusing_rule(rules_for(body.decode("utf-8", "replace"), OURS), f"/{path}")
    assert rule is None or isinstance(rule, Rule)


# --- reading in bulk --------------------------------------------------------------------------------------------------


def reader(server: RawServer, **options: Any) -> PageReader:
    """Return a reader that may read from the server."""
    return PageReader(worker=Extractor(), allow=server.allow, **options)  # type: ignore[arg-type]


def paths(server: RawServer) -> list[str]:
    """Return which paths the server was asked for."""
    return [request.split()[1] for request in server.requests]


RULES = answer("User-agent: *\nDisallow: /private\n", Content_Type="text/plain")


async def test_bulk_reading_keeps_to_the_file_and_a_person_need_not() -> None:
    """The file is asked for once, with our name, before the first page; the refusal names file and rule."""
    async with RawServer({"/robots.txt": RULES, "/a": html("a"), "/b": html("b"), "/private/x": html("x")}) as server:
        pages = reader(server)
        texts = await asyncio.gather(*(pages.read(f"{server.base}/{name}", bulk=True) for name in ("a", "b")))
        assert [page.content for page in texts] == ["a", "b"]
        with pytest.raises(FetchError, match=r'/private/x is not read in bulk: .*/robots.txt says "Disallow: /private"'):
            await pages.read(f"{server.base}/private/x", bulk=True)
        assert sorted(paths(server)) == ["/a", "/b", "/robots.txt"] and paths(server)[0] == "/robots.txt"
        assert "User-Agent: ipy_websearch" in server.requests[0]
        assert (await pages.read(f"{server.base}/private/x")).content == "x"


async def test_a_redirect_is_asked_for_too() -> None:
    """A page that may be read does not lead to one that may not, here or on another host."""
    async with RawServer({}) as there, RawServer({}) as here:
        there.answers = {"/robots.txt": answer("User-agent: *\nDisallow: /\n"), "/": html("there")}
        here.answers = {
            "/robots.txt": RULES,
            "/away": answer("", "302 x", Location=f"{there.base}/"),
            "/in": answer("", "302 x", Location="/private/x"),
        }
        pages = PageReader(worker=Extractor(), allow=here.allow | there.allow)  # type: ignore[arg-type]
        for path, rule in (("/away", "Disallow: /"), ("/in", "Disallow: /private")):
            with pytest.raises(FetchError, match=f'says "{rule}"'):
                await pages.read(here.base + path, bulk=True)
        assert paths(there) == ["/robots.txt"]


ANSWERS = [
    (answer("", "404 Not Found"), None),
    (answer("", "403 Forbidden"), None),
    (answer("", "401 Unauthorized"), None),
    (answer("", "302 Found", Location="/robots.txt"), None),  # without end
    (html("<h1>Not here</h1>"), None),
    (answer(""), None),
    (answer("", "503 Service Unavailable"), "503 Service Unavailable"),
    (answer("", "429 Too Many Requests"), "429 Too Many Requests"),
    (b"nonsense\r\n\r\n", "not HTTP"),
    (answer("x", Content_Encoding="br"), "encoded as br"),
]


@pytest.mark.parametrize(("reply", "said"), ANSWERS)
async def test_a_missing_file_allows_and_a_failing_server_does_not(reply: bytes, said: str | None) -> None:
    """4xx and endless redirects mean that there is no file; 5xx, 429 and broken answers that nobody knows what it says."""
    async with RawServer({"/robots.txt": reply, "/a": html("a")}) as server:
        pages = reader(server)
        if said is None:
            assert (await pages.read(f"{server.base}/a", bulk=True)).content == "a"
            return
        with pytest.raises(FetchError, match=f"its robots.txt could not be: .*{said}"):
            await pages.read(f"{server.base}/a", bulk=True)
        assert "/a" not in paths(server)


async def test_a_large_file_is_read_as_far_as_its_last_whole_line() -> None:
    """500 KiB count; a rule that is cut in two is none."""
    head = "User-agent: *\nDisallow: /private\n"
    filler = "#" * (MAX_BYTES - len(head) - len("\nDisallow: /a")) + "\nDisallow: /a"
    body = f"{head}{filler}bcdef\n".encode()
    for reply in (answer(body), gzipped(body)):
        async with RawServer({"/robots.txt": reply, "/ax": html("ax"), "/private": html("x")}) as server:
            pages = reader(server)
            assert (await pages.read(f"{server.base}/ax", bulk=True)).content == "ax"
            with pytest.raises(FetchError, match="Disallow: /private"):
                await pages.read(f"{server.base}/private", bulk=True)


async def test_a_file_is_kept_for_a_day_and_a_failure_for_minutes() -> None:
    """In the cache, so that the next session need not ask again."""
    now = [1_000_000.0]
    cache = Cache(None, clock=lambda: now[0])
    async with RawServer({"/robots.txt": RULES, "/private": html("x"), "/a": html("a")}) as server:

        async def refused() -> bool:
            try:
                await reader(server, cache=cache).read(f"{server.base}/private", bulk=True, fresh=True)
            except FetchError:
                return True
            return False

        assert await refused()
        now[0] += 80_000
        assert await refused() and paths(server).count("/robots.txt") == 1
        server.answers = {**server.answers, "/robots.txt": answer("", "500 x")}
        now[0] += 7_000
        assert await refused() and paths(server).count("/robots.txt") == 2
        server.answers = {**server.answers, "/robots.txt": answer("", "404 x")}
        now[0] += 300
        assert await refused() and paths(server).count("/robots.txt") == 2
        now[0] += 301
        assert not await refused() and paths(server).count("/robots.txt") == 3


@pytest.mark.parametrize("entry", [None, 3, {"rules": 7, "closed": ""}, {"rules": [["x"]], "closed": ""}, "text"])
async def test_a_cache_entry_that_is_none_of_ours_is_asked_for_again(entry: Any) -> None:
    """A broken entry allows nothing and costs one request."""
    cache = Cache(None)
    async with RawServer({"/robots.txt": RULES, "/private": html("x")}) as server:
        cache.put("robots-1", f"{OURS} {server.base}", entry)
        with pytest.raises(FetchError, match="Disallow"):
            await reader(server, cache=cache).read(f"{server.base}/private", bulk=True)


async def test_the_file_goes_through_the_guarded_door(public_web: Any) -> None:
    """A robots.txt cannot lead into a private network, and a host that is none of the public web has none."""
    public_web.name("inside.example", "10.0.0.7")
    async with RawServer({}) as server:
        server.answers = {"/robots.txt": answer("", "302 x", Location="http://169.254.169.254/latest"), "/a": html("a")}
        for base in (server.base, "http://10.0.0.1", "http://inside.example", "http://metadata.google.internal"):
            with pytest.raises(BlockedAddressError):
                await reader(server).read(f"{base}/a", bulk=True)
        assert paths(server) == ["/robots.txt"]


async def test_few_pages_of_a_host_are_read_at_the_same_time() -> None:
    """Two, however many rows want one; a page that is given up does not cost the others the file."""
    active = most = 0

    async def slowly(request: str, writer: asyncio.StreamWriter) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await asyncio.sleep(0.03)
        writer.write(RULES if "/robots.txt" in request else html("text", Connection="close"))
        await writer.drain()
        active -= 1

    async with RawServer(slowly) as server:
        pages = reader(server)
        tasks = [asyncio.create_task(pages.read(f"{server.base}/{i}", bulk=True)) for i in range(8)]
        await asyncio.sleep(0.01)
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert [result.content for result in results[1:]] == ["text"] * 7  # type: ignore[union-attr]
        assert paths(server).count("/robots.txt") == 1 and most == 2


async def test_a_person_who_reads_a_page_meanwhile_is_not_held_to_the_file() -> None:
    """Overlapping reads share a download only when the same rules hold for them."""
    async with RawServer({"/robots.txt": RULES, "/private": html("x")}) as server:
        pages = reader(server)
        url = f"{server.base}/private"
        bulk, single = await asyncio.gather(pages.read(url, bulk=True), pages.read(url), return_exceptions=True)
        assert isinstance(bulk, FetchError) and getattr(single, "content", "") == "x"
