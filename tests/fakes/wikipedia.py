"""A fake of Wikipedia's MediaWiki action API: search, and introductions of the articles that a search found.

Facts: mediawiki.org/wiki/API:Search, recordings of March 2026. Introductions are answered without the script: they are
the description that the result had.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.fakes.engine import JSON, Answer, Engine, Hit, Refusal, parameters
from tests.fakes.server import Handler, Received

FIRST_PAGE_ID = 1000


class Wikipedia(Engine):
    """The MediaWiki search of Wikipedia (`action=query&list=search`), and page extracts; errors come with HTTP 200."""

    url_name = "WIKIPEDIA_BASE_URL"

    query, count = "srsearch", ("srlimit", 10)
    fields = parameters(
        "list formatversion srsearch sroffset srnamespace srprop srinfo srsort srwhat srinterwiki srenablerewrites redirects "
        "utf8 maxlag origin errorformat uselang prop titles pageids exintro explaintext exchars exlimit exsentences inprop",
        action="query",
        format="json",
        srlimit=range(1, 501),
    )

    def __init__(self) -> None:
        super().__init__()
        self.articles: list[Hit] = []

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve /w/api.php."""
        handler = self.serve(self._look, self._shape)
        return [("GET", "/w/api.php", handler), ("POST", "/w/api.php", handler)]

    def invalid(self, name: str, why: str) -> Refusal:
        """Return the refusal of a parameter: an error with status 200."""
        return Refusal(200, {"error": {"code": f"bad_{name}", "info": why}}, f"{name}: {why}")

    def _look(self, received: Received) -> tuple[str, int, int] | Answer:
        agent = received.headers.get("user-agent", "")
        if not re.search(r"\(.*(@|https?://|\+|contact).*\)", agent):
            raise Refusal(403, "Please set a user-agent and respect our robot policy", f"user agent {agent!r}")
        if received.values().get("list") == "search":
            return self.look(received)
        return Answer(body=self._pages(self.checked(received, self.fields, "action")))

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
