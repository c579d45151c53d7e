"""`%trace`: what went on behind the last answer, all at once or one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ipy_websearch.errors import ConfigError
from ipy_websearch.magics.arguments import parse_line
from ipy_websearch.magics.common import HELP, OUTPUT, assign, check_output, shows_help

_places: WeakKeyDictionary[Any, tuple[Any, int]] = WeakKeyDictionary()
"""For each session the answer whose steps are being walked through, and the number of the step shown last."""


@magics_class
class TraceMagics(Magics):
    """Holds the magic; where a walk has got to is kept for the session."""

    @no_var_expand
    @shows_help
    @magic_arguments()
    @argument("number", nargs="*", help="Number of the one step to show whole (default: an overview of all).")
    @argument("--step", action="store_true", help="Show the next step each time; with a number, go on from there.")
    @argument("--widget", action="store_true", help="Walk through the steps on a timeline, with buttons and arrow keys.")
    @OUTPUT
    @HELP
    @line_magic
    def trace(self, line: str) -> Any:
        """Show the steps of the last answer: requests and responses as JSON, milliseconds, tokens, costs.

        Returns the steps that are shown as a DataFrame, like `answer.steps`; with --widget, the widget (which wants
        pip install "ipy_websearch[widget]": without it, a page to unfold).

        Examples:
            %trace
            %trace 2
            %trace --step
            %trace --step 1
            %trace --widget
        """
        args, text = parse_line(self.trace, line)
        check_output(args)
        from ipy_websearch import api

        session = api.session()
        if not session.answers:
            raise ConfigError("there is no answer yet whose steps could be shown; ask first, with %ask or %%ask")
        answer = session.answers[-1]
        number = _number(text, len(answer.trace))
        note = ""
        if args.widget:
            if args.step:
                raise UsageError("%trace takes --step or --widget, not both: the widget has its own steps")
            from ipy_websearch.display.trace_widget import trace_widget

            widget = trace_widget(answer, number or 1, redact=_redactor(session))
            assign(self.shell, args, widget)
            return widget
        if args.step:
            number = number or _next_number(session, answer)
            if number > len(answer.trace):
                print(f"That was the last of {_steps(answer)}; %trace --step 1 begins anew.")
                return None
            _places[session] = (answer, number)
            note = "%trace --step shows the next step" if number < len(answer.trace) else "this is the last step"
        from ipy_websearch.display.trace import trace_frame

        frame = trace_frame(answer, number, note=note, redact=_redactor(session))
        assign(self.shell, args, frame)
        return frame


def _redactor(session: Any) -> Callable[[str], str]:
    """Return a function that takes keys out of texts; the keys are looked up once, since a keyring may be slow."""
    secrets = session.keys.secrets()

    def redact(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "[key]")
        return text

    return redact


def _number(text: str, steps: int) -> int | None:
    """Return the number of a step, None when there is none in the line."""
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= steps:
        raise UsageError(f"%trace takes the number of a step, 1 to {steps}, not {text!r} (%trace --help)")
    return int(text)


def _next_number(session: Any, answer: Any) -> int:
    """Return the step after the one shown last, 1 when another answer has come since."""
    walked, number = _places.get(session, (None, 0))
    return number + 1 if walked is answer else 1


def _steps(answer: Any) -> str:
    count = len(answer.trace)
    return f"{count} step{'' if count == 1 else 's'}"
