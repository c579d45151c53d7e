"""`%fetch`: a page in the notebook, what is said of its age, and what it cannot do there."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.display.pages import page_html, page_markdown, page_text
from ipy_websearch.results import Page

URL = "http://page.example/a"
HTML = "<article><h1>Rows</h1><p>One paragraph of text, and another one behind it.</p><p>The end of the page.</p></article>"


def test_a_page_from_the_cache_says_how_old_it_is(public_web: Any, shell: Any) -> None:
    """In the output of every form; a fresh one says nothing, and `--fresh` goes to the web again."""
    public_web.page(URL, HTML)
    first, again = shell.run(f"%fetch {URL}"), shell.run(f"p = %fetch {URL}\np")
    assert first.ok and again.ok and len(public_web.requests) == 1
    assert "cached" not in first.html and "cached, fetched just now" in again.html
    page = shell.ns["p"]
    assert page.cached and abs(datetime.now(UTC) - page.fetched_at) < timedelta(minutes=1)
    assert "5 lines · cached, fetched just now" in page_text(page)
    assert shell.run(f"%fetch --fresh {URL}").ok and len(public_web.requests) == 2


@pytest.mark.parametrize(("age", "said"), [(timedelta(seconds=5), "just now"), (timedelta(minutes=12), "12 minutes ago")])
def test_the_age_is_told_in_words(age: timedelta, said: str) -> None:
    """Since when the page has been kept, in text, Markdown and HTML."""
    page = Page(URL, URL, "T", "text", 1, 1, cached=True, fetched_at=datetime.now(UTC) - age)
    for form in (page_html, page_text, page_markdown):
        assert f"cached, fetched {said}" in form(page)
    assert "cached" in page_text(Page(URL, URL, "T", "text", 1, 1, cached=True))


def test_hostile_pages_are_shown_as_their_words(public_web: Any, shell: Any) -> None:
    """Each case of data/injections.jsonl: no script, no image, no link that runs, and nothing hidden."""
    lines = (Path(__file__).parent / "data" / "injections.jsonl").read_text(encoding="utf-8").splitlines()
    for case in map(json.loads, lines):
        url = public_web.page(f"http://page.example/{case['id']}", case["html"])
        assert shell.run(f"p = %fetch {url}").ok
        shown = page_html(shell.ns["p"])
        for bad in ("<script", "<img", "javascript:", "data:text", *case["drop"]):
            assert bad not in shown, (case["id"], bad)


def test_a_refusal_is_one_line_that_names_the_rule(shell: Any) -> None:
    """No traceback, and the cell fails."""
    for url, rule in (
        ("http://169.254.169.254/latest", "cloud metadata"),
        ("http://[fe80::1%25eth0]/", "is not an IPv6 address"),
        ("http://example.com@10.0.0.1/", "user name or password"),
        ("file:///etc/passwd", "local index"),
        ("javascript:alert(1)", "only http and https"),
    ):
        ran = shell.run(f"%fetch {url}")
        assert not ran.ok and rule in str(ran.error), (url, ran.error)


def test_a_broken_pdf_says_so_in_the_place_of_its_lines(public_web: Any, shell: Any) -> None:
    """One line, in every form; it is not shown as a page that has none."""
    url = public_web.page("http://page.example/a.pdf", b"%PDF-1.4 broken", Content_Type="application/pdf")
    assert shell.run(f"p = %fetch {url}").ok
    for form in (page_html, page_text, page_markdown):
        shown = form(shell.ns["p"])
        assert shown.count("this PDF is broken and cannot be read") == 1 and "no lines here" not in shown


def test_a_page_without_text_says_so() -> None:
    """In every form."""
    for form in (page_html, page_text, page_markdown):
        assert "the page holds no text" in form(Page(URL, URL, "", "", 0, 0))
