"""Enrichment on a Dask cluster: one store, one budget and one rate, whatever becomes of the workers."""

import logging
import os
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.errors import ConfigError, EnrichmentError
from tests.benchmarks.server import BenchmarkServer
from tests.fakes import warm
from tests.fakes.shell import interrupted_when

pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:distributed.*",
    "ignore:.*:DeprecationWarning:tornado.*",
    "ignore:.*:ResourceWarning",
)

CEO = {"ceo": "Who is the CEO of {company}?"}
QUIET: dict[str, Any] = {"progress": False, "max_searches": 0}


@pytest.fixture(scope="module")
def server() -> Iterator[BenchmarkServer]:
    """A server of its own process that fills every record."""
    with BenchmarkServer(latency=0.05) as made:
        yield made


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A cluster of two processes, which know no key and no address; they are forks of one that has imported the libraries."""
    import dask
    from distributed import LocalCluster
    from distributed.utils import get_mp_context

    options: dict[str, Any] = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    folder = str(tmp_path_factory.mktemp("dask"))
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context().set_forkserver_preload(["distributed", *warm.LIBRARIES])
        with LocalCluster(**options, local_directory=folder, silence_logs=logging.CRITICAL) as made:
            yield made


def here(server: BenchmarkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have this process ask the server."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret-of-the-tests")


@pytest.fixture
def client(cluster: Any, server: BenchmarkServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of the cluster; the environment of the kernel, not of the workers, leads to the server."""
    from distributed import Client

    here(server, monkeypatch)
    server.set(latency=0.05, cap=0, input_tokens=900, status=0, share_529=0.0)
    with Client(cluster) as made:
        made.wait_for_workers(2, timeout=30)
        yield made


@pytest.fixture
def enrich(client: Any, server: BenchmarkServer) -> Any:
    """Fills a frame, or so many companies, on the cluster; gives the frame and the number of requests."""

    def run(frame: Any, **options: Any) -> tuple[Any, int]:
        frame, before = companies(frame) if isinstance(frame, int) else frame, asked(server)
        out = ipy_websearch.enrich(frame, CEO, **{"cluster": client, "concurrency": 10} | QUIET | options)
        return out, asked(server) - before

    return run


def companies(number: int) -> pd.DataFrame:
    """Return a frame with so many companies."""
    return pd.DataFrame({"company": [f"C{n}" for n in range(number)]}, index=range(5, 5 + number))


def asked(server: BenchmarkServer) -> int:
    """Return the number of requests so far."""
    return int(server.stats()["requests"])


# --- a cluster ----------------------------------------------------------------------------------------------------------


def test_a_pandas_frame_is_filled_on_the_workers(enrich: Any, server: BenchmarkServer) -> None:
    """Equal rows once, order and index kept, costs in the kernel's ledger; the next call, without a cluster, asks nothing."""
    frame = pd.concat([companies(60), companies(40)])
    out, requests = enrich(frame)
    assert set(out.enrich_status) == {"ok"} and out.index.equals(frame.index) and requests == 60
    assert server.stats()["most"] <= 10
    costs = ipy_websearch.cost()
    assert len(costs) == 60 and costs.usd.sum() == pytest.approx(out.enrich_cost_usd.sum())
    assert len(ipy_websearch.cost(by="question")) == 1 and out.attrs["report"]["requests"] == 60
    assert enrich(62, cluster=None)[1] == 2


def test_no_key_is_shown_or_stays_on_a_worker(client: Any, enrich: Any) -> None:
    """The workers' and the scheduler's logs and the environment afterwards have no key."""
    enrich(4)
    seen = client.run(lambda: [f"{name}={value}" for name, value in os.environ.items()])
    assert "ANTHROPIC_BASE_URL" not in str(seen)
    assert "secret" not in f"{seen} {client.get_worker_logs()} {client.get_scheduler_logs()}"
    plugins = client.run(lambda dask_worker: list(dask_worker.plugins))
    assert len(plugins) == 2 and "websearch" not in str(plugins)


def test_a_budget_holds_over_all_workers(enrich: Any) -> None:
    """Dollars are leased: together the workers never pass the ceiling, and most of it is used."""
    out, _ = enrich(200, budget_usd=0.01)
    counts = out.enrich_status.value_counts()
    assert set(counts.index) == {"ok", "budget"} and counts["ok"] > 20
    assert out.enrich_cost_usd.sum() <= 0.01 and "budget" in out.enrich_error[out.enrich_status == "budget"].iloc[0]
    assert ipy_websearch.cost().usd.sum() == pytest.approx(out.enrich_cost_usd.sum())


def test_a_cap_holds_over_all_workers(enrich: Any, server: BenchmarkServer) -> None:
    """A server that takes five at once and says 429 above: no row is lost, and not many requests are refused."""
    server.set(cap=5, retry_after=0.3)
    out, requests = enrich(60, concurrency=20)
    assert set(out.enrich_status) == {"ok"} and requests < 60 * 2.5


def test_the_same_failure_at_the_start_ends_the_run_everywhere(enrich: Any, server: BenchmarkServer) -> None:
    """A bad key is noticed after some rows, on all workers."""
    server.set(status=401)
    before = asked(server)
    with pytest.raises(EnrichmentError, match="refused the key"):
        enrich(500)
    assert asked(server) - before <= 20


def test_a_lost_worker_costs_no_more_than_what_was_under_way(client: Any, enrich: Any, server: BenchmarkServer) -> None:
    """`kill -9` of a worker: all rows are filled, and hardly any is asked twice."""
    server.set(latency=0.1)
    pids, before = client.run(os.getpid), asked(server)

    def kill() -> None:
        while asked(server) - before < 40:
            time.sleep(0.01)
        os.kill(min(pids.values()), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    out, requests = enrich(150, resume=False)
    thread.join()
    assert set(out.enrich_status) == {"ok"} and requests - 150 <= 30


def test_an_interrupt_stops_all_workers(enrich: Any, server: BenchmarkServer) -> None:
    """■ returns within two seconds what was filled; nothing more is sent; the next call fills the rest."""
    server.set(latency=0.1)
    before = asked(server)
    with interrupted_when(lambda: asked(server) - before > 30):
        out, sent = enrich(300)
    assert set(out.enrich_status) == {"ok", "interrupted"} and 0 < sum(out.enrich_status == "ok") < 300
    time.sleep(0.5)
    assert asked(server) - before - sent <= 10
    enrich(300, concurrency=50)
    assert asked(server) - before - 300 <= 20  # ten were in flight, and ten answers may have been on their way here


# --- Dask frames --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["cluster", "here"])
def test_a_dask_frame_keeps_its_partitions_and_index(
    request: pytest.FixtureRequest, server: BenchmarkServer, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """A Dask DataFrame comes back, filled, with the same partitions and divisions; equal rows of all partitions once."""
    import dask.dataframe as dd

    if where == "cluster":
        request.getfixturevalue("client")
    here(server, monkeypatch)
    pandas_frame = companies(30).assign(company=lambda f: [f"D{n % 12}" for n in range(30)], n=range(30))
    frame = dd.from_pandas(pandas_frame, npartitions=3)
    before = asked(server)
    out = frame.web.enrich(CEO, **QUIET)
    assert isinstance(out, dd.DataFrame) and out.divisions == frame.divisions and asked(server) - before == 12
    computed = out.compute()
    assert list(computed.n) == list(range(30)) and computed.index.equals(pandas_frame.index)
    assert set(computed.enrich_status) == {"ok"} and computed.enrich_cost_usd.sum() > 0
    assert list(out.columns) == list(computed.columns) and (out.dtypes == computed.dtypes).all()
    assert out[out.n < 3].ceo.compute().notna().all() and asked(server) - before == 12


def test_a_partition_that_changed_is_an_error(server: BenchmarkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are never put beside other rows than those that were asked about."""
    import dask.dataframe as dd

    here(server, monkeypatch)
    orders = iter([1, 1, -1])
    frame = dd.from_map(lambda n: companies(2).iloc[:: next(orders)], [0], meta=companies(2))
    out = ipy_websearch.enrich(frame, CEO, **QUIET)
    assert out.compute().ceo.notna().all()
    with pytest.raises(EnrichmentError, match="persist"):
        out.compute()


def test_what_is_no_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line says what was given and what it must be."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-test")
    with pytest.raises(ConfigError, match="must be a dask.distributed Client.*not 7"):
        ipy_websearch.enrich(companies(1), CEO, cluster=7, **QUIET)


# --- the doors: `df.web`, and `%%enrich` with a Dask frame, `--cluster` and `--mode` ----------------------------------------

CELL = "\nmoons: int = How many moons does {planet} have?"


def test_the_magic_takes_a_dask_frame_and_a_cluster(shell: Any, client: Any, cluster: Any) -> None:
    """The cluster as a client, as a cluster, and as an address; a frame of pandas or of Dask."""
    import dask.dataframe as dd

    def ran() -> Any:
        return sum(client.run(lambda dask_worker: dask_worker.state.executed_count).values())

    small = pd.DataFrame({"planet": ["Mars", "Saturn", "Mars", "Venus"], "n": range(4)}, index=[3, 5, 7, 9])
    shell.ns.update(frame=dd.from_pandas(small, npartitions=2), small=small, cl=client, local=cluster)
    options = "--model offline -p local --no-progress --no-sources --fresh"
    for frame, cluster in [("small", "cl"), ("small", "local"), ("frame", client.scheduler.address)]:
        before = ran()
        assert shell.run(f"%%enrich {frame} --cluster {cluster} {options} -o out{CELL}").ok and ran() > before
        computed = shell.ns["out"] if frame == "small" else shell.ns["out"].compute()
        assert list(computed.moons) == [2, 274, 2, 0] and set(computed.enrich_status) == {"ok"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--cluster client_of_min", "no Dask client or cluster called 'client_of_min'; did you mean 'client_of_mine'"),
        ("--cluster nothing", "no Dask client or cluster called 'nothing'"),
        ("--cluster small", "there is no Dask client or cluster called 'small'"),
        ("--cluster client_of_mine --mode batch", "needs no cluster: the API does the work"),
        ("--mode bach", "invalid choice: 'bach'"),
        ("--cluster", "--cluster needs a value"),
    ],
)
def test_what_is_no_cluster_or_mode_is_said_in_one_line(shell: Any, options: str, message: str) -> None:
    """With the name that was meant, or those that there are; nothing is asked."""

    class Mine:
        scheduler_address = "tcp://127.0.0.1:9"

    shell.ns.update(small=pd.DataFrame({"planet": ["Mars"]}), client_of_mine=Mine())
    ran = shell.run(f"%%enrich small --model offline {options}{CELL}")
    assert not ran.ok and message in str(ran.error)
