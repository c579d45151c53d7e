"""Reads the line of a magic: options first, then text that arrives byte for byte, with variables inserted by name.

A magic is a function of a `Call`. Its options are declared with IPython's `magic_arguments`, which help, parser and completion
share. Only `{name}` of an existing variable is replaced, once; nothing is evaluated. IPython is kept from expanding
`$500` and `{x}`, and from reading a "?" at the end of a question as a call for help.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import (
    EscapedCommand,
    MagicAssign,
    TokenTransformBase,
    assemble_continued_line,
    find_end_of_continued_line,
)
from IPython.core.magic import no_var_expand
from IPython.core.magic_arguments import argument, construct_parser

from ipy_websearch.settings import did_you_mean

_FLAG = r"(?:--[A-Za-z][\w-]*|-[A-Za-z])(?=[\s=\d]|$)"
_VALUE = r"""(?:=|\s+|(?=\d))(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>\S+))(?!\S)"""
_END = r"--(?:\s+|$)"
_WORD = r"""(?:"[^"]*"|'[^']*'|\S)+"""  # quotes keep what they enclose together: a folder's name may hold blanks and dashes
_PLACE = r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}"
# One of our magics, the text behind it, and a ";". `%ask?` and `%ask ?` ask for help.
_RAW = r"(?s)%(ask|search|fetch|cost|panels|trace|websearch)[ \t]+(?![?\s]*\Z)(.*?)\s*(;?)\s*\Z"
MAX_CHARS = 20_000
MAX_ROWS = 100


class Interrupted(KeyboardInterrupt):
    """The stop button was pressed. Shown as one line; waiting cells do not run."""

    def _render_traceback_(self) -> list[str]:
        return [f"Interrupted: {self}"]


# --- options that several magics have ------------------------------------------------------------------------------------


def variable(text: str) -> str:
    """Return an option's value as the name of a variable; checked before anything is spent."""
    if not text.isidentifier() or keyword.iskeyword(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a variable name")
    return text


OUTPUT = argument("-o", "--output", metavar="NAME", type=variable, help="Keep the result in this variable as well.")
PROVIDER = argument("-p", "--provider", metavar="NAME", help="Search with this provider only (%%websearch status lists them).")
SITE = argument("--site", dest="allowed_domains", action="append", metavar="DOMAIN", help="Only results from this domain.")
NOT_SITE = argument(
    "--not-site", dest="blocked_domains", action="append", metavar="DOMAIN", help="No results from this domain."
)
FRESH = argument("--fresh", action="store_true", help="Skip the cache.")
HELP = argument("-h", "--help", action="store_true", help="Show this help.")


# --- a magic -------------------------------------------------------------------------------------------------------------


@dataclass
class Call:
    """A line of a magic, and the cell below it as it was typed.

    `options` are the given ones, as keyword arguments; `output` is the variable that `-o` names.
    """

    shell: Any
    text: str
    cell: str
    options: dict[str, Any]
    output: str | None

    @property
    def session(self) -> Any:
        """The session that the magics and the package's functions share; imported when it is first needed."""
        from ipy_websearch import api

        return api.session()

    def keep(self, value: Any) -> Any:
        """Return a value, after assigning it to the variable that `-o` names."""
        if self.output:
            self.shell.push({self.output: value})
        return value


def magic(*kinds: str, names: bool = False) -> Callable[[Callable[[Call], Any]], Any]:
    """Make a function of a `Call` a magic for a "line", a "cell" or both. Options may follow the words where it takes `names`.

    The result is a method of a shell. `--help` shows its help, and an interrupt ends as one line. The parser is built at
    its first use, unlike that of IPython's `magic_arguments`: building all takes longer than the rest of loading. IPython
    calls `getdoc` for `%search?`, and `no_var_expand` keeps it from changing the line.
    """

    def decorate(function: Any) -> Any:
        @cache
        def parser() -> Any:
            return construct_parser(function)

        @wraps(function)
        def run(shell: Any, line: str, cell: str = "") -> Any:
            try:
                options, text = parse(parser(), line, names=names)
                if options.get("help") or text in ("?", "??"):
                    print(help_of(parser()))
                    return None
                text = interpolate(text, variables_of(shell))
                return function(Call(shell, text, cell, options, options.pop("output", None)))
            except Interrupted:
                raise
            except KeyboardInterrupt:
                raise Interrupted(f"%{function.__name__} was stopped") from None

        vars(run).update(kinds=kinds, make_parser=parser, getdoc=lambda: help_of(parser()))
        return no_var_expand(run)

    return decorate


def help_of(parser: Any) -> str:
    """Return the help of a magic as text; IPython begins it with a mark for Sphinx."""
    return str(parser.format_help()).removeprefix("::").lstrip("\n")


def parse(parser: Any, line: str, *, names: bool = False) -> tuple[dict[str, Any], str]:
    """Return the options of a line, and its text.

    Options stand in front; `--` ends them; the first other word begins the text, in which nothing is an option. Where the text
    consists of `names`, options may also follow them.

    Raises:
        UsageError: an option is unknown, or its value is missing or wrong.
    """
    options, words, rest = list[str](), list[str](), line.strip()
    while rest:
        word = (re.match(_WORD, rest) or [""])[0]
        if re.match("--?[A-Za-z]", word):
            option, rest = _first_option(parser._option_string_actions, word, rest)
            options.append(option)
        elif not names or word == "--" or word.startswith("#"):  # an option in a comment is none
            break
        else:
            words.append(word)
            rest = rest[len(word) :].lstrip()
    values = vars(parser.parse_args(options)).items()
    given = {name: value for name, value in values if value not in ([], parser.get_default(name))}
    return given, " ".join(filter(None, (*words, re.sub(f"^{_END}", "", rest))))


def _first_option(known: Mapping[str, Any], word: str, line: str) -> tuple[str, str]:
    """Return the option that begins a line, as its first `word`, in argparse's unambiguous form (`--count=5`), and the rest."""
    flag = (re.match(_FLAG, line) or [word])[0]
    if flag not in known:
        hint = did_you_mean(flag, [name for name in known if name.startswith("--")])
        raise UsageError(f"unknown option {flag}{hint or '; --help lists them'} (-- ends the options)")
    if known[flag].nargs == 0:
        return word, line[len(word) :].lstrip()  # argparse refuses `--follow=no`
    value = re.compile(_VALUE).match(line, len(flag))
    if value is None or value["bare"] in known:
        raise UsageError(f"{flag} needs a value; --help shows how")
    return f"{flag}={value['double'] or value['single'] or value['bare'] or ''}", line[value.end() :].lstrip()


class RawLine(TokenTransformBase):
    """Turns a line with one of our magics into a call with the text as it was typed, before IPython looks for a "?" at its end:
    `%ask How many moons does Mars have?` would look up `have`. A ";" goes behind the call, where it silences the output."""

    priority = 1
    column = 0  # where the magic begins

    @classmethod
    def find(cls, tokens_by_line: Sequence[Sequence[Any]]) -> Any:
        """Return a transformer for the first such line, which comes before all others on that line; else None."""
        for line in tokens_by_line:
            for place in filter(None, (EscapedCommand.find([line]), MagicAssign.find([line]))):
                row, column = place.start_line + 1, place.start_col
                text = next(token.line for token in line if token.start == (row, column))
                if re.match(_RAW, text[column:]):
                    found = cls((row, 0))
                    found.column = column
                    return found
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Return the lines with the magic's line replaced by a call."""
        end = find_end_of_continued_line(lines, self.start_line)
        line = assemble_continued_line(lines, (self.start_line, 0), end)
        before, typed = line[: self.column], line[self.column :]
        call = re.sub(_RAW, lambda found: f"get_ipython().run_line_magic({found[1]!r}, {found[2]!r}){found[3]}", typed)
        return [*lines[: self.start_line], f"{before}{call}\n", *lines[end + 1 :]]


# --- variables -----------------------------------------------------------------------------------------------------------


def variables_of(shell: Any) -> dict[str, Any]:
    """Return the user's variables, without IPython's own."""
    return {
        name: value
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and name not in ("In", "Out") and shell.user_ns_hidden.get(name, shell) is not value
    }


def interpolate(text: str, variables: Mapping[str, Any]) -> str:
    """Return `text` with `{name}` replaced by the variable of that name; `{{name}}` gives a literal `{name}`.

    Inserted text is not scanned again. A line is printed for each cut, and for each name that is nearly a variable's.

    Raises:
        UsageError: a variable cannot be written as text.
    """
    written: dict[str, str] = {}
    for escaped, name in dict.fromkeys(re.findall(_PLACE, text)):
        place = f"{{{escaped or name}}}"
        if escaped in variables:
            written[f"{{{place}}}"] = place
        elif name in variables:
            try:
                written[place], cut = as_text(variables[name])
            except Exception as exc:  # the variable's own code
                raise UsageError(f"{place} cannot be written as text: {type(exc).__name__}: {exc}") from None
            if cut:
                print(f"{place} was cut: {cut} were put in")
        elif hint := did_you_mean(name, variables, 0.8):
            print(f"{place} names no variable{hint}")
    return re.sub(_PLACE, lambda found: written.get(found[0], found[0]), text)


def as_text(value: Any) -> tuple[str, str]:
    """Return a variable as text for a model, and the extent of a cut ("100 of 500 rows"): strings as they are, frames and
    columns in memory as a CSV table, arrays and lists as JSON.

    At most 100 rows and 20,000 characters are given, and the text says so.
    """
    import narwhals as nw

    frame: Any = nw.from_native(value, allow_series=True, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError("its rows are not in memory; collect the first ones into a variable of their own")
    if frame is not value:
        text, cut = _table(frame.to_frame() if isinstance(frame, nw.Series) else frame)
    else:
        plain = value if isinstance(value, str | dict | list | tuple) else _plain(value)
        text = plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False, default=_plain, skipkeys=True)
        cut = ""
    if len(text) <= MAX_CHARS:
        return text, cut
    cut = f"{MAX_CHARS:,} of {len(text):,} characters"
    return f"{text[:MAX_CHARS]}… (cut: {len(text):,} characters in all)", cut


def _table(frame: Any) -> tuple[str, str]:
    """Return a narwhals frame as a table with its shape, and the extent of a cut."""
    shown, rows = frame.head(MAX_ROWS), len(frame)
    named = getattr(getattr(shown.to_native(), "index", None), "name", None)  # pandas keeps the groups of a sum in its index
    csv = shown.to_native().to_csv() if named else shown.write_csv()
    some, cut = (f", the first {MAX_ROWS}", f"{MAX_ROWS} of {rows} rows") if rows > MAX_ROWS else ("", "")
    return f"table of {rows} rows x {len(frame.columns)} columns{some}:\n{csv}".rstrip(), cut


def _plain(value: Any) -> Any:
    """Return an array as a list of Python's own values, anything else as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
