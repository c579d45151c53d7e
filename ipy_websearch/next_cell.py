"""How a value reaches the next cell without knowing IPython: the loaded extension puts a writer here, values call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipy_websearch.errors import ConfigError

_writer: Callable[[Any], None] | None = None


def use_cell_writer(writer: Callable[[Any], None] | None) -> None:
    """Let `write_cell` use this writer; None: there is no cell to write to."""
    global _writer
    _writer = writer


def write_cell(value: Any) -> None:
    """Put a value into the next cell.

    Raises:
        ConfigError: the extension is not loaded, so there are no cells.
    """
    if _writer is None:
        raise ConfigError("there is no next cell here; load the extension in a notebook first: %load_ext ipy_websearch")
    _writer(value)
