"""A loopback server that writes whatever bytes a test wants, so that it can misbehave in every way."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

from markdown_it import MarkdownIt

from ipy_websearch.display.trace import trace_frame
from ipy_websearch.frames import CostFrame, EnrichedFrame
from ipy_websearch.results import Answer, Attempt, Citation, Page, Panel, SearchResult, SearchResults, Step
from ipy_websearch.text import safe_href
from tests.fakes.shown import html_of, markdown_of, text_of

Handler = Callable[[str, asyncio.StreamWriter], Awaitable[None]]


def answer(body: bytes | str = b"", status: str = "200 OK", **headers: str) -> bytes:
    """Return a whole HTTP answer; header names are given with underscores. Content-Length is added unless it is given."""
    body = body.encode() if isinstance(body, str) else body
    lines = {name.replace("_", "-"): value for name, value in headers.items()}
    lines.setdefault("Content-Length", str(len(body)))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + body


def html(body: str, **headers: str) -> bytes:
    """Return an answer with an HTML page."""
    return answer(body, Content_Type="text/html; charset=utf-8", **headers)


_MISSING = answer("", "404 Not Found")
Answers = dict[str, bytes | Handler] | bytes | Handler


class RawServer:
    """Serves `answers[path]` (bytes, or an async function that writes), "404" for the rest; keeps what it was asked.

    With `tls` it speaks https, and `key` and `base` are those of `host`, a name that leads to this machine.
    """

    def __init__(self, answers: Answers, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.answers: Any = answers
        self._tls = tls
        self._host = host
        self.requests: list[str] = []
        self.connections = 0
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        self.key = f"{self._host}:{self.port}"
        self.base = f"http{'s' if self._tls else ''}://{self.key}"
        self.allow = frozenset({self.key})
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while True:
                    request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                    self.requests.append(request)
                    path = request.split(" ")[1].partition("?")[0]
                    what = self.answers.get(path, _MISSING) if isinstance(self.answers, dict) else self.answers
                    if not isinstance(what, bytes):
                        return await what(request, writer)
                    writer.write(what)
                    await writer.drain()
        finally:
            self._writers.discard(writer)
            writer.close()


# --- Judges HTML and Markdown that were made from hostile text, and makes every kind of output from a text -----------

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ATTRIBUTES = {"class", "dir", "style", "title", "href", "rel", "target", "start", "open"}
TAGS = set(
    "a b blockquote br code div em h1 h2 h3 h4 h5 h6 hr i li mark ol p pre s small span strong sub sup table tbody td th thead "
    "tr ul details summary".split()
)


class Seen(HTMLParser):
    """Keeps whatever in some HTML is not on the list of what may be there."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.foreign: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            bad_style = re.search(r"url|position|expression|@|\\|:start", value or "")  # JupyterLab drops the last one
            bad_href = name == "href" and safe_href(value or "") != value
            bad_class = name == "class" and value != "tex2jax_ignore mathjax_ignore"
            if name not in ATTRIBUTES or (name == "style" and bad_style) or bad_href or bad_class:
                self.foreign.append(f"{tag} {name}={value!r}")
        if tag not in TAGS:
            self.foreign.append(tag)

    def handle_comment(self, data: str) -> None:
        self.foreign.append(f"comment {data!r}")

    handle_decl = handle_pi = unknown_decl = handle_comment


def problems(markdown: str) -> list[str]:
    """Return what a careless front end would do with some Markdown that it should not."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url, validator=None: True  # type: ignore[method-assign]
    parser.normalizeLink = lambda url: url  # type: ignore[method-assign]
    found = []
    for token in (token for block in parser.parse(markdown) for token in (block, *(block.children or []))):
        if token.type in ("html_inline", "html_block", "image"):
            found.append(f"{token.type}: {token.content}")
        elif token.type == "link_open" and safe_href(str(token.attrs["href"])) is None:
            found.append(f"link: {token.attrs['href']}")
        elif token.type == "inline" and "{" in re.sub(r"(?s)(?<![`\\])(`+)(?!`).*?(?<!`)\1(?!`)", "", token.content):
            found.append(f"attributes: {token.content}")
        elif token.type == "text" and re.search(r"\$|\\[(\[]|\\begin", token.content):
            found.append(f"mathematics: {token.content}")
    return found


def outputs(t: str) -> Iterator[tuple[str, str, str]]:
    """Yield the HTML, Markdown ("" where there is none) and plain text of every kind of output with `t` in every place."""
    citations = (Citation(1, t, t, t, NOW), Citation(2, t, f"https://ok.example/?{t}", t))
    panels = (Panel("P1", t, t, t), Panel("P2", t, t, "web_fetch", True))
    prose = f"{t}\n\n{t} [1] **{t}** [2]\n\n- {t}\n\n> {t}\n\n| a |\n|---|\n| {t} |\n\n# {t}\n"
    answer = Answer(t, prose, t, citations, panels, stop_reason=t, notices=(t,), trace=(Step(1, "tool", t, t),))
    table = Answer(t, t, t, rows=({t: t, "list": [t]},), columns={t: str, "list": list})
    for value in (answer, table):
        yield html_of(value), markdown_of(value), text_of(value)
    request = {"model": t, "system": t, "tools": [{"name": t}], "messages": [{"role": t, t: t}]}
    steps = (Step(1, "model", t, t, request=request, response=[{"type": t, "text": t}]), Step(2, "tool", t, t, request={t: t}))
    for number in (0, 1, 2):
        trace = trace_frame(replace(answer, trace=steps), number)
        yield html_of(trace), "", re.sub("[\u2028\u2029]", " ", text_of(trace))  # JSON keeps separators of lines
    search = SearchResults((SearchResult(t, t, t, NOW),), t, t, attempts=(Attempt(t, t),), notices=(t,))
    page = Page(t, t, t, t, 1, 2, NOW, note=t)
    t = t.encode(errors="replace").decode()  # pandas refuses half a character
    cells = {name: [t] for name in ("a", "a_source", "a_quote", t, "enrich_error")}
    enriched = EnrichedFrame({**cells, "a_confidence": [0.1], "enrich_status": ["error"]})
    for other in (search, page, panels[0], enriched, CostFrame({"question": [t], "name": [t], "usd": [0.1]})):
        yield html_of(other), "", text_of(other)
