"""The benchmarks still run: both loops answer, and what caching saves is measured."""

import asyncio

from tests.benchmarks import light_environment
from tests.benchmarks.loop import billed, both, question
from tests.benchmarks.server import BenchmarkServer


def test_both_loops_of_the_benchmark_do_the_same_work() -> None:
    """Two rounds of two searches each, then an answer of five pieces."""

    async def compare(url: str) -> None:
        async with both(url) as (ours, hand, _, _):
            answer = await ours(question("r=2 p=2 n=5"))
            assert answer.searches == 4 and answer.limit is None and len(answer.panels) == 4
            assert [citation.url.rpartition("/")[0] for citation in answer.citations] == ["https://site1.example"]
            by_hand = await hand(question("r=2 p=2 n=5"))
            assert by_hand.strip() == answer.text.replace("[1]", "") and by_hand.count("Piece") == 5

    with BenchmarkServer() as server, light_environment(server.url):
        asyncio.run(compare(server.url))


def test_caching_saves_most_of_a_long_context() -> None:
    """Six steps with 12,000 tokens of context are billed at most 0.40 of what a loop without caching is."""
    ours, naive = asyncio.run(billed())
    assert ours <= 0.40 * naive
