"""`df.web` on every DataFrame of pandas and Dask, whichever is imported first. Importing this imports neither of them.

They have no entry points for accessors (pandas 3.1, Dask 2026.8, read 2026-11), so a finder at the front of `sys.meta_path`
has the accessor registered at the end of their own import.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

NAME = "web"


class WebAccessor:
    """Questions to the web about the rows of a frame.

    `df.web.enrich({...})` fills columns. A Dask DataFrame is answered with a Dask DataFrame.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def enrich(self, columns: Mapping[str, Any], **options: Any) -> pd.DataFrame:
        """Return the frame with columns filled from the web; see `ipy_websearch.enrich` for columns, options and errors."""
        from ipy_websearch.api import enrich

        return enrich(self._frame, columns, **options)


# The modules that have a `DataFrame`, and where each has its `register_dataframe_accessor`.
_LIBRARIES = {"pandas": "pandas.api.extensions", "dask.dataframe": "dask.dataframe.extensions"}


def _register(module: ModuleType) -> None:
    with suppress(ImportError):  # a version that has it elsewhere must still import
        if getattr(module.DataFrame, NAME, None) is not WebAccessor:
            import_module(_LIBRARIES[module.__name__]).register_dataframe_accessor(NAME)(WebAccessor)


def install() -> None:
    """Register with pandas and Dask now, or at the end of their import."""
    sys.meta_path.insert(0, _AfterImport())
    for name in _LIBRARIES:
        if hasattr(sys.modules.get(name), "DataFrame"):
            _register(sys.modules[name])


class _AfterImport:
    """A finder that finds nothing itself: it adds the registration to the loader that the other finders give."""

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the others' spec for a library of `_LIBRARIES`, None for everything else."""
        if name not in _LIBRARIES:
            return None
        specs = (finder.find_spec(name, path, target) for finder in sys.meta_path if finder is not self)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = partial(_execute, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec


def _execute(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
    execute(module)
    _register(module)
