"""Addresses: every row of data/addresses.tsv is judged as it says, and no notation gets round the rules."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import BlockedAddressError, ConfigError
from ipy_websearch.http.download import allow_list, canonical_url, check_url, ip_rule, shown

TABLE = Path(__file__).parents[1] / "data" / "addresses.tsv"
ROWS = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


def judged(url: str, allow: frozenset[str] = frozenset()) -> str:
    try:
        check_url(url, allow=allow)
    except BlockedAddressError as exc:
        assert "\n" not in str(exc) and len(str(exc)) < 500 and " was refused: " in str(exc)
        return "block"
    return "allow"


@pytest.mark.parametrize(("expected", "url", "why", "answers"), ROWS, ids=[row[2] for row in ROWS])
def test_each_address_of_the_table_is_judged_as_it_says(expected: str, url: str, why: str, answers: str) -> None:
    by_answers = any(map(ip_rule, answers.split()))
    assert ("block" if by_answers else judged(json.loads(url))) == expected


@given(st.ip_addresses(v=4) | st.sampled_from(["10.1.2.3", "169.254.169.254", "8.8.8.8", "100.64.0.0"]).map(IPv4Address))
def test_all_notations_of_an_ipv4_address_are_judged_alike(ip: IPv4Address) -> None:
    a, b, c, d = ip.packed
    expected = judged(f"http://{ip}/")
    wide = str(ip).translate({ord("0") + digit: 0xFF10 + digit for digit in range(10)})
    escaped = "".join(f"%{ord(character):02x}" for character in str(ip))
    forms = [int(ip), hex(int(ip)), f"0{int(ip):o}", f"{a}.{int(ip) & 0xFFFFFF}", f"{a}.{b}.{c << 8 | d}", f"{ip}.", wide]
    for form in (*forms, escaped, str(ip).replace(".", "。"), f"0x{a:X}.0{b:o}.{c}.{d}"):
        assert judged(f"http://{form}/") == expected, form
        assert expected == "block" or check_url(f"http://{form}/").literal_ip == str(ip)


@given(st.ip_addresses(v=4), st.sampled_from([0xFFFF << 32, 0, 0xFFFF << 48, 0x64FF9B << 96, 0x26064700 << 96 | 0x5EFE << 32]))
def test_an_ipv6_address_is_never_better_than_the_ipv4_address_in_it(inner: IPv4Address, prefix: int) -> None:
    assert ip_rule(IPv6Address(prefix | int(inner))) is not None or ip_rule(inner) is None


@given(st.ip_addresses(v=6).filter(lambda ip: int(ip) >> 125 != 1))
def test_no_ipv6_address_outside_of_global_unicast_passes(ip: IPv6Address) -> None:
    assert judged(f"http://[{ip}]/") == "block"


_PIECES = ["http://", "https:", "//", "/", "\\", "@", ":", "#", "?", ".", "%", "[", "]", "a.com", "127.0.0.1", "80", "\t", "é"]


@given(st.text() | st.lists(st.sampled_from([*_PIECES, "２"]), max_size=12).map(lambda parts: "http://" + "".join(parts)))
def test_no_other_parser_reads_another_host_out_of_an_accepted_address(url: str) -> None:
    if judged(url) == "block":
        return
    target = check_url(url)
    other, third = urlsplit(target.url), httpx.URL(target.url)
    assert other.hostname == target.host == third.raw_host.decode()
    port = {"http": 80, "https": 443}[target.url.partition(":")[0]]
    assert (other.port or port) == target.port == (third.port or port)
    assert target.url.isascii() and target.url.isprintable() and not {"#", " "} & set(target.url)
    assert check_url(target.url) == target


def test_the_allow_list_opens_exactly_that_host_and_port_and_no_metadata_service() -> None:
    allow = allow_list("127.0.0.1:8888, LOCALHOST:8000 [::1]:9000\nintranet.corp:443, 169.254.169.254:80,[fd00:ec2::254]:80")
    for url in ("127.0.0.1:8888/x", "0x7f.1:8888", "localhost:8000", "[0:0::1]:9000", "intranet.corp:443"):
        assert judged(f"http://{url}", allow) == "allow", url
    for url in ("127.0.0.1:8889", "127.0.0.2:8888", "localhost:8888", "a.localhost:8000", "127.0.0.1:8000", "intranet.corp"):
        assert judged(f"http://{url}", allow) == "block", url
    for url in ("169.254.169.254", "[fd00:ec2::254]"):
        assert judged(f"http://{url}", allow) == "block", url


@pytest.mark.parametrize(
    "entry", ["127.0.0.1", "localhost", ":80", "host:", "host:0", "host:99999", "a b:80", "http://h:80", "::1"]
)
def test_a_malformed_allow_list_says_what_is_wrong(entry: str) -> None:
    with pytest.raises(ConfigError, match="IPY_WEBSEARCH_FETCH_ALLOW"):
        allow_list(entry)


def test_a_refusal_names_rule_and_remedy_but_no_password() -> None:
    with pytest.raises(BlockedAddressError, match=r"private network, 192\.168\.0\.0/16.*FETCH_ALLOW=\"192\.168\.1\.1:8123\""):
        check_url("http://192.168.1.1:8123/states")
    for url in ("http://169.254.169.254/", "http://metadata.google.internal/"):
        with pytest.raises(BlockedAddressError, match="metadata") as caught:
            check_url(url)
        assert "ALLOW" not in str(caught.value)  # the remedy would not work
    for url in ("http://ann:hunter2@example.com/", "http://ann:hunter2@example.com/\x1b[31m"):
        with pytest.raises(BlockedAddressError) as caught:
            check_url(url)
        assert "hunter2" not in str(caught.value) and "\x1b" not in str(caught.value)
    assert "pass" not in shown("https://user:pass@host/") and len(shown("http://a/" + "b" * 9_000)) <= 200


def test_canonical_forms_are_equal_where_addresses_are() -> None:
    assert canonical_url("HTTP://Bücher.Example:80/ä#x") == canonical_url("http://xn--bcher-kva.example/%C3%A4")
    assert canonical_url("http://127.0.0.1/") == "http://127.0.0.1/"
    assert canonical_url("http://a.com/x?a") != canonical_url("http://a.com/x?b")
