"""The package as it is published: what is in the wheel and the sdist, and that an installed wheel works."""

import json
import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

import ipy_websearch

ROOT = Path(__file__).parents[2]
MAX_BYTES = 2 * 2**20
SITE = next(path for path in sys.path if path.endswith("site-packages"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, built from a copy without a network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The `bin` folder of a fresh environment with the wheel in it, which finds the dependencies of this one behind it."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder)
    python = next(folder.glob("[bS]*/python*"))
    wheel = next(built.glob("*.whl"))
    install = [sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run(install, check=True, capture_output=True, timeout=120)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "behind.pth").write_text(f"{SITE}\n")
    yield python.parent


def test_the_wheel_is_small_and_holds_the_package_and_nothing_else(built: Path) -> None:
    """Every file of the package with its data, the marker for type checkers, the licence; no tests, no notebooks."""
    sizes = {path.name: path.stat().st_size for path in built.iterdir()}
    assert len(sizes) == 2 and max(sizes.values()) <= MAX_BYTES, sizes
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        found = wheel.namelist()
    assert {name.split("/")[0].split("-")[0] for name in found} == {"ipy_websearch"}
    tracked = subprocess.run(["git", "ls-files", "ipy_websearch"], cwd=ROOT, capture_output=True, text=True).stdout.split()
    assert {*tracked, "ipy_websearch/py.typed", "ipy_websearch/corpus/planets.md"} <= set(found)
    assert any(name.endswith("licenses/LICENSE") for name in found)


def test_the_sdist_can_be_tested(built: Path) -> None:
    """It has the tests, the lessons, and what stands beside them; no caches."""
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        found = [name.split("/", 1)[1] for name in archive.getnames() if "/" in name]
    beside = ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml")
    assert {*beside, "notebooks/01_quickstart.ipynb", "tests/conftest.py"} <= set(found)
    assert not [name for name in found if "__pycache__" in name or name.endswith(".pyc")]


def test_an_installed_wheel_searches_answers_and_has_the_executables(installed: Path, tmp_path: Path) -> None:
    """Away from the checkout, in a fresh environment."""
    code = (
        "import ipy_websearch, json\n"
        "results = ipy_websearch.search('moons of Mars', provider='local')\n"
        "answer = ipy_websearch.ask('How many moons does Mars have?', model='offline', provider='local')\n"
        "print(json.dumps([ipy_websearch.__file__, results[0].title, answer.text]))"
    )
    environment = {"PATH": os.environ["PATH"], "IPY_WEBSEARCH_HOME": str(tmp_path), "HOME": str(tmp_path)}
    options: Any = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 120}
    done = subprocess.run([installed / "python", "-c", code], **options)
    assert done.returncode == 0, done.stderr
    place, title, text = json.loads(done.stdout)
    assert str(ROOT) not in place and title == "Mars" and "two moons" in text
    for name in ("web-search-brave-tool", "web-search-google-tool", "web-fetch-tool"):
        assert json.loads(subprocess.run([installed / name, "--schema"], **options).stdout)["name"]


def test_all_versions_agree_with_the_changelog() -> None:
    """The package, its metadata and the newest entry of the changelog name one version."""
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest and newest[1] == ipy_websearch.__version__ == version("ipy_websearch")
