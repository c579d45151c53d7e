"""What a tool is: a name, a description, an input model, an async call, and the output of a call.

A tool's output is neutral: passages with their source, or plain text. `model` turns it into the form of the platform
(`search_result` blocks with real citations, or compact text). A failure that the model can act on is an output with
`is_error`, never an exception; only bugs and interrupts go through.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

from ipy_websearch.errors import ProviderError, WebSearchError
from ipy_websearch.results import Page, Read, SearchResult, SearchResults
from ipy_websearch.text import plain, shorten
from ipy_websearch.usage import Charge, lost

if TYPE_CHECKING:
    from pydantic import BaseModel

MODEL_CHARACTERS = 80_000
"""Characters that the model gets of one call, about 20,000 tokens; the panel has everything."""

UNREAD = "(Only a snippet: the page was not read: "
"""How the note begins that stands behind a snippet whose page could not be read."""

_FENCE = re.compile(r"[ \t>]{0,12}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r"#{1,6} [^\n]*")


# --- a call and its output --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Passage:
    """Text from one source, in paragraphs that can be cited one by one.

    `read` says whether it is text of the page itself; `note` is a remark of ours for the model.
    """

    url: str
    title: str
    paragraphs: tuple[str, ...]
    published_date: datetime | None = None
    read: Read = "snippet"
    note: str = ""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The output of a call: `passages` to cite, or `text` when there is nothing to cite (errors, "no results").

    `summary` is one line for people. `panel_*` describe the panel with the whole output (`panel_data`: Markdown text, plain
    dicts and lists, or the bytes of their JSON text; None: no panel). `urls` are addresses that the model may now fetch.
    `charges` are the units that the call used, also when it failed. `error` is what was raised, `error_code` the API's own name
    for a failure (`max_uses_exceeded`, …; "" when there is none), `same_as` the id of the earlier call that this one repeats
    ("": none).
    `log` are facts for `answer.steps`, such as the path and the bytes of a document.
    """

    summary: str
    passages: tuple[Passage, ...] = ()
    text: str = ""
    is_error: bool = False
    panel_title: str = ""
    panel_kind: Literal["yaml", "markdown"] = "yaml"
    panel_data: Any = None
    urls: tuple[str, ...] = ()
    charges: tuple[Charge, ...] = ()
    notices: tuple[str, ...] = ()
    results: SearchResults | None = field(default=None, repr=False)
    page: Page | None = field(default=None, repr=False)
    error_code: str = ""
    error: WebSearchError | None = field(default=None, repr=False)
    same_as: str = ""
    log: Mapping[str, Any] = field(default_factory=dict, repr=False)


ToolCallable = Callable[[Any, "ToolContext"], Awaitable[ToolOutput]]


@dataclass(slots=True)
class ToolContext:
    """What one answer lends to its tools: the addresses that may be fetched, and the searches already made or under way."""

    known_urls: set[str] = field(default_factory=set)
    shared: dict[Any, asyncio.Task[ToolOutput]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call; `call` gets the validated input.

    `counts_as_search` calls count against `max_searches`. `price` is what a call is expected to be billed, so that a budget can
    be checked before it is made. A tool that `concludes` takes the answer itself.
    """

    name: str
    description: str
    input_model: type[BaseModel]
    call: ToolCallable
    counts_as_search: bool = False
    price: tuple[Charge, ...] = ()
    timeout_s: float = 30.0
    strict_schema: Mapping[str, Any] | None = None
    concludes: bool = False

    def definition(self) -> Mapping[str, Any]:
        """Return the tool as the Messages API wants it: name, description, input_schema (strict where one is given)."""
        if self.strict_schema is not None:
            schema = dict(self.strict_schema)
            return {"name": self.name, "description": self.description, "strict": True, "input_schema": schema}
        return {"name": self.name, "description": self.description, "input_schema": input_schema(self.input_model)}


# --- input ------------------------------------------------------------------------------------------------------------


@cache
def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of an input model without the titles that pydantic adds (they only cost tokens)."""
    schema = _untitled(model.model_json_schema())
    schema.setdefault("properties", {})
    schema.pop("description", None)
    return dict(schema)


def _untitled(node: Any) -> Any:
    if isinstance(node, dict):
        return {k: _untitled(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
    if isinstance(node, list):
        return [_untitled(v) for v in node]
    return node


# --- output -----------------------------------------------------------------------------------------------------------


def refused(exc: WebSearchError, price: Sequence[Charge] = (), text: str = "") -> ToolOutput:
    """Return the output of a call that an engine (or a check before it) refused: `text`, or the error's own line.

    A call whose answer was lost is booked at its `price`, or at what the error says.
    """
    said = str(exc)
    charges: Sequence[Charge] = ()
    if isinstance(exc, ProviderError):
        said += f" (retry after {exc.retry_after:g} s)" if exc.retry_after else ""
        charges = exc.charges or (lost(price) if exc.lost else ())
    return ToolOutput(summary=shorten(said, 200), text=text or said, is_error=True, charges=tuple(charges), error=exc)


def as_passage(result: SearchResult) -> Passage:
    """Return a hit as citable paragraphs: its description, its further snippets, its date as a field of its own."""
    texts = dict.fromkeys(text for text in (result.description, *result.extra_snippets) if text)
    if result.published_date is not None and texts:
        texts[f"Published: {result.published_date.date().isoformat()}"] = None
    return Passage(result.url, result.title, tuple(texts) or ((result.title,) if result.title else ()), result.published_date)


def whole_text(passages: Sequence[Passage]) -> str:
    """Return passages as numbered plain text with nothing cut, for platforms that take no `search_result` blocks."""
    parts = (f"{n}. {p.title}\n   {p.url}\n\n" + "\n\n".join(p.paragraphs) for n, p in enumerate(passages, 1))
    return "\n\n".join(parts)


def counted(count: int, thing: str) -> str:
    """Return a number with its noun: "1 result", "1,200 URLs"."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def place(url: str) -> str:
    """Return host and path of an address for people, short and printable."""
    try:
        parts = urlsplit(url)
        return shorten(plain(unquote((parts.hostname or parts.netloc) + parts.path)).rstrip("/"), 80) or shorten(plain(url), 80)
    except ValueError:
        return shorten(plain(url), 80)


def blocks(markdown: str, *, most: int = 60) -> tuple[str, ...]:
    """Return the blocks of `markdown` in order, neighbours joined so that there are at most `most`; no block is empty.

    A citation names whole blocks. They end at blank lines; a code fence is never cut, and a heading stays with what follows it.
    """
    parts: list[str] = []
    current: list[str] = []
    fence = ""
    for line in [*markdown.split("\n"), ""]:
        fence = _fence_after(line, fence)
        if fence or line.strip():
            current.append(line)
        elif current and _HEADING.fullmatch(current[-1]):
            current.append("")  # a heading waits for its text
        elif current and current[-1]:
            parts.append("\n".join(current))
            current = []
    if current:
        parts.append("\n".join(current).rstrip("\n"))
    size = -(-len(parts) // most)
    return tuple("\n\n".join(parts[at : at + size]) for at in range(0, len(parts), size or 1))


def _fence_after(line: str, fence: str) -> str:
    """Return the fence that is open after `line`, "" when none is; a fence is closed by one as long, with nothing after."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return "" if match[1][0] == "`" and "`" in match[2] else match[1]
    return "" if match[1].startswith(fence) and not match[2].strip() else fence
