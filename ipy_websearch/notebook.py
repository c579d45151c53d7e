"""The name of the notebook that runs, where something tells it.

Jupyter Server gives kernels JPY_SESSION_NAME, some front ends put `__session__` (JupyterLab's console and notebooks) or
`__vsc_ipynb_file__` (VS Code) among the user's variables. Nothing is asked over the network for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

VARIABLES = ("__vsc_ipynb_file__", "__session__")


def notebook_name(settings: Any) -> str:
    """Return the notebook's path or name, "" when nothing tells it.

    `settings` are those in force: a shell that loaded the extension is their parent, and has the user's variables.
    """
    namespace = getattr(getattr(settings, "parent", None), "user_ns", None)
    told = [namespace.get(name) for name in VARIABLES] if isinstance(namespace, Mapping) else []
    names = (*told, os.environ.get("JPY_SESSION_NAME"))
    return next((name for name in names if isinstance(name, str) and name), "")
