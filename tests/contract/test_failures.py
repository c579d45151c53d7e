"""Contract: what goes wrong outside is retried by law, said in one line, and never becomes data."""

from __future__ import annotations

from typing import Any

import pytest

import ipy_websearch as web
from ipy_websearch.errors import MissingKeyError, ModelError, ProviderError, RateLimitedError
from tests.contract.helpers import results_of, search
from tests.fakes.engines import Answer
from tests.fakes.replies import Recording, error, recorded

UNAVAILABLE = "Search unavailable. Please answer from your knowledge."


def test_an_overloaded_model_is_asked_again_and_a_third_failure_is_one_line(messages_api: Any) -> None:
    for status in (529, 429, 529, 529, 529):
        messages_api.reply(error(status))
        if status == 429:
            messages_api.reply("Here I am.")
    assert web.ask("Who?").text == "Here I am."
    with pytest.raises(ModelError, match="529") as caught:
        web.ask("Who?")
    assert "\n" not in str(caught.value) and caught.value.status == 529 and len(messages_api.requests) == 6


def test_a_spend_cap_and_a_refused_request_are_not_retried(messages_api: Any) -> None:
    messages_api.reply(recorded("synthetic_error_429_spend_cap.json", status=429))
    messages_api.reply(error(400, message="messages.0: too odd"))
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
    if requests == 3:
        first, second, third = (request.at for request in brave_api.requests)
        assert min(second - first, third - second) >= 0.9, "a second lies between two tries"


def test_in_an_answer_a_failed_search_is_an_error_result_in_the_agreed_words(messages_api: Any, brave_api: Any) -> None:
    brave_api.fail(429)
    messages_api.reply(search("ruby author"))
    messages_api.reply("From memory: Matz.")
    assert web.ask("Who?", provider="brave").text == "From memory: Matz."
    (result,) = results_of(messages_api.bodies[1])
    assert result["is_error"] and UNAVAILABLE in str(result["content"])


def test_the_embedded_index_never_stands_in_for_a_failed_engine(brave_api: Any, offline: list[str]) -> None:
    brave_api.fail(403)
    with pytest.raises(ProviderError, match="(?i)brave"):
        web.search("moons of Mars")


def test_a_failing_engine_hands_on_to_the_next_web_engine_and_says_so(brave_api: Any, wikipedia_api: Any) -> None:
    brave_api.fail(403)
    found = web.search("moons of Mars")
    assert found.provider == "wikipedia" and len(found) and found.cost_usd == 0
    assert "brave" in " ".join(found.notices).lower()


def test_an_exhausted_quota_is_said_at_once(brave_api: Any, offline: list[str]) -> None:
    spent = {"X-RateLimit-Limit": "1, 2000", "X-RateLimit-Remaining": "0, 0", "X-RateLimit-Reset": "1, 1419704"}
    brave_api.fail(429, headers=spent)
    with pytest.raises(ProviderError, match="(?i)brave"):
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


@pytest.mark.parametrize(
    "body",
    [
        {"type": "search", "web": {"results": [{"title": "half an emoji \ud83d", "url": "https://a.example/"}]}},
        {"web": {"results": "none"}},
        {"web": {"results": [None, 3, {"title": 5, "url": ["x"]}]}},
        "[" * 400 + "]" * 400,
        "this is no JSON",
    ],
    ids=["half an emoji", "no list", "no results", "deep", "no JSON"],
)
def test_an_odd_answer_of_an_engine_is_results_or_one_line(brave_api: Any, body: Any) -> None:
    brave_api.behave(lambda values: Answer(body=body))
    try:
        frame = web.search("ruby author", provider="brave").to_frame()
    except ProviderError as exc:
        assert "\n" not in str(exc)
    else:
        frame.to_csv().encode()


def test_an_odd_event_of_a_stream_is_a_model_error(messages_api: Any) -> None:
    stream = recorded("mira_max_tokens_stream.sse")
    assert isinstance(stream, Recording) and stream.stream
    odd = Recording(stream.message, stream.stream.replace('"index":0', '"index":"first"'))
    messages_api.behave(lambda body: [odd])  # a stream that showed no text may be asked for again
    with pytest.raises(ModelError):
        web.ask("Who?")
