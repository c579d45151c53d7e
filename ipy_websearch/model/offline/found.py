"""What was found in a sentence: a value, where it stands, and how surely it is what was asked."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Found:
    """A value read from a sentence. `strength` is 0 to 1; `start:end` are the characters that it was read from."""

    value: int | float | str | bool
    strength: float
    start: int = 0
    end: int = 0
