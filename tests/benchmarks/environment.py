"""The environment of a measurement: no keys, settings or proxies but those it names, and data in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Work without keys, settings and proxies but these, with data in a folder of its own."""
    kept = dict(os.environ)
    with tempfile.TemporaryDirectory() as home:
        for name in list(os.environ):
            if name.endswith(("_KEY", "_TOKEN", "_URL", "_ID")) or "proxy" in name.lower() or name.startswith("IPY_WEBSEARCH"):
                del os.environ[name]
        os.environ.update({"IPY_WEBSEARCH_HOME": home, **values})
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(kept)


@contextlib.contextmanager
def light_environment(url: str) -> Iterator[None]:
    """Send the package to the light server."""
    with environment(ANTHROPIC_API_KEY="sk-ant-x", ANTHROPIC_BASE_URL=url, BRAVE_API_KEY="key", BRAVE_BASE_URL=url):
        yield
