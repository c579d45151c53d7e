"""Completion for our magics: options and their values, engines, models, tools, variables, commands of `%websearch`.

One matcher of our own stands beside those of IPython and of others; it speaks up on a line of one of our magics, and for a
`{name}` in a question, and has nothing to say elsewhere. ipykernel asks the same matchers, so JupyterLab completes as well.
What it needs to know is imported when Tab is first pressed; a fault in here costs a completion, never the cell.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ipy_websearch.magics.interpolate import variables_of

IDENTIFIER = "ipy_websearch"
_MAGIC = re.compile(r"\s*(?:[A-Za-z_][\w.\[\]'\", ]*=\s*)?(%%?)([a-z]+)[ \t]+(.*)", re.DOTALL)
_VARIABLE = re.compile(r"(?<!\{)\{([A-Za-z_]\w*|)$")
_WORD = re.compile(r"\S*$")
_SUBCOMMANDS = "status key index cache store prices goggles export record replay stop help".split()
_AFTER_COMMAND = {
    "key": ("--save", "--forget"),
    "index": ("--remove",),
    "cache": ("clear",),
    "store": ("clear", "cancel"),
    "prices": ("--update",),
    "export": ("--force",),
}
Found = tuple[str, Iterable[str]]
"""What is typed of a word, and all that might be meant."""


class Completion:
    """The matcher of one shell; `magics` are ours by name, each with its argparse parser in `.parser`."""

    def __init__(self, shell: Any, magics: Mapping[str, Any]) -> None:
        self._shell = shell
        self._magics = magics

        def matcher(context: Any) -> dict[str, Any]:
            return self._result(context)

        matcher.matcher_api_version = 2  # type: ignore[attr-defined]
        matcher.matcher_identifier = IDENTIFIER  # type: ignore[attr-defined]
        self._matcher = matcher

    def register(self) -> None:
        """Put the matcher beside the others."""
        if self._shell.Completer is not None:
            self._shell.Completer.custom_matchers.append(self._matcher)

    def unregister(self) -> None:
        """Take the matcher away; the others stay as they are."""
        if self._shell.Completer is not None:
            matchers = self._shell.Completer.custom_matchers
            matchers[:] = [matcher for matcher in matchers if matcher is not self._matcher]

    def _result(self, context: Any) -> dict[str, Any]:
        from IPython.core.completer import SimpleCompletion

        try:
            typed, known = self._found(context.full_text, context.cursor_line, context.text_until_cursor)
            matches = sorted({name for name in known if name.startswith(typed)}, key=_order)
        except Exception:
            typed, matches = "", []
        completions = [SimpleCompletion(name, type="magic option") for name in matches]
        return {"completions": completions, "suppress": bool(completions), "matched_fragment": typed}

    def _found(self, cell: str, line_number: int, line: str) -> Found:
        lines = cell.split("\n")
        first = _MAGIC.fullmatch(lines[0] + " ")
        in_body = line_number > 0 and first is not None and first[1] == "%%" and first[2] in self._magics
        match = None if in_body else _MAGIC.fullmatch(line)
        if not in_body and (match is None or match[2] not in self._magics):
            return "", ()
        if variable := _VARIABLE.search(line):
            frame = self._frame(first[3]) if in_body and first is not None and first[2] == "enrich" else None
            return variable[1], variables_of(self._shell) if frame is None else _column_names(frame)
        if match is None:
            return "", ()
        if match[2] == "websearch":
            return _websearch(match[3])
        return self._option(match[2], match[3])

    def _option(self, magic: str, text: str) -> Found:
        """Return what may stand at the end of `text`: an option, or the value of the option before it."""
        parser = self._magics[magic].parser
        actions = {flag: action for action in parser._actions for flag in action.option_strings}
        typed, before = _split(text)
        if "--" in before:
            return "", ()
        flag, equals, value = typed.partition("=")
        if equals and flag in actions:
            return self._value(actions[flag], value)
        if before and before[-1] in actions and actions[before[-1]].nargs != 0:
            return self._value(actions[before[-1]], typed)
        if typed.startswith("-"):
            return typed, actions
        return typed, self._words(magic, before)

    def _value(self, action: Any, typed: str) -> Found:
        if action.choices:
            return typed, map(str, action.choices)
        if action.dest == "tools":
            return re.split(r"[,+]", typed)[-1], _tools()
        values: dict[str, Callable[[], Iterable[str]]] = {
            "provider": _engines,
            "model": _models,
            "goggle": _goggles,
            "output": lambda: variables_of(self._shell),
            "cluster": self._clusters,
            "freshness": lambda: ("pd", "pw", "pm", "py"),
            "budget": lambda: ("none",) if "none" in (action.help or "") else (),
        }
        return typed, values.get(action.dest, tuple)()

    def _frame(self, text: str) -> Any:
        """Return the DataFrame that the first line of %%enrich names, None when it names none."""
        named = (self._shell.user_ns.get(word) for word in text.split())
        return next((value for value in named if hasattr(value, "columns") and hasattr(value, "iloc")), None)

    def _clusters(self) -> list[str]:
        from ipy_websearch.magics.enrich import is_cluster

        return [name for name, value in variables_of(self._shell).items() if is_cluster(value)]

    def _words(self, magic: str, before: list[str]) -> Iterable[str]:
        """Return what a magic takes besides options: frames for %%enrich, ids for %panels."""
        if magic == "enrich":
            return [name for name, value in variables_of(self._shell).items() if hasattr(value, "iterrows")]
        if magic == "panels":
            from ipy_websearch import api

            return [panel.id for panel in api.session().panels]
        return ()


def _column_names(frame: Any) -> list[str]:
    return [name for name in frame.columns if isinstance(name, str)]


def _websearch(text: str) -> Found:
    typed, before = _split(text)
    if not before:
        return typed, _SUBCOMMANDS
    known = list(_AFTER_COMMAND.get(before[0], ()))
    if before[0] == "key":
        from ipy_websearch.keys import KEYS

        known += [name for spec in KEYS.values() for name in spec.names]
    elif before[0] == "goggles":
        known += _goggles()
    return typed, [name for name in known if name not in before]


def _split(text: str) -> tuple[str, list[str]]:
    """Return the word that is being typed, and the whole ones before it."""
    match = _WORD.search(text)
    typed = match[0] if match else ""
    return typed, text[: len(text) - len(typed)].split()


def _order(name: str) -> tuple[bool, str]:
    return not name.startswith("--") and name.startswith("-"), name


def _engines() -> list[str]:
    from ipy_websearch.providers.registry import provider_infos
    from ipy_websearch.settings import settings_in_force

    settings = settings_in_force()
    return [*provider_infos(), *(settings.search_tools if settings is not None else ())]


def _models() -> list[str]:
    from ipy_websearch.model.names import ALIASES
    from ipy_websearch.settings import OFFLINE_MODEL

    return [OFFLINE_MODEL, *ALIASES, *ALIASES.values()]


def _tools() -> list[str]:
    from ipy_websearch.tools.sets import TOOL_SETS

    return [*TOOL_SETS, *(name for names in TOOL_SETS.values() for name in names), "read_research", "none"]


def _goggles() -> list[str]:
    from ipy_websearch.providers.goggle_catalogue import catalogue

    return list(catalogue())
