"""The kept part of a page as Markdown, rendered by html-to-markdown."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from lxml import etree

from ipy_websearch.text import visible

_BLANK_LINES = re.compile(r"\n{3,}")


@cache
def _options() -> Any:
    from html_to_markdown import ConversionOptions, PreprocessingOptions

    return ConversionOptions(
        extract_metadata=False,
        autolinks=False,
        hidden_content="all",
        compact_tables=True,
        skip_images=True,
        include_blockquote_citations=False,
        expand_abbreviations=False,
        highlight_style="none",
        newline_style="backslash",
        preprocessing=PreprocessingOptions(enabled=False),
    )


def markdown(element: Any) -> str:
    """Return `element` and what is in it as Markdown that ends in a line feed, or "" when nothing is in it."""
    from html_to_markdown import convert

    content = convert(etree.tostring(element, encoding="unicode", method="html"), _options()).content or ""
    text = _BLANK_LINES.sub("\n\n", visible(content)).strip()
    return text + "\n" if text else ""
