"""Contract: what goes wrong outside is retried by law, said in one line, and never becomes data."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest

import ipy_websearch as web
from ipy_websearch.errors import MissingKeyError, ModelError, ProviderError, RateLimitedError
from tests.contract.helpers import results_of, search
from tests.fakes.engines import Answer
from tests.fakes.replies import Recording, error, recorded

UNAVAILABLE = "Search unavailable. Please answer from your knowledge."


def test_an_overloaded_model_is_asked_again_and_a_third_failure_is_one_line(messages_api: Any) -> None:
    messages_api.replies(error(529), error(429), "Here I am.", *[error(529)] * 3)
    assert web.ask("Who?").text == "Here I am."
    with pytest.raises(ModelError, match="529") as caught:
        web.ask("Who?")
    assert "\n" not in str(caught.value) and caught.value.status == 529 and len(messages_api.requests) == 6


def test_a_spend_cap_and_a_refused_request_are_not_retried(messages_api: Any) -> None:
    messages_api.replies(recorded("synthetic_error_429_spend_cap.json", status=429), error(400, message="messages.0: too odd"))
    for told in ("spend cap", "too odd"):
        with pytest.raises(ModelError, match=told):
            web.ask("Who?")
    assert len(messages_api.requests) == 2


def test_a_refused_model_key_names_the_fix_and_not_the_key(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    messages_api.allow_refusals = True
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-wrong-and-secret")
    with pytest.raises(ModelError, match="%websearch key anthropic") as caught:
        web.ask("Who?")
    assert "secret" not in str(caught.value) and len(messages_api.requests) == 1


@pytest.mark.parametrize(("status", "requests"), [(500, 3), (503, 3), (400, 1), (403, 1), (429, 1)])
def test_engines_are_retried_on_server_errors_alone(brave_api: Any, status: int, requests: int) -> None:
    brave_api.behave(lambda values: Answer(body=brave_api.error_body(status), status=status))
    with pytest.raises(RateLimitedError if status == 429 else ProviderError) as caught:
        web.search("ruby author", provider="brave")
    assert len(brave_api.requests) == requests and "\n" not in str(caught.value)
    times = [request.at for request in brave_api.requests]
    assert all(later - before >= 0.9 for before, later in pairwise(times)), "a second lies between two tries"


def test_in_an_answer_a_failed_search_is_an_error_result_in_the_agreed_words(messages_api: Any, brave_api: Any) -> None:
    brave_api.fail(429)
    messages_api.replies(search("ruby author"), "From memory: Matz.")
    answer = web.ask("Who?", provider="brave")
    assert answer.text == "From memory: Matz." and answer.notices[0].startswith("brave answered 429")
    (result,) = results_of(messages_api.bodies[1])
    assert result["is_error"] and UNAVAILABLE in str(result["content"])


LONG = {"Retry-After": "400000"}


@pytest.mark.parametrize("name", ["brave", "google", "firecrawl", "tavily", "perplexity", "exa", "searxng"])
@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (401, {}, None),
        (402, {}, None),
        (403, {}, None),
        (429, LONG, None),
        (200, {}, "<h1>Log in</h1>"),
        (200, {}, {}),
        (200, {}, b"{"),
    ],
    ids=["key", "credit", "plan", "quota", "login page", "empty", "cut off"],
)
def test_a_failing_engine_hands_on_says_so_and_is_not_asked_again_at_once(
    engine: Any, wikipedia_api: Any, name: str, status: int, headers: Any, body: Any
) -> None:
    fake = engine(name)
    fake.fail(status, headers=headers, body=body)
    found = [web.search("moons of Mars", fresh=True) for _ in range(2)]
    assert {results.provider for results in found} == {"wikipedia"} and len(fake.requests) == 1
    assert name in found[0].notices[0] and found[0].notices == found[1].notices
    assert "wikipedia was asked instead" in found[0].notices[0]
    assert len(re.findall(r"(?:not asked again before|ask again at) 20\d\d-", found[0].notices[0])) == 1


@pytest.mark.parametrize("status", [403, 429])
def test_the_embedded_index_never_stands_in_for_a_failed_engine(brave_api: Any, offline: list[str], status: int) -> None:
    """A quota that is used up is said at once."""
    brave_api.fail(status, headers=LONG)
    with pytest.raises(ProviderError, match=f"the search failed: brave answered {status}.*; wikipedia could not be reached"):
        web.search("moons of Mars")
    assert len(brave_api.requests) == 1


@pytest.mark.parametrize("name", ["brave", "google", "tavily", "perplexity", "exa"])
def test_every_engine_gives_the_same_frame_and_refuses_without_a_key(engine: Any, name: str) -> None:
    with pytest.raises(MissingKeyError, match=f"%websearch key {name}") as caught:
        web.search("ruby author", provider=name)
    assert ".env" in str(caught.value)
    engine(name)
    frame = web.search("ruby author", provider=name, count=3).to_frame()
    assert list(frame.columns) == ["title", "url", "description", "published_date", "extra_snippets", "score"]
    assert len(frame) == 3 and frame.url.str.startswith("https://").all() and str(frame.published_date.dt.tz) == "UTC"


@pytest.mark.parametrize("body", [{"web": {"results": [None, 3, {"title": 5}]}}, "[" * 400 + "]" * 400])
def test_an_odd_answer_of_an_engine_is_one_line(brave_api: Any, body: Any) -> None:
    brave_api.reply(body=body)
    with pytest.raises(ProviderError, match=r"\A[^\n]+\Z"):
        web.search("ruby author", provider="brave")


def test_half_an_emoji_in_an_answer_can_be_shown_and_stored(brave_api: Any) -> None:
    brave_api.reply(body={"web": {"results": [{"title": "half an emoji \ud83d", "url": "https://a.example/"}]}})
    assert "half an emoji \ufffd".encode() in web.search("ruby author", provider="brave").to_frame().to_csv().encode()


def test_an_odd_event_of_a_stream_is_a_model_error(messages_api: Any) -> None:
    stream = recorded("mira_max_tokens_stream.sse")
    assert isinstance(stream, Recording) and stream.stream
    odd = Recording(stream.message, stream.stream.replace('"index":0', '"index":"first"'))
    messages_api.behave(lambda body: [odd])  # a stream that showed no text may be asked for again
    with pytest.raises(ModelError):
        web.ask("Who?")
