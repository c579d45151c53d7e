"""The magics in a real kernel that nobody sits at, as `jupyter execute` and Restart & Run All in a pipeline have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

from tests.fakes.notebook import errors, subprocess_environment, texts

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
    manager = KernelManager(kernel_name="python3")
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
