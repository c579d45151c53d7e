"""What an intercepted call has cost is on disk soon, however long the call goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.interception import intercept
from ipy_websearch.interception.waiting import KEPT_S
from ipy_websearch.ledger import Ledger
from tests.fakes.replies import tool_use

TOOL = {"type": "web_search_20250305", "name": "web_search"}
QUESTION = {
    "model": "claude-sonnet-5-5",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Who?"}],
    "tools": [TOOL],
}
KILLED = f"""
import sys, time, anthropic
from ipy_websearch import intercept
client = intercept(anthropic.Anthropic(), provider="brave")
for event in client.messages.create(**{QUESTION!r}, stream=True):
    if event.type == "content_block_stop" and event.index == 1:
        time.sleep({KEPT_S} * 2)
        print(flush=True)
        time.sleep(60)
"""


def kinds() -> list[str]:
    """Return what the ledger's file has, as somebody else reads it."""
    path = api.session().ledger.path
    assert path is not None
    ledger = Ledger(path)
    try:
        return list(ledger.frame().kind)
    finally:
        ledger.close()


def test_what_was_paid_is_on_disk_while_the_answer_is_written(messages_api: Any, brave_api: Any) -> None:
    """The first reply and its search, before the call has ended; at its end the rest, and nothing twice."""
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply("Matz wrote it.")
    client = intercept(anthropic.Anthropic(), provider="brave")
    with client.messages.stream(**QUESTION) as stream:  # type: ignore[arg-type]
        for event in stream:
            if event.type == "content_block_stop" and event.index == 1:
                time.sleep(KEPT_S * 2)
                assert sorted(kinds()) == ["model", "search"]
    api.session().ledger.write_held()
    assert sorted(kinds()) == ["model", "model", "search"] and len(api.cost()) == 3


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL")
def test_a_kill_in_the_middle_of_a_call_loses_no_row(messages_api: Any, brave_api: Any) -> None:
    """Kernels are restarted when an answer takes too long; here the answer is still to be asked for."""
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, env={**os.environ}) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    assert sorted(kinds()) == ["model", "search"]
