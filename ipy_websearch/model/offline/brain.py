"""The offline model's decisions: search, search once more, fill a record, or answer. Pure: a request in, a reply out.

It has no clock, no network and no randomness: the same request always gets the same reply. It never says anything of its
own beyond what it searched for; what it answers are sentences of the results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.model.offline.answer import NO_QUESTION, NO_TOOLS, answer_blocks, nothing_found, opening_blocks
from ipy_websearch.model.offline.conversation import Conversation, read_conversation
from ipy_websearch.model.offline.parts import split_questions
from ipy_websearch.model.offline.queries import broader_query, queries_for
from ipy_websearch.model.offline.question import Question
from ipy_websearch.model.offline.record import fill, found_anything
from ipy_websearch.model.offline.sources import Source
from ipy_websearch.model.offline.toolbox import (
    Toolbox,
    files_to_open,
    input_for,
    open_toolbox,
    pages_to_open,
    schema_of,
    search_input,
)
from ipy_websearch.tools.addresses import without_addresses

SEARCH_ROUNDS = 2
Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: content blocks as the Messages API has them, and why it stopped."""

    blocks: list[dict[str, Any]] = field(default_factory=list)
    stop_reason: str = "end_turn"


def reply_to(request: Mapping[str, Any]) -> Reply:
    """Return the reply to a valid Messages API request."""
    conversation = read_conversation(request.get("messages") or [])
    questions = split_questions(
        without_addresses(conversation.question), previous=conversation.previous, about=conversation.about
    )
    mind = _Mind(request, conversation, questions)
    calls = mind.calls()
    if calls:
        return Reply(_as_blocks(calls, request), "tool_use")
    return Reply(mind.answer())


class _Mind:
    """One request thought through: what was asked, what can be done, what is known."""

    def __init__(self, request: Mapping[str, Any], conversation: Conversation, questions: Sequence[Question]) -> None:
        self._request = request
        self._said = conversation
        self._questions = questions
        self._box: Toolbox = open_toolbox(request.get("tools") or [])
        self._choice: Mapping[str, Any] = request.get("tool_choice") or {"type": "auto"}
        self._searches = [str(arguments["query"]) for name, arguments in conversation.calls if "query" in arguments]
        self._sources: Sequence[Source] = conversation.sources or (() if self._searches else conversation.older)

    def calls(self) -> list[Call]:
        """Return the tool calls to make now; none means that it is time to answer."""
        match self._choice.get("type"):
            case "none":
                return []
            case "tool":
                return self._limited(self._forced(str(self._choice.get("name"))))
            case "any":
                return self._limited(self._free() or self._demanded())
            case _:
                return self._limited(self._free())

    def _free(self) -> list[Call]:
        """Return what it would do of itself."""
        return self._open_named() or self._search() or self._record()

    def _open_named(self) -> list[Call]:
        said, box = self._said, self._box
        if box.page and (urls := pages_to_open(said)):
            return [(box.page, {"url": url}) for url in urls]
        if box.file and (paths := files_to_open(said.question, said.calls)):
            return [(box.file, {"path": path}) for path in paths]
        return []

    def _search(self) -> list[Call]:
        box, said = self._box, self._said
        if box.search is None or not self._questions or self._recorded():
            return []
        if said.calls and not self._searches:
            return [] if said.sources and self._useful() else self._search_for(queries_for(self._questions))
        if not said.calls:
            return self._search_for(queries_for(self._questions))
        failed = len(said.failures) >= len(said.calls)
        if said.rounds >= SEARCH_ROUNDS or len(set(self._searches)) > 3 or failed or self._useful():
            return []
        query = broader_query(self._questions, self._searches)
        return self._search_for([query] if query else [])

    def _search_for(self, queries: Sequence[str]) -> list[Call]:
        name = self._box.search or ""
        return [(name, search_input(self._box.tools[name], query)) for query in queries]

    def _useful(self) -> bool:
        """Return whether the results answer anything that was asked."""
        if self._box.record:
            schema = schema_of(self._box.tools[self._box.record])
            return found_anything(fill(schema, self._said.question, self._sources))
        return bool(answer_blocks(self._questions, self._sources))

    def _recorded(self) -> bool:
        return any(name == self._box.record for name, _ in self._said.calls)

    def _record(self) -> list[Call]:
        name = self._box.record
        if name is None or self._recorded() or not (self._said.calls or self._sources):
            return []
        return [(name, fill(schema_of(self._box.tools[name]), self._said.question, self._sources))]

    def _forced(self, name: str) -> list[Call]:
        tool = self._box.tools.get(name)
        if tool is None:
            return []
        if name == self._box.search:
            fresh = [query for query in queries_for(self._questions) if query not in self._searches]
            query = broader_query(self._questions, self._searches)
            return self._search_for((fresh or ([query] if query else [self._query()]))[:3])
        return [(name, input_for(tool, self._said, self._query()))]

    def _demanded(self) -> list[Call]:
        """Return a call for a request that insists on one: the record if there is one, else the first tool."""
        names = (
            [self._box.record] if self._box.record else [*([self._box.search] if self._box.search else []), *self._box.tools]
        )
        return self._forced(str(names[0])) if names else []

    def _query(self) -> str:
        queries = queries_for(self._questions)
        return queries[0] if queries else " ".join(self._said.question.split())[:100] or "web search"

    def _limited(self, calls: list[Call]) -> list[Call]:
        return calls[:1] if self._choice.get("disable_parallel_tool_use") else calls

    def answer(self) -> list[dict[str, Any]]:
        """Return the text blocks of the answer."""
        wanted = ((self._request.get("output_config") or {}).get("format") or {}).get("schema")
        if isinstance(wanted, Mapping):
            return [_text(json.dumps(fill(wanted, self._said.question, self._sources), ensure_ascii=False))]
        if self._recorded():
            return [_text("The record has been filled from the search results.")]
        blocks = answer_blocks(self._questions, self._sources)
        if blocks:
            return blocks
        if not self._questions:
            return opening_blocks(self._sources) or [_text(NO_QUESTION)]
        if not self._said.calls and not self._sources and self._box.search is None:
            return [_text(NO_TOOLS)]
        return [_text(nothing_found(self._searches, self._said.failures))]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def digest(request: Mapping[str, Any]) -> str:
    """Return a name for a request, the same for the same request: ids are made of it."""
    canonical = json.dumps(request, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=10).hexdigest()


def _as_blocks(calls: Sequence[Call], request: Mapping[str, Any]) -> list[dict[str, Any]]:
    name = digest(request)
    return [
        {"type": "tool_use", "id": f"toolu_offline_{name}{n}", "name": tool, "input": arguments, "caller": {"type": "direct"}}
        for n, (tool, arguments) in enumerate(calls)
    ]
