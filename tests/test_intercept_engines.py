"""Engines that cannot answer an intercepted client: what is said before money is spent, to the model, and to the user."""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import anthropic
import httpx2
import pytest

from ipy_websearch import api
from ipy_websearch.errors import ConfigError
from ipy_websearch.interception import intercept
from ipy_websearch.interception.telling import MOST_TOLD, tell_once
from ipy_websearch.providers.attempts import all_failed, lasts
from ipy_websearch.results import Attempt
from tests.fakes.replies import tool_use
from tests.running_proxy import Command

MODEL = "claude-sonnet-5-5"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
QUESTION: list[Any] = [{"role": "user", "content": "Who wrote Ruby?"}]
ASKED: dict[str, Any] = {"model": MODEL, "max_tokens": 1000, "messages": QUESTION, "tools": [SEARCH]}
LISTED: dict[str, Any] = {"enabled_platforms": ["anthropic"]}
"""What has searches run here without an engine's name in the call."""

NO_USE = "searching does not work in this conversation now; do not try again"

WRONG = [
    ({"BRAVE_BASE_URL": "localhost:1234"}, {}, "brave", "BRAVE_BASE_URL is 'localhost:1234'; it must be an http"),
    ({"SEARXNG_BASE_URL": "nonsense"}, {}, "searxng", "SEARXNG_BASE_URL is 'nonsense'; it must be an http"),
    ({}, {"mine": {"provider": "brave", "count": 3}}, "mine", "brave has no option 'count'; "),
    ({}, {"mine": {"provider": "wikipedia", "depth": 3}}, "mine", "wikipedia has no option 'depth'; it has: none"),
    ({}, {"mine": {"freshness": "pw"}}, "mine", "search_tools: 'mine' names no engine; write it as {'mine': {'provider'"),
    ({}, {"mine": 5}, "mine", "search_tools: 'mine' is 5; write it as"),
]
wrong = pytest.mark.parametrize(
    ("variables", "tools", "named", "said"), WRONG, ids=["address", "server", "option", "no options", "no engine", "no table"]
)


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """A blocking client of the fake, intercepted, with Brave behind it."""
    with intercept(anthropic.Anthropic(max_retries=0), provider="brave") as made:
        yield made


def searches(*queries: str) -> list[Any]:
    """Return the parts of a reply that searches."""
    return [tool_use("ipy_web_search", {"query": query}) for query in queries]


def codes(message: Any) -> list[str]:
    """Return the error code of each search in a message, "" for one that found something."""
    found = [block.content for block in message.content if block.type == "web_search_tool_result"]
    return ["" if isinstance(content, list) else content.error_code for content in found]


def told(messages_api: Any, request: int = -1) -> list[str]:
    """Return what the model was given for the calls before a request."""
    results = messages_api.bodies[request]["messages"][-1]["content"]
    return [part["text"] for result in results for part in result["content"] if part["type"] == "text"]


def put(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], tools: Any) -> None:
    """Put wrong settings into force."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    api.session().settings.search_tools = tools


# --- a wrong setting ------------------------------------------------------------------------------------------------


@wrong
def test_a_wrong_setting_is_an_error_before_there_is_a_client(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch, variables: Any, tools: Any, named: str, said: str
) -> None:
    """In the words that `%search` has for it."""
    put(monkeypatch, variables, tools)
    with pytest.raises(ConfigError) as searched:
        asyncio.run(api.session().search("ruby author", provider=named))
    with pytest.raises(ConfigError) as raised:
        intercept(anthropic.Anthropic(), provider=named)
    assert str(raised.value) == str(searched.value) and str(raised.value).startswith(said)


@wrong
def test_a_setting_that_goes_wrong_later_costs_no_request(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch, variables: Any, tools: Any, named: str, said: str
) -> None:
    """Each call says it before anything is sent, whole and streamed."""
    put(monkeypatch, {"SEARXNG_BASE_URL": "http://localhost:1"}, {"mine": {"provider": "brave"}})
    client = intercept(anthropic.Anthropic(), provider=named)
    put(monkeypatch, variables, tools)
    with pytest.raises(ConfigError) as raised:
        client.messages.create(**ASKED)
    assert str(raised.value).startswith(said)
    with pytest.raises(ConfigError), client.messages.stream(**ASKED) as running:
        running.get_final_message()
    assert messages_api.bodies == [] and brave_api.requests == []


def test_the_engine_of_the_settings_is_looked_at_too(messages_api: Any, brave_api: Any) -> None:
    """It may be a named tool, with an option that is none."""
    api.session().settings.search_tools = {"mine": {"provider": "brave", "count": 3}}
    api.session().settings.provider = "mine"
    with pytest.raises(ConfigError, match="brave has no option 'count'"):
        intercept(anthropic.Anthropic(), **LISTED).messages.create(**ASKED)
    assert messages_api.bodies == []


def test_the_first_engine_of_the_chain_is_looked_at_too(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody names an engine, and for async clients."""
    client = intercept(anthropic.AsyncAnthropic(), **LISTED)
    monkeypatch.setenv("BRAVE_BASE_URL", "localhost:1234")
    with pytest.raises(ConfigError, match="BRAVE_BASE_URL is 'localhost:1234'"):
        asyncio.run(client.messages.create(**ASKED))
    assert messages_api.bodies == []


def test_a_history_needs_no_engine(client: Any, messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that only sends back what was searched goes out whatever has become of the settings."""
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("Matz.")
    first = client.messages.create(**ASKED)
    messages_api.reply("In 1995.")
    monkeypatch.setenv("BRAVE_BASE_URL", "localhost:1234")
    history = [*QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": "When?"}]
    assert client.messages.create(**{**ASKED, "messages": history, "tools": []}).content[0].text == "In 1995."


def test_a_setting_that_goes_wrong_within_a_call_is_no_wrong_input(
    client: Any, messages_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is told that searching does not work, the user why, and the key is asked for once."""
    replies = iter([searches("ruby author"), searches("ruby language author"), ["I could not search."]])

    def model(body: Any) -> Any:
        monkeypatch.delenv("BRAVE_API_KEY", raising=False)
        return next(replies)

    messages_api.behave(model)
    with pytest.warns(UserWarning) as seen:
        message = client.messages.create(**ASKED)
    assert codes(message) == ["unavailable", "unavailable"] and NO_USE in told(messages_api)[0]
    (line,) = [str(warning.message) for warning in seen]
    assert "BRAVE_API_KEY" in line and line.endswith("; nothing was searched") and "\n" not in line


def test_what_the_model_wrote_wrong_is_its_own_affair(client: Any, messages_api: Any, brave_api: Any) -> None:
    """A domain that is none is an invalid input, nobody is warned, and the next search is made."""
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author", "allowed_domains": ["not a domain"]}))
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("Matz.")
    with warnings.catch_warnings(record=True) as seen:
        assert codes(client.messages.create(**ASKED)) == ["invalid_tool_input", ""]
    assert seen == [] and brave_api.queries == ["ruby author"]


# --- an engine that refuses -----------------------------------------------------------------------------------------

QUOTA = {"plan": "Free", "quota_limit": 2000, "quota_current": 2000, "rate_limit": 1, "rate_current": 0}


@pytest.mark.parametrize(
    ("status", "details", "said"),
    [
        (401, {}, "the key was refused"),
        (403, {}, "the key or its plan does not allow this"),
        (402, {}, "the plan's credits are used up"),
        (422, {"code": "SUBSCRIPTION_TOKEN_INVALID"}, "the key was refused"),
        (429, {"meta": QUOTA}, "the plan's limit per month (2,000 requests) is used up"),
    ],
)
def test_an_engine_that_refuses_for_good_is_asked_once_a_call(
    client: Any, messages_api: Any, brave_api: Any, status: int, details: Any, said: str
) -> None:
    """The model is told that it is no use, the user once and without the key; the next call asks again."""
    body = brave_api.error_body(status, detail=f"no, {os.environ['BRAVE_API_KEY']}\nis not right", **details)
    brave_api.fail(status, body=body, times=2)
    with pytest.warns(UserWarning) as seen:
        for _ in range(2):
            messages_api.reply(*searches("ruby author"))
            messages_api.reply(*searches("ruby language author", "who made ruby"))
            messages_api.reply("I could not search.")
            message = client.messages.create(**ASKED)
            assert codes(message) == ["unavailable"] * 3 and message.usage.server_tool_use.web_search_requests == 0
            assert len(told(messages_api)) == 2 and all(NO_USE in text for text in told(messages_api))
    assert brave_api.queries == ["ruby author"] * 2
    (line,) = [str(warning.message) for warning in seen]
    assert line.startswith(f"brave answered {status}") and said in line and line.endswith("; nothing was searched")
    assert os.environ["BRAVE_API_KEY"] not in line and "\n" not in line
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("Matz.")
    assert codes(client.messages.create(**ASKED)) == [""]


@pytest.mark.parametrize(("status", "tries"), [(500, 3), (429, 1)])
def test_an_engine_that_may_recover_is_asked_again(
    client: Any, messages_api: Any, brave_api: Any, status: int, tries: int
) -> None:
    """In the same call; the model may try once more."""
    brave_api.fail(status, times=tries)
    messages_api.reply(*searches("ruby author"))
    messages_api.reply(*searches("ruby language author"))
    messages_api.reply("Matz.")
    with pytest.warns(UserWarning, match=f"brave answered {status}.*nothing was searched"):
        message = client.messages.create(**ASKED)
    assert codes(message)[1] == "" and NO_USE not in told(messages_api, 1)[0]


def test_a_refusal_that_is_sent_back_reads_as_it_did(client: Any, messages_api: Any, brave_api: Any) -> None:
    """The model finds the words that it was given, also after the message was JSON."""
    brave_api.fail(401)
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("I could not search.")
    first = client.messages.create(**ASKED)
    given = messages_api.bodies[-1]["messages"]
    messages_api.reply("Sorry.")
    history = [*QUESTION, {"role": "assistant", "content": first.to_dict()["content"]}, {"role": "user", "content": "Why?"}]
    client.messages.create(**{**ASKED, "messages": history})
    assert messages_api.bodies[-1]["messages"][: len(given)] == given and NO_USE in str(given)


def test_warnings_that_are_errors_break_no_call(client: Any, messages_api: Any, brave_api: Any, caplog: Any) -> None:
    """The line is logged then; searches of a blocking client run in a thread of their own."""
    brave_api.fail(401)
    messages_api.reply(*searches("ruby author"))
    messages_api.reply("I could not search.")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        message = client.messages.create(**ASKED)
    assert codes(message) == ["unavailable"] and message.content[-1].text == "I could not search."
    assert [record.getMessage().split(":")[0] for record in caplog.records] == ["brave answered 401"]


def test_the_user_hears_that_another_engine_stood_in_for_a_refused_key(
    messages_api: Any, brave_api: Any, wikipedia_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the words of the notice that an answer of `%ask` has; it is said once."""
    monkeypatch.setenv("IPY_WEBSEARCH_CONTACT", "me@example.org")
    client = intercept(anthropic.Anthropic(), **LISTED)
    brave_api.fail(401, times=2)
    messages_api.reply(*searches("ruby author"))
    messages_api.reply(*searches("ruby language author"))
    messages_api.reply("Matz.")
    with pytest.warns(UserWarning) as seen:
        assert codes(client.messages.create(**ASKED)) == ["", ""]
    (line,) = [str(warning.message) for warning in seen]
    assert line.startswith("brave answered 401") and line.endswith("; wikipedia was asked instead")


def test_the_proxy_says_it_in_one_line(messages_api: Any, brave_api: Any) -> None:
    """On the standard error of its process, among what the server says."""
    brave_api.fail(401, times=2)
    with Command("--upstream", messages_api.url, "--provider", "brave") as command:
        for _ in range(2):
            messages_api.reply(*searches("ruby author"))
            messages_api.reply("I could not search.")
            headers = {"x-api-key": messages_api.key, "anthropic-version": "2023-06-01"}
            answer = httpx2.post(f"{command.url}/v1/messages", json=ASKED, headers=headers)
            assert answer.status_code == 200, answer.text
    (line,) = command.said.splitlines()[1:]
    assert "brave answered 401: the key was refused" in line and line.endswith("; nothing was searched")


# --- a mistyped setting ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tools", [{}, {"brvae": {"provider": "brv"}}, {"brvae": 5}], ids=["engine", "its engine", "no table"])
def test_a_mistyped_engine_in_the_settings_is_said_once(messages_api: Any, brave_api: Any, tools: Any) -> None:
    """The first engine there is gets asked, as for `%ask`, in the words of its notice."""
    api.session().settings.provider, api.session().settings.search_tools = "brvae", tools
    client = intercept(anthropic.Anthropic(), **LISTED)
    with pytest.warns(UserWarning) as seen:
        for _ in range(2):
            messages_api.reply(*searches("ruby author"))
            messages_api.reply("Matz.")
            assert codes(client.messages.create(**ASKED)) == [""]
    (line,) = [str(warning.message) for warning in seen]
    assert line.startswith("WebSearch.provider is 'brvae', but ")
    assert line.endswith("; the first available engine was asked instead")


# --- what it rests on -----------------------------------------------------------------------------------------------


def test_a_named_tool_may_change_its_engine_and_its_options(engine: Callable[[str], Any], brave_api: Any) -> None:
    """Engines are kept between calls, and made anew where the setting has changed."""
    tavily = engine("tavily")
    session = api.session()
    for depth in ("basic", "advanced"):
        session.settings.search_tools = {"mine": {"provider": "tavily", "search_depth": depth}}
        asyncio.run(session.search(f"ruby {depth}", provider="mine"))
    session.settings.search_tools = {"mine": {"provider": "brave"}}
    assert asyncio.run(session.search("ruby author", provider="mine")).provider == "brave"
    assert [request.body["search_depth"] for request in tavily.requests] == ["basic", "advanced"]


@pytest.mark.parametrize(("statuses", "lasting"), [((401, 403), True), ((401, 503), False), ((503, 401), False), ((), False)])
def test_a_chain_has_refused_when_all_of_it_has(statuses: tuple[int, ...], lasting: bool) -> None:
    """One engine that may recover is enough to try again."""
    error = all_failed([Attempt(f"e{status}", f"e{status} answered {status}", status) for status in statuses], ())
    assert lasts(error.status, "") is lasting


def test_no_engine_can_fill_the_screen() -> None:
    """Equal problems with other numbers are one; of those that are new each time, a bounded number is told."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for seconds in range(5):
            tell_once(api.session(), f"brave answered 503; try again in {seconds} s")
        for length in range(2 * MOST_TOLD):
            tell_once(api.session(), "brave answered\n" + "x" * length)
    lines = [str(warning.message) for warning in seen]
    assert len(lines) == MOST_TOLD and not any("\n" in line for line in lines)
