"""Interception where things are not as usual: remembered names, ceilings, caching of the whole request, odd histories."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.errors import ConfigError, MissingKeyError
from ipy_websearch.interception import intercept
from ipy_websearch.settings import settings_dir
from tests.fakes.engine import hit
from tests.fakes.replies import block, text, thinking, tool_use, usage

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
NOTES = {"name": "read_notes", "input_schema": {"type": "object", "properties": {}}}
QUESTION = [{"role": "user", "content": "Who wrote Ruby?"}]
HOUR = {"type": "ephemeral", "ttl": "1h"}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def ask(client: Any, **options: Any) -> Any:
    """Ask the question with a web search tool."""
    return client.messages.create(**{"model": MODEL, "max_tokens": 1000, "messages": QUESTION, "tools": [SEARCH], **options})


def search(query: str, name: str = "ipy_web_search", **more: Any) -> Any:
    """Return a call of the search."""
    return tool_use(name, {"query": query}, **more)


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]


def answered(client: Any, messages_api: Any) -> list[Any]:
    """Return a history with a reply that searched here."""
    messages_api.reply(search("ruby author"))
    messages_api.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    reply = ask(client)
    return [*QUESTION, {"role": "assistant", "content": reply.content}, {"role": "user", "content": "And Python?"}]


@pytest.mark.parametrize("name", ["web_search", "litellm_web_search"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_call_by_the_callers_name_for_the_tool_is_a_search(
    client: Any, messages_api: Any, brave_api: Any, name: str, stream: bool
) -> None:
    """Models remember names that they were not offered in this request; what is sent back has our name, whole and streamed."""
    tool = {**SEARCH, "type": "custom", "name": name, "input_schema": {"type": "object"}} if name[0] == "l" else SEARCH
    messages_api.reply(search("ruby author", name=name))
    messages_api.reply("Matz.")
    if stream:
        with client.messages.stream(model=MODEL, max_tokens=1000, messages=QUESTION, tools=[tool]) as events:
            message = events.get_final_message()
    else:
        message = ask(client, tools=[tool])
    assert kinds(message) == ["server_tool_use", "web_search_tool_result", "text"] and brave_api.queries == ["ruby author"]
    assert messages_api.bodies[-1]["messages"][1]["content"][0]["name"] == "ipy_web_search"


def test_a_tool_of_the_callers_own_with_that_name_stays_the_callers(client: Any, messages_api: Any, brave_api: Any) -> None:
    """`web_fetch` under a schema of the caller's is handed back, though searches are run here."""
    own = {"name": "web_fetch", "description": "Mine.", "input_schema": {"type": "object", "properties": {}}}
    unforced = intercept(anthropic.Anthropic(), enabled_platforms=["bedrock"])
    messages_api.reply(tool_use("web_fetch", {}))
    assert kinds(ask(unforced, tools=[own])) == ["tool_use"]


def elsewhere(answer: Any) -> Any:
    """Return an intercepted client of a server of another maker: `answer` gives status and JSON for a request's body."""

    def handle(request: httpx2.Request) -> httpx2.Response:
        status, body = answer(json.loads(request.content))
        return httpx2.Response(status, json=body)

    http = httpx2.Client(transport=httpx2.MockTransport(handle))
    made = anthropic.Anthropic(api_key="k", base_url="http://127.0.0.1:9", http_client=http, max_retries=0)
    return intercept(made, provider="brave")


def test_servers_that_number_calls_anew_in_every_reply_lose_no_results(brave_api: Any) -> None:
    """A repeated search under the first one's id shows the first one's results again."""

    def answer(body: Any) -> tuple[int, Any]:
        rounds = len(body["messages"]) // 2
        query = {"query": "ruby author" if rounds == 0 else "Ruby author"}
        call = {"type": "tool_use", "id": "call_0", "name": "ipy_web_search", "input": query}
        content = [call] if rounds < 2 else [{"type": "text", "text": "Matz."}]
        facts = {"model": MODEL, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        stop = "tool_use" if rounds < 2 else "end_turn"
        return 200, {"id": "msg_1", "type": "message", "role": "assistant", "content": content, "stop_reason": stop, **facts}

    found = [block.content for block in ask(elsewhere(answer)).content if block.type == "web_search_tool_result"]
    assert len(found) == 2 and [r.url for r in found[0]] == [r.url for r in found[1]] != []


def test_tokens_are_counted_under_a_ceiling_too(client: Any, messages_api: Any) -> None:
    """Counting is free: it asks for no money, and reserves none."""
    api.session().settings.session_budget_usd = 1.0
    for _ in range(3):
        assert client.messages.count_tokens(model=MODEL, messages=QUESTION, tools=[SEARCH]).input_tokens > 0
    assert api.session().budgets.session.reserved == 0 and api.session().budgets.session.spent == 0


def test_a_request_that_is_cached_as_a_whole_gets_no_second_mark(client: Any, messages_api: Any) -> None:
    """The API marks the last block itself, and refuses another lifetime there (the fake does, too)."""
    messages_api.reply(search("ruby author"))
    messages_api.reply("Matz.")
    assert ask(client, cache_control=HOUR).content[-1].text == "Matz."
    last = messages_api.bodies[-1]
    assert last["cache_control"] == HOUR and "cache_control" not in last["messages"][-1]["content"][-1]


def test_beside_results_of_the_callers_that_are_not_cited_ours_are_not_either(client: Any, messages_api: Any) -> None:
    """The API takes all search results of a request with citations, or none (the fake does, too)."""
    own = {"type": "search_result", "source": "notes", "title": "Notes", "content": [{"type": "text", "text": "Ruby is red."}]}
    turns = [{"role": "user", "content": [own, {"type": "text", "text": "Who wrote Ruby?"}]}]
    messages_api.reply(search("ruby author"))
    messages_api.reply("Matz.")
    assert ask(client, messages=turns).content[-1].text == "Matz."


def test_a_tool_that_is_only_there_for_the_history_does_not_silence_the_others(
    client: Any, messages_api: Any, brave_api: Any
) -> None:
    """Without the search, a model that still calls it gets an error, and may call the caller's tool afterwards."""
    history = answered(client, messages_api)
    messages_api.reply(search("python author"))
    messages_api.reply(search("python author again"))
    messages_api.reply(tool_use("read_notes", {}))
    message = ask(client, messages=history, tools=[NOTES])
    assert message.stop_reason == "tool_use" and message.content[-1].name == "read_notes"
    assert brave_api.queries == ["ruby author"]
    ours = next(tool for tool in messages_api.bodies[-1]["tools"] if tool["name"] == "ipy_web_search")
    assert "Do not call it" in ours["description"]


def test_a_model_that_will_not_leave_such_a_tool_alone_is_brought_to_answer(client: Any, messages_api: Any) -> None:
    """After a few refusals all tools are taken away."""
    history = answered(client, messages_api)

    def behave(body: Mapping[str, Any]) -> list[Any]:
        forbidden = (body.get("tool_choice") or {}).get("type") == "none"
        return ["Guido."] if forbidden else [search(f"python {len(messages_api.bodies)}")]

    messages_api.behave(behave)
    before = len(messages_api.bodies)
    assert ask(client, messages=history, tools=[NOTES]).content[-1].text == "Guido."
    assert len(messages_api.bodies) - before == 5


def test_the_usage_of_every_request_is_listed(client: Any, messages_api: Any) -> None:
    """`iterations` has an entry for each request, as the sums beside it are over all of them."""
    for parts in ([search("ruby author")], ["Matz."]):
        messages_api.reply(*parts, usage(input_tokens=100, iterations=[{"type": "message", "input_tokens": 100}]))
    used = ask(client).usage.to_dict()
    assert used["input_tokens"] == 200 and [entry["input_tokens"] for entry in used["iterations"]] == [100, 100]


def test_the_end_of_a_stream_repeats_counts_alone(client: Any, messages_api: Any) -> None:
    """What the API says once at the beginning (its tier, its region) is not said again in `message_delta`."""
    messages_api.reply(search("ruby author"), usage(service_tier="standard", inference_geo="us"))
    messages_api.reply("Matz.", usage(service_tier="standard", inference_geo="us"))
    with client.messages.create(model=MODEL, max_tokens=1000, messages=QUESTION, tools=[SEARCH], stream=True) as stream:
        (end,) = [event for event in stream if event.type == "message_delta"]
    used = end.usage.to_dict()
    assert used["server_tool_use"]["web_search_requests"] == 1 and used["input_tokens"] > 0
    assert not {"service_tier", "inference_geo", "cache_creation"} & set(used)


@pytest.mark.parametrize(
    "messages",
    [
        ["x"],
        [{"role": "user"}],
        [{"role": "user", "content": 5}],
        [{"role": "assistant", "content": [{"type": "text", "text": "a", "citations": ["x"]}]}],
        [{"role": "assistant", "content": [{"type": "text", "text": "a", "citations": 5}]}],
    ],
)
def test_a_history_that_is_no_history_is_the_apis_matter(brave_api: Any, messages: Any) -> None:
    """It goes on as it is, and the caller gets the API's own refusal."""
    sent: list[Any] = []

    def answer(body: Any) -> tuple[int, Any]:
        sent.append(body["messages"])
        return 400, {"type": "error", "error": {"type": "invalid_request_error", "message": "messages: wrong"}}

    with pytest.raises(anthropic.BadRequestError):
        ask(elsewhere(answer), messages=messages)
    assert sent == [messages]


@pytest.mark.parametrize("domain", ["bücher.example", "xn--bcher-kva.example", "BÜCHER.example"])
@pytest.mark.parametrize(("field", "kept"), [("allowed_domains", [0, 1]), ("blocked_domains", [2])])
def test_international_names_are_one_name_however_they_are_written(
    client: Any, messages_api: Any, brave_api: Any, domain: str, field: str, kept: list[int]
) -> None:
    """In the list and in the results, as letters and as ASCII."""
    urls = ["https://bücher.example/x", "https://xn--bcher-kva.example/y", "https://other.example/"]
    brave_api.reply([hit(url, f"Title {n}", "Text.") for n, url in enumerate(urls)])
    messages_api.reply(search("books"))
    messages_api.reply("Here.")
    (found,) = [b.content for b in ask(client, tools=[{**SEARCH, field: [domain]}]).content if "result" in b.type]
    assert [result.url for result in found] == [urls[n] for n in kept]


def test_a_wrong_price_file_is_said_once_and_before_anything_is_paid_for(client: Any, messages_api: Any) -> None:
    """An answer that is paid for is never lost over it."""
    prices = settings_dir() / "prices.toml"
    prices.parent.mkdir(parents=True, exist_ok=True)
    prices.write_text("[[price]]\nprovider = 3\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"prices\.toml"):
        ask(client)
    assert messages_api.requests == []
    answered(client, messages_api)
    assert len(api.cost()) == 3


def test_a_ceiling_that_is_set_during_a_call_counts_what_the_call_costs(client: Any, messages_api: Any) -> None:
    """Rows wait for the end of the call; nothing is forgotten, and nothing counts twice."""
    session = api.session()
    messages_api.reply(search("ruby author"))
    messages_api.reply("Matz.")
    with client.messages.stream(model=MODEL, max_tokens=100, messages=QUESTION, tools=[SEARCH]) as stream:
        for event in stream:
            if event.type == "content_block_stop" and event.content_block.type == "web_search_tool_result":
                session.settings.session_budget_usd = 5.0
                session.budgets.ceilings()
    assert len(messages_api.requests) == 2 and len(api.cost()) == 3
    assert float(session.budgets.session.spent) == pytest.approx(api.cost().usd.sum())
    assert session.budgets.session.reserved == 0


@pytest.mark.parametrize("name", ["web_search", "litellm_web_search", "WebSearch", "ipy_web_search"])
@pytest.mark.parametrize("declared", [SEARCH, {"name": "litellm_web_search"}], ids=["native", "litellm"])
def test_a_call_by_any_of_our_names_is_ours(client: Any, messages_api: Any, declared: Any, name: str) -> None:
    """Whatever the tool was defined as (seed 004, "Response Detection"); no caller gets a call of a tool it never had."""
    messages_api.reply(block({"type": "tool_use", "id": "toolu_1", "name": name, "input": {"query": "ruby author"}}))
    messages_api.reply("Matz.")
    assert kinds(ask(client, tools=[declared])) == ["server_tool_use", "web_search_tool_result", "text"]


def test_a_key_that_went_away_is_told_before_anything_is_sent(
    client: Any, messages_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the same search was made before."""
    answered(client, messages_api)
    sent = len(messages_api.requests)
    monkeypatch.delenv("BRAVE_API_KEY")
    with pytest.raises(MissingKeyError, match="BRAVE_API_KEY"):
        ask(client)
    assert len(messages_api.requests) == sent


def test_calls_with_the_same_id_get_each_its_own_result(brave_api: Any) -> None:
    """Small servers count calls anew in every reply, or not at all."""
    brave_api.reply([hit("https://a.example/", "Red")])
    brave_api.reply([hit("https://b.example/", "Blue")])
    calls = [{"type": "tool_use", "id": "call_0", "name": "ipy_web_search", "input": {"query": q}} for q in ("red", "blue")]
    replies = [calls[:1], calls[1:], [{"type": "text", "text": "Both."}]]
    sent: list[Any] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        content = replies[len(sent)]
        sent.append(json.loads(request.content))
        reason = "tool_use" if content[0]["type"] == "tool_use" else "end_turn"
        reply = {"id": "m", "type": "message", "role": "assistant", "model": MODEL, "content": content, "stop_reason": reason}
        return httpx2.Response(200, json={**reply, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}})

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    with intercept(
        anthropic.Anthropic(api_key="k", base_url="http://local.example", http_client=http), provider="brave"
    ) as made:
        message = ask(made)
    results = [
        part for turn in sent[-1]["messages"] if turn["role"] == "user" for part in turn["content"] if type(part) is dict
    ]
    assert len({part["tool_use_id"] for part in results if part["type"] == "tool_result"}) == 2
    found = {part.tool_use_id: part.content[0].title for part in message.content if part.type == "web_search_tool_result"}
    asked = {part.id: part.input["query"] for part in message.content if part.type == "server_tool_use"}
    assert {asked[call]: title for call, title in found.items()} == {"red": "Red", "blue": "Blue"}


def test_thinking_stays_behind_where_results_may_no_longer_be_cited(client: Any, messages_api: Any) -> None:
    """An output format forbids citations, so the results go up in another form than they did then, and back again."""
    form = {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}, "additionalProperties": False}}}
    messages_api.reply(thinking(), search("ruby author"))
    messages_api.reply(thinking(), "Matz.")
    first = ask(client, thinking={"type": "adaptive"})
    history = [*QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": "And as JSON?"}]
    kept = []
    for options in ({}, {"output_config": form}):
        messages_api.reply("{}")
        ask(client, messages=history, thinking={"type": "adaptive"}, **options)
        turns = [turn["content"] for turn in messages_api.bodies[-1]["messages"] if turn["role"] == "assistant"]
        kept.append([part["type"] for part in turns[1]])
    assert kept == [["thinking", "text"], ["text"]]


def test_bytes_that_are_no_text_cost_no_answer(brave_api: Any) -> None:
    """One byte that is not UTF-8 is replaced, as it is in a stream."""
    reply = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "stop_reason": "end_turn",
        "stop_sequence": None,
    }
    whole = {**reply, "content": [{"type": "text", "text": "caf#"}], "usage": {"input_tokens": 1, "output_tokens": 1}}
    data = json.dumps(whole).encode().replace(b"#", b"\xe9")
    http = httpx2.Client(transport=httpx2.MockTransport(lambda request: httpx2.Response(200, content=data)))
    with intercept(
        anthropic.Anthropic(api_key="k", base_url="http://local.example", http_client=http), provider="brave"
    ) as made:
        assert ask(made).content[0].text == "caf\ufffd"


@pytest.mark.parametrize("stream", [False, True])
def test_half_a_character_in_a_call_does_not_cost_the_answer(
    client: Any, messages_api: Any, brave_api: Any, stream: bool
) -> None:
    """Models write broken escapes of emoji; the next request could not be written with them."""
    messages_api.reply("One \ud83d moment.", search("ruby \ud83d author"))
    messages_api.reply("Matz.")
    if stream:
        events = list(ask(client, stream=True))  # (the SDK's own helper gives up at such a call)
        assert [e.delta.text for e in events if e.type == "content_block_delta" and e.delta.type == "text_delta"][-1] == "Matz."
    else:
        assert kinds(ask(client)) == ["text", "server_tool_use", "web_search_tool_result", "text"]
    sent = messages_api.bodies[-1]["messages"][1]["content"]
    assert sent[0]["text"] == "One � moment." and sent[1]["input"] == {"query": "ruby � author"}
