"""What a tool is: a name, a description, an input model, an async call, and what the call gives back.

A tool's output is neutral: passages with their source, or plain text. `model` turns it into what the platform takes
(`search_result` blocks with real citations, or compact text). A failure the model can act on is an output with
`is_error`, never an exception; only bugs and interrupts go through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from ipy_websearch.results import Page, SearchResults
from ipy_websearch.usage import Charge

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Passage:
    """Text from one source, in paragraphs that can be cited one by one."""

    url: str
    title: str
    paragraphs: tuple[str, ...]
    published_date: datetime | None = None


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool call gave: `passages` to cite, or `text` when there is nothing to cite (errors, "no results").

    `summary` is one line for people. `panel_*` describe the panel with the whole output (`panel_data`: Markdown text, or
    a structure of plain dicts and lists that is written as YAML when somebody looks, or the bytes of its JSON text; None: no
    panel). `urls` are addresses that the model may fetch from now on. `charges` are what the call used, also when it failed.
    `error_code` says why it failed in the words of the API's own web tools (`max_uses_exceeded`, …; "" when that is not
    known), and `same_as` is the id of the earlier call that this one repeats ("" when it repeats none).
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
    same_as: str = ""


ToolCallable = Callable[[Any, "ToolContext"], Awaitable[ToolOutput]]


@dataclass(slots=True)
class ToolContext:
    """What one answer lends to its tools: the addresses that may be fetched, and the searches already made or under way.

    `search_over` is what each further search is given, once it is known that none will work in this answer.
    """

    known_urls: set[str] = field(default_factory=set)
    shared: dict[Any, asyncio.Task[ToolOutput]] = field(default_factory=dict)
    search_over: ToolOutput | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call.

    `counts_as_search` calls count against `max_searches`. `price` names what a call is expected to cost, as charges, so
    that a ceiling can be checked before it is made. `call` gets the validated input. A tool that `concludes`
    takes the answer itself.
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
