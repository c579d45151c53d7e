"""Completion on the lines of our magics: options and their values, providers, models, tools, variables, panels, commands.

One matcher stands beside those of IPython and of others, and has nothing to say elsewhere. ipykernel asks the same matchers,
so JupyterLab completes as well. Names are looked up when Tab is pressed; a failure costs a completion, never the cell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from ipy_websearch.magics.arguments import variables_of
from ipy_websearch.magics.enrich import is_cluster
from ipy_websearch.magics.websearch import COMMANDS

_MAGIC = r"(?s)\s*(?:[A-Za-z_][\w.\[\]'\", ]*=\s*)?(%%?)([a-z]+)[ \t]+(.*)"
_VARIABLE = r"(?<!\{)\{([A-Za-z_]\w*|)$"
TEXT_MAGICS = ("ask", "search")
Found = tuple[str, Iterable[str]]
"""What is typed of a word, and all that might be meant."""


class Completion:
    """The matcher of one shell; `magics` are ours by name."""

    matcher_api_version = 2
    matcher_identifier = "ipy_websearch"

    def __init__(self, shell: Any, magics: dict[str, Any]) -> None:
        self._shell = shell
        self._magics = magics
        self.__qualname__ = self.matcher_identifier  # IPython looks for it, as on a function

    def __call__(self, context: Any) -> dict[str, Any]:
        """Return what IPython's completer asks a matcher for."""
        from IPython.core.completer import SimpleCompletion

        try:
            typed, known = self._found(context.full_text, context.cursor_line, context.text_until_cursor)
            matches = sorted({name for name in known if name.startswith(typed)})
        except Exception:
            typed, matches = "", []
        completions = [SimpleCompletion(name, type="magic option") for name in matches]
        return {"completions": completions, "suppress": bool(completions), "matched_fragment": typed}

    def _found(self, cell: str, line_number: int, line: str) -> Found:
        first = re.fullmatch(_MAGIC, cell.split("\n")[0] + " ")
        in_body = line_number > 0 and first is not None and first[1] == "%%" and first[2] in self._magics
        match = first if in_body else re.fullmatch(_MAGIC, line)
        if match is None or match[2] not in self._magics:
            return "", ()
        if variable := re.search(_VARIABLE, line):
            return variable[1], self._columns(match[3]) if in_body and match[2] == "enrich" else variables_of(self._shell)
        if in_body:
            return "", ()
        typed = re.search(r"\S*$", match[3])[0]  # type: ignore[index]
        before = match[3].removesuffix(typed).split()
        if match[2] == "websearch":
            return typed, _after_websearch(before)
        return self._option(match[2], typed, before)

    def _option(self, magic: str, typed: str, before: list[str]) -> Found:
        """Return what may stand behind the words `before`: an option, or the value of the one before it."""
        actions = {flag: action for action in self._magics[magic].parser()._actions for flag in action.option_strings}
        flag, equals, value = typed.partition("=")
        if equals and flag in actions:
            return self._value(actions[flag], value)
        if before and before[-1] in actions and actions[before[-1]].nargs != 0:
            return self._value(actions[before[-1]], typed)
        values = [word for n, word in enumerate(before) if n and before[n - 1] in actions and actions[before[n - 1]].nargs != 0]
        text = [word for word in before if not word.startswith("-") and word not in values]
        if "--" in before or (text and magic in TEXT_MAGICS):
            return "", ()
        if typed.startswith("-"):
            return typed, [name for name in actions if name.startswith("--")] if typed.startswith("--") else actions
        return typed, self._names(magic)

    def _value(self, action: Any, typed: str) -> Found:
        """Return the values that an option may have, as far as they are known."""
        from ipy_websearch.model.platforms import ALIASES
        from ipy_websearch.providers.base import provider_infos
        from ipy_websearch.providers.goggles import catalogue
        from ipy_websearch.settings import settings_in_force
        from ipy_websearch.tools.base import TOOL_SETS

        settings, variables = settings_in_force(), variables_of(self._shell)
        known: dict[str, Iterable[str]] = {
            "provider": [*provider_infos(), *(settings.search_tools if settings is not None else ())],
            "model": ["offline", *ALIASES, *ALIASES.values()],
            "tools": [*TOOL_SETS, *(name for names in TOOL_SETS.values() for name in names), "read_research", "none"],
            "goggles": catalogue(),
            "freshness": ("pd", "pw", "pm", "py"),
            "output": variables,
            "cluster": [name for name, value in variables.items() if is_cluster(value)],
        }
        word = re.split("[,+]", typed)[-1] if action.dest == "tools" else typed
        return word, action.choices or known.get(action.dest, ())

    def _names(self, magic: str) -> Iterable[str]:
        """Return the names that a magic takes besides options: frames for %%enrich, ids for %panels."""
        if magic == "enrich":
            return [name for name, value in variables_of(self._shell).items() if hasattr(value, "columns")]
        if magic == "panels":
            return [panel.id for panel in self._magics[magic].__self__.session.panels]
        return ()

    def _columns(self, line: str) -> list[str]:
        """Return the columns of the frame that the first line of %%enrich names."""
        named = (self._shell.user_ns.get(word) for word in line.split())
        frame = next((value for value in named if hasattr(value, "columns")), None)
        return [name for name in getattr(frame, "columns", ()) if isinstance(name, str)]


def _after_websearch(before: list[str]) -> Iterable[str]:
    """Return what may stand behind the words `before` on a line of `%websearch`."""
    from ipy_websearch.keys import KEYS
    from ipy_websearch.providers.goggles import catalogue

    if not before:
        return COMMANDS
    names = {
        "key": [name for spec in KEYS.values() for name in spec.names],
        "goggles": catalogue(),
        "store": ["clear", "cancel"],
        "cache": ["clear"],
    }
    return [*COMMANDS[before[0]][2], *names.get(before[0], ())]
