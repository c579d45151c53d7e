"""What a model is offered and told for one question: its instructions, its tools, and what is done for models that call none.

Where a model calls no tools (`retrieve_first`), the question is searched for first and comes with the results, in seed 000's
form: when the setting says so, when a server has refused the tools, or when the first answer of a model that is not Anthropic's
came without a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ModelError, WebSearchError
from ipy_websearch.loop.core import Call
from ipy_websearch.loop.table import TABLE_TOOL
from ipy_websearch.model.client import Platform, cites
from ipy_websearch.model.requests import SEARCH_RESULT_TOKENS, native_tokens, server_searches, server_tools
from ipy_websearch.model.stream import Reply
from ipy_websearch.money.budget import MIN_ANSWER_TOKENS, RunBudget
from ipy_websearch.money.prices import worst_case
from ipy_websearch.options import AskOptions
from ipy_websearch.providers.base import SearchRequest, provider_info
from ipy_websearch.results import Limits
from ipy_websearch.text import plain, shorten
from ipy_websearch.tools.base import NATIVE, TOOLS, Tool, named_tools
from ipy_websearch.tools.research import read_research_tool
from ipy_websearch.tools.web import PageReading, web_fetch_tool, web_search_tool

if TYPE_CHECKING:
    from jinja2 import Template

    from ipy_websearch.session import Session

# --- what it is told ---------------------------------------------------------------------------------------------------

FINAL_NUDGE = "Please write the answer now, from what you have."

REPAIR_NUDGE = """\
Your answer was compared with the passages that it cites. They do not support these sentences:

{sentences}

Write the whole answer again, with its citations. Correct these sentences by what the results above say, or leave them out, or \
say that it was not found. Keep everything else as it is. Do not mention this comparison.
"""


def system_prompt(tools: Collection[str], own: str | None = None, **how: object) -> str:
    """Return the instructions for the tools that are offered, by their names, with the user's own at the end. They are stable
    within a day, so that prompt caches hold.

    `how` may say that the question comes with results (`reading`), how many pages `web_search` reads (`read_pages`), that a
    table is wanted (`table`), and that the model is to write the numbers of results (`marked`).
    """
    from ipy_websearch.providers.brave import catalogue

    today, own = date.today().isoformat(), (own or "").strip()
    return _template().render(today=today, tools=tools, own=own, catalogue=catalogue, table_tool=TABLE_TOOL, **how)


@cache
def _template() -> Template:
    from jinja2 import Environment, PackageLoader

    blocks: dict[str, Any] = {"trim_blocks": True, "lstrip_blocks": True, "keep_trailing_newline": True}
    return Environment(loader=PackageLoader("ipy_websearch", "loop"), **blocks).get_template("system.md.j2")


# --- what it is offered ------------------------------------------------------------------------------------------------

NATIVE_PAGE_TOKENS = 12_000  # the most of a page that Anthropic's own web_fetch may read under a budget; else there is no bound

_PROMPT_TOKENS = 4_000
Definition = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools that a question gets, those that the API runs itself, and notices of what it does not get."""

    tools: tuple[Tool, ...]
    notices: tuple[str, ...] = ()
    server_tools: tuple[Definition, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all tools."""
        return (*(tool.name for tool in self.tools), *(str(tool["name"]) for tool in self.server_tools))


def offered(
    session: Session, asked: AskOptions, budget: RunBudget, limits: Limits, platform: Platform, provider: str | None
) -> Offer:
    """Return the tools of a question that is asked with settled options.

    `provider` is the engine that `web_search` goes to (None: the chain). Under a budget, a search is priced as by the dearest
    engine of the chain, and the API's own tools may be used as often as the money lasts.

    A set shrinks to what can be used, and a notice says what was left out. With any other tool, `read_research` comes too when
    there is something to read. Next to the API's own tools, ours of the same names are left out.

    Raises:
        ConfigError: there is no such tool, or the platform runs none of its own.
        MissingKeyError: a tool was asked for by its own name and its engine has no key.
    """
    names = named_tools(asked.tools or ())
    native = names.pop(NATIVE, None) is not None
    if native:
        names = {name: by_name for name, by_name in names.items() if name not in ("web_search", "web_fetch")}
    if session.settings.research_root and (names or native):
        names.setdefault("read_research", False)
    defaults = session.search_request(
        "placeholder", allowed_domains=asked.allowed_domains, blocked_domains=asked.blocked_domains
    )
    tools: list[Tool] = []
    missing: dict[str, list[str]] = {}
    for name, by_name in names.items():
        info = provider_info(TOOLS[name]) if TOOLS[name] else None
        for key in info.keys if info and by_name else ():
            session.keys.require(key)
        if info and (why := info.hindrance(session.keys)):
            missing.setdefault(f"{why} (%websearch key {info.name})", []).append(name)
        else:
            tools.append(_made(name, session, asked, defaults, provider, bounded=budget.bounded))
    notices = [f"not offered to the model: {', '.join(names)}: {why}" for why, names in missing.items()]
    server: Sequence[Definition] = server_tools(budget.model, platform, limits.max_searches, defaults) if native else ()
    if server and (room := budget.budget.left()) is not None:
        server, fewer = affordable_native(server, budget.model, room)
        notices += fewer
    return Offer(tuple(tools), tuple(notices), tuple(server))


def _made(
    name: str, session: Session, asked: AskOptions, defaults: SearchRequest, provider: str | None, *, bounded: bool
) -> Tool:
    """Return the tool of that name; `defaults` is a request with the user's settings: domains, country, language, filter."""
    engine, router = TOOLS[name], session.router
    if name == "read_research":
        return read_research_tool(session.settings.research_root, session.http, session.keys, base=session.folder)
    if name == "web_fetch":
        allowed, blocked = defaults.allowed_domains, defaults.blocked_domains
        return web_fetch_tool(session.reader, fresh=asked.fresh, allowed_domains=allowed, blocked_domains=blocked)
    search = partial(router.search, provider=engine or provider, fresh=asked.fresh)
    price = router.expected_charges(engine or provider, defaults.count, worst=bounded)
    if name.startswith("web_search"):
        reads = asked.read_pages and not engine  # the pair gives what its engines say
        pages = PageReading(lambda: session.reader, asked.read_pages or 0, asked.fresh, session.recording is not None)
        return web_search_tool(search, defaults, price=price, pages=pages if reads else None, name=name)
    from ipy_websearch.tools import tiers

    if name == "brave_search":
        return tiers.brave_search_tool(search, defaults, price=price)
    tool: Tool = getattr(tiers, f"{name}_tool")(router.provider(engine), defaults)
    return tool


def affordable_native(tools: Sequence[Definition], model: str, room: Decimal) -> tuple[list[Definition], list[str]]:
    """Return Anthropic's own tools with as many uses as `room` USD buys at worst, and a notice when these are fewer.

    Pages are cut at `NATIVE_PAGE_TOKENS`. When not one use fits, there are no tools.
    """
    wanted = max((int(tool["max_uses"]) for tool in tools), default=0)
    for uses in range(wanted, 0, -1):
        bounded: list[Definition] = [{**tool, "max_uses": uses} for tool in tools]
        bounded = [{**t, "max_content_tokens": NATIVE_PAGE_TOKENS} if t["name"] == "web_fetch" else t for t in bounded]
        tokens = _PROMPT_TOKENS + native_tokens(_PROMPT_TOKENS, bounded)
        cost = worst_case(model, tokens, MIN_ANSWER_TOKENS, server_searches=server_searches(bounded))
        after = worst_case(model, tokens // (uses + 1) + SEARCH_RESULT_TOKENS, MIN_ANSWER_TOKENS)
        if cost is None or after is None or cost + after <= room:
            return bounded, [] if uses == wanted else [f"the budget is enough for {uses} of {wanted} native searches"]
    return [], ["the budget is not enough for a native search, whose results may be long; it was left out"] if wanted else []


# --- models that call no tools -----------------------------------------------------------------------------------------

RETRIEVED = "the model called no tool: the question was searched for, and the model reads what was found"

# What Brave takes as a query (api-dashboard.search.brave.com, read 2026-11); other providers take more.
QUERY_CHARACTERS, QUERY_WORDS = 400, 50

# How servers refuse tools: Ollama ("… does not support tools"), vLLM (its two command line options) and llama.cpp ("tools param
# requires --jinja flag"); from their issues, read 2026-11.
_REFUSALS = re.compile(
    r"not support (?:tool|function)|tools? (?:are|is) not supported|enable-auto-tool-choice|requires? --jinja", re.IGNORECASE
)

_FORMATS = re.compile(r"output_(?:config|format)|extra inputs", re.IGNORECASE)
_WRITTEN_CALL = re.compile(r"[{\[<][^{}]{0,80}\b(?:web_search|brave_search|firecrawl_search|tool_call|function)\b")
_ASKS = re.compile(
    r"\?|\b(?:who|whom|whose|when|where|which|what|how (?:many|much|old|long|far|tall|high|big|large)|latest|newest|current"
    r"|today|wer|wann|wo|welche[rsn]?|wie ?viele?|qui|quand|où|quel(?:le)?s?|combien|quién|cuándo|dónde|cuál|cuántos?)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=\w )[A-Z]\w+|\b(?:19|20)\d\d\b")
_SUM = re.compile(r"\W*(?:what is|calculate|compute|how much is)?[\s\d.,+*/^()x×÷=-]+\??\s*", re.IGNORECASE)


def refuses_tools(error: WebSearchError) -> bool:
    """Return whether a server says that the model, or the way it was started, takes no tools."""
    return isinstance(error, ModelError) and error.status in (400, 422, 500, 501) and _REFUSALS.search(str(error)) is not None


def refuses_formats(error: WebSearchError) -> bool:
    """Return whether a server says that it knows no `output_config`."""
    return isinstance(error, ModelError) and error.status in (400, 422) and _FORMATS.search(str(error)) is not None


def call_free(reply: Reply, model: str) -> bool:
    """Return whether a whole reply has no call, of a model that may not know how: one of Anthropic's has decided so."""
    return not cites(model) and reply.complete and not Call.of(reply)


def answers_unsearched(reply: Reply, model: str, question: str) -> bool:
    """Return whether a first reply is that of a model which should have searched, and seems not to know how.

    Models that were not made for calling write the call as text.
    """
    if not call_free(reply, model) or reply.stop_reason not in ("end_turn", "stop_sequence", "tool_use"):
        return False
    begins = reply.text.lstrip("` \n").removeprefix("json")[:200]
    return needs_search(question) or _WRITTEN_CALL.search(begins) is not None


def needs_search(question: str) -> bool:
    """Return whether a question asks for a fact of the world: it has a question word, a name or a year, and is no sum."""
    return not _SUM.fullmatch(question) and bool(_ASKS.search(question) or _NAME.search(question))


def search_call(tools: Mapping[str, Tool], question: str) -> Call | None:
    """Return the call that searches with the question, None when no tool searches."""
    tool = next((tool for tool in tools.values() if tool.counts_as_search), None)
    query = shorten(" ".join(plain(question).split()[:QUERY_WORDS]), QUERY_CHARACTERS)
    return Call("retrieved_1", tool.name, {"query": query}) if tool is not None else None


def json_record(text: str) -> Mapping[str, Any] | None:
    """Return the JSON object that a reply is, alone or in a code fence, None when it is anything else."""
    body = re.fullmatch(r"\s*(?:```(?:json)?\s*\n)?(\{.*\})\s*(?:```)?\s*", text, re.DOTALL)
    try:
        found = json.loads(body[1]) if body else None
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
