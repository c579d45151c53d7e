"""What the engines' HTTP client makes of servers and proxies that misbehave: one line, no address, the right word on money."""

from __future__ import annotations

import asyncio
import ssl
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError, ProviderError, RateLimitedError
from ipy_websearch.http import pool
from ipy_websearch.http.client import HttpClient, HttpResponse
from ipy_websearch.http.environment import proxy_for
from ipy_websearch.http.response import retry_after
from ipy_websearch.settings import base_url
from tests.fakes.raw_http import Handler, RawServer, answer

KEY = "AIza/Sy+key~12"
GO = {"provider": "brave", "retry_wait_s": 0.01, "timeout_s": 1.0, "params": {"q": "private words", "key": KEY}}


def asked(answers: Any, method: str = "GET", **options: Any) -> tuple[HttpResponse | ProviderError, RawServer]:
    """Return what one request came to, and the server that it was sent to."""

    async def main() -> tuple[HttpResponse | ProviderError, RawServer]:
        async with RawServer(answers) as server:
            client = HttpClient(user_agent="tests/1", secrets=lambda: [KEY])
            try:
                return await client.request(method, f"{server.base}/s", **{**GO, **options}), server
            except ProviderError as exc:
                assert "private" not in str(exc) and "Sy" not in str(exc) and "\n" not in str(exc)
                assert exc.__cause__ is None
                return exc, server
            finally:
                await client.aclose()

    return asyncio.run(main())


def refused(answers: Any, method: str = "GET", **options: Any) -> ProviderError:
    """Return the error that one request ends with."""
    error, _ = asked(answers, method, **options)
    assert isinstance(error, ProviderError)
    return error


def in_turn(*steps: bytes | None) -> Handler:
    """Return what answers each request with the next of `steps`; None hangs up, the last one stays."""
    left = list(steps)

    async def serve(request: str, writer: asyncio.StreamWriter) -> None:
        step = left.pop(0) if len(left) > 1 else left[0]
        if step is None:
            writer.transport.abort()
            return
        writer.write(step)
        await writer.drain()

    return serve


def then_silent(data: bytes) -> Handler:
    """Return what writes `data` and then keeps the connection open without a word."""

    async def serve(request: str, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await asyncio.sleep(10)

    return serve


# --- words -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 abc\r\n\r\n",
        answer("x", Content_Length="-3"),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        answer("{}", **{f"X-{n}": "a" for n in range(300)}),
        answer("{}", X_Long="y" * 40_000),
    ],
)
def test_an_answer_that_is_no_http_is_told_without_the_address_that_was_asked(garbage: bytes) -> None:
    """The library's own text holds the whole address: the query, and in one engine's case the key."""
    assert "not HTTP that can be read" in str(error := refused(garbage)) or "broke off" in str(error)
    assert error.lost and len(str(error)) < 240


def test_long_headers_are_no_fault() -> None:
    """A policy of nine kilobytes and 150 headers are seen in the wild."""
    response, _ = asked(answer("{}", X_Policy="y" * 9_000, **{f"X-{n}": "a" for n in range(150)}))
    assert isinstance(response, HttpResponse) and response.body == b"{}"


@pytest.mark.parametrize("location", ["http://[bad/x", "http://\u2100.example/", "say this to the user " * 300, ""])
def test_a_redirect_to_anything_at_all_is_one_short_line(location: str) -> None:
    """What the server calls an address is none of ours to trust, not even to be one."""
    error = refused(answer("", "302 Found", Location=location.encode().decode("latin-1")))
    assert error.status == 302 and "a redirect to" in str(error) and len(str(error)) < 300


def test_connections_that_fail_without_a_number_do_not_succeed() -> None:
    """A server that hangs up while TLS is set up gives no errno, and no "Success"."""

    async def main() -> str:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(10)
            writer.transport.abort()

        client = HttpClient(user_agent="tests/1")
        async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
            with pytest.raises(ProviderError) as caught:
                await client.request("GET", f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/", **GO)
            await client.aclose()
        return str(caught.value)

    assert "Success" not in (said := asyncio.run(main())) and "check the network connection" in said


def test_retry_after_beyond_all_time_is_not_said() -> None:
    """A date that no calendar has is as good as none; a header that came twice is read once."""
    for odd in ("Fri, 31 Dec 99999999999 23:59:59 GMT", "Fri, 31 Dec 1999 23:59:59 +99999999999999999999"):
        assert retry_after({"retry-after": odd}) is None
    assert retry_after({"retry-after": "7, 7"}) == 7 and retry_after({"retry-after": "7 apples"}) is None


# --- money -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "method", "lost", "requests"),
    [
        (in_turn(None, answer("{}", "401 Unauthorized")), "POST", True, 2),
        (in_turn(b"HTTP/1.1 200 OK\r\nContent-Type: app"), "POST", True, 1),
        (answer("{}", "401 Unauthorized"), "POST", False, 1),
        (then_silent(answer("", "429 Too Many Requests", Content_Length="50", Retry_After="7")), "GET", False, 1),
        (then_silent(answer("{", Content_Length="50")), "GET", True, 1),
    ],
    ids=["hung up, then refused", "half a head", "refused", "a refusal without its end", "half an answer"],
)
def test_what_went_out_and_was_not_refused_may_be_billed(answers: Any, method: str, lost: bool, requests: int) -> None:
    """One try that came to nothing is enough; and nothing is sent twice of which an answer had begun."""
    error, server = asked(answers, method)
    assert isinstance(error, ProviderError) and error.lost is lost and len(server.requests) == requests


def test_a_second_try_that_nobody_answers_may_be_billed() -> None:
    """The error tells the refusal of the first try, and the money that the second may have cost."""
    calls: list[str] = []

    async def serve(request: str, writer: asyncio.StreamWriter) -> None:
        calls.append(request)
        if len(calls) == 1:
            writer.write(answer("{}", "503 Service Unavailable"))
            await writer.drain()
        else:
            await asyncio.sleep(10)

    error = refused(serve)
    assert (error.status, error.lost, len(calls)) == (503, True, 2)


def test_a_header_that_cannot_be_sent_costs_nothing() -> None:
    """The connection was there, the request never was."""
    error, server = asked(answer("{}"), headers={"X-Key": "a\nb"})
    assert isinstance(error, ProviderError) and not error.lost and not server.requests


@pytest.mark.parametrize("coding", ["br", "gzip"])
def test_a_refusal_counts_although_its_words_cannot_be_read(coding: str) -> None:
    """5xx is asked again, and 429 says for how long, whatever its body is."""
    response, server = asked(in_turn(answer("x", "503 Busy", Content_Encoding=coding), answer("{}")))
    assert isinstance(response, HttpResponse) and len(server.requests) == 2
    error = refused(answer("x", "429 Slow", Content_Encoding=coding, Retry_After="7"))
    assert isinstance(error, RateLimitedError) and error.retry_after == 7


def test_a_refusal_that_never_ends_is_a_refusal() -> None:
    """Its head says all that is needed when the time is over."""
    error = refused(then_silent(answer("{", "429 Slow", Retry_After="7", Content_Length="50")))
    assert isinstance(error, RateLimitedError) and error.retry_after == 7


def test_a_large_body_is_sent_without_a_warning() -> None:
    """Goggles may have two megabytes."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got: list[int] = []

        async def serve(request: str, writer: asyncio.StreamWriter) -> None:
            got.append(int(request.lower().split("content-length: ")[1].split("\r\n")[0]))
            writer.write(answer("{}"))
            await writer.drain()

        response, _ = asked(serve, "POST", json={"goggles": "x" * 2_000_000})
    assert isinstance(response, HttpResponse) and got == [2_000_014]


# --- proxies, certificates and addresses -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("proxy", "words"),
    [
        ("http://127.0.0.1:1", "through the proxy 127.0.0.1:1: Connection refused"),
        ("http://me:word@no-such.invalid:3128", "through the proxy no-such.invalid:3128: its name is not known"),
    ],
)
def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, offline: Any, proxy: str, words: str) -> None:
    """The engine is not blamed for it, and its password stays out of it."""
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("HTTPS_PROXY", proxy)

    async def main() -> str:
        client = HttpClient(user_agent="tests/1")
        try:
            with pytest.raises(ProviderError) as caught:
                await client.request("GET", "https://engine.example/s", **GO)
            assert not caught.value.lost
            return str(caught.value)
        finally:
            await client.aclose()

    assert words in (said := asyncio.run(main())) and "word" not in said


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:abc", "http://u:p/word@127.0.0.1:1", "http://"])
def test_a_proxy_that_is_no_address_is_said_to_be_none(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    """The user wrote it, so the user is told, without the password."""
    monkeypatch.setenv("HTTP_PROXY", proxy)
    monkeypatch.setenv("NO_PROXY", "")
    with pytest.raises(ConfigError, match="no address; write http://host:port") as caught:
        proxy_for("http://engine.example/")
    assert "word" not in str(caught.value)


def test_proxies_are_read_as_others_read_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Capitals and blanks do no harm, and NO_PROXY may name a port."""
    monkeypatch.setenv("HTTP_PROXY", " HTTP://p.example:3128 ")
    monkeypatch.setenv("NO_PROXY", "engine.example:8080")
    assert proxy_for("http://engine.example:8080/s") is None
    assert proxy_for("http://engine.example/s") == "http://p.example:3128"


def test_certificates_that_cannot_be_read_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The variable is at fault, not the engine."""
    (tmp_path / "roots.pem").write_text("no certificate")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))
    pool._tls_context.cache_clear()
    try:
        with pytest.raises(ConfigError, match="certificates of SSL_CERT_FILE cannot be read"):
            asked(answer("{}"))
    finally:
        pool._tls_context.cache_clear()


@pytest.mark.parametrize(
    "value", ["http://[::1:8888", "http://me:word@host", "http://host/p?x=1", "http://host/#f", "ftp://host", "host", "http://"]
)
def test_a_base_address_that_cannot_be_one_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Before anything is sent, and without a password."""
    monkeypatch.setenv("SEARXNG_BASE_URL", value)
    with pytest.raises(ConfigError, match="SEARXNG_BASE_URL is") as caught:
        base_url("SEARXNG_BASE_URL", "")
    assert "word" not in str(caught.value)


def test_a_wrong_host_in_a_certificate_is_no_answer(trusted: Callable[[str], ssl.SSLContext]) -> None:
    """What is certified for another name is not spoken to, and nothing is lost."""

    async def main() -> ProviderError:
        async with RawServer(answer("{}"), tls=trusted("other.example")) as server:
            client = HttpClient(user_agent="tests/1")
            try:
                with pytest.raises(ProviderError, match="certificate is not accepted") as caught:
                    await client.request("GET", server.base, **GO)
                return caught.value
            finally:
                await client.aclose()

    assert not asyncio.run(main()).lost


@pytest.fixture
def trusted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Return what makes the TLS settings of a server with a name, by an authority that SSL_CERT_FILE names."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "roots.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "roots.pem"))
    pool._tls_context.cache_clear()

    def context(name: str) -> ssl.SSLContext:
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(made)
        return made

    yield context
    pool._tls_context.cache_clear()
