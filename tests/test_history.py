"""A conversation stays legal and within what the model can read."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.model.platforms import context_window, is_known, model_id
from ipy_websearch.model.requests import closed, ended_by, is_question, trimmed, user_message


def turn(n: int, searches: int = 1) -> list[dict[str, Any]]:
    """Return a whole turn: a question, calls with their results, an answer."""
    messages: list[dict[str, Any]] = [user_message(f"question {n}")]
    for s in range(searches):
        call = f"toolu_{n}_{s}"
        messages.append({"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": "web_search", "input": {}}]})
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": "x" * 100}]})
    return [*messages, {"role": "assistant", "content": [{"type": "text", "text": f"answer {n}"}]}]


def size(messages: Any) -> int:
    return sum(len(str(m)) for m in messages)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 5_000))
def test_trimming_drops_whole_turns_from_the_oldest(searches: list[int], most: int) -> None:
    """What is left begins with a question, holds every result with its call, and fits unless it is one turn."""
    history = [m for n, s in enumerate(searches) for m in turn(n, s)]
    kept, dropped = trimmed(history, most, size)
    assert kept == history[len(history) - len(kept) :]
    questions = sum(map(is_question, kept))
    assert is_question(kept[0]) and questions == len(searches) - dropped >= 1
    assert size(kept) <= most or questions == 1


def test_calls_without_a_result_are_taken_out() -> None:
    """A turn that was cut off in its calls keeps its text; one of calls alone goes."""
    use = {"type": "tool_use", "id": "a", "name": "web_search", "input": {}}
    text = {"type": "text", "text": "Let me look."}
    question = user_message("q")
    assert closed([question, {"role": "assistant", "content": [text, use]}])[-1]["content"] == [text]
    assert closed([question, {"role": "assistant", "content": [use]}]) == [question]
    assert ended_by([question, {"role": "assistant", "content": [use]}], "stopped")[-1]["content"][0]["text"] == "stopped"


def test_a_server_call_whose_result_came_stays() -> None:
    """Only the call that is still open goes."""
    content = [
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
        {"type": "server_tool_use", "id": "s2", "name": "web_search", "input": {}},
    ]
    assert closed([user_message("q"), {"role": "assistant", "content": content}])[-1]["content"] == content[:2]


def test_names_of_models() -> None:
    """Short names become ids; other names pass; windows are known or cautious."""
    assert model_id("Opus") == "claude-opus-5-5" and model_id("llama-4") == "llama-4"
    assert is_known("us.anthropic.claude-sonnet-4-5-20250929-v1:0") and not is_known("llama-4")
    assert (context_window("claude-sonnet-5-5"), context_window("claude-haiku-4-5"), context_window("llama-4")) == (
        1_000_000,
        200_000,
        32_000,
    )
