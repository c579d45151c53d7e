"""`%%enrich`: fill columns of a DataFrame from a cell with a line for each column."""

from __future__ import annotations

import re
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, cell_magic, magics_class, no_var_expand, output_can_be_silenced
from IPython.core.magic_arguments import argument, magic_arguments

from ipy_websearch.magics.arguments import parse_line
from ipy_websearch.magics.common import HELP, OUTPUT, PROVIDER, Interrupted, assign, check_output, shows_help
from ipy_websearch.settings import did_you_mean

_KIND = r"(?:(?P<kind>[A-Za-z]+(?:\[str\])?(?=\s*=)|\[[^\]]*\](?=\s*[=:]))\s*[=:]\s*)?"
_LINE = re.compile(rf"(?P<name>[^:=]+?)\s*:\s*{_KIND}(?P<question>.+)", re.DOTALL)
_ADDRESS = re.compile(r"[a-z+]+://\S+|\S+:\d+")
MODES = ("now", "batch")
EXAMPLE = "ceo: Who is the CEO of {company}?"


@magics_class
class EnrichMagics(Magics):
    """Holds the magic; its state lives in the session."""

    @no_var_expand
    @output_can_be_silenced
    @shows_help
    @magic_arguments()
    @argument("frame", nargs="*", help="The variable that holds the DataFrame, pandas' or Dask's.")
    @argument("-m", "--model", help="Model to ask (default: WebSearch.enrich_model; 'offline' is the built-in one).")
    @PROVIDER
    @argument("--concurrency", type=int, default=16, help="Requests at once (default 16).")
    @argument("--max-searches", type=int, default=1, help="Searches for a row (default 1; 0: none).")
    @argument("--max-fetches", type=int, default=0, help="Pages to read for a row, as robots.txt allows (default 0).")
    @argument("--budget", metavar="USD", help="US dollars that it may cost in all.")
    @argument("--sample", type=int, metavar="N", help="Try the first N distinct rows only, and say what the whole would take.")
    @argument("--mode", choices=MODES, metavar="MODE", help="now (default), or batch: half the price, done within a day.")
    @argument("--cluster", metavar="NAME", help="Ask on the Dask cluster in this variable (or at this scheduler's address).")
    @argument("--fresh", action="store_true", help="Ask again for what the store has.")
    @argument("--no-sources", action="store_true", help="Add the values only, without source, quote and confidence.")
    @argument("--no-progress", action="store_true", help="Draw no bar and no report.")
    @OUTPUT
    @HELP
    @cell_magic
    def enrich(self, line: str, cell: str = "") -> Any:
        """Fill columns of a DataFrame from the web: one line of the cell for each column, with a question for each row.

        A line is `name: question` or `name: type = question` (`name: type: question` and `name (type): question` are the
        same); types are str, int, float, bool, date, list, or the allowed values in brackets. {column} stands for the row's
        value. The stop button keeps what is filled by then, and stops the cells that wait.

        Examples:
            %%enrich companies --sample 5 -o out
            ceo: Who is the CEO of {company}?
            founded: int = In what year was {company} founded?
            size: [small, medium, large] = How large is {company}?
        """
        args, name = parse_line(self.enrich, line)
        check_output(args)
        frame, cluster = self._frame(name), self._cluster(args.cluster)
        columns = parse_cell(cell)
        from ipy_websearch import api

        work = api.session().enrichment(
            frame,
            columns,
            model=args.model,
            provider=args.provider,
            concurrency=args.concurrency,
            max_searches=args.max_searches,
            max_fetches=args.max_fetches,
            budget_usd=args.budget,
            sample=args.sample,
            mode=args.mode,
            cluster=cluster,
            resume=not args.fresh,
            sources=not args.no_sources,
            progress=not args.no_progress,
        )
        enriched, interrupted = api.run_enrichment(work, told="")
        assign(self.shell, args, enriched)
        if interrupted:
            self._stop(enriched, args.output)
        return enriched

    def _stop(self, enriched: Any, output: str | None) -> None:
        """Show the frame so far and keep it as any cell's result, then fail the cell, so that those that wait do not run.

        Raises:
            Interrupted: always.
        """
        assert self.shell is not None
        hook = self.shell.displayhook
        (hook.update_user_ns if hook.quiet() else hook)(enriched)
        kept = f"_ and {output}" if output else "_"
        raise Interrupted(f"what was filled by then is in {kept}, and is not asked again; run the cell again for the rest")

    def _frame(self, name: str) -> Any:
        """Return the DataFrame in the variable of that name."""
        if not name:
            raise UsageError(f"%%enrich needs the name of a DataFrame, and a line such as {EXAMPLE} (%enrich --help)")
        assert self.shell is not None
        variables = self.shell.user_ns
        if name not in variables:
            known = [key for key, value in variables.items() if hasattr(value, "iloc") and not key.startswith("_")]
            hint = did_you_mean(name, known) or (f"; there are {', '.join(known[:8])}" if known else "")
            raise UsageError(f"there is no DataFrame called {name!r}{hint}")
        return variables[name]

    def _cluster(self, name: str | None) -> Any:
        """Return what `--cluster` names: the variable's client or cluster, or the address itself."""
        if name is None or _ADDRESS.fullmatch(name):
            return name
        assert self.shell is not None
        variables = self.shell.user_ns
        if name not in variables:
            known = [key for key, value in variables.items() if is_cluster(value) and not key.startswith("_")]
            hint = did_you_mean(name, known) or (f"; there are {', '.join(known[:8])}" if known else "")
            raise UsageError(f"--cluster: there is no Dask client or cluster called {name!r}{hint}")
        value = variables[name]
        if not is_cluster(value) and not (isinstance(value, str) and _ADDRESS.fullmatch(value)):
            raise UsageError(f"--cluster: {name!r} is no Dask client, cluster or address, but {type(value).__name__}")
        return value


def is_cluster(value: Any) -> bool:
    """Return whether something is a Dask client, or a cluster such as `LocalCluster`; Dask is not imported for it."""
    kinds = [(kind.__module__, kind.__name__) for kind in type(value).__mro__]
    return ("distributed.client", "Client") in kinds or hasattr(type(value), "scheduler_address")


def parse_cell(cell: str) -> dict[str, Any]:
    """Return the columns that a cell asks for: by name a question, or (question, type). Lines with "#" are comments.

    Raises:
        UsageError: a line is no `name: question`, or a name stands twice.
    """
    columns: dict[str, Any] = {}
    for line in filter(None, (line.strip() for line in cell.splitlines())):
        if line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise UsageError(f"cannot read the line {line!r}; write it as {EXAMPLE} or with a type as founded: int = …")
        name, kind, question = match["name"].strip(), match["kind"], match["question"].strip()
        if name in columns:
            raise UsageError(f"the column {name!r} stands twice in the cell")
        columns[name] = (question, _kind(kind)) if kind else question
    if not columns:
        raise UsageError(f"the cell has no column; write a line such as {EXAMPLE}")
    return columns


def _kind(kind: str) -> Any:
    """Return a type's name, or the list of the values in brackets."""
    if not kind.startswith("["):
        return kind
    return [part.strip().strip("'\"") for part in kind[1:-1].split(",") if part.strip()]
