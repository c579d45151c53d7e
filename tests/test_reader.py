"""Reading pages: lines, cache, shared downloads, local pages, and hostile text."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import BlockedAddressError, ConfigError, FetchError
from ipy_websearch.extract.extracted import Extracted
from ipy_websearch.extract.reader import PageReader, window
from ipy_websearch.extract.worker import ExtractionWorker
from ipy_websearch.http.cache import Cache
from ipy_websearch.results import Page
from tests.fakes.raw_http import RawServer, answer, html

pytestmark = pytest.mark.anyio

DATE = datetime(2026, 3, 1, tzinfo=UTC)
INJECTIONS = [
    json.loads(line) for line in (Path(__file__).parent / "data" / "injections.jsonl").read_text(encoding="utf-8").splitlines()
]


@dataclass
class Extractor:
    """Stands for the extraction process: gives the body back as the page's Markdown."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    def warm(self) -> None:
        """Nothing has to be started."""

    async def extract(self, body: bytes, **known: Any) -> Extracted:
        """Return the body as it is, with a title, a date and a link."""
        self.seen.append(known)
        if self.error:
            raise self.error
        return Extracted(body.decode(), "A <b>title</b>", DATE, "en", ("https://example.com/next",), "a note")


def reader(server: RawServer, extractor: Any = None, **options: Any) -> PageReader:
    """Return a reader that may read from the server."""
    return PageReader(user_agent="test/1", worker=extractor or Extractor(), allow=server.allow, **options)


async def test_a_page_is_read_as_markdown() -> None:
    """With all that is known about it; the extractor gets the final address and the header's type and charset."""
    extractor = Extractor()
    async with RawServer({}) as server:
        server.answers = {"/a": answer(status="302 Found", Location="/b"), "/b": html("# One\n\ntwo\n")}
        page = await reader(server, extractor).read(f"{server.base}/a#x")
    assert (page.content, page.lines_read, page.total_lines) == ("# One\n\ntwo", 3, 3)
    assert (page.url, page.final_url) == (f"{server.base}/a#x", f"{server.base}/b")
    assert (page.title, page.published_date, page.language) == ("A title", DATE, "en")
    assert (page.links, page.note, page.content_type) == (("https://example.com/next",), "a note", "text/html")
    assert not page.cached and page.fetched_at is not None and abs((datetime.now(UTC) - page.fetched_at).seconds) < 5
    assert extractor.seen == [{"url": f"{server.base}/b", "content_type": "text/html; charset=utf-8", "mode": "main"}]
    assert "User-Agent: test/1\r\n" in server.requests[0]


async def test_offset_and_limit_count_lines_of_the_markdown() -> None:
    """From 1; past the end gives nothing, beyond the end all that is left."""
    async with RawServer(html("l1\nl2\nl3\nl4\nl5")) as server:
        read = reader(server, cache=Cache(None)).read
        seen = [
            await read(server.base, offset=offset, limit=limit)
            for offset, limit in ((1, None), (2, 2), (4, 10), (5, None), (6, None), (600, 3))
        ]
    assert [page.content for page in seen] == ["l1\nl2\nl3\nl4\nl5", "l2\nl3", "l4\nl5", "l5", "", ""]
    assert [page.lines_read for page in seen] == [5, 2, 2, 1, 0, 0]
    assert {page.total_lines for page in seen} == {5}


@given(st.lists(st.text(alphabet="ab \u2028\x0c", max_size=5), max_size=12), st.integers(1, 15), st.integers(1, 15))
def test_windows_put_together_are_the_page(lines: list[str], start: int, size: int) -> None:
    """Reading on from `offset + lines_read` leaves out nothing and repeats nothing."""
    page = Page("u", "u", "t", "\n".join(lines), 0, 0)
    offset, found = start, []
    while (part := window(page, offset, size)).lines_read:
        assert part.lines_read <= size and part.content.count("\n") == part.lines_read - 1
        found += part.content.split("\n")
        offset += part.lines_read
    assert found == (page.content.split("\n")[start - 1 :] if page.content else [])


@pytest.mark.parametrize("window_", [{"offset": 0}, {"offset": -3}, {"limit": 0}, {"limit": -1}])
async def test_lines_below_one_are_an_error(window_: dict[str, int]) -> None:
    """Before anything is fetched."""
    async with RawServer(html("x")) as server:
        with pytest.raises(ConfigError, match="counted from 1"):
            await reader(server).read(server.base, **window_)
        assert server.connections == 0


async def test_an_empty_page_has_no_lines() -> None:
    """Nothing is not one empty line."""
    async with RawServer(html("")) as server:
        page = await reader(server).read(server.base)
    assert (page.content, page.lines_read, page.total_lines) == ("", 0, 0)


async def test_the_cache_serves_a_page_again_and_says_how_old_it_is() -> None:
    """For `cache_ttl_s`; `fresh` and another mode go to the web."""
    now = [1_000_000.0]
    cache = Cache(None, clock=lambda: now[0])
    async with RawServer(html("text")) as server:
        pages = reader(server, cache=cache, cache_ttl_s=900)
        first = await pages.read(server.base)
        now[0] += 600
        again = await pages.read(f"{server.base}/#part")
        assert len(server.requests) == 1 and again.cached and again.url.endswith("#part")
        assert again.fetched_at is not None and 590 < (datetime.now(UTC) - again.fetched_at).total_seconds() < 620
        same = ("content", "title", "final_url", "published_date", "language", "links", "note", "total_lines")
        assert [getattr(again, name) for name in same] == [getattr(first, name) for name in same]
        await pages.read(server.base, mode="page")
        await pages.read(server.base, fresh=True)
        assert len(server.requests) == 3
        now[0] += 901
        assert not (await pages.read(server.base)).cached


async def test_the_cache_does_not_serve_what_may_not_be_fetched() -> None:
    """An address that was allowed once is refused when it no longer is."""
    cache = Cache(None)
    async with RawServer(html("text")) as server:
        await reader(server, cache=cache).read(server.base)
        closed = PageReader(cache=cache, worker=Extractor(), allow=frozenset())  # type: ignore[arg-type]
        with pytest.raises(BlockedAddressError):
            await closed.read(server.base)


@pytest.mark.parametrize("entry", [None, 3, [], {}, {"title": "x"}, "text"])
async def test_a_cache_entry_that_is_none_of_ours_is_not_used(entry: Any) -> None:
    """An older or a broken entry means one more download, not an error."""
    cache = Cache(None)
    async with RawServer(html("text")) as server:
        cache.put("page-1", f"main {server.base}/", entry)
        page = await reader(server, cache=cache).read(server.base)
        assert page.content == "text" and len(server.requests) == 1


async def test_errors_are_not_kept() -> None:
    """The next read tries again."""
    async with RawServer({}) as server:
        pages = reader(server, cache=Cache(None))
        with pytest.raises(FetchError, match="404 Not Found"):
            await pages.read(server.base)
        server.answers = html("now")
        assert (await pages.read(server.base)).content == "now"


async def test_reads_of_one_page_that_overlap_share_one_download() -> None:
    """Also when one of them is cancelled, and when it fails, all learn why."""

    async def slowly(request: str, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.1)
        writer.write(html("text", Connection="close") if "/ok" in request else answer("", "500 x", Connection="close"))
        await writer.drain()

    async with RawServer(slowly) as server:
        pages = reader(server)
        tasks = [asyncio.create_task(pages.read(f"{server.base}/ok#{i}", offset=1 + i % 2)) for i in range(6)]
        await asyncio.sleep(0.03)
        tasks[0].cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert isinstance(results[0], asyncio.CancelledError)
        assert [r.content for r in results[1:] if isinstance(r, Page)] == ["", "text", "", "text", ""]
        failed = await asyncio.gather(*(pages.read(f"{server.base}/no") for _ in range(3)), return_exceptions=True)
        assert all(isinstance(r, FetchError) for r in failed)
        assert len(server.requests) == 2


async def test_a_download_that_nobody_waits_for_is_given_up() -> None:
    """And the next reader begins a new one."""
    left = asyncio.Event()

    async def hang(request: str, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            left.set()

    async with RawServer(hang) as server:
        pages = reader(server)
        task = asyncio.create_task(pages.read(server.base))
        while not server.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        server.answers = html("text")
        assert (await pages.read(server.base)).content == "text"
        await asyncio.wait_for(left.wait(), 2)


def test_one_reader_serves_several_event_loops() -> None:
    """The package's own loop and the notebook's: nothing is bound to the first."""

    async def once(pages: PageReader, server: RawServer) -> str:
        async with server:
            pages._allow = server.allow
            return (await pages.read(server.base)).content

    pages = PageReader(worker=Extractor())  # type: ignore[arg-type]
    assert [asyncio.run(once(pages, RawServer(html(f"text {i}")))) for i in range(2)] == ["text 0", "text 1"]


async def test_the_environment_is_read_at_each_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """`%env IPY_WEBSEARCH_FETCH_ALLOW=…` takes effect at once; a malformed value is said."""
    async with RawServer(html("text")) as server:
        pages = PageReader(worker=Extractor())  # type: ignore[arg-type]
        with pytest.raises(BlockedAddressError, match=rf'IPY_WEBSEARCH_FETCH_ALLOW="{server.key}"'):
            await pages.read(server.base)
        monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", server.key)
        assert (await pages.read(server.base)).content == "text"
        monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", "127.0.0.1")
        with pytest.raises(ConfigError, match="host:port"):
            await pages.read(server.base)


async def test_local_addresses_come_from_the_index_and_never_from_disk(tmp_path: Path) -> None:
    """corpus:// and file:// pages have no links and are not cached; what the index does not have is refused."""
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    known = {"corpus://planets/mars": ("Mars", "# Mars\n\nRed.\u200b", DATE), "file:///notes.md": ("Notes", "n", None)}
    pages = PageReader(local=known.get, worker=Extractor())  # type: ignore[arg-type]
    page = await pages.read(" corpus://planets/mars", offset=3)
    assert (page.title, page.content, page.lines_read, page.total_lines) == ("Mars", "Red.", 1, 3)
    assert page.published_date == DATE and page.final_url == "corpus://planets/mars" and not page.links
    assert (await pages.read("file:///notes.md")).content == "n"
    for url in (secret.as_uri(), "file:///etc/passwd", "FILE:///etc/passwd", "corpus://planets/vulcan"):
        with pytest.raises(BlockedAddressError, match="local index"):
            await pages.read(url)
    with pytest.raises(BlockedAddressError, match="local index"):
        await PageReader(worker=Extractor()).read("corpus://planets/mars")  # type: ignore[arg-type]


async def test_a_page_that_cannot_be_extracted_says_so() -> None:
    """Apart from pages that could not be had."""
    async with RawServer(html("x")) as server:
        with pytest.raises(FetchError, match="^Failed to parse HTML: it is an archive$"):
            await reader(server, Extractor(error=FetchError("it is an archive"))).read(server.base)


async def test_invisible_characters_do_not_get_through() -> None:
    """Whatever the extractor lets pass, title and text are visible characters alone."""

    class Careless(Extractor):
        async def extract(self, body: bytes, **known: Any) -> Extracted:
            return Extracted("a\u200bb\x1b[31mc\U000e0041\r\nd", "t\u202eitle\n\x07")

    async with RawServer(html("x")) as server:
        page = await reader(server, Careless()).read(server.base)
    assert (page.content, page.title, page.total_lines) == ("abc\nd", "title", 2)


async def test_hostile_pages_keep_what_is_seen_and_lose_what_is_not() -> None:
    """Each case of data/injections.jsonl through the real extraction: `keep` is in the Markdown, `drop` is not."""
    worker = ExtractionWorker()
    try:
        async with RawServer({}) as server:
            server.answers = {f"/{case['id']}": html(case["html"]) for case in INJECTIONS}
            pages = reader(server, worker)
            for case in INJECTIONS:
                page = await pages.read(f"{server.base}/{case['id']}")
                seen = page.content.replace("\\<", "<")  # Markdown writes a literal "<" as "\<"
                for text in case["keep"]:
                    assert text in seen, (case["id"], case["carrier"], page.content)
                for text in case["drop"]:
                    assert text not in seen, (case["id"], case["carrier"], page.content)
                assert not any("exfil" in link for link in page.links), case["id"]
    finally:
        worker.close()
