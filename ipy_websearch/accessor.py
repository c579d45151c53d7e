"""`df.web` on every DataFrame, whichever of pandas and this package is imported first. Importing this imports no pandas.

pandas has no entry points for accessors (3.1, read 2026-11), so where pandas is not there yet, a finder in front of
`sys.meta_path` waits for its import, lets the others load it as ever, registers the accessor when that is done, and is gone.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
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
    gives each row its best search result.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def enrich(self, columns: Mapping[str, Any], **options: Any) -> pd.DataFrame:
        """Return the frame with columns filled from the web; see `ipy_websearch.enrich` for columns, options and errors."""
        from ipy_websearch.enriching import enrich

        return enrich(self._frame, columns, **options)

    def estimate(self, columns: Mapping[str, Any], *, sample: int = 5, **options: Any) -> Estimate:
        """Return what `enrich` would cost and take for the whole frame, after trying `sample` rows.

        The rows that are tried go into the store, so that `enrich` does not ask them again.
        """
        from ipy_websearch.enriching import estimate

        return estimate(self._frame, columns, sample=sample, **options)

    def search(self, query: str, **options: Any) -> pd.DataFrame:
        """Return the frame with search_title, search_url, search_description, search_provider and search_error for each row.

        `query` names columns in braces; `provider`, `concurrency`, `progress` and the options of `ipy_websearch.search` apply.
        """
        from ipy_websearch.enriching import look_up

        return look_up(self._frame, query, **options)


def register(pandas: ModuleType) -> None:
    """Put the accessor on pandas' DataFrame, unless it is there."""
    if getattr(pandas.DataFrame, NAME, None) is not WebAccessor:
        pandas.api.extensions.register_dataframe_accessor(NAME)(WebAccessor)


def install() -> None:
    """Register with pandas now, or as soon as it has been imported."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and hasattr(pandas, "DataFrame") and hasattr(pandas, "api"):
        register(pandas)
    elif not any(isinstance(finder, _Waiting) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Waiting())


class _Waiting:
    """A finder that only looks out for pandas."""

    _busy = False

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return pandas' own spec with a loader that registers the accessor afterwards; None for everything else."""
        if name != "pandas" or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Registering(spec.loader)  # type: ignore[assignment]
        return spec


class _Registering:
    """Pandas' own loader; when it has run, the accessor is registered and the finder removed."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what pandas' own loader makes."""
        module: ModuleType | None = self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Load pandas, then register."""
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Waiting)]
        register(module)
