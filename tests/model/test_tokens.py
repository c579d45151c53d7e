"""How many tokens a request is reckoned with: at least as many as it has, by the kinds of its characters and what it names."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.model.requests import (
    IMAGE_TOKENS,
    caches_for_an_hour,
    estimate_tokens,
    prompt_tokens,
    text_tokens,
)
from ipy_websearch.results import Usage
from tests.fakes.replies import WIRE

OPUS, SONNET = "claude-opus-5", "claude-sonnet-5-5"
BY_ADDRESS = {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}
BY_ID = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * 60_000}}


def user(*blocks: Any) -> list[dict[str, Any]]:
    """Return a history of one turn."""
    return [{"role": "user", "content": [*blocks, {"type": "text", "text": "What is this?"}]}]


@pytest.mark.parametrize("name", ["pai_parallel_tool_use_json_1", "pai_parallel_tool_use_json_2", "ruby_search_result_tool_1",
                                  "ruby_search_result_tool_2", "pai_web_search_json_turn1", "pai_web_search_json_turn2",
                                  "pai_server_plus_client_tool_inflight"])  # fmt: skip
def test_the_estimate_is_never_below_what_was_recorded(name: str) -> None:
    """Every recorded pair of request and usage: what the API billed is at most what a budget reckoned with."""
    request = json.loads((WIRE / "anthropic" / f"{name}.request.json").read_text())
    billed = json.loads((WIRE / "anthropic" / f"{name}.json").read_text())["usage"]["input_tokens"]
    assert billed <= estimate_tokens(request) <= 5 * billed + 900_000


def test_the_recorded_ten_searches_are_within_the_estimate() -> None:
    """Ten searches of the API made 2,479 tokens into 404,500: an allowance for them covers that."""
    tool = {"type": "web_search_20250305", "name": "web_search", "max_uses": 10}
    body = {"messages": [{"role": "user", "content": "x " * 2400}], "tools": [tool]}
    assert 404_500 <= estimate_tokens(body) <= 900_000
    assert estimate_tokens({**body, "tool_choice": {"type": "none"}}) < 10_000


@pytest.mark.parametrize(
    ("sample", "least"),
    [
        ("The quick brown fox jumps over the lazy dog. ", 11),  # words and the full stop, 1.1 tokens each
        ("火星有两颗卫星", 10),  # up to 1.5 tokens a character
        ("日本語のテキストです", 14),
        ("한국어 문장입니다", 13),
        ("🛰️", 7),  # a pictograph of up to four tokens and its variation selector of three
        ("👩‍🚀", 10),
        ("नमस्ते", 12),
        ("สวัสดี", 12),
        ("Сколько спутников", 12),
        ("3.14159265358979", 15),
        ("sk9f8a7sd6f5a4s3d2f1g0h9j8k7l6z5x4c3v2b1n0m", 28),
    ],
)
def test_every_kind_of_character_counts_what_it_takes(sample: str, least: int) -> None:
    """Scripts, emoji, digits and keys: at least as many tokens as tokenizers cut them into, at most four a character."""
    assert least <= text_tokens(sample) <= 4 * len(sample)


def test_text_without_words_counts_about_twice_as_much() -> None:
    """Tokenizers cut keys, hashes and base64 after one or two characters: some 0.75 tokens a character."""
    data = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(100))
    encoded = base64.b64encode(data).decode()
    assert 0.75 * len(encoded) <= text_tokens(encoded) <= len(encoded)
    assert text_tokens("QmFzZTY0" * 800) >= 0.75 * 6_400
    assert text_tokens("internationalization " * 100) < 0.45 * 2_100


@given(sample=st.text(max_size=200))
def test_counting_tokens_takes_any_text(sample: str) -> None:
    """More text never counts less, and nothing in it is an error; characters outside ASCII count a token each."""
    assert text_tokens(sample) >= sum(ord(character) > 127 for character in sample)
    assert text_tokens(sample + "a") >= text_tokens(sample)


def test_what_a_compaction_used_is_counted() -> None:
    """It is not in the top level; what the other iterations used is."""
    part = {"input_tokens": 180_000, "output_tokens": 3_500, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 9}
    iterations = [{"type": name, **part} for name in ("compaction", "message", "fallback_message")]
    got = Usage.from_api({"input_tokens": 20_000, "output_tokens": 1_000, "iterations": iterations, "speed": "fast"})
    assert got == Usage(200_000, 4_500, 7, 9, terms=frozenset({"fast"}))


@pytest.mark.parametrize("block", [BY_ADDRESS, BY_ID], ids=["address", "file"])
@pytest.mark.parametrize("inside", [False, True], ids=["plain", "in a result"])
def test_a_document_that_is_elsewhere_counts_as_all_that_the_model_reads(block: Any, inside: bool) -> None:
    """Its size is not known before the API has read it."""
    if inside:
        block = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    body = {"messages": user(block)}
    assert estimate_tokens({**body, "model": SONNET}) == 1_000_000
    assert prompt_tokens(body) < 500


def test_an_image_counts_as_the_largest_there_is() -> None:
    """Whatever form it has and wherever it stands; what is sent is left as it was."""
    named = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    nested = {"type": "document", "source": {"type": "content", "content": [PICTURE]}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [PICTURE, named]}
    messages = user(PICTURE, nested, result)
    assert 4 * IMAGE_TOKENS < estimate_tokens({"model": SONNET, "messages": messages}) < 4 * IMAGE_TOKENS + 1_000
    as_text = user(PICTURE, {"type": "text", "text": PICTURE["source"]["data"]})
    assert estimate_tokens({"model": SONNET, "messages": as_text}) > 100_000


def test_a_breakpoint_of_an_hour_is_found_wherever_it_stands() -> None:
    """One is enough: it may be the one that everything before it is written for."""
    for ttl in ("1h", "5m"):
        marked = {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", "ttl": ttl}}
        result = {"messages": user({"type": "tool_result", "tool_use_id": "t", "content": [marked]})}
        for body in ({"system": [marked]}, {"tools": [marked]}, {"messages": user(marked)}, result, marked):
            assert caches_for_an_hour(body) == (ttl == "1h")
