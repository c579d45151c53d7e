"""One JupyterLab and one Chromium for all browser tests, run by one worker: two of each would starve a small machine.

They end with the last browser test: Playwright keeps an event loop running, under which tests of our own loop could not run.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.conftest import SECRET
from tests.slow.browser import lab

KEPT = ("IPY_WEBSEARCH_HOME", "HOME", "IPYTHONDIR")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the browser tests, and skip them where there is no browser."""
    reason = lab.missing()
    for item in items:
        if item.path.parent.name == "browser":
            item.add_marker(pytest.mark.browser)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Lab]:
    """A running JupyterLab and Chromium; nothing of the user's environment gets into the server.

    Not for the whole session: Playwright keeps an event loop running in the tests' thread.
    """
    folder = tmp_path_factory.mktemp("lab")
    with pytest.MonkeyPatch.context() as clean:
        for name in filter(SECRET.search, list(os.environ)):
            clean.delenv(name)
        with lab.server(folder, {"NO_PROXY": "*"}) as address, lab.browser() as running:
            yield lab.Lab(address, folder, running)


@pytest.fixture
def open_notebook(shared_lab: lab.Lab, clean_environment: None) -> Callable[..., Any]:
    """`Lab.open` with this test's own environment in the kernel; ask for the fakes before this fixture."""

    def opener(cells: Any, **options: Any) -> Any:
        ours = {name: value for name, value in os.environ.items() if SECRET.search(name) or name in KEPT}
        options.setdefault("env", ours)
        return shared_lab.open(cells, **options)

    return opener
