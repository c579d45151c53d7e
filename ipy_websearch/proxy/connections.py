"""Connections that say nothing are closed: uvicorn itself waits for the head of a request as long as the client likes.

Whoever can reach the port could otherwise hold every connection that the process may have with a byte a minute. A client that
closes its half after the request counts as gone: nothing tells it from one that has left, whose request must end. Facts:
uvicorn 0.54 `protocols/http/h11_impl.py`, read 2026-11.
"""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 20.0
"""Seconds in which the request line and the headers must have come."""


class Prompt(H11Protocol):
    """A connection whose requests begin in time."""

    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._look()

    def data_received(self, data: bytes) -> None:
        """Take what has come."""
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Wait for the rest of a head, and no longer once it is there."""
        if self.conn.their_state is not h11.IDLE:
            self._stop()
        elif self._limit is None:
            self._limit = self.loop.call_later(HEAD_S, self._too_slow)

    def _stop(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None

    def _too_slow(self) -> None:
        self._limit = None
        if self.conn.their_state is h11.IDLE and not self.transport.is_closing():
            self.transport.close()
