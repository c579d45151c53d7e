"""Names of models: short ones that people say, the ids that the API takes, and how much each can read.

Source: platform.claude.com/docs/en/about-claude/models, read 2026-11.
"""

from __future__ import annotations

import re
from difflib import get_close_matches

ALIASES = {
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}


def model_id(name: str) -> str:
    """Return the id for a model's name; a name that is no alias is passed on as it is."""
    return ALIASES.get(name.strip().lower(), name.strip())


_CLAUDE = re.compile(r"(^|[./])claude-(opus|sonnet|haiku|fable|mythos|\d)")
_SMALL_WINDOW = re.compile(r"claude-(3|haiku-4|opus-4-[015]|sonnet-4-[05])")


def is_known(name: str) -> bool:
    """Say whether a model's id looks like one of Anthropic's; others are passed on all the same."""
    return bool(_CLAUDE.search(name))


def unknown_note(name: str) -> str:
    """Return a note for a name that is not like Anthropic's models, with the one that it may have meant; "" for the others."""
    if is_known(name):
        return ""
    return f"{name!r} is not a model that is known here; the name is passed on as it is{did_you_mean(name)}"


def did_you_mean(name: str) -> str:
    """Return "; did you mean …?" for a name that is near to one of ours, "" for others."""
    near = get_close_matches(name.lower(), [*ALIASES.values(), *ALIASES], n=1, cutoff=0.7)
    return f"; did you mean {near[0]!r}?" if near and near[0] != name else ""


def context_window(name: str) -> int:
    """Return how many tokens a model can read; 32,000 for models that are not Anthropic's, whose size nobody told us."""
    if not is_known(name):
        return 32_000
    return 200_000 if _SMALL_WINDOW.search(name) else 1_000_000
