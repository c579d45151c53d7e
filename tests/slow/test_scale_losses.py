"""Losses on a Dask cluster: whatever becomes of the workers, a run ends and what was filled is given back."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.enrichment.legacy.clusters import cluster as clusters
from ipy_websearch.enrichment.legacy.clusters.desk import Desk, Finished, Row, Word
from ipy_websearch.enrichment.progress import Progress as Tally
from ipy_websearch.errors import EnrichmentError
from tests.benchmarks.enrich_server import EnrichServer

pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:distributed.*",
    "ignore:.*:DeprecationWarning:tornado.*",
    "ignore:.*:ResourceWarning",
)

CEO = {"ceo": "Who is the CEO of {company}?"}
QUIET: dict[str, Any] = {"progress": False, "max_searches": 0, "concurrency": 10}


@pytest.fixture(scope="module")
def server() -> Iterator[EnrichServer]:
    """A server of its own process that fills every record in a tenth of a second."""
    with EnrichServer(latency=0.1) as made:
        yield made


@pytest.fixture
def cluster(server: EnrichServer, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of two processes that a test may ruin, and a client of it."""
    from distributed import Client, LocalCluster

    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    folder, quiet = str(tmp_path_factory.mktemp("dask")), {"dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    with LocalCluster(n_workers=2, threads_per_worker=1, local_directory=folder, **quiet) as made, Client(made) as client:
        yield SimpleNamespace(client=client, nannies=made.workers.values())


def companies(number: int) -> pd.DataFrame:
    """Return a frame with so many companies."""
    return pd.DataFrame({"company": [f"C{n}" for n in range(number)]})


def asked(server: EnrichServer) -> int:
    """Return the number of requests so far."""
    return int(server.stats()["requests"])


def actors(client: Any) -> list[str]:
    """Return the actors that live on the workers."""
    return client.run_on_scheduler(lambda dask_scheduler: [ts.key for ts in dask_scheduler.tasks.values() if ts.actor])


@contextmanager
def killing(client: Any, ready: Callable[[], bool]) -> Iterator[None]:
    """Kill all workers as soon as it is `ready` for it."""
    pids = list(client.run(os.getpid).values())

    def kill() -> None:
        while not ready():
            time.sleep(0.01)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    yield
    thread.join()


# --- the desk -----------------------------------------------------------------------------------------------------------


def test_the_kernel_knows_what_is_left_and_what_would_be_lost_with_a_task() -> None:
    """Rows that are not finished, dollars that a task may have spent without saying so, the API's wish for silence."""
    desk = Desk(["task-0"], 10, Decimal(1), Decimal(1))
    desk.add([Row(n, (0,), {"company": f"C{n}"}) for n in range(3)])
    desk.begin("task-0", "first")
    desk.exchange(Word("task-0", "first", wants=2, need=Decimal("0.5"), spent=Decimal("0.2"), floor_s=60.0))
    found = desk.collect([], False, False)
    assert found.left == 3 and found.at_risk == {"task-0": Decimal("0.5")} and 59 < found.floor_s <= 60
    done = [Finished(str(n), n, "ok", "", (), Decimal(0), 0.0, []) for n in range(2)]
    desk.exchange(Word("task-0", "first", done, spent=Decimal("0.7")))
    found = desk.collect([], False, False)
    assert found.left == 1 and found.at_risk == {"task-0": Decimal(0)}


# --- the bar ------------------------------------------------------------------------------------------------------------


def test_the_bar_says_that_the_api_wants_to_be_left_alone() -> None:
    """A long `retry-after` is shown with its seconds, a short one is not; the report says what was left of it."""
    gate = SimpleNamespace(floor_s=41.0)
    tally = Tally(total=2, gate=gate)
    assert tally.waits_for == "waiting for the API (retry-after) 41 s"
    tally.note = "two lost"
    assert tally.waits_for.startswith("two lost, waiting for the API")
    gate.floor_s = 0.4
    assert tally.waits_for == "two lost"
    gate.floor_s = 41.0
    assert "another 41 s" in tally.end()[0] and tally.waits_for == "" and tally.end() == []


def test_a_bar_that_waits_writes_nothing_until_something_changes(capsys: pytest.CaptureFixture[str]) -> None:
    """A notebook that is run without a browser keeps all that is written: one drawing for each change, not ten a second."""
    from ipy_websearch.enrichment.progress import Bar

    gate = SimpleNamespace(floor_s=41.0)
    tally = Tally(total=3, gate=gate)
    bar = Bar(tally, True)

    def drawn() -> list[str]:
        return [line for line in "".join(capsys.readouterr()).split("\r") if "failed" in line]

    for _ in range(50):
        bar.update()
        gate.floor_s -= 0.1
    assert len(drawn()) == 1
    time.sleep(0.21)
    tally.done = 1
    for _ in range(50):
        bar.update()
    (moved,) = drawn()
    assert "1/3" in moved and "waiting for the API" in moved
    tally.done, tally.gate = 3, None
    bar.update()  # too soon after the last one; the end is drawn all the same
    bar.close()
    (last,) = drawn()
    assert "3/3" in last and "waiting" not in last


def test_an_interrupt_while_the_api_wants_silence_says_so(
    server: EnrichServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`retry-after: 500` on the first refusal: the bar and the report name it."""
    from ipy_websearch import api

    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    waited, looks, before = api.wait, iter(range(5)), asked(server)

    def interrupted(*args: Any) -> Any:
        if asked(server) - before > 10 and next(looks, None) is None:
            monkeypatch.setattr(api, "wait", waited)
            raise KeyboardInterrupt
        return waited(*args)

    monkeypatch.setattr(api, "wait", interrupted)
    server.set(cap=1, retry_after=500)
    try:
        out = ipy_websearch.enrich(companies(40), CEO, **(QUIET | {"progress": True}))
    finally:
        server.set(cap=0)
    assert "waiting for the API (retry-after)" in "".join(capsys.readouterr())  # in a shell the bar is written elsewhere
    assert "left alone for another" in str(out.attrs["report"])


# --- a cluster ----------------------------------------------------------------------------------------------------------


def test_a_run_survives_the_loss_of_all_its_workers(cluster: Any, server: EnrichServer) -> None:
    """Killed and started again by their nannies: all rows are filled, few are asked twice, and no desk is left behind."""
    before = asked(server)
    with killing(cluster.client, lambda: asked(server) - before >= 40):
        out = ipy_websearch.enrich(companies(100), CEO, cluster=cluster.client, **QUIET)
    assert set(out.enrich_status) == {"ok"} and asked(server) - before - 100 <= 30
    assert actors(cluster.client) == []


def test_a_cluster_that_is_gone_costs_nothing_that_was_filled(
    cluster: Any, server: EnrichServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker comes back: the frame is given back as far as it is, with the reason; the next call asks only the rest."""
    monkeypatch.setattr(clusters, "WAIT_S", 1)
    monkeypatch.setattr(clusters, "BACK_S", 0.1)

    async def never(nanny: Any) -> None:
        """Start no worker again."""

    for nanny in cluster.nannies:
        monkeypatch.setattr(type(nanny), "instantiate", never)
    before = asked(server)
    with killing(cluster.client, lambda: asked(server) - before >= 70):
        out = ipy_websearch.enrich(companies(100), CEO, cluster=cluster.client, **QUIET)
    filled = int((out.enrich_status == "ok").sum())
    assert filled > 0 and set(out.enrich_status) == {"ok", "interrupted"}
    assert "has no workers" in out.enrich_error.dropna().iloc[0] and "has no workers" in str(out.attrs["report"])
    before = asked(server)
    assert ipy_websearch.enrich(companies(100), CEO, **QUIET).ceo.notna().all() and asked(server) - before == 100 - filled


def test_a_cluster_that_never_takes_the_work_on_is_given_up(server: EnrichServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Round after round without a row: what the store has is given back with the reason; with nothing at all it is an error."""
    from distributed import LocalCluster

    from ipy_websearch.enrichment.legacy.clusters import run

    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    monkeypatch.setattr(run, "PAUSE_S", 0.01)
    tried: list[object] = []

    def lost(*arguments: object) -> None:
        tried.append(arguments)
        raise OSError("the worker is gone")

    monkeypatch.setattr(clusters.Cluster, "desk", lost)
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL) as made:
        with pytest.raises(EnrichmentError, match="again and again.*the worker is gone.*nothing was filled"):
            ipy_websearch.enrich(companies(3), CEO, cluster=made, **QUIET)
        assert len(tried) == run.FRUITLESS
        ipy_websearch.enrich(companies(2), CEO, **QUIET)
        out = ipy_websearch.enrich(companies(3), CEO, cluster=made, **QUIET)
    assert list(out.enrich_status) == ["ok", "ok", "interrupted"] and "the worker is gone" in out.enrich_error[2]
    assert "the worker is gone" in str(out.attrs["report"])
