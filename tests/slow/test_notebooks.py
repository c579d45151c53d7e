"""Every notebook runs from top to bottom without a key and without a network; what it stores is real, clean and small.

The hidden solutions of a lesson's exercises (Python in a folded `<details>`) run as well, right where they stand.
"""

import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest

from tests.fakes.replies import error, text, tool_use

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
MOST_BYTES = 150_000
MOST_CELLS = 25
MOST_LINES = 15

_FOLDED = re.compile(r"<details>.*?</details>", re.DOTALL)
_PYTHON = re.compile(r"```python\n(.*?)```", re.DOTALL)
# Somebody's home, keys, and warnings about a machine.
_FOREIGN = re.compile(
    r"(?i:/home/(?!you\b)\w+|/Users/\w+|\w:\\\\?Users)|sk-ant-api\d\d-|AIza[\w-]{30}|(?:tvly|pplx|fc)-\w{20}|BSA\w{20}|"
    r"font cache|(?:Deprecation|Future|Resource)Warning"
)

every_notebook = pytest.mark.parametrize("path", NOTEBOOKS or [Path("none")], ids=lambda path: path.stem)


def with_solutions(notebook: Any) -> Any:
    """Put the hidden solutions into a notebook as cells with the metadata `solution`."""
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        folded = "".join(_FOLDED.findall(cell.source)) if cell.cell_type == "markdown" else ""
        cells += [nbformat.v4.new_code_cell(code, metadata={"solution": True}) for code in _PYTHON.findall(folded)]
    notebook.cells = cells
    return notebook


def allowed_to_fail(cell: Any) -> bool:
    """Return whether a cell is meant to end in an error."""
    return "raises-exception" in cell.metadata.get("tags", [])


def failed(cell: Any) -> bool:
    """Return whether a cell ended in an error."""
    return any(output.output_type == "error" for output in cell.get("outputs", ()))


def output_of(cell: Any) -> tuple[bool, bool]:
    """Return whether a cell of code has output, and whether it wrote to standard error."""
    return bool(cell.get("outputs")), any(output.get("name") == "stderr" for output in cell.get("outputs", ()))


@pytest.mark.kernel
@every_notebook
def test_a_notebook_runs_without_key_and_network(path: Path, tmp_path: Path, run_notebook: Any) -> None:
    """No cell fails, except those that say so, and what is saved is what comes out: the same cells have output and warn."""
    shutil.copytree(path.parent, tmp_path / "notebooks", dirs_exist_ok=True)
    saved = nbformat.read(path, as_version=4)
    ran = run_notebook(with_solutions(nbformat.read(path, as_version=4)))
    assert [(cell.source, cell.outputs) for cell in ran.cells if failed(cell) != allowed_to_fail(cell)] == []
    lesson = [cell for cell in ran.cells if not cell.metadata.get("solution")]
    for before, after in zip(saved.cells, lesson, strict=True):
        assert output_of(before) == output_of(after), (before.source, after.get("outputs"))


@every_notebook
def test_what_is_saved_is_one_clean_run_with_nothing_of_a_machine(path: Path) -> None:
    """All cells were run in order, and an error is saved only where one is meant; no folder, home or user of the machine that
    ran it, no warnings about it, and no key."""
    saved, text = nbformat.read(path, as_version=4), re.sub(r'"image/png": "[^"]*"', "", path.read_text(encoding="utf-8"))
    nbformat.validate(saved)
    code = [cell for cell in saved.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert [cell.source for cell in code if failed(cell) != allowed_to_fail(cell)] == []
    here = (str(NOTEBOOKS[0].parents[2]), sys.prefix, tempfile.gettempdir() + "/", str(Path.home()) + "/", "site-packages")
    assert [place for place in here if place in text] == [] and _FOREIGN.findall(text) == []


@every_notebook
def test_a_lesson_is_short_and_says_what_it_teaches_and_where_it_leads(path: Path) -> None:
    """It begins with a title, what will be learnt and what to install, its links to other lessons lead somewhere, and each
    lesson after the quickstart has an exercise with code to unfold, which runs with the lesson."""
    cells = with_solutions(nbformat.read(path, as_version=4)).cells
    first, lesson = cells[0].source, [cell for cell in cells if not cell.metadata.get("solution")]
    assert first.startswith(f"# {path.stem[:2]} · ") and "You will learn" in first and 'pip install "ipy_websearch[' in first
    links = {link for cell in lesson for link in re.findall(r"\(([\w-]+\.ipynb)\)", cell.source)}
    assert links and [link for link in links if not (path.parent / link).is_file()] == []
    assert (len(lesson) < len(cells) or path == NOTEBOOKS[0]) and len(lesson) <= MOST_CELLS
    assert path.stat().st_size <= MOST_BYTES
    assert [c.source for c in lesson if c.cell_type == "code" and len(c.source.splitlines()) > MOST_LINES] == []


def test_a_saved_answer_is_small_and_a_failure_is_one_line(messages_api: Any, brave_api: Any, run_notebook: Any) -> None:
    """At most 60 kB for five searches; papermill and schedulers find an error output, without key and traceback."""
    for number in range(5):
        messages_api.reply(tool_use("web_search", {"query": f"ruby author {number}"}))
    paragraphs = "".join(f"**Paragraph {n}** of what was found:\n\n- one\n- two\n\n" for n in range(80))
    messages_api.reply(text(paragraphs, citations=[(n, 0) for n in range(10)]))
    messages_api.reply(error(401))
    cells = ["%load_ext ipy_websearch", "%ask --check off --provider brave who wrote Ruby?"]
    notebook = run_notebook([*cells, "%ask", "%search --provider brve moons", "%ask who?", "print('next')"])
    (output,) = notebook.cells[1].outputs
    assert len(brave_api.queries) == 5 and "Paragraph 79" in output.data["text/html"]
    assert len(json.dumps(output).encode()) <= 60_000
    assert notebook.cells[2].outputs[0].text.startswith("UsageError: ")  # IPython writes a plain one to standard error
    for cell, kind in zip(notebook.cells[3:5], ("ConfigError", "ModelError"), strict=True):
        (output,) = [o for o in cell.outputs if o.output_type == "error"]
        assert output.ename == kind and output.traceback == [f"{kind}: {output.evalue}"]
    assert messages_api.key not in json.dumps(notebook.cells) and notebook.cells[5].outputs[0].text == "next\n"
