"""A real kernel that nobody sits at, as in `jupyter execute`."""

import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fakes.replies import slow
from tests.fakes.shell import errors, subprocess_environment, texts

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]


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


# --- IPython in a terminal: a real process on a pseudo-terminal, with the fakes behind it. Plain text, one line for an error

pexpect = pytest.importorskip("pexpect", reason="pseudo-terminals are POSIX")

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")
_COMMAND = "--simple-prompt --no-banner --no-confirm-exit --colors=nocolor --HistoryManager.enabled=False --ext=ipy_websearch"
INTERRUPT = "\x03"


@pytest.fixture
def terminal(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """IPython on a pseudo-terminal of 100 columns."""
    settings = {"env": subprocess_environment({"TERM": "xterm"}), "encoding": "utf-8", "dimensions": (40, 100), "timeout": 120}
    child = pexpect.spawn(sys.executable, ["-m", "IPython", *_COMMAND.split()], **settings)
    child.expect_exact("In [1]: ")
    yield child
    child.close(force=True)


def told(terminal: Any, line: str, until: str) -> str:
    """Type a line, or press Ctrl-C, and return what comes before some text."""
    terminal.send(line if line == INTERRUPT else f"{line}\n")
    terminal.expect_exact(until, timeout=10 if line == INTERRUPT else -1)  # a third of what would run otherwise
    return _CONTROL.sub("", terminal.before)


def test_a_terminal_shows_plain_text_and_ctrl_c_ends_what_runs(messages_api: Any, brave_api: Any, terminal: Any) -> None:
    """No HTML, no object's name, no traceback; the text once, with its sources and its cost. What had arrived of a stream stays
    on the screen and says that it is partial; a search that hangs is given up; the next lines work."""
    messages_api.replies("Matz wrote Ruby.", ["Matz wrote Ruby.\n\n" * 800, slow(0.05)])
    said = told(terminal, "%search --provider local moons of Mars", "In [2]: ")
    assert "local · " in said and "Mars" in said and "<div" not in said
    said = told(terminal, "%ask --provider brave who wrote Ruby?", "In [3]: ")
    assert said.count("Matz wrote Ruby.") == 1 and "USD" in said and "Out[" not in said and "<div" not in said
    said = told(terminal, "%search --provider brve moons", "In [4]: ")
    assert "did you mean 'brave'" in said and "Traceback" not in said and len(said.strip().splitlines()) <= 6
    told(terminal, "%ask --provider brave who wrote Ruby?", "Matz wrote")
    said = told(terminal, INTERRUPT, "In [5]: ")
    assert "nterrupted" in said and "Traceback" not in said
    brave_api.reply(delay_s=30)
    terminal.sendline("%search --provider brave anything at all")
    brave_api.wait(lambda api: api.active, 60)
    assert "Interrupted: %search was stopped" in told(terminal, INTERRUPT, "In [6]: ")
    bill = "get_ipython().run_line_magic('cost', '--rows')"
    assert "42 2" in told(terminal, f"print(6 * 7, ({bill}.kind == 'model').sum())", "In [7]: ")
