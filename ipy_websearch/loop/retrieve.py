"""Models that call no tools, and servers that drop citations: search first, number the passages, check the model's `[n]`.

The shape is seed 000's: one search with the question, its results in the message. It is chosen at once by the setting
`retrieve_first`, after a server has refused the tools, or after a first answer of a model that is not Anthropic's came without
a call. A mark counts only where the checker finds support for its sentence in that passage. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.citations import CitationBook, check
from ipy_websearch.errors import ModelError
from ipy_websearch.events import Cited
from ipy_websearch.loop.core import Call
from ipy_websearch.model.platforms import cites
from ipy_websearch.model.stream import Reply
from ipy_websearch.text import fold, plain, shorten
from ipy_websearch.tools.base import Passage, Tool

MARK = "Put the number of the result in square brackets right behind every claim that rests on it, such as [2]."
READING = f"""\
- Where the question needs it, it comes with the results of a web search, each with a number. Answer from them. {MARK}
- What the results do not say, you may answer from what you know, without a number; say so."""
RETRIEVED = "the model called no tool: the question was searched for, and the model reads what was found"

READ_CHARACTERS = 12_000
"""Characters of results in a message, some 3,000 tokens: local servers often read 8,000 at once."""

QUERY_CHARACTERS, QUERY_WORDS = 400, 50
"""What Brave takes as a query (api-dashboard.search.brave.com, read 2026-11); other providers take more."""

_REFUSALS = re.compile(
    r"not support (?:tool|function)|tools? (?:are|is) not supported|enable-auto-tool-choice|requires? --jinja", re.IGNORECASE
)
"""How servers refuse tools: Ollama ("… does not support tools"), vLLM (its two command line options) and llama.cpp ("tools
param requires --jinja flag"); from their issues, read 2026-11."""

_FORMATS = re.compile(r"output_(?:config|format)|extra inputs", re.IGNORECASE)
_WRITTEN_CALL = re.compile(r"[{\[<][^{}]{0,80}\b(?:web_search|brave_search|firecrawl_search|tool_call|function)\b")
_ASKS = re.compile(
    r"\?|\b(?:who|whom|whose|when|where|which|what|how (?:many|much|old|long|far|tall|high|big|large)|latest|newest|current"
    r"|today|wer|wann|wo|welche[rsn]?|wie ?viele?|qui|quand|où|quel(?:le)?s?|combien|quién|cuándo|dónde|cuál|cuántos?)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=\w )[A-Z]\w+|\b(?:19|20)\d\d\b")
_SUM = re.compile(r"\W*(?:what is|calculate|compute|how much is)?[\s\d.,+*/^()x×÷=-]+\??\s*", re.IGNORECASE)
_MARKS = re.compile(r"\\?\[\d{1,3}(?:, ?\d{1,3})*\]")
_ENDS = re.compile(r"(?<=[.!?。！？])[\"”’')*_]*\s+(?=[^\sa-z])|\n+")
_WORD = re.compile(r"\w{3,}")
_RANKS = {"supported": 0, "partly": 1}
UNSUPPORTED, NEAREST = 2, 3


def refuses_tools(error: ModelError) -> bool:
    """Return whether a server says that the model, or the way it was started, takes no tools."""
    return error.status in (400, 422, 500, 501) and _REFUSALS.search(str(error)) is not None


def refuses_formats(error: ModelError) -> bool:
    """Return whether a server says that it knows no `output_config`."""
    return error.status in (400, 422) and _FORMATS.search(str(error)) is not None


def answers_unsearched(reply: Reply, model: str, question: str) -> bool:
    """Return whether a first reply is that of a model which should have searched, and seems not to know how.

    A model of Anthropic's that does not call a tool has decided so.
    """
    if not call_free(reply, model):
        return False
    return reply.stop_reason in ("end_turn", "stop_sequence", "tool_use") and (needs_search(question) or wrote_call(reply.text))


def needs_search(question: str) -> bool:
    """Return whether a question asks for a fact of the world: it has a question word, a name or a year, and is no sum."""
    if _SUM.fullmatch(question):
        return False
    return bool(_ASKS.search(question) or _NAME.search(question))


def wrote_call(text: str) -> bool:
    """Return whether a reply is a call written as text, which models do that were not made for calling."""
    return _WRITTEN_CALL.search(text.lstrip("` \n").removeprefix("json")[:200]) is not None


def call_free(reply: Reply, model: str) -> bool:
    """Return whether a whole reply has no call, of a model that may not know how."""
    return not cites(model) and reply.complete and not Call.of(reply)


def search_call(tools: Mapping[str, Tool], question: str) -> Call | None:
    """Return the call that searches with the question, None when no tool searches."""
    tool = next((tool for tool in tools.values() if tool.counts_as_search), None)
    query = shorten(" ".join(plain(question).split()[:QUERY_WORDS]), QUERY_CHARACTERS)
    return Call("retrieved_1", tool.name, {"query": query}) if tool is not None else None


def json_record(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object that a reply is, alone or in a code fence, None when it is anything else."""
    body = re.fullmatch(r"\s*(?:```(?:json)?\s*\n)?(\{.*\})\s*(?:```)?\s*", text, re.DOTALL)
    try:
        found = json.loads(body[1]) if body else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


@dataclass(slots=True)
class Numbered:
    """The passages that a model was given by number, from 1 on, in one conversation.

    `bind` turns the numbers behind a sentence into marks of `book`; what was cited for the first time is in `new`.
    """

    book: CitationBook
    passages: list[Passage] = field(default_factory=list)
    new: list[Cited] = field(default_factory=list)

    def text(self, passages: Sequence[Passage]) -> str:
        """Return passages as numbered text (seed 000's form), and remember their numbers; one alone is a page, given whole."""
        first = len(self.passages) + 1
        self.passages += passages
        if len(passages) == 1:
            (page,) = passages
            return f"{first}. {page.title}\n{page.url}\n\n" + "\n\n".join(page.paragraphs)
        return listed(passages, first)

    def bind(self, before: str, written: str) -> str:
        """Return what stands in the place of `[2]` or `[1, 3]` behind the text `before`: marks, and plain text for numbers
        whose passage does not bear the sentence out."""
        sentence = _ENDS.split(_MARKS.sub("", before).rstrip())[-1].strip(" \t*#>-•")
        bound = {number: self._cited(sentence, int(number)) for number in re.findall(r"\d+", written)}
        if not any(bound.values()):
            return f"\\{written}" if len(bound) == 1 else written
        return "".join(dict.fromkeys(f"[{n}]" if n else f"\\[{number}]" for number, n in bound.items()))

    def _cited(self, sentence: str, number: int) -> int | None:
        """Return the source's number in the answer, None when the passage does not bear the sentence out."""
        if not 1 <= number <= len(self.passages):
            return None
        passage = self.passages[number - 1]
        quote = supporting(sentence, passage)
        found = {"type": "search_result_location", "source": passage.url, "title": passage.title, "cited_text": quote}
        cited = self.book.cite(found) if quote else None
        if cited is None:
            return None
        if cited[1] is not None:
            self.new.append(Cited(cited[1]))
        return cited[0]


def listed(passages: Sequence[Passage], first: int = 1) -> str:
    """Return passages as a numbered list of about `READ_CHARACTERS`."""
    room = READ_CHARACTERS // max(1, len(passages))
    hits = (f"{n}. {p.title}\n   {p.url}\n{_given(p, room)}" for n, p in enumerate(passages, first))
    return "Search Results:\n\n" + "\n\n".join(hits)


def _given(passage: Passage, room: int) -> str:
    """Return the text of a passage; that of a page that was read has more room, and keeps its paragraphs."""
    if passage.read == "page":
        return shorten("\n\n".join(passage.paragraphs), max(room, READ_CHARACTERS // 4))
    return f"   {shorten(' '.join(passage.paragraphs), room)}" + (f"\n   {passage.note}" if passage.note else "")


def supporting(sentence: str, passage: Passage) -> str:
    """Return the words of a passage that bear a sentence out, "" when it does not: a paragraph, or all of it."""
    whole = " ".join(passage.paragraphs)
    if _rank(sentence, whole, passage.title) == UNSUPPORTED:
        return ""
    words = set(_WORD.findall(fold(sentence)))
    shared = [(len(words.intersection(_WORD.findall(fold(paragraph)))), paragraph) for paragraph in passage.paragraphs]
    nearest = [paragraph for _, paragraph in sorted(shared, key=lambda pair: -pair[0])[:NEAREST]]
    judged = [(_rank(sentence, paragraph, passage.title), n) for n, paragraph in enumerate(nearest)]
    rank, best = min(judged, default=(UNSUPPORTED, 0))
    return whole if rank == UNSUPPORTED else nearest[best]


def _rank(sentence: str, text: str, title: str) -> int:
    return _RANKS.get(check(sentence, [text, title]).verdict, UNSUPPORTED)
