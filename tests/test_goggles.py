"""Goggles by name: the catalogue, `%websearch goggles`, and `%search --goggle`."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.goggle_catalogue import catalogue, resolve
from ipy_websearch.providers.goggles import check_rules


def test_the_catalogue_holds_hosted_goggles_and_three_of_ours() -> None:
    """Ten to fifteen addresses where Brave accepts them, and tech, academic and news as rules."""
    hosted = [goggle for goggle in catalogue().values() if goggle.url]
    ours = [goggle.name for goggle in catalogue().values() if goggle.rules]
    assert 10 <= len(hosted) <= 15 and ours == ["tech", "academic", "news"]
    hosts = ("https://raw.githubusercontent.com/", "https://github.com/", "https://gist.github.com/", "https://gitlab.com/")
    assert all(goggle.url.startswith(hosts) and not goggle.rules for goggle in hosted)
    assert all(goggle.name and goggle.title and goggle.about for goggle in catalogue().values())


@pytest.mark.parametrize("name", ["tech", "academic", "news"])
def test_our_goggles_keep_to_the_rules(name: str) -> None:
    """Every line is a rule that Brave takes, no site stands twice, and the whole fits into a request."""
    rules = catalogue()[name].rules
    check_rules(rules)
    lines = rules.splitlines()
    assert len(lines) == len(set(lines)) >= 20 and len(rules) < 4_000


@pytest.mark.parametrize("name", ["tech-blogs", "Tech Blogs", "TECH_BLOGS", " tech-blogs "])
def test_a_name_is_found_however_it_is_written(name: str) -> None:
    """Case, blanks and underscores make no difference."""
    assert resolve(name) == "https://raw.githubusercontent.com/brave/goggles-quickstart/main/goggles/tech_blogs.goggle"


@pytest.mark.parametrize(
    "goggle", ["https://gist.github.com/me/1", "$boost=3,site=a.example", "/docs/$boost\n! a comment\n$discard", "*rust*"]
)
def test_addresses_and_rules_stay_as_they_are(goggle: str) -> None:
    """Only a bare name is looked up."""
    assert resolve(goggle) == goggle


@pytest.mark.parametrize(
    ("goggle", "told"),
    [
        ("acadmic", "no goggle 'acadmic'; did you mean 'academic'.*there are tech, academic, news"),
        ("$boost=3,site=a.example\n\n$boost=11,site=b.example", "line 3, .*the strength of boost is '11'"),
        ("$discard,sitte=a.example", "line 1, .*did you mean 'site'"),
    ],
)
def test_what_is_neither_is_refused_with_what_was_meant(goggle: str, told: str) -> None:
    """A misspelt name gets a hint, a faulty rule its line."""
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


def test_the_catalogue_can_be_listed(shell: Any) -> None:
    """Every name with what it does and where it is; unproven ones are marked as such."""
    listed = shell.run("%websearch goggles").stdout
    assert all(f"  {name} " in listed for name in catalogue())
    assert "https://github.com/forcesunseen/netsec-goggle/blob/master/netsec.goggle" in listed
    assert "inline, " in listed and "whether Brave has it is not known" in listed


def test_one_goggle_can_be_read_in_full(shell: Any) -> None:
    """`%websearch goggles NAME` shows its rules or its address; a misspelt name gets a hint."""
    assert "$boost=5,site=arxiv.org" in shell.run("%websearch goggles academic").stdout
    ran = shell.run("%websearch goggles rsut")
    assert isinstance(ran.error, ConfigError) and "did you mean 'rust'" in str(ran.error)


def test_a_search_takes_goggles_by_name_address_and_rule(brave_api: Any, shell: Any) -> None:
    """`--goggle` may be repeated; addresses go out as they are, everything inline as one text."""
    ran = shell.run("%search --provider brave --goggle no-crap --goggle academic --goggle $discard,site=x.example sleep")
    assert ran.ok, ran.error
    address, rules = brave_api.requests[0].params["goggles"]
    assert address == resolve("no-crap") and "goggles_id" not in brave_api.requests[0].params
    assert rules.splitlines() == [*resolve("academic").splitlines(), "$discard,site=x.example"]


def test_a_misspelt_goggle_costs_no_search(brave_api: Any, shell: Any) -> None:
    """The cell fails with the name that was meant, whichever engine would have been asked."""
    ran = shell.run("%search --goggle techh sleep")
    assert isinstance(ran.error, ConfigError) and "did you mean 'tech'" in str(ran.error)
    assert brave_api.requests == []
