"""Tab on a line of our magics offers what may stand there, through IPython and through a kernel, and nothing elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.notebook import texts


def offered(shell: Any, cell: str) -> list[str]:
    """Return what Tab offers at the end of the cell, as whole lines of the last line."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(shell.ip.Completer.completions(cell, len(cell)))
    return [(cell[: one.start] + one.text).split("\n")[-1] for one in found]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%search --fresh", "%search --freshness"),
        ("df = %search --prov", "df = %search --provider"),
        ("x = 1\n%search moons --saf", "%search moons --safe-search"),
        ("%%ask --max-s", "%%ask --max-searches"),
        ("%%enrich frame --samp", "%%enrich frame --sample"),
        ("%search --provider bra", "%search --provider brave"),
        ("%search -p loc", "%search -p local"),
        ("%search --provider=wiki", "%search --provider=wikipedia"),
        ("%search --safe-search str", "%search --safe-search strict"),
        ("%search --goggle aca", "%search --goggle academic"),
        ("%ask --model son", "%ask --model sonnet"),
        ("%ask -m claude-o", "%ask -m claude-opus-5-5"),
        ("%ask -m off", "%ask -m offline"),
        ("%ask --tools sta", "%ask --tools standard"),
        ("%ask --tools web_search,web_f", "%ask --tools web_search,web_fetch"),
        ("hits_of_mine = 1\n%search -o hits", "%search -o hits_of_mine"),
        ("%cost --by mod", "%cost --by model"),
        ("%trace --st", "%trace --step"),
        ("%panels --pa", "%panels --page"),
        ("%fetch --off", "%fetch --offset"),
        ("%websearch sta", "%websearch status"),
        ("%websearch exp", "%websearch export"),
        ("%websearch key bra", "%websearch key brave"),
        ("%websearch key --sa", "%websearch key --save"),
        ("%websearch cache cl", "%websearch cache clear"),
        ("%websearch goggles aca", "%websearch goggles academic"),
        ("%ask what of {hits", "%ask what of {hits_of_mine"),
        ("%%ask\nwhat of {hits", "what of {hits_of_mine"),
        ("%websearch store can", "%websearch store cancel"),
        ("%%enrich tab", "%%enrich table_of_mine"),
    ],
)
def test_what_may_stand_there_is_offered(shell: Any, cell: str, expected: str) -> None:
    """Options, their values, names and commands; in the line form, the cell form and behind an assignment."""
    shell.run("import pandas; hits_of_mine = 1; table_of_mine = pandas.DataFrame()")
    assert expected in offered(shell, cell)


def test_a_question_of_enrich_completes_to_the_columns_of_its_frame(shell: Any) -> None:
    """In the cell, braces stand for the row's values: no variable is offered, however alike its name."""
    shell.run("import pandas; companies = pandas.DataFrame({'company': [], 'country': [], 'two words': []}); compass = 1")
    cell = "%%enrich companies --sample 5\nceo: Who leads {comp"
    assert offered(shell, cell) == ["ceo: Who leads {company"]
    assert offered(shell, "%%enrich companies\nceo: Who leads {c") == ["ceo: Who leads {company", "ceo: Who leads {country"]
    assert "what of {companies" in offered(shell, "%%ask\nwhat of {comp")


def test_every_option_of_every_magic_is_offered_and_no_python_name(shell: Any) -> None:
    """`--` lists the options that `--help` lists, and nothing else."""
    for name in ("search", "ask", "fetch", "cost", "trace", "panels"):
        flags = {line.split()[-1] for line in offered(shell, f"%{name} --")}
        parser = shell.ip.find_line_magic(name).parser
        assert flags == {flag for action in parser._actions for flag in action.option_strings if flag.startswith("--")}


@pytest.mark.parametrize(
    "cell", ["%timeit --", "%search -- --fr", "%%ask\n--max-s", "%ask --max-searches ", "x = 5 % search --fr"]
)
def test_elsewhere_the_matcher_has_nothing_to_say(shell: Any, cell: str) -> None:
    """Lines of others, text behind `--`, the body of a cell and values that nobody can know get no option of ours."""
    assert not [line for line in offered(shell, cell) if line.endswith(("--freshness", "--max-steps"))]


def test_pythons_names_and_the_completers_of_others_stay(shell: Any) -> None:
    """Beside a matcher of the user's own, which still answers, Python is completed as before."""

    def theirs(context: Any) -> dict[str, Any]:
        from IPython.core.completer import SimpleCompletion

        return {"completions": [SimpleCompletion("theirs_too")] if context.token == "thei" else []}

    theirs.matcher_api_version, theirs.matcher_identifier = 2, "theirs"  # type: ignore[attr-defined]
    shell.ip.Completer.custom_matchers.append(theirs)
    assert "theirs_too" in offered(shell, "thei")
    shell.run("long_name_of_mine = 1")
    assert "print(long_name_of_mine" in offered(shell, "print(long_na")
    assert "%search" in offered(shell, "%sear")


def test_unloading_takes_the_matcher_away(shell: Any) -> None:
    """Only ours goes, and a second load brings back one."""
    before = list(shell.ip.Completer.custom_matchers)
    shell.run("%unload_ext ipy_websearch")
    assert len(shell.ip.Completer.custom_matchers) == len(before) - 1
    shell.run("%load_ext ipy_websearch")
    assert len(shell.ip.Completer.custom_matchers) == len(before)


def test_a_kernel_completes_and_shows_the_help(run_notebook: Any) -> None:
    """What JupyterLab asks for at Tab and at `?`: the kernel's own answers to complete and inspect requests."""
    notebook = run_notebook(
        [
            "%load_ext ipy_websearch",
            "k = get_ipython().kernel\n"
            "print(k.do_complete('%ask --max-s', 12)['matches'])\n"
            "print(k.do_complete('%%ask --tools standard,web_f', 28))\n"
            "print(k.do_inspect('%ask', 4)['data']['text/plain'])",
        ]
    )
    shown = texts(notebook.cells[1])
    assert "['--max-searches', '--max-steps']" in shown
    assert "'matches': ['web_fetch'], 'cursor_end': 28, 'cursor_start': 23" in shown
    assert "--max-searches" in shown and "How many moons does Mars have?" in shown


@pytest.mark.parametrize(
    "assignment",
    ["count = 0", "count = 'many'", "feedback = 3", "timeout_s = -1", "safe_search = 'maybe'", "platform = 'moon'"],
)
def test_a_wrong_setting_is_refused_and_named(shell: Any, assignment: str, caplog: Any) -> None:
    """`%config WebSearch.x = …` logs one line that names the setting, and the value before it stays."""
    name = assignment.split()[0]
    before = shell.run("%config WebSearch").stdout
    shell.run(f"%config WebSearch.{assignment}")
    (said,) = caplog.messages
    assert f"'{name}' trait" in said and "\n" not in said
    assert shell.run("%config WebSearch").stdout == before


def test_feedback_says_nothing_something_or_everything(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """0: the answer alone; 1: with its cost; 2: with its steps as well."""
    said = []
    for feedback in (0, 1, 2):
        messages_api.reply("Matz wrote Ruby.")
        shell.run(f"%config WebSearch.feedback = {feedback}")
        said.append(shell.run("%ask --provider brave who wrote Ruby?").texts("text/html"))
    assert all("Matz wrote Ruby." in text for text in said)
    assert "USD" not in said[0] and "USD" in said[1] and len(said[0]) < len(said[1]) < len(said[2])


def test_help_has_an_example_of_every_magic(shell: Any) -> None:
    """`%websearch help` names them all; each has `--help`, and says in one line what it lacks when it is bare."""
    from ipy_websearch.magics.extension import MAGICS

    said = shell.run("%websearch help").stdout
    for name, (_, _, kinds) in MAGICS.items():
        assert f"%{name}" in said
        if "line" not in kinds:
            continue
        assert f"%{name}" in shell.run(f"%{name} --help").stdout
        ran = shell.run(f"%{name}")
        assert ran.ok or "\n" not in str(ran.error)


def test_a_wrong_value_or_name_is_told_with_what_was_meant(shell: Any) -> None:
    """Choices, options, engines, models' tools and commands: one line, and the nearest name."""
    for line, meant in (
        ("%cost --by modl", "'model'"),
        ("%search --safe-search strickt moons", "'strict'"),
        ("%search --provder local moons", "'--provider'"),
        ("%search --provider loca moons", "'local'"),
        ("%ask --tools standrd moons", "'standard'"),
        ("%websearch statis", "'status'"),
    ):
        error = shell.run(line).error
        assert f"did you mean {meant}" in str(error) and "\n" not in str(error)


def test_an_interrupt_of_any_magic_is_one_line(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """■ or Ctrl-C while a search hangs: the cell fails and says what was stopped, without a traceback."""
    from ipy_websearch import api

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "search", interrupted)
    ran = shell.run("%search moons of Mars")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert (ran.stdout + ran.stderr).strip() == "Interrupted: %search was stopped"
