"""A fetched page: title, address, which lines of how many, and its Markdown, rendered harmless and cut to a readable size."""

from __future__ import annotations

from html import escape

from ipy_websearch.display import money
from ipy_websearch.display.dates import ago, ago_html, iso
from ipy_websearch.display.links import link_html, short_address
from ipy_websearch.display.markdown import to_html, to_plain, to_safe_markdown
from ipy_websearch.display.markdown_writer import link_markdown, text_markdown
from ipy_websearch.display.style import framed
from ipy_websearch.display.words import one_line
from ipy_websearch.results import Page

SHOWN_CHARACTERS = 24_000
"""How much of a page is shown; `page.content` has all of it."""


def page_html(page: Page) -> str:
    """Return the page as HTML, in a box that scrolls."""
    content, rest = _cut(page)
    about = " · ".join(
        filter(None, (escape(short_address(page.final_url)), ago_html(page.published_date), escape(_lines(page))))
    )
    notes = "".join(f"<div><small>{escape(note)}</small></div>" for note in (_note(page), rest) if note)
    title = link_html(page.final_url, one_line(page.title) or page.final_url)
    return framed(
        f"<div><b>{title}</b></div><div><small>{about}</small></div>",
        f'<div class="ipyws-page">{to_html(content)}</div>' if content else "",
        notes,
    )


def page_text(page: Page) -> str:
    """Return the page as plain text."""
    content, rest = _cut(page)
    head = "\n".join(filter(None, (one_line(page.title), to_plain(page.final_url), _about(page))))
    return "\n\n".join(filter(None, (head, to_plain(content), _note(page), rest)))


def page_markdown(page: Page) -> str:
    """Return the page as harmless Markdown."""
    content, rest = _cut(page)
    head = f"**{link_markdown(page.final_url, one_line(page.title) or page.final_url)}**"
    about = text_markdown(_about(page))
    return "\n\n".join(filter(None, (head, about, to_safe_markdown(content), text_markdown(_note(page)), text_markdown(rest))))


def _about(page: Page) -> str:
    return " · ".join(filter(None, (iso(page.published_date), _lines(page))))


def _lines(page: Page) -> str:
    if page.total_lines == 0:
        return one_line(page.note) or "the page holds no text"
    if page.lines_read == 0:
        return f"no lines here; the page has {page.total_lines:,}"
    some = page.lines_read < page.total_lines
    words = f"{page.lines_read:,} of {page.total_lines:,} lines" if some else money.count(page.total_lines, "line")
    return f"{words} · {_age(page)}" if page.cached else words


def _note(page: Page) -> str:
    """Return the note that stands below the content; that of an empty page stands in the place of its lines."""
    return one_line(page.note) if page.total_lines else ""


def _age(page: Page) -> str:
    """Return since when a page has been in the cache; --fresh gets it anew."""
    return f"cached, fetched {ago(page.fetched_at)}" if page.fetched_at is not None else "cached"


def _cut(page: Page) -> tuple[str, str]:
    """Return the content that is shown and what is said of the rest ("" when there is none)."""
    content = page.content
    if len(content) <= SHOWN_CHARACTERS:
        return content, ""
    end = content.rfind("\n", 0, SHOWN_CHARACTERS)
    kept = content[: end if end > 0 else SHOWN_CHARACTERS]
    return kept, f"… {len(content) - len(kept):,} more characters in .content"
