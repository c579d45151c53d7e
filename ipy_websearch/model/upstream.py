"""The server behind the proxy: requests go on to it as they came, or through the interception.

Headers, keys among them, are passed on and kept nowhere, cookies neither. What is not intercepted is forwarded byte for byte:
path and query as they were written, no header more than came, bodies in the encoding in which they are. What is intercepted
carries the caller's headers and those of its own body: nothing that the SDK adds, or takes from this process's environment.
A user and a password in the server's address go along as Basic authorization, in place of the caller's own.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, cast
from urllib.parse import unquote

import anthropic
import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.model.intercepted import COUNT, MESSAGES, Interceptor, SearchMiddleware, platform_of
from ipy_websearch.model.passing import with_body
from ipy_websearch.model.runs import Run
from ipy_websearch.model.upstream_address import address_and_login
from ipy_websearch.model.upstream_failures import Discreet, not_asked, tell_why
from ipy_websearch.model.upstream_headers import (
    HOP_BY_HOP,
    OF_THE_CONNECTION,
    OF_THE_FIRST,
    OURS,
    Headers,
    joined,
    passed_on,
    patience_s,
    read_headers,
    written_headers,
)

_RAW = "X-Stainless-Raw-Response"  # anthropic._constants.RAW_RESPONSE_HEADER: gives the response instead of a model
_CALLERS = "X-Headers-Of-The-Caller"  # in which they go through the SDK; never sent
_TOO_ODD = (UnicodeEncodeError, RecursionError)
# The caller's patience is the limit, and its leaving is noticed (but for one whose body the server does not take).
_LIMITS_S = {"connect": 5.0, "write": 600.0, "pool": None}


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came: `path` and `query` are as they were written, `body` is its JSON (None: none that matters here)."""

    method: str
    path: str
    query: str
    headers: Headers
    content: bytes | AsyncIterator[bytes] = b""
    body: Any = None

    @property
    def target(self) -> str:
        """Path and query."""
        return f"{self.path}?{self.query}" if self.query else self.path


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer under way: its status, its headers, and its body as it comes."""

    status: int
    headers: Headers
    body: AsyncIterator[bytes]


_under_way: ContextVar[Run] = ContextVar("_under_way")


class _Begun(SearchMiddleware):
    """Goes on with the run that was begun when the request was looked at."""

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        """Answer a request; those that follow on the first are not the caller's, and failures say why."""
        run = _under_way.get()

        async def sent(each: Any) -> Any:
            try:
                return await call_next(_following(each) if run.begun else each)
            except anthropic.APIConnectionError as exc:
                tell_why(exc)
                raise

        return await super().handle_async(request, sent)

    def _begun(self, body: Mapping[str, Any]) -> Run | None:
        return _under_way.get()

    def _keep(self, driver: Any, ended: Any) -> None:
        """Keep nothing of a run that failed: here nobody calls again, since the client has no retries."""


class _Wire(anthropic.DefaultAsyncHttpxClient):
    """Sends the SDK's requests with the caller's headers in place of the SDK's: what may go up is listed, not what may not."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request of the SDK."""
        heads = json.loads(request.headers[_CALLERS])
        heads |= {"Content-Type": "application/json", "Accept-Encoding": self.headers["accept-encoding"]}
        raw = written_headers(heads.items())
        sent = httpx2.Request(request.method, request.url, headers=raw, content=request.content, extensions=request.extensions)
        response = await super().send(sent, **options)
        response.stream = Discreet(cast(httpx2.AsyncByteStream, response.stream))
        response.request = request  # the SDK looks for its own marks in it
        return response

    async def pass_on(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request that is complete."""
        return await super().send(request, stream=True)


class Upstream:
    """A server that speaks the Messages API, at an address. Close it with `aclose`; `url` is the address as it may be shown.

    Raises:
        ConfigError: it is no http or https address, or has a query.
    """

    def __init__(self, address: str, interceptor: Interceptor) -> None:
        self.url, login = address_and_login(address)
        self._interceptor = interceptor
        # One caller's cookies must not go along with another's requests.
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))
        self._http = _Wire(follow_redirects=False, cookies=no_cookies, auth=login, timeout=httpx2.Timeout(None, **_LIMITS_S))
        self._base = httpx2.URL(self.url).raw_path.rstrip(b"/")
        # The key is the caller's: one in this process's environment must not stand in for it, nor may its settings for
        # traces write down what is asked.
        plain = anthropic.AsyncAnthropic(
            api_key="none",
            base_url=self.url,
            http_client=self._http,
            max_retries=0,
            open_telemetry={"traces": False, "propagation": False},
        )
        platform, known = platform_of(plain)
        self.platform = platform if known else replace(platform, server_tools=False)
        self._own = _Begun(interceptor, self.platform, _no_blocking, retries=2)
        self._client = plain.with_options(middleware=[self._own])

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    @staticmethod
    def reads(method: str, path: str) -> bool:
        """Say whether the body of such a request matters here; any other may go on as it comes."""
        return method == "POST" and path in (MESSAGES, COUNT)

    def holds(self, path: str) -> bool:
        """Say whether a path stays below the server's own: what is beside it is nobody's who was given this proxy."""
        return not self._base or not (_climbs(path) or _climbs(unquote(path)) or _climbs(unquote(unquote(path))))

    def begin(self, asked: Asked) -> Run | None:
        """Return the run that answers a request, None when it goes on as it came.

        Raises:
            ConfigError: a web tool is not defined as the API would take it.
        """
        return self._begun(asked.body) if self.reads(asked.method, asked.path) else None

    @asynccontextmanager
    async def answer(self, asked: Asked, run: Run | None) -> AsyncIterator[Answered]:
        """Give the answer to a request. Once its run has `begun`, an error must not make the caller ask again.

        Raises:
            ModelError: the server could not be reached, or what it answered is no message, or breaks off.
        """
        try:
            response = await (self._intercepted(asked, run) if run else self._forwarded(asked))
        except _TOO_ODD:  # half of a surrogate pair, a hundred levels: the server shall say what is wrong with it
            if run is None or run.begun:
                raise
            response = await self._forwarded(asked)
        try:
            if not 200 <= response.status_code < 600:
                raise ModelError(f"the upstream server's answer has the status {response.status_code}, which is none")
            yield Answered(response.status_code, passed_on(read_headers(response.headers.raw), HOP_BY_HOP), _raw(response))
        finally:
            await response.aclose()

    def _begun(self, body: Any) -> Run | None:
        try:
            if not isinstance(body, Mapping):
                return None
            return self._interceptor.begin(body, self._own.platform_for(body.get("model")))
        except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
            return None  # what is not of the API's form is for the server to refuse, in its own words

    async def _forwarded(self, asked: Asked) -> httpx2.Response:
        # A request of its own making: the client would add its headers, and would tidy up the address.
        heads = passed_on(asked.headers, OF_THE_CONNECTION)
        has_body = any(name.lower() in ("content-length", "transfer-encoding") for name, _ in asked.headers)
        request = httpx2.Request(
            asked.method,
            self.url,
            headers=written_headers(heads),
            content=asked.content if has_body else b"",
            extensions={"target": self._base + asked.target.encode("latin-1"), "timeout": self._http.timeout.as_dict()},
        )
        try:
            return await self._http.pass_on(request)
        except httpx2.HTTPError as exc:
            raise not_asked(exc) from exc

    async def _intercepted(self, asked: Asked, run: Run) -> httpx2.Response:
        _under_way.set(run)
        streamed = bool(asked.body.get("stream"))
        given = json.dumps(joined(passed_on(asked.headers, OURS)))
        waits = httpx2.Timeout(read=patience_s(asked.headers), **_LIMITS_S)
        options = anthropic.RequestOptions(headers={_CALLERS: given, _RAW: "stream"}, timeout=waits)
        try:
            response = await self._client.post(
                asked.target,
                cast_to=object,
                body=asked.body,
                options=options,
                stream=streamed,
                stream_cls=anthropic.AsyncStream[Any] if streamed else None,
            )
        except anthropic.APIStatusError as exc:
            return _as_read(exc.response)
        except anthropic.APIConnectionError as exc:
            raise not_asked(exc.__cause__ or exc) from exc
        except anthropic.APIResponseValidationError as exc:
            raise ModelError(str(exc)) from exc
        raw: httpx2.Response = response.http_response  # type: ignore[attr-defined]
        if not streamed or "content-encoding" in raw.headers:  # the encoding was agreed on with the server, not the caller
            await raw.aread()
        return _as_read(raw)


def _following(request: Any) -> Any:
    """Return a request of the SDK without what holds for the first one of a call alone."""
    following = with_body(request, request.options.json_data)
    heads = json.loads(following.options.headers[_CALLERS])
    heads.pop(OF_THE_FIRST, None)
    following.options.headers = {**following.options.headers, _CALLERS: json.dumps(heads)}
    return following


def _as_read(response: httpx2.Response) -> httpx2.Response:
    """Return a response without the headers of an encoding and a length that its bytes no longer have."""
    for name in ("content-encoding", "content-length"):
        response.headers.pop(name, None)
    response.headers.pop("x-should-retry", None) if response.status_code < 400 else None
    return response


async def _raw(response: httpx2.Response) -> AsyncIterator[bytes]:
    if response.is_stream_consumed or response.is_closed:
        yield response.content
        return
    try:
        async for chunk in response.aiter_raw():
            yield chunk
    except (httpx2.HTTPError, httpx2.StreamError) as exc:
        raise ModelError(f"the upstream server's answer broke off ({type(exc).__name__})") from exc


def _climbs(path: str) -> bool:
    """Say whether a path leads out of where it begins, however a server may read it."""
    depth = 0
    for part in path.replace("\\", "/").split("/"):
        name = part.partition(";")[0]
        depth += -1 if name == ".." else name not in ("", ".")
        if depth < 0:
            return True
    return False


def _no_blocking(function: Any, every_s: float) -> Generator[None, None, None]:
    raise AssertionError("the proxy's client is async")
