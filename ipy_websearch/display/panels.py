"""Panels: the whole output of a tool call, folded. Content is escaped text, Markdown too, since it comes from the web."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ipy_websearch.display.markdown import to_plain
from ipy_websearch.display.markdown_writer import fence, text_markdown
from ipy_websearch.display.style import framed
from ipy_websearch.display.words import one_line
from ipy_websearch.results import Panel
from ipy_websearch.text import shorten, visible

PANEL_BYTES = 8_000
"""The most that one panel takes of a notebook file inside an answer."""
ALL_PANELS_BYTES = 24_000
"""The most that all panels of an answer take together."""


def heading(panel: Panel) -> str:
    """Return what a panel is, in one line of plain text: "P1 · web_search · brave: moons of Mars"."""
    title = shorten(one_line(panel.title), 100)
    tool = "" if not panel.tool or title.startswith(panel.tool) else one_line(panel.tool)
    return " · ".join(filter(None, (panel.id, tool, title, "failed" if panel.is_error else "")))


def panel_html(panel: Panel) -> str:
    """Return a whole panel, unfolded."""
    return framed(f"<div><b>{escape(heading(panel))}</b></div>", f"<pre>{escape(visible(panel.content), quote=False)}</pre>")


def panel_text(panel: Panel) -> str:
    """Return a whole panel as plain text."""
    return f"{heading(panel)}\n\n{to_plain(panel.content).rstrip()}"


def panel_markdown(panel: Panel) -> str:
    """Return a whole panel as Markdown, its content as code."""
    return f"**{text_markdown(heading(panel))}**\n\n{fence(visible(panel.content))}"


def folded_panels(panels: Sequence[Panel]) -> str:
    """Return panels one under the other, folded and cut so that they take at most `ALL_PANELS_BYTES`."""
    limit = min(PANEL_BYTES, ALL_PANELS_BYTES // max(len(panels), 1))
    return "".join(_folded(panel, limit) for panel in panels)


def _folded(panel: Panel, limit: int) -> str:
    text = visible(panel.content).rstrip()
    body = cut_escaped(text, limit)
    rest = f"\n… <i>%panels {escape(panel.id)} --all shows all {len(text):,} characters</i>" if len(body[1]) < len(text) else ""
    return (
        f"<details><summary><small>{escape(heading(panel))}</small></summary><pre>{body[0]}{rest}</pre></details>"
        if text
        else f"<div><small>{escape(heading(panel))}</small></div>"
    )


def cut_escaped(text: str, limit: int) -> tuple[str, str]:
    """Return (HTML, the text in it): as much of `text`, in whole lines where possible, as takes `limit` bytes of HTML."""
    kept = text[:limit]
    while (size := len(escape(kept, quote=False).encode())) > limit:
        kept = kept[: min(len(kept) * limit // size, len(kept) - 1)]
    if len(kept) < len(text) and (end := kept.rfind("\n")) > len(kept) // 2:
        kept = kept[:end]
    return escape(kept, quote=False), kept
