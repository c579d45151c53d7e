"""How a line of our magics is read: options first, then text that arrives byte for byte, with variables put in by name.

The options are the magic's own argparse parser (IPython's `magic_arguments`). Only `{name}` of an existing variable is
replaced, once; nothing is evaluated. IPython is kept from expanding `$500` and `{x}`, and from reading a "?" at the end of a
question as a call for help.
"""

from __future__ import annotations

import argparse
import json
import keyword
import re
import tokenize
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from typing import Any

from IPython.core.error import UsageError
from IPython.core.inputtransformer2 import TokenTransformBase, assemble_continued_line, find_end_of_continued_line
from IPython.core.magic import no_var_expand
from IPython.core.magic_arguments import argument, construct_parser

from ipy_websearch.settings import did_you_mean

_OPTION = r"(--[A-Za-z][\w-]*|-[A-Za-z])(?=[\s=\d]|$)"
_VALUE = r"""(?:=|\s+|(?=\d))(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>\S+))(?!\S)"""
_PLACE = r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}"
_CALL = r"(?s)%(\w+)(?:[ \t]+(.*))?"
# How similar two names are when one is a typing mistake for the other.
_TYPO = 0.8
MAX_CHARS = 20_000
MAX_ROWS = 100
LINE_MAGICS = frozenset({"ask", "search", "fetch", "cost", "panels", "trace", "websearch"})


class Help(Exception):
    """The line asks for help; the argument is the text to show."""


class Interrupted(KeyboardInterrupt):
    """The stop button was pressed. Shown as one line; the cells that wait do not run."""

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


# --- a line --------------------------------------------------------------------------------------------------------------


class Call:
    """One line of a magic: only the options that were given, as keyword arguments, and the text.

    `notices` is what there is to say of the line.
    """

    def __init__(self, options: dict[str, Any], text: str, output: str | None) -> None:
        self.options, self.text, self.output = options, text, output
        self.notices: list[str] = []

    def tell(self) -> None:
        """Print the notices, where no result can carry them."""
        for notice in self.notices:
            print(notice)


def parse(method: Any, line: str, *, anywhere: bool = False) -> Call:
    """Return the options and the text of a magic's line.

    Options stand in front; `--` ends them; the first other word begins the text, in which nothing is an option. With
    `anywhere`, for magics that take names and no text, options may follow the words.

    Raises:
        UsageError: an option is unknown, or its value is missing or wrong.
        Help: the line holds `--help`.
    """
    parser = method.make_parser()
    options, words, rest = list[str](), list[str](), line.strip()
    while rest:
        word = rest.split(maxsplit=1)[0]
        if re.match("--?[A-Za-z]", word):
            option, rest = _first_option(parser._option_string_actions, rest)
            options.append(option)
        elif word == "--" or not anywhere:
            break
        else:
            words.append(word)
            rest = rest[len(word) :].lstrip()
    rest = rest[2:].lstrip() if re.match(r"--(\s|$)", rest) else rest
    try:
        parsed = vars(parser.parse_args(options))
    except UsageError as exc:
        raise UsageError(str(exc).removeprefix("argument ")) from None
    given = {name: value for name, value in parsed.items() if value != parser.get_default(name) and value != []}
    if "help" in given:
        raise Help(help_of(parser))
    if {"allowed_domains", "blocked_domains"} <= given.keys():
        raise UsageError("--site and --not-site exclude each other; give one of the two")
    return Call(given, " ".join(filter(None, (*words, rest))), given.pop("output", None))


def help_of(parser: Any) -> str:
    """Return the help of a magic as text; IPython begins it with a mark for Sphinx."""
    return str(parser.format_help()).removeprefix("::").lstrip("\n")


def _first_option(known: Mapping[str, Any], line: str) -> tuple[str, str]:
    """Return the option at the start of a line as argparse reads it without doubt (`--count=5`), and what follows."""
    found = re.match(_OPTION, line)
    flag = found[0] if found else line.split(maxsplit=1)[0]
    if flag not in known:
        hint = did_you_mean(flag, [name for name in known if name.startswith("--")])
        raise UsageError(f"unknown option {flag}{hint or '; --help lists them'} (-- ends the options)")
    rest = line[len(flag) :]
    if known[flag].nargs == 0:
        if rest[:1].strip():
            raise UsageError(f"{flag} takes no value, so not {rest.split()[0]!r}")
        return flag, rest.lstrip()
    value = re.match(_VALUE, rest)
    if value is None or value["bare"] in known:
        raise UsageError(f"{flag} needs a value; --help shows how")
    return f"{flag}={value['double'] or value['single'] or value['bare'] or ''}", rest[value.end() :].lstrip()


class WebMagics:
    """The base of our magics in one shell; their state lives in the session."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell

    @property
    def session(self) -> Any:
        """The session that the magics and the package's functions share; imported when it is first needed."""
        from ipy_websearch import api

        return api.session()

    def read(self, method: Any, line: str, cell: str = "") -> Call:
        """Return a line's options and its text, with the cell below it, variables put in."""
        call = parse(method, line)
        text = "\n\n".join(filter(None, (call.text, cell.strip("\r\n"))))
        call.text = interpolate(text, variables_of(self.shell), call.notices)
        return call

    def keep(self, call: Call, value: Any) -> Any:
        """Return a value, kept in the variable that `-o` named."""
        if call.output:
            self.shell.push({call.output: value})
        return value


def variables_of(shell: Any) -> dict[str, Any]:
    """Return the variables that the user made, without those that IPython put into the namespace itself."""
    hidden = shell.user_ns_hidden
    return {
        name: value
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and not (name in hidden and hidden[name] is value) and name not in ("In", "Out")
    }


def magic(*kinds: str) -> Callable[[Any], Any]:
    """Make a method a magic for a "line", a "cell" or both, whose options are IPython's `argument`.

    `--help` shows its help, and an interrupt ends as one line. The parser is built at its first use, unlike that of IPython's
    `magic_arguments`: building seven takes longer than all the rest of loading. IPython asks `getdoc` for the text of
    `%search?`, and leaves the line alone for the mark that `no_var_expand` sets.
    """

    def decorate(method: Any) -> Any:
        @cache
        def parser() -> Any:
            return construct_parser(method)

        @wraps(method)
        def run(*args: Any) -> Any:
            try:
                return method(*args)
            except Help as help_text:
                print(help_text)
            except Interrupted:
                raise
            except KeyboardInterrupt:
                raise Interrupted(f"%{method.__name__} was stopped") from None

        run.kinds, run.make_parser = kinds, parser  # type: ignore[attr-defined]
        if hasattr(method, "decorators"):
            run.getdoc = lambda: help_of(parser())  # type: ignore[attr-defined]
        return no_var_expand(run)

    return decorate


class RawLine(TokenTransformBase):
    """Turns `%ask …?` and `answer = %ask …?` into a call of the magic with the line as it was typed.

    IPython reads a line that ends in "?" as a call for help: `%ask How many moons does Mars have?` would look up `have`.
    `%ask?` stays a call for help. A ";" at the end goes behind the call, where it silences the output. The class works on
    tokens, as IPython's own transformers do, so text inside of strings is left alone.
    """

    priority = 1

    def __init__(self, start: tuple[int, int]) -> None:
        super().__init__((start[0], 0))  # candidates are sorted by place: before all others on this line
        self.percent_col = start[1]

    @classmethod
    def find(cls, tokens_by_line: Sequence[Sequence[Any]]) -> RawLine | None:
        """Return a transformer for the first such line, None when there is none."""
        for line in tokens_by_line:
            for n, token in enumerate(line[:-1]):
                if token.string == "%" and line[n + 1].string in LINE_MAGICS and _begins_magic(line[:n]):
                    end = [t for t in line[n + 2 :] if t.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER)]
                    if any(t.string.strip("?").strip() for t in end):
                        return cls(token.start)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Return the lines with the magic's line replaced by a call."""
        end = find_end_of_continued_line(lines, self.start_line)
        match = re.match(_CALL, assemble_continued_line(lines, (self.start_line, self.percent_col), end))
        assert match is not None
        text = (match[2] or "").rstrip()
        silent = ";" if text.endswith(";") else ""
        head = lines[self.start_line][: self.percent_col]
        call = f"{head}get_ipython().run_line_magic({match[1]!r}, {text.removesuffix(';').rstrip()!r}){silent}\n"
        return [*lines[: self.start_line], call, *lines[end + 1 :]]


def _begins_magic(before: Sequence[Any]) -> bool:
    """Return whether a "%" begins a magic: first on its line, or behind the "=" of an assignment."""
    tokens = [t for t in before if t.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.NL)]
    return not tokens or (tokens[-1].string == "=" and all(t.string not in ("(", "[", "{", "lambda") for t in tokens))


# --- variables -----------------------------------------------------------------------------------------------------------


def interpolate(text: str, variables: Mapping[str, Any], notices: list[str] | None = None) -> str:
    """Return `text` with `{name}` replaced by the variable of that name; `{{name}}` gives a literal `{name}`.

    Inserted text is not scanned again. `notices` receives what was cut, and names that are nearly a variable's.

    Raises:
        UsageError: a variable cannot be written as text.
    """
    told: list[str] = []

    def put(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        if escaped is not None:
            return "{" + escaped + "}" if escaped in variables else match[0]
        if name not in variables:
            import difflib

            if meant := difflib.get_close_matches(name, variables, 1, _TYPO):
                told.append(f"{{{name}}} names no variable; did you mean {meant[0]}?")
            return match[0]
        try:
            return as_text(variables[name], lambda cut: told.append(f"{{{name}}} was cut: {cut} were put in"))
        except Exception as exc:  # the value is the user's own, and its text may raise anything
            why = f"{type(exc).__name__}: {exc}"[:200]
            raise UsageError(f"{{{name}}} cannot be written as text ({why}); {{{{{name}}}}} gives the name itself") from None

    filled = re.sub(_PLACE, put, text)
    if notices is not None:
        notices += dict.fromkeys(told)
    return filled


def as_text(value: Any, cut: Callable[[str], None] = lambda amount: None) -> str:
    """Return a variable as text for a model: strings as they are, frames as a CSV table, arrays and lists as JSON.

    At most 100 rows and 20,000 characters. What is left out is said in the text, and to `cut`, as "100 of 500 rows".
    """
    text = value if isinstance(value, str) else _table(value, cut)
    if text is None:
        listed = value if isinstance(value, dict | list | tuple) else _listed(value)
        text = listed if isinstance(listed, str) else json.dumps(listed, ensure_ascii=False, default=_listed, skipkeys=True)
    if len(text) > MAX_CHARS:
        cut(f"{MAX_CHARS:,} of {len(text):,} characters")
        text = f"{text[:MAX_CHARS]}… (cut: {len(text):,} characters in all)"
    return text


def _table(value: Any, cut: Callable[[str], None]) -> str | None:
    """Return a frame or column of any library that narwhals knows as a table with its shape, None for anything else."""
    import narwhals as nw

    # narwhals warns of Dask's frames
    head = value.head(MAX_ROWS + 1, npartitions=-1) if hasattr(value, "npartitions") else value
    frame: Any = nw.from_native(head, pass_through=True, allow_series=True)
    if frame is value:
        return None
    frame = frame.to_frame() if isinstance(frame, nw.Series) else frame
    is_lazy = head is not value or isinstance(frame, nw.LazyFrame)  # to count its rows would be to compute it all
    frame = frame.head(MAX_ROWS + 1).collect() if isinstance(frame, nw.LazyFrame) else frame
    many, first = str(len(frame)), ""
    if len(frame) > MAX_ROWS:
        many = f"more than {MAX_ROWS}" if is_lazy else many
        cut(f"{MAX_ROWS} of {many} rows")
        first = f", the first {MAX_ROWS}"
    native = frame.head(MAX_ROWS).to_native()
    named = getattr(getattr(native, "index", None), "name", None)  # pandas keeps the groups of a sum in its index
    csv = native.to_csv() if named else frame.head(MAX_ROWS).write_csv()
    return f"table of {many} rows x {len(frame.columns)} columns{first}:\n{csv}".rstrip()


def _listed(value: Any) -> Any:
    """Return an array as a list of Python's own values, anything else as its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
