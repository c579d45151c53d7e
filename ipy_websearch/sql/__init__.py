"""The web in SQL: `register` gives a DuckDB connection the functions `ask_ai` and `web_search`.

>>> import duckdb
>>> from ipy_websearch import sql
>>> con = duckdb.connect()
>>> sql.register(con, model="offline", provider="local")
>>> con.sql("SELECT ask_ai('Mars', 'How many moons does it have?')").fetchall()
[('**No model read these...Mars** has two **moons**, Phobos and Deimos...',)]
>>> con.sql("SELECT unnest(web_search('moons of Mars'), recursive := true)").df()[["title", "url"]].head(1).values.tolist()
[['Mars', 'corpus://planets/mars']]
>>> con.close()

Needs `pip install "ipy_websearch[sql]"`: duckdb, and pyarrow, without which DuckDB calls a Python function row by row and
nothing could run at the same time.
"""

from __future__ import annotations

import re
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ipy_websearch.sql.functions import Functions, SqlOptions

__all__ = ["register"]

_ID = "ipy_websearch_id"
_registered: dict[str, tuple[Functions, list[dict[str, Any]]]] = {}
# DuckDB forgets a function with the connection that registered it, and goes on calling it for others: they are kept here.


def register(
    con: Any,
    prefix: str = "",
    *,
    on_error: Literal["null", "raise"] = "null",
    model: str | None = None,
    provider: str | None = None,
    concurrency: int = 16,
    budget_usd: Decimal | float | str | None = None,
    resume: bool = True,
) -> None:
    """Register the functions with a DuckDB connection (`con`, or `duckdb` itself for its default one).

    - `ask_ai(context, question)` gives an answer as text, after one web search at most, within 90 seconds. The search is
      offered to the model when an engine has a key (or `provider` names one); without it the model answers from what it knows.
      **An answer that needed a search costs about twice as much**: two model requests, the second with the results, and the
      search itself.
    - `web_search(query)` gives a LIST of STRUCT (title, url, description, published_date in UTC, extra_snippets, score,
      provider): `SELECT unnest(web_search('duckdb'), recursive := true)`.
    - `set_api_key(key)` and `set_brave_api_key(key)` set a key for this session and say so. SQL is remembered in many places
      (history, logs, saved cells): `con.execute("SELECT set_api_key(?)", [key])` keeps the key out of them, and so does
      `%websearch key anthropic`.

    `prefix="stps_"` gives them names such as stps_ask_ai. Equal rows are asked once, and **answers are kept for the day** (UTC,
    in the enrichment store: `%websearch store clear ask_ai` forgets them). For what changes by the hour, a last argument,
    `fresh := true`, takes no answer older than a minute: `ask_ai(ticker, 'Price?', fresh := true)`; `resume=False` does so for
    every row. Of a chunk (2,048 rows), `concurrency` run at once.

    NULL in gives NULL, and nothing is asked. A row that fails gives NULL and a warning with its inputs; `on_error="raise"`
    makes it the query's error. A search that fails, or that another engine answered, is a warning too, and an answer with a
    warning is not kept. `model` None is the setting `enrich_model`; "offline" is the built-in one, which is never used
    unasked. The session's budgets hold, and `budget_usd`, US dollars for all that these functions ask. Ctrl-C stops a query;
    what was answered by then is kept. Calling `register` again changes the options.

    DuckDB may call a function for rows that it does not show in the end. To ask about few rows of many, sort and cut first:
    `SELECT ask_ai(name, 'Who leads it?') FROM (FROM companies ORDER BY name LIMIT 5)`.

    >>> import duckdb
    >>> register(duckdb.connect(), "stps_", on_error="raise", budget_usd=0.5)

    Raises:
        ConfigError: an option is wrong, duckdb or pyarrow is missing, or the database has other functions of these names.
    """
    from ipy_websearch.errors import ConfigError
    from ipy_websearch.options import checked

    if on_error not in ("null", "raise"):
        raise ConfigError(f"on_error is {on_error!r}; it must be 'null' or 'raise'")
    if not re.fullmatch(r"(?:[A-Za-z_][A-Za-z0-9_]*)?", prefix):
        raise ConfigError(f"prefix is {prefix!r}; it must be letters, digits and _ (such as stps_), not beginning with a digit")
    if not hasattr(con, "create_function"):
        raise ConfigError(f"register needs a DuckDB connection, not {type(con).__name__}")
    try:
        import pyarrow as pyarrow
    except ImportError as exc:
        raise ConfigError('the SQL functions need duckdb and pyarrow: pip install "ipy_websearch[sql]"') from exc
    from ipy_websearch.sql.functions import SqlOptions, listen_for_interrupts

    most, budget = checked("concurrency", concurrency) or 16, checked("budget_usd", budget_usd)
    options = SqlOptions(uuid.uuid4().hex[:12], model, provider, most, budget, bool(resume), on_error)
    functions = _known(con, prefix) or _create(con, prefix, options)
    functions.options = options
    listen_for_interrupts()


def _known(con: Any, prefix: str) -> Functions | None:
    """Return what was registered with this database before, from whichever of its connections."""
    import duckdb

    try:
        found = con.cursor().execute(f"SELECT {prefix}{_ID}()").fetchall()
    except duckdb.Error:
        return None
    return _registered[found[0][0]][0] if found[0][0] in _registered else None


def _create(con: Any, prefix: str, options: SqlOptions) -> Functions:
    import duckdb

    from ipy_websearch.errors import ConfigError
    from ipy_websearch.sql.functions import Functions

    functions, number = Functions(prefix, options), uuid.uuid4().hex
    own = {"name": _ID, "function": lambda: number, "parameters": [], "return_type": "VARCHAR"}
    definitions = [*functions.definitions(), own]
    for definition in definitions:
        name = f"{prefix}{definition['name']}"
        try:
            con.create_function(**{**definition, "name": name})
        except duckdb.Error as exc:
            taken = "; choose another prefix" if "already" in str(exc) else ""
            raise ConfigError(f"{name} cannot be registered ({str(exc).splitlines()[0]}){taken}") from exc
    _registered[number] = (functions, definitions)
    return functions
