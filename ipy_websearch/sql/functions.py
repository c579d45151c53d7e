"""The functions as DuckDB calls them: Arrow columns in, Arrow columns out, a chunk of up to 2,048 rows at a time.

Facts of duckdb 2.0.0, measured: functions without side effects are folded and pushed below ORDER BY … LIMIT, so they are
registered that way; one that may give NULL must be registered with its own handling of NULLs; each is called from several
threads, and up to three times for the same rows, since the planner tries it on constants and swallows what it raises.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Literal

from ipy_websearch import api
from ipy_websearch.enrichment.plan import normal
from ipy_websearch.errors import MissingKeyError, WebSearchError
from ipy_websearch.session import Session
from ipy_websearch.sql.answers import Asker, Wishes
from ipy_websearch.sql.desk import Desk, Outcome, Row, shown_row, warn
from ipy_websearch.sql.interrupts import Place

OnError = Literal["null", "raise"]

RESULTS_TYPE = (
    "STRUCT(title VARCHAR, url VARCHAR, description VARCHAR, published_date TIMESTAMP, extra_snippets VARCHAR[], "
    "score DOUBLE, provider VARCHAR)[]"
)


class Functions:
    """The functions of one registration; `configure` changes how they work from the next chunk on."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._wishes = Wishes()
        self._on_error: OnError = "null"
        self._session: Session | None = None
        self._asker: Asker | None = None
        self._answers: Desk | None = None
        self._searches: Desk | None = None
        self._lock = threading.Lock()

    def configure(self, wishes: Wishes, on_error: OnError) -> None:
        """Take new wishes; what was answered before stays in the store."""
        with self._lock:
            self._wishes, self._on_error = wishes, on_error
            self._asker = self._answers = self._searches = None

    def definitions(self) -> list[dict[str, Any]]:
        """Return the arguments of `create_function` for each function."""
        chunked: dict[str, Any] = {"type": "arrow", "null_handling": "special", "side_effects": False}
        at_once: dict[str, Any] = {"side_effects": True}
        # Without listed parameters a function takes values of any type, so that numbers and dates need no cast.
        return [
            {"name": "ask_ai", "function": self.ask_ai, "parameters": None, "return_type": "VARCHAR", **chunked},
            {
                "name": "web_search",
                "function": self.web_search,
                "parameters": ["VARCHAR"],
                "return_type": RESULTS_TYPE,
                **chunked,
            },
            *(
                {"name": name, "function": function, "parameters": ["VARCHAR"], "return_type": "VARCHAR", **at_once}
                for name, function in (("set_api_key", set_api_key), ("set_brave_api_key", set_brave_api_key))
            ),
        ]

    def ask_ai(self, *columns: Any) -> Any:
        """Return the answers to a chunk of (context, question)."""
        import pyarrow as pa

        name = f"{self.prefix}ask_ai"
        if len(columns) != 2:
            raise TypeError(f"{name} takes a context and a question: {name}(ticker, 'What does it make?')")
        rows = _rows(columns)
        desk = self._answering()
        values = self._served(name, desk, rows, sys._getframe().f_back)
        return pa.array(values, pa.string())

    def web_search(self, queries: Any) -> Any:
        """Return the results of a chunk of searches, each a list of structs."""
        import pyarrow as pa

        rows = _rows([queries])
        values = self._served(f"{self.prefix}web_search", self._searching(), rows, sys._getframe().f_back)
        text = pa.string()
        fields = {"title": text, "url": text, "description": text, "published_date": pa.timestamp("us")}
        more = {"extra_snippets": pa.list_(text), "score": pa.float64(), "provider": text}
        return pa.array(values, pa.list_(pa.struct(list({**fields, **more}.items()))))

    # --- how --------------------------------------------------------------------------------------------------------

    def _served(self, name: str, desk: Desk, rows: Sequence[Row | None], caller: FrameType | None) -> list[Any]:
        """Return the rows' values, None for a row without; failures become a warning, or an error."""
        outcomes, new = desk.serve((row for row in rows if row is not None), Place.below(caller))
        if self._on_error == "raise":
            for row, outcome in outcomes.items():
                if outcome.error:
                    raise WebSearchError(f"{name}{shown_row(row)}: {outcome.error}")
        warn(name, new)
        return [None if row is None else outcomes[row].value for row in rows]

    def _current(self) -> Session:
        """Return the session; desks belong to one, so that a new session gets new ones."""
        session = api.session()
        if session is not self._session:
            self._session, self._asker, self._answers, self._searches = session, None, None, None
        return session

    def _answering(self) -> Desk:
        with self._lock:
            session = self._current()
            try:
                if self._asker is None or self._answers is None:
                    self._asker = Asker(session, self._wishes)
                    self._answers = Desk(self._asker.ask, self._wishes.concurrency, self._asker.find)
                else:
                    self._asker.look_around()
            except MissingKeyError as exc:
                if not session.has_model_key:
                    raise MissingKeyError(f"{exc}; in SQL: SELECT {self.prefix}set_api_key(?)") from None
                raise
            return self._answers

    def _searching(self) -> Desk:
        with self._lock:
            session, engine = self._current(), self._wishes.provider
            if engine:
                session.router.check(engine)
            if self._searches is None:
                self._searches = Desk(searcher(session, engine), self._wishes.concurrency)
            return self._searches


def searcher(session: Session, provider: str | None) -> Callable[[Row], Any]:
    """Return the coroutine function that searches for a row's query."""

    async def search(row: Row) -> Outcome:
        try:
            results = await session.search(row[0], provider=provider)
        except WebSearchError as exc:
            return Outcome(error=str(exc))
        found = [
            {
                "title": hit.title,
                "url": hit.url,
                "description": hit.description,
                "published_date": hit.published_date and hit.published_date.replace(tzinfo=None),
                "extra_snippets": list(hit.extra_snippets),
                "score": hit.score,
                "provider": results.provider,
            }
            for hit in results
        ]
        return Outcome(found, kept=session.settings.cache_ttl_s > 0)

    return search


def set_api_key(key: str) -> str:
    """Set ANTHROPIC_API_KEY for this session only."""
    return _set("ANTHROPIC_API_KEY", key)


def set_brave_api_key(key: str) -> str:
    """Set BRAVE_API_KEY for this session only."""
    return _set("BRAVE_API_KEY", key)


def _set(variable: str, key: str) -> str:
    api.session().keys.set(variable, key)
    return f"{variable} is set for this session."


def _rows(columns: Sequence[Any]) -> list[Row | None]:
    """Return a chunk's rows as texts, None where a value is NULL."""
    texts = [[_text(value) for value in column.to_pylist()] for column in columns]
    return [None if None in row else row for row in zip(*texts, strict=True)]


def _text(value: Any) -> str | None:
    """Return a value as the text that is asked about; text stays as it is, but for blanks around it."""
    if value is None or isinstance(value, str):
        return None if value is None else value.strip()
    return normal(value) or ""
