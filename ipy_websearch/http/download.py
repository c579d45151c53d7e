"""Reading one page from the public web: judged, pinned, bounded in time and size, and never anything but bytes.

Invariant: one deadline runs over names, connections, headers, bodies and all redirects, and one cap holds on the wire and
decoded, while the body streams in. Turning bytes into text is `extract`'s business.

Redirects: at most `max_redirects`, each judged like a first address. https to http is followed, as no cookie and no key
travels along: a server learns the URL, a User-Agent and what we can read. Proxies of the environment are not used.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

import httpx

from ipy_websearch.errors import BlockedAddressError, ConfigError, FetchError
from ipy_websearch.http.address import TO_OPEN, SafeUrl, check_url, shown
from ipy_websearch.http.client import plain_request
from ipy_websearch.http.guard import guarded_transport
from ipy_websearch.http.response import failure_words, keep_location, read_body, retry_after
from ipy_websearch.text import plain, shorten

Admission = Callable[[SafeUrl], Awaitable[None]]

USER_AGENT = f"ipy_websearch (a reader for notebooks) httpx/{httpx.__version__}"
_ACCEPT = "text/html,application/xhtml+xml,text/markdown;q=0.9,text/plain;q=0.9,application/json;q=0.8,*/*;q=0.5"
_REDIRECTS = (301, 302, 303, 307, 308)
# Nothing in these can be read as text, or they never end, so the body is not even begun.
_UNREADABLE = re.compile(r"(?:audio|video|font|image(?!/svg)|multipart)/|text/event-stream")
_MEDIA_TYPE = re.compile(r"[a-z0-9!#$&^_.+-]{1,40}/[a-z0-9!#$&^_.+-]{1,80}")
_CHARSET = re.compile(r"""charset\s*=\s*["']?([A-Za-z0-9._:-]{1,40})""", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Download:
    """An answer with status 2xx. `url` was asked, `final_url` answered; `body` is decoded, at most `max_bytes`.

    `content_type` is the bare media type in lower case and `charset` the one given beside it; "" when not said. `headers` has
    lower-case names and printable values.
    """

    url: str
    final_url: str
    status: int
    content_type: str
    charset: str
    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


async def download(
    url: str,
    *,
    allow: frozenset[str] = frozenset(),
    user_agent: str = USER_AGENT,
    timeout_s: float = 30.0,
    max_bytes: int = 5_000_000,
    max_redirects: int = 5,
    cut: bool = False,
    admit: Admission | None = None,
    proxy: str | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> Download:
    """Return what the address answers, redirects followed, within `timeout_s` seconds and `max_bytes` decoded bytes.

    `cut` gives the beginning of an answer that is larger than that, instead of an error. `admit` is awaited before each
    request, redirects included, and refuses by raising; its time counts. `proxy` is the address of a proxy, which then
    resolves the names. `transport` replaces the network, in tests and recordings.

    Raises:
        BlockedAddressError: the address, or one that it redirects to, is not the public web.
        FetchError: no answer, an error status, too late, too large, or nothing that could be read.
        ConfigError: the proxy or the certificates that are set cannot be used.
    """
    target = check_url(url, allow=allow)
    headers = {"User-Agent": user_agent, "Accept": _ACCEPT, "Accept-Encoding": "gzip, deflate"}
    transport = transport or guarded_transport(allow, proxy)
    options: Any = {"transport": transport, "trust_env": False, "event_hooks": {"response": [keep_location]}}
    location = ""
    try:
        async with asyncio.timeout(timeout_s), httpx.AsyncClient(**options) as client:
            for _ in range(max_redirects + 1):
                target = check_url(location, allow=allow) if location else target
                if admit is not None:
                    await admit(target)
                answer = await _hop(client, url, target, headers, max_bytes, cut)
                if isinstance(answer, Download):
                    return answer
                location = answer
    except BlockedAddressError as exc:
        if not location:
            raise
        reason = str(exc).partition(TO_OPEN)[0]  # no advice to open what that page chose
        refusal = f"the page redirects to an address that may not be fetched: {shown(url)} ({reason})"
        raise BlockedAddressError(refusal) from None
    except TimeoutError as exc:
        raise FetchError(f"Connection timeout: no complete answer within {timeout_s:g} s from {shown(url)}") from exc
    raise FetchError(f"more than {max_redirects} redirects from {shown(url)}", status=HTTPStatus.FOUND)


def page_proxy(address: str, through_environment: bool) -> str | None:
    """Return the proxy for pages: `address`, else HTTPS_PROXY when `through_environment`, else None.

    Raises:
        ConfigError: HTTPS_PROXY is to be used, and is not set.
    """
    if address or not through_environment:
        return address or None
    found = os.environ.get("HTTPS_PROXY") or os.environ.get("https_proxy")
    if not found:
        raise ConfigError("fetch_through_proxy is on, but HTTPS_PROXY is not set; set it, or WebSearch.fetch_proxy")
    return found


async def _hop(
    client: httpx.AsyncClient, asked: str, target: SafeUrl, headers: Mapping[str, str], max_bytes: int, cut: bool
) -> Download | str:
    """Return the download, or the address of a redirect that is still to be judged."""
    try:
        response = await client.send(plain_request("GET", target.url, headers, None, None), stream=True, follow_redirects=False)
        try:
            if not 200 <= response.status_code < 300:
                return _location(target, response)
            content_type, charset = _media_type(response.headers.get("content-type", ""))
            if _UNREADABLE.match(content_type):
                raise FetchError(f"the page is {content_type}, which has no text to read: {shown(target.url)}")
            too_large = FetchError(f"the page is larger than {max_bytes / 1e6:g} MB: {shown(target.url)}")
            announced = response.headers.get("content-length", "")
            if announced.isdigit() and int(announced[:18]) > max_bytes and not cut:
                raise too_large
            body, is_cut = await read_body(response, max_bytes)
            if is_cut and not cut:
                raise too_large
        finally:
            await response.aclose()
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as exc:
        raise FetchError(f"the page could not be read: {failure_words(exc)}: {shown(target.url)}") from exc
    shown_headers = {name: shorten(plain(value), 2_000) for name, value in response.headers.items()}
    return Download(asked, target.url, response.status_code, content_type, charset, body, shown_headers)


def _location(target: SafeUrl, response: httpx.Response) -> str:
    """Return where a redirect leads to; any other status is an error, told in the standard's words, not in the server's."""
    status = f"{response.status_code} {httpx.codes.get_reason_phrase(response.status_code)}".strip()
    if response.status_code not in _REDIRECTS:
        seconds = retry_after(response.headers)
        status += f" (retry after {seconds:.0f} s)" if seconds is not None else ""
        raise FetchError(f"the page answered {status}: {shown(target.url)}", status=response.status_code)
    location = str(response.extensions["location"]).strip()
    if not location:
        where = f"without saying where to: {shown(target.url)}"
        raise FetchError(f"the page answered {status} {where}", status=response.status_code)
    # urljoin would drop some control characters, and another address would be judged.
    return location if re.search(r"[\x00-\x1f\x7f]", location) else urljoin(target.url, location)


def _media_type(header: str) -> tuple[str, str]:
    kind = header.partition(";")[0].strip().lower()
    charset = _CHARSET.search(header)
    return kind if _MEDIA_TYPE.fullmatch(kind) else "", charset[1].lower() if charset else ""
