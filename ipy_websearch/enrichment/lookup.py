"""`df.web.search("{company} CEO")`: one search for each distinct row, its best result as columns. No model is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING

from ipy_websearch.config import did_you_mean
from ipy_websearch.enrichment.bar import Tally
from ipy_websearch.enrichment.columns import fill, template_fields
from ipy_websearch.enrichment.plan import distinct_texts, inputs_of
from ipy_websearch.errors import ConfigError, WebSearchError
from ipy_websearch.results import SearchResults

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("search_title", "search_url", "search_description", "search_provider", "search_error")
Search = Callable[[str], Awaitable[SearchResults]]


class Lookup:
    """The searches of one frame; `run` it once, then `frame()` gives the rows as far as they are, also after `stop()`."""

    def __init__(self, frame: pd.DataFrame, template: str, search: Search, concurrency: int) -> None:
        names = [str(name) for name in frame.columns]
        fields = template_fields(template)
        for field in fields:
            if field not in names:
                raise ConfigError(f"the query names {{{field}}}, which is no column of the frame{did_you_mean(field, names)}")
        if not fields:
            raise ConfigError("the query names no column; put one in braces, such as {company} CEO")
        rows = inputs_of(frame, fields)
        self._queries = [None if None in row else fill(template, dict(zip(fields, row, strict=True))) for row in rows]
        self._found: dict[str, tuple[str | None, ...]] = {}
        self._frame = frame
        self._search = search
        self._concurrency = concurrency
        self._tasks: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = False
        self.tally = Tally(total=len(distinct_texts(self._queries)), name="search", kept_in="the cache")

    async def run(self) -> None:
        """Search for every distinct query."""
        self._loop = asyncio.get_running_loop()
        queue = iter(distinct_texts(self._queries))
        self._tasks = [asyncio.create_task(self._slot(queue)) for _ in range(min(self._concurrency, self.tally.total))]
        if self._stopped or not self._tasks:
            return
        try:
            await asyncio.wait(self._tasks)
        finally:
            self._cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop(self) -> None:
        """Stop from any thread."""
        self._stopped = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def frame(self) -> pd.DataFrame:
        """Return the frame with the columns of `COLUMNS` (text) behind its own."""
        import pandas as pd

        missing: tuple[str | None, ...] = (None, None, None, None, "a value that the query needs is missing")
        left: tuple[str | None, ...] = (None, None, None, None, "interrupted")
        rows = [missing if query is None else self._found.get(query, left) for query in self._queries]
        data = {name: pd.array([row[n] for row in rows], dtype="string") for n, name in enumerate(COLUMNS)}
        kept = self._frame.loc[:, [str(name) not in COLUMNS for name in self._frame.columns]]
        return pd.concat([kept, pd.DataFrame(data, index=self._frame.index)], axis=1)

    async def _slot(self, queue: Iterator[str]) -> None:
        for query in queue:
            try:
                results = await self._search(query)
            except WebSearchError as exc:
                self._found[query] = (None, None, None, None, str(exc))
                self.tally.failed += 1
                continue
            best = next(iter(results), None)
            facts = (best.title, best.url, best.description) if best else (None, None, None)
            self._found[query] = (*facts, results.provider, None if best else "nothing was found")
            self.tally.done += 1
            self.tally.cost_usd += float(results.cost_usd or 0)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()
