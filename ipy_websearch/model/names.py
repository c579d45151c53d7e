"""Names of models: short ones that people say, and the ids that the API takes (reference: its models list, 2026-11)."""

from __future__ import annotations

ALIASES = {
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}


def model_id(name: str) -> str:
    """Return the id for a model's name; a name that is no alias is passed on as it is."""
    return ALIASES.get(name.strip().lower(), name.strip())
