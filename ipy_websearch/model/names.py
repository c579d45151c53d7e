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


_VERSION = re.compile(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2}))?(?!\d)")


def forces_tools(name: str) -> bool:
    """Say whether a request may force a model to call a tool (`tool_choice` "any" or "tool").

    From Fable and Mythos 5.1, Opus and Sonnet 5.5 on the API answers 400 to that; Haiku takes it up to 5.5
    (platform.claude.com/docs/en/models/…/whats-new, "Forced tool use is not supported", read 2026-11). What came later is
    taken not to: "auto" with a request in words works everywhere.
    """
    found = _VERSION.search(name)
    if not found:
        return True
    version = (int(found[2]), int(found[3] or 0))
    return version <= (5, 5) if found[1] == "haiku" else version < (5, 1)


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
