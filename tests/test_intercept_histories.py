"""Histories that clients made shorter, poorer or wrong, and thinking that goes back behind just what it was made behind."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import anthropic
import pydantic
import pytest

from ipy_websearch.interception import intercept, thoughts
from ipy_websearch.interception.interceptor import WebSearchInterceptor
from ipy_websearch.interception.replay import expanded
from ipy_websearch.interception.sources import Sources
from ipy_websearch.model.platforms import PLATFORMS
from tests.fakes.engine import hit
from tests.fakes.replies import error, text, thinking, tool_use

MARS = "corpus://planets/mars"
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search"}
FETCH: dict[str, Any] = {"type": "web_fetch_20250910", "name": "web_fetch", "citations": {"enabled": True}}
WEATHER = {"name": "get_weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
FOUND: list[Any] = [
    {"type": "server_tool_use", "id": "srvtoolu_01N", "name": "web_search", "input": {"query": "ruby author"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_01N",
        "content": [
            {
                "type": "web_search_result",
                "url": "https://r.example/",
                "title": "R",
                "page_age": None,
                "encrypted_content": "Enc",
            }
        ],
    },
]
TOLD = "[Searched the web for 'ruby author'; found: R (https://r.example/)]"
ASKED: dict[str, Any] = {"model": "claude-sonnet-5-5", "max_tokens": 1000}
THINKS = {**ASKED, "thinking": {"type": "adaptive"}}


@pytest.fixture
def api(messages_api: Any, brave_api: Any) -> Any:
    """The fake of the model; every search finds one page, but none where it is for nothing."""

    def found(params: Any) -> list[Any]:
        query = str(params["q"])
        return [] if query.startswith("nothing") else [hit("https://a.example/", f"About {query}", f"{query}: it is so.")]

    brave_api.behave(found)
    return messages_api


@pytest.fixture(params=["this process", "another process"])
def process(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Return what to do between two requests of a conversation: nothing, or to forget as another process does."""
    yield thoughts._known.clear if request.param == "another process" else lambda: None


@pytest.fixture
def client() -> Any:
    """A client whose searches are ours."""
    return intercept(anthropic.Anthropic(max_retries=0), provider="brave")


def user(words: str) -> dict[str, Any]:
    """Return a question."""
    return {"role": "user", "content": words}


def assistant(content: Any) -> dict[str, Any]:
    """Return a reply as it is sent back."""
    return {"role": "assistant", "content": content}


def parts(message: Any) -> list[Any]:
    """Return a reply's content as plain objects."""
    return message.to_dict()["content"]  # type: ignore[no-any-return]


def weather_for(content: list[Any]) -> dict[str, Any]:
    """Return the user's turn with the result of the caller's own tool."""
    (call,) = [part["id"] for part in content if part["type"] == "tool_use"]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "Sunny."}]}


def kinds(message: Any) -> list[str]:
    """Return the types of a message's blocks."""
    return [part["type"] for part in message["content"]]


def search(query: str = "ruby author", id: str | None = None) -> Any:
    """Return a call of our search."""
    return tool_use("ipy_web_search", {"query": query}, id=id)


def only_words(api: Any, client: Any) -> list[Any]:
    """Return a conversation of which the words and their citations are left."""
    api.reply(search())
    api.reply(text("It is so.", citations=[(0, 0)]))
    content = parts(client.messages.create(**ASKED, tools=[SEARCH], messages=[user("Who?")]))
    return [user("Who?"), assistant(content[-1:]), user("And then?")]


# --- citations --------------------------------------------------------------------------------------------------------


def test_citations_of_ours_are_never_sent_as_the_apis(api: Any, client: Any) -> None:
    """Nobody else can read them: a chat that keeps words and citations alone would be refused from then on."""
    history = only_words(api, client)
    api.reply("Then nothing.")
    client.messages.create(**ASKED, messages=history)
    assert api.bodies[-1]["messages"][1] == assistant([{"type": "text", "text": "It is so."}])


def test_citations_of_ours_do_not_make_a_server_one_without_search(api: Any, client: Any) -> None:
    """It would be refused for them, and taken for one that has no search of its own; every later search would be paid here."""
    history, unnamed = only_words(api, client), intercept(anthropic.Anthropic(max_retries=0))
    for messages in (history, [user("A new one.")]):
        api.reply("So.")
        unnamed.messages.create(**ASKED, tools=[SEARCH], messages=messages)
        assert [tool["type"] for tool in api.bodies[-1]["tools"]] == ["web_search_20250305"]


# --- thinking ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["nothing at all", ""], ids=["no results", "an error"])
@pytest.mark.parametrize(("between", "known"), [([], True), ([], False), (["Both, please."], True)])
def test_a_call_beside_a_search_without_results_keeps_its_thinking(
    api: Any, client: Any, query: str, between: list[str], known: bool
) -> None:
    """Clients with types of their own keep the API's fields only; what stands behind the last call is told nowhere else."""
    api.reply(thinking(), search(query), *between, tool_use("get_weather", {"city": "Rome"}))
    content = parts(client.messages.create(**THINKS, tools=[SEARCH, WEATHER], messages=[user("Both?")]))
    for part in content:
        if part["type"] == "web_search_tool_result":
            (part["content"] or part).pop("signature")
    if not known:
        thoughts._known.clear()
    api.reply("Done.")
    client.messages.create(
        **THINKS, tools=[SEARCH, WEATHER], messages=[user("Both?"), assistant(content), weather_for(content)]
    )
    sent = api.bodies[-1]["messages"]
    assert kinds(sent[1]) == ["thinking", "tool_use", *["text" for _ in between], "tool_use"]
    assert kinds(sent[2]) == ["tool_result", "tool_result"]


def test_a_call_behind_a_search_without_results_is_not_drawn_into_another_reply(api: Any, client: Any) -> None:
    """Where the reply before thought nothing, nothing is torn off; the thinking behind the call would not fit."""
    api.reply(search("nothing at all"))
    api.reply(tool_use("get_weather", {"city": "Rome"}), thinking())
    content = parts(client.messages.create(**THINKS, tools=[SEARCH, WEATHER], messages=[user("Both?")]))
    assert "signature" not in content[1]  # nothing follows in its own reply
    api.reply("Done.")
    history = [user("Both?"), assistant(content), weather_for(content)]
    client.messages.create(**THINKS, tools=[SEARCH, WEATHER], messages=history)
    assert [kinds(turn) for turn in api.bodies[-1]["messages"][1::2]] == [["tool_use"], ["tool_use", "thinking"]]


def opened_natively(api: Any, client: Any) -> list[Any]:
    """Return a conversation that another server has searched for."""
    return [user("Who?"), assistant([*FOUND, {"type": "text", "text": "Matz."}]), user("And the weather?")]


@pytest.mark.parametrize("opening", [opened_natively, only_words])
def test_a_turn_under_way_keeps_its_thinking_behind_a_history_that_was_altered(
    api: Any, client: Any, process: Any, opening: Any
) -> None:
    """It was altered in the same way when the turn began; so the thinking fits, and the cached prefix too."""
    history = opening(api, client)
    api.reply(thinking(), search("php author"), tool_use("get_weather", {"city": "Rome"}))
    content = parts(client.messages.create(**THINKS, tools=[SEARCH, WEATHER], messages=history))
    before = api.bodies[-1]["messages"]
    process()
    api.reply(thinking(), "Done.")
    client.messages.create(**THINKS, tools=[SEARCH, WEATHER], messages=[*history, assistant(content), weather_for(content)])
    sent = api.bodies[-1]["messages"]
    assert sent[: len(before)] == before and kinds(sent[len(before)]) == ["thinking", "tool_use", "tool_use"]


def test_later_turns_keep_their_thinking_behind_a_history_that_was_altered(api: Any, client: Any) -> None:
    """What they were made behind is remembered, so the whole conversation goes back as it was, and stays cached."""
    history = opened_natively(api, client)
    for n in range(3):
        api.reply(thinking(), search(f"question {n}"))
        api.reply(thinking(), "So.")
        content = parts(client.messages.create(**THINKS, tools=[SEARCH], messages=history))
        history += [assistant(content), user("And then?")]
    api.reply("So.")
    client.messages.create(**THINKS, tools=[SEARCH], messages=history)
    turns = [kinds(turn) for turn in api.bodies[-1]["messages"][3:] if turn["role"] == "assistant"]
    assert turns == [["thinking", "tool_use"], ["thinking", "text"]] * 3


class Answer(pydantic.BaseModel):
    """What `parse` is to give."""

    name: str


@pytest.mark.parametrize("first", [True, False])
def test_thinking_goes_back_behind_results_of_its_own_form_alone(api: Any, client: Any, first: bool) -> None:
    """`parse` takes results that may not be cited, `create` those that may: in turns, each has thinking of its own."""
    history = [user("Who?")]
    api.reply(thinking(), search())
    for n in range(4):
        api.reply(thinking(), '{"name": "Matz"}')
        asked = {**THINKS, "tools": [SEARCH], "messages": history}
        parsed = first == bool(n % 2)
        made = client.messages.parse(**asked, output_format=Answer) if parsed else client.messages.create(**asked)
        history = [*history, assistant(made.content), user("And then?")]
    turns = [kinds(turn) for turn in api.bodies[-1]["messages"] if turn["role"] == "assistant"]
    assert turns == [["thinking", "tool_use"], ["text"], ["thinking", "text"], ["text"]]


@pytest.mark.parametrize("stream", [False, True])
def test_thinking_that_another_process_made_behind_another_form_is_left_out_when_it_is_refused(
    api: Any, client: Any, stream: bool
) -> None:
    """Nothing in the history says so. It is sent once more without, and never with it again."""
    api.allow_refusals = True
    history = [user("Who?")]
    api.reply(thinking(), search())
    for n in range(4):
        api.reply(thinking(), '{"name": "Matz"}')
        asked = {**THINKS, "tools": [SEARCH], "messages": history}
        if n == 1:
            made: Any = client.messages.parse(**asked, output_format=Answer)
            thoughts._known.clear()
        elif stream:
            with client.messages.stream(**asked) as running:
                made = running.get_final_message()
        else:
            made = client.messages.create(**asked)
        history = [*history, assistant(made.content), user("And then?")]
    assert len(api.refusals) == 1 and "`thinking` block" in api.refusals[0]
    assert [kinds(turn) for turn in api.bodies[-1]["messages"][1::2]][-1] == ["thinking", "text"]


def test_thinking_before_anything_that_was_searched_is_the_callers_own(api: Any, client: Any) -> None:
    """Who leaves turns out of a conversation gets it sent like that: nothing of ours can have changed it."""
    api.issued.bound_to = type("Unbound", (dict,), {"__setitem__": lambda *_: None})()
    history = [user("Hello.")]
    for n in range(3):
        api.reply(thinking(), *(["So."] if n < 2 else [search()]))
        if n == 2:
            api.reply(thinking(), "So.")
        content = parts(client.messages.create(**THINKS, tools=[SEARCH], messages=history))
        history = [*history, assistant(content), user("And then?")][2 if n == 0 else 0 :]
        history[0] = user("Begin.")
    api.reply("So.")
    client.messages.create(**THINKS, tools=[SEARCH], messages=history)
    turns = [kinds(turn) for turn in api.bodies[-1]["messages"] if turn["role"] == "assistant"]
    assert turns == [["thinking", "text"], ["thinking", "tool_use"], ["thinking", "text"]]


def test_other_refusals_are_not_sent_again(api: Any, client: Any) -> None:
    """A budget for thinking that is too small is refused once, and what the API says comes to the caller."""
    api.reply(thinking(), search())
    api.reply("So.")
    content = client.messages.create(**THINKS, tools=[SEARCH], messages=[user("Who?")]).content
    api.reply(error(400, message="thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"))
    with pytest.raises(anthropic.BadRequestError, match="budget_tokens"):
        client.messages.create(**THINKS, tools=[SEARCH], messages=[user("Who?"), assistant(content), user("And?")])


def test_servers_that_sign_nothing_lose_no_thinking(api: Any, client: Any) -> None:
    """The same words with the same signature come twice: what they were made behind then says nothing."""
    api.issued.bound_to = type("Unbound", (dict,), {"__setitem__": lambda *_: None})()
    history = [user("Who?")]
    for n in range(2):
        api.reply(thinking("Hm.", signature="none"), search(f"question {n}"))
        api.reply("So.")
        history += [assistant(parts(client.messages.create(**THINKS, tools=[SEARCH], messages=history))), user("And?")]
    api.reply("So.")
    client.messages.create(**THINKS, tools=[SEARCH], messages=history)
    turns = [kinds(turn) for turn in api.bodies[-1]["messages"] if turn["role"] == "assistant"]
    assert turns == [["thinking", "tool_use"], ["text"]] * 2


def test_only_so_much_thinking_is_remembered(api: Any, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is forgotten first; as digests, so that no conversation is held in memory."""
    monkeypatch.setattr(thoughts, "KEPT", 2)
    for n in range(3):
        api.reply(thinking(), search(f"question {n}"))
        api.reply("So.")
        client.messages.create(**THINKS, tools=[SEARCH], messages=[user("Who?")])
    assert len(thoughts._known) == 2


# --- what a client left out -------------------------------------------------------------------------------------------


def test_a_page_without_its_proof_is_plain_text(api: Any, client: Any) -> None:
    """Clients that keep the API's own fields only lose the proof, and not the page."""
    api.reply(tool_use("ipy_web_fetch", {"url": MARS}))
    api.reply("Read.")
    content = parts(client.messages.create(**ASKED, tools=[FETCH], messages=[user(f"Read {MARS}")]))
    page = content[1]["content"]
    del page["signature"]
    api.reply("Two.")
    client.messages.create(**ASKED, tools=[FETCH], messages=[user(f"Read {MARS}"), assistant(content), user("How many moons?")])
    (result,) = api.bodies[-1]["messages"][2]["content"]
    whole = page["content"]["source"]["data"]
    assert result["content"] == [{"type": "text", "text": f"Mars\n{MARS}\n\n{whole}"}] and "moons" in whole


def test_a_repeated_call_has_its_results_where_the_first_is_gone(api: Any, client: Any) -> None:
    """ "Same call as …" would point to nothing."""
    api.reply(search())
    api.reply(search())
    api.reply("So.")
    content = parts(client.messages.create(**ASKED, tools=[SEARCH], messages=[user("Who?")]))
    for kept, said in ((content, "text"), (content[2:], "search_result")):
        api.reply("So.")
        client.messages.create(**ASKED, tools=[SEARCH], messages=[user("Who?"), assistant(kept), user("And?")])
        assert [part["type"] for part in api.bodies[-1]["messages"][-3]["content"][0]["content"]] == [said]


# --- what another server searched -------------------------------------------------------------------------------------


def taken_apart(*messages: Any) -> list[Any]:
    """Return a history as a model without web tools of its own gets it."""
    return expanded(messages, PLATFORMS["bedrock"], keep_foreign=False, sources=Sources())


@pytest.mark.parametrize("said", [[], [{"type": "text", "text": "I look."}]])
def test_a_paused_turn_of_another_server_ends_with_the_user(said: list[Any]) -> None:
    """A history that ends with the model's words asks it to go on with them, which newer models refuse."""
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "elsewhere"}
    turns = taken_apart(user("Who?"), assistant([*said, thought, *FOUND]))
    assert turns == [
        user("Who?"),
        *([assistant(said)] if said else []),
        {"role": "user", "content": [{"type": "text", "text": TOLD}]},
    ]


def test_a_breakpoint_on_another_servers_call_stays() -> None:
    """The call becomes words together with its result, which a message of the user's may have come before."""
    call, result = FOUND
    marked = {**call, "cache_control": {"type": "ephemeral"}}
    weather = {"type": "tool_use", "id": "toolu_01", "name": "get_weather", "input": {}}
    given = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_01", "content": "Sunny."}]}
    turns = taken_apart(user("Who?"), assistant([marked, weather]), given, assistant([result]), user("And?"))
    assert turns[3] == assistant([{"type": "text", "text": TOLD, "cache_control": {"type": "ephemeral"}}])


def test_a_server_known_to_lack_search_gets_words_also_without_a_web_tool(api: Any) -> None:
    """It would refuse the blocks of the API's own search."""

    def answered(body: Any) -> Any:
        if any("type" in tool for tool in body.get("tools") or ()):
            return error(400, message="tools.0: unknown type")
        return "So."

    api.behave(answered)
    unnamed = intercept(anthropic.Anthropic(max_retries=0))
    unnamed.messages.create(**ASKED, tools=[SEARCH], messages=[user("Who?")])
    unnamed.messages.create(**ASKED, messages=[user("Who?"), assistant([*FOUND]), user("And?")])
    assert api.bodies[-1]["messages"][1] == assistant([{"type": "text", "text": TOLD}])


# --- ids, and what is no history --------------------------------------------------------------------------------------


def test_calls_have_ids_of_their_own_in_the_whole_conversation(api: Any, client: Any) -> None:
    """Small servers count anew in each reply; the API refuses an id that comes twice."""
    history = [user("Who?")]
    for n in range(2):
        api.reply(search(f"question {n}", id="call_0"))
        api.reply("So.")
        history += [assistant(parts(client.messages.create(**ASKED, tools=[SEARCH], messages=history))), user("And?")]
    calls = [part["id"] for turn in api.bodies[-1]["messages"][1::2] for part in turn["content"] if "id" in part]
    assert calls == ["call_0", "call_0_2"]


WRONG: list[tuple[tuple[Any, ...], Any]] = [
    (("messages", 1, "content", 0), None),
    (("messages", 1, "content", 0, "type"), ["text"]),
    (("messages", 1, "content", 1, "content"), True),
    (("messages", 1, "content", 1, "content"), [None]),
    (("messages", 1, "content", 2, "text"), None),
    (("messages", 1, "content", 2, "citations"), [1]),
    (("messages", 1, "content", 3, "name"), []),
    (("messages", 2, "role"), None),
    (("messages", 2, "content", 0, "content"), -1),
    (("messages", 2, "content", 0, "content"), [[]]),
    (("messages", 2, "content", 0, "content", 0, "text"), {}),
    (("messages", 2, "content", 0, "content", 1, "source"), None),
    (("messages", 2, "content", 0, "content", 1, "content"), None),
    (("tools",), True),
]


@pytest.mark.parametrize(("place", "value"), WRONG, ids=lambda part: str(part)[:60])
def test_a_history_that_is_wrong_is_left_to_the_api(brave_api: Any, place: tuple[Any, ...], value: Any) -> None:
    """The API says what is wrong with it; it is sent as it is."""
    note = {"type": "search_result", "source": "https://n.example/", "title": "N", "content": [{"type": "text", "text": "n"}]}
    result = {"type": "tool_result", "tool_use_id": "toolu_02", "content": [{"type": "text", "text": "x"}, note]}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_ipy1_01", "content": []}
    call = {"type": "server_tool_use", "id": "srvtoolu_ipy1_01", "name": "web_search", "input": {"query": "x"}}
    own = {"type": "tool_use", "id": "toolu_02", "name": "get_weather", "input": {}}
    said = [call, found, {"type": "text", "text": "So.", "citations": [{"type": "x"}]}, own]
    body = {
        **ASKED,
        "tools": [SEARCH, FETCH, WEATHER],
        "messages": [user("Who?"), assistant(said), {"role": "user", "content": [result]}],
    }
    interceptor, platform = WebSearchInterceptor(provider="brave"), PLATFORMS["anthropic"]
    run = interceptor.begin(body, platform)
    assert run is not None
    run.close()
    wrong = copy.deepcopy(body)
    at: Any = wrong
    for step in place[:-1]:
        at = at[step]
    at[place[-1]] = value
    assert interceptor.begin(wrong, platform) is None
