"""The benchmarks still run: both loops answer, what caching saves is measured, and the live card is made from a file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import light_environment
from tests.benchmarks.live import main
from tests.benchmarks.loop import billed, both, question
from tests.benchmarks.server import BenchmarkServer
from tests.fakes.replies import text, tool_use


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


# --- live_card ---


SIMPLE_QA = 'metadata,problem,answer\n"{""topic"": ""x""}",Who wrote Ruby?,Yukihiro Matsumoto\n{},In what year?,1993\n'


def answers(messages_api: Any) -> None:
    """Let the model search once and cite what it found; a question for the grader is answered with its verdict."""

    def behave(request: dict[str, Any]) -> list[Any]:
        if "You compare an answer" in json.dumps(request["system"]):
            return ["CORRECT"]
        if "tool_choice" in request:
            return ["Nobody knows."]
        if len(request["messages"]) == 1:
            return [tool_use("web_search", {"query": "ruby author"})]
        found = "search_result" in json.dumps(request["messages"][-1])
        return [text("Ruby was written by Yukihiro Matsumoto.", citations=[(0, 0)] if found else [])]

    messages_api.behave(behave)


def test_a_file_of_questions_becomes_a_card(
    messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, kept = Path("simple_qa_test_set.csv"), Path("card.jsonl")
    file.write_text(SIMPLE_QA, "utf-8")
    answers(messages_api)
    main(["--questions", str(file), "--budget", "1", "--provider", "brave", "--read-pages", "0", "--out", str(kept)])
    out = capsys.readouterr().out
    assert "| questions | 2 (0 failed) |" in out and "| right | 1 (50.0 %, 95 % interval 9.5–90.5) |" in out
    assert " a question) |" in out and "| claims supported |" in out
    assert sorted(json.loads(line)["right"] for line in kept.read_text("utf-8").splitlines()) == [False, True]
    main(["--questions", str(file), "--budget", "1", "--read-pages", "0", "--grader", "model"])
    assert "| right | 2 (100.0 %" in capsys.readouterr().out


def test_the_budget_ends_the_run(messages_api: Any, brave_api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"What is number {n}?\t{n}\n" for n in range(40))
    Path("test.tsv").write_text("Prompt\tAnswer\n" + rows, "utf-8")
    answers(messages_api)
    main(["--questions", "test.tsv", "--budget", "0.05", "--read-pages", "0"])
    out = capsys.readouterr().out
    assert "stopped after" in out
    spent = float(out.split("| cost | ")[1].split(" USD")[0])
    assert 0 < spent <= 0.05
