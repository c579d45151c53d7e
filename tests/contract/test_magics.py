"""Contract: what a person types in a cell and what they get."""

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from IPython.core.error import UsageError

from ipy_websearch.errors import ConfigError, MissingKeyError
from ipy_websearch.settings import settings_dir
from tests.contract.helpers import question_of, search
from tests.fakes.engines import hit
from tests.fakes.replies import text


def test_search_is_a_dataframe_with_the_promised_columns(shell: Any) -> None:
    ran = shell.run("df = %search --provider local -n 3 moons of Mars\ndf")
    df = shell.ns["df"]
    assert isinstance(df, pd.DataFrame) and list(df.index) == [0, 1, 2]
    assert list(df.columns) == ["title", "url", "description", "published_date", "extra_snippets", "score"]
    assert str(df.published_date.dt.tz) == "UTC" and df.title[0] == "Mars"
    assert "Mars" in ran.texts("text/html") and "Mars" in ran.texts()


def test_search_passes_its_options_on(brave_api: Any, shell: Any) -> None:
    options = "--provider brave -n 7 --freshness pw --country de --language fr --safe-search strict --site duckdb.org"
    assert shell.run(f"%search {options} window functions").ok
    sent = brave_api.requests[0].params
    assert (sent["count"], sent["freshness"], sent["country"]) == ("7", "pw", "DE")
    assert (sent["search_lang"], sent["safesearch"]) == ("fr", "strict") and "duckdb.org" in str(sent["goggles"])


def test_o_assigns_and_shows_and_a_semicolon_silences(shell: Any) -> None:
    ran = shell.run("%search --provider local -o hits moons of Mars")
    assert "Mars" in ran.texts() and len(shell.ns["hits"]) == 5
    silent = shell.run("%search --provider local -o quiet moons of Mars;")
    assert silent.outputs == [] and list(shell.ns["quiet"].url) == list(shell.ns["hits"].url)


def test_ask_shows_its_answer_once_with_sources_and_cost(messages_api: Any, brave_api: Any, shell: Any) -> None:
    brave_api.reply([hit("https://ruby.example/", "Ruby", "Matz wrote Ruby.")])
    messages_api.reply("Let me look.", search("ruby author"))
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    ran = shell.run("a = %ask --provider brave who wrote Ruby?")
    assert len(ran.shown()) == 1 and shell.ns["a"].citations[0].n == 1
    for form in ("text/plain", "text/html"):
        assert "Matz wrote Ruby." in ran.texts(form) and "https://ruby.example/" in ran.texts(form)
    assert "USD" in ran.texts() and "claude-sonnet-5-5" in ran.texts()
    assert "Matz wrote Ruby." in shell.run("a").texts()


BODY = 'Which laptop under $500 has the -best keyboard?\n{x} {{shortlist}} \'tis "C++" 100% # \\n\n\nCompare {shortlist}.'


def test_a_cell_arrives_byte_for_byte_and_a_variable_is_put_in_once(messages_api: Any, shell: Any) -> None:
    shell.run("shortlist = 'A and {secret}'; secret = 's'")
    messages_api.reply("None.")
    assert shell.run(f"%%ask --max-searches 3 -o answer\n{BODY}\n").ok
    expected = BODY.replace("{{shortlist}}", "{?}").replace("{shortlist}", "A and {secret}").replace("{?}", "{shortlist}")
    assert question_of(messages_api.bodies[0]) == expected and shell.ns["answer"].text == "None."


@pytest.mark.parametrize(
    "question",
    [
        "what's under $500 {y[0]} {undefined} -minus?",
        "who is #1   # in C#?",
        "is 5 > 3 && $HOME?",
        "how do I grep -n 5 in bash?",
        "what does python -m venv --clear do",
        "gcc main.c -o main",
        "git log --follow",
    ],
)
def test_a_line_arrives_byte_for_byte(messages_api: Any, shell: Any, question: str) -> None:
    shell.run("y = [1]; main = 1")
    messages_api.behave(lambda body: "None.")
    assert shell.run(f"%ask {question}").ok and shell.ns["main"] == 1
    assert question_of(messages_api.bodies[0]) == question


def test_a_conversation_and_its_costs_survive_a_reload_and_end_with_a_reset(messages_api: Any, shell: Any) -> None:
    messages_api.replies("Matz.", "In Japan.")
    shell.run("%ask who wrote Ruby?")
    spent = shell.run("%cost").value.usd.sum()
    assert shell.run("%reload_ext ipy_websearch").ok and shell.run("%cost").value.usd.sum() == spent > 0
    assert shell.run("%ask --follow where does he live?").ok and len(messages_api.bodies[1]["messages"]) == 3
    shell.run("%ask --reset")
    assert isinstance(shell.run("%ask --follow and now?").error, ConfigError)


@pytest.mark.parametrize(
    ("cell", "kind", "told"),
    [
        ("%search", UsageError, "%search"),
        ("%ask", UsageError, "%ask"),
        ("%search --provdier brave x y", UsageError, "unknown option --provdier; did you mean '--provider'?"),
        ("%search -n abc moons", UsageError, "invalid int value: 'abc'"),
        ("%search -o not-a-name moons", UsageError, "'not-a-name' is not a variable name"),
        ("%ask --xyzzy why", UsageError, "unknown option --xyzzy; --help lists them"),
        ("%ask -porsche", UsageError, "unknown option -porsche"),
        ("%ask --max-searches", UsageError, "--max-searches needs a value"),
        ("%ask --max-searches --follow why", UsageError, "--max-searches needs a value"),
        ("%ask --follow=no why", UsageError, "--follow: ignored explicit argument 'no'"),
        ("%search --provider brve moons", ConfigError, "brave"),
        ("%search --provider brave moons", MissingKeyError, "%websearch key brave"),
        ("%search --freshness soon moons", ConfigError, "soon"),
        ("%ask --model sonnet who?", MissingKeyError, "%websearch key anthropic"),
        ("%ask --tools magic who?", ConfigError, "magic"),
        ("%websearch statsu", UsageError, "did you mean 'status'"),
        ("%websearch status --bogus", UsageError, "unknown option --bogus"),
        ("%websearch key", UsageError, "cannot read %websearch key; %websearch help shows"),
        ("%websearch status --force", UsageError, "cannot read %websearch status"),
        ("%websearch key --name", UsageError, "unknown option --name"),
        ("%websearch cache empty", UsageError, "did you mean 'cache clear'"),
        ("%websearch key nokey", ConfigError, "nokey"),
        ("%cost --by colour", ConfigError, "colour"),
        ("%fetch http://169.254.169.254/", Exception, "169.254.169.254"),
        ("%search x", ConfigError, "2 characters"),
        ("%search --safe-search strickt moons", UsageError, "choose from 'off', 'moderate', 'strict'"),
        ("%search --site duckdb.org/docs windows", ConfigError, "engines search whole sites; write duckdb.org"),
        ("%fetch", UsageError, "%fetch --help"),
        ("%fetch javascript:alert(1)", Exception, "not an http:// or https:// address"),
        ("%%ask --max-searches 3\n ", UsageError, "%ask --help"),
        ("%ask --budget much who?", ConfigError, "budget_usd is 'much'"),
        ("%ask --timeout soon who?", UsageError, "--timeout: invalid float value: 'soon'"),
        ("%panels P1", UsageError, "there is no panel 'P1'; there are none yet"),
        ("%cost --since yesterday", ConfigError, "since is 'yesterday'"),
        ("%cost x", UsageError, "options only"),
        ("%%enrich nothing\nceo: Who?", UsageError, "there is no DataFrame called 'nothing'"),
        ("%%enrich\nceo: Who?", UsageError, "%enrich --help"),
        ("%%enrich firms\nceo", UsageError, "cannot read the line 'ceo'"),
        ("%%enrich firms\na: b?\na: c?", UsageError, "stands twice"),
        ("%%enrich firms\nceo: Who leads {compny}?", ConfigError, "did you mean 'company'"),
        ("%ask what is {odd}?", UsageError, "{odd} cannot be written as text: ZeroDivisionError: so odd"),
        ("%ask what is {lazy}?", UsageError, "{lazy} cannot be written as text: TypeError: its rows are not in memory"),
    ],
)
def test_what_a_user_can_mend_is_one_line_and_the_cell_fails(shell: Any, cell: str, kind: type, told: str) -> None:
    shell.run("class Odd:\n    def __repr__(self):\n        raise ZeroDivisionError('so odd')\nodd = Odd()")
    shell.ns.update(firms=pd.DataFrame({"company": ["Acme"]}), lazy=pl.LazyFrame({"n": [1]}))
    ran = shell.run(cell)
    shown = (ran.stdout + ran.stderr).strip()
    assert isinstance(ran.error, kind) and (kind is not UsageError or type(ran.error) is UsageError)
    assert told in shown and len(shown.splitlines()) == 1 and "Traceback" not in shown


def test_the_offline_answer_shows_passages_and_claims_no_more_than_their_gate_allows(shell: Any, offline: list[str]) -> None:
    ran = shell.run("a = %ask How many moons does Mars have?")
    answer = shell.ns["a"]
    assert ran.ok and "two moons" in answer.text and answer.cost_usd == 0 and answer.model == "offline"
    assert "Mars" in list(answer.sources.title)
    assert all("%websearch key anthropic" in ran.texts(form) for form in ("text/plain", "text/html"))
    for question in ("Why is the sky blue?", "Who is the current president of the United States?", "What's 2+2?"):
        shown = shell.run(f"a = %ask --provider local {question}")
        text_of = shell.ns["a"].text.lower()
        assert shown.ok and "no model read these" in text_of and "nothing found" not in text_of
        assert text_of.index("no model read these") < 5, "no sentence is put first as the answer"


def test_cost_is_a_frame_whose_groups_add_up_until_it_is_reset(messages_api: Any, brave_api: Any, shell: Any) -> None:
    messages_api.replies(search("ruby author"), "Matz.")
    shell.run("a = %ask --provider brave who wrote Ruby?")
    total = float(shell.ns["a"].cost_usd)
    assert list(shell.run("%cost").value.question) == ["who wrote Ruby?"]
    assert shell.run("%cost --rows").value.usd.sum() == pytest.approx(total)
    for group in ("question", "model", "provider", "kind", "day"):
        assert shell.run(f"%cost --by {group}").value.usd.sum() == pytest.approx(total), group
    assert list(shell.run("%cost --all --since 1h --by kind").value.kind) == ["search", "model"]
    assert len(shell.run("%cost --reset").value) == 0


def test_status_names_engines_and_never_a_key(messages_api: Any, brave_api: Any, shell: Any) -> None:
    shown = shell.run("%websearch status").texts()
    assert "brave" in shown and "wikipedia" in shown and "BRAVE_API_KEY" in shown
    assert "built-in articles: countries, elements, general, languages, planets" in shown
    assert brave_api.key not in shown and messages_api.key not in shown


def test_a_key_is_read_without_echo_saved_for_its_owner_and_forgotten(
    brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BRAVE_API_KEY")
    monkeypatch.setattr("getpass.getpass", lambda prompt: f" {brave_api.key}\n")
    ran = shell.run("%websearch key --save brave   # typed without being shown, that's it")
    assert "BRAVE_API_KEY is set for this session and saved in" in ran.stdout and brave_api.requests == []
    assert ran.ok and brave_api.key not in ran.stdout + "".join(shell.ns["In"])
    path = settings_dir() / "brave-api-key"
    assert path.stat().st_mode & 0o777 == 0o600 and path.read_text().strip() == brave_api.key
    assert shell.run("%search --provider brave moons").ok
    assert shell.run("%websearch key --forget brave").ok and not path.exists()
    assert isinstance(shell.run("%search --fresh --provider brave moons").error, MissingKeyError)


def test_a_folder_becomes_an_engine_of_its_own(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/zebra.md").write_text("# Zebra crossings\n\nThe Abbey Road zebra crossing was listed in 2010.\n")
    assert shell.run(f"%websearch index {tmp_path / 'notes'}").ok
    found = shell.run("%search --provider local Abbey Road zebra crossing").value
    assert found.url[0].startswith("file://") and "listed in 2010" in shell.run(f"%fetch {found.url[0]}").value.content
    assert list(shell.run("%search --provider local --site notes crossing").value.url) == [found.url[0]]


def test_unloading_is_the_exact_inverse_of_loading(bare_shell: Any) -> None:
    manager = bare_shell.ip.magics_manager
    getattr(manager, "load_all_lazy_magics", lambda: None)()
    bare_shell.ip.register_magic_function(lambda line: "mine", "line", "search")
    before = registered(bare_shell.ip)
    assert bare_shell.run("%load_ext ipy_websearch").ok and bare_shell.run("%search --provider local moons of Mars").ok
    assert bare_shell.run("%load_ext ipy_websearch").ok
    assert bare_shell.run("%unload_ext ipy_websearch").ok and registered(bare_shell.ip) == before
    assert bare_shell.run("%search x").value == "mine"


def registered(ip: Any) -> dict[str, Any]:
    """Return everything that loading may touch in a shell."""
    formatters = {**ip.display_formatter.formatters, "bundle": ip.display_formatter.mimebundle_formatter}
    return {
        "magics": {kind: dict(names) for kind, names in ip.magics_manager.magics.items()},
        "configurables": list(ip.configurables),
        "transformers": list(ip.input_transformer_manager.token_transformers),
        "printers": {name: dict(made.type_printers) for name, made in formatters.items()},
        "deferred": {name: dict(made.deferred_printers) for name, made in formatters.items()},
        "events": {name: list(callbacks) for name, callbacks in ip.events.callbacks.items()},
    }
