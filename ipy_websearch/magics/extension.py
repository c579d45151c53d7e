"""Loading and unloading. Loading is cheap and silent: magics, settings, displays, completion and one input transformer are
registered; nothing is opened, and what the magics need is imported when they run. Each registration puts its inverse on a
stack, which unloading runs. The session stays, so that `%reload_ext` loses no money count and no conversation.

Completion is one matcher beside those of IPython and of others: options and their values, providers, models, tools, variables,
panels, commands; it has nothing to say elsewhere. ipykernel asks the same matchers, so JupyterLab completes as well. Names are
looked up when Tab is pressed; a failure costs a completion, never the cell.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from inspect import signature
from pathlib import Path
from typing import Any

from ipy_websearch.display.formatters import register
from ipy_websearch.magics.arguments import RawLine, variables_of
from ipy_websearch.magics.ask import AskMagics
from ipy_websearch.magics.cost import CostMagics
from ipy_websearch.magics.enrich import EnrichMagics, is_cluster
from ipy_websearch.magics.search import SearchMagics
from ipy_websearch.magics.trace import TraceMagics
from ipy_websearch.magics.websearch import COMMANDS, WebSearchMagics
from ipy_websearch.settings import load_settings, use_settings

CLASSES = (SearchMagics, AskMagics, EnrichMagics, CostMagics, TraceMagics, WebSearchMagics)
_ATTRIBUTE = "_ipy_websearch_loaded"
_MAGIC = r"(?s)\s*(?:[A-Za-z_][\w.\[\]'\", ]*=\s*)?(%%?)([a-z]+)[ \t]+(.*)"
_VARIABLE = r"(?<!\{)\{([A-Za-z_]\w*|)$"
# Positional arguments in which nothing is completed.
_TEXTS = ("question", "query")
# What is typed of a word, and all that might be meant.
Found = tuple[str, Iterable[str]]


def load(shell: Any) -> None:
    """Register with a shell, unless that has been done."""
    if hasattr(shell, _ATTRIBUTE):
        return
    settings = load_settings(Path.cwd(), parent=shell, warn=_warn)  # first: a wrong setting leaves nothing behind
    undo = ExitStack()
    undo.callback(_tell_api, "stop_recording")
    magics = {name: getattr(made(shell), name) for made in CLASSES for name in vars(made) if hasattr(vars(made)[name], "kinds")}
    for name, magic in magics.items():
        for kind in magic.kinds:
            table = shell.magics_manager.magics[kind]
            undo.callback(_take_back, table, name, magic, table.get(name))
            table[name] = magic
    matchers, transformers = shell.Completer.custom_matchers, shell.input_transformer_manager.token_transformers
    added = ((shell.configurables, settings), (transformers, RawLine), (matchers, Completion(shell, magics)))
    for items, item in added:
        items.append(item)
        undo.callback(_remove, items, item)
    undo.enter_context(register(shell))
    use_settings(settings)
    undo.callback(use_settings, None)
    _tell_api("take_settings", settings)
    setattr(shell, _ATTRIBUTE, undo)


def unload(shell: Any) -> None:
    """Take back what `load` registered; without it, nothing happens."""
    if hasattr(shell, _ATTRIBUTE):
        getattr(shell, _ATTRIBUTE).close()
        delattr(shell, _ATTRIBUTE)


def _take_back(table: dict[str, Any], name: str, magic: Any, before: Any) -> None:
    """Put back what stood in a table of magics, unless something else stands there since."""
    if table.get(name) == magic:
        del table[name]
        if before is not None:
            table[name] = before


def _remove(items: list[Any], item: Any) -> None:
    items[:] = [other for other in items if other is not item]


def _tell_api(name: str, *values: Any) -> None:
    """Call a function of `api`, if that has been imported: there is no session before."""
    if (api := sys.modules.get("ipy_websearch.api")) is not None:
        getattr(api, name)(*values)


def _warn(text: str) -> None:
    print(f"ipy_websearch: {text}", file=sys.stderr)


# --- completion --------------------------------------------------------------------------------------------------------


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

        typed: str = ""
        known: Iterable[str] = ()
        with suppress(Exception):
            typed, known = self._found(context.full_text, context.cursor_line, context.text_until_cursor)
        names = sorted({name for name in known if name.startswith(typed)})
        completions = [SimpleCompletion(name, type="magic option") for name in names]
        return {"completions": completions, "suppress": bool(completions), "matched_fragment": typed}

    def _found(self, cell: str, line_number: int, line: str) -> Found:
        first = re.fullmatch(_MAGIC, cell.split("\n")[0] + " ")
        in_body = line_number > 0 and first is not None and first[1] == "%%" and first[2] in self._magics
        match = first if in_body else re.fullmatch(_MAGIC, line)
        if match is None or match[2] not in self._magics:
            return "", ()
        if variable := re.search(_VARIABLE, line):
            return variable[1], variables_of(self._shell)
        if in_body:
            return "", ()
        *before, typed = re.split(r"\s+", re.sub(r"(--[\w-]+)=(\S*)$", r"\1 \2", match[3]))
        if match[2] == "websearch":
            return typed, _after_websearch(before)
        return self._argument(match[2], typed, before)

    def _argument(self, magic: str, typed: str, before: list[str]) -> Found:
        """Return what may stand behind the words `before`: an option, the value of the one before it, or a name."""
        actions = self._magics[magic].make_parser()._actions
        flags = {flag: action for action in actions for flag in action.option_strings}
        valued = {flag for flag, action in flags.items() if action.nargs != 0}
        if before and before[-1] in valued:
            return self._value(flags[before[-1]], typed)
        positional = next((action for action in actions if not action.option_strings), None)
        words = [word for last, word in zip(["", *before], before, strict=False) if word not in flags and last not in valued]
        if "--" in before or (words and positional is not None and positional.dest in _TEXTS):
            return "", ()
        if typed.startswith("-"):
            return typed, [name for name in flags if name.startswith("--" if typed.startswith("--") else "-")]
        return self._value(positional, typed) if positional is not None else (typed, ())

    def _value(self, action: Any, typed: str) -> Found:
        """Return the values that an argument may have, as far as they are known."""
        from ipy_websearch.model.client import ALIASES
        from ipy_websearch.providers.base import provider_infos
        from ipy_websearch.providers.brave import catalogue
        from ipy_websearch.settings import settings_in_force
        from ipy_websearch.tools.base import TOOL_SETS

        if action.dest == "panel":
            return typed, self._magics["panels"].__self__.session.panels
        settings, variables = settings_in_force(), variables_of(self._shell)
        known: dict[str, Iterable[str]] = {
            "provider": [*provider_infos(), *(settings.search_tools if settings is not None else ())],
            "model": ["offline", *ALIASES, *ALIASES.values()],
            "tools": [*TOOL_SETS, *(name for names in TOOL_SETS.values() for name in names), "read_research", "none"],
            "goggles": catalogue(),
            "freshness": ("pd", "pw", "pm", "py"),
            "output": variables,
            "frame": [name for name, value in variables.items() if hasattr(value, "columns")],
            "cluster": [name for name, value in variables.items() if is_cluster(value)],
        }
        word = re.split("[,+]", typed)[-1] if action.dest == "tools" else typed
        return word, action.choices or known.get(action.dest, ())


def _after_websearch(before: list[str]) -> Iterable[str]:
    """Return what may stand behind the words `before` on a line of `%websearch`."""
    from ipy_websearch.keys import KEYS
    from ipy_websearch.providers.brave import catalogue

    if not before:
        return [*COMMANDS, "help"]
    keys = [name for spec in KEYS.values() for name in spec.names]
    names = {"key": keys, "goggles": catalogue(), "store": ["clear", "cancel"], "cache": ["clear"]}
    flags = [
        f"--{name}" for name, taken in signature(COMMANDS[before[0]]).parameters.items() if taken.kind == taken.KEYWORD_ONLY
    ]
    return [*flags, *names.get(before[0], ())]
