"""Ask the web from a notebook cell.

`%load_ext ipy_websearch` brings `%search` (results as a pandas DataFrame), `%%ask` (an answer with its sources) and `%cost`
(what it cost). The same is here as functions: `search`, `fetch`, `ask`, `enrich` and `cost` block, `Session` has them as
coroutines; every DataFrame has `df.web`.

Importing the package imports neither pandas nor the anthropic SDK: names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipy_websearch.accessor import install

__version__ = "0.2.0"

__all__ = [
    "Answer",
    "Citation",
    "Limits",
    "Page",
    "SearchResult",
    "SearchResults",
    "Session",
    "Usage",
    "WebSearchError",
    "__version__",
    "ask",
    "cost",
    "enrich",
    "fetch",
    "intercept",
    "load_ipython_extension",
    "search",
    "unload_ipython_extension",
]

_HOMES = {
    "Answer": "results",
    "Citation": "results",
    "Limits": "results",
    "Page": "results",
    "SearchResult": "results",
    "SearchResults": "results",
    "Session": "session",
    "Usage": "results",
    "WebSearchError": "errors",
    "ask": "api",
    "cost": "api",
    "enrich": "api",
    "fetch": "api",
    "intercept": "interception",
    "load_ipython_extension": "magics.extension",
    "search": "api",
    "unload_ipython_extension": "magics.extension",
}

if TYPE_CHECKING:
    from ipy_websearch.api import ask, cost, enrich, fetch, search
    from ipy_websearch.errors import WebSearchError
    from ipy_websearch.interception import intercept
    from ipy_websearch.magics.extension import load_ipython_extension, unload_ipython_extension
    from ipy_websearch.results import Answer, Citation, Limits, Page, SearchResult, SearchResults, Usage
    from ipy_websearch.session import Session


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        value = getattr(importlib.import_module(f"ipy_websearch.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


install()  # `df.web`, now or when pandas is imported
