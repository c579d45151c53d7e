"""Stands in for a magic until it is used, so that loading the extension builds no parser and imports no module for it.

What IPython looks at before a call is here as well: that lines come raw. Reading the documentation
(`%search?`) or the parser (completion) loads the real one.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from IPython.core import magic
from IPython.core.error import UsageError


class DeferredMagic:
    """A magic by the name of its module, class and method; `shell` is the shell that it will work in."""

    def __init__(self, shell: Any, module: str, class_name: str, name: str) -> None:
        self._shell = shell
        self._place = (module, class_name, name)
        self.__name__ = name
        self.made: Any = None
        setattr(self, magic.MAGIC_NO_VAR_EXPAND_ATTR, True)

    @property
    def method(self) -> Callable[..., Any]:
        """The magic itself."""
        module, class_name, name = self._place
        if self.made is None:
            self.made = getattr(importlib.import_module(module), class_name)(self._shell)
        return getattr(self.made, name)

    def __call__(self, line: str, cell: str | None = None) -> Any:
        try:
            return self.method(line) if cell is None else self.method(line, cell)
        except (KeyboardInterrupt, UsageError) as exc:
            from ipy_websearch.magics.common import Interrupted, Misuse

            if isinstance(exc, Interrupted):
                raise
            shown = Misuse(*exc.args) if isinstance(exc, UsageError) else Interrupted(f"%{self.__name__} was stopped")
            raise shown from None

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return self.method.__doc__

    @property
    def parser(self) -> Any:
        """The magic's argparse parser."""
        return getattr(self.method, "parser", None)
