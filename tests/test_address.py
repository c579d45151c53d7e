"""Addresses: every row of data/addresses.tsv is judged as it says, and nothing that is written gets round the rules."""

from __future__ import annotations

import json
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import BlockedAddressError, ConfigError
from ipy_websearch.http.address import WEB_PORTS, allow_list, canonical_url, check_ip, check_url, shown
from ipy_websearch.http.guard import Gate

TABLE = Path(__file__).parent / "data" / "addresses.tsv"
ROWS = [
    (cells[0], json.loads(cells[1]), cells[2], cells[3].split())
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
    for cells in [line.split("\t")]
]
PUBLIC, PRIVATE = "8.8.8.8", "10.1.2.3"


def judged(url: str, *, allow: frozenset[str] = frozenset()) -> str:
    """Return "allow" or "block"."""
    try:
        check_url(url, allow=allow)
    except BlockedAddressError:
        return "block"
    return "allow"


@pytest.mark.parametrize(("expected", "url", "answers"), [(r[0], r[1], r[3]) for r in ROWS], ids=[r[2] for r in ROWS])
def test_each_address_of_the_table_is_judged_as_it_says(expected: str, url: str, answers: list[str]) -> None:
    """Text first, then, where the table has answers of a resolver, all of those."""
    try:
        target = check_url(url)
        if answers:
            Gate(frozenset()).admit(target.host, target.port, answers)
    except BlockedAddressError as exc:
        assert expected == "block", exc
        assert "\n" not in str(exc) and len(str(exc)) < 500
    else:
        assert expected == "allow"


def _notations(ip: IPv4Address) -> st.SearchStrategy[str]:
    """Return ways to write an address that C libraries or browsers read as that address."""
    parts = [str(part) for part in ip.packed]
    forms = [lambda n: str(n), lambda n: hex(n), lambda n: hex(n).upper().replace("X", "x"), lambda n: f"0{n:o}"]
    whole = st.sampled_from(forms).map(lambda form: form(int(ip)))
    dotted = st.tuples(*[st.sampled_from(forms)] * 4).map(lambda f: ".".join(g(n) for g, n in zip(f, ip.packed, strict=True)))
    two = st.just(f"{ip.packed[0]}.{int(ip) & 0xFFFFFF}")
    three = st.just(f"{ip.packed[0]}.{ip.packed[1]}.{int(ip) & 0xFFFF}")
    wide = st.just(".".join(parts).translate({ord("0") + i: 0xFF10 + i for i in range(10)}))
    escaped = st.just("".join(f"%{ord(c):02x}" for c in ".".join(parts)))
    dots = st.just("。".join(parts))
    return st.one_of(whole, dotted, two, three, wide, escaped, dots).flatmap(lambda t: st.sampled_from([t, t + "."]))


@given(st.data())
def test_all_ways_to_write_an_ipv4_address_are_judged_alike(data: st.DataObject) -> None:
    """Decimal, octal, hexadecimal, short, fullwidth and escaped forms are the same address, and come out canonical."""
    near = st.sampled_from([PRIVATE, "127.0.0.1", "169.254.169.254", PUBLIC, "172.15.255.255", "100.64.0.0"])
    ip = data.draw(st.one_of(near.map(IPv4Address), st.ip_addresses(v=4)))
    url = f"http://{data.draw(_notations(ip))}/"
    assert judged(url) == judged(f"http://{ip}/")
    if judged(url) == "allow":
        assert check_url(url).literal_ip == str(ip)


@given(st.ip_addresses(v=4), st.sampled_from(["mapped", "compatible", "translated", "nat64", "6to4", "isatap"]))
def test_an_ipv6_address_is_never_better_than_the_ipv4_address_in_it(inner: IPv4Address, how: str) -> None:
    """Whatever leads to a refused IPv4 address is refused as well."""
    n = int(inner)
    outer = {
        "mapped": 0xFFFF << 32 | n,
        "compatible": n,
        "translated": 0xFFFF << 48 | n,
        "nat64": 0x64FF9B << 96 | n,
        "6to4": 0x2002 << 112 | n << 80 | 1,
        "isatap": 0x26064700 << 96 | 0x5EFE << 32 | n,
    }[how]
    try:
        check_ip(IPv6Address(outer))
    except BlockedAddressError:
        return
    check_ip(inner)


@given(st.ip_addresses(v=6))
def test_no_ipv6_address_outside_of_global_unicast_passes(ip: IPv6Address) -> None:
    """What the tables do not know is refused, not let through."""
    if int(ip) >> 125 == 1:
        return
    with pytest.raises(BlockedAddressError):
        check_url(f"http://[{ip}]/")


_PIECES = [
    "http://",
    "https:",
    "//",
    "/",
    "\\",
    "@",
    ":",
    "#",
    "?",
    ".",
    "%",
    "[",
    "]",
    "a.com",
    "127.0.0.1",
    "80",
    "\t",
    "é",
    "２",
]


@given(st.one_of(st.text(), st.lists(st.sampled_from(_PIECES), max_size=12).map("".join).map(lambda t: "http://" + t)))
def test_no_other_parser_reads_another_host_out_of_an_accepted_address(url: str) -> None:
    """Either one error of ours, or a canonical address on whose host and port all parsers agree."""
    try:
        target = check_url(url)
    except BlockedAddressError as exc:
        assert "\n" not in str(exc)
        return
    for read in (urlsplit(target.url), yarl.URL(target.url, encoded=True)):
        assert read.hostname == target.host if hasattr(read, "hostname") else read.raw_host == target.host
        assert (read.port or {"http": 80, "https": 443}[target.scheme]) == target.port
    assert target.url.isascii() and target.url.isprintable() and "#" not in target.url and " " not in target.url
    assert check_url(target.url) == target


@given(st.text(alphabet=st.characters(exclude_characters="#?", exclude_categories=["Cc", "Cs"]), min_size=1))
def test_a_path_reaches_the_server_as_it_was_meant(path: str) -> None:
    """What has to be escaped is escaped once; escapes that are there stay."""
    url = check_url(f"http://example.com/x{path.strip()}").url
    assert check_url(url).url == url
    assert urlsplit(url).path.startswith("/x")
    once = quote(path, safe="")
    assert check_url(f"http://example.com/{once}").url == f"http://example.com/{once}"


def test_the_allow_list_opens_exactly_that_host_and_port() -> None:
    """Not the next port, not another name of the same machine, not a host that only ends like it."""
    allow = allow_list("127.0.0.1:8888, LOCALHOST:8000 [::1]:9000\nintranet.corp:443")
    assert judged("http://127.0.0.1:8888/x", allow=allow) == "allow"
    assert judged("http://0x7f.1:8888/x", allow=allow) == "allow"
    assert judged("http://localhost:8000/", allow=allow) == "allow"
    assert judged("http://[0:0::1]:9000/", allow=allow) == "allow"
    assert judged("https://intranet.corp/", allow=allow) == "allow"
    for url in ("127.0.0.1:8889", "127.0.0.2:8888", "localhost:8888", "a.localhost:8000", "127.0.0.1:8000", "intranet.corp"):
        assert judged(f"http://{url}/", allow=allow) == "block", url


@pytest.mark.parametrize("entry", ["169.254.169.254:80", "168.63.129.16:80", "[fd00:ec2::254]:80", "[fe80::1]:80"])
def test_the_allow_list_does_not_open_metadata_services(entry: str) -> None:
    """These hand out a machine's credentials; no page is there."""
    with pytest.raises(BlockedAddressError, match="metadata|host service|link-local"):
        check_url(f"http://{entry}/", allow=allow_list(entry))


@pytest.mark.parametrize(
    "entry", ["127.0.0.1", "localhost", ":80", "host:", "host:0", "host:99999", "a b:80", "http://h:80", "::1"]
)
def test_a_malformed_allow_list_says_what_is_wrong(entry: str) -> None:
    """An entry that would open nothing, or more than was meant, is an error and not ignored."""
    with pytest.raises(ConfigError, match="IPY_WEBSEARCH_FETCH_ALLOW"):
        allow_list(entry)


@pytest.mark.parametrize("ip", ["2606:4700:4700::1111%eth0", "example.com", "", "8.8.8", "1.2.3.4 "])
def test_an_answer_that_is_no_plain_address_is_refused(ip: str) -> None:
    """A resolver can be made to say anything."""
    with pytest.raises(BlockedAddressError):
        check_ip(ip)


def test_a_refusal_names_rule_and_remedy() -> None:
    """One line: the address, the rule, and the variable that opens it."""
    with pytest.raises(BlockedAddressError) as caught:
        check_url("http://192.168.1.1:8123/states")
    text = str(caught.value)
    assert "http://192.168.1.1:8123/states" in text and "private network" in text and "192.168.0.0/16" in text
    assert 'IPY_WEBSEARCH_FETCH_ALLOW="192.168.1.1:8123"' in text


def test_a_refusal_shows_no_password_and_no_control_characters() -> None:
    """What is refused goes into notebooks and logs."""
    with pytest.raises(BlockedAddressError) as caught:
        check_url("http://ann:hunter2@example.com/\x1b[31m")
    assert "control character" in str(caught.value)
    assert "hunter2" not in str(caught.value) and "ann" not in str(caught.value) and "\x1b" not in str(caught.value)
    with pytest.raises(BlockedAddressError, match="user name or password"):
        check_url("http://ann:hunter2@example.com/")
    assert "user:" not in shown("https://user:pass@host/") and len(shown("http://a/" + "b" * 9_000)) <= 200


def test_metadata_services_get_no_advice_on_how_to_open_them() -> None:
    """The remedy would not work, so it is not offered."""
    for url in ("http://169.254.169.254/", "http://metadata.google.internal/"):
        with pytest.raises(BlockedAddressError) as caught:
            check_url(url)
        assert "IPY_WEBSEARCH_FETCH_ALLOW" not in str(caught.value)


def test_only_ports_of_the_web_are_open() -> None:
    """Another port of a public host is refused, and can be opened by name."""
    ports = [*range(1, 1_100), *range(7_990, 9_300), 65_535]
    assert {port for port in ports if judged(f"http://example.com:{port}/") == "allow"} == WEB_PORTS
    assert judged("http://example.com:9000/", allow=allow_list("example.com:9000")) == "allow"


@pytest.mark.parametrize("value", [None, 5, b"http://example.com/", ["http://example.com/"]])
def test_what_is_no_text_is_refused(value: object) -> None:
    """A wrong type is an error of ours, not a crash."""
    with pytest.raises(BlockedAddressError):
        check_url(value)  # type: ignore[arg-type]


def test_canonical_forms_are_equal_where_addresses_are() -> None:
    """Case, default port, fragment and escaping do not matter; path and query do."""
    same = {canonical_url(u) for u in ("HTTP://Bücher.Example:80/ä#x", "http://xn--bcher-kva.example/%C3%A4")}
    assert len(same) == 1
    assert canonical_url("http://127.0.0.1/") == "http://127.0.0.1/"
    assert canonical_url("http://a.com/x?a") != canonical_url("http://a.com/x?b")
