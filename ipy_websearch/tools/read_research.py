"""The tool `read_research`: the model reads a document of the user's own, out of one folder or repository and nothing else.

It is offered whenever `research_root` is set. What it gives is a JSON object, `{"ok": true, "content": …, "bytes": …}` or
`{"ok": false, "error_type": …, "message": …}` with one of four error types. A document is material like a page: it may hold
addresses, which may then be fetched, and its text is given as data without characters that nobody can see.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, WithJsonSchema

from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.providers.research import Document, Failure, documents_at
from ipy_websearch.text import plain, shorten, visible
from ipy_websearch.tools.addresses import addresses_in
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.research_path import MAX_PATH, checked_path

DESCRIPTION = (
    "Read an existing research document of the user's own. Path is relative to the research directory{name}, such as "
    '"market/2024-06.md". Prefer it when building on earlier work or internal analysis, and web search for current or external '
    "facts; do not read the same file twice. Returns a JSON object with `ok: true` and the content on success, or `ok: false` "
    "with error details on failure; on a failure, say so and go on with what is there."
)
TIMEOUT_S = 15.0


class ReadResearchInput(BaseModel):
    """What the model gives. Its length is checked with the other rules of a path, so that the refusal names the rule."""

    model_config = ConfigDict(extra="forbid")

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


def read_research_tool(root: str, http: HttpClient, keys: Keys, *, base: Path | None = None) -> Tool:
    """Return the tool that reads below `root`; nothing is read or sent before it is called.

    Raises:
        ConfigError: `root` is neither a folder nor a repository's name.
    """
    documents = documents_at(root, http, keys, base=base)

    async def call(given: ReadResearchInput, context: ToolContext) -> ToolOutput:
        path = checked_path(given.path, documents.name)
        if isinstance(path, Failure):
            return _failed(path)
        outcome = await documents.read(path)
        return _failed(outcome) if isinstance(outcome, Failure) else _read(path, outcome)

    # JSON in quotes: the name is the user's, but it goes into a text that the model reads as ours.
    name = f" {json.dumps(plain(documents.name) + '/', ensure_ascii=False)}" if plain(documents.name) else ""
    return Tool(
        name="read_research",
        description=DESCRIPTION.format(name=name),
        input_model=ReadResearchInput,
        call=call,
        timeout_s=TIMEOUT_S,
    )


def _read(path: str, found: Document) -> ToolOutput:
    content = visible(found.content)
    return ToolOutput(
        summary=f"read {shorten(path, 80)} ({found.bytes:,} bytes)",
        text=_json({"ok": True, "content": content, "bytes": found.bytes}),
        panel_title=path,
        panel_kind="markdown",
        panel_data=content,
        urls=_addresses(content),
    )


def _addresses(content: str) -> tuple[str, ...]:
    """Return the web addresses that are written out in a document; in it "notes.md" is a file, not a host in Moldova."""
    return tuple(sorted(url for url in addresses_in(content) if url.lower().startswith("http") and url in content))


def _failed(failure: Failure) -> ToolOutput:
    message = plain(failure.message)
    return ToolOutput(
        summary=shorten(message, 200),
        text=_json({"ok": False, "error_type": failure.error_type, "message": message}),
        is_error=True,
    )


def _json(payload: dict[str, object]) -> str:
    return json.dumps(payload, ensure_ascii=False)
