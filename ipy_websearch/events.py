"""The events of a question that is being answered. The loop yields them; the ledger, the trace, the display and the tests
all read the same stream. Nothing here knows of IPython or of prices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeAlias

from ipy_websearch.results import Answer, Citation, Panel, SearchResults
from ipy_websearch.usage import Charge, LimitName, Usage


@dataclass(frozen=True, slots=True)
class ModelRequested:
    """Model request number `step` (from 1) is about to be sent; `body` is its JSON, `final` the last one allowed."""

    step: int
    model: str
    body: Mapping[str, Any] = field(repr=False)
    final: bool = False


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the answer's Markdown, in order; citation marks such as "[1]" come as pieces of their own."""

    text: str


@dataclass(frozen=True, slots=True)
class Cited:
    """A passage was cited for the first time; its mark is in the text that follows."""

    citation: Citation


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """The model called a tool; calls of one reply start together."""

    id: str
    name: str
    input: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call ended. `summary` is one line for people; `charges` are booked even when it failed.

    `content` goes to the model: the result block of our tools, the block's content where the API ran the tool. `log` are facts
    for `answer.steps`.
    """

    id: str
    name: str
    summary: str
    is_error: bool = False
    seconds: float = 0.0
    panel: Panel | None = None
    charges: Sequence[Charge] = ()
    results: SearchResults | None = field(default=None, repr=False)
    content: Any = field(default=None, repr=False)
    log: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ModelResponded:
    """A model request ended, well or badly; `stop_reason` is None when the reply broke off.

    `estimated` is True when the API reported no usage and the counts are ours. `lost` requests were sent and cut off before the
    API had answered anything.
    """

    step: int
    model: str
    usage: Usage
    stop_reason: str | None
    seconds: float
    content: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    request_id: str | None = None
    estimated: bool = False
    lost: bool = False


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit was reached; the model is asked to write its answer from what it has."""

    limit: LimitName
    detail: str


@dataclass(frozen=True, slots=True)
class Notice:
    """A remark for the reader: a provider failed and the next one answered, a request is retried."""

    text: str


@dataclass(frozen=True, slots=True)
class Retracted:
    """The text of the running model request is void: its stream broke before it was shown and it is sent again."""

    step: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """All text so far is void: the model has mended its answer, whose Markdown and citations are these."""

    text: str
    citations: Sequence[Citation] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer is complete (or as complete as a limit let it be); the last event of a run."""

    answer: Answer


Event: TypeAlias = (
    ModelRequested
    | TextDelta
    | Cited
    | ToolStarted
    | ToolFinished
    | ModelResponded
    | LimitReached
    | Notice
    | Retracted
    | Rewritten
    | Finished
)

# US dollars; None means that the price is unknown, which is never the same as 0.
Money: TypeAlias = Decimal | None
