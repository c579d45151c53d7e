"""Evidence: the sentences of all sources, each with where it stands, and what the titles of pages say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from ipy_websearch.model.offline.sentences import sentences
from ipy_websearch.model.offline.sources import Source
from ipy_websearch.model.offline.words import content_stems, located

MOST_SENTENCES = 1500
_PARENTHESIS = re.compile(r"\s*\(([^)]*)\)\s*$")
_SITE = re.compile(r"\s+[|–—·-]\s+(?:[^|–—·-]*)$")
_DATE_LINE = re.compile(r"Published: \d{4}-\d{2}-\d{2}.{0,20}")
"""A page's own date, as the search tools add it: it dates the page, not what the page tells."""


@dataclass(frozen=True, slots=True, eq=False)
class Sentence:
    """A sentence with its source: `block` is the paragraph it stands in, `order` its place among all sentences."""

    text: str
    source: Source
    block: int
    order: int
    stems: frozenset[str]


def collect(sources: Sequence[Source]) -> list[Sentence]:
    """Return the sentences of all sources in order; a sentence that several sources share is kept once."""
    seen: set[str] = set()
    collected: list[Sentence] = []
    for source in sources:
        for block, text in enumerate(source.blocks):
            for sentence in () if _DATE_LINE.fullmatch(text.strip()) else sentences(text):
                key = sentence.lower()
                if key not in seen and len(collected) < MOST_SENTENCES:
                    seen.add(key)
                    known = frozenset(word.stem for word in located(sentence))
                    collected.append(Sentence(sentence, source, block, len(collected), known))
    return collected


@lru_cache(maxsize=512)
def title_core(title: str) -> tuple[str, frozenset[str], frozenset[str]]:
    """Return a title without its site's name, its stems, and the stems of a final parenthesis ("Mercury (planet)")."""
    title = _SITE.sub("", title) if len(title.split()) > 2 else title
    inside = _PARENTHESIS.search(title)
    core = _PARENTHESIS.sub("", title).strip()
    return core, frozenset(content_stems(core)), frozenset(content_stems(inside[1])) if inside else frozenset()
