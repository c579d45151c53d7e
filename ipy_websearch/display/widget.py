"""The trace for a class: an answer's steps as a widget, to be walked through with buttons or arrow keys.

The widget (anywidget, the extra `[widget]`) builds its page from text nodes only. JupyterLab shows nothing in the place of a
widget whose state was not saved, so the plain trace is put out before the widget, which hides it while it lives.

A step's messages are cut into cards: who speaks, what kind of block it is, its text. What an earlier request had sent
already is only named.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from ipy_websearch.display.answer import starts
from ipy_websearch.display.live import is_notebook
from ipy_websearch.display.text import cost, one_line
from ipy_websearch.display.trace import TraceFrame, compact, requests_news, response_of, trace_frame
from ipy_websearch.results import Answer, Step
from ipy_websearch.text import shorten, visible
from ipy_websearch.usage import Usage

WHOLE_CHARACTERS = 300_000
"""The most that all cards together hold: they are stored with the notebook."""

CARD_CHARACTERS = 8_000
LEAST_CHARACTERS = 200

Card = dict[str, Any]

_INSTALL = 'pip install "ipy_websearch[widget]" makes this a widget to step through'


def trace_widget(answer: Answer, step: int = 1, *, redact: Callable[[str], str] = str) -> Any:
    """Return a widget that walks through an answer's steps, beginning with number `step`; without anywidget a `TraceFrame`.

    `redact` takes keys out of texts. The widget's `step` can be read and set.
    """
    try:
        kind = _widget_class()
    except ImportError:
        return trace_frame(answer, note=_INSTALL, redact=redact)
    title = shorten(redact(one_line(answer.question)), 120)
    widget = kind(title=title, steps=step_views(answer, redact), step=step, mark=f"ipyws-{uuid.uuid4().hex}")
    widget.frame = trace_frame(answer, redact=redact)
    return widget


@cache
def _widget_class() -> Any:
    """Return the widget's class.

    Raises:
        ImportError: anywidget is not installed.
    """
    import anywidget
    import traitlets

    assets = files("ipy_websearch.display") / "assets"

    class TraceWidget(anywidget.AnyWidget):
        """A trace to walk through; `step` is the number of the step that is shown."""

        _esm = (assets / "trace.js").read_text(encoding="utf-8")
        _css = (assets / "trace.css").read_text(encoding="utf-8")
        title: Any = traitlets.Unicode().tag(sync=True)
        steps: Any = traitlets.List().tag(sync=True)
        step: Any = traitlets.Int(1).tag(sync=True)
        mark: Any = traitlets.Unicode().tag(sync=True)
        frame: TraceFrame

        @traitlets.validate("step")
        def _within(self, proposal: Mapping[str, Any]) -> int:
            return max(1, min(len(self.steps) or 1, int(proposal["value"])))

        def _repr_mimebundle_(self, **options: Any) -> Any:
            """Return the widget's view, with the page beside it for whoever shows no widgets."""
            shown = super()._repr_mimebundle_(**options)
            data, metadata = shown if isinstance(shown, tuple) else (shown or {}, {})
            return {**data, **self.frame._repr_mimebundle_()}, metadata

        def _ipython_display_(self) -> None:
            """Show the page, and behind it, in a notebook, the view that hides it."""
            from IPython import get_ipython
            from IPython.display import display

            put: Any = display  # it carries no types
            view = self.frame.view
            assert view is not None
            put({"text/html": f'<div class="{self.mark}">{view.html()}</div>', "text/plain": view.text()}, raw=True)
            if is_notebook(get_ipython()):
                data, metadata = self._repr_mimebundle_()
                live = {name: value for name, value in data.items() if name.endswith("widget-view+json")}
                put({**live, "text/plain": "(the same as a widget)"}, metadata=metadata, raw=True)

    return TraceWidget


def step_views(answer: Answer, redact: Callable[[str], str] = str) -> list[dict[str, Any]]:
    """Return each step as JSON: n, kind, name, detail, error, start, ms and until (milliseconds from the question on), tokens
    (pairs of name and count), cost, so_far (tokens and money up to its end), sent and got (cards)."""
    news = requests_news(answer.trace)
    cards = [
        (list(_sent(step, request)), list(_got(step, response_of(answer, step))))
        for step, request in zip(answer.trace, news, strict=True)
    ]
    count = sum(len(sent) + len(got) for sent, got in cards)
    most = max(LEAST_CHARACTERS, min(CARD_CHARACTERS, WHOLE_CHARACTERS // max(count, 1)))
    usage, until = Usage(), 0.0
    known: Decimal | None = Decimal(0)
    views = []
    for step, start, (sent, got) in zip(answer.trace, starts(answer.trace), cards, strict=True):
        usage, until = usage + step.usage, max(until, start + step.milliseconds)
        known = None if known is None or step.cost_usd is None else known + step.cost_usd
        views.append(
            {
                "n": step.n,
                "kind": step.kind,
                "name": shorten(redact(one_line(step.name)), 60),
                "detail": shorten(redact(one_line(step.detail)), 300),
                "error": step.is_error,
                "start": round(start, 1),
                "ms": round(step.milliseconds, 1),
                "until": round(until, 1),
                "tokens": _tokens(step.usage) if step.kind == "model" else [],
                "cost": cost(step.cost_usd),
                "so_far": f"{usage.total_input_tokens:,} → {usage.output_tokens:,} tokens, {cost(known)}",
                "sent": [_cut(card, most, redact) for card in sent],
                "got": [_cut(card, most, redact) for card in got],
            }
        )
    return views


def _tokens(usage: Usage) -> list[list[str]]:
    written = usage.cache_write_5m_tokens + usage.cache_write_1h_tokens
    counts = {
        "tokens in": usage.input_tokens,
        "read from the cache": usage.cache_read_tokens,
        "written to the cache": written,
        "tokens out": usage.output_tokens,
    }
    return [[name, f"{count:,}"] for name, count in counts.items() if count or name.startswith("tokens")]


def _sent(step: Step, request: Any) -> Iterator[Card]:
    if step.kind != "model" or not isinstance(request, Mapping):
        if request is not None:
            yield _card("input", "", _json(request))
        return
    settings = {name: value for name, value in request.items() if name not in ("system", "messages", "tools")}
    yield _card("settings", "", _json(settings), is_open=False)
    if system := request.get("system"):
        yield _card("system", "", "\n\n".join(_text(block) for block in _listed(system)), is_open=False)
    if tools := request.get("tools"):
        named = tools if isinstance(tools, str) else ", ".join(str(tool.get("name")) for tool in tools)
        yield _card("tools", named, named if isinstance(tools, str) else _json(tools), is_open=False)
    for message in request.get("messages") or ():
        if isinstance(message, Mapping):
            yield from _blocks(str(message.get("role")), message.get("content"))
        else:
            yield _card("earlier", "", str(message), is_open=False)


def _got(step: Step, response: Any) -> Iterator[Card]:
    if response is None:
        return
    if step.kind == "model":
        yield from _blocks("assistant", response)
    elif isinstance(response, Mapping) and response.get("type") == "tool_result":
        yield from _blocks("result", response.get("content"))
    else:
        yield _card("result", "", _json(response))


def _blocks(who: str, content: Any) -> Iterator[Card]:
    for block in _listed(content):
        kind = str(block.get("type", "")) if isinstance(block, Mapping) else ""
        if kind == "tool_result" and isinstance(block.get("content"), list | tuple):
            for inner in _listed(block["content"]):
                yield _card("result", str(inner.get("type", "")) if isinstance(inner, Mapping) else "", _text(inner))
            continue
        label = f"{kind} {block.get('name')}" if kind.endswith("tool_use") else kind
        yield _card(who, "" if kind == "text" else label, _text(block))


def _listed(content: Any) -> Sequence[Any]:
    return content if isinstance(content, list | tuple) else [content]


def _text(block: Any) -> str:
    """Return a block as text for people: its words, a result's with title and address, a call's input, others as JSON."""
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return _json(block)
    match block.get("type"):
        case "text":
            cited = {str(c.get("source") or c.get("url") or "") for c in block.get("citations") or () if isinstance(c, Mapping)}
            marks = "".join(f"\n  ↳ {url}" for url in sorted(filter(None, cited)))
            return f"{block.get('text', '')}{marks}"
        case "thinking":
            return str(block.get("thinking", ""))
        case "tool_use" | "server_tool_use":
            return _json(block.get("input"))
        case "search_result":
            words = "\n".join(_text(part) for part in _listed(block.get("content")))
            return f"{block.get('title', '')}\n{block.get('source', '')}\n\n{words}"
        case _:
            return _json(block)


def _json(value: Any) -> str:
    return json.dumps(compact(value), indent=2, ensure_ascii=False, default=str)


def _card(who: str, kind: str, text: str, *, is_open: bool = True) -> Card:
    return {"who": who, "kind": kind, "text": text, "open": is_open}


def _cut(card: Card, most: int, redact: Callable[[str], str]) -> Card:
    text = visible(redact(card["text"]))
    kind = shorten(redact(one_line(card["kind"])), 120)
    return {**card, "who": one_line(card["who"]), "kind": kind, "text": text[:most], "more": max(0, len(text) - most)}
