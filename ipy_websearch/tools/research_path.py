"""Which paths `read_research` takes: nine steps, in order, and what is allowed rather than what is not. Pure.

The steps are those of the specification, in which documents lie in `ideas/`. Here they lie in the research root, so step 5
refuses the last part of the root's own path: with the root `/data/ideas` a path must not begin with `ideas/` again.
"""

from __future__ import annotations

import re

from ipy_websearch.providers.research import Failure

MAX_PATH = 200
_BLANKS = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
_CONTROL = re.compile(r"[\x00-\x1f]")
_ALLOWED = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9/_.-]{0,199}")


def checked_path(path: str, root_name: str) -> str | Failure:
    """Return the path without blanks around it, to be put behind the root, or which rule it breaks.

    `root_name` is the last part of the root's own path. Messages never repeat a path that was refused.
    """
    path = path.strip(_BLANKS)  # step 1
    problem = _problem(path, root_name)
    return Failure("path_validation", f"Invalid path: {problem}.") if problem else path


def _problem(path: str, root_name: str) -> str:
    """Return the rule that a path breaks, steps 2 to 8 in order; "" when it breaks none."""
    rules = (
        (bool(_CONTROL.search(path)), "control characters are not allowed"),
        ("%" in path, "'%' is not allowed (no URL encoding)"),
        (".." in path or "\\" in path, "'..' and backslashes are not allowed"),
        (bool(root_name) and path.startswith(f"{root_name}/"), f"it must not start with '{root_name}/', which is put in front"),
        (path.endswith("/"), "it must not end with '/' (name a file, not a directory)"),
        ("//" in path, "'//' is not allowed"),
        (not _ALLOWED.fullmatch(path), _not_allowed(path)),
    )
    return next((message for broken, message in rules if broken), "")


def _not_allowed(path: str) -> str:
    """Return in words what the allowlist of step 8 refuses."""
    if not path:
        return "it is empty"
    if path.startswith("/"):
        return "it must be relative, without a '/' at its start"
    if len(path) > MAX_PATH:
        return f"it is longer than {MAX_PATH} characters"
    return "it may hold letters, digits, '/', '_', '.' and '-' only and must start with a letter or digit"
