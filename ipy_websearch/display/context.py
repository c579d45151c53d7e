"""What a question would send, as a table: each part with its tokens, its beginning, and, folded, the request as JSON.

A `ContextFrame` is a DataFrame like any other and shows itself as such a table; it lives here, above the values, since it
knows HTML.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

import pandas as pd

from ipy_websearch.context import Context
from ipy_websearch.display.markdown_writer import text_markdown
from ipy_websearch.display.style import LEFT, framed
from ipy_websearch.display.trace import STEP_BYTES, fold
from ipy_websearch.display.trace_json import compact
from ipy_websearch.frames import WebFrame
from ipy_websearch.text import plain, shorten, visible

WIDTH = 100
"""Characters of a part that the table shows."""


class ContextFrame(WebFrame):
    """The parts of a request as a DataFrame: role, what, tokens, text; `.context` holds the request itself.

    What is made from it (`head`, filters, columns) is a plain DataFrame.
    """

    _metadata = ["context", "redact"]
    context: Context | None = None
    redact: Callable[[str], str] = staticmethod(str)

    @property
    def _constructor(self) -> type[pd.DataFrame]:
        return WebFrame

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        """Return the table in the three forms that IPython asks for."""
        if self.context is None:
            return {}
        rows, sums = _rows(self.context, self.redact), _sums(self.context)
        return {
            "text/html": _html(self.context, rows, sums, self.redact),
            "text/markdown": _markdown(rows, sums),
            "text/plain": _text(rows, sums),
        }


def context_frame(context: Context, *, redact: Callable[[str], str] = str) -> ContextFrame:
    """Return the parts of a request as a frame: one row a part, in the order in which the model reads them."""
    columns = {name: [getattr(part, name) for part in context.parts] for name in ("role", "what", "tokens", "text")}
    frame = ContextFrame(columns)
    frame.context, frame.redact = context, redact
    return frame


def _rows(context: Context, redact: Callable[[str], str]) -> list[list[str]]:
    """Return the cells: role, what it is, tokens, the beginning of its text."""
    return [[p.role, plain(p.what), f"{p.tokens:,}", shorten(redact(plain(p.text)), WIDTH)] for p in context.parts]


def _sums(context: Context) -> str:
    share = context.most_input_tokens / context.window
    room = "under 1 %" if share < 0.01 else f"{share:.0%}"
    more = " What the API's own tools find comes on top: see --estimate." if context.native else ""
    return (
        f"about {context.input_tokens:,} tokens, at most {context.most_input_tokens:,}, to {plain(context.model)} "
        f"({room} of the {context.window:,} that it reads).{more} Nothing was sent."
    )


def _html(context: Context, rows: list[list[str]], sums: str, redact: Callable[[str], str]) -> str:
    head = f'<th{LEFT}>part</th><th{LEFT}>what</th><th class="ipyws-num">tokens</th><th{LEFT}>text</th>'
    body = "".join(
        f'<tr><td{LEFT}>{escape(role)}</td><td{LEFT}>{escape(what)}</td><td class="ipyws-num">{tokens}</td>'
        f'<td{LEFT} class="ipyws-what">{escape(text)}</td></tr>'
        for role, what, tokens, text in rows
    )
    request = visible(redact(json.dumps(compact(context.body), indent=2, ensure_ascii=False, default=str)))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return framed(f"<div><b>{escape(sums)}</b></div>", table, fold("the request as JSON", request, STEP_BYTES))


def _markdown(rows: list[list[str]], sums: str) -> str:
    lines = ["| part | what | tokens | text |", "| --- | --- | ---: | --- |"]
    lines += [f"| {' | '.join(text_markdown(cell) for cell in row)} |" for row in rows]
    return "\n".join([f"**{text_markdown(sums)}**", "", *lines])


def _text(rows: list[list[str]], sums: str) -> str:
    lines = [["part", "what", "tokens", "text"], *rows]
    widths = [max(len(line[n]) for line in lines) for n in range(4)]
    table = [
        "  ".join([line[0].ljust(widths[0]), line[1].ljust(widths[1]), line[2].rjust(widths[2]), line[3]]).rstrip()
        for line in lines
    ]
    return "\n".join([sums, "", *table])
