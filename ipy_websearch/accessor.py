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

    from ipy_websearch.enrichment.report import Estimate

NAME = "web"


class WebAccessor:
    """Questions to the web about the rows of a frame.

    `df.web.enrich({...})` fills columns, `df.web.estimate({...})` says what that would cost, `df.web.search("{company} CEO")`
    gives each row its best search result. A Dask DataFrame is answered with a Dask DataFrame.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def __repr__(self) -> str:
        return (
            "Questions to the web about the rows of this frame:\n"
            '  df.web.enrich({"ceo": "Who is the CEO of {company}?"})     the frame with columns filled from the web\n'
            '  df.web.estimate({"ceo": "Who is the CEO of {company}?"})   what that would cost\n'
            '  df.web.search("{company} CEO")                             the best search result for each row\n'
            "help(df.web.enrich) names the options."
        )

    def enrich(self, columns: Mapping[str, Any], **options: Any) -> pd.DataFrame:
        """Return the frame with columns filled from the web; see `ipy_websearch.enrich` for columns, options and errors."""
        from ipy_websearch.api import enrich

        return enrich(self._frame, columns, **options)

    def estimate(self, columns: Mapping[str, Any], *, sample: int = 5, progress: bool = False, **options: Any) -> Estimate:
        """Return the cost and time of `enrich` for the whole frame, after trying `sample` rows.

        The options are those of `enrich`. The rows that are tried go into the store, so that `enrich` does not ask them again.
        An interrupt is passed on.

        Raises:
            ConfigError: a question, type or option is wrong; nothing was sent.
            EnrichmentError: the rows that were tried all failed, or the budget let none be tried.
        """
        from ipy_websearch import api

        work = api.session().enrichment(self._frame, columns, sample=sample, progress=progress, **options)
        if api.drive(work):
            raise KeyboardInterrupt
        return work.estimate()

    def search(self, query: str, *, concurrency: int = 16, progress: bool = True, **options: Any) -> pd.DataFrame:
        """Return the frame with the best search result for each row: search_title, search_url, search_description,
        search_provider and search_error (all text, missing where there is nothing).

        `query` names columns in braces; equal queries are searched for once. Further options are those of
        `ipy_websearch.search`. For a Dask DataFrame this process searches at once, and what comes back is a Dask DataFrame.

        Raises:
            ConfigError: the query names no column or one that is not there; nothing was sent.
            EnrichmentError: the searches all failed alike, and further ones would fail too.
        """
        from ipy_websearch import api
        from ipy_websearch.enrichment.run import start_lookup
        from ipy_websearch.options import EnrichOptions, checked

        provider, fresh = options.pop("provider", None), checked("fresh", options.pop("fresh", False))
        given = EnrichOptions(None, {}, concurrency=concurrency, progress=progress, provider=provider, resume=False)
        request = api.session().search_request("placeholder", **{"count": 1, **options})
        work = start_lookup(api.session(), self._frame, query, given, request, fresh)
        if api.drive(work):
            print("Interrupted: what was found by then is returned.")
        return work.frame()


# The modules that have a `DataFrame`, and where each has its `register_dataframe_accessor`.
_LIBRARIES = {"pandas": "pandas.api.extensions", "dask.dataframe": "dask.dataframe.extensions"}


def _register(module: ModuleType) -> None:
    with suppress(ImportError):  # a version that has it elsewhere must still import
        extensions = import_module(_LIBRARIES[module.__name__])
        if getattr(module.DataFrame, NAME, None) is not WebAccessor:
            extensions.register_dataframe_accessor(NAME)(WebAccessor)


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
