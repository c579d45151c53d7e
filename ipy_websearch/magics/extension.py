"""Loading and unloading. Loading is cheap and silent: magics, settings, displays, completion and an input transformer are
registered; nothing is opened, and what the magics need is imported when they run. Each registration puts its inverse on a
stack, which unloading runs. The session stays, so that `%reload_ext` loses neither costs nor conversation.

Completion is one matcher beside those of IPython and of others: options and their values, providers, models, tools, variables,
panels, commands; elsewhere it offers nothing. ipykernel asks the same matchers, so JupyterLab completes as well. Names are
looked up when Tab is pressed; a failure costs a completion, never the cell.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import MethodType
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from ipy_websearch.display.formatters import register
from ipy_websearch.magics.arguments import RawLine, parse, variables_of
from ipy_websearch.magics.ask import ask
from ipy_websearch.magics.cost import cost
from ipy_websearch.magics.enrich import enrich
from ipy_websearch.magics.search import fetch, search
from ipy_websearch.magics.trace import panels, trace
from ipy_websearch.magics.websearch import COMMANDS, websearch
from ipy_websearch.settings import load_settings, use_settings

MAGICS = (search, fetch, ask, enrich, cost, trace, panels, websearch)
_ATTRIBUTE = "_ipy_websearch_loaded"
_LINE = r"\s*(?:[^\W\d][\w.\[\]'\", ]*=\s*)?%%?([a-z]+)[ \t]+(.*)"


def load_ipython_extension(shell: Any) -> None:
    """Register the magics, settings and displays (`%load_ext ipy_websearch`); a second call changes nothing."""
    if hasattr(shell, _ATTRIBUTE):
        return
    # first: a wrong setting leaves nothing behind
    settings = load_settings(Path.cwd(), parent=shell, warn=lambda text: print(f"ipy_websearch: {text}", file=sys.stderr))
    undo = ExitStack()
    magics: dict[str, Any] = {function.__name__: MethodType(function, shell) for function in MAGICS}
    for name, magic in magics.items():
        for kind in magic.kinds:
            table = shell.magics_manager.magics[kind]
            if name in table:  # another extension's: unloading restores it
                undo.callback(table.__setitem__, name, table[name])
            else:
                undo.callback(table.pop, name, None)
            table[name] = magic
    for items, added in (
        (shell.configurables, settings),
        (shell.input_transformer_manager.token_transformers, RawLine),
        (shell.Completer.custom_matchers, completion(shell, magics)),
    ):
        items.append(added)
        undo.callback(items.remove, added)
    undo.enter_context(register(shell))
    use_settings(settings)
    undo.callback(use_settings, None)
    if (module := sys.modules.get("ipy_websearch.session")) is not None:  # else there is no session yet
        module.session().settings = settings
    setattr(shell, _ATTRIBUTE, undo)


def unload_ipython_extension(shell: Any) -> None:
    """Take back everything that loading registered (`%unload_ext ipy_websearch`); the session's state stays."""
    if hasattr(shell, _ATTRIBUTE):
        getattr(shell, _ATTRIBUTE).close()
        delattr(shell, _ATTRIBUTE)


# --- completion --------------------------------------------------------------------------------------------------------


def completion(shell: Any, magics: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the matcher of a shell; `magics` are ours by name."""

    @context_matcher(identifier="ipy_websearch")
    def match(context: Any) -> Any:
        typed, known = "", list[str]()
        line = re.fullmatch(_LINE, context.text_until_cursor)
        with suppress(Exception):
            if line and line[1] in magics:
                typed, known = _found(shell, magics[line[1]].make_parser(), line[2])
        completions = [SimpleCompletion(name, type="magic option") for name in sorted(set(known)) if name.startswith(typed)]
        return {"completions": completions, "suppress": bool(completions), "matched_fragment": typed}

    return match


def _found(shell: Any, parser: Any, line: str) -> tuple[str, list[str]]:
    """Return the typed part of the last word of a magic's line, and its candidates: an option, the value of the option before
    it, or a name."""
    *before, typed = re.split(r"\s+", re.sub(r"(--[\w-]+)=(\S*)$", r"\1 \2", line))
    flags = parser._option_string_actions
    option = flags.get(before[-1]) if before else None
    if option is not None and option.nargs != 0:
        return _values(shell, option, typed, option.dest)
    (positional,) = parser._get_positional_actions() or [None]
    name = getattr(positional, "dest", "")
    if name in ("question", "query") and ("--" in before or parse(parser, " ".join(before))[1]):
        return "", []
    if typed.startswith("-"):
        return typed, [flag for flag in flags if flag.startswith("--" if typed.startswith("--") else "-")]
    return _values(shell, positional, typed, before[0] if name == "command" and before else name)


def _values(shell: Any, action: Any, typed: str, name: str) -> tuple[str, list[str]]:
    """Return the known values of an argument, by its name or by a command of %websearch."""
    from ipy_websearch import api
    from ipy_websearch.keys import KEYS
    from ipy_websearch.model.requests import ALIASES
    from ipy_websearch.money.ledger import GROUPS
    from ipy_websearch.providers.brave import catalogue
    from ipy_websearch.providers.router import provider_infos
    from ipy_websearch.tools.base import TOOL_SETS

    session, variables = api.session(), variables_of(shell)
    known: dict[str, Iterable[str]] = {
        "provider": [*provider_infos(), *session.settings.search_tools],
        "model": ["offline", *ALIASES, *ALIASES.values()],
        "tools": [*TOOL_SETS, *(tool for tools in TOOL_SETS.values() for tool in tools), "read_research", "none"],
        "goggles": catalogue(),
        "freshness": ("pd", "pw", "pm", "py"),
        "by": GROUPS,
        "panel": session.panels,
        "output": variables,
        "frame": [variable for variable, value in variables.items() if hasattr(value, "columns")],
        "command": [command.split()[0] for command in COMMANDS],
        "key": [short for spec in KEYS.values() for short in spec.names],
    }
    word = re.split("[,+]", typed)[-1] if name == "tools" else typed
    second = [command.removeprefix(f"{name} ") for command in COMMANDS if command.startswith(f"{name} ")]
    return word, list(getattr(action, "choices", None) or known.get(name, second))
