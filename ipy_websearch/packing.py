"""Keeps the outputs of tools: an engine's answer as the text that it came as, older ones compressed and out of memory.

The invariant: what is read back equals what was put in, and nothing that goes wrong with a disk is ever seen: what cannot be
written stays in memory. A parsed answer takes ten times the memory of its text, and slows down every pass of the garbage
collector, for something that hardly anybody looks at.
"""

from __future__ import annotations

import json
import os
import threading
import zlib
from typing import IO, Any

_SMALL = 512  # bytes that are not worth the compressor's own overhead
_LEVEL = 1  # a third of the time of the default for about the same size


class Attic:
    """Holds bytes in a temporary file without a name, which is gone when the process is; it is opened at the first use."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._size = 0
        self._lock = threading.Lock()

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def put(self, data: bytes) -> tuple[IO[bytes], int, int] | None:
        """Return the place of the bytes, None when they cannot be written."""
        import tempfile

        with self._lock:
            try:
                if self._file is None:
                    self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (it outlives this call)
                    self._size = 0
                self._file.seek(self._size)
                if self._file.write(data) != len(data):
                    return None
            except OSError:
                return None
            place = (self._file, self._size, len(data))
            self._size += len(data)
            return place

    def get(self, place: tuple[IO[bytes], int, int]) -> bytes:
        """Return the bytes at a place."""
        file, at, size = place
        if hasattr(os, "pread"):  # it moves nothing that a forked process would share
            return os.pread(file.fileno(), size, at)
        with self._lock:
            file.seek(at)
            return file.read(size)


class Packed:
    """One value: a text, a structure of plain JSON, or (as bytes) the JSON text of one, which is read when it is wanted."""

    __slots__ = ("_is_text", "_kept")

    def __init__(self, value: Any) -> None:
        self._is_text = isinstance(value, str)
        # The value as it was given, or where the compressed bytes of its text are: one attribute, so that a thread sees both.
        self._kept: tuple[Any, Attic | None] = (value, None)

    @property
    def value(self) -> Any:
        """The text, or the structure."""
        data = self._given()
        if not isinstance(data, bytes):
            return data
        return data.decode("utf-8", "surrogatepass") if self._is_text else json.loads(data)

    def pack(self, attic: Attic) -> None:
        """Make it as small as it gets; what is no JSON stays as it is."""
        data, packed_in = self._kept
        if packed_in is not None or (not isinstance(data, bytes) and (data := self._encoded(data)) is None):
            return
        if len(data) > _SMALL:
            packed = zlib.compress(data, _LEVEL)
            self._kept = (attic.put(packed) or packed, attic)

    def _given(self) -> Any:
        """Return the value as it was given, texts and structures that were packed as bytes."""
        data, attic = self._kept
        if attic is None:
            return data
        return zlib.decompress(attic.get(data) if isinstance(data, tuple) else data)

    def _encoded(self, value: Any) -> bytes | None:
        if self._is_text:
            return str(value).encode("utf-8", "surrogatepass")
        try:
            data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
            return data if json.loads(data) == value else None
        except (TypeError, ValueError, RecursionError):
            return None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Packed) and self.value == other.value

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[Packed], tuple[Any]]:
        """Copies and pickles hold the value itself, wherever it is kept here."""
        return Packed, (self.value if self._is_text else self._given(),)


def as_yaml(value: Any) -> str:
    """Return a structure as YAML: keys in their order, no line cut; what is no JSON as the text it prints as."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    options: Any = {"Dumper": dumper, "sort_keys": False, "allow_unicode": True, "width": 2**31 - 1}
    try:
        return str(yaml.dump(value, **options))
    except yaml.YAMLError:  # it holds something that is not a plain dict, list or value
        return str(yaml.dump(json.loads(json.dumps(value, default=str)), **options))
