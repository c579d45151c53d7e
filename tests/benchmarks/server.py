"""A server in a process of its own that plays the Messages API and Brave, so that the CPU time of clients can be measured.

    with BenchmarkServer(latency=0.2, cap=20) as server: …; server.stats()

A request with a strict tool, as enrichment makes them, is answered by a call of that tool, filled by its schema. The answer to
any other request stands in its question: `id7 r=3 p=3 d=100 n=40 g=0` asks for r rounds of p searches that take d milliseconds
each, then for an answer in n pieces, g milliseconds apart.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from typing import Any
from urllib.request import Request, urlopen

from aiohttp import web

from tests.benchmarks import served
from tests.fakes import sse

JSON = dict[str, Any]
# Seconds of an answer, requests at once above which 429 is said (0: any number), its retry-after, the share of requests that
# get 529, every how many answers one is cut off, the status of all requests (0: answered), the input tokens of an answer.
DEFAULTS: JSON = {
    "latency": 0.0,
    "cap": 0,
    "retry_after": 1.0,
    "share_529": 0.0,
    "broken_every": 0,
    "status": 0,
    "input_tokens": 900,
}
ERRORS = {401: "authentication_error", 429: "rate_limit_error", 529: "overloaded_error"}


def numbers(text: str) -> dict[str, int]:
    """Return the settings in a question or a query."""
    return {name: int(value) for name, value in re.findall(r"\b([a-z])=(\d+)", text)}


class Service:
    """What the server answers; `counts` is what `stats` gives."""

    def __init__(self, settings: JSON) -> None:
        self.settings = DEFAULTS | settings
        self.counts = {"requests": 0, "answered": 0, "refused": 0, "most": 0}
        self.active = 0
        self.random = random.Random(7)

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=2**28)
        app.router.add_post("/v1/messages", self.messages)
        app.router.add_get("/res/v1/web/search", self.search)
        app.router.add_get("/stats", self.stats)
        app.router.add_post("/set", self.set)
        return app

    async def stats(self, request: web.Request) -> web.Response:
        """Answer with the counts."""
        return web.json_response(self.counts)

    async def set(self, request: web.Request) -> web.Response:
        """Change the settings."""
        self.settings |= await request.json()
        return web.Response()

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """Answer as the model."""
        asked = await request.json()
        self.counts["requests"] += 1
        if refusal := self._refusal():
            self.counts["refused"] += 1
            named = refusal == 429 and self.settings["retry_after"]
            headers = {"retry-after": str(named)} if named else {}
            error = {"type": ERRORS.get(refusal, "api_error"), "message": f"error {refusal}"}
            return web.json_response({"type": "error", "error": error}, status=refusal, headers=headers)
        self.active += 1
        self.counts["most"] = max(self.counts["most"], self.active)
        await asyncio.sleep(self.settings["latency"])
        self.active -= 1
        self.counts["answered"] += 1
        found, gap_s = self.reply(asked)
        if asked.get("stream"):
            return await _stream(request, found, gap_s)
        body = json.dumps(found)
        if (every := self.settings["broken_every"]) and self.counts["answered"] % every == 0:
            body = body[:-40]
        return web.Response(text=body, content_type="application/json", headers={"request-id": "req_1"})

    def _refusal(self) -> int:
        if self.settings["cap"] and self.active >= self.settings["cap"]:
            return 429
        return self.settings["status"] or (529 if self.random.random() < self.settings["share_529"] else 0)

    def reply(self, asked: JSON) -> tuple[JSON, float]:
        """Return the message that answers a request, and the seconds between its pieces."""
        strict = next((tool for tool in asked["tools"] if tool.get("strict")), None)
        if strict:
            called = {"type": "tool_use", "id": "toolu_1", "name": strict["name"], "input": filled(strict["input_schema"])}
            return self._message(asked, [called], 60), 0
        first = asked["messages"][0]["content"]
        question = first if isinstance(first, str) else first[0]["text"]
        plan, done = numbers(question), sum(message["role"] == "assistant" for message in asked["messages"])
        serial = question.split()[0]
        if done < plan["r"] and asked.get("tool_choice", {}).get("type") != "none":
            return self._message(asked, calls(serial, asked["tools"][0]["name"], plan, done), 60), 0
        return self._message(asked, [text(plan, serial if done else "")], 60), plan.get("g", 0) / 1000

    def _message(self, asked: JSON, content: list[JSON], output_tokens: int) -> JSON:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "content": content,
            "stop_reason": "tool_use" if content[0]["type"] == "tool_use" else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": self.settings["input_tokens"], "output_tokens": output_tokens},
        }

    async def search(self, request: web.Request) -> web.Response:
        """Answer as Brave: five results of about 500 characters each."""
        query = request.query["q"]
        await asyncio.sleep(numbers(query).get("d", 0) / 1000)
        found = [
            {
                "title": f"Result {n} for {query}",
                "url": f"https://site{n}.example/{query.split()[0]}",
                "description": f"Text {n} about <strong>{query}</strong>. " + "It says what there is to say. " * 6,
                "page_age": "2026-10-01T08:00:00",
                "extra_snippets": [f"Snippet {n}.{m}: more of what the page says about it, in a sentence." for m in range(3)],
            }
            for n in range(1, 6)
        ]
        return web.json_response({"type": "search", "query": {"original": query}, "web": {"type": "search", "results": found}})


async def _stream(request: web.Request, found: JSON, gap_s: float) -> web.StreamResponse:
    """Send a message as events, each a chunk of its own as the API does it: without a pause, or one by one."""
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "request-id": "req_1"})
    await response.prepare(request)
    for name, data in sse.events(found):
        await response.write(sse.encode(name, data))
        if gap_s:
            await asyncio.sleep(gap_s)
    return response


def calls(serial: str, name: str, plan: dict[str, int], done: int) -> list[JSON]:
    """Return a round of calls; no two queries are the same."""
    queries = [f"{serial} topic {done}.{n} d={plan.get('d', 0)}" for n in range(plan["p"])]
    return [
        {"type": "tool_use", "id": f"toolu_{done}_{n}", "name": name, "input": {"query": query}}
        for n, query in enumerate(queries)
    ]


def text(plan: dict[str, int], cited: str) -> JSON:
    """Return an answer that cites the first result; `cited` is the page of it, "" without results."""
    place = {"search_result_index": 0, "start_block_index": 0, "end_block_index": 1, "source": f"https://site1.example/{cited}"}
    citation = {"type": "search_result_location", "cited_text": "Text 1", "title": "Result 1", **place}
    written = "".join(f"Piece {n} of the answer. " for n in range(plan.get("n", 8)))
    return {"type": "text", "text": written} | ({"citations": [citation]} if cited else {})


def filled(schema: JSON) -> Any:
    """Return a value for a JSON schema."""
    if "anyOf" in schema:
        return filled(schema["anyOf"][0])
    if schema.get("type") == "object":
        return {name: filled(part) for name, part in schema["properties"].items()}
    if schema.get("type") == "array":
        return [filled(schema["items"])]
    return {"integer": 1998, "number": 0.5, "boolean": True}.get(str(schema.get("type")), "a value of some length")


async def serve(settings: JSON) -> None:
    """Serve until killed; the port is the first line of standard output."""
    runner = web.AppRunner(Service(settings).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1000).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


class BenchmarkServer:
    """The server as a context manager; its address is `url`."""

    def __init__(self, **settings: Any) -> None:
        self._process = served("tests.benchmarks.server", json.dumps(settings))

    def __enter__(self) -> BenchmarkServer:
        self.url = self._process.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._process.__exit__(*raised)

    def stats(self) -> JSON:
        """Return the counts: requests, answered, refused, the most at once."""
        with urlopen(f"{self.url}/stats", timeout=10) as response:
            found: JSON = json.loads(response.read())
        return found

    def set(self, **settings: Any) -> None:
        """Change how it behaves from now on."""
        body = Request(f"{self.url}/set", json.dumps(settings).encode(), {"content-type": "application/json"}, method="POST")
        urlopen(body, timeout=10).close()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(sys.argv[1])))
