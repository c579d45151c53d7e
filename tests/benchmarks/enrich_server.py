"""A server in a process of its own that plays the Messages API for enrichments: it takes so long, so many at once, and fails so
often as it is told, fills any strict tool by its schema, and counts.

    with EnrichServer(latency=0.2, cap=20) as server: …; server.stats()

It speaks no more HTTP than our clients send. Messages are whole unless
`stream` is set; what the request asks for makes no difference.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from datetime import UTC, datetime
from typing import Any
from urllib.request import Request, urlopen

from tests.benchmarks import served

DEFAULTS = {
    "latency": 0.2,
    "cap": 0,
    "retry_after": 1.0,
    "share_529": 0.0,
    "storm_until": 0.0,
    "storm_status": 429,
    "broken_every": 0,
    "status": 0,
    "stream": False,
    "input_tokens": 900,
}


class Fake:
    """The server's state."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = {**DEFAULTS, **settings}
        self.counts = {"requests": 0, "answered": 0, "refused": 0, "most": 0}
        self.active = 0
        self.batches: list[list[dict[str, Any]]] = []
        self.random = random.Random(7)

    async def answer(self, path: bytes, body: bytes) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and JSON for a request."""
        if path.startswith(b"/stats"):
            return 200, {}, self.counts
        if path.startswith(b"/set"):
            self.settings.update(json.loads(body))
            return 200, {}, {}
        if b"/batches" in path:
            return self._batch(path.decode(), body)
        now = time.time()
        self.counts["requests"] += 1
        refusal = self._refusal(now)
        if refusal is not None:
            self.counts["refused"] += 1
            return refusal
        self.active += 1
        self.counts["most"] = max(self.counts["most"], self.active)
        await asyncio.sleep(self.settings["latency"])
        self.active -= 1
        self.counts["answered"] += 1
        found = message(json.loads(body), self.settings["input_tokens"])
        every = self.settings["broken_every"]
        broken = every and self.counts["answered"] % every == 0
        return 200, {}, json.dumps(found)[:-40] if broken else found

    def _batch(self, path: str, body: bytes) -> tuple[int, dict[str, str], Any]:
        """Answer about a batch: it has ended when it is looked up, and every request succeeded."""
        if "/batches?" in path:
            return 200, {}, {"data": [self._shown(n, True) for n in range(len(self.batches))], "has_more": False}
        if path.endswith("/batches"):
            self.batches.append([self._result(request) for request in json.loads(body)["requests"]])
            return 200, {}, self._shown(len(self.batches) - 1, False)
        number = int(path.split("batch_")[1].split("/")[0])
        if path.endswith("/results"):
            return 200, {}, "".join(json.dumps(entry) + "\n" for entry in self.batches[number])
        return 200, {}, self._shown(number, True)

    def _result(self, request: dict[str, Any]) -> dict[str, Any]:
        self.counts["requests"] += 1
        found = message(request["params"], self.settings["input_tokens"])
        return {"custom_id": request["custom_id"], "result": {"type": "succeeded", "message": found}}

    def _shown(self, number: int, ended: bool) -> dict[str, Any]:
        size = len(self.batches[number])
        counts = {"processing": 0 if ended else size, "succeeded": size * ended, "errored": 0, "canceled": 0, "expired": 0}
        status = "ended" if ended else "in_progress"
        created = datetime.now(UTC).isoformat()
        return {"id": f"batch_{number}", "processing_status": status, "request_counts": counts, "created_at": created}

    def _refusal(self, now: float) -> tuple[int, dict[str, str], Any] | None:
        wait = {"retry-after": str(self.settings["retry_after"])} if self.settings["retry_after"] else {}
        if self.settings["status"]:
            return self.settings["status"], {}, _error("authentication_error", "invalid x-api-key")
        if now < self.settings["storm_until"] and self.settings["storm_status"] != 429:
            return self.settings["storm_status"], {}, _error("api_error", "internal error")
        if now < self.settings["storm_until"] or (self.settings["cap"] and self.active >= self.settings["cap"]):
            return 429, wait, _error("rate_limit_error", "too many requests")
        if self.random.random() < self.settings["share_529"]:
            return 529, {}, _error("overloaded_error", "overloaded")
        return None


def _error(kind: str, text: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}


def message(body: dict[str, Any], input_tokens: int) -> dict[str, Any]:
    """Return a message that calls the strict tool at once, every property filled by its type."""
    tool = next((tool for tool in body["tools"] if tool.get("strict")), body["tools"][-1])
    block = {"type": "tool_use", "id": "toolu_1", "name": tool["name"], "input": filled(tool["input_schema"])}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [block],
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {"input_tokens": input_tokens, "output_tokens": 60},
    }


def filled(schema: dict[str, Any]) -> Any:
    """Return a value for a JSON schema."""
    if "anyOf" in schema:
        return filled(schema["anyOf"][0])
    if schema.get("type") == "object":
        return {name: filled(part) for name, part in schema["properties"].items()}
    if schema.get("type") == "array":
        return [filled(schema["items"])]
    return {"integer": 1998, "number": 0.5, "boolean": True}.get(str(schema.get("type")), "a value of some length")


def streamed(whole: dict[str, Any]) -> str:
    """Return a message as server-sent events."""
    block = whole["content"][0]
    delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    events = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {**block, "input": {}}},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": whole["stop_reason"]}, "usage": whole["usage"]},
        {"type": "message_stop"},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fake: Fake) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            at = head.lower().find(b"content-length:")
            size = int(head[at + 15 : head.index(b"\r\n", at)]) if at >= 0 else 0
            body = await reader.readexactly(size) if size else b""
            status, headers, data = await fake.answer(head.split(b" ", 2)[1], body)
            stream = fake.settings["stream"] and "content" in data
            content = (data if isinstance(data, str) else streamed(data) if stream else json.dumps(data)).encode()
            lines = [
                f"HTTP/1.1 {status} X",
                f"content-type: {'text/event-stream' if stream else 'application/json'}",
                f"content-length: {len(content)}",
                "request-id: req_1",
            ]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main(settings: dict[str, Any]) -> None:
    """Serve until killed; the port is printed first."""
    fake = Fake(settings)
    server = await asyncio.start_server(lambda r, w: _serve(r, w, fake), "127.0.0.1", 0, backlog=1000)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class EnrichServer:
    """The server as a context manager; its address is `url`."""

    def __init__(self, **settings: Any) -> None:
        self._process = served("tests.benchmarks.enrich_server", json.dumps(settings))

    def __enter__(self) -> EnrichServer:
        self.url = self._process.__enter__()
        return self

    def __exit__(self, *raised: Any) -> None:
        self._process.__exit__(*raised)

    def stats(self) -> dict[str, Any]:
        """Return the counts: requests, answered, refused, the most at once."""
        with urlopen(f"{self.url}/stats", timeout=10) as response:
            found: dict[str, Any] = json.loads(response.read())
        return found

    def set(self, **settings: Any) -> None:
        """Change how it behaves from now on."""
        with urlopen(Request(f"{self.url}/set", json.dumps(settings).encode(), method="POST"), timeout=10) as response:
            response.read()


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
