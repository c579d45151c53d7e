"""Real kernels: magics that nobody sits at, as in `jupyter execute` and Restart & Run All, and the stop button."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from tests.benchmarks.server import BenchmarkServer
from tests.fakes.notebook import TRANSPORT, errors, subprocess_environment, texts

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]
ENRICH = 'out = ipy_websearch.enrich(frame, {"ceo": "Who is the CEO of {company}?"}, concurrency=10, max_searches=0)'
SETUP = """
import pandas, ipy_websearch
%load_ext ipy_websearch
frame = pandas.DataFrame({"company": [f"SERIES{n}" for n in range(5000)]})
warm = ipy_websearch.enrich(frame.head(1), {"ceo": "Who is the CEO of {company}?"}, max_searches=0, progress=False)
"""


class Kernel:
    """A kernel and what it said; `run` waits for a cell, `start` does not."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

    def start(self, code: str) -> str:
        """Send a cell."""
        id: str = self.client.execute(code)
        return id

    def wait(self, id: str, timeout_s: float = 60.0) -> tuple[str, str]:
        """Return a cell's status and all that it printed."""
        text, until = "", time.monotonic() + timeout_s
        while time.monotonic() < until:
            try:
                message = self.client.get_iopub_msg(timeout=0.2)
            except queue.Empty:
                continue
            if message["parent_header"].get("msg_id") != id:
                continue
            content = message["content"]
            text += content.get("text", "") + content.get("evalue", "")
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                return self.status(id), text
        raise AssertionError(f"the cell did not end within {timeout_s} s; it said {text!r}")

    def status(self, id: str) -> str:
        """Return how a cell ended; replies to other requests, such as those of the start, are passed over."""
        while (reply := self.client.get_shell_msg(timeout=60))["parent_header"].get("msg_id") != id:
            pass
        status: str = reply["content"]["status"]
        return status

    def run(self, code: str) -> tuple[str, str]:
        """Run a cell to its end."""
        return self.wait(self.start(code))


@pytest.fixture
def server() -> Iterator[BenchmarkServer]:
    """A server of its own process."""
    with BenchmarkServer(latency=0.1) as made:
        yield made


@pytest.fixture
def kernel(kernels: None, server: BenchmarkServer, tmp_path: Path) -> Iterator[Kernel]:
    """A kernel whose environment leads to the server."""
    environment = subprocess_environment({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test"})
    manager = KernelManager(transport=TRANSPORT, ip=str(tmp_path / "kernel"))
    manager.start_kernel(env=environment)
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    yield Kernel(manager, client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


MAGIC = """%%enrich frame --concurrency 10 --max-searches 0 -o filled
ceo: Who is the CEO of {company}?"""


def stopped(kernel: Kernel, server: BenchmarkServer, code: str, after: str) -> tuple[str, str, str]:
    """Run a cell with another one waiting, stop the first; return its status, what it said, and the status of the other."""
    before = server.stats()["answered"]
    assert kernel.run(SETUP.replace("SERIES", f"after {before}, "))[0] == "ok"
    cell, waiting = kernel.start(code), kernel.start(after)
    while server.stats()["answered"] - before < 60:
        time.sleep(0.02)
    kernel.manager.interrupt_kernel()
    status, text = kernel.wait(cell)
    return status, text, kernel.status(waiting)


def test_the_stop_button_in_a_magic_keeps_the_frame_and_the_next_cell_does_not_run(
    kernel: Kernel, server: BenchmarkServer
) -> None:
    """The frame so far is shown, in `_` and in the variable of -o; one line says so, below the bar; nothing more is sent."""
    status, text, after = stopped(kernel, server, MAGIC, "print('spent')")
    sent = server.stats()["requests"]
    assert (status, after) == ("error", "aborted"), text
    assert "Interrupted" not in text.partition("what was filled by then is in _ and filled")[0].rpartition("\n")[0]
    assert text.count("what was filled by then") == 1 and "run the cell again" in text and "Traceback" not in text
    _, text = kernel.run("print(len(_), filled is _, sorted(set(filled.enrich_status)), (filled.ceo.notna()).sum() > 40)")
    assert text.strip() == "5000 True ['interrupted', 'ok'] True" and server.stats()["requests"] == sent


def test_the_stop_button_in_a_function_returns_the_frame_and_the_next_cell_runs(
    kernel: Kernel, server: BenchmarkServer
) -> None:
    """The line stands on its own, after the bar, and also where no bar is drawn: half a frame is not taken for a whole one."""
    for options in ("", ", progress=False"):
        status, text, after = stopped(kernel, server, f"{ENRICH[:-1]}{options})", "print(len(out))")
        assert (status, after) == ("ok", "ok"), text
        lines = text.replace("\r", "\n").splitlines()
        line = next(n for n, said in enumerate(lines) if said.startswith("Interrupted: what was filled by then is returned"))
        assert not any("enrich:" in said for said in lines[line:]) and ("enrich:" in text) is (not options)


KEY = "%websearch key tavily"


def test_a_notebook_runs_through_without_anybody_to_ask(run_notebook: Any) -> None:
    """A key that cannot be typed is one line that says what to set, and the next cells run; Tab and ? answer."""
    notebook = run_notebook(
        [
            "%load_ext ipy_websearch",
            "%websearch key anthropic   # typed without being shown",
            "hits = %search --provider local moons of Mars?\nprint(hits.title[0])",
            "k = get_ipython().kernel\n"
            "print(k.do_complete('%ask --max-s', 12)['matches'])\n"
            "print(k.do_complete('%%ask --tools standard,web_f', 28))\n"
            "print(k.do_inspect('%ask', 4)['data']['text/plain'])",
        ]
    )
    _, key, search, tab = (texts(cell) for cell in notebook.cells)
    assert errors(notebook) == [] and len(key.strip().splitlines()) == 1
    assert "set the environment variable ANTHROPIC_API_KEY" in key and search.strip() == "Mars"
    assert (
        "['--max-searches', '--max-steps']" in tab and "'matches': ['web_fetch'], 'cursor_end': 28, 'cursor_start': 23" in tab
    )
    assert "--max-searches" in tab and "How many moons does Mars have?" in tab


def test_restart_and_run_all_is_not_held_up_by_a_key(tmp_path: Path, kernels: None) -> None:
    """All cells are sent at once and somebody could type; a cell that runs alone asks."""
    manager = KernelManager(transport=TRANSPORT, ip=str(tmp_path / "kernel"))
    manager.start_kernel(cwd=str(tmp_path), env=subprocess_environment())
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        sent = [client.execute(cell, allow_stdin=True) for cell in ("%load_ext ipy_websearch", KEY, "done = 1")]
        replies: dict[str, str] = {}
        while not replies.keys() >= set(sent):  # answers to the questions whether the kernel is ready may come late
            reply = client.get_shell_msg(timeout=60)
            replies[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
        assert [replies[n] for n in sent] == ["ok"] * 3 and client.stdin_channel.msg_ready() is False
        client.execute(KEY, allow_stdin=True)
        assert "TAVILY_API_KEY" in client.get_stdin_msg(timeout=60)["content"]["prompt"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
