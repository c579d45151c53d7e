"""Reports on the ledger: sums, single entries and groups, as rows of values and then as DataFrames.

Sums and groups are read from the sums that the ledger keeps (see `ledger_tables`), so that their time does not grow with
the number of entries; only what `since` cuts off, part of a day or of a question, is summed up from the entries.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from ipy_websearch.ledger_tables import COUNTS, DAY_US, MODEL, entry_counts

if TYPE_CHECKING:
    import pandas as pd

GroupName = Literal["question", "model", "provider", "engine", "kind", "day", "notebook", "session"]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OTHERS = 0
_ENGINE = f"CASE WHEN kind = {MODEL} THEN {_OTHERS} ELSE name END"
_KEY = {"model": f"CASE WHEN kind = {MODEL} THEN name ELSE {_OTHERS} END", "provider": _ENGINE, "engine": _ENGINE}
_OTHERS_ARE = {"model": "(engines)", "provider": "(models)", "engine": "(models)"}
"""What the calls are called that have no group of their own, so that every grouping sums up to the whole."""
_SUMMED = COUNTS[:-1]  # all but what was saved
_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "server_searches")
_ENTRY = ("time", "question", "kind", "name", *_TOKENS, "units", "unit", "usd", "cached", "status")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which entries a report is about: those of a session, since a moment, of a question; None: all."""

    session: str | None = None
    since: datetime | None = None
    question_id: str | None = None

    def days(self) -> str:
        """Return a SELECT of session, day, notebook, kind, name and sums."""
        columns = f"session, day, notebook, kind, name, {', '.join(COUNTS)}"
        sums = f"SELECT {columns} FROM by_day AS s WHERE {self._conditions('s')}"
        if self.since is None:
            return sums
        if microseconds(self.since) % DAY_US == 0:
            return f"{sums} AND s.day >= :day"
        return (
            f"{sums} AND s.day > :day UNION ALL "
            f"SELECT q.session, e.time / {DAY_US}, q.notebook, e.kind, e.name, {', '.join(entry_counts('e'))} "
            "FROM entries AS e JOIN questions AS q ON q.id = e.question "
            f"WHERE e.time >= :since AND e.time < (:day + 1) * {DAY_US} AND {self._conditions('q')}"
        )

    def questions(self) -> str:
        """Return a SELECT of number, question and sums; a question that `since` cuts has a line for each later entry."""
        sums = f"SELECT q.id, q.question, {', '.join(f'q.{name}' for name in COUNTS)} FROM questions AS q"
        conditions = self._conditions("q")
        if self.since is None:
            return f"{sums} WHERE {conditions}"
        return (
            f"{sums} WHERE q.first >= :since AND {conditions} UNION ALL "
            f"SELECT q.id, q.question, {', '.join(entry_counts('e'))} "
            "FROM questions AS q JOIN entries AS e ON e.question = q.id "
            f"WHERE q.first < :since AND q.last >= :since AND e.time >= :since AND {conditions}"
        )

    def entries(self) -> str:
        """Return the condition on entries `e` and questions `q`."""
        return f"{self._conditions('q')}{'' if self.since is None else ' AND e.time >= :since'}"

    def values(self) -> dict[str, Any]:
        """Return the values that the statements take."""
        since = 0 if self.since is None else microseconds(self.since)
        return {"session": self.session, "question_id": self.question_id, "since": since, "day": since // DAY_US}

    def _conditions(self, table: str) -> str:
        parts = ["1"]
        if self.session is not None:
            parts.append(f"{table}.session = (SELECT id FROM labels WHERE text = :session)")
        if self.question_id is not None:
            parts.append("q.question_id = :question_id")
        return " AND ".join(parts)


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970; a moment without a zone counts as UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


def totals(connection: sqlite3.Connection, scope: Scope) -> tuple[int, int, int]:
    """Return nano-dollars spent, rows without a price, and nano-dollars that caches saved."""
    source = scope.days() if scope.question_id is None else scope.questions()
    statement = f"SELECT coalesce(sum(usd), 0), coalesce(sum(unknown), 0), coalesce(sum(saved), 0) FROM ({source})"
    usd, unknown, saved = connection.execute(statement, scope.values()).fetchone()
    return usd, unknown, saved


def savings(connection: sqlite3.Connection, scope: Scope) -> tuple[int, int]:
    """Return the nano-dollars that cached calls to engines saved, and those that the prompt cache of models saved."""
    statement = f"SELECT kind = {MODEL}, sum(saved) FROM ({scope.days()}) GROUP BY 1"
    found = dict(connection.execute(statement, scope.values()).fetchall())
    return found.get(0) or 0, found.get(1) or 0


def unpriced(connection: sqlite3.Connection, scope: Scope) -> list[tuple[str, int]]:
    """Return the names of models and engines of unknown price, each with its number of rows."""
    statement = f"SELECT name, sum(unknown) FROM ({scope.days()}) GROUP BY name HAVING sum(unknown) > 0 ORDER BY name"
    found = connection.execute(statement, scope.values()).fetchall()
    texts = _labels(connection) if found else {}
    return [(texts[name], count) for name, count in found]


def curve(connection: sqlite3.Connection, scope: Scope, points: int) -> list[tuple[int, str, int]]:
    """Return (microseconds since 1970, kind, nano-dollars) in the order of time, in at most `points` steps of time."""
    anyone = scope.session is None and scope.question_id is None
    joined = "" if anyone else "JOIN questions AS q ON q.id = e.question"
    source = f"FROM entries AS e {joined} WHERE {scope.entries()}"
    first, last = connection.execute(f"SELECT min(e.time), max(e.time) {source}", scope.values()).fetchone()
    if first is None:
        return []
    values = {**scope.values(), "first": first, "step": (last - first) // max(points - 1, 1) + 1}
    statement = (
        f"SELECT max(e.time), e.kind, sum(coalesce(e.usd, 0)) {source} "
        "GROUP BY (e.time - :first) / :step, e.kind ORDER BY max(e.time)"
    )
    texts = _labels(connection)
    return [(time, texts[kind], usd) for time, kind, usd in connection.execute(statement, values)]


def entries(connection: sqlite3.Connection, scope: Scope) -> list[Row]:
    """Return one row for each entry, oldest first, in the order of the frame's columns (time and money as integers)."""
    statement = (
        "SELECT e.time, q.question, e.kind, e.name, e.input_tokens, e.output_tokens, e.cache_read_tokens, "
        "e.cache_write_5m_tokens + e.cache_write_1h_tokens, e.server_searches, e.units, e.unit, e.usd, e.cached, e.status "
        f"FROM entries AS e JOIN questions AS q ON q.id = e.question WHERE {scope.entries()} ORDER BY e.time, e.id"
    )
    texts = _labels(connection)
    return [
        (time, question, texts[kind], texts[name], *counts, texts[unit], usd, cached, texts[status])
        for time, question, kind, name, *counts, unit, usd, cached, status in connection.execute(statement, scope.values())
    ]


def groups(connection: sqlite3.Connection, scope: Scope, by: GroupName) -> list[Row]:
    """Return (group, *sums) for each group in the order in which it first appeared; a group may come more than once."""
    if by == "question":
        statement = f"SELECT question, {', '.join(_SUMMED)} FROM ({scope.questions()}) WHERE calls > 0 ORDER BY id"
        return connection.execute(statement, scope.values()).fetchall()
    sums = ", ".join(f"sum({name})" for name in _SUMMED)
    statement = f"SELECT {_KEY.get(by, by)} AS grouped, {sums} FROM ({scope.days()}) GROUP BY grouped ORDER BY grouped"
    found = connection.execute(statement, scope.values()).fetchall()
    if by == "day":
        return found
    texts = {**_labels(connection), _OTHERS: _OTHERS_ARE.get(by, "")}
    return [(texts[number], *sums) for number, *sums in found]


def _labels(connection: sqlite3.Connection) -> Mapping[int, str]:
    return dict(connection.execute("SELECT id, text FROM labels"))


def entry_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Return one row for each entry: n rows, RangeIndex, `usd` float (unknown NaN), `time` UTC datetime64."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=_ENTRY)
    frame["time"] = pd.to_datetime(frame["time"].astype("int64"), unit="us", utc=True)
    frame["usd"] = pd.to_numeric(frame["usd"]).astype("float64") / 1e9
    frame["units"] = frame["units"].astype("float64")
    frame["cached"] = frame["cached"].astype("bool")
    texts = dict.fromkeys(("question", "kind", "name", "unit", "status"), "str")
    return frame.astype({**dict.fromkeys(_TOKENS, "int64"), **texts})


def group_frame(rows: Iterable[Row], by: GroupName) -> pd.DataFrame:
    """Return one row for each group: the group's column, then calls, model_calls, searches, tokens, cached, usd, unknown."""
    import numpy as np
    import pandas as pd

    # Column by column: pandas takes three times as long over rows.
    names = [by, *_SUMMED]
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    frame = pd.DataFrame({n: np.array(c, dtype=object if n == by else "int64") for n, c in zip(names, columns, strict=True)})
    if frame[by].duplicated().any():
        frame = frame.groupby(by, sort=False, as_index=False).sum()
    frame["usd"] = (frame["usd"] / 1e9).where(frame.pop("known") > 0)
    if by == "day":
        frame[by] = pd.to_datetime(frame[by].astype("int64") * DAY_US, unit="us", utc=True)
        return frame.sort_values(by, ignore_index=True)
    frame = frame.astype({by: "str"})
    if by in ("question", "session"):
        return frame
    return frame.sort_values(["usd", "calls"], ascending=False, ignore_index=True, kind="stable")
