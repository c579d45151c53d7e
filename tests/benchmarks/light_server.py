"""A server in a process of its own that plays the Messages API and Brave as cheaply as it can, so that clients can be measured.

It keeps nothing: what it does stands in the question, as in `id7 r=3 p=3 d=100 n=40 g=0`: r rounds of p searches that take
d milliseconds each, then an answer in n pieces, g milliseconds apart. It parses no more HTTP than our clients send.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ipy_websearch.model.stream import Reply
from tests.benchmarks import served

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nrequest-id: req_1\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nrequest-id: req_1\r\n\r\n"
USAGE = {"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 60}


def numbers(text: str) -> dict[str, int]:
    """Return the settings in a question or a query."""
    return {name: int(value) for name, value in re.findall(r"\b([a-z])=(\d+)", text)}


def results(query: str) -> Any:
    """Return what Brave answers: five results of about 500 characters each."""
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
    return {"type": "search", "query": {"original": query}, "web": {"type": "search", "results": found}}


def reply(body: dict[str, Any]) -> tuple[list[dict[str, Any]], float]:
    """Return the events of a reply, and the seconds between its pieces."""
    first = body["messages"][0]["content"]
    question = first if isinstance(first, str) else first[0]["text"]
    plan, done = numbers(question), sum(message["role"] == "assistant" for message in body["messages"])
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": {**USAGE, "output_tokens": 1}}
    searches = done < plan["r"] and body.get("tool_choice", {}).get("type") != "none"
    serial = question.split()[0]
    blocks = calls(serial, body["tools"][0]["name"], plan, done) if searches else text(plan, serial if done else "")
    delta = {"stop_reason": "tool_use" if searches else "end_turn", "stop_sequence": None}
    last = [{"type": "message_delta", "delta": delta, "usage": USAGE}, {"type": "message_stop"}]
    return [{"type": "message_start", "message": message}, *blocks, *last], 0.0 if searches else plan.get("g", 0) / 1000


def calls(serial: str, name: str, plan: dict[str, int], done: int) -> Iterator[dict[str, Any]]:
    """Yield the events of a round of calls; no two queries are the same."""
    for n in range(plan["p"]):
        query = f"{serial} topic {done}.{n} d={plan.get('d', 0)}"
        block = {"type": "tool_use", "id": f"toolu_{done}_{n}", "name": name, "input": {}}
        pieces = [{"type": "input_json_delta", "partial_json": p} for p in ("", '{"query": ', json.dumps(query) + "}")]
        yield from block_events(n, block, pieces)


def text(plan: dict[str, int], cited: str) -> Iterator[dict[str, Any]]:
    """Yield the events of an answer that cites the first result; `cited` is the page of it, "" without results."""
    place = {"search_result_index": 0, "start_block_index": 0, "end_block_index": 1, "source": f"https://site1.example/{cited}"}
    citation = {"type": "search_result_location", "cited_text": "Text 1", "title": "Result 1", **place}
    deltas = [{"type": "citations_delta", "citation": citation}] if cited else []
    deltas += [{"type": "text_delta", "text": f"Piece {n} of the answer. "} for n in range(plan.get("n", 8))]
    yield from block_events(0, {"type": "text", "text": ""}, deltas)


def block_events(index: int, block: dict[str, Any], deltas: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events of a block."""
    yield {"type": "content_block_start", "index": index, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def chunk(event: dict[str, Any]) -> bytes:
    """Return one server-sent event as one HTTP chunk."""
    data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(data), data)


def whole(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the message that events add up to."""
    made = Reply()
    for event in events:
        made.apply(event)
    return {**events[0]["message"], "content": made.content, "stop_reason": made.stop_reason, "usage": made.usage_fields}


class Connection(asyncio.Protocol):
    """One keep-alive connection; requests on it are answered in turn."""

    def __init__(self) -> None:
        self.buffer = b""

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer when a whole request is there."""
        self.buffer += data
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        size = int(length[1]) if length else 0
        if found and len(rest) >= size:
            self.buffer = rest[size:]
            asyncio.get_running_loop().create_task(self.answer(head.split(b" ", 2)[1].decode(), rest[:size]))

    async def answer(self, path: str, body: bytes) -> None:
        """Send the reply of the model, or the results of a search."""
        if path.startswith("/v1/messages"):
            asked = json.loads(body)
            events, gap_s = reply(asked)
            await (self.stream(events, gap_s) if asked.get("stream") else self.send(whole(events)))
            return
        query = parse_qs(urlsplit(path).query)["q"][0]
        await asyncio.sleep(numbers(query).get("d", 0) / 1000)
        await self.send(results(query))

    async def send(self, value: Any) -> None:
        """Send JSON."""
        data = json.dumps(value).encode()
        self.transport.write(HEAD % len(data) + data)

    async def stream(self, events: list[dict[str, Any]], gap_s: float) -> None:
        """Send events, at once or one by one."""
        self.transport.write(STREAM_HEAD)
        if gap_s:
            for event in events:
                self.transport.write(chunk(event))
                await asyncio.sleep(gap_s)
            events = []
        self.transport.write(b"".join(map(chunk, events)) + b"0\r\n\r\n")


async def serve() -> None:
    """Serve until killed; the port is the first line of standard output."""
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# The server in a process of its own: `with LightServer() as url`.
LightServer = partial(served, "tests.benchmarks.light_server")

if __name__ == "__main__":
    asyncio.run(serve())
