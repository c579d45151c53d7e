"""`%trace`: the steps behind the last answer. `%panels`: the whole outputs of the session's tool calls."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument

from ipy_websearch.magics.arguments import HELP, OUTPUT, WebMagics, magic, parse


class TraceMagics(WebMagics):
    """Holds the magics, and where a walk through an answer has got to."""

    # The answer whose steps are shown one at a time, and the number of the step shown last.
    _walk: tuple[Any, int] = (None, 0)

    @magic("line")
    @argument("number", nargs="*", help="Number of the step to show whole (default: an overview of all).")
    @argument("--step", action="store_true", help="Show the next step each time; with a number, go on from there.")
    @argument("--widget", action="store_true", help="Walk through the steps on a timeline, with buttons and arrow keys.")
    @argument("--otel", metavar="FILE", help="Write the steps as OpenTelemetry spans into this JSON file, without texts.")
    @OUTPUT
    @HELP
    def trace(self, line: str) -> Any:
        """Show the steps of the last answer: requests and responses as JSON, milliseconds, tokens, costs.

        Returns the steps that are shown as a DataFrame, like `answer.steps`; with --widget, the widget (which needs
        pip install "ipy_websearch[widget]": without it, a page to unfold).

        Examples:
            %trace
            %trace 2
            %trace --step
            %trace --step 1
            %trace --widget
            %trace --otel trace.json
        """
        call = parse(self.trace, line, anywhere=True)
        session, options = self.session, call.options
        if not session.answers:
            print("There are no steps to show yet; ask first, with %ask or %%ask.")
            return None
        answer = session.answers[-1]
        steps = len(answer.trace)
        if "otel" in options:
            print(f"{steps} steps written to {session.export_trace(options['otel'])}")
            return None
        if call.text and call.text not in map(str, range(1, steps + 1)):
            raise UsageError(f"%trace takes the number of a step, 1 to {steps}, not {call.text!r} (%trace --help)")
        number = int(call.text) if call.text else None
        from ipy_websearch.display.trace import trace_frame, trace_widget, without_keys
        from ipy_websearch.text import plural

        if "widget" in options:
            return self.keep(call, trace_widget(without_keys(answer, session.redact), number or 1))
        note = ""
        if "step" in options:
            number = number or (self._walk[1] if self._walk[0] is answer else 0) + 1
            if number > steps:
                print(f"That was the last of {plural(steps, 'step')}; %trace --step 1 begins anew.")
                return None
            self._walk = (answer, number)
            note = "%trace --step shows the next step" if number < steps else "this is the last step"
        return self.keep(call, trace_frame(without_keys(answer, session.redact), number, note=note))

    @magic("line")
    @argument("panel", nargs="*", help="Id of the panel to show, such as P3 (default: a table of all).")
    @OUTPUT
    @HELP
    def panels(self, line: str) -> Any:
        """List the panels of the session, or return one of them: all that a tool call gave, nothing cut.

        The list is a DataFrame by id: tool, lines, characters, title, failed. `.content` of a panel is its text.

        Examples:
            %panels
            %panels P3
            panel = %panels P3
        """
        call = parse(self.panels, line, anywhere=True)
        panels = self.session.panels
        if call.text:
            panel = panels.get(call.text.upper()) or panels.get(f"P{call.text}")
            if panel is None:
                have = f"the newest is P{len(panels)}" if len(panels) else "there are none yet"
                raise UsageError(f"there is no panel {call.text!r}; {have} (%panels lists them)")
            return self.keep(call, panel)
        if not len(panels):
            print("No panels yet: each tool call of an answer makes one.")
            return None
        from ipy_websearch.frames import WebFrame

        rows = [
            (panel.tool, len(panel.content.splitlines()), len(panel.content), panel.title, panel.is_error)
            for panel in panels.values()
        ]
        names = ["tool", "lines", "characters", "title", "failed"]
        return self.keep(call, WebFrame(rows, columns=names, index=[*panels]))
