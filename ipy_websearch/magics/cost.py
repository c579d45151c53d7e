"""`%cost`: what the session spent, from the ledger."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ipy_websearch.magics.arguments import parse_line
from ipy_websearch.magics.common import HELP, OUTPUT, assign, check_output, shows_help

GROUPS = ("question", "model", "provider", "kind", "day", "notebook", "session")


@magics_class
class CostMagics(Magics):
    """Holds the magic; its state lives in the session."""

    @no_var_expand
    @shows_help
    @magic_arguments()
    @argument("--by", choices=GROUPS, help="Sum up by this instead of one row for each call.")
    @argument("--all", action="store_true", help="All sessions in the ledger, not only this one.")
    @argument("--budget", metavar="USD", help="Set the session's ceiling; 'none' takes it away.")
    @OUTPUT
    @HELP
    @line_magic
    def cost(self, line: str) -> Any:
        """Return what was spent as a DataFrame: one row for each model request and each paid search.

        Column usd is US dollars; an unknown price is NaN, never 0.

        Examples:
            %cost
            %cost --by model
            %cost --budget 1.00
        """
        args, text = parse_line(self.cost, line)
        check_output(args)
        if text:
            raise UsageError(f"%cost takes options only, not {text!r} (%cost --help)")
        from ipy_websearch import api

        session = api.session()
        if args.budget is not None:
            return self._set_budget(session, args.budget)
        frame = session.ledger.frame(session=None if args.all else session.id, by=args.by)
        assign(self.shell, args, frame)
        return frame

    def _set_budget(self, session: Any, text: str) -> None:
        if text.lower() == "none":
            session.settings.session_budget_usd = None
            print("The session has no ceiling.")
            return
        try:
            amount = float(text.lower().removesuffix("usd"))
        except ValueError:
            amount = -1.0
        if not 0 <= amount < float("inf"):
            raise UsageError(f"--budget {text}: this is not an amount of US dollars such as 1.00")
        session.settings.session_budget_usd = amount
        print(f"This session may cost {amount:g} USD in all; the call that would pass that is refused.")
