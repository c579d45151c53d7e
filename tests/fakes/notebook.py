"""Runs cells in a real Jupyter kernel, from which the network is refused as well; and its ■."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch import background

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
