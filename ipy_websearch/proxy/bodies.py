"""The JSON of a request's body, in whatever encoding it came."""

from __future__ import annotations

import json
import zlib
from typing import Any

MAX_BYTES = 64 * 2**20
"""Most bytes that an encoded body may unfold to before it is left to the server: the API takes 32 MB."""

_WINDOWS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


def json_in(content: bytes, encoding: str) -> Any:
    """Return the JSON of a body, None where there is none, or none that can be read here.

    `encoding` is the header Content-Encoding: gzip, deflate or nothing can be read.
    """
    plain = _decoded(content, encoding.strip().lower())
    try:
        return None if plain is None else json.loads(plain)
    except (ValueError, RecursionError):
        return None


def _decoded(content: bytes, encoding: str) -> bytes | None:
    if encoding in ("", "identity"):
        return content
    if encoding not in _WINDOWS:
        return None
    unpacking = zlib.decompressobj(_WINDOWS[encoding])
    try:
        found = unpacking.decompress(content, MAX_BYTES)
    except zlib.error:
        return None
    return found if unpacking.eof else None
