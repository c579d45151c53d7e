"""Which addresses the model may fetch, and how a failure is told to it. Pure.

A page can ask the model to call an address with what it knows in it. So the model reads only addresses that somebody
else wrote down: the question, a search result, a page already read. Anthropic's own web_fetch has the same rule
(`url_not_in_prior_context`; platform.claude.com/docs, "Web fetch tool", read 2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from ipy_websearch.errors import ConfigError, FetchError, WebSearchError
from ipy_websearch.http.address import canonical_url
from ipy_websearch.providers.base import clean_domain

_ESCAPE = re.compile(r"%[0-9a-fA-F]{2}")


@lru_cache(maxsize=4_096)  # a page may bring thousands of links, and each is compared at every call
def comparable(url: str) -> str:
    """Return an address in the form in which two are compared.

    Scheme and host are lower case and ASCII, a default port, the fragment and a final slash of the path are gone, and
    what has to be escaped is. Path and query are otherwise as they were, so no two that differ in content are equal.
    """
    text = url.strip()
    try:
        text = canonical_url(text)
    except FetchError:
        return text
    path, mark, query = _ESCAPE.sub(lambda match: match[0].upper(), text).partition("?")
    return path.rstrip("/") + mark + query


def is_known(url: str, known: Collection[str]) -> bool:
    """Say whether `url` is one of the known addresses."""
    if url in known:
        return True
    wanted = comparable(url)
    return any(wanted == comparable(candidate) for candidate in known)


def domain_refused(url: str, allowed: Iterable[str], blocked: Iterable[str]) -> bool:
    """Say whether the host of `url` is outside of the allowed domains (none: all are) or inside a blocked one."""
    host = (urlsplit(comparable(url)).hostname or "").lower()
    allowed = tuple(allowed)
    return (bool(allowed) and not _within(host, allowed)) or _within(host, blocked)


def failure_text(exc: WebSearchError) -> str:
    """Return a failure in the words that the tool has for it: "Failed to fetch URL: …", "Failed to parse HTML: …"."""
    text = str(exc)
    return text if text.startswith("Failed to parse HTML: ") else f"Failed to fetch URL: {text}"


def _within(host: str, domains: Iterable[str]) -> bool:
    return any(host == name or host.endswith(f".{name}") for name in map(_host, domains))


@lru_cache(maxsize=1_024)
def _host(domain: str) -> str:
    """Return the host of a domain as somebody wrote it: in any script, with a port."""
    try:
        return clean_domain(domain)
    except ConfigError:
        return domain.lower().strip(".")
