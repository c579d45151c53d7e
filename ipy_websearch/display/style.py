"""The one style sheet of all outputs, and the frame that carries it.

JupyterLab's colours where they exist, a neutral grey where not, so that light and dark both work. The sheet goes with every
output, since a notebook may hold a single one. GitHub and unsigned notebooks drop it: the markup reads well without.
"""

from __future__ import annotations

from ipy_websearch.display.markdown import NO_MATH

_LINE = "var(--jp-border-color2,rgba(128,128,128,.35))"
_FAINT = "var(--jp-ui-font-color2,rgba(128,128,128,1))"
_PANE = "var(--jp-layout-color2,rgba(128,128,128,.12))"
_RULES = (
    ("", "max-width:62em;line-height:1.5;padding:.3em .2em 0 .3em;overflow-wrap:break-word"),
    (" small", f"font-size:.86em;color:{_FAINT}"),
    (" h1", "font-size:1.4em;margin:.7em 0 .4em"),
    (" h2", "font-size:1.25em;margin:.7em 0 .4em"),
    (" h3,& h4,& h5,& h6", "font-size:1.1em;margin:.7em 0 .3em"),
    (" .ipyws-md>:first-child", "margin-top:0"),
    (" sup", "font-size:.78em;line-height:0;margin-left:1px"),
    (" .ipyws-cite", "text-decoration:none"),
    (" details", "margin:.15em 0"),
    (" summary", f"cursor:pointer;color:{_FAINT}"),
    (
        " pre",
        f"font-size:.86em;padding:.5em .7em;margin:.4em 0 .8em;background:{_PANE};border-radius:3px;overflow:auto;"
        "word-break:normal;overflow-wrap:anywhere",
    ),
    (" pre code", "background:none;padding:0"),
    (" details pre", "max-height:24em;white-space:pre-wrap"),
    (" blockquote", f"margin:.3em 0 .6em 1.1em;padding-left:.8em;border-left:3px solid {_LINE};color:{_FAINT}"),
    (" .ipyws-note", f"margin:.2em 0 .7em;padding:.35em .8em;background:{_PANE};border-left:3px solid {_FAINT}"),
    (" .ipyws-warn", "border-left-color:var(--jp-warn-color1,#d98200)"),
    (" .ipyws-sources", f"margin:.8em 0 .3em;padding-top:.45em;border-top:1px solid {_LINE}"),
    (" .ipyws-foot", "margin-top:.5em"),
    (" .ipyws-lines", "margin:.2em 0 .8em"),
    (" table", "margin:.2em 0 .4em;border-collapse:collapse;table-layout:auto;width:auto"),
    (" th,& td", "text-align:left;vertical-align:top;padding:.35em .5em;white-space:normal"),
    (" .ipyws-what,& .ipyws-what~td", "overflow-wrap:anywhere"),
    (" .ipyws-what", "width:36%;min-width:12em"),
    (" .ipyws-num", "text-align:right"),
    (" td.ipyws-num,& .ipyws-name", "white-space:nowrap"),
    (" .ipyws-page", f"max-height:36em;overflow:auto;padding:.3em .9em;border:1px solid {_LINE};border-radius:3px"),
)
_SCOPE = ".ipyws.ipyws"  # twice, so that it weighs more than JupyterLab's own rules for tables and code
_SHEET = "".join(_SCOPE + end.replace("&", _SCOPE) + "{" + rules + "}" for end, rules in _RULES)
STYLE = f"<style>{_SHEET}</style>"


LEFT = ' style="text-align:left"'
"""For cells of text: JupyterLab aligns cells to the right, also where it drops the style sheet."""


def framed(*parts: str) -> str:
    """Return the parts of an output as one block, with the style sheet, that mathematics leaves alone."""
    return f'<div class="ipyws {NO_MATH}">{STYLE}{"".join(parts)}</div>'
