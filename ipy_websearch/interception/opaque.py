"""Our `encrypted_content`: what a search found, packed into the opaque text that a caller sends back with the reply. Pure.

It is not encrypted and holds no secret: it is the result's own text, compressed, so that a later request can be answered by a
model that has never seen it, also by another process. A mark tells it from the API's own, a checksum refuses what was
altered, and the address inside binds it to the result that it stands in.
"""

from __future__ import annotations

import json
import zlib
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

MARK = "IPYWS1"
_DIGEST_BYTES = 12
_PERSON = b"ipy_websearch"
MAX_BYTES = 2_000_000
"""The most that packed text may unpack to; more is refused."""


def pack(payload: Mapping[str, Any]) -> str:
    """Return a JSON object as opaque text."""
    data = zlib.compress(json.dumps(payload, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"), 1)
    return MARK + urlsafe_b64encode(_digest(data) + data).decode("ascii")


def unpack(text: Any) -> dict[str, Any] | None:
    """Return what was packed, None for text that is not ours or was altered."""
    if not isinstance(text, str) or not text.startswith(MARK):
        return None
    try:
        raw = urlsafe_b64decode(text[len(MARK) :])
        data = raw[_DIGEST_BYTES:]
        if raw[:_DIGEST_BYTES] != _digest(data):
            return None
        inflater = zlib.decompressobj()
        payload = json.loads(inflater.decompress(data, MAX_BYTES))
    except (ValueError, zlib.error):
        return None
    return payload if isinstance(payload, dict) else None


def _digest(data: bytes) -> bytes:
    return blake2b(data, digest_size=_DIGEST_BYTES, person=_PERSON).digest()
