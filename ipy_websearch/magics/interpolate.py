"""Puts variables into a question: `{name}` of an existing variable, once, and nothing else.

Nothing is evaluated and nothing that was put in is looked at again, so text from a variable cannot reach other variables.
`{{name}}` stands for a literal `{name}`. All other braces stay as they are. Whoever asks is told of what was left out, and of
a name in braces that nearly is a variable's.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.error import UsageError

from ipy_websearch.magics.written import as_text
from ipy_websearch.text import plain, shorten

_NAME = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")
_ALIKE = 0.8
"""How alike two names are when one is surely meant for the other; JSON and format fields in a question are not."""


def interpolate(text: str, variables: Mapping[str, Any], notices: list[str] | None = None) -> str:
    """Return `text` with the variables put in; what the reader should know of it is added to `notices`.

    Raises:
        UsageError: a variable cannot be written as text.
    """
    told: list[str] = []

    def put(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        if escaped is not None:
            return "{" + escaped + "}" if escaped in variables else match.group()
        if name in variables:
            return _written(name, variables[name], told.append)
        if meant := next(iter(difflib.get_close_matches(name, variables, 1, _ALIKE)), ""):
            told.append(f"{{{name}}} names no variable; did you mean {meant}?")
        return match.group()

    filled = _NAME.sub(put, text)
    if notices is not None:
        notices += dict.fromkeys(told)
    return filled


def _written(name: str, value: Any, tell: Callable[[str], None]) -> str:
    """Return the variable `name` as text, and tell of what is left out."""
    try:
        return as_text(value, lambda left_out: tell(f"{{{name}}} was cut: {left_out} were put in"))
    except Exception as exc:  # the value is the user's own, and its text may raise anything
        why = shorten(f"{type(exc).__name__}: {_reason(exc)}".rstrip(": "), 200)
        raise UsageError(f"{{{name}}} cannot be written as text ({why}); write {{{{{name}}}}} for the name itself") from None


def _reason(exc: Exception) -> str:
    try:
        return plain(str(exc))
    except Exception:
        return ""


def variables_of(shell: Any) -> dict[str, Any]:
    """Return the variables that the user made, without those that IPython put into the namespace itself."""
    hidden = getattr(shell, "user_ns_hidden", {})
    return {
        name: value
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and not (name in hidden and hidden[name] is value) and name not in ("In", "Out")
    }
