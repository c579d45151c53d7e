"""`%websearch`: the state of things, keys that are nowhere to be seen, the index, prices."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest
from IPython.core.error import UsageError

from ipy_websearch.magics.websearch import COMMANDS, USAGE
from ipy_websearch.settings import settings_dir


def test_a_typed_key_is_used_and_saved_for_the_owner_alone(brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BRAVE_API_KEY")
    monkeypatch.setattr("getpass.getpass", lambda prompt: f"  {brave_api.key}\n")
    ran = shell.run("%websearch key --save brave   # typed without being shown, that's it")
    assert "BRAVE_API_KEY is set for this session and saved in" in ran.stdout and brave_api.requests == []
    path = settings_dir() / "brave-api-key"
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_text().strip() == brave_api.key
    assert shell.run("%websearch key --forget brave").ok and not path.exists()


@pytest.mark.parametrize(
    ("value", "told"), [("", "set the environment variable TAVILY_API_KEY"), ("tvly-key", "(environment)")]
)
def test_where_nobody_can_type_a_key_one_line_says_what_to_set(
    shell: Any, monkeypatch: pytest.MonkeyPatch, value: str, told: str
) -> None:
    monkeypatch.setattr("getpass.getpass", Mock(side_effect=NotImplementedError))
    monkeypatch.setenv("TAVILY_API_KEY", value)
    ran = shell.run("%websearch key tavily")
    assert ran.ok and told in ran.stdout and len(ran.stdout.splitlines()) == 1


def test_prices_are_a_table_with_source_and_date(shell: Any) -> None:
    own = '[[model]]\nid = "claude-sonnet-5-5"\ninput = 1\noutput = 2\nplan = "ours"\n'
    settings_dir().mkdir(exist_ok=True)
    (settings_dir() / "prices.toml").write_text(own)
    prices = shell.run("%websearch prices").value.set_index("name")
    mine = prices.loc["claude-sonnet-5-5"]
    assert set(mine.source) == {"prices.toml"} and set(mine.plan) == {"ours"} and mine.usd.max() == 2
    assert prices.loc["claude-haiku-5-5", "source"].str.startswith("genai-prices").all() and "wikipedia" in prices.index
    brave = prices.loc["brave"].set_index("kind").loc["search"]
    assert brave.usd == 0.005 and "brave.com" in brave.source and brave.date


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("statsu", "did you mean 'status'"),
        ("status --bogus", "unknown option --bogus"),
        ("key", "cannot read %websearch key; %websearch help shows"),
        ("status --force", "cannot read %websearch status"),
        ("key --name", "unknown option --name"),
        ("export --file", "unknown option --file"),
        ("store empty", "%websearch help shows"),
        ("cache empty", "did you mean 'cache clear'"),
    ],
)
def test_a_wrong_command_is_one_plain_usage_error(shell: Any, line: str, told: str) -> None:
    error = shell.run(f"%websearch {line}").error
    assert type(error) is UsageError and told in str(error) and "\n" not in str(error)


def test_help_names_every_command_and_has_an_example_of_every_magic(shell: Any) -> None:
    said = shell.run("%websearch help").stdout
    assert said.strip() == USAGE and all(f"%websearch {command}" in said for command in COMMANDS)
    for name in ("search", "ask", "fetch", "cost", "panels", "trace", "enrich"):
        assert f"%{name}" in said and f"%{name}" in shell.run(f"%{name} --help").stdout == shell.run(f"%{name} ?").stdout
        assert "--output" in shell.run(f"%{name}?").stdout
