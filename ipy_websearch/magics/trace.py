"""`%trace`: the steps behind the last answer. `%panels`: the whole outputs of the session's tool calls."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument

from ipy_websearch.magics.arguments import HELP, OUTPUT, Call, magic


@magic("line", names=True)
@argument("number", nargs="*", help="Number of the step to show whole (default: an overview of all).")
@argument("--step", action="store_true", help="Show the next step each time; with a number, go on from there.")
@argument("--widget", action="store_true", help="Walk through the steps on a timeline, with buttons and arrow keys.")
@OUTPUT
@HELP
def trace(call: Call) -> Any:
    """Show the steps of the last answer: requests and responses as JSON, milliseconds, tokens, costs.

    Returns the steps that are shown as a DataFrame, like `answer.steps`; with --widget, the widget (which needs
    pip install "ipy_websearch[widget]": without it, a page to unfold).

    Examples:
        %trace
        %trace 2
        %trace --step
        %trace --step 1
        %trace --widget
    """
    session, options = call.session, call.options
    answer = next(reversed(session.answers), None)
    if answer is None or not answer.trace:
        print("There are no steps to show yet; ask first, with %ask or %%ask.")
        return None
    steps = len(answer.trace)
    if call.text and call.text not in map(str, range(1, steps + 1)):
        raise UsageError(f"%trace takes the number of a step, 1 to {steps}, not {call.text!r} (%trace --help)")
    from ipy_websearch.display.trace import trace_frame, trace_widget, without_keys

    number, note, shown = int(call.text or 0), "", without_keys(answer, session.redact)
    if "widget" in options:
        return call.keep(trace_widget(shown, number or 1))
    if "step" in options:
        last_answer, last_number = session.last_step_shown
        number = number or (last_number % steps if last_answer is answer else 0) + 1
        session.last_step_shown = (answer, number)
        note = "%trace --step shows the next step" if number < steps else "this is the last step; %trace --step begins anew"
    return call.keep(trace_frame(shown, number, note=note))


@magic("line", names=True)
@argument("panel", nargs="*", help="Id of the panel to show, such as P3 (default: a table of all).")
@OUTPUT
@HELP
def panels(call: Call) -> Any:
    """List the panels of the session, or return one of them: all that a tool call gave, nothing cut.

    The list is a DataFrame by id: tool, lines, characters, title, failed. `.content` of a panel is its text.

    Examples:
        %panels
        %panels P3
        panel = %panels P3
    """
    panels = call.session.panels
    if call.text:
        panel = panels.get(call.text.upper()) or panels.get(f"P{call.text}")
        if panel is None:
            raise UsageError(f"there is no panel {call.text!r}; there are {len(panels) or 'none yet'} (%panels lists them)")
        return call.keep(panel)
    if not len(panels):
        print("No panels yet: each tool call of an answer makes one.")
        return None
    from ipy_websearch.frames import WebFrame

    rows = [(one.tool, len(one.content.splitlines()), len(one.content), one.title, one.is_error) for one in panels.values()]
    return call.keep(WebFrame(rows, columns=["tool", "lines", "characters", "title", "failed"], index=[*panels]))
