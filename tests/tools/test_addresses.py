"""Which addresses a text makes known: those that stand in it, whatever stands around them, and none that anyone else chose."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.tools.web_fetch import MOST_ENDS, addresses_in, explicit_addresses, is_known
from tests.fakes.replies import tool_use

PAGE = "<html><title>Acme</title><body><p>Acme makes anvils of iron, and has done so for a hundred years.</p></body></html>"
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
    known = addresses_in(text)
    assert [url for url in addresses if not is_known(url, known)] == []


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
    known = addresses_in(text)
    assert [url for url in made_up if is_known(url, known)] == []


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


def answers_of(api: Any) -> list[str]:
    """Return what the calls of the last request came to, as text."""
    blocks = api.bodies[-1]["messages"][-1]["content"]
    return [str(block["content"]) for block in blocks if block.get("type") == "tool_result"]


def test_an_address_in_a_frame_is_read_whatever_column_it_is_in(messages_api: Any, public_web: Any, shell: Any) -> None:
    """A frame comes as CSV: a comma follows the address; what the model adds to it is refused all the same."""
    url = public_web.page("http://acme.example/about", PAGE)
    shell.run(f"import pandas as pd; frame = pd.DataFrame({{'url': ['{url}'], 'site': ['acme.example'], 'n': ['Acme']}})")
    messages_api.reply(tool_use("web_fetch", {"url": url}), tool_use("web_fetch", {"url": f"{url}?d=key"}))
    messages_api.reply("Anvils.")
    assert shell.run("%%ask\nWhat does it make? {frame}").ok
    read, refused = answers_of(messages_api)
    assert "anvils of iron" in read and "url_not_in_prior_context" in refused


@pytest.mark.parametrize(
    "question", ["{frame}", "“http://acme.example/about”", "读http://acme.example/about，谢谢", "http://acme.example/about’s"]
)
def test_the_offline_model_opens_the_address_that_was_meant(public_web: Any, shell: Any, question: str) -> None:
    """It reads the page, as Claude would."""
    url = public_web.page("http://acme.example/about", PAGE)
    shell.run(f"import pandas as pd; frame = pd.DataFrame({{'url': ['{url}'], 'name': ['Acme']}})")
    assert shell.run(f"a = %ask --model offline --provider local What does Acme make? {question}").ok
    assert [request.path for request in public_web.requests] == ["/about"]
