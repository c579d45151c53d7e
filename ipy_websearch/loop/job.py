"""What one run of the loop is to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipy_websearch.loop.history import Message
from ipy_websearch.tools.base import Tool
from ipy_websearch.usage import Limits


@dataclass(frozen=True, slots=True)
class Job:
    """A question with all that it takes to answer it.

    `history` is a legal list of earlier messages, `known_urls` what may be fetched from the start, `columns` the table that
    is wanted in place of prose (None: prose).
    """

    question: str
    model: str
    system: str
    tools: tuple[Tool, ...] = ()
    server_tools: tuple[Mapping[str, Any], ...] = ()
    history: tuple[Message, ...] = ()
    limits: Limits = Limits()
    max_tokens: int = 16_000
    known_urls: frozenset[str] = frozenset()
    columns: Mapping[str, type] | None = None
