"""Options stand at either end of a magic's line; the text between arrives as it was typed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

from ipy_websearch.magics.arguments import Help, parse_line
from ipy_websearch.magics.ask import AskMagics
from ipy_websearch.magics.search import SearchMagics

ASK, SEARCH = AskMagics.ask, SearchMagics.search


def ask(line: str) -> tuple[Any, str]:
    return parse_line(ASK, line)


def test_options_are_taken_off_the_front_and_the_end() -> None:
    """Both ends may hold options, and the text between keeps its inner spacing."""
    args, text = parse_line(SEARCH, "--freshness pw -n 10  window   functions  --site duckdb.org -o hits")
    assert (args.freshness, args.count, args.site, args.output) == ("pw", 10, ["duckdb.org"], "hits")
    assert text == "window   functions"


@pytest.mark.parametrize(
    "line", ["-n3 moons", "moons -n3", "-n3 -obest -pbrave moons", "-o best -n3 moons", "moons -n3 -o best"]
)
def test_a_short_option_may_have_its_value_joined_to_it(line: str) -> None:
    """As in any command line: -n3 is -n 3."""
    args, text = parse_line(SEARCH, line)
    assert (args.count, text) == (3, "moons")
    assert args.output == ("best" if "best" in line else None)
    assert args.provider == ("brave" if "brave" in line else None)


@pytest.mark.parametrize("text", ["jaguar -porsche", "ai -openai -n5-pin", "jaguar -porsche -openai", "ping -n5x"])
def test_words_that_a_search_leaves_out_stay_in_it(text: str) -> None:
    """A minus before a word at the end excludes the word: it is no option with a value joined to it."""
    args, seen = parse_line(SEARCH, text)
    assert (seen, args.provider, args.output, args.count) == (text, None, None, None)


def test_a_joined_value_that_is_wrong_is_refused() -> None:
    """-nfive at the front says what -n takes."""
    with pytest.raises(UsageError, match="'five' is not a whole number"):
        parse_line(SEARCH, "-nfive moons")


@pytest.mark.parametrize(
    "text",
    [
        "Which laptop under $500 has the best keyboard?",
        'what\'s "C++" {x} {{y}} 100% -minus',
        "-5 degrees in Oslo",
        "'tis the season",
        "a \\ b \\\\ c",
        "what does -n 5 mean in git log",
        "why is x --> y",
        "is - a dash",
        "how do I use grep -o",
        "naïve café 漢字 🙂",
    ],
)
def test_text_without_options_arrives_byte_for_byte(text: str) -> None:
    """Dollars, braces, quotes, backslashes and words with a minus are text."""
    assert ask(text)[1] == text
    args, seen = ask(f"--max-searches 3 -o a {text} --follow")
    assert seen == text
    assert (args.max_searches, args.output, args.follow) == (3, "a", True)


def test_two_dashes_end_the_options() -> None:
    """Behind -- everything is text, at the end too."""
    args, text = ask("-o a -- --follow is an option -o")
    assert (args.output, args.follow, text) == ("a", False, "--follow is an option -o")


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("--max-serches 3 why", "--max-searches"),
        ("why --folow", "--follow"),
        ("why --max-serches 3", "--max-searches"),
        ("--nope why", "--nope"),
        ("-z why", "-z"),
    ],
)
def test_an_unknown_option_is_refused_with_what_was_meant(line: str, named: str) -> None:
    """A wrong option is exactly a UsageError, and the message names the right one."""
    with pytest.raises(UsageError, match=named) as caught:
        ask(line)
    assert type(caught.value) is UsageError


@pytest.mark.parametrize("line", ["--max-searches", "--max-searches --follow why", "why --output", "--max-searches three why"])
def test_a_missing_or_wrong_value_is_refused(line: str) -> None:
    """An option that lacks its value, or has one of the wrong type, is a UsageError."""
    with pytest.raises(UsageError):
        ask(line)


def test_quotes_hold_a_value_with_blanks_together() -> None:
    """Quotes around an option's value are taken off; the text's own quotes stay."""
    args, text = ask("""--system "answer in French" 'why' "not" """)
    assert (args.system, text) == ("answer in French", "'why' \"not\"")


def test_help_is_asked_for_at_either_end() -> None:
    """--help raises Help with the text that the question mark shows."""
    with pytest.raises(Help, match="max-searches"):
        ask("--help")
    with pytest.raises(Help):
        ask("why --help")


WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(WORDS)
def test_any_text_behind_two_dashes_is_kept(text: str) -> None:
    """No text is changed or refused behind --, only the blanks around it go."""
    assert ask(f"-o a -- {text}")[1] == text.strip()


@given(WORDS)
def test_any_line_is_read_or_refused_in_one_line(line: str) -> None:
    """Whatever is typed, the outcome is options and text, help, or a UsageError; and text is a part of the line."""
    try:
        _, text = ask(line)
    except (UsageError, Help):
        return
    assert text in line
