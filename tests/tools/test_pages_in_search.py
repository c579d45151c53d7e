"""Pages that a search reads: what the model gets of them, and what is said of those that could not be read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fakes.engines import hit
from tests.fakes.replies import text, tool_use

pytestmark = pytest.mark.anyio

SEARCH = tool_use("web_search", {"query": "ruby author"})
QUESTION = "Who wrote Ruby?"


async def test_a_source_says_whether_its_page_was_read(
    messages_api: Any, brave_api: Any, public_web: Any, session: Any
) -> None:
    """Also when it is cited again in a later turn."""
    url = public_web.page("http://ruby.example.org/about", "<h1>Ruby</h1><p>Matz wrote Ruby in 1993, in Japan.</p>")
    brave_api.reply([hit(url, "Ruby", "A language."), hit("https://b.example/", "Other", "Another language.")])
    cited = text("Matz did.", citations=[(2, 0)]), text(" There are others.", citations=[(1, 0)])
    for reply in ((SEARCH,), (tool_use("web_fetch", {"url": url}),), cited, cited):
        messages_api.reply(*reply)
    answer = await session.ask(QUESTION)
    again = await session.ask("Are you sure?", follow=True)
    for frame in (answer.sources, again.sources):
        assert dict(zip(frame.url, frame.read, strict=True)) == {url: "page", "https://b.example/": "snippet"}
