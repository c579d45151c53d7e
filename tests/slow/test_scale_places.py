"""Wikipedia takes three requests at once, from a whole cluster too, whether it was the first engine or stood in for another."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.enrichment.clusters.allotment import FROZEN_S, TURN_S, Allotment
from ipy_websearch.enrichment.clusters.desk import Desk, Row, Word
from ipy_websearch.http.places import Places

pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:distributed.*",
    "ignore:.*:DeprecationWarning:tornado.*",
    "ignore:.*:ResourceWarning",
)

PLANETS = pd.DataFrame({"planet": ["Mars", *(f"Planet {n}" for n in range(29))]})
MOONS = {"moons": ("How many moons does {planet} have?", int)}
ANSWER = b'{"batchcomplete": true, "query": {"searchinfo": {"totalhits": 0}, "search": []}}'


# --- places -------------------------------------------------------------------------------------------------------------


def test_places_may_become_fewer_and_more_while_they_are_used() -> None:
    """Those inside stay; who waits is let in in turn, and who gives up waiting takes no place."""

    async def main() -> None:
        places, inside, most = Places(2), [], []

        async def visit(name: str, gate: asyncio.Event) -> None:
            async with places:
                inside.append(name)
                most.append(places.taken)
                await gate.wait()

        gates = {name: asyncio.Event() for name in "abcde"}
        tasks = {name: asyncio.create_task(visit(name, gate)) for name, gate in gates.items()}
        await asyncio.sleep(0)
        assert inside == ["a", "b"] and places.sought == 5
        places.resize(1)
        gates["a"].set()
        tasks["c"].cancel()
        await asyncio.sleep(0.01)
        assert inside == ["a", "b"] and (places.taken, places.sought) == (1, 3)
        places.resize(0)
        gates["b"].set()
        await asyncio.sleep(0.01)
        assert (places.taken, places.sought) == (0, 2)
        places.resize(3)
        await asyncio.sleep(0)
        assert inside == ["a", "b", "d", "e"] and max(most) == 2
        tasks["d"].cancel()
        gates["e"].set()
        await asyncio.sleep(0.01)
        assert (places.taken, places.sought) == (0, 0)

    asyncio.run(main())


def test_who_is_let_in_and_cancelled_at_once_gives_the_place_back() -> None:
    """Both happen before the waiting task runs again."""

    async def main() -> None:
        places = Places(0)

        async def visit() -> None:
            async with places:
                raise AssertionError("never inside")

        task = asyncio.create_task(visit())
        await asyncio.sleep(0)
        places.resize(1)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() and places.taken == 0

    asyncio.run(main())


# --- the allotment ------------------------------------------------------------------------------------------------------


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("tasks", "shares"), [(1, [3]), (2, [2, 1]), (3, [1, 1, 1]), (4, [1, 1, 1, 0])])
def test_places_are_there_before_they_are_sought(tasks: int, shares: list[int]) -> None:
    """A first search need not wait for the desk."""
    allotment = Allotment(3, Clock())
    assert [allotment.ask(str(n), 0, 0, tasks) for n in range(tasks)] == shares


def test_a_place_goes_on_when_its_task_says_that_it_left_it() -> None:
    """Told to use fewer, a task counts with what it had until it comes again."""
    allotment = Allotment(3, Clock())
    assert allotment.ask("a", 0, 5, 2) == 3
    assert allotment.ask("b", 0, 5, 2) == 0
    assert allotment.ask("a", 3, 5, 2) == 2
    assert allotment.ask("b", 0, 5, 2) == 0  # a has not said yet that it goes by two
    assert allotment.ask("a", 2, 5, 2) == 2
    assert allotment.ask("b", 0, 5, 2) == 1
    allotment.ended("a")
    assert allotment.ask("b", 1, 5, 2) == 3


def test_the_places_of_a_lost_task_stay_empty_for_as_long_as_its_requests_may_last() -> None:
    """The server may still be at work on them."""
    clock = Clock()
    allotment = Allotment(3, clock)
    allotment.ask("a", 0, 5, 2)
    allotment.lost("a")
    assert allotment.ask("b", 0, 5, 2) == 0
    clock.now = FROZEN_S + 0.1
    assert allotment.ask("b", 0, 5, 2) == 3


@pytest.mark.parametrize("tasks", [2, 3, 4, 9])
def test_never_more_than_three_and_everybody_has_a_turn(tasks: int) -> None:
    """Tasks come at random times and leave slowly: three at most are held, most of the time three are, all have turns."""
    random_, clock = random.Random(tasks), Clock()
    allotment, held, told, unserved = Allotment(3, clock), [0] * tasks, [0] * tasks, [0.0] * tasks
    used = 0.0
    for _ in range(4000):
        clock.now += 0.2 / tasks
        n = random_.randrange(tasks)
        held[n] = max(told[n], held[n] - random_.randrange(2))  # some requests are still under way
        told[n] = allotment.ask(str(n), held[n], random_.randrange(3, 9), tasks)
        held[n] = max(held[n], told[n])
        assert sum(held) <= 3
        used += sum(told) / 4000
        for m in range(tasks):
            unserved[m] = 0.0 if told[m] else unserved[m] + 0.2 / tasks
        assert max(unserved) < 2 * (tasks / 3 + 1) * (TURN_S + 2)
    assert used > 2.4


def test_the_desk_gives_places_and_keeps_those_of_a_lost_task_empty() -> None:
    """With the rows, on each visit; a task that begins anew has lost its worker, whose requests may still be under way."""
    desk = Desk(["a", "b"], 10, None, Decimal(1))
    desk.add([Row(n, (0,), {}) for n in range(9)])
    for name in "ab":
        desk.begin(name, "first")
    assert desk.exchange(Word("a", "first", wants=2, sought=2)).places == 3
    desk.begin("a", "second")
    assert desk.exchange(Word("b", "first", wants=2, sought=2)).places == 0
    assert desk.exchange(Word("a", "second", wants=2, sought=2)).places == 0


# --- a cluster ----------------------------------------------------------------------------------------------------------


class Engines:
    """Wikipedia, which counts how many it is asked at once, and a Brave that is broken, on one port."""

    def __init__(self, latency: float) -> None:
        self.active = self.most = self.requests = self.broken = 0
        lock = threading.Lock()
        engines = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path.startswith("/res/"):
                    engines.broken += 1
                    self._send(403, b"{}")
                    return
                with lock:
                    engines.requests += 1
                    engines.active += 1
                    engines.most = max(engines.most, engines.active)
                time.sleep(latency)
                with lock:
                    engines.active -= 1
                self._send(200, ANSWER)

            def _send(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    """The engines, to which the kernel's environment leads."""
    made = Engines(0.05)
    monkeypatch.setenv("WIKIPEDIA_BASE_URL", made.url)
    monkeypatch.setenv("BRAVE_BASE_URL", made.url)
    yield made
    made.close()


@contextmanager
def cluster_of(workers: int, folder: Path) -> Iterator[Any]:
    """The client of a cluster whose workers are in this process, each with an event loop of its own."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=False,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address=":0",
            local_directory=str(folder),
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("workers", [2, 5])
@pytest.mark.parametrize("stands_in", [True, False])
def test_three_at_once_over_all_workers(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workers: int, stands_in: bool
) -> None:
    """Wikipedia first, or asked in place of an engine that breaks: three at most, all rows served, the places in use."""
    if stands_in:
        monkeypatch.setenv("BRAVE_API_KEY", "BSA-key-of-the-tests")
    with cluster_of(workers, tmp_path) as client:
        out = ipy_websearch.enrich(PLANETS, MOONS, model="offline", concurrency=20, cluster=client, progress=False)
    assert set(out.enrich_status) == {"ok"} and out.moons[0] == 2
    assert engines.requests >= 30 and engines.broken >= 30 * stands_in
    assert 2 <= engines.most <= 3


def test_rows_that_wait_for_a_place_are_asked_again_when_the_desk_is_lost(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nobody gives places any more: such rows are neither waited for nor failed, and the next desk's tasks fill them."""
    from ipy_websearch.enrichment.clusters import worker

    exchange, desks, sought = Desk.exchange, [], []

    def lost(desk: Desk, word: Any) -> Any:
        desks.extend([desk] if desk not in desks else [])
        sought.extend([word.task] if word.sought and not word.places else [])
        if desk is desks[0] and len(sought) > 6:
            raise RuntimeError("the desk is lost")
        return exchange(desk, word)

    monkeypatch.setattr(Desk, "exchange", lost)
    monkeypatch.setattr(worker, "STUCK_S", 0.3)
    monkeypatch.setenv("BRAVE_API_KEY", "BSA-key-of-the-tests")
    with cluster_of(5, tmp_path) as client:
        out = ipy_websearch.enrich(PLANETS, MOONS, model="offline", concurrency=20, cluster=client, progress=False)
    assert len(desks) == 2 and set(out.enrich_status) == {"ok"} and engines.most <= 3
