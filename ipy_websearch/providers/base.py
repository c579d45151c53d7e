"""What a search engine is: the one request every engine understands and the one protocol it fulfils.

An engine is a class with a `name` and an async `search`. It turns a `SearchRequest` into its own wire format through
`ProviderContext.http` and maps the answer to `SearchResults`; it raises nothing but this package's errors. Packages of
others add an engine through the entry-point group `ipy_websearch.providers` (see `registry`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, runtime_checkable

from ipy_websearch.errors import ConfigError
from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.providers.place import NOWHERE, Place
from ipy_websearch.results import SearchResults
from ipy_websearch.settings import base_url

SafeSearch = Literal["off", "moderate", "strict"]

_RANGE = re.compile(r"(\d{4}-\d{2}-\d{2})to(\d{4}-\d{2}-\d{2})")
_DOMAIN = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9-]{1,63}")
_FRESHNESS = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search, as the user or the model asked for it; an engine takes from it what it can do.

    `query` is 2 characters or more. `freshness` is pd, pw, pm or py (past day, week, month, year; the words are
    understood too) or "YYYY-MM-DDtoYYYY-MM-DD". `country` and `language` are two-letter codes, "" for the engine's
    default; `place` says more than a country where an engine takes it. Domains are bare host names; only one of the two lists
    may be given. `goggles` are addresses or inline rules.

    Raises:
        ConfigError: on construction, when a value is not of that form; the message says what is.
    """

    query: str
    count: int = 5
    freshness: str | None = None
    country: str = ""
    language: str = ""
    safe_search: SafeSearch = "moderate"
    allowed_domains: tuple[str, ...] = ()
    blocked_domains: tuple[str, ...] = ()
    goggles: tuple[str, ...] = ()
    place: Place = NOWHERE

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "query", self.query.strip())
        if len(self.query) < 2:
            raise ConfigError(f"the query {self.query!r} is too short; a search needs 2 characters or more")
        if not 1 <= self.count <= 50:
            raise ConfigError(f"count is {self.count}; it must be between 1 and 50")
        put(self, "freshness", _freshness(self.freshness))
        for name in ("country", "language"):
            value = getattr(self, name)
            if value and not re.fullmatch(r"[A-Za-z]{2}(-[A-Za-z]{2,4})?|ALL|all", value):
                raise ConfigError(f"{name} is {value!r}; it must be a two-letter code such as 'us' or 'de'")
        if self.safe_search not in ("off", "moderate", "strict"):
            raise ConfigError(f"safe_search is {self.safe_search!r}; it must be off, moderate or strict")
        if self.allowed_domains and self.blocked_domains:
            raise ConfigError("allowed_domains and blocked_domains exclude each other; give one of the two")
        put(self, "allowed_domains", tuple(clean_domain(d) for d in self.allowed_domains))
        put(self, "blocked_domains", tuple(clean_domain(d) for d in self.blocked_domains))

    def with_query(self, query: str) -> SearchRequest:
        """Return the same request for another query."""
        return replace(self, query=query)


def _freshness(value: str | None) -> str | None:
    if not value:
        return None
    value = value.strip()
    value = _FRESHNESS.get(value.lower(), value)
    if value in ("pd", "pw", "pm", "py"):
        return value
    if (match := _RANGE.fullmatch(value)) and _is_day(match[1]) and _is_day(match[2]) and match[1] <= match[2]:
        return value
    raise ConfigError(f"freshness is {value!r}; it must be pd, pw, pm, py or a range such as 2026-01-01to2026-06-30")


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def clean_domain(value: str) -> str:
    """Return the bare host name of a domain or address ("https://Example.com/a" → "example.com").

    Raises:
        ConfigError: there is no host name in it.
    """
    host = re.sub(r"^[a-z]+://", "", value.strip().lower()).split("/")[0].removeprefix("*.").split(":")[0].rstrip(".")
    try:
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        host = ""
    if not _DOMAIN.fullmatch(host):
        raise ConfigError(f"{value!r} is not a domain; write it as example.com")
    return host


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What the session lends to an engine: the HTTP client, the keys, and the folder for its data."""

    http: HttpClient
    keys: Keys
    data_dir: Path
    options: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Provider(Protocol):
    """A search engine, ready to be asked."""

    name: ClassVar[str]

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the hits, best first, at most `request.count`; no hits is an empty result, not an error.

        Raises:
            ProviderError: the engine failed or answered something that cannot be read.
        """
        ...


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """What is known about an engine before it is loaded.

    `keys` are the variables that must be set for it, `base_variable` the environment variable for its address and
    `base_default` that address ("" : it has none until the variable is set). `load` is "module:Class"; the class is
    called with a `ProviderContext`. `note` is shown in `%websearch status`.
    """

    name: str
    label: str
    load: str
    keys: tuple[str, ...] = ()
    base_variable: str = ""
    base_default: str = ""
    note: str = ""

    def address(self, keys: Keys) -> str:
        """Return the base address in force, "" when there is none."""
        known = self.base_variable and self.addressed(keys)
        return base_url(self.base_variable, self.base_default, keys.environ) if known else ""

    def available(self, keys: Keys) -> bool:
        """Say whether every key is there and, for an engine without a default address, the address."""
        return all(keys.get(key) for key in self.keys) and self.addressed(keys)

    def addressed(self, keys: Keys) -> bool:
        """Say whether there is an address, or none is needed."""
        return bool(not self.base_variable or self.base_default or keys.environ.get(self.base_variable, "").strip())
