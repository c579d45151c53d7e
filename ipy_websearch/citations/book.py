"""Numbers the sources of an answer and merges what cites the same one. Pure.

Invariant: a source's number is its place in the order of first citation, the same address always has the same number, and
every `[n]` in the text has a row n in the sources.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ipy_websearch.citations.claims import check
from ipy_websearch.results import Citation, Claim, Read
from ipy_websearch.text import fold, plain, visible

_MARKS = re.compile(r"(?<!\\)\[(\d{1,4})\]")
_WRITTEN = re.compile(r"\\\[\d{1,4}\]")  # a number that the model wrote itself: no mark, and no fact either
_SENTENCES = re.compile(r"(?<=[.!?。！？])[\"”’')*_]*\s+(?=[^\sa-z])|\n+")
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_EMPHASIS = re.compile(r"[*_`]{1,3}")
_FEWEST_WORDS = 4
_DOCUMENTS = ("char_location", "page_location", "content_block_location")
_TRACKERS = frozenset(("gclid", "fbclid", "msclkid", "dclid"))


class CitationBook:
    """Collects the citations of one answer, and holds its sentences against them.

    `know` tells it of the passages that the model was given. A citation of what was not given is none; one that carries only a
    title, or no date, finds its page by the passage it quotes. `native` says that the API's own tools were offered or gave
    results: what only they give may be cited then.
    """

    def __init__(self) -> None:
        self.native = False
        self._numbers: dict[str, int] = {}
        self._citations: list[Citation] = []
        self._seen: set[tuple[int, str]] = set()
        self._dates: dict[str, datetime] = {}
        self._given: dict[str, list[tuple[str, str]]] = {}
        self._titles: dict[str, list[str]] = {}
        self._read: set[str] = set()
        self._spans: list[tuple[str, tuple[int, ...]]] = []

    @property
    def citations(self) -> tuple[Citation, ...]:
        """All distinct passages cited so far, in order of first citation."""
        return tuple(self._citations)

    def know(
        self,
        url: str,
        title: str,
        published_date: datetime | None = None,
        texts: Iterable[str] = (),
        read: Read = "snippet",
    ) -> None:
        """Remember a source that the model was given, its paragraphs, and whether they are text of the page itself."""
        page = same_page(url)
        self._read.update([page] if read == "page" else [])
        if published_date is not None:
            self._dates.setdefault(page, published_date)
        self._given.setdefault(page, []).extend((url, _flat(text)) for text in texts)
        pages = self._titles.setdefault(plain(title), [])
        if all(same_page(known) != page for known in pages):
            pages.append(url)

    def know_history(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Remember what earlier turns of the conversation gave the model."""
        self.native = self.native or any(map(_has_native_results, messages))
        for block in _search_results(messages):
            texts = [str(part.get("text", "")) for part in block.get("content") or () if isinstance(part, Mapping)]
            self.know(str(block.get("source") or ""), str(block.get("title") or ""), None, texts)

    def cite(self, raw: Mapping[str, Any]) -> tuple[int, Citation | None] | None:
        """Return the source number for an API citation, and the `Citation` when its passage is new (else None).

        None when what it quotes was not given in this conversation. Understood are `search_result_location`,
        `web_search_result_location` (the API gave that passage itself), and the document locations of fetched pages
        (`char_location`, `page_location`, `content_block_location`), which name a title only.
        """
        title = plain(raw.get("title")) or plain(raw.get("document_title"))
        text = visible(str(raw.get("cited_text") or "")).strip()
        url = str(raw.get("url") or raw.get("source") or self._page_of(title, text))
        believed = self._stands(url, text) if raw.get("type") == "search_result_location" else self.native
        if not believed:
            return None
        key = same_page(url) if url else title or text
        n = self._numbers.setdefault(key, len(self._numbers) + 1)
        if (n, text) in self._seen:
            return n, None
        self._seen.add((n, text))
        read: Read = "page" if key in self._read or str(raw.get("type")) in _DOCUMENTS else "snippet"
        citation = Citation(n, title or url, url, text, self._dates.get(key), read)
        self._citations.append(citation)
        return n, citation

    def bind(self, block: Mapping[str, Any]) -> str:
        """Return the marks of a text block for those of its citations that quote what was given: "[1][3]"."""
        found = [cited for raw in block.get("citations") or () if (cited := self.cite(raw)) is not None]
        numbers = tuple(dict.fromkeys(n for n, _ in found))
        if numbers:
            self._spans.append((_flat(_EMPHASIS.sub("", str(block.get("text") or ""))), numbers))
        return marks(numbers)

    def emptied(self) -> CitationBook:
        """Return a book of the same passages without citations, for another answer from them."""
        book = CitationBook()
        book._given, book._titles, book._dates = self._given, self._titles, self._dates
        book._read, book.native = self._read, self.native
        return book

    def claims(self, text: str) -> tuple[Claim, ...]:
        """Return the sentences of an answer's Markdown, each held against the passages that its marks point to."""
        found = []
        moved = re.sub(r"([.!?。！？][\"”’')*_]*)((?:\[\d{1,4}\])+)", r"\2\1", _FENCED.sub("", text))
        for part in _SENTENCES.split(moved):
            sentence = _EMPHASIS.sub("", re.sub(r"^[#>*+\s-]+|^\d+[.)]\s+", "", _MARKS.sub("", _WRITTEN.sub("", part)))).strip()
            numbers = tuple(dict.fromkeys(int(n) for n in _MARKS.findall(part))) or self._numbers_of(sentence)
            heading = part.lstrip().startswith(("#", "|", ">")) or sentence.endswith(":")
            if not sentence or (not numbers and (heading or len(sentence.split()) < _FEWEST_WORDS)):
                continue
            cited = [citation for citation in self._citations if citation.n in numbers]
            passages = dict.fromkeys(citation.cited_text for citation in cited)
            about = [f"{c.title} {c.published_date:%Y-%m-%d}" if c.published_date else c.title for c in cited]
            claim = check(sentence, [*passages, *dict.fromkeys(about)] if any(passages) else [])
            found.append(Claim(claim.verdict, claim.missing, sentence, numbers))
        return tuple(found)

    def _numbers_of(self, sentence: str) -> tuple[int, ...]:
        """Return the marks of the passage of text that a sentence without marks of its own stands in."""
        flat = _flat(sentence)
        return next((numbers for text, numbers in self._spans if flat and flat in text), ())

    def _stands(self, url: str, text: str) -> bool:
        given = self._given.get(same_page(url))
        return given is not None and _flat(text) in " ".join(paragraph for _, paragraph in given)

    def _page_of(self, title: str, text: str) -> str:
        """Return the address of the page of that title which has the text; of an untitled one, of any page that has it."""
        flat = _flat(text)
        pages = self._titles.get(title, []) if title else [url for urls in self._titles.values() for url in urls]
        quoting = [url for url in pages if flat and self._stands(url, text)]
        return quoting[0] if quoting else pages[0] if title and len(pages) == 1 else ""


def _flat(text: str) -> str:
    return fold(visible(text))


def _has_native_results(message: Mapping[str, Any]) -> bool:
    content = message["content"] if isinstance(message.get("content"), list) else ()
    kinds = [str(block.get("type")) for block in content if isinstance(block, Mapping)]
    return any(kind.startswith("web_") and kind.endswith("_tool_result") for kind in kinds)


def _search_results(messages: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    for message in messages:
        content: Sequence[Any] = message["content"] if isinstance(message.get("content"), list) else ()
        for block in content:
            inner = block.get("content") if isinstance(block, Mapping) and block.get("type") == "tool_result" else None
            yield from (part for part in inner or () if isinstance(part, Mapping) and part.get("type") == "search_result")


def same_page(url: str) -> str:
    """Return the address in the form in which two addresses of one page are equal.

    The host is in lower case; trackers (`utm_…`) and fragments go, except those that name a page of their own (`#/item/1`).
    """
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return url
    query = parts.query
    if "utm_" in query or "clid=" in query:
        kept = [(k, v) for k, v in parse_qsl(query, keep_blank_values=True) if not k.startswith("utm_") and k not in _TRACKERS]
        query = urlencode(kept)
    fragment = parts.fragment if parts.fragment.startswith(("/", "!")) else ""
    return urlunsplit((parts.scheme.lower(), parts.netloc.lower(), parts.path.rstrip("/") or "/", query, fragment))


def marks(numbers: Iterable[int]) -> str:
    """Return the marks for source numbers: [1][3], each once, in the order given."""
    return "".join(f"[{n}]" for n in dict.fromkeys(numbers))
