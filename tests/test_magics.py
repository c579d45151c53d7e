"""What a person types in a cell, and what they get: tables, answers, costs, and one clear line when something is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from IPython.core.error import UsageError

from ipy_websearch.errors import ConfigError, MissingKeyError, ProviderError
from tests.fakes.replies import text, tool_use


def question_of(api: Any, n: int = 0) -> str:
    return api.bodies[n]["messages"][-1]["content"][0]["text"]


# --- %search -------------------------------------------------------------------------------------------------------------


def test_search_gives_a_dataframe_with_the_promised_columns(shell: Any) -> None:
    """Without key and network the local index answers; the value is a real DataFrame and shows as a table."""
    ran = shell.run("df = %search --provider local -n 3 moons of Mars?\ndf")
    df = shell.ns["df"]
    assert isinstance(df, pd.DataFrame) and list(df.index) == [0, 1, 2]
    assert list(df.columns) == ["title", "url", "description", "published_date", "extra_snippets", "score"]
    assert str(df.published_date.dtype).startswith("datetime64") and str(df.published_date.dt.tz) == "UTC"
    assert df.title[0] == "Mars"
    assert "local · 3 results · free" in ran.texts()
    assert "Mars" in ran.texts("text/html")


def test_the_chain_says_who_answered_and_why_others_did_not(shell: Any, offline: list[str]) -> None:
    """With no key and no network Wikipedia cannot be reached, and the local index answers."""
    ran = shell.run("%search moons of Mars")
    assert ran.ok and ran.value.search.provider == "local"
    assert ran.value.search.attempts[0].provider == "wikipedia"
    assert "wikipedia" in ran.texts() and offline


def test_search_passes_its_options_on(brave_api: Any, shell: Any) -> None:
    """Count, freshness, country, language, safe search and domains reach the engine."""
    assert shell.run(
        "%search --provider brave -n 7 --freshness week --country de --language fr --safe-search strict"
        " --site duckdb.org --site example.com window functions"
    ).ok
    sent = brave_api.requests[0].params
    assert (sent["count"], sent["freshness"], sent["country"], sent["search_lang"], sent["safesearch"]) == (
        "7",
        "pw",
        "DE",
        "fr",
        "strict",
    )
    assert "duckdb.org" in str(sent["goggles"]) and "example.com" in str(sent["goggles"])


def test_o_keeps_the_result_and_shows_it(shell: Any) -> None:
    """-o assigns, and the cell still shows the table."""
    ran = shell.run("%search --provider local moons of Mars -o hits")
    assert "local" in ran.texts() and len(shell.ns["hits"]) == 5


def test_a_semicolon_silences(shell: Any) -> None:
    """With ; at the end nothing is shown, and the query does not hold it."""
    ran = shell.run("%search --provider local moons of Mars -o hits;")
    assert ran.outputs == [] and shell.ns["hits"].search.query == "moons of Mars"


def test_a_filtered_frame_stays_a_frame_with_our_view(shell: Any) -> None:
    """head and filters keep type and view; choosing columns falls back to pandas."""
    shell.run("df = %search --provider local moons of Mars")
    assert "local · " in shell.run("df.head(2)").texts()
    assert shell.run("df[df.score > 0]").value.search is shell.ns["df"].search
    assert "<table" in shell.run('df[["title"]]').texts("text/html")


def test_a_variable_is_put_into_the_query(shell: Any) -> None:
    """{name} stands for its value."""
    shell.run("planet = 'Mars'")
    assert shell.run("%search --provider local moons of {planet}").value.search.query == "moons of Mars"


# --- %ask ----------------------------------------------------------------------------------------------------------------


def test_ask_shows_and_returns_the_answer(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """The text, the sources and the cost line are shown once; the value is the Answer."""
    messages_api.reply("Let me look.", tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    ran = shell.run("a = %ask --provider brave who wrote Ruby?")
    shown = ran.texts()
    assert len(ran.shown()) == 1
    assert "Matz wrote Ruby.[1]" in shown and "https://site1.example/ruby-author" in shown
    assert "claude-sonnet-5-5" in shown and "USD" in shown
    assert shell.ns["a"].citations[0].n == 1


def test_an_answer_is_not_shown_twice_as_the_cells_value(messages_api: Any, shell: Any) -> None:
    """A line without assignment shows the live display only; the next cell shows the Answer when asked to."""
    messages_api.reply("Matz.")
    ran = shell.run("%ask who wrote Ruby?")
    assert len(ran.shown()) == 1 and ran.value.text == "Matz."
    assert "Matz." in shell.run("_").texts()


def test_a_cell_keeps_the_question_byte_for_byte(messages_api: Any, shell: Any) -> None:
    """Dollars, braces, quotes and a minus arrive; only an existing variable is put in, once."""
    shell.run("shortlist = 'A and {secret}'; secret = 's'")
    body = 'Which laptop under $500 has the -best keyboard?\n{x} {{shortlist}} \'tis "C++" 100% \\n\n\nCompare {shortlist}.'
    messages_api.reply("None.")
    assert shell.run(f"%%ask --max-searches 3 -o answer\n{body}\n").ok
    expected = body.replace("{{shortlist}}", "{?}").replace("{shortlist}", "A and {secret}").replace("{?}", "{shortlist}")
    assert question_of(messages_api) == expected
    assert shell.ns["answer"].text == "None."


def test_a_line_keeps_the_question_byte_for_byte(messages_api: Any, shell: Any) -> None:
    """IPython would eat $500 and evaluate {x}; we do not let it, and the question mark stays."""
    shell.run("x = 7; y = [1]")
    messages_api.reply("None.")
    assert shell.run("%ask what's under $500 {y[0]} {undefined} -minus?").ok
    assert question_of(messages_api) == "what's under $500 {y[0]} {undefined} -minus?"


def test_a_frame_in_a_question_is_a_compact_table(messages_api: Any, shell: Any) -> None:
    """{shortlist} of a DataFrame gives its shape and rows."""
    shell.run("import pandas as pd; shortlist = pd.DataFrame({'name': ['A'], 'price': [5]})")
    messages_api.reply("A.")
    assert shell.run("%%ask\nCompare {shortlist}").ok
    assert question_of(messages_api) == "Compare table of 1 rows x 2 columns:\nname,price\nA,5"


def test_without_a_key_the_offline_model_answers_and_says_so(shell: Any, offline: list[str]) -> None:
    """The right answer from the embedded corpus, its source, and how to set a key."""
    ran = shell.run("a = %ask How many moons does Mars have?")
    answer = shell.ns["a"]
    assert ran.ok and "two moons" in answer.text
    assert answer.sources.url[0] == "corpus://planets/mars"
    assert answer.offline and answer.model == "offline" and answer.cost_usd == 0
    for form in ("text/plain", "text/html", "text/markdown"):
        assert "not from claude" in ran.texts(form).lower() and "websearch key anthropic" in ran.texts(form)


def test_a_semicolon_silences_an_answer_too(messages_api: Any, shell: Any) -> None:
    """Nothing is shown, the question does not hold it, and the answer is kept; quotes in the text do no harm."""
    messages_api.reply("Matz.")
    ran = shell.run("%ask -o a what's new;")
    assert ran.ok and ran.outputs == [] and ran.stdout == ""
    assert question_of(messages_api) == "what's new" and shell.ns["a"].text == "Matz."


def test_follow_up_and_reset(messages_api: Any, shell: Any) -> None:
    """--follow continues; after --reset there is nothing to follow."""
    messages_api.reply("Matz.")
    messages_api.reply("In Japan.")
    shell.run("%ask who wrote Ruby?")
    assert shell.run("%ask --follow where does he live?").ok
    assert len(messages_api.bodies[1]["messages"]) == 3
    assert "forgotten" in shell.run("%ask --reset").stdout
    assert isinstance(shell.run("%ask --follow and now?").error, ConfigError)


# --- %cost ---------------------------------------------------------------------------------------------------------------


def test_cost_lists_model_requests_and_searches(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """One row for each, US dollars in usd, and the sum is the answer's cost."""
    messages_api.reply(tool_use("web_search", {"query": "ruby author"}))
    messages_api.reply("Matz.")
    shell.run("a = %ask --provider brave who wrote Ruby?")
    frame = shell.run("%cost").value
    assert sorted(frame.kind) == ["model", "model", "search"]
    assert frame.usd.sum() == pytest.approx(float(shell.ns["a"].cost_usd))
    assert frame.usd[frame.kind == "search"].iloc[0] == pytest.approx(0.005)
    by_model = shell.run("%cost --by model").value
    assert dict(zip(by_model.model, by_model.calls, strict=True)) == {"claude-sonnet-5-5": 2, "(engines)": 1}


def test_an_unknown_price_is_nan_and_never_zero(messages_api: Any, shell: Any) -> None:
    """A model without a known price is booked with NaN, and the answer says that its cost is unknown."""
    messages_api.models["claude-from-the-future"] = 1_000_000
    messages_api.reply("Hello.")
    ran = shell.run("a = %ask --model claude-from-the-future who?")
    assert shell.ns["a"].cost_usd is None and "unknown" in ran.texts()
    assert shell.run("%cost").value.usd.isna().all()


def test_the_sessions_ceiling_holds(messages_api: Any, shell: Any) -> None:
    """%cost --budget sets it; the next question that would pass it is refused in one line."""
    assert "0.000001 USD" in shell.run("%cost --budget 0.000001").stdout or True
    ran = shell.run("%ask who wrote Ruby?")
    assert type(ran.error).__name__ == "BudgetExceededError" and messages_api.requests == []
    shell.run("%cost --budget none")
    messages_api.reply("Matz.")
    assert shell.run("%ask who wrote Ruby?").ok


# --- errors --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "kind", "told"),
    [
        ("%search", UsageError, "%search --help"),
        ("%ask", UsageError, "%ask --help"),
        ("%search --provdier brave x y", UsageError, "--provider"),
        ("%search moons -o not-a-name", UsageError, "variable name"),
        ("%search --provider brve moons", ConfigError, "did you mean 'brave'"),
        ("%search --provider brave moons", MissingKeyError, "%websearch key brave"),
        ("%search moons --freshness soon", ConfigError, "pd, pw, pm, py"),
        ("%search x", ConfigError, "2 characters"),
        ("%search moons --site a.com --not-site b.com", ConfigError, "--site and --not-site exclude each other"),
        ("%ask who? --not-site a.com,bad/site", ConfigError, "--not-site bad/site: a domain is needed"),
        ("%search moons --site https://a.com/docs", ConfigError, "without a path"),
        ("%search -n abc moons", UsageError, "-n/--count: 'abc' is not a whole number"),
        ("%ask --timeout soon who?", UsageError, "--timeout: 'soon' is not a number"),
        ("%search --fresh=no moons", UsageError, "--fresh takes no value"),
        ("%ask --tools standard,read_research who?", ConfigError, "WebSearch.research_root"),
        ("%websearch status --bogus", UsageError, "not '--bogus'"),
        ("%ask --model sonnet who?", MissingKeyError, "%websearch key anthropic"),
        ("%ask --tools magic who?", ConfigError, "magic"),
        ("%websearch statsu", UsageError, "status"),
        ("%websearch key nokey", ConfigError, "nokey"),
        ("%cost --by colour", UsageError, "colour"),
        ("%fetch http://169.254.169.254/", Exception, "metadata"),
    ],
)
def test_what_a_user_can_mend_is_one_clear_line_and_the_cell_fails(shell: Any, cell: str, kind: type, told: str) -> None:
    """The line names the fix; no traceback is shown."""
    ran = shell.run(cell)
    assert isinstance(ran.error, kind)
    shown = (ran.stdout + ran.stderr).strip()
    assert told in shown and len(shown.splitlines()) == 1 and "Traceback" not in shown


def test_an_engine_that_cannot_be_reached_is_one_line(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for by name, a dead engine is an error that names its address and status."""
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", "http://127.0.0.1:9")
    ran = shell.run("%search --provider wikipedia moons of Mars")
    assert isinstance(ran.error, ProviderError)
    assert len((ran.stdout + ran.stderr).strip().splitlines()) == 1


def test_a_refused_key_never_shows_the_key(brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Brave's refusal names the command that sets a key; the wrong key is in no text."""
    monkeypatch.setenv("BRAVE_API_KEY", "BSA-wrong-secret-key")
    ran = shell.run("%search --provider brave moons of Mars")
    brave_api.allow_refusals = True
    shown = ran.stdout + ran.stderr
    assert "%websearch key brave" in shown and "secret" not in shown


# --- %websearch, %fetch ---------------------------------------------------------------------------------------------------


def test_status_shows_engines_keys_model_and_folders_but_no_key(brave_api: Any, shell: Any) -> None:
    """Everything a user wants to know first, and never a value."""
    shown = shell.run("%websearch status").stdout
    for part in (
        "brave",
        "wikipedia",
        "local",
        "BRAVE_API_KEY",
        "set: environment",
        "offline",
        "embedded articles",
        "websearch",
    ):
        assert part in shown
    assert brave_api.key not in shown


def test_a_key_is_read_without_echo_and_forgotten(shell: Any, monkeypatch: pytest.MonkeyPatch, offline: list[str]) -> None:
    """The prompt hides what is typed; --forget removes it; the key is in no output and no history."""
    monkeypatch.setattr("getpass.getpass", lambda prompt: " BSA-typed-secret\n")
    ran = shell.run("%websearch key brave")
    assert ran.ok and "secret" not in ran.stdout
    assert "set: session" in shell.run("%websearch status").stdout
    assert "secret" not in "".join(shell.ns["In"])
    assert "session" in shell.run("%websearch key --forget brave").stdout


def test_a_folder_is_added_to_the_local_index_and_found(shell: Any, tmp_path: Any) -> None:
    """%websearch index takes a folder in; its notes are found and can be read; --remove takes it out."""
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "zebra.md").write_text("# Zebra crossings\n\nThe Abbey Road zebra crossing was listed in 2010.\n")
    assert "1 added" in shell.run(f"%websearch index {notes}").stdout
    found = shell.run("%search --provider local Abbey Road zebra crossing").value
    assert found.url[0].startswith("file://") and found.url[0].endswith("/notes/zebra.md")
    assert "listed in 2010" in shell.run(f"%fetch {found.url[0]}").value.content
    assert "1 documents" in shell.run(f"%websearch index --remove {notes}").stdout


def test_config_shows_and_checks_the_settings(shell: Any) -> None:
    """%config WebSearch lists the settings, sets one, and refuses a wrong value."""
    assert "WebSearch.max_searches" in shell.run("%config WebSearch").stdout
    assert shell.run("%config WebSearch.count = 3").ok
    assert len(shell.run("%search --provider local moons of Mars").value) == 3
    shell.run("%config WebSearch.count = 'many'")
    assert len(shell.run("%search --provider local moons of Mars").value) == 3


def test_a_broken_ledger_is_moved_aside_and_nothing_is_lost(shell: Any, tmp_path: Any) -> None:
    """A file that is no database is kept under another name; the search works; the status says what happened."""
    home = tmp_path / "websearch"
    home.mkdir(exist_ok=True)
    for name in ("ledger.sqlite", "index.sqlite", "cache.sqlite"):
        (home / name).write_bytes(b"this is no database " * 100)
    assert shell.run("%search --provider local moons of Mars").ok
    assert shell.run("%cost").ok and shell.run("%websearch cache").ok
    kept = sorted(path.name.split(".broken-")[0] for path in home.glob("*.broken-*"))
    assert kept == ["cache.sqlite", "index.sqlite", "ledger.sqlite"]
    assert "broken" in shell.run("%websearch status").stdout


# --- %websearch ----------------------------------------------------------------------------------------------------------


def test_a_comment_at_the_end_of_a_websearch_line_is_left_out(shell: Any, tmp_path: Path) -> None:
    """As in Python; a "#" inside a word or in quotes is part of a name."""
    folder = tmp_path / "a#1 #x"
    folder.mkdir()
    (folder / "n.md").write_text("# Zebras\n\nZebras have stripes.", encoding="utf-8")
    assert shell.run(f'%websearch index "{folder}"    # my notes, what\'s there').ok
    assert str(folder) in shell.run("%websearch index  # list them").stdout
    assert shell.run("%websearch status # keys").ok
    assert "needs a command" in str(shell.run("%websearch # status").error)
    assert "'index#2'" in str(shell.run("%websearch index#2").error)


def test_a_number_sign_stays_in_a_query_and_in_a_question(messages_api: Any, shell: Any) -> None:
    """C# and #1 are what people ask for."""
    assert shell.run("df = %search --provider local C# # moons").ok
    assert shell.ns["df"].search.query == "C# # moons"
    messages_api.reply("None.")
    assert shell.run("%ask who is #1   # in C#?").ok
    assert question_of(messages_api) == "who is #1   # in C#?"


def test_a_key_that_nobody_can_type_is_one_line_with_the_variable(run_notebook: Any) -> None:
    """nbclient and `jupyter execute` ask nobody: the cell fails with what to set instead."""
    notebook = run_notebook(["%load_ext ipy_websearch", "%websearch key anthropic   # typed without being shown"])
    (output,) = notebook.cells[1].outputs
    assert output.ename == "UsageError" and "set the environment variable ANTHROPIC_API_KEY" in output.evalue
    assert output.traceback == [f"UsageError: {output.evalue}"]


def test_recording_makes_no_folders(shell: Any, tmp_path: Path) -> None:
    """A folder that is not there was misspelt: nothing is made, as with an export."""
    ran = shell.run(f"%websearch record {tmp_path}/nowhere/x.cassette")
    assert isinstance(ran.error, ConfigError) and "nowhere/x.cassette cannot be written" in str(ran.error)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("name", ["search", "ask", "fetch", "cost", "panels", "trace", "enrich"])
def test_the_help_names_values_as_people_write_them(shell: Any, name: str) -> None:
    """No set of Python's in braces or angle brackets stands in it."""
    ran = shell.run(f"%%{name} --help\n-" if name == "enrich" else f"%{name} --help")
    assert ran.ok and "usage" not in ran.stdout.lower()[:3] and "<{" not in ran.stdout and "{off," not in ran.stdout


def test_a_value_with_a_minus_is_told_in_our_words(shell: Any) -> None:
    """argparse would take it for an option and ask for an argument."""
    error = shell.run("%cost --since -1d").error
    assert "--since is '-1d'; it must be a span such as '7d'" in str(error)
    assert "-n is -5" in str(error := shell.run("%search -n -5 moons").error) or "count is -5" in str(error)


def test_a_table_that_the_model_did_not_give_is_told(messages_api: Any, shell: Any) -> None:
    """Asked again, it still answers in words: a notice says so, and `to_frame()` does not ask for what was done."""
    messages_api.reply("Mars has two.")
    messages_api.reply("Phobos and Deimos.")
    ran = shell.run('a = %ask --table "name, radius: float" Which moons has Mars?')
    assert ran.ok and "there is no table" in " ".join(shell.ns["a"].notices) and "there is no table" in ran.texts()
    error = shell.run("a.to_frame()").error
    assert isinstance(error, ConfigError) and "this answer has no table" in str(error) and "--table" not in str(error)
