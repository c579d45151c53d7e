"""The content of pages that are empty until a script fills them: found in `<noscript>` or in embedded JSON.

Used only when the page shows next to nothing without it, so no text that a reader cannot see is added to a page that
has text of its own.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from lxml import etree

_ENOUGH_CHARACTERS = 400
_MAX_JSON = 3_000_000
_MAX_VALUES = 200_000
_MAX_TEXTS = 2_000
_TEXT_KEYS = re.compile(r"articleBody|cooked|body|content|contentHtml|html|text|description", re.IGNORECASE)
_MARKUP = re.compile(r"<(?:p|div|h[1-6]|ul|ol|table|blockquote|pre)\b", re.IGNORECASE)


def embedded_content(root: Any) -> str | None:
    """Return HTML for the page's body out of its noscript parts or its JSON, or None when neither holds enough."""
    parts = [e for e in root.iter("noscript") if len(e.text_content().strip()) > _ENOUGH_CHARACTERS]
    if parts:
        return "".join(etree.tostring(e, encoding="unicode", method="html", with_tail=False) for e in parts).replace(
            "noscript", "div"
        )
    scripts = (script.text or "" for script in root.iter("script") if "json" in (script.get("type") or ""))
    texts = list(dict.fromkeys(text for script in scripts for text in _texts(script)))[:_MAX_TEXTS]
    if sum(map(len, texts)) < _ENOUGH_CHARACTERS:
        return None
    return "".join(f"<article>{t if _MARKUP.search(t) else _paragraphs(t)}</article>" for t in texts)


def _texts(source: str) -> Iterator[str]:
    """Yield the strings in a JSON text that are prose; JSON within strings is looked into."""
    stack: list[tuple[str, Any]] = [("", source)]
    seen = 0
    while stack and seen < _MAX_VALUES:
        seen += 1
        key, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(reversed(list(value.items())))
        elif isinstance(value, list):
            stack.extend((key, item) for item in reversed(value))
        elif isinstance(value, str):
            parsed = _parsed(value)
            if parsed is not None:
                stack.append(("", parsed))
            elif _is_prose(key, value):
                yield value


def _parsed(value: str) -> Any:
    if not 20 < len(value) < _MAX_JSON or not value.lstrip().startswith(("{", "[")):
        return None
    try:
        parsed = json.loads(value, strict=False)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _is_prose(key: str, value: str) -> bool:
    if _TEXT_KEYS.fullmatch(key) is None or "function(" in value or "{" in value[:200]:
        return False
    return _MARKUP.match(value.lstrip()) is not None or (len(value) > 80 and value.count(" ") > len(value) / 12)


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{html.escape(part)}</p>" for part in re.split(r"\n\s*\n", text) if part.strip())
