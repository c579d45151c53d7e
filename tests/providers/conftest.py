"""The fixture that serves engines to the providers' tests, without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ipy_websearch.providers.router import PROVIDERS
from tests.fakes.wire import SERVED, Service, host_of, key_of


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Service]]:
    """A function that puts a scripted service in the place of an engine, and sets its keys."""

    def serve(name: str) -> Service:
        info = PROVIDERS[name]
        for variable in info.keys:
            monkeypatch.setenv(variable, key_of(variable))
        if not info.base_default and info.base_variable:
            monkeypatch.setenv(info.base_variable, f"https://{host_of(name)}")
        return SERVED.setdefault(host_of(name), Service())

    yield serve
    SERVED.clear()
