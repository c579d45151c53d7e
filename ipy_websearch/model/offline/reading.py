"""What a Messages API request asks, what was done for it so far, and the words that matter. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.tools.base import UNREAD
from ipy_websearch.tools.passages import content_words, stem, stems

Block = Mapping[str, Any]

_ASKS_ON = re.compile(
    r"^\W*(?:and|or|but|what about|how about)\b|\b(?:it|its|they|their|them|he|his|she|her|there|that|this|one)\b", re.I
)
_INSTEAD = re.compile(r"^\W*(?:and\s+)?(?:what|how) about\s+(.+?)\W*$", re.I)


@dataclass(frozen=True, slots=True)
class Source:
    """One page or hit. `index` is its place among the request's `search_result` blocks, None where it cannot be cited."""

    title: str
    url: str
    paragraphs: tuple[str, ...]
    index: int | None = None


@dataclass(slots=True)
class Conversation:
    """A request's open question and all that belongs to it.

    `previous` is the question before, `subject` the title that the newest answer cited first. `calls` are the names and inputs
    of the tool calls made for the open question, `sources` what came back, `failures` the texts of failed calls.
    """

    question: str = ""
    previous: str = ""
    subject: str = ""
    cited: bool = False
    calls: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def query(self) -> str:
        """The words to search for; a follow-up that names no subject of its own carries the last one."""
        if self.previous and (instead := _INSTEAD.match(self.question)):
            known = set(stems(self.subject))
            asked = [word for word in content_words(self.previous) if stem(word) not in known]
            return " ".join([instead[1], *asked])
        names_none = not re.search(r"(?<=\w\s)[A-Z]", self.question)
        if self.previous and self.subject and (names_none or _ASKS_ON.search(self.question)):
            return f"{self.question} {self.subject}"
        return self.question


def read_conversation(messages: Sequence[Mapping[str, Any]]) -> Conversation:
    """Return what the messages of a valid request say: each message with words of the user's own opens a question."""
    talk, index = Conversation(), 0
    inputs: dict[str, Mapping[str, Any]] = {}
    for message in messages:
        blocks = blocks_of(message.get("content"))
        if message.get("role") == "assistant":
            _read_reply(talk, blocks, inputs)
            continue
        results = [block for block in blocks if block.get("type") == "tool_result"]
        if (words := text_of(blocks)) and not results:
            talk = Conversation(words, talk.question, talk.subject)
        given: list[tuple[Block, Mapping[str, Any]]] = [(block, {}) for block in blocks if block.get("type") == "search_result"]
        for result in results:
            parts = blocks_of(result.get("content"))
            if result.get("is_error"):
                talk.failures.append(text_of(parts))
            else:
                given += [(part, inputs.get(str(result.get("tool_use_id")), {})) for part in parts]
        for part, asked in given:
            if part.get("type") == "search_result":
                talk.sources.append(_cited_source(part, index))
                index += 1
            elif (text := text_of([part])) and ("query" not in asked or "://" in text):
                where = str(asked.get("url") or asked.get("path") or "")
                talk.sources.append(Source(where, where, tuple(re.split(r"\n\s*\n", text))))
    return talk


def _read_reply(talk: Conversation, blocks: Sequence[Block], inputs: dict[str, Mapping[str, Any]]) -> None:
    """Take the calls of a reply, and the title of the first source that it cites, into the conversation."""
    for block in blocks:
        if block.get("type") == "tool_use":
            inputs[str(block.get("id"))] = block.get("input") or {}
            talk.calls.append((str(block.get("name")), block.get("input") or {}))
        titles = [str(citation["title"]) for citation in block.get("citations") or () if citation.get("title")]
        if titles and not talk.cited:
            talk.cited, talk.subject = True, titles[0]


def blocks_of(content: Any) -> list[Block]:
    """Return a message's content as blocks; a string is one text block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content or () if isinstance(block, Mapping)]


def text_of(blocks: Sequence[Block]) -> str:
    """Return the text blocks' words."""
    return "\n".join(str(block.get("text") or "") for block in blocks if block.get("type") == "text").strip()


def _cited_source(block: Block, index: int) -> Source:
    texts = tuple(str(part.get("text") or "") for part in blocks_of(block.get("content")))
    texts = tuple(text for text in texts if not text.startswith(UNREAD))  # it is the last one: the others keep their places
    citable = bool((block.get("citations") or {}).get("enabled"))
    return Source(str(block.get("title") or ""), str(block.get("source") or ""), texts, index if citable else None)
