"""`%cost`: what was spent, from the ledger; the ceilings; the picture."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ipy_websearch.errors import ConfigError
from ipy_websearch.magics.arguments import parse_line
from ipy_websearch.magics.common import HELP, OUTPUT, assign, check_output, shows_help
from ipy_websearch.options import moment as named_moment

GROUPS = ("question", "model", "engine", "provider", "kind", "day", "notebook", "session")


@magics_class
class CostMagics(Magics):
    """Holds the magic; its state lives in the session."""

    @no_var_expand
    @shows_help
    @magic_arguments()
    @argument(
        "--by", choices=GROUPS, metavar="GROUP", help=f"Sum up by this instead of one row for each call: {', '.join(GROUPS)}."
    )
    @argument("--all", action="store_true", help="All sessions in the ledger, not only this one.")
    @argument(
        "--since",
        metavar="WHEN",
        help="Only what came later: 7d, 24h, 30m, 2w ago, or a date such as 2026-11-01 (UTC). "
        "All sessions, when that is before this one began.",
    )
    @argument("--csv", metavar="FILE", help="Write the table to this file as well.")
    @argument("--plot", action="store_true", help='Draw the costs over time and by kind (pip install "ipy_websearch[plot]").')
    @argument("--reset", action="store_true", help="Let this session's count start anew; the ledger keeps every row.")
    @argument("--budget", metavar="USD", help="Set the session's ceiling; 'none' takes it away.")
    @argument("--day-budget", metavar="USD", help="Set the ceiling of a day (UTC) over all sessions; 'none' takes it away.")
    @OUTPUT
    @HELP
    @line_magic
    def cost(self, line: str) -> Any:
        """Return what was spent as a DataFrame: one row for each model request and each paid search.

        Column usd is US dollars; an unknown price is NaN, never 0. Under the table: the total, models and engines without
        a known price, and what caches saved.

        Examples:
            %cost
            %cost --by model
            %cost --all --since 7d --by day --plot
            %cost --budget 1.00
        """
        args, text = parse_line(self.cost, line)
        check_output(args)
        if text:
            raise UsageError(f"%cost takes options only, not {text!r} (%cost --help)")
        since = None if args.since is None else moment(args.since, datetime.now(UTC))
        budgets = {
            "session_budget_usd": _amount("--budget", args.budget),
            "day_budget_usd": _amount("--day-budget", args.day_budget),
        }
        from ipy_websearch import api

        session = api.session()
        if args.reset:
            session.reset_cost()
            print("The session's count starts anew; what was spent stays in the ledger (%cost --all).")
        for name, amount in budgets.items():
            if amount is not None:
                _set_budget(session, name, None if amount < 0 else amount)
        asked = args.by or args.all or args.since or args.csv or args.plot or args.output
        if not asked and (args.reset or args.budget is not None or args.day_budget is not None):
            return None
        everything = args.all or (since is not None and since <= session.started)
        frame = session.cost(by=args.by, everything=everything, since=since)
        if args.plot:
            self._plot(session, everything, since, frame.summary.scope if frame.summary else "")
        if args.csv:
            _write_csv(frame, args.csv)
        assign(self.shell, args, frame)
        return frame

    def _plot(self, session: Any, everything: bool, since: datetime | None, scope: str) -> None:
        """Show the picture; where there is nothing to draw, say so."""
        from base64 import b64encode

        from IPython.display import display

        from ipy_websearch.display.charts import cost_png, cost_words

        steps = session.cost_curve(everything=everything, since=since)
        if not steps:
            print(f"There is nothing to plot: no calls in {scope}.")
            return
        picture = b64encode(cost_png(steps, scope)).decode("ascii")
        display({"image/png": picture, "text/plain": cost_words(steps)}, raw=True)


def moment(text: str, now: datetime) -> datetime:
    """Return the moment (UTC) that a text such as "7d", "24h", "2026-11-01" or "2026-11-01 14:30" names.

    Raises:
        UsageError: it names none.
    """
    try:
        return named_moment("--since", text, now)
    except ConfigError as exc:
        raise UsageError(str(exc)) from None


def _amount(option: str, text: str | None) -> Decimal | None:
    """Return an amount of US dollars, -1 for "none", None when the option was not given."""
    if text is None:
        return None
    if text.lower() == "none":
        return Decimal(-1)
    try:
        amount = Decimal(text.lower().removesuffix("usd").removeprefix("$").strip())
    except ArithmeticError:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise UsageError(f"{option} {text}: this is not an amount of US dollars such as 1.00")
    return amount


def _set_budget(session: Any, name: str, amount: Decimal | None) -> None:
    setattr(session.settings, name, None if amount is None else float(amount))
    of_day = name == "day_budget_usd"
    if amount is None:
        print("A day has no ceiling." if of_day else "The session has no ceiling.")
        return
    whole = "All sessions may cost" if of_day else "This session may cost"
    ceiling = session.budgets.ceilings()[2 if of_day else 1]
    left, held = ceiling.room, f" ({ceiling.cut_off_words})" if ceiling.cut_off_words else ""
    print(
        f"{whole} {amount:f} USD {'on a day (UTC)' if of_day else 'in all'}, of which {max(left, Decimal(0)):.4f} USD is "
        f"left{held}; the call that would pass that is refused."
    )


def _write_csv(frame: Any, name: str) -> None:
    path = Path(name).expanduser()
    try:
        frame.to_csv(path, index=False)
    except OSError as exc:
        raise UsageError(f"--csv {name}: the file cannot be written ({exc.strerror or exc})") from None
    print(f"{len(frame):,} rows were written to {path}.")
