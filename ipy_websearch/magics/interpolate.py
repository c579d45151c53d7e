"""Puts variables into a question: `{name}` of an existing variable, once, and nothing else.

Nothing is evaluated and nothing that was put in is looked at again, so text from a variable cannot reach other variables.
`{{name}}` stands for a literal `{name}`. All other braces stay as they are. Whoever asks is told of what was left out, and of
a name in braces that nearly is a variable's.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from IPython.core.error import UsageError

from ipy_websearch.text import plain, shorten

MAX_CHARS = 20_000
MAX_ROWS = 100
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


def as_text(value: Any, tell: Callable[[str], None] = lambda left_out: None) -> str:
    """Return a variable as text for a model: strings as they are, frames as a compact table with their shape.

    At most 20,000 characters and 100 rows; what is left out is said in the text, and told in words such as "100 of 500 rows".
    """
    parts = []
    if isinstance(value, str):
        text = value
    elif type(value).__module__.split(".")[0] == "pandas" or hasattr(value, "to_csv"):
        text, rows = _table(value)
        parts += [f"{MAX_ROWS} of {rows:,} rows"] if rows > MAX_ROWS else []
    elif isinstance(value, dict | list | tuple):
        text = _json(value)
    else:
        text = str(value)
    if len(text) > MAX_CHARS:
        parts.append(f"{MAX_CHARS:,} of {len(text):,} characters{' of these' if parts else ''}")
        text = f"{shorten(text, MAX_CHARS)} (cut: {len(text):,} characters in all)"
    if parts:
        tell(", ".join(parts))
    return text


def _table(value: Any) -> tuple[str, int]:
    """Return a frame's first rows as text, and how many it has (0: it is no frame)."""
    frame = value.to_frame() if getattr(value, "ndim", 2) == 1 else value
    if not hasattr(frame, "to_csv"):
        return str(value), 0
    rows, columns = frame.shape
    shown = "" if rows <= MAX_ROWS else f", the first {MAX_ROWS}"
    named = bool(frame.index.name) or frame.index.dtype.kind not in "iu"
    return f"table of {rows} rows x {columns} columns{shown}:\n{frame.head(MAX_ROWS).to_csv(index=named)}".rstrip(), rows


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError):
        return str(value)


def variables_of(shell: Any) -> dict[str, Any]:
    """Return the variables that the user made, without those that IPython put into the namespace itself."""
    hidden = getattr(shell, "user_ns_hidden", {})
    return {
        name: value
        for name, value in shell.user_ns.items()
        if not name.startswith("_") and not (name in hidden and hidden[name] is value) and name not in ("In", "Out")
    }
