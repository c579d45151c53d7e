"""Fixtures for all tests. Every test starts with an empty home, no keys and no network; see README.md beside this file."""

import asyncio
import importlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.fakes import warm
from tests.fakes.no_network import network_guard

network_guard.refuse_network()
sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment] # jsonschema asks for it: a grammar of two seconds of CPU

for _module in ("anyio.from_thread", "anyio._backends._asyncio"):
    importlib.import_module(_module)  # pytest compiles them, which CPython 3.11 can fail at deep inside a test (gh-106905)

_common: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
}
settings.register_profile("default", **_common)
settings.register_profile("ci", derandomize=True, **_common)
settings.load_profile("ci" if os.environ.get("CI") else "default")

TOGETHER = ("tests/slow/browser/", "tests/slow/test_dask.py", "tests/slow/test_package.py")
SECRET = re.compile(
    r"(_API_KEY|_KEY|_TOKEN|_BASE_URL|_ENGINE_ID|_proxy)$"
    r"|^(ANTHROPIC|IPY_WEBSEARCH|AWS|GOOGLE|VERTEX|CLOUD_ML|AZURE|OTEL|JUPYTER|IPYTHON|XDG)",
    re.IGNORECASE,
)


def pytest_configure(config: pytest.Config) -> None:
    """Let workers of xdist be forks of one process that has imported the libraries."""
    if workers := getattr(config.option, "numprocesses", None):
        config.option.tx = [f"popen//python={shlex.join(warm.python())}"] * workers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let one worker run the tests that share a browser, a cluster or a build (pytest 9.2 ignores `--dist loadgroup`)."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)

    return Scheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put slow tests first, so that at the end no worker waits for one, and mark those that run a notebook with `kernel`."""
    items.sort(key=lambda item: "slow" not in item.path.parts)
    for item in items:
        if "run_notebook" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.kernel)


@pytest.fixture(autouse=True, scope="session")
def hypothesis_loaded() -> None:
    """Load early what Python 3.11 can fail to compile ("recursion depth mismatch") deep inside a hypothesis run."""
    importlib.import_module("hypothesis.strategies._internal.regex")


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys, addresses, proxies or settings; home, data, settings and working directory are the test's own."""
    for name in list(os.environ):
        if SECRET.search(name):
            monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    monkeypatch.setenv("IPYTHONDIR", str(home / ".ipython"))
    monkeypatch.setenv("IPY_WEBSEARCH_HOME", str(tmp_path / "websearch"))
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.null.Keyring")
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("MPLCONFIGDIR", str(tmp_path_factory.getbasetemp() / "matplotlib"))  # its list of fonts takes seconds
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def forked_extraction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that reads pages is a fork of `warm` as well; tests/slow/extract starts real ones."""
    if sys.platform.startswith("linux"):
        monkeypatch.setattr("ipy_websearch.extract.reader._start", warm.extraction)


@pytest.fixture(autouse=True)
def own_session(clean_environment: None) -> Iterator[None]:
    """The functions and magics of one test do not see the session of another."""
    yield
    if (api := sys.modules.get("ipy_websearch.api")) is not None:
        api.end_session()
    if (prices := sys.modules.get("ipy_websearch.money.prices")) is not None:
        prices.own_prices.cache_clear()


@pytest.fixture(autouse=True)
def refused_network(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Fail a test that tried to reach the network, unless it asks for the fixture `offline`."""
    network_guard.refused.clear()
    yield network_guard.refused
    if "offline" not in request.fixturenames:
        tried = list(network_guard.refused)
        assert not tried, f"the test tried to reach the network: {tried}"


@pytest.fixture
def offline(refused_network: list[str]) -> list[str]:
    """Let the test try to reach the network in vain; the list says where to."""
    return refused_network


@pytest.fixture
def anyio_backend() -> str:
    """Run tests marked `anyio` on asyncio."""
    return "asyncio"


@contextmanager
def _served(fake: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a fake, point the environment at it, and check it when the test is over."""
    with fake:
        for name, value in fake.environment().items():
            monkeypatch.setenv(name, value)
        yield fake
    fake.check()


@pytest.fixture
def messages_api(clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The strict fake of the Messages API; ANTHROPIC_API_KEY and ANTHROPIC_BASE_URL lead to it."""
    from tests.fakes.messages_api import MessagesAPI

    with _served(MessagesAPI(), monkeypatch) as fake:
        yield fake


@pytest.fixture
def engine(clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """A function that starts the fake of any engine by its name and points the environment at it."""
    from tests.fakes.engines import ENGINES

    with ExitStack() as started:
        yield lambda name: started.enter_context(_served(ENGINES[name](), monkeypatch))


@pytest.fixture
def brave_api(engine: Callable[[str], Any]) -> Any:
    """The fake of Brave Search; BRAVE_API_KEY and BRAVE_BASE_URL lead to it."""
    return engine("brave")


@pytest.fixture
def wikipedia_api(engine: Callable[[str], Any]) -> Any:
    """The fake of Wikipedia's search; WIKIPEDIA_BASE_URL leads to it."""
    return engine("wikipedia")


@pytest.fixture
def public_web(clean_environment: None) -> Iterator[Any]:
    """A pretended public web: names with public addresses that lead to a server on loopback."""
    from tests.fakes.public_web import PublicWeb

    with PublicWeb() as web:
        yield web
    web.check()


@pytest.fixture
def session(messages_api: Any, brave_api: Any, wikipedia_api: Any) -> Iterator[Any]:
    """A Session that finds Claude, Brave and Wikipedia in the fakes."""
    from ipy_websearch.session import Session

    made = Session()
    yield made
    asyncio.run(made.aclose())


@pytest.fixture
def shell(clean_environment: None, tmp_path: Path) -> Iterator[Any]:
    """A fresh IPython shell with the extension loaded; name the fakes it shall find before it in a test's arguments."""
    from tests.fakes.shell import Shell

    with closing(Shell(tmp_path)) as made:
        yield made


@pytest.fixture
def bare_shell(clean_environment: None, tmp_path: Path) -> Iterator[Any]:
    """A fresh IPython shell without the extension."""
    from tests.fakes.shell import Shell

    with closing(Shell(tmp_path, load=False)) as made:
        yield made


@pytest.fixture
def kernels(clean_environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real kernels that start at once: Jupyter's kernel python3 is a fork of `warm`."""
    monkeypatch.setenv("JUPYTER_PATH", warm.kernels(tmp_path))


@pytest.fixture
def run_notebook(kernels: None, tmp_path: Path) -> Callable[..., Any]:
    """A function that runs cells in a real kernel and returns the notebook; the fakes' addresses are passed on."""
    from tests.fakes.shell import run_cells

    return partial(run_cells, folder=tmp_path)
