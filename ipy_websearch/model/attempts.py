"""How often a request of an intercepted call is sent: as often as the caller's client allows, whoever sends it again.

The first request is sent again by the SDK, a later one here, and a lost connection of a later one by the SDK too, where
nothing stands between. The invariant: one request goes out at most `max_retries + 1` times, all of them together.
Facts: anthropic 2.11 `_base_client.py`, `_client.py`, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.model.failures import MAX_RETRIES, retry_wait_s
from ipy_websearch.model.runs import Run

_NEVER_SENT = (
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,
    httpx2.UnsupportedProtocol,
    httpx2.LocalProtocolError,
    httpx2.InvalidURL,
)

_FAILURES = (anthropic.RetryableError, anthropic.APIStatusError, anthropic.APIConnectionError)


class OwnMiddleware(anthropic.Middleware):
    """What ours is known by among a client's middleware."""


class Attempts:
    """Counts for one attempt of the SDK at a call. `client` is the SDK's client in use, known from the first reply on: a
    copy of an intercepted client (`with_options`) has the same middleware, and a `max_retries` of its own.

    `retries` takes the place of the client's own number (None).
    """

    def __init__(self, run: Run, request: Any, retries: int | None) -> None:
        self.client: Any = None
        self._run = run
        self._request = request
        self._given = retries
        self._by_the_sdk: int = 0 if run.begun else request.retries_taken
        self._renewed = False

    @property
    def made(self) -> int:
        """How often the newest request was sent."""
        return self._run.attempts + self._by_the_sdk

    @property
    def retries(self) -> int:
        """How often it may be sent again."""
        if self._given is not None:
            return self._given
        return int(self._request.options.get_max_retries(getattr(self.client, "max_retries", MAX_RETRIES)))

    @property
    def used_up(self) -> bool:
        """Whether it was sent as often as it may be."""
        return self.made > self.retries

    @property
    def sdk_goes_on(self) -> bool:
        """Whether the SDK calls again, in the same words, after a lost connection; other middleware may have other plans."""
        alone = len(getattr(self.client, "middleware", ())) == 1
        return self._given is None and alone and self._request.retries_taken < self.retries

    def wait_s(self, error: ModelError) -> float | None:
        """Return the seconds until it is sent again, None when it is not."""
        return retry_wait_s(error, self.made, retries=self.retries)

    def answered(self) -> None:
        """Say that its reply was taken."""
        self._by_the_sdk, self._renewed = 0, False

    def renew(self) -> bool:
        """Have the client fetch another token, since its own was refused; say whether that may help: once, as in the SDK."""
        cache = getattr(self.client, "_token_cache", None)
        if cache is None:
            return False
        cache.invalidate()
        renewed, self._renewed = self._renewed, True
        return not renewed

    def may_be_billed(self, exc: BaseException) -> bool:
        """Say whether a request that got no answer may be billed: nobody waits for it any more, or it was lost on its way.

        The SDK raises nothing else once a request is out; other middleware inside ours may have had the reply.
        """
        if not isinstance(exc, Exception):
            return True
        causes = list(_causes(exc))
        if any(isinstance(cause, anthropic.APIStatusError) for cause in causes):
            return False
        lost = next((cause for cause in causes if isinstance(cause, anthropic.APIConnectionError)), None)
        if lost is not None and lost.__cause__ is not None:
            return not _never_sent(lost.__cause__)
        entries: Any = getattr(self.client, "middleware", ())
        return bool(entries) and not isinstance(entries[-1], OwnMiddleware)


def _never_sent(cause: BaseException) -> bool:
    """Say whether a request had no connection to go out by; the SDK's aiohttp transport says so of every loss."""
    if not isinstance(cause, httpx2.ConnectError):
        return isinstance(cause, _NEVER_SENT)
    kinds = [kind for below in _causes(cause) for kind in type(below).__mro__ if kind.__module__.startswith("aiohttp")]
    return not kinds or any(kind.__name__ == "ClientConnectorError" for kind in kinds)


def failure_behind(exc: BaseException) -> BaseException | None:
    """Return the error for which the SDK would send a request again that raised `exc`, None when it would not."""
    return next((cause for cause in _causes(exc) if isinstance(cause, _FAILURES)), None)


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """Yield an exception and what it was raised from, each once."""
    seen: set[int] = set()
    cause: BaseException | None = exc
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        cause = cause.__cause__
