"""Lets traffic pass and writes each exchange into the cassette when it has ended, however it ended.

Recording never costs an answer: when the file cannot be written any more, `problem` says so and the traffic goes on.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ipy_websearch.cassette.exchange import Exchange, Kind, body_fields, error_fields, kept_headers
from ipy_websearch.cassette.redaction import Redactor, sent_secrets
from ipy_websearch.cassette.repeats import Repeats
from ipy_websearch.cassette.written import exchange_text, head_text, keys_text, read
from ipy_websearch.errors import ConfigError, FetchError, ModelError, ProviderError

if TYPE_CHECKING:
    from ipy_websearch.http.download import Download
    from ipy_websearch.http.response import HttpResponse

T = TypeVar("T")
Event = dict[str, Any]
Ready = Callable[[], Awaitable[Any]]


class Recorder:
    """A cassette that is being recorded. `keys` gives the names of the keys that are set, `head` what else a player must know.

    Raises:
        ConfigError: the file is there already (`append` goes on with it, `force` replaces it), or cannot be written.
    """

    replaying = False

    def __init__(
        self,
        path: Path,
        *,
        redactor: Redactor,
        head: Mapping[str, Any],
        keys: Callable[[], list[str]],
        append: bool = False,
        force: bool = False,
    ) -> None:
        self.path = path
        self.count = 0
        self.problem = ""
        self._redactor = redactor
        self._keys = keys
        self._known_keys = list(keys())
        self._lock = threading.RLock()
        self._repeats = Repeats()
        exists = path.exists() and path.stat().st_size > 0
        if exists and not (append or force):
            raise ConfigError(f"{path} is there already; --append goes on with it, --force replaces it")
        first = self._go_on(path) if exists and append else 1
        self._numbers = itertools.count(first)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if force and not append else 0)
            self._file = open(os.open(path, flags, 0o644), "wb", buffering=0)  # noqa: SIM115 - it lives as long as the tape
        except OSError as exc:
            raise ConfigError(f"the cassette {path} cannot be written ({exc.strerror or exc})") from None
        if first == 1:
            self._write(head_text({**head, "keys": self._known_keys}))

    @property
    def name(self) -> str:
        """The file's name, for people."""
        return self.path.name

    def check(self) -> None:
        """Nothing can be missing while recording."""

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    # --- what passes ------------------------------------------------------------------------------------------------

    async def stream(
        self, body: Mapping[str, Any], live: Callable[[Mapping[str, Any]], AsyncIterator[Event]], ready: Ready
    ) -> AsyncIterator[Event]:
        """Yield the events of a streamed reply; what `ready` takes (loading the SDK) belongs to no rhythm."""
        await ready()
        exchange, start = self._begin("model", str(body.get("model")), body), time.monotonic()
        events: list[tuple[float, Event]] = []
        ending: dict[str, Any] | None = {}
        try:
            async with aclosing(live(body)) as stream:  # type: ignore[type-var]
                async for event in stream:
                    events.append((time.monotonic() - start, event))
                    yield event
        except BaseException as exc:
            whole = bool(events) and events[-1][1].get("type") == "message_stop"
            ending = {} if whole else _failure(exc)
            raise
        finally:
            if ending is not None:
                parts = {"stream": self._redactor.stream(events)} if events or not ending else {}
                self._end(exchange, start, {**parts, **ending})

    async def whole(
        self, body: Mapping[str, Any], live: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]], ready: Ready
    ) -> dict[str, Any]:
        """Return a reply that came whole."""
        await ready()
        exchange = self._begin("model", str(body.get("model")), body)
        return await self._passed(exchange, live(body), lambda message: {"message": message})

    async def engine(
        self, provider: str, request: Mapping[str, Any], headers: Mapping[str, str], live: Awaitable[HttpResponse]
    ) -> HttpResponse:
        """Return an engine's answer."""
        exchange = self._begin("engine", provider, request)

        def fields(response: HttpResponse) -> dict[str, Any]:
            body = body_fields(response.body, is_json=response.content_type == "application/json")
            return self._body(response.status, response.headers, body, sent)

        sent = sent_secrets(headers)
        return await self._passed(exchange, live, fields, sent)

    async def page(self, url: str, live: Awaitable[Download]) -> Download:
        """Return what a page's address answers."""
        exchange = self._begin("page", url, None)

        def fields(got: Download) -> dict[str, Any]:
            body = body_fields(got.body, is_json=False, charset=got.charset)
            facts = {"final_url": got.final_url, "content_type": got.content_type, "charset": got.charset}
            return {**facts, **self._body(got.status, got.headers, body, ())}

        return await self._passed(exchange, live, fields)

    # --- how it is written ------------------------------------------------------------------------------------------

    def _body(self, status: int, headers: Mapping[str, str], body: dict[str, Any], sent: Iterable[str]) -> dict[str, Any]:
        if "base64" in body:
            from base64 import b64decode

            body = body_fields(self._redactor.data(b64decode("".join(body["base64"])), sent), is_json=False)
        return {"status": status, "headers": kept_headers(headers), **body}

    def _begin(self, kind: Kind, to: str, request: Any) -> Exchange:
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return Exchange(kind, to, request, n=next(self._numbers), at=now)

    async def _passed(
        self, exchange: Exchange, live: Awaitable[T], fields: Callable[[T], dict[str, Any]], sent: Iterable[str] = ()
    ) -> T:
        start = time.monotonic()
        try:
            answer = await live
        except BaseException as exc:
            if (failure := _failure(exc)) is not None:
                self._end(exchange, start, failure, sent)
            raise
        self._end(exchange, start, fields(answer), sent)
        return answer

    def _end(self, exchange: Exchange, start: float, outcome: dict[str, Any], sent: Iterable[str] = ()) -> None:
        exchange.took_s, exchange.outcome = time.monotonic() - start, outcome
        with self._lock:  # also over the writing: a request that names another one stands behind it
            text = exchange_text(exchange, self._repeats.shortened(exchange))
            if new := [name for name in self._keys() if name not in self._known_keys]:
                self._known_keys += new
                text = keys_text(new) + text
            self._write(self._redactor.text(text, sent))

    def _write(self, text: str) -> None:
        with self._lock:
            try:
                self._file.write(text.encode("utf-8", "backslashreplace"))
                self.count += text.startswith(("---\nmodel", "---\nengine", "---\npage", "---\nkeys"))
            except (OSError, ValueError) as exc:
                self.problem = self.problem or f"{self.path} could not be written ({exc}); what came after is not on it"

    def _go_on(self, path: Path) -> int:
        """Take an entry that is not whole off the end of the file; return the number of the next request."""
        found = read(path)
        if found.warnings:
            text = path.read_text(encoding="utf-8")
            path.write_text(text[: text.rindex("\n---\n") + 1], encoding="utf-8")
        self._known_keys = list(found.head.get("keys") or ())
        return max((exchange.n for exchange in found.exchanges), default=0) + 1


def _failure(exc: BaseException) -> dict[str, Any] | None:
    """Return how an exchange failed, None when nothing was sent (a setting is wrong) or the failure is a bug."""
    if isinstance(exc, ModelError | ProviderError | FetchError):
        return {"error": error_fields(exc)}
    return {"cut_off": True} if isinstance(exc, asyncio.CancelledError | GeneratorExit | TimeoutError) else None
