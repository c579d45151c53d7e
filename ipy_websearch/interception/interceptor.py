"""The door: a client of the anthropic SDK in, the same client with web search out; and what decides which requests it takes.

Without being told otherwise, only what a platform cannot do itself is done here: the API's own search passes through untouched
where the API is. Naming an engine, or the platform, asks for ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from ipy_websearch.errors import ConfigError
from ipy_websearch.interception.native import Unpacked, blocks_of, is_sound, web_blocks
from ipy_websearch.interception.run import InterceptedCall
from ipy_websearch.interception.tools import (
    WebTool,
    fetch_tool,
    kind_of,
    runs_natively,
    search_tool,
    web_tool,
    without_paths,
)
from ipy_websearch.model.requests import (
    PLATFORMS,
    Platform,
    caches_for_an_hour,
    question,
    server_searches,
    settled,
    tool_result,
)
from ipy_websearch.money.prices import own_prices
from ipy_websearch.options import checked
from ipy_websearch.providers.base import Place
from ipy_websearch.providers.router import provider_infos, provider_to_ask
from ipy_websearch.results import terms_of
from ipy_websearch.session import Session
from ipy_websearch.text import shorten
from ipy_websearch.tools.base import Tool

ClientT = TypeVar("ClientT")


def intercept(
    client: ClientT,
    *,
    provider: str | None = None,
    search_tool_name: str | None = None,
    enabled_platforms: Collection[str] | None = None,
    max_uses: int | None = None,
) -> ClientT:
    """Return a client of the same class whose `messages` run web searches and fetches inside the call.

    It takes every client of the anthropic SDK: Anthropic, Bedrock, Vertex, Foundry, blocking and async; `create`, `stream`,
    `parse`, the raw responses and `beta.messages`. A request is answered here when it has a tool whose type begins with
    `web_search_` or `web_fetch_`, or that is called `ipy_web_search`, `litellm_web_search`, or `web_search` or `WebSearch`
    without a schema. With a schema these two are the caller's own, unless an engine or the platform is named here. `max_uses`,
    domains, `user_location` (as far as the engine can) and `citations` of the tool hold.

    `provider` names the engine (None: the setting, then the first of the setting `search_tools`, then the chain),
    `search_tool_name` one of `search_tools` (one that is not there is the first there is). Where the platform is known to have
    a search of its own, that one is used, unless an engine is named or `enabled_platforms` ("anthropic", "bedrock", "vertex",
    "foundry", …) lists the platform; listed platforms are the only ones then. `max_uses` bounds each call (None: the tool's
    own, or 10). What was searched is in the ledger (`%cost`); the session's and the day's budget hold.

    A later request of a call that fails is sent again by itself, as often as the client's `max_retries` says and twice at
    least, since what came before it is paid.

    The reply begins with the searches, so its words are not in `content[0].text`: join the blocks of type "text".

    The client that was given searches nothing; it shares its connections with the new one, and closing either closes both.
    Of an intercepted client that is given again, only the new arguments count.

    At an address that may be anybody's, the setting `platform` says what the server takes ("anthropic": the API itself, which
    then searches by itself; "vllm": a server that refuses results as blocks); it is read at each call. Without it, results go
    as blocks that can be cited to models with a name of Anthropic's and as plain text to others (and to Ollama and LM Studio,
    known by their ports).

    >>> import anthropic
    >>> client = intercept(anthropic.Anthropic(api_key="…"), provider="local")
    >>> client.messages.create(tools=[{"type": "web_search_20250305", "name": "web_search"}], ...)  # doctest: +SKIP

    Raises:
        ConfigError: an argument is wrong, or `client` is no client of the anthropic SDK.
        MissingKeyError: the engine asked for by name has no key.
    """
    from ipy_websearch.model.sdk_hook import with_interception

    return with_interception(
        client,
        WebSearchInterceptor(
            provider=provider, search_tool_name=search_tool_name, enabled_platforms=enabled_platforms, max_uses=max_uses
        ),
    )


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
        enabled_platforms: Collection[str] | None = None,
        max_uses: int | None = None,
    ) -> None:
        checked("provider", provider)
        checked("search_tool_name", search_tool_name)
        self._max_uses = checked("max_uses", max_uses)
        if unknown := [name for name in enabled_platforms or () if name not in PLATFORMS]:
            raise ConfigError(f"there is no platform {unknown[0]!r}; there are: {', '.join(PLATFORMS)}")
        self._enabled = enabled_platforms
        self._named = bool(provider or search_tool_name)
        self._provider = provider or self._search_tool(search_tool_name)
        if self._provider:
            self.session.router.first(self._provider)  # raises for one that cannot be asked

    @property
    def session(self) -> Session:
        """The session whose engines, keys, cache and ledger are used: the one that the module's functions share."""
        from ipy_websearch import api

        return api.session()

    def begin(self, body: Mapping[str, Any], platform: Platform) -> InterceptedCall | None:
        """Return the call that answers a request, None when the request can be sent as it is.

        Raises:
            ConfigError: a web tool is not defined as the API takes it, or the user's price file is wrong. Nothing was sent.
        """
        messages, tools = body.get("messages"), body.get("tools") or []
        usual = isinstance(body.get("model"), str) and isinstance(body.get("max_tokens", 0), int)
        are_tools = isinstance(tools, list | tuple) and all(isinstance(tool, Mapping) for tool in tools)
        if not (usual and are_tools and is_sound(messages)):
            return None  # the API says what is wrong with it
        known = web_blocks(messages)  # type: ignore[arg-type]
        if not known and not any(kind_of(tool, named=True) for tool in tools):
            return None
        platform = settled(platform, self.session.settings.platform, body.get("model"))
        wanted = self._wanted(tools, platform)
        own = {kind for kind, is_own in known if is_own}
        readable = platform.server_tools and not self._named  # the platform reads its own results
        if not wanted and not own and (not known or readable):
            return None
        gone = sorted(own - {tool.kind for tool in wanted}, reverse=True)
        wanted += [WebTool.model_construct(kind=kind, max_uses=0) for kind in gone]
        return self._call(body, wanted, platform, keep_foreign=readable)

    def _wanted(self, tools: Collection[Any], platform: Platform) -> list[WebTool]:
        """Return the web tools that are run here."""
        if self._enabled is not None and platform.name not in self._enabled:
            return []
        named = self._named or self._enabled is not None
        return [
            web_tool(tool, kind, n, self._max_uses)
            for n, tool in enumerate(tools)
            if (kind := kind_of(tool, named=named)) and (named or not runs_natively(tool, platform))
        ]

    def _call(
        self, body: Mapping[str, Any], wanted: list[WebTool], platform: Platform, *, keep_foreign: bool
    ) -> InterceptedCall:
        session = self.session
        own_prices()  # a mistake in the user's price file shows here, before anything is paid for
        history = Unpacked(partial(tool_result, platform=platform, cited=_may_cite(body)), keep_foreign)
        history.unpack(body["messages"])
        booking = session.booking(question(body["messages"]), model=str(body.get("model")))
        budget = booking.budget
        if budget.bounded:
            budget.terms, budget.hour_cache = terms_of(body), caches_for_an_hour(body)
            places = {tool.index for tool in wanted}
            budget.server_searches = server_searches([t for n, t in enumerate(body.get("tools") or ()) if n not in places])
        tools = [
            self._search(tool, budget.bounded) if tool.kind == "search" else fetch_tool(tool, session.reader) for tool in wanted
        ]
        return InterceptedCall(body, wanted, {tool.name: tool for tool in tools}, history, platform, booking, session)

    def _search(self, tool: WebTool, bounded: bool) -> Tool:
        router, settings = self.session.router, self.session.settings
        provider = provider_to_ask(self._provider, settings.provider, settings.search_tools)
        where = tool.user_location
        defaults = self.session.search_request(
            "placeholder",
            country=where.country.lower() or None,
            place=Place(where.city, where.region, where.timezone),
            allowed_domains=tuple(dict.fromkeys(domain.partition("/")[0] for domain in tool.allowed_domains)),
            blocked_domains=without_paths(tool.blocked_domains),
        )
        return search_tool(
            tool,
            defaults,
            lambda request: router.search(request, provider=provider),
            price=router.expected_charges(provider, defaults.count, worst=bounded),
            tell=self._tell,
        )

    def _search_tool(self, name: str | None) -> str | None:
        """Return the engine for a named search tool; one that is not there is the first there is (seed 004)."""
        named = self.session.settings.search_tools
        known = not name or name in named or name.lower() in provider_infos()
        return name if known else next(iter(named), None)

    def _tell(self, problem: str) -> None:
        """Warn that nothing was searched, and why: the reply itself cannot say it."""
        warnings.warn(shorten(self.session.redact(problem), 600), UserWarning, stacklevel=2)


def _may_cite(body: Mapping[str, Any]) -> bool:
    """Return whether results in a request may be cited: not with an output format, nor beside the caller's own results that may
    not be cited."""
    config = body.get("output_config")
    if body.get("output_format") or (isinstance(config, Mapping) and config.get("format")):
        return False
    blocks = [block for message in body["messages"] for block in blocks_of(message)]
    blocks += [inner for block in blocks if block.get("type") == "tool_result" for inner in blocks_of(block)]
    own = (block.get("citations") for block in blocks if block.get("type") == "search_result")
    return all(isinstance(citations, Mapping) and citations.get("enabled") for citations in own)
