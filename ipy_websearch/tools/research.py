"""The tool `read_research`: the model reads a document of the user's own, out of one folder or repository and nothing else.

It is offered whenever `research_root` is set: to a folder of this machine, or to a path of a GitHub repository. The output is a
JSON object, `{"ok": true, "content": …, "bytes": …}` or `{"ok": false, "error_type": …, "message": …}` with one of four error
types (seed 001). A document has at most `MAX_BYTES`; a longer one is refused, never cut. It is material like a page: it may
hold addresses, which may then be fetched, and its text is given as data without characters that nobody can see.

Paths are checked in the steps of seed 001, where documents lie in `ideas/`. Here they lie in the research root, so step 5
refuses the last part of the root's own path: with the root `/data/ideas` a path must not begin with `ideas/` again. In a folder
only regular files are read, and no symbolic link below the folder is followed.

GitHub's wire facts (docs.github.com/en/rest/repos/contents, read 2026-11): a file is an object with `type` "file", `size` in
bytes and its content in base64; with the `object` media type a directory is an object of type "dir", and a file above 1 MB
still has its size. A symlink to a file of the repository is answered with that file, any other with an object of type
"symlink"; a submodule has `submodule_git_url`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

from pydantic import BaseModel, WithJsonSchema

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.http.client import HttpClient, base_url
from ipy_websearch.keys import Keys
from ipy_websearch.text import plain, shorten, visible
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.web import explicit_addresses

MAX_PATH, MAX_BYTES = 200, 50 * 1024
_GITHUB_ROOT = re.compile(
    r"github:(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,99})/(?P<repo>[A-Za-z0-9._-]{1,100})"
    r"(?P<path>(?:/[^/@\\\x00-\x1f]+)*)/?(?:@(?P<ref>\S+))?"
)

# Returns the document at a path that was checked, or raises `_DocumentError`.
Read = Callable[[str], Awaitable[bytes]]


class ReadResearchInput(BaseModel, extra="forbid"):
    """The input. Its length is checked with the other rules of a path, so that the refusal names the rule."""

    path: Annotated[
        str,
        WithJsonSchema(
            {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_PATH,
                "description": "Path of the file, relative to the research directory",
            }
        ),
    ]


class _DocumentError(Exception):
    """There is no document: `args` are the error type of the seed, and why in one line that the model can act on."""


def read_research_tool(root: str, http: HttpClient, keys: Keys, *, base: Path | None = None) -> Tool:
    """Return the tool that reads below `root`: a folder (relative to `base`), or `github:owner/repo/path@ref`, where path and
    ref may be left out. Nothing is read or sent before it is called.

    Raises:
        ConfigError: there is no such folder, or the name of the repository is malformed.
    """
    root = root.strip()
    if not root:
        said = "read_research has nothing to read: set WebSearch.research_root (%config) to a folder or github:owner/repo/path"
        raise ConfigError(said)
    name, read = _repository(root, http, keys) if root.startswith("github:") else _folder(root, base or Path.cwd())

    async def call(given: ReadResearchInput, context: ToolContext) -> ToolOutput:
        asked = shorten(plain(given.path), MAX_PATH)
        try:
            data = await read(checked_path(given.path, name))
            content = visible(data.decode("utf-8"))
        except (_DocumentError, UnicodeDecodeError) as exc:
            failure = exc if isinstance(exc, _DocumentError) else _failed("it is not UTF-8 text")
            error_type, message = map(plain, failure.args)
            text = json.dumps({"ok": False, "error_type": error_type, "message": message}, ensure_ascii=False)
            log = {"path": asked, "error_type": error_type}
            return ToolOutput(shorten(message, 200), text=text, is_error=True, log=log)
        return ToolOutput(
            f"read {shorten(asked, 80)} ({len(data):,} bytes)",
            text=json.dumps({"ok": True, "content": content, "bytes": len(data)}, ensure_ascii=False),
            panel_title=asked,
            panel_data=content,
            # Only what is written out: in a document "notes.md" is a file, not a host in Moldova.
            urls=tuple(sorted(url for url in explicit_addresses(content) if url.lower().startswith("http"))),
            log={"path": asked, "bytes": len(data)},
        )

    # JSON in quotes: the name is the user's, but it goes into a text that the model reads as ours.
    shown = f" {json.dumps(plain(name) + '/', ensure_ascii=False)}" if plain(name) else ""
    description = (
        f"Read an existing research document of the user's own. Path is relative to the research directory{shown}, such as "
        '"market/2024-06.md". Prefer it when building on earlier work or internal analysis, and web search for current or '
        "external facts; do not read the same file twice. Returns a JSON object with `ok: true` and the content on success, or "
        "`ok: false` with error details on failure; on a failure, say so and go on with what is there."
    )
    return Tool("read_research", description, ReadResearchInput, call, timeout_s=15.0)


def checked_path(path: str, root_name: str) -> str:
    """Return the path without blanks around it, to be put behind the root.

    `root_name` is the last part of the root's own path. Messages never repeat a path that was refused.

    Raises:
        _DocumentError: the path breaks a rule; the message names it.
    """
    path = path.strip(" \t\n\v\f\r\u00a0\ufeff")  # step 1
    rules = (  # steps 2 to 8, in order
        (bool(re.search(r"[\x00-\x1f]", path)), "control characters are not allowed"),
        ("%" in path, "'%' is not allowed (no URL encoding)"),
        (".." in path or "\\" in path, "'..' and backslashes are not allowed"),
        (bool(root_name) and path.startswith(f"{root_name}/"), f"it must not start with '{root_name}/', which is put in front"),
        (path.endswith("/"), "it must not end with '/' (name a file, not a directory)"),
        ("//" in path, "'//' is not allowed"),
        (not path, "it is empty"),
        (path.startswith("/"), "it must be relative, without a '/' at its start"),
        (len(path) > MAX_PATH, f"it is longer than {MAX_PATH} characters"),
        (
            not re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9/_.-]*", path),
            "it may hold letters, digits, '/', '_', '.' and '-' only and must start with a letter or digit",
        ),
    )
    for broken, message in rules:
        if broken:
            raise _DocumentError("path_validation", f"Invalid path: {message}.")
    return path


# --- failures ---------------------------------------------------------------------------------------------------------


def _failed(reason: str) -> _DocumentError:
    return _DocumentError("api_error", f"Failed to read file: {reason}")


def _not_a_file(path: str) -> _DocumentError:
    return _DocumentError("api_error", f"Path is not a file: {path}")


def _sized(data: bytes, size: int) -> bytes:
    """Return `data` if it is as large as was announced, and not too large."""
    if max(len(data), size) > MAX_BYTES:
        raise _DocumentError("file_too_large", "File exceeds 50KB limit. Try a more specific path or request a summary.")
    if len(data) != size:
        raise _failed(f"it has {len(data):,} bytes where {size:,} were announced")
    return data


# --- a folder ---------------------------------------------------------------------------------------------------------


def _folder(root: str, base: Path) -> tuple[str, Read]:
    """Return the name of a folder, and what reads its documents; `root` may be relative to `base` and begin with "~"."""
    folder = (base / Path(root).expanduser()).absolute()
    if not folder.is_dir():
        raise ConfigError(
            f"research_root is {root!r}, and there is no such folder; give a folder or github:owner/repo/path@ref"
        )

    async def read(path: str) -> bytes:
        return await asyncio.to_thread(_read_file, folder.resolve(), path)

    return folder.name if folder.name != ".." else folder.resolve().name, read


def _read_file(target: Path, path: str) -> bytes:
    try:
        for part in path.split("/"):
            target /= part
            if target.is_symlink():
                raise _not_a_file(path)
        if not target.is_file():
            target.lstat()  # raises when there is nothing
            raise _not_a_file(path)
        with target.open("rb") as file:
            return _sized(file.read(MAX_BYTES + 1), os.fstat(file.fileno()).st_size)
    except (FileNotFoundError, NotADirectoryError):
        raise _DocumentError("file_not_found", f"File not found: {path}") from None
    except OSError as exc:
        raise _failed(os.strerror(exc.errno or 0)) from None


# --- a repository -----------------------------------------------------------------------------------------------------


def _repository(root: str, http: HttpClient, keys: Keys) -> tuple[str, Read]:
    """Return the name of a repository's folder, and what reads its documents at a branch, tag or commit (none: the default).

    A token (GITHUB_TOKEN) is sent when there is one: private repositories need it, and it raises the rate limit.
    """
    match = _GITHUB_ROOT.fullmatch(root)
    folder = match["path"].strip("/") if match else ""
    if match is None or any(part in (".", "..") for part in (match["repo"], *folder.split("/"))):
        raise ConfigError(f"research_root is {root!r}; a repository is written github:owner/repo/path@ref")
    contents = f"/repos/{match['owner']}/{match['repo']}/contents/"

    async def read(path: str) -> bytes:
        try:
            token = keys.get("GITHUB_TOKEN")
            raw = await http.request_json(
                "GET",
                base_url("GITHUB_BASE_URL", "https://api.github.com") + contents + quote(f"{folder}/{path}".lstrip("/")),
                provider="github",
                params={"ref": match["ref"]} if match["ref"] else {},
                headers={
                    "Accept": "application/vnd.github.object+json",
                    "X-GitHub-Api-Version": "2022-11-28",
                    **({"Authorization": f"Bearer {token}"} if token else {}),
                },
            )
        except (ProviderError, ConfigError) as exc:
            if getattr(exc, "status", None) == 404:
                raise _DocumentError("file_not_found", f"File not found: {path}") from None
            raise _failed(str(exc)) from None
        return _content(raw, path, folder)

    return (folder or match["repo"]).rsplit("/", 1)[-1], read


def _content(raw: Any, path: str, folder: str) -> bytes:
    """Return the content of GitHub's answer; a symlink may have led it out of the folder."""
    is_file = isinstance(raw, dict) and raw.get("type") == "file" and not raw.get("submodule_git_url")
    if not is_file or (folder and not str(raw.get("path") or f"{folder}/").startswith(f"{folder}/")):
        raise _not_a_file(path)
    size, data = raw.get("size"), b""
    if type(size) is not int:
        raise _failed("GitHub did not send its size")
    with suppress(ValueError):  # what is not base64 is not as long as it should be
        data = base64.b64decode(str(raw.get("content") or "")) if size <= MAX_BYTES else b""
    return _sized(data, size)
