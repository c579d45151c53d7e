"""The JSON of a request's body, in whatever encoding it came.

gzip and deflate are read anywhere; zstd with Python 3.14, `backports.zstd` or `zstandard`; br with `brotli` from 1.2 on (older
ones cannot be told when to stop). What is in an encoding that cannot be read here is for the caller to refuse: whether it
wants the web cannot be known. Nothing unfolds to more than `MAX_BYTES`.
"""

from __future__ import annotations

import importlib
import json
import math
import zlib
from collections.abc import Callable
from functools import cache, partial
from typing import Any

MAX_BYTES = 64 * 2**20
"""Most bytes of a body, and most that it may unfold to before it is left to the server: the API takes 32 MB."""

_MAX_LAYERS = 4
_MAX_MEMBERS = 16
_ZSTD_WINDOW_LOG = 23
"""8 MB, the most that zstd may need as an encoding of HTTP (RFC 9659)."""

_GZIP, _ZLIB, _BARE = 31, 15, -15
Unpack = Callable[[bytes], bytes | None]


def readable() -> list[str]:
    """Return the names of the encodings that can be read here."""
    return [name for name in ("gzip", "deflate", "br", "zstd") if _unpacker(name)]


def unread(encoding: str) -> str | None:
    """Return the first encoding in a header Content-Encoding that cannot be read here, None when all can."""
    names = _layers(encoding)
    return next((name for name in names if _unpacker(name) is None), encoding if len(names) > _MAX_LAYERS else None)


def json_in(content: bytes, encoding: str) -> Any:
    """Return the JSON of a body, None where there is none, or none that could be written again as it is (NaN, 1e999).

    `encoding` is the header Content-Encoding.
    """
    plain: bytes | None = content
    for name in reversed(_layers(encoding)):
        unpack = _unpacker(name)
        plain = unpack(plain) if plain is not None and unpack else None
    try:
        return None if plain is None else json.loads(plain, parse_constant=_no_number, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def _layers(encoding: str) -> list[str]:
    names = (word.strip().lower() for word in encoding.split(","))
    return [name for name in names if name not in ("", "identity")]


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text} is too large")
    return value


@cache
def _unpacker(name: str) -> Unpack | None:
    if name in ("gzip", "x-gzip"):
        return partial(_members, partial(zlib.decompressobj, _GZIP), zlib.error)
    if name == "deflate":
        return _deflated
    return {"br": _brotli, "zstd": _zstd}.get(name, lambda: None)()


def _members(made: Callable[[], Any], wrong: type[Exception], content: bytes) -> bytes | None:
    """Unpack what is in one or more parts, None when something is wrong with it or it is too much."""
    found = b""
    for _ in range(_MAX_MEMBERS):
        unpacking = made()
        try:
            found += unpacking.decompress(content, MAX_BYTES + 1 - len(found))
        except wrong:
            return None
        if not unpacking.eof or len(found) > MAX_BYTES:
            return None
        content = unpacking.unused_data
        if not content:
            return found
    return None


def _deflated(content: bytes) -> bytes | None:
    """Unpack deflate, which some write without the header that belongs to it."""
    for bits in (_ZLIB, _BARE):
        if (found := _members(partial(zlib.decompressobj, bits), zlib.error, content)) is not None:
            return found
    return None


def _found(*names: str) -> Any:
    """Return the first of some modules that is installed, or None."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def _zstd() -> Unpack | None:
    if module := _found("compression.zstd", "backports.zstd"):
        options = {module.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG}
        return partial(_members, partial(module.ZstdDecompressor, options=options), module.ZstdError)
    package = _found("zstandard")
    if package is None:
        return None

    def unpack(content: bytes) -> bytes | None:
        unpacking = package.ZstdDecompressor(max_window_size=2**_ZSTD_WINDOW_LOG)
        try:
            found: bytes = unpacking.stream_reader(content, read_across_frames=True).read(MAX_BYTES + 1)
        except package.ZstdError:
            return None
        return found if len(found) <= MAX_BYTES else None

    return unpack


def _brotli() -> Unpack | None:
    package = _found("brotli", "brotlicffi")
    if not hasattr(getattr(package, "Decompressor", None), "can_accept_more_data"):  # came with the limit, in 1.2
        return None

    def unpack(content: bytes) -> bytes | None:
        unpacking = package.Decompressor()
        try:
            found: bytes = unpacking.process(content, output_buffer_limit=MAX_BYTES)
        except package.error:
            return None
        return found if unpacking.is_finished() and len(found) <= MAX_BYTES else None

    return unpack
