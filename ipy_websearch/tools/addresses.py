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
    found = explicit_addresses(text)
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
    """Return the addresses that a message made known: those a person wrote, and those in the results of tools."""
    content = message["content"]
    if isinstance(content, str):
        return addresses_in(content)
    found: set[str] = set()
    for block in content if message["role"] == "user" else ():
        if block.get("type") == "text":
            found |= addresses_in(block.get("text", ""))
        inner = block.get("content")
        for part in inner if isinstance(inner, list) else ():
            if part.get("type") == "search_result":
                found.add(part["source"])
                found.update(*(explicit_addresses(text.get("text", "")) for text in part["content"]))
            elif part.get("type") == "text":
                found |= explicit_addresses(part.get("text", ""))
    return found


def explicit_addresses(text: str) -> set[str]:
    """Return the full addresses in text that came from the web; bare names in it do not count."""
    return {_trim(match) for match in _ADDRESS.findall(text)}
