"""`%%enrich`: fill columns of a DataFrame from a cell with one line for each column."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument

from ipy_websearch.magics.arguments import HELP, OUTPUT, PROVIDER, Call, Interrupted, magic, variables_of
from ipy_websearch.settings import did_you_mean

_LINE = (
    r"(?s)(?P<name>[^:=]+?)\s*:\s*"
    r"(?:(?P<kind>[A-Za-z]+(?:\[str\])?(?=\s*=)|\[[^\]]*\](?=\s*[=:]))\s*[=:]\s*)?(?P<question>.+)"
)
EXAMPLE = "ceo: Who is the CEO of {company}?"


@magic("line", "cell", names=True)
@argument("frame", nargs="*", help="The variable that holds the DataFrame.")
@argument("-m", "--model", help="Model to ask (default: WebSearch.enrich_model; 'offline' is the built-in one).")
@PROVIDER
@argument("--concurrency", type=int, metavar="N", help="Requests at once (default 16).")
@argument("--max-searches", type=int, metavar="N", help="Searches for a row (default 1; 0: none).")
@argument("--read", dest="read_pages", type=int, metavar="N", help="Pages that each search reads (default 0).")
@argument("--budget", dest="budget_usd", metavar="USD", help="US dollars that it may cost in all.")
@argument("--sample", type=int, metavar="N", help="Try the first N distinct rows, and say what the rest would take.")
@argument("--mode", choices=("now", "batch"), metavar="MODE", help="now, or batch: half the price, done within a day.")
@argument("--cluster", metavar="NAME", help="Ask on the Dask cluster in this variable, or at this scheduler's address.")
@argument("--fresh", dest="resume", action="store_false", help="Ask again for what the store has.")
@argument(
    "--no-sources", dest="sources", action="store_false", help="Add the values only, without source, quote and confidence."
)
@argument("--no-progress", dest="progress", action="store_false", help="Draw no bar and no report.")
@OUTPUT
@HELP
def enrich(call: Call) -> Any:
    """Fill columns of a DataFrame from the web: one line of the cell for each column, with a question for each row.

    A line is `name: question` or `name: type = question`; types are str, int, float, bool, date, list, or the allowed
    values in brackets. {column} is the row's value. The stop button keeps what is filled by then.

    Examples:
        %%enrich companies --sample 5 -o out
        ceo: Who is the CEO of {company}?
        founded: int = In what year was {company} founded?
        size: [small, medium, large] = How large is {company}?
    """
    if not call.text:
        raise UsageError(f"%%enrich needs the name of a DataFrame, and a line such as {EXAMPLE} (%enrich --help)")
    from ipy_websearch import api
    from ipy_websearch.enrichment.frames import is_frame

    options, cell = call.options, call.cell.rstrip()
    frame = _named(call, call.text, "DataFrame", is_frame)
    if "cluster" in options and not re.fullmatch(r"[a-z+]+://\S+|\S+:\d+", options["cluster"]):
        options["cluster"] = _named(call, options["cluster"], "Dask client or cluster", is_cluster)
    run = call.session.enrichment(frame, parse_cell(cell.removesuffix(";")), **options)
    enriched, interrupted = api.run_enrichment(run, told="")
    call.keep(enriched)
    if interrupted:  # the cell fails, so that those that wait do not run; the frame so far is its result all the same
        call.shell.displayhook(enriched)
        raise Interrupted("what was filled by then is in _, and is not asked again; run the cell again for the rest")
    return None if cell.endswith(";") else enriched


def _named(call: Call, name: str, kind: str, fits: Callable[[Any], bool]) -> Any:
    """Return the user's variable of that name, which must fit."""
    variables = variables_of(call.shell)
    if name in variables and fits(variables[name]):  # the others are not looked at: some fail or connect when they are
        return variables[name]
    found = [key for key, value in variables.items() if fits(value)]
    hint = did_you_mean(name, found) or (f"; there are: {', '.join(found[:8])}" if found else "")
    raise UsageError(f"there is no {kind} called {name!r}{hint}")


def is_cluster(value: Any) -> bool:
    """Return whether something is a Dask client or a cluster; Dask is not imported for it."""
    return hasattr(type(value), "dashboard_link") or hasattr(value, "scheduler_address")


def parse_cell(cell: str) -> dict[str, Any]:
    """Return the columns that a cell asks for: by name a question, or (question, type). Lines with "#" are comments.

    Raises:
        UsageError: a line is no `name: question`, or a name stands twice.
    """
    columns: dict[str, Any] = {}
    for line in (line.strip() for line in cell.splitlines() if re.match(r"\s*[^\s#]", line)):
        match = re.fullmatch(_LINE, line)
        if match is None:
            raise UsageError(f"cannot read the line {line!r}; write it as {EXAMPLE} or with a type as founded: int = …")
        name, kind, question = match["name"].strip(), match["kind"], match["question"].strip()
        if name in columns:
            raise UsageError(f"the column {name!r} stands twice in the cell")
        if kind and kind.startswith("["):
            kind = [part.strip().strip("'\"") for part in kind[1:-1].split(",") if part.strip()]
        columns[name] = (question, kind) if kind else question
    if not columns:
        raise UsageError(f"the cell has no column; write a line such as {EXAMPLE}")
    return columns
