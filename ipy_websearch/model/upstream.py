"""The server behind the proxy: an SDK client whose requests are those of the proxy's callers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, cast

import anthropic
import httpx2
from anthropic._models import FinalRequestOptions

from ipy_websearch.errors import ModelError
from ipy_websearch.http.client import base_url
from ipy_websearch.model.client import BINARY, CLOUDS, MESSAGES, binary_events, connection_error, open_cloud
from ipy_websearch.model.sdk_hook import COUNT, LOST, frame, with_interception

if TYPE_CHECKING:
    from ipy_websearch.interception.interceptor import WebSearchInterceptor

_NOT_PASSED = frozenset(
    "connection content-encoding content-length content-type cookie expect host idempotency-key keep-alive proxy-authenticate "
    "proxy-authorization proxy-connection set-cookie te trailer transfer-encoding upgrade accept-encoding".split()
)


# An answer under way: its status, its headers, and its body as it comes.
Answered = tuple[int, Mapping[str, str], AsyncIterator[bytes]]


class Upstream:
    """The server, at `place`: a cloud's name, "anthropic", or an address. Close it with `aclose`; `name` is how it is shown.

    In front of the Anthropic API, or of any server at an address, a caller's own headers go up, its key among them: one in
    this process's environment never stands in. In front of a cloud the requests are signed with this process's credentials,
    and of a caller's headers only `anthropic-beta` counts.

    Raises:
        ConfigError: it is none of these, or a cloud's credentials or packages are missing.
    """

    def __init__(self, place: str, interceptor: WebSearchInterceptor) -> None:
        self.cloud = place if place in CLOUDS else ""
        option = f"--platform ({', '.join(['anthropic', *CLOUDS])} or an address)"
        address = "https://api.anthropic.com" if place == "anthropic" else place
        self.name = self.cloud or base_url(option, address, {})
        client = open_cloud(place) if self.cloud else _bare_client(self.name)
        self._client: Any = with_interception(client, interceptor)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    @asynccontextmanager
    async def answer(
        self, method: str, target: str, headers: Mapping[str, str], body: Any = None, content: bytes = b""
    ) -> AsyncIterator[Answered]:
        """Give the answer to a request; `target` is its path and query, `body` its JSON or `content` its bytes.

        Raises:
            ModelError: the server could not be reached, or lacks what is asked for (`status` 404).
        """
        path, streamed = target.partition("?")[0], isinstance(body, Mapping) and body.get("stream")
        if self.cloud and path not in (MESSAGES, COUNT):
            raise ModelError(f"{self.cloud} has no {path}; this proxy answers {MESSAGES} and {COUNT} there", status=404)
        request = FinalRequestOptions.construct(
            method=method.lower(),
            url=path if self.cloud else target,
            headers={**self._passed_on(headers), "X-Stainless-Raw-Response": "stream"},
            json_data=body,
            content=content if body is None else None,
        )
        stream = {"stream": True, "stream_cls": anthropic.AsyncStream[Any]} if streamed else {}
        try:
            response = await self._client.request(object, request, **stream)
        except anthropic.APIStatusError as exc:
            yield exc.status_code, _given_back(exc.response.headers), exc.response.aiter_bytes()
            return
        except anthropic.APIConnectionError as exc:
            raise connection_error(exc, self.name) from exc
        except anthropic.AnthropicError as exc:  # what the SDK says that a cloud lacks
            raise ModelError(str(exc), status=404) from exc
        http = response.http_response
        try:
            yield http.status_code, _given_back(http.headers), _as_text(response)
        finally:
            await http.aclose()

    def _passed_on(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a caller that go up."""
        if self.cloud:
            return {name: value for name, value in headers.items() if name.lower() == "anthropic-beta"}
        return {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED}


def _bare_client(address: str) -> Any:
    """Return a client without a key, a cookie or a trace of its own: what goes up is the caller's."""
    return anthropic.AsyncAnthropic(
        api_key="none",
        base_url=address,
        http_client=anthropic.DefaultAsyncHttpxClient(
            follow_redirects=False, cookies=CookieJar(DefaultCookiePolicy(allowed_domains=()))
        ),
        default_headers=cast(Any, {"Authorization": anthropic.omit}),
        max_retries=0,
        open_telemetry={"traces": False, "propagation": False},
    )


def _given_back(headers: httpx2.Headers) -> dict[str, str]:
    """Return the headers for the caller: those of an encoding and a length no longer hold, since the body comes unpacked."""
    left = {name: value for name, value in headers.items() if name not in _NOT_PASSED - {"content-type"}}
    return left | (
        {"content-type": "text/event-stream; charset=utf-8"} if "eventstream" in left.get("content-type", "") else {}
    )


async def _as_text(response: Any) -> AsyncIterator[bytes]:
    """Yield the body of an SDK's response; a stream in a platform's own form becomes server-sent events.

    Raises:
        ModelError: it broke off.
    """
    http = response.http_response
    try:
        if BINARY in http.headers.get("content-type", ""):
            async for events in binary_events(http.aiter_bytes()):
                yield frame(events[0])
            return
        async for piece in http.aiter_bytes():
            yield piece
    except (*LOST, ValueError) as exc:
        raise ModelError(f"the model's answer broke off ({type(exc).__name__})") from exc
