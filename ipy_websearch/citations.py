"""Numbers the sources of an answer and merges what cites the same one. Pure.

Invariant: a source's number is its place in the order of first citation, the same address always has the same number, and
every `[n]` in the text has a row n in the sources.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from ipy_websearch.claims import check
from ipy_websearch.results import Citation
from ipy_websearch.text import plain, visible

__all__ = ["CitationBook", "check", "marks", "same_page"]


class CitationBook:
    """Collects the citations of one answer.

    `know` tells it of sources that were read, so that a citation that carries only a title, or no date, finds its page.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._citations: list[Citation] = []
        self._seen: set[tuple[int, str]] = set()
        self._dates: dict[str, datetime | None] = {}
        self._addresses: dict[str, str] = {}

    @property
    def citations(self) -> tuple[Citation, ...]:
        """All distinct passages cited so far, in order of first citation."""
        return tuple(self._citations)

    def know(self, url: str, title: str, published_date: datetime | None = None) -> None:
        """Remember a source that the model was given."""
        self._dates.setdefault(same_page(url), published_date)
        self._addresses.setdefault(plain(title), url)

    def cite(self, raw: Mapping[str, Any]) -> tuple[int, Citation | None]:
        """Return the source number for an API citation, and the `Citation` when its passage is new (else None).

        Understood are `search_result_location`, `web_search_result_location`, and the document locations of fetched
        pages (`char_location`, `page_location`, `content_block_location`), which name a title only.
        """
        title = plain(raw.get("title")) or plain(raw.get("document_title"))
        url = str(raw.get("url") or raw.get("source") or self._addresses.get(title) or "")
        key = same_page(url) if url else title
        n = self._numbers.setdefault(key, len(self._numbers) + 1)
        text = visible(str(raw.get("cited_text") or "")).strip()
        if (n, text) in self._seen:
            return n, None
        self._seen.add((n, text))
        citation = Citation(n, title or url, url, text, self._dates.get(key))
        self._citations.append(citation)
        return n, citation


def same_page(url: str) -> str:
    """Return the address in the form in which two addresses of one page are equal: no fragment, lower-case host."""
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/") or "/", parts.query, ""))


def marks(numbers: Iterable[int]) -> str:
    """Return the marks for source numbers: [1][3], each once, in the order given."""
    return "".join(f"[{n}]" for n in dict.fromkeys(numbers))
