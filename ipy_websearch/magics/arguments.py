"""Takes options off both ends of a magic's line and leaves the text between byte for byte as it was typed.

Options stand at the front or at the end; `--` ends those at the front and says that the end holds none. What is not a known
option is text: `-5 degrees`, `C++`, `what's new` need no quoting. `-n3` is `-n 3`, as everywhere; at the end only a number may
stand so, because `jaguar -porsche` leaves out a word, and names no engine. An unknown `--word` at either end is an error
that names what was meant. The options themselves are read by the magic's own argparse parser, which also makes the `?` help.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable
from typing import Any

from IPython.core.error import UsageError

from ipy_websearch.settings import did_you_mean

_WORD = re.compile(r"\S+")
_LONG = re.compile(r"--[A-Za-z][\w-]*(=.*)?", re.DOTALL)
_SHORT = re.compile(r"-[A-Za-z]")
_CHOICE = re.compile(r"argument (\S+): invalid choice: '(.*?)'")
_NUMBER = re.compile(r"argument (\S+): invalid (int|float) value: '(.*)'", re.DOTALL)
_VALUE = re.compile(r"argument (\S+): ignored explicit argument '(.*)'", re.DOTALL)
_NUMBERS = {"int": "a whole number such as 5", "float": "a number such as 2.5"}


class Help(Exception):
    """The line asked for help; the argument is the text to show."""


def parse_line(function: Callable[..., Any], line: str) -> tuple[argparse.Namespace, str]:
    """Return the options of a magic's line and the text that is left, without the blanks around it.

    `function` is decorated with `magic_arguments`; its parser says which options there are.

    Raises:
        UsageError: an option is unknown, lacks its value, or has a wrong one.
        Help: the line is `--help`.
    """
    parser: argparse.ArgumentParser = function.parser  # type: ignore[attr-defined]
    splitter = _Splitter(parser)
    options, text = splitter.front(line)
    if splitter.open_end:
        text, more = splitter.end(text)
        options += more
    if "--help" in options or "-h" in options:
        raise Help(parser.format_help().removeprefix("::").lstrip("\n"))
    try:
        return parser.parse_args(options), text.strip()
    except UsageError as exc:
        raise UsageError(_in_words(parser, str(exc))) from None


def _in_words(parser: argparse.ArgumentParser, message: str) -> str:
    """Return argparse's message as what is wrong with the value, and what was meant where it is none of those allowed."""
    if number := _NUMBER.search(message):
        return f"{number[1]}: {number[3]!r} is not {_NUMBERS[number[2]]}"
    if value := _VALUE.search(message):
        return f"{value[1]} takes no value, so not {value[2]!r}"
    wrong = _CHOICE.search(message)
    named = (action for action in parser._actions if wrong and wrong[1].split("/")[-1] in action.option_strings)
    action = next(named, None)
    if wrong is None or action is None or not action.choices:
        return message
    values = [str(choice) for choice in action.choices]
    return f"{wrong[1]}: {wrong[2]!r} is none of {', '.join(values)}{did_you_mean(wrong[2], values)}"


class _Splitter:
    """Knows which options a parser has and which of them take a value."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self.valued = {flag: action.nargs != 0 for action in parser._actions for flag in action.option_strings}
        self.valued |= {"--help": False, "-h": False}
        self.numbers = {flag for action in parser._actions if action.type in (int, float) for flag in action.option_strings}
        self.open_end = True

    def front(self, line: str) -> tuple[list[str], str]:
        """Return the options at the front and the rest of the line."""
        options: list[str] = []
        rest = line.lstrip()
        while match := _WORD.match(rest):
            word = match.group()
            if word == "--":
                self.open_end = False
                return options, rest[2:]
            flag = word.split("=", 1)[0]
            if self._joined(word):
                options += [word[:2], word[2:]]
                rest = rest[len(word) :].lstrip()
                continue
            if flag not in self.valued:
                if _LONG.fullmatch(word) or _SHORT.fullmatch(word):
                    raise self._unknown(word)
                break
            rest = rest[len(word) :].lstrip()
            options.append(word)
            if self.valued[flag] and "=" not in word:
                value, rest = self._value(flag, rest)
                # argparse would take a value such as -1d for another option
                options[-1:] = [f"{word}{'=' * word.startswith('--')}{value}"] if value.startswith("-") else [word, value]
        return options, rest

    def _joined(self, word: str) -> bool:
        """Return whether a word is a short option and its value in one, such as -n3."""
        return len(word) > 2 and word[2] != "=" and word[0] == "-" and self.valued.get(word[:2], False)

    def _value(self, flag: str, rest: str) -> tuple[str, str]:
        """Return the value at the start of `rest` (quotes around it taken off) and what follows."""
        match = re.match(r"\"([^\"]*)\"(?!\S)|'([^']*)'(?!\S)|(\S+)", rest)
        if not match or (match[3] or "").split("=", 1)[0] in self.valued:
            raise UsageError(f"{flag} needs a value; --help shows how")
        value = next(group for group in match.groups() if group is not None)
        return value, rest[match.end() :].lstrip()

    def end(self, text: str) -> tuple[str, list[str]]:
        """Return the text and the options at its end: the longest ending that is nothing but known options."""
        words = list(_WORD.finditer(text))
        for word in words:
            known = word.group().split("=", 1)[0] in self.valued or self._joined_number(word.group())
            if known and (options := self._all_options(text[word.start() :])):
                return text[: word.start()], options
        self._check_end([word.group() for word in words])
        return text, []

    def _joined_number(self, word: str) -> bool:
        return self._joined(word) and word[:2] in self.numbers and word[2:].isdigit()

    def _all_options(self, text: str) -> list[str] | None:
        if any(self._joined(word) and not self._joined_number(word) for word in text.split()):
            return None
        try:
            options, rest = _Splitter.front(self, text)
        except UsageError:
            return None
        return None if rest.strip() else options

    def _check_end(self, words: list[str]) -> None:
        """Refuse an unknown option in last place, and one before its value when a known one was surely meant."""
        if words and _LONG.fullmatch(words[-1]):
            if self.valued.get(words[-1]):
                raise UsageError(f"{words[-1]} needs a value; --help shows how (put -- before text that ends like an option)")
            raise self._unknown(words[-1])
        if len(words) > 1 and _LONG.fullmatch(words[-2]) and _meant(words[-2], self.valued):
            raise self._unknown(words[-2])

    def _unknown(self, word: str) -> UsageError:
        flag = word.split("=", 1)[0]
        hint = _meant(flag, self.valued)
        return UsageError(
            f"unknown option {flag}{hint or '; --help lists them'} (put -- before text that begins like an option)"
        )


def _meant(flag: str, known: Iterable[str]) -> str:
    """Return "; did you mean '--option'?", "" when no option is close; the dashes that all have in common do not count."""
    hint = did_you_mean(flag.split("=", 1)[0].lstrip("-"), (name[2:] for name in known if name.startswith("--")))
    return hint.replace("mean '", "mean '--")
