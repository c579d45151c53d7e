"""What is said about an answer in words: what qualifies it, and the line of facts under it. Plain text, no markup."""

from __future__ import annotations

from ipy_websearch.display import money
from ipy_websearch.display.progress import AnswerView, limit_line
from ipy_websearch.display.words import one_line
from ipy_websearch.loop.ask import no_answer
from ipy_websearch.results import Answer, Citation

OFFLINE = "Not from Claude: taken from search results without a model. Set a key with %websearch key anthropic."
SAYS_SO = "No model read these"
"""Words of the answers of the offline server that say so themselves."""

_STOPPED = {
    "max_tokens": "cut off at max_tokens",
    "refusal": "the model declined to answer",
    "model_context_window_exceeded": "cut off: the model's context window is full",
}


def labels(view: AnswerView, feedback: int = 1) -> list[str]:
    """Return what must be known before reading the answer: not from Claude, cut short, interrupted, broken off."""
    found = [OFFLINE] if view.offline and not view.running and SAYS_SO not in view.text else []
    if view.state == "failed":
        found.append("The answer broke off; the error says why." if view.text else "There is no answer; the error says why.")
    elif view.state == "interrupted":
        found.append(_cut_short(view, limit_line("interrupted")))
    elif view.limit and not view.running:
        found.append(_cut_short(view, limit_line(view.limit, view.limit_detail or _limit_detail(view))))
    elif view.answer is not None and view.answer.trace and view.answer.stop_reason is None:
        found.append("the answer broke off: this is what had arrived")
    if feedback == 0 and view.answer is not None and replayed(view.answer):
        found.append(replayed(view.answer))  # at other levels the last line says so
    reason = view.answer.stop_reason if view.answer else None
    if reason in _STOPPED:
        found.append(_STOPPED[reason])
    return found


def _cut_short(view: AnswerView, line: str) -> str:
    """Return the line without its second half, which is about the words that there are, where there are none."""
    answer = view.answer
    return line.partition(":")[0] if answer is not None and not (answer.text or answer.rows) else line


def text_of(view: AnswerView) -> str:
    """Return the Markdown of a finished answer, or why there is none: an answer without words is never shown as nothing."""
    answer = view.answer
    if answer is None or answer.text or answer.rows:
        return view.text
    if answer.limit == "interrupted":
        why = "interrupted"
    elif answer.limit:
        why = view.limit_detail or f"limit reached: {_limit_detail(view) or answer.limit}"
    else:
        why = "the model wrote none"
    return no_answer(why)


def _limit_detail(view: AnswerView) -> str:
    """Return the limit with its number as far as the answer itself tells it."""
    answer = view.answer
    if answer is None or view.limit is None:
        return ""
    if view.limit == "max_searches":
        return f"max_searches = {answer.searches}"
    rounds = sum(step.kind == "model" and step.detail in ("tool_use", "pause_turn") for step in answer.trace)
    if view.limit == "max_steps" and rounds:
        return f"max_steps = {rounds}"
    return ""


def requests(answer: Answer) -> int:
    """Return how many model requests the answer took."""
    return sum(step.kind == "model" for step in answer.trace)


def facts(answer: Answer) -> str:
    """Return the last line: "claude-… · 3 searches · 4 steps · 12 s · 0.0123 USD · session 0.0456 USD"."""
    steps = requests(answer)
    parts = (
        "offline model" if answer.offline else one_line(answer.model),
        money.count(answer.searches, "search", "searches"),
        money.count(steps, "step") if steps else "",
        money.seconds(answer.seconds) if answer.seconds else "",
        money.cost(answer.cost_usd),
        f"session {money.usd(answer.session_cost_usd)}" if answer.session_cost_usd is not None else "session cost unknown",
        replayed(answer),
    )
    return " · ".join(filter(None, parts))


def replayed(answer: Answer) -> str:
    """Return that an answer was replayed, and from which cassette, "" for a new one."""
    return f"replayed from {one_line(answer.replayed_from)}" if answer.replayed_from else ""


def sources(citations: list[Citation]) -> list[tuple[Citation, list[str]]]:
    """Return each source once, in the order of its number, with its distinct passages."""
    merged: dict[int, tuple[Citation, list[str]]] = {}
    for citation in citations:
        _, passages = merged.setdefault(citation.n, (citation, []))
        if citation.cited_text and citation.cited_text not in passages:
            passages.append(citation.cited_text)
    return [merged[n] for n in sorted(merged)]
