"""A fresh IPython shell in the test's own process, which keeps what a cell prints and displays."""

import atexit
import contextlib
import io
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from ipy_websearch import background


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


# --- Runs cells in a real Jupyter kernel, from which the network is refused as well; and its ■ -----------------------

TESTS = Path(__file__).parent.parent
NO_NETWORK = Path(__file__).parent / "no_network"
TRANSPORT = "ipc"  # a TCP port that is free when a kernel is started may be another test's when the kernel binds it


def subprocess_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment for a subprocess: the package can be imported, the network is refused."""
    paths = [str(NO_NETWORK), str(TESTS.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"} | dict(extra or {})


def run_cells(cells: Sequence[str] | Any, folder: Path, *, env: Mapping[str, str] | None = None, timeout_s: float = 60) -> Any:
    """Run code cells (or a whole notebook) in a kernel whose working directory is `folder`; return the notebook.

    Cells that fail do not stop the rest; their outputs are errors.
    """
    import nbformat
    from nbclient import NotebookClient
    from traitlets.config import Config

    is_whole = isinstance(cells, nbformat.NotebookNode)
    notebook = cells if is_whole else nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
    with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:  # their addresses may have a hundred characters at most
        client = NotebookClient(
            notebook,
            timeout=timeout_s,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
            config=Config(KernelManager={"transport": TRANSPORT, "ip": f"{sockets}/socket"}),
        )
        client.execute(env=subprocess_environment(env))
    return notebook


def errors(notebook: Any) -> list[str]:
    """Return "Name: text" of every error output."""
    found = [output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == "error"]
    return [f"{output.ename}: {output.evalue}" for output in found]


def texts(cell: Any) -> str:
    """Return all that a cell printed and showed as plain text, joined by newlines."""
    shown = (output.get("text") or output.get("data", {}).get("text/plain") for output in cell.get("outputs", []))
    return "\n".join(filter(None, shown))


@contextmanager
def interrupted_when(condition: Callable[[], Any]) -> Iterator[None]:
    """Interrupt a blocking call of the package once, as ■ does, when a condition holds."""
    wait, once = background.Task.wait, iter([True])

    def interrupted(task: Any, timeout_s: float) -> bool:
        if condition() and next(once, False):
            raise KeyboardInterrupt
        return bool(wait(task, timeout_s))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(background.Task, "wait", interrupted)
        yield
