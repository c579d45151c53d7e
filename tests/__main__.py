"""Runs every check: style, types, the import law, the tests with the notebooks. `python -m tests [pytest options]`.

People and CI call the same command. All checks run even when one fails; the exit status is 0 only when all passed.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
PYTHON = [sys.executable, "-m"]
WORKERS = (os.cpu_count() or 2) + 2  # the tests wait for processes and time limits for a quarter of their time
CHECKS = {
    "style": [*PYTHON, "ruff", "check", "."],
    "format": [*PYTHON, "ruff", "format", "--check", "."],
    "import law": [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
    "tests": [*PYTHON, "pytest", "-n", str(WORKERS)],
    "types": [*PYTHON, "mypy", "-p", "ipy_websearch", "-m", "tests.typing.api"],
}
BESIDE = "types"  # runs while the tests do; what it says follows theirs


def main(options: list[str]) -> int:
    """Run the checks and say how each went; `options` go to pytest."""
    failed = []
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the many processes that tests start load compiled files
    beside = subprocess.Popen(CHECKS[BESIDE], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for name, command in CHECKS.items():
        print(f"── {name} ".ljust(80, "─"), flush=True)
        start = time.monotonic()
        if name == BESIDE:
            print(beside.communicate()[0], end="")
            status = beside.returncode
        else:
            status = subprocess.run(command + (options if name == "tests" else []), cwd=ROOT).returncode
        print(f"{name}: {'ok' if status == 0 else 'FAILED'} in {time.monotonic() - start:.0f} s", flush=True)
        if status:
            failed.append(name)
    print(f"failed: {', '.join(failed)}" if failed else "all checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
