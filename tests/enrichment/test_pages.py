"""Enrichment whose searches read the pages of their first results."""

from __future__ import annotations

from typing import Any

import pytest

import ipy_websearch
from ipy_websearch.errors import ConfigError
from tests.contract.helpers import CEO, companies, record
from tests.fakes.engines import hit
from tests.fakes.replies import tool_use

QUIET: dict[str, Any] = {"progress": False, "concurrency": 1}
ABOUT = "http://acme.example/about"
PAGE = "<article><h1>Acme</h1><p>The chief executive of Acme is Ada Byron, who has led it since 1843.</p></article>"


def results(body: dict[str, Any]) -> list[Any]:
    """Return the tool results of the last message."""
    content = body["messages"][-1]["content"]
    return [block for block in content if block.get("type") == "tool_result"]


def test_a_search_that_reads_pages_gives_their_passages(
    messages_api: Any, brave_api: Any, public_web: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `read_pages` it reads none, and a value of the one is not a value of the other."""
    monkeypatch.setattr("ipy_websearch.tools.web.READ_S", 60.0)
    brave_api.behave(lambda _: [hit(ABOUT, "Acme", "About us")])
    public_web.page(ABOUT, PAGE)
    said = {"value": "Ada Byron", "source": ABOUT, "quote": "The chief executive of Acme is Ada Byron"}
    messages_api.behave(lambda body: record(ceo=said) if results(body) else tool_use("web_search", {"query": "Acme CEO"}))
    ipy_websearch.enrich(companies("Acme"), CEO, **QUIET)
    assert "About us" in str(results(messages_api.bodies[-1])) and public_web.requests == []
    out = ipy_websearch.enrich(companies("Acme"), CEO, read_pages=1, **QUIET)
    assert list(out.ceo_source) == [ABOUT] and "Ada Byron, who has led it" in str(results(messages_api.bodies[-1]))
    asked = len(messages_api.bodies)
    ipy_websearch.enrich(companies("Acme"), CEO, read_pages=1, **QUIET)
    assert len(messages_api.bodies) == asked, "the value of the last call was kept"
    with pytest.raises(ConfigError, match="leave read_pages out"):
        ipy_websearch.enrich(companies("Acme"), CEO, read_pages=1, mode="batch", **QUIET)
