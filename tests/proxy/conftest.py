"""The proxy in a thread, and the server behind it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def wire(clean_environment: None) -> Iterator[Any]:
    """A server behind the proxy that keeps every byte that it got."""
    from tests.proxy.running import Wire

    with Wire() as made:
        yield made


@pytest.fixture
def proxy(wire: Any, brave_api: Any) -> Iterator[Any]:
    """The proxy in front of it."""
    from tests.proxy.running import Running

    with Running(wire.url) as running:
        yield running
