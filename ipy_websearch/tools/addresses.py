"""Addresses in text: what a person wrote down, the model may read. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_ADDRESS = re.compile(r"\b(?:https?|corpus|file)://[^\s<>\"'`{}|\\^]+", re.IGNORECASE)
_BARE = re.compile(
    r"(?<![\w@/.:-])(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,24}(?:/[^\s<>\"'`{}|\\^]*)?", re.IGNORECASE
)


def addresses_in(text: str) -> set[str]:
    """Return the addresses in `text`; a bare "example.com/page" counts as its https and http address."""
    found = {_trim(match) for match in _ADDRESS.findall(text)}
    for match in _BARE.findall(_ADDRESS.sub(" ", text)):
        bare = _trim(match)
        found |= {f"https://{bare}", f"http://{bare}"}
    return found


def _trim(address: str) -> str:
    """Return the address without the punctuation of the sentence around it; a closing bracket stays if it was opened."""
    while address and (address[-1] in ".,;:!?'\"*_" or (address[-1] in ")]" and address.count("([") < address.count(")]"))):
        address = address[:-1]
    while address.endswith(")") and address.count("(") < address.count(")"):
        address = address[:-1]
    return address.rstrip(".,;:!?'\"*_]")


def addresses_of(message: Mapping[str, Any]) -> set[str]:
    """Return the addresses in a message's own text and in the sources of its results."""
    content = message["content"]
    if isinstance(content, str):
        return addresses_in(content)
    found: set[str] = set()
    for block in content:
        if block.get("type") == "text" and message["role"] == "user":
            found |= addresses_in(block.get("text", ""))
        inner = block.get("content")
        if isinstance(inner, list):
            found.update(b["source"] for b in inner if isinstance(b, dict) and b.get("type") == "search_result")
    return found
