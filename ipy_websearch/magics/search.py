"""`%search`: a web search as a DataFrame. `%fetch`: a page as Markdown."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument

from ipy_websearch.magics.arguments import FRESH, HELP, NOT_SITE, OUTPUT, PROVIDER, SITE, Call, magic


@magic("line")
@argument("query", nargs="*", help="Everything after the options, as it is typed; {name} inserts a variable.")
@argument("-n", "--count", type=int, metavar="N", help="Results to ask for (default: WebSearch.count, 5).")
@PROVIDER
@argument("--freshness", help="pd, pw, pm, py (past day, week, month, year) or 2026-01-01to2026-06-30.")
@argument("--country", help="Two-letter country of the results.")
@argument("--language", help="Two-letter language of the results.")
@argument("--safe-search", choices=("off", "moderate", "strict"), metavar="LEVEL", help="off, moderate or strict.")
@SITE
@NOT_SITE
@argument("--goggle", dest="goggles", action="append", metavar="GOGGLE", help="A Brave goggle: its name, address or rules.")
@FRESH
@OUTPUT
@HELP
def search(call: Call) -> Any:
    """Search the web and return the results as a DataFrame. Options stand in front of the query; `--` ends them.

    Examples:
        %search duckdb 2.0 release notes
        df = %search --freshness pw --site duckdb.org -n 10 window functions
        %search --provider local -o hits moons of Mars
        %search --provider brave --goggle academic sleep and memory
    """
    if not call.text:
        raise UsageError("%search needs something to search for, such as: %search moons of Mars (%search --help)")
    from ipy_websearch import api

    return call.keep(api.search(call.text, **call.options).to_frame())


@magic("line", names=True)
@argument("url", nargs="*", help="Address of the page, or of a document in the local index (corpus://planets/mars).")
@argument("--offset", type=int, metavar="N", help="First line of the Markdown to return, counted from 1.")
@argument("--limit", type=int, metavar="N", help="Most lines to return (default: all).")
@FRESH
@OUTPUT
@HELP
def fetch(call: Call) -> Any:
    """Fetch a page and return it as Markdown.

    Examples:
        %fetch https://example.com
        page = %fetch --limit 40 corpus://planets/mars
    """
    url = call.text.strip("\"'")
    if not url or any(c.isspace() for c in url):
        raise UsageError("%fetch needs one address, such as: %fetch https://example.com (%fetch --help)")
    from ipy_websearch import api

    return call.keep(api.fetch(url, **call.options))
