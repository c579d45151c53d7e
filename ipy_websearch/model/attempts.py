"""How often a request of an intercepted call is sent: as often as the caller's client allows, whoever sends it again.

The first request is sent again by the SDK, a later one here, and a lost connection of a later one by the SDK too, where
nothing stands between. The invariant: one request goes out at most `max_retries + 1` times, all of them together.
Facts: anthropic 2.11 `_base_client.py`, read 2026-11.
"""

from __future__ import annotations

from typing import Any

import anthropic
import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.model.retry import MAX_RETRIES, retry_wait_s
from ipy_websearch.model.runs import Run

_WENT_OUT = (
    httpx2.ReadTimeout,
    httpx2.WriteTimeout,
    httpx2.ReadError,
    httpx2.WriteError,
    httpx2.CloseError,
    httpx2.RemoteProtocolError,
)


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
        self._by_the_sdk = 0


def went_out(exc: BaseException) -> bool:
    """Say whether a request that got no answer may be billed: nobody waits for it any more, or it was lost on its way."""
    return not isinstance(exc, anthropic.APIConnectionError) or isinstance(exc.__cause__, _WENT_OUT)
