"""`%fetch`: a page as Markdown."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ipy_websearch.magics.arguments import parse_line
from ipy_websearch.magics.common import FRESH, HELP, OUTPUT, assign, check_output, shows_help
from ipy_websearch.magics.interpolate import interpolate, variables_of


@magics_class
class FetchMagics(Magics):
    """Holds the magic; its state lives in the session."""

    @no_var_expand
    @shows_help
    @magic_arguments()
    @argument("url", nargs="*", help="Address of the page, or one of the local index (corpus://planets/mars).")
    @argument("--offset", type=int, default=1, help="First line of the Markdown to show, counted from 1.")
    @argument("--limit", type=int, help="Most lines to show (default: all).")
    @FRESH
    @OUTPUT
    @HELP
    @line_magic
    def fetch(self, line: str) -> Any:
        """Fetch a page and return it as Markdown.

        Examples:
            %fetch https://example.com
            page = %fetch --limit 40 corpus://planets/mars
        """
        args, text = parse_line(self.fetch, line)
        check_output(args)
        url = interpolate(text, variables_of(self.shell))
        if not url or any(c.isspace() for c in url):
            raise UsageError("%fetch needs one address, such as: %fetch https://example.com (%fetch --help)")
        from ipy_websearch import api

        page = api.fetch(url, offset=args.offset, limit=args.limit, fresh=args.fresh)
        assign(self.shell, args, page)
        return page
