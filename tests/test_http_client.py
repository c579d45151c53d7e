"""The engines' HTTP client: what it sends, how long it waits, what it asks again, and what its errors say."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError, ProviderError, RateLimitedError, WebSearchError
from ipy_websearch.http.client import HttpClient, HttpResponse
from ipy_websearch.http.response import retry_after, service_message
from tests.fakes.scripted import Scripted

T = TypeVar("T")
KEY = "sk-a-very-secret-key-0123456789"


@pytest.fixture
def server() -> Iterator[Scripted]:
    """A server on loopback that says what the test scripts."""
    with Scripted() as made:
        yield made
    made.check()


def use(work: Callable[[HttpClient], Awaitable[T]], **settings: Any) -> T:
    """Return what `work` gives with a fresh client, which is closed afterwards."""

    async def run() -> T:
        client = HttpClient(user_agent="tests/1 (a@b.example)", secrets=lambda: [KEY], **settings)
        try:
            return await work(client)
        finally:
            await client.aclose()

    return asyncio.run(run())


def ask(url: str, **options: Any) -> HttpResponse:
    """Return the answer to one request with short pauses between retries."""
    options = {"provider": "brave", "retry_wait_s": 0.01, "method": "GET", **options}
    return use(lambda client: client.request(options.pop("method"), url, **options))


def refused(url: str, **options: Any) -> ProviderError:
    """Return the error that one request ends with."""
    with pytest.raises(ProviderError) as caught:
        ask(url, **options)
    assert "\n" not in str(caught.value) and KEY not in str(caught.value)
    return caught.value


def closed_port() -> int:
    """Return a port of this machine on which nobody listens."""
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        port: int = made.getsockname()[1]
        return port


# --- what is sent ---------------------------------------------------------------------------------------------------


def test_parameters_arrive_as_they_were_given(server: Scripted) -> None:
    """Blanks, signs, line feeds and other scripts survive the query string; None is left out, lists repeat."""
    server.answer({"ok": True})
    query = "a+b & c=d #1 100% 'x' \"y\" ä 日本\n$discard\n$boost=3,site=example.com"
    params = [("q", query), ("none", None), ("flag", True), ("n", 5), ("goggles", "one"), ("goggles", "two")]
    assert ask(server.url + "/res/v1/web/search", params=params).json() == {"ok": True}
    assert server.requests[0].params == {"q": query, "flag": "true", "n": "5", "goggles": ["one", "two"]}


def test_a_request_says_who_asks_and_takes_compressed_json(server: Scripted) -> None:
    """The user agent is ours; gzip is accepted and decoded; no cookie comes back."""
    server.answer(gzip.compress(b'{"a": 1}'), headers={"content-encoding": "gzip", "set-cookie": "spy=1", "x-odd": "1, 2"})

    url = server.url.replace("127.0.0.1", "localhost")  # cookies of bare addresses would be dropped anyway

    async def twice(client: HttpClient) -> HttpResponse:
        await client.request("GET", url, provider="brave")
        return await client.request("GET", url, provider="brave", headers={"X-Subscription-Token": KEY})

    response = use(twice)
    assert response.json() == {"a": 1} and response.status == 200 and response.headers["x-odd"] == "1, 2"
    headers = server.requests[1].headers
    assert headers["user-agent"] == "tests/1 (a@b.example)" and headers["accept"] == "application/json"
    assert headers["accept-encoding"] == "gzip" and headers["x-subscription-token"] == KEY and "cookie" not in headers


def test_a_body_is_sent_as_json(server: Scripted) -> None:
    """A POST carries its JSON, in UTF-8, with the content type."""
    server.answer({})
    ask(server.url, method="POST", json={"query": "größe", "n": 1})
    assert server.requests[0].body == {"query": "größe", "n": 1}
    assert server.requests[0].headers["content-type"] == "application/json"


def test_importing_the_client_imports_no_http_library() -> None:
    """`providers.base` is public, so importing it must stay cheap."""
    code = "import sys, ipy_websearch.providers.base; print({'httpx', 'aiohttp'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=sys.path[0] or ".")
    assert shown.stdout.strip() == "set()"


def test_an_address_with_a_key_in_it_is_never_logged(server: Scripted, caplog: pytest.LogCaptureFixture) -> None:
    """Google takes its key in the query; httpx's client would log the whole address, so it is not used."""
    server.answer({})
    with caplog.at_level(0):
        response = ask(server.url + "/customsearch/v1", params={"key": KEY, "q": "x"})
    assert KEY not in caplog.text and KEY not in repr(response) and KEY not in response.url


# --- retries and limits of time ----------------------------------------------------------------------------------------


def test_5xx_is_asked_again_twice(server: Scripted) -> None:
    """Two failures, then an answer: the answer counts."""
    server.answer(b"", status=503)
    server.answer(b"", status=500)
    server.answer({"ok": 1})
    assert ask(server.url).json() == {"ok": 1}
    assert len(server.requests) == 3


def test_5xx_three_times_is_an_error(server: Scripted) -> None:
    """After the second retry the status and the server's own words are the error."""
    server.answer({"error": {"message": "overloaded"}}, status=503)
    error = refused(server.url)
    assert (error.status, error.provider, len(server.requests)) == (503, "brave", 3)
    assert str(error) == "brave answered 503 (asked 3 times): overloaded"


def test_retries_are_a_second_apart(server: Scripted) -> None:
    """The pause between tries is 1 s unless said otherwise."""
    server.answer(b"", status=502)
    server.answer({})
    use(lambda client: client.request("GET", server.url, provider="brave"))
    assert 0.9 < server.requests[1].at - server.requests[0].at < 1.5


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_4xx_is_never_asked_again(server: Scripted, status: int) -> None:
    """A refusal stays one."""
    server.answer({"detail": "no"}, status=status)
    error = refused(server.url)
    assert (error.status, len(server.requests)) == (status, 1)
    assert not isinstance(error, RateLimitedError)


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("0.5", 0.5), ("soon", None), (None, None)])
def test_429_goes_to_the_caller_at_once(server: Scripted, header: str | None, seconds: float | None) -> None:
    """Too many requests are not answered with more; what Retry-After says is passed on."""
    server.answer({"error": "slow down"}, status=429, headers={} if header is None else {"Retry-After": header})
    error = refused(server.url)
    assert isinstance(error, RateLimitedError)
    assert (error.retry_after, len(server.requests)) == (seconds, 1)


def test_the_deadline_bounds_everything_together(server: Scripted) -> None:
    """A server that drips its body is given up after `timeout_s`, and not asked again."""
    server.answer({"a": 1}, body_delay_s=3)
    begun = time.monotonic()
    error = refused(server.url, timeout_s=0.2)
    assert time.monotonic() - begun < 1
    assert error.status is None and len(server.requests) == 1
    assert f"brave did not answer within 0.2 s (127.0.0.1:{server.port})" in str(error)


def test_the_deadline_during_a_retry_tells_the_5xx(server: Scripted) -> None:
    """When time runs out between two tries, the error is what the server had said."""
    server.answer({"message": "busy"}, status=500)
    error = refused(server.url, timeout_s=0.2, retry_wait_s=5.0)
    assert (error.status, len(server.requests)) == (500, 1) and "busy" in str(error)


def test_a_dead_host_fails_at_once() -> None:
    """A refused connection is not tried again: the next engine is waiting."""
    begun = time.monotonic()
    error = refused(f"http://127.0.0.1:{closed_port()}/x?key={KEY}", retry_wait_s=5.0)
    assert time.monotonic() - begun < 1
    assert error.status is None and "could not be reached" in str(error) and "Connection refused" in str(error)


def test_an_unknown_name_is_said_to_be_one(offline: list[str]) -> None:
    """Without a network, the error says that the name is not known and what to check."""
    error = refused("https://api.search.brave.example/res")
    assert "name is not known" in str(error) and "check the network" in str(error) and error.status is None


def test_a_host_that_does_not_take_the_connection_is_given_up_early() -> None:
    """Connecting has a limit of its own, shorter than the deadline."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        begun = time.monotonic()
        error = refused(f"http://127.0.0.1:{full.getsockname()[1]}/", connect_timeout_s=0.3, timeout_s=5)
        assert time.monotonic() - begun < 2
        for one in waiting:
            one.close()
    assert "no connection within 0.3 s" in str(error)


def test_a_server_that_hangs_up_is_asked_once_more(server: Scripted) -> None:
    """A kept connection that the server has closed meanwhile looks like this, so it is no failure yet."""
    server.answer(hang_up=True)
    server.answer({"ok": 1})
    assert ask(server.url, method="POST", json={}).json() == {"ok": 1}
    server.forget()
    server.answer(hang_up=True)
    error = refused(server.url, method="POST", json={})
    assert error.status is None and "closed the connection without an answer" in str(error)
    assert len(server.requests) == 2


def test_a_cancelled_request_stops_at_once(server: Scripted) -> None:
    """Cancelling is not turned into an error of ours."""
    server.answer({}, delay_s=5)

    async def run(client: HttpClient) -> float:
        task = asyncio.create_task(client.request("GET", server.url, provider="brave"))
        await asyncio.sleep(0.1)
        begun = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return time.monotonic() - begun

    assert use(run) < 0.5


# --- answers that are none ---------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused(server: Scripted) -> None:
    """The limit is on the decoded body, so that a small compressed answer cannot fill the memory."""
    server.answer(gzip.compress(b" " * 3_000_000), headers={"content-encoding": "gzip"})
    error = refused(server.url, max_bytes=1_000_000)
    assert "larger than 1,000,000 bytes" in str(error) and len(server.requests) == 1


def test_a_small_answer_cannot_become_a_huge_one(server: Scripted) -> None:
    """What is decompressed is bounded as it comes, not when it is there."""
    server.answer(gzip.compress(b"[" + b" " * 200_000_000 + b"]", 9), headers={"content-encoding": "gzip"})
    tracemalloc.start()
    try:
        assert "larger than 10,000,000 bytes" in str(refused(server.url))
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


def test_compressed_text_that_breaks_off_is_no_answer(server: Scripted) -> None:
    """Half a gzip stream is not taken for the whole."""
    server.answer(gzip.compress(b'{"a": 1}')[:-9], headers={"content-encoding": "gzip"})
    error = refused(server.url)
    assert str(error) == "brave answered 200, but with nothing that can be used: the answer broke off inside its gzip data"
    assert error.status == 200 and error.lost


def test_a_redirect_is_not_followed(server: Scripted) -> None:
    """An API does not move: following would carry the key to another host."""
    server.answer(b"", status=302, headers={"location": f"https://user:{KEY}@evil.example/login?key={KEY}"})
    error = refused(server.url)
    assert error.status == 302 and "redirect to evil.example" in str(error) and len(server.requests) == 1


def test_something_that_is_not_json_is_an_error_with_its_status(server: Scripted) -> None:
    """A login page in between is named as what it is."""
    server.answer(b"<html><title>Welcome to our WiFi</title>", headers={"content-type": "text/html; charset=utf-8"})
    with pytest.raises(ProviderError) as caught:
        use(lambda client: client.request_json("GET", server.url, provider="exa"))
    assert caught.value.status == 200 and "not JSON (text/html" in str(caught.value)


@pytest.mark.parametrize("body", [b"[" * 100_000, b"\xff\xfe\x00", b"", b"{", b'{"a": ' + b"1" * 5_000 + b"}"])
def test_broken_json_is_an_error_of_ours(server: Scripted, body: bytes) -> None:
    """Endless nesting, wrong encodings and endless numbers break no parser."""
    server.answer(body)
    with pytest.raises(WebSearchError):
        use(lambda client: client.request_json("GET", server.url, provider="exa"))


def test_an_encoding_that_was_not_asked_for_is_refused(server: Scripted) -> None:
    """Only gzip is asked for; what cannot be bounded while it is decoded is not decoded."""
    server.answer(b"x", headers={"content-encoding": "br"})
    assert "encoded as br; gzip or deflate were asked for" in str(refused(server.url))


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 40_000 + b"\r\n\r\n", b"garbage\r\n\r\n", b"HTTP/1.1 200"]
)
def test_a_server_that_speaks_no_http_is_an_error_of_ours(answer: bytes) -> None:
    """Broken status lines and endless headers are translated like everything else."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    peer, _ = listening.accept()
                except OSError:
                    return
                with peer:
                    peer.recv(10_000)
                    peer.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        assert refused(f"http://127.0.0.1:{listening.getsockname()[1]}/", timeout_s=2).status is None


# --- what errors say ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"type": "ErrorResponse", "error": {"code": "RATE_LIMITED", "detail": "Too fast", "status": 400}}, "Too fast"),
        ({"error": {"code": 400, "message": "Bad cx", "status": "INVALID_ARGUMENT"}}, "Bad cx"),
        ({"success": False, "error": "Insufficient credits"}, "Insufficient credits"),
        ({"detail": {"error": "Unauthorized: missing key"}}, "Unauthorized: missing key"),
        ({"detail": [{"loc": ["body", "query"], "msg": "field required", "type": "missing"}]}, "field required"),
        ({"requestId": "1", "error": "Invalid key", "tag": "INVALID_API_KEY"}, "Invalid key"),
        ({"errors": 3}, ""),
        (b"<html><head><title>403 Forbidden</title></head>", "403 Forbidden"),
        (b"try <later>\x1b[31m\x00", "try"),
        (b"", ""),
    ],
)
def test_the_services_own_message_is_found(server: Scripted, body: Any, words: str) -> None:
    """Every shape in which the engines word their errors is understood, as plain text."""
    server.answer(body, status=400)
    assert str(refused(server.url)) == "brave answered 400" + (f": {words}" if words else "")


def test_a_message_is_short_and_holds_no_key(server: Scripted) -> None:
    """A service that echoes the request is cut and redacted; so is a key that only this request knows."""
    other = "another-secret-of-a-plug-in"
    server.answer({"message": f"key {KEY} and {other} at https://me:{KEY}@x.example/ " + "word " * 200}, status=400)
    error = refused(server.url, headers={"Authorization": f"Bearer {other}"})
    assert other not in str(error) and "key *** and ***" in str(error) and len(str(error)) < 240


def test_a_header_that_cannot_be_sent_is_not_printed() -> None:
    """A key with a line break in it must not come out in the text or the chain of the error."""
    error = refused("http://127.0.0.1:9/", headers={"X-Subscription-Token": f"{KEY}\n{KEY}"})
    assert error.__cause__ is None and error.__suppress_context__
    error = refused("http://127.0.0.1:9/", headers={"X-Subscription-Token": f"{KEY}é"})
    assert error.__cause__ is None and error.__suppress_context__


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text() | st.sampled_from(["error", "detail", "message"]), inner)
    ),
    max_leaves=12,
)


@given(body=json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=200))
def test_any_error_body_gives_one_plain_line(body: bytes) -> None:
    """Whatever a server sends beside its status, there is a message of one line, or none."""
    message = service_message(HttpResponse(500, {}, body))
    assert "\n" not in message and message == message.strip()


@given(value=st.text(max_size=40) | st.integers().map(str))
def test_any_retry_after_gives_seconds_or_none(value: str) -> None:
    """Odd values are none; seconds are never negative."""
    seconds = retry_after({"retry-after": value})
    assert seconds is None or seconds >= 0


def test_retry_after_may_be_a_date() -> None:
    """The other form that HTTP allows."""
    assert retry_after({"retry-after": "Fri, 31 Dec 1999 23:59:59 GMT"}) == 0
    assert (retry_after({"retry-after": "Fri, 31 Dec 2100 23:59:59 GMT"}) or 0) > 1e8


# --- loops, threads, proxies -------------------------------------------------------------------------------------------


def test_one_client_serves_several_event_loops(server: Scripted) -> None:
    """The background loop and the notebook's own use the same client, one after the other and at once."""
    server.answer({"ok": 1})
    client = HttpClient(user_agent="tests/1")

    async def one() -> Any:
        return await client.request_json("GET", server.url, provider="brave")

    assert [asyncio.run(one()) for _ in range(3)] == [{"ok": 1}] * 3
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(asyncio.run(one()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [{"ok": 1}] * 3

    async def close() -> Any:
        await client.aclose()
        again = await one()
        await client.aclose()
        return again

    assert asyncio.run(close()) == {"ok": 1}


def test_connections_are_kept(server: Scripted) -> None:
    """Requests to one host use one connection, so that TLS is set up once."""
    server.answer(lambda received: {"ok": 1})

    async def run(client: HttpClient) -> None:
        for _ in range(3):
            await client.request("GET", server.url, provider="brave")

    use(run)
    assert len(server.requests) == 3 and len({request.peer for request in server.requests}) == 1


def test_a_dropped_client_leaves_no_noise(server: Scripted) -> None:
    """A client that nobody closed says nothing on stderr, at the end of Python too."""
    server.answer({"ok": 1})
    code = (
        "import asyncio\nfrom ipy_websearch.http.client import HttpClient\nclient = HttpClient(user_agent='t/1')\n"
        f"print(asyncio.run(client.request('GET', {server.url!r}, provider='brave')).status)\n"
        f"print(asyncio.run(client.request('GET', {server.url!r}, provider='brave')).status)\n"
        "async def drop():\n    dropped = HttpClient(user_agent='t/1')\n"
        f"    return await dropped.request('GET', {server.url!r}, provider='brave')\n"
        "asyncio.run(drop())\nloop = asyncio.new_event_loop()\n"
        f"print(loop.run_until_complete(client.request('GET', {server.url!r}, provider='brave')).status)\n"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=sys.path[0] or ".", check=False)
    assert (shown.stdout.split(), shown.stderr) == (["200"] * 3, "")


def test_a_proxy_of_the_environment_is_used(server: Scripted, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is followed, with its password; NO_PROXY and loopback are not sent through it."""
    server.answer({"by": "proxy"})
    monkeypatch.setenv("NO_PROXY", "direct.example")
    monkeypatch.setenv("HTTP_PROXY", f"http://m%C3%A9:w%40rd@127.0.0.1:{server.port}")
    assert ask("http://engine.example/search", params={"q": "x"}).json() == {"by": "proxy"}
    assert server.requests[0].headers["host"] == "engine.example"
    sent = server.requests[0].headers["proxy-authorization"].removeprefix("Basic ")
    assert base64.b64decode(sent).decode() == "mé:w@rd" and "authorization" not in server.requests[0].headers
    assert ask(server.url).status == 200 and server.requests[1].headers["host"] == f"127.0.0.1:{server.port}"


def test_no_proxy_is_obeyed(monkeypatch: pytest.MonkeyPatch, offline: list[str]) -> None:
    """A host in NO_PROXY is reached directly (here: not at all), whatever the proxy is."""
    monkeypatch.setenv("NO_PROXY", "direct.example")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert "name is not known" in str(refused("http://direct.example/"))


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A SOCKS proxy is an error that says so, without its password."""
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("ALL_PROXY", "socks5://me:word@proxy.example:1080")
    with pytest.raises(ConfigError, match="socks5://proxy.example:1080") as caught:
        ask("http://engine.example/")
    assert "word" not in str(caught.value)
