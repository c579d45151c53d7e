"""A real HTTP server on loopback for the fakes to stand on.

All servers of a process share one event loop in one daemon thread, so starting one costs a few milliseconds. A client
reaches it over real TCP, hence nothing of the package has to be patched. What a handler raises is kept in `problems`.
"""

import asyncio
import json
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self, TypeVar

from aiohttp import web

T = TypeVar("T")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@cache
def server_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that all fakes run on, in a daemon thread."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="fake-servers", daemon=True).start()
    return loop


def run_there(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on the servers' loop and return its result; at most 10 s."""
    return asyncio.run_coroutine_threadsafe(coroutine, server_loop()).result(timeout=10)


@dataclass(slots=True)
class Received:
    """One request as it came in, and what became of it.

    `at` is a `time.monotonic()` stamp, `body` the parsed JSON or None; `refusal` is the text of a refusal, `answer` the
    whole message or body that was meant to be sent.
    """

    method: str
    path: str
    params: dict[str, Any]
    headers: dict[str, str]
    body: Any = None
    at: float = field(default_factory=time.monotonic)
    status: int | None = None
    refusal: str | None = None
    answer: Any = None

    def values(self) -> dict[str, Any]:
        """Return the parameters, wherever they were: the JSON body of a POST, the query string of a GET."""
        return dict(self.body) if isinstance(self.body, dict) else dict(self.params)


class Server:
    """Base of all fakes: `routes` says what is served, `url` where. Use it as a context manager or `start`/`stop` it."""

    def __init__(self) -> None:
        self.requests: list[Received] = []
        self.problems: list[str] = []
        self.active = 0
        self.most_active = 0
        self._runner: web.AppRunner | None = None
        self.port = 0

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Return (method, path, handler) of everything that is served."""
        raise NotImplementedError

    @property
    def url(self) -> str:
        """Scheme, host and port, without a final slash."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Begin to listen on a free port of 127.0.0.1; returns self."""
        run_there(self._start())
        return self

    def stop(self) -> None:
        """Close the port and every open connection; a second call does nothing."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            run_there(runner.cleanup())

    def check(self) -> None:
        """Raise AssertionError when something went wrong that the test may not have noticed."""
        assert not self.problems, "\n".join(self.problems)

    def wait(self, condition: Callable[[Self], object], timeout_s: float = 5.0) -> None:
        """Wait until a condition holds, such as `lambda api: api.requests` or `lambda api: not api.active`."""
        end = time.monotonic() + timeout_s
        while not condition(self):
            assert time.monotonic() < end, f"{type(self).__name__}: nothing happened within {timeout_s} s"
            time.sleep(0.002)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def _start(self) -> None:
        app = web.Application(client_max_size=256 * 2**20, middlewares=[self._watch])
        for method, path, handler in self.routes():
            app.router.add_route(method, path, handler)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, backlog=512)
        await site.start()
        self.port = self._runner.addresses[0][1]

    @web.middleware
    async def _watch(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Count requests that are open at once, and keep what a handler raises."""
        self.active += 1
        self.most_active = max(self.most_active, self.active)
        try:
            return await handler(request)
        except (web.HTTPException, ConnectionError, asyncio.CancelledError):
            raise
        except Exception as exc:
            self.problems.append(f"{type(self).__name__} failed on {request.method} {request.path}: {exc!r}")
            raise
        finally:
            self.active -= 1


async def receive(request: web.Request) -> Received:
    """Return what a request holds; a body that there is is JSON."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    body = await request.json() if request.can_read_body else None
    return Received(request.method, request.path, dict(request.query), headers, body)


# --- A server that answers what a test scripts, byte for byte --------------------------------------------------------

JSON_HEADERS = {"content-type": "application/json"}


class Scripted(Server):
    """A server with scripted answers; `requests` has what came in."""

    def __init__(self) -> None:
        super().__init__()
        self._answers: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def answer(self, body: Any, *, path: str = "", status: int = 200, headers: Mapping[str, str] = JSON_HEADERS) -> None:
        """Script the next answer on a path ("": on every path): bytes as they are, or JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self._answers[path].append({"body": data, "status": status, "headers": headers})

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Serve every path."""
        return [("*", "/{path:.*}", self._handle)]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await receive(request))
        waiting = self._answers.get(request.path) or self._answers[""] or [{"status": 404}]
        return web.Response(**(waiting.pop(0) if len(waiting) > 1 else waiting[0]))
