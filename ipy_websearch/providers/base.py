"""Search engines: the request that every engine understands, their protocol, and the base class of the built-in ones.

An engine is a class with a `name` and an async `search`. It turns a `SearchRequest` into its own wire format through
`ProviderContext.http`, maps the answer to `SearchResults`, and raises nothing but this package's errors. The built-in ones
share `Engine`; others need not. Another package adds an engine through an entry point of the group `ipy_websearch.providers`
that resolves to a `ProviderInfo`. The register of engines is in `router`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlsplit

from ipy_websearch.errors import LONG_WAIT_S, ConfigError, FailureReason, ProviderError
from ipy_websearch.http.client import HttpClient, HttpResponse, Reason, base_url, explain_any
from ipy_websearch.keys import Keys
from ipy_websearch.results import Charge, SearchResult, SearchResults
from ipy_websearch.text import duration, parse_date, plain, shorten, visible

T = TypeVar("T")
# A JSON object: the parameters that an engine is sent, its answer, a hit in it.
Json = dict[str, Any]
SafeSearch = Literal["off", "moderate", "strict"]

# --- the request ------------------------------------------------------------------------------------------------------

# The periods of `SearchRequest.freshness`, in the words that several engines take, and in days.
PERIODS = {"pd": ("day", 1), "pw": ("week", 7), "pm": ("month", 31), "py": ("year", 365)}

_DOMAIN = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9-]{1,63}")


class Place(NamedTuple):
    """Where the searcher is: a city, a region (its name, or a code such as "CA"), an IANA time zone; "" when not known."""

    city: str = ""
    region: str = ""
    timezone: str = ""


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search, as the user or the model asked for it; an engine takes from it what it can do.

    `query` has 2 characters or more. `freshness` is pd, pw, pm or py (past day, week, month, year) or "YYYY-MM-DDtoYYYY-MM-DD".
    `country` and `language` are two-letter codes, "" for the engine's default; `place` is more exact than a country where an
    engine takes it. Domains are bare host names; only one of the two lists may be given. `goggles` are addresses or inline
    rules.

    Raises:
        ConfigError: on construction, when a value does not have that form; the message says which form is right.
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
    place: Place = Place()

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "query", self.query.strip())
        put(self, "freshness", (self.freshness or "").strip() or None)
        code = "it must be a two-letter code such as 'us' or 'de'"
        rules = (
            (len(self.query) < 2, f"the query {self.query!r} is too short; a search needs 2 characters or more"),
            (not 1 <= self.count <= 50, f"count is {self.count}; it must be between 1 and 50"),
            (
                self.freshness and not date_range(self.freshness),
                f"freshness is {self.freshness!r}; it must be pd, pw, pm, py or a range such as 2026-01-01to2026-06-30",
            ),
            (not re.fullmatch("([a-z]{2}|all)?", self.country, re.IGNORECASE), f"country is {self.country!r}; {code}"),
            (
                not re.fullmatch("([a-z]{2}(-[a-z]{2,4})?|all)?", self.language, re.IGNORECASE),
                f"language is {self.language!r}; {code}",
            ),
            (
                self.safe_search not in ("off", "moderate", "strict"),
                f"safe_search is {self.safe_search!r}; it must be off, moderate or strict",
            ),
            (
                self.allowed_domains and self.blocked_domains,
                "allowed_domains and blocked_domains exclude each other; give one of the two",
            ),
        )
        for broken, message in rules:
            if broken:
                raise ConfigError(message)
        for name in ("allowed_domains", "blocked_domains"):
            put(self, name, tuple(map(clean_domain, getattr(self, name))))

    @property
    def period(self) -> str:
        """The past "day", "week", "month" or "year" that `freshness` means, "" for a range of days or none."""
        return PERIODS.get(self.freshness or "", ("", 0))[0]

    @property
    def days(self) -> tuple[date, date] | None:
        """First and last day where `freshness` is a range, else None."""
        return None if self.period else date_range(self.freshness)

    @property
    def country_code(self) -> str:
        """The country as two capital letters, "" for none or all."""
        code = self.country.upper()
        return {"ALL": "", "UK": "GB"}.get(code, code)

    @property
    def language_code(self) -> str:
        """The language as two small letters without a region, "" for none or all."""
        code = self.language.lower().partition("-")[0]
        return "" if code == "all" else code


def date_range(freshness: str | None) -> tuple[date, date] | None:
    """Return first and last day of a `SearchRequest.freshness`; None without one, or where they are no days in this order."""
    if freshness in PERIODS:
        today = datetime.now(UTC).date()
        return today - timedelta(days=PERIODS[freshness][1]), today
    found = re.fullmatch(r"(\d{4}-\d{2}-\d{2})to(\d{4}-\d{2}-\d{2})", freshness or "")
    try:
        days = (date.fromisoformat(found[1]), date.fromisoformat(found[2])) if found else None
    except ValueError:
        return None
    return days if days and days[0] <= days[1] else None


def clean_domain(value: str) -> str:
    """Return the bare host name of a domain ("https://Example.com/" → "example.com").

    Raises:
        ConfigError: there is no host name in it, or more than one: engines cannot search a part of a site.
    """
    site, _, path = re.sub(r"^[a-z]+://", "", value.strip().lower()).partition("/")
    if path:
        raise ConfigError(f"{value!r} has a path, and engines search whole sites; write {site}")
    host = host_of(f"//{site.removeprefix('*.')}")
    if not _DOMAIN.fullmatch(host) or not set(site).isdisjoint(" \t\r\n@?#"):  # more than a host, which `host_of` passes over
        raise ConfigError(f"{value!r} is not a domain; write it as example.com")
    return host


def host_of(url: str) -> str:
    """Return an address's host as names are compared: lower case, international names in ASCII; "" when there is none, or a
    port that is none."""
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").rstrip(".") if parts.port != 0 else ""
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except ValueError:
        return ""


def host_matches(url: str, domains: Iterable[str]) -> bool:
    """Return whether the address is on one of the domains (as `host_of` gives them) or a subdomain of one."""
    host = host_of(url)
    return any(host == domain or host.endswith("." + domain) for domain in domains)


def permitted(results: Iterable[SearchResult], request: SearchRequest) -> list[SearchResult]:
    """Return the results on the allowed domains (all when none are named) that are not on a blocked one."""
    allowed, blocked = request.allowed_domains, request.blocked_domains
    return [
        result
        for result in results
        if (not allowed or host_matches(result.url, allowed)) and not (blocked and host_matches(result.url, blocked))
    ]


# --- an engine, from outside ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ProviderInfo:
    """What is known about an engine before it is loaded.

    `keys` are the variables that must be set for it, `base_variable` the environment variable for its address and
    `base_default` that address ("": it has none until the variable is set). `load` is "module:Class"; the class is called with
    a `ProviderContext`. `note` is shown in `%websearch status`.
    """

    name: str
    label: str
    load: str
    keys: tuple[str, ...] = ()
    base_variable: str = ""
    base_default: str = ""
    note: str = ""

    def address(self, keys: Keys) -> str:
        """Return the base address in force, "" when there is none.

        Raises:
            ConfigError: the variable does not hold an address.
        """
        given = keys.environ.get(self.base_variable, "").strip()
        return base_url(self.base_variable, self.base_default, keys.environ) if given or self.base_default else ""

    def hindrance(self, keys: Keys) -> str:
        """Return why the engine cannot be used, "" when it can; nothing is sent."""
        try:
            return self.lacks(keys)
        except ConfigError as exc:
            return str(exc)

    def lacks(self, keys: Keys) -> str:
        """Return what is not set that the engine needs, "" for nothing.

        Raises:
            ConfigError: the address or a key is set and is none, or a file that may hold a key cannot be read.
        """
        if missing := [key for key in self.keys if not keys.get(key)]:
            return f"{' and '.join(missing)} {'are' if len(missing) > 1 else 'is'} not set"
        if self.base_variable and not self.address(keys):
            return f"{self.base_variable} is not set: it needs the address of a server"
        return ""


@dataclass(frozen=True, slots=True)
class ProviderContext:
    """What the session lends to an engine: the HTTP client, the keys, the folder for its data.

    `info` is the engine's own, `options` are the parameters of a named search tool (`WebSearch.search_tools`).
    """

    http: HttpClient
    keys: Keys
    data_dir: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    info: ProviderInfo = ProviderInfo("", "", "")


@runtime_checkable
class Provider(Protocol):
    """A search engine, ready to be asked.

    It may have `price`, a tuple of `Charge`s: what one search is expected to be billed.
    """

    name: ClassVar[str]

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the hits, best first, at most `request.count`; no hits is an empty result, not an error.

        Raises:
            ProviderError: the engine failed or answered something that cannot be read.
        """
        ...


# --- from an engine's JSON to our fields ------------------------------------------------------------------------------
#
# Whatever an engine sends may be missing, null, of the wrong type or hostile: what cannot be read becomes "", None or (), never
# a guess. Text is made plain (no tags, entities decoded), dates become aware UTC, relative dates ("3 days ago") are not dates.

# Characters of a description or snippet; longer ones are cut at a word. The whole text stays in `raw`.
DESCRIPTION_WIDTH = 2_000

_UNSAFE_IN_URL = re.compile(r"[\s<>\"\\^`{|}\x00-\x20\x7f-\x9f]")
_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}.*)?"
    r"|(?:[A-Za-z]{3}, )?\d{1,2} [A-Za-z]{3} \d{4} \d{2}:\d{2}(?::\d{2})?(?: .{1,5})?"
)
# Google's snippets begin so; put in RFC 1123's order, it is read as any other date.
_LEADING_DAY = re.compile(r"^([A-Z][a-z]{2}) (\d{1,2}), (\d{4})\b.*", re.DOTALL)


def present(**fields: Any) -> Json:
    """Return the parameters of a request that have a value; None, "", 0, False and empty lists are left out."""
    return {name: value for name, value in fields.items() if value}


def at(value: Any, path: str) -> Any:
    """Return what stands at a path of JSON objects ("query.altered"), None where there is nothing."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def values(value: Any, paths: str) -> list[Any]:
    """Return what stands at the paths of a JSON value ("title metadata.title"), in their order; arrays are entered, and a field
    that an object lacks is None.

    >>> values({"url": "u", "tags": [{"day": 1}, {"day": 2}]}, "tags.day url")
    [1, 2, 'u']
    """
    found: list[Any] = []
    for path in paths.split():
        nodes = [value]
        for name in path.split("."):
            reached = (node.get(name) for node in nodes if isinstance(node, dict))
            nodes = [part for node in reached for part in (node if isinstance(node, list) else [node])]
        found += nodes
    return found


def text(value: Any, width: int = DESCRIPTION_WIDTH) -> str:
    """Return one line of plain text, cut at a word to `width` characters: a string, or the first text of a list; else ""."""
    return shorten(next(filter(None, map(plain, value if isinstance(value, list) else [value])), ""), width)


def number(value: Any) -> float | None:
    """Return a finite number, None for anything else (also for True and False)."""
    return float(value) if type(value) in (int, float) and abs(value) < 1e300 else None


def address(value: Any) -> str:
    """Return an http or https address with a host, blanks and brackets escaped; "" for anything else."""
    if not isinstance(value, str):
        return ""
    url = _UNSAFE_IN_URL.sub(lambda found: "".join(f"%{b:02X}" for b in found[0].encode()), visible(value.strip()))
    return url if url.lower().startswith(("http://", "https://")) and host_of(url) else ""


def moment(*values: Any) -> datetime | None:
    """Return the first of the values that is a date, as aware UTC; None when none is.

    Understood are ISO 8601 (without a zone it is UTC), RFC 1123 ("Tue, 11 Mar 2025 10:00:00 GMT"), and a text that begins with
    its day as Google's snippets do ("Jun 24, 2024 ... "). Years in which no web page was published are no dates.
    """
    texts = (_LEADING_DAY.sub(r"\2 \1 \3 00:00", value.strip()) for value in values if isinstance(value, str))
    found = (parse_date(words) for words in texts if _DATE.fullmatch(words))
    return next((when for when in found if when and 1700 <= when.year <= 2200), None)


def hit(
    title: Any,
    url: Any,
    description: Any = "",
    published_date: datetime | None = None,
    extra_snippets: Any = (),
    score: Any = None,
) -> SearchResult | None:
    """Return one result from an engine's fields, None when its address is not one; of a list of texts the first counts."""
    where, words = address(url), text(description)
    more = dict.fromkeys(map(text, extra_snippets if isinstance(extra_snippets, tuple | list) else ()))
    others = tuple(snippet for snippet in more if snippet not in ("", words))
    return SearchResult(text(title, 500), where, words, published_date, others[:5], number(score)) if where else None


# --- what the built-in engines share ----------------------------------------------------------------------------------


class Refusal(NamedTuple):
    """What a refusal means that begins with a status and holds some words: `pattern` is searched for in "STATUS BODY".

    `kind` None leaves it to the status. `what` stands before the engine's own words and `remedy` behind them; {key}, {name},
    {obtain} and {address} in them are the engine's.
    """

    pattern: str
    kind: FailureReason | None = None
    what: str = ""
    remedy: str = ""


KEY_REFUSED = "the key was refused; set {key} again with `%websearch key {name}`"
_KEYED_REFUSALS = (
    Refusal("401", "key", KEY_REFUSED),
    Refusal("402", "credit", "the plan's credits are used up", "see {obtain}"),
    Refusal("403", "key", "the key or its plan does not allow this", "see {obtain}"),
)
_REFUSALS = (
    Refusal("404", remedy="check {address}"),
    Refusal("5", remedy="try again later"),
    Refusal(""),
)
# The fields of a `SearchResult`, in the order of `hit`.
_RESULT = ("title", "url", "description", "published_date", "extra_snippets", "score")


class Engine:
    """Base of the built-in engines and of plug-ins: limits, keys and address, one way to send and to put an answer together.

    The facts of an engine are attributes of its class, or stand in its head: `class Exa(Engine, name="exa", max_count=100)`.
    An engine of the usual form says how a request becomes parameters (`parameters`), and no more. They are sent to `path`: as
    JSON, or in the query of a GET where `method` says so. `key_header` is the header that has the key ("": the parameters have
    it). The hits stand at `hits_at` of the answer; an answer without hits may lack that place if it has one of the fields
    `signs`. `fields` names where a hit has the fields of a `SearchResult` whose name is another there, as paths for `values`.
    `price` is what a search costs by the list, `billed` the field of a `Charge` and the paths at which an answer reports it.

    `max_chars`, `max_words` and `max_count` bound a request, `ignores` names the fields of a `SearchRequest` that the engine
    cannot apply. Domain lists are sent in the form an engine has for them and checked once more on the results, since most
    engines treat them as a wish. `refusals` are those that mean something else here than their status says.
    """

    name: ClassVar[str]
    path: ClassVar[str] = "/search"
    method: ClassVar[str] = "POST"
    key_header: ClassVar[str] = "Authorization"
    timeout_s: ClassVar[float] = 20.0
    max_chars: ClassVar[int] = 2_000
    max_words: ClassVar[int | None] = None
    max_count: ClassVar[int] = 50
    hits_at: ClassVar[str] = "results"
    fields: ClassVar[Mapping[str, str]] = {}
    billed: ClassVar[tuple[str, str]] = ("", "")
    signs: ClassVar[tuple[str, ...]] = ()
    ignores: ClassVar[tuple[str, ...]] = ()
    refusals: ClassVar[tuple[Refusal, ...]] = ()
    price: tuple[Charge, ...] = ()

    def __init_subclass__(cls, **facts: Any) -> None:
        for name, value in facts.items():
            setattr(cls, name, value)

    def __init__(self, context: ProviderContext) -> None:
        self.context = context
        self.info = context.info

    async def search(self, request: SearchRequest) -> SearchResults:
        """Return the results of one search.

        Raises:
            MissingKeyError: a key is not set. ConfigError: the engine has no address.
            ProviderError: the engine refused, failed or could not be reached.
        """
        query, count, notices = self.fitted(request)
        raw = await self.ask({**self.parameters(request, query, count, notices), **self.context.options})
        self.examine(raw, notices)
        return self.answer(request, map(self.result, self.hits(raw)), raw, notices)

    def parameters(self, request: SearchRequest, query: str, count: int, notices: list[str]) -> Json:
        """Return the parameters of one search; what cannot be applied is added to `notices`."""
        raise NotImplementedError

    def examine(self, raw: Json, notices: list[str]) -> None:
        """Add what an answer says beside its hits to `notices`.

        Raises:
            ProviderError: the answer reports a failure.
        """

    def hits(self, raw: Json, path: str = "") -> list[Json]:
        """Return the hits of an answer, as they came; they stand at `path` ("": `hits_at`).

        Raises:
            ProviderError: there is no list of hits, or nothing in it has an address: such an answer is no "nothing found".
        """
        path = path or self.hits_at
        if raw.get(path.partition(".")[0]) is None and any(raw.get(sign) for sign in self.signs):
            return []
        listed = self.part(raw, list, path)
        urls_at = self.fields.get("url", "url")
        hits = [hit for hit in listed if any(isinstance(url, str) for url in values(hit, urls_at))]
        if listed and not hits:
            raise self._unreadable()
        return hits

    def result(self, item: Json) -> SearchResult | None:
        """Return a hit as a result, in plain text (`hit` makes one), None when it is none."""
        title, urls, words, dates, more, scores = (values(item, self.fields.get(name, name)) for name in _RESULT)
        return hit(title, next(filter(None, urls), None), words, moment(*dates), more, next(iter(scores), None))

    def part(self, raw: Any, kind: type[T], path: str) -> T:
        """Return a part that every answer has.

        Raises:
            ProviderError: it is missing or of another type: such an answer is no "nothing found".
        """
        value = at(raw, path)
        if not isinstance(value, kind):
            raise self._unreadable()
        return value

    def price_for(self, count: int) -> tuple[Charge, ...]:
        """Return what a search for `count` results is expected to be billed."""
        return self.price

    def charges(self, raw: Any, expected: tuple[Charge, ...]) -> tuple[Charge, ...]:
        """Return what a call is billed: the credits or dollars that its answer reports, up to 100,000, else as expected."""
        field, paths = self.billed
        reported = [used for used in map(number, values(raw, paths)) if used is not None and 0 <= used <= 100_000]
        if not reported:
            return expected
        charge = replace(expected[0], units=Decimal(1)) if expected else Charge(self.name)
        used: Any = {field: Decimal(str(reported[0])).normalize() + 0}
        return (replace(charge, **used),)

    def fitted(self, request: SearchRequest) -> tuple[str, int, list[str]]:
        """Return the query and the count within the engine's limits, and notices of what was cut or cannot be applied."""
        query, notices = clip_query(request.query, self.max_chars, self.max_words), []
        if query != request.query:
            limit = f"{self.max_chars} characters" + (f" and {self.max_words} words" if self.max_words else "")
            notices.append(f"{self.name} takes {limit}; the query was cut to {query[:60]!r}…")
        if request.count > self.max_count:
            notices.append(f"{self.name} gives at most {self.max_count} results, not {request.count}")
        # English is the language that is set when nobody chose one, moderate the filter.
        asked = {
            "goggles": request.goggles,
            "place": any(request.place),
            "freshness": request.freshness,
            "country": request.country_code,
            "language": request.language_code not in ("", "en"),
            "safe_search": request.safe_search == "strict",
        }
        if ignored := [name for name in self.ignores if asked[name]]:
            notices.append(f"{self.name} cannot apply {', '.join(ignored)}; ignored")
        return query, min(request.count, self.max_count), notices

    async def ask(
        self,
        given: Any,
        path: str = "",
        *,
        method: str = "",
        language: str = "en",
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Json:
        """Return the JSON object that an endpoint answers when it is `given` parameters; `options` are those of
        `HttpClient.request_json`.

        Raises:
            ProviderError: the engine refused, failed or sent something unreadable.
            MissingKeyError: its key is not set. ConfigError: its address is none.
        """
        method, sent = method or self.method, dict(headers or {})
        if self.info.keys and self.key_header:
            key = self.context.keys.require(self.info.keys[0])
            sent[self.key_header] = f"Bearer {key}" if self.key_header == "Authorization" else key
        url = self.info.address(self.context.keys).replace("{lang}", language) + (path or self.path)
        options = {"timeout_s": self.timeout_s, "explain": self.refusal, "headers": sent, **options}
        options["params" if method == "GET" else "json"] = given
        raw = await self.context.http.request_json(method, url, provider=self.name, **options)
        if not isinstance(raw, dict):
            raise self._unreadable()
        if raw.get("success", not raw.get("error")) is False:
            # `error` is a text, or an object with a message (Brave: `detail`, MediaWiki: `info`).
            said = text(values(raw, "error error.message error.detail error.info error.code"), 200)
            status = 429 if at(raw, "error.code") == "ratelimited" else 200
            raise self.failure(said or "it reports a failure without a reason", status=status)
        return raw

    def refusal(self, response: HttpResponse) -> Reason:
        """Return why the engine refused, and what to do: its own words between what the tables of refusals say."""
        said, wait, kind = explain_any(response)
        status, keys = response.status, self.info.keys
        known = (*self.refusals, *(_KEYED_REFUSALS if keys else ()), *_REFUSALS)
        told = f"{status} {response.text[:20_000]}"
        rule = next(rule for rule in known if re.match(rule.pattern, told, re.IGNORECASE | re.DOTALL))
        facts = {"key": keys[0], "obtain": self.context.keys.spec(keys[0]).obtain} if keys else {}
        facts |= {"name": self.name, "address": self.info.base_variable or "its address"}
        what, remedy = (words.format(**facts) for words in rule[2:])
        if (status == 429 and not remedy) or (wait or 0) > LONG_WAIT_S:
            remedy = ask_again(wait)
        words = ": ".join(filter(None, (what, shorten(said, 110).rstrip("."))))
        return Reason("; ".join(filter(None, (words, remedy))), wait, rule.kind or kind)

    def _unreadable(self) -> ProviderError:
        return self.failure(
            "the answer holds no results that can be read; "
            f"check {self.info.base_variable or 'its address'}, or try again later",
            lost=True,
        )

    def failure(self, text: str, *, status: int | None = 200, lost: bool = False) -> ProviderError:
        """Return the error for an answer that is one although its HTTP status is 200; a `lost` one is no refusal."""
        return self.context.http.error(self.name, f"{self.name}: {text}", status=status, lost=lost)

    def answer(
        self,
        request: SearchRequest,
        found: Iterable[SearchResult | None],
        raw: Any,
        notices: Iterable[str] = (),
        *,
        charges: Sequence[Charge] | None = None,
        extra: Mapping[str, Any] | None = None,
        most: int | None = None,
    ) -> SearchResults:
        """Return the results that the request allows, at most `most` (None: `request.count`), billed as `charges` says (None:
        as the answer reports, else at the list price)."""
        first: dict[str, SearchResult] = {}
        for result in found:
            if result is not None:
                first.setdefault(result.url, result)
        kept = permitted(first.values(), request)
        return SearchResults(
            results=tuple(kept[: most or request.count]),
            query=request.query,
            provider=self.name,
            extra={name: value for name, value in (extra or {}).items() if value},
            charges=self.charges(raw, self.price_for(request.count)) if charges is None else tuple(charges),
            notices=tuple(notices),
            body=None if raw is None else json.dumps(raw).encode(),  # parsed, it would take ten times the memory
        )


def ask_again(wait: float | None) -> str:
    """Return when a request that was refused may be sent again; `wait` are the seconds that the engine asks for."""
    if wait and wait > LONG_WAIT_S:
        when = datetime.now(UTC) + timedelta(seconds=min(wait, 1e8))  # three years: a header may say anything
        return f"ask again at {when:%Y-%m-%d %H:%M} UTC"
    return f"ask again in {duration(wait or 1.0)}"


def clip_query(query: str, max_chars: int, max_words: int | None = None) -> str:
    """Return the query cut at a word to the length that an engine takes; a single longer word is cut inside."""
    if len(query) <= max_chars and (max_words is None or len(query.split()) <= max_words):
        return query
    return textwrap.shorten(" ".join(query.split()[:max_words]), max_chars, placeholder="") or query.split()[0][:max_chars]


def with_site_operators(query: str, request: SearchRequest) -> str:
    """Return the query with the domain lists as `site:` operators, for engines that have no parameter for them."""
    if request.allowed_domains:
        sites = " OR ".join(f"site:{domain}" for domain in request.allowed_domains)
        return f"{query} ({sites})" if len(request.allowed_domains) > 1 else f"{query} {sites}"
    return " ".join([query, *(f"-site:{domain}" for domain in request.blocked_domains)])
