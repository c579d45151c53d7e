"""What the engines' tests share: a scripted server in the place of any engine's, with its keys, and recorded bodies."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.providers.base import PROVIDERS
from tests.fakes.scripted import Scripted

WIRE = Path(__file__).parent.parent / "data" / "wire"


def key_of(variable: str) -> str:
    """Return the key that a variable has in these tests."""
    return f"fake-{variable.lower()}-0000"


def recorded(name: str) -> Any:
    """Return a recorded body, such as "brave/helmut_web"."""
    return json.loads((WIRE / f"{name}.json").read_text(encoding="utf-8"))


def lead_to(server: Scripted, name: str, patch: pytest.MonkeyPatch) -> None:
    """Set an engine's address and keys."""
    info = PROVIDERS[name]
    patch.setenv(info.base_variable, server.url)
    for variable in info.keys:
        patch.setenv(variable, key_of(variable))


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Scripted]]:
    """A function that puts a scripted server in the place of an engine."""
    with ExitStack() as stack:
        started: list[Scripted] = []

        def serve(name: str) -> Scripted:
            started.append(stack.enter_context(Scripted()))
            lead_to(started[-1], name, monkeypatch)
            return started[-1]

        yield serve
        for server in started:
            server.check()
