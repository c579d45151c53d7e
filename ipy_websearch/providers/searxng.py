"""SearXNG: a metasearch server of one's own, without keys; its address is in SEARXNG_BASE_URL.

Wire facts: docs.searxng.org, "Search API", read 2026-11, and a server of 2026-08 run for the recordings. It has no parameter
for a number of results or for domains: `site:` goes along in the query, for the engines that know it. When nothing was found
because the engines behind it did not answer, that is a failure and not an empty result. `score` is above 1 where engines agree.
"""

from __future__ import annotations

from ipy_websearch.providers import base
from ipy_websearch.results import Charge
from ipy_websearch.text import shorten


class SearxngProvider(
    base.Engine,
    name="searxng",
    method="GET",
    timeout_s=15.0,
    fields={"description": "content", "published_date": "publishedDate pubdate"},
    ignores=("goggles", "place"),
    price=(Charge("searxng", "search"),),  # free by the price table; a prices.toml of the user's may say what a server costs
    # Out of the box a server gives HTML only, and says no more than 403.
    refusals=(base.Refusal("403", remedy="the server gives no JSON: add `json` to `search.formats` in its settings.yml"),),
):
    """Asks a SearXNG server."""

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the parameters of one search."""
        language, country = request.language, request.country_code
        if country and not language:
            notices.append("searxng takes a country only together with a language; ignored")
        if request.days:
            notices.append("searxng knows the past day, week, month and year, but no range of dates; ignored")
        return base.present(
            q=base.with_site_operators(query, request),
            format="json",
            language=f"{language}-{country}" if language and country and "-" not in language else language,
            time_range=request.period,
            safesearch={"off": "0", "moderate": "1", "strict": "2"}[request.safe_search],
        )

    def examine(self, raw: base.Json, notices: list[str]) -> None:
        """Say which of its engines did not answer; nothing found because of that is a failure."""
        engines = [entry if isinstance(entry, list) else [entry] for entry in base.values(raw, "unresponsive_engines") if entry]
        silent = shorten(", ".join(": ".join(base.text(part, 60) for part in engine) for engine in engines[:20]), 200)
        if engines and not raw.get("results") and not raw.get("answers"):
            raise self.failure(f"nothing was found because its engines did not answer: {silent}")
        if silent:
            notices.append(f"these engines of searxng did not answer: {silent}")
