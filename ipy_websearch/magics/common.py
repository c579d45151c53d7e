"""What the magics share: options that several have, assigning results, and the one way in which a magic runs."""

from __future__ import annotations

import argparse
import keyword
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument

from ipy_websearch.magics.arguments import Help

F = TypeVar("F", bound=Callable[..., Any])

OUTPUT = argument("-o", "--output", metavar="NAME", help="Keep the result in this variable as well.")
PROVIDER = argument("-p", "--provider", metavar="ENGINE", help="Ask this engine only (%%websearch status lists them).")
SITE = argument("--site", action="append", metavar="DOMAIN", help="Only results from this domain; may be repeated.")
NOT_SITE = argument("--not-site", action="append", metavar="DOMAIN", help="No results from this domain; may be repeated.")
FRESH = argument("--fresh", action="store_true", help="Skip the cache.")
HELP = argument("--help", action="store_true", help="Show this help.")


def shows_help(magic: F) -> F:
    """Let a magic show its help for `--help` instead of running."""

    @wraps(magic)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        try:
            return magic(*args, **kwargs)
        except Help as help_text:
            print(help_text)
            return None

    return wrapper  # type: ignore[return-value]


def domain_options(args: argparse.Namespace) -> dict[str, tuple[str, ...]]:
    """Return what `--site` and `--not-site` mean for `ask` and `search`; commas separate several domains in one value.

    Raises:
        ConfigError: both were given, or one names a page, for no engine would search only there.
    """
    from ipy_websearch.errors import ConfigError

    if args.site and args.not_site:
        raise ConfigError("--site and --not-site exclude each other; give one of the two")
    return {"allowed_domains": _domains("--site", args.site), "blocked_domains": _domains("--not-site", args.not_site)}


def _domains(option: str, values: Sequence[str] | None) -> tuple[str, ...]:
    from ipy_websearch.errors import ConfigError

    found = tuple(part.strip() for value in values or () for part in value.split(",") if part.strip())
    for part in found:
        host, _, path = part.split("://", 1)[-1].partition("/")
        if path:
            raise ConfigError(f"{option} {part}: a domain is needed, without a path, such as example.com")
    return found


def check_output(args: argparse.Namespace) -> None:
    """Refuse, before anything is spent, a variable name that is none.

    Raises:
        UsageError: it is no Python name.
    """
    name = args.output
    if name is not None and (not name.isidentifier() or keyword.iskeyword(name)):
        raise UsageError(f"-o {name}: this is not a variable name")


def assign(shell: Any, args: argparse.Namespace, value: Any) -> None:
    """Keep `value` in the variable that `-o` named."""
    if args.output:
        shell.push({args.output: value})


class Interrupted(KeyboardInterrupt):
    """The stop button was pressed; what had arrived is shown and kept. Run All stops here, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"Interrupted: {self}"]


class Misuse(UsageError):
    """A magic was called wrongly. A plain `UsageError` leaves no error in the notebook file: papermill would show none."""

    def _render_traceback_(self) -> list[str]:
        return [f"UsageError: {self}"]


Misuse.__name__ = "UsageError"  # what front ends and files call it
