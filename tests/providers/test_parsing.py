"""Reading engines' fields: dates, numbers, addresses and texts, whatever is in them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.providers import parsing
from tests.fakes.wire import odd_json


@pytest.mark.parametrize(
    ("value", "moment"),
    [
        ("2024-12-27T15:49:55", datetime(2024, 12, 27, 15, 49, 55, tzinfo=UTC)),
        ("2025-12-29T00:00:00.000Z", datetime(2025, 12, 29, tzinfo=UTC)),
        ("2022-01-04T17:33:05-0500", datetime(2022, 1, 4, 22, 33, 5, tzinfo=UTC)),
        (" 2026-01-02 ", datetime(2026, 1, 2, tzinfo=UTC)),
        ("Tue, 11 Mar 2025 10:00:00 +0200", datetime(2025, 3, 11, 8, tzinfo=UTC)),
        ("Jun 24, 2024 ... In this article", datetime(2024, 6, 24, tzinfo=UTC)),
    ],
)
def test_dates_become_aware_utc(value: str, moment: datetime) -> None:
    """With any offset or none; the first of several values that is a date counts."""
    found = parsing.moment(None, "yesterday", value, "2001-01-01")
    assert found == moment and found is not None and found.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        *("3 days ago", "yesterday", "September 6, 2019", "2025", "2025-W01", "20250101", "07/11/2023", "2024-06-24 10:09 PM"),
        *("2026-13-45", "2026-01-01T99:00:00", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-14:00", "In Jun 24, 2024"),
        *("Tue, 11 Mar 2025", "Tue, 99 Mar 2025 10:00:00 GMT", "Jum 24, 2024", "Feb 30, 2024", "24 Jun 2024"),
        *("", None, True, 1735689600, 1.5, [], {}),
    ],
)
def test_what_is_no_date_is_none(value: Any) -> None:
    """Words, other orders, days that do not exist, null dates, and other types."""
    assert parsing.moment(value) is None


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("https://a.example/b?c=d#e", "https://a.example/b?c=d#e"),
        (" https://a.example/b c ", "https://a.example/b%20c"),
        ("https://a.example/<script>\"'", "https://a.example/%3Cscript%3E%22'"),
        ("https://a.example/\u202egpj.exe", "https://a.example/gpj.exe"),
        ("HTTP://A.example/", "HTTP://A.example/"),
        ("https://a.example/%C3%A4ä", "https://a.example/%C3%A4ä"),
    ],
)
def test_addresses_are_kept_but_for_what_breaks_out(value: str, url: str) -> None:
    """Blanks, brackets and quotes are escaped, invisible characters go."""
    assert parsing.address(value) == url


@given(value=st.text(max_size=40) | st.text(max_size=20).map(lambda tail: f"https://{tail}") | odd_json)
def test_any_address_is_one_or_empty(value: Any) -> None:
    """What comes out begins with a scheme of the web, has a host, and holds nothing that ends an attribute or a link."""
    url = parsing.address(value)
    assert url == "" or (url.lower().startswith(("http://", "https://")) and not set(' <>"\\\n\t\r`') & set(url))


def test_a_domain_takes_in_its_subdomains_and_nothing_that_ends_alike() -> None:
    """The host counts, not the text of the address."""
    assert parsing.host_matches("https://docs.a.com./x", ["a.com"]) and parsing.host_matches("https://A.com:8080/", ["a.com"])
    for url in ("https://nota.com/", "https://b.org/a.com", "https://a.com@b.org/", "https://a.com.b.org/", "http://[", ""):
        assert not parsing.host_matches(url, ["a.com"]), url
