"""Our `encrypted_content`: what a search found, packed into the opaque text that a caller sends back with the reply.

It is not encrypted and holds no secret: it is the result's own text, so that a later request can be answered by a model
that has never seen it, also by another process. A keyed checksum proves that it was packed by this installation
(`install_key`): what was altered, made up, or packed elsewhere is not unpacked. The address inside binds it to its result.
"""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import blake2b
from hmac import compare_digest
from typing import Any

from ipy_websearch.interception.install_key import install_key

MARK = "IPYWS2"
MAX_BYTES = 2_000_000
"""The most that packed text may unpack to; more is refused."""

_DIGEST_BYTES = 15
_PERSON = b"ipy_websearch"
_PLAIN, _COMPRESSED = b"\0", b"\1"
_LONG_BYTES = 3_000  # compressing less takes more time than it saves anybody
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def pack(payload: Mapping[str, Any]) -> str:
    """Return a JSON object as opaque text."""
    data = _encode(payload).encode("utf-8", "replace")
    data = _COMPRESSED + zlib.compress(data, 1) if len(data) > _LONG_BYTES else _PLAIN + data
    return MARK + urlsafe_b64encode(_digest(data) + data).decode("ascii")


def unpack(text: Any) -> dict[str, Any] | None:
    """Return what was packed, None for text that is not ours or was altered."""
    if not isinstance(text, str) or not text.startswith(MARK):
        return None
    try:
        raw = urlsafe_b64decode(text[len(MARK) :])
        data = raw[_DIGEST_BYTES:]
        if not compare_digest(raw[:_DIGEST_BYTES], _digest(data)):
            return None
        plain = zlib.decompressobj().decompress(data[1:], MAX_BYTES) if data[:1] == _COMPRESSED else data[1:]
        payload = json.loads(plain)
    except (ValueError, zlib.error):
        return None
    return payload if isinstance(payload, dict) else None


def _digest(data: bytes) -> bytes:
    digest = _keyed(install_key()).copy()
    digest.update(data)
    return digest.digest()


@cache
def _keyed(key: bytes) -> blake2b:
    """Return a digest that has taken in the key."""
    return blake2b(digest_size=_DIGEST_BYTES, key=key, person=_PERSON)
