"""A page as a sequence of text runs in a tree of blocks: the units in which content is told from the rest.

A run is text that is not broken by a block boundary: a paragraph, a heading, a table cell, a list item's own line. Runs
know their text nodes, so that what is not kept can be taken out of the tree and the rest stays as the author marked it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lxml.etree import iterwalk

from ipy_websearch.extract.tree import remove

_INLINE = frozenset(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q ruby rb rt rp s samp small span"
    " strike strong sub sup time tt u var wbr picture source output meter nobr math mi mo mn mrow".split()
)


@dataclass(slots=True, eq=False)
class Block:
    """A block element; `size` and `kept` count the characters in it and those of kept runs; -1 is no parent."""

    element: Any
    parent: int
    tag: str
    size: int = 0
    kept: int = 0


@dataclass(slots=True, eq=False)
class Run:
    """One run: the number of its block, its text nodes as (element, is tail), and the share of it that is link text."""

    block: int
    nodes: list[tuple[Any, bool]] = field(default_factory=list)
    text: str = ""
    linked: float = 0.0
    keep: bool = False


class Page:
    """The runs of a body in document order and the blocks they are in; a block's parent always comes before it."""

    def __init__(self, body: Any) -> None:
        self.body = body
        self.blocks: list[Block] = []
        self.runs: list[Run] = []
        self._walk()
        for run in self.runs:
            self.blocks[run.block].size += len(run.text)
        for block in reversed(self.blocks):
            if block.parent >= 0:
                self.blocks[block.parent].size += block.size

    def _walk(self) -> None:
        open_blocks = [-1]
        links = linked = 0
        nodes: list[tuple[Any, bool]] = []
        for event, element in iterwalk(self.body, events=("start", "end")):
            tag, starts = element.tag, event == "start"
            if tag not in _INLINE:
                self._end_run(open_blocks[-1], nodes, linked)
                nodes, linked = [], 0
                if starts:
                    self.blocks.append(Block(element, open_blocks[-1], tag))
                    open_blocks.append(len(self.blocks) - 1)
                else:
                    open_blocks.pop()
            elif tag == "a":
                links += 1 if starts else -1
            text = element.text if starts else element.tail
            if text and open_blocks[-1] >= 0:
                nodes.append((element, not starts))
                if links:
                    linked += len(text.strip())

    def _end_run(self, block: int, nodes: list[tuple[Any, bool]], linked: int) -> None:
        if not nodes:
            return
        text = " ".join("".join((e.tail if tail else e.text) for e, tail in nodes).split())
        if text:
            self.runs.append(Run(block, nodes, text, min(1.0, linked / len(text))))

    def count_kept(self) -> None:
        """Fill in `kept` of all blocks from the runs."""
        for block in self.blocks:
            block.kept = 0
        for run in self.runs:
            if run.keep:
                self.blocks[run.block].kept += len(run.text)
        for block in reversed(self.blocks):
            if block.parent >= 0:
                self.blocks[block.parent].kept += block.kept

    def within(self, number: int) -> list[bool]:
        """Return for each block whether it is block `number` or in it."""
        inside = [False] * len(self.blocks)
        for i, block in enumerate(self.blocks):
            inside[i] = i == number or (block.parent >= 0 and inside[block.parent])
        return inside

    def drop_unkept(self) -> None:
        """Take the text of the runs that are not kept out of the tree, then the elements that are left empty."""
        for run in self.runs:
            if not run.keep:
                for element, tail in run.nodes:
                    if tail:
                        element.tail = None
                    else:
                        element.text = None
        for element in reversed(list(self.body.iterdescendants())):
            if len(element) == 0 and element.tag not in _MAY_BE_EMPTY and not (element.text or "").strip():
                remove(element)


_MAY_BE_EMPTY = frozenset({"br", "hr", "td", "th"})
