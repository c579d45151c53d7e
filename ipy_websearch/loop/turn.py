"""Asks the model once: sends a request, reads the reply as it is written, and sends it again when that is allowed.

A request is sent again only while none of its text has been shown. Whatever happens, what it used is reported: by the API, or
estimated where the API did not say. A request that went out and of which no usage ever came (interrupted, timed out, connection
lost) is "lost": what it read is estimated, and under a budget all that was reserved for it counts. One that was refused, or
never went out, used nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.citations import CitationBook, marks
from ipy_websearch.errors import ModelError, WebSearchError
from ipy_websearch.events import (
    Cited,
    Event,
    LimitReached,
    ModelRequested,
    ModelResponded,
    Notice,
    Retracted,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from ipy_websearch.loop.counting import counted, written_tokens
from ipy_websearch.loop.limits import Meter
from ipy_websearch.loop.text import AnswerText
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.reply import Reply
from ipy_websearch.model.retry import retry_wait_s
from ipy_websearch.money.prices import billed_model
from ipy_websearch.usage import Usage

_SENT = ("connection_lost", "truncated", "timeout_error", "")
_BROKEN = ("connection_error", "connection_lost", "truncated", "timeout_error")


@dataclass(slots=True)
class Turn:
    """The model's side of a run. `reply` is the newest reply, `usage` the sum over all requests, failed ones included."""

    client: ModelClient
    meter: Meter
    sleep: Callable[[float], Any] = asyncio.sleep
    text: AnswerText = field(default_factory=AnswerText)
    book: CitationBook = field(default_factory=CitationBook)
    usage: Usage = Usage()
    model: str = ""
    reply: Reply | None = None
    _open: bool = False
    _start: float = 0.0
    _shown: bool = False
    _timed_out: bool = False
    _body: Mapping[str, Any] = field(default_factory=dict)

    async def events(self, body: Mapping[str, Any], *, final: bool) -> AsyncIterator[Event]:
        """Send `body` and yield what is written; afterwards `reply` holds the reply, complete or as far as it came.

        Raises:
            ModelError: the API refused it or broke off and sending it again is no use.
        """
        failures = 0
        while True:
            yield ModelRequested(self.meter.steps, str(body["model"]), body, final)
            error: ModelError | None = None
            reply = self._begin(body)
            try:
                async for event in self._read(body, reply):
                    self._shown = self._shown or isinstance(event, TextDelta)
                    yield event
            except ModelError as exc:
                error = exc
            except WebSearchError:  # a key is missing, a cassette has nothing: it did not go out
                self._open = False
                raise
            except TimeoutError:
                self._timed_out = True
                self.meter.reach("timeout")
                yield LimitReached("timeout", self.meter.explain("timeout"))
            yield self._end(str(body["model"]), error)
            error = self._problem(reply, error)
            if error is None:
                return
            failures += 1
            wait = None if self._shown else retry_wait_s(error, failures)
            if wait is None or wait >= self.meter.seconds_left:
                raise error
            self.reply = None
            yield Retracted(self.meter.steps)
            yield Notice(f"{error}; trying again in {wait:.1f} s")
            await self.sleep(wait)

    def cut_off(self, model: str) -> ModelResponded | None:
        """Return the booking of a request that was interrupted, None when none was under way."""
        return self._end(model) if self._open else None

    def _begin(self, body: Mapping[str, Any]) -> Reply:
        self._start, self._open, self._shown = time.perf_counter(), True, False
        self._body, self._timed_out = body, False
        self.text.step()
        self.reply = Reply()
        return self.reply

    def _end(self, model: str, error: ModelError | None = None) -> ModelResponded:
        """Close the books on a request that ended, with `error` or without."""
        assert self.reply is not None
        reply, usage, estimated = self.reply, self.reply.usage, True
        lost = not reply.complete and not reply.usage_fields and self._may_be_billed(reply, error)
        if reply.complete or lost:
            usage, estimated = counted(reply.usage_fields, self._body, reply.content)
        elif reply.blocks:
            usage += Usage(output_tokens=max(0, written_tokens(reply.content) - usage.output_tokens))
        self._open = False
        billed = billed_model(model, reply.model)
        self.usage += usage
        self.model = reply.model or self.model
        return ModelResponded(
            step=self.meter.steps,
            model=billed,
            usage=usage,
            stop_reason=reply.stop_reason,
            seconds=time.perf_counter() - self._start,
            content=tuple(reply.content),
            request_id=self.client.request_id,
            estimated=estimated,
            lost=lost,
        )

    def _may_be_billed(self, reply: Reply, error: ModelError | None) -> bool:
        """Say whether a request may be billed of which no usage came: it went out, and was not refused."""
        if reply.blocks:
            return True
        if getattr(self.client, "held_back", False):  # a client that waits for its turn was cut off meanwhile
            return False
        if error is None or error.kind in _SENT:
            return error is None or error.status in (None, 200)
        return error.status == 200 and error.kind == "no_message"  # an answer that could not be used

    def _problem(self, reply: Reply, error: ModelError | None) -> ModelError | None:
        """Return the error that stands in the way of using a reply; a broken one whose text was shown is used as it is."""
        if error is None:
            if reply.complete or self._shown or self._timed_out:
                return None
            return ModelError("the model's answer ended too soon", status=200, kind="truncated")
        return None if self._shown and error.kind in _BROKEN else error

    async def _read(self, body: Mapping[str, Any], reply: Reply) -> AsyncIterator[Event]:
        """Read one reply; yield its text, citations and announced calls as they arrive."""
        stream = self.client.pieces(body)
        iterator = stream.__aiter__()
        broken: BaseException | None = None
        try:
            while True:
                async with asyncio.timeout(self.meter.seconds_left):
                    raws = await anext(iterator, None)
                if raws is None:
                    break
                for raw in raws:
                    for event in self._take(raw, reply):
                        yield event
        except (Exception, asyncio.CancelledError) as exc:
            broken = exc
        finally:
            left = reply.close()
            await stream.aclose()  # type: ignore[attr-defined]
        for block in left:
            for event in self._block_ended(block, reply):
                yield event
        if broken is not None:
            raise broken

    def _take(self, raw: Mapping[str, Any], reply: Reply) -> list[Event]:
        ended = reply.apply(raw)
        events: list[Event] = []
        match raw.get("type"):
            case "content_block_start":
                block = raw.get("content_block") or {}
                if block.get("type") == "text" and block.get("text"):
                    events += self._written(str(block["text"]))
                elif str(block.get("type", "")).endswith("_tool_result"):
                    events.append(_server_result(block))
            case "content_block_delta":
                delta = raw.get("delta") or {}
                if delta.get("type") == "text_delta" and delta.get("text"):
                    events += self._written(delta["text"])
            case _:
                pass
        return events + (self._block_ended(ended, reply) if ended else [])

    def _written(self, text: str) -> list[Event]:
        shown = self.text.write(text)
        return [TextDelta(shown)] if shown else []

    def _block_ended(self, block: Mapping[str, Any], reply: Reply) -> list[Event]:
        match block.get("type"):
            case "text" if block.get("citations"):
                return self._cited(block["citations"])
            case "tool_use" | "server_tool_use" as kind:
                started = ToolStarted(
                    str(block.get("id")), str(block.get("name")), block.get("input") or {}, kind == "server_tool_use"
                )
                return [started]
            case _:
                return []

    def _cited(self, citations: Sequence[Mapping[str, Any]]) -> list[Event]:
        events: list[Event] = []
        numbers = []
        for raw in citations:
            n, new = self.book.cite(raw)
            numbers.append(n)
            if new is not None:
                events.append(Cited(new))
        shown = self.text.mark(marks(numbers))
        return [*events, TextDelta(shown)] if shown else events


def _server_result(block: Mapping[str, Any]) -> ToolFinished:
    """Return the event for the result of a tool that the API ran."""
    content = block.get("content")
    code = content.get("error_code") if isinstance(content, Mapping) else None
    count = len(content) if isinstance(content, list) else 1
    name = str(block.get("type", "")).removesuffix("_tool_result")
    return ToolFinished(
        id=str(block.get("tool_use_id")),
        name=name,
        summary=f"error: {code}" if code else f"{count} result{'' if count == 1 else 's'}",
        is_error=bool(code),
        by_server=True,
        content=content,
    )
