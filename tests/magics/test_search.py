"""`%search` and `%fetch`: what a person types, and what they get."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.error import UsageError

from ipy_websearch.errors import ConfigError, MissingKeyError, ProviderError


def test_the_chain_says_who_answered_and_why_others_did_not(shell: Any, offline: list[str]) -> None:
    ran = shell.run("%search moons of Mars")
    assert ran.ok and ran.value.search.provider == "local" and offline
    assert ran.value.search.attempts[0].provider == "wikipedia" and "wikipedia" in ran.texts()


def test_a_query_is_never_read_as_options_or_code(shell: Any) -> None:
    shell.run("main, x, planet = 'kept', 7, 'Mars'")
    for query in ("grep -n 5", "gcc main.c -o main", "under $500 {y[0]} C# # 'tis \\n 100%?"):
        assert shell.run(f"%search --provider local {query}").value.search.query == query
    assert shell.run("%search --provider local moons of {planet}").value.search.query == "moons of Mars"
    assert shell.ns["main"] == "kept"


@pytest.mark.parametrize(
    ("cell", "kind", "told"),
    [
        ("%search", UsageError, "%search --help"),
        ("%search --provdier brave x y", UsageError, "did you mean '--provider'"),
        ("%search --provider brve moons", ConfigError, "did you mean 'brave'"),
        ("%search --provider brave moons", MissingKeyError, "%websearch key brave"),
        ("%search --freshness soon moons", ConfigError, "pd, pw, pm, py"),
        ("%search x", ConfigError, "2 characters"),
        ("%search --safe-search strickt moons", UsageError, "choose from 'off', 'moderate', 'strict'"),
        ("%search --site duckdb.org/docs windows", ConfigError, "engines search whole sites; write duckdb.org"),
        ("%fetch", UsageError, "%fetch --help"),
        ("%fetch http://169.254.169.254/latest", Exception, "cloud metadata"),
        ("%fetch javascript:alert(1)", Exception, "not an http:// or https:// address"),
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

    brave_api.reply(delay_s=3)

    def press() -> None:
        brave_api.wait(lambda api: api.active, 10)
        _thread.interrupt_main()

    threading.Thread(target=press, daemon=True).start()
    ran = shell.run("%search --provider brave moons of Mars")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert (ran.stdout + ran.stderr).strip() == "Interrupted: %search was stopped"


def test_a_page_is_markdown_and_comes_from_the_cache_once(public_web: Any, shell: Any) -> None:
    url = public_web.page("http://page.example/a", "<article><h1>Rows</h1><p>One paragraph of text.</p></article>")
    first, again = shell.run(f"%fetch {url}"), shell.run(f"p = %fetch --limit 1 {url}\np")
    assert first.ok and "One paragraph" in first.value.content and len(public_web.requests) == 1
    assert shell.ns["p"].lines_read == 1 and shell.ns["p"].cached and "cached" in again.html
    assert shell.run(f"%fetch {url} --fresh").ok and len(public_web.requests) == 2
