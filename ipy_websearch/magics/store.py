"""What `%websearch store` shows and does: the values that enrichments have found and kept."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError


def store_command(store: Any, words: list[str]) -> Any:
    """Return what the store holds as a DataFrame, or clear it: `store`, `store clear`, `store clear COLUMN`."""
    if not words:
        return store.listing()
    if words[0] != "clear" or len(words) > 2:
        raise UsageError("%websearch store [clear [COLUMN]]")
    removed = store.clear(words[1] if len(words) == 2 else None)
    print(f"{removed:,} value{'' if removed == 1 else 's'} removed from the store.")
    return None
