"""The magics: their lines, in which text arrives byte for byte, and in a shell loading, Tab, answers, costs, panels, prices."""

import json
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TransformerManager

from ipy_websearch.magics.arguments import MAX_CHARS, RawLine, as_text, interpolate, parse
from ipy_websearch.magics.ask import ask
from ipy_websearch.magics.search import fetch, search
from ipy_websearch.magics.websearch import COMMANDS, USAGE, websearch
from tests.contract.helpers import boss, companies, company_in, run
from tests.fakes.engines import hit
from tests.fakes.replies import delay, slow, tool_use
from tests.fakes.shell import interrupted_when


@pytest.mark.parametrize(
    ("magic", "line", "options", "text"),
    [
        (search, "-n 10 moons", {"count": 10}, "moons"),
        (search, "-n3 moons", {"count": 3}, "moons"),
        (search, "--count=3 moons", {"count": 3}, "moons"),
        (search, "--site a.example --site b.example moons", {"allowed_domains": ["a.example", "b.example"]}, "moons"),
        (search, "--goggle '$boost=3,site=a.example' moons", {"goggles": ["$boost=3,site=a.example"]}, "moons"),
        (search, "--fresh --provider local moons", {"fresh": True, "provider": "local"}, "moons"),
        (search, '-n 0 --freshness "a b" moons', {"count": 0, "freshness": "a b"}, "moons"),
        (fetch, "https://a.example/?q='x'#y --limit 3", {"limit": 3}, "https://a.example/?q='x'#y"),
        (websearch, "record a # --force it", {}, "record a # --force it"),
        (websearch, 'export "my  notes -old"/b.md --force', {"force": True}, 'export "my  notes -old"/b.md'),
    ],
)
def test_only_the_given_options_are_passed_on_and_they_may_follow_names(
    magic: Any, line: str, options: dict[str, Any], text: str
) -> None:
    assert parse(magic.make_parser(), line, names=magic is not search) == (options, text)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_line_is_read_or_refused_in_one_line(line: str) -> None:
    assert parse(ask.make_parser(), f"-o a -- {line}")[1] == line.strip()
    assert parse(ask.make_parser(), f"-o a --follow -- {line}")[0] == {"follow": True, "output": "a"}
    with suppress(UsageError):
        assert parse(ask.make_parser(), line)[1] in line


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%ask How many moons?", "get_ipython().run_line_magic('ask', 'How many moons?')\n"),
        ("a = %search why??", "a = get_ipython().run_line_magic('search', 'why??')\n"),
        ("if 1:\n    %ask why?", "if 1:\n    get_ipython().run_line_magic('ask', 'why?')\n"),
        ("%ask what's f(x?\ny = 1", "get_ipython().run_line_magic('ask', \"what's f(x?\")\ny = 1\n"),
        ("df = %search what's new;", "df = get_ipython().run_line_magic('search', \"what's new\");\n"),
        ("größe[-1] = %ask  what?", "größe[-1] = get_ipython().run_line_magic('ask', 'what?')\n"),
        ("f('x = %ask why?')", "f('x = %ask why?')\n"),
        ("%ask price of the C# book?", "get_ipython().run_line_magic('ask', 'price of the C# book?')\n"),
        ("%ask?", "get_ipython().run_line_magic('pinfo', '%ask')\n"),
        ("%timeit f?", "get_ipython().run_line_magic('pinfo', 'f')\n"),
        ("n = 10 % ask", "n = 10 % ask\n"),
        ("'''\n%ask why?\n'''", "'''\n%ask why?\n'''\n"),
    ],
)
def test_ipython_leaves_our_lines_alone_and_we_leave_all_others(cell: str, expected: str) -> None:
    manager = TransformerManager()
    manager.token_transformers += [RawLine]
    assert manager.transform_cell(cell) == expected


def test_an_existing_variable_is_put_in_once_and_nothing_is_evaluated() -> None:
    text = "{city} {{city}} {{nothing}} {unknown} {city.x} {1+1} {city!r} {} { city } {'a': 1}"
    filled = "{secret} {city} {{nothing}} {unknown} {city.x} {1+1} {city!r} {} { city } {'a': 1}"
    assert interpolate(text, {"city": "{secret}", "secret": "s3cret"}) == filled


COUNTRIES = pd.DataFrame({"c": ["Peru", "Chile"], "n": [1, 3]})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (COUNTRIES, "table of 2 rows x 2 columns:\nc,n\nPeru,1\nChile,3"),
        (COUNTRIES.c.value_counts(), "table of 2 rows x 1 columns:\nc,count\nPeru,1\nChile,1"),
        (pa.table({"n": [1, 2]}), 'table of 2 rows x 1 columns:\n"n"\n1\n2'),
        (COUNTRIES.c.unique(), '["Peru", "Chile"]'),
        (np.arange(1500), json.dumps(list(range(1500)))),
        ({"a": np.arange(3), "b": None}, '{"a": [0, 1, 2], "b": null}'),
        (["Peru", pd.Timestamp("2026-01-02")], '["Peru", "2026-01-02 00:00:00"]'),
        (np.float64(2.5), "2.5"),
    ],
)
def test_frames_are_tables_and_arrays_are_whole_lists(value: Any, text: str) -> None:
    assert as_text(value) == (text, "")


def test_what_is_cut_and_what_is_misspelt_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    variables = {"s": "word " * 10_000, "big": pd.DataFrame({"n": range(500)}), "shortlist": "A, B"}
    text = interpolate('{s} {s} {big} {shortlst} {"shortlst": 1}', variables)
    assert "(cut: 50,000 characters in all)" in text and len(text) < 2 * MAX_CHARS + 2_000
    assert "table of 500 rows x 1 columns, the first 100:\nn\n0\n" in text and "\n99 {shortlst}" in text
    assert capsys.readouterr().out.splitlines() == [
        "{s} was cut: 20,000 of 50,000 characters were put in",
        "{big} was cut: 100 of 500 rows were put in",
        "{shortlst} names no variable; did you mean 'shortlist'?",
    ]


# --- Loading

HEAVY = set(
    "asyncio pandas numpy anthropic httpx aiohttp pydantic lxml yaml sqlite3 narwhals nh3 jinja2 ipy_websearch.session "
    "ipy_websearch.api ipy_websearch.results ipy_websearch.display.render".split()
)
LOADED = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "ipy_websearch")
assert shell.find_line_magic("search") and shell.find_cell_magic("ask")
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def test_loading_is_silent_and_imports_nothing_heavy() -> None:
    done = run(LOADED, warm=False)
    assert (done.returncode, done.stderr, len(done.stdout.splitlines())) == (0, "", 1)
    loaded = json.loads(done.stdout)
    assert not HEAVY & {*loaded, *(name.split(".")[0] for name in loaded)}


# --- Tab on a line of our magics offers what may stand there, and nothing elsewhere


def offered(shell: Any, cell: str) -> list[str]:
    """Return what Tab offers at the end of the cell, as whole lines of the last line."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = list(shell.ip.Completer.completions(cell, len(cell)))
    return [(cell[: one.start] + one.text).split("\n")[-1] for one in found]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%search --fresh", "%search --freshness"),
        ("df = %search --prov", "df = %search --provider"),
        ("%%ask --max-s", "%%ask --max-searches"),
        ("%%enrich table_of_mine --samp", "%%enrich table_of_mine --sample"),
        ("%search -p loc", "%search -p local"),
        ("%search --provider=wi", "%search --provider=wikipedia"),
        ("%search --safe-search str", "%search --safe-search strict"),
        ("%search --freshness p", "%search --freshness pw"),
        ("%search --goggle aca", "%search --goggle academic"),
        ("%ask -m claude-o", "%ask -m claude-opus-5-5"),
        ("%ask --tools web_search,web_f", "%ask --tools web_search,web_fetch"),
        ("%search -o hits", "%search -o hits_of_mine"),
        ("%cost --by mod", "%cost --by model"),
        ("%websearch exp", "%websearch export"),
        ("%websearch key bra", "%websearch key brave"),
        ("%websearch key --sa", "%websearch key --save"),
        ("%websearch store cl", "%websearch store clear"),
        ("%ask what of {hits", "%ask what of {hits_of_mine"),
        ("%%ask\nwhat of {hits", "what of {hits_of_mine"),
        ("%%enrich tab", "%%enrich table_of_mine"),
    ],
)
def test_what_may_stand_there_is_offered(shell: Any, cell: str, expected: str) -> None:
    shell.run("import pandas; hits_of_mine = 1; table_of_mine = pandas.DataFrame({'company': []})")
    assert expected in offered(shell, cell)


@pytest.mark.parametrize(
    "cell",
    ["%timeit --", "%search -- --fr", "%search moons --fr", "%%ask\n--max-s", "%ask --max-searches ", "x = 5 % search --fr"],
)
def test_elsewhere_the_matcher_has_nothing_to_say(shell: Any, cell: str) -> None:
    assert not [line for line in offered(shell, cell) if line.endswith(("--freshness", "--max-steps"))]


# --- `%ask`, `%%ask`, `%trace`, `%panels` and `%cost` in a shell


def test_a_budget_is_set_kept_and_removed(messages_api: Any, shell: Any) -> None:
    ran = shell.run("%cost --budget 0.000001 --day-budget $2")
    assert "0.000001 USD" in ran.stdout and "0% of the session's budget" in ran.html
    assert type(shell.run("%ask who wrote Ruby?").error).__name__ == "BudgetExceededError" and messages_api.requests == []
    assert shell.run("%cost --budget none --day-budget none").ok
    messages_api.reply("Matz.")
    assert shell.run("%ask who wrote Ruby?").ok


def test_before_the_first_answer_trace_and_panels_say_so_in_a_line(shell: Any) -> None:
    for cell in ("%trace", "%trace --step", "%panels"):
        ran = shell.run(cell)
        assert ran.ok and ran.value is None and len(ran.stdout.strip().splitlines()) == 1


def test_panels_are_listed_and_shown_whole(messages_api: Any, brave_api: Any, shell: Any) -> None:
    brave_api.reply([hit("https://a.example/", "Short <b>&", "one")])
    messages_api.replies(tool_use("web_search_brave", {"query": "short $5 one"}), "Done.")
    shell.run("a = %ask --tools web_search_brave what is it?")
    (panel,) = shell.ns["a"].panels
    for typed in ("P1", "p1", "1"):
        ran = shell.run(f"%panels {typed} -o kept")
        assert ran.value is panel is shell.ns["kept"] and "Short &lt;b&gt;&amp;" in ran.html
    shell.run("%ask --reset")
    assert "%panels P1" in offered(shell, "%panels ")
    assert list(shell.run("%panels").value.tool) == ["web_search_brave"] and list(shell.run("%panels").value.index) == ["P1"]


def test_stop_ends_an_answer_and_keeps_its_text_so_far(messages_api: Any, shell: Any) -> None:
    """■ in a kernel and Ctrl-C in a terminal are the same interrupt of the main thread."""
    messages_api.reply("Matz wrote Ruby. " * 3000, slow(0.05))
    with interrupted_when(lambda: any("Matz wrote" in output.data["text/html"] for output in list(shell.ip.recorded))):
        ran = shell.run("%ask -o a who wrote Ruby?")
    assert (ran.stdout + ran.stderr).startswith("Interrupted: ") and "<strong>Interrupted</strong>" in ran.html
    answer = shell.ns["a"]
    assert answer.limit == "interrupted" and answer.text.startswith("Matz wrote") and len(answer.text) < 17 * 2900
    assert "Matz wrote" in ran.html and shell.run("%cost").value.usd.sum() == float(answer.cost_usd) > 0


def test_an_enrichment_reads_a_line_for_each_column(messages_api: Any, shell: Any) -> None:
    shell.ns["firms"] = pd.DataFrame({"company": ["Acme"]})
    messages_api.reply(tool_use("record", {"ceo": None, "founded": None, "size": None}))
    ran = shell.run(
        "%%enrich firms --max-searches 0 --no-progress -o out\n# what's asked\nceo: Who leads {company}?\n"
        "founded: int = When was {company} founded?\nsize: [small, large] = How large is {company}?;"
    )
    assert ran.ok and ran.outputs == [] and str(shell.ns["out"].founded.dtype) == "Int64"
    assert list(shell.ns["out"]["size"].cat.categories) == ["small", "large"]


def test_stop_ends_an_enrichment_with_the_rows_so_far_as_its_result(messages_api: Any, shell: Any) -> None:
    shell.ns["firms"] = companies("A", "slow B", "C")
    messages_api.behave(lambda body: [boss(body), delay(60 if "slow" in company_in(body) else 0)])
    with interrupted_when(lambda: len(messages_api.requests) == 2):  # the first row is done
        ran = shell.run(
            "%%enrich firms -o out --max-searches 0 --concurrency 1 --no-progress\nceo: Who is the CEO of {company}?"
        )
    assert (ran.stdout + ran.stderr).startswith("Interrupted: what was filled by then is in _") and "Boss of A" in ran.html
    out = shell.ns["out"]
    assert list(out.enrich_status) == ["ok", "interrupted", "interrupted"] and shell.ns["_"] is out


@pytest.mark.parametrize("cell", ["%ask who?\nx = 1\n%ask and who?", "%ask who?\n%ask and who?\n\n  # both are shown"])
def test_each_answer_of_a_cell_is_shown_once_and_the_last_is_its_value(messages_api: Any, shell: Any, cell: str) -> None:
    messages_api.replies("Matz.", "Larry.")
    ran = shell.run(cell)
    first, second = (output.data["text/plain"] for output in ran.shown())
    assert "Matz" in first and "Larry" in second
    assert ran.value.text == shell.ns["_"].text == "Larry." and shell.run("1 + 1").shown()
    messages_api.reply("Matz.")
    assert shell.run("%ask -o kept who?;").outputs == [] and shell.ns["kept"].text == "Matz."


# --- `%websearch`


def test_prices_are_a_table_with_source_and_date(shell: Any) -> None:
    prices = shell.run("%websearch prices").value.set_index("name")
    assert prices.loc["claude-haiku-5-5", "source"].str.startswith("genai-prices").all() and "wikipedia" in prices.index
    brave = prices.loc["brave"].set_index("kind").loc["search"]
    assert brave.usd == 0.005 and "brave.com" in brave.source and brave.date


def test_help_names_every_command_and_has_an_example_of_every_magic(shell: Any) -> None:
    said = shell.run("%websearch help").stdout
    assert said.strip() == USAGE and all(f"%websearch {command}" in said for command in COMMANDS)
    for name in ("search", "ask", "fetch", "cost", "panels", "trace", "enrich"):
        assert f"%{name}" in said and f"%{name}" in shell.run(f"%{name} --help").stdout == shell.run(f"%{name} ?").stdout
        assert "--output" in shell.run(f"%{name}?").stdout
