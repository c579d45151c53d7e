"""Keys are tried once when they are typed, and are nowhere to be seen afterwards."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError, ModelError
from tests.fakes.replies import error, text, tool_use

SECRET = "BSA-typed-very-secret-key"


@pytest.mark.parametrize("mode", ["Plain", "Verbose"])
def test_no_key_in_what_is_printed_logged_or_stored(
    messages_api: Any,
    brave_api: Any,
    shell: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mode: str,
) -> None:
    """Through searches, answers, refusals and verbose tracebacks, no key stands in output, reprs, logs, files or history."""
    caplog.set_level(logging.DEBUG)
    keys = [messages_api.key, brave_api.key]
    messages_api.reply(tool_use("web_search", {"query": f"my key is {brave_api.key}"}))
    messages_api.reply(text("Done."))
    seen = []
    for cell in (
        f"%xmode {mode}",
        "%config WebSearch.count = 1",  # longer entries of the cache are cut at SQLite's pages, and the question with them
        "a = %ask --provider brave who wrote Ruby?",
        "%search --provider brave ruby author",
        "%websearch status",
        "%cost",
        "from ipy_websearch import api; api.session(), api.session().keys, api.session().http",
        "repr(api.session().__dict__)",
    ):
        ran = shell.run(cell)
        seen += [ran.stdout, ran.stderr, repr(ran.value), ran.texts(), ran.texts("text/html")]
    brave_api.fail(500, times=3)
    ran = shell.run("%search --provider brave --fresh something else")
    seen += [ran.stdout, ran.stderr, caplog.text, json.dumps([str(m) for m in shell.ns["a"].messages])]
    home = tmp_path / "websearch"
    for path in home.rglob("*"):
        if path.is_file():
            seen.append(path.read_bytes().decode("latin-1"))
    question = f"my key is {brave_api.key}"
    for text_seen in seen:
        for key in keys:
            assert key not in text_seen.replace(question, "")


NO_KEYS = ["my secret key", "tvly-sécret-key", "tvly-first\\nsecond", "'tvly secret' and more"]


@pytest.mark.parametrize("value", NO_KEYS)
def test_a_value_that_is_no_key_is_taken_out_of_texts_all_the_same(
    messages_api: Any, shell: Any, tmp_path: Path, value: str
) -> None:
    """As it was written and as it may be shown: in the ledger, and in what a service says."""
    (tmp_path / ".env").write_text(f'EXA_API_KEY="{value}"\n', encoding="utf-8")
    plain = value.replace("\\n", "\n")
    messages_api.allow_refusals = True
    messages_api.reply(error(400, message=f"your key {plain} is odd"))
    ran = shell.run("from ipy_websearch import api; api.ask(" + repr(f"is {plain} a key?") + ", provider='local')")
    assert isinstance(ran.error, ModelError)
    shown = " ".join([str(ran.error), *shell.run("%cost").value.question])
    assert shown.count("[key]") == 2
    assert not any(part in shown for part in ("secret", "sécret", "second"))


def test_short_values_are_left_in_texts(shell: Any, tmp_path: Path) -> None:
    """Three characters are no key, and may stand in any word."""
    (tmp_path / ".env").write_text("EXA_API_KEY=moo\nTAVILY_API_KEY=' x '\n", encoding="utf-8")
    assert shell.run("%search --provider local moons of Mars").ok
    assert list(shell.run("%cost").value.question) == ["moons of Mars"]


@pytest.mark.parametrize("value", ["a\udcff secret", "\udcff\udcfe\udcfd\udcfc", "   ", "'\"'", "x" * 100_000 + " y"])
def test_no_value_makes_redaction_fail(shell: Any, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Not even bytes that are no text."""
    monkeypatch.setenv("EXA_API_KEY", value)
    session = shell.run("from ipy_websearch import api; api.session()").value
    for redact in (session.redact, session.http.redact):
        shown = redact(f"it says {value}!")
        assert "secret" not in shown and shown.startswith("it says") and shown.endswith("!")
    assert shell.run("%search --provider local moons of Mars").ok


def test_a_malformed_key_of_the_model_is_said_by_the_status_and_by_who_asks_it(
    shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The offline model and searches do without it."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk ant secret")
    status = shell.run("%websearch status")
    assert status.ok and "ANTHROPIC_API_KEY (environment)" in status.stdout and "secret" not in status.stdout
    assert isinstance(shell.run("%ask --provider local who wrote Ruby?").error, ConfigError)
    assert shell.run("%ask --model offline --provider local How many moons has Mars?").ok
