"""A real JupyterLab in a real Chromium: run a notebook, look at the page, count what was fetched.

It needs jupyterlab, ipykernel and playwright (no `playwright install`) and a Chromium of the system; `missing()` says what
is not there. Waits go by JupyterLab's own application object, which `--LabApp.expose_app_in_browser` puts into the page.
"""

from __future__ import annotations

import importlib.util
import json
import shlex
import shutil
import socket
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.fakes import warm
from tests.fakes.server import Server
from tests.fakes.shell import subprocess_environment

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
START_S = 60
RUN_MS = 60_000
# No flag keeps the news away, and without the second only 50 outputs of a cell are shown.
SETTINGS = {
    "apputils-extension/notification": {"checkForUpdates": False, "doNotDisturbMode": True, "fetchNews": "false"},
    "notebook-extension/tracker": {"maxNumberOutputs": 1000},
}

_PANEL = "const app = window.jupyterapp, panel = app.shell.currentWidget;"
_OPEN = f"""(name) => {{ {_PANEL} return panel?.context?.path?.endsWith(name) && panel.context.isReady
    && !!panel.node.querySelector('.jp-Cell'); }}"""
_CLOSE = f"() => {{ {_PANEL} panel.context.model.dirty = false; panel.dispose(); delete window.__ran; }}"
_IDLE = f"() => {{ {_PANEL} return panel?.sessionContext?.session?.kernel?.status === 'idle'; }}"
_RUN = f"""(n) => {{ {_PANEL} const all = n === null; panel.content.deselectAll();
    if (!all) panel.content.activeCellIndex = n;
    window.__run = app.commands.execute(all ? 'notebook:run-all-cells' : 'notebook:run-cell'); }}"""
_ENDED = f"""() => Promise.race([window.__run.then(() => 0),
    new Promise((_, fail) => setTimeout(() => fail('the cells did not end'), {RUN_MS}))])"""


def missing() -> str:
    """Return what a browser test lacks here, "" when it can run."""
    lacks = [name for name in ("jupyterlab", "ipykernel", "playwright", "nbformat") if importlib.util.find_spec(name) is None]
    lacks += [] if CHROMIUM else ["Chromium (apt-get install chromium)"]
    return f"not installed: {', '.join(lacks)}" if lacks else ""


class Listener(Server):
    """A server that answers everything with an empty image, and keeps the paths asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.hits: list[str] = []

    def routes(self) -> list[tuple[str, str, Any]]:
        """Return one handler for all."""
        return [("*", "/{path:.*}", self._answer)]

    async def _answer(self, request: web.Request) -> web.Response:
        self.hits.append(request.path_qs)
        return web.Response(content_type="image/gif", headers={"Access-Control-Allow-Origin": "*"})


@contextmanager
def server(folder: Path) -> Iterator[str]:
    """Run JupyterLab for the notebooks in `folder`, with settings and a home of its own; its address is yielded."""
    home = folder / ".lab"
    for name, values in SETTINGS.items():
        path = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(values))
    places = ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR")
    environment = subprocess_environment(
        {f"JUPYTER_{name}": str(home / name) for name in places}
        | {"JUPYTER_PATH": warm.kernels(home)}
        | {"JUPYTERLAB_SETTINGS_DIR": str(home / "settings"), "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces")}
        | {"HOME": str(home), "IPYTHONDIR": str(home), "NO_PROXY": "*"}
    )
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = shlex.split(
        "--no-browser --allow-root --ip=127.0.0.1 --ServerApp.port_retries=0 --IdentityProvider.token= --ServerApp.password= "
        "--ServerApp.disable_check_xsrf=True "
        "--LabApp.expose_app_in_browser=True --LabApp.news_url=None --LabApp.extension_manager=readonly "
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"
    )
    command = [*warm.python(), "-m", "jupyterlab", f"--port={port}", f"--ServerApp.root_dir={folder}", *options]
    address, log = f"http://127.0.0.1:{port}", folder / "lab.log"
    with log.open("wb") as out, subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT) as process:
        try:
            deadline = time.monotonic() + START_S
            while not _is_up(address):
                assert process.poll() is None and time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
                time.sleep(0.2)
            yield address
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()


def _is_up(address: str) -> bool:
    with suppress(OSError):
        return bool(urllib.request.urlopen(f"{address}/api/status", timeout=1).read())
    return False


@dataclass(slots=True)
class Lab:
    """A JupyterLab in a page of Chromium; notebooks are opened in it one after another."""

    address: str
    folder: Path
    page: Any

    @contextmanager
    def open(
        self, cells: Sequence[str], *, outputs: Sequence[Mapping[str, str]] = (), width: int = 1280, height: int = 1400
    ) -> Iterator[Opened]:
        """Open a notebook of these cells, `outputs` (mimebundles) stored in its first one; its kernel is idle."""
        name = f"notebook-{uuid.uuid4().hex[:8]}.ipynb"
        write_notebook(self.folder / name, cells, outputs)
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.evaluate("(path) => window.jupyterapp.commands.execute('docmanager:open', {path}).then(() => 0)", name)
        self.page.wait_for_function(_OPEN, arg=name)
        self.page.wait_for_function(_IDLE)
        yield Opened(self.page, self.folder / name)
        self.page.evaluate(_CLOSE)
        shut_down_kernels(self.address)


@contextmanager
def lab(folder: Path) -> Iterator[Lab]:
    """Run JupyterLab for the notebooks in `folder`, and load it in Chromium, which ends with Playwright."""
    from playwright.sync_api import sync_playwright

    with server(folder) as address, sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        page = playwright.chromium.launch(executable_path=CHROMIUM, args=flags).new_page()
        page.set_default_timeout(RUN_MS)
        page.goto(f"{address}/lab?reset", wait_until="domcontentloaded")
        page.wait_for_function("() => !!window.jupyterapp")
        page.evaluate("() => window.jupyterapp.restored.then(() => { window.jupyterapp.shell.collapseLeft(); })")
        yield Lab(address, folder, page)


@dataclass(slots=True)
class Opened:
    """A notebook on a page. Cells count from 0."""

    page: Any
    path: Path

    def run(self, number: int | None = None) -> None:
        """Run one cell (None: all), wait until it has ended, and bring each cell into view (only then it is rendered)."""
        self.page.evaluate(_RUN, number)
        self.page.evaluate(_ENDED)
        self.scroll()

    def scroll(self) -> None:
        """Bring each cell into view."""
        for index in range(self.page.evaluate(f"() => {{ {_PANEL} return panel.content.widgets.length; }}")):
            self.page.evaluate(f"async () => {{ {_PANEL} await panel.content.scrollToItem({index}); }}")
            self.page.wait_for_timeout(50)

    def save(self) -> Any:
        """Save the notebook and return what is in the file."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
        return json.loads(self.path.read_text())


def shut_down_kernels(address: str) -> None:
    """End all kernels of a server."""
    for kernel in json.loads(urllib.request.urlopen(f"{address}/api/kernels", timeout=10).read()):
        request = urllib.request.Request(f"{address}/api/kernels/{kernel['id']}", method="DELETE")
        urllib.request.urlopen(request, timeout=10).close()


def write_notebook(path: Path, cells: Sequence[str], outputs: Sequence[Mapping[str, str]] = ()) -> None:
    """Write a notebook of code cells; `outputs` are mimebundles stored in the first cell, as in a file that somebody sent."""
    import nbformat

    made = [nbformat.v4.new_code_cell(cell) for cell in cells]
    made[0].outputs = [nbformat.v4.new_output("display_data", dict(bundle)) for bundle in outputs]
    made[0].execution_count = 1 if outputs else None
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(nbformat.v4.new_notebook(cells=made, metadata={"kernelspec": kernel}), path)
