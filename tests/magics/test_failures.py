"""What a user can mend is one line, whichever magic it is; an interrupt is one too."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.error import UsageError

from ipy_websearch.errors import ConfigError, ProviderError


@pytest.mark.parametrize(
    ("cell", "kind", "told"),
    [
        ("%search x", ConfigError, "2 characters"),
        ("%search --safe-search strickt moons", UsageError, "choose from 'off', 'moderate', 'strict'"),
        ("%search --site duckdb.org/docs windows", ConfigError, "engines search whole sites; write duckdb.org"),
        ("%fetch", UsageError, "%fetch --help"),
        ("%fetch javascript:alert(1)", Exception, "not an http:// or https:// address"),
        ("%%ask --max-searches 3\n ", UsageError, "%ask --help"),
        ("%ask --budget much who?", ConfigError, "budget_usd is 'much'"),
        ("%ask --timeout soon who?", UsageError, "--timeout: invalid float value: 'soon'"),
        ("%panels P1", UsageError, "there is no panel 'P1'; there are none yet"),
        ("%cost --since yesterday", ConfigError, "--since is 'yesterday'"),
        ("%cost x", UsageError, "options only"),
        ("%%enrich nothing\nceo: Who?", UsageError, "there is no DataFrame called 'nothing'"),
        ("%%enrich\nceo: Who?", UsageError, "%enrich --help"),
    ],
)
def test_what_a_user_can_mend_is_one_clear_line_and_the_cell_fails(shell: Any, cell: str, kind: type, told: str) -> None:
    ran = shell.run(cell)
    assert isinstance(ran.error, kind) and (kind is not UsageError or type(ran.error) is UsageError)
    shown = (ran.stdout + ran.stderr).strip()
    assert told in shown and len(shown.splitlines()) == 1 and "Traceback" not in shown


def test_a_provider_that_cannot_be_reached_is_one_line(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", "http://127.0.0.1:9")
    ran = shell.run("%search --provider wikipedia moons of Mars")
    assert isinstance(ran.error, ProviderError) and len((ran.stdout + ran.stderr).strip().splitlines()) == 1


def test_an_interrupt_of_a_search_is_one_line(brave_api: Any, shell: Any) -> None:
    import _thread
    import threading

    brave_api.reply(delay_s=60)

    def press() -> None:
        brave_api.wait(lambda api: api.active, 10)
        _thread.interrupt_main()

    threading.Thread(target=press, daemon=True).start()
    ran = shell.run("%search --provider brave moons of Mars")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert (ran.stdout + ran.stderr).strip() == "Interrupted: %search was stopped"
