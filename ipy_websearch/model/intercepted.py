"""The door to somebody else's SDK client: middleware that turns one request into as many as it takes.

It runs inside the SDK's own retrying, so nothing may be lost or done twice there: the first request is left to the SDK; each
later one is sent again here, by itself; and where the SDK begins anew after all (a lost connection), the run is found by the
call's idempotency key and goes on where it was. It is the same where other middleware calls again. Facts: anthropic 2.11
`_middleware.py`, `_base_client.py`, read 2026-11.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import anthropic
import httpx2

from ipy_websearch.errors import ConfigError
from ipy_websearch.model.attempts import OwnMiddleware
from ipy_websearch.model.awaiting import Awaiting
from ipy_websearch.model.blocking import Blocking
from ipy_websearch.model.driving import Block, Driver
from ipy_websearch.model.passing import raw_response, with_body
from ipy_websearch.model.platforms import ANTHROPIC, PLATFORMS, Platform, platform_at
from ipy_websearch.model.runs import Run

ClientT = TypeVar("ClientT")

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
_REFUSED = (400, 404, 422, 501)
_KEPT_RUNS = 64


class Interceptor(Protocol):
    """Decides which requests are run here; see `interception.interceptor`."""

    def begin(self, body: Mapping[str, Any], platform: Platform, *, forced: bool = False) -> Run | None:
        """Return the run that answers a request, None when it can be sent as it is."""
        ...


def with_interception(client: ClientT, interceptor: Any, block: Block) -> ClientT:
    """Return a copy of an SDK client with the middleware as its innermost; `block` runs coroutines for blocking clients.

    Raises:
        ConfigError: it is no client of the anthropic SDK, or of one without middleware.
    """
    if isinstance(client, type) or not all(hasattr(client, name) for name in ("messages", "middleware", "with_options")):
        kind = f"the class {client.__name__} itself" if isinstance(client, type) else type(client).__name__
        raise ConfigError(f"intercept() takes a client of the anthropic SDK, not {kind}")
    platform, known = platform_of(client)
    own = SearchMiddleware(interceptor, platform, block, known=known)
    given: Any = client
    others = [entry for entry in given.middleware if not isinstance(entry, SearchMiddleware)]
    copy: Any = given.with_options(middleware=[*others, own])
    if getattr(given, "_strict_response_validation", False):  # the SDK's copies forget it
        copy._strict_response_validation = True
    return cast(ClientT, copy)


def interceptor_of(client: Any) -> Interceptor | None:
    """Return the interceptor of a client that has one."""
    entries = getattr(client, "middleware", None)
    own = [entry for entry in entries if isinstance(entry, SearchMiddleware)] if isinstance(entries, list | tuple) else []
    return own[-1].interceptor if own else None


def platform_of(client: Any) -> tuple[Platform, bool]:
    """Return the platform behind an SDK client, and whether that is known for sure (an address may be anybody's)."""
    names = " ".join(kind.__name__ for kind in type(client).__mro__)
    for word, name in (("Bedrock", "bedrock"), ("Vertex", "vertex"), ("Foundry", "foundry")):
        if word in names:
            return PLATFORMS[name], True
    host = client.base_url.host
    if host == "anthropic.com" or host.endswith(".anthropic.com"):
        return ANTHROPIC, True
    return replace(platform_at(str(client.base_url)), assumed=True), False


class SearchMiddleware(OwnMiddleware):
    """Answers requests that want the web; all others pass untouched.

    `known` says that the platform is what it seems, `retries` how often a later request may be sent again (None: as often
    as the SDK does). `block` runs a coroutine function to its end for a blocking client.
    """

    def __init__(
        self,
        interceptor: Interceptor,
        platform: Platform,
        block: Block,
        *,
        known: bool = True,
        retries: int | None = None,
    ) -> None:
        self._retries = retries
        self._interceptor = interceptor
        self._platform = platform
        self._block = block
        self._known = known
        self._lacks_search = False
        self._plain: dict[str, Platform] = {}
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def handle(self, request: Any, call_next: Any) -> Any:
        """Answer one attempt of a blocking client."""
        kept = self._found(request) if self._kept else None
        run, forced = kept.driver.run if kept else self._begin(request), False
        if run is None:
            response = call_next(request)
            if not self._refused(response, request) or (run := self._forced(request)) is None:
                return response
            raw_response(response).read()
            forced = True
        if _path(request) == COUNT:
            return call_next(with_body(request, _count_body(run)))
        driver = Blocking(run, request, call_next, self._retries, self._block)
        driver.learn = self._takes_text
        if kept:
            driver.go_on_from(kept.driver)
        try:
            response = driver.answer()
        except Exception as exc:
            self._keep(driver, exc)
            raise
        self._learn(driver, response, forced)
        return response

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        """Answer one attempt of an async client."""
        kept = self._found(request) if self._kept else None
        run, forced = kept.driver.run if kept else self._begin(request), False
        if run is None:
            response = await call_next(request)
            if not self._refused(response, request) or (run := self._forced(request)) is None:
                return response
            await raw_response(response).aread()
            forced = True
        if _path(request) == COUNT:
            return await call_next(with_body(request, _count_body(run)))
        driver = Awaiting(run, request, call_next, self._retries)
        driver.learn = self._takes_text
        if kept:
            driver.go_on_from(kept.driver)
        try:
            response = await driver.answer()
        except Exception as exc:
            self._keep(driver, exc)
            raise
        self._learn(driver, response, forced)
        return response

    @property
    def interceptor(self) -> Interceptor:
        """Who decides what is run here."""
        return self._interceptor

    def platform_for(self, model: object) -> Platform:
        """Return the platform for a model's requests: as the client seems to have it, or as the server has shown it."""
        return self._plain.get(str(model), self._platform)

    def _takes_text(self, model: object, platform: Platform) -> None:
        """Learn that results for a model have to be text: the server refused them otherwise, and took them so."""
        if len(self._plain) < _KEPT_RUNS:
            self._plain[str(model)] = platform

    def _begin(self, request: Any) -> Run | None:
        body = request.options.json_data
        if request.method.lower() != "post" or not isinstance(body, dict) or _path(request) not in (MESSAGES, COUNT):
            return None
        run = self._begun(body)
        if run is not None and body.get("thread"):
            raise thread_refusal(request)
        return run

    def _begun(self, body: Mapping[str, Any]) -> Run | None:
        return self._interceptor.begin(body, self.platform_for(body.get("model")), forced=self._lacks_search)

    def _refused(self, response: Any, request: Any) -> bool:
        """Say whether a server that nobody knows may have refused the API's own tools."""
        return not self._known and response.status_code in _REFUSED and _path(request) == MESSAGES

    def _forced(self, request: Any) -> Run | None:
        body = request.options.json_data
        tools = body.get("tools") if isinstance(body, dict) else None
        named = [tool for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
        native = any(str(tool.get("type", "")).startswith(("web_search_", "web_fetch_")) for tool in named)
        return self._interceptor.begin(body, self.platform_for(body.get("model")), forced=True) if native else None

    def _learn(self, driver: Driver, response: Any, forced: bool) -> None:
        if response.status_code >= 400:
            self._keep(driver, response)
        elif forced:
            self._lacks_search = True

    def _keep(self, driver: Driver, ended: Any) -> None:
        """Keep a run whose later request failed: the SDK or other middleware may call again with the same key."""
        key = driver.request.options.idempotency_key
        if driver.run.begun and key is not None:
            self._kept[key] = _Kept(driver, ended)
            while len(self._kept) > _KEPT_RUNS:
                self._kept.popitem(last=False)

    def _found(self, request: Any) -> _Kept | None:
        """Return what an earlier attempt at the same call has left. Middleware in between may ask for something else under
        the same key (another model): that is another call.

        Raises:
            Exception: that of the earlier attempt, where the request was sent as often as it may be.
        """
        key = request.options.idempotency_key
        kept = self._kept.get(key)
        if kept is None or kept.driver.request.options.json_data != request.options.json_data:
            return None
        if kept.driver.attempts.used_up:
            if request.retries_taken:
                raise kept.error
            kept.driver.run.attempts = 0  # it is not the SDK who calls again, but somebody with a count of his own
        return self._kept.pop(key, None)


class _Kept(NamedTuple):
    """A run that may be gone on with, and the error or the error response with which its attempt ended."""

    driver: Driver
    ended: Any

    @property
    def error(self) -> Exception:
        """The error that the attempt ended with, or its response as the SDK raises it."""
        if isinstance(self.ended, Exception):
            return self.ended
        made: Exception = self.driver.attempts.client._make_status_error_from_response(raw_response(self.ended))
        return made


def thread_refusal(request: Any) -> anthropic.BadRequestError:
    """Return the API's own refusal of a conversation that the server is to keep (`thread`).

    The server would keep the calls of our tools, and the caller's next turn could not go on from them. The SDK's tool runner
    understands it and goes on with whole histories (anthropic 2.11 `lib/threads/_thread_state.py`, read 2026-11).
    """
    message = "a conversation kept by the server (thread) cannot be searched for here; send the whole history instead"
    details = {"error_code": "thread_unsupported_request", "unsupported": ["web_search"]}
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": message, "details": details}}
    response = httpx2.Response(400, json=body, request=httpx2.Request("POST", "http://localhost" + _path(request)))
    return anthropic.BadRequestError(message, response=response, body=body)


def _path(request: Any) -> str:
    return str(request.url).partition("?")[0]


def _count_body(run: Run) -> dict[str, Any]:
    """Return what the model would be sent, without what a count of tokens does not take."""
    return {name: value for name, value in run.draft().items() if name not in ("max_tokens", "stream")}
