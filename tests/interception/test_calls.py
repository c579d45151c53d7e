"""One-call interception: one `messages.create` searches, and its reply has the shape of the API's own web search."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch.errors import ConfigError, MissingKeyError
from ipy_websearch.interception import WebSearchInterceptor, intercept
from tests.fakes.engine import hit
from tests.fakes.replies import error, hang_up, server_search, stop, text, thinking, tool_use

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20250910", "name": "web_fetch"}
WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
QUESTION = [{"role": "user", "content": "Who wrote Ruby?"}]


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def ask(client: Any, **options: Any) -> Any:
    """Ask the question with a web search tool."""
    return client.messages.create(**{"model": MODEL, "max_tokens": 1000, "messages": QUESTION, "tools": [SEARCH], **options})


def searches(*queries: str) -> list[Any]:
    """Return the parts of a reply that searches."""
    return [tool_use("ipy_web_search", {"query": query}) for query in queries]


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [block.type for block in message.content]


def results(message: Any) -> list[Any]:
    """Return the contents of the search results in a message."""
    return [block.content for block in message.content if block.type == "web_search_tool_result"]


def test_thinking_stays_as_it_is_in_every_round(client: Any, messages_api: Any) -> None:
    """Thinking goes back to the model unchanged and reaches the caller with its signature."""
    messages_api.reply(thinking("First."), *searches("ruby author"))
    messages_api.reply(thinking("Second."), *searches("ruby name"))
    messages_api.reply(thinking("Third."), "Matz.")
    thought = [b for b in ask(client, thinking={"type": "adaptive"}).content if b.type == "thinking"]
    assert [b.thinking for b in thought] == ["First.", "Second.", "Third."] and all(b.signature for b in thought)


def test_the_same_search_is_made_once_and_shown_twice(client: Any, messages_api: Any, brave_api: Any) -> None:
    """A repeated call gets the results of the first; the engine is asked, and counted, once."""
    messages_api.reply(*searches("ruby author", "Ruby  author"))
    messages_api.reply("Matz.")
    message = ask(client)
    first, second = results(message)
    assert [r.url for r in first] == [r.url for r in second] and len(brave_api.queries) == 1
    assert message.usage.server_tool_use.web_search_requests == 1


def test_silence_after_results_is_asked_about_once(client: Any, messages_api: Any) -> None:
    """An empty end of turn after a search leads to one more request for words."""
    messages_api.reply(*searches("ruby author"))
    messages_api.reply(stop("end_turn"))
    messages_api.reply("Matz.")
    assert ask(client).content[-1].text == "Matz."


@pytest.mark.parametrize("most", [1, 9, 10, 14])
def test_every_search_that_is_allowed_can_be_made_one_by_one(client: Any, messages_api: Any, brave_api: Any, most: int) -> None:
    """The one after them has the API's own code, and then there is an answer."""

    def behave(body: Mapping[str, Any]) -> Any:
        last = (body.get("tool_choice") or {}).get("type") == "none"
        return ["That is all."] if last else searches(f"query number {len(body['messages'])}")

    messages_api.behave(behave)
    message = ask(client, tools=[{**SEARCH, "max_uses": most}])
    codes = [found.error_code for found in results(message) if not isinstance(found, list)]
    assert len(brave_api.requests) == most and codes == ["max_uses_exceeded"] and message.stop_reason == "end_turn"


def test_a_reply_cut_off_in_a_call_runs_nothing(client: Any, messages_api: Any, brave_api: Any) -> None:
    """At max_tokens the call is answered by an error, and the caller sees why the model stopped."""
    messages_api.reply(*searches("ruby author"), stop("max_tokens"))
    message = ask(client)
    assert message.stop_reason == "max_tokens" and brave_api.queries == []
    assert results(message)[0].error_code == "invalid_tool_input"


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "web_search"}, {"type": "any"}], ids=lambda c: c["type"])
def test_a_forced_choice_is_let_go_after_the_first_request(client: Any, messages_api: Any, choice: Any) -> None:
    """It is renamed with the tool; kept, it would force searches for ever."""
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("Matz.")
    ask(client, model="claude-haiku-5-5", tool_choice={**choice, "disable_parallel_tool_use": True})
    first, second = (body["tool_choice"] for body in messages_api.bodies)
    assert first["type"] == choice["type"] and first.get("name", "ipy_web_search") == "ipy_web_search"
    assert second == {"type": "auto", "disable_parallel_tool_use": True}


def test_a_model_that_cannot_be_forced_is_left_the_choice(client: Any, messages_api: Any) -> None:
    """Claude Code forces its search whatever the model; a choice of the caller's own tool is the caller's matter."""
    for choice in ({"type": "tool", "name": "web_search"}, {"type": "any"}):
        messages_api.reply("Matz.")
        ask(client, tool_choice=choice)
        assert messages_api.bodies[-1]["tool_choice"] == {"type": "auto"}
    messages_api.allow_refusals = True
    with pytest.raises(anthropic.BadRequestError, match="tool_choice"):
        ask(client, tools=[SEARCH, WEATHER], tool_choice={"type": "tool", "name": "get_weather"})


def test_the_smaller_of_two_bounds_holds(messages_api: Any, brave_api: Any) -> None:
    """`intercept(max_uses=1)` and the tool's own `max_uses`."""
    messages_api.reply(*searches("one thing", "two things"))
    messages_api.reply("So.")
    ask(intercept(anthropic.Anthropic(), provider="brave", max_uses=1), tools=[{**SEARCH, "max_uses": 5}])
    assert brave_api.queries == ["one thing"]


def test_after_the_limit_other_tools_may_still_be_called(client: Any, messages_api: Any) -> None:
    """Only a second search beyond the limit forbids all calls."""
    messages_api.reply(*searches("one thing", "two things"))
    messages_api.reply(tool_use("get_weather", {"city": "Rome"}))
    message = ask(client, tools=[{**SEARCH, "max_uses": 1}, WEATHER])
    assert message.stop_reason == "tool_use" and message.content[-1].name == "get_weather"


def test_domains_and_country_bind_the_search(client: Any, messages_api: Any, brave_api: Any) -> None:
    """Results outside of the allowed domains, or the allowed path, do not come through."""
    urls = ["https://a.example/docs/x", "https://a.example/blog", "https://evil.example/docs", "https://sub.a.example/docs/"]
    brave_api.reply([hit(url, url, "Text.") for url in urls])
    messages_api.reply(*searches("ruby docs"))
    messages_api.reply("So.")
    place = {"type": "approximate", "country": "DE", "city": "Berlin"}
    message = ask(client, tools=[{**SEARCH, "allowed_domains": ["a.example/docs"], "user_location": place}])
    assert [r.url for r in results(message)[0]] == ["https://a.example/docs/x", "https://sub.a.example/docs/"]
    sent = brave_api.requests[0].values()
    assert str(sent["country"]).upper() == "DE" and "a.example" in json.dumps(sent)


def test_blocked_domains_are_left_out(client: Any, messages_api: Any, brave_api: Any) -> None:
    """A blocked host never shows, a blocked path leaves its host."""
    urls = ["https://a.example/docs/x", "https://a.example/ads/y", "https://evil.example/"]
    brave_api.reply([hit(url, url, "Text.") for url in urls])
    messages_api.reply(*searches("ruby docs"))
    messages_api.reply("So.")
    message = ask(client, tools=[{**SEARCH, "blocked_domains": ["evil.example", "a.example/ads"]}])
    assert [r.url for r in results(message)[0]] == ["https://a.example/docs/x"]


def test_the_users_place_goes_to_the_engine(client: Any, messages_api: Any, brave_api: Any) -> None:
    """City, region and time zone go to an engine that takes them, in its own form; the query stays as the model wrote it."""
    place = {"type": "approximate", "country": "BR", "city": "São Paulo", "region": "SP", "timezone": "America/Sao_Paulo"}
    for where in (place, {**place, "city": "Rio\r\nX-Evil: 1"}, None):
        messages_api.reply(*searches("weather tomorrow"))
        messages_api.reply("So.")
        ask(client, tools=[{**SEARCH, **({"user_location": where} if where else {})}])
    first, second, third = brave_api.requests
    sent = {name.lower(): value for name, value in first.headers.items() if name.lower().startswith("x-loc-")}
    assert sent == {
        "x-loc-city": "Sao Paulo",
        "x-loc-state": "SP",
        "x-loc-timezone": "America/Sao_Paulo",
        "x-loc-country": "BR",
    }
    assert first.values()["country"] == "BR" and brave_api.queries == ["weather tomorrow"] * 3
    assert {name.lower(): value for name, value in second.headers.items()}["x-loc-city"] == "Rio X-Evil: 1"
    assert not any(name.lower().startswith("x-loc-") for name in third.headers)


@pytest.mark.parametrize(
    ("status", "code"),
    [(429, "too_many_requests"), (500, "unavailable"), (401, "unavailable"), (414, "request_too_large")],
)
def test_an_engines_failure_has_the_native_code(client: Any, messages_api: Any, brave_api: Any, status: int, code: str) -> None:
    """The model reads an error and goes on; the search is not counted."""
    brave_api.fail(status, times=3 if status == 500 else 1)
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("I could not search.")
    message = ask(client)
    assert results(message)[0].to_dict() == {"type": "web_search_tool_result_error", "error_code": code}
    assert message.usage.server_tool_use.web_search_requests == 0
    assert messages_api.bodies[1]["messages"][-1]["content"][0]["is_error"] is True


@pytest.mark.parametrize(
    ("given", "code"),
    [({"query": "x"}, "invalid_tool_input"), ({}, "invalid_tool_input"), ({"query": "long " * 300}, "query_too_long")],
    ids=["short", "none", "long"],
)
def test_a_faulty_query_has_the_native_code(
    client: Any, messages_api: Any, brave_api: Any, given: dict[str, Any], code: str
) -> None:
    """Nothing is searched."""
    messages_api.reply(tool_use("ipy_web_search", given))
    messages_api.reply("So.")
    assert results(ask(client))[0].error_code == code and brave_api.queries == []


def test_no_hits_are_an_empty_list(client: Any, messages_api: Any, brave_api: Any) -> None:
    """As the API's own search gives them."""
    brave_api.reply([])
    messages_api.reply(*searches("nothing at all"))
    messages_api.reply("Nothing was found.")
    assert results(ask(client)) == [[]]


def test_a_tool_that_the_api_would_refuse_is_refused_before_anything_is_sent(client: Any, messages_api: Any) -> None:
    """Both domain lists, or a faulty bound."""
    for wrong in (
        {"allowed_domains": ["a.com"], "blocked_domains": ["b.com"]},
        {"max_uses": 0},
        {"allowed_domains": "a.com"},
        {"user_location": "Berlin"},
        {"user_location": {"type": "exact"}},
        {"user_location": {"type": "approximate", "city": 7}},
        {"user_location": {"type": "approximate", "country": "Germany"}},
    ):
        with pytest.raises(ConfigError):
            ask(client, tools=[{**SEARCH, **wrong}])
    assert messages_api.requests == []


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_a_later_request_that_keeps_failing_ends_the_call(messages_api: Any, brave_api: Any, kind: str) -> None:
    """The SDK's own error is raised, and nothing before it is done again."""
    messages_api.reply(*searches("ruby author"))
    for _ in range(3):
        messages_api.reply(error(529))
    with pytest.raises(anthropic.APIStatusError) as caught:
        if kind == "blocking":
            ask(intercept(anthropic.Anthropic(), provider="brave"))
        else:
            asyncio.run(_ask_async())
    assert caught.value.status_code == 529
    assert len(messages_api.requests) == 4 and brave_api.queries == ["ruby author"]


async def _ask_async() -> Any:
    async with intercept(anthropic.AsyncAnthropic(), provider="brave") as client:
        return await client.messages.create(model=MODEL, max_tokens=1000, messages=QUESTION, tools=[SEARCH])


def test_a_lost_connection_in_the_middle_loses_nothing(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The SDK goes on at the same request, not at the beginning."""
    monkeypatch.setattr("time.sleep", lambda _: None)
    messages_api.reply(*searches("ruby author"))
    for _ in range(2):
        messages_api.reply(hang_up())
    messages_api.reply("Matz.")
    assert ask(intercept(anthropic.Anthropic(), provider="brave")).content[-1].text == "Matz."
    assert brave_api.queries == ["ruby author"]
    assert [len(body["messages"]) for body in messages_api.bodies] == [1, 3, 3, 3]


def test_a_failing_first_request_is_the_sdks_matter(client: Any, messages_api: Any) -> None:
    """It is tried again as often as the client says."""
    messages_api.reply(error(529))
    messages_api.reply("Matz.")
    assert ask(client).content[0].text == "Matz."
    messages_api.reply(error(529))
    with pytest.raises(anthropic.APIStatusError):
        ask(client.with_options(max_retries=0))
    assert len(messages_api.requests) == 3


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_whatever_happened_is_sent_back_as_it_was(client: Any, messages_api: Any, brave_api: Any, stream: bool) -> None:
    """Repeated calls, failures, nothing found, pages, citations, limits: the API ties thinking to all that stood before it."""
    tools = [{**SEARCH, "max_uses": 3}, {**FETCH, "citations": {"enabled": True}}]
    asked = [{"role": "user", "content": f"Read {MARS} and search please"}]
    brave_api.reply([hit("https://a.example/", "A", "Matz."), hit("https://b.example/", "B", "Ruby.")])
    brave_api.reply([])
    unknown = tool_use("ipy_web_fetch", {"url": "https://unknown.example/"})
    pages = [tool_use("ipy_web_fetch", {"url": MARS}), tool_use("ipy_web_fetch", {"url": MARS}), unknown]
    messages_api.reply(thinking(), "Look.", *searches("ruby author", "Ruby  author"))
    messages_api.reply(thinking(), text("Matz.", citations=[(0, 0)]), *searches("nothing at all"))
    messages_api.reply(thinking(), *searches("x"), *pages)
    messages_api.reply(thinking(), text("A planet.", citations=[(2, 1)]), *searches("one more", "too many"))
    messages_api.reply(thinking(), "So it is.")
    options = {"messages": asked, "tools": tools, "thinking": {"type": "adaptive"}}
    if stream:
        with client.messages.stream(model=MODEL, max_tokens=1000, **options) as running:
            message = running.get_final_message()
    else:
        message = ask(client, **options)
    before = messages_api.bodies[-1]["messages"]
    messages_api.reply("Yes.")
    content = [block.to_dict() for block in message.content]
    history = [*asked, {"role": "assistant", "content": content}, {"role": "user", "content": "Sure?"}]
    ask(client, **{**options, "messages": history})
    sent = json.loads(json.dumps(messages_api.bodies[-1]["messages"]))
    assert sent[: len(before)] == before
    assert [block["type"] for block in sent[len(before)]["content"]] == ["thinking", "text"]


def test_foreign_searches_are_told_as_text_where_no_tool_is_wanted(brave_api: Any) -> None:
    """A history from the API goes on where nobody knows its blocks; nothing is added to the request."""
    sent: list[Any] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "x",
            "content": [{"type": "text", "text": "So."}],
        }
        return httpx2.Response(
            200, json={**message, "stop_reason": "end_turn", "usage": {"input_tokens": 1, "output_tokens": 1}}
        )

    made = server_search("ruby", [("https://a.example/", "About Ruby")]).make({})
    history = [*QUESTION, {"role": "assistant", "content": [*made, {"type": "text", "text": "Ruby."}]}, *QUESTION]
    with intercept(_platform_client("bedrock", handler)) as client:
        client.messages.create(model="x", max_tokens=99, messages=history)
    assert "tools" not in sent[0] and "tool_choice" not in sent[0]
    assert [b["type"] for b in sent[0]["messages"][1]["content"]] == ["text", "text"]


MARS = "corpus://planets/mars"


def test_a_page_is_fetched_in_the_native_shape(client: Any, messages_api: Any) -> None:
    """A document with its text, cited by characters."""
    messages_api.reply(tool_use("ipy_web_fetch", {"url": MARS}))
    messages_api.reply(text("Mars is a planet.", citations=[(0, 1)]))
    asked = [{"role": "user", "content": f"Read {MARS} please"}]
    message = ask(client, messages=asked, tools=[{**FETCH, "citations": {"enabled": True}}])
    call, result, said = message.content
    assert call.name == "web_fetch" and result.type == "web_fetch_tool_result"
    page = result.content
    assert page.type == "web_fetch_result" and page.url == MARS and page.retrieved_at
    assert page.content.title == "Mars" and page.content.source.media_type == "text/plain"
    (citation,) = said.citations
    assert citation.type == "char_location" and citation.document_index == 0
    assert page.content.source.data[citation.start_char_index : citation.end_char_index] == citation.cited_text
    assert message.usage.server_tool_use.web_fetch_requests == 1
    messages_api.reply("Yes.")
    ask(client, messages=[*asked, {"role": "assistant", "content": message.content}, {"role": "user", "content": "Sure?"}],
        tools=[FETCH])  # fmt: skip
    sent = messages_api.bodies[-1]["messages"][2]["content"][0]["content"]
    assert sent[0]["source"] == MARS and len(sent[0]["content"]) > 1


@pytest.mark.parametrize(
    ("url", "extra", "code"),
    [
        ("https://unknown.example/", {}, "url_not_in_prior_context"),
        (MARS, {"blocked_domains": ["planets"]}, "url_not_allowed"),
        ("http://127.0.0.1:9/", {}, "url_not_allowed"),
        ("https://nowhere.example/", {}, "url_not_accessible"),
    ],
    ids=["unknown", "blocked", "private", "unreachable"],
)
def test_a_page_that_may_not_be_read_has_the_native_code(
    client: Any, messages_api: Any, offline: Any, url: str, extra: dict[str, Any], code: str
) -> None:
    """Only addresses of the conversation are read."""
    messages_api.reply(tool_use("ipy_web_fetch", {"url": url}))
    messages_api.reply("I could not.")
    asked = [{"role": "user", "content": f"Read {MARS}, http://127.0.0.1:9/ and https://nowhere.example/ please"}]
    message = ask(client, messages=asked, tools=[{**FETCH, **extra}])
    assert message.content[1].content.to_dict() == {"type": "web_fetch_tool_result_error", "error_code": code}


def test_the_apis_own_search_passes_untouched(messages_api: Any, brave_api: Any) -> None:
    """Without an engine named, a platform that searches is left to do it, in later turns too."""
    client = intercept(anthropic.Anthropic())
    messages_api.reply(server_search("ruby", [("https://a.example/", "About Ruby")]), "Matz.")
    message = ask(client)
    assert messages_api.bodies[0]["tools"] == [SEARCH]
    messages_api.reply("Yes.")
    ask(client, messages=[*QUESTION, {"role": "assistant", "content": message.content}, {"role": "user", "content": "Sure?"}])
    assert messages_api.bodies[1]["messages"][1]["content"][0]["type"] == "server_tool_use"


def test_listed_platforms_are_the_only_ones(messages_api: Any, brave_api: Any) -> None:
    """`enabled_platforms` forces its platforms and leaves the others."""
    messages_api.reply("Matz.")
    ask(intercept(anthropic.Anthropic(), provider="brave", enabled_platforms=["bedrock"]))
    assert messages_api.bodies[-1]["tools"] == [SEARCH]
    messages_api.reply("Matz.")
    ask(intercept(anthropic.Anthropic(), enabled_platforms=["anthropic"]))
    assert messages_api.bodies[-1]["tools"][0]["name"] == "ipy_web_search"


def test_a_server_that_refuses_the_native_tool_is_helped(messages_api: Any, brave_api: Any) -> None:
    """An address may be anybody's: when it knows no such version, the tool is run here from then on."""
    messages_api.allow_refusals = True
    client = intercept(anthropic.Anthropic())
    unknown = {"type": "web_search_20991231", "name": "web_search"}
    for _ in range(2):
        messages_api.reply(*searches("ruby author"))
        messages_api.reply("Matz.")
        assert ask(client, tools=[unknown]).content[-1].text == "Matz."
    assert len(messages_api.refusals) == 1


def _platform_client(kind: str, handler: Any) -> Any:
    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    match kind:
        case "bedrock":
            return anthropic.AnthropicBedrock(api_key="k", aws_region="us-east-1", http_client=http)
        case "vertex":
            return anthropic.AnthropicVertex(region="us-east5", project_id="p", access_token="t", http_client=http)
        case _:
            return anthropic.AnthropicFoundry(api_key="k", resource="r", http_client=http)


PATHS = {
    "bedrock": "/model/claude-x/invoke",
    "vertex": "/v1/projects/p/locations/us-east5/publishers/anthropic/models/claude-x:rawPredict",
    "foundry": "/anthropic/v1/messages",
}


@pytest.mark.parametrize("kind", ["bedrock", "vertex", "foundry"])
def test_every_platforms_client_is_taken(brave_api: Any, kind: str) -> None:
    """Each request takes the platform's own way; the tool is a custom one, since the platform knows no such version."""
    sent: list[Any] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append((request.url.path, json.loads(request.content)))
        block: dict[str, Any] = {"type": "text", "text": "Matz."}
        if len(sent) == 1:
            block = {"type": "tool_use", "id": "toolu_bdrk_01", "name": "ipy_web_search", "input": {"query": "ruby author"}}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x", "content": [block]}
        reason = "tool_use" if len(sent) == 1 else "end_turn"
        return httpx2.Response(200, json={**message, "stop_reason": reason, "usage": {"input_tokens": 1, "output_tokens": 2}})

    with intercept(_platform_client(kind, handler)) as client:
        tool = {"type": "web_search_20260318", "name": "web_search"}
        message = ask(client, model="claude-x", tools=[tool])
    assert kinds(message) == ["server_tool_use", "web_search_tool_result", "text"] and message.usage.output_tokens == 4
    assert [path for path, _ in sent] == [PATHS[kind]] * 2
    assert [body["tools"][0]["name"] for _, body in sent] == ["ipy_web_search"] * 2
    assert sent[1][1]["messages"][1]["content"][0]["id"] == "toolu_bdrk_01"


def test_wrong_arguments_are_refused_at_once(messages_api: Any) -> None:
    """An unknown engine or platform, a missing key, a bound below 1, a client of something else."""
    with pytest.raises(ConfigError, match="nosuch"):
        intercept(anthropic.Anthropic(), provider="nosuch")
    with pytest.raises(MissingKeyError):
        intercept(anthropic.Anthropic(), provider="tavily")
    with pytest.raises(ConfigError, match="mainframe"):
        WebSearchInterceptor(enabled_platforms=["mainframe"])
    with pytest.raises(ConfigError, match="max_uses"):
        intercept(anthropic.Anthropic(), max_uses=0)
    with pytest.raises(ConfigError, match="object"):
        intercept(object())
