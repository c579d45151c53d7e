"""The HTTP client of the search engines: one request, one deadline, one way to fail.

Invariant: `request` gives a 2xx answer or raises `ProviderError` (`RateLimitedError` for 429); no other exception of an
HTTP library gets out, and no message holds a key, a query string or more than 200 characters of the service's own words.

The law of retries: 5xx is asked again twice, 1 s apart; 4xx never; 429 goes to the caller at once; an address that cannot
be reached, and a deadline that has passed, are not asked again. One exception: a server that hangs up without a word is
asked once more, at once, since that is how a kept connection looks that the server had closed while it was idle.

An error is `lost` when the request had a connection and then no answer came, or a 2xx that could not be used (cut off, too
large, not JSON): the engine may bill it. A refusal, and what never found a connection, is not; where a request was tried more
than once, one such try is enough.

Importing this module imports no HTTP library: that happens at the first request.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from ipy_websearch.errors import ProviderError, RateLimitedError
from ipy_websearch.http.environment import proxy_for
from ipy_websearch.http.exchange import (
    USER_INFO,
    Call,
    Params,
    call_address,
    exchange,
    hung_up,
    never_sent,
    pairs_of,
    place_of,
    what_happened,
)
from ipy_websearch.http.loops import PerLoop
from ipy_websearch.http.pool import Pool, Progress, close_all, close_dropped, progress
from ipy_websearch.http.response import Explain, HttpResponse, JsonObject, Reason, explain_any
from ipy_websearch.keys import SHORTEST_SECRET
from ipy_websearch.text import plain, shorten

__all__ = ["HttpClient", "HttpResponse", "Params", "Reason", "call_address"]

MESSAGE_WIDTH, PLACE_WIDTH = 200, 100


class HttpClient:
    """Sends requests to search engines, from any event loop; connections are kept per loop.

    `user_agent` is sent with every request (Wikipedia refuses clients without a contact in it). `secrets` gives every
    key there is, so that none is ever part of a message; it is called on errors alone.
    """

    def __init__(self, *, user_agent: str, secrets: Callable[[], Iterable[str]] = list) -> None:
        self.user_agent = user_agent
        self._secrets = secrets
        self._pools: PerLoop[Pool] = PerLoop(Pool, Pool.discard)
        weakref.finalize(self, close_dropped, self._pools)

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
            RateLimitedError: the engine answered 429; `retry_after` says for how long where it says so.
            ProviderError: it could not be reached (`status` None), refused, redirected, or what it sent cannot be used.
            ConfigError: the environment names a proxy that cannot be used.
        """
        sent = {"User-Agent": self.user_agent, "Accept": "application/json", "Accept-Encoding": "gzip", **(headers or {})}
        call = Call(provider, method, url, pairs_of(params), sent, json, connect_timeout_s, max_bytes)
        response: HttpResponse | None = None
        tries = 0
        progress.set(mark := Progress())
        with contextlib.suppress(TimeoutError):  # what is known by then decides what is said
            async with asyncio.timeout(timeout_s):
                while response is None or (response.status >= 500 and tries <= retries):
                    if response is not None:
                        await asyncio.sleep(retry_wait_s)
                    tries += 1
                    mark.again()
                    response = await self._send(call)
        if response is None and mark.head is not None and mark.head.status >= 300:
            response = mark.head  # the refusal's own words were still to come
        if response is None:
            text = f"{provider} did not answer within {timeout_s:g} s ({call.host})"
            raise self.error(provider, text, lost=mark.lost)
        if 200 <= response.status < 300:
            return response
        raise self._refusal(call, response, explain, tries, mark.lost)

    async def request_json(self, method: str, url: str, *, provider: str, **options: Any) -> Any:
        """Return the JSON of the 2xx answer to one request, an object as a `JsonObject`; options and errors as for `request`.

        Raises:
            ProviderError: also when the answer is not JSON (`status` is then that of the answer).
        """
        response = await self.request(method, url, provider=provider, **options)
        try:
            value = response.json()
            return JsonObject(value, response.body) if isinstance(value, dict) else value
        except ValueError as exc:
            shown = f"{response.content_type or 'no content type'}, {len(response.body)} bytes"
            raise ProviderError(
                f"{provider} answered {response.status} with something that is not JSON ({shown}); "
                f"check that its address {call_address(response.url)} is right and that no login page is in between",
                provider=provider,
                status=response.status,
                lost=True,
            ) from exc

    async def aclose(self) -> None:
        """Close the connections of every loop; the client may be used again afterwards."""
        here = asyncio.get_running_loop()
        elsewhere = []
        for loop, pool in self._pools.drain():
            if loop is here:
                await pool.aclose()
            else:
                elsewhere.append((loop, pool))
        close_all(elsewhere)

    def error(
        self,
        provider: str,
        text: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
        lost: bool = False,
    ) -> ProviderError:
        """Return a `ProviderError` (429: `RateLimitedError`) of one line without any key in it."""
        kind = RateLimitedError if status == 429 else ProviderError
        return kind(self.redact(text), provider=provider, status=status, retry_after=retry_after, lost=lost)

    def redact(self, text: str, sent: Mapping[str, str] | None = None) -> str:
        """Return `text` as one plain line without any key, and without user names in addresses."""
        secrets = {*self._secrets(), *_sent_secrets(sent or {})}
        for secret in sorted(secrets, key=len, reverse=True):
            if len(secret) >= SHORTEST_SECRET:
                text = text.replace(secret, "***").replace(quote(secret, safe="", errors="replace"), "***")
        return plain(USER_INFO.sub("//", text))

    async def _send(self, call: Call) -> HttpResponse:
        """Send once (twice when the server hangs up without a word); translate whatever goes wrong."""
        import aiohttp

        proxy = proxy_for(call.url)
        for last in (False, True):
            try:
                return await exchange(self._pools.get(), call, proxy)
            except (aiohttp.ClientError, OSError, ValueError) as exc:
                if not last and call.method == "POST" and hung_up(exc):
                    continue  # (aiohttp itself asks once more by GET)
                # Without the cause: the text of a lower error may hold the address or a header as it was sent.
                raise self._unreachable(call, exc, proxy) from None
        raise AssertionError("not reached")

    def _unreachable(self, call: Call, exc: BaseException, proxy: str | None) -> ProviderError:
        """Return the error for a request that no answer came to, or one that cannot be used."""
        mark = progress.get() or Progress()
        why = shorten(self.redact(what_happened(exc, call), call.headers), MESSAGE_WIDTH)
        through = f" through the proxy {place_of(proxy)}" if proxy else ""
        text = f"{call.provider} could not be reached at {call.host}{through}: {why}"
        if mark.head is not None:
            text = f"{call.provider} answered {mark.head.status}, but with nothing that can be used: {why}"
        lost = mark.unanswered if never_sent(exc) else mark.lost
        return self.error(call.provider, text, status=mark.head.status if mark.head else None, lost=lost)

    def _refusal(self, call: Call, response: HttpResponse, explain: Explain | None, tries: int, lost: bool) -> ProviderError:
        reason = (explain(response) if explain else None) or explain_any(response)
        words = shorten(self.redact(reason.text, call.headers), MESSAGE_WIDTH)
        if 300 <= response.status < 400:
            to = shorten(place_of(response.headers.get("location", "")), PLACE_WIDTH)
            words = f"a redirect to {to or 'elsewhere'}, which is not followed; check the address {call_address(call.url)}"
        often = f" (asked {tries} times)" if tries > 1 else ""
        message = f"{call.provider} answered {response.status}{often}" + (f": {words}" if words else "")
        return self.error(call.provider, message, status=response.status, retry_after=reason.retry_after, lost=lost)


_SECRET_HEADERS = ("authorization", "x-subscription-token", "x-api-key", "api-key")


def _sent_secrets(headers: Mapping[str, str]) -> Iterable[str]:
    """Yield the keys that went out with this request, whoever keeps them."""
    for name, value in headers.items():
        if name.lower() in _SECRET_HEADERS:
            yield value.removeprefix("Bearer ")
