"""`df.web.search("{company} CEO")`: one search for each distinct row, its best result as columns. No model is asked.

A 429 is waited out for all rows together. What no row will get past, such as a refused key, ends the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.columns import NOTED, fields_in, fill, inputs_of, names_of
from ipy_websearch.enrichment.frames import joined
from ipy_websearch.enrichment.report import Progress
from ipy_websearch.enrichment.row import Searches
from ipy_websearch.errors import ConfigError, ProviderError, WebSearchError

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.session import Session

COLUMNS = ("search_title", "search_url", "search_description", "search_provider", "search_error")


def query_fields(template: str, names: Sequence[str], noted: Any = ()) -> tuple[str, ...]:
    """Return the columns that a query names; `names` are the frame's, `noted` what its `attrs` say of earlier runs.

    Raises:
        ConfigError: it names none, or one that is not there, or a column of the caller's is where a new one would go.
    """
    fields = fields_in("the query", template, names)
    earlier = COLUMNS if set(COLUMNS) <= set(names) else noted if isinstance(noted, list) else ()
    for name in COLUMNS:
        if name in fields or (name in names and name not in earlier):
            why = "the query names" if name in fields else "no search added"
            raise ConfigError(f"the frame already has a column {name!r}, which {why}; rename it")
    return fields


class Lookup:
    """The searches of one frame; `run` it once, then `frame()` gives the rows as far as they are, also after `stop()`.

    `options` are those of `ipy_websearch.search`.
    """

    def __init__(self, session: Session, template: str, frame: pd.DataFrame, *, concurrency: int = 16, **options: Any) -> None:
        fields = query_fields(template, names_of(frame), frame.attrs.get(NOTED))
        rows = inputs_of(frame, fields)
        self._queries = [None if None in row else fill(template, dict(zip(fields, row, strict=True))) for row in rows]
        self._found: dict[str, tuple[str | None, ...]] = {}
        self._frame = frame
        self._session = session
        self._options = {"count": 1, **options}
        self._concurrency = concurrency
        self._left = "interrupted"
        engine, _ = session.provider_to_ask(options.get("provider"))
        self._searches = Searches(session.router, engine, concurrency, ())
        self._loop: asyncio.AbstractEventLoop | None = None
        self._work: asyncio.Future[Any] | None = None
        self._distinct = list(dict.fromkeys(query for query in self._queries if query is not None))
        self.progress = Progress(total=len(self._distinct), name="search")

    async def run(self) -> None:
        """Search for every distinct query."""
        self._loop, places = asyncio.get_running_loop(), asyncio.Semaphore(self._concurrency)
        self._work = asyncio.gather(*(self._search_for(query, places) for query in self._distinct), return_exceptions=True)
        with suppress(asyncio.CancelledError):
            await self._work

    def stop(self) -> None:
        """Stop from any thread."""
        if self._work is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._work.cancel)

    def frame(self) -> pd.DataFrame:
        """Return the frame with the columns of `COLUMNS` (text) behind its own."""
        import pandas as pd

        from ipy_websearch.frames import WebFrame

        missing: tuple[str | None, ...] = (None, None, None, None, "a value that the query needs is missing")
        left: tuple[str | None, ...] = (None, None, None, None, self._left)
        rows = [missing if query is None else self._found.get(query, left) for query in self._queries]
        data = {name: pd.array([row[n] for row in rows], dtype="string") for n, name in enumerate(COLUMNS)}
        return WebFrame(joined(self._frame, pd.DataFrame(data, index=self._frame.index)))

    async def _search_for(self, query: str, places: asyncio.Semaphore) -> None:
        try:
            async with places:
                results = await self._session.searched(query, self._searches.run, **self._options)
        except WebSearchError as exc:
            if isinstance(exc, ProviderError) and exc.permanent:
                self._left = f"not searched: {exc}"
                self.stop()
            self._found[query] = (None, None, None, None, str(exc))
            self.progress.failed += 1
            return
        best = next(iter(results), None)
        facts = (best.title, best.url, best.description) if best else (None, None, None)
        self._found[query] = (*facts, results.provider, None if best else "nothing was found")
        self.progress.done += 1
        self.progress.cells += best is not None
        self.progress.cost_usd += float(results.cost_usd or 0)
