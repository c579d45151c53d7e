"""The values that the package returns: search results, pages, panels, citations and answers. Frozen, and without HTML.

How a value looks in a notebook is registered by `display` when the extension is loaded.
"""

from __future__ import annotations

import json
import re
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, overload
from urllib.parse import quote, urlsplit

from ipy_websearch.errors import ConfigError, FailureReason
from ipy_websearch.text import visible
from ipy_websearch.usage import Charge, LimitName, Usage

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.frames import SearchFrame

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
    extra: Mapping[str, Any] = field(default_factory=dict, repr=False)
    attempts: tuple[Attempt, ...] = ()
    charges: tuple[Charge, ...] = field(default=(), repr=False)
    notices: tuple[str, ...] = ()
    body: Any = field(default=None, repr=False, compare=False)

    @property
    def raw(self) -> Any:
        """The provider's whole answer, parsed anew each time: a parsed one takes ten times the memory of its text."""
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

    @overload
    def to_frame(self) -> SearchFrame: ...
    @overload
    def to_frame(self, backend: str) -> Any: ...
    def to_frame(self, backend: str = "pandas") -> Any:
        """Return a DataFrame: n rows, RangeIndex, columns title, url, description, published_date (UTC
        datetime64, missing is NaT), extra_snippets (tuples) and score (float, missing is NaN).

        `backend` "polars", "pyarrow", "duckdb" or "dask" gives that library's frame instead, with its own types and nulls.

        Raises:
            ConfigError: there is no such backend, or its library is not installed.
        """
        from ipy_websearch.frames import SearchFrame, frame_of, to_backend

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
        return to_backend(frame, backend)


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
    links: tuple[str, ...] = field(default=(), repr=False)
    cached: bool = False
    fetched_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """The whole output of one tool call, kept in the session under an id P1, P2, …; nothing in it is cut.

    `source` is the output, or its JSON text compressed by zlib (bytes).
    """

    id: str
    title: str
    kind: Literal["yaml", "markdown"]
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

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        try:
            return str(yaml.dump(data, Dumper=dumper, sort_keys=False, allow_unicode=True, width=2**31 - 1))
        except (yaml.YAMLError, RecursionError, UnicodeError):  # half a character, or hundreds of nested lists
            return json.dumps(data, default=str)


class Panels:
    """The newest panels of a session, numbered P1, P2, … in the order in which they are added."""

    def __init__(self) -> None:
        self._panels: dict[str, Panel] = {}
        self._added = 0

    def add(self, title: str, kind: Literal["yaml", "markdown"], data: Any, *, tool: str = "", is_error: bool = False) -> Panel:
        """Keep a new panel and return it with its id; `data` is a text, plain JSON, or the bytes of a JSON text."""
        text = data if isinstance(data, bytes) else json.dumps(data, default=str, skipkeys=True).encode()
        self._added += 1
        panel = Panel(f"P{self._added}", title, kind, zlib.compress(text, 1), tool, is_error)
        self._panels[panel.id] = panel
        self._panels.pop(f"P{self._added - KEPT_PANELS}", None)
        return panel

    def get(self, panel_id: str) -> Panel | None:
        """Return the panel of that id ("p3" and "P3" alike), None when there is none."""
        return self._panels.get(panel_id.strip().upper())

    def __iter__(self) -> Iterator[Panel]:
        return iter(list(self._panels.values()))

    def __len__(self) -> int:
        return len(self._panels)


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
    path, bytes and error_type of a document. `started` is the moment (UTC) at which it began.
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
    started: datetime | None = field(default=None, repr=False, compare=False)


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
    checked: tuple[Claim, ...] = field(default=(), repr=False)

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
        passages: dict[int, dict[str, None]] = {}
        for citation in self.citations:
            passages.setdefault(citation.n, {})[citation.cited_text] = None
        first = {citation.n: citation for citation in reversed(self.citations)}
        numbers = sorted(first)
        return _frame(
            {
                "n": ("int64", numbers),
                "title": ("text", (first[n].title for n in numbers)),
                "url": ("text", (first[n].url for n in numbers)),
                "published_date": ("utc", (first[n].published_date for n in numbers)),
                "read": ("str", (first[n].read for n in numbers)),
                "cited_text": ("text", (" … ".join(filter(None, passages[n])) for n in numbers)),
            }
        )

    @property
    def steps(self) -> pd.DataFrame:
        """The steps in order: n, kind, name, detail, milliseconds, token counts by class, cost_usd (unknown: NaN), is_error.

        `effort` is what a model was asked for ("" for none), `pages_read` counts the pages that a search read (missing: <NA>).
        For documents of the user's own also path, bytes (missing: <NA>) and error_type ("" for none).
        """
        steps, usages = self.trace, [step.usage for step in self.trace]
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
                "effort": ("text", (_effort(s.request) for s in steps)),
                "pages_read": ("Int64", (_pages_read(s.log) for s in steps)),
                "path": ("text", (s.log.get("path", "") for s in steps)),
                "bytes": ("Int64", (s.log.get("bytes") for s in steps)),
                "error_type": ("text", (s.log.get("error_type", "") for s in steps)),
            }
        )

    @overload
    def to_frame(self) -> pd.DataFrame: ...
    @overload
    def to_frame(self, backend: str) -> Any: ...
    def to_frame(self, backend: str = "pandas") -> Any:
        """Return the rows of an answer that was asked with `columns=`, with nullable types; see `SearchResults.to_frame` for
        `backend`.

        Raises:
            ConfigError: the question was asked without `columns=` (`%%ask --table "name, price: float"`), or the model gave no
                rows; there is no such backend, or its library is not installed.
        """
        from ipy_websearch.frames import to_backend

        if self.columns is None:
            raise ConfigError('this answer is prose; ask with columns=… (in a cell: %%ask --table "name, price: float")')
        if self.rows is None:
            raise ConfigError("this answer has no table: the model gave no rows (its words are in .text); ask again")
        rows = self.rows
        columns = {name: (kind, [_visible(row.get(name)) for row in rows]) for name, kind in self.columns.items()}
        return to_backend(_frame(columns), backend)

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


def _frame(columns: Mapping[str, tuple[str | type, Any]]) -> pd.DataFrame:
    from ipy_websearch.frames import WebFrame, frame_of

    return frame_of(WebFrame, columns)


def _effort(request: Any) -> str:
    config = request.get("output_config") if isinstance(request, Mapping) else None
    return str(config.get("effort") or "") if isinstance(config, Mapping) else ""


def _pages_read(log: Mapping[str, Any]) -> int | None:
    return sum(page["read"] == "page" for page in log["pages"]) if "pages" in log else None


def _visible(value: Any) -> Any:
    """Return a cell of a structured answer without control characters."""
    if isinstance(value, str):
        return visible(value)
    return [_visible(item) for item in value] if isinstance(value, list) else value


# --- the sources as a bibliography: BibTeX (biblatex's `@online`), RIS, or CSL JSON for Zotero, Quarto and Pandoc -----

_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", **{c: f"\\{c}" for c in "{}&%$#_"}}


def bibliography(citations: Iterable[Citation], style: str = "bibtex") -> str:
    """Return each cited page once, in the order of first citation, as text of a style: "bibtex", "ris" or "csl".

    Raises:
        ConfigError: there is no such style.
    """
    if style not in STYLES:
        raise ConfigError(f"style is {style!r}; it must be one of {', '.join(STYLES)}")
    entries: dict[str, dict[str, Any]] = {}
    for citation in citations:
        entries.setdefault(citation.url or citation.title, _entry(citation, len(entries) + 1))
    parts = [STYLES[style](entry) for entry in entries.values()]
    return (
        json.dumps(parts, ensure_ascii=False, indent=1) + "\n"
        if style == "csl"
        else ("\r\n" if style == "ris" else "\n").join(parts)
    )


def _entry(citation: Citation, number: int) -> dict[str, Any]:
    url = "".join(visible(citation.url).split())
    try:
        host = (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        host = ""
    is_web = url.startswith(("http://", "https://")) and bool(host)
    day = citation.published_date
    name = re.sub(r"[^a-z0-9]", "", host.split(".")[-2] if host.count(".") else host) or "source"
    return {
        "id": f"{name}{day.year if day else ''}-{number}",
        "title": " ".join(visible(citation.title).split()) or url,
        "url": quote(url, safe="/?#:@!&'()*+,;=%-._~") if is_web else "",
        "place": host or url,
        "date": day.astimezone(UTC).date() if day and day.tzinfo else day.date() if day else None,
        "accessed": datetime.now(UTC).date() if is_web else None,
    }


def _bibtex(entry: dict[str, Any]) -> str:
    fields = {
        "title": f"{{{_tex(entry['title'])}}}",
        "organization": _tex(entry["place"]),
        "url": entry["url"].replace("%", r"\%").replace("#", r"\#"),
        "date": entry["date"],
        "urldate": entry["accessed"],
    }
    lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items() if value)
    return f"@online{{{entry['id']},\n{lines}\n}}\n"


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in unicodedata.normalize("NFC", text))


def _ris(entry: dict[str, Any]) -> str:
    day, accessed = (f"{entry[name]:%Y/%m/%d}" if entry[name] else "" for name in ("date", "accessed"))
    fields = {"TY": "ELEC", "ID": entry["id"], "TI": entry["title"], "PB": entry["place"], "PY": day[:4], "DA": day}
    lines = [f"{tag}  - {value}" for tag, value in {**fields, "UR": entry["url"], "Y2": accessed}.items() if value]
    return "\r\n".join([*lines, "ER  - ", ""])


def _csl(entry: dict[str, Any]) -> dict[str, Any]:
    days = {name: entry[name] and {"date-parts": [[*entry[name].timetuple()[:3]]]} for name in ("date", "accessed")}
    item = {"id": entry["id"], "type": "webpage", "title": entry["title"], "container-title": entry["place"]}
    item |= {"issued": days["date"], "URL": entry["url"], "accessed": days["accessed"]}
    return {name: value for name, value in item.items() if value}


STYLES: dict[str, Callable[[dict[str, Any]], Any]] = {"bibtex": _bibtex, "ris": _ris, "csl": _csl}
