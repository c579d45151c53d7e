"""The import law: floors import downwards only, and loading the package is light."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.fakes.notebook import subprocess_environment

ROOT = Path(__file__).parents[2]
HEAVY = str.split(
    "pandas numpy anthropic httpx httpx2 aiohttp pydantic lxml trafilatura html_to_markdown genai_prices duckdb tqdm"
)


def python(code: str) -> str:
    """Run code in a fresh Python and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=subprocess_environment(), capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_floor_imports_only_from_floors_below() -> None:
    """`lint-imports` keeps the contracts of pyproject.toml."""
    code = "import sys\nfrom importlinter.cli import lint_imports\nsys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=subprocess_environment(), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_the_package_imports_nothing_heavy() -> None:
    """Neither pandas nor the SDK, the HTTP clients, pydantic or IPython's magics come with `import ipy_websearch`."""
    names = HEAVY + ["IPython", "IPython.core.magic"]
    loaded = json.loads(python("import ipy_websearch, json, sys; print(json.dumps(sorted(sys.modules)))"))
    assert "ipy_websearch" in loaded
    assert [name for name in names if name in loaded] == []
