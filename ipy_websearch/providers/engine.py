"""What all engines have in common: keys and address, query and domain limits, and how an answer is put together.

Domain lists are sent in the form an engine has for them and checked once more on what comes back, since most engines
treat them as a wish: `allowed_domains` is a promise of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from ipy_websearch.errors import ConfigError, ProviderError
from ipy_websearch.http.client import HttpClient
from ipy_websearch.http.response import HttpResponse, JsonObject, Reason, explain_any
from ipy_websearch.keys import Keys
from ipy_websearch.providers import parsing
from ipy_websearch.providers.base import ProviderContext, ProviderInfo, SearchRequest
from ipy_websearch.results import SearchResult, SearchResults
from ipy_websearch.settings import did_you_mean
from ipy_websearch.usage import Charge


class Engine:
    """Base of the built-in engines; engines of other packages need not use it.

    `options` names the parameters of the engine's own that a named search tool may set (`WebSearch.search_tools`); they
    are sent as they are. `price` is what one search is expected to be billed.
    """

    name: ClassVar[str]
    info: ClassVar[ProviderInfo]
    options: ClassVar[tuple[str, ...]] = ()
    price: tuple[Charge, ...] = ()

    def __init__(self, context: ProviderContext) -> None:
        self.context = context

    @property
    def http(self) -> HttpClient:
        """The client that the session lends."""
        return self.context.http

    @property
    def keys(self) -> Keys:
        """The keys that the session lends."""
        return self.context.keys

    def key(self) -> str:
        """Return the engine's (first) key.

        Raises:
            MissingKeyError: it is not set.
        """
        return self.keys.require(self.info.keys[0])

    def url(self, path: str) -> str:
        """Return the address of an endpoint.

        Raises:
            ConfigError: the engine has no address yet, or the variable for it holds something else.
        """
        base = self.info.address(self.keys)
        if not base:
            raise ConfigError(f"{self.info.base_variable} is not set: {self.name} needs the address of a server")
        return base + path

    def chosen_options(self) -> dict[str, Any]:
        """Return the engine's own parameters that a named search tool sets.

        Raises:
            ConfigError: one of them is not known.
        """
        chosen = {}
        for option, value in self.context.options.items():
            # "depth" will do for Tavily's search_depth: the end of a name, where only one ends so
            named = [known for known in self.options if known == option or known.endswith(f"_{option}")]
            if option not in self.options and len(named) != 1:
                known = ", ".join(self.options) or "none"
                close = did_you_mean(option, self.options)
                raise ConfigError(f"{self.name} has no option {option!r}{close}; it has: {known}")
            chosen[option if option in self.options else named[0]] = value
        return chosen

    def explain(self, response: HttpResponse) -> Reason:
        """Return why the engine refused, with what to do about it; engines extend it for their own codes."""
        reason = explain_any(response)
        if not self.info.keys:
            return reason
        meaning = {
            401: f"the key was refused; {self.how_to_set()}",
            402: "the plan's credits are used up",
            403: "the key or its plan does not allow this",
        }.get(response.status)
        words = ": ".join(filter(None, (meaning, reason.text)))
        return Reason(words, reason.retry_after)

    def how_to_set(self) -> str:
        """Return the words that say how to set the engine's key."""
        return f"set {self.info.keys[0]} again with `%websearch key {self.name}`"

    def failure(
        self, text: str, *, status: int | None = 200, retry_after: float | None = None, lost: bool = False
    ) -> ProviderError:
        """Return the error for an answer that is one although its HTTP status is not; a `lost` one is no refusal."""
        return self.http.error(self.name, f"{self.name}: {text}", status=status, retry_after=retry_after, lost=lost)

    def readable(self, raw: Any) -> dict[str, Any]:
        """Return the answer if it is a JSON object, as every engine's is.

        Raises:
            ProviderError: it is something else.
        """
        if not isinstance(raw, dict):
            text = f"the answer is a JSON {type(raw).__name__}, not an object; check {self.info.base_variable}"
            raise self.failure(text, lost=True)
        return raw

    def clipped(self, query: str, max_chars: int, max_words: int | None = None) -> tuple[str, list[str]]:
        """Return the query as long as the engine takes it, and a notice when it was cut."""
        cut = parsing.clip_query(query, max_chars, max_words)
        if cut == query:
            return query, []
        limit = f"{max_chars} characters" + (f" and {max_words} words" if max_words else "")
        return cut, [f"{self.name} takes {limit}; the query was cut to {cut[:60]!r}…"]

    def count(self, request: SearchRequest, most: int) -> tuple[int, list[str]]:
        """Return the number of results to ask for, and a notice when the engine gives fewer at once."""
        if request.count <= most:
            return request.count, []
        return most, [f"{self.name} gives at most {most} results, not {request.count}"]

    def unsupported(self, request: SearchRequest, *fields: str) -> list[str]:
        """Return one notice naming those of the request's `fields` that were asked for and that the engine cannot do."""
        asked = [name for name in fields if _ASKED[name](request)]
        return [f"{self.name} cannot apply {', '.join(asked)}; ignored"] if asked else []

    def answer(
        self,
        request: SearchRequest,
        found: Iterable[SearchResult | None],
        *,
        raw: Any,
        charges: Sequence[Charge] = (),
        notices: Iterable[str] = (),
        extra: Mapping[str, Any] | None = None,
        most: int | None = None,
    ) -> SearchResults:
        """Return the results that the request allows, at most `most` (None: `request.count`)."""
        kept = permitted(parsing.hits(found), request)[: most or request.count]
        return SearchResults(
            results=tuple(kept),
            query=request.query,
            provider=self.name,
            extra=dict(extra or {}),
            charges=tuple(charges),
            notices=tuple(notices),
            body=raw.body if isinstance(raw, JsonObject) else raw,
        )


_ASKED: dict[str, Callable[[SearchRequest], bool]] = {
    "goggles": lambda request: bool(request.goggles),
    "place": lambda request: bool(request.place),
    "freshness": lambda request: bool(request.freshness),
    "country": lambda request: bool(request.country),
    # English is the language that is set when nobody chose one, moderate the filter.
    "language": lambda request: request.language.lower() not in ("", "en"),
    "safe_search": lambda request: request.safe_search == "strict",
}


def permitted(results: Iterable[SearchResult], request: SearchRequest) -> list[SearchResult]:
    """Return the results on the allowed domains (all when none are named) that are not on a blocked one."""
    allowed, blocked = request.allowed_domains, request.blocked_domains
    if not allowed and not blocked:
        return list(results)
    return [
        result
        for result in results
        if (not allowed or parsing.host_matches(result.url, allowed)) and not parsing.host_matches(result.url, blocked)
    ]


def with_site_operators(query: str, request: SearchRequest) -> str:
    """Return the query with the domain lists as `site:` operators, for engines that have no parameter for them."""
    if request.allowed_domains:
        sites = " OR ".join(f"site:{domain}" for domain in request.allowed_domains)
        return f"{query} ({sites})" if len(request.allowed_domains) > 1 else f"{query} {sites}"
    return " ".join([query, *(f"-site:{domain}" for domain in request.blocked_domains)])
