"""The user's research documents: a folder of this machine, or a path of a GitHub repository.

Every outcome is a value, since the model reads failures too; there are four kinds of them (seed 001). A document has at most
`MAX_BYTES`; a longer one is refused, never cut. In a folder only regular files are read, and no symbolic link below the folder
is followed.

GitHub's wire facts (docs.github.com/en/rest/repos/contents, read 2026-11): a file is an object with `type` "file", `size` in
bytes and its content in base64; with the `object` media type a directory is an object of type "dir", and a file above 1 MB
still has its size. A symlink to a file of the repository is answered with that file, any other with an object of type
"symlink"; a submodule has `submodule_git_url`.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias
from urllib.parse import quote

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.http.client import HttpClient
from ipy_websearch.http.response import HttpResponse, Reason, explain_any
from ipy_websearch.keys import Keys, base_url

MAX_BYTES = 50 * 1024
TIMEOUT_S = 10.0
GITHUB_PREFIX = "github:"

_GITHUB_HEADERS = {"Accept": "application/vnd.github.object+json", "X-GitHub-Api-Version": "2022-11-28"}
_GITHUB_ROOT = re.compile(
    r"(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,99})/(?P<repo>[A-Za-z0-9._-]{1,100})"
    r"(?P<path>(?:/[^/@\\\x00-\x1f]+)*)/?(?:@(?P<ref>\S+))?"
)
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


def documents_at(root: str, http: HttpClient, keys: Keys, *, base: Path | None = None) -> Documents:
    """Return the documents that `research_root` names: a folder (relative to `base`), or `github:owner/repo/path@ref`.

    Raises:
        ConfigError: there is no such folder, or the name of the repository is malformed.
    """
    root = root.strip()
    return GitHubFolder(root, http, keys) if root.startswith(GITHUB_PREFIX) else Folder(root, base)


def _document(data: bytes, size: int) -> Outcome:
    """Return the document that `data` holds; `size` is the one that was announced."""
    if max(len(data), size) > MAX_BYTES:
        return _too_large()
    if len(data) != size:
        return _failed(f"it has {len(data):,} bytes where {size:,} were announced")
    try:
        return Document(data.decode("utf-8"), size)
    except UnicodeDecodeError:
        return _failed("it is not UTF-8 text")


def _not_found(path: str) -> Failure:
    return Failure("file_not_found", f"File not found: {path}")


def _not_a_file(path: str) -> Failure:
    return Failure("api_error", f"Path is not a file: {path}")


def _too_large() -> Failure:
    return Failure("file_too_large", "File exceeds 50KB limit. Try a more specific path or request a summary.")


def _failed(reason: str) -> Failure:
    return Failure("api_error", f"Failed to read file: {reason}")


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
        target = self.root.resolve()
        try:
            for part in path.split("/"):
                target /= part
                if target.is_symlink():
                    return _not_a_file(path)
            if not target.is_file():
                target.lstat()  # raises when there is nothing
                return _not_a_file(path)
            with target.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                return _too_large() if size > MAX_BYTES else _document(file.read(MAX_BYTES + 1), size)
        except (FileNotFoundError, NotADirectoryError):
            return _not_found(path)
        except OSError as exc:
            return _failed(os.strerror(exc.errno or 0))


class GitHubFolder:
    """The documents below one path of a repository, at a branch, tag or commit (none: the default branch).

    `root` is `github:owner/repo/path@ref`; path and ref may be left out. The ref follows the first "@". A token
    (GITHUB_TOKEN) is sent when there is one: private repositories need it, and it raises the rate limit.

    Raises:
        ConfigError: `root` does not have that form.
    """

    def __init__(self, root: str, http: HttpClient, keys: Keys) -> None:
        match = _GITHUB_ROOT.fullmatch(root.strip().removeprefix(GITHUB_PREFIX))
        path = match["path"].strip("/") if match else ""
        if match is None or any(part in (".", "..") for part in (match["repo"], *path.split("/"))):
            raise ConfigError(f"research_root is {root!r}; a repository is written github:owner/repo/path@ref")
        self.repository = f"{match['owner']}/{match['repo']}"
        self.path = path
        self.ref = match["ref"]
        self.name = (path or match["repo"]).rsplit("/", 1)[-1]
        self._http = http
        self._keys = keys

    async def read(self, path: str) -> Outcome:
        """Return the document at `path`."""
        full = f"{self.path}/{path}".lstrip("/")
        try:
            token = self._keys.get("GITHUB_TOKEN")
            raw = await self._http.request_json(
                "GET",
                f"{base_url('GITHUB_BASE_URL', 'https://api.github.com')}/repos/{self.repository}/contents/{quote(full)}",
                provider="github",
                params={"ref": self.ref} if self.ref else {},
                headers={**_GITHUB_HEADERS, "Authorization": f"Bearer {token}"} if token else _GITHUB_HEADERS,
                timeout_s=TIMEOUT_S,
                explain=_explain,
            )
        except (ProviderError, ConfigError) as exc:
            return _not_found(path) if getattr(exc, "status", None) == 404 else _failed(str(exc))
        return self._document(raw, path)

    def _document(self, raw: Any, path: str) -> Outcome:
        is_file = isinstance(raw, dict) and raw.get("type") == "file" and not raw.get("submodule_git_url")
        if not is_file or not self._is_inside(raw.get("path")):
            return _not_a_file(path)
        size = raw.get("size")
        if type(size) is int and size > MAX_BYTES:
            return _too_large()
        if type(size) is int and (not size or raw.get("encoding") == "base64"):
            with suppress(binascii.Error, ValueError):
                return _document(base64.b64decode(str(raw.get("content") or "")), size)
        return _failed("GitHub did not send its size and its content in base64")

    def _is_inside(self, answered: Any) -> bool:
        """Say whether the file that GitHub gave lies below our path: a symlink may have led it elsewhere."""
        return not self.path or not isinstance(answered, str) or answered.startswith(f"{self.path}/")


def _explain(response: HttpResponse) -> Reason | None:
    """Return what to do about a refused token or a used-up rate limit (60 requests an hour without a token)."""
    reason = explain_any(response)
    if response.status == 401:
        return Reason(f"the token was refused; set GITHUB_TOKEN again with `%websearch key github`: {reason.text}")
    if response.status in (403, 429) and response.headers.get("x-ratelimit-remaining") == "0":
        return Reason("the rate limit is used up; set GITHUB_TOKEN with `%websearch key github` for a higher one")
    return None
