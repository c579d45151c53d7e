"""A real JupyterLab in a real Chromium: run a notebook, look at the page, count what was fetched.

It needs jupyterlab, ipykernel and playwright (no `playwright install`) and a Chromium of the system; `missing()` says what
is not there. Waits go by JupyterLab's own application object, which `--LabApp.expose_app_in_browser` puts into the page.
"""

from __future__ import annotations

import http.server
import importlib.util
import json
import os
import shlex
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes.notebook import subprocess_environment

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
START_S = 60
RUN_MS = 60_000
SETTINGS = {
    "apputils-extension/notification": {"checkForUpdates": False, "doNotDisturbMode": True, "fetchNews": "false"},
    "notebook-extension/tracker": {"maxNumberOutputs": 1000},
}
"""No flag keeps the news away, and without the second only 50 outputs of a cell are shown."""

_IDLE = """() => { const panel = window.jupyterapp.shell.currentWidget;
    const kernel = panel && panel.sessionContext && panel.sessionContext.session && panel.sessionContext.session.kernel;
    return !!kernel && kernel.status === 'idle'; }"""
_DONE = """() => { const panel = window.jupyterapp.shell.currentWidget;
    return panel.sessionContext.session.kernel.status === 'idle'
        && !panel.content.widgets.some(cell => cell.model.executionState === 'running'); }"""


def missing() -> str:
    """Return what a browser test lacks here, "" when it can run."""
    lacks = [name for name in ("jupyterlab", "ipykernel", "playwright", "nbformat") if importlib.util.find_spec(name) is None]
    if CHROMIUM is None:
        lacks.append("Chromium (apt-get install chromium)")
    return f"not installed: {', '.join(lacks)}" if lacks else ""


class Listener:
    """A server on loopback that answers everything with a tiny image and keeps the paths that were asked for."""

    def __init__(self) -> None:
        self.hits: list[str] = []
        hits = self.hits

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hits.append(self.path)
                self.send_response(200)
                self.send_header("Access-Control-Allow-Origin", "*")
                self.send_header("Content-Type", "image/gif")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Listener:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run JupyterLab for the notebooks in `folder` with settings of its own; yield its address."""
    home = folder / ".lab"
    for name, values in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(values))
    places = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    environment = subprocess_environment(
        {f"JUPYTER_{name}": str(home / name) for name in places}
        | {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces")}
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = shlex.split(
        "--no-browser --allow-root --ip=127.0.0.1 --ServerApp.port_retries=0 --IdentityProvider.token= --ServerApp.password= "
        "--LabApp.expose_app_in_browser=True --LabApp.news_url=None --LabApp.extension_manager=readonly "
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"
    )
    command = [sys.executable, "-m", "jupyterlab", f"--port={port}", f"--ServerApp.root_dir={folder}", *options]
    with (folder / "lab.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_until_up(process, address, folder / "lab.log")
            yield address
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_until_up(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(f"{address}/api/status", timeout=1).read()
            return
        except OSError:
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def page(width: int = 1280, height: int = 1400) -> Iterator[Any]:
    """Open a page in Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        )
        try:
            opened = browser.new_page(viewport={"width": width, "height": height})
            opened.set_default_timeout(RUN_MS)
            yield opened
        finally:
            browser.close()


def write_notebook(path: Path, cells: Sequence[str], outputs: Sequence[Mapping[str, str]] = ()) -> None:
    """Write a notebook of code cells; `outputs` are stored mimebundles, one a cell, as in a file that somebody sent."""
    import nbformat
    from nbformat import v4

    made = [v4.new_code_cell(cell) for cell in cells]
    for cell, bundle in zip(made, outputs, strict=False):
        cell.outputs = [v4.new_output("display_data", dict(bundle))]
        cell.execution_count = 1
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(v4.new_notebook(cells=made, metadata={"kernelspec": kernel}), path)


def open_notebook(opened: Any, address: str, name: str, *, run: bool) -> None:
    """Open a notebook, run all its cells when `run` says so, and bring each cell into view (only then it is rendered)."""
    opened.goto(f"{address}/lab/workspaces/w{os.getpid()}/tree/{name}?reset", wait_until="domcontentloaded")
    opened.wait_for_function("() => !!window.jupyterapp")
    opened.evaluate("() => window.jupyterapp.restored")
    opened.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Notebook .jp-Cell")
    if run:
        opened.wait_for_function(_IDLE)
        opened.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        opened.wait_for_function(_DONE)
    count = opened.evaluate("() => window.jupyterapp.shell.currentWidget.content.widgets.length")
    for index in range(count):
        opened.evaluate(f"() => window.jupyterapp.shell.currentWidget.content.scrollToItem({index})")
        opened.wait_for_timeout(50)
