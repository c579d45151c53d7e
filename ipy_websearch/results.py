"""The values that the package passes on and returns: usage, charges and limits, search results, pages, panels, citations,
answers, and the events of a question under way. Frozen, without prices and without HTML.

The loop yields the events; the ledger, the trace, the display and the tests all read the same stream. How a value looks in a
notebook is registered by `display` when the extension is loaded.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from ipy_websearch.errors import ConfigError, FailureReason
from ipy_websearch.text import host_label, one_line, plural, safe_href, shorten, visible

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.frames import SearchFrame

# --- what is counted and billed, and the limits of a question -----------------------------------------------------------

# US dollars; None means that the price is unknown, which is never the same as 0.
Money: TypeAlias = Decimal | None

# Why an answer was cut short; None in its place means that it was not.
LimitName = Literal["max_searches", "max_steps", "budget", "timeout", "interrupted"]


# Terms that raise the price of a request's tokens: the fast mode, and inference that stays in the US.
Terms: TypeAlias = frozenset[Literal["fast", "us_only"]]


def terms_of(fields: Mapping[str, Any]) -> Terms:
    """Return the terms of a request, or of a reply's usage: both use the same field names.

    >>> terms_of({"model": "claude-opus-5", "speed": "fast"})
    frozenset({'fast'})
    """
    holds: dict[Any, bool] = {"fast": fields.get("speed") == "fast", "us_only": fields.get("inference_geo") == "us"}
    return frozenset(term for term, wanted in holds.items() if wanted)


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and server tool uses of one model request, or the sum of several. All counts, none overlapping.

    `input_tokens` are those billed at the full input price: cache reads and writes are counted apart, as in the
    Messages API's `usage` object (platform.claude.com/docs, "Prompt caching", read 2026-11). `terms` are those that the
    request was billed at; a sum, which is no request and has no price, has those of any part.

    >>> (Usage(input_tokens=20, cache_read_tokens=1_000) + Usage(input_tokens=5)).total_input_tokens
    1025
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    server_searches: int = 0
    server_fetches: int = 0
    terms: Terms = frozenset()

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_5m_tokens + other.cache_write_5m_tokens,
            self.cache_write_1h_tokens + other.cache_write_1h_tokens,
            self.server_searches + other.server_searches,
            self.server_fetches + other.server_fetches,
            self.terms | other.terms,
        )

    @property
    def total_input_tokens(self) -> int:
        """Everything that the model read: uncached input, cache reads and cache writes."""
        return self.input_tokens + self.cache_read_tokens + self.cache_write_5m_tokens + self.cache_write_1h_tokens

    @classmethod
    def from_api(cls, usage: Mapping[str, Any] | None) -> Usage:
        """Return the usage of a Messages API `usage` object; anything that is not a count is 0.

        Without the `cache_creation` split, all cache writes count as five-minute ones, the API's default. Compactions are
        billed but missing from the top level, so they are added; the model's other iterations are in it already
        (anthropic 2.12 `types/beta/beta_usage.py`, read 2026-11). `reported` tells a missing count from a 0.
        """
        usage = _mapping(usage)
        iterations = usage.get("iterations")
        parts = [_mapping(part) for part in iterations] if isinstance(iterations, list | tuple) else ()
        return sum((cls._level(part) for part in parts if part.get("type") == "compaction"), cls._level(usage))

    @classmethod
    def _level(cls, usage: Mapping[str, Any]) -> Usage:
        """Return the counts of one level of a `usage` object."""
        split = _mapping(usage.get("cache_creation"))
        written = _count(usage, "cache_creation_input_tokens")
        long_lived = _count(split, "ephemeral_1h_input_tokens")
        short_lived = _count(split, "ephemeral_5m_input_tokens") if split else written
        server = _mapping(usage.get("server_tool_use"))
        return cls(
            input_tokens=_count(usage, "input_tokens"),
            output_tokens=_count(usage, "output_tokens"),
            cache_read_tokens=_count(usage, "cache_read_input_tokens"),
            cache_write_5m_tokens=max(short_lived, written - long_lived),
            cache_write_1h_tokens=long_lived,
            server_searches=_count(server, "web_search_requests"),
            server_fetches=_count(server, "web_fetch_requests"),
            terms=terms_of(usage),
        )


# The largest count that is believed; sums of larger ones would not fit into the ledger's integers.
MOST_COUNTED = 2**53


def reported(usage: Mapping[str, Any] | None, name: str) -> bool:
    """Return whether a Messages API `usage` object holds a believable count of that name (0 is one, and 100.0)."""
    value = _mapping(usage).get(name)
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST_COUNTED


def _count(usage: Mapping[str, Any], name: str) -> int:
    return int(usage[name]) if reported(usage, name) else 0


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Charge:
    """One call to a provider, paid or free, in the unit it bills by.

    `units` counts `unit`s ("request", "credit", "page", …); `usd` is the cost that the provider reports (None: the price table
    decides). `cached` calls cost nothing and are booked all the same. `lost` calls were sent without a
    usable answer: they count as billed, at the expected price.
    """

    provider: str
    kind: Literal["search", "fetch", "context", "map"] = "search"
    units: Decimal = Decimal(1)
    unit: str = "request"
    usd: Decimal | None = None
    cached: bool = False
    lost: bool = False


def lost(charges: Iterable[Charge]) -> tuple[Charge, ...]:
    """Return the charges of calls that were sent and got no usable answer; those from the cache are left out."""
    return tuple(replace(charge, lost=True) for charge in charges if not charge.cached)


@dataclass(frozen=True, slots=True)
class Limits:
    """How far one question may go.

    `max_searches` counts calls of search tools, `max_steps` model requests before the one that answers, `budget_usd` US dollars
    for model and providers together (None: no budget of its own), `timeout_s` wall-clock seconds from question to answer.
    """

    max_searches: int = 5
    max_steps: int = 8
    budget_usd: Decimal | None = None
    timeout_s: float = 120.0


# --- searches, pages and panels ------------------------------------------------------------------------------------------

# Panels that a session keeps, compressed: some 15 MB. The oldest leave first.
KEPT_PANELS = 1_000


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One hit. Text is plain; `published_date` is an aware UTC datetime or None; `score` is the provider's own or None."""

    title: str
    url: str
    description: str = ""
    published_date: datetime | None = None
    extra_snippets: tuple[str, ...] = ()
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A provider that was asked before the one that answered, and why it did not.

    `status` is that of HTTP (None: no answer came), `reason` as in `ProviderError` (None: it answered, and found nothing).
    """

    provider: str
    error: str
    status: int | None = None
    reason: FailureReason | None = None


@dataclass(frozen=True, slots=True)
class SearchResults(Sequence[SearchResult]):
    """The hits of one search, best first.

    `provider` answered; `attempts` are the providers that did not. `cost_usd` is what this search cost (0 when cached or
    free, None when the price is unknown), failed attempts that were billed included. `extra` holds what a provider
    gives beyond hits (Brave's rich data under "rich"). `body` is its whole answer: the bytes of its JSON text, or a structure.

    >>> SearchResults((SearchResult("Mars", "https://example.org/mars"),), query="mars", provider="local").to_frame().shape
    (1, 6)
    """

    results: tuple[SearchResult, ...]
    query: str
    provider: str
    cost_usd: Decimal | None = Decimal(0)
    cached: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)
    attempts: tuple[Attempt, ...] = ()
    charges: tuple[Charge, ...] = ()
    notices: tuple[str, ...] = ()
    body: Any = field(default=None, compare=False)

    @property
    def raw(self) -> Any:
        """The provider's whole answer, parsed anew each time: a parsed one takes ten times the memory of its text."""
        return json.loads(self.body) if isinstance(self.body, bytes) else self.body

    def __repr__(self) -> str:
        return f"<SearchResults for {shorten(self.query, 60)!r}: {plural(len(self), 'result')} from {self.provider}>"

    def __len__(self) -> int:
        return len(self.results)

    @overload
    def __getitem__(self, index: int) -> SearchResult: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[SearchResult, ...]: ...
    def __getitem__(self, index: int | slice) -> SearchResult | tuple[SearchResult, ...]:
        return self.results[index]

    def to_frame(self) -> SearchFrame:
        """Return a DataFrame: n rows, RangeIndex, columns title, url, description, published_date (UTC
        datetime64, missing is NaT), extra_snippets (tuples) and score (float, missing is NaN)."""
        from ipy_websearch.frames import SearchFrame, frame_of

        columns: dict[str, tuple[str | type, Any]] = {
            "title": ("text", (r.title for r in self)),
            "url": ("text", (r.url for r in self)),
            "description": ("text", (r.description for r in self)),
            "published_date": ("utc", (r.published_date for r in self)),
            "extra_snippets": ("object", (r.extra_snippets for r in self)),
            "score": ("float64", (r.score for r in self)),
        }
        frame = frame_of(SearchFrame, columns)
        frame.search = self
        return frame


@dataclass(frozen=True, slots=True)
class Page:
    """A page as Markdown, or the lines of it that were asked for.

    `total_lines` counts the whole Markdown, `lines_read` the lines in `content` (0 past the end). `url` is the address
    that was asked for, `final_url` the one that answered. `note` is a remark for the reader ("plain text only: …").
    """

    url: str
    final_url: str
    title: str
    content: str
    lines_read: int
    total_lines: int
    published_date: datetime | None = None
    content_type: str = "text/html"
    note: str = ""
    links: tuple[str, ...] = ()
    cached: bool = False
    fetched_at: datetime | None = None

    def __repr__(self) -> str:
        return f"<Page {shorten(self.title, 60)!r} of {self.final_url}: {self.lines_read} of {self.total_lines} lines>"


@dataclass(frozen=True, slots=True)
class Panel:
    """The whole output of one tool call, kept in the session under an id P1, P2, …; nothing in it is cut.

    `source` is the output, or its JSON text compressed by zlib (bytes).
    """

    id: str
    title: str
    source: Any = field(repr=False)
    tool: str = ""
    is_error: bool = False

    @property
    def data(self) -> Any:
        """The output: Markdown text, or a structure of plain JSON. It is parsed anew each time."""
        return json.loads(zlib.decompress(self.source)) if isinstance(self.source, bytes) else self.source

    @property
    def content(self) -> str:
        """The output as text: Markdown unchanged, structures as YAML (keys in their order, no line cut)."""
        data = self.data
        if isinstance(data, str):
            return data
        import yaml

        try:  # with libyaml's dumper, where it is there
            options: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 2**31 - 1}
            return str(yaml.dump(data, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper), **options))
        except (yaml.YAMLError, RecursionError, UnicodeError):  # half a character, or hundreds of nested lists
            return json.dumps(data, default=str)


class Panels(dict[str, Panel]):
    """The newest panels of a session by id: P1, P2, … in the order in which they are added."""

    added = 0

    def add(self, title: str, data: Any, *, tool: str = "", is_error: bool = False) -> Panel:
        """Keep a new panel and return it with its id; `data` is a text, plain JSON, or the bytes of a JSON text."""
        text = data if isinstance(data, bytes) else json.dumps(data, default=str, skipkeys=True).encode()
        self.added += 1
        self.pop(f"P{self.added - KEPT_PANELS}", None)
        panel = self[f"P{self.added}"] = Panel(f"P{self.added}", title, zlib.compress(text, 1), tool, is_error)
        return panel


# How much of a source the model was given: passages of the page itself, or what a search says about it.
Read = Literal["page", "snippet"]


@dataclass(frozen=True, slots=True)
class Citation:
    """One passage that the answer rests on: source number `n` (the `[n]` in the text), its page and the quoted words.

    `read` says whether the model was given text of the page itself, or only a search's snippet.
    """

    n: int
    title: str
    url: str
    cited_text: str = ""
    published_date: datetime | None = None
    read: Read = "snippet"


Verdict = Literal["supported", "partly", "unsupported", "uncited"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What became of a sentence that was held against the passages it cites (see `citations.check`).

    `missing` names the numbers, names, negations and comparisons that the passages lack. In an answer `sentence` is the
    sentence and `numbers` are its sources (the `[n]` behind it).
    """

    verdict: Verdict
    missing: tuple[str, ...] = ()
    sentence: str = ""
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """One model request or tool call of an answer, for the trace.

    `milliseconds` is wall-clock time; token counts are those of a model request (0 for tools); `cost_usd` is None when
    unknown. `request` and `response` are the JSON that went out and came back, without keys. `log` are further facts of a call:
    path, bytes and error_type of a document.
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
    log: Mapping[str, Any] = field(default_factory=dict, repr=False)


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
    messages: Sequence[Mapping[str, Any]] = ()
    trace: tuple[Step, ...] = ()
    rows: tuple[Mapping[str, Any], ...] | None = None
    columns: Mapping[str, type] | None = None
    notices: tuple[str, ...] = ()
    offline: bool = False
    seconds: float = 0.0
    session_cost_usd: Decimal | None = Decimal(0)
    replayed_from: str = ""
    checked: tuple[Claim, ...] = ()

    @property
    def claims(self) -> pd.DataFrame:
        """The sentences as they were held against their passages: columns sentence, verdict, n (tuple of source numbers) and
        missing (tuple of the numbers, names, negations and comparisons that the passages lack). Empty with `check="off"`."""
        return _frame(
            {
                "sentence": ("text", (claim.sentence for claim in self.checked)),
                "verdict": ("str", (claim.verdict for claim in self.checked)),
                "n": ("object", (claim.numbers for claim in self.checked)),
                "missing": ("object", (claim.missing for claim in self.checked)),
            }
        )

    @property
    def sources(self) -> pd.DataFrame:
        """The cited sources: one row each, columns n, title, url, published_date (UTC), read ("page" when the model was given
        text of the page itself, else "snippet") and cited_text (joined by …)."""
        first = {citation.n: citation for citation in reversed(self.citations)}
        cited = [first[n] for n in sorted(first)]
        passages = [dict.fromkeys(c.cited_text for c in self.citations if c.n == page.n and c.cited_text) for page in cited]
        return _frame(
            {
                "n": ("int64", (page.n for page in cited)),
                "title": ("text", (page.title for page in cited)),
                "url": ("text", (page.url for page in cited)),
                "published_date": ("utc", (page.published_date for page in cited)),
                "read": ("str", (page.read for page in cited)),
                "cited_text": ("text", map(" … ".join, passages)),
            }
        )

    @property
    def steps(self) -> pd.DataFrame:
        """The steps in order: n, kind, name, detail, milliseconds, token counts by class, cost_usd (unknown: NaN), is_error.

        `effort` is what a model was asked for ("" for none), `pages_read` counts the pages that a search read (missing: <NA>).
        For documents of the user's own also path, bytes (missing: <NA>) and error_type ("" for none).
        """
        steps, usages = self.trace, [step.usage for step in self.trace]
        pages = [step.log.get("pages") for step in steps]
        return _frame(
            {
                "n": ("int64", (s.n for s in steps)),
                "kind": ("str", (s.kind for s in steps)),
                "name": ("text", (s.name for s in steps)),
                "detail": ("text", (s.detail for s in steps)),
                "milliseconds": ("float64", (s.milliseconds for s in steps)),
                "input_tokens": ("int64", (u.input_tokens for u in usages)),
                "output_tokens": ("int64", (u.output_tokens for u in usages)),
                "cache_read_tokens": ("int64", (u.cache_read_tokens for u in usages)),
                "cache_write_tokens": ("int64", (u.cache_write_5m_tokens + u.cache_write_1h_tokens for u in usages)),
                "cost_usd": ("float64", (float("nan") if s.cost_usd is None else float(s.cost_usd) for s in steps)),
                "is_error": ("bool", (s.is_error for s in steps)),
                "effort": ("text", (_mapping(_mapping(s.request).get("output_config")).get("effort") or "" for s in steps)),
                "pages_read": ("Int64", (None if read is None else sum(p["read"] == "page" for p in read) for read in pages)),
                "path": ("text", (s.log.get("path", "") for s in steps)),
                "bytes": ("Int64", (s.log.get("bytes") for s in steps)),
                "error_type": ("text", (s.log.get("error_type", "") for s in steps)),
            }
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the rows of an answer that was asked with `columns=`, with nullable types.

        Raises:
            ConfigError: the question was asked without `columns=` (`%%ask --table "name, price: float"`), or the model gave no
                rows.
        """
        if self.columns is None:
            raise ConfigError('this answer is prose; ask with columns=… (in a cell: %%ask --table "name, price: float")')
        if self.rows is None:
            raise ConfigError("this answer has no table: the model gave no rows (its words are in .text); ask again")
        return _frame({name: (of, [_visible(row.get(name)) for row in self.rows]) for name, of in self.columns.items()})

    def bibliography(self, style: str = "bibtex") -> str:
        """Return each cited page once as text: "bibtex", "ris", or "csl" (CSL JSON).

        Raises:
            ConfigError: there is no such style.
        """
        return bibliography(self.citations, style)

    def to_cell(self) -> None:
        """Put the answer into a new cell below, as Markdown that stays when outputs are cleared.

        Raises:
            ConfigError: this is not a notebook or IPython.
        """
        from importlib import import_module  # values stand below `display`, which alone knows IPython

        import_module("ipy_websearch.display.export").to_cell(self)

    def __str__(self) -> str:
        return visible(self.text).replace("\\[", "[")  # so the model's own [1] is written, which is no mark

    def __repr__(self) -> str:
        count = len({citation.n for citation in self.citations})
        return f"<Answer to {shorten(self.question, 60)!r}: {shorten(str(self), 120)!r}, {plural(count, 'source')}>"


def _frame(columns: Mapping[str, tuple[str | type, Any]]) -> pd.DataFrame:
    from ipy_websearch.frames import WebFrame, frame_of

    return frame_of(WebFrame, columns)


def _visible(value: Any) -> Any:
    """Return a cell of a structured answer without control characters."""
    if isinstance(value, str):
        return visible(value)
    return [_visible(item) for item in value] if isinstance(value, list) else value


# --- the sources as a bibliography: BibTeX (biblatex's `@online`), RIS, or CSL JSON for Zotero, Quarto and Pandoc -----

_TEX = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", **{c: f"\\{c}" for c in "{}&%$#_"}}
)


def bibliography(citations: Iterable[Citation], style: str = "bibtex") -> str:
    """Return each cited page once, in the order of first citation, as text of a style: "bibtex", "ris" or "csl".

    Raises:
        ConfigError: there is no such style.
    """
    if style not in STYLES:
        raise ConfigError(f"style is {style!r}; it must be one of {', '.join(STYLES)}")
    pages: dict[str, Citation] = {}
    for citation in citations:
        pages.setdefault(citation.url or citation.title, citation)
    parts = [STYLES[style](_entry(page, number)) for number, page in enumerate(pages.values(), 1)]
    return json.dumps(parts, ensure_ascii=False, indent=1) + "\n" if style == "csl" else "".join(parts)


def _entry(page: Citation, number: int) -> Mapping[str, str]:
    """Return what is known of a page; `url` and `accessed` are "" where it is none of the web, dates are ISO."""
    url, host, day = safe_href(page.url) or "", host_label(page.url), page.published_date
    date = f"{day.astimezone(UTC) if day.tzinfo else day:%Y-%m-%d}" if day else ""
    name = re.sub(r"[^a-z0-9]", "", host.split(".")[-2] if "." in host else host) or "source"
    return {
        "id": f"{name}{date[:4]}-{number}",
        "title": one_line(page.title) or page.url,
        "url": url,
        "place": host,
        "date": date,
        "accessed": f"{datetime.now(UTC):%Y-%m-%d}" if url else "",
    }


def _bibtex(entry: Mapping[str, str]) -> str:
    fields = {
        "title": f"{{{entry['title'].translate(_TEX)}}}",
        "organization": entry["place"].translate(_TEX),
        "url": entry["url"].replace("%", r"\%").replace("#", r"\#"),
        "date": entry["date"],
        "urldate": entry["accessed"],
    }
    lines = (f",\n  {name} = {{{value}}}" for name, value in fields.items() if value)
    return f"@online{{{entry['id']}{''.join(lines)}\n}}\n\n"


def _ris(entry: Mapping[str, str]) -> str:
    day, accessed = entry["date"].replace("-", "/"), entry["accessed"].replace("-", "/")
    fields = {
        "TY": "ELEC",
        "ID": entry["id"],
        "TI": entry["title"],
        "PB": entry["place"],
        "PY": day[:4],
        "DA": day,
        "UR": entry["url"],
        "Y2": accessed,
    }
    return "".join(f"{tag}  - {value}\r\n" for tag, value in fields.items() if value) + "ER  - \r\n\r\n"


def _csl(entry: Mapping[str, str]) -> dict[str, Any]:
    days = {name: {"date-parts": [[*map(int, entry[name].split("-"))]]} for name in ("date", "accessed") if entry[name]}
    item = {
        "id": entry["id"],
        "type": "webpage",
        "title": entry["title"],
        "container-title": entry["place"],
        "issued": days.get("date"),
        "URL": entry["url"],
        "accessed": days.get("accessed"),
    }
    return {name: value for name, value in item.items() if value}


STYLES: dict[str, Callable[[Mapping[str, str]], Any]] = {"bibtex": _bibtex, "ris": _ris, "csl": _csl}


# --- the events of a question under way ---------------------------------------------------------------------------------


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
