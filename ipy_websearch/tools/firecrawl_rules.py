"""What Firecrawl may be sent to: the same addresses that `web_fetch` may read, and for a map the sites they are on. Pure.

A site's address carries no path and no query, so nothing of what the model knows can be put into it; its host is one that
stands in an address somebody else wrote down, or the domain above it.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import urlsplit

from ipy_websearch.errors import FetchError
from ipy_websearch.http.address import allow_from_environment, check_url, shown
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.tools.fetch_rules import comparable, domain_refused, is_known


def judge_page(url: str, known: Collection[str], bounds: SearchRequest) -> None:
    """Check that a page may be read; `bounds` holds the domains that the user allowed or blocked.

    Raises:
        FetchError: it may not be; the message names the rule.
        ConfigError: the list of opened private addresses is faulty.
    """
    _judge(url, is_known(url, known), bounds)


def judge_site(url: str, known: Collection[str], bounds: SearchRequest) -> None:
    """Check that a site may be mapped; errors as for `judge_page`."""
    _judge(url, is_known(url, known) or _site_known(url, known), bounds)


def judge_arrival(url: str, bounds: SearchRequest) -> None:
    """Check where a page led to.

    Raises:
        FetchError: to a domain that was not allowed.
    """
    if domain_refused(url, bounds.allowed_domains, bounds.blocked_domains):
        raise FetchError(f"it redirects to a domain that was not allowed: {shown(url)}")


def _judge(url: str, known: bool, bounds: SearchRequest) -> None:
    check_url(url, allow=allow_from_environment())
    if not known:
        raise FetchError(
            "only addresses from the question, from search results or from pages already read may be fetched "
            f"(url_not_in_prior_context): {shown(url)}"
        )
    if domain_refused(url, bounds.allowed_domains, bounds.blocked_domains):
        raise FetchError(f"this domain was not allowed (url_not_allowed): {shown(url)}")


def _site_known(url: str, known: Collection[str]) -> bool:
    parts = urlsplit(comparable(url))
    if parts.path.strip("/") or parts.query or not parts.hostname or "." not in parts.hostname:
        return False
    hosts = {urlsplit(comparable(candidate)).hostname or "" for candidate in known}
    return any(host == parts.hostname or host.endswith(f".{parts.hostname}") for host in hosts)
