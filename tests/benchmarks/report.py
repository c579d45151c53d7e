"""Keeps measured tables in RESULTS.md: one section for each benchmark, with machine, versions and date."""

from __future__ import annotations

import os
import platform
import re
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

RESULTS = Path(__file__).with_name("RESULTS.md")
PACKAGES = ("anthropic", "httpx", "httpx-aiohttp", "aiohttp", "pydantic", "pandas")
HEAD = "# Measured\n\nEach section is written by its benchmark; ratios within a section come from one run, side by side.\n"


def write_section(name: str, body: str, command: str) -> None:
    """Put a section into RESULTS.md in the place of the one of that name; the others stay."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else HEAD
    section = f"## {name}\n\n{command}, {machine()}.\n\n{body}\n"
    pattern = re.compile(rf"^## {re.escape(name)}\n.*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)
    text, found = pattern.subn(lambda _: section + "\n", text, count=1)
    text = text if found else f"{text.rstrip()}\n\n{section}"
    RESULTS.write_text(text.rstrip() + "\n", encoding="utf-8")


def machine() -> str:
    """Return date, machine and versions in one line."""
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    load = os.getloadavg()[0]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, {_processor()}, {os.cpu_count()} cores (load {load:.1f}), {platform.system()}, "
        f"Python {platform.python_version()}, {versions}"
    )


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return found[1].strip() if found else platform.processor() or platform.machine()
