"""Figures, measured by hand and side by side: an environment of their own, and a section each in RESULTS.md."""

import contextlib
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("anthropic", "httpx", "httpx-aiohttp", "aiohttp", "pydantic", "pandas")


@contextlib.contextmanager
def environment(**values: str) -> Iterator[None]:
    """Work without keys, settings and proxies but these, with data in a folder of its own."""
    kept = dict(os.environ)
    with tempfile.TemporaryDirectory() as home:
        for name in kept:
            if name.endswith(("_KEY", "_TOKEN", "_URL", "_ID")) or "proxy" in name.lower() or name.startswith("IPY_WEBSEARCH"):
                del os.environ[name]
        os.environ.update({"IPY_WEBSEARCH_HOME": home, **values})
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(kept)


def light_environment(url: str) -> contextlib.AbstractContextManager[None]:
    """Send the package to the light server."""
    return environment(ANTHROPIC_API_KEY="sk-ant-x", ANTHROPIC_BASE_URL=url, BRAVE_API_KEY="key", BRAVE_BASE_URL=url)


@contextlib.contextmanager
def served(module: str, *arguments: str) -> Iterator[str]:
    """Give the address of a server that runs in a process of its own, and prints its port first."""
    command = [sys.executable, "-m", module, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; `head` names the columns, with " | " between them."""
    lines = [" | ".join(map(str, row)) for row in rows]
    return "\n".join(f"| {line} |" for line in (head, " | ".join(["---"] * len(head.split(" | "))), *lines))


def keep(name: str, body: str, command: str, *, write: bool = True) -> None:
    """Print a section and, to `write`, put it into RESULTS.md in the place of the one of that name; the others stay."""
    print(body)
    if not write:
        return
    text = RESULTS.read_text(encoding="utf-8")
    section = f"## {name}\n\n{command}, {machine()}.\n\n{body}\n"
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    text, found = pattern.subn(lambda _: section + "\n", text, count=1)
    text = text if found else f"{text.rstrip()}\n\n{section}"
    RESULTS.write_text(text.rstrip() + "\n", encoding="utf-8")


def machine() -> str:
    """Return date, machine and versions in one line."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    cpu = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*: (.+)$", cpu.read_text(), re.MULTILINE) if cpu.exists() else None
    name = found[1].strip() if found else platform.processor() or platform.machine()
    where = f"{os.cpu_count()} cores (load {os.getloadavg()[0]:.1f}), {platform.system()}, Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d}, {name}, {where}, {versions}"
