"""What a tool is: a name, a description, an input model, an async call and its output; and the sets of tools.

A tool's output is neutral: passages with their source, or plain text. `model` turns it into the form of the platform
(`search_result` blocks with real citations, or compact text). A failure that the model can act on is an output with
`is_error`, never an exception; only bugs and interrupts go through.

Which tools there are, and how they are made for a question, is said in `loop.offer`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ProviderError, WebSearchError
from ipy_websearch.results import Charge, Page, Read, SearchResult, SearchResults, lost
from ipy_websearch.text import shorten

if TYPE_CHECKING:
    from pydantic import BaseModel

# Characters that the model gets of one call, about 20,000 tokens; the panel has everything.
MODEL_CHARACTERS = 80_000

# How the note begins that stands behind a snippet whose page could not be read.
UNREAD = "(Only a snippet: the page was not read: "


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


ToolCallable = Callable[[Any, "ToolContext"], Coroutine[Any, Any, ToolOutput]]


@dataclass(slots=True)
class ToolContext:
    """What one answer lends to its tools: the addresses that may be fetched."""

    known_urls: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that the model may call; `call` gets the validated input.

    `counts_as_search` calls count against `max_searches`. `price` is what a call is expected to be billed, so that a budget can
    be checked before it is made. `schema` stands in for the input model's. A tool that `concludes` takes the answer itself, in
    a schema that the API holds the model to (`strict`).
    """

    name: str
    description: str
    input_model: type[BaseModel]
    call: ToolCallable
    counts_as_search: bool = False
    price: tuple[Charge, ...] = ()
    timeout_s: float = 30.0
    schema: Mapping[str, Any] | None = None
    concludes: bool = False

    @property
    def input_schema(self) -> Mapping[str, Any]:
        """The JSON schema of the input."""
        return self.schema or input_schema(self.input_model)

    def definition(self) -> Mapping[str, Any]:
        """Return the tool as the Messages API wants it: name, description, input_schema."""
        strict = {"strict": True} if self.concludes else {}
        return {"name": self.name, "description": self.description, **strict, "input_schema": dict(self.input_schema)}

    def parsed(self, given: Mapping[str, Any]) -> BaseModel:
        """Return the validated input. Null means left out. A number is brought into its bounds: a model that asks for 100
        results of an engine that gives 20 gets 20, not an error and another round.

        Raises:
            pydantic.ValidationError: the input does not fit the schema.
        """
        values = {name: value for name, value in given.items() if value is not None}
        for name, rule in self.input_schema.get("properties", {}).items():
            if type(values.get(name)) is int:
                values[name] = min(max(values[name], rule.get("minimum", values[name])), rule.get("maximum", values[name]))
        return self.input_model.model_validate(values)


@cache
def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of an input model without what only costs tokens: titles, and defaults that say nothing."""
    schema = model.model_json_schema()
    properties = {
        name: {key: value for key, value in rule.items() if key != "title" and (key != "default" or value not in (None, []))}
        for name, rule in schema.get("properties", {}).items()
    }
    return {name: part for name, part in schema.items() if name not in ("title", "description")} | {"properties": properties}


# --- output -----------------------------------------------------------------------------------------------------------


def refused(exc: WebSearchError, price: Sequence[Charge] = (), text: str = "") -> ToolOutput:
    """Return the output of a call that an engine (or a check before it) refused: `text`, or the error's own line.

    A call whose answer was lost is booked at its `price`, or at what the error says. A failed engine is a notice too: its user
    can do something about it, and the model may answer from memory.
    """
    said, told = str(exc), shorten(str(exc), 200)
    if not isinstance(exc, ProviderError):
        return ToolOutput(told, text=text or said, is_error=True, error=exc)
    said += f" (retry after {exc.retry_after:g} s)" if exc.retry_after else ""
    charges = exc.charges or (lost(price) if exc.lost else ())
    return ToolOutput(told, text=text or said, is_error=True, charges=tuple(charges), notices=(told,), error=exc)


def as_passage(result: SearchResult) -> Passage:
    """Return a hit as citable paragraphs, never none: its description, its further snippets, its date as a field of its own."""
    texts = dict.fromkeys(text for text in (result.description, *result.extra_snippets) if text)
    if result.published_date is not None and texts:
        texts[f"Published: {result.published_date.date().isoformat()}"] = None
    return Passage(result.url, result.title, tuple(texts) or (result.title or result.url,), result.published_date)


# --- sets of tools -----------------------------------------------------------------------------------------------------

# Stands for the tools that the API runs itself.
NATIVE = "native"

# The sets that `--tools` understands besides the names of single tools.
TOOL_SETS: dict[str, tuple[str, ...]] = {
    "standard": ("web_search", "web_fetch"),
    "tiers": ("brave_search", "brave_llm_context", "firecrawl_scrape", "firecrawl_search", "firecrawl_map"),
    "pair": ("web_search_brave", "web_search_google", "web_fetch"),
    "native": (NATIVE,),
}
