"""Frames between the session and its extraction process: two lengths, a JSON header, a body. Nothing is ever unpickled."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import IO, Any

_LENGTHS = struct.Struct(">II")
_MAX_HEADER = 64 * 1024 * 1024
_MAX_BODY = 256 * 1024 * 1024


def write_frame(pipe: IO[bytes], header: Mapping[str, Any], body: bytes = b"") -> None:
    """Write one frame and flush it."""
    head = json.dumps(header).encode("ascii")
    pipe.write(_LENGTHS.pack(len(head), len(body)))
    pipe.write(head)
    pipe.write(body)
    pipe.flush()


def read_frame(pipe: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    """Return the next frame as (header, body), or None when the other side has gone or does not speak frames."""
    lengths = _read(pipe, _LENGTHS.size)
    if lengths is None:
        return None
    head_length, body_length = _LENGTHS.unpack(lengths)
    if head_length > _MAX_HEADER or body_length > _MAX_BODY:
        return None
    head = _read(pipe, head_length)
    body = _read(pipe, body_length)
    if head is None or body is None:
        return None
    header = json.loads(head)
    return (header, body) if isinstance(header, dict) else None


def _read(pipe: IO[bytes], size: int) -> bytes | None:
    data = pipe.read(size)
    return data if len(data) == size else None
