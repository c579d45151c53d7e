"""What `%websearch status` says: engines, keys (never their values), model, folders, corpus."""

from __future__ import annotations

from typing import Any

from ipy_websearch.display.money import usd
from ipy_websearch.errors import ConfigError
from ipy_websearch.keys import KEYS
from ipy_websearch.magics.record import tape_lines
from ipy_websearch.model.names import model_id
from ipy_websearch.settings import OFFLINE_MODEL, data_dir, settings_dir


def status_lines(session: Any) -> list[str]:
    """Return the lines."""
    import ipy_websearch

    lines = [f"ipy_websearch {ipy_websearch.__version__}", "", "Engines, in the order in which they are asked"]
    lines += [f"  {'✓' if available else '–'} {name:<11} {why}" for name, available, why in session.router.chain()]
    lines += ["", "Keys"]
    lines += [_key(session, variable) for variable in KEYS]
    lines += ["", "Model", *_model(session), "", "Folders"]
    lines += [f"  data      {data_dir()}", f"  settings  {settings_dir()}"]
    lines += ["", "Local index", *_index(session)]
    lines += [f"  {line}" for line in tape_lines(session)]
    lines += ["", f"Spent in this session: {usd(session.spent_usd)}"]
    for part in ("ledger", "cache"):
        lines += [f"  note: {warning}" for warning in getattr(session, part).warnings]
    lines += [f"  note: {warning}" for warning in session.index.warnings]
    return lines


def _key(session: Any, variable: str) -> str:
    try:
        found = session.keys.find(variable)
    except ConfigError as exc:
        return f"  ✗ {variable:<24} {exc}"
    return f"  {'✓' if found else '–'} {variable:<24} {'set: ' + found[1] if found else 'not set'}"


def _model(session: Any) -> list[str]:
    name = model_id(session.settings.model)
    try:
        offline = name != OFFLINE_MODEL and not session.has_model_key
    except ConfigError as exc:
        return [f"  {name}   cannot be asked: {exc}"]
    if offline:
        return [f"  offline   the built-in extractive model, until a key for {name} is set: %websearch key anthropic"]
    return [f"  {name}   tools: {session.settings.tools}"]


def _index(session: Any) -> list[str]:
    stats = session.index.stats()
    lines = [f"  {stats['corpus_documents']} embedded articles"]
    return lines + [f"  {count:,} documents of {folder}" for folder, count in session.index.folders()]
