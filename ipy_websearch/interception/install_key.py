"""The key with which this installation marks what it found itself: made at its first use, kept in the settings directory.

Every process of the installation reads the same file (`interception-key`, mode 0600), so a reply can be sent back to another
one. The invariant: whoever cannot read that file cannot make text that counts as found here. Where nothing can be
written, the key lives as long as the process.
"""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from ipy_websearch.settings import settings_dir

FILE_NAME = "interception-key"
_BYTES = 32
_HEX = re.compile(rf"[0-9a-f]{{{2 * _BYTES}}}\n?")
_keys: dict[str | None, bytes] = {}


def install_key() -> bytes:
    """Return the key of this installation, 32 bytes; `IPY_WEBSEARCH_HOME` says where it is kept."""
    home = os.environ.get("IPY_WEBSEARCH_HOME")
    key = _keys.get(home)
    if key is None:
        key = _keys[home] = _kept_at(settings_dir() / FILE_NAME)
    return key


def _kept_at(path: Path) -> bytes:
    try:
        return _read(path) or _made(path)
    except OSError:
        return secrets.token_bytes(_BYTES)


def _read(path: Path) -> bytes | None:
    """Return the key in a file, None when there is no file or no key in it; others lose the right to read it."""
    try:
        text = path.read_bytes().decode("ascii", "replace")
    except FileNotFoundError:
        return None
    if not _HEX.fullmatch(text):
        return None
    if os.name == "posix" and path.stat().st_mode & 0o077:
        path.chmod(0o600)
    return bytes.fromhex(text.strip())


def _made(path: Path) -> bytes:
    """Return a new key, or that of the process that was quicker: the file appears whole and once."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.write(secrets.token_hex(_BYTES) + "\n")
    try:
        os.link(draft, path)
    except FileExistsError:
        if _read(path) is None:  # something else lies there: it was no key, so nothing is lost
            os.replace(draft, path)
    except OSError:  # a file system without links
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    key = _read(path)
    if key is None:
        raise OSError(f"{path} could not be read back")
    return key
