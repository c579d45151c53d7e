"""Messages API requests: the features of platforms and models, the body, a valid history, results in the platform's form, and
token estimates. Pure: nothing is sent here.

Sources of the tables: platform.claude.com/docs (models, search results, server tools, prompt caching) and the servers' own
sources, read 2026-11: Ollama's anthropic.go drops unknown blocks, `is_error` and `tool_choice`; vLLM's protocol.py rejects
`search_result`; llama.cpp and LM Studio promise text and tools only.

Rules (platform.claude.com/docs/en/build-with-claude/{search-results,prompt-caching}, agents-and-tools/tool-use, read 2026-11):
every tool call is answered in the next message; all blocks of a tool result are `search_result`s or none is; each text block
inside is what a citation points to, so pages come in paragraphs; no `citations` array may stand on a user's text block (API
version 2026-10-21); at most four cache breakpoints.

A budget needs a figure that the API does not pass: each kind of character counts what its dearest common use takes (about 1.5
times what English prose has), and the prompts that the API adds for tools and citations count too.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Any

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.results import Usage, reported
from ipy_websearch.text import shorten
from ipy_websearch.tools.base import Passage, ToolOutput

Message = dict[str, Any]

# --- platforms and models -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform's features.

    `search_results`: `search_result` blocks with citations. `tool_choice`: "none" for a
    last answer in words. `caching`: `cache_control`. `server_tools`: web search run by the API itself. `other_models`: it
    serves models that are not Anthropic's. `assumed`: nothing says that it is this one (see `settled`).
    """

    name: str
    search_results: bool = True
    tool_choice: bool = True
    caching: bool = True
    server_tools: bool = False
    other_models: bool = False
    assumed: bool = False


ANTHROPIC = Platform("anthropic", server_tools=True)
OFFLINE = Platform("offline", other_models=True)
_OPEN = Platform("", search_results=False, tool_choice=False, caching=False, other_models=True)  # text and tools only
PLATFORMS = {
    platform.name: platform
    for platform in (
        ANTHROPIC,
        OFFLINE,
        Platform("bedrock"),
        Platform("vertex", server_tools=True),
        Platform("foundry"),
        replace(_OPEN, name="ollama"),
        replace(_OPEN, name="lmstudio"),
        replace(_OPEN, name="llamacpp"),
        replace(_OPEN, name="vllm", tool_choice=True),
        Platform("litellm", other_models=True),
    )
}
_PORTS = {"11434": "ollama", "1234": "lmstudio"}


@cache
def platform_at(base_url: str | None) -> Platform:
    """Return the platform behind a base address (None: the API's own); an unknown server is taken to speak all of its API.

    Ollama and LM Studio are known by their ports, on any machine.
    """
    port = re.search(r":(\d+)(/|$)", base_url or "")
    return replace(PLATFORMS[_PORTS.get(port[1] if port else "", "anthropic")], assumed=bool(base_url))


def settled(found: Platform, setting: str, model: object) -> Platform:
    """Return the platform to build a request to a model for.

    At an address that may be anybody's, `setting` counts where there is one ("": none). Where all kinds of models are served,
    only those that cite get results as blocks, and all others plain text: servers drop such blocks without a word.
    """
    if found.assumed and setting:
        return replace(PLATFORMS[setting], assumed=True)
    blocks = found.search_results and (cites(str(model)) or not (found.assumed or found.other_models))
    return replace(found, search_results=blocks)


# Short names that people say, and the ids that the API takes.
ALIASES = {
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
    "haiku": "claude-haiku-5-5",
    "fable": "claude-fable-5-2",
}


def model_id(name: str) -> str:
    """Return the id for a model's name; a name that is no alias is passed on as it is."""
    return ALIASES.get(name.strip().lower(), name.strip())


def cites(name: str) -> bool:
    """Return whether a model may be one that calls tools and cites: Anthropic's, under whatever name, and the offline one."""
    return bool(re.search("claude|sonnet|opus|haiku|fable|mythos|^offline$", name, re.IGNORECASE))


def _version(name: str) -> tuple[str, tuple[int, int]]:
    """Return the family of a model of Anthropic's and its version, ("", (0, 0)) for any other."""
    found = re.search(r"claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2}))?(?!\d)", name)
    return (found[1], (int(found[2]), int(found[3] or 0))) if found else ("", (0, 0))


def forces_tools(name: str) -> bool:
    """Return whether a request may force a model to call a tool (`tool_choice` "any" or "tool").

    From Fable and Mythos 5.1, Opus and Sonnet 5.5 on the API answers 400 to that; Haiku takes it up to 5.5
    (platform.claude.com/docs/en/models/…/whats-new, "Forced tool use is not supported", read 2026-11). Later models are taken
    not to: "auto" with a request in words works everywhere.
    """
    family, version = _version(name)
    return version <= (5, 5) if family == "haiku" else version < (5, 1)


_EFFORT_FROM = {"opus": (4, 5), "sonnet": (4, 6), "haiku": (5, 5), "fable": (5, 0), "mythos": (5, 0)}


def thinking_fields(name: str, effort: str | None) -> dict[str, Any]:
    """Return the fields of a request that ask a model for an effort, with adaptive thinking; {} when it takes none.

    `output_config.effort` is there from Opus 4.5, Sonnet 4.6, Haiku 5.5, Fable 5 and Mythos 5 on, `thinking` of type "adaptive"
    in all of these but Opus 4.5. What is thought counts as output, within `max_tokens` (platform.claude.com/docs/en/
    build-with-claude/effort; docs.aws.amazon.com/bedrock, "Adaptive thinking"; support.claude.com, 8664678; read 2026-11).
    """
    family, version = _version(name)
    if effort is None or not family or version < _EFFORT_FROM[family]:
        return {}
    adaptive = {"thinking": {"type": "adaptive"}} if version > (4, 5) else {}
    return {"output_config": {"effort": effort}, **adaptive}


def capped(body: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """Return a request with fewer output tokens.

    Manual thinking (`budget_tokens`) is taken from them, and gets at most half; where that is too little for the API, which
    wants 1,024, the request goes without (platform.claude.com/docs/en/build-with-claude/extended-thinking, read 2026-11).
    """
    made: dict[str, Any] = {**body, "max_tokens": max_tokens}
    thinking, most = body.get("thinking"), max_tokens // 2
    if isinstance(thinking, Mapping) and isinstance(thinking.get("budget_tokens"), int) and thinking["budget_tokens"] > most:
        made["thinking"] = {**thinking, "budget_tokens": most}
        if most < 1_024:
            del made["thinking"]
    return made


# --- the body ----------------------------------------------------------------------------------------------------------

CACHE_CONTROL = {"type": "ephemeral"}


def build_request(
    *,
    model: str,
    system: str,
    messages: Sequence[Mapping[str, Any]],
    tools: Sequence[Mapping[str, Any]],
    max_tokens: int,
    platform: Platform,
    tool_choice: Mapping[str, Any] | None = None,
    effort: str | None = None,
) -> dict[str, Any]:
    """Return the body of a request (without `stream`); `messages` and `tools` are shared with it, and left untouched.

    `effort` is "low", "medium" or "high" (None: as the model does by itself), sent where the model takes it.
    """
    offers = bool(tools) and (platform.tool_choice or tool_choice is None)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": max_tokens,
        "system": [{"type": "text", "text": system}],
        "messages": list(messages) if offers else without_calls(messages),
        **thinking_fields(model, effort),
    }
    if offers:
        body["tools"] = tools
        if tool_choice is not None:
            body["tool_choice"] = dict(tool_choice)
    if platform.caching:
        body["system"][0]["cache_control"] = CACHE_CONTROL
        _mark_newest(body["messages"])
    return body


def _mark_newest(messages: list[dict[str, Any]]) -> None:
    """Put cache breakpoints on the last block of the two newest user messages; the older one is where the next request, whose
    prefix it shares, finds the cache again even when more than 20 blocks were added since."""
    asked = [n for n, m in enumerate(messages) if m["role"] == "user" and m["content"] and not isinstance(m["content"], str)]
    for n in asked[-2:]:
        *blocks, newest = messages[n]["content"]
        messages[n] = {**messages[n], "content": [*blocks, {**newest, "cache_control": CACHE_CONTROL}]}


def without_marks(value: Any) -> Any:
    """Return a part of a request without cache breakpoints, which move from request to request."""
    if isinstance(value, Mapping):
        return {name: without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [without_marks(inner) for inner in value] if isinstance(value, list | tuple) else value


# --- results -----------------------------------------------------------------------------------------------------------

# Characters of results in a message to a model that calls no tools, some 3,000 tokens: local servers often read 8,000.
READ_CHARACTERS = 12_000


def tool_result(call_id: str, output: ToolOutput, platform: Platform, *, cited: bool = True) -> dict[str, Any]:
    """Return the `tool_result` block for a call's output; with `cited` False its results cannot be cited."""
    blocks = bool(output.passages) and not output.is_error and platform.search_results
    text = "" if blocks else output.text or plain_results(output.passages)
    found = [_search_result(p, cited) for p in output.passages if any(map(str.strip, p.paragraphs))] if blocks else []
    content = found or [{"type": "text", "text": text or "No results."}]
    failed = {"is_error": True} if output.is_error else {}
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **failed}


def _search_result(passage: Passage, cited: bool) -> dict[str, Any]:
    return {
        "type": "search_result",
        "source": passage.url,
        "title": passage.title or passage.url,
        "content": [{"type": "text", "text": text} for text in (*passage.paragraphs, passage.note) if text.strip()],
        "citations": {"enabled": cited},
    }


def plain_results(passages: Sequence[Passage], *, first: int = 0, most: int = 0) -> str:
    """Return passages as plain text for platforms without `search_result` blocks (seed 000's form).

    Several sources are search hits, numbered from `first` (0: from 1, and the numbers mean nothing), each description cut at a
    word near 200 characters, or at its share of `most`. One source is a page, given whole; passages of a page that a search has
    read are whole too, or at least a quarter of `most`.
    """
    if len(passages) == 1:
        page = passages[0]
        title = f"{first}. {page.title}" if first else page.title
        return f"{title}\n{page.url}\n\n" + "\n\n".join(page.paragraphs)
    hits = []
    for n, passage in enumerate(passages, first or 1):
        share = most // len(passages)
        if passage.read == "page":
            text = "\n\n".join(passage.paragraphs)
            text = shorten(text, max(share, most // 4)) if most else text
        else:
            text = f"   {shorten(' '.join(passage.paragraphs), share or 200)}"  # as many characters as in seed 000's form
            text += f"\n   {passage.note}" if passage.note else ""
        hits.append(f"{n}. {passage.title}\n   {passage.url}\n{text}")
    return "Search Results:\n\n" + "\n\n".join(hits) if hits else ""


# --- the history -------------------------------------------------------------------------------------------------------

THINKING = ("thinking", "redacted_thinking")
CALLS = ("tool_use", "server_tool_use")


def content_of(message: Mapping[str, Any]) -> list[Any]:
    """Return a message's blocks; words alone are one."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())


def question(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the user's last own words, "" without any."""
    for message in reversed(messages):
        texts = [str(block.get("text")) for block in content_of(message) if block.get("type") == "text"]
        if message["role"] == "user" and texts:
            return texts[-1]
    return ""


def user_message(text: str) -> Message:
    """Return a user turn with one text block."""
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def sendable(block: Mapping[str, Any]) -> bool:
    """Return whether a block of a reply may be sent back: empty text blocks may not."""
    return block.get("type") != "text" or bool(str(block.get("text") or "").strip())


def assistant_message(content: Iterable[Mapping[str, Any]]) -> Message | None:
    """Return the assistant turn for a reply's blocks, None when nothing sendable is in it."""
    blocks = [dict(block) for block in content if sendable(block)]
    return {"role": "assistant", "content": blocks} if blocks else None


def closed(messages: Sequence[Message]) -> list[Message]:
    """Return a history to which a next question can be added: without the calls, ours and the API's own, whose result never
    came (after an interrupt, a limit or an error)."""
    answered = {block.get("tool_use_id") for message in messages for block in content_of(message)}
    return _with_own(messages, lambda block: block.get("type") not in CALLS or block.get("id") in answered)


def without_thinking(messages: Sequence[Message]) -> list[Message]:
    """Return the history without the model's thinking."""
    return _with_own(messages, lambda block: block.get("type") not in THINKING)


def same_frame(body: Mapping[str, Any], earlier: Mapping[str, Any]) -> bool:
    """Return whether a request has the model, the instructions and the tools of an earlier one.

    Only then does the API take back what the model thought there: a thinking block is tied to its model and to all that
    stands before it (platform.claude.com/docs/en/build-with-claude/preserved-thinking, read 2026-11).
    """
    return all(without_marks(body.get(part)) == without_marks(earlier.get(part)) for part in ("model", "system", "tools"))


def _with_own(messages: Sequence[Message], keeps: Callable[[Mapping[str, Any]], bool]) -> list[Message]:
    """Return a history with the blocks of the model's own that `keeps` takes; a turn of which only thinking remains goes."""
    history = []
    for message in messages:
        if message["role"] == "assistant" and not isinstance(message["content"], str):
            kept = [block for block in message["content"] if keeps(block)]
            if all(block.get("type") in THINKING for block in kept):
                continue
            message = {**message, "content": kept}
        history.append(message)
    return history


def without_calls(messages: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Return a history for a request without tools, which may have no calls: their results stay, as the user's own words.

    "Requests which include `tool_use` or `tool_result` blocks must define tools" (the API, 2026-11). Turns of one role
    become one: chat templates of small models (Gemma's, Mistral's) raise an error where roles do not take turns.
    """
    history: list[Message] = []
    for message in messages:
        content: list[Any] = []
        for block in content_of(message):
            if block.get("type") == "tool_result":
                content += content_of(block)
            elif block.get("type") != "tool_use":
                content.append(block)
        if content and history and history[-1]["role"] == message["role"]:
            history[-1] = {**history[-1], "content": [*history[-1]["content"], *content]}
        elif content:
            history.append({**message, "content": content})
    return history


def ended_by(messages: Sequence[Message], text: str) -> list[Message]:
    """Return a history that ends with an assistant turn: `text` stands in where the model's own turn is missing."""
    history = closed(messages)
    if not history or history[-1]["role"] != "assistant":
        history.append({"role": "assistant", "content": [{"type": "text", "text": text}]})
    return history


def with_nudge(messages: Sequence[Message], text: str) -> list[Message]:
    """Return the history with `text` at the end of the last user turn, after its results; once, however often it is asked."""
    *history, last = messages
    blocks, nudge = content_of(last), {"type": "text", "text": text}
    return list(messages) if blocks[-1:] == [nudge] else [*history, {**last, "content": [*blocks, nudge]}]


def without_newest_results(messages: Sequence[Message], left_out: Callable[[str], Mapping[str, Any]]) -> list[Message] | None:
    """Return the history with `left_out(call id)` in place of each of the newest results, None without any."""
    content = content_of(messages[-1])
    made = [left_out(str(b["tool_use_id"])) if b.get("type") == "tool_result" else b for b in content]
    return None if made == content else [*messages[:-1], {**messages[-1], "content": made}]


# --- the API's own tools -----------------------------------------------------------------------------------------------

NEWEST = "20260318"
FIRST_SEARCH, FIRST_FETCH = "20250305", "20250910"
_OLDER = re.compile(r"claude-(3|opus-4-[015]|sonnet-4-[05]|opus-4(-2025|$)|sonnet-4(-2025|$)|haiku-4-5)")


def server_tools(model: str, platform: Platform, max_uses: int, request: SearchRequest) -> tuple[dict[str, Any], ...]:
    """Return the API's own `web_search` and `web_fetch`, in the newest version that a model takes, each for `max_uses` uses.

    The domains and the country of `request` bind them; only one of the domain lists may be sent. Versions from 2026-02-09 on
    filter results with code and need a model that can call tools from code (platform.claude.com/docs/en/agents-and-tools/
    tool-use/web-search-tool and web-fetch-tool, read 2026-11).

    Raises:
        ConfigError: the platform runs no tools.
    """
    if not platform.server_tools:
        raise ConfigError(
            f"{platform.name} has no web tools of its own (--tools native); use --tools standard, which works everywhere"
        )
    listed = "allowed_domains" if request.allowed_domains else "blocked_domains"
    domains = list(getattr(request, listed))
    bounds = {"max_uses": max_uses, **({listed: domains} if domains else {})}
    at = {"user_location": {"type": "approximate", "country": request.country.upper()}} if request.country else {}
    old = bool(_OLDER.search(model)) or platform.name == "vertex"
    search = {"type": f"web_search_{FIRST_SEARCH if old else NEWEST}", "name": "web_search", **bounds, **at}
    fetch = {
        "type": f"web_fetch_{FIRST_FETCH if old else NEWEST}",
        "name": "web_fetch",
        **bounds,
        "citations": {"enabled": True},
    }
    return (search,) if platform.name == "vertex" else (search, fetch)


# --- tokens ------------------------------------------------------------------------------------------------------------

# The most that an image has: larger ones are made smaller (platform.claude.com/docs, "Vision", read 2026-11).
IMAGE_TOKENS = 5_000

# What the results of one of the API's own searches may have; about 7,800 were recorded.
SEARCH_RESULT_TOKENS = 12_000

_RESULT_TOKENS = {"web_search": SEARCH_RESULT_TOKENS, "web_fetch": 50_000}
_API_USES = 10  # how often the API uses a tool in one request before it pauses, when no bound is set

# 286 to 496 tokens are documented for tools (platform.claude.com/docs, "Tool use", read 2026-11); for results that can be cited
# about 500 are in the recordings.
_PLAIN_PROMPT, _TOOL_PROMPT, _CITING_PROMPT = 50, 600, 700

# Hundredths of a token for each byte of a kind. Non-ASCII characters count by their first UTF-8 byte, so one weight stands for
# a whole character: Latin, Greek, Cyrillic 1 token; Chinese, Japanese, Korean and symbols 2; the other scripts and emoji, which
# tokenizers cut down to single bytes, as many as they have bytes.
_LETTER = 40
_WEIGHTS = (
    (string.ascii_letters.encode(), _LETTER),
    (string.digits.encode(), 100),
    (string.punctuation.encode(), 75),
    (b" \t\n\r", 25),
    (bytes(set(range(0x20)) - set(b"\t\n\r")), 100),
    (bytes(range(0xC0, 0xD4)), 100),
    (bytes(range(0xD4, 0xE0)) + bytes(range(0xE2, 0xEE)), 200),
    (bytes(range(0xE0, 0xE2)) + bytes(range(0xEE, 0xF0)), 300),
    (bytes(range(0xF0, 0xF8)), 400),
)


def text_tokens(text: str) -> int:
    """Return the most tokens that a text is to be expected to have."""
    data = text.encode("utf-8", "surrogatepass")
    hundredths = sum(weight * (len(data) - len(data.translate(None, kind))) for kind, weight in _WEIGHTS)
    # Keys, hashes and base64 take about twice as many tokens as words of the same letters; runs this long are few in prose.
    hundredths += _LETTER * sum(map(len, re.findall(rb"\b[\w+/]{24,}", data)))
    return -(-hundredths // 100)


def _objects(part: Any) -> Iterator[Mapping[str, Any]]:
    """Yield every object in a part of a request; what a model wrote as a tool's input is text, whatever it looks like."""
    if isinstance(part, Mapping):
        yield part
        part = () if part.get("type") in CALLS else list(part.values())
    for inner in part if isinstance(part, list | tuple) else ():
        yield from _objects(inner)


def prompt_tokens(body: Mapping[str, Any]) -> int:
    """Return the most tokens that the system prompt, messages and tools of a request are to be expected to have."""
    parts = {name: body[name] for name in ("system", "messages", "tools") if name in body}
    text = json.dumps(parts, ensure_ascii=False)
    images = [part["source"] for part in _objects(parts) if part.get("type") == "image" and "source" in part]
    for source in images:  # megabytes that are no text
        text = text.replace(json.dumps(source, ensure_ascii=False), "", 1)
    tokens = text_tokens(text) + len(images) * IMAGE_TOKENS + (_TOOL_PROMPT if body.get("tools") else _PLAIN_PROMPT)
    return tokens + (_CITING_PROMPT if '"citations"' in text else 0)


def estimate_tokens(body: Mapping[str, Any]) -> int:
    """Return the most input tokens that a request is to be expected to be billed for.

    Where the API itself searches, it reads the prompt again after each use: that is counted for all uses that the request
    allows. A request that names documents elsewhere counts as the million that models can read (platform.claude.com/docs,
    "Models", read 2026-11).
    """
    tokens = prompt_tokens(body)
    sources = [block.get("source") for block in _objects(body.get("messages")) if block.get("type") != "image"]
    if any(isinstance(source, Mapping) and source.get("type") in ("url", "file") for source in sources):
        tokens = max(tokens, 1_000_000)
    searches = (body.get("tool_choice") or {}).get("type") != "none"
    return tokens + (native_tokens(tokens, body.get("tools") or ()) if searches else 0)


def native_tokens(tokens: int, tools: Sequence[Mapping[str, Any]]) -> int:
    """Return the input tokens that the API's own tools add to one request at most.

    After each use the model reads all of the prompt again, and the API bills every reading. Recorded in 2026: ten searches
    made 2,479 tokens into 404,500.
    """
    sizes: list[int] = []
    for tool in tools:
        most = _RESULT_TOKENS.get(str(tool.get("type", "")).rpartition("_")[0], 0)
        sizes += [int(tool.get("max_content_tokens") or most)] * int(tool.get("max_uses") or _API_USES) if most else []
    return sum(tokens + read for read in accumulate(sorted(sizes, reverse=True)))


def server_searches(tools: Sequence[Mapping[str, Any]]) -> int:
    """Return how many searches the API itself may make in one request with these tools."""
    return sum(int(t.get("max_uses") or _API_USES) for t in tools if str(t.get("type", "")).startswith("web_search_"))


def cache_marks(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the cache breakpoints of a request."""
    return [mark for part in _objects(body) if isinstance(mark := part.get("cache_control"), Mapping)]


def caches_for_an_hour(body: Mapping[str, Any]) -> bool:
    """Return whether a request writes to the prompt cache for longer than five minutes, which costs more."""
    return any(mark.get("ttl") not in (None, "5m") for mark in cache_marks(body))


def counted(fields: Mapping[str, Any], body: Mapping[str, Any], content: Sequence[Mapping[str, Any]]) -> tuple[Usage, bool]:
    """Return a request's usage by its reply's `usage` object, and whether any of it had to be estimated.

    Some servers report nothing, and a request that was cut off before its reply began is billed for what it read all the same:
    it is never taken for free. `body` is the request, `content` the blocks of the reply.

    >>> counted({"input_tokens": 9, "output_tokens": None}, {"messages": []}, [{"type": "text", "text": "Matz wrote Ruby."}])
    (Usage(input_tokens=9, output_tokens=4, ...), True)
    """
    terms = {name: body[name] for name in ("speed", "inference_geo") if name in body}
    usage = Usage.from_api({**terms, **fields})  # terms of which the reply says nothing are those asked for
    read, written = reported(fields, "input_tokens"), reported(fields, "output_tokens")
    if not read:
        searched = any(block.get("type") == "server_tool_use" for block in content)
        sent = estimate_tokens(body) if searched else prompt_tokens(body)
        usage = replace(usage, input_tokens=max(0, sent - replace(usage, input_tokens=0).total_input_tokens))
    if not written:
        usage = replace(usage, output_tokens=written_tokens(content))
    return usage, not (read and written)


def written_tokens(blocks: Sequence[Mapping[str, Any]]) -> int:
    """Return about how many tokens the blocks of a reply have: one for four characters."""
    return sum(len(str(b.get("text") or b.get("thinking") or b.get("input") or "")) for b in blocks) // 4
