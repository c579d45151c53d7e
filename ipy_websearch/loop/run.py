"""The tool loop: a question in, a stream of events out, with the finished answer as the last one.

Its law is section 6 of the design. In short: tool calls of one reply run concurrently and go back in one message; every
stop reason is handled by name; a limit never ends in silence, since the calls still open get an error that names it and the
next request, with `tool_choice: none`, asks for the answer in words; what breaks is retried only while nothing was shown. The
history is legal after every way of ending, interrupts included. Wire facts: platform.claude.com/docs, read 2026-11.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ipy_websearch.errors import BudgetExceededError, ModelError
from ipy_websearch.events import Event, Finished, LimitReached, ModelResponded, Notice, ToolFinished
from ipy_websearch.loop.calls import Call, CallRunner
from ipy_websearch.loop.history import (
    Message,
    assistant_message,
    closed,
    ended_by,
    same_frame,
    user_message,
    with_nudge,
    without_thinking,
)
from ipy_websearch.loop.job import Job
from ipy_websearch.loop.limits import Meter
from ipy_websearch.loop.means import Means
from ipy_websearch.loop.prompts import FINAL_NUDGE
from ipy_websearch.loop.stops import stop_note
from ipy_websearch.loop.table import NO_TABLE, TABLE_NUDGE, TABLE_TOOL, table_text, table_tool, with_source
from ipy_websearch.loop.text import no_answer
from ipy_websearch.loop.turn import Turn
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.reply import Reply
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.results import Answer, Panel, Panels
from ipy_websearch.tools.base import ToolContext
from ipy_websearch.usage import LimitName

MAX_PAUSES = 5
"""How often a turn that the API paused is resumed; each pause already stands for ten searches of its own."""


@dataclass(slots=True)
class AnswerLoop:
    """One run of the loop. Iterate over `events()` once; `partial()` gives the answer so far after it was cut off."""

    client: ModelClient
    job: Job
    panels: Panels
    budget: RunBudget = field(default_factory=RunBudget)
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Any] = asyncio.sleep
    meter: Meter = field(init=False)
    turn: Turn = field(init=False)
    runner: CallRunner = field(init=False)
    means: Means = field(init=False)
    messages: list[Message] = field(init=False)
    notices: list[str] = field(default_factory=list)
    own_panels: list[Panel] = field(default_factory=list)
    rows: tuple[dict[str, Any], ...] | None = None
    stop_reason: str | None = None
    _taken: bool = True
    _final: bool = False
    _nudged: bool = False
    _pauses: int = 0

    def __post_init__(self) -> None:
        self.meter = Meter(self.job.limits, self.clock)
        self.turn = Turn(self.client, self.meter, self.sleep)
        self.messages = [*self.job.history, user_message(self.job.question)]
        tools = {tool.name: tool for tool in self.job.tools}
        if self.job.columns:
            tools[TABLE_TOOL] = table_tool(self.job.columns, self._keep_rows)
        context = ToolContext(known_urls=set(self.job.known_urls))
        self.means = Means(self.job, tools, self.client.platform, self.budget, self.meter)
        self.runner = CallRunner(tools, context, self.panels, self.budget, self.meter, self.means.result)

    def follow(self, answer: Answer) -> None:
        """Take the conversation up where `answer` ended: what was thought there stays if the API will take it back."""
        earlier = [step.request for step in answer.trace if step.kind == "model"]
        whole = len(self.job.history) == len(answer.messages)
        if not (whole and same_frame(self.means.body(self.messages), earlier[-1] if earlier else None)):
            self.messages = [*without_thinking(self.job.history), self.messages[-1]]

    async def events(self) -> AsyncIterator[Event]:
        """Answer the question; the last event is `Finished`.

        Raises:
            ModelError: the API refused or broke; `partial` holds the text that was already there. What was used is in
                the `ModelResponded` events.
            BudgetExceededError: not even a short answer without a search fits into what is left; nothing was sent.
        """
        while True:
            unlimited = self.meter.reached is None
            draft = self.means.draft(self.messages, final=self._final)
            self.messages, self._final = draft.messages, draft.final
            if unlimited and self.meter.reached is not None:
                yield LimitReached(self.meter.reached, self.meter.explain(self.meter.reached))
            if draft.body is None and self.meter.steps == 0:
                raise BudgetExceededError(self.budget.refusal(draft.input_tokens))
            if draft.body is None:
                break
            self.meter.steps += 1
            self._taken = False
            try:
                async for event in self.turn.events(draft.body, final=self._final):
                    yield self._kept(event)
            except ModelError as exc:
                exc.partial = self.partial(self.meter.reached) if self.turn.text else None
                raise
            going = False
            async for outcome in self._decide(self._take_reply()):
                if isinstance(outcome, bool):
                    going = outcome
                else:
                    yield self._kept(outcome)
            if not going:
                break
        yield self._finished()

    def _finished(self) -> Finished:
        if self.job.columns and self.rows is None and NO_TABLE not in self.notices:
            self.notices.append(NO_TABLE)
        return Finished(self.partial(self.meter.reached))

    def partial(self, limit: LimitName | None) -> Answer:
        """Return the answer as far as it is, with a legal history."""
        text = str(self.turn.text)
        if self.rows is not None and self.job.columns:
            text = f"{text}\n\n{table_text(self.rows, self.job.columns)}".strip()
        if not text:
            text = no_answer(self.meter.explain(limit) if limit else "the model wrote none")
        if not self._taken:
            self._take_reply()
        return Answer(
            question=self.job.question,
            text=text,
            model=self.turn.model or self.job.model,
            citations=self.turn.book.citations,
            panels=tuple(self.own_panels),
            usage=self.turn.usage,
            searches=self.meter.searches + self.turn.usage.server_searches,
            stop_reason=self.stop_reason,
            limit=limit,
            messages=tuple(ended_by(self.messages, text)),
            notices=tuple(self.notices),
            rows=self.rows,
            columns=with_source(self.job.columns) if self.job.columns else None,
            offline=self.client.offline,
            seconds=self.meter.seconds,
        )

    def interrupted(self) -> ModelResponded | None:
        """Return the booking of a request that was cut off from outside, None when none was under way."""
        return self.turn.cut_off(self.job.model)

    def _keep_rows(self, rows: tuple[dict[str, Any], ...]) -> None:
        self.rows = rows

    # --- deciding what comes next -----------------------------------------------------------------------------------

    def _take_reply(self) -> Reply:
        """Take the newest reply into the history; of one that broke off, only its text."""
        self._taken = True
        reply = self.turn.reply or Reply()
        self.stop_reason = reply.stop_reason
        self.means.container = reply.container or self.means.container
        content = reply.content if reply.complete else [b for b in reply.content if b.get("type") == "text"]
        if turn := assistant_message(content):
            if self.messages[-1]["role"] == "assistant":  # it goes on after a pause
                self.messages[-1] = {**self.messages[-1], "content": [*self.messages[-1]["content"], *turn["content"]]}
            else:
                self.messages.append(turn)
        return reply

    async def _decide(self, reply: Reply) -> AsyncIterator[Event | bool]:
        """Yield the events that follow from a reply, and last whether to ask again."""
        calls = [
            Call(str(b.get("id")), str(b.get("name")), b.get("input") or {}, str(b.get("id")) in reply.malformed)
            for b in reply.content
            if b.get("type") == "tool_use"
        ]
        if not reply.complete:
            if self.meter.reached != "timeout":
                yield Notice("the model's answer broke off; this is what had arrived")
            yield False
        elif calls and (not self._final or any(call.name == TABLE_TOOL for call in calls)):
            over = self._final
            async for event in self._run_calls(calls):
                yield event
            yield self.rows is None and not over
        elif reply.stop_reason == "pause_turn" and not self._final:
            self._resume()
            yield True
        else:
            if note := stop_note(reply):
                yield Notice(note)
            yield self._ask_for_text(reply)

    async def _run_calls(self, calls: Sequence[Call]) -> AsyncIterator[Event]:
        if self.meter.steps >= self.job.limits.max_steps and all(call.name != TABLE_TOOL for call in calls):
            for event in self.runner.refuse(calls, "max_steps"):
                yield event
        else:
            async for event in self.runner.run(calls):
                yield event
        for output in self.runner.outputs.values():
            for passage in output.passages:
                self.turn.book.know(passage.url, passage.title, passage.published_date)
        self.runner.outputs = {}
        self.messages.append({"role": "user", "content": [self.runner.blocks[call.id] for call in calls]})
        self._final = self.meter.reached is not None

    def _kept(self, event: Event) -> Event:
        """Remember what the finished answer will list; what the API's own tools found gets its panel here."""
        if isinstance(event, ToolFinished) and event.by_server and event.panel is None:
            event = self._with_panel(event)
        if isinstance(event, ToolFinished) and event.panel is not None:
            self.own_panels.append(event.panel)
        if isinstance(event, Notice) and event.text not in self.notices:
            self.notices.append(event.text)
        return event

    def _with_panel(self, event: ToolFinished) -> ToolFinished:
        found = [block for block in event.content if isinstance(block, Mapping)] if isinstance(event.content, list) else []
        self.runner.context.known_urls.update(str(block["url"]) for block in found if block.get("url"))
        shown = [{k: v for k, v in block.items() if not k.startswith("encrypted")} for block in found]
        data = shown or {"error": event.summary}
        return replace(event, panel=self.panels.add(event.name, "yaml", data, tool=event.name, is_error=event.is_error))

    def _resume(self) -> None:
        """Have a paused turn sent back as it is; after too many pauses, ask for the answer instead."""
        self._pauses += 1
        if self._pauses > MAX_PAUSES or self.meter.steps >= self.job.limits.max_steps:
            self.meter.reach("max_steps")
            self._final = True
            self.messages = [*closed(self.messages), user_message(FINAL_NUDGE)]

    def _ask_for_text(self, reply: Reply) -> bool:
        """Say whether to ask once more: for the table that was wanted, or for words when none followed on tool results."""
        wordless = not reply.text.strip() and reply.stop_reason in ("end_turn", "tool_use", "pause_turn")
        untabled = bool(self.job.columns) and self.rows is None and reply.stop_reason in ("end_turn", "tool_use")
        begun = len(self.messages) > len(self.job.history) + 1
        if self._nudged or not (untabled or (wordless and begun)):
            return False
        self._nudged = True
        self._final = self._final or untabled
        nudge = TABLE_NUDGE if self.job.columns else FINAL_NUDGE
        history = closed(self.messages)
        ends_with_user = history[-1]["role"] == "user"
        self.messages = with_nudge(history, nudge) if ends_with_user else [*history, user_message(nudge)]
        return True
