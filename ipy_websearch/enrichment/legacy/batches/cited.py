"""What a batch's answer cites, against which sources and quotes are checked. Pure.

The passages of the API's own search come encrypted: what can be read of them are the words that the model cited. So it is asked
for one line of text for each value, `name: a sentence that cites its result`, before it records. The invariant: a quote is
words that were cited, and cited from the source that it stands beside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ipy_websearch.enrichment.legacy.asking import Evidence, address_of, quoted
from ipy_websearch.enrichment.legacy.columns import Column
from ipy_websearch.text import fold, visible

_LINE = r"[\s>*_`#•–-]*(?:\d+[.)]\s*)?[*_`\"'“]*({})[*_`\"'”]*\s*:"
_THOUSANDS = re.compile(r"(?<=\d)[,\u00a0\u202f’'](?=\d{3}(?!\d))")


@dataclass(frozen=True, slots=True)
class Passage:
    """Cited words with their address; `keys` are the columns on whose lines they are cited."""

    url: str
    words: str
    keys: frozenset[str]


class Cited(Evidence):
    """What the searches of a row found, and what of it was cited for which column."""

    def __init__(self, columns: Sequence[Column]) -> None:
        super().__init__()
        self._alone = len(columns) == 1
        names = sorted((re.escape(column.key) for column in columns), key=len, reverse=True)
        self._name = re.compile(_LINE.format("|".join(names)), re.IGNORECASE)
        self._keys = {column.key.casefold(): column.key for column in columns} | {column.key: column.key for column in columns}
        self._passages: list[Passage] = []

    def read(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Take the citations of an answer in."""
        for block, keys in self._with_columns(blocks):
            for citation in block.get("citations") or ():
                url, words = str(citation.get("url") or ""), str(citation.get("cited_text") or "")
                if url:
                    self.add(url, [])
                    self._passages += [Passage(url, words, keys)] if words.strip() else []

    def support(self, column: Column, value: Any, source: Any, quote: Any) -> tuple[str | None, str | None]:
        """Return the source and the quote of a value: those claimed that are borne out, else what was cited for it."""
        found = self.source(source)
        near = [p for p in self._passages if found is None or address_of(p.url) == address_of(found)]
        own = self._own(column, value, near, known=found is not None)
        for passage in own if found is None else near:
            if text := quoted(quote, [fold(passage.words)]):
                return self.source(passage.url), text
        best = next((p for p in own if _mentions(p.words, value)), own[0] if own else None)
        if best is None:
            return found, None
        return self.source(best.url), " ".join(visible(best.words).split())

    def _own(self, column: Column, value: Any, near: Sequence[Passage], *, known: bool) -> list[Passage]:
        """Return the passages that were cited for a column; where no line is its own, those that speak of its value."""
        if mine := [p for p in near if column.key in p.keys]:
            return mine
        loose = [p for p in near if not p.keys]
        return loose if self._alone else [p for p in loose if known and _mentions(p.words, value)]

    def _with_columns(self, blocks: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], frozenset[str]]]:
        """Yield the text blocks with the columns on whose lines they stand; the API begins a new block at each citation."""
        line, current = "", ""
        for block in blocks:
            if block.get("type") != "text":
                line = current = ""
                continue
            keys = set()
            for number, piece in enumerate(str(block.get("text") or "").split("\n")):
                if number:
                    current = current if line.strip() else ""
                    line = ""
                line += piece
                if named := self._name.match(line):
                    current = self._keys.get(named[1]) or self._keys[named[1].casefold()]
                if current and piece.strip():
                    keys.add(current)
            yield block, frozenset(keys)


def _mentions(words: str, value: Any) -> bool:
    """Return whether a value stands in a passage, as it is or with other punctuation in its number."""
    if isinstance(value, list):
        return any(_mentions(words, item) for item in value)
    if isinstance(value, bool):
        return False
    text = str(int(value)) if isinstance(value, float) and value.is_integer() else fold(str(value))
    pattern = rf"(?<![\w.]){re.escape(text)}(?!\w)(?!\.\d)"
    return bool(text) and re.search(pattern, _THOUSANDS.sub("", fold(words))) is not None
