"""Which headers go on through the proxy, in either direction.

The invariant: each is passed on byte for byte, but those of one connection, and those of a body that is not passed on as it
came. As text they are read as Latin-1, in which every byte is a character.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

Headers = list[tuple[str, str]]

HOP_BY_HOP = frozenset(
    "connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade".split()
)
OF_THE_CONNECTION = HOP_BY_HOP | {"host", "expect"}
_OF_THE_BODY = frozenset("content-type content-encoding content-length content-md5 content-digest repr-digest digest".split())
OURS = OF_THE_CONNECTION | _OF_THE_BODY | {"accept-encoding"}
"""What is not the caller's where the body is ours."""

OF_THE_FIRST = "idempotency-key"
"""What says that two requests are the same: the later ones of a call are not the one that the caller sent."""


def read_headers(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return headers as text."""
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]


def written_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    """Return headers as they go over the wire."""
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]


def passed_on(headers: Headers, without: Collection[str]) -> Headers:
    """Return headers without some, and without those that `Connection` says are for the next server alone.

    A length beside chunks is untrue, or could be taken for true by the next server.
    """
    if any(name.lower() == "transfer-encoding" for name, _ in headers):
        without = {*without, "content-length"}
    named = {word.strip().lower() for name, value in headers if name.lower() == "connection" for word in value.split(",")}
    return [(name, value) for name, value in headers if name.lower() not in without and name.lower() not in named]


def joined(headers: Headers) -> dict[str, str]:
    """Return headers by name; one that came several times (`anthropic-beta`) is one with all values."""
    found: dict[str, str] = {}
    for name, value in headers:
        name = "Authorization" if name.lower() == "authorization" else name.lower()
        found[name] = f"{found[name]}{'; ' if name == 'cookie' else ','}{value}" if name in found else value
    return found


def patience_s(headers: Headers) -> float | None:
    """Return the seconds for which the caller's SDK says it waits for the server, None when it does not say."""
    said = next((value for name, value in headers if name.lower() == "x-stainless-timeout"), "")
    try:
        seconds = float(said)
    except ValueError:
        return None
    return seconds if 0 < seconds < math.inf else None
