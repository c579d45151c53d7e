"""The door: a client of the anthropic SDK in, the same client with web search out."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Coroutine, Generator
from concurrent.futures import wait
from typing import Any, TypeVar

from ipy_websearch import background
from ipy_websearch.interception.interceptor import WebSearchInterceptor

ClientT = TypeVar("ClientT")


def intercept(
    client: ClientT,
    *,
    provider: str | None = None,
    search_tool_name: str | None = None,
    enabled_platforms: Collection[Any] | None = None,
    max_uses: int | None = None,
) -> ClientT:
    """Return a client of the same class whose `messages` run web searches and fetches inside the call.

    It takes every client of the anthropic SDK: Anthropic, Bedrock, Vertex, Foundry, blocking and async; `create`, `stream`,
    `parse`, the raw responses and `beta.messages`. A request is answered here when it has a tool whose type begins with
    `web_search_` or `web_fetch_`, or that is called `ipy_web_search`, `litellm_web_search`, `web_search` or (without a schema)
    `WebSearch`. `max_uses`, domains, `user_location` (as far as the engine can) and `citations` of the tool hold.

    `provider` names the engine (None: the setting, then the chain), `search_tool_name` one of the setting `search_tools`
    (one that is not there is the first there is). Where the platform has a search of its own, that one is used, unless
    an engine is named or `enabled_platforms` ("anthropic", "bedrock", "vertex", "foundry", …) lists the platform; listed
    platforms are the only ones then. `max_uses` bounds each call (None: the tool's own, or 10). What was searched is in the
    ledger (`%cost`); the session's and the day's ceiling hold.

    The client that was given searches nothing; it shares its connections with the new one, and closing either closes both.
    An intercepted client may be given again: what is not given now is as it was.

    At an address that may be anybody's, the setting `platform` says what the server takes; it is read at each call. Without
    it, results go as blocks that can be cited to models with a name of Anthropic's and as plain text to others (and to Ollama
    and LM Studio, known by their ports); a server that refuses the blocks gets the same request as text, and nothing is
    searched again. A server that ignores the native tool instead of refusing it needs `provider` or `enabled_platforms`.

    >>> import anthropic
    >>> client = intercept(anthropic.Anthropic(api_key="…"), provider="local")
    >>> client.messages.create(tools=[{"type": "web_search_20250305", "name": "web_search"}], ...)  # doctest: +SKIP

    Raises:
        ConfigError: an argument is wrong, or `client` is no client of the anthropic SDK.
        MissingKeyError: the engine asked for by name has no key.
    """
    from ipy_websearch.model.intercepted import interceptor_of, with_interception

    given: dict[str, Any] = {"enabled_platforms": enabled_platforms, "max_uses": max_uses}
    given |= {"provider": provider, "search_tool_name": search_tool_name}
    if isinstance(earlier := interceptor_of(client), WebSearchInterceptor):
        engine = ("provider", "search_tool_name")
        kept = {n: v for n, v in earlier.given.items() if not (n in engine and (provider or search_tool_name))}
        given = {name: kept.get(name) if value is None else value for name, value in given.items()}
    return with_interception(client, WebSearchInterceptor(**given), _block)


def _block(function: Callable[[], Coroutine[Any, Any, Any]], every_s: float) -> Generator[None, None, None]:
    """Run a coroutine function to its end for a blocking client, and yield whenever `every_s` seconds have gone by.

    Closing the generator, or an interrupt, cancels what runs and gives it a moment to end.
    """
    task = background.Task(function)
    due = time.monotonic() + every_s
    try:
        while not wait([task.future], min(background.POLL_S, every_s)).done:
            if time.monotonic() >= due:
                due += every_s
                yield
        task.future.result()
    finally:
        task.cancel()
