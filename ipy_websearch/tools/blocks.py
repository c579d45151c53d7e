"""Markdown in blocks that can be cited one by one. Pure.

A citation names whole blocks, so they should be small enough to point at something and few enough to send. Blocks end at
blank lines; a code fence is never cut, and a heading stays with what follows it.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r"[ \t>]{0,12}(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r"#{1,6} [^\n]*")


def blocks(markdown: str, *, most: int = 60) -> tuple[str, ...]:
    """Return the blocks of `markdown` in order, neighbours joined so that there are at most `most`; no block is empty."""
    return tuple(_joined(_with_headings(_split(markdown)), most))


def _split(markdown: str) -> list[str]:
    found: list[str] = []
    current: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        fence = _fence_after(line, fence)
        if fence or line.strip():
            current.append(line)
        elif current:
            found.append("\n".join(current))
            current = []
    return [*found, "\n".join(current)] if current else found


def _fence_after(line: str, fence: str) -> str:
    """Return the fence that is open after `line`, "" when none is; a fence is closed by one as long, with nothing after."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    if not fence:
        return "" if match[1][0] == "`" and "`" in match[2] else match[1]
    return "" if match[1].startswith(fence) and not match[2].strip() else fence


def _with_headings(parts: list[str]) -> list[str]:
    found: list[str] = []
    pending = ""
    for part in parts:
        part = f"{pending}\n\n{part}" if pending else part
        pending = part if all(_HEADING.fullmatch(line) for line in part.split("\n\n")) else ""
        if not pending:
            found.append(part)
    return [*found, pending] if pending else found


def _joined(parts: list[str], most: int) -> list[str]:
    if len(parts) <= most:
        return parts
    # One less than allowed, since the last block takes what is left over.
    enough = sum(map(len, parts)) / max(most - 1, 1)
    found: list[str] = []
    current, size = [], 0
    for part in parts:
        current.append(part)
        size += len(part)
        if size >= enough:
            found.append("\n\n".join(current))
            current, size = [], 0
    return [*found, "\n\n".join(current)] if current else found
