"""robots.txt in bulk reading: which answers of a server mean what, and how often it is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ipy_websearch.errors import BlockedAddressError, FetchError
from ipy_websearch.http.address import check_url
from ipy_websearch.http.cache import Cache
from ipy_websearch.http.download import Download, RobotsFiles

pytestmark = pytest.mark.anyio

RULES = """\
User-agent: *
Disallow: /

User-agent: ipy_websearch
Disallow: /private
Allow: /private/open$
Disallow: /*.php
"""


class Site:
    """Gives robots.txt, or fails; `asked` are the addresses that it was asked for."""

    def __init__(self, reply: str | bytes | FetchError) -> None:
        self.reply = reply
        self.asked: list[str] = []

    async def download(self, url: str, *, max_bytes: int, cut: bool, **options: Any) -> Download:
        self.asked.append(url)
        await asyncio.sleep(0)
        if isinstance(self.reply, FetchError):
            raise self.reply
        body = self.reply.encode() if isinstance(self.reply, str) else self.reply
        return Download(url, url, 200, "text/plain", "", body[:max_bytes])


def robots(site: Site, cache: Cache | None = None) -> RobotsFiles:
    return RobotsFiles(user_agent="ipy_websearch/1.0 (x) httpx/1", cache=cache, download=site.download)


async def may(files: RobotsFiles, path: str, host: str = "a.example") -> bool:
    try:
        await files.admit(check_url(f"https://{host}{path}"))
    except FetchError as exc:
        assert "robots.txt" in str(exc) and "\n" not in str(exc)
        return False
    return True


async def test_our_own_group_counts_and_the_longest_rule_decides() -> None:
    files = robots(Site(RULES))
    paths = ["/", "/private/x", "/private/open", "/x.php?a", "/%70rivate", "/robots.txt"]
    assert [await may(files, path) for path in paths] == [True, False, True, False, False, True]
    with pytest.raises(FetchError, match=r"/private is not read in bulk: https://a\.example/robots\.txt forbids it"):
        await files.admit(check_url("https://a.example/private"))


@pytest.mark.parametrize(
    ("reply", "allowed"),
    [
        (FetchError("gone", status=404), True),
        (FetchError("forbidden", status=403), True),
        (FetchError("redirects", status=302), True),
        (FetchError("failing", status=503), False),
        (FetchError("slow down", status=429), False),
        (FetchError("no connection"), False),
        ("<html>Not here</html>", True),
        (b"\xef\xbb\xbfUser-agent: *\nDisallow: /a", False),
        (b"\xff\x00\n" * 100, True),
    ],
)
async def test_a_missing_file_allows_and_a_failing_server_does_not(reply: Any, allowed: bool) -> None:
    assert await may(robots(Site(reply)), "/a") is allowed


async def test_a_host_that_is_not_the_public_web_is_refused() -> None:
    with pytest.raises(BlockedAddressError):
        await robots(Site(BlockedAddressError("private"))).admit(check_url("https://a.example/"))


async def test_a_host_is_asked_once_for_many_pages_and_sessions() -> None:
    site, cache = Site(RULES), Cache(None)
    files = robots(site, cache)
    assert all(await asyncio.gather(*(may(files, f"/{n}") for n in range(10))))
    assert not await may(robots(site, cache), "/private")
    assert await may(files, "/", host="b.example")
    assert site.asked == ["https://a.example/robots.txt", "https://b.example/robots.txt"]


async def test_at_most_two_pages_of_a_host_are_read_at_once() -> None:
    files, inside, most = robots(Site("")), 0, 0

    async def read() -> None:
        nonlocal inside, most
        async with files.turn("a.example"):
            inside, most = inside + 1, max(most, inside + 1)
            await asyncio.sleep(0.001)
            inside -= 1

    await asyncio.gather(*(read() for _ in range(6)))
    assert most == 2


@pytest.mark.parametrize(
    ("hostile", "allowed"),
    [
        ("Disallow: /" + "*a" * 1_000 + "*b", True),  # would take for ever as a backtracking pattern
        ("Disallow: /" + "*" * 50_000, False),
        ("Disallow: /x\n" * 9_000 + "Disallow: /a", True),  # what stands behind 64,000 bytes is not read
        ("Disallow: /%zz%ff\x00\u202e[(?:a+)+$\nCrawl-delay: 1e999\nSitemap: javascript:x", True),
        ("User-agent: *\n" * 4_000 + "Disallow: /a", False),
    ],
)
async def test_a_hostile_file_is_decided_like_any_other(hostile: str, allowed: bool) -> None:
    assert await may(robots(Site(f"User-agent: *\n{hostile}\n")), f"/{'a' * 2_000}") is allowed
