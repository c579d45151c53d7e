"""Tab on a line of our magics offers what may stand there, and nothing elsewhere."""

from __future__ import annotations

import warnings
from typing import Any

import pytest


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


def test_panel_ids_are_offered(offline: Any, shell: Any) -> None:
    shell.run("%ask --model offline --provider local How many moons has Mars?")
    assert "%panels P1" in offered(shell, "%panels ")


@pytest.mark.parametrize(
    "cell",
    ["%timeit --", "%search -- --fr", "%search moons --fr", "%%ask\n--max-s", "%ask --max-searches ", "x = 5 % search --fr"],
)
def test_elsewhere_the_matcher_has_nothing_to_say(shell: Any, cell: str) -> None:
    assert not [line for line in offered(shell, cell) if line.endswith(("--freshness", "--max-steps"))]
