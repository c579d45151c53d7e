"""Puts variables into a question: `{name}` of an existing variable, once, and nothing else.

Nothing is evaluated and nothing that was put in is looked at again, so text from a variable cannot reach other variables.
`{{name}}` stands for a literal `{name}`. All other braces stay as they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ipy_websearch.text import shorten

MAX_CHARS = 20_000
MAX_ROWS = 100
_NAME = re.compile(r"\{\{([A-Za-z_]\w*)\}\}|\{([A-Za-z_]\w*)\}")


def interpolate(text: str, variables: Mapping[str, Any]) -> str:
    """Return `text` with the variables put in."""

    def put(match: re.Match[str]) -> str:
        escaped, name = match.groups()
        if escaped is not None:
            return "{" + escaped + "}" if escaped in variables else match.group()
        return as_text(variables[name]) if name in variables else match.group()

    return _NAME.sub(put, text)


def as_text(value: Any) -> str:
    """Return a variable as text for a model: strings as they are, frames as a compact table with their shape.

    At most 20,000 characters and 100 rows; what is left out is said.
    """
    if isinstance(value, str):
        text = value
    elif type(value).__module__.split(".")[0] == "pandas" or hasattr(value, "to_csv"):
        text = _table(value)
    elif isinstance(value, dict | list | tuple):
        text = _json(value)
    else:
        text = str(value)
    if len(text) > MAX_CHARS:
        text = f"{shorten(text, MAX_CHARS)} (cut: {len(text):,} characters in all)"
    return text


def _table(value: Any) -> str:
    frame = value.to_frame() if getattr(value, "ndim", 2) == 1 else value
    if not hasattr(frame, "to_csv"):
        return str(value)
    rows, columns = frame.shape
    shown = "" if rows <= MAX_ROWS else f", the first {MAX_ROWS}"
    named = bool(frame.index.name) or frame.index.dtype.kind not in "iu"
    return f"table of {rows} rows x {columns} columns{shown}:\n{frame.head(MAX_ROWS).to_csv(index=named)}".rstrip()


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
