"""Asks the model once to mend the sentences of a finished answer which its sources do not support (`--check repair`).

The first answer stays as it is until the new one is there and better; whatever goes wrong, it is kept, and a notice says why.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ipy_websearch.citations import CitationBook
from ipy_websearch.errors import WebSearchError
from ipy_websearch.events import Event, LimitReached
from ipy_websearch.loop.calls import Call, CallRunner
from ipy_websearch.loop.core import Loop, Then
from ipy_websearch.loop.history import Message, assistant_message, user_message
from ipy_websearch.loop.prompts import REPAIR_NUDGE
from ipy_websearch.loop.text import AnswerText
from ipy_websearch.model.stream import Reply
from ipy_websearch.model.tokens import estimate_tokens
from ipy_websearch.results import Claim

_LEAST_KEPT = 0.5
"""The share of the supported sentences that a mended answer must still have: an empty one has no faults either."""


@dataclass(slots=True)
class Repair:
    """One attempt. Iterate over `events()` once; then `problem` says why the first answer stands ("": the new one is better).

    `request_for` returns the body for messages, `claims` are the first answer's, `book` and `text` are empty, for the new one.
    """

    request_for: Callable[[Sequence[Message]], dict[str, Any]]
    messages: list[Message]
    claims: Sequence[Claim]
    book: CitationBook
    text: AnswerText
    stop_reason: str | None = None
    problem: str = "the model's new answer broke off"

    @property
    def faulty(self) -> list[Claim]:
        """The sentences to mend."""
        return [claim for claim in self.claims if claim.verdict == "unsupported"]

    async def events(self, loop: Loop) -> AsyncGenerator[Event, None]:
        """Run one more request on the answer's own loop, so that its budget, limits and counts hold; nothing is shown."""
        self.messages = [*self.messages, user_message(nudge(self.faulty))]
        if problem := self._refused(loop):
            self.problem = problem
            return
        reached = loop.meter.reached
        loop.face, loop.final, loop.retries = self, True, 0
        signals = loop.run()
        try:
            async for signal in signals:
                if not isinstance(signal, list | LimitReached):
                    yield signal
        except WebSearchError as exc:
            self.problem = str(exc)
        finally:
            await signals.aclose()
            loop.meter.reached = reached  # the limit stopped the repair, and not the answer

    def _refused(self, loop: Loop) -> str:
        """Return why no limit leaves room for the request, "" when there is room for an answer of the first one's length."""
        meter, budget = loop.meter, loop.budget
        if meter.reached in ("timeout", "budget") or meter.seconds_left <= 0:
            return meter.explain(meter.reached or "timeout")
        if meter.steps >= meter.limits.max_steps:
            return meter.explain("max_steps")
        body = self.request(final=True)
        tokens = estimate_tokens(body)
        granted = budget.grant(str(body["model"]), tokens, int(body["max_tokens"]), final=True)
        needed = estimate_tokens({"messages": self.messages[-2:]})
        return "" if granted is not None and granted >= min(needed, body["max_tokens"]) else budget.refusal(tokens)

    # --- what the loop asks (see `core.Face`) ------------------------------------------------------------------------

    def request(self, *, final: bool) -> dict[str, Any]:
        """Return the request: the conversation so far, and what to mend."""
        return self.request_for(self.messages)

    def make_smaller(self) -> bool:
        """Say that nothing can be left out: the results are what the answer is to be mended from."""
        return False

    def take(self, reply: Reply, *, final: bool) -> Then:
        """Take the new answer, and compare it with the first."""
        self.stop_reason = reply.stop_reason
        if reply.complete and reply.stop_reason == "end_turn" and (turn := assistant_message(reply.content)):
            self.messages.append(turn)
            self.text.step()
            for block in reply.content:
                if block.get("type") == "text":
                    self.text.write(str(block.get("text") or ""))
                    self.text.mark(self.book.bind(block))
            self.problem = "" if is_better(self.book.claims(str(self.text)), self.claims) else "the new answer was no better"
        elif reply.complete:
            self.problem = f"the model stopped with {reply.stop_reason}"
        return Then.DONE

    def give(self, runner: CallRunner, calls: Sequence[Call]) -> Then:
        """Take nothing: there are no calls in a final request."""
        return Then.DONE


def nudge(faulty: Sequence[Claim]) -> str:
    """Return the request to mend sentences, each with what its sources lack."""
    lines = [
        f"{n}. {claim.sentence}" + (f" (not in its sources: {', '.join(claim.missing)})" if claim.missing else "")
        for n, claim in enumerate(faulty, 1)
    ]
    return REPAIR_NUDGE.format(sentences="\n".join(lines))


def is_better(new: Sequence[Claim], old: Sequence[Claim]) -> bool:
    """Say whether fewer sentences lack support, and not merely because they lost their marks or everything was left out."""
    faulty = [claim for claim in old if claim.verdict == "unsupported"]
    sentences = {claim.sentence for claim in faulty}
    missing = {part for claim in faulty for part in claim.missing}

    def is_faulty(claim: Claim) -> bool:
        same = claim.sentence in sentences or any(part in claim.sentence for part in missing)
        return claim.verdict == "unsupported" or (claim.verdict == "uncited" and same)

    kept, had = (sum(claim.verdict == "supported" for claim in claims) for claims in (new, old))
    return sum(map(is_faulty, new)) < len(faulty) and kept >= _LEAST_KEPT * had
