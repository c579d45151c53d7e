"""Decompressing an answer piece by piece, so that a small answer cannot become a huge one.

Invariant: never more than the cap plus one byte is produced, whatever the ratio; the work done is bounded by what came
over the wire. gzip (several members too) and deflate (with and without zlib's header) are understood, since these are
what we ask for. Sources: RFC 1950 to 1952; RFC 9110, section 8.4.1.
"""

from __future__ import annotations

import zlib
from typing import Protocol

# Many tiny members cost work without giving text. Honest files with several members hold 64 kB and more in each.
_MAX_MEMBERS = 1_000
_KNOWN = frozenset({"gzip", "deflate", "br", "zstd", "compress"})


class TooMuch(Exception):
    """There is more decoded content than the cap allows; `content` is what there was room for."""

    def __init__(self, content: bytes) -> None:
        super().__init__()
        self.content = content


class DecodeError(ValueError):
    """The content cannot be decoded; the text says why, in our words alone."""


class Decoder(Protocol):
    """Turns the bytes of the wire into content."""

    def feed(self, data: bytes, room: int) -> bytes:
        """Return the content in `data`, at most `room` bytes.

        Raises:
            TooMuch: there is more than `room` bytes.
            DecodeError: the data cannot be decompressed.
        """
        ...

    def finish(self) -> None:
        """Say that the answer has ended.

        Raises:
            DecodeError: the compressed data has not.
        """
        ...


class Identity:
    """Content that is not compressed."""

    def feed(self, data: bytes, room: int) -> bytes:
        if len(data) > room:
            raise TooMuch(data[:room])
        return data

    def finish(self) -> None:
        pass


class Inflate:
    """gzip or deflate content."""

    def __init__(self, coding: str) -> None:
        self._coding = coding
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16) if coding == "gzip" else None
        self._start = b""
        self._begun = False
        self._members = 0

    def feed(self, data: bytes, room: int) -> bytes:
        out = bytearray()
        self._begun = self._begun or bool(data)
        if self._stream is None:
            self._start += data
            if len(self._start) < 2:
                return b""
            self._stream, data, self._start = _deflate(self._start), self._start, b""
        try:
            while data:
                out += self._stream.decompress(data, room - len(out) + 1)
                if len(out) > room:
                    raise TooMuch(bytes(out[:room]))
                data = self._stream.unconsumed_tail or self._next_member()
        except zlib.error as exc:
            raise DecodeError(f"the answer is marked as {self._coding} but cannot be decompressed") from exc
        return bytes(out)

    def finish(self) -> None:
        if self._begun and (self._stream is None or not self._stream.eof):
            raise DecodeError(f"the answer broke off inside its {self._coding} data")

    def _next_member(self) -> bytes:
        """Return what follows a finished gzip member, and get ready for it; padding after the last one is dropped."""
        stream = self._stream
        if stream is None or not stream.eof or self._coding != "gzip":
            return b""
        rest = stream.unused_data
        if not rest.startswith(b"\x1f"):
            return b""
        self._members += 1
        if self._members > _MAX_MEMBERS:
            raise DecodeError(f"the answer is gzip data in more than {_MAX_MEMBERS:,} parts")
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
        return rest


def decoder_for(content_encoding: str) -> Decoder:
    """Return the decoder for a `Content-Encoding` header ("" when there is none).

    Raises:
        DecodeError: the coding is none that we asked for, or there are several.
    """
    codings = [c.strip().lower().removeprefix("x-") for c in content_encoding.split(",")]
    match [c for c in codings if c not in ("", "identity")]:
        case []:
            return Identity()
        case ["gzip" | "deflate" as coding]:
            return Inflate(coding)
        case others:
            name = ", ".join(others) if _KNOWN.issuperset(others) else "something unknown"
            raise DecodeError(f"the answer is encoded as {name[:40]}; gzip or deflate were asked for")


def _deflate(start: bytes) -> zlib._Decompress:
    """Return the stream for deflate data: RFC 1950 says that the first two bytes make a zlib header, many send none."""
    with_header = start[0] & 0x0F == 8 and (start[0] << 8 | start[1]) % 31 == 0
    return zlib.decompressobj(zlib.MAX_WBITS if with_header else -zlib.MAX_WBITS)
