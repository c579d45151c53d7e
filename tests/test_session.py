"""A session: its event loop in the background, what it sends and refuses, its estimates and reports."""

import asyncio
import inspect
import os
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
import trio

import ipy_websearch
from ipy_websearch import Session, api, background
from ipy_websearch.errors import ConfigError
from ipy_websearch.money.ledger import LedgerRow
from tests.contract.helpers import run
from tests.fakes.replies import held, slow, thinking, tool_use, usage

LOCAL: dict[str, Any] = {"model": "offline", "provider": "local"}

# --- the event loop -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loop", [lambda function: asyncio.run(function()), trio.run], ids=["asyncio", "trio"])
def test_every_coroutine_of_a_session_works_on_any_event_loop_and_again_when_it_was_closed(loop: Any, tmp_path: Any) -> None:
    session = Session()

    async def everything() -> tuple[Any, ...]:
        results = await session.search("moons of Mars", provider="local")
        page = await session.fetch("corpus://planets/mars")
        answer = await session.ask("How many moons does Mars have?", **LOCAL)
        frame = pd.DataFrame({"planet": ["Mars"]})
        filled = await session.enrich(frame, {"moons": ("How many moons does {planet} have?", int)}, progress=False, **LOCAL)
        await session.aclose()
        return results[0].title, page.title, answer.sources.url[0], filled.moons.tolist()

    for _ in range(2):
        assert loop(everything) == ("Mars", "Mars", "corpus://planets/mars", [2])
        assert list(tmp_path.rglob("*.sqlite")) and not list(tmp_path.rglob("*-wal")), (
            "SQLite removes it with the last connection"
        )


def test_a_blocking_call_by_work_in_the_background_is_an_error_and_hangs_nothing() -> None:
    async def work() -> None:
        ipy_websearch.search("moons of Mars", provider="local")

    with pytest.raises(RuntimeError, match="await the session's coroutine"):
        background.run(work)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_gets_a_session_and_a_loop_of_its_own() -> None:
    code = """
import os, threading, warnings
warnings.simplefilter("ignore")
import ipy_websearch
from ipy_websearch import api
ipy_websearch.search("moons of Mars", provider="local")
mine, results = api.session(), []
if (child := os.fork()) == 0:  # a second thread there may have the number of the parent's loop
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    thread = threading.Thread(target=lambda: results.extend(ipy_websearch.search("moons of Saturn", provider="local")))
    thread.start()
    thread.join()
    os._exit(0 if results and api.session() is not mine else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), api.session() is mine, len(ipy_websearch.cost()))
"""
    done = run(code)
    assert done.stdout.split() == ["0", "True", "1"], done.stderr


def test_a_script_ends_cleanly_whatever_is_still_open(messages_api: Any) -> None:
    """Nothing is printed about unclosed sessions, pending tasks or ignored generators, and a stream that was never read holds
    no money: also when another library had a finalizer before, so that ours are called after the loop's end."""
    messages_api.replies("Because.", ["Because " * 400, slow(0.05)], "Because.")
    code = """
import asyncio, weakref
weakref.finalize(weakref, bool)
import anthropic, ipy_websearch
from ipy_websearch import Session
asked = {"model": "claude-sonnet-5-5", "max_tokens": 99, "messages": [{"role": "user", "content": "why?"}]}
search = {"type": "web_search_20250305", "name": "web_search"}
print(asyncio.run(Session().ask("why?")).text)
async def left():
    async for event in Session().start("why?"):
        if type(event).__name__ == "TextDelta":
            break
asyncio.run(left())
unread = ipy_websearch.intercept(anthropic.Anthropic()).messages.create(**asked, tools=[search], stream=True)
"""
    done = run(code, IPY_WEBSEARCH_SESSION_BUDGET_USD="1")
    assert done.stdout.strip() == "Because." and done.stderr == "" and held() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_an_interrupt_in_the_first_milliseconds_stops_the_work_and_leaves_the_loop_usable() -> None:
    """Each of sixty processes is interrupted at another moment while its loop and its first work begin."""
    code = """
import asyncio, os, signal, time
from ipy_websearch import background

ended = []

async def work(seconds):
    began = time.perf_counter()
    while time.perf_counter() - began < 0.003:  # as imports do, which hold the interpreter's lock
        pass
    await asyncio.sleep(seconds)
    ended.append(seconds)

def interrupted(after_s):
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, after_s)
        background.run(lambda: work(1.5))
    except (KeyboardInterrupt, RuntimeError):  # CPython's own locks may have been interrupted
        time.sleep(1.7)
        background.run(lambda: work(0))
        os._exit(ended != [0])

children = []
for n in range(60):
    if (child := os.fork()) == 0:
        interrupted(0.0001 + n * 0.0001)
    children.append(child)
print({os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children})
"""
    assert run(code).stdout.strip() == "{0}"


# --- what is sent, and what is refused ------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_an_effort_is_sent_with_adaptive_thinking_and_is_in_the_steps(
    messages_api: Any, brave_api: Any, session: Any
) -> None:
    """A model that takes none is asked as usual, and a notice says so."""
    messages_api.models.setdefault("claude-haiku-4-5", 64_000)
    messages_api.replies([thinking("Search."), tool_use("web_search", {"query": "ruby author"})], "Matz.", "Matz.")
    answer = await session.ask("Who wrote Ruby?", effort="low", read_pages=0)
    for body in messages_api.bodies:
        assert body["output_config"] == {"effort": "low"} and body["thinking"] == {"type": "adaptive"}
    assert list(answer.steps.effort) == ["low", "", "low"]
    answer = await session.ask("Who wrote Ruby?", model="claude-haiku-4-5", effort="high", tools="none")
    assert not {"output_config", "thinking"} & set(messages_api.bodies[-1]) and "takes no effort" in answer.notices[0]


def test_a_replay_gives_engines_their_addresses_without_touching_the_environment(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, found = engine("searxng"), []
    for begin in (api.session().record, api.session().replay):
        with begin("t.cassette"):
            found.append(list(ipy_websearch.search("ruby author", provider="searxng")))
        monkeypatch.delenv("SEARXNG_BASE_URL", raising=False)
    assert found[0] == found[1] and len(server.requests) == 1 and "SEARXNG_BASE_URL" not in os.environ


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
    ("ask('why', max_searches=-1)", "max_searches is -1; it must be a whole number, 0 or more"),
    ("ask('why', timeout_s=0)", "timeout_s is 0; it must be a number above 0"),
    ("ask('why', tools='magic')", "there is no tool or tool set 'magic'"),
    ("ask('why', provider='brve')", "there is no search engine 'brve'; did you mean 'brave'?"),
    ("ask('why', follow=True)", "there is no earlier answer to follow up on"),
    ("ask('why', allowed_domains='a.com', blocked_domains='b.com')", "allowed_domains and blocked_domains"),
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


@pytest.mark.parametrize(("door", "first", "some"), [("ask", "question", "max_searches"), ("enrich", "frame", "concurrency")])
def test_help_shows_every_option_and_its_default(door: str, first: str, some: str) -> None:
    """Though they are written once, in the options that the session and the magics read."""
    parameters = inspect.signature(getattr(ipy_websearch, door)).parameters
    assert next(iter(parameters)) == first and parameters[some].kind is inspect.Parameter.KEYWORD_ONLY


# --- money --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def answered(messages_api: Any, brave_api: Any, shell: Any) -> Any:
    """A notebook whose one question searched once; its second request read 20,000 tokens from the prompt cache."""
    messages_api.replies(tool_use("web_search", {"query": "mars moons"}), ["Two.", usage(cache_read_input_tokens=20_000)])
    assert shell.run("a = %ask --provider brave how many moons?").ok
    return shell


def test_reports_reach_back_over_sessions(answered: Any) -> None:
    """--all is every session; --since a span or date, over all sessions when it is before this one began."""
    now = datetime.now(UTC)
    for days, usd in ((3, "0.5"), (40, "4")):
        row = LedgerRow(now - timedelta(days=days), "old", "q", "why?", "search", "exa", cost_usd=Decimal(usd))
        api.session().ledger.book([row])
    totals = {"": 0, "--all": 4.5, "--since 7d": 0.5, f"--since {(now - timedelta(days=41)):%Y-%m-%d}": 4.5, "--since 30m": 0}
    own = ipy_websearch.cost().usd.sum()
    assert "prompt caching saved 0.037" in answered.run("%cost").texts()
    assert {line: pytest.approx(own + more) for line, more in totals.items()} == {
        line: answered.run(f"%cost {line}").value.usd.sum() for line in totals
    }


def test_a_plot_without_matplotlib_names_the_extra(answered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "ipy_websearch[plot]" in str(answered.run("%cost --plot --by kind").error)


def test_an_estimate_sends_nothing_and_is_near_the_truth(messages_api: Any, answered: Any) -> None:
    """Tokens, searches, expected and worst cost; the real first request is within a quarter of it, the real cost below."""
    estimate = answered.run("%ask --estimate --provider brave how many moons has Mars?").value
    assert len(messages_api.requests) == 2 and "5 searches" in repr(estimate) and "Nothing was sent." in repr(estimate)
    used = messages_api.usages[0]
    sent = used["input_tokens"] + used["cache_creation_input_tokens"] + used["cache_read_input_tokens"]
    # The fake adds no prompt of its own for tools, as the API does (about 350 tokens).
    assert 0.75 * sent <= estimate.input_tokens - 350 <= 1.25 * sent and sent <= estimate.most_input_tokens
    assert 0 < answered.ns["a"].cost_usd < estimate.worst_usd and 0 < estimate.expected_usd < estimate.worst_usd


def test_an_estimate_knows_ceilings_and_unknown_prices(session: Any) -> None:
    capped, poor = (session.estimate("how many?", budget_usd=usd) for usd in ("0.05", "0.0001"))
    assert capped.worst_usd == Decimal("0.05") == capped.ceiling_usd and not capped.refusal
    assert "raise it to at least" in poor.refusal and poor.refusal in repr(poor)
    unknown = session.estimate("how many?", model="claude-from-the-future")
    assert unknown.worst_usd is None and "unknown" in repr(unknown)
