"""The offline model: the Messages API inside the process, asked through the real SDK, and what it reads and answers."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ipy_websearch.model.offline.answer import answer_blocks
from ipy_websearch.model.offline.brain import reply_to
from ipy_websearch.model.offline.figures import figures
from ipy_websearch.model.offline.parts import split_questions
from ipy_websearch.model.offline.queries import queries_for
from ipy_websearch.model.offline.question import read_question
from ipy_websearch.model.offline.record import fill
from ipy_websearch.model.offline.sentences import sentences
from ipy_websearch.model.offline.sources import Source, from_text
from ipy_websearch.model.offline.transport import offline_transport
from ipy_websearch.model.offline.values import find
from tests.rule_cases import CASES

JSON = dict[str, Any]
ROOT = Path(__file__).parent
CORPUS = ROOT.parent / "ipy_websearch" / "corpus"
TRUTH: dict[str, dict[str, JSON]] = json.loads((ROOT / "data" / "corpus_truth.json").read_text(encoding="utf-8"))

SEARCH: JSON = {
    "name": "web_search",
    "description": "Search the web.",
    "input_schema": {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]},
}
FETCH: JSON = {
    "name": "web_fetch",
    "description": "Read a page.",
    "input_schema": {"type": "object", "properties": {"url": {"type": "string"}}, "required": ["url"]},
}


def nullable(kind: str, **more: Any) -> JSON:
    """A schema that takes a value of that kind or null."""
    return {"anyOf": [{"type": kind}, {"type": "null"}], **more}


def closed(**properties: Any) -> JSON:
    """A schema of an object as strict tools want it."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def tool(name: str, schema: JSON) -> JSON:
    """A strict tool."""
    return {"name": name, "description": "Takes the answer.", "strict": True, "input_schema": schema}


TABLE = tool(
    "answer_table", closed(rows={"type": "array", "items": closed(planet=nullable("string"), moons=nullable("integer"))})
)


def articles() -> dict[str, Source]:
    """The embedded corpus: title to page."""
    pages: dict[str, Source] = {}
    for path in sorted(CORPUS.glob("*.md")):
        for part in re.split(r"(?m)^# ", path.read_text(encoding="utf-8"))[1:]:
            head, _, body = part.partition("\n\n")
            address = re.search(r"id: (\S+)", head)
            assert address is not None
            title = head.splitlines()[0].strip()
            pages[title] = Source(title, address[1], tuple(body.strip().split("\n\n")))
    return pages


ARTICLES = articles()


def pages(*titles: str, distractors: int = 4) -> list[Source]:
    """The articles of these titles among others of their kind, numbered as in a request; the right ones come last but one."""
    kind = ARTICLES[titles[0]].url.rsplit("/", 1)[0]
    others = [title for title, page in ARTICLES.items() if page.url.startswith(f"{kind}/") and title not in titles]
    start = len(titles[0]) * 7 % max(len(others) - distractors, 1)
    chosen = others[start : start + distractors]
    names = [*chosen[:-1], *titles, *chosen[-1:]]
    return [Source(ARTICLES[n].title, ARTICLES[n].url, ARTICLES[n].blocks, at) for at, n in enumerate(names)]


def block(page: Source, *, enabled: bool = True) -> JSON:
    """A page as the `search_result` block that tools send."""
    content = [{"type": "text", "text": text} for text in page.blocks]
    return {
        "type": "search_result",
        "source": page.url,
        "title": page.title,
        "content": content,
        "citations": {"enabled": enabled},
    }


def talk(question: str, *rounds: tuple[str, JSON, Any], **more: Any) -> list[JSON]:
    """A conversation: the question, and for each round a call (name, input) with the content of its result."""
    messages: list[JSON] = [{"role": "user", "content": question}]
    for number, (name, arguments, content) in enumerate(rounds):
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": content, **more}
        messages.append(
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": arguments}]}
        )
        messages.append({"role": "user", "content": [result]})
    return messages


def request(messages: Sequence[JSON], tools: Sequence[JSON] = (SEARCH,), **more: Any) -> JSON:
    """The body of a request."""
    return {
        "model": "offline",
        "max_tokens": 1000,
        "messages": list(messages),
        **({"tools": list(tools)} if tools else {}),
        **more,
    }


def words_of(body: JSON) -> str:
    """The text of the reply to a request."""
    return "".join(str(b["text"]) for b in reply_to(body).blocks if b["type"] == "text")


def calls_of(body: JSON) -> list[tuple[str, JSON]]:
    """The tool calls of the reply to a request."""
    return [(b["name"], b["input"]) for b in reply_to(body).blocks if b["type"] == "tool_use"]


def through_sdk(work: Callable[[anthropic.AsyncAnthropic], Coroutine[Any, Any, Any]], pace_s: float = 0.0) -> Any:
    """Run a coroutine with a client of the real SDK over the offline transport."""

    async def main() -> Any:
        http_client = anthropic.DefaultAsyncHttpxClient(transport=offline_transport(pace_s=pace_s))
        client = anthropic.AsyncAnthropic(
            api_key="offline", base_url="http://offline.invalid", http_client=http_client, max_retries=0
        )
        async with client:
            return await work(client)

    return asyncio.run(main())


# --- the API, through the SDK -----------------------------------------------------------------------------------------------


def test_a_question_is_searched_and_answered_with_a_citation() -> None:
    """Two requests, as a loop makes them: a search call, then a sentence of the results with its place in them."""
    found = pages("Mars")

    async def work(client: anthropic.AsyncAnthropic) -> tuple[Any, Any]:
        messages: list[Any] = [{"role": "user", "content": "How many moons does Mars have?"}]
        first = await client.messages.create(**request(messages))
        call = first.content[0]
        messages.append({"role": "assistant", "content": [b.to_dict() for b in first.content]})
        results = [block(page) for page in found]
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": results}]})
        return first, await client.messages.create(**request(messages))

    first, second = through_sdk(work)
    assert (first.stop_reason, first.content[0].input) == ("tool_use", {"query": "moons Mars"})
    assert (second.stop_reason, second.model) == ("end_turn", "offline")
    (said,) = second.content
    assert said.text == "Mars has two moons, Phobos and Deimos."
    at = [page.title for page in found].index("Mars")
    assert [c.to_dict() for c in said.citations] == [
        {
            "type": "search_result_location",
            "cited_text": found[at].blocks[0],
            "source": "corpus://planets/mars",
            "title": "Mars",
            "search_result_index": at,
            "start_block_index": 0,
            "end_block_index": 1,
        }
    ]
    assert second.usage.input_tokens > 500 > second.usage.output_tokens > 5
    assert (second.usage.cache_read_input_tokens, second.usage.cache_creation_input_tokens) == (0, 0)


def test_a_stream_gives_the_same_message_piece_by_piece() -> None:
    """Streamed and whole replies are equal, text comes in words, citations as deltas of a block that begins empty."""
    body = request(talk("How many moons does Mars have?", ("web_search", {"query": "x"}, [block(p) for p in pages("Mars")])))

    async def work(client: anthropic.AsyncAnthropic) -> tuple[Any, Any, list[Any]]:
        whole = await client.messages.create(**body)
        async with client.messages.stream(**body) as stream:
            events = [event async for event in stream]
            return whole, await stream.get_final_message(), events

    whole, final, events = through_sdk(work)
    assert [b.to_dict() for b in final.content] == [b.to_dict() for b in whole.content]
    assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", whole.usage.output_tokens)
    assert len([e for e in events if e.type == "text"]) >= 5
    assert [e.type for e in events if e.type == "citation"] == ["citation"]


def test_the_events_on_the_wire_are_those_of_the_api() -> None:
    """Each event has its `event:` line, and they come in the API's order, tool input as partial JSON."""

    async def main() -> list[str]:
        async with httpx2.AsyncClient(transport=offline_transport(), base_url="http://offline.invalid") as client:
            body = request(talk("How many moons does Mars have?"), stream=True)
            response = await client.post("/v1/messages", json=body)
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.headers["request-id"].startswith("req_")
            return response.text.strip().split("\n\n")

    events = asyncio.run(main())
    names = [event.split("\n")[0].removeprefix("event: ") for event in events]
    parsed = [json.loads(event.split("\n")[1].removeprefix("data: ")) for event in events]
    assert names == [event["type"] for event in parsed]
    assert names[:3] == ["message_start", "content_block_start", "ping"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    pieces = [event["delta"]["partial_json"] for event in parsed if event["type"] == "content_block_delta"]
    assert pieces[0] == "" and json.loads("".join(pieces)) == {"query": "moons Mars"}
    assert parsed[-2]["delta"]["stop_reason"] == "tool_use"


def test_a_paced_stream_can_be_watched() -> None:
    """With `pace_s` the pieces come one after the other; the first is there long before the last."""
    body = request(talk("How many moons does Mars have?", ("web_search", {"query": "x"}, [block(p) for p in pages("Mars")])))

    async def work(client: anthropic.AsyncAnthropic) -> list[float]:
        async with client.messages.stream(**body) as stream:
            return [time.monotonic() async for _ in stream.text_stream]

    moments = through_sdk(work, pace_s=0.01)
    assert moments[-1] - moments[0] >= 0.01 * (len(moments) - 2)


def test_tokens_are_counted_and_the_model_is_listed() -> None:
    """The other two endpoints answer in the shapes that the SDK expects."""

    async def work(client: anthropic.AsyncAnthropic) -> tuple[int, list[str], str]:
        counted = await client.messages.count_tokens(model="offline", messages=[{"role": "user", "content": "x" * 400}])
        listed = [model.id async for model in await client.models.list()]
        return counted.input_tokens, listed, (await client.models.retrieve("offline")).id

    counted, listed, one = through_sdk(work)
    assert (100 <= counted <= 150, listed, one) == (True, ["offline"], "offline")


def test_what_is_not_served_is_not_found() -> None:
    """Another path gets a 404 in the API's shape."""

    async def work(client: anthropic.AsyncAnthropic) -> None:
        await client.messages.batches.list()

    with pytest.raises(anthropic.NotFoundError) as caught:
        through_sdk(work)
    assert caught.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]


LAX = [
    "thinking_comes_back_unchanged",
    "nothing_before_thinking_has_changed",
    "encrypted_texts_are_the_apis",
    "tools_are_known",
    "domains_are_allowed_or_blocked",
    "thinking_fits_the_request",
    "server_calls_have_their_results",
    "cache_breakpoints_are_few_and_sound",
    "blocks_have_their_shape",
    "citations_are_on_for_all_or_none",
    "container_is_an_id_or_names_one",
    "waiting_code_has_its_container",
    "a_credit_is_for_the_refused_request",
]
"""Rules that only server tools, thinking and the newest betas can break; the offline model checks none or part of them."""
SHARED = [c for c in CASES if c[0].__name__ not in LAX and "not supported for this model" not in c[3]]
"""The cases of all others; what a model's name forbids is no matter of the offline model's, which can be forced to call."""


@pytest.mark.parametrize("case", SHARED, ids=lambda case: case[0].__name__)
def test_a_request_that_the_api_refuses_is_refused_here(case: Any) -> None:
    """Each rule's broken request gets a 400 with the API's body."""

    async def work(client: anthropic.AsyncAnthropic) -> None:
        await client.post("/v1/messages", cast_to=object, body=case[1])

    with pytest.raises(anthropic.BadRequestError) as caught:
        through_sdk(work)
    body: Any = caught.value.body
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert body["error"]["message"] and body["request_id"] == caught.value.request_id


def test_no_corrected_request_is_refused() -> None:
    """What the API takes is taken here: the corrected request of every rule gets a reply."""

    async def work(client: anthropic.AsyncAnthropic) -> int:
        answered = 0
        for _, _, corrected, _ in CASES:
            if corrected is not None:
                await client.post("/v1/messages", cast_to=object, body=corrected)
                answered += 1
        return answered

    assert through_sdk(work) > 40


@pytest.mark.parametrize(
    ("messages", "refusal"),
    [
        (
            [*talk("a", ("web_search", {"query": "x"}, "found"))[:2], {"role": "user", "content": "and now?"}],
            "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_0. Each `tool_use` "
            "block must have a corresponding `tool_result` block in the next message.",
        ),
        (
            [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "T1", "content": "x"}]}],
            "messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: T1. Each `tool_result` block must "
            "have a corresponding `tool_use` block in the previous message.",
        ),
    ],
)
def test_refusals_about_tool_results_have_the_recorded_words(messages: list[JSON], refusal: str) -> None:
    """The texts are those of the recorded 400s (tests/data/wire/anthropic, vercel_error_*)."""

    async def work(client: anthropic.AsyncAnthropic) -> None:
        await client.messages.create(**request(messages))

    with pytest.raises(anthropic.BadRequestError) as caught:
        through_sdk(work)
    assert caught.value.body["error"]["message"] == refusal  # type: ignore[index]


def test_a_body_that_is_no_json_is_refused() -> None:
    """Broken JSON is the caller's fault, not the model's."""

    async def main() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=offline_transport(), base_url="http://offline.invalid") as client:
            return await client.post("/v1/messages", content=b"{not json")

    response = asyncio.run(main())
    assert response.status_code == 400
    assert "not valid JSON" in response.json()["error"]["message"]


def test_the_reply_is_cut_at_max_tokens() -> None:
    """A small `max_tokens` ends the text at a word with that stop reason; a call that does not fit is left out."""
    body = request(talk("Tell me about Haskell", ("web_search", {"query": "x"}, [block(p) for p in pages("Haskell")])))

    async def work(client: anthropic.AsyncAnthropic) -> tuple[Any, Any]:
        cut = await client.messages.create(**{**body, "max_tokens": 8})
        none = await client.messages.create(**request(talk("How many moons does Mars have?"), max_tokens=3))
        return cut, none

    cut, none = through_sdk(work)
    assert (cut.stop_reason, none.stop_reason, none.content) == ("max_tokens", "max_tokens", [])
    assert "Haskell is a purely functional programming".startswith(cut.content[0].text.strip())


def test_the_same_request_gets_the_same_reply() -> None:
    """Ids and all: there is no clock and no chance in it; another request gets other ids."""

    async def work(client: anthropic.AsyncAnthropic) -> list[str]:
        asked = [request(talk(q)) for q in ("Who created Ruby?", "Who created Ruby?", "Who created Perl?")]
        return [(await client.messages.create(**body)).to_json() for body in asked]

    one, same, other = through_sdk(work)
    assert one == same
    assert json.loads(one)["id"] != json.loads(other)["id"]
    assert json.loads(one)["content"][0]["id"] != json.loads(other)["content"][0]["id"]


# --- searching ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "queries"),
    [
        ("How many moons does Mars have?", ["moons Mars"]),
        ("What is the capital of France?", ["capital France"]),
        ("capital of france", ["capital france"]),
        ("Who created Ruby? Search the knowledge base first and cite your sources.", ["created Ruby"]),
        ("Which laptop under $500 has the best keyboard in 2026?", ["laptop $500 best keyboard 2026"]),
        ('What does "window function" mean in C++ and DuckDB\'s docs?', ['"window function" mean C++ and DuckDB docs']),
        ("What's the capital of the U.S.?", ["capital U.S."]),
        ("How far is the Moon from the Earth?", ["distance Moon Earth"]),
        ("What happened in May 2026?", ["happened May 2026"]),
        ("Is the WHO part of the UN?", ["WHO part UN"]),
        ("Who wrote Pride and Prejudice?", ["wrote Pride and Prejudice"]),
        ("What is the capital of Trinidad and Tobago?", ["capital Trinidad and Tobago"]),
        ("Search the web for site:duckdb.org release notes 2.0", ["site:duckdb.org release notes 2.0"]),
        ("Compare the moons of Mars and Jupiter", ["moons Mars", "moons Jupiter"]),
        ("What is the capital of France and of Germany?", ["capital France", "capital Germany"]),
        ("What is the capital of France and the currency of Japan?", ["capital France", "currency Japan"]),
        ("How many moons do Mars and Jupiter have?", ["moons Mars", "moons Jupiter"]),
        ("What are the capitals of Spain, Italy and Portugal?", ["capitals Spain", "capitals Italy", "capitals Portugal"]),
        ("Compare Mars with Venus", ["Mars", "Venus"]),
        ("- capital: What is the capital of France?\n- people: What is its population?", ["capital France population"]),
        ("Context: Bitcoin\n\nQuestion: What is the current price?", ["current price Bitcoin"]),
        ("Hello!", []),
    ],
)
def test_a_question_becomes_short_queries(question: str, queries: list[str]) -> None:
    """Content words stay as written; one query each for things that are clearly asked about apart, else one in all."""
    assert queries_for(split_questions(question)) == queries


@pytest.mark.parametrize(
    ("before", "answer_about", "question", "queries"),
    [
        ("How many moons does Mars have?", (), "And Jupiter?", ["moons Jupiter"]),
        ("How many moons do Mars and Jupiter have?", (), "And Saturn?", ["moons Saturn"]),
        ("How many moons does Mars have?", (), "What are they called?", ["moons Mars"]),
        ("Which planet is the largest?", ("Jupiter",), "How many moons does it have?", ["moons Jupiter"]),
        ("Which planet is the largest?", ("Jupiter",), "And the smallest?", ["smallest planet"]),
        (
            "Which laptop under $500 has the best keyboard?",
            (),
            "and which of them has a matte screen?",
            ["matte screen laptop 500 best keyboard"],
        ),
        ("How many moons does Mars have?", (), "What is the capital of France?", ["capital France"]),
    ],
)
def test_a_follow_up_is_read_with_the_question_before(
    before: str, answer_about: tuple[str, ...], question: str, queries: list[str]
) -> None:
    """Pronouns and bare names take their meaning from the turn before; a question that stands alone takes nothing."""
    cited = [{"type": "search_result_location", "title": title, "source": "u", "cited_text": "x"} for title in answer_about]
    history = [
        {"role": "user", "content": before},
        {"role": "assistant", "content": [{"type": "text", "text": "So it is.", "citations": cited}]},
        {"role": "user", "content": question},
    ]
    assert [arguments["query"] for _, arguments in calls_of(request(history))] == queries


def test_the_preferred_search_tool_is_used() -> None:
    """Among several tools that take a query, `web_search` comes first, then Brave's; other tools are not called."""
    other, brave = {**SEARCH, "name": "web_search_google"}, {**SEARCH, "name": "web_search_brave"}
    assert calls_of(request(talk("Who created Ruby?"), [other, brave, FETCH]))[0][0] == "web_search_brave"
    assert calls_of(request(talk("Who created Ruby?"), [other, brave, SEARCH]))[0][0] == "web_search"
    assert calls_of(request(talk("Who created Ruby?"), [FETCH, other]))[0][0] == "web_search_google"


def test_required_inputs_of_a_search_tool_are_given() -> None:
    """A search tool that demands more than a query gets the least it allows."""
    schema = closed(query={"type": "string"}, count={"type": "integer", "minimum": 1}, country={"enum": ["US", "DE"]})
    ((_, given_input),) = calls_of(request(talk("Who created Ruby?"), [{**SEARCH, "input_schema": schema}]))
    assert given_input == {"query": "created Ruby", "count": 5, "country": "US"}


@pytest.mark.parametrize(
    ("choice", "called"),
    [
        ({"type": "none"}, []),
        ({"type": "auto"}, ["web_search"]),
        ({"type": "any"}, ["web_search"]),
        ({"type": "tool", "name": "web_fetch"}, ["web_fetch"]),
        ({"type": "tool", "name": "web_search"}, ["web_search"]),
    ],
)
def test_the_tool_choice_is_obeyed(choice: JSON, called: list[str]) -> None:
    """None calls nothing, a named tool is called, "any" calls one."""
    body = request(talk("Who created Ruby?"), [SEARCH, FETCH], tool_choice=choice)
    assert [name for name, _ in calls_of(body)] == called


def test_parallel_calls_can_be_switched_off() -> None:
    """With `disable_parallel_tool_use` one call is made at a time."""
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    body = request(talk("Compare the moons of Mars and Jupiter"), tool_choice=choice)
    assert calls_of(body) == [("web_search", {"query": "moons Mars"})]


def test_a_search_without_use_is_followed_by_one_broader_search_and_no_more() -> None:
    """The second query has fewer words; after it the model says plainly that there was nothing."""
    nothing = [{"type": "text", "text": "No results found for 'x' (local)."}]
    one = ("web_search", {"query": "capital Wakanda"}, nothing)
    assert calls_of(request(talk("What is the capital of Wakanda?", one))) == [("web_search", {"query": "Wakanda"})]
    two = ("web_search", {"query": "Wakanda"}, [block(page) for page in pages("France")])
    said = words_of(request(talk("What is the capital of Wakanda?", one, two)))
    assert said == "I found nothing in the results that answers this. I searched for “capital Wakanda” and “Wakanda”."


def test_a_failed_search_is_named() -> None:
    """When the search itself failed, the answer says so with its words, and no second search is tried."""
    body = request(talk("Who created Ruby?", ("web_search", {"query": "created Ruby"}, "brave: 429"), is_error=True))
    assert calls_of(body) == []
    assert words_of(body).endswith("I searched for “created Ruby”. It failed with: brave: 429")


def test_a_limit_that_closed_the_last_search_leaves_the_earlier_results() -> None:
    """With tool_choice none, what was found before is still answered from."""
    messages = talk("How many moons does Mars have?", ("web_search", {"query": "a"}, [block(page) for page in pages("Mars")]))
    late = talk("x", ("web_search", {"query": "b"}, "max_searches is reached"), is_error=True)[1:]
    late[0]["content"][0]["id"] = late[1]["content"][0]["tool_use_id"] = "toolu_9"
    body = request([*messages, *late], tool_choice={"type": "none"})
    assert words_of(body) == "Mars has two moons, Phobos and Deimos."


def test_an_address_in_the_question_is_opened() -> None:
    """A page that the user names is read first, and answered from; without a question its beginning is given."""
    asked = "How many moons are there? https://mars.example/moons"
    assert calls_of(request(talk(asked), [SEARCH, FETCH])) == [("web_fetch", {"url": "https://mars.example/moons"})]
    page = "Moons\nhttps://mars.example/moons\n\nThere are two moons around Mars, and both of them are small."
    opened = ("web_fetch", {"url": "https://mars.example/moons"}, page)
    assert words_of(request(talk(asked, opened), [SEARCH, FETCH])).startswith("There are two moons around Mars")
    plain = request(talk("Summarise https://mars.example/moons", opened), [SEARCH, FETCH])
    assert words_of(plain).startswith("There are two moons around Mars")


@pytest.mark.parametrize(("address", "opened"), [("corpus://planets/mars", True), ("file:///etc/hosts", False)])
def test_a_page_of_the_built_in_index_is_opened_by_its_address_and_a_file_is_not(address: str, opened: bool) -> None:
    """Lesson 08 has it read one with the native fetch tool."""
    calls = calls_of(request(talk(f"Read {address}. How many moons does Mars have?"), [SEARCH, FETCH]))
    assert (calls == [("web_fetch", {"url": address})]) is opened and len(calls) == 1


def test_without_tools_it_says_what_it_is() -> None:
    """It never makes up an answer, and never says that it is Claude."""
    said = words_of(request(talk("How many moons does Mars have?"), ()))
    assert "offline model" in said and "Claude" not in said and "two" not in said


def test_a_nudge_is_not_a_question() -> None:
    """A loop's request to write the answer now leaves the question open that was asked."""
    messages = talk("How many moons does Mars have?", ("web_search", {"query": "a"}, [block(page) for page in pages("Mars")]))
    messages += [{"role": "assistant", "content": "Hm."}, {"role": "user", "content": "Please write the answer now."}]
    assert words_of(request(messages)) == "Mars has two moons, Phobos and Deimos."


# --- answering ---------------------------------------------------------------------------------------------------------------

QUESTIONS = [
    ("How many moons does Mars have?", ["Mars", "Phobos", "Deimos"], "two moons"),
    ("how many moons does saturn have", ["Saturn", "Titan", "Jupiter"], "274 known moons"),
    ("How many moons has Venus?", ["Venus"], "no moons"),
    ("What is the capital of France?", ["France"], "Paris is the capital"),
    ("capital of germany", ["Germany"], "Berlin is the capital"),
    ("What's the capital city of Japan?", ["Japan"], "Tokyo is the capital"),
    ("What is the currency of Poland?", ["Poland"], "złoty"),
    ("Which currency is used in Switzerland?", ["Switzerland"], "Swiss franc"),
    ("What language is spoken in Brazil?", ["Brazil"], "Portuguese"),
    ("On which continent is Ghana?", ["Ghana"], "Africa"),
    ("Who created Python and when?", ["Python"], "Guido van Rossum created Python; Python first appeared in 1991."),
    ("Who designed C++?", ["C++"], "Bjarne Stroustrup designed C++"),
    ("Who invented the Ruby programming language?", ["Ruby"], "Yukihiro Matsumoto"),
    ("Who made JavaScript?", ["JavaScript", "Java"], "Brendan Eich"),
    ("When did Java first appear?", ["Java", "JavaScript"], "1995"),
    ("What is the atomic number of iron?", ["Iron"], "atomic number 26"),
    ("What is the chemical symbol for gold?", ["Gold"], "symbol Au"),
    ("Which element has the symbol Fe?", ["Iron"], "Iron is"),
    ("What is the melting point of iron?", ["Iron"], "1538 °C"),
    ("At what temperature does helium boil?", ["Helium"], "-268.9 °C"),
    ("Which metal is liquid at room temperature?", ["Mercury (element)", "Gallium", "Bromine"], "Mercury is the only metal"),
    ("Which planet is the largest?", ["Jupiter", "Earth", "Ganymede", "Saturn"], "Jupiter is the"),
    ("What is the smallest planet?", ["Mercury (planet)", "Earth", "Europa"], "smallest of the eight planets"),
    ("Which planet has the most moons?", ["Saturn", "Jupiter", "Moon", "Neptune"], "Saturn has 274"),
    ("Which planet is closest to the Sun?", ["Mercury (planet)", "Venus", "Neptune"], "Mercury is the planet closest"),
    ("What is the hottest planet?", ["Venus", "Mercury (planet)"], "hottest planet"),
    ("How far is Jupiter from the Sun?", ["Jupiter", "Saturn", "Sun"], "778 million"),
    ("How long is a year on Mars?", ["Mars", "Jupiter"], "687 Earth days"),
    ("How long is a day on Jupiter?", ["Jupiter", "Europa"], "9 hours 56 minutes"),
    ("What is the diameter of Mercury?", ["Mercury (planet)", "Venus"], "4,879"),
    ("Who discovered phosphorus?", ["Phosphorus"], "Hennig Brand"),
    ("Who discovered Uranus?", ["Uranus", "Neptune"], "William Herschel"),
    ("When was uranium discovered?", ["Uranium"], "1789"),
    ("When was Pluto discovered?", ["Pluto", "Ceres"], "1930"),
    ("What is the population of Germany?", ["Germany"], "84 million"),
    ("How many people live in India?", ["India"], "1.45 billion"),
    ("What is the area of Japan?", ["Japan"], "378,000"),
    ("What is the highest mountain of Spain?", ["Spain", "Italy"], "Teide"),
    ("How high is Mount Fuji?", ["Japan", "Poland"], "3,776"),
    ("When did Finland join NATO?", ["Finland", "Sweden"], "2023"),
    ("How many federal states does Germany have?", ["Germany", "Austria"], "16 federal states"),
    ("Where was Mozart born?", ["Austria", "Poland"], "Salzburg"),
    ("Who invented the Rubik's Cube?", ["Hungary"], "Ernő Rubik"),
    ("What is the longest river of Asia?", ["China", "Poland"], "Yangtze"),
    ("What is the largest moon of Saturn?", ["Saturn", "Titan"], "Titan"),
    ("What are the moons of Mars called?", ["Mars", "Phobos"], "Phobos and Deimos"),
    ("Why is Mars red?", ["Mars"], "Iron oxide"),
    ("Is Pluto a planet?", ["Pluto", "Neptune"], "dwarf planet"),
    ("What is Ceres?", ["Ceres", "Pluto"], "Ceres is the only dwarf planet in the asteroid belt"),
    ("What is the package manager of Rust?", ["Rust"], "Cargo"),
    ("Tell me about Titan", ["Titan", "Saturn"], "Titan is the largest moon of Saturn"),
]


@pytest.mark.parametrize(("question", "titles", "expected"), QUESTIONS, ids=[q for q, _, _ in QUESTIONS])
def test_a_question_about_the_corpus_is_answered_right(question: str, titles: list[str], expected: str) -> None:
    """The right sentence is found among the right article, related ones and others of its kind."""
    said = "".join(b["text"] for b in answer_blocks(split_questions(question), pages(*titles)))
    assert expected in said


@pytest.mark.parametrize(
    ("question", "titles"),
    [
        ("What is the capital of Wakanda?", ["France"]),
        ("Who is the CEO of Apple?", ["France"]),
        ("How many moons does Kepler-22b have?", ["Mars"]),
        ("What is the price of gold?", ["Gold"]),
        ("What is the national anthem of France?", ["France"]),
        ("When was iron discovered?", ["Iron", "Cobalt"]),
        ("When was carbon discovered?", ["Carbon"]),
        ("Who discovered the moons of Mars?", ["Mars", "Phobos"]),
        ("What is the population of Berlin?", ["Germany"]),
    ],
)
def test_what_the_results_do_not_say_is_not_answered(question: str, titles: list[str]) -> None:
    """No sentence is better than one that only looks like an answer."""
    assert answer_blocks(split_questions(question), pages(*titles)) == []


WEB = {
    "Best budget laptops 2026 | Laptops": "We tested 40 laptops. The Acme Go 15 has the best keyboard of any laptop under "
    "$500. The HP 14 weighs 3.2 pounds.",
    "pandas 3.0 release notes": "These are the changes in pandas 3.0.0, released in January 2026. "
    "Python 3.11 is the minimum supported version.",
    "Tokyo - Wikipedia": "Tokyo is the capital and most populous city in Japan. With a population of over 14 million in the "
    "city proper in 2023, it is one of the largest cities. The Greater Tokyo Area had 41 million residents as of 2024.",
    "Mona Lisa": "The Mona Lisa is a half-length portrait painting by Italian artist Leonardo da Vinci. It has been on "
    "display at the Louvre in Paris since 1797. The painting was stolen in 1911 by Vincenzo Peruggia.",
    "Penicillin": "Penicillin was discovered in 1928 by the Scottish physician Alexander Fleming.",
    "Blue whale": "The blue whale is the largest animal known to have ever existed. It weighs up to 199 t.",
    "World War II": "World War II was a global conflict. It lasted from 1 September 1939 to 2 September 1945.",
    "Titanic": "RMS Titanic was an ocean liner that sank on 15 April 1912. Of 2,224 people aboard, approximately 1,500 died.",
    "Bitcoin price today": "The current price of Bitcoin is $95,234.15, up 2.3%. Satoshi Nakamoto invented Bitcoin in 2008.",
    "Euro": "The euro is the official currency of 20 of the 27 member states of the European Union.",
    "Pride and Prejudice": "Pride and Prejudice is the second novel by English author Jane Austen, published in 1813.",
    "Apple Inc.": "Apple Inc. is an American company. Apple was founded on April 1, 1976, by Steve Jobs and others. "
    "Tim Cook has been its CEO since 2011.",
}


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Which laptop under $500 has the best keyboard in 2026?", "Acme Go 15"),
        ("When was pandas 3.0 released?", "January 2026"),
        ("What is the minimum Python version for pandas 3.0?", "3.11"),
        ("What is the population of Tokyo?", "14 million"),
        ("Who painted the Mona Lisa?", "Leonardo"),
        ("Where is the Mona Lisa?", "Louvre"),
        ("Who stole the Mona Lisa?", "Peruggia"),
        ("who discovered penicillin", "Fleming"),
        ("What is the largest animal?", "blue whale"),
        ("How much does a blue whale weigh?", "199 t"),
        ("When did World War II start?", "1939"),
        ("When did the Titanic sink?", "1912"),
        ("How many people died on the Titanic?", "1,500 died"),
        ("What is the price of Bitcoin?", "$95,234.15"),
        ("How many countries use the euro?", "20 of the 27"),
        ("When was Pride and Prejudice published?", "1813"),
        ("Who wrote Pride and Prejudice?", "Jane Austen"),
        ("Who founded Apple?", "Steve Jobs"),
        ("Who is the CEO of Apple?", "Tim Cook"),
        ("Who is the CEO of Microsoft?", ""),
        ("Who discovered insulin?", ""),
        ("When did World War I end?", ""),
        ("What is the price of Ethereum?", ""),
        ("What is the population of Kyoto?", ""),
        ("When was the Louvre built?", ""),
        ("What was the population of Tokyo in 1990?", ""),
    ],
)
def test_the_rules_hold_for_pages_of_the_web_too(question: str, expected: str) -> None:
    """Pages by other hands, with pronouns, snippets and brackets; "" stands for a question that they do not answer."""
    found = [Source(title, f"https://w.example/{n}", (text,), n) for n, (title, text) in enumerate(WEB.items())]
    said = "".join(b["text"] for b in answer_blocks(split_questions(question), found))
    assert (expected in said) if expected else said == ""


def test_several_questions_get_a_paragraph_each() -> None:
    """Each thing that was asked about has its own sentence, source and paragraph."""
    found = [*pages("Mars", distractors=1), *pages("Jupiter", distractors=2)]
    said = answer_blocks(split_questions("How many moons do Mars and Jupiter have?"), found)
    assert [b["text"] for b in said] == [
        "Mars has two moons, Phobos and Deimos.",
        "\n\nJupiter has 97 known moons, as confirmed by 2025.",
    ]


def test_every_answer_is_quoted_from_its_source() -> None:
    """Each cited block stands word for word in the text that its citation gives, and that text in the source."""
    for question, titles, _ in QUESTIONS:
        found = pages(*titles)
        for said in answer_blocks(split_questions(question), found):
            (citation,) = said["citations"]
            page = found[citation["search_result_index"]]
            assert citation["cited_text"] == page.blocks[citation["start_block_index"]]
            assert (citation["source"], citation["title"]) == (page.url, page.title)
            assert said["text"].strip().removeprefix(f"{page.title}: ") in citation["cited_text"]


def test_a_sentence_about_it_names_what_it_is_about() -> None:
    """A quoted sentence that begins with a pronoun gets its page's title in front."""
    page = Source("Mars - Wikipedia", "https://w.example/Mars", ("Mars is a planet. It has two small natural satellites.",), 0)
    (said,) = answer_blocks(split_questions("How many moons does Mars have?"), [page])
    assert said["text"] == "Mars: It has two small natural satellites."


@pytest.mark.parametrize(
    "text",
    [
        "Search Results:\n\n1. Mars - Facts\n   https://a.example/mars\n   Mars is red. Mars has two moons.\n\n2. Jupiter\n"
        "   https://a.example/jupiter\n   Jupiter has 97 moons.",
        "[Mars - Facts](https://a.example/mars) — Mars has two moons.\n[Jupiter](https://a.example/jupiter) — It has 97 moons.",
        "Title: Mars - Facts\nURL: https://a.example/mars\nDescription: Mars has two moons.\n",
        '{"results": [{"title": "Mars - Facts", "url": "https://a.example/mars", "description": "Mars has two moons."}]}',
    ],
)
def test_plain_results_are_read_and_named_in_words(text: str) -> None:
    """Without `search_result` blocks there is nothing to cite, so the source stands behind the sentence."""
    said = reply_to(request(talk("How many moons does Mars have?", ("web_search", {"query": "x"}, text)))).blocks
    assert said == [{"type": "text", "text": "Mars has two moons. (source: Mars - Facts, https://a.example/mars)"}]


def test_results_without_citations_are_not_cited() -> None:
    """Citations are given only where the request switched them on."""
    results = [block(page, enabled=False) for page in pages("Mars")]
    (said,) = reply_to(request(talk("How many moons does Mars have?", ("web_search", {"query": "x"}, results)))).blocks
    assert "citations" not in said and said["text"].endswith("(source: Mars, corpus://planets/mars)")


def test_indexes_count_over_the_whole_request() -> None:
    """Results of earlier turns count too, as in the API; they are not answered from when a new search was made."""
    first = talk("Who created Ruby?", ("web_search", {"query": "a"}, [block(page) for page in pages("Ruby")]))
    first.append({"role": "assistant", "content": "Matz."})
    second = talk("How many moons does Mars have?", ("web_search", {"query": "b"}, [block(ARTICLES["Mars"])]))
    second[1]["content"][0]["id"] = second[2]["content"][0]["tool_use_id"] = "toolu_9"
    (said,) = reply_to(request([*first, *second])).blocks
    assert said["citations"][0]["search_result_index"] == 5


def test_the_date_line_of_a_result_is_no_evidence() -> None:
    """When a page was published says nothing about what it tells."""
    page = Source("Python", "u", ("Python is a language.", "Published: 2026-10-31"), 0)
    assert answer_blocks(split_questions("When was Python published?"), [page]) == []


def test_a_reply_takes_less_than_twenty_milliseconds() -> None:
    """Five results of 1,500 characters, searched for a question that has to look into all of them."""
    names = ["Mars", "Jupiter", "Saturn", "Uranus", "Neptune"]
    long = [Source(n, n, tuple(f"{text} ({n} {at})" for at in range(3) for text in ARTICLES[n].blocks), 0) for n in names]
    body = request(talk("How many moons does Mars have?", ("web_search", {"query": "x"}, [block(page) for page in long])))
    assert sum(len(text) for page in long for text in page.blocks) > 7_000
    taken = []
    for _ in range(5):
        start = time.process_time()
        assert words_of(body).startswith("Mars has two moons")
        taken.append(time.process_time() - start)
    assert min(taken) < 0.02


# --- records and tables ------------------------------------------------------------------------------------------------------

COLUMNS: dict[str, dict[str, tuple[str, str]]] = {
    "countries": {
        "capital": ("What is the capital of {country}?", "string"),
        "currency": ("What is the currency of {country}?", "string"),
        "continent": ("On which continent is {country}?", "string"),
    },
    "elements": {
        "symbol": ("What is the chemical symbol of {element}?", "string"),
        "atomic_number": ("What is the atomic number of {element}?", "integer"),
        "discovered": ("In what year was {element} discovered?", "integer"),
    },
    "languages": {
        "first_appeared": ("In what year did {language} first appear?", "integer"),
        "designer": ("Who designed {language}?", "string"),
    },
    "planets": {"moons": ("How many moons does {planet} have?", "integer")},
}
CONTINENTS = ["Europe", "Asia", "Africa", "North America", "South America", "Oceania"]
KEYS = {"countries": "country", "elements": "element", "languages": "language", "planets": "planet"}


def asked_as(style: str, kind: str, name: str) -> tuple[JSON, str]:
    """A record's schema and the user's text for one row, in one of the ways in which a record can be asked for."""
    properties: JSON = {}
    lines = [f"{KEYS[kind]}: {name}"]
    for column, (question, type_) in COLUMNS[kind].items():
        asked = question.replace("{" + KEYS[kind] + "}", name)
        if style == "flat":
            properties[column] = nullable(type_, description=question)
            properties[f"{column}_source"] = nullable("string")
            continue
        if style == "enrichment":
            one_of = {"anyOf": [{"type": "string", "enum": CONTINENTS}, {"type": "null"}]}
            value = closed(
                value=one_of if column == "continent" else nullable(type_),
                source={"type": "string"},
                quote={"type": "string"},
                confidence={"type": "number"},
            )
            properties[column] = {"description": question, **value}
            lines += [] if "The questions" in lines else ["", "The questions"]
            lines.append(f"{column}: {asked}")
            continue
        value = closed(value=nullable(type_), source=nullable("string"), quote=nullable("string"))
        properties[column] = {**value, "description": question} if style == "templates" else value
        lines += [f"- {column}: {asked}"] if style == "lines" else []
    return closed(**properties), "\n".join(lines)


@pytest.mark.parametrize("style", ["lines", "templates", "names", "flat", "enrichment"])
@pytest.mark.parametrize("kind", list(COLUMNS))
def test_records_of_the_corpus_are_filled_with_the_truth(kind: str, style: str) -> None:
    """Every value is right, with the address of its own article, and what the corpus does not say is null."""
    wrong = []
    for title, truth in TRUTH[kind].items():
        schema, text = asked_as(style, kind, title.split(" (")[0])
        filled = fill(schema, text, pages(title))
        for column, expected in truth.items():
            value = filled[column] if style == "flat" else filled[column]["value"]
            source = filled[f"{column}_source"] if style == "flat" else filled[column]["source"]
            right = value == expected or (isinstance(value, str) and value.startswith(f"{expected} of "))
            nothing = "" if style == "enrichment" else None
            if not right or source != (nothing if expected is None else ARTICLES[title].url):
                wrong.append((title, column, expected, value, source))
    # by its name alone, "designer" fits the lead designer of Kotlin better than the company that designed it
    assert [w for w in wrong if not (style == "names" and w[:2] == ("Kotlin", "designer"))] == []


def test_a_record_says_how_sure_it_is() -> None:
    """Confidence is between 0 and 1 for what was found and 0 for what was not."""
    schema, text = asked_as("enrichment", "elements", "Iron")
    filled = fill(schema, text, pages("Iron"))
    assert 0.4 <= filled["atomic_number"]["confidence"] <= 1
    assert filled["discovered"] == {"value": None, "source": "", "quote": "", "confidence": 0.0}


def test_a_record_is_filled_after_the_search() -> None:
    """First the search, then the strict tool with what was found, then the end."""
    schema, text = asked_as("lines", "countries", "France")
    tools = [SEARCH, tool("record", schema)]
    assert [name for name, _ in calls_of(request(talk(text), tools))] == ["web_search"]
    found = ("web_search", {"query": "x"}, [block(page) for page in pages("France")])
    ((name, filled),) = calls_of(request(talk(text, found), tools))
    assert (name, filled["capital"]["value"], filled["currency"]["value"]) == ("record", "Paris", "euro")
    assert filled["capital"]["quote"].startswith("Paris is the capital of France")
    done = ("record", filled, "Thank you.")
    assert reply_to(request(talk(text, found, done), tools)).stop_reason == "end_turn"


def test_a_forced_record_without_results_is_empty() -> None:
    """Nothing is made up when nothing was found: every value is null."""
    schema, text = asked_as("lines", "countries", "France")
    body = request(talk(text), [tool("record", schema)], tool_choice={"type": "tool", "name": "record"})
    ((_, filled),) = calls_of(body)
    assert all(value == {"value": None, "source": None, "quote": None} for value in filled.values())


def test_a_table_has_a_row_for_each_thing_asked_about() -> None:
    """Rows are the things that the question names, with null where nothing was found."""
    found = ("web_search", {"query": "x"}, [block(page) for page in pages("Mars", "Jupiter")])
    body = request(talk("How many moons do Mars, Jupiter and Vulcan have?", found), [SEARCH, TABLE])
    ((_, filled),) = calls_of({**body, "tool_choice": {"type": "tool", "name": "answer_table"}})
    assert filled == {"rows": [{"planet": "Mars", "moons": 2}, {"planet": "Jupiter", "moons": 97}]}


def test_a_table_without_named_things_has_the_pages_of_that_kind() -> None:
    """Asked for all planets, the rows are the pages that say they are planets; a moon is left out."""
    results = [block(ARTICLES[title]) for title in ("Mars", "Phobos", "Venus", "Saturn")]
    body = request(talk("List the planets with their moons", ("web_search", {"query": "x"}, results)), [SEARCH, TABLE])
    ((_, filled),) = calls_of(body)
    assert [(row["planet"], row["moons"]) for row in filled["rows"]] == [("Mars", 2), ("Venus", 0), ("Saturn", 274)]


def test_a_structured_output_is_json_of_its_schema() -> None:
    """`output_config.format` gets the same record as text."""
    schema = closed(capital=nullable("string"))
    results = [block(page, enabled=False) for page in pages("France")]
    body = request(
        talk("What is the capital of France?", ("web_search", {"query": "x"}, results)), tool_choice={"type": "none"}
    )
    said = words_of({**body, "output_config": {"format": {"type": "json_schema", "schema": schema}}})
    assert json.loads(said) == {"capital": "Paris"}


def test_a_schema_that_holds_itself_comes_to_an_end() -> None:
    """References are followed, and a record inside itself is left empty at some depth."""
    node = closed(symbol=nullable("string"), inner={"$ref": "#/$defs/node"})
    filled = fill({"$defs": {"node": node}, **node}, "element: Iron", pages("Iron"))
    assert (filled["symbol"], filled["inner"]["inner"]["symbol"]) == ("Fe", "Fe")


COMPANIES = [
    Source(
        "Apple Inc.",
        "https://w.example/Apple",
        (
            "Apple Inc. is an American company headquartered in Cupertino, California. Apple was founded as Apple Computer "
            "Company on April 1, 1976, by Steve Jobs, Steve Wozniak, and Ronald Wayne.",
            "Tim Cook has been its CEO since 2011. In fiscal 2024 Apple reported revenue of $391.04 billion. It has about "
            "164,000 employees. Apple is not a bank. It is listed on Nasdaq.",
        ),
    ),
    Source(
        "Microsoft",
        "https://w.example/Microsoft",
        ("Founded in 1975 by Bill Gates and Paul Allen, Microsoft is a software company. Satya Nadella succeeded Steve Ballmer "
         "as CEO in 2014. Microsoft employs 228,000 people.",),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("company", "column", "schema", "expected"),
    [
        ("Apple", "ceo", nullable("string"), "Tim Cook"),
        ("Microsoft", "ceo", nullable("string"), "Satya Nadella"),
        ("Apple", "founded", nullable("integer"), 1976),
        ("Microsoft", "founded", nullable("integer"), 1975),
        ("Apple", "founded", nullable("string", format="date", description="When was {company} founded?"), "1976-04-01"),
        ("Apple", "founders", nullable("string"), "Steve Jobs, Steve Wozniak, and Ronald Wayne"),
        ("Microsoft", "founders", {"type": "array", "items": {"type": "string"}}, ["Bill Gates", "Paul Allen"]),
        ("Apple", "employees", nullable("integer"), 164000),
        ("Microsoft", "employees", nullable("integer"), 228000),
        ("Apple", "revenue", nullable("number"), 391_040_000_000),
        ("Apple", "revenue_billions", nullable("number", description="What was {company}'s revenue in billions?"), 391.04),
        ("Microsoft", "revenue", nullable("number"), None),
        ("Apple", "headquarters", nullable("string"), "Cupertino, California"),
        ("Apple", "exchange", nullable("string", enum=["NYSE", "Nasdaq", None]), "Nasdaq"),
        ("Apple", "exchange", {"enum": ["NYSE", "LSE", None]}, None),
        ("Microsoft", "slogan", nullable("string"), None),
        ("Microsoft", "slogan", {"type": "string"}, ""),
    ],
)
def test_a_property_gets_a_value_of_its_type(company: str, column: str, schema: JSON, expected: Any) -> None:
    """Types, enums, dates, lists and scales are those of the schema; the value is the company's own."""
    assert fill(closed(**{column: schema}), f"company: {company}", COMPANIES)[column] == expected


# --- reading values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "question", "sentence", "value"),
    [
        (
            "person",
            "Who discovered phosphorus?",
            "Phosphorus was discovered by the German merchant Hennig Brand in 1669.",
            "Hennig Brand",
        ),
        (
            "person",
            "Who discovered helium?",
            "Helium was discovered in 1868 by Pierre Janssen and Norman Lockyer.",
            "Pierre Janssen and Norman Lockyer",
        ),
        (
            "person",
            "Who designed Go?",
            "Robert Griesemer, Rob Pike and Ken Thompson designed Go; Go first appeared in 2009.",
            "Robert Griesemer, Rob Pike and Ken Thompson",
        ),
        ("person", "Who created Fortran?", "John Backus led the team at IBM that designed Fortran.", "John Backus"),
        (
            "person",
            "Who discovered oxygen?",
            "Swedish chemist Carl Wilhelm Scheele discovered oxygen in 1772.",
            "Carl Wilhelm Scheele",
        ),
        ("person", "Who is the CEO of Apple?", "Apple's CEO Tim Cook said hello.", "Tim Cook"),
        (
            "person",
            "Who discovered Makemake?",
            "Makemake was discovered in March 2005 by a team led by Mike Brown.",
            "Mike Brown",
        ),
        ("name", "What is the capital of France?", "Paris is the capital of France and the largest city.", "Paris"),
        ("name", "What is the capital of Spain?", "Its capital is Madrid.", "Madrid"),
        (
            "name",
            "What is the capital of China?",
            "Beijing is the capital of China, and Shanghai is the largest city.",
            "Beijing",
        ),
        (
            "name",
            "What is the largest city of China?",
            "Beijing is the capital of China, and Shanghai is the largest city.",
            "Shanghai",
        ),
        (
            "name",
            "What is the capital of the United States?",
            "Washington, D.C., is the capital of the United States.",
            "Washington, D.C.",
        ),
        (
            "name",
            "What is the currency of China?",
            "The currency of China is the renminbi, whose unit is the yuan.",
            "renminbi",
        ),
        ("name", "What is the symbol of Iron?", "Iron is a metal with the symbol Fe and the atomic number 26.", "Fe"),
        (
            "name",
            "What is the highest mountain of Poland?",
            "Rysy in the Tatra Mountains, at 2,500 metres, is the highest mountain of Poland.",
            "Rysy",
        ),
        (
            "name",
            "What are the official languages of Norway?",
            "The official languages of Norway are Norwegian and Sámi.",
            "Norwegian and Sámi",
        ),
        ("number", "How many moons does Mars have?", "Mars has two small moons, Phobos and Deimos.", 2),
        ("number", "How many moons does Venus have?", "Venus has no known moons.", 0),
        ("number", "How many moons does Phobos have?", "Mars has two moons, Phobos and Deimos.", None),
        ("number", "What is the boiling point of Iron?", "Iron melts at 1538 °C and boils at about 2860 °C.", 2860),
        ("number", "What is the melting point of Iron?", "Iron melts at 1538 °C and boils at about 2860 °C.", 1538),
        ("number", "What is the population of Germany?", "In 2024, Germany had a population of about 84 million.", 84_000_000),
        ("number", "What is the area of Germany?", "Germany covers about 358,000 square kilometres.", 358_000),
        ("number", "What is the diameter of Rhea?", "Rhea has a diameter of 1,527.6 kilometres.", 1527.6),
        (
            "number",
            "How far is Mercury from the Sun?",
            "Mercury is 4,879 km in diameter, and the average distance of Mercury from the Sun is 57.9 million km.",
            57_900_000,
        ),
        ("year", "When was Python created?", "Guido van Rossum created Python; Python first appeared in 1991.", 1991),
        ("year", "When was Uranium discovered?", "Henri Becquerel discovered radioactivity in 1896 with uranium salts.", None),
        ("year", "When was Marie Curie born?", "Marie Curie (7 November 1867 – 4 July 1934) was a physicist.", 1867),
        ("year", "When did Marie Curie die?", "Marie Curie (7 November 1867 – 4 July 1934) was a physicist.", 1934),
        ("year", "When was the Althing founded?", "The parliament of Iceland, the Althing, was founded in 930.", 930),
        ("place", "Where was Marie Curie born?", "Marie Curie was born in Warsaw in 1867.", "Warsaw"),
        ("boolean", "Is Pluto a planet?", "Pluto is not a planet.", False),
        ("boolean", "Is Mars a planet?", "Mars is the fourth planet from the Sun.", True),
    ],
)
def test_a_value_is_read_from_a_sentence(kind: Any, question: str, sentence: str, value: Any) -> None:
    """The words or the figure that answer the question, and nothing where the sentence is about something else."""
    found = find(kind, read_question(question), sentence)
    assert (found.value if found and found.strength >= 0.4 else None) == value


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("about 84 million people in 2023", [84_000_000, 2023]),
        ("1,221.9 km and −38.83 °C, minus 60", [1221.9, -38.83, -60]),
        ("a dozen, twenty-seven, one hundred and five, half a million", [12, 27, 105, 500_000]),
        ("one of the moons", []),
        ("5.97×10²⁴ kg", [5.97e24]),
        ("the third planet, the 5th", [3, 5]),
        ("1939–1945 and 44 BC", [1939, 1945, -44]),
        ("$95,234.15 or 50%", [95_234.15, 50]),
        ("H2O, version 3.11.4, C60", []),
        ("357 022 km²", [357_022]),
    ],
)
def test_figures_are_what_their_words_say(text: str, values: list[float]) -> None:
    """Separators, scales, number words, signs and eras are read; parts of names and versions are no figures."""
    assert [figure.value for figure in figures(text)] == values


@given(st.integers(0, 10**13))
def test_a_whole_number_with_separators_is_read_back(number: int) -> None:
    """Thousands separators do not change the value, and it stays a whole number."""
    (figure,) = figures(f"There are {number:,} of them.")
    assert (figure.value, type(figure.value)) == (number, int)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("J. R. R. Tolkien wrote it. It is long.", ["J. R. R. Tolkien wrote it.", "It is long."]),
        ("It is written in C. Guido van Rossum made it.", ["It is written in C.", "Guido van Rossum made it."]),
        ("The U.S. Army paid 1.5 million. Dr. No left.", ["The U.S. Army paid 1.5 million.", "Dr. No left."]),
        ("It is near the Sun. Mars is not.", ["It is near the Sun.", "Mars is not."]),
        ("# Mars\n\nMars has [two](https://x.example/a_(b)) **moons**.[1]", ["Mars", "Mars has two moons."]),
        ("- one item\n- another\n\n| a | b |\n|---|---|\n| 1 | 2 |", ["one item", "another", "a; b", "1; 2"]),
        ("A line that is\nwrapped. 2 * 3 and snake_case stay.", ["A line that is wrapped.", "2 * 3 and snake_case stay."]),
    ],
)
def test_text_is_cut_into_sentences(text: str, expected: list[str]) -> None:
    """Abbreviations and initials do not end a sentence; Markdown marks, links and footnotes go."""
    assert sentences(text) == expected


@settings(max_examples=150)
@given(st.text(max_size=300))
def test_any_text_can_be_cut_and_read(text: str) -> None:
    """No text breaks the readers, and the sentences hold only characters of the text (and "; " between cells)."""
    found = sentences(text)
    assert all(set(sentence) - set(text) <= set("; ") for sentence in found)
    assert all(isinstance(source, Source) for source in from_text(text))
    for figure in figures(text):
        assert 0 <= figure.start < figure.end <= len(text)


WORDS = [
    "Mars",
    "moons",
    "two",
    "has",
    "the capital of",
    "France",
    "is",
    "1991",
    "Who",
    "?",
    ".",
    "and",
    "(",
    "[1]",
    "\n\n",
    "{",
    "https://a.b",
]


@settings(max_examples=100)
@given(st.lists(st.sampled_from(WORDS), max_size=14), st.lists(st.sampled_from(WORDS), max_size=30), st.text(max_size=40))
def test_any_question_and_any_results_get_a_legal_reply(question: list[str], result: list[str], noise: str) -> None:
    """Whatever is asked and found, the reply is not empty, has no empty text, and quotes only what is there."""
    text = " ".join(result) + noise
    body = request(
        talk(" ".join(question) + "." + noise, ("web_search", {"query": "x"}, f"1. T\n   https://a.example\n   {text}"))
    )
    reply = reply_to(body)
    assert reply.blocks and (reply.stop_reason == "tool_use") == any(b["type"] == "tool_use" for b in reply.blocks)
    assert all(b["text"].strip() for b in reply.blocks if b["type"] == "text")
    assert all(len(b["input"]["query"]) >= 2 for b in reply.blocks if b["type"] == "tool_use")


HOSTILE = [
    "[" * 30_000,
    "A, " * 10_000,
    "Mars (" * 5_000,
    "by a a a " * 5_000,
    "1,111," * 8_000,
    "of the moons of Mars, " * 3_000,
    "'" * 30_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:6])
def test_no_text_makes_the_model_slow(text: str) -> None:
    """Text made to trip up patterns takes no more time than its length, as a page, a question and a row."""
    start = time.process_time()
    for question in ("Who discovered Mars?", "What is the capital of Mars?", f"How many moons does Mars have? {text}"):
        results = [block(Source("Mars", "u", (text + " x",)))]
        reply_to(request(talk(question, ("web_search", {"query": "x"}, results))))
    fill(closed(ceo=nullable("string"), moons=nullable("integer")), f"planet: {text}", [Source("Mars", "u", (text,))])
    assert time.process_time() - start < 2
