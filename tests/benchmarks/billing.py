"""How many input tokens six steps are billed, in units of plain input: ours against a loop that caches nothing.

The strict fake counts a token for four characters and plays the prompt cache; a token written to the cache counts 1.25,
one read from it 0.1 (platform.claude.com/docs, "Prompt caching", read 2026-11).
"""

from __future__ import annotations

from typing import Any

from tests.benchmarks.environment import environment
from tests.benchmarks.hand_loop import HandLoop
from tests.fakes.engine import hit
from tests.fakes.engines import Brave
from tests.fakes.messages_api import MessagesAPI
from tests.fakes.replies import tool_use

STEPS = 6
CONTEXT_TOKENS = 12_000
WRITTEN, READ = 1.25, 0.1
WORDS = "A sentence that stands for what a page or a table would say about it. "


async def billed(context: str) -> tuple[str, float, float]:
    """Return (what, our billed input, the naive loop's) for 12,000 tokens in the "question" or in the "results"."""
    in_question = context == "question"
    question = "What do these say?" + (_text(CONTEXT_TOKENS * 4) if in_question else "")
    result = "Short." if in_question else _text(CONTEXT_TOKENS * 4 // (5 * (STEPS - 1)))
    with MessagesAPI() as api, Brave() as brave:
        api.behave(_searches)
        brave.behave(lambda *_: [hit(f"https://s{n}.example/", f"Title {n}", result) for n in range(5)])
        await _ask_ours(question, api, brave)
        ours = _sum(api.usages)
        hand = HandLoop(api.url, brave.url, model_key=api.key, search_key=brave.environment()["BRAVE_API_KEY"])
        await hand.ask(question + " ")
        await hand.aclose()
        naive = _sum(api.usages[STEPS:])
        assert len(api.usages) == 2 * STEPS and not api.refusals, api.refusals
    return f"billed input, {STEPS} steps, {CONTEXT_TOKENS:,} tokens in the {context}", ours, naive


async def _ask_ours(question: str, api: MessagesAPI, brave: Brave) -> None:
    from ipy_websearch.session import Session

    with environment(**api.environment(), **brave.environment()):
        session = Session()
        answer = await session.ask(question, provider="brave")
        await session.aclose()
    assert answer.limit is None and answer.searches == STEPS - 1, answer


def _searches(body: dict[str, Any]) -> Any:
    """Ask for one search a step, and answer in the last."""
    done = sum(message["role"] == "assistant" for message in body["messages"])
    return "They say so." if done == STEPS - 1 else tool_use("web_search", {"query": f"topic number {done}"})


def _sum(usages: list[dict[str, Any]]) -> float:
    """Return the tokens in units of plain input."""
    return sum(
        usage["input_tokens"]
        + WRITTEN * usage.get("cache_creation_input_tokens", 0)
        + READ * usage.get("cache_read_input_tokens", 0)
        for usage in usages
    )


def _text(characters: int) -> str:
    return (WORDS * (characters // len(WORDS) + 1))[:characters]
