"""Research documents in a GitHub repository, read through the Contents API.

Wire facts (docs.github.com/en/rest/repos/contents, read 2026-11): a file is an object with `type` "file", `size` in bytes and
its content in base64; a directory is an array, or with the `object` media type an object of type "dir"; above 1 MB the content
is left out and only that media type still gives the size. A symlink to a file of the repository is answered with that
file, any other with an object of type "symlink"; a submodule has `submodule_git_url`.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any
from urllib.parse import quote

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.http.client import HttpClient
from ipy_websearch.http.response import HttpResponse, Reason, explain_any
from ipy_websearch.keys import Keys
from ipy_websearch.providers.documents import MAX_BYTES, Outcome, document, failed, not_a_file, not_found, too_large
from ipy_websearch.settings import base_url

TIMEOUT_S = 10.0
PREFIX = "github:"
_HEADERS = {"Accept": "application/vnd.github.object+json", "X-GitHub-Api-Version": "2022-11-28"}
_ROOT = re.compile(
    r"(?P<owner>[A-Za-z0-9][A-Za-z0-9-]{0,99})/(?P<repo>[A-Za-z0-9._-]{1,100})"
    r"(?P<path>(?:/[^/@\\\x00-\x1f]+)*)/?(?:@(?P<ref>\S+))?"
)


class GitHubFolder:
    """The documents below one path of a repository, at a branch, tag or commit (none: the default branch).

    `root` is `github:owner/repo/path@ref`; path and ref may be left out. The ref is what follows the first "@". A token
    (GITHUB_TOKEN) is sent when there is one: private repositories need it, and it raises the rate limit.

    Raises:
        ConfigError: `root` does not have that form.
    """

    def __init__(self, root: str, http: HttpClient, keys: Keys) -> None:
        match = _ROOT.fullmatch(root.strip().removeprefix(PREFIX))
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
            raw = await self._http.request_json(
                "GET",
                f"{base_url('GITHUB_BASE_URL', 'https://api.github.com')}/repos/{self.repository}/contents/{quote(full)}",
                provider="github",
                params={"ref": self.ref},
                headers=self._headers(),
                timeout_s=TIMEOUT_S,
                explain=_explain,
            )
        except (ProviderError, ConfigError) as exc:
            return not_found(path) if getattr(exc, "status", None) == 404 else failed(str(exc))
        return self._document(raw, path)

    def _headers(self) -> dict[str, str]:
        token = self._keys.get("GITHUB_TOKEN")
        return {**_HEADERS, "Authorization": f"Bearer {token}"} if token else _HEADERS

    def _document(self, raw: Any, path: str) -> Outcome:
        if not isinstance(raw, dict) or raw.get("type") != "file" or raw.get("submodule_git_url"):
            return not_a_file(path)
        if not self._is_inside(raw.get("path")):
            return not_a_file(path)
        size = raw.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            return failed("GitHub did not say how large it is")
        if size > MAX_BYTES:
            return too_large()
        if size and raw.get("encoding") != "base64":
            return failed(f"its content came in an unknown encoding: {str(raw.get('encoding'))[:20]!r}")
        try:
            return document(base64.b64decode(str(raw.get("content") or "")), size)
        except (binascii.Error, ValueError):
            return failed("its content is not base64")

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
