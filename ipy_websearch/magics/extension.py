"""Loading and unloading. Loading is cheap and silent (unless a pyproject.toml is wrong): magics, settings, displays and one
input transformer are registered; nothing is opened, asked or imported that they do not need. Unloading takes back exactly that;
the session stays, so that `%reload_ext` loses no money count and no conversation.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from traitlets import TraitError

from ipy_websearch.display.formatters import register, unregister
from ipy_websearch.magics.completion import Completion
from ipy_websearch.magics.deferred import DeferredMagic
from ipy_websearch.magics.raw_line import RawLineMagic
from ipy_websearch.next_cell import use_cell_writer
from ipy_websearch.settings import WebSearch, load_settings, use_settings

_ATTRIBUTE = "_ipy_websearch_loaded"


MAGICS = {
    "search": ("ipy_websearch.magics.search", "SearchMagics", ("line",)),
    "ask": ("ipy_websearch.magics.ask", "AskMagics", ("line", "cell")),
    "enrich": ("ipy_websearch.magics.enrich", "EnrichMagics", ("line", "cell")),
    "fetch": ("ipy_websearch.magics.fetch", "FetchMagics", ("line",)),
    "cost": ("ipy_websearch.magics.cost", "CostMagics", ("line",)),
    "trace": ("ipy_websearch.magics.trace", "TraceMagics", ("line",)),
    "panels": ("ipy_websearch.magics.panels", "PanelMagics", ("line",)),
    "websearch": ("ipy_websearch.magics.websearch", "WebSearchMagics", ("line",)),
}
"""Each magic with its module, its class, and whether it works on lines, cells or both."""


class Loaded:
    """What was registered with one shell."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.magics: list[DeferredMagic] = []
        self.shadowed: dict[tuple[str, str], Any] = {}
        self.settings: WebSearch | None = None
        self.completion = Completion(shell, {})

    def register(self) -> None:
        """Register everything."""
        self._configure()  # first: a setting that is refused leaves nothing registered
        table = self.shell.magics_manager.magics
        for name, (module, class_name, kinds) in MAGICS.items():
            self.magics.append(DeferredMagic(self.shell, module, class_name, name))
            for kind in kinds:
                self.shadowed[kind, name] = table[kind].get(name)
                table[kind][name] = self.magics[-1]
        self.shell.input_transformer_manager.token_transformers.insert(0, RawLineMagic)
        register(self.shell)
        self.completion = Completion(self.shell, {magic.__name__: magic for magic in self.magics})
        self.completion.register()
        use_cell_writer(self._write_cell)

    def _write_cell(self, value: Any) -> None:
        from ipy_websearch.magics.export import put_into_next_cell

        put_into_next_cell(self.shell, value)

    def _configure(self) -> None:
        """Make the settings visible to `%config WebSearch`, and to the session when there is or will be one."""
        self.settings = load_settings(Path.cwd(), parent=self.shell, warn=_warn)
        self.shell.configurables.append(self.settings)
        use_settings(self.settings)
        if (api := sys.modules.get("ipy_websearch.api")) is not None:
            api.take_settings(self.settings)

    def unregister(self) -> None:
        """Take everything back."""
        table = self.shell.magics_manager.magics
        for (kind, name), before in self.shadowed.items():
            if before is None:
                table[kind].pop(name, None)
            else:
                table[kind][name] = before
        ours = {id(part) for part in [*(magic.made for magic in self.magics), self.settings]}
        self.shell.configurables[:] = [c for c in self.shell.configurables if id(c) not in ours]
        transformers = self.shell.input_transformer_manager.token_transformers
        transformers[:] = [t for t in transformers if t is not RawLineMagic]
        unregister(self.shell)
        self.completion.unregister()
        use_cell_writer(None)
        self._forget_refused()
        use_settings(None)
        if (api := sys.modules.get("ipy_websearch.api")) is not None:
            api.stop_recording()

    def _forget_refused(self) -> None:
        """Put what is in force in place of values that `%config` refused: IPython keeps those in the shell's configuration,
        where the next load would find them."""
        section = self.shell.config.get("WebSearch", {})
        for name, trait in self.settings.traits(config=True).items() if self.settings is not None else ():
            try:
                if name in section:
                    trait._validate(self.settings, section[name])
            except TraitError:
                section[name] = getattr(self.settings, name)


def _warn(text: str) -> None:
    print(f"ipy_websearch: {text}", file=sys.stderr)


def load(shell: Any) -> None:
    """Register with a shell, unless that has been done."""
    if getattr(shell, _ATTRIBUTE, None) is None:
        loaded = Loaded(shell)
        loaded.register()
        setattr(shell, _ATTRIBUTE, loaded)


def unload(shell: Any) -> None:
    """Take back what `load` registered; without it, nothing happens."""
    loaded = getattr(shell, _ATTRIBUTE, None)
    if loaded is not None:
        loaded.unregister()
        delattr(shell, _ATTRIBUTE)
