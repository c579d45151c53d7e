"""Every field of the API's own web tools: held, without effect for good reason, or refused in one line; never a crash."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError
from ipy_websearch.interception import intercept
from ipy_websearch.interception.definition import Bounds
from ipy_websearch.interception.detection import kind_of, wanted_tools
from ipy_websearch.interception.tools import bare_domains
from ipy_websearch.model.platforms import PLATFORMS
from tests.fakes.engine import hit
from tests.fakes.replies import tool_use

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20260318", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20260318", "name": "web_fetch"}
NOTES = {"name": "read_notes", "input_schema": {"type": "object", "properties": {}}}
MARS = "corpus://planets/mars"
ALL, NONE = {"type": "all"}, {"type": "none"}
SHORT, HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(), provider="brave") as made:
        yield made


def ask(client: Any, tools: list[Any], messages: Any = f"Read {MARS} please", **options: Any) -> Any:
    """Ask with web tools."""
    turns = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    return client.messages.create(model=MODEL, max_tokens=1000, messages=turns, tools=tools, **options)


def fetches(*urls: str) -> list[Any]:
    """Return the parts of a reply that reads pages."""
    return [tool_use("ipy_web_fetch", {"url": url}) for url in urls]


def outcomes(message: Any) -> list[str]:
    """Return what became of each fetch: the type of its result, or the code of its error."""
    found = [block.content for block in message.content if block.type == "web_fetch_tool_result"]
    return [getattr(content, "error_code", None) or content.type for content in found]


def named(kind: str, *names: str) -> dict[str, Any]:
    """Return a filter of `url_sources` that names tools."""
    return {"type": kind, "tools": [{"type": "tool_reference", "name": name} for name in names]}


# --- all fields -----------------------------------------------------------------------------------------------------

WHOLE = {
    "allowed_callers": ["direct", "code_execution_20260120"],
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
    "defer_loading": True,
    "max_uses": 3,
    "response_inclusion": "excluded",
    "strict": True,
}


def test_a_definition_with_every_field_is_taken(client: Any, messages_api: Any, brave_api: Any) -> None:
    """The model gets plain tools; calls are the model's own, so `response_inclusion` leaves their results in the reply."""
    place = {"type": "approximate", "city": "Rome", "country": "IT", "region": "Lazio", "timezone": "Europe/Rome"}
    search = {**SEARCH, **WHOLE, "blocked_domains": ["evil.example"], "user_location": place}
    fetch = {**FETCH, **WHOLE, "allowed_domains": ["planets"], "citations": {"enabled": True}, "max_content_tokens": 5_000}
    fetch |= {"url_sources": {"user_input": ALL, "client_tool_results": NONE, "server_tool_results": ALL}, "use_cache": False}
    messages_api.reply(tool_use("ipy_web_search", {"query": "mars moons"}), *fetches(MARS))
    messages_api.reply("So.")
    message = ask(client, [search, fetch])
    pairs = ["server_tool_use", "web_search_tool_result", "server_tool_use", "web_fetch_tool_result"]
    assert [block.type for block in message.content] == [*pairs, "text"] and outcomes(message) == ["web_fetch_result"]
    sent = messages_api.bodies[0]["tools"]
    assert [tool["name"] for tool in sent] == ["ipy_web_search", "ipy_web_fetch"]
    assert {name for tool in sent for name in tool} == {"name", "description", "input_schema", "cache_control"}


FIELDS = [*WHOLE, "allowed_domains", "blocked_domains", "user_location"]
FETCH_FIELDS = ["citations", "max_content_tokens", "url_sources", "use_cache"]
ODD = [
    *((SEARCH, field, value) for field in FIELDS for value in (7.5, "nonsense", {"type": 1}, [[]])),
    *((FETCH, field, value) for field in FETCH_FIELDS for value in (7.5, "nonsense", {"type": 1}, [[]], {"enabled": "yes"})),
    (SEARCH, "max_uses", True),
    (FETCH, "max_content_tokens", 0),
    (SEARCH, "allowed_domains", ["https://a.example"]),
    (SEARCH, "allowed_domains", ["*.a.example"]),
    (SEARCH, "blocked_domains", ["a.example", ""]),
    (FETCH, "url_sources", {"user_input": named("only", "web_search")}),
    (FETCH, "url_sources", {"client_tool_results": named("only", "not_there")}),
]


def test_a_field_that_is_not_of_its_form_is_refused_in_a_line(client: Any, messages_api: Any) -> None:
    """The line names field, tool and value; nothing is sent."""
    harmless = [({"type": 1}, "citations")]
    for tool, field, value in ODD:
        if (value, field) in harmless:
            continue
        with pytest.raises(ConfigError, match=field) as caught:
            ask(client, [SEARCH, {**tool, field: value}] if tool is FETCH else [{**tool, field: value}])
        text = str(caught.value)
        assert "\n" not in text and len(text) < 400 and tool["name"] in text
    assert messages_api.requests == []


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "tools", "name", "ttl", "enabled", "user_input", "x"]) | st.text(), inner)
    ),
    max_leaves=6,
)


@given(
    st.sampled_from([SEARCH, FETCH]),
    st.dictionaries(st.sampled_from([*FIELDS, *FETCH_FIELDS, "name", "type", "input_schema", "unknown"]), _json, max_size=4),
)
def test_whatever_is_in_a_definition_it_is_taken_or_refused(tool: Any, fields: dict[str, Any]) -> None:
    """No value of any field does anything else."""
    try:
        wanted = wanted_tools([{**tool, **fields}, NOTES], PLATFORMS["bedrock"], forced=False)
    except ConfigError as exc:
        assert "\n" not in str(exc)
    else:
        assert wanted is None or wanted.bounds
        assert wanted is None or all(bare_domains(bounds) is not None for bounds in wanted.bounds.values())


def test_what_is_no_tool_at_all_is_the_apis_matter(brave_api: Any) -> None:
    """It passes untouched, beside a web tool or without one, and the server says what it thinks of it."""
    sent: list[Any] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content)["tools"])
        problem = {"type": "invalid_request_error", "message": "tools.0: Input should be an object"}
        return httpx2.Response(400, json={"type": "error", "error": problem})

    http = httpx2.Client(transport=httpx2.MockTransport(handler))
    client = intercept(anthropic.Anthropic(api_key="k", base_url="http://local.example", http_client=http))
    body = {"model": MODEL, "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
    for odd in ("web_search", None, ["web_search"], 5):
        assert kind_of(odd) is None
        for tools in ([odd], [odd, {"name": "ipy_web_search"}]):
            with pytest.raises(anthropic.BadRequestError, match="Input should be an object"):
                client.post("/v1/messages", cast_to=object, body={**body, "tools": tools})
            assert sent[-1][0] == odd
    with pytest.raises(anthropic.BadRequestError):
        client.post("/v1/messages", cast_to=object, body={**body, "tools": {"name": "web_search"}})


# --- pages ----------------------------------------------------------------------------------------------------------


def test_max_content_tokens_cuts_pages_and_says_where_they_go_on(client: Any, messages_api: Any, public_web: Any) -> None:
    """About four characters a token, in whole lines; the rest can be asked for."""
    lines = "".join(f"<p>Line number {number} of the guide says nothing new.</p>" for number in range(200))
    url = public_web.page("http://guide.example/", f"<html><title>Guide</title><body><h1>Guide</h1>{lines}</body></html>")
    sizes = {}
    for limit in (None, 100, 1):
        messages_api.reply(*fetches(url))
        messages_api.reply("So.")
        message = ask(client, [{**FETCH, **({"max_content_tokens": limit} if limit else {})}], f"Read {url} please")
        sizes[limit] = message.content[1].content.content.source.data
    assert len(sizes[None]) > 5_000 and 200 < len(sizes[100]) < 500 and "next_offset: " in sizes[100]
    assert sizes[1].startswith("# Gu") and "cut at 4 characters" in sizes[1]


def test_without_use_cache_a_page_is_had_anew(client: Any, messages_api: Any, public_web: Any) -> None:
    """Otherwise a page that was read a moment ago comes out of the cache."""
    url = "http://news.example/"
    seen = []
    for number, extra in enumerate(({}, {"use_cache": True}, {"use_cache": False})):
        public_web.page(
            url, f"<html><title>News</title><body><p>Edition number {number} of the news of today.</p></body></html>"
        )
        messages_api.reply(*fetches(url))
        messages_api.reply("So.")
        seen.append(ask(client, [{**FETCH, **extra}], f"Read {url} please").content[1].content.content.source.data)
    assert ["number 0" in seen[0], "number 0" in seen[1], "number 2" in seen[2]] == [True] * 3


def test_a_path_in_the_domains_of_a_fetch_fits_no_page(client: Any, messages_api: Any) -> None:
    """As in the API, where fetches go by the domain alone; an allowed path therefore allows nothing."""
    for extra, outcome in (
        ({"allowed_domains": ["planets/mars"]}, "url_not_allowed"),
        ({"allowed_domains": ["planets/*"]}, "web_fetch_result"),  # the whole of the domain
        ({"blocked_domains": ["planets/mars"]}, "web_fetch_result"),
        ({"blocked_domains": ["planets"]}, "url_not_allowed"),
    ):
        messages_api.reply(*fetches(MARS))
        messages_api.reply("So.")
        assert outcomes(ask(client, [{**FETCH, **extra}])) == [outcome]


def test_stars_stand_in_the_paths_of_a_search(client: Any, messages_api: Any, brave_api: Any) -> None:
    """`example.com/*/docs` is any page below such a path; brackets and question marks are just that."""
    urls = ["https://a.example/v1/docs/x", "https://a.example/docs", "https://b.example/any", "https://c.example/x"]
    for allowed, kept in (
        (["a.example/*/docs", "b.example/*"], [urls[0], urls[2]]),
        (["a.example/[dv]ocs", "a.example/doc?"], []),
    ):
        brave_api.reply([hit(url, url, "Text.") for url in urls])
        messages_api.reply(tool_use("ipy_web_search", {"query": f"docs for {len(kept)}"}))
        messages_api.reply("So.")
        message = ask(client, [{**SEARCH, "allowed_domains": allowed}])
        assert [result.url for result in message.content[1].content] == kept
    assert bare_domains(Bounds(allowed_domains=("a.example/x", "a.example/y"))) == (("a.example",), ())


def test_results_on_other_paths_take_no_place(client: Any, messages_api: Any, brave_api: Any) -> None:
    """Engines know hosts alone, so more is asked for than the model gets."""
    urls = [f"https://a.example/{where}/{n}" for where in ("blog", "docs") for n in range(8)]
    for n, lists in enumerate(({"allowed_domains": ["a.example/docs"]}, {"blocked_domains": ["a.example/blog"]})):
        brave_api.reply([hit(url, url, "Text.") for url in urls])
        messages_api.reply(tool_use("ipy_web_search", {"query": f"docs {n}"}))
        messages_api.reply("So.")
        message = ask(client, [{**SEARCH, **lists}])
        assert [result.url for result in message.content[1].content] == urls[8:13]
        assert brave_api.requests[-1].params["count"] == "20"


# --- which addresses may be read ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sources", "asked", "noted", "found"),
    [
        ({}, True, True, True),
        ({"user_input": NONE}, False, True, True),
        ({"client_tool_results": NONE}, True, False, True),
        ({"client_tool_results": named("except", "read_notes")}, True, False, True),
        ({"client_tool_results": named("only", "read_notes"), "server_tool_results": NONE}, True, True, False),
        ({"server_tool_results": named("only", "web_fetch")}, True, True, False),
        ({"server_tool_results": named("only", "web_search"), "user_input": NONE}, False, True, True),
        ({"server_tool_results": named("except", "web_search")}, True, True, False),
    ],
    ids=["all", "not-users", "no-client", "but-notes", "notes-only", "fetched-only", "searched-only", "not-searched"],
)
@pytest.mark.parametrize("later", [False, True], ids=["same-call", "next-call"])
def test_url_sources_say_whose_addresses_may_be_read(
    client: Any,
    messages_api: Any,
    brave_api: Any,
    public_web: Any,
    sources: Any,
    asked: bool,
    noted: bool,
    found: bool,
    later: bool,
) -> None:
    """The user's, those in the results of the caller's tools, and those that a search found: in this call and in later ones."""
    user, note = "corpus://planets/mars", "corpus://planets/venus"
    hit_url = public_web.page("http://saturn.example/", "<html><title>Saturn</title><body><p>A planet it is.</p></body></html>")
    tools = [SEARCH, {**FETCH, "url_sources": sources}, NOTES]
    history: list[Any] = [
        {"role": "user", "content": f"About {user} please"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read_notes", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": f"See {note} too."}]},
    ]
    brave_api.reply([hit(hit_url, "Saturn", "A planet.")])
    messages_api.reply(tool_use("ipy_web_search", {"query": "planets"}))
    if later:
        messages_api.reply("Found.")
        message = ask(client, tools, history)
        history = [*history, {"role": "assistant", "content": message.content}, {"role": "user", "content": "Read them."}]
    messages_api.reply(*fetches(user, note, hit_url))
    messages_api.reply("So.")
    expected = ["web_fetch_result" if known else "url_not_in_prior_context" for known in (asked, noted, found)]
    assert outcomes(ask(client, tools, history)) == expected


def test_what_the_model_says_is_no_source(client: Any, messages_api: Any) -> None:
    """An address in an earlier answer was made up by the model, or by somebody who talked it into it."""
    history = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": f"See {MARS}."},
        {"role": "user", "content": "Read it."},
    ]
    messages_api.reply(*fetches(MARS))
    messages_api.reply("So.")
    assert outcomes(ask(client, [FETCH], history)) == ["url_not_in_prior_context"]


# --- caching --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tools", "expected"),
    [
        ([{**SEARCH, "cache_control": SHORT}], SHORT),
        ([{**SEARCH, "cache_control": HOUR}, FETCH], HOUR),
        (
            [
                {**SEARCH, "cache_control": HOUR},
                {**NOTES, "cache_control": SHORT},
            ],
            SHORT,
        ),
        ([SEARCH, {**NOTES, "cache_control": SHORT}], None),
    ],
    ids=["short", "hour", "behind-a-shorter", "not-ours"],
)
def test_the_callers_breakpoint_stays_with_its_time(client: Any, messages_api: Any, tools: Any, expected: Any) -> None:
    """On the last of our tools, which stand behind the caller's: an hour behind five minutes would be refused."""
    messages_api.reply("So.")
    ask(client, tools)
    assert messages_api.bodies[0]["tools"][-1].get("cache_control") == expected
