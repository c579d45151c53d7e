"""`%panels`: the whole outputs of the session's tool calls, as a list, or one of them, page by page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from ipy_websearch.magics.arguments import parse_line
from ipy_websearch.magics.common import HELP, OUTPUT, assign, check_output, shows_help
from ipy_websearch.results import Panel
from ipy_websearch.text import plain, shorten

PAGE_LINES = 200
PAGE_CHARACTERS = 40_000
"""What one page of a panel holds at most; a single longer line is a page of its own."""


class PanelList(tuple[Panel, ...]):
    """The panels of a session in order; it prints as a table of id, tool, size and title."""

    def __repr__(self) -> str:
        if not self:
            return "No panels yet: each tool call of an answer makes one."
        rows = [("id", "tool", "lines", "characters", "title"), *map(_row, self)]
        widths = [max(len(row[n]) for row in rows) for n in range(4)]
        lines = (_line(row, widths) for row in rows)
        return "\n".join([*lines, "", f"%panels {self[-1].id} shows one whole"])

    __str__ = __repr__

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def _row(panel: Panel) -> tuple[str, ...]:
    text = panel.content
    title = shorten(plain(panel.title), 80) + (" (failed)" if panel.is_error else "")
    return panel.id, plain(panel.tool), f"{len(text.splitlines()):,}", f"{len(text):,}", title


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    tool, lines, characters = row[1].ljust(widths[1]), row[2].rjust(widths[2]), row[3].rjust(widths[3])
    return f"{row[0].ljust(widths[0])}  {tool}  {lines}  {characters}  {row[4]}"


@dataclass(frozen=True, slots=True)
class PanelPage(Panel):
    """One page of a panel that is too long to be shown at once; `whole` is the panel itself, with all of it."""

    whole: Panel | None = field(default=None, repr=False)


def page_of(panel: Panel, number: int) -> Panel:
    """Return page `number` (from 1) of a panel: the panel itself when it has only one.

    Raises:
        UsageError: it has fewer pages.
    """
    pages = split_pages(panel.content)
    if not 1 <= number <= len(pages):
        raise UsageError(f"{panel.id} has {len(pages)} page{'' if len(pages) == 1 else 's'}; there is no page {number}")
    if len(pages) == 1:
        return panel
    more = f", %panels {panel.id} --page {number + 1} shows the next" if number < len(pages) else ""
    title = f"{shorten(plain(panel.title), 50)} (page {number} of {len(pages)}{more})"
    return PanelPage(panel.id, title, panel.kind, pages[number - 1], panel.tool, panel.is_error, panel)


def split_pages(text: str) -> list[str]:
    """Return a text in pages of whole lines; put together again with line feeds they are the text."""
    pages: list[list[str]] = [[]]
    room = PAGE_CHARACTERS
    for line in text.split("\n"):
        if pages[-1] and (len(pages[-1]) == PAGE_LINES or len(line) >= room):
            pages.append([])
            room = PAGE_CHARACTERS
        pages[-1].append(line)
        room -= len(line) + 1
    return ["\n".join(page) for page in pages]


@magics_class
class PanelMagics(Magics):
    """Holds the magic; its state lives in the session."""

    @no_var_expand
    @shows_help
    @magic_arguments()
    @argument("panel", nargs="*", help="Id of the panel to show, such as P3 (default: a list of all).")
    @argument("--page", type=int, metavar="N", help="Page of a long panel (200 lines each) to show.")
    @argument("--all", action="store_true", help="The whole panel at once, however long it is.")
    @OUTPUT
    @HELP
    @line_magic
    def panels(self, line: str) -> Any:
        """List the panels of the session, or return one of them: all that a tool call gave, nothing cut.

        Structured results are YAML, pages Markdown; `.content` of the returned panel is the text. A long panel is shown
        in pages (`.whole` of a page is the panel).

        Examples:
            %panels
            %panels P3
            %panels P3 --page 2
            panel = %panels --all P3
        """
        args, text = parse_line(self.panels, line)
        check_output(args)
        from ipy_websearch import api

        shelf = api.session().panels
        value: Any = PanelList(shelf)
        if text:
            value = self._one(shelf, text, args)
        elif args.page is not None or args.all:
            raise UsageError("%panels --page and --all need a panel, such as: %panels P1 --page 2")
        assign(self.shell, args, value)
        return value

    def _one(self, shelf: Any, text: str, args: Any) -> Panel:
        panel: Panel | None = shelf.get(text) or shelf.get(f"P{text}")
        if panel is None:
            have = f"there are P1 to P{len(shelf)}" if len(shelf) > 1 else "there is P1" if len(shelf) else "there are none yet"
            raise UsageError(f"there is no panel {text!r}; {have} (%panels lists them)")
        if args.all and args.page is not None:
            raise UsageError("%panels takes --page or --all, not both")
        return panel if args.all else page_of(panel, 1 if args.page is None else args.page)
