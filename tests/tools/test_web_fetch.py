"""The tool `web_fetch`: its schema, which addresses it may fetch, what the model gets, and how failures are told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import FetchError
from ipy_websearch.extract.reader import window
from ipy_websearch.results import Page
from ipy_websearch.tools.base import Passage, ToolContext, ToolOutput
from ipy_websearch.tools.web import (
    MOST_ENDS,
    addresses_in,
    explicit_addresses,
    is_known,
    web_fetch_tool,
)

pytestmark = pytest.mark.anyio

DATE = datetime(2026, 3, 1, tzinfo=UTC)
URL = "https://example.com/guide"
GUIDE = Page(URL, URL, "Guide", "# One\n\ntwo\n\nthree", 0, 0, DATE)


@dataclass
class Pages:
    """Stands for the reader: one page, or an error, whatever the address."""

    page: Page | Exception = GUIDE
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
    page = replace(GUIDE, final_url=f"{URL}/", links=("https://example.com/next",), cached=True, note="plain text only: x")
    output = await fetched(Pages(page), offset=None)
    assert output.passages == (Passage(f"{URL}/", "Guide", ("# One\n\ntwo", "three"), DATE, "page"),)
    assert output.urls == (f"{URL}/", "https://example.com/next") and output.panel_data == "# One\n\ntwo\n\nthree"
    assert output.summary == "read 5 lines of example.com/guide (cached)" and not output.is_error
    assert output.notices == ("example.com/guide: plain text only: x",) and output.charges[0].usd == 0


async def test_a_long_page_comes_in_parts_with_the_next_offset_as_a_field() -> None:
    """500 lines unless a limit is given, 40,000 characters at once; parts leave out nothing."""
    pages = Pages(replace(GUIDE, content="\n".join(f"line {n}" for n in range(1, 1_241))))
    parts = [await fetched(pages, offset=o, limit=n) for o, n in ((1, None), (501, 700), (1_201, None))]
    assert [part.passages[0].paragraphs[-1] for part in parts] == [
        "lines 1–500 of 1,240; next_offset: 501",
        "lines 501–1,200 of 1,240; next_offset: 1201",
        "lines 1,201–1,240 of 1,240",
    ]
    assert parts[0].panel_data.endswith("line 1240") and "line 501\n" in parts[1].passages[0].paragraphs[0]


KNOWN = ["https://Example.com/guide/", "http://bücher.example:80/ä b?q=1#part", "corpus://planets/mars"]


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
async def test_only_addresses_that_somebody_else_wrote_down_are_fetched(url: str, may: bool) -> None:
    """An address that the model made up could carry away what it knows; it is refused and nothing is read."""
    pages = Pages()
    output = await fetched(pages, url, known=KNOWN)
    assert output.is_error is not may and bool(pages.reads) is may
    if not may:
        assert output.text.startswith(
            "Failed to fetch URL: only addresses from the question, from search results or from pages already read may be "
            "fetched (url_not_in_prior_context): "
        )
        assert output.panel_data is None and not output.urls and not output.charges


@pytest.mark.parametrize(
    ("domains", "url", "told"),
    [
        ({"allowed_domains": ("example.org",)}, URL, "this domain was not allowed (url_not_allowed)"),
        ({"allowed_domains": ("ple.com",)}, URL, "this domain was not allowed (url_not_allowed)"),
        ({"blocked_domains": ("example.com",)}, URL, "this domain was not allowed (url_not_allowed)"),
        ({"allowed_domains": ("example.org",)}, "https://www.example.org/x", "redirects to a domain that was not allowed"),
    ],
)
async def test_domains_of_the_user_bind_the_model(domains: Any, url: str, told: str) -> None:
    """Outside of the allowed ones, inside a blocked one, or redirected there: refused."""
    pages = Pages()
    output = await fetched(pages, url, made=domains)
    assert output.is_error and told in output.text and bool(pages.reads) is ("redirects" in told)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (FetchError("Connection timeout"), "Failed to fetch URL: Connection timeout"),
        (FetchError("Failed to parse HTML: it is an archive"), "Failed to parse HTML: it is an archive"),
    ],
)
async def test_a_failure_is_a_result_with_the_texts_of_the_specification(error: Exception, text: str) -> None:
    output = await fetched(Pages(error))
    assert (output.text, output.is_error, output.passages) == (text, True, ())


WIKI = "https://en.wikipedia.org/wiki"


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("url,name\nhttps://a.example/x,Acme Inc", ["https://a.example/x"]),
        ("https://a.example/x;Acme", ["https://a.example/x"]),
        ("https://a.example/x,https://b.example/y", ["https://a.example/x", "https://b.example/y"]),
        ("https://a.example/x,b.example/y,T", ["https://a.example/x", "https://b.example/y"]),
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
        ("https://a.example中国.cn/x", ["https://a.example", "https://a.example/x"]),
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
