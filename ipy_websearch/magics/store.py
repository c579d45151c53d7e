"""What `%websearch store` shows and does: the values that enrichments have found and kept."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError


def store_command(store: Any, words: list[str]) -> Any:
    """Return what the store holds as a DataFrame, or clear it: `store`, `store clear`, `store clear COLUMN`; `store cancel`
    ends the batches that are at the API."""
    if not words:
        _print_batches(store)
        return store.listing()
    if words == ["cancel"]:
        _cancel(store)
        return None
    if words[0] != "clear" or len(words) > 2:
        raise UsageError("%websearch store [clear [COLUMN] | cancel]")
    removed = store.clear(words[1] if len(words) == 2 else None)
    print(f"{removed:,} value{'' if removed == 1 else 's'} removed from the store.")
    return None


def _print_batches(store: Any) -> None:
    """Print the batches that are at the API, or may be."""
    from ipy_websearch.enrichment.batches.handed_in import open_batches

    for name, model, count, when, _ in open_batches(store):
        print(
            f"at the API since {when:%Y-%m-%d %H:%M} UTC: {count:,} row{'s' * (count != 1)} for {model} in {name or 'a batch'}"
        )


def _cancel(store: Any) -> None:
    """Ask the API to end the open batches, and say what became of it."""
    import os

    from ipy_websearch import api, background
    from ipy_websearch.enrichment.batches.courier import cancel_open

    client = api.session().claude
    ended, said = background.run(lambda: cancel_open(client, store, os.environ.get("ANTHROPIC_BASE_URL", "")))
    print(f"{ended} batch{'es' * (ended != 1)} cancelled; what was answered by then is paid, and collected by the same call.")
    print("".join(f"{line}\n" for line in said), end="")
