"""Reading pages: lines, cache, shared downloads, local pages, robots.txt, and hostile text."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.errors import BlockedAddressError, ConfigError, FetchError
from ipy_websearch.extract.reader import ExtractionWorker, PageReader
from ipy_websearch.http.client import Cache
from tests.fakes.pages import Extractor
from tests.fakes.raw_http import RawServer, answer, html

pytestmark = pytest.mark.anyio

DATE = datetime(2026, 3, 1, tzinfo=UTC)
INJECTIONS = Path(__file__).parents[1] / "data" / "injections.jsonl"


def reader(server: RawServer, extractor: Any = None, **options: Any) -> PageReader:
    """Return a reader; from now on the server may be read."""
    os.environ["IPY_WEBSEARCH_FETCH_ALLOW"] = server.key
    return PageReader(**{"cache": Cache(None), **options}, user_agent="test/1", worker=extractor or Extractor())


@pytest.fixture(autouse=True)
def nothing_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test allows ends with it."""
    monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", "")


@pytest.fixture
def worker() -> Iterator[ExtractionWorker]:
    """Give a worker and close it."""
    made = ExtractionWorker()
    yield made
    made.close()


async def test_a_page_is_read_with_all_that_is_known_about_it() -> None:
    extractor = Extractor()
    async with RawServer({}) as server:
        server.answers = {"/a": answer(status="302 Found", Location="/b"), "/b": html("# One\n\ntw\u200bo\x1b[31m\n")}
        page = await reader(server, extractor).read(f" {server.base}/a#x")
    assert (page.content, page.lines_read, page.total_lines) == ("# One\n\ntwo", 3, 3)
    assert (page.url, page.final_url) == (f"{server.base}/a#x", f"{server.base}/b")
    assert (page.title, page.published_date) == ("A title", DATE)
    assert (page.links, page.note, page.content_type) == (("https://example.com/next",), "a note", "text/html")
    assert not page.cached and page.fetched_at is not None
    assert extractor.seen == [{"url": f"{server.base}/b", "content_type": "text/html; charset=utf-8"}]
    assert "user-agent: test/1" in server.requests[0].lower()


@pytest.mark.parametrize(("offset", "limit", "content"), [(1, None, "l1\nl2\nl3"), (2, 1, "l2"), (3, 9, "l3"), (4, 3, "")])
async def test_offset_and_limit_count_lines_from_one(offset: int, limit: int | None, content: str) -> None:
    """Past the end gives nothing, beyond the end all that is left; below one is an error before anything is fetched."""
    async with RawServer(html("l1\nl2\nl3")) as server:
        pages = reader(server)
        with pytest.raises(ConfigError, match="counted from 1"):
            await pages.read(server.base, offset=offset - 4, limit=limit)
        assert server.connections == 0
        page = await pages.read(server.base, offset=offset, limit=limit)
    assert (page.content, page.lines_read) == (content, len(content.split()))


async def test_the_cache_serves_a_page_again_and_says_how_old_it_is() -> None:
    """For `cache_ttl_s`; `fresh` goes to the web."""
    now = [1_000_000.0]
    async with RawServer(html("text")) as server:
        pages = reader(server, cache=Cache(None, clock=lambda: now[0]), cache_ttl_s=900)
        first = await pages.read(server.base)
        now[0] += 600
        again = await pages.read(f"{server.base}/#part")
        assert len(server.requests) == 1 and again.cached and again.url.endswith("#part")
        assert again.fetched_at is not None and 590 < (datetime.now(UTC) - again.fetched_at).total_seconds() < 660
        assert again.content == first.content and again.links == first.links
        await pages.read(server.base, fresh=True)
        now[0] += 901
        assert not (await pages.read(server.base)).cached and len(server.requests) == 3


async def test_the_cache_does_not_serve_what_may_not_be_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is read at each read: an address that was allowed once is refused when it no longer is."""
    async with RawServer(html("text")) as server:
        pages = PageReader(cache=Cache(None), worker=Extractor())  # type: ignore[arg-type]
        monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", server.key)
        assert (await pages.read(server.base)).content == "text"
        monkeypatch.delenv("IPY_WEBSEARCH_FETCH_ALLOW")
        with pytest.raises(BlockedAddressError, match=rf'IPY_WEBSEARCH_FETCH_ALLOW="{server.key}"'):
            await pages.read(server.base)


async def test_errors_are_said_and_not_kept() -> None:
    async with RawServer({}) as server:
        pages = reader(server, cache=Cache(None))
        with pytest.raises(FetchError, match="404 Not Found"):
            await pages.read(server.base)
        server.answers = html("now")
        assert (await pages.read(server.base)).content == "now"
        with pytest.raises(FetchError, match="^Failed to parse HTML: it is an archive$"):
            await reader(server, Extractor(error=FetchError("it is an archive"))).read(server.base)


async def test_reads_of_one_page_that_overlap_share_one_download() -> None:
    async with RawServer(html("text")) as server:
        pages = reader(server)
        read = await asyncio.gather(*(pages.read(f"{server.base}/ok#{i}") for i in range(4)))
        assert {page.content for page in read} == {"text"} and len(server.requests) == 1


async def test_programs_that_read_many_pages_obey_robots_txt() -> None:
    async with RawServer({"/robots.txt": answer("User-agent: *\nDisallow: /private\n"), "/open": html("text")}) as server:
        pages = reader(server)
        assert (await pages.read(f"{server.base}/open", robots=True)).content == "text"
        with pytest.raises(FetchError, match=r"robots\.txt"):
            await pages.read(f"{server.base}/private", robots=True)


async def test_local_addresses_come_from_the_index_and_never_from_disk(tmp_path: Path) -> None:
    """corpus:// and file:// pages have no links; what the index does not have is refused."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    known = {"corpus://planets/mars": ("Mars", "# Mars\n\nRed.\u200b", DATE), "file:///notes.md": ("Notes", "n", None)}
    pages = PageReader(cache=Cache(None), local=known.get, worker=Extractor())  # type: ignore[arg-type]
    page = await pages.read(" corpus://planets/mars", offset=3)
    assert (page.title, page.content, page.lines_read, page.total_lines) == ("Mars", "Red.", 1, 3)
    assert page.published_date == DATE and page.final_url == "corpus://planets/mars" and not page.links
    assert (await pages.read("file:///notes.md")).content == "n"
    for url in (secret.as_uri(), "FILE:///etc/passwd", "corpus://planets/vulcan"):
        with pytest.raises(BlockedAddressError, match="local index"):
            await pages.read(url)


async def test_hostile_pages_keep_what_is_seen_and_lose_what_is_not(worker: ExtractionWorker) -> None:
    """Each case of data/injections.jsonl through the real extraction: `keep` is in the Markdown, `drop` is not."""
    cases = [json.loads(line) for line in INJECTIONS.read_text(encoding="utf-8").splitlines()]
    async with RawServer({f"/{case['id']}": html(case["html"]) for case in cases}) as server:
        pages = reader(server, worker)
        for case in cases:
            page = await pages.read(f"{server.base}/{case['id']}")
            seen = page.content.replace("\\<", "<").replace("\\[", "[").replace("\\(", "(")
            assert all(text in seen for text in case["keep"]), (case["id"], page.content)
            assert not any(text in seen for text in case["drop"]), (case["id"], page.content)
            assert not any("exfil" in link for link in page.links), case["id"]
