"""The shared fixtures: a test starts with nothing, reaches no network, and its shell and kernel are real."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fakes.no_network import network_guard
from tests.fakes.notebook import errors, subprocess_environment, texts


def test_the_environment_holds_no_keys_and_a_home_of_its_own(tmp_path: Path) -> None:
    """Keys, base addresses and proxies are gone; home, data and working directory are below tmp_path."""
    assert not [name for name in os.environ if name.upper().endswith(("_API_KEY", "_BASE_URL", "HTTP_PROXY", "HTTPS_PROXY"))]
    assert Path.home() == tmp_path / "home"
    assert Path(os.environ["IPY_WEBSEARCH_HOME"]).is_relative_to(tmp_path)
    assert Path.cwd() == tmp_path


def test_only_loopback_can_be_reached(offline: list[str]) -> None:
    """Names and addresses elsewhere raise OSError with the reason, and each attempt is noted."""
    for place in ("example.org", "93.184.216.34", "2606:2800:220:1::1", "10.0.0.1", "169.254.169.254"):
        with pytest.raises(OSError, match="the tests refuse the network"):
            socket.create_connection((place, 80), timeout=1)
    with pytest.raises(OSError, match="the tests refuse the network"):
        socket.gethostbyname("example.org")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock, pytest.raises(OSError, match="refuse"):
        sock.sendto(b"?", ("9.9.9.9", 53))
    assert len(offline) == 7


def test_loopback_is_open() -> None:
    """A server on 127.0.0.1 is reached by address and by name."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for name in ("127.0.0.1", "localhost"):
            socket.create_connection((name, port), timeout=1).close()


def test_a_test_that_tries_the_network_fails(run_tests: Any) -> None:
    """Even when the code under test swallows the error, the attempt fails the test at its end."""
    code = (
        "import socket\n"
        "def test_it():\n"
        "    try:\n"
        "        socket.create_connection(('example.org', 80))\n"
        "    except OSError:\n"
        "        pass\n"
    )
    output = run_tests(code)
    assert "1 passed, 1 error" in output and "tried to reach the network" in output


@pytest.fixture
def run_tests(tmp_path: Path) -> Any:
    """A function that runs tests under the shared fixtures in a process of its own and returns what pytest says."""

    def run(code: str) -> str:
        (tmp_path / "test_written.py").write_text(code)
        (tmp_path / "pytest.ini").write_text("[pytest]\n")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tests.conftest", str(tmp_path)]
        return subprocess.run(command, cwd=tmp_path, env=subprocess_environment(), capture_output=True, text=True).stdout

    return run


def test_subprocesses_cannot_reach_the_network_either() -> None:
    """A Python started with the fixtures' environment refuses it from its first line on."""
    code = "import socket; socket.create_connection(('93.184.216.34', 80), timeout=1)"
    done = subprocess.run([sys.executable, "-c", code], env=subprocess_environment(), capture_output=True, text=True)
    assert done.returncode == 1 and "the tests refuse the network" in done.stderr


def test_a_pretended_web_has_public_addresses(public_web: Any) -> None:
    """A page is reached over TCP under its name and a public address, which checks of addresses see."""
    url = public_web.page("http://news.example/a", "<h1>Hello</h1>")
    public_web.redirect("http://old.example/", url)
    assert socket.getaddrinfo("news.example", 80)[0][4][0].startswith("93.184.216.")
    response = httpx.get("http://old.example/", follow_redirects=True)
    assert (response.text, str(response.url)) == ("<h1>Hello</h1>", url)
    assert httpx.get("http://news.example/b").status_code == 404
    public_web.name("intranet.example", "10.0.0.7", "fd00::1")
    assert {info[4][0] for info in socket.getaddrinfo("intranet.example", 80)} == {"10.0.0.7", "fd00::1"}


def test_the_pretended_web_ends_with_its_test() -> None:
    """No name or route is left for the next test."""
    assert not network_guard.names and not network_guard.redirects


def test_a_shell_gives_value_displays_and_print(bare_shell: Any) -> None:
    """A cell's value, what it printed and what it displayed come apart; an update replaces its display."""
    ran = bare_shell.run(
        "from IPython.display import HTML, display\n"
        "shown = display(HTML('<b>one</b>'), display_id='x')\n"
        "print('printed')\n"
        "shown.update(HTML('<b>two</b>'))\n"
        "1 + 1"
    )
    assert (ran.value, ran.stdout, ran.error, ran.html) == (2, "printed\n", None, "<b>two</b>")
    assert [output.update for output in ran.outputs] == [False, True, False]
    assert ran.outputs[-1].is_result and ran.outputs[-1].data["text/plain"] == "2"


def test_a_shell_keeps_the_error_of_a_cell(bare_shell: Any) -> None:
    """A cell that fails gives its exception, and the shell goes on."""
    assert isinstance(bare_shell.run("1 / 0").error, ZeroDivisionError)
    assert isinstance(bare_shell.run("1 +").error, SyntaxError)
    assert bare_shell.run("import asyncio\nawait asyncio.sleep(0)\n'on'").value == "on"


def test_each_shell_is_a_fresh_one(bare_shell: Any, tmp_path: Path) -> None:
    """Variables of other tests are not there; history goes into the test's own folder."""
    assert "shown" not in bare_shell.ns
    assert Path(bare_shell.ip.history_manager.hist_file) == tmp_path / "history.sqlite"


def test_the_session_finds_the_fakes(session: Any, brave_api: Any) -> None:
    """Without a word of configuration a search goes to the fake of Brave."""
    results = asyncio.run(session.search("some thing"))
    assert (results.provider, brave_api.queries) == ("brave", ["some thing"])


def test_the_example_of_the_readme_works(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """The ten lines in tests/README.md are a test, and it passes."""
    code = re.search(r"```python\n(.*?)```", (Path(__file__).parent / "README.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code[1], names)
    names["test_an_answer_cites_what_the_search_found"](messages_api, brave_api, shell)


def test_a_notebook_runs_in_a_real_kernel(run_notebook: Any, brave_api: Any) -> None:
    """Cells run in a kernel that has the fakes' addresses and no network; a failing cell does not stop the rest."""
    notebook = run_notebook(
        [
            "import os, socket\nos.environ['BRAVE_BASE_URL']",
            "socket.create_connection(('example.org', 80))",
            "print('printed')\n2",
            "import ipy_websearch\nget_ipython().kernel is not None",
        ]
    )
    assert texts(notebook.cells[0]) == repr(brave_api.url)
    assert [error.split(":")[0] for error in errors(notebook)] == ["gaierror"]
    assert texts(notebook.cells[2]) == "printed\n\n2"
    assert texts(notebook.cells[3]) == "True"
