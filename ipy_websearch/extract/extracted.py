"""What the extraction of one page gives. Light to import: the parent process needs it, lxml stays in the worker."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Extracted:
    """A page as Markdown, and what it says about itself.

    `markdown` holds the page's own text alone, without invisible characters; nothing of ours is added to it.
    `published_date` is aware UTC, None when the page does not say. `language` is a BCP 47 tag such as "en-GB", "" when
    unknown. `links` are the absolute http(s) addresses of the whole page, navigation included, each once, in order.
    `note` is "" or one line on what was lost, such as "plain text only: …"; it is for people, not part of the page.
    """

    markdown: str
    title: str = ""
    published_date: datetime | None = None
    language: str = ""
    links: tuple[str, ...] = ()
    note: str = ""
