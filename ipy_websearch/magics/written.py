"""A variable as text for a model: strings as they are, frames as tables, arrays and lists as JSON.

Nothing is left out in silence, as a `repr` does with a long array: what does not fit is said in the text, and told.
Libraries are known by what their values can do; none is imported for it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ipy_websearch.text import shorten

MAX_CHARS = 20_000
MAX_ROWS = 100
Tell = Callable[[str], None]


def as_text(value: Any, tell: Tell = lambda left_out: None) -> str:
    """Return a variable as text for a model: strings as they are, frames as a compact table with their shape, arrays as lists.

    At most 20,000 characters and 100 rows; what is left out is said in the text, and told in words such as "100 of 500 rows".
    """
    parts: list[str] = []
    if isinstance(value, str):
        text = value
    elif (head := _head(value)) is not None:
        text = _table(*head, parts.append)
    elif _is_array(value):
        text = _list(value, parts.append, tell)
    elif isinstance(value, dict | list | tuple):
        text = _json(value, tell)
    else:
        text = str(value)
    if len(text) > MAX_CHARS:
        parts.append(f"{MAX_CHARS:,} of {len(text):,} characters{' of these' if parts else ''}")
        text = f"{shorten(text, MAX_CHARS)} (cut: {len(text):,} characters in all)"
    if parts:
        tell(", ".join(parts))
    return text


def _head(value: Any) -> tuple[Any, int | None] | None:
    """Return a frame's first rows as one of pandas', and how many it has (None: more than these); None when it is no frame."""
    kinds = type(value).__mro__
    libraries = {kind.__module__.split(".")[0] for kind in kinds}
    if libraries & {"dask", "dask_expr"} and hasattr(value, "npartitions") and hasattr(value, "head"):
        first = value.head(MAX_ROWS + 1, npartitions=-1)  # to count the rest would be to compute it all
        return _columns(first.head(MAX_ROWS)), None if len(first) > MAX_ROWS else len(first)
    if "pandas" in libraries and hasattr(value, "iloc") and hasattr(value, "to_csv"):
        return _columns(value.head(MAX_ROWS)), len(value)
    if libraries & {"duckdb", "_duckdb"} and hasattr(value, "limit") and hasattr(value, "df"):
        return value.limit(MAX_ROWS).df(), value.shape[0]
    if "pyarrow" in libraries and hasattr(value, "num_rows") and hasattr(value, "slice"):
        return value.slice(0, MAX_ROWS).to_pandas(), value.num_rows
    if "polars" in libraries and hasattr(value, "to_dicts"):
        import pandas as pd

        return pd.DataFrame(value.head(MAX_ROWS).to_dicts(), columns=value.columns), value.height
    return None


def _columns(value: Any) -> Any:
    return value.to_frame() if value.ndim == 1 else value


def _table(head: Any, rows: int | None, tell: Tell) -> str:
    whole = rows is not None and rows <= MAX_ROWS
    many = f"more than {MAX_ROWS}" if rows is None else str(rows)
    if not whole:
        tell(f"{MAX_ROWS} of {many if rows is None else f'{rows:,}'} rows")
    shown = "" if whole else f", the first {MAX_ROWS}"
    named = bool(head.index.name) or head.index.dtype.kind not in "iu"
    return f"table of {many} rows x {head.shape[1]} columns{shown}:\n{head.to_csv(index=named)}".rstrip()


def _is_array(value: Any) -> bool:
    """Say whether something is an array, an index or a column without a frame, of whatever library."""
    kind = type(value)
    listed = any(hasattr(kind, name) for name in ("tolist", "to_list", "to_pylist"))
    return listed and hasattr(kind, "__len__") and hasattr(kind, "__getitem__") and getattr(value, "ndim", 1) != 0


def _list(value: Any, cut: Tell, tell: Tell) -> str:
    """Return an array as a JSON list, cut behind a whole value (or row)."""
    items: list[str] = []
    total, room = len(value), MAX_CHARS - 80  # what is left out is said behind it
    for item in _items(value[: MAX_CHARS // 2]):
        written = _json(item, tell)
        room -= len(written) + 2
        if room < 0 and items:
            break
        items.append(written)
    text = f"[{', '.join(items)}]"
    if len(items) == total:
        return text
    what = "rows" if getattr(value, "ndim", 1) > 1 else "values"
    cut(f"{len(items):,} of {total:,} {what}")
    return f"{text} (the first {len(items):,} of {total:,} {what})"


def _items(value: Any) -> Iterator[Any]:
    """Yield what an array holds as Python's own values; a row at a time, where it has several dimensions."""
    if getattr(getattr(value, "dtype", None), "kind", "") in tuple("mM") and hasattr(value, "astype"):
        value = value.astype(str)  # numpy's own lists have nanoseconds for dates
    rows = value if getattr(value, "ndim", 1) > 1 and getattr(value, "nlevels", 1) == 1 else _listed(value)
    for item in rows:
        yield _plain(lambda left_out: None, item) if item is not None else None


def _listed(value: Any) -> Any:
    name = next(name for name in ("tolist", "to_list", "to_pylist") if hasattr(value, name))
    return getattr(value, name)()


def _plain(tell: Tell, value: Any) -> Any:
    """Return what JSON can write for a value that stands in a list or a dict."""
    if isinstance(value, float):
        return None if value != value else value
    if isinstance(value, str | int | dict | list | tuple):
        return value
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if _head(value) is not None:
        return as_text(value, tell)
    if _is_array(value):
        return list(_items(value))
    if hasattr(type(value), "item") and getattr(value, "ndim", 1) == 0 and not isinstance(value.item(), type(value)):
        return _plain(tell, value.item())
    return str(value).removesuffix(" 00:00:00")


def _json(value: Any, tell: Tell) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=partial(_plain, tell))
    except (TypeError, ValueError):
        return str(value)
