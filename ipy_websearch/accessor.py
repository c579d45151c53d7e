"""`df.web` on every DataFrame of pandas and Dask, whichever is imported first. Importing this imports neither of them.

They have no entry points for accessors (pandas 3.1, Dask 2026.8, read 2026-11), so for what is not there yet, a finder in front
of `sys.meta_path` waits for its import, lets the others load it as ever, registers the accessor when that is done, and is gone.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.enrichment.report import Estimate

NAME = "web"


class WebAccessor:
    """Questions to the web about the rows of a frame.

    `df.web.enrich({...})` fills columns, `df.web.estimate({...})` says what that would take, `df.web.search("{company} CEO")`
    gives each row its best search result. A Dask DataFrame is answered with a Dask DataFrame.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def enrich(self, columns: Mapping[str, Any], **options: Any) -> pd.DataFrame:
        """Return the frame with columns filled from the web; see `ipy_websearch.enrich` for columns, options and errors."""
        from ipy_websearch.api import enrich

        return enrich(self._frame, columns, **options)

    def estimate(self, columns: Mapping[str, Any], *, sample: int = 5, **options: Any) -> Estimate:
        """Return what `enrich` would cost and take for the whole frame, after trying `sample` rows.

        The rows that are tried go into the store, so that `enrich` does not ask them again.
        """
        from ipy_websearch.api import estimate

        return estimate(self._frame, columns, sample=sample, **options)

    def search(self, query: str, **options: Any) -> pd.DataFrame:
        """Return the frame with search_title, search_url, search_description, search_provider and search_error for each row.

        `query` names columns in braces; `provider`, `concurrency`, `progress` and the options of `ipy_websearch.search` apply.
        """
        from ipy_websearch.api import look_up

        return look_up(self._frame, query, **options)


def _register_pandas(module: ModuleType) -> None:
    if getattr(module.DataFrame, NAME, None) is not WebAccessor:
        module.api.extensions.register_dataframe_accessor(NAME)(WebAccessor)


def _register_dask(module: ModuleType) -> None:
    with suppress(ImportError):  # another version of Dask may have it elsewhere, and is to be imported all the same
        from dask.dataframe.extensions import register_dataframe_accessor

        if getattr(module.DataFrame, NAME, None) is not WebAccessor:
            register_dataframe_accessor(NAME)(WebAccessor)


_LIBRARIES: dict[str, Callable[[ModuleType], None]] = {"pandas": _register_pandas, "dask.dataframe": _register_dask}
"""Each module that has a DataFrame, with what puts the accessor on it."""


def install() -> None:
    """Register with pandas and Dask now, or as soon as they have been imported."""
    waited_for = {finder.name for finder in sys.meta_path if isinstance(finder, _Waiting)}
    for name, register in _LIBRARIES.items():
        module = sys.modules.get(name)
        if module is not None and hasattr(module, "DataFrame") and not getattr(module.__spec__, "_initializing", False):
            register(module)
        elif name not in waited_for:
            sys.meta_path.insert(0, _Waiting(name))


class _Waiting:
    """A finder that only looks out for one module."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._busy = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return the module's own spec with a loader that registers the accessor afterwards; None for everything else."""
        if name != self.name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader, name)  # type: ignore[assignment]
        return spec


class _Registering:
    """A module's own loader; when it has run, the accessor is registered and the finder removed."""

    def __init__(self, loader: Any, name: str) -> None:
        self._loader = loader
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what the module's own loader makes."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Load the module, then register."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        finders = [f for f in sys.meta_path if not (isinstance(f, _Waiting) and f.name == self._name)]
        sys.meta_path[:] = finders
        _LIBRARIES[self._name](module)
