"""What a session sends, and what it refuses to: efforts, model names, conversations, recordings, options."""

from __future__ import annotations

import inspect
import os
from typing import Any

import numpy as np
import pytest

import ipy_websearch
from ipy_websearch import Session, background
from ipy_websearch.errors import ConfigError
from tests.fakes.replies import text, thinking, tool_use


def test_half_an_emoji_in_a_question_is_sent_as_a_replacement_character(messages_api: Any) -> None:
    """As a text that was cut in its middle has it."""
    messages_api.reply(text("Hello."))
    assert ipy_websearch.ask("Who is \ud83d?", tools="none").text == "Hello."
    assert "Who is \ufffd?" in str(messages_api.bodies[0])


@pytest.mark.anyio
async def test_an_effort_is_sent_with_adaptive_thinking_and_is_in_the_steps(
    messages_api: Any, brave_api: Any, session: Any
) -> None:
    """Without one, the requests are as they were."""
    messages_api.replies(
        [thinking("Search."), tool_use("web_search", {"query": "ruby author"})], [thinking("Found."), text("Matz.")]
    )
    answer = await session.ask("Who wrote Ruby?", effort="low", read_pages=0)
    for body in messages_api.bodies:
        assert body["output_config"] == {"effort": "low"} and body["thinking"] == {"type": "adaptive"}
    assert answer.text == "Matz." and list(answer.steps.effort) == ["low", "", "low"]
    messages_api.reply("Matz.")
    await session.ask("Who wrote Ruby?")
    assert not {"output_config", "thinking"} & set(messages_api.bodies[-1])
    messages_api.models.setdefault("claude-haiku-4-5", 64_000)
    messages_api.reply("Matz.")
    answer = await session.ask("Who wrote Ruby?", model="claude-haiku-4-5", effort="high", tools="none")
    assert not {"output_config", "thinking"} & set(messages_api.bodies[-1]) and "takes no effort" in answer.notices[0]


# --- recordings -----------------------------------------------------------------------------------------------------------


def test_a_replay_gives_engines_their_addresses_without_touching_the_environment(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One recording runs at a time; its end puts everything back."""
    server, session = engine("searxng"), Session()

    def found() -> list[str]:
        return [hit.url for hit in background.run(lambda: session.search("ruby author", provider="searxng"))]

    with session.record("t.cassette"):
        recorded = found()
        with pytest.raises(ConfigError, match="t.cassette is being recorded"):
            session.replay("t.cassette")
    monkeypatch.delenv("SEARXNG_BASE_URL")
    before, asked = dict(os.environ), len(server.requests)
    with session.replay("t.cassette", instant=True) as replaying:
        assert session.recording is replaying and found() == recorded and dict(os.environ) == before
    assert session.stop_recording() is None and len(server.requests) == asked
    with pytest.raises(ConfigError, match="SEARXNG_BASE_URL"):
        found()


# --- options ---


WRONG = [
    ("search('mars', count='3')", "count is '3'; it must be a whole number"),
    ("search(5)", "query is 5; it must be text"),
    ("search('mars', freshness=7)", "freshness is 7; it must be text"),
    ("search('mars', allowed_domains=[5])", "allowed_domains is [5]; it must be one text or a list of texts"),
    ("ask(None)", "question is None; it must be text"),
    ("ask('why', timeout_s='5')", "timeout_s is '5'; it must be a number"),
    ("ask('why', tools=5)", "tools is 5; it must be one text or a list of texts"),
    ("ask('why', budget_usd='much')", "budget_usd is 'much'; it must be an amount"),
    ("fetch('corpus://planets/mars', offset=1.5)", "offset is 1.5; it must be a whole number"),
    ("fetch('corpus://planets/mars', offset=None)", "offset is None; it must be a whole number"),
    ("cost(by=['day'])", "by is ['day']; it must be text"),
    ("cost(everything='yes')", "everything is 'yes'; it must be True or False"),
    ("cost(since='yesterday')", "since is 'yesterday'; it must be a span such as '7d'"),
    ("ask('why', max_serches=3)", "there is no option 'max_serches'; did you mean 'max_searches'?"),
    ("ask('why', max_steps=0)", "max_steps is 0; it must be a whole number, 1 or more"),
    ("ask('why', effort='most')", "effort is 'most'; it must be one of low, medium, high"),
    ("ask('  ')", "there is no question"),
    ("await Session().search('why', freshnes='pd')", "there is no option 'freshnes'; did you mean 'freshness'?"),
    ("enrich(df, {'a': 'Who leads {c}?'}, sample=1.5)", "sample is 1.5; it must be a whole number"),
]


def test_an_argument_of_the_wrong_type_is_one_line_and_nothing_is_sent(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """It names the argument, its value and what to write; a notebook shows that line alone."""
    shell.run("from ipy_websearch import *; import pandas as pd; df = pd.DataFrame({'c': ['Acme']})")
    for call, words in WRONG:
        ran = shell.run(call)
        assert type(ran.error) is ConfigError and str(ran.error).startswith(words) and "\n" not in str(ran.error), call
        assert ran.stderr + ran.stdout == f"ConfigError: {ran.error}\n"
    assert not messages_api.requests and not brave_api.requests


def test_numbers_of_numpy_are_numbers() -> None:
    """A count out of a column is as good as one that was typed."""
    assert len(ipy_websearch.search("moons of Mars", count=np.int64(2), provider="local")) == 2  # type: ignore[arg-type]
    asked = ipy_websearch.ask("How many moons has Mars?", model="offline", provider="local", timeout_s=np.float32(9))  # type: ignore[arg-type]
    assert asked.text


@pytest.mark.parametrize(("door", "first", "some"), [("ask", "question", "max_searches"), ("enrich", "frame", "concurrency")])
def test_help_shows_every_option_and_its_default(door: str, first: str, some: str) -> None:
    """Though they are written once, in the options that the session and the magics read."""
    parameters = inspect.signature(getattr(ipy_websearch, door)).parameters
    assert next(iter(parameters)) == first and parameters[some].kind is inspect.Parameter.KEYWORD_ONLY
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
