"""A Python that has the large libraries imported: `[*python(), "-c", code]` in place of `[sys.executable, "-c", code]`.

The SDK, pandas and IPython take seconds of CPU to import, more than most tests of a process do. There is one process that
has imported them and forks, the workers of pytest too; the package itself is imported by the fork. The command is a small
process that hands over its arguments, environment, folder and standard streams, passes signals on and ends as the fork does;
when it is killed, so is the fork. Tests of the start itself (imports, options of Python) use `sys.executable`. Where it is
not Linux, all do.
"""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

LIBRARIES = (
    "IPython anthropic pandas pyarrow narwhals aiohttp httpx httpx_aiohttp starlette uvicorn ipykernel.kernelapp "
    "ipykernel.ipkernel ipywidgets anywidget nbformat pydantic jinja2 nh3 markdown_it yaml genai_prices tqdm.auto "
    "lxml.html dotenv mcp PIL.Image trafilatura markdownify hypothesis trio polars dask.dataframe anyio.from_thread "
    "anyio._backends._asyncio pytest xdist"
).split()

# The environment variable by which workers of pytest find the process that pytest started.
ADDRESS = "TESTS_WARM_PYTHON"


def python() -> list[str]:
    """Return how a command begins; the first call starts the process that forks, for this process and those that it starts."""
    if not sys.platform.startswith("linux"):
        return [sys.executable]
    if ADDRESS not in os.environ:
        os.environ[ADDRESS] = f"ipy-websearch-tests-{os.getpid()}"
        _start(os.environ[ADDRESS])
    return [sys.executable, "-IS", __file__, os.environ[ADDRESS]]


def kernels(folder: Path) -> str:
    """Make and return a folder for JUPYTER_PATH in which the kernel python3 is a fork."""
    import json

    place = folder / "jupyter" / "kernels" / "python3"
    place.mkdir(parents=True)
    argv = [*python(), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    (place / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    return str(folder / "jupyter")


def extraction(*limits: float) -> subprocess.Popen[bytes]:
    """Start the process that reads pages, as `ipy_websearch.extract.reader` does, but as a fork."""
    import subprocess

    code = f"from ipy_websearch.extract.reader import serve; serve(*{limits})"
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([*python(), "-c", code], env={}, start_new_session=True, **streams)


def _start(address: str) -> None:
    """Start the process that forks; it ends when its standard input does, with this process."""
    import atexit
    import subprocess

    from tests.fakes.shell import NO_NETWORK, TESTS

    path = os.environ.get("PATH", "")
    env = {"PATH": path, "PYTHONPATH": f"{NO_NETWORK}:{TESTS.parent}", "OPENBLAS_NUM_THREADS": "1"}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{address}")
        listener.listen(128)
        command = [sys.executable, __file__, "serve", str(listener.fileno())]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
        made = subprocess.Popen(command, env=env, pass_fds=[listener.fileno()], **pipes)
    atexit.register(made.communicate)


def _ask(address: str, arguments: list[str]) -> None:
    """Have the arguments run by a fork, and end as it ends."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(f"\0{address}")
    request = marshal.dumps((arguments, dict(os.environ), os.getcwd()))
    socket.send_fds(connection, [len(request).to_bytes(4, "big")], [0, 1, 2])
    connection.sendall(request)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: connection.sendall(bytes([number])))
    status = int.from_bytes(connection.recv(2) or b"\0\1", "big", signed=True)
    if status < 0:
        if status != -signal.SIGKILL:
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def _serve(number: int) -> list[str] | None:
    """Fork for each connection; return None at the end, and in a fork its arguments."""
    import gc
    import importlib
    import select

    del sys.path[0]  # the folder of this file
    for name in LIBRARIES:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
    if extractor := sys.modules.get("trafilatura"):  # a first page loads its lists of words: 0.3 s
        extractor.bare_extraction("<html><title>t</title><body><p>A sentence, to be judged.</p></body></html>")
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener = socket.socket(fileno=number)
    while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _keep(connection)
        connection.close()
    return None


def _keep(connection: socket.socket) -> list[str]:
    """Fork the process that was asked for and see to its signals and its end; return in that process alone."""
    import threading

    head, streams, _, _ = socket.recv_fds(connection, 4, 3)
    arguments, environment, folder = marshal.loads(connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
    if (child := os.fork()) == 0:
        connection.close()
        _settle(streams, environment, folder)
        return list(arguments)

    def obey() -> None:
        while said := connection.recv(1):
            os.kill(child, said[0])
        os.kill(child, signal.SIGKILL)

    for stream in (*streams, 0, 1, 2):
        os.close(stream)
    threading.Thread(target=obey, daemon=True).start()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        connection.sendall(status.to_bytes(2, "big", signed=True))
    finally:
        os._exit(0)


def _settle(streams: list[int], environment: dict[str, str], folder: str) -> None:
    """Take over streams, environment and folder."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = sys.__stdin__ = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
    environment.pop("JPY_PARENT_PID", None)  # a kernel would end when that is not its parent
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path.insert(0, "")


def _run(kind: str, what: str, *arguments: str) -> None:
    """Run `-c CODE` or `-m MODULE`."""
    import runpy
    from types import ModuleType

    sys.argv = ["-c" if kind == "-c" else what, *arguments]
    if kind == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = module = ModuleType("__main__")
        exec(compile(what, "<string>", "exec"), module.__dict__)


if __name__ == "__main__":
    if sys.argv[1] != "serve":
        _ask(sys.argv[1], [argument for argument in sys.argv[2:] if argument != "-u"])
    elif (asked := _serve(int(sys.argv[2]))) is not None:
        _run(*asked)
