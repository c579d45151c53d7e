"""Decides what of a request is run here, and puts a run together from the session's parts.

Without being told otherwise, only what a platform cannot do itself is done here: the API's own search passes through
untouched where the API is. Naming an engine, or the platform, asks for ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.events import Money
from ipy_websearch.interception.conversation import Conversation, Grant
from ipy_websearch.interception.detection import NATIVE_NAMES, UPSTREAM_NAMES, Bounds, Wanted, capped, kind_of, wanted_tools
from ipy_websearch.interception.replay import called_here, expanded, has_native, has_own
from ipy_websearch.interception.run import InterceptedRun, least_tokens
from ipy_websearch.interception.shape import may_cite
from ipy_websearch.interception.soundness import is_sound
from ipy_websearch.interception.sources import Sources
from ipy_websearch.interception.telling import tell_once
from ipy_websearch.interception.tools import asked_count, bare_domains, fetch_tool, search_tool
from ipy_websearch.interception.url_sources import known_addresses
from ipy_websearch.loop.calls import CallRunner
from ipy_websearch.loop.history import Message
from ipy_websearch.loop.limits import Meter
from ipy_websearch.model.platforms import PLATFORMS, Platform, settled
from ipy_websearch.model.tokens import caches_for_an_hour, estimate_tokens, server_searches
from ipy_websearch.money.booking import add_money
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.options import at_least, texts
from ipy_websearch.providers.router import provider_to_ask
from ipy_websearch.results import Panels
from ipy_websearch.session import Session
from ipy_websearch.tools.base import Tool, ToolContext
from ipy_websearch.usage import Limits, Terms

MAX_USES = 10
"""Searches that one call may make when nobody says how many: the API's own loop makes as many before it pauses."""

TOOLS_TIMEOUT_S = 3_600.0
"""Seconds after which a call starts no more tools; each tool has a limit of its own, and so has the caller's client."""

_GONE = "Not in use any more: its results above are valid, but it finds nothing now. Do not call it."
"""What the model is told of a tool that is only defined because the history has calls of it."""

_NAMES = {upstream: NATIVE_NAMES[kind] for upstream, kind in UPSTREAM_NAMES.items()}
_KEPT_SEARCHES = 64
_PLATFORM_ALIASES = {"vertex_ai": "vertex", "azure": "foundry", "azure_ai": "foundry", "bedrock_converse": "bedrock"}


class WebSearchInterceptor:
    """Runs the web tools of Messages API requests; see `intercept` for the arguments. One serves any number of clients.

    Raises:
        ConfigError: there is no such engine, or no such platform, or `max_uses` is not above 0.
        MissingKeyError: the engine has no key.
    """

    def __init__(
        self,
        *,
        provider: str | None = None,
        search_tool_name: str | None = None,
        enabled_platforms: Collection[Any] | None = None,
        max_uses: int | None = None,
        session: Session | None = None,
    ) -> None:
        texts(provider=provider, search_tool_name=search_tool_name)
        self._session = session
        self._max_uses = None if max_uses is None else _uses(max_uses)
        if isinstance(enabled_platforms, str | Enum):
            enabled_platforms = (enabled_platforms,)
        if not (enabled_platforms is None or isinstance(enabled_platforms, Iterable)):
            raise ConfigError(f"enabled_platforms is {enabled_platforms!r}; it must be a list of: {', '.join(PLATFORMS)}")
        self._enabled = None if enabled_platforms is None else frozenset(map(_platform_name, enabled_platforms))
        self.given: dict[str, Any] = {"provider": provider, "search_tool_name": search_tool_name}
        self.given |= {"enabled_platforms": self._enabled, "max_uses": self._max_uses}
        self._named = bool(provider or search_tool_name)
        self._searches: dict[tuple[Any, ...] | None, Tool] = {}
        self._provider = provider or self._search_tool(search_tool_name)
        if self._provider:
            self.session.router.check(self._provider)

    @property
    def session(self) -> Session:
        """The session whose engines, keys, cache and ledger are used: the one that the module's functions share."""
        if self._session is None:
            from ipy_websearch import api

            return api.session()
        return self._session

    def begin(self, body: Mapping[str, Any], platform: Platform, *, forced: bool = False) -> InterceptedRun | None:
        """Return the run that answers a request, None when the request can be sent as it is.

        `forced` runs the web tools here although the platform is taken to have its own.

        Raises:
            ConfigError: a web tool is not defined as the API would take it, a cassette is replayed, or the user's price file
                is wrong; nothing was sent.
        """
        messages = body.get("messages")
        if not isinstance(messages, list) or not all(map(is_sound, messages)):
            return None  # the API says what is wrong with it
        if platform.assumed and (_wants_web(body.get("tools")) or has_native(messages)):
            platform = settled(platform, self.session.settings.platform, body.get("model"))
        wanted = self._wanted(body, platform, forced)
        if wanted is None:
            wanted = _for_history(body, messages, platform.server_tools and not forced)
            if wanted is None:
                return None
            if not wanted.others:
                body = {**body, "tool_choice": {"type": "none"}}
        if tape := self.session.replayed_from:  # the requests are the caller's own: they are not recorded, and cost money
            raise ConfigError(f"calls of an intercepted client are not on {tape}; `%websearch stop` ends the replay")
        keep = platform.server_tools and not forced and not self._named
        sources, cited = Sources(), may_cite(body)
        turns = expanded(messages, platform, keep_foreign=keep, sources=sources, cited=cited, names=wanted.upstream)
        return self._run(body, wanted, turns, platform, sources, cited)

    def _wanted(self, body: Mapping[str, Any], platform: Platform, forced: bool) -> Wanted | None:
        tools = body.get("tools")
        if not isinstance(tools, list) or not tools:
            return None
        if self._enabled is not None:
            return wanted_tools(tools, platform, forced=True) if platform.name in self._enabled else None
        return wanted_tools(tools, platform, forced=forced or self._named)

    def _run(
        self,
        body: Mapping[str, Any],
        wanted: Wanted,
        messages: list[Message],
        platform: Platform,
        sources: Sources,
        cited: bool,
    ) -> InterceptedRun:
        session = self.session
        _ = session.prices  # a mistake in the user's price file shows here, before anything is paid for
        bounds = {kind: capped(b, self._max_uses) for kind, b in wanted.bounds.items()}
        booking = session.booking(_question(body["messages"]), model=str(body.get("model")), least=least_tokens(body))
        budget = booking.budget
        if budget.bounded:
            budget.terms, budget.hour_cache = Terms.of(body), caches_for_an_hour(body)
        tools = [
            fetch_tool(session.reader, bound) if kind == "fetch" else self._search(session, bound, budget.bounded)
            for kind, bound in bounds.items()
        ]
        tools = [replace(t, description=_GONE) if b.max_uses == 0 else t for t, b in zip(tools, bounds.values(), strict=True)]
        known = known_addresses(messages, bounds["fetch"].sources, _NAMES) if "fetch" in bounds else set()
        meter = Meter(Limits(max_searches=_most(bounds.get("search")), timeout_s=TOOLS_TIMEOUT_S))
        runner = CallRunner({t.name: t for t in tools}, ToolContext(known_urls=known), Panels(), budget, meter)
        fetch = bounds.get("fetch", Bounds())
        grant = _grant(budget, body, wanted) if budget.bounded else None
        conversation = Conversation(body, wanted, messages, platform, runner, fetch, sources, cited, grant)
        return InterceptedRun(conversation, booking, self._spent)

    def _spent(self, usd: Money) -> None:
        """Add what a call has cost to the session's sum."""
        self.session.spent_usd = add_money(self.session.spent_usd, usd)

    def _search(self, session: Session, bounds: Bounds, bounded: bool) -> Tool:
        """Return the search; without a ceiling, that of a named engine is made once for the same bounds and settings."""
        settings, router = session.settings, session.router
        provider, said = provider_to_ask(self._provider, settings.provider, settings.search_tools)
        for notice in said:
            tell_once(session, notice)
        if searches := bounds.max_uses != 0:
            router.check(provider)  # its key may be gone
        key = None
        if provider and not bounded:
            chosen = (settings.count, settings.country, settings.language, settings.safe_search)
            key = (bounds, provider, router, *chosen, str(settings.search_tools.get(provider)))
        if key in self._searches:
            return self._searches[key]
        allowed, blocked = bare_domains(bounds)
        given = {"country": bounds.country or None, "place": bounds.place or None}
        count = asked_count(bounds, settings.count)
        defaults = session.search_request("placeholder", count=count, allowed_domains=allowed, blocked_domains=blocked, **given)

        async def search(request: Any) -> Any:
            return await router.search(request, provider=provider)

        price = router.expected_charges(provider, count, worst=bounded) if searches else ()
        tool = search_tool(search, defaults, bounds, price, settings.count, partial(tell_once, session))
        if key is not None:
            if len(self._searches) >= _KEPT_SEARCHES:
                self._searches.clear()
            self._searches[key] = tool
        return tool

    def _search_tool(self, name: str | None) -> str | None:
        """Return the engine for a named search tool; one that is not there is the first there is (seed 004)."""
        if not name:
            return None
        from ipy_websearch.providers.base import provider_infos

        named = self.session.settings.search_tools
        if name in named or name.lower() in provider_infos():
            return name
        return next(iter(named), None)


def _uses(given: Any) -> int:
    """Return a number of uses as Python's own; NumPy's are taken too."""
    try:
        return at_least(1, "max_uses", given, 1)
    except ConfigError:
        raise ConfigError(f"max_uses is {given!r}; it must be a whole number, 1 or more") from None


def _wants_web(tools: Any) -> bool:
    return isinstance(tools, list) and any(map(kind_of, tools))


def _most(bounds: Bounds | None) -> int:
    return MAX_USES if bounds is None or bounds.max_uses is None else bounds.max_uses


def _for_history(body: Mapping[str, Any], messages: Sequence[Any], native: bool) -> Wanted | None:
    """Return what it takes to send a history with native calls although no web tool is wanted, None for any other.

    The tools that the history calls have to be defined; they may not be used. `native` says that the platform reads its own.
    """
    own, tools = has_own(messages), body.get("tools") or ()
    if not isinstance(tools, list | tuple) or (not own and (native or not has_native(messages))):
        return None
    called = called_here(messages)
    used = {kind for kind, name in NATIVE_NAMES.items() if name in called}
    return Wanted({kind: Bounds(max_uses=0) for kind in sorted(used, reverse=True)}, {}, tuple(tools))


def _grant(budget: RunBudget, body: Mapping[str, Any], wanted: Wanted) -> Grant:
    budget.server_searches = server_searches(wanted.others)

    def grant(draft: Mapping[str, Any], final: bool) -> int | None:
        return budget.grant(str(body.get("model")), estimate_tokens(draft), int(body.get("max_tokens") or 0), final=final)

    return grant


def _question(messages: Sequence[Any]) -> str:
    """Return the user's last own words, for the ledger."""
    for message in reversed(messages):
        if isinstance(message, Mapping) and message.get("role") == "user":
            content = message.get("content")
            if isinstance(content, str):
                return content
            texts = [str(b.get("text")) for b in content or () if isinstance(b, Mapping) and b.get("type") == "text"]
            if texts:
                return texts[-1]
    return ""


def _platform_name(value: Any) -> str:
    name = str(getattr(value, "value", value)).strip().lower()
    name = _PLATFORM_ALIASES.get(name, name)
    if name not in PLATFORMS:
        raise ConfigError(f"there is no platform {name!r}; there are: {', '.join(PLATFORMS)}")
    return name
