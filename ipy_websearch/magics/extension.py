"""Loading and unloading. Loading is cheap and silent: magics, settings, displays, completion and one input transformer are
registered; nothing is opened, and what the magics need is imported when they run. Each registration puts its inverse on a
stack, which unloading runs. The session stays, so that `%reload_ext` loses no money count and no conversation.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ipy_websearch.display.formatters import register
from ipy_websearch.magics.arguments import RawLine
from ipy_websearch.magics.ask import AskMagics
from ipy_websearch.magics.completion import Completion
from ipy_websearch.magics.cost import CostMagics
from ipy_websearch.magics.enrich import EnrichMagics
from ipy_websearch.magics.search import SearchMagics
from ipy_websearch.magics.trace import TraceMagics
from ipy_websearch.magics.websearch import WebSearchMagics
from ipy_websearch.settings import load_settings, use_settings

CLASSES = (SearchMagics, AskMagics, EnrichMagics, CostMagics, TraceMagics, WebSearchMagics)
_ATTRIBUTE = "_ipy_websearch_loaded"


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
