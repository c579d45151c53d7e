"""The server behind the proxy: requests go on to it as they came, or through the interception.

Headers, keys among them, are passed on and kept nowhere. What is not intercepted is forwarded byte for byte.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anthropic
import httpx2

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.intercepted import COUNT, MESSAGES, Interceptor, SearchMiddleware, platform_of

_HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade "
    "content-length host".split()
)
_OURS = _HOP_BY_HOP | {"accept-encoding", "content-type", "accept"}
_RAW = "X-Stainless-Raw-Response"  # anthropic._constants.RAW_RESPONSE_HEADER: gives the response instead of a model


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer under way: its status, its headers, and its body as it comes."""

    status: int
    headers: list[tuple[str, str]]
    body: AsyncIterator[bytes]


class Upstream:
    """A server that speaks the Messages API, at `url`. Close it with `aclose`.

    Raises:
        ConfigError: `url` is no http or https address.
    """

    def __init__(self, url: str, interceptor: Interceptor) -> None:
        if not url.startswith(("http://", "https://")):
            raise ConfigError(f"--upstream is {url!r}; it must be an http:// or https:// address")
        self.url = url.rstrip("/")
        self._interceptor = interceptor
        self._http = anthropic.DefaultAsyncHttpxClient(follow_redirects=False)
        # The key is the caller's: one in this process's environment must not stand in for it.
        plain = anthropic.AsyncAnthropic(api_key="none", base_url=self.url, http_client=self._http, max_retries=0)
        platform, known = platform_of(plain)
        self.platform = platform if known else replace(platform, server_tools=False)
        own = SearchMiddleware(interceptor, self.platform, _no_blocking, retries=2)
        self._client = plain.with_options(middleware=[own])

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    @asynccontextmanager
    async def answer(
        self, method: str, path: str, query: str, headers: list[tuple[str, str]], content: bytes, body: Any
    ) -> AsyncIterator[Answered]:
        """Give the answer to a request; `body` is its JSON where it has any.

        Raises:
            ConfigError: a web tool is not defined as the API would take it; nothing was sent.
            httpx2.HTTPError: the server could not be reached.
        """
        if method == "POST" and path in (MESSAGES, COUNT) and self._wanted(body):
            response = await self._intercepted(path, query, headers, body)
        else:
            url = f"{self.url}{path}" + (f"?{query}" if query else "")
            kept = [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
            request = self._http.build_request(method, url, headers=kept, content=content)
            response = await self._http.send(request, stream=True)
        sent = [(name, value) for name, value in response.headers.multi_items() if name.lower() not in _HOP_BY_HOP]
        try:
            yield Answered(response.status_code, sent, _raw(response))
        finally:
            await response.aclose()

    def _wanted(self, body: Any) -> bool:
        return isinstance(body, Mapping) and self._interceptor.begin(body, self.platform) is not None

    async def _intercepted(self, path: str, query: str, headers: list[tuple[str, str]], body: Any) -> httpx2.Response:
        given: dict[str, Any] = {"Authorization": anthropic.Omit(), **_joined(headers)}
        streamed = bool(body.get("stream"))
        options = anthropic.RequestOptions(headers={**given, _RAW: "stream"})
        try:
            response = await self._client.post(
                path + (f"?{query}" if query else ""),
                cast_to=object,
                body=body,
                options=options,
                stream=streamed,
                stream_cls=anthropic.AsyncStream[Any] if streamed else None,
            )
        except anthropic.APIStatusError as exc:
            return _as_read(exc.response)
        return _as_read(response.http_response)  # type: ignore[attr-defined]


def _joined(headers: list[tuple[str, str]]) -> dict[str, str]:
    """Return the caller's headers that go on; one that came several times (`anthropic-beta`) is one with all values."""
    found: dict[str, str] = {}
    for name, value in headers:
        name = "Authorization" if name.lower() == "authorization" else name.lower()
        if name not in _OURS:
            found[name] = f"{found[name]},{value}" if name in found else value
    return found


def _as_read(response: httpx2.Response) -> httpx2.Response:
    """Return a response without the headers of an encoding that its bytes no longer have."""
    response.headers.pop("content-encoding", None)
    response.headers.pop("x-should-retry", None) if response.status_code < 400 else None
    return response


async def _raw(response: httpx2.Response) -> AsyncIterator[bytes]:
    if response.is_stream_consumed or response.is_closed:
        yield response.content
        return
    async for chunk in response.aiter_raw():
        yield chunk


def _no_blocking(function: Any) -> None:
    raise AssertionError("the proxy's client is async")
