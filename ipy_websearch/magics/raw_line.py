"""Keeps IPython's hands off our lines: a question may end in a question mark.

IPython reads any line that ends in "?" as a call for help, so `%ask How many moons does Mars have?` would look up an object
called `have`. This token transformer takes our line magics first and passes their line on as it is. `%ask?` and `%ask??`
stay calls for help. A semicolon at the end goes behind the call, where it silences the output as in any cell (IPython's own
way reads the line as Python, and from Python 3.12 on fails on `what's new`). Like IPython's own transformers this one looks
at tokens, so nothing inside strings is touched.
"""

from __future__ import annotations

import re
import tokenize
from typing import Any

from IPython.core.inputtransformer2 import (
    TokenTransformBase,
    assemble_continued_line,
    find_end_of_continued_line,
)

NAMES = frozenset({"ask", "search", "fetch", "cost", "panels", "trace", "websearch"})
_LINE = re.compile(r"%(\w+)(?:[ \t]+(.*))?", re.DOTALL)


class RawLineMagic(TokenTransformBase):
    """Turns `%ask …?` and `answer = %ask …?` into a call of the magic with the line as it was typed."""

    priority = 1

    def __init__(self, start: tuple[int, int]) -> None:
        super().__init__((start[0], 0))  # candidates are sorted by place: before all that begin further left on the line
        self.percent_col = start[1]

    @classmethod
    def find(cls, tokens_by_line: list[list[Any]]) -> RawLineMagic | None:
        """Return a transformer for the first such line, None when there is none."""
        for line in tokens_by_line:
            for n, token in enumerate(line[:-1]):
                if token.string == "%" and _begins_magic(line, n) and line[n + 1].string in NAMES:
                    end = [t for t in line[n + 2 :] if t.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.ENDMARKER)]
                    if end and any(t.string.strip("?").strip() for t in end):
                        return cls(token.start)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        """Return the lines with the magic's line replaced by a call."""
        end = find_end_of_continued_line(lines, self.start_line)
        text = assemble_continued_line(lines, (self.start_line, self.percent_col), end)
        match = _LINE.match(text)
        if match is None:
            raise SyntaxError(text)
        name, rest = match[1], (match[2] or "").rstrip()
        text, silent = rest.removesuffix(";").rstrip(), ";" if rest.endswith(";") else ""
        head = lines[self.start_line][: self.percent_col]
        call = f"{head}get_ipython().run_line_magic({name!r}, {text!r}){silent}\n"
        return [*lines[: self.start_line], call, *lines[end + 1 :]]


def _begins_magic(line: list[Any], n: int) -> bool:
    """Say whether the "%" at `n` begins a magic: first on its line, or right behind the one "=" of an assignment."""
    before = [t for t in line[:n] if t.type not in (tokenize.INDENT, tokenize.DEDENT, tokenize.NL)]
    if not before:
        return True
    return before[-1].string == "=" and all(t.string not in ("(", "[", "{", "lambda") for t in before)
