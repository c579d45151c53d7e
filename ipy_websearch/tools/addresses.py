"""Addresses in text: what a person wrote down, the model may read. Pure.

Where an address ends, text does not say: a comma, an apostrophe or a letter may belong to it ("wiki/Washington,_D.C.") or to
what stands around it (the next field of a table, "…/a's", "…/a的"). So both readings are known: the whole one, and those cut
short at such a mark. Invariant: each reading is a piece of the text as it stands, from where an address or a host name begins;
nothing is put together, so whoever did not write the text gains no address that carries something of his choice.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

MOST_ENDS = 16
"""Places at which one address is cut; what is known stays a small multiple of the text, however it is written."""

_SCHEME = r"(?:https?|corpus|file)://"
_INSIDE = r"[^\s<>\"`{}|\\^]"
_RUN = re.compile(rf"(?<![A-Za-z0-9_]){_SCHEME}{_INSIDE}+", re.IGNORECASE)
_NEXT = re.compile(rf"(?<=[,;'()\[\]\x80-\U0010ffff])(?={_SCHEME})", re.IGNORECASE)
_BARE = re.compile(rf"(?<![\w@/.:-])(?:[a-z0-9](?:[a-z0-9-]{{0,61}}[a-z0-9])?\.)+[a-z]{{2,24}}(?:/{_INSIDE}*)?", re.IGNORECASE)
_MARK = re.compile(r"[,;'()\[\]]|[^\x00-\x7f]")
_AUTHORITY = re.compile(r"[a-z]+://[^/?#]*", re.IGNORECASE)
# Thai and its neighbours, Hangul, kana and Han: words follow an address without a blank.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3130-\u318f\u3400-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff]"
)
_ABBREVIATED = re.compile(r"[_.][A-Za-z]{1,5}\.$|_[^/_]+[!?]$")
"""How an address ends whose last mark may be its own: "wiki/Apple_Inc.", "wiki/Hey_Jude!"."""
_ENDING = ".,;:!?'\"*_(["


def addresses_in(text: str) -> set[str]:
    """Return the addresses in `text`; a bare "example.com/page" counts as its https and http address."""
    found = explicit_addresses(text)
    rest = _RUN.sub(_beside, text)
    for part in (rest, _MARK.sub(lambda mark: " " if _splits(mark[0]) else mark[0], rest)):
        for match in _BARE.finditer(part):
            for reading in _readings(f"https://{match[0]}"):
                found |= {reading, reading.replace("https", "http", 1)}
    return found


def explicit_addresses(text: str) -> set[str]:
    """Return the full addresses in text that came from the web; bare names in it do not count."""
    found: set[str] = set()
    for run in _RUN.finditer(text):
        pieces = _NEXT.split(run[0])
        for piece in pieces:
            found.update(_readings(piece))
        if len(pieces) > 1:
            found.add(_trim(run[0]))
    return found


def likely_readings(text: str) -> list[tuple[str, ...]]:
    """Return the readings of each full address in `text`, in order; the first one is what was probably meant."""
    return [tuple(_readings(piece)) for run in _RUN.finditer(text) for piece in _NEXT.split(run[0])]


def without_addresses(text: str) -> str:
    """Return `text` with a blank for what was probably meant as a full address."""
    return _RUN.sub(lambda run: "".join(f" {piece[_likely(piece) :]}" for piece in _NEXT.split(run[0])), text)


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


def _readings(address: str) -> Iterator[str]:
    """Yield what the address may be, each at least with a host: the likely reading, the whole, and all that are cut short."""
    seen = set()
    ends = [end for end, _ in _ends(address)]
    for end in (_likely(address), len(address), *ends):
        cut = address[:end]
        for reading in (_trim(cut), cut if _ABBREVIATED.search(cut) else ""):
            if reading and reading not in seen and not reading.endswith("://"):
                seen.add(reading)
                yield reading


def _likely(address: str) -> int:
    """Return where the address probably ends: at the first mark that is rather part of a sentence, a list or a table."""
    return next((end for end, sure in _ends(address) if sure), len(address))


def _ends(address: str) -> Iterator[tuple[int, bool]]:
    """Yield where the address may end before its end, and whether it rather does than not; at most `MOST_ENDS` places."""
    authority = _AUTHORITY.match(address)
    host_end = authority.end() if authority else 0
    count = depth = 0
    for mark in _MARK.finditer(address):
        at = mark.start()
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(mark[0], 0)
        sure = mark[0] in ",;'" or (mark[0] in ")]" and depth < 0) or _pointed(mark[0])
        # Letters and symbols may be a host's ("abc中国.cn"): only its last label ends at one.
        inside = at < host_end and "." in address[at:host_end]
        if sure or (_splits(mark[0]) and mark[0] > "\x7f" and address[at - 1] < "\x80" and not inside):
            yield at, sure
            count += 1
        if count == MOST_ENDS:
            return


def _pointed(mark: str) -> bool:
    """Say whether a character beyond ASCII is punctuation (quotes, dashes, an ellipsis, a full stop) or cannot be seen."""
    return mark > "\x7f" and unicodedata.category(mark)[0] in "PCZ"


def _splits(mark: str) -> bool:
    """Say whether a bare name or an address may end, and another begin, at a character that `_MARK` finds."""
    return mark < "\x80" or unicodedata.category(mark)[0] in "PSCZ" or _UNSPACED.match(mark) is not None


def _beside(run: re.Match[str]) -> str:
    """Return the bare names that stand right behind the addresses of a run, such as the next field of a table."""
    pieces = _NEXT.split(run[0])
    fields = (field for piece in pieces for field in _MARK.split(piece[_likely(piece) :])[1:])
    return f" {' '.join(field for field in fields if _BARE.match(field))} "


def _trim(address: str) -> str:
    """Return the address without the punctuation of the sentence around it; a closing bracket stays if it was opened."""
    end = len(address)
    unopened = {")": address.count(")") - address.count("("), "]": address.count("]") - address.count("[")}
    while end and (address[end - 1] in _ENDING or unopened.get(address[end - 1], 0) > 0):
        unopened[address[end - 1]] = unopened.get(address[end - 1], 0) - 1
        end -= 1
    return address[:end]
