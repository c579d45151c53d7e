"""A research document: its text, or why there is none. What a folder and a repository have in common. Pure.

Every outcome is a value, since the model reads failures too; there are four kinds of them. A document has at most
`MAX_BYTES`; a longer one is refused, never cut.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

MAX_BYTES = 50 * 1024

ErrorType = Literal["file_not_found", "path_validation", "file_too_large", "api_error"]


@dataclass(frozen=True, slots=True)
class Document:
    """A file's text, and its size in bytes as it is stored."""

    content: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no document, in one line that the model can act on."""

    error_type: ErrorType
    message: str


Outcome: TypeAlias = Document | Failure


class Documents(Protocol):
    """A place with documents. `name` is the last part of its own path; `read` takes a path that was validated."""

    name: str

    async def read(self, path: str) -> Outcome:
        """Return the document at `path`, relative to this place."""
        ...


def document(data: bytes, size: int) -> Outcome:
    """Return the document that `data` holds; `size` is what its keeper said it has."""
    if max(len(data), size) > MAX_BYTES:
        return too_large()
    if len(data) != size:
        return failed(f"it has {len(data):,} bytes where {size:,} were announced")
    try:
        return Document(data.decode("utf-8"), size)
    except UnicodeDecodeError:
        return failed("it is not UTF-8 text")


def not_found(path: str) -> Failure:
    """Return the failure for a path at which there is nothing."""
    return Failure("file_not_found", f"File not found: {path}")


def not_a_file(path: str) -> Failure:
    """Return the failure for a directory, a symlink, a submodule, a device."""
    return Failure("api_error", f"Path is not a file: {path}")


def too_large() -> Failure:
    """Return the failure for a file over `MAX_BYTES`."""
    return Failure("file_too_large", "File exceeds 50KB limit. Try a more specific path or request a summary.")


def failed(reason: str) -> Failure:
    """Return the failure for everything else."""
    return Failure("api_error", f"Failed to read file: {reason}")
