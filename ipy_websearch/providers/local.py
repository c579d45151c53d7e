"""The engine that needs neither key nor network: it searches the embedded corpus and the folders the user added."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import ClassVar

from ipy_websearch.providers.base import ProviderContext, SearchRequest
from ipy_websearch.providers.local_index import LocalIndex, moment
from ipy_websearch.providers.local_query import best_passages, parse_question
from ipy_websearch.providers.local_tables import Hit
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.usage import Charge

INDEX_FILE = "index.sqlite"
_DAYS = {"pd": 1, "pw": 7, "pm": 31, "py": 366}


class LocalProvider:
    """Searches the local index; every answer is free and comes from this machine.

    What a domain filter matches here: for the corpus the part after `corpus://` (`planets`, `elements`, …), for files the
    name of the folder that was added or of any folder in it on the way to the file, as a host name would be written ("My
    Notes" is `my-notes`). Country, language, safe search and goggles have no meaning here and are ignored.
    """

    name: ClassVar[str] = "local"
    price: ClassVar[tuple[Charge, ...]] = (Charge("local", usd=Decimal(0)),)

    def __init__(self, context: ProviderContext) -> None:
        self.index = LocalIndex(context.data_dir / INDEX_FILE)
        self._told = 0

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the best documents, each with the passage that fits best and up to four further paragraphs.

        `score` is the BM25 rank, weighted with how much of the question the document covers; higher is better and only
        comparable within one answer. With `freshness`, a document without a date is left out.

        Raises:
            ProviderError: this Python's SQLite was built without full-text search.
        """
        if not self.index.is_open:
            await asyncio.to_thread(self.index.open)  # reading the corpus takes longer than an event loop should wait
        since, until = _period(request.freshness)
        hits = self.index.search(
            request.query,
            count=request.count,
            since=since,
            until=until,
            allowed=request.allowed_domains,
            blocked=request.blocked_domains,
        )
        notices, self._told = tuple(self.index.warnings[self._told :]), len(self.index.warnings)
        return SearchResults(
            tuple(_result(hit, request.query) for hit in hits),
            query=request.query,
            provider=self.name,
            cost_usd=Decimal(0),
            charges=self.price,
            notices=notices,
        )

    def document(self, url: str) -> tuple[str, str, datetime | None] | None:
        """Return (title, Markdown, date) of a whole document; see `LocalIndex.document`."""
        return self.index.document(url)


def _result(hit: Hit, query: str) -> SearchResult:
    document = hit.document
    description, further = best_passages(document.body, parse_question(query))
    return SearchResult(
        title=document.title,
        url=document.url,
        description=description,
        published_date=moment(document.date),
        extra_snippets=further,
        score=round(hit.score, 6),
    )


def _period(freshness: str | None) -> tuple[str, str]:
    """Return the first and last day that `freshness` lets in, "" for no bound; the past day begins yesterday (UTC)."""
    if freshness is None:
        return "", ""
    if days := _DAYS.get(freshness):
        return (datetime.now(UTC).date() - timedelta(days=days)).isoformat(), ""
    since, until = freshness.split("to")
    return since, until
