"""The base of the fake search engines: strict about keys, parameters and limits, scripted or answering by themselves.

    with Brave() as brave:
        brave.reply(results=[hit("https://a.example/", "A", "About A")])
        brave.fail(429)

With nothing queued, an engine makes up results for the query, as many as were asked for; `behave` takes a function from
the parameters to results or a whole body. What is refused goes into `refusals` and fails the test in `check` unless
`allow_refusals` is set. What each engine takes is in its own file, from its documents as of November 2026.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.fakes.replies import WIRE
from tests.fakes.server import Handler, Received, Server, receive

JSON = dict[str, Any]
Hit = dict[str, Any]
Behaviour = Callable[[JSON], Any]


def hit(
    url: str,
    title: str = "",
    description: str = "",
    *,
    date: str | None = None,
    extra: Sequence[str] = (),
    score: float | None = None,
) -> Hit:
    """One search result in the words all engines share; `date` is ISO, YYYY-MM-DD or with a time."""
    return {
        "url": url,
        "title": title or url,
        "description": description,
        "date": date,
        "extra": list(extra),
        "score": score,
    }


def made_up(query: str, count: int, start: int = 0) -> list[Hit]:
    """Return `count` results for a query, the same ones every time."""
    slug = re.sub(r"\W+", "-", query.lower()).strip("-")[:40]
    return [
        hit(
            f"https://site{n}.example/{slug}",
            f"{query} ({n})",
            f"Page {n} says that {query} has {n} parts.",
            date=f"2026-10-{n % 28 + 1:02d}T08:00:00",
        )
        for n in range(start + 1, start + count + 1)
    ]


@dataclass(slots=True)
class Answer:
    """One scripted answer: `results` in shared words, or a whole `body`; with a status, a delay, or a cut connection."""

    results: Sequence[Hit] | None = None
    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    hang_up: bool = False
    fields: JSON = field(default_factory=dict)


@dataclass(slots=True)
class Refusal(Exception):
    """The engine refuses a request with this status and body."""

    status: int
    body: Any
    reason: str


class Engine(Server):
    """Base of the fake engines. A subclass says its paths, checks parameters and puts results into its own shape."""

    key_name = ""
    """Environment variable of the key; "" for engines without one."""
    url_name = ""
    """Environment variable of the base address."""
    fields: Mapping[str, Form] = {}
    """The parameters of a search; `query` and `count` (with its default) name two of them."""
    query = "query"
    count: tuple[str, int] = ("limit", 10)

    def __init__(self) -> None:
        super().__init__()
        self.key = f"fake-{self.key_name.lower().replace('_', '-')}-of-the-tests"
        self.allow_refusals = False
        self.latency_s = 0.0
        self._queue: deque[Answer] = deque()
        self._behaviour: Behaviour | None = None

    def reply(self, results: Sequence[Hit] | None = None, **settings: Any) -> None:
        """Queue one answer: results in shared words, or `body=`; also `status headers delay_s hang_up fields`.

        `fields` are put into the body beside the results.
        """
        self._queue.append(Answer(results, **settings))

    def recorded(self, name: str) -> None:
        """Queue a recorded body out of tests/data/wire, such as "brave/helmut_web.json"."""
        self._queue.append(Answer(body=json.loads((WIRE / name).read_text(encoding="utf-8"))))

    def fail(self, status: int, *, times: int = 1, headers: Mapping[str, str] | None = None, body: Any = None) -> None:
        """Queue an error, in the engine's own shape unless a body is given."""
        for _ in range(times):
            self._queue.append(
                Answer(body=self.error_body(status) if body is None else body, status=status, headers=dict(headers or {}))
            )

    def behave(self, function: Behaviour | None) -> None:
        """Let a function from the parameters answer whenever the queue is empty."""
        self._behaviour = function

    @property
    def queries(self) -> list[str]:
        """The search words of all searches, in order."""
        values = [request.values() for request in self.requests]
        words = [str(v.get("q") or v.get("query") or v.get("srsearch") or "") for v in values]
        return [entry for entry in words if entry]

    @property
    def refusals(self) -> list[str]:
        """Why requests were refused, in order."""
        return [request.refusal for request in self.requests if request.refusal]

    def check(self) -> None:
        """Raise AssertionError for what a test should have noticed."""
        super().check()
        assert not self._queue, f"{len(self._queue)} answers queued for {type(self).__name__} were not asked for"
        assert self.allow_refusals or not self.refusals, f"{type(self).__name__} refused a request: {self.refusals}"

    def environment(self) -> dict[str, str]:
        """Return the variables that send the package here."""
        return {self.url_name: self.url} | ({self.key_name: self.key} if self.key_name else {})

    def error_body(self, status: int, message: str = "") -> Any:
        """Return an error body in the engine's own shape."""
        return {"error": {"code": status, "message": message or f"Error {status}"}}

    def serve(self, look: Callable[[Received], Any], shape: Callable[[Sequence[Hit], JSON], JSON], start: int = 0) -> Handler:
        """Return the handler of one path.

        `look` refuses, or returns (query, count, start) for the script to answer, or an `Answer` of its own; `shape` makes
        the body out of results.
        """

        async def handle(request: web.Request) -> web.StreamResponse:
            received = await receive(request)
            self.requests.append(received)
            try:
                seen = look(received)
            except Refusal as refusal:
                received.status, received.refusal = refusal.status, refusal.reason
                return _respond(refusal.status, refusal.body, {})
            answer = seen if isinstance(seen, Answer) else self._next(received.values(), *seen)
            count = None if isinstance(seen, Answer) else seen[1]
            await asyncio.sleep(self.latency_s + answer.delay_s)
            if answer.hang_up and request.transport is not None:
                request.transport.abort()
                return web.Response()
            body = answer.body
            if body is None:
                body = shape(list(answer.results or [])[:count], received.values()) | answer.fields
            received.status, received.answer = answer.status, body
            return _respond(answer.status, body, self.answer_headers() | answer.headers)

        return handle

    def answer_headers(self) -> dict[str, str]:
        """Return the headers that the engine puts on its answers."""
        return {}

    def look(self, received: Received) -> tuple[str, int, int]:
        """Refuse what the engine does not take; return (query, count, start)."""
        values = self.checked(received, self.fields)
        name, usual = self.count
        return values[self.query], int(values.get(name, usual)), 0

    def checked(self, received: Received, fields: Mapping[str, Form], required: str = "") -> JSON:
        """Check the key and every parameter; return the parameters."""
        values = received.values()
        if self.key_name and not self.has_key(received):
            raise Refusal(401, self.error_body(401), "the key is missing or wrong")
        for name, value in values.items():
            if name not in fields:
                raise self.invalid(name, "the parameter is not known")
            if not fits(value, fields[name]):
                raise self.invalid(name, f"{value!r} is not {fields[name]}")
        if not values.get(required or self.query):
            raise self.invalid(required or self.query, "the parameter is required")
        return values

    def has_key(self, received: Received) -> bool:
        """Return True when the key is there."""
        return received.headers.get("authorization") == f"Bearer {self.key}"

    def invalid(self, name: str, why: str) -> Refusal:
        """Return the refusal of a parameter."""
        return Refusal(400, self.error_body(400, f"{name}: {why}"), f"{name}: {why}")

    def scripted(self, body: JSON) -> Answer:
        """Return the next scripted answer, or else this body."""
        return self._queue.popleft() if self._queue else Answer(body=body)

    def _next(self, values: JSON, query: str, count: int, first: int) -> Answer:
        if self._queue:
            return self._queue.popleft()
        if self._behaviour is None:
            return Answer(made_up(query, count, first))
        made = self._behaviour(values)
        if isinstance(made, Answer):
            return made
        return Answer(body=made) if isinstance(made, dict) else Answer(made)


def _respond(status: int, body: Any, headers: Mapping[str, str]) -> web.Response:
    if isinstance(body, bytes):
        return web.Response(body=body, status=status, headers=headers)
    if isinstance(body, str):
        return web.Response(text=body, status=status, headers=headers, content_type="text/html")
    return web.json_response(body, status=status, headers=headers)


Form = str | range | type
"""What a parameter may be: a regular expression, whole numbers, or a JSON type; "" is anything."""


def parameters(names: str, **forms: Form) -> dict[str, Form]:
    """Return the parameters that an engine takes: those that may be anything, and those of a form."""
    return dict.fromkeys(names.split(), "") | forms


def fits(value: Any, form: Form) -> bool:
    """Return whether a parameter has its form; numbers in a query string are text."""
    if isinstance(form, type):
        return isinstance(value, form)
    if isinstance(form, range):
        return str(value).isdigit() and int(value) in form
    return not form or (isinstance(value, str) and re.fullmatch(form, value) is not None)
