"""The functions as DuckDB calls them: Arrow columns in, an Arrow column out, a chunk of up to 2,048 rows at a time.

Measured with duckdb 2.0.0 (November 2026). Functions without side effects are folded and pushed below ORDER BY … LIMIT, so they
are registered that way. The planner tries a function on constants, and on tables of one row, and swallows an exception: such a
row may be asked up to three times when it fails. A name given to an argument (`fresh := true`) is ignored, only its place
counts. Ctrl-C reaches Python only in the main thread, and not while DuckDB waits there for a function that runs in a thread of
its own; hence `_presses`.
"""

from __future__ import annotations

import atexit
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Sequence
from concurrent.futures import wait
from functools import partial
from typing import Any

from ipy_websearch import api, background
from ipy_websearch.errors import MissingKeyError, WebSearchError
from ipy_websearch.sql.answers import Kind, Outcome, Row, RowRunner, SqlOptions
from ipy_websearch.text import shorten

TICK_S = 0.1
STOPPED_S = 5.0
"""Seconds for which the same line is refused after Ctrl-C: DuckDB and IPython run a stopped query again at once."""

STOPPED = "the query was stopped; what was answered by then is not asked again"
RESULTS_TYPE = (
    "STRUCT(title VARCHAR, url VARCHAR, description VARCHAR, published_date TIMESTAMP, extra_snippets VARCHAR[], "
    "score DOUBLE, provider VARCHAR)[]"
)
_SHOWN_ROWS, _SHOWN_CHARS, _SHOWN_REASONS = 3, 60, 5
_NOT_THE_USER = (__package__.partition(".")[0], "duckdb", "IPython", "ipykernel")
_stopped: tuple[float, object] = (-STOPPED_S, None)
_wakeup: tuple[socket.socket, socket.socket] | None = None
_pressed = 0


class Functions:
    """The functions of one registration; setting `options` changes how they work from the next chunk on."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.options = SqlOptions()
        self._runner: RowRunner | None = None
        self._lock = threading.Lock()

    def definitions(self) -> list[dict[str, Any]]:
        """Return the arguments of `create_function` for each function."""
        # Without listed parameters a function takes values of any type and an optional last argument.
        chunked: dict[str, Any] = {"type": "arrow", "null_handling": "special", "side_effects": False, "parameters": None}
        keys: dict[str, Any] = {"side_effects": True, "parameters": ["VARCHAR"], "return_type": "VARCHAR"}
        return [
            {"name": "ask_ai", "function": self.ask_ai, "return_type": "VARCHAR", **chunked},
            {"name": "web_search", "function": self.web_search, "return_type": RESULTS_TYPE, **chunked},
            {"name": "set_api_key", "function": lambda key: _set_key("ANTHROPIC_API_KEY", key), **keys},
            {"name": "set_brave_api_key", "function": lambda key: _set_key("BRAVE_API_KEY", key), **keys},
        ]

    def ask_ai(self, *columns: Any) -> Any:
        """Return the answers to a chunk of (context, question)."""
        import pyarrow as pa

        usage = "takes a context and a question: {}(ticker, 'What does it make?'); fresh := true may follow"
        return pa.array(self._values("ask_ai", columns, 2, usage), pa.string())

    def web_search(self, *columns: Any) -> Any:
        """Return the results of a chunk of searches, each a list of structs."""
        import pyarrow as pa

        usage = "takes a query: {}('moons of Mars'); fresh := true may follow"
        texts = ("title", "url", "description")
        fields = {**dict.fromkeys(texts, pa.string()), "published_date": pa.timestamp("us")}
        fields |= {"extra_snippets": pa.list_(pa.string()), "score": pa.float64(), "provider": pa.string()}
        return pa.array(self._values("web_search", columns, 1, usage), pa.list_(pa.struct(list(fields.items()))))

    def _values(self, kind: Kind, columns: Sequence[Any], texts: int, usage: str) -> list[Any]:
        """Return the value of each row, None for a row without; failures become a warning, or an error."""
        name = f"{self.prefix}{kind}"
        rows = _rows(columns, texts)
        if rows is None:
            raise TypeError(f"{name} {usage.format(name)}")
        with self._lock:
            runner = self._ready(kind)
        distinct = list(dict.fromkeys(row for row in rows if row is not None))
        outcomes = _interruptible(partial(runner.run, kind, distinct)) if distinct else {}
        if runner.options.on_error == "raise":
            for row, outcome in outcomes.items():
                if outcome.error:
                    raise WebSearchError(f"{name}{_shown(row)}: {outcome.error}")
        _warn(name, outcomes)
        return [None if row is None else outcomes[row].value for row in rows]

    def _ready(self, kind: str) -> RowRunner:
        """Return the runner for the session and the options in force."""
        session, runner = api.session(), self._runner
        if runner is None or runner.session is not session or runner.options is not self.options:
            runner = self._runner = RowRunner(session, self.options)
        try:
            runner.look_around(asks=kind == "ask_ai")
        except MissingKeyError as exc:
            if session.has_model_key:
                raise
            raise MissingKeyError(f"{exc}; in SQL: SELECT {self.prefix}set_api_key(?)") from None
        return runner


def _set_key(variable: str, key: str) -> str:
    api.session().keys.set(variable, key)
    return f"{variable} is set for this session."


def _rows(columns: Sequence[Any], texts: int) -> list[Row | None] | None:
    """Return a chunk's rows, None where a value is NULL; None for a wrong number or kind of arguments."""
    lists = [column.to_pylist() for column in columns]
    fresh = lists[texts] if len(lists) == texts + 1 else []
    if not 0 <= len(lists) - texts <= 1 or not all(value is None or isinstance(value, bool) for value in fresh):
        return None
    flags = fresh or [False] * len(lists[0])
    pairs = zip(zip(*lists[:texts], strict=True), flags, strict=True)
    return [None if None in values else Row(tuple(map(_text, values)), bool(flag)) for values, flag in pairs]


def _text(value: Any) -> str:
    """Return a value as the text that is asked about, without blanks around it."""
    whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if whole else value).strip()


# --- warnings ---------------------------------------------------------------------------------------------------------


def _warn(function: str, outcomes: dict[Row, Outcome]) -> None:
    """Warn once of all rows that failed or have a note, equal reasons together, with some of their inputs."""
    groups: dict[str, list[Row]] = {}
    for row, outcome in outcomes.items():
        if reason := outcome.error or (outcome.note and f"{outcome.note} (these have values)"):
            groups.setdefault(reason, []).append(row)
    if not groups:
        return
    failed = sum(bool(outcome.error) for outcome in outcomes.values())
    lines = [f"{function}: {failed} of {len(outcomes)} inputs failed and are NULL" if failed else f"{function}: please check"]
    for reason, rows in list(groups.items())[:_SHOWN_REASONS]:
        more = f" and {len(rows) - _SHOWN_ROWS:,} more" if len(rows) > _SHOWN_ROWS else ""
        lines.append(f"{reason}, for {', '.join(map(_shown, rows[:_SHOWN_ROWS]))}{more}")
    # Without a registry, so that the same failure is told again when it happens again.
    warnings.warn_explicit("; ".join(lines), UserWarning, "ipy_websearch.sql", 1)


def _shown(row: Row) -> str:
    return f"({', '.join(repr(shorten(text, _SHOWN_CHARS)) for text in row.texts)})"


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


def _interruptible(work: Any) -> Any:
    """Run a coroutine function on the background loop; Ctrl-C cancels it, whichever thread waits here.

    Raises:
        KeyboardInterrupt: the user stopped the query, or did a moment ago.
    """
    global _stopped
    line = _line()
    if time.monotonic() - _stopped[0] < STOPPED_S and _stopped[1] == line:
        raise KeyboardInterrupt(STOPPED)
    before, task = _presses(), background.Task(work)
    try:
        while not wait([task.future], TICK_S).done:
            if _presses() > before:
                raise KeyboardInterrupt
        return task.future.result()
    except KeyboardInterrupt:
        task.cancel()
        _stopped = time.monotonic(), line
        raise KeyboardInterrupt(STOPPED) from None


def _line() -> object:
    """Return what tells the user's line in the main thread that waits for the query from any other."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_USER:
        frame = frame.f_back
    return frame and (id(frame), frame.f_lasti)


def listen_for_interrupts() -> None:
    """Have Python write a byte for each signal, which any thread can read; does nothing outside the main thread.

    Somebody else's wakeup descriptor (an event loop's) is left alone: then only the main thread hears of Ctrl-C.
    """
    global _wakeup
    if threading.current_thread() is not threading.main_thread():
        return
    if _wakeup is None:
        _wakeup = socket.socketpair()
        for end in _wakeup:
            end.setblocking(False)
        atexit.register(_stop_listening, *_wakeup)
    ours = _wakeup[1].fileno()
    before = signal.set_wakeup_fd(ours, warn_on_full_buffer=False)
    if before not in (-1, ours):
        signal.set_wakeup_fd(before)


def _stop_listening(*ends: socket.socket) -> None:
    global _wakeup
    _wakeup = None
    if (fd := signal.set_wakeup_fd(-1)) != ends[1].fileno():
        signal.set_wakeup_fd(fd)
    for end in ends:
        end.close()


def _presses() -> int:
    """Return how many times Ctrl-C was pressed so far."""
    global _pressed
    try:
        if _wakeup is not None:
            _pressed += _wakeup[0].recv(4096).count(signal.SIGINT)
    except BlockingIOError:
        pass
    return _pressed
