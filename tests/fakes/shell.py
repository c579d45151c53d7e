"""A fresh IPython shell in the test's own process, which keeps what a cell prints and displays."""

from __future__ import annotations

import atexit
import contextlib
import io
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config


class Output(NamedTuple):
    """One display: its mimebundle, its id, whether it replaces the display of that id, and when it came."""

    data: dict[str, Any]
    display_id: str | None = None
    update: bool = False
    at: float = 0.0


@dataclass(slots=True)
class Ran:
    """What came out of one cell. `outputs` are all displays in order, updates too; `error` is None when it went well."""

    value: Any
    error: BaseException | None
    outputs: list[Output]
    stdout: str
    stderr: str

    @property
    def ok(self) -> bool:
        """True when the cell did not fail."""
        return self.error is None

    def shown(self) -> list[Output]:
        """Return the displays as a notebook ends up with them: each update in the place of what it replaces."""
        return list({output.display_id or number: output for number, output in enumerate(self.outputs)}.values())

    def texts(self, mimetype: str = "text/plain") -> str:
        """Return the final displays' representations of one mime type, joined by newlines."""
        return "\n".join(str(output.data[mimetype]) for output in self.shown() if mimetype in output.data)

    @property
    def html(self) -> str:
        """The final displays' HTML."""
        return self.texts("text/html")


class RecordingPublisher(DisplayPublisher):
    """Keeps what `display` publishes."""

    def publish(self, data: Any, metadata: Any = None, *_: Any, transient: Any = None, update: bool = False, **__: Any) -> None:
        """Keep one display."""
        self.shell.recorded.append(Output(dict(data), (transient or {}).get("display_id"), update, time.monotonic()))


class RecordingHook(DisplayHook):
    """Keeps the values of cells in place of printing them."""

    def write_output_prompt(self) -> None:
        """Print no prompt."""

    def flush(self) -> None:
        """Leave the garbage to the collector: a full collection for each shell would cost more than most tests."""

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        """Keep one value's representations."""
        self.shell.recorded.append(Output(dict(format_dict)))


class RecordingShell(InteractiveShell):
    """An InteractiveShell whose displays go into `recorded`."""

    displayhook_class = Type(RecordingHook)
    display_pub_class = Type(RecordingPublisher)

    def __init__(self, **kwargs: Any) -> None:
        self.recorded: list[Output] = []
        super().__init__(**kwargs)


class Shell:
    """A shell with the extension loaded: `run(cell)` runs a cell, `ip` is the InteractiveShell, `ns` its variables."""

    def __init__(self, folder: Path, *, load: bool = True, config: Config | None = None) -> None:
        quiet = {"InteractiveShell": {"colors": "nocolor"}, "HistoryManager": {"hist_file": ":memory:"}}
        # Jedi takes seconds of CPU, and thinks for seconds about what is no Python
        settings = Config({**quiet, "IPCompleter": {"use_jedi": False}, **(config or {})})
        RecordingShell.clear_instance()
        self.ip: RecordingShell = RecordingShell.instance(config=settings)
        self.ip.display_formatter.active_types = self.ip.display_formatter.format_types
        if load:
            self.ip.run_line_magic("load_ext", "ipy_websearch")

    @property
    def ns(self) -> dict[str, Any]:
        """The variables of the cells."""
        return self.ip.user_ns

    def run(self, cell: str) -> Ran:
        """Run one cell and return what came out of it."""
        first = len(self.ip.recorded)
        stdout, stderr = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
            result = self.ip.run_cell(cell, store_history=True)
        error = result.error_before_exec or result.error_in_exec
        return Ran(result.result, error, self.ip.recorded[first:], stdout.getvalue(), stderr.getvalue())

    def close(self) -> None:
        """Unload the extension and take the shell down, so that nothing of it is left for the next test."""
        self.ip.extension_manager.unload_extension("ipy_websearch")
        atexit.unregister(self.ip.atexit_operations)
        self.ip.atexit_operations()
        self.ip.restore_sys_module_state()
        RecordingShell.clear_instance()
