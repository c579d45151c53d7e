"""The trace as a widget (anywidget, the extra `[widget]`): in its own file, since the class needs anywidget to be defined.

It builds its page from text nodes only. JupyterLab shows nothing for a widget whose state was not saved, so the plain trace is
displayed before the widget, which hides it while it is live.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import anywidget
import traitlets
from IPython import get_ipython
from IPython.display import display

from ipy_websearch.display.answer import is_notebook

_ASSETS = files("ipy_websearch.display") / "assets"


class TraceWidget(anywidget.AnyWidget):
    """A trace to walk through; `step` is the number of the step that is shown, `page` the plain trace in all its forms."""

    _esm = (_ASSETS / "trace.js").read_text(encoding="utf-8")
    _css = (_ASSETS / "trace.css").read_text(encoding="utf-8")
    title: Any = traitlets.Unicode().tag(sync=True)
    steps: Any = traitlets.List().tag(sync=True)
    step: Any = traitlets.Int(1).tag(sync=True)
    mark: Any = traitlets.Unicode().tag(sync=True)
    page: Mapping[str, str]

    def _ipython_display_(self) -> None:
        """Show the page and, in a notebook, below it the widget that hides it."""
        put: Any = display  # it carries no types
        put({**self.page, "text/html": f'<div class="{self.mark}">{self.page["text/html"]}</div>'}, raw=True)
        if is_notebook(get_ipython()):
            data, metadata = self._repr_mimebundle_()
            view = {name: value for name, value in data.items() if name.endswith("widget-view+json")}
            put({**view, "text/plain": "(the same as a widget)"}, metadata=metadata, raw=True)
