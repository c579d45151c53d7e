"""Research documents in a folder of this machine.

Invariant: what is read is a regular file inside the folder. No symbolic link is followed below the folder itself, neither as
the last part of a path nor on the way, and each part is opened relative to the directory that was opened before it, so
that nothing can be swapped between looking and reading. Pipes, sockets and devices are refused before they are opened;
opening never waits, and what is open is looked at once more before it is read.
"""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import BinaryIO

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.documents import MAX_BYTES, Outcome, document, failed, not_a_file, not_found, too_large

_RELATIVE = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
"""Whether the system can open a file relative to an open directory (Windows cannot)."""

_EXTRA = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK", "O_NOFOLLOW", "O_BINARY"))


class Folder:
    """The documents in a folder; `root` may be relative to `base` and begin with "~".

    Raises:
        ConfigError: there is no such folder.
    """

    def __init__(self, root: str, base: Path | None = None) -> None:
        self.root = ((base or Path.cwd()) / Path(root).expanduser()).absolute()
        if not self.root.is_dir():
            raise ConfigError(
                f"research_root is {root!r}, and there is no such folder; give a folder or github:owner/repo/path@ref"
            )
        self.name = self.root.name if self.root.name != ".." else self.root.resolve().name

    async def read(self, path: str) -> Outcome:
        """Return the document at `path`; the disk is read in a thread."""
        return await asyncio.to_thread(self._read, path)

    def _read(self, path: str) -> Outcome:
        parts = [part for part in path.split("/") if part not in ("", ".")]
        try:
            opened = (self._open if _RELATIVE else self._open_by_name)(parts)
            with open(opened, "rb") as file:
                return _content(file, path)
        except FileNotFoundError:
            return not_found(path)
        except _NotAFile:
            return not_a_file(path)
        except OSError as exc:
            return failed(os.strerror(exc.errno or 0))

    def _open(self, parts: list[str]) -> int:
        """Return a descriptor of the file, found one directory after the other."""
        here = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for part in parts[:-1]:
                _check(os.stat(part, dir_fd=here, follow_symlinks=False), last=False)
                inside = os.open(part, os.O_RDONLY | os.O_DIRECTORY | _EXTRA, dir_fd=here)
                os.close(here)
                here = inside
            _check(os.stat(parts[-1], dir_fd=here, follow_symlinks=False), last=True)
            return os.open(parts[-1], os.O_RDONLY | _EXTRA, dir_fd=here)
        finally:
            os.close(here)

    def _open_by_name(self, parts: list[str]) -> int:
        """Return a descriptor of the file where directories cannot be opened: checked before, and again when it is open."""
        real = self.root.resolve()
        target = real.joinpath(*parts)
        for n in range(1, len(parts) + 1):
            _check(os.lstat(real.joinpath(*parts[:n])), last=n == len(parts))
        opened = os.open(target, os.O_RDONLY | _EXTRA)
        same = os.path.normcase(os.path.realpath(target)) == os.path.normcase(target)
        if not (same and os.path.samestat(os.fstat(opened), os.lstat(target))):
            os.close(opened)
            raise _NotAFile
        return opened


class _NotAFile(Exception):
    """The path leads to something that is not a file, or through a link."""


def _check(status: os.stat_result, *, last: bool) -> None:
    """Refuse what is not a directory on the way, or not a file at its end.

    Raises:
        FileNotFoundError: a file stands where a directory would have to be.
    """
    if last and not stat.S_ISREG(status.st_mode):
        raise _NotAFile
    if not last and stat.S_ISREG(status.st_mode):
        raise FileNotFoundError
    if not last and not stat.S_ISDIR(status.st_mode):
        raise _NotAFile


def _content(file: BinaryIO, path: str) -> Outcome:
    """Return what an open file holds; it is looked at again, since it may not be the one that was checked."""
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        return not_a_file(path)
    if status.st_size > MAX_BYTES:
        return too_large()
    return document(file.read(MAX_BYTES + 1), status.st_size)
