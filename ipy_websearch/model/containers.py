"""The container that the platform runs code in: the same for all requests of an answer. Pure.

The API's own web tools run in one too, where they filter what they find. A request without its id gets a new one, and is
refused while code of the last one still waits (platform.claude.com/docs, "Code execution tool" and "Programmatic tool
calling"; anthropic 2.11 `types/beta/beta_container_params.py`, `raw_message_delta_event.py`; read 2026-11). A whole reply
names it at the top, a stream in the `delta` of its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def wanted_container(given: Any, container: Mapping[str, Any]) -> Any:
    """Return the `container` of a next request: the last reply's, with all else that the caller's own says of it (skills)."""
    return {**given, "id": container["id"]} if isinstance(given, Mapping) else container["id"]


def with_container(tail: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, Any]:
    """Return the end of a message with the container named where a stream has it, which is also where a message has it."""
    rest = {name: value for name, value in tail.items() if name != "container"}
    return {**rest, "delta": {**(tail.get("delta") or {}), "container": container}}
