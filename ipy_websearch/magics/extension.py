"""Loading and unloading. Loading is cheap and silent: magics, settings, displays, completion and one input transformer are
registered; nothing is opened, and what the magics need is imported when they run. Unloading takes back exactly that. The
session stays, so that `%reload_ext` loses no money count and no conversation.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from ipy_websearch.display.formatters import register, unregister
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


class Loaded:
    """Everything that was registered with one shell."""

    def __init__(self, shell: Any) -> None:
        self.settings = load_settings(Path.cwd(), parent=shell, warn=_warn)  # first: a wrong setting leaves nothing behind
        self.shell = shell
        self.before = {kind: dict(table) for kind, table in shell.magics_manager.magics.items()}
        self.magics = [made(shell) for made in CLASSES]
        shell.register_magics(*self.magics)
        self.ours = {name: magic for made in self.magics for table in made.magics.values() for name, magic in table.items()}
        shell.configurables.append(self.settings)
        shell.input_transformer_manager.token_transformers.insert(0, RawLine)
        self.completion = Completion(shell, self.ours)
        if shell.Completer is not None:
            shell.Completer.custom_matchers.append(self.completion)
        register(shell)
        use_settings(self.settings)
        if (api := sys.modules.get("ipy_websearch.api")) is not None:
            api.take_settings(self.settings)

    def unload(self) -> None:
        """Take everything back; magics that stood under our names come back."""
        for kind, table in self.shell.magics_manager.magics.items():
            for name in [name for name, magic in table.items() if magic == self.ours.get(name)]:
                del table[name]
                if name in self.before[kind]:
                    table[name] = self.before[kind][name]
        for made in self.magics:
            self.shell.magics_manager.registry.pop(type(made).__name__, None)
        ours = {id(part) for part in (*self.magics, self.settings)}
        self.shell.configurables[:] = [part for part in self.shell.configurables if id(part) not in ours]
        _remove(self.shell.input_transformer_manager.token_transformers, RawLine)
        if self.shell.Completer is not None:
            _remove(self.shell.Completer.custom_matchers, self.completion)
        unregister(self.shell)
        use_settings(None)
        if (api := sys.modules.get("ipy_websearch.api")) is not None:
            api.stop_recording()


def _remove(items: list[Any], item: Any) -> None:
    items[:] = [other for other in items if other is not item]


def _warn(text: str) -> None:
    print(f"ipy_websearch: {text}", file=sys.stderr)


def load(shell: Any) -> None:
    """Register with a shell, unless that has been done."""
    if getattr(shell, _ATTRIBUTE, None) is None:
        setattr(shell, _ATTRIBUTE, Loaded(shell))


def unload(shell: Any) -> None:
    """Take back what `load` registered; without it, nothing happens."""
    loaded = getattr(shell, _ATTRIBUTE, None)
    if loaded is not None:
        delattr(shell, _ATTRIBUTE)
        loaded.unload()
