"""What people see of an answer, while it is written and when it is done.

`AnswerView` is what may be seen at a moment, built from the events of a run or from a finished `Answer`; it is pure. What
qualifies an answer (offline, cut short, interrupted, broken off) stands before it at every level of `feedback`. Level 0
leaves out calls and the footer, level 2 adds every request and reply and unfolds the footer.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from ipy_websearch import events as ev
from ipy_websearch.display.render import View
from ipy_websearch.display.text import cell, cost, iso, one_line, place_of, safe_href, seconds, short_address
from ipy_websearch.loop.offer import TABLE_TOOL
from ipy_websearch.results import Answer, Citation, Claim, Panel, Step
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.text import plural, shorten, usd, visible

MAX_ROWS = 50
CARDS = 4
PANELS_CHARACTERS = 16_000
_PASSAGE = 600
_PASSAGES = 5
_STOPS = {"end_turn": "wrote the answer", "tool_use": "called tools", "pause_turn": "paused", "refusal": "declined to answer"}
_STOPPED = {
    None: "**The answer broke off**: this is what had arrived.",
    "max_tokens": "**Cut off** at max_tokens; `%config WebSearch.max_tokens` raises it.",
    "refusal": "**The model declined to answer.**",
    "model_context_window_exceeded": "**Cut off**: the model's context window is full.",
}
_LIMITS = {"timeout": "the time limit", "budget": "the budget", "max_searches": "max_searches = {0.searches}"}


@dataclass(slots=True)
class Line:
    """One line between the texts: a tool call (⋯ while it runs, then ✓ or ✗), a notice, or a detail: a request or a reply."""

    text: str
    glyph: str = "·"
    is_detail: bool = False
    subject: str = ""
    """The words by which a tool's summary is known to say what the call was about."""

    def shown_at(self, feedback: int) -> bool:
        """Whether the line belongs to a level of detail."""
        return feedback > int(self.is_detail)

    def __str__(self) -> str:
        return f"{self.glyph} {self.text}"


Item = str | Line
"""Text of the model, or a line."""


@dataclass(slots=True)
class AnswerView:
    """What is shown of an answer; `apply` takes the run's events, `finish` its end.

    `introduce` says of an offline answer where its passages come from: it is the first one that somebody sees.
    """

    introduce: bool = False
    items: list[Item] = field(default_factory=list)
    citations: Sequence[Citation] = ()
    model: str = ""
    state: Literal["running", "finished", "interrupted", "failed"] = "running"
    answer: Answer | None = None
    limit: str = ""
    began: float = field(default_factory=time.monotonic)
    _calls: dict[str, Line] = field(default_factory=dict)
    _kept: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, shown: AnswerView | Answer) -> AnswerView:
        """Return the view of a finished answer; a view is returned as it is."""
        if isinstance(shown, AnswerView):
            return shown
        view = cls()
        view.finish(shown)
        return view

    @property
    def text(self) -> str:
        """The answer's Markdown; an offline answer's without its label, and with what works where nothing was found."""
        text = self.answer.text if self.answer is not None else "".join(part for part in self.items if isinstance(part, str))
        return f"{_without_label(text)}\n\n{offline_help(self)}".strip() if self.offline else text.strip()

    @property
    def running(self) -> bool:
        """Whether more is to come."""
        return self.state == "running"

    @property
    def offline(self) -> bool:
        """Whether the built-in server answers, and no model."""
        return self.answer.offline if self.answer is not None else self.model == OFFLINE_MODEL

    @property
    def sources(self) -> dict[int, Citation]:
        """The first citation of each source, by its number."""
        return {citation.n: citation for citation in reversed(self.citations)}

    def shown(self, feedback: int) -> list[Item]:
        """Return texts and lines in order, as far as a level of detail shows them; `status` names running calls."""
        texts = ((_without_label(item) if self.offline else item) if isinstance(item, str) else item for item in self.items)
        return [item for item in texts if isinstance(item, str) or (item.shown_at(feedback) and item.glyph != "⋯")]

    def status(self, spent: Decimal | None = Decimal(0)) -> str:
        """Return the line that lives while the answer is written: seconds, the current call, what was spent so far."""
        calls = [line.text for line in self._calls.values() if line.glyph == "⋯"]
        if len(calls) > 3:
            calls[3:] = [f"{len(calls) - 3} more"]
        writes = bool(self.items) and isinstance(self.items[-1], str)
        model = f"{one_line(self.model)} {'writes' if writes else 'reads and thinks'}" if self.model else "starting"
        money = f"{usd(spent)} so far" if spent else ""
        parts = (f"⋯ {time.monotonic() - self.began:.0f} s", *(calls or [model]), money, "■ stops")
        return " · ".join(filter(None, parts))

    # --- what happens ------------------------------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> list[Item]:
        """Take an event in; return the items that it added or changed (for a text, the piece alone)."""
        match event:
            case ev.TextDelta(text):
                return [self._write(text)]
            case ev.ToolStarted():
                return [self._began(event)]
            case ev.ToolFinished():
                return [self._ended(event)]
            case ev.Cited(citation):
                self.citations = [*self.citations, citation]
            case ev.Finished(answer):
                self.finish(answer)
            case ev.Retracted():
                return self._retract()
            case ev.Rewritten(text, citations):
                self.items = [item for item in self.items if isinstance(item, Line)]
                self.citations = citations
                return [self._add("the answer was mended"), self._write(text)]
            case _:
                return self._told(event)
        return []

    def _told(self, event: ev.Event) -> list[Item]:
        """Take in an event that is a line to read."""
        match event:
            case ev.Notice(text):
                return [self._add(text)]
            case ev.LimitReached(limit, detail):
                self.limit = one_line(detail).removeprefix("limit reached: ").rstrip(".") or limit
                return [self._add(f"limit reached: {self.limit}")]
            case ev.ModelRequested(step, model):
                self.model, self._kept = model, (len(self.items), len(self.citations))
                final = " (the last one allowed)" if event.final else ""
                return [self._add(f"request {step} to {model}{final}", is_detail=True)]
            case ev.ModelResponded(step, _, usage):
                cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
                tokens = f"{usage.total_input_tokens:,} tokens in, {usage.output_tokens:,} out{cached}"
                said = f"reply {step}: {tokens}, {seconds(event.seconds)}, {event.stop_reason or 'broken off'}"
                return [self._add(said, is_detail=True)]
        return []

    def finish(self, answer: Answer | None, state: Literal["interrupted", "failed"] | None = None) -> None:
        """Take in the end: the finished answer, or with a `state` as much as there is of it."""
        self.state = state or ("interrupted" if answer and answer.limit == "interrupted" else "finished")
        for line in self._calls.values():
            if line.glyph == "⋯":
                line.glyph, line.text = "✗", f"{line.text} (stopped)"
        if answer is not None:
            self.answer, self.model, self.citations = answer, answer.model, answer.citations

    def _write(self, text: str) -> str:
        if self.items and isinstance(self.items[-1], str):
            self.items[-1] += text
        else:
            self.items.append(text)
        return text

    def _add(self, text: str, glyph: str = "·", *, is_detail: bool = False) -> Line:
        line = Line(one_line(text), glyph, is_detail)
        self.items.append(line)
        return line

    def _began(self, event: ev.ToolStarted) -> Line:
        verb, subject = call_words(event.name, event.input)
        line = self._calls[event.id] = self._add(f"{verb}: {subject}" if subject else verb, "⋯")
        line.subject = subject.split("/")[0][:60]
        return line

    def _ended(self, event: ev.ToolFinished) -> Line:
        line = self._calls.get(event.id) or self._add("")
        summary = shorten(one_line(event.summary), 160)
        about = "" if line.subject in summary else f"{line.text.partition(': ')[2]} — "
        took = f" ({seconds(event.seconds)})" if event.seconds >= 0.05 else ""
        line.glyph, line.text = "✗" if event.is_error else "✓", f"{about}{summary}{took}"
        return line

    def _retract(self) -> list[Item]:
        """Drop what the request under way has shown."""
        items, citations = self._kept
        dropped = any(isinstance(item, str) for item in self.items[items:])
        self.items[items:] = [item for item in self.items[items:] if isinstance(item, Line) and item.glyph == "·"]
        self.citations = self.citations[:citations]
        return [self._add("the connection broke; this passage begins again")] if dropped else []


def call_words(name: str, given: Any) -> tuple[str, str]:
    """Return (verb, subject) for a tool call: ("searching", "moons of Mars"), ("reading", "example.com/a")."""
    given = given if isinstance(given, Mapping) else {"input": given}  # a model can call a tool with anything
    if name == TABLE_TOOL:
        verb, subject = "writing the table", ""
    elif isinstance(given.get("query"), str):
        verb, subject = "searching", given["query"]
    elif isinstance(given.get("url"), str):
        verb, subject = "mapping" if name.endswith("_map") else "reading", short_address(given["url"], 80)
    elif name == "read_research":
        verb, subject = "reading research", str(given.get("path", ""))
    else:
        verb, subject = f"calling {one_line(name)}", json.dumps(dict(given), ensure_ascii=False, default=str) if given else ""
    return verb, shorten(one_line(subject), 100)


# --- what is said about an answer ---------------------------------------------------------------------------------


def labels(view: AnswerView) -> list[str]:
    """Return what must be known before reading the answer, each one sentence of Markdown."""
    found = [_offline_label(view)] if view.offline else []
    answer = view.answer
    if view.state == "failed":
        found.append(f"**{'The answer broke off' if view.text else 'There is no answer'}**; the error says why.")
    elif view.state == "interrupted":
        found.append("**Interrupted**: this is what had arrived.")
    elif answer is not None and answer.limit:
        limit = view.limit or _LIMITS.get(answer.limit, answer.limit).format(answer)
        found.append(f"**Stopped at {limit}**: answered from what was found.")
    if answer is not None and answer.trace and answer.stop_reason in _STOPPED and (answer.stop_reason or len(found) == 0):
        found.append(_STOPPED[answer.stop_reason])
    return found


def _offline_label(view: AnswerView) -> str:
    """Return the label of an offline answer; where the passages come from is told the first time only."""
    key = "`%websearch key anthropic`"
    if view.answer is not None and view.answer.rows:
        return f"**Offline demo**: no model read these; the values are quoted from the articles found · {key}"
    if offline_help(view):
        return "**Offline demo**: no model was asked."
    if not view.introduce or not view.citations:
        return f"**Offline demo**: no model read these · {key}"
    built_in = all(citation.url.startswith("corpus:") for citation in view.citations)
    where = f"passages from {_articles()} built-in articles" if built_in else "passages"
    return f"**Offline demo**: no model read these {where} · {key} sets a key for Claude"


@cache
def _articles() -> int:
    """Return the number of built-in articles."""
    from ipy_websearch.providers.local import read_corpus  # answers of a model do without it

    return len(read_corpus(files("ipy_websearch.corpus"))[1])


def offline_help(view: AnswerView) -> str:
    """Return what works where an offline answer found nothing: what the built-in articles cover, how to ask the web."""
    answer = view.answer
    if answer is None or not answer.offline or answer.citations or answer.rows:
        return ""
    return (
        f"The {_articles()} built-in articles cover planets, elements, countries, history and programming languages. Try:\n\n"
        "- `%ask How many moons does Mars have?`\n- `%ask What is the capital of Kenya?`\n- `%ask Who created Python?`\n\n"
        "To ask the web, set keys: `%websearch key brave` to search it, `%websearch key anthropic` for answers by Claude."
    )


def _without_label(text: str) -> str:
    """Return the text of an offline answer without its own label, which is shown above it."""
    from ipy_websearch.model.offline.passages import LABEL

    return text.replace(LABEL, "").strip()


def facts(answer: Answer) -> str:
    """Return the footer: "claude-… · 3 searches · 1 page not read · 12 s · 0.0123 USD"."""
    failed = [step.name for step in answer.trace if step.kind == "tool" and step.is_error]
    pages = sum("fetch" in name or "scrape" in name for name in failed)
    doubted = len(doubtful(answer))
    parts = (
        "offline" if answer.offline else one_line(answer.model),
        plural(answer.searches, "search", "searches"),
        f"{plural(pages, 'page')} not read" if pages else "",
        f"{plural(len(failed) - pages, 'call')} failed" if len(failed) > pages else "",
        f"{plural(doubted, 'sentence')} not supported by the sources" if doubted else "",
        plural(len(answer.notices), "notice") if answer.notices else "",
        seconds(answer.seconds) if answer.seconds else "",
        cost(answer.cost_usd),
        f"replayed from {one_line(answer.replayed_from)}" if answer.replayed_from else "",
    )
    return " · ".join(filter(None, parts))


def doubtful(answer: Answer) -> list[Claim]:
    """Return the sentences that their sources do not support."""
    return [claim for claim in answer.checked if claim.verdict in ("unsupported", "partly")]


def remarks(answer: Answer) -> list[str]:
    """Return what is remarked on an answer: the doubtful sentences, for those who see no colours, then the notices."""
    found = [(", ".join(claim.missing) or "this", shorten(one_line(claim.sentence), 200)) for claim in doubtful(answer)]
    return [f"its source does not say {one_line(missing)}: “{sentence}”" for missing, sentence in found] + [*answer.notices]


def quoted(citations: Sequence[Citation]) -> list[tuple[Citation, list[str], list[str]]]:
    """Return each source once, in the order of its number, with words about it and its distinct passages.

    The words are where it is from, its date, and how much of it the model read: ["bbc.co.uk", "2026-11-17", "page read"].
    """
    merged: dict[int, tuple[Citation, list[str], list[str]]] = {}
    for citation in citations:
        read = {"page": "page read", "snippet": "snippet"}[citation.read] if safe_href(citation.url) else ""
        about = [place_of(citation.url), *filter(None, (iso(citation.published_date), read))]
        _, _, passages = merged.setdefault(citation.n, (citation, about, []))
        if (passage := shorten(one_line(citation.cited_text), _PASSAGE)) and passage not in passages[:_PASSAGES]:
            passages.append(passage)
    return [merged[n] for n in sorted(merged)]


def timeline(trace: Sequence[Step]) -> list[dict[str, Any]]:
    """Return each step as a row: when it began and how long it took in percent of the whole, and its words."""
    rows = []
    began = list(zip(starts(trace), trace, strict=True))
    whole = max((start + step.milliseconds for start, step in began), default=0.0) or 1.0
    for start, step in began:
        is_model = step.kind == "model"
        detail = _STOPS.get(step.detail, step.detail) if is_model else step.detail
        left = min(100 * start / whole, 98.5)
        rows.append(
            {
                "n": step.n,
                "kind": "error" if step.is_error else step.kind,
                "what": "✗ " * step.is_error + shorten(one_line(": ".join(filter(None, (step.name, detail)))), 90),
                "start": round(left, 1),
                "width": round(min(max(100 * step.milliseconds / whole, 1.0), 100 - left), 1),
                "time": seconds(step.milliseconds / 1000),
                "tokens": f"{step.usage.total_input_tokens:,} → {step.usage.output_tokens:,}" if is_model else "",
                "cost": cost(step.cost_usd),
            }
        )
    return rows


def starts(trace: Sequence[Step]) -> Iterator[float]:
    """Yield when each step began, in milliseconds: requests follow one another, the calls of one reply begin together."""
    calls_from = end = 0.0
    for step in trace:
        start = end if step.kind == "model" else calls_from
        yield start
        end = max(end, start + step.milliseconds)
        if step.kind == "model":
            calls_from = end


# --- views --------------------------------------------------------------------------------------------------------


def answer_view(
    shown: AnswerView | Answer, *, feedback: int = 1, spent: Decimal | None = Decimal(0), cards: int = CARDS
) -> View:
    """Return what is shown of an answer: `spent` is what a running one has cost so far, `cards` sources are not folded."""
    view = AnswerView.of(shown)
    answer, values = view.answer, {"labels": labels(view), "cited": view.sources, "offline": view.offline}
    if answer is None:
        return {**values, "parts": view.shown(feedback), "status": view.status(spent) if view.running else ""}
    values |= {"sources": quoted(view.citations), "cards": cards, "doubtful": doubtful(answer)}
    if answer.rows:
        values |= _table(answer)
    else:
        values["parts"] = [view.text]
    if feedback:
        values |= {"remarks": remarks(answer), "timeline": timeline(answer.trace), "panels": _panels(answer.panels)}
        values |= {"facts": facts(answer), "session": usd(answer.session_cost_usd), "unfolded": feedback > 1}
    return values


def _table(answer: Answer) -> View:
    """Return names and rows of cells of a structured answer, and what is left out."""
    rows = answer.rows or ()
    names = list(answer.columns or rows[0])
    left = len(rows) - MAX_ROWS
    return {
        "names": list(map(one_line, names)),
        "rows": [[cell(row.get(name), 400) for name in names] for row in rows[:MAX_ROWS]],
        "more": f"… {left} more" if left > 0 else "",
    }


def _panels(panels: Sequence[Panel]) -> list[tuple[str, str, str]]:
    """Return (heading, content, what has the rest) of each panel, cut so that all together stay small in the notebook."""
    limit = PANELS_CHARACTERS // max(len(panels), 1)
    texts = [visible(panel.content).rstrip() for panel in panels]
    rests = [f"… %panels {panel.id} shows all {len(text):,} characters" for panel, text in zip(panels, texts, strict=True)]
    return [
        (heading(panel), text[:limit], rest if len(text) > limit else "")
        for panel, text, rest in zip(panels, texts, rests, strict=True)
    ]


def heading(panel: Panel) -> str:
    """Return what a panel is, in one line: "P1 · web_search · brave: moons of Mars"."""
    title = shorten(one_line(panel.title), 100)
    tool = "" if title.startswith(panel.tool) else one_line(panel.tool)
    return " · ".join(filter(None, (panel.id, tool, title, "failed" if panel.is_error else "")))


def panel_view(panel: Panel) -> View:
    """Return what is shown of a whole panel."""
    return {"heading": heading(panel), "content": visible(panel.content).rstrip()}
