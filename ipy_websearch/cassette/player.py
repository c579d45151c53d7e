"""Answers requests from a cassette, and from nothing else: no key is used and nothing is sent.

With `pace` everything takes as long as when it was recorded, piece by piece; without, it comes at once. What was cut off while
recording stays open (with `pace`), or has reached its time limit. A request that was never recorded is a `ReplayError`;
a tool that makes an answer of it for the model is overtaken by `check`, which the model's next request, or the end of the
answer, asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ipy_websearch.cassette.difference import miss_text
from ipy_websearch.cassette.exchange import Exchange, Kind, body_of, error_of
from ipy_websearch.cassette.matching import Shelf
from ipy_websearch.cassette.redaction import Redactor
from ipy_websearch.cassette.written import read
from ipy_websearch.errors import ModelError, ReplayError
from ipy_websearch.http.response import HttpResponse
from ipy_websearch.model.stream import Reply, message_events

if TYPE_CHECKING:
    from ipy_websearch.http.download import Download

Event = dict[str, Any]


class Player:
    """A cassette that is played; `version` is ours, `pace` whether to keep the recording's rhythm.

    Raises:
        ConfigError: there is no such cassette, or a line of it cannot be read.
    """

    replaying = True

    def __init__(self, path: Path, *, redactor: Redactor, version: str, pace: bool = True) -> None:
        self.path = path
        found = read(path)
        self.head = found.head
        self.warnings = found.warnings
        self.pace = pace
        self.count = 0
        self.missed: ReplayError | None = None
        self._shelf = Shelf(found.exchanges, strict=found.head.get("version") == version, clean=redactor.text)

    @property
    def name(self) -> str:
        """The file's name, for people."""
        return self.path.name

    @property
    def keys(self) -> list[str]:
        """The names of the keys that were set when it was recorded."""
        return [str(name) for name in self.head.get("keys") or ()]

    @property
    def has_model(self) -> bool:
        """Whether a model other than the built-in one answered."""
        return any(exchange.kind == "model" for exchange in self._shelf.exchanges)

    def check(self) -> None:
        """Raise what was missed and has not reached anybody yet.

        Raises:
            ReplayError: a request of a tool is not on the tape.
        """
        missed, self.missed = self.missed, None
        if missed is not None:
            raise missed

    def close(self) -> None:
        """Nothing is open."""

    # --- what is asked ----------------------------------------------------------------------------------------------

    async def stream(self, body: Mapping[str, Any], live: Any = None, ready: Any = None) -> AsyncIterator[Event]:
        """Yield the events of a recorded reply."""
        self.check()
        exchange, again = self._find("model", str(body.get("model")), body)
        start = asyncio.get_running_loop().time()
        outcome = exchange.outcome
        events = outcome.get("stream") or [(exchange.took_s, event) for event in message_events(outcome.get("message") or {})]
        if not (outcome.get("stream") or outcome.get("message")):
            events = []
        for moment, event in events:
            await self._until(start + moment)
            yield event
        await self._ending(exchange, again, start)

    async def whole(self, body: Mapping[str, Any], live: Any = None, ready: Any = None) -> dict[str, Any]:
        """Return a recorded reply as one message."""
        self.check()
        exchange, again = self._find("model", str(body.get("model")), body)
        await self._ending(exchange, again, asyncio.get_running_loop().time())
        if "message" in exchange.outcome:
            return cast(dict[str, Any], exchange.outcome["message"])
        reply = Reply()
        for _, event in exchange.outcome.get("stream") or ():
            reply.apply(event)
        if not reply.complete:
            raise ModelError("the model's answer ended too soon", status=200, kind="truncated")
        stops = {"stop_reason": reply.stop_reason, "stop_details": reply.stop_details}
        return {"model": reply.model, "content": reply.content, "usage": reply.usage_fields, **stops}

    async def engine(self, provider: str, request: Mapping[str, Any]) -> HttpResponse:
        """Return an engine's recorded answer."""
        exchange, again = self._find("engine", provider, request)
        await self._ending(exchange, again, asyncio.get_running_loop().time())
        outcome = exchange.outcome
        url = str((exchange.request or {}).get("url", ""))
        return HttpResponse(int(outcome.get("status", 200)), dict(outcome.get("headers") or {}), self._body(exchange), url)

    async def page(self, url: str) -> Download:
        """Return what a page's address answered."""
        exchange, again = self._find("page", url, {})
        await self._ending(exchange, again, asyncio.get_running_loop().time())
        from ipy_websearch.http.download import Download

        outcome = exchange.outcome
        return Download(
            url=url,
            final_url=str(outcome.get("final_url") or url),
            status=int(outcome.get("status", 200)),
            content_type=str(outcome.get("content_type") or ""),
            charset=str(outcome.get("charset") or ""),
            body=self._body(exchange),
            headers=dict(outcome.get("headers") or {}),
        )

    # --- how it is found and paced ----------------------------------------------------------------------------------

    def _find(self, kind: Kind, to: str, request: Any) -> tuple[Exchange, bool]:
        found = self._shelf.take(kind, to, request)
        if found is None:
            error = ReplayError(miss_text(kind, to, request, self._shelf.exchanges, self.name))
            if kind != "model":
                self.missed = self.missed or error
            raise error
        self.count += 1
        return found

    async def _ending(self, exchange: Exchange, again: bool, start: float) -> None:
        """Wait for the end of an exchange, and end as it did.

        Raises:
            WebSearchError: it failed. TimeoutError: it was cut off.
        """
        await self._until(start + exchange.took_s)
        if fields := exchange.outcome.get("error"):
            error = error_of(fields)
            if not self.pace and again and isinstance(error, ModelError):
                error.retry_after = 0.0  # what follows is on the tape: waiting for it would be all that takes time
            raise error
        if exchange.cut_off:
            while self.pace:
                await asyncio.sleep(3600)
            raise TimeoutError

    async def _until(self, moment: float) -> None:
        if self.pace and (wait := moment - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(wait)

    def _body(self, exchange: Exchange) -> bytes:
        try:
            return body_of(exchange.outcome)
        except (ValueError, TypeError, LookupError) as exc:
            raise ReplayError(f"the body at line {exchange.line} of {self.path} cannot be read ({exc})") from None
