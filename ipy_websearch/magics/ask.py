"""`%ask` and `%%ask`: a question to the web, answered with its sources while you watch."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument

from ipy_websearch.magics.arguments import (
    FRESH,
    HELP,
    NOT_SITE,
    OUTPUT,
    PROVIDER,
    SITE,
    Call,
    Interrupted,
    interpolate,
    magic,
    variables_of,
)
from ipy_websearch.settings import CHECKS


@magic("line", "cell")
@argument("question", nargs="*", help="Everything after the options, as it is typed; {name} inserts a variable.")
@argument("-m", "--model", help="Model to ask (default: WebSearch.model; 'offline' is the built-in one).")
@argument("--tools", help="Tools or tool sets, separated by commas (default: standard).")
@PROVIDER
@argument("--max-searches", type=int, metavar="N", help="Searches the answer may make (default 5).")
@argument("--read", dest="read_pages", type=int, metavar="N", help="Pages that each search reads (default 3; 0: none).")
@argument("--max-steps", type=int, metavar="N", help="Model requests with tools (default 8).")
@argument("--budget", dest="budget_usd", metavar="USD", help="US dollars the answer may cost, searches included.")
@argument("--timeout", dest="timeout_s", type=float, metavar="SECONDS", help="Seconds it may take (default 120).")
@SITE
@NOT_SITE
@argument("--table", dest="columns", metavar="COLUMNS", help='Answer with a table: "name, price: float, url".')
@argument("--effort", choices=("low", "medium", "high"), help="How hard the model is to think, where it can be told.")
@argument("--system", metavar="TEXT", help="Instructions of your own, added to the system prompt.")
@argument("--check", choices=CHECKS, help="Compare every sentence with its sources (mark), have it mended (repair).")
@argument("--estimate", action="store_true", help="Say what the question may cost, and send nothing.")
@argument("--follow", action="store_true", help="Continue the last conversation.")
@argument("--reset", action="store_true", help="Forget the conversation; without a question, do only that.")
@FRESH
@OUTPUT
@HELP
def ask(call: Call) -> Any:
    """Ask a question; the answer is written from web sources, with [n] marks, and returned as an Answer.

    Options stand in front of the question; `--` ends them.

    Examples:
        %ask How many moons does Mars have?

        %%ask --max-searches 3 --budget 0.05 -o answer
        Which laptop under $500 has the best keyboard? Compare {shortlist}.

        %ask --follow and which of them has a matte screen?
    """
    body = interpolate(call.cell.strip("\r\n"), variables_of(call.shell))
    question = "\n\n".join(filter(None, (call.text, body)))
    session, options = call.session, call.options
    if options.pop("reset", False):
        session.answers.clear()
        if not question:
            print("The conversation was forgotten.")
            return None
    if not question.strip():
        raise UsageError("%ask needs a question, such as: %ask How many moons does Mars have? (%ask --help)")
    if options.pop("estimate", False):
        return call.keep(session.estimate(question, **options))
    return _answer(call, session.start(question, **options))


def _answer(call: Call, run: Any) -> Any:
    """Show the events of the run as they come; return the answer, which is kept however the run ends."""
    from ipy_websearch.display.answer import LiveAnswer, live_answer, mark_shown

    is_silent = call.shell.displayhook.quiet()  # by a ";"
    live = LiveAnswer() if is_silent else live_answer(call.shell, spent=lambda: run.booking.cost_usd)
    try:
        for event in run:
            live.show(event)
    except KeyboardInterrupt:
        live.finish(call.keep(run.stop()), "interrupted")
        raise Interrupted("the answer so far is shown above, and what it cost is booked") from None
    except Exception as exc:
        partial = getattr(exc, "partial", None)
        live.finish(partial, "failed")
        if partial is not None:
            call.keep(partial)
        raise
    if not is_silent:
        mark_shown(call.shell, run.answer)
    return call.keep(run.answer)
