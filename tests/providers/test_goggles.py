"""Goggles: rules checked line by line, the catalogue, `%websearch goggles`, and `%search --goggle`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.goggles import catalogue, resolve


def test_the_catalogue_holds_hosted_goggles_and_three_of_ours() -> None:
    """Addresses are where Brave accepts them; our rules keep to the form and fit into a request."""
    hosted = [goggle for goggle in catalogue().values() if goggle.url]
    ours = [goggle for goggle in catalogue().values() if goggle.rules]
    assert 10 <= len(hosted) <= 15 and [goggle.name for goggle in ours] == ["tech", "academic", "news"]
    hosts = ("https://raw.githubusercontent.com/", "https://github.com/", "https://gist.github.com/", "https://gitlab.com/")
    assert all(goggle.url.startswith(hosts) and goggle.title and goggle.about for goggle in hosted)
    for goggle in ours:
        assert resolve(goggle.rules) == goggle.rules
        assert len(set(goggle.rules.splitlines())) == len(goggle.rules.splitlines()) >= 20 and len(goggle.rules) < 4_000


@pytest.mark.parametrize("name", ["tech-blogs", "Tech Blogs", "TECH_BLOGS", " tech-blogs "])
def test_a_name_is_found_however_it_is_written(name: str) -> None:
    assert resolve(name) == "https://raw.githubusercontent.com/brave/goggles-quickstart/main/goggles/tech_blogs.goggle"


@pytest.mark.parametrize(
    "goggle",
    [
        "https://gist.github.com/me/1",
        "! name: mine\n\n/docs/$boost=5\n/blog/$downrank=2\n$discard,site=x.com\n$discard",
        "|https://en.\n.html|\nfoo^bar*baz$inurl",
        "*rust*$boost=1,site=rs\n$site=community.brave.app,boost=2",
    ],
)
def test_addresses_and_good_rules_stay_as_they_are(goggle: str) -> None:
    """The forms that published goggles use are all understood."""
    assert resolve(goggle) == goggle


@pytest.mark.parametrize(
    ("goggle", "told"),
    [
        ("acadmic", "no goggle 'acadmic'; did you mean 'academic'.*there are tech, academic, news"),
        ("$boost=3,site=a.example\n\n$boost=11,site=b.example", r"line 3, .*boost=11.*is no rule.*boost=1…10"),
        ("! mine\n$boots=3,site=b.com", "line 2, .*did you mean 'boost'"),
        ("$site=", "is no rule"),
        ("=3,site=docs.python.org", "swallowed by a shell"),
        ("two words$boost", "is no rule"),
        ("/" + "x" * 500, "is no rule"),
    ],
)
def test_what_is_neither_is_refused_with_its_line(goggle: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        resolve(goggle)


@given(st.text(max_size=60))
def test_any_text_is_an_address_rules_or_refused(text: str) -> None:
    """Whatever is typed, only our own error comes out, in one line."""
    try:
        value = resolve(text)
    except ConfigError as exc:
        assert "\n" not in str(exc)
    else:
        assert value == text.strip() or value in {goggle.value for goggle in catalogue().values()}


def test_a_search_takes_goggles_by_name_address_and_rule(brave_api: Any, shell: Any) -> None:
    """Addresses go out as they are, everything inline as one text; a misspelt name costs no search."""
    ran = shell.run("%search --provider brave --goggle no-crap --goggle academic --goggle $discard,site=x.example sleep")
    assert ran.ok, ran.error
    address, rules = brave_api.requests[0].params["goggles"]
    assert address == resolve("no-crap") and "goggles_id" not in brave_api.requests[0].params
    assert rules.splitlines() == [*resolve("academic").splitlines(), "$discard,site=x.example"]
    assert isinstance(shell.run("%search --goggle techh sleep").error, ConfigError) and len(brave_api.requests) == 1
