"""Every notebook runs from top to bottom without a key and without a network."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


def test_there_are_notebooks() -> None:
    """The lessons are where the README says they are."""
    assert NOTEBOOKS


@pytest.mark.kernel
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_without_key_and_network(path: Path, tmp_path: Path, run_notebook: Any) -> None:
    """No cell fails, except those that say so, and what is saved is what comes out: the same cells have output."""
    shutil.copytree(path.parent, tmp_path / "notebooks", dirs_exist_ok=True)
    saved = nbformat.read(path, as_version=4)
    ran = run_notebook(nbformat.read(path, as_version=4))
    for before, after in zip(saved.cells, ran.cells, strict=True):
        if before.cell_type == "code":
            failed = [o for o in after.outputs if o.output_type == "error"]
            assert not failed or "raises-exception" in before.metadata.get("tags", []), failed
            assert bool(before.outputs) == bool(after.outputs), before.source
