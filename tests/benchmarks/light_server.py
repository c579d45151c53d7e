"""A server in a process of its own that plays the Messages API and Brave as cheaply as it can, so that clients can be measured.

It keeps nothing: what it does stands in the question, as in `id7 r=3 p=3 d=100 n=40 g=0`: r rounds of p searches that take
d milliseconds each, then an answer in n pieces, g milliseconds apart. A `k=1` makes each search give a recorded answer of
real size. It parses no more HTTP than our clients send.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/data/wire/brave/sk_brave_what_is_the_semantic_kernel.json"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\nrequest-id: req_1\r\n\r\n"
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nrequest-id: req_1\r\n\r\n"


def event(data: dict[str, Any]) -> bytes:
    """Return one server-sent event as one HTTP chunk."""
    text = f"event: {data['type']}\ndata: {json.dumps(data)}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(text), text)


def numbers(text: str) -> dict[str, int]:
    """Return the settings in a question or a query."""
    return {name: int(value) for name, value in re.findall(r"\b([a-z])=(\d+)", text)}


def results(query: str) -> bytes:
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
    return json.dumps({"type": "search", "query": {"original": query}, "web": {"type": "search", "results": found}}).encode()


def reply(body: dict[str, Any]) -> tuple[list[bytes], float]:
    """Return the events of a reply, and the seconds between its pieces."""
    first = body["messages"][0]["content"]
    question = first if isinstance(first, str) else first[0]["text"]
    plan = numbers(question)
    done = sum(message["role"] == "assistant" for message in body["messages"])
    usage = {"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    made = [event({"type": "message_start", "message": message})]
    searches = done < plan["r"] and body.get("tool_choice", {}).get("type") != "none"
    made += list(calls(question, plan, done) if searches else text(plan, question.split()[0] if done else ""))
    stop = {"stop_reason": "tool_use" if searches else "end_turn", "stop_sequence": None}
    made.append(event({"type": "message_delta", "delta": stop, "usage": {**usage, "output_tokens": 60}}))
    made.append(event({"type": "message_stop"}))
    return made, 0.0 if searches else plan.get("g", 0) / 1000


def calls(question: str, plan: dict[str, int], done: int) -> Iterator[bytes]:
    """Yield the events of a round of calls; no two queries are the same."""
    for n in range(plan["p"]):
        query = f"{question.split()[0]} topic {done}.{n} d={plan.get('d', 0)} k={plan.get('k', 0)}"
        block = {"type": "tool_use", "id": f"toolu_{done}_{n}", "name": "web_search", "input": {}}
        yield event({"type": "content_block_start", "index": n, "content_block": block})
        for piece in ("", '{"query": ', json.dumps(query) + "}"):
            delta = {"type": "input_json_delta", "partial_json": piece}
            yield event({"type": "content_block_delta", "index": n, "delta": delta})
        yield event({"type": "content_block_stop", "index": n})


def text(plan: dict[str, int], cited: str) -> Iterator[bytes]:
    """Yield the events of an answer that cites the first result; `cited` is the page of it, "" without results."""
    yield event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})
    if cited:
        place = {
            "search_result_index": 0,
            "start_block_index": 0,
            "end_block_index": 1,
            "source": f"https://site1.example/{cited}",
        }
        citation = {"type": "search_result_location", "cited_text": "Text 1", "title": "Result 1", **place}
        delta = {"type": "citations_delta", "citation": citation}
        yield event({"type": "content_block_delta", "index": 0, "delta": delta})
    for n in range(plan.get("n", 8)):
        delta = {"type": "text_delta", "text": f"Piece {n} of the answer. "}
        yield event({"type": "content_block_delta", "index": 0, "delta": delta})
    yield event({"type": "content_block_stop", "index": 0})


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
        if not found:
            return
        length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
        size = int(length[1]) if length else 0
        if len(rest) >= size:
            self.buffer = rest[size:]
            asyncio.get_running_loop().create_task(self.answer(head.split(b" ", 2)[1].decode(), rest[:size]))

    async def answer(self, path: str, body: bytes) -> None:
        """Send the reply of the model, or the results of a search."""
        if path.startswith("/v1/messages"):
            events, gap_s = reply(json.loads(body))
            if not gap_s:
                self.transport.write(STREAM_HEAD + b"".join(events) + b"0\r\n\r\n")
                return
            self.transport.write(STREAM_HEAD)
            for one in events:
                self.transport.write(one)
                await asyncio.sleep(gap_s)
            self.transport.write(b"0\r\n\r\n")
            return
        query = parse_qs(urlsplit(path).query)["q"][0]
        plan = numbers(query)
        if plan.get("d"):
            await asyncio.sleep(plan["d"] / 1000)
        found = RECORDED.read_bytes() if plan.get("k") else results(query)
        self.transport.write(HEAD % (b"application/json", len(found)) + found)


async def serve() -> None:
    """Serve until standard input is closed; the port is the first line of standard output."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


class LightServer:
    """The server as a context manager: `with LightServer() as url`."""

    def __enter__(self) -> str:
        command = [sys.executable, "-m", "tests.benchmarks.light_server"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        return f"http://127.0.0.1:{int(self.process.stdout.readline())}"

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=10)
        self.process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve())
