"""What the package hands out: search results, pages, panels, citations and answers. Frozen values without HTML.

How a value looks in a notebook is registered by `display` when the extension is loaded; here are only the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, overload

from ipy_websearch.packing import Attic, Packed, as_yaml
from ipy_websearch.text import visible
from ipy_websearch.usage import Charge, LimitName, Usage

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.frames import SearchFrame


UNPACKED_PANELS = 50
"""How many of the newest panels of a session are kept as they are: people look at what they have just asked."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One hit. Text is plain; `published_date` is an aware UTC datetime or None; `score` is the engine's own or None."""

    title: str
    url: str
    description: str = ""
    published_date: datetime | None = None
    extra_snippets: tuple[str, ...] = ()
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """An engine that was asked before the one that answered, and why it did not (`status`: HTTP, None: no answer)."""

    provider: str
    error: str
    status: int | None = None


@dataclass(frozen=True, slots=True, init=False)
class SearchResults(Sequence[SearchResult]):
    """The hits of one search, best first, with what is known about it.

    `provider` answered; `attempts` are the engines that did not. `cost_usd` is what this search cost (0 when cached or
    free, None when the price is unknown), failed attempts that were billed included. `extra` holds what an engine
    gives beyond hits (Brave's rich data under "rich"), `raw` its whole answer for the panel. `body` is that answer as it is
    kept: the bytes of its JSON text, or a structure that was put together here.

    >>> SearchResults((SearchResult("Mars", "https://example.org/mars"),), query="mars", provider="local").to_frame().shape
    (1, 6)
    """

    results: tuple[SearchResult, ...]
    query: str
    provider: str
    cost_usd: Decimal | None = Decimal(0)
    cached: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    attempts: tuple[Attempt, ...] = ()
    charges: tuple[Charge, ...] = field(default=(), repr=False)
    notices: tuple[str, ...] = ()
    body: Any = field(default=None, repr=False, compare=False)

    def __init__(
        self,
        results: tuple[SearchResult, ...],
        query: str,
        provider: str,
        cost_usd: Decimal | None = Decimal(0),
        cached: bool = False,
        extra: Mapping[str, Any] | None = None,
        attempts: tuple[Attempt, ...] = (),
        charges: tuple[Charge, ...] = (),
        notices: tuple[str, ...] = (),
        raw: Any = None,
        body: Any = None,
    ) -> None:
        put = object.__setattr__
        put(self, "results", results)
        put(self, "query", query)
        put(self, "provider", provider)
        put(self, "cost_usd", cost_usd)
        put(self, "cached", cached)
        put(self, "extra", {} if extra is None else extra)
        put(self, "attempts", attempts)
        put(self, "charges", charges)
        put(self, "notices", notices)
        put(self, "body", raw if body is None else body)

    @property
    def raw(self) -> Any:
        """The engine's whole answer, read anew each time: a parsed one takes ten times the memory of its text."""
        return json.loads(self.body) if isinstance(self.body, bytes) else self.body

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[SearchResult]:
        return iter(self.results)

    @overload
    def __getitem__(self, index: int) -> SearchResult: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SearchResult, ...]: ...
    def __getitem__(self, index: int | slice) -> SearchResult | tuple[SearchResult, ...]:
        return self.results[index]

    def to_frame(self) -> SearchFrame:
        """Return a DataFrame: n rows, RangeIndex, columns title, url, description, published_date (UTC
        datetime64, missing is NaT), extra_snippets (tuples) and score (float, missing is NaN)."""
        from ipy_websearch.frames import search_frame

        return search_frame(self)


@dataclass(frozen=True, slots=True)
class Page:
    """A page as Markdown, or the lines of it that were asked for.

    `total_lines` counts the whole Markdown, `lines_read` the lines in `content` (0 past the end). `url` is the address
    that was asked, `final_url` the one that answered. `note` says what the reader should know ("plain text only: …").
    """

    url: str
    final_url: str
    title: str
    content: str
    lines_read: int
    total_lines: int
    published_date: datetime | None = None
    language: str = ""
    content_type: str = "text/html"
    note: str = ""
    links: tuple[str, ...] = field(default=(), repr=False)
    cached: bool = False
    fetched_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """The whole output of one tool call, kept in the session under an id P1, P2, …; nothing in it is cut.

    `source` is the output, or a `Packed` one.
    """

    id: str
    title: str
    kind: Literal["yaml", "markdown"]
    source: Any = field(repr=False)
    tool: str = ""
    is_error: bool = False

    @property
    def data(self) -> Any:
        """The output as it is: Markdown text, or a structure of plain JSON."""
        return self.source.value if isinstance(self.source, Packed) else self.source

    @property
    def content(self) -> str:
        """The output as text: Markdown as it came, structures as YAML (keys in their order, no line cut)."""
        data = self.data
        return data if isinstance(data, str) else as_yaml(data)


class PanelShelf:
    """Numbers panels in the order in which they are added: P1, P2, … Only the newest stay in memory."""

    def __init__(self) -> None:
        self._panels: dict[str, Panel] = {}
        self._attic = Attic()

    def add(self, title: str, kind: Literal["yaml", "markdown"], data: Any, *, tool: str = "", is_error: bool = False) -> Panel:
        """Keep a new panel and return it with its id; `data` is a text, plain JSON, or the bytes of a JSON text."""
        panel = Panel(f"P{len(self._panels) + 1}", title, kind, Packed(data), tool, is_error)
        self._panels[panel.id] = panel
        if old := self._panels.get(f"P{len(self._panels) - UNPACKED_PANELS}"):
            old.source.pack(self._attic)
        return panel

    def get(self, panel_id: str) -> Panel | None:
        """Return the panel of that id ("p3" and "P3" alike), None when there is none."""
        return self._panels.get(panel_id.strip().upper())

    def __iter__(self) -> Iterator[Panel]:
        return iter(self._panels.values())

    def __len__(self) -> int:
        return len(self._panels)


@dataclass(frozen=True, slots=True)
class Citation:
    """One passage that the answer rests on: source number `n` (the `[n]` in the text), its page and the words."""

    n: int
    title: str
    url: str
    cited_text: str = ""
    published_date: datetime | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One model request or tool call of an answer, for the trace.

    `milliseconds` is wall-clock time; token counts are those of a model request (0 for tools); `cost_usd` is None when
    unknown. `request` and `response` are the JSON that went out and came back, without keys.
    """

    n: int
    kind: Literal["model", "tool"]
    name: str
    detail: str = ""
    milliseconds: float = 0.0
    usage: Usage = Usage()
    cost_usd: Decimal | None = Decimal(0)
    is_error: bool = False
    request: Any = field(default=None, repr=False, compare=False)
    response: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with everything it rests on.

    `text` is Markdown with `[n]` marks (where the model wrote none, why), `messages` a legal Messages API history that
    ends with this answer, `stop_reason` the API's last one (None: its reply broke off, and a notice says so), `limit` the name
    of the limit that cut the answer short (None: none did). `cost_usd` sums model and searches and is None when a price is
    unknown; `session_cost_usd` likewise for the whole session up to here; `seconds` is wall-clock time. `offline` answers come
    from the built-in model, not from Claude. `replayed_from` is the name of the cassette that an answer was replayed from, ""
    for a new one.
    """

    question: str
    text: str
    model: str
    citations: tuple[Citation, ...] = ()
    panels: tuple[Panel, ...] = ()
    usage: Usage = Usage()
    cost_usd: Decimal | None = Decimal(0)
    searches: int = 0
    stop_reason: str | None = None
    limit: LimitName | None = None
    messages: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    trace: tuple[Step, ...] = field(default=(), repr=False)
    rows: tuple[Mapping[str, Any], ...] | None = field(default=None, repr=False)
    columns: Mapping[str, type] | None = field(default=None, repr=False)
    notices: tuple[str, ...] = ()
    offline: bool = False
    seconds: float = 0.0
    session_cost_usd: Decimal | None = Decimal(0)
    replayed_from: str = ""

    @property
    def sources(self) -> pd.DataFrame:
        """The cited sources: one row each, columns n, title, url, published_date (UTC) and cited_text."""
        from ipy_websearch.frames import sources_frame

        return sources_frame(self)

    @property
    def steps(self) -> pd.DataFrame:
        """The steps in order: n, kind, name, detail, milliseconds, token counts by class, cost_usd, is_error."""
        from ipy_websearch.frames import steps_frame

        return steps_frame(self)

    def to_frame(self) -> pd.DataFrame:
        """Return the rows of an answer that was asked with `columns=`, with nullable dtypes.

        Raises:
            ConfigError: the question was asked without `columns=` (`%%ask --table "name, price: float"`), or the model gave no
                rows.
        """
        from ipy_websearch.frames import rows_frame

        return rows_frame(self)

    def to_cell(self) -> None:
        """Put the answer into the next cell of the notebook, as Markdown with footnotes.

        Raises:
            ConfigError: the extension is not loaded.
        """
        from ipy_websearch.next_cell import write_cell

        write_cell(self)

    def __str__(self) -> str:
        return visible(self.text)
