"""Code blocks made plain: `<pre><code class="language-x">` with the text alone, wherever the page's highlighter put it."""

from __future__ import annotations

import re
from typing import Any

from lxml import etree

from ipy_websearch.extract.tree import remove

_LANGUAGE = re.compile(
    r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-text-|highlight-|brush:\s*|sourceCode\s+|hljs\s+|src-)"
    r"([A-Za-z][\w+#.-]{0,30})"
)
_NAME = re.compile(r"[A-Za-z][\w+#.-]{0,30}")
_NO_LANGUAGE = frozenset(
    "default none text plain plaintext highlight notranslate source hljs copyable wrapper nohighlight unknown code"
    " block".split()
)
_LINE_NUMBERS = frozenset(
    "linenos lineno linenodiv linenumber line-number line-numbers gutter blob-num ln-num hljs-ln-numbers"
    " react-code-line-number".split()
)
_LINES = frozenset({"div", "li", "p", "tr", "ol", "ul", "table"})
_WRAPPERS = frozenset({"div", "figure", "td", "tr", "tbody", "table", "span", "section"})
_KEPT = ("hidden", "style", "aria-hidden")


def mark_code_blocks(body: Any) -> None:
    """Rewrite each code block in place; line numbers go, line breaks stay, the language comes from any wrapper."""
    for element in list(body.iter("td", "span", "div", "pre", "a")):
        if not _LINE_NUMBERS.isdisjoint((element.get("class") or "").lower().split()) and _is_numbers(element):
            remove(element)
    for code in list(body.iter("code")):
        if code.find(".//br") is not None and not any(a.tag == "pre" for a in code.iterancestors()):
            code.tag = "pre"
    for pre in list(body.iter("pre")):
        if not any(a.tag == "pre" for a in pre.iterancestors()):
            _rewrite(pre)


def _is_numbers(element: Any) -> bool:
    return not "".join(element.itertext()).strip("0123456789 \t\n\r.:|")


def _rewrite(pre: Any) -> None:
    language = language_of(pre)
    text = _lines(pre)
    kept = {name: pre.get(name) for name in _KEPT if pre.get(name) is not None}
    tail = pre.tail
    pre.clear()
    pre.tail = tail
    pre.attrib.update(kept)
    code = etree.SubElement(pre, "code")
    code.text = _without_numbers(text.strip("\n"))
    if language:
        code.set("class", f"language-{language}")


def _lines(pre: Any) -> str:
    """Return the text in `pre`, with a line break for each `<br>` and around each block that stands for a line."""
    parts = [pre.text or ""]
    for event, element in etree.iterwalk(pre, events=("start", "end")):
        if element is pre:
            continue
        ends = event == "end"
        if element.tag in _LINES and parts[-1] and not parts[-1].endswith("\n") and (ends or any(parts)):
            parts.append("\n")
        if element.tag == "br" and ends:
            parts.append("\n")
        text = element.tail if ends else element.text
        between_lines = element.tag in _LINES and (ends or len(element) > 0) and parts[-1].endswith("\n")
        if text and not (between_lines and text.isspace() and "\n" in text):
            parts.append(text)
    return "".join(parts)


def _without_numbers(text: str) -> str:
    """Return `text` without the lines that only count 1, 2, 3, … when every other line or so is one."""
    lines = text.split("\n")
    numbers = [line.strip() for line in lines if line.strip().isdigit()]
    if len(numbers) < 2 or 3 * len(numbers) < len(lines) or numbers != [str(n + 1) for n in range(len(numbers))]:
        return text
    return "\n".join(line for line in lines if not line.strip().isdigit()) if len(numbers) < len(lines) else text


def language_of(pre: Any) -> str:
    """Return the language that a code block, its `<code>` or one of its next wrappers names, "" when none does."""
    code = pre.find(".//code")
    chain = [e for e in (code, pre) if e is not None]
    for _, parent in zip(range(4), pre.iterancestors(), strict=False):
        if parent.tag not in _WRAPPERS or len(parent.findall(".//pre")) > 2:
            break
        chain.append(parent)
    return next((name for element in chain if (name := _named(element))), "")


def _named(element: Any) -> str:
    for attribute in ("data-lang", "data-language"):
        value = element.get(attribute) or ""
        if _NAME.fullmatch(value) and value.lower() not in _NO_LANGUAGE:
            return value.lower()
    for match in _LANGUAGE.finditer(element.get("class") or ""):
        name = match[1].lower().removeprefix("language-").removeprefix("source-").removeprefix("text-").rstrip(";")
        if name not in _NO_LANGUAGE and not name.startswith(("source", "wrap")):
            return name
    return ""
