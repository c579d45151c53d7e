"""The HTTP client of the search engines: one request, one deadline, one way to fail.

Invariant: `request` returns a 2xx answer or raises `ProviderError` (`RateLimitedError` for 429), or `ConfigError` before
anything is sent. No message holds a key, a query string or more than 200 characters of the service's own words.

Retries: 5xx twice more, 1 s apart; 4xx never; 429 goes to the caller at once, and so does a host that cannot be reached. A
server that hangs up without a word is asked once more at once, because a kept connection that the server has closed looks
like that.

An error is `lost` when the engine may bill the request: it went out, and no answer came, or a 2xx that cannot be used.
httpx's exception classes say whether it went out; where a request was tried several times, one such try is enough.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from json import dumps
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from ipy_websearch.background import close_with
from ipy_websearch.errors import ConfigError, FailureReason, ProviderError, RateLimitedError
from ipy_websearch.http.response import (
    Explain,
    HttpResponse,
    JsonObject,
    explain_any,
    failure_words,
    hung_up,
    is_failure,
    keep_location,
    read_body,
    was_sent,
)
from ipy_websearch.keys import SHORTEST_SECRET
from ipy_websearch.text import plain, shorten

Params = Mapping[str, Any] | Sequence[tuple[str, Any]]
"""Query parameters. None values are left out; in a sequence of pairs, a name may come several times."""

MESSAGE_WIDTH, PLACE_WIDTH = 200, 100

_USER_INFO = re.compile(r"//[^/@\s]+@")
_SECRET_HEADERS = ("authorization", "x-subscription-token", "x-api-key", "api-key")
_PROXIES = ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_ENVIRONMENT = (*_PROXIES, "NO_PROXY", "no_proxy", *_CERTIFICATES)
_LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")
_KEPT_S = 60.0
"""Seconds for which an idle connection is kept: as long as a model may think between two searches."""
_KEY_PARAMETER = re.compile(r"(?<=[?&]key=)[^&]*")


@dataclass(slots=True)
class _Call:
    """One request, and how far it came: `head` is the answer without its body, `lost` says that it may be billed."""

    provider: str
    method: str
    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes | None = field(repr=False)
    connect_timeout_s: float
    max_bytes: int
    head: HttpResponse | None = None
    lost: bool = False


class HttpClient:
    """Sends requests to search engines.

    `user_agent` is sent with every request (Wikipedia refuses clients without a contact in it). `secrets` returns every key
    there is, so that none is ever part of a message; it is called on errors alone. `transport` replaces the network, in
    tests and recordings. Proxies of the environment are used, but never for this machine.
    """

    def __init__(
        self,
        *,
        user_agent: str,
        secrets: Callable[[], Iterable[str]] = list,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.user_agent = user_agent
        self._secrets = secrets
        self._transport = transport
        self._client: httpx.AsyncClient | None = None
        self._made_under: tuple[Any, ...] = ()

    async def request(
        self,
        method: str,
        url: str,
        *,
        provider: str,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        json: Any = None,
        timeout_s: float = 10.0,
        connect_timeout_s: float = 5.0,
        retries: int = 2,
        retry_wait_s: float = 1.0,
        max_bytes: int = 10_000_000,
        explain: Explain | None = None,
    ) -> HttpResponse:
        """Return the 2xx answer to one request.

        `timeout_s` bounds everything together: connecting, sending, reading, and the retries of 5xx with their pauses.
        `max_bytes` bounds the decoded body. `explain` reads an engine's own form of refusal.

        Raises:
            RateLimitedError: the engine answered 429; `retry_after` says for how long, where the engine says so.
            ProviderError: it could not be reached (`status` None), refused, redirected, or its answer cannot be used.
            ConfigError: the environment names a proxy or certificates that cannot be used.
        """
        sent = {"User-Agent": self.user_agent, "Accept": "application/json", "Accept-Encoding": "gzip", **(headers or {})}
        body = None
        if json is not None:
            sent["Content-Type"] = "application/json"
            body = dumps(json, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
        # Shorter than the deadline: a request that passes that one has been sent, and may be billed.
        connect_s = min(connect_timeout_s, timeout_s * 0.8)
        call = _Call(provider, method, _with_query(url, params), sent, body, connect_s, max_bytes)
        response: HttpResponse | None = None
        tries = 0
        try:
            async with asyncio.timeout(timeout_s):
                while response is None or (response.status >= 500 and tries <= retries):
                    if response is not None:
                        await asyncio.sleep(retry_wait_s)
                    tries += 1
                    response = await self._try(call)
        except TimeoutError:
            if response is None and call.head is not None and call.head.status >= 300:
                response = call.head  # a refusal counts although the rest of it never came
            if response is None:
                text = f"{provider} did not answer within {timeout_s:g} s ({_place(call.url)})"
                raise self.error(provider, text, lost=True) from None
        if 200 <= response.status < 300:
            return response
        raise self._refusal(call, response, explain, tries)

    async def request_json(self, method: str, url: str, *, provider: str, **options: Any) -> Any:
        """Return the JSON of the 2xx answer to one request, an object as a `JsonObject`; options and errors as for `request`.

        Raises:
            ProviderError: also when the answer is not JSON (`status` is then that of the answer).
        """
        response = await self.request(method, url, provider=provider, **options)
        try:
            value = response.json()
        except ValueError:
            form = f"{response.content_type or 'no content type'}, {len(response.body)} bytes"
            text = (
                f"{provider} answered {response.status} with something that is not JSON ({form}); "
                f"check that its address {call_address(url)} is right and that no login page is in between"
            )
            raise self.error(provider, text, status=response.status, lost=True) from None
        return JsonObject(value, response.body) if isinstance(value, dict) else value

    async def aclose(self) -> None:
        """Close all connections; the client may be used again afterwards."""
        client, self._client = self._client, None
        if client is not None and self._made_under[0] is asyncio.get_running_loop():
            await client.aclose()

    def error(
        self,
        provider: str,
        text: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        lost: bool = False,
        reason: FailureReason | None = None,
    ) -> ProviderError:
        """Return a `ProviderError` (429: `RateLimitedError`) of one line without any key in it."""
        kind = RateLimitedError if status == 429 else ProviderError
        known: dict[str, Any] = {"status": status, "retry_after": retry_after, "lost": lost, "reason": reason}
        return kind(self.redact(text), provider=provider, **known)

    def redact(self, text: str, sent: Mapping[str, str] | None = None) -> str:
        """Return `text` as one plain line without any key, and without user names in addresses.

        `sent` are the headers of a request, whose keys are taken out as well, whoever keeps them.
        """
        own = {value.removeprefix("Bearer ") for name, value in (sent or {}).items() if name.lower() in _SECRET_HEADERS}
        for secret in sorted({*self._secrets(), *own}, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***").replace(quote(secret, safe="", errors="replace"), "***")
        return plain(_USER_INFO.sub("//", text))

    # --- one try ---------------------------------------------------------------------------------------------------------

    async def _try(self, call: _Call, *, again: bool = True) -> HttpResponse:
        """Send once, or twice when the server hangs up without a word; translate every error of the HTTP libraries."""
        call.head = None
        try:
            return await self._exchange(call)
        except Exception as exc:
            if not is_failure(exc):
                raise
            call.lost = call.lost or was_sent(exc)
            if not (again and call.head is None and hung_up(exc)):
                # Without the cause, whose text may hold the address or a header as it was sent.
                raise self._failure(call, exc) from None
        return await self._try(call, again=False)

    async def _exchange(self, call: _Call) -> HttpResponse:
        """Send the request and read its answer. The body of a refusal is cut at `max_bytes`, or left out when it is broken."""
        request = plain_request(call.method, call.url, call.headers, call.body, call.connect_timeout_s)
        response = await self._open().send(request, stream=True, follow_redirects=False)
        headers = {**response.headers, "location": response.extensions["location"]}
        call.head = HttpResponse(response.status_code, headers, b"", call_address(call.url))
        body, is_cut = b"", False
        try:
            body, is_cut = await read_body(response, call.max_bytes)
        except Exception as exc:
            if call.head.status < 300 or not is_failure(exc):
                raise
        finally:
            await response.aclose()
        if is_cut and call.head.status < 300:
            text = f"{call.provider} answered {call.head.status} with more than {call.max_bytes:,} bytes"
            raise self.error(call.provider, text, status=call.head.status, lost=True)
        return replace(call.head, body=body)

    def _open(self) -> httpx.AsyncClient:
        """Return the client of this event loop and of the environment as it is now.

        aiohttp carries the requests, at a third of the processor time of httpcore's pool when 100 are under way (measured
        2026-11); those that go through a proxy of the environment stay with httpx's own transport.

        Raises:
            ConfigError: the environment names a proxy or certificates that cannot be used.
        """
        made_under = (asyncio.get_running_loop(), *map(os.environ.get, _ENVIRONMENT))
        if self._client is None or made_under != self._made_under:
            logging.getLogger("httpx").addFilter(_without_key)
            self._client, self._made_under = _engine_client(self._transport), made_under
            close_with(self, self._client.aclose)  # aiohttp prints about what nobody closes
        return self._client

    # --- what is said ----------------------------------------------------------------------------------------------------

    def _failure(self, call: _Call, exc: Exception) -> ProviderError:
        """Return the error for a request without an answer, or with one that cannot be used."""
        why = failure_words(exc)
        if call.head is not None:
            text = f"{call.provider} answered {call.head.status}, but with nothing that can be used: {why}"
            return self.error(call.provider, text, status=call.head.status, lost=call.lost)
        proxy = next((name for name in _PROXIES if os.environ.get(name)), "")
        through = f" (the proxy in {proxy} may be at fault)" if proxy and not call.lost else ""
        return self.error(
            call.provider, f"{call.provider} could not be reached at {_place(call.url)}: {why}{through}", lost=call.lost
        )

    def _refusal(self, call: _Call, response: HttpResponse, explain: Explain | None, tries: int) -> ProviderError:
        reason = (explain(response) if explain else None) or explain_any(response)
        words = shorten(self.redact(reason.text, call.headers), MESSAGE_WIDTH)
        if 300 <= response.status < 400:
            to = shorten(_place(response.headers.get("location", "")), PLACE_WIDTH)
            words = f"a redirect to {to or 'elsewhere'}, which is not followed; check the address {call_address(call.url)}"
        often = f" (asked {tries} times)" if tries > 1 else ""
        message = f"{call.provider} answered {response.status}{often}" + (f": {words}" if words else "")
        lost = call.lost or call.head is None or call.head.status < 300  # the last try was still under way at the deadline
        known: dict[str, Any] = {"status": response.status, "retry_after": reason.retry_after, "reason": reason.kind}
        return self.error(call.provider, message, lost=lost, **known)


def call_address(url: str) -> str:
    """Return an address without its query and user name, fit to be shown."""
    return _USER_INFO.sub("//", url.split("?", 1)[0].split("#", 1)[0])


def _with_query(url: str, params: Params | None) -> str:
    pairs = params.items() if isinstance(params, Mapping) else params or ()
    said = [(name, str(value).lower() if isinstance(value, bool) else value) for name, value in pairs if value is not None]
    query = urlencode(said, errors="replace")
    return f"{url}{'&' if '?' in url else '?'}{query}" if query else url


def _place(url: str) -> str:
    """Return host and port of an address, "" when there is none in it."""
    return url.partition("//")[2].partition("/")[0].partition("?")[0].rpartition("@")[2]


def _without_key(record: logging.LogRecord) -> bool:
    """Take the key out of an address in httpx's log: Google has it in the query."""
    if isinstance(record.args, tuple):
        record.args = tuple(_KEY_PARAMETER.sub("***", str(arg)) if type(arg).__name__ == "URL" else arg for arg in record.args)
    return True


# --- connections, also those of pages -----------------------------------------------------------------------------------


def plain_request(
    method: str, url: str, headers: Mapping[str, str], body: bytes | None, connect_s: float | None
) -> httpx.Request:
    """Return a request; unlike those that a client of httpx builds, it sends no cookies back."""
    timeout = {"connect": connect_s, "pool": connect_s}  # aiohttp counts the resolver's time to the pool
    return httpx.Request(method, url, headers=headers, content=body, extensions={"timeout": timeout})


def bad_proxy(name: str, value: str) -> ConfigError:
    """Return the error for a setting that holds no usable proxy, without the password in it."""
    return ConfigError(f"{name} is {value.rpartition('@')[2]!r}, which cannot be used as a proxy; write http://host:port")


def tls_context() -> ssl.SSLContext:
    """Return the TLS settings: certifi's authorities, or those in SSL_CERT_FILE or SSL_CERT_DIR.

    Raises:
        ConfigError: they cannot be read.
    """
    try:
        return _context(*map(os.environ.get, _CERTIFICATES))
    except OSError as exc:
        named = next((f"{v}={os.environ[v]}" for v in _CERTIFICATES if os.environ.get(v)), "the package certifi")
        raise ConfigError(f"the certificates of {named} cannot be read ({exc.strerror or exc}); mend or unset it") from exc


@cache  # building one takes some 15 ms
def _context(file: str | None, folder: str | None) -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _engine_client(transport: httpx.AsyncBaseTransport | None) -> httpx.AsyncClient:
    """Return a client for the running event loop; `transport` replaces the network and the proxies of the environment.

    Raises:
        ConfigError: the environment names a proxy or certificates that cannot be used.
    """
    if transport is not None:
        return httpx.AsyncClient(transport=transport, event_hooks={"response": [keep_location]})
    from httpx_aiohttp import AiohttpTransport

    direct = AiohttpTransport(verify=tls_context(), limits=httpx.Limits(max_connections=0, keepalive_expiry=_KEPT_S))
    session = direct.client = direct.get_client()

    async def forget_cookies(_: httpx.Response) -> None:
        session.cookie_jar.clear()

    # A mount for "all://" would stand in the way of ALL_PROXY.
    patterns = _LOOPBACK if any(map(os.environ.get, _PROXIES[4:])) else ("all://", *_LOOPBACK)
    try:
        return httpx.AsyncClient(
            mounts=dict.fromkeys(patterns, direct),
            verify=tls_context(),
            event_hooks={"response": [keep_location, forget_cookies]},
        )
    except (ValueError, ImportError, httpx.InvalidURL):
        raise bad_proxy(*next((name, os.environ[name]) for name in _PROXIES if os.environ.get(name))) from None
