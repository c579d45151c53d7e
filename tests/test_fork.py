"""Forked processes: a child searches, asks, pays and ends like any process, and its parent notices nothing of it.

What a child does before it ends as Python ends is run in a process of its own (a test cannot end that way); a hang fails.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from ipy_websearch.database import Database
from ipy_websearch.extract.worker import ExtractionWorker
from ipy_websearch.http.client import HttpClient
from ipy_websearch.http.loops import PerLoop
from ipy_websearch.http.places import Places
from ipy_websearch.ledger import Ledger
from ipy_websearch.ledger_rows import LedgerRow
from tests.fakes.replies import tool_use
from tests.fakes.scripted import Scripted

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork"),
    pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning"),
]
ROOT = str(Path(__file__).parents[1])
FOUND = {"results": [{"title": "Mars", "url": "http://example.org/mars", "content": "two moons"}]}

PRELUDE = """
    import asyncio, json, multiprocessing, os, signal, sys, threading, time, warnings
    from decimal import Decimal

    import ipy_websearch as w

    warnings.filterwarnings("ignore", "This process.*is multi-threaded", DeprecationWarning)
    told = {}

    def search(query, provider="searxng"):
        return w.search(query, provider=provider, fresh=True)[0].title

    def child(work=lambda: None):
        "Return the exit code of a child that ends as Python does; one that hangs is ended by a signal."
        child = os.fork()
        if not child:
            signal.alarm(10)
            work()
            sys.exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def worker(work):
        "Return the exit code of a process of multiprocessing, None when it hangs."
        process = multiprocessing.get_context("fork").Process(target=work)
        process.start()
        process.join(10)
        process.kill()
        return process.exitcode
"""


@pytest.fixture
def searxng(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A search engine on loopback; `peers` of its requests tell connections apart."""
    with Scripted() as server:
        server.answer(FOUND)
        monkeypatch.setenv("SEARXNG_BASE_URL", server.url)
        yield server
    server.check()


def ran(script: str) -> dict[str, Any]:
    """Run a script after the prelude; return what it told. It is to end within 30 s, and to write no errors."""
    code = dedent(PRELUDE) + dedent(script) + "\nprint(json.dumps(told))\n"
    options: dict[str, Any] = {"env": {**os.environ, "PYTHONPATH": ROOT}, "text": True, "start_new_session": True}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code], **pipes, **options) as process:
        try:
            out, errors = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # its children hold the pipes, too
            raise
    assert errors == "" and process.returncode == 0
    return json.loads(out.splitlines()[-1])  # type: ignore[no-any-return]


def exit_code(work: Callable[[], object]) -> int:
    """Return 0 when `work` gives something true in a child, which has 10 s for that."""
    child = os.fork()
    if not child:
        try:
            signal.alarm(10)
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


# --- what children do --------------------------------------------------------------------------------------------------


def test_a_child_that_does_nothing_ends_and_the_parent_keeps_its_connection(searxng: Scripted) -> None:
    """Nobody waits for a thread that stayed with the parent, and no connection is taken from it."""
    script = """
        search("one")
        told["ended"] = child()
        told["parent"] = search("two")
    """
    assert ran(script) == {"ended": 0, "parent": "Mars"}
    first, second = searxng.requests
    assert first.peer == second.peer


@pytest.mark.parametrize("kind", ["child", "worker"])
def test_children_search_over_connections_of_their_own(searxng: Scripted, kind: str) -> None:
    """A child of `os.fork`, and one of multiprocessing; the parent goes on over the connection it had."""
    script = f"""
        search("one")
        told["first"] = {kind}(lambda: search("child") == search("again") == "Mars" or os._exit(3))
        search("two")
        told["second"] = {kind}(lambda: search("child 2") == "Mars" or os._exit(3))
        told["parent"] = search("three")
    """
    assert ran(script) == {"first": 0, "second": 0, "parent": "Mars"}
    one, child, again, two, other, three = (request.peer for request in searxng.requests)
    assert one == two == three and child == again and len({one, child, other}) == 3


def test_a_child_of_a_child_searches(searxng: Scripted) -> None:
    """What was forgotten once is forgotten again."""
    script = """
        def work():
            search("child")
            assert child(lambda: search("grandchild")) == 0
            search("child again")

        search("one")
        told["ended"] = child(work)
        told["parent"] = search("two")
    """
    assert ran(script) == {"ended": 0, "parent": "Mars"}
    one, child, grandchild, again, two = (request.peer for request in searxng.requests)
    assert one == two and child == again != grandchild


def test_a_child_of_a_process_that_never_searched_searches(searxng: Scripted) -> None:
    """It begins everything itself."""
    assert ran('told["ended"] = [child(lambda: search("one")), worker(lambda: search("two"))]') == {"ended": [0, 0]}
    assert len(searxng.requests) == 2


def test_a_child_asks_the_offline_model_as_its_parent_did() -> None:
    """The model's client belongs to the parent's loop, and the index's file to its connection."""
    script = """
        def moons():
            answer = w.ask("How many moons does Mars have?", model="offline", provider="local")
            assert answer.sources.url[0] == "corpus://planets/mars"
            return answer.text

        first = moons()
        told["ended"] = [child(lambda: moons() == first or os._exit(3)), worker(lambda: moons() == first or os._exit(3))]
        told["same"] = moons() == first
    """
    assert ran(script) == {"ended": [0, 0], "same": True}


def test_an_intercepted_blocking_client_searches_in_a_child(messages_api: Any) -> None:
    """Its searches run on the child's own loop, and both processes book what they used."""
    from tests.fakes.replies import tool_use

    for _ in range(3):
        messages_api.reply(tool_use("web_search", {"query": "moons of Mars"}))
        messages_api.reply("Two.")
    script = """
        import anthropic

        def call():
            client = w.intercept(anthropic.Anthropic(max_retries=0), provider="local")
            tool = {"type": "web_search_20250305", "name": "web_search"}
            asked = [{"role": "user", "content": "How many moons does Mars have?"}]
            answer = client.messages.create(model="claude-sonnet-5", max_tokens=500, messages=asked, tools=[tool])
            assert answer.content[-1].text == "Two."

        call()
        told["ended"] = child(call)
        call()
        w.api.session().ledger.write_held()
        told["rows"] = len(w.cost())
    """
    assert ran(script) == {"ended": 0, "rows": 9}


def test_what_a_child_spends_is_booked_once(brave_api: Any) -> None:
    """Each process books its own searches, in one file; a child's ceilings begin with what was spent before the fork."""
    script = """
        search("one", "brave")
        price = w.session().spent_usd
        told["ended"] = [child(lambda: search("two", "brave")), worker(lambda: search("three", "brave"))]
        search("four", "brave")
        told["costs"] = [float(usd) == float(price) for usd in w.cost().usd]
        told["known"] = price > 0
    """
    script = script.replace("w.session()", "w.api.session()")
    assert ran(script) == {"ended": [0, 0], "costs": [True] * 4, "known": True}


def test_a_child_that_is_born_during_a_search_is_not_held_up_by_it(searxng: Scripted) -> None:
    """The search goes on in the parent; the child neither waits for it nor ends it, and it asks the same anew."""
    searxng.forget()
    searxng.answer(FOUND)
    searxng.answer(FOUND, delay_s=1.0)
    searxng.answer(FOUND)
    script = """
        search("one")
        thread = threading.Thread(target=lambda: told.update(parent=search("moons")))
        thread.start()
        time.sleep(0.4)
        told["ended"] = [child(), child(lambda: search("moons"))]
        told["waiting"] = "parent" not in told
        thread.join(8)
    """
    assert ran(script) == {"ended": [0, 0], "waiting": True, "parent": "Mars"}
    assert len(searxng.requests) == 3


def test_a_child_may_fork_from_a_thread_that_runs_a_loop(searxng: Scripted) -> None:
    """As in a notebook, whose cells run inside of a loop; the loop goes on in the parent."""
    script = """
        async def main():
            session = w.Session()
            await session.search("one", provider="searxng", fresh=True)
            search("two")
            told["ended"] = worker(lambda: search("child") == "Mars" or os._exit(3))
            return [(await session.search("three", provider="searxng", fresh=True))[0].title, search("four")]

        told["parent"] = asyncio.run(main())
    """
    assert ran(script) == {"ended": 0, "parent": ["Mars", "Mars"]}
    one, two, child, three, four = (request.peer for request in searxng.requests)
    assert one == three and two == four and child not in (one, two)


# --- what belongs to loops ---------------------------------------------------------------------------------------------


def test_a_loop_that_rests_while_children_end_works_on(searxng: Scripted) -> None:
    """Its sockets are in an epoll object that is shared with the children, who must not take them out of it as they end."""
    script = """
        from ipy_websearch.http.client import HttpClient

        client, loop = HttpClient(user_agent="u"), asyncio.new_event_loop()
        url = os.environ["SEARXNG_BASE_URL"]
        post = lambda: loop.run_until_complete(client.request("POST", url, provider="e", json={}, timeout_s=3)).status
        in_thread = lambda: loop.run_until_complete(loop.run_in_executor(None, os.getpid)) == os.getpid()
        told["before"] = post(), in_thread()
        told["ended"] = child(), child(lambda: asyncio.run(client.request("GET", url, provider="e")))
        told["after"] = post(), in_thread()
        loop.run_until_complete(client.aclose())
        loop.close()
    """
    assert ran(script) == {"before": [200, True], "ended": [0, 0], "after": [200, True]}
    before, child, after = (request.peer for request in searxng.requests)
    assert before == after != child


def test_places_that_are_taken_in_the_parent_are_free_in_a_child() -> None:
    """What belongs to a loop is made anew for a child, even for the same loop; nothing is discarded there."""
    discarded: list[Places] = []
    places = PerLoop(lambda: Places(1), discarded.append)

    async def enter() -> bool:
        async with asyncio.timeout(1):
            await places.get().__aenter__()
        return not discarded

    loop = asyncio.new_event_loop()
    assert loop.run_until_complete(enter())
    assert exit_code(lambda: asyncio.run(enter())) == 0
    assert exit_code(lambda: loop.run_until_complete(enter())) == 0
    assert len(places.drain()) == 1
    loop.close()


def test_a_client_that_is_closed_in_one_loop_closes_what_it_has_in_another_that_rests(
    searxng: Scripted, capfd: pytest.CaptureFixture[str]
) -> None:
    """The server sees the connection end, and nobody is told of clients that were not closed."""
    clients, resting = [HttpClient(user_agent="u")], asyncio.new_event_loop()
    resting.run_until_complete(clients[0].request("GET", searxng.url, provider="e"))

    async def close() -> None:
        await clients[0].request("GET", searxng.url, provider="e")
        await clients.pop().aclose()

    before = _sockets()
    asyncio.run(close())
    assert _sockets() < before
    resting.close()
    gc.collect()
    assert capfd.readouterr().err == ""


def _sockets() -> int:
    """Return how many sockets of this process are connected to somewhere: the client's ends, at least."""
    import psutil

    return sum(c.status == psutil.CONN_ESTABLISHED for c in psutil.Process().net_connections("tcp"))


# --- files, locks and processes ----------------------------------------------------------------------------------------


def test_a_child_is_free_of_the_locks_that_threads_of_its_parent_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread reads the file for longer than a fork waits: the child, which has no such thread, reads it at once."""
    monkeypatch.setattr("ipy_websearch.forking.WAIT_S", 0.1)
    database = Database(tmp_path / "d.sqlite", application_id=7, prepare=lambda connection: None, purpose="test")
    reading, enough = threading.Event(), threading.Event()

    def slowly(connection: sqlite3.Connection) -> bool:
        reading.set()
        return enough.wait(10)

    thread = threading.Thread(target=lambda: database.read(slowly))
    thread.start()
    assert reading.wait(5)
    code = exit_code(lambda: database.read(lambda connection: connection.execute("SELECT 1").fetchone() == (1,)))
    enough.set()
    thread.join()
    database.close()
    assert code == 0


def test_a_fork_waits_for_a_transaction_and_the_child_has_its_own_at_once(tmp_path: Path) -> None:
    """SQLite keeps locks in the process's memory: one that a child inherited would never be given up there."""
    made = lambda connection: connection.execute("CREATE TABLE IF NOT EXISTS t (n)")  # noqa: E731
    database = Database(tmp_path / "d.sqlite", application_id=7, prepare=made, purpose="test")
    put = lambda connection: connection.execute("INSERT INTO t VALUES (1)") is not None  # noqa: E731
    writing = threading.Event()

    def slowly(connection: sqlite3.Connection) -> None:
        put(connection)
        writing.set()
        time.sleep(0.3)

    thread = threading.Thread(target=lambda: database.write(slowly))
    thread.start()
    assert writing.wait(5)
    assert exit_code(lambda: database.write(put)) == 0
    thread.join()
    database.write(put)
    assert database.read(lambda connection: connection.execute("SELECT count(*) FROM t").fetchone()) == (3,)
    database.close()


@pytest.mark.parametrize("last", ["parent", "child"])
def test_what_is_booked_after_the_other_process_has_ended_is_not_lost(brave_api: Any, last: str) -> None:
    """SQLite removes its log when nobody else has the file, which it must not believe as long as the other process has it."""
    script = f"""
        search("one", "brave")
        reading, writing = os.pipe()
        born = os.fork()
        if bool(born) == ({last!r} == "parent"):
            search("two", "brave")
            os.close(writing)
            os.read(reading, 1)  # until the other one has ended
            search("three", "brave")
            if not born:
                os._exit(0)
        else:
            search("four", "brave")
            if born:
                print(json.dumps(told), flush=True)
            sys.exit(0)
    """
    ran(script)
    ledger = Ledger(Path(os.environ["IPY_WEBSEARCH_HOME"]) / "ledger.sqlite")
    assert sorted(ledger.frame()["question"]) == ["four", "one", "three", "two"]
    ledger.close()


def test_rows_that_could_not_be_written_are_the_parents_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child that books when the disk has room again does not book its parent's rows as well."""
    ledger, writes = Ledger(tmp_path / "ledger.sqlite"), Database.write
    ledger.book(_row("first"))

    def full(database: Database, work: Callable[[sqlite3.Connection], Any]) -> Any:
        if not database.in_memory:
            raise sqlite3.OperationalError("database or disk is full")
        return writes(database, work)

    monkeypatch.setattr(Database, "write", full)
    ledger.book(_row("parent"))
    monkeypatch.setattr(Database, "write", writes)
    assert exit_code(lambda: (ledger.book(_row("child")), len(ledger.frame()) == 2)[1]) == 0
    monkeypatch.setattr("ipy_websearch.ledger.RETRY_S", -1.0)
    ledger._retry_at = 0.0
    ledger.book(_row("later"))
    assert sorted(Ledger(tmp_path / "ledger.sqlite").frame()["question"]) == ["child", "first", "later", "parent"]
    ledger.close()


def _row(question: str) -> LedgerRow:
    return LedgerRow(datetime.now(UTC), "s", question, question, "search", "brave", cost_usd=Decimal("0.01"))


def test_a_worker_that_ends_without_a_word_has_booked_its_intercepted_calls(messages_api: Any, brave_api: Any) -> None:
    """multiprocessing ends its processes past everything that Python does at its end."""
    for turn in (tool_use("ipy_web_search", {"query": "ruby author"}), "Matz."):
        messages_api.reply(turn)
    assert ran("""
        import anthropic

        def call():
            client = w.intercept(anthropic.Anthropic(), provider="brave")
            tool = {"type": "web_search_20250305", "name": "web_search"}
            asked = [{"role": "user", "content": "Who wrote Ruby?"}]
            client.messages.create(model="claude-sonnet-5-5", max_tokens=100, messages=asked, tools=[tool])

        worker = multiprocessing.get_context("fork").Process(target=call)
        worker.start()
        worker.join(20)
        told["code"] = worker.exitcode
    """) == {"code": 0}
    ledger = Ledger(Path(os.environ["IPY_WEBSEARCH_HOME"]) / "ledger.sqlite")
    assert sorted(ledger.frame()["kind"]) == ["model", "model", "search"]
    ledger.close()


def test_a_child_extracts_pages_in_a_process_of_its_own() -> None:
    """The parent's process goes on serving the parent, whatever becomes of the child."""
    worker = ExtractionWorker()
    page = "<html><body><main><h1>Mars</h1><p>It has two moons, Phobos and Deimos, both of them small.</p></main></body></html>"
    read = lambda: "two moons" in asyncio.run(worker.extract(page, url="http://example.org/")).markdown  # noqa: E731
    assert read()
    before = worker.pid
    assert exit_code(lambda: read() and worker.pid != before and worker.close() is None) == 0
    assert read() and worker.pid == before
    worker.close()
