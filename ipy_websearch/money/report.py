"""Reports on the ledger: exact sums, single rows and groups as a `CostFrame`, and the curve of `%cost --plot`.

One `GROUP BY` over the flat table each; 100,000 rows take some 0.1 s.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.money.ledger import DAY_US, EPOCH, NANO, Ledger, microseconds
from ipy_websearch.settings import did_you_mean

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.frames import CostFrame

_PROVIDER = "CASE kind WHEN 'model' THEN '(models)' ELSE name END"
_GROUPS = {
    "question": "question",
    "model": "CASE kind WHEN 'model' THEN name ELSE '(engines)' END",
    "provider": _PROVIDER,
    "engine": _PROVIDER,
    "kind": "kind",
    "day": f"time / {DAY_US}",
    "notebook": "notebook",
    "session": "session",
}
GROUPS = tuple(_GROUPS)
"""What costs can be grouped by. Each grouping sums up to the whole: by model, providers stand in the row "(engines)"."""

_TOKENS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "server_searches")
_ROW = ("time", "question", "kind", "name", *_TOKENS, "units", "unit", "usd", "cached", "status")
_SUMS = {
    "calls": "count(*)",
    "model_calls": "sum(kind = 'model')",
    "searches": "sum((kind = 'search') + server_searches)",
    "input_tokens": "sum(input_tokens)",
    "output_tokens": "sum(output_tokens)",
    "cached": "sum(cached)",
    "usd": "sum(usd)",
    "unknown": "sum(usd IS NULL)",
}


def cost_frame(
    ledger: Ledger, *, session: str | None = None, since: datetime | None = None, by: str | None = None
) -> CostFrame:
    """Return what one session (None: all) has cost from a moment on (UTC where it has no zone), with its exact sums.

    Without `by`: one row for each ledger row, newest last; columns time (UTC datetime64), question, kind, name, input_tokens,
    output_tokens, cache_read_tokens, cache_write_tokens, server_searches, units, unit, usd (float, unknown is NaN), cached
    (bool), status.

    With `by`: one row for each group; the group's column, calls, model_calls, searches (those of Anthropic's servers included),
    input_tokens, output_tokens, cached (calls answered from the cache), usd (of the rows with a price, NaN when none has one),
    unknown (rows without a price). Days (UTC), questions and sessions come oldest first, other groups most expensive first.

    Raises:
        ConfigError: there is no such group.
    """
    from ipy_websearch.frames import CostFrame, CostSummary

    if by is not None and by not in _GROUPS:
        raise ConfigError(f"by is {by!r}{did_you_mean(by, GROUPS)}; it must be one of {', '.join(GROUPS)}")
    where, values = _where(session, since)
    frame = CostFrame(_rows(ledger, where, values) if by is None else _grouped(ledger, by, where, values))
    sums = f"SELECT coalesce(sum(usd), 0), total(saved * (kind = 'model')), total(saved) FROM ledger WHERE {where}"
    unpriced = f"SELECT name, count(*) FROM ledger WHERE usd IS NULL AND {where} GROUP BY name ORDER BY name"
    ((spent, prompts, saved),) = _select(ledger, sums, values)
    frame.summary = CostSummary(
        total_usd=spent / NANO,
        unpriced=dict(_select(ledger, unpriced, values)),
        saved_calls_usd=int(saved - prompts) / NANO,
        saved_prompt_usd=int(prompts) / NANO,
        scope=_scope(session, since),
        rows=len(frame),
    )
    return frame


def curve(
    ledger: Ledger, *, session: str | None = None, since: datetime | None = None, by: str = "kind", points: int = 500
) -> list[tuple[datetime, str, Decimal]]:
    """Return (moment, group, US dollars spent since the entry before) by time, in at most `points` steps of time."""
    where, values = _where(session, since)
    ((first, last),) = _select(ledger, f"SELECT min(time), max(time) FROM ledger WHERE {where}", values)
    if first is None:
        return []
    values |= {"first": first, "step": (last - first) // max(points - 1, 1) + 1}
    query = (
        f"SELECT max(time), {_GROUPS[by]}, coalesce(sum(usd), 0) FROM ledger WHERE {where} "
        f"GROUP BY (time - :first) / :step, {_GROUPS[by]} ORDER BY 1"
    )
    found = _select(ledger, query, values)
    return [(EPOCH + timedelta(microseconds=at), _shown(group, by), nano / NANO) for at, group, nano in found]


def _rows(ledger: Ledger, where: str, values: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    columns = ", ".join(_ROW).replace("cache_write_tokens", "cache_write_5m_tokens + cache_write_1h_tokens")
    rows = _select(ledger, f"SELECT {columns} FROM ledger WHERE {where} ORDER BY id", values)
    found = dict(zip(_ROW, zip(*rows, strict=True) if rows else [()] * len(_ROW), strict=True))
    kinds = {**dict.fromkeys(("time", *_TOKENS), "int64"), "units": "float64", "usd": "float64", "cached": "bool"}
    # Column by column: pandas takes three times as long over rows.
    frame = pd.DataFrame({name: pd.Series(values, dtype=kinds.get(name, "str")) for name, values in found.items()})
    return frame.assign(time=pd.to_datetime(frame["time"], unit="us", utc=True), usd=frame["usd"] / 1e9)


def _grouped(ledger: Ledger, by: str, where: str, values: dict[str, Any]) -> pd.DataFrame:
    import pandas as pd

    sums = ", ".join(f"{part} AS {name}" for name, part in _SUMS.items())
    order = "min(id)" if by in ("question", "session") else "1" if by == "day" else "usd DESC, calls DESC, min(id)"
    query = f"SELECT {_GROUPS[by]}, {sums} FROM ledger WHERE {where} GROUP BY 1 ORDER BY {order}"
    frame = pd.DataFrame(_select(ledger, query, values), columns=[by, *_SUMS])
    frame["usd"] = pd.to_numeric(frame["usd"]).astype("float64") / 1e9
    if by == "day":
        frame[by] = pd.to_datetime(frame[by].astype("int64") * DAY_US, unit="us", utc=True)
    else:
        frame[by] = frame[by].astype("str")
    return frame.astype({name: "int64" for name in _SUMS if name != "usd"})


def _where(session: str | None, since: datetime | None) -> tuple[str, dict[str, Any]]:
    parts = ["1", *(["session = :session"] if session is not None else []), *(["time >= :since"] if since is not None else [])]
    return " AND ".join(parts), {"session": session, "since": 0 if since is None else microseconds(since)}


def _select(ledger: Ledger, query: str, values: dict[str, Any]) -> list[Any]:
    return ledger.read(lambda connection: connection.execute(query, values).fetchall())


def _shown(group: Any, by: str) -> str:
    return str((EPOCH + timedelta(days=group)).date()) if by == "day" else str(group)


def _scope(session: str | None, since: datetime | None) -> str:
    whose = "all sessions" if session is None else "this session"
    if since is None:
        return whose
    moment = (since if since.tzinfo else since.replace(tzinfo=UTC)).astimezone(UTC)
    return f"{whose} since {moment:%Y-%m-%d %H:%M} UTC"
