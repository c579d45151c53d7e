"""A long answer streams into JupyterLab and leaves a small notebook."""

from __future__ import annotations

from typing import Any

from tests.fakes.replies import slow, text, tool_use

PARAGRAPH = "Ruby is a language by Yukihiro Matsumoto, and **paragraph {n}** says so with a list:\n\n- one\n- two\n\n"
ANSWER = "".join(PARAGRAPH.format(n=n) for n in range(100)) + "THE END."


def test_a_long_answer_shows_to_its_end_and_leaves_a_small_notebook(
    messages_api: Any, brave_api: Any, open_notebook: Any
) -> None:
    """9 kB in pieces: the page shows the end; what is saved is one output, the final state."""
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply(text(ANSWER), slow(0.001))
    with open_notebook(["%load_ext ipy_websearch", "%ask --provider brave who wrote Ruby?"]) as notebook:
        notebook.run_all()
        notebook.wait_for(1, "THE END.")
        outputs = notebook.save()["cells"][1]["outputs"]
    assert len(outputs) == 1 and "THE END." in "".join(outputs[0]["data"]["text/plain"])
    assert len(str(outputs)) < 200_000
