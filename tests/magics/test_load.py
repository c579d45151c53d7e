"""Loading is silent and imports little, unloading takes everything back, and the session outlives both."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from tests.fakes.notebook import subprocess_environment

HEAVY = set("asyncio pandas numpy anthropic httpx aiohttp pydantic lxml yaml sqlite3 narwhals nh3 jinja2".split())
LOADED = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
shell.run_line_magic("load_ext", "ipy_websearch")
assert shell.find_line_magic("search") and shell.find_cell_magic("ask")
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def printed_by(code: str) -> Any:
    command, environment = [sys.executable, "-c", code], subprocess_environment()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == "" and len(done.stdout.splitlines()) == 1
    return json.loads(done.stdout)


def test_loading_is_silent_and_imports_nothing_heavy() -> None:
    loaded = printed_by(LOADED)
    assert not HEAVY & {name.split(".")[0] for name in loaded}
    assert not {"ipy_websearch.session", "ipy_websearch.api", "ipy_websearch.results", "ipy_websearch.display.render"} & set(
        loaded
    )


def test_the_magics_work_lazily_from_the_configuration(bare_shell: Any) -> None:
    bare_shell.ip.magics_manager.lazy_magics = {"search": "ipy_websearch"}
    ran = bare_shell.run("%search --provider local moons of Mars")
    assert ran.ok and ran.value.title[0] == "Mars"
