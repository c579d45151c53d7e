"""What Python callers give in the wrong form is one line that says what to write, before anything is sent."""

from __future__ import annotations

import inspect
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import ipy_websearch
from ipy_websearch.errors import ConfigError

WRONG = [
    ("search('mars', count='3')", "count is '3'; it must be a whole number"),
    ("search('mars', count=2.5)", "count is 2.5; it must be a whole number"),
    ("search('mars', count=True)", "count is True; it must be a whole number"),
    ("search(5)", "query is 5; it must be text"),
    ("search('mars', freshness=7)", "freshness is 7; it must be text"),
    ("search('mars', provider=7)", "provider is 7; it must be text"),
    ("search('mars', allowed_domains=[5])", "allowed_domains is [5]; it must be one text or a list of texts"),
    ("search('mars', goggles=5)", "goggles is 5; it must be one text or a list of texts"),
    ("ask(None)", "question is None; it must be text"),
    ("ask('why', max_searches='3')", "max_searches is '3'; it must be a whole number"),
    ("ask('why', timeout_s='5')", "timeout_s is '5'; it must be a number"),
    ("ask('why', model=5)", "model is 5; it must be text"),
    ("ask('why', tools=5)", "tools is 5; it must be one text or a list of texts"),
    ("ask('why', columns=5)", "columns is 5; it must be one text or a list of texts"),
    ("ask('why', budget_usd='much')", "budget_usd is 'much'; it must be an amount"),
    ("fetch(5)", "url is 5; it must be text"),
    ("fetch('corpus://planets/mars', limit='3')", "limit is '3'; it must be a whole number"),
    ("fetch('corpus://planets/mars', offset=1.5)", "offset is 1.5; it must be a whole number"),
    ("cost(since='yesterday')", "since is 'yesterday'; it must be a span such as '7d'"),
    ("cost(since=5)", "since is 5; it must be a span such as '7d'"),
    ("enrich(df, {'a': 'Who leads {c}?'}, concurrency='4')", "concurrency is '4'; it must be a whole number"),
    ("enrich(df, {'a': 'Who leads {c}?'}, sample='4')", "sample is '4'; it must be a whole number"),
    ("ask('why', max_serches=3)", "there is no option 'max_serches'; did you mean 'max_searches'?"),
    ("ask('why', max_steps=0)", "max_steps is 0; it must be 1 or more"),
    ("ask('why', effort='most')", "effort is 'most'; it must be one of low, medium, high"),
    ("ask('  ')", "there is no question"),
    ("await Session().ask('why', serch=3)", "there is no option 'serch'"),
    ("await Session().search('why', freshnes='pd')", "there is no option 'freshnes'; did you mean 'freshness'?"),
    ("enrich(df, {'a': 'Who leads {c}?'}, concurency=4)", "there is no option 'concurency'; did you mean 'concurrency'?"),
    ("enrich(df, {'a': 'Who leads {c}?'}, sample=1.5)", "sample is 1.5; it must be a whole number"),
]


@pytest.mark.parametrize(("call", "words"), WRONG, ids=[call for call, _ in WRONG])
def test_an_argument_of_the_wrong_type_is_one_line_and_nothing_is_sent(
    messages_api: Any, brave_api: Any, shell: Any, call: str, words: str
) -> None:
    """It names the argument, its value and what to write; a notebook shows that line alone."""
    shell.run("from ipy_websearch import *; import pandas as pd; df = pd.DataFrame({'c': ['Acme']})")
    ran = shell.run(call)
    assert type(ran.error) is ConfigError and str(ran.error).startswith(words) and "\n" not in str(ran.error)
    assert ran.stderr + ran.stdout == f"ConfigError: {ran.error}\n"
    assert not messages_api.requests and not brave_api.requests


def test_numbers_of_numpy_are_numbers() -> None:
    """A count out of a column is as good as one that was typed."""
    assert len(ipy_websearch.search("moons of Mars", count=np.int64(2), provider="local")) == 2  # type: ignore[arg-type]
    asked = ipy_websearch.ask("How many moons has Mars?", model="offline", provider="local", timeout_s=np.float32(9))  # type: ignore[arg-type]
    assert asked.text


def test_the_cost_since_a_span_is_what_the_magic_shows(shell: Any) -> None:
    """`cost(since="7d")`, a date and a timedelta; of all sessions when that is before this one began."""
    shell.run("%ask --model offline --provider local How many moons has Mars?")
    rows = len(shell.run("%cost --rows --since 7d").value)
    week = datetime.now(UTC) - timedelta(days=7)
    for since in ("7d", timedelta(days=7), week, week.date(), f"{week:%Y-%m-%d}"):
        frame = ipy_websearch.cost(since=since)
        assert len(frame) == rows > 0 and "all sessions" in frame.attrs.get("scope", frame.summary.scope)  # type: ignore[operator]
    assert len(ipy_websearch.cost(since=datetime.now(UTC) + timedelta(hours=1))) == 0


@pytest.mark.parametrize(("door", "first", "some"), [("ask", "question", "max_searches"), ("enrich", "frame", "concurrency")])
def test_help_shows_every_option_and_its_default(door: str, first: str, some: str) -> None:
    """Though they are written once, in the options that the session and the magics read."""
    parameters = inspect.signature(getattr(ipy_websearch, door)).parameters
    assert next(iter(parameters)) == first and parameters[some].kind is inspect.Parameter.KEYWORD_ONLY
    assert not any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
