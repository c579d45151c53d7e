"""What an intercepted question costs, beside the loop that somebody writes by hand.

    python -m tests.benchmarks.intercept [questions] [--write] [--litellm PYTHON]

Each question is one search and one answer of forty pieces. The server runs in a process of its own and plays the Messages
API and Brave; what is measured is the CPU time of the client's process, in milliseconds a question, and the time to
the first piece of text. `--litellm` names the Python of an environment that has LiteLLM (`pip install litellm mcp`).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from operator import truediv
from pathlib import Path
from typing import Any

from tests.benchmarks import light_server
from tests.benchmarks.intercept_contenders import CONTENDERS, LITELLM, PAIRS
from tests.benchmarks.report import write_section

ROOT = Path(__file__).resolve().parents[2]
HERE = [sys.executable, "-m", "tests.benchmarks.intercept"]
ROUNDS, PROCESSES = 40, 7
"""Turns of the two that are compared, and processes in which they take them: a virtual machine's speed changes within a second,
and a process keeps for its life how its memory happened to be laid out. Each ratio is of two turns that follow one another."""

ABOUT = (
    "CPU milliseconds a question: one search and an answer of forty pieces, on a server in another process; same transports "
    "for the model, turn about, each pair in processes of its own. By hand is the loop of `hand_loop.py`, without a ledger, a "
    "cache, limits or the native shape. Medians of seven processes, of the ratio in brackets the least and the most: where the "
    "machine's other guests are busy, what touches more memory loses more."
)


class Connection(light_server.Connection):
    """The light server, which here answers whole messages too and calls the tool by the name that it was given."""

    async def answer(self, path: str, body: bytes) -> None:
        """Send the reply of the model, or the results of a search."""
        if path.startswith("/search"):  # Perplexity's, which is what LiteLLM asks when nothing else is configured
            found = json.loads(light_server.results(json.loads(body)["query"]))["web"]["results"]
            data = json.dumps({"id": "1", "results": [{**hit, "snippet": hit["description"]} for hit in found]}).encode()
            self.transport.write(light_server.HEAD % (b"application/json", len(data)) + data)
            return
        if not path.startswith("/v1/messages"):
            await super().answer(path, body)
            return
        asked = json.loads(body)
        events, gap_s = light_server.reply(asked)
        name = next((tool["name"] for tool in asked.get("tools", ())), "web_search").encode()
        events = [resized(event.replace(b'"web_search"', b'"' + name + b'"')) for event in events]
        if asked.get("stream"):
            self.transport.write(light_server.STREAM_HEAD)
            for event in events:
                self.transport.write(event)
                if gap_s:
                    await asyncio.sleep(gap_s)
            self.transport.write(b"0\r\n\r\n")
        else:
            data = json.dumps(whole(events)).encode()
            self.transport.write(light_server.HEAD % (b"application/json", len(data)) + data)


def resized(chunk: bytes) -> bytes:
    """Return an HTTP chunk with the length that its content has."""
    content = chunk.split(b"\r\n", 1)[1][:-2]
    return b"%x\r\n%s\r\n" % (len(content), content)


def whole(events: list[bytes]) -> dict[str, Any]:
    """Return the message that a stream's events make."""
    message: dict[str, Any] = {}
    for chunk in events:
        event = json.loads(chunk.split(b"data: ", 1)[1].split(b"\n", 1)[0])
        match event["type"]:
            case "message_start":
                message = event["message"]
            case "content_block_start":
                message["content"].append({**event["content_block"], "_json": ""})
            case "content_block_delta":
                add(message["content"][-1], event["delta"])
            case "message_delta":
                message |= event["delta"]
                message["usage"] = event["usage"]
    for block in message["content"]:
        written = block.pop("_json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(written)
    return message


def add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a delta to its block."""
    match delta["type"]:
        case "text_delta":
            block["text"] += delta["text"]
        case "input_json_delta":
            block["_json"] += delta["partial_json"]
        case "citations_delta":
            block.setdefault("citations", []).append(delta["citation"])


def question(number: int, gap_ms: int = 0) -> str:
    """Return a question; no two are the same, so that no cache answers."""
    return f"id{os.getpid()}x{number}x{time.monotonic_ns()} r=1 p=1 d=0 n=40 g={gap_ms}"


async def measure(url: str, count: int, at_once: int, names: list[str]) -> list[float]:
    """Return the CPU milliseconds of one question by contender, and the ratio of the second to the first: medians of many
    turns of a fifth of `count`.

    The contenders take turns in one process, each round in the other order, so that what else the machine does meets all.
    """
    each = max(at_once, count // 5)
    made = {name: await CONTENDERS[name](url) for name in names}
    for ask, _ in made.values():
        for n in range(10):
            await ask(question(n))
    took: dict[str, list[float]] = {name: [] for name in made}
    for turn in range(ROUNDS):
        for name in list(made)[:: 1 if turn % 2 else -1]:
            ask = made[name][0]
            begin = time.process_time()
            for start in range(0, each, at_once):
                await asyncio.gather(*(ask(question(start + n)) for n in range(at_once)))
            took[name].append((time.process_time() - begin) / each * 1000)
    for _, close in made.values():
        await close()
    first, second = took.values()
    return [*map(statistics.median, (first, second)), statistics.median(map(truediv, second, first))]


async def asked_of(url: str, name: str, count: int) -> None:
    """Have one contender answer so many questions."""
    ask, close = await CONTENDERS[name](url)
    for number in range(count):
        await ask(question(number))
    await close()


@contextmanager
def served() -> Iterator[str]:
    """Serve in a process of its own, and give the address."""
    server = subprocess.Popen([*HERE, "serve"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None and server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.stdin.close()
        server.wait(10)


async def serve() -> None:
    """Serve until standard input is closed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main(arguments: list[str]) -> None:
    """Measure the contenders side by side and print a table."""
    if arguments[:1] == ["serve"]:
        asyncio.run(serve())
        return
    if arguments[:1] == ["one"]:
        _, url, count, at_once, *names = arguments
        with tempfile.TemporaryDirectory() as home:
            os.environ["IPY_WEBSEARCH_HOME"] = home
            print(json.dumps(asyncio.run(measure(url, int(count), int(at_once), names))))
        return
    count = arguments[0] if arguments and arguments[0].isdigit() else "100"
    with served() as url:
        lines = ["| transports | by hand, 1 at a time | intercept | ratio | by hand, 50 at once | intercept | ratio |"]
        lines.append("|---" * 7 + "|")
        floor = 0.0
        for label, (hand, ours) in PAIRS.items():
            cells = []
            for at_once in ("1",) if "blocking" in hand else ("1", "50"):
                runs = [json.loads(_run([*HERE, "one", url, count, at_once, hand, ours])) for _ in range(PROCESSES)]
                theirs, mine, ratios = zip(*runs, strict=True)
                floor = floor or statistics.median(theirs)
                spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})"
                cells.append(f"{statistics.median(theirs):.2f} | {statistics.median(mine):.2f} | {spread}")
            lines.append(f"| {label} | {' | '.join([*cells, '– | – | –'][:2])} |")
        if "--litellm" in arguments:
            python = arguments[arguments.index("--litellm") + 1]
            peer = float(_run([python, "-c", LITELLM, url, count]).split()[0])
            lines.append(f"| LiteLLM 1.106.2, beside the first | {floor:.2f} | {peer:.2f} | {peer / floor:.2f} | – | – | – |")
        print("\n".join(lines))
        if "--write" in arguments:
            write_section("Interception", f"{ABOUT}\n\n" + "\n".join(lines), "`python -m tests.benchmarks.intercept`")


def _run(command: list[str]) -> str:
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout.strip().splitlines()[-1]


if __name__ == "__main__":
    main(sys.argv[1:])
