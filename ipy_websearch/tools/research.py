"""The tool `read_research`: the model reads a document of the user's own, out of one folder or repository and nothing else.

It is offered whenever `research_root` is set. The output is a JSON object, `{"ok": true, "content": …, "bytes": …}` or
`{"ok": false, "error_type": …, "message": …}` with one of four error types (seed 001). A document is material like a page: it
may hold addresses, which may then be fetched, and its text is given as data without characters that nobody can see.

Paths are checked in the steps of seed 001, where documents lie in `ideas/`. Here they lie in the research root, so step 5
refuses the last part of the root's own path: with the root `/data/ideas` a path must not begin with `ideas/` again.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated

from pydantic import WithJsonSchema

from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.providers.research import Document, Failure, Outcome, documents_at
from ipy_websearch.text import plain, shorten, visible
from ipy_websearch.tools.addresses import addresses_in
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.inputs import ToolInput

MAX_PATH = 200
TIMEOUT_S = 15.0
DESCRIPTION = (
    "Read an existing research document of the user's own. Path is relative to the research directory{name}, such as "
    '"market/2024-06.md". Prefer it when building on earlier work or internal analysis, and web search for current or external '
    "facts; do not read the same file twice. Returns a JSON object with `ok: true` and the content on success, or `ok: false` "
    "with error details on failure; on a failure, say so and go on with what is there."
)
_BLANKS = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
_CONTROL = re.compile(r"[\x00-\x1f]")
_ALLOWED = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9/_.-]{0,199}")
_PATH_SCHEMA = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_PATH,
    "description": "Path of the file, relative to the research directory",
}


class ReadResearchInput(ToolInput):
    """The input. Its length is checked with the other rules of a path, so that the refusal names the rule."""

    path: Annotated[str, WithJsonSchema(_PATH_SCHEMA)]


def read_research_tool(root: str, http: HttpClient, keys: Keys, *, base: Path | None = None) -> Tool:
    """Return the tool that reads below `root`; nothing is read or sent before it is called.

    Raises:
        ConfigError: `root` is neither a folder nor a repository's name.
    """
    documents = documents_at(root, http, keys, base=base)

    async def call(given: ReadResearchInput, context: ToolContext) -> ToolOutput:
        path = checked_path(given.path, documents.name)
        return _output(given.path, path if isinstance(path, Failure) else await documents.read(path))

    # JSON in quotes: the name is the user's, but it goes into a text that the model reads as ours.
    name = f" {json.dumps(plain(documents.name) + '/', ensure_ascii=False)}" if plain(documents.name) else ""
    return Tool("read_research", DESCRIPTION.format(name=name), ReadResearchInput, call, timeout_s=TIMEOUT_S)


def checked_path(path: str, root_name: str) -> str | Failure:
    """Return the path without blanks around it, to be put behind the root, or which rule it breaks.

    `root_name` is the last part of the root's own path. Messages never repeat a path that was refused.
    """
    path = path.strip(_BLANKS)  # step 1
    rules = (  # steps 2 to 8, in order
        (bool(_CONTROL.search(path)), "control characters are not allowed"),
        ("%" in path, "'%' is not allowed (no URL encoding)"),
        (".." in path or "\\" in path, "'..' and backslashes are not allowed"),
        (bool(root_name) and path.startswith(f"{root_name}/"), f"it must not start with '{root_name}/', which is put in front"),
        (path.endswith("/"), "it must not end with '/' (name a file, not a directory)"),
        ("//" in path, "'//' is not allowed"),
        (not path, "it is empty"),
        (path.startswith("/"), "it must be relative, without a '/' at its start"),
        (len(path) > MAX_PATH, f"it is longer than {MAX_PATH} characters"),
        (
            not _ALLOWED.fullmatch(path),
            "it may hold letters, digits, '/', '_', '.' and '-' only and must start with a letter or digit",
        ),
    )
    problem = next((message for broken, message in rules if broken), "")
    return Failure("path_validation", f"Invalid path: {problem}.") if problem else path


def _output(asked: str, outcome: Outcome) -> ToolOutput:
    path = shorten(plain(asked), MAX_PATH)
    match outcome:
        case Document(content, size):
            content = visible(content)
            return ToolOutput(
                f"read {shorten(path, 80)} ({size:,} bytes)",
                text=json.dumps({"ok": True, "content": content, "bytes": size}, ensure_ascii=False),
                panel_title=path,
                panel_kind="markdown",
                panel_data=content,
                # Only what is written out: in a document "notes.md" is a file, not a host in Moldova.
                urls=tuple(sorted(url for url in addresses_in(content) if url.lower().startswith("http") and url in content)),
                log={"path": path, "bytes": size},
            )
        case Failure(error_type, message):
            message = plain(message)
            text = json.dumps({"ok": False, "error_type": error_type, "message": message}, ensure_ascii=False)
            return ToolOutput(shorten(message, 200), text=text, is_error=True, log={"path": path, "error_type": error_type})
