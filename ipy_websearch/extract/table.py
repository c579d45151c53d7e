"""Tables: which ones hold data, and those as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipy_websearch.extract.inline import BREAK, Inline, tidy

_MAX_SPAN = 50
_MAX_COLUMNS = 60
_CELL_CHARACTERS = 800
_NOT_IN_DATA = ("table", "blockquote", "h1", "h2", "h3", "h4", "form")


def is_data(table: Any) -> bool:
    """Return whether `table` holds rows and columns; a table that merely lays out the page does not."""
    if table.get("role") in ("presentation", "none") or next(table.iterdescendants(*_NOT_IN_DATA), None) is not None:
        return False
    if any("\n" in "".join(pre.itertext()).strip() for pre in table.iter("pre")):
        return False
    rows = [[cell for cell in row if cell.tag in ("td", "th")] for row in table_rows(table)]
    if not any(len(row) > 1 for row in rows):
        return False
    limit = _CELL_CHARACTERS * (5 if any(cell.tag == "th" for row in rows for cell in row) else 1)
    return all(sum(map(len, cell.itertext())) <= limit for row in rows for cell in row)


def table_rows(table: Any) -> Iterator[Any]:
    """Yield the rows of `table` itself, those of tables within it left out."""
    for child in table:
        if child.tag == "tr":
            yield child
        elif child.tag in ("thead", "tbody", "tfoot"):
            yield from (row for row in child if row.tag == "tr")


def data_table(table: Any, blocks_inside: set[Any]) -> list[str]:
    """Return the caption, when there is one, and the table as one block of Markdown."""
    rows = list(table_rows(table))
    plain, rich = Inline(blocks_inside, plain=True), Inline(blocks_inside)
    grid = _grid(rows, lambda cell: _cell(cell, plain if cell.tag == "th" else rich))
    width = min(_MAX_COLUMNS, max(map(len, grid), default=0))
    used = [i for i in range(width) if any(len(row) > i and row[i] for row in grid)]
    grid = [[row[i] if i < len(row) else "" for i in used] for row in grid if any(row)]
    if not grid or not used:
        return []
    if not _has_head(rows):
        grid.insert(0, [""] * len(used))
    lines = ["| " + " | ".join(row) + " |" for row in grid]
    lines.insert(1, "|" + " --- |" * len(used))
    caption = table.find("caption")
    title = tidy(rich.content(caption)) if caption is not None else ""
    return [*([title] if title else []), "\n".join(lines)]


def _has_head(rows: list[Any]) -> bool:
    """Return whether the first row can stand as the head: it can unless it is a row with a head of its own."""
    first = [cell.tag for cell in rows[0] if cell.tag in ("td", "th")] if rows else []
    return not ("th" in first and "td" in first)


def _grid(rows: list[Any], render: Any) -> list[list[str]]:
    """Return the cells' texts by row and column; what spans several columns or rows is written once."""
    grid: list[list[str]] = []
    hanging: dict[int, int] = {}
    for row in rows:
        texts: list[str] = []
        for cell in row:
            if cell.tag not in ("td", "th") or len(texts) > _MAX_COLUMNS:
                continue
            _skip_hanging(texts, hanging)
            across, down = _span(cell, "colspan"), _span(cell, "rowspan")
            for column in range(len(texts), len(texts) + across):
                if down > 1:
                    hanging[column] = down - 1
            texts += [render(cell)] + [""] * (across - 1)
        _skip_hanging(texts, hanging)
        grid.append(texts)
    return grid


def _skip_hanging(texts: list[str], hanging: dict[int, int]) -> None:
    while hanging.get(len(texts), 0) > 0:
        hanging[len(texts)] -= 1
        texts.append("")


def _span(cell: Any, name: str) -> int:
    value = (cell.get(name) or "").strip()
    return min(_MAX_SPAN, max(1, int(value))) if value.isascii() and value.isdigit() and len(value) < 6 else 1


def _cell(cell: Any, inline: Inline) -> str:
    items = list(cell.iter("li"))
    if items:
        for item in items[1:]:
            item.text = "; " + (item.text or "").lstrip()
    text = tidy(inline.content(cell)).replace(BREAK, " ")
    return text.replace("\\|", "|").replace("|", "\\|")
