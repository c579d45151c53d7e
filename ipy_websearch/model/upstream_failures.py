"""What is said of a server behind the proxy that could not be asked: what went wrong, and nothing that anybody wrote.

h11 quotes the bytes that it cannot read, which may be the end of somebody else's answer, or a header with a key.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import anthropic
import httpx2

from ipy_websearch.errors import ModelError
from ipy_websearch.text import plain, shorten

_QUOTED = re.compile(r"[\s:(]*(?:bytearray\(|\bb?['\"]|['\"])")


def not_asked(exc: BaseException | None) -> ModelError:
    """Return the error for a request that got no answer.

    >>> str(not_asked(httpx2.RemoteProtocolError("illegal status line: bytearray(b'x')")))
    'the upstream server could not be asked (RemoteProtocolError: illegal status line)'
    """
    words = _own_words(exc) if isinstance(exc, httpx2.ProtocolError) else str(exc or "")
    said = f"{type(exc).__name__}: {shorten(plain(words), 200)}".removesuffix(": ")
    return ModelError(f"the upstream server could not be asked ({said})", kind="connection_error")


def tell_why(exc: anthropic.APIConnectionError) -> None:
    """Have the SDK's error say why there was no answer: by itself it says that there was none."""
    exc.message = str(not_asked(exc.__cause__ or exc))
    exc.args = (exc.message,)


class Discreet(httpx2.AsyncByteStream):
    """The body of an answer, whose errors say nothing that somebody wrote; they are told to the client."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._stream:
                yield piece
        except httpx2.ProtocolError as exc:
            raise type(exc)(_own_words(exc)) from None

    async def aclose(self) -> None:
        """Close the connection, or give it back."""
        await self._stream.aclose()


def _own_words(exc: httpx2.ProtocolError) -> str:
    return _QUOTED.split(str(exc), maxsplit=1)[0]
