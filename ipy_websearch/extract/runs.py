"""A page as a sequence of text runs in a tree of blocks: the units in which content is told from the rest.

A run is text that is not broken by a block boundary: a paragraph, a heading, a table cell, a list item's own line. Runs
know their text nodes, so that what is not kept can be taken out of the tree and the rest stays as the author marked it up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lxml.etree import iterwalk

from ipy_websearch.extract.tree import INLINE, remove


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
        self._images: list[tuple[Any, int]] = []  # with the number of runs before each
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
            if tag not in INLINE:
                self._end_run(open_blocks[-1], nodes, linked)
                nodes, linked = [], 0
                if starts:
                    self.blocks.append(Block(element, open_blocks[-1], tag))
                    open_blocks.append(len(self.blocks) - 1)
                else:
                    open_blocks.pop()
            elif tag == "a" and element.get("href"):
                links += 1 if starts else -1
            elif tag == "img" and starts:
                self._images.append((element, len(self.runs) + bool(nodes)))
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
        """Take out of the tree all but the kept runs, what these are in, and the images between two of them."""
        needed = {self.body}
        for run in self.runs:
            for element, tail in run.nodes:
                if not run.keep:
                    _set_text(element, tail, None)
                    continue
                holder = element.getparent() if tail else element
                while holder is not None and holder not in needed:
                    needed.add(holder)
                    holder = holder.getparent()
        for image, before in self._images:
            if all(0 <= i < len(self.runs) and self.runs[i].keep for i in (before - 1, before)):
                needed.update((image, *image.iterancestors()))
        for element in reversed(list(self.body.iterdescendants())):
            if element not in needed and not (element.tag in _BREAKS and element.getparent() in needed):
                remove(element)


def _set_text(element: Any, tail: bool, text: str | None) -> None:
    if tail:
        element.tail = text
    else:
        element.text = text


_BREAKS = frozenset({"br", "hr", "td", "th"})
