"""An answer as people see it, while it is written and when it is done: as HTML, Markdown and plain text.

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
from itertools import groupby
from typing import Any, Literal

from ipy_websearch import events as ev
from ipy_websearch.display.html import Sources, link, render, to_html
from ipy_websearch.display.text import (
    PLAIN,
    Terminal,
    cost,
    count,
    host_of,
    iso,
    one_line,
    place_of,
    safe_href,
    seconds,
    short_address,
)
from ipy_websearch.results import Answer, Citation, Panel, Step
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.text import shorten, usd, visible
from ipy_websearch.usage import LimitName

GLYPHS = {"running": "⋯", "done": "✓", "failed": "✗"}
MAX_ROWS = 50
CARDS = 4
PANELS_CHARACTERS = 16_000
_PASSAGE = 600
_PASSAGES = 5
_STOPS = {"end_turn": "wrote the answer", "tool_use": "called tools", "pause_turn": "paused", "refusal": "declined to answer"}
_STOPPED = {
    "max_tokens": "**Cut off** at max_tokens; `%config WebSearch.max_tokens` raises it.",
    "refusal": "**The model declined to answer.**",
    "model_context_window_exceeded": "**Cut off**: the model's context window is full.",
}


@dataclass(slots=True)
class Line:
    """One line between the texts: a tool call (with its `status`), a notice, or, in full detail, a request or a reply.

    `subject` are the words by which a tool's summary is known to say what the call was about.
    """

    text: str
    kind: Literal["tool", "notice", "step"]
    status: Literal["running", "done", "failed"] = "done"
    subject: str = ""

    def shown_at(self, feedback: int) -> bool:
        """Whether the line belongs to a level of detail."""
        return feedback > 1 or (feedback == 1 and self.kind != "step")

    def __str__(self) -> str:
        return f"{GLYPHS[self.status]} {self.text}" if self.kind == "tool" else f"· {self.text}"


Item = str | Line
"""Text of the model, or a line."""


@dataclass(slots=True)
class AnswerView:
    """What is shown of an answer; `apply` takes the run's events, `of` a finished answer.

    `introduce` says of an offline answer where its passages come from: it is the first one that somebody sees.
    """

    question: str = ""
    items: list[Item] = field(default_factory=list)
    state: Literal["running", "finished", "interrupted", "failed"] = "running"
    answer: Answer | None = None
    model: str = ""
    limit: LimitName | None = None
    limit_detail: str = ""
    citations: Sequence[Citation] = ()
    notices: list[str] = field(default_factory=list)
    introduce: bool = False
    began: float = field(default_factory=time.monotonic)
    _calls: dict[str, Line] = field(default_factory=dict)
    _kept: tuple[int, int] = (0, 0)

    @classmethod
    def of(cls, shown: AnswerView | Answer) -> AnswerView:
        """Return the view of a finished answer; a view is returned as it is."""
        if isinstance(shown, AnswerView):
            return shown
        view = cls(shown.question)
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
    def sources(self) -> Sources:
        """The first citation of each source, by its number."""
        return {citation.n: citation for citation in reversed(self.citations)}

    @property
    def tools(self) -> list[Line]:
        """The lines of the tool calls in the order in which they began."""
        return [item for item in self.items if isinstance(item, Line) and item.kind == "tool"]

    def parts(self, feedback: int) -> Iterator[str | list[Line]]:
        """Yield texts and groups of lines in order, as far as a level of detail shows them; `status` names running calls."""
        shown = [item for item in self.items if isinstance(item, str) or (item.shown_at(feedback) and item.status != "running")]
        for is_text, group in groupby(shown, lambda item: isinstance(item, str)):
            found: list[Any] = list(group)
            yield _without_label("".join(found)) if is_text and self.offline else "".join(found) if is_text else found

    def status(self, spent: Decimal | None = Decimal(0)) -> str:
        """Return the line that lives while the answer is written: seconds, the current call, what was spent so far."""
        running = [line.text for line in self.tools if line.status == "running"]
        if running:
            doing = " · ".join((*running[:3], *([f"{len(running) - 3} more"] if len(running) > 3 else [])))
        else:
            writes = bool(self.items) and isinstance(self.items[-1], str)
            doing = f"{one_line(self.model)} {'writes' if writes else 'reads and thinks'}" if self.model else "starting"
        parts = (f"{time.monotonic() - self.began:.0f} s", doing, f"{usd(spent)} so far" if spent else "", "■ stops")
        return f"⋯ {' · '.join(filter(None, parts))}"

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
            case ev.Notice(text):
                self.notices.append(text)
                return [self._add(one_line(text), "notice")]
            case ev.LimitReached(limit, detail):
                self.limit, self.limit_detail = limit, detail
                return [self._add(one_line(detail) or f"limit reached: {limit}", "notice")]
            case ev.ModelRequested(step, model):
                self.model, self._kept = model, (len(self.items), len(self.citations))
                final = " (the last one allowed)" if event.final else ""
                return [self._add(f"request {step} to {one_line(model)}{final}", "step")]
            case ev.ModelResponded(step):
                return [self._add(f"reply {step}: {_tokens(event)}, {event.stop_reason or 'broken off'}", "step")]
            case _:
                return self._stepped(event)

    def _stepped(self, event: ev.Event) -> list[Item]:
        match event:
            case ev.Cited(citation):
                self.citations = [*self.citations, citation]
            case ev.Finished(answer):
                self.finish(answer)
            case ev.Retracted():
                return self._retract()
            case ev.Rewritten(text, citations):
                self.items = [item for item in self.items if isinstance(item, Line)]
                self.citations = citations
                return [self._add("the answer was mended", "notice"), self._write(text)]
        return []

    def finish(self, answer: Answer | None, state: Literal["interrupted", "failed"] | None = None) -> None:
        """Take in the end: the finished answer, or with a `state` as much as there is of it."""
        self.state = state or ("interrupted" if answer and answer.limit == "interrupted" else "finished")
        for line in self._calls.values():
            if line.status == "running":
                line.status, line.text = "failed", f"{line.text} (stopped)"
        if answer is not None:
            self.answer, self.model, self.limit = answer, answer.model, answer.limit or self.limit
            self.citations = answer.citations
            self.notices = list(dict.fromkeys((*answer.notices, *self.notices)))

    def _write(self, text: str) -> str:
        if self.items and isinstance(self.items[-1], str):
            self.items[-1] += text
        else:
            self.items.append(text)
        return text

    def _add(self, text: str, kind: Literal["tool", "notice", "step"]) -> Line:
        line = Line(text, kind)
        self.items.append(line)
        return line

    def _began(self, event: ev.ToolStarted) -> Line:
        verb, subject = call_words(event.name, event.input)
        known_by = host_of(event.input["url"]) if verb in ("reading", "mapping") else subject[:60]
        line = self._calls[event.id] = self._add(f"{verb}: {subject}" if subject else verb, "tool")
        line.status, line.subject = "running", known_by
        return line

    def _ended(self, event: ev.ToolFinished) -> Line:
        line = self._calls.get(event.id) or self._add("", "tool")
        summary = shorten(one_line(event.summary), 160)
        line.status = "failed" if event.is_error else "done"
        known = not line.subject or line.subject in summary
        line.text = summary if known else f"{line.text.partition(': ')[2] or line.text} — {summary}"
        if event.seconds >= 0.05:
            line.text += f" ({seconds(event.seconds)})"
        return line

    def _retract(self) -> list[Item]:
        """Drop what the request under way has shown."""
        items, citations = self._kept
        dropped = any(isinstance(item, str) for item in self.items[items:])
        self.items[items:] = [item for item in self.items[items:] if isinstance(item, Line) and item.kind != "tool"]
        self.citations = self.citations[:citations]
        return [self._add("the connection broke; this passage begins again", "notice")] if dropped else []


def call_words(name: str, given: Any) -> tuple[str, str]:
    """Return (verb, subject) for a tool call: ("searching", "moons of Mars"), ("reading", "example.com/a")."""
    given = given if isinstance(given, Mapping) else {"input": given}  # a model can call a tool with anything
    query, url = given.get("query"), given.get("url")
    if isinstance(query, str):
        return "searching", shorten(one_line(query), 100)
    if isinstance(url, str):
        return "mapping" if name.endswith("_map") else "reading", short_address(url, 80)
    if name == "read_research":
        path = next((value for value in given.values() if isinstance(value, str)), "")
        return "reading research", shorten(one_line(path), 100)
    details = json.dumps(dict(given), ensure_ascii=False, default=str) if given else ""
    return f"calling {one_line(name)}", shorten(one_line(details), 100)


def _tokens(event: ev.ModelResponded) -> str:
    usage = event.usage
    cached = f" ({usage.cache_read_tokens:,} from the cache)" if usage.cache_read_tokens else ""
    return f"{usage.total_input_tokens:,} tokens in, {usage.output_tokens:,} out{cached}, {seconds(event.seconds)}"


# --- what is said about an answer ---------------------------------------------------------------------------------


def labels(view: AnswerView, feedback: int = 1) -> list[str]:
    """Return what must be known before reading the answer, each one sentence of Markdown."""
    found = [_offline_label(view)] if view.offline else []
    answer = view.answer
    if view.state == "failed":
        found.append(f"**{'The answer broke off' if view.text else 'There is no answer'}**; the error says why.")
    elif view.state == "interrupted":
        found.append("**Interrupted**: this is what had arrived.")
    elif view.limit and not view.running:
        found.append(f"**Stopped at {_limit_words(view)}**: answered from what was found.")
    elif answer is not None and answer.trace and answer.stop_reason is None:
        found.append("**The answer broke off**: this is what had arrived.")
    if feedback == 0 and answer is not None and answer.replayed_from:
        found.append(f"Replayed from {one_line(answer.replayed_from)}.")  # at other levels the footer says so
    return found + ([_STOPPED[answer.stop_reason]] if answer is not None and answer.stop_reason in _STOPPED else [])


def _offline_label(view: AnswerView) -> str:
    """Return the label of an offline answer; where the passages come from is told the first time only."""
    answer, key = view.answer, "`%websearch key anthropic`"
    if answer is not None and answer.rows:
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


def _limit_words(view: AnswerView) -> str:
    """Return the limit with its number, as far as the run or the answer tells it."""
    detail = one_line(view.limit_detail).removeprefix("limit reached: ").rstrip(".")
    answer = view.answer
    if detail or answer is None:
        return detail or str(view.limit)
    if view.limit == "max_searches":
        return f"max_searches = {answer.searches}"
    rounds = sum(step.kind == "model" and step.detail in ("tool_use", "pause_turn") for step in answer.trace)
    if view.limit == "max_steps" and rounds:
        return f"max_steps = {rounds}"
    return {"timeout": "the time limit", "budget": "the budget"}.get(str(view.limit), str(view.limit))


def facts(answer: Answer) -> str:
    """Return the footer: "claude-… · 3 searches · 1 page not read · 12 s · 0.0123 USD"."""
    failed = [step.name for step in answer.trace if step.kind == "tool" and step.is_error]
    pages = sum("fetch" in name or "scrape" in name for name in failed)
    doubted = sum(claim.verdict in ("unsupported", "partly") for claim in answer.checked)
    parts = (
        "offline" if answer.offline else one_line(answer.model),
        count(answer.searches, "search", "searches"),
        f"{count(pages, 'page')} not read" if pages else "",
        f"{count(len(failed) - pages, 'call')} failed" if len(failed) > pages else "",
        f"{count(doubted, 'sentence')} not supported by the sources" if doubted else "",
        count(len(answer.notices), "notice") if answer.notices else "",
        seconds(answer.seconds) if answer.seconds else "",
        cost(answer.cost_usd),
        f"replayed from {one_line(answer.replayed_from)}" if answer.replayed_from else "",
    )
    return " · ".join(filter(None, parts))


def quoted(citations: Sequence[Citation]) -> list[tuple[Citation, list[str]]]:
    """Return each source once, in the order of its number, with its distinct passages."""
    merged: dict[int, tuple[Citation, list[str]]] = {}
    for citation in citations:
        _, passages = merged.setdefault(citation.n, (citation, []))
        if (passage := shorten(one_line(citation.cited_text), _PASSAGE)) and passage not in passages[:_PASSAGES]:
            passages.append(passage)
    return [merged[n] for n in sorted(merged)]


def about(source: Citation) -> list[str]:
    """Return where a source is from, its date, and how much of it the model read: ["bbc.co.uk", "2026-11-17", "page read"]."""
    read = {"page": "page read", "snippet": "snippet"}[source.read] if safe_href(source.url) else ""
    return [place_of(source.url), *filter(None, (iso(source.published_date), read))]


def timeline(trace: Sequence[Step]) -> list[dict[str, Any]]:
    """Return each step as a row: when it began and how long it took in percent of the whole, and its words.

    Requests follow one another; the calls of one reply begin together.
    """
    rows = []
    began = list(zip(starts(trace), trace, strict=True))
    whole = max((start + step.milliseconds for start, step in began), default=0.0) or 1.0
    for start, step in began:
        is_model = step.kind == "model"
        detail = _STOPS.get(step.detail, step.detail) if is_model else step.detail
        what = shorten(one_line(f"{step.name}: {detail}" if detail else step.name), 90)
        left = min(100 * start / whole, 98.5)
        rows.append(
            {
                "n": step.n,
                "kind": "error" if step.is_error else step.kind,
                "what": f"✗ {what}" if step.is_error else what,
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


# --- the three forms ----------------------------------------------------------------------------------------------


def answer_html(
    shown: AnswerView | Answer, *, feedback: int = 1, spent: Decimal | None = Decimal(0), cards: int = CARDS
) -> str:
    """Return an answer, finished or running, as HTML: `spent` is what a running one has cost so far, `cards` are not folded."""
    view = AnswerView.of(shown)
    values: dict[str, Any] = {"labels": labels(view, feedback)}
    if view.answer is None:
        parts = [to_html(p, view.sources) if isinstance(p, str) else list(map(str, p)) for p in view.parts(feedback)]
        status = view.status(spent) if view.running else ""
        return render("answer", **values, parts=parts, status=status)
    answer = view.answer
    parts = [] if answer.rows else [to_html(view.text, view.sources, answer.checked)]
    if feedback:
        values |= {
            "facts": facts(answer),
            "unfolded": feedback > 1,
            "timeline": timeline(answer.trace),
            "notices": view.notices,
        }
        values |= {"panels": _panels(answer.panels), "session": usd(answer.session_cost_usd)}
    sources = [
        (source, " · ".join(about(source)), [] if view.offline else passages) for source, passages in quoted(view.citations)
    ]
    return render("answer", **values, parts=parts, table=_table(answer), sources=sources, cards=cards)


def _panels(panels: Sequence[Panel]) -> list[tuple[str, str, str]]:
    """Return (heading, content, what has the rest) of each panel, cut so that all together stay small in the notebook."""
    limit = PANELS_CHARACTERS // max(len(panels), 1)
    found = []
    for panel in panels:
        text = visible(panel.content).rstrip()
        rest = f"… %panels {panel.id} shows all {len(text):,} characters" if len(text) > limit else ""
        found.append((heading(panel), text[:limit], rest))
    return found


def heading(panel: Panel) -> str:
    """Return what a panel is, in one line: "P1 · web_search · brave: moons of Mars"."""
    title = shorten(one_line(panel.title), 100)
    tool = "" if not panel.tool or title.startswith(panel.tool) else one_line(panel.tool)
    return " · ".join(filter(None, (panel.id, tool, title, "failed" if panel.is_error else "")))


def panel_html(panel: Panel) -> str:
    """Return a whole panel, unfolded."""
    return render("panel", heading=heading(panel), content=panel.content)


def panel_text(panel: Panel) -> str:
    """Return a whole panel as plain text."""
    return f"{heading(panel)}\n\n{PLAIN.markdown(panel.content).rstrip()}"


def _table(answer: Answer) -> dict[str, Any] | None:
    """Return names, rows of cells and what is left out of a structured answer; addresses are links."""
    if not answer.rows:
        return None
    names = list(answer.columns or answer.rows[0])
    cells = [[cell_text(row.get(name)) for name in names] for row in answer.rows[:MAX_ROWS]]
    linked = [[link(cell, host_of(cell)) if safe_href(cell) else cell for cell in row] for row in cells]
    return {"names": list(map(one_line, names)), "rows": linked, "more": max(len(answer.rows) - MAX_ROWS, 0)}


def cell_text(value: Any) -> str:
    """Return a value of a structured answer as one line of text; None is ""."""
    if isinstance(value, list | tuple):
        return ", ".join(map(cell_text, value))
    return "" if value is None else shorten(one_line(value), 400)


def answer_text(shown: AnswerView | Answer, *, feedback: int = 1, terminal: Terminal = PLAIN) -> str:
    """Return an answer as plain text: labels, text, sources with their addresses, notices, facts."""
    view = AnswerView.of(shown)
    if view.answer is None:
        parts = [terminal.markdown(p) if isinstance(p, str) else "\n".join(map(str, p)) for p in view.parts(feedback)]
        body = "\n\n".join([*filter(None, parts), *([view.status()] if view.running else [])])
    else:
        body = rows_text(view.answer) if view.answer.rows else terminal.markdown(view.text)
    top = "\n".join(label_text(label, terminal) for label in labels(view, feedback))
    return "\n\n".join(filter(None, (top, body, tail_text(view, feedback, terminal))))


def label_text(label: str, terminal: Terminal = PLAIN) -> str:
    """Return a label as plain text."""
    return terminal.bold(terminal.wrap(label.replace("**", "").replace("`", "")))


def tail_text(view: AnswerView, feedback: int = 1, terminal: Terminal = PLAIN, said: frozenset[str] = frozenset()) -> str:
    """Return what stands under the text of a finished answer: sources, notices that are not in `said`, facts."""
    answer = view.answer
    if answer is None:
        return ""
    lines = []
    for source, _ in quoted(view.citations):
        words = " · ".join((one_line(source.title), *about(source)[1:]))  # the address under it says where it is from
        lines.append(terminal.wrap(f"[{source.n}] {words}") + f"\n    {terminal.link(source.url)}")
    below = [terminal.wrap(one_line(notice)) for notice in view.notices if one_line(notice) not in said]
    if answer.panels:
        below.append(f"{count(len(answer.panels), 'tool output')}: %panels · steps: %trace")
    below.append(terminal.faint(facts(answer)))
    return "\n\n".join(filter(None, ("\n".join(lines), "\n".join(below) if feedback else "")))


def rows_text(answer: Answer) -> str:
    """Return the rows of a structured answer, one column a line."""
    rows, names = answer.rows or (), list(answer.columns or ())
    blocks = [
        "\n".join(f"{f'{i}' if j == 0 else '':<4}{one_line(name)}: {cell_text(row.get(name))}" for j, name in enumerate(names))
        for i, row in enumerate(rows[:MAX_ROWS])
    ]
    return "\n".join((*blocks, *([f"… {len(rows) - MAX_ROWS} more"] if len(rows) > MAX_ROWS else [])))


def answer_markdown(answer: Answer, *, feedback: int = 1) -> str:
    """Return a finished answer as harmless Markdown: labels, text, each source once, facts."""
    from ipy_websearch.display.markdown import link_markdown, table_markdown, text_markdown, to_safe_markdown

    view = AnswerView.of(answer)
    parts = [f"> {to_safe_markdown(label)}" for label in labels(view, feedback)]
    if answer.rows:
        names = list(answer.columns or answer.rows[0])
        cells = [[cell_text(row.get(name)) for name in names] for row in answer.rows]
        parts.append(table_markdown(names, cells))
    else:
        parts.append(to_safe_markdown(view.text, view.sources))
    found = []
    for source, passages in quoted(view.citations):
        quote = f" — “{text_markdown(shorten(passages[0], 200))}”" if passages else ""
        title = link_markdown(source.url, one_line(source.title) or source.url)
        found.append(f"- [{source.n}] {title} {text_markdown(', '.join(about(source)))}{quote}")
    parts += ["**Sources**", "\n".join(found)] if found else []
    if feedback:
        parts += [text_markdown(one_line(notice)) for notice in view.notices] + [f"*{text_markdown(facts(answer))}*"]
    return "\n\n".join(filter(None, parts))


def bundle(view: AnswerView, feedback: int, spent: Decimal | None = Decimal(0)) -> dict[str, str]:
    """Return an answer in the forms that a notebook keeps; Markdown only of one that is done."""
    forms = {"text/html": answer_html(view, feedback=feedback, spent=spent), "text/plain": answer_text(view, feedback=feedback)}
    if view.answer is not None:
        forms["text/markdown"] = answer_markdown(view.answer, feedback=feedback)
    return forms
