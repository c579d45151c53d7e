"""`%ask` and `%%ask`: a question to the web, answered with its sources while you watch."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ipy_websearch.magics.arguments import parse_line
from ipy_websearch.magics.common import (
    FRESH,
    HELP,
    NOT_SITE,
    OUTPUT,
    PROVIDER,
    SITE,
    Interrupted,
    assign,
    check_output,
    domain_options,
    shows_help,
)
from ipy_websearch.magics.interpolate import interpolate, variables_of


@magics_class
class AskMagics(Magics):
    """Holds the magic; its state lives in the session."""

    @no_var_expand
    @shows_help
    @magic_arguments()
    @argument("question", nargs="*", help="The question, as it is typed; {name} puts a variable in.")
    @argument("-m", "--model", help="Model to ask (default: WebSearch.model; 'offline' is the built-in one).")
    @argument("--tools", help="Tools or tool sets, separated by commas (default: standard).")
    @PROVIDER
    @argument("--max-searches", type=int, help="Searches the answer may make (default 5).")
    @argument(
        "--max-steps",
        type=int,
        help="Model requests with tools; calls of the last are not run (default 8).",
    )
    @argument("--budget", metavar="USD", help="US dollars the answer may cost, model and searches together.")
    @argument("--timeout", type=float, metavar="SECONDS", help="Seconds the answer may take (default 120).")
    @SITE
    @NOT_SITE
    @argument("--table", metavar="COLUMNS", help='Answer with a table: "name, price: float, url" (answer.to_frame()).')
    @argument("--system", metavar="TEXT", help="Instructions of your own, added to the system prompt.")
    @argument("--estimate", action="store_true", help="Say what the question may cost, and send nothing.")
    @argument("--context", action="store_true", help="Show what would be sent and its tokens, and send nothing.")
    @argument("--follow", action="store_true", help="Continue the last conversation.")
    @argument("--reset", action="store_true", help="Forget the conversation; without a question, do only that.")
    @FRESH
    @OUTPUT
    @HELP
    @line_cell_magic
    def ask(self, line: str, cell: str | None = None) -> Any:
        """Ask a question; the answer is written from web sources, with [n] marks, and returned as an Answer.

        Examples:
            %ask How many moons does Mars have?

            %%ask --max-searches 3 --budget 0.05 -o answer
            Which laptop under $500 has the best keyboard? Compare {shortlist}.

            %ask --follow and which of them has a matte screen?
        """
        args, text = parse_line(self.ask, line)
        check_output(args)
        notices: list[str] = []
        question = interpolate("\n\n".join(filter(None, (text, (cell or "").strip()))), variables_of(self.shell), notices)
        from ipy_websearch import api

        session = api.session()
        if args.reset:
            session.reset()
            if not question:
                print("The conversation was forgotten.")
                return None
        if not question and not args.context:
            raise UsageError("%ask needs a question, such as: %ask How many moons does Mars have? (%ask --help)")
        options = dict(
            model=args.model,
            tools=args.tools,
            provider=args.provider,
            max_searches=args.max_searches,
            max_steps=args.max_steps,
            budget_usd=args.budget,
            timeout_s=args.timeout,
            **domain_options(args),
            columns=args.table,
            system=args.system,
            follow=args.follow,
            fresh=args.fresh,
        )
        if args.estimate or args.context:
            print(*notices, sep="\n", end="\n" * bool(notices))
        if args.estimate:
            estimate = session.estimate(question, **options)
            assign(self.shell, args, estimate)
            return estimate
        if args.context:
            return self._context(session, question, args, options)
        run = session.start(question, **options)
        run.loop.notices[:0] = notices
        answer = self._watch(api.EventStream(run), session.settings.feedback, args)
        assign(self.shell, args, answer)
        return answer

    def _context(self, session: Any, question: str, args: Any, options: dict[str, Any]) -> Any:
        """Return the table of what would be sent; nothing is."""
        from ipy_websearch.context import context
        from ipy_websearch.display.context import context_frame

        frame = context_frame(context(session, question, **options), redact=session.redact)
        assign(self.shell, args, frame)
        return frame

    def _watch(self, stream: Any, feedback: int, args: Any) -> Any:
        """Show the events as they come; return the answer."""
        from ipy_websearch.display.formatters import mark_shown
        from ipy_websearch.display.live import LiveAnswer
        from ipy_websearch.errors import ModelError

        silent = self.shell is not None and self.shell.displayhook.quiet()
        live = _Silence() if silent else LiveAnswer(self.shell, stream.run.question, feedback=feedback)
        try:
            for event in stream:
                live.show(event)
        except KeyboardInterrupt:
            answer = stream.interrupt()
            live.interrupted(answer)
            assign(self.shell, args, answer)
            raise Interrupted("the answer so far is shown above, and what it cost is booked") from None
        except Exception as exc:
            live.fail(exc)
            if isinstance(exc, ModelError) and exc.partial is not None:
                assign(self.shell, args, exc.partial)
            raise
        live.finish(stream.run.answer)
        mark_shown(self.shell, stream.run.answer)
        return stream.run.answer


class _Silence:
    """Takes the place of the live display when a semicolon at the cell's end asks for none."""

    def show(self, event: Any) -> None: ...

    def finish(self, answer: Any) -> None: ...

    def fail(self, exc: BaseException) -> None: ...

    def interrupted(self, partial: Any = None) -> None: ...
