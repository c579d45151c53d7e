"""`%search`: a web search as a DataFrame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ipy_websearch.magics.arguments import parse_line
from ipy_websearch.magics.common import (
    FRESH,
    HELP,
    NOT_SITE,
    OUTPUT,
    PROVIDER,
    SITE,
    assign,
    check_output,
    domain_options,
    shows_help,
)
from ipy_websearch.magics.interpolate import interpolate, variables_of

LEVELS = ("off", "moderate", "strict")


@magics_class
class SearchMagics(Magics):
    """Holds the magic; its state lives in the session."""

    @no_var_expand
    @shows_help
    @magic_arguments()
    @argument("query", nargs="*", help="What to search for; taken as it is typed, {name} puts a variable in.")
    @argument("-n", "--count", type=int, help="Results to ask for (default: WebSearch.count, 5).")
    @PROVIDER
    @argument("--freshness", help="pd, pw, pm, py (past day, week, month, year) or 2026-01-01to2026-06-30.")
    @argument("--country", help="Two-letter country of the results.")
    @argument("--language", help="Two-letter language of the results.")
    @argument("--safe-search", choices=LEVELS, metavar="LEVEL", help="Filter for adult content: off, moderate or strict.")
    @SITE
    @NOT_SITE
    @argument("--goggle", action="append", metavar="GOGGLE", help="A Brave goggle: name, address or rules; may be repeated.")
    @FRESH
    @OUTPUT
    @HELP
    @line_magic
    def search(self, line: str) -> Any:
        """Search the web and return the results as a DataFrame.

        Examples:
            %search duckdb 2.0 release notes
            df = %search --freshness pw --site duckdb.org -n 10 window functions
            %search --provider local moons of Mars -o hits
            %search --provider brave --goggle academic sleep and memory
        """
        args, text = parse_line(self.search, line)
        check_output(args)
        notices: list[str] = []
        query = interpolate(text, variables_of(self.shell), notices)
        if not query:
            raise UsageError("%search needs something to search for, such as: %search moons of Mars (%search --help)")
        from ipy_websearch import api

        results = api.search(
            query,
            count=args.count,
            provider=args.provider,
            freshness=args.freshness,
            country=args.country,
            language=args.language,
            safe_search=args.safe_search,
            **domain_options(args),
            goggles=args.goggle,
            fresh=args.fresh,
        )
        frame = replace(results, notices=(*notices, *results.notices)).to_frame()
        assign(self.shell, args, frame)
        return frame
