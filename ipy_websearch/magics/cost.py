"""`%cost`: the costs from the ledger, the budgets, and a plot."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument
from IPython.display import display

from ipy_websearch.magics.arguments import HELP, OUTPUT, Call, magic


@magic("line", names=True)
@argument("--by", metavar="GROUP", help="Sum up by question (the default), model, provider, kind, day or session.")
@argument("--rows", action="store_true", help="One row for each model request and paid call, without sums.")
@argument("--all", dest="everything", action="store_true", help="All sessions in the ledger, not only this one.")
@argument("--since", metavar="WHEN", help="Only what came later: 7d, 24h, 30m, 2w ago, or a date such as 2026-11-01 (UTC).")
@argument("--plot", action="store_true", help='Draw the costs over time and by kind (pip install "ipy_websearch[plot]").')
@argument("--reset", action="store_true", help="Start this session's count anew; the ledger keeps every row.")
@argument("--budget", dest="session_budget_usd", metavar="USD", help="Set the session's budget; 'none' removes it.")
@argument("--day-budget", dest="day_budget_usd", metavar="USD", help="Set the budget of a day (UTC), over all sessions.")
@OUTPUT
@HELP
def cost(call: Call) -> Any:
    """Return what was spent as a DataFrame: one row for each question, or for each group of `--by`.

    Column usd is US dollars; an unknown price is NaN, never 0. Under the table: the total, models and providers without
    a known price, and what caches saved.

    Examples:
        %cost
        %cost --by model
        %cost --all --since 7d --by day --plot
        %cost --budget 1.00
    """
    if call.text:
        raise UsageError(f"%cost takes options only, not {call.text!r} (%cost --help)")
    session, options = call.session, call.options
    plot, rows, reset = (options.pop(name, False) for name in ("plot", "rows", "reset"))
    if reset:
        session.reset_cost()
        print("The session's count starts anew; what was spent stays in the ledger (%cost --all).")
    for name in ("session_budget_usd", "day_budget_usd"):
        if name in options:
            _set_budget(session.settings, name, options.pop(name))
    if not rows:
        options.setdefault("by", "question")
    frame = session.cost(**options)
    for line in session.ledger.news():
        print(line)
    if plot:
        _plot(session, options, frame.summary.scope)
    return call.keep(frame)


def _set_budget(settings: Any, name: str, value: str) -> None:
    """Set a budget, or remove it; it holds from the next call on."""
    from ipy_websearch.options import checked

    usd = None if value == "none" else checked(name, value)
    setattr(settings, name, None if usd is None else float(usd))
    print(f"WebSearch.{name}: {'none' if usd is None else f'{usd:f} USD; a call that would exceed it is refused'}.")


def _plot(session: Any, options: dict[str, Any], scope: str) -> None:
    """Show the plot, or print that there is nothing to plot."""
    from base64 import b64encode

    from ipy_websearch.display.tables import cost_png

    by = options.get("by", "kind")
    calls = session.cost(**{**options, "by": None})
    if calls.empty:
        print(f"There is nothing to plot: no calls in {scope}.")
        return
    forms = {"image/png": b64encode(cost_png(calls, scope, by)).decode("ascii"), "text/plain": f"Costs by {by}, {scope}."}
    display(forms, raw=True)
