"""IPython in a terminal: a real process on a pseudo-terminal, with the fakes behind it. Plain text, one line for an error."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.notebook import subprocess_environment
from tests.fakes.replies import slow

pty = pytest.importorskip("pty", reason="pseudo-terminals are POSIX")

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
_COMMAND = "--simple-prompt --no-banner --no-confirm-exit --colors=nocolor --HistoryManager.enabled=False --ext=ipy_websearch"


class Terminal:
    """IPython on a pseudo-terminal: type lines, read what it says."""

    def __init__(self) -> None:
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "IPython", *_COMMAND.split()],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=subprocess_environment({"TERM": "xterm"}),
            start_new_session=True,
        )
        os.close(slave)
        self.seen = ""
        self.until("In [1]: ")

    def type(self, line: str) -> None:
        """Type a line and press Enter."""
        self.seen = ""
        os.write(self.master, f"{line}\n".encode())

    def until(self, text: str, timeout_s: float = 30) -> str:
        """Read until `text` has come; return all that came since the last line was typed."""
        end = time.monotonic() + timeout_s
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{text!r} did not come; what came: {self.seen[-3000:]}"
            self.seen += _CONTROL.sub("", os.read(self.master, 65536).decode(errors="replace"))
        return self.seen

    def interrupt(self) -> None:
        """Press Ctrl-C: the signal that a terminal would send."""
        os.kill(self.process.pid, signal.SIGINT)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        os.close(self.master)


@pytest.fixture
def terminal(messages_api: Any, brave_api: Any) -> Iterator[Terminal]:
    opened = Terminal()
    yield opened
    opened.close()


def test_a_search_an_answer_and_an_error_read_well_in_a_terminal(messages_api: Any, terminal: Terminal) -> None:
    """No HTML, no object's name, no traceback; the text once, with its sources and its cost."""
    messages_api.reply("Matz wrote Ruby.")
    terminal.type("%search --provider local moons of Mars")
    said = terminal.until("In [2]: ")
    assert "local · " in said and "Mars" in said and "<div" not in said
    terminal.type("%ask --provider brave who wrote Ruby?")
    said = terminal.until("In [3]: ")
    assert said.count("Matz wrote Ruby.") == 1 and "USD" in said and "Out[" not in said and "<div" not in said
    terminal.type("%search --provider brve moons")
    said = terminal.until("In [4]: ")
    assert "did you mean 'brave'" in said and "Traceback" not in said and len(said.strip().splitlines()) <= 6


def test_ctrl_c_ends_a_stream_within_a_second(messages_api: Any, terminal: Terminal) -> None:
    """What had arrived stays on the screen, says that it is partial, and the next line works."""
    messages_api.reply("Matz wrote Ruby. " * 200, slow(0.05))
    terminal.type("%ask --provider brave who wrote Ruby?")
    terminal.until("Matz wrote")
    start = time.monotonic()
    terminal.interrupt()
    said = terminal.until("In [2]: ", 5)
    assert time.monotonic() - start < 1
    assert "nterrupted" in said and "Traceback" not in said
    terminal.type("print(6 * 7, len(get_ipython().run_line_magic('cost', '')))")
    assert "42 1" in terminal.until("In [3]: ")


def test_ctrl_c_ends_a_search_within_a_second(brave_api: Any, terminal: Terminal) -> None:
    """A search that hangs is given up at once."""
    brave_api.reply(delay_s=3)
    terminal.type("%search --provider brave anything at all")
    brave_api.wait(lambda api: api.active, 10)
    start = time.monotonic()
    terminal.interrupt()
    said = terminal.until("In [2]: ", 5)
    assert time.monotonic() - start < 1
    assert "KeyboardInterrupt" in said or "nterrupted" in said
