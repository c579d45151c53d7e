"""The stop button during an enrichment, in a real kernel: the frame so far, and the next cell works."""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.benchmarks.enrich_server import EnrichServer
from tests.fakes.notebook import subprocess_environment

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
def server() -> Iterator[EnrichServer]:
    """A server of its own process."""
    with EnrichServer(latency=0.1) as made:
        yield made


@pytest.fixture
def kernel(kernels: None, server: EnrichServer) -> Iterator[Kernel]:
    """A kernel whose environment leads to the server."""
    from jupyter_client.manager import start_new_kernel

    environment = subprocess_environment({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-ant-test"})
    manager, client = start_new_kernel(env=environment)
    yield Kernel(manager, client)
    client.stop_channels()
    manager.shutdown_kernel(now=True)
    manager.cleanup_resources()


MAGIC = """%%enrich frame --concurrency 10 --max-searches 0 -o filled
ceo: Who is the CEO of {company}?"""


def stopped(kernel: Kernel, server: EnrichServer, code: str, after: str) -> tuple[str, str, str]:
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
    kernel: Kernel, server: EnrichServer
) -> None:
    """The frame so far is shown, in `_` and in the variable of -o; one line says so, below the bar; nothing more is sent."""
    status, text, after = stopped(kernel, server, MAGIC, "print('spent')")
    sent = server.stats()["requests"]
    assert (status, after) == ("error", "aborted"), text
    assert "Interrupted" not in text.partition("what was filled by then is in _ and filled")[0].rpartition("\n")[0]
    assert text.count("what was filled by then") == 1 and "run the cell again" in text and "Traceback" not in text
    _, text = kernel.run("print(len(_), filled is _, sorted(set(filled.enrich_status)), (filled.ceo.notna()).sum() > 40)")
    assert text.strip() == "5000 True ['interrupted', 'ok'] True" and server.stats()["requests"] == sent


def test_the_stop_button_in_a_function_returns_the_frame_and_the_next_cell_runs(kernel: Kernel, server: EnrichServer) -> None:
    """The line stands on its own, after the bar, and also where no bar is drawn: half a frame is not taken for a whole one.

    An interrupted estimate is none: the next cell, which would spend what was to be known before, does not run.
    """
    for options in ("", ", progress=False"):
        status, text, after = stopped(kernel, server, f"{ENRICH[:-1]}{options})", "print(len(out))")
        assert (status, after) == ("ok", "ok"), text
        lines = text.replace("\r", "\n").splitlines()
        line = next(n for n, said in enumerate(lines) if said.startswith("Interrupted: what was filled by then is returned"))
        assert not any("enrich:" in said for said in lines[line:]) and ("enrich:" in text) is (not options)
    code = 'frame.web.estimate({"ceo": "Who is the CEO of {company}?"}, sample=4000, concurrency=10, max_searches=0)'
    status, _, after = stopped(kernel, server, code, "print('spent')")
    assert (status, after) == ("error", "aborted")
