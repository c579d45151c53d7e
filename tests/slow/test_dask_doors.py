"""The doors to enrichment at scale: `df.web` of a Dask DataFrame; `%%enrich` with a Dask frame, `--cluster` and `--mode`."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*:DeprecationWarning:distributed.*",
    "ignore:.*:DeprecationWarning:tornado.*",
    "ignore:.*:ResourceWarning",
)

MOONS = {"moons": ("How many moons does {planet} have?", int)}
OFFLINE: dict[str, Any] = {"model": "offline", "provider": "local"}
CELL = "\nmoons: int = How many moons does {planet} have?"


def planets() -> Any:
    """Return a Dask frame of two partitions."""
    import dask.dataframe as dd

    frame = pd.DataFrame({"planet": ["Mars", "Saturn", "Mars", "Venus"], "n": range(4)}, index=[3, 5, 7, 9])
    return dd.from_pandas(frame, npartitions=2)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    """The client of a cluster with one worker in this process; not the default one."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            protocol="tcp",
            host="127.0.0.1",
            dashboard_address=":0",
            local_directory=str(tmp_path / "dask"),
            silence_logs=logging.CRITICAL,
        ) as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


# --- df.web -------------------------------------------------------------------------------------------------------------


def test_a_dask_frame_has_df_web_when_dask_is_imported_last() -> None:
    """Importing the package imports no Dask; what waits for it is gone once it is there, and its loader is its own."""
    lines = [
        "import sys, ipy_websearch",
        "assert 'dask' not in sys.modules",
        "import dask.dataframe as dd, pandas as pd",
        "frame = dd.from_pandas(pd.DataFrame({'a': [1]}), npartitions=1)",
        "print(type(frame.web).__name__, type(pd.DataFrame().web).__name__, type(dd.__loader__).__name__)",
    ]
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout == "WebAccessor WebAccessor SourceFileLoader\n"


def test_a_dask_frame_comes_back() -> None:
    frame = planets()
    out = frame.web.enrich(MOONS, progress=False, **OFFLINE)
    assert out.divisions == frame.divisions and list(out.compute().moons) == [2, 274, 2, 0]


# --- %%enrich -----------------------------------------------------------------------------------------------------------


def test_the_magic_takes_a_dask_frame_and_a_cluster(shell: Any, client: Any) -> None:
    """The cluster as a client, as a cluster, and as an address; a frame of pandas or of Dask."""

    def ran() -> Any:
        return sum(client.run(lambda dask_worker: dask_worker.state.executed_count).values())

    address = client.scheduler.address
    shell.ns.update(frame=planets(), small=planets().compute(), cl=client, local=client.cluster)
    options = "--model offline -p local --no-progress --no-sources --fresh"
    for frame, cluster in [("small", "cl"), ("small", "local"), ("frame", address)]:
        before = ran()
        told = shell.run(f"%%enrich {frame} --cluster {cluster} {options} -o out{CELL}")
        assert told.ok and ran() > before, told.error
        computed = shell.ns["out"] if frame == "small" else shell.ns["out"].compute()
        assert list(computed.moons) == [2, 274, 2, 0] and set(computed.enrich_status) == {"ok"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--cluster client_of_min", "no Dask client or cluster called 'client_of_min'; did you mean 'client_of_mine'"),
        ("--cluster nothing", "no Dask client or cluster called 'nothing'; there are client_of_mine"),
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
