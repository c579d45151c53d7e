"""`%websearch export FILE`, and what `answer.to_cell()` does: answers leave the outputs for files and cells."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from IPython.core.error import UsageError


def export_command(answers: list[Any], words: list[str]) -> None:
    """Write the session's answers to the file that `words` name."""
    names = [word for word in words if word != "--force"]
    if len(names) != 1 or names[0].startswith("-"):
        raise UsageError("%websearch export FILE [--force], with a name that ends in .md, .ipynb or .html")
    from ipy_websearch.display.export import export

    path = Path(names[0]).expanduser()
    export(answers, path, force="--force" in words)
    print(f"{len(answers)} answer{'' if len(answers) == 1 else 's'} written to {path}")


def put_into_next_cell(shell: Any, answer: Any) -> None:
    """Offer the answer as the next cell; as %%markdown, so that it shows itself when it is run. It is not run here."""
    from ipy_websearch.display.export import answer_cell

    shell.set_next_input(f"%%markdown\n{answer_cell(answer)}", replace=False)
