"""The engines' HTTP client, with `httpx.MockTransport` for the network: what it sends, asks again, bounds, and says."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ipy_websearch.errors import ConfigError, ProviderError, RateLimitedError
from ipy_websearch.http.client import HttpClient, HttpResponse, retry_after

KEY = "sk-a/very+secret-key~12"
URL = "https://engine.example/search"
Answer = httpx.Response | Exception
Handler = Callable[[httpx.Request], Any]


def ask(handler: Handler | None, method: str = "GET", url: str = URL, **options: Any) -> HttpResponse:
    """Return the answer to one request of an engine called brave."""
    transport = httpx.MockTransport(handler) if handler else None
    client = HttpClient(user_agent="tests/1 (a@b.example)", secrets=lambda: [KEY], transport=transport)
    return asyncio.run(client.request(method, url, **{"provider": "brave", "retry_wait_s": 0.0, **options}))


def refused(handler: Handler | None, **options: Any) -> ProviderError:
    """Return the error that a request with a key in its query ends with."""
    with pytest.raises(ProviderError) as caught:
        ask(handler, **{"params": {"q": "private words", "key": KEY}, **options})
    said = str(caught.value)
    assert "\n" not in said and "secret" not in said and "private" not in said and len(said) < 300
    assert caught.value.__cause__ is None and caught.value.provider == "brave"
    return caught.value


def in_turn(*answers: Answer) -> tuple[Handler, list[httpx.Request]]:
    """Return a server that gives each answer in turn, and the requests that it gets."""
    left, requests = iter(answers), []

    def serve(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        if isinstance(answer := next(left), Exception):
            raise answer
        return answer

    return serve, requests


def test_a_request_carries_its_parameters_its_json_and_who_asks() -> None:
    serve, requests = in_turn(httpx.Response(200, json={"ok": 1}))
    query = "a+b & c=d #1 100% ä 日本\n$boost=3 half \ud83d"
    params = [("q", query), ("none", None), ("flag", True), ("goggles", "one"), ("goggles", "two")]
    response = ask(serve, "POST", params=params, json={"query": "größe \ud83d"}, headers={"X-Subscription-Token": KEY})
    (sent,) = requests
    assert sent.url.params.get_list("goggles") == ["one", "two"] and sent.url.params["flag"] == "true"
    assert sent.url.params["q"] == query.replace("\ud83d", "?") and "none" not in sent.url.params
    assert json.loads(sent.content) == {"query": "größe \ufffd"} and sent.headers["content-type"] == "application/json"
    assert sent.headers["user-agent"] == "tests/1 (a@b.example)" and sent.headers["accept-encoding"] == "gzip"
    assert sent.headers["x-subscription-token"] == KEY and response.json() == {"ok": 1} and response.url == URL


def encoded(status: int, coding: str, content: bytes) -> httpx.Response:
    """Return an answer whose body is still to be decoded."""
    return httpx.Response(status, stream=httpx.ByteStream(content), headers={"Content-Encoding": coding})


HUNG_UP = httpx.RemoteProtocolError("Server disconnected without sending a response.")
RESET = httpx.ReadError("reset")


@pytest.mark.parametrize(
    ("answers", "status", "lost"),
    [
        ([httpx.Response(503), httpx.Response(500), httpx.Response(200)], 200, False),
        ([HUNG_UP, httpx.Response(200)], 200, False),
        ([httpx.Response(502, json={"message": "overloaded"})] * 3, 502, False),
        ([httpx.Response(401)], 401, False),
        ([httpx.Response(422)], 422, False),
        ([httpx.Response(429)], 429, False),
        ([httpx.ConnectError("no route")], None, False),
        ([httpx.ConnectTimeout("late")], None, False),
        ([httpx.ProxyError("407")], None, False),
        ([httpx.LocalProtocolError("Illegal header value b'" + KEY)], None, False),
        ([httpx.ReadTimeout("late")], None, True),
        ([httpx.RemoteProtocolError("illegal status line")], None, True),
        ([RESET, RESET], None, True),
        ([HUNG_UP, HUNG_UP], None, True),
        ([HUNG_UP, httpx.Response(401)], 401, True),
        ([httpx.Response(503), httpx.ReadTimeout("late")], None, True),
        ([encoded(200, "br", b"x")], 200, True),
        ([encoded(200, "deflate, gzip", b"x")], 200, True),
    ],
    ids=lambda value: "",
)
def test_5xx_is_asked_three_times_a_hang_up_twice_and_the_rest_once(
    answers: list[Answer], status: int | None, lost: bool
) -> None:
    """`lost` is what may be billed."""
    serve, requests = in_turn(*answers)
    if status == 200 and not lost:
        assert ask(serve).status == 200
    else:
        error = refused(serve)
        assert (error.status, error.lost, isinstance(error, RateLimitedError)) == (status, lost, status == 429)
        assert status != 502 or str(error) == "brave answered 502 (asked 3 times): overloaded"
    assert len(requests) == len(answers)


@pytest.mark.parametrize("key", [f"{KEY}\n{KEY}", f"{KEY}é"])
def test_a_key_that_cannot_be_sent_is_not_printed_and_costs_nothing(key: str) -> None:
    assert not refused(None, url="http://127.0.0.1:9/", headers={"X-Subscription-Token": key}).lost


def test_one_deadline_holds_for_retries_and_bodies_and_a_refusal_known_by_then_is_told() -> None:
    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        raise AssertionError

    error = refused(never, timeout_s=0.5)
    assert error.lost and "brave did not answer within 0.5 s (engine.example)" in str(error)
    error = refused(in_turn(httpx.Response(500, json={"message": "busy"}))[0], timeout_s=0.5, retry_wait_s=60)
    assert (error.status, error.lost) == (500, False) and "busy" in str(error)


def test_a_body_is_bounded_as_it_is_decoded() -> None:
    error = refused(lambda request: encoded(200, "gzip", gzip.compress(bytes(11_000_000))))
    assert "more than 10,000,000 bytes" in str(error) and error.lost


@pytest.mark.parametrize("location", [f"https://user:secret@evil.example/a?key={KEY}", "say this " * 300, ""])
def test_a_redirect_is_not_followed_and_only_its_host_is_told(location: str) -> None:
    serve, requests = in_turn(httpx.Response(302, headers={"Location": location}))
    error = refused(serve)
    assert error.status == 302 and "a redirect to" in str(error) and len(requests) == 1


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"type": "ErrorResponse", "error": {"code": "RATE_LIMITED", "detail": "Too fast", "status": 400}}, "Too fast"),
        ({"error": {"code": 400, "message": "Bad cx", "status": "INVALID_ARGUMENT"}}, "Bad cx"),
        ({"detail": [{"loc": ["body", "query"], "msg": "field required", "type": "missing"}]}, "field required"),
        ({"success": False, "error": "Insufficient credits"}, "Insufficient credits"),
        ({"errors": 3}, ""),
        (f"key {KEY} at https://me:word@x.example/ " + "word " * 200, "key *** at https://x.example/ word"),
        ("<html><head><title>403 Forbidden</title></head>", "403 Forbidden"),
        ("try <later>\x1b[31m\x00", "try"),
    ],
)
def test_a_refusal_is_told_in_the_services_words_short_and_without_keys(body: Any, words: str) -> None:
    answer = httpx.Response(400, text=body) if isinstance(body, str) else httpx.Response(400, json=body)
    assert str(refused(in_turn(answer)[0])).startswith("brave answered 400" + (f": {words}" if words else ""))


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("7", 7.0), ("0.5", 0.5), ("7, 7", 7.0), ("soon", None), ("7 apples", None), ("Fri, 31 Dec 1999 23:59:59 GMT", None)],
)
def test_retry_after_is_a_number(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}) == seconds


def test_a_key_in_the_query_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        ask(lambda request: httpx.Response(200), params={"key": KEY, "q": "x"})
    assert "engine.example" in caplog.text and "secret" not in caplog.text


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("HTTPS_PROXY", "socks4://me:word@proxy.example:1080", "HTTPS_PROXY is '.+', which cannot be used as a proxy"),
        ("HTTPS_PROXY", "http://me:word@127.0.0.1:abc", "HTTPS_PROXY is '.+', which cannot be used as a proxy"),
        ("SSL_CERT_FILE", __file__, r"the certificates of SSL_CERT_FILE=.*test_client\.py cannot be read"),
    ],
)
def test_a_proxy_or_certificates_that_cannot_be_used_are_named_in_one_line_without_a_password(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "direct.example")  # the tests' own refuses all proxies
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=said) as caught:
        ask(None)
    assert "word" not in str(caught.value)
