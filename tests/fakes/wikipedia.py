"""A fake of Wikipedia's MediaWiki action API: search, and introductions of the articles that a search found.

Facts: mediawiki.org/wiki/API:Search, recordings of March 2026. Introductions are answered without the script: they are
the description that the result had.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.fakes.engine import JSON, Answer, Engine, Hit, Refusal, whole_number
from tests.fakes.server import Handler, Received
from tests.fakes.shapes import words

FIRST_PAGE_ID = 1000


class Wikipedia(Engine):
    """The MediaWiki search of Wikipedia (`action=query&list=search`), and page extracts; errors come with HTTP 200."""

    url_name = "WIKIPEDIA_BASE_URL"

    KNOWN = set(
        words(
            "action list format formatversion srsearch srlimit sroffset srnamespace srprop srinfo srsort "
            "srwhat srinterwiki srenablerewrites redirects utf8 maxlag origin errorformat uselang prop "
            "titles pageids exintro explaintext exchars exlimit exsentences inprop"
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self.articles: list[Hit] = []

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /w/api.php."""
        handler = self.serve(self._look, self._shape)
        return [("GET", "/w/api.php", handler), ("POST", "/w/api.php", handler)]

    def _error(self, code: str, info: str) -> Refusal:
        return Refusal(200, {"error": {"code": code, "info": info, "*": "See the API's page for usage."}}, f"{code}: {info}")

    def _look(self, received: Received) -> tuple[str, int, int] | Answer:
        agent = received.headers.get("user-agent", "")
        if not re.search(r"\(.*(@|https?://|\+|contact).*\)", agent):
            raise Refusal(403, "Please set a user-agent and respect our robot policy", f"user agent {agent!r}")
        values = received.values()
        if values.get("format") != "json":
            raise self._error("badformat", "only format=json is served here")
        if unknown := [name for name in values if name not in self.KNOWN]:
            raise self._error("unknown_param", f"Unrecognized parameter: {', '.join(unknown)}.")
        if values.get("action") != "query":
            raise self._error("badvalue", f'Unrecognized value for parameter "action": {values.get("action")}.')
        if values.get("list") != "search":
            return Answer(body=self._pages(values))
        if not values.get("srsearch"):
            raise self._error("missingparam", 'The "srsearch" parameter must be set.')
        count = whole_number(values.get("srlimit", 10), 1, 500)
        if count is None:
            raise self._error("outofrange", 'The value of "srlimit" must be between 1 and 500.')
        return values["srsearch"], count, int(values.get("sroffset", 0))

    def _shape(self, hits: Sequence[Hit], values: JSON) -> JSON:
        search = [
            {
                "ns": 0,
                "title": entry["title"],
                "pageid": self._number(entry),
                "size": 1234,
                "wordcount": 200,
                "snippet": entry["description"],
                "timestamp": f"{(entry['date'] or '2026-10-01')[:10]}T12:00:00Z",
            }
            for entry in hits
        ]
        complete: Any = True if values.get("formatversion") == "2" else ""
        return {"batchcomplete": complete, "query": {"searchinfo": {"totalhits": len(search)}, "search": search}}

    def _number(self, entry: Hit) -> int:
        """Return an article's page id: its place among all articles that were found so far."""
        if entry not in self.articles:
            self.articles.append(entry)
        return FIRST_PAGE_ID + self.articles.index(entry)

    def _pages(self, values: JSON) -> JSON:
        """Return articles by page id or title, with their introductions."""
        ids = str(values.get("pageids", "")).split("|")
        titles = str(values.get("titles", "")).split("|")
        pages = []
        for number, entry in enumerate(self.articles, FIRST_PAGE_ID):
            if str(number) in ids or entry["title"] in titles:
                path = entry["title"].replace(" ", "_")
                page = {"pageid": number, "ns": 0, "title": entry["title"], "extract": entry["description"]}
                pages.append(page | {"fullurl": f"https://en.wikipedia.org/wiki/{path}", "contentmodel": "wikitext"})
        listed: Any = pages if str(values.get("formatversion")) == "2" else {str(page["pageid"]): page for page in pages}
        return {"batchcomplete": True, "query": {"pages": listed}}
