"""The sources of answers as a bibliography: BibTeX (biblatex's `@online`), RIS, or CSL JSON for Zotero, Quarto and Pandoc."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from ipy_websearch.errors import ConfigError
from ipy_websearch.text import visible

if TYPE_CHECKING:
    from ipy_websearch.results import Citation

_TEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", **{c: f"\\{c}" for c in "{}&%$#_"}}


def bibliography(citations: Iterable[Citation], style: str = "bibtex") -> str:
    """Return each cited page once, in the order of first citation, as text of a style: "bibtex", "ris" or "csl".

    Raises:
        ConfigError: there is no such style.
    """
    if style not in STYLES:
        raise ConfigError(f"style is {style!r}; it must be one of {', '.join(STYLES)}")
    entries: dict[str, dict[str, Any]] = {}
    for citation in citations:
        entries.setdefault(citation.url or citation.title, _entry(citation, len(entries) + 1))
    return STYLES[style](list(entries.values()))


def _entry(citation: Citation, number: int) -> dict[str, Any]:
    url = "".join(visible(citation.url).split())
    try:
        host = (urlsplit(url).hostname or "").removeprefix("www.")
    except ValueError:
        host = ""
    is_web = url.startswith(("http://", "https://")) and bool(host)
    day = citation.published_date
    name = re.sub(r"[^a-z0-9]", "", host.split(".")[-2] if host.count(".") else host) or "source"
    return {
        "id": f"{name}{day.year if day else ''}-{number}",
        "title": " ".join(visible(citation.title).split()) or url,
        "url": quote(url, safe="/?#:@!&'()*+,;=%-._~") if is_web else "",
        "place": host or url,
        "date": day.astimezone(UTC).date() if day and day.tzinfo else day.date() if day else None,
        "accessed": datetime.now(UTC).date(),
    }


def _bibtex(entries: list[dict[str, Any]]) -> str:
    found = []
    for entry in entries:
        fields = {"title": f"{{{_tex(entry['title'])}}}", "organization": _tex(entry["place"])}
        fields |= {"url": entry["url"].replace("%", r"\%").replace("#", r"\#")} if entry["url"] else {}
        fields |= {"date": entry["date"].isoformat()} if entry["date"] else {}
        fields |= {"urldate": entry["accessed"].isoformat()} if entry["url"] else {}
        lines = ",\n".join(f"  {name} = {{{value}}}" for name, value in fields.items())
        found.append(f"@online{{{entry['id']},\n{lines}\n}}\n")
    return "\n".join(found)


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in unicodedata.normalize("NFC", text))


def _ris(entries: list[dict[str, Any]]) -> str:
    found = []
    for entry in entries:
        day: date | None = entry["date"]
        lines = ["TY  - ELEC", f"ID  - {entry['id']}", f"TI  - {entry['title']}", f"PB  - {entry['place']}"]
        lines += [f"PY  - {day:%Y}", f"DA  - {day:%Y/%m/%d}"] if day else []
        lines += [f"UR  - {entry['url']}", f"Y2  - {entry['accessed']:%Y/%m/%d}"] if entry["url"] else []
        found.append("\r\n".join([*lines, "ER  - ", ""]))
    return "\r\n".join(found)


def _csl(entries: list[dict[str, Any]]) -> str:
    items = []
    for entry in entries:
        item = {"id": entry["id"], "type": "webpage", "title": entry["title"], "container-title": entry["place"]}
        item |= {"issued": _parts(entry["date"])} if entry["date"] else {}
        item |= {"URL": entry["url"], "accessed": _parts(entry["accessed"])} if entry["url"] else {}
        items.append(item)
    return json.dumps(items, ensure_ascii=False, indent=1) + "\n"


def _parts(day: date) -> dict[str, list[list[int]]]:
    return {"date-parts": [[day.year, day.month, day.day]]}


STYLES: dict[str, Callable[[list[dict[str, Any]]], str]] = {"bibtex": _bibtex, "ris": _ris, "csl": _csl}
