"""Replies of an intercepted client that are sent back: the model gets what it was sent, however its replies were made up."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import anthropic
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ipy_websearch.interception import intercept
from ipy_websearch.interception.opaque import pack
from ipy_websearch.interception.replay import expanded
from ipy_websearch.interception.sources import Sources
from ipy_websearch.model.platforms import PLATFORMS
from tests.fakes import sse
from tests.fakes.engine import hit
from tests.fakes.replies import (
    block,
    new_id,
    redacted_thinking,
    search_results,
    server_search,
    stop,
    text,
    thinking,
    tool_use,
)

MODEL = "claude-sonnet-5-5"
MARS, VENUS = "corpus://planets/mars", "corpus://planets/venus"
QUESTION = {"role": "user", "content": f"Read {MARS} and search please"}
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}}
UNCITED = {**FETCH, "citations": {"enabled": False}}
CODE = {"type": "code_execution_20250825", "name": "code_execution"}
WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
OURS = {"name": "ipy_web_search", "input_schema": {"type": "object"}}
FORCED = [{**SEARCH, "max_uses": 4}, CODE, WEATHER]
BESIDE = [OURS, SEARCH, WEATHER]

SEARCHES = {
    "search": "ruby author",
    "again": "Ruby  author",
    "other": "ruby year",
    "nothing": "nothing at all",
    "short": "x",
} | {
    "wordless": "wordless hits",
    "wordless again": "Wordless hits",
}
PAGES = {"page": MARS, "unknown page": "https://unknown.example/"}
THOUGHTS = {"thinking": thinking, "redacted": redacted_thinking}
KINDS = [
    *SEARCHES,
    *PAGES,
    "text",
    "other text",
    "blank",
    "cited",
    "cited last",
    *THOUGHTS,
    "weather",
    "foreign",
    "tools",
    "cut",
]


@pytest.fixture
def apis(messages_api: Any, brave_api: Any) -> tuple[Any, Any]:
    """The fakes of the model and of the engine; every search has two results of its own, or none."""

    def found(params: Mapping[str, Any]) -> Any:
        query = str(params["q"])
        if query.startswith("nothing"):
            return []
        urls = [f"https://{len(query)}.example/{n}" for n in (1, 2)]
        return [hit(url, f"About {query}", "" if query.startswith("wordless") else f"{query} at {url}.") for url in urls]

    brave_api.behave(found)
    return messages_api, brave_api


class Model:
    """Answers requests by a script: each reply is a list of kinds of blocks."""

    def __init__(self, replies: list[list[str]], native: bool = False, prefix: str = "toolu") -> None:
        self.replies, self.native, self.prefix = list(replies), native, prefix

    def __call__(self, body: dict[str, Any]) -> list[Any]:
        """Return the parts of the next reply; where nothing may be called, words."""
        if not self.replies or (body.get("tool_choice") or {}).get("type") == "none":
            return [*([thinking()] if body.get("thinking") else []), "That is all."]
        kinds = self.replies.pop(0)
        if "blank" in kinds and {"thinking", "redacted"} & set(kinds[kinds.index("blank") :]):
            kinds = [kind for kind in kinds if kind != "blank"]  # it may not be sent back, and so nothing is tied to it
        parts = [self._part(kind, body) for kind in kinds if kind != "cut"]
        if all(kind in ("blank", "thinking", "redacted", "cut") for kind in kinds):
            parts.append("So.")
        return [*parts, stop("max_tokens")] if "cut" in kinds else parts

    def _part(self, kind: str, body: dict[str, Any]) -> Any:
        if kind in SEARCHES or (self.native and kind in PAGES):
            return tool_use("ipy_web_search", {"query": SEARCHES.get(kind, kind)}, id=new_id(self.prefix))
        if kind in THOUGHTS:
            return THOUGHTS[kind]()
        match kind:
            case "blank":
                return block({"type": "text", "text": ""})
            case "cited":
                there = len(search_results(body))
                return text("As found.", citations=[(n, 0) for n in sorted({0, there // 2, there - 1})] if there else ())
            case "cited last":
                there = len(search_results(body))
                return text("As found last.", citations=[(there - 1, 0)] if there else ())
            case "weather":
                return tool_use("get_weather", {"city": "Rome"})
            case "tools":
                return tools_found("ipy_web_search", "get_weather")
            case "foreign":
                return server_search("ruby", [("https://a.example/", "About Ruby")]) if self.native else code_run()
            case _ if kind in PAGES:
                return tool_use("ipy_web_fetch", {"url": PAGES[kind]}, id=new_id(self.prefix))
        return text("So." if kind == "text" else "And so on.")


def code_run() -> Any:
    """Return a call of another tool of the API's own, with its result."""
    call = {"type": "server_tool_use", "id": new_id("srvtoolu"), "name": "code_execution", "input": {"code": "1"}}
    found = {"type": "code_execution_result", "stdout": "", "stderr": "", "return_code": 0, "content": []}
    result = {"type": "code_execution_tool_result", "tool_use_id": call["id"], "content": found}
    return block_pair(call, result)


def tools_found(*names: str) -> Any:
    """Return a tool search of the API's own with what it found."""
    call = {"type": "server_tool_use", "id": new_id("srvtoolu"), "name": "tool_search_tool_bm25", "input": {"query": "web"}}
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    found = {"type": "tool_search_tool_search_result", "tool_references": references}
    return block_pair(call, {"type": "tool_search_tool_result", "tool_use_id": call["id"], "content": found})


def block_pair(*blocks: dict[str, Any]) -> Any:
    """Return several blocks as one part of a reply."""
    part = block(blocks[0])
    part.make = lambda _: json.loads(json.dumps(blocks))
    return part


def ask(client: Any, messages: list[Any], tools: list[Any], *, stream: bool = False, thinks: bool = True) -> Any:
    """Ask, whole or streamed."""
    options = {"model": MODEL, "max_tokens": 1000, "messages": messages, "tools": tools}
    options |= {"thinking": {"type": "adaptive"}} if thinks else {}
    if not stream:
        return client.messages.create(**options)
    with client.messages.stream(**options) as running:
        return running.get_final_message()


def kept(message: Any, form: str) -> Any:
    """Return a reply's content in the form in which a caller may keep it.

    Empty text is left out where nothing was run here: the API itself would not take it back.
    """
    if not any(b.type == "server_tool_use" and "_ipy" in b.id for b in message.content):
        message.content = [b for b in message.content if b.type != "text" or b.text]
    match form:
        case "objects":
            return message.content
        case "said fields":
            return json.loads(json.dumps(message.to_dict()["content"]))
        case _:
            return json.loads(json.dumps(message.model_dump(mode="json")["content"]))


def answered(message: Any) -> dict[str, Any]:
    """Return the user's turn after a reply: results of the caller's own tools, or a question."""
    calls = [b.id for b in message.content if b.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": call, "content": "Sunny."} for call in calls]
    return {"role": "user", "content": results or "And then?"}


def bare(value: Any) -> Any:
    """Return a part of a request without what says nothing to the model: breakpoints, fields that are null."""
    if isinstance(value, dict):
        left = {name: bare(inner) for name, inner in value.items() if name != "cache_control"}
        return {name: inner for name, inner in left.items() if inner is not None and (name, inner) != ("citations", [])}
    return [bare(inner) for inner in value] if isinstance(value, list) else value


def apart(content: list[Any], cut: int) -> list[Any]:
    """Return a reply as the messages that a caller may make of it: one, or two that stand one behind the other."""
    cut = cut % len(content) if content else 0
    parts = [content[:cut], content[cut:]] if cut else [content]
    return [{"role": "assistant", "content": part} for part in parts]


def combined(messages: list[Any]) -> list[Any]:
    """Return messages as the API reads them: neighbours of the same role are one."""
    found: list[Any] = []
    for message in messages:
        before = found.pop() if found and found[-1]["role"] == message["role"] else {**message, "content": []}
        if before["content"]:
            message = {**message, "content": [*before["content"], *message["content"]]}
        found.append(message)
    return found


def unlike(api: Any, begin: int) -> Iterator[tuple[int, Any, Any]]:
    """Yield where a request does not go on from the one before it and the answer to that."""
    sent = api.requests[begin:]
    for n, (before, after) in enumerate(zip(sent, sent[1:], strict=False)):
        said = [b for b in sse.public(before.answer)["content"] if b["type"] != "text" or b["text"].strip()]
        due = bare([*combined(before.body["messages"]), {"role": "assistant", "content": said}])
        got = bare(combined(after.body["messages"]))
        if got[:-1] != due or got[-1]["role"] != "user":
            yield n, due[-2:], got[len(due) - 2 :]


_replies = st.lists(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6), min_size=1, max_size=5)
_forms = st.sampled_from(["objects", "said fields", "all fields"])


_fetches = st.sampled_from([FETCH, UNCITED])
_each_fetch = st.lists(_fetches, min_size=1, max_size=3)
_ids = st.sampled_from(["toolu", "call-7", "chatcmpl-tool"])


@given(_replies, _forms, st.booleans(), st.booleans(), _ids, _each_fetch, st.integers(0, 9))
@example([["thinking", "search", "text", "other"], ["thinking", "cited"]], "objects", False, False, "toolu", [FETCH], 3)
@example([["thinking", "search", "thinking", "other"], ["thinking", "cited"]], "all fields", True, True, "toolu", [FETCH], 0)
@example([["search", "text", "thinking"], ["text", "thinking", "text"]], "objects", True, False, "call-7", [FETCH], 0)
@example([["nothing", "text"], ["short", "thinking"], ["thinking", "text"]], "said fields", False, False, "toolu", [FETCH], 0)
@example(
    [["search", "thinking", "weather", "text"], ["thinking", "search"], ["weather"]],
    "objects",
    False,
    False,
    "toolu",
    [FETCH],
    0,
)
@example([["wordless"], ["wordless again"], ["thinking", "text"]], "objects", False, False, "toolu", [FETCH], 0)
@example([["page"], ["cited", "search", "thinking"], ["thinking", "text"]], "objects", True, False, "toolu", [UNCITED], 0)
@example(
    [["page"], ["cited", "cited", "search", "thinking"], ["thinking", "cited"]], "objects", False, False, "toolu", [UNCITED], 0
)
@example([["tools", "search", "tools"], ["tools", "thinking"]], "all fields", True, False, "toolu", [FETCH], 0)
@example([["search", "blank", "cut"]], "objects", False, False, "toolu", [FETCH], 0)
@example([["page"], ["cited", "thinking", "text"], ["cited", "thinking"]], "said fields", True, False, "toolu", [UNCITED], 0)
@example([["page", "search"], ["cited", "thinking", "weather"], ["text"]], "objects", False, False, "toolu", [UNCITED], 0)
@example([["page"], ["text"], ["page"], ["cited", "thinking", "text"]], "objects", False, False, "toolu", [UNCITED, FETCH], 0)
@example(
    [["page"], ["text"], ["cited", "thinking", "text"], ["text"]], "all fields", True, False, "call-7", [FETCH, UNCITED], 0
)
@settings(max_examples=40, deadline=None)
def test_every_request_goes_on_from_the_one_before(
    apis: Any, replies: list[list[str]], form: str, stream: bool, native: bool, ids: str, fetches: Any, cut: int
) -> None:
    """What was sent, then what was answered, block by block, then the user's turn; the caller may cut a reply in two."""
    api, _ = apis
    begin = len(api.requests)
    model = Model(replies, native, ids)
    api.behave(model)
    client = intercept(anthropic.Anthropic(max_retries=0), provider=None if native else "brave")
    history: list[Any] = [QUESTION]
    left = True
    while left:
        left = bool(model.replies)
        tools = BESIDE if native else [*FORCED, fetches[len(history) // 2 % len(fetches)]]
        message = ask(client, history, tools, stream=stream)
        history += [*apart(kept(message, form), cut), answered(message)]
    assert list(unlike(api, begin)) == []


# --- less than there was --------------------------------------------------------------------------------------------


def note(n: int) -> dict[str, Any]:
    """Return a search result of the caller's own."""
    return {
        "type": "search_result",
        "source": f"https://notes.example/{n}",
        "title": f"Note {n}",
        "content": [{"type": "text", "text": f"What note {n} says."}],
        "citations": {"enabled": True},
    }


def citations_of(body: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield each citation of search results in a request: what it says it is of, and what it points to."""
    there: list[Any] = []
    for message in body["messages"]:
        there += search_results({"messages": [message]})
        for part in message["content"] if message["role"] == "assistant" else ():
            for cited in part.get("citations") or ():
                place, first, last = (cited[name] for name in ("search_result_index", "start_block_index", "end_block_index"))
                found = there[place] if place < len(there) else {"source": "nothing", "content": []}
                text_there = "".join(paragraph["text"] for paragraph in found["content"][first:last])
                yield (cited["source"], cited["cited_text"]), (found["source"], text_there)


_cites = st.lists(
    st.lists(st.sampled_from([*SEARCHES, *PAGES, "text", "cited"]), min_size=1, max_size=5), min_size=2, max_size=5
)


@given(_cites, st.lists(st.booleans(), min_size=1, max_size=4), _fetches, st.data())
@settings(max_examples=40, deadline=None)
def test_whatever_is_left_out_a_citation_is_of_its_source_or_gone(
    apis: Any, replies: list[list[str]], notes: list[bool], fetch: Any, data: st.DataObject
) -> None:
    """The oldest turns, calls, results, texts, the caller's own results: what is left is accepted, and cites what it says."""
    api, _ = apis
    model = Model(replies)
    api.behave(model)
    client = intercept(anthropic.Anthropic(max_retries=0), provider="brave")
    history: list[Any] = []
    while model.replies and len(history) < 8:
        given_notes = [note(n) for n, given_here in enumerate(notes, len(history)) if given_here]
        history.append({"role": "user", "content": [*given_notes, {"type": "text", "text": f"Read {MARS} and search"}]})
        message = ask(client, history, [*FORCED, fetch], thinks=False)
        history.append({"role": "assistant", "content": message.to_dict()["content"]})
    left = history[2 * data.draw(st.integers(0, len(history) // 2 - 1), "oldest turns left out") :]
    for n, turn in enumerate(left):
        most = len(turn["content"]) - (turn["role"] == "user")  # the words of the user stay
        gone = data.draw(st.sets(st.integers(0, max(most - 1, 0))) if most else st.just(set()), f"left out of turn {n}")
        left[n] = {**turn, "content": [part for at, part in enumerate(turn["content"]) if at not in gone]}
    model.replies = [["text"]]
    ask(client, [turn for turn in [*left, QUESTION] if turn["content"]], [*FORCED, fetch], thinks=False)
    assert all(said == found for said, found in citations_of(api.bodies[-1]))


def test_thinking_behind_a_citation_that_moved_is_left_out(apis: Any) -> None:
    """Without its oldest turn the history is another one than the thinking was tied to; the API would refuse it."""
    api, _ = apis
    api.behave(Model([["search"], ["cited"], ["other"], ["cited last", "thinking", "text"], ["text"]]))
    client = intercept(anthropic.Anthropic(max_retries=0), provider="brave")
    history: list[Any] = []
    for _ in range(2):
        history.append(QUESTION)
        history.append({"role": "assistant", "content": ask(client, history, FORCED).content})
    ask(client, [*history[2:], QUESTION], FORCED)
    said = api.bodies[-1]["messages"][3]["content"]
    assert [part["type"] for part in said] == ["text", "text"]
    assert [c["search_result_index"] for c in said[0]["citations"]] == [1]


def test_two_replies_that_were_joined_are_told_apart(apis: Any) -> None:
    """One message has two rounds of number 1; the second's thinking was made without the first, and is not taken back there."""
    api, _ = apis
    api.behave(Model([["thinking", "search"], ["text"], ["thinking", "other"], ["text"]]))
    client = intercept(anthropic.Anthropic(max_retries=0), provider="brave")
    first, second = (ask(client, [QUESTION], FORCED).content for _ in range(2))
    turns = taken_apart([*first[:3], *second])
    assert [(turn["role"], [part["type"] for part in turn["content"]]) for turn in turns] == [
        ("assistant", ["thinking", "tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["tool_use"]),
        ("user", ["tool_result"]),
        ("assistant", ["text"]),
    ]


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_reply_in_two_messages_is_one(apis: Any, cut: int) -> None:
    """The API combines neighbours; a call is not lost where its result stands in the next message, nor without blocks."""
    api, brave = apis
    api.behave(Model([["text", "search", "text"], ["other text"], ["text"]]))
    client = intercept(anthropic.Anthropic(max_retries=0), provider="brave")
    content = ask(client, [QUESTION], FORCED, thinks=False).to_dict()["content"]
    halves = [{"role": "assistant", "content": content[:cut]}, {"role": "assistant", "content": content[cut:]}]
    words = [*halves, {"role": "assistant", "content": "Indeed."}, {"role": "user", "content": "And then?"}]
    ask(client, [QUESTION, *words], FORCED, thinks=False)
    sent = api.bodies[-1]["messages"]
    assert [[part["type"] for part in turn["content"]] for turn in sent[1:-1]] == [
        ["text", "tool_use", "text"],
        ["tool_result"],
        ["text", "text"],
    ]
    assert len(brave.queries) == 1


def taken_apart(content: list[Any], sources: Sources | None = None) -> list[Any]:
    """Return the turns of a reply between two of the user's."""
    parts = [part if isinstance(part, dict) else part.to_dict() for part in content]
    history = [QUESTION, {"role": "assistant", "content": parts}, {"role": "user", "content": "And then?"}]
    turns = expanded(history, PLATFORMS["anthropic"], keep_foreign=False, sources=sources or Sources())
    return json.loads(json.dumps(turns[1:-1] if turns[-1]["content"] == "And then?" else turns[1:]))  # type: ignore[no-any-return]


def packed_before() -> list[dict[str, Any]]:
    """Return a call and its result as they were packed before results said what follows them."""
    packed = pack({"u": "https://a.example/", "t": "A", "p": ["One.", "Two."]})
    found = {"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": packed}
    return [
        {"type": "server_tool_use", "id": "srvtoolu_ipy1_01", "name": "web_search", "input": {"query": "one"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_ipy1_01", "content": [found]},
    ]


def test_what_was_packed_before_can_still_be_read() -> None:
    """Text begins the next turn, a call of the caller's own stands beside ours, and citations are of their source."""
    weather = {"type": "tool_use", "id": "toolu_02", "name": "get_weather", "input": {}}
    raw = {
        "type": "search_result_location",
        "source": "https://a.example/",
        "cited_text": "Two.",
        "search_result_index": 7,
        "start_block_index": 1,
        "end_block_index": 2,
    }
    cited = {"type": "text", "text": "So.", "citations": [{"type": "x", "encrypted_index": pack({"c": raw})}]}
    called, results, said = taken_apart([*packed_before(), cited])
    assert [part["id"] for part in called["content"]] == ["toolu_01"] == [part["tool_use_id"] for part in results["content"]]
    assert said["content"][0]["citations"] == [{**raw, "search_result_index": 0}]
    called, answer = taken_apart([*packed_before(), weather])
    assert [part["id"] for part in called["content"]] == ["toolu_01", "toolu_02"]
    assert [part["type"] for part in answer["content"]] == ["tool_result", "text"]
    elsewhere = {**raw, "cited_text": "Three."}
    lost = {"type": "text", "text": "So.", "citations": [{"type": "x", "encrypted_index": pack({"c": elsewhere})}]}
    assert "citations" not in taken_apart([*packed_before(), lost])[-1]["content"][0]


def test_results_without_a_call_and_second_ones_are_not_sent() -> None:
    """The API would refuse both: a result belongs to one call before it."""
    call, result = packed_before()
    assert [turn["role"] for turn in taken_apart([result, call, {"type": "text", "text": "So."}])] == ["assistant"]
    turns = taken_apart([call, result, result, call, {"type": "text", "text": "So."}])
    assert [[part["type"] for part in turn["content"]] for turn in turns] == [["tool_use"], ["tool_result"], ["text"]]
