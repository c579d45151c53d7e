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

from ipy_websearch.sql.functions import register

__all__ = ["register"]
