"""Answers a question: the loop's events for people, and the answer with its sources. One run of `%%ask` is one `AnswerLoop`.

The text is Markdown; a citation that the API gives becomes a mark `[n]` behind the words it belongs to. The history is legal
after every way of ending, interrupts included. With `--check repair` the model is asked once to mend the sentences that its
sources do not support; the first answer stays until the new one is there and better.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any

from ipy_websearch.citations import SENTENCE_END, CitationBook, check
from ipy_websearch.errors import BudgetExceededError, ModelError, WebSearchError
from ipy_websearch.loop.core import Call, CallRunner, Loop, Meter, Then
from ipy_websearch.loop.offer import (
    FINAL_NUDGE,
    NO_TABLE,
    REPAIR_NUDGE,
    RETRIEVED,
    TABLE_NUDGE,
    TABLE_TOOL,
    answers_unsearched,
    needs_search,
    refuses_tools,
    search_call,
    table_text,
    table_tool,
    with_source,
)
from ipy_websearch.model.client import ModelClient, Platform, forces_tools
from ipy_websearch.model.requests import (
    READ_CHARACTERS,
    Message,
    assistant_message,
    build_request,
    closed,
    ended_by,
    estimate_tokens,
    plain_results,
    same_frame,
    tool_result,
    user_message,
    with_nudge,
    without_newest_results,
    without_thinking,
)
from ipy_websearch.model.stream import Event as RawEvent
from ipy_websearch.model.stream import Reply
from ipy_websearch.money.budget import RunBudget
from ipy_websearch.results import (
    Answer,
    Cited,
    Claim,
    Event,
    LimitName,
    LimitReached,
    Limits,
    ModelRequested,
    Notice,
    Panel,
    Panels,
    Retracted,
    Rewritten,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from ipy_websearch.text import plural
from ipy_websearch.tools.base import Passage, Tool, ToolContext, ToolOutput

# How often a turn that the API paused is resumed; each pause already stands for ten searches of its own.
MAX_PAUSES = 5

# The share of the supported sentences that a mended answer must still have: an empty one has no faults either.
_LEAST_KEPT = 0.5


# --- the text ----------------------------------------------------------------------------------------------------------

_WRITTEN = re.compile(r"(?<!\\)(\[\d{1,4}(?:, ?\d{1,3})*\])(?!\()")
_BEGUN = re.compile(r"\[\d{0,4}(?:, ?\d{0,3}){0,5}$")
_MARKS = re.compile(r"\\?\[\d{1,3}(?:, ?\d{1,3})*\]")
LOOK_BACK = 1_000  # characters of the answer in which the sentence before a mark is looked for

# What a reader should see next; a passage that is cited for the first time comes before its mark.
Shown = list[Cited | TextDelta]


class AnswerText:
    """The Markdown so far, and the `book` of its sources.

    Blank space at the end is held back until more text comes, so that a mark stands right behind the words that it belongs to.
    Text of a later step begins a new paragraph. A `[n]` that the model wrote itself is, outside code, escaped; where the model
    was `given` passages by number (None: the API gives citations), it becomes a mark if the passage bears its sentence out.
    """

    def __init__(self, book: CitationBook, given: list[Passage] | None) -> None:
        self.book = book
        self.given = given
        self._new: list[Cited] = []
        self._step = (0, 0)
        self._parts: list[str] = []
        self._held = ""
        self._begins = False
        self._backticks = 0

    def __str__(self) -> str:
        return "".join([*self._parts, self._held]).strip()

    def __bool__(self) -> bool:
        return bool(self._parts)

    def anew(self) -> AnswerText:
        """Return the text of another answer from the same passages."""
        return AnswerText(self.book.emptied(), self.given)

    def numbered(self, passages: Sequence[Passage]) -> str:
        """Return passages as text with the numbers, from 1 on in one conversation, that the model may cite them by."""
        self.given = self.given or []
        self.given += passages
        return plain_results(passages, first=len(self.given) - len(passages) + 1, most=READ_CHARACTERS)

    def step(self) -> None:
        """Say that a new step begins."""
        self._begins, self._held = True, ""
        self._step = (len(self._parts), self._backticks)

    def retract(self) -> None:
        """Take back the text of this step."""
        kept, self._backticks = self._step
        del self._parts[kept:]
        self._begins, self._held = True, ""

    def write(self, text: str) -> Shown:
        """Take text in."""
        if self._begins:
            text = text.lstrip()
        elif self._held.startswith("["):
            text, self._held = self._held + text, ""
        body = text.rstrip()
        body = body[: begun.start()] if (begun := _BEGUN.search(body)) else body
        if not body:
            self._held += text
            return []
        lead = self._held
        if self._begins:
            lead, self._begins = "\n\n" if self._parts else "", False
        self._held = text[len(body) :]
        return self._show(lead + self._bound(body))

    def cite(self, block: Mapping[str, Any]) -> Shown:
        """Put the marks of a text block behind its last word; the space after it stays after the marks."""
        marks, new = self.book.bind(block)
        self._new += map(Cited, new)
        if marks and self._held.startswith("["):
            marks, self._held = self._held + marks, ""
        return self._show(marks if self._parts else "")

    def _show(self, text: str) -> Shown:
        shown: Shown = [*self._new]
        self._new = []
        if text:
            self._parts.append(text)
            shown.append(TextDelta(text))
        return shown

    def _bound(self, text: str) -> str:
        """Return the text with what becomes of each number in brackets, except in code, behind an odd backtick."""
        if "[" not in text:
            self._backticks += text.count("`")
            return text
        before, done = "".join(self._parts)[-LOOK_BACK:], ""
        for n, part in enumerate(_WRITTEN.split(text)):
            is_mark = n % 2 == 1 and self._backticks % 2 == 0
            done += self._mark(before + done, part) if is_mark else part
            self._backticks += part.count("`")
        return done

    def _mark(self, before: str, written: str) -> str:
        """Return what stands in the place of `[2]` or `[1, 3]` behind the text `before`: marks, and plain text for numbers
        whose passage does not bear the sentence out."""
        sentence = SENTENCE_END.split(_MARKS.sub("", before).rstrip())[-1].strip(" \t*#>-•") if self.given else ""
        bound = {number: self._cited(sentence, int(number)) for number in re.findall(r"\d+", written)}
        if not any(bound.values()):
            return written if "," in written else f"\\{written}"
        return "".join(dict.fromkeys(f"[{n}]" if n else f"\\[{number}]" for number, n in bound.items()))

    def _cited(self, sentence: str, number: int) -> int | None:
        """Return the source's number in the answer, None when the passage does not bear the sentence out."""
        if not self.given or not 1 <= number <= len(self.given):
            return None
        passage = self.given[number - 1]
        quote = supporting(sentence, passage)
        found = {"type": "search_result_location", "source": passage.url, "title": passage.title, "cited_text": quote}
        cited = self.book.cite(found) if quote else None
        if cited is None:
            return None
        n, citation = cited
        self._new += [Cited(citation)] if citation is not None else []
        return n


def supporting(sentence: str, passage: Passage) -> str:
    """Return the words of a passage that bear a sentence out, "" when it does not: a paragraph, or all of it."""

    def verdict(text: str) -> str:
        return check(sentence, [text, passage.title]).verdict

    whole = " ".join(passage.paragraphs)
    best = verdict(whole)
    if best not in ("supported", "partly"):
        return ""
    return next((text for text in passage.paragraphs if verdict(text) == best), whole)


# --- the question ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """A question with all that it takes to answer it.

    `history` is a legal list of earlier messages, `known_urls` what may be fetched from the start, `columns` the table that is
    wanted in place of prose (None: prose). `retrieve_first` is the setting of that name; `reading_system` takes the place of
    `system` when the question comes with its results ("": it does not).
    """

    question: str
    model: str
    system: str
    tools: tuple[Tool, ...] = ()
    server_tools: tuple[Mapping[str, Any], ...] = ()
    history: tuple[Message, ...] = ()
    limits: Limits = Limits()
    max_tokens: int = 16_000
    known_urls: frozenset[str] = frozenset()
    columns: Mapping[str, type] | None = None
    check: str = "mark"
    retrieve_first: str = "auto"
    reading_system: str = ""
    effort: str | None = None


@dataclass(slots=True)
class AnswerLoop:
    """One question under way. Await `answer()` once; `partial()` gives the answer as far as it is.

    `_reading` says that the question comes with its results and without tools, `_unsearched` that it has to.
    """

    client: ModelClient
    job: Job
    panels: Panels
    budget: RunBudget = field(default_factory=RunBudget)
    notices: list[str] = field(default_factory=list)
    platform: Platform = field(init=False)
    loop: Loop = field(init=False)
    text: AnswerText = field(init=False)
    messages: list[Message] = field(init=False)
    own_panels: list[Panel] = field(default_factory=list)
    rows: tuple[dict[str, Any], ...] | None = None
    stop_reason: str | None = None
    _emit: Callable[[Event], object] = repr
    _tools: dict[str, Tool] = field(init=False)
    _container: Mapping[str, Any] | None = None
    _late: list[str] = field(default_factory=list)
    _pauses: int = 0
    _asked_again: bool = False
    _reading: bool = False
    _unsearched: bool = False

    def __post_init__(self) -> None:
        job = self.job
        self.platform = self.client.platform_for(job.model)
        self.text = AnswerText(CitationBook(native=bool(job.server_tools)), None if self.platform.search_results else [])
        self.text.book.know_history(job.history)
        self.messages = [*job.history, user_message(job.question)]
        self._tools = {tool.name: tool for tool in job.tools}
        if job.columns:
            self._tools[TABLE_TOOL] = table_tool(job.columns, self._keep_rows)
        context = ToolContext(known_urls=set(job.known_urls))
        runner = CallRunner(self._tools, context, self.panels, self.budget, Meter(job.limits), self._result)
        self.loop = Loop(self, self.client.events, runner, lambda: self.client.request_id)

    def follow(self, answer: Answer) -> None:
        """Take the conversation up where `answer` ended: what was thought there stays if the API will take it back."""
        for citation in answer.citations:
            self.text.book.know(citation.url, citation.title, citation.published_date, read=citation.read)
        earlier = [step.request for step in answer.trace if step.kind == "model"]
        whole = len(self.job.history) == len(answer.messages)
        if not (whole and same_frame(self.request(final=False), earlier[-1] if earlier else None)):
            self.messages = [*without_thinking(self.job.history), self.messages[-1]]

    async def answer(self, emit: Callable[[Event], object]) -> Answer:
        """Return the answer to the question; `emit` gets each event as it happens.

        Raises:
            ModelError: the API refused or broke; `partial` holds the text that was already there. What was used is in the
                `ModelResponded` events.
            BudgetExceededError: not even a short answer without a search fits into what is left; nothing was sent.
        """
        self._emit = emit
        mode, refused = self.job.retrieve_first, bool(self._tools) and self.client.lacks(self.job.model, "tools")
        self._unsearched = (mode == "always" and self._has_search) or (mode == "auto" and refused)
        if not self._unsearched:
            await self._converse()
        if self._unsearched:
            await self._retrieve()
            await self._converse()
        if self.loop.meter.steps == 0:
            raise BudgetExceededError(self.budget.refusal(estimate_tokens(self.request(final=True))))
        await self._repair()
        if self.job.columns and self.rows is None:
            self._late.append(NO_TABLE)
        for text in self._late:
            self._tell(Notice(text))
        return self.partial(self.loop.meter.reached)

    async def _converse(self) -> None:
        """Run the loop until it is done, or until it is known that the question must be searched for first."""
        try:
            async with aclosing(self.loop.run()) as signals:
                async for signal in signals:
                    if isinstance(signal, list):
                        self._show(signal)
                    else:
                        self._tell(signal)
        except ModelError as exc:
            if self._reading or self.job.retrieve_first == "never" or not refuses_tools(exc):
                exc.partial = self.partial(self.loop.meter.reached) if self.text else None
                raise
            self.client.note_lack(self.job.model, "tools")
            self._unsearched = True

    async def _retrieve(self) -> None:
        """Search with the question and put what is found into its message; text that was shown before is void."""
        began, answered, runner = self.loop.meter.steps > 0, bool(self.loop.reply.text), self.loop.runner
        self._reading, self.loop.shown = True, False
        if began:
            self.text.retract()
            self._tell(Retracted(self.loop.meter.steps))
        call, found = search_call(self._tools, self.job.question), list[dict[str, Any]]()
        wanted = answered or self.job.retrieve_first == "always" or needs_search(self.job.question)
        if call is not None and self.job.limits.max_searches and wanted:
            if began:
                self._tell(Notice(RETRIEVED))
            self._tell(ToolStarted(call.id, call.name, call.input))
            async for event in runner.run([call]):
                self._tell(event)
            self._know(runner)
            found = runner.blocks[call.id]["content"]
        self.messages = [*self.job.history, {"role": "user", "content": [*found, *user_message(self.job.question)["content"]]}]

    @property
    def _has_search(self) -> bool:
        return self.job.limits.max_searches > 0 and search_call(self._tools, self.job.question) is not None

    def partial(self, limit: LimitName | None) -> Answer:
        """Return the answer as far as it is, with a legal history."""
        loop, text, columns = self.loop, str(self.text), self.job.columns
        if self.rows is not None and columns:
            text = f"{text}\n\n{table_text(self.rows, columns)}".strip()
        if not text:
            text = f"*There is no answer: {loop.meter.explain(limit) if limit else 'the model wrote none'}.*"
        if loop.shown:  # the running reply was not taken yet
            self._keep_reply(loop.reply)
        return Answer(
            question=self.job.question,
            text=text,
            model=loop.model or self.job.model,
            citations=self.text.book.citations,
            panels=tuple(self.own_panels),
            usage=loop.usage,
            searches=loop.meter.searches + loop.usage.server_searches,
            stop_reason=self.stop_reason,
            limit=limit,
            messages=tuple(ended_by(self.messages, text)),
            notices=tuple(dict.fromkeys(self.notices)),
            rows=self.rows,
            columns=with_source(columns) if columns else None,
            offline=self.client.offline,
            seconds=loop.meter.seconds,
            checked=self._claims() if self.job.check != "off" else (),
        )

    def _claims(self) -> tuple[Claim, ...]:
        """Return the sentences as compared with their sources; what the offline server says without a source is no claim."""
        claims = self.text.book.claims(str(self.text))
        return tuple(claim for claim in claims if claim.numbers or not self.client.offline)

    def _keep_rows(self, rows: tuple[dict[str, Any], ...]) -> None:
        self.rows = rows

    # --- what the loop asks (see `core.Face`) ------------------------------------------------------------------------

    def request(self, *, final: bool) -> dict[str, Any]:
        """Return the next request; the final one asks for words alone, or for the table that the user wanted."""
        job, messages = self.job, self.messages
        tools = [] if self._reading else [*(tool.definition() for tool in self._tools.values()), *job.server_tools]
        last: dict[str, str] | None = {"type": "none"}
        if job.columns:
            forced = forces_tools(job.model)
            last = {"type": "tool", "name": TABLE_TOOL} if forced else None
            messages = with_nudge(messages, TABLE_NUDGE) if final and not forced else messages
        body = build_request(
            model=job.model,
            system=job.reading_system if self._reading and job.reading_system else job.system,
            messages=messages,
            tools=tools,
            max_tokens=job.max_tokens,
            platform=self.platform,
            tool_choice=last if final and tools else None,
            effort=job.effort,
        )
        return {**body, "container": self._container["id"]} if self._container else body

    def make_smaller(self) -> bool:
        """Put an error that names the budget in place of each of the newest results."""
        reason = f"Left out: {self.loop.meter.explain('budget')}."
        left_out = ToolOutput(summary=reason, text=reason, is_error=True)
        smaller = without_newest_results(self.messages, lambda call_id: self._result(call_id, left_out))
        self.messages = smaller or self.messages
        return smaller is not None

    def take(self, reply: Reply, *, final: bool) -> Sequence[Call] | Then:
        """Decide by the reply's calls and its stop reason."""
        first = self.loop.meter.steps == 1 and not final and not self._reading and self._has_search
        if first and self.job.retrieve_first == "auto" and answers_unsearched(reply, self.job.model, self.job.question):
            self._unsearched = True
            return Then.DONE
        self._keep_reply(reply)
        calls = Call.of(reply)
        if not reply.complete:
            if self.loop.meter.reached != "timeout":
                self._late.append("the model's answer broke off; this is what had arrived")
            return Then.DONE
        ended = reply.stop_reason in ("refusal", "model_context_window_exceeded")
        if calls and not ended and (not final or any(call.name == TABLE_TOOL for call in calls)):
            return calls
        if reply.stop_reason == "pause_turn" and not final:
            self._resume()
            return Then.AGAIN
        if note := stop_note(reply):
            self._late.append(note)
        return self._ask_for_text(reply)

    def give(self, runner: CallRunner, calls: Sequence[Call]) -> Then:
        """Put the results into one user message."""
        self._know(runner)
        self.messages.append({"role": "user", "content": [runner.blocks[call.id] for call in calls]})
        return Then.AGAIN if self.rows is None and not self.loop.final else Then.DONE

    def _know(self, runner: CallRunner) -> None:
        for passage in (passage for output in runner.outputs.values() for passage in output.passages):
            self.text.book.know(passage.url, passage.title, passage.published_date, passage.paragraphs, passage.read)

    def _result(self, call_id: str, output: ToolOutput) -> dict[str, Any]:
        if output.passages and not output.is_error and not self.platform.search_results:
            output = replace(output, text=self.text.numbered(output.passages))
        return tool_result(call_id, output, self.platform)

    def _keep_reply(self, reply: Reply) -> None:
        """Take a reply into the history; of one that broke off, only its text."""
        self.loop.shown = False
        self.stop_reason = reply.stop_reason
        self._container = reply.container or self._container
        turn = assistant_message(b for b in reply.content if reply.complete or b.get("type") == "text")
        if turn and self.messages[-1]["role"] == "assistant":  # it goes on after a pause
            turn = {**turn, "content": [*self.messages.pop()["content"], *turn["content"]]}
        self.messages += [turn] if turn else []

    def _resume(self) -> None:
        """Have a paused turn sent back as it is; after too many pauses, ask for the answer instead."""
        self._pauses += 1
        if self._pauses > MAX_PAUSES or self.loop.meter.steps >= self.job.limits.max_steps:
            self.loop.finish()
            self.messages = [*closed(self.messages), user_message(FINAL_NUDGE)]

    def _ask_for_text(self, reply: Reply) -> Then:
        """Ask once more for the table that was wanted, or for words when none followed on tool results."""
        ended = reply.stop_reason in ("end_turn", "tool_use")
        untabled = ended and bool(self.job.columns) and not self._reading and self.rows is None
        begun = len(self.messages) > len(self.job.history) + 1
        wordless = begun and not reply.text.strip() and (ended or reply.stop_reason == "pause_turn")
        if self._asked_again or not (untabled or wordless):
            return Then.DONE
        self._asked_again = True
        self.loop.final = self.loop.final or untabled
        nudge, history = TABLE_NUDGE if self.job.columns else FINAL_NUDGE, closed(self.messages)
        ends_with_user = history[-1]["role"] == "user"
        self.messages = with_nudge(history, nudge) if ends_with_user else [*history, user_message(nudge)]
        return Then.AGAIN

    # --- mending an answer -------------------------------------------------------------------------------------------

    async def _repair(self) -> None:
        """Have unsupported sentences mended by one more request; the first answer stays unless the new one is better."""
        wanted = self.job.check == "repair" and not self.job.columns and not self.client.offline
        claims = self._claims() if wanted and self.stop_reason == "end_turn" else ()
        faulty = [claim for claim in claims if claim.verdict == "unsupported"]
        if not faulty:
            return
        first, reached = self.messages, self.loop.meter.reached
        problem = "interrupted"
        try:
            problem = await self._mend(faulty, claims)
        except WebSearchError as exc:
            problem = str(exc)
        finally:
            self.loop.meter.reached = reached  # the limit stopped the repair, and not the answer
            self.messages = first if problem else self.messages
        sentences = plural(len(faulty), "sentence without support", "sentences without support")
        if problem:
            self._late.append(f"{sentences} could not be mended, and the first answer stands: {problem}")
            return
        self._late.append(f"the model was asked to mend {sentences}, and wrote this answer anew")
        self._tell(Rewritten(str(self.text), self.text.book.citations))

    async def _mend(self, faulty: Sequence[Claim], claims: Sequence[Claim]) -> str:
        """Take a new answer in place of the first, unseen; return why that failed ("": it did not)."""
        loop, meter = self.loop, self.loop.meter
        if not meter.seconds_left or meter.steps >= meter.limits.max_steps:
            return meter.explain("max_steps" if meter.seconds_left else "timeout")
        self.messages = [*self.messages, user_message(nudge(faulty))]
        loop.final, loop.retries = True, 0
        if (body := loop.granted()) is None:
            return meter.explain("budget")
        async with aclosing(loop.exchange(body)) as signals:
            async for signal in signals:
                if not isinstance(signal, list | LimitReached):
                    self._tell(signal)
        reply, turn, text = loop.reply, assistant_message(loop.reply.content), self.text.anew()
        if turn is None or reply.stop_reason != "end_turn":
            return f"the model's new answer ended with {reply.stop_reason}"
        for block in reply.content:
            if block.get("type") == "text":
                text.write(str(block.get("text") or ""))
                text.cite(block)
        if not is_better(text.book.claims(str(text)), claims):
            return "the new answer was no better"
        self.text, self.messages = text, [*self.messages, turn]
        return ""

    # --- what people see ---------------------------------------------------------------------------------------------

    def _tell(self, event: Event) -> None:
        """Emit an event, and remember what the finished answer will list."""
        match event:
            case ToolFinished(panel=panel) if panel is not None:
                self.own_panels.append(panel)
            case Notice(text=text):
                self.notices.append(text)
            case ModelRequested():
                self.text.step()
            case _:
                pass
        self._emit(event)

    def _show(self, events: Sequence[RawEvent]) -> None:
        """Emit what a reader sees of the raw events of a reply."""
        for raw in events:
            kind, delta = raw.get("type"), raw.get("delta") or {}
            shown: Sequence[Event] = ()
            if kind == "content_block_delta" and delta.get("type") == "text_delta" and delta.get("text"):
                shown = self.text.write(delta["text"])
                self.loop.shown = self.loop.shown or bool(shown)
            elif kind == "content_block_stop" and (block := self.loop.reply.blocks.get(int(raw.get("index", 0)))):
                shown = self._ended(block)
            for event in shown:
                self._emit(event)

    def _ended(self, block: Mapping[str, Any]) -> Sequence[Event]:
        """Return what a reader sees when a block has ended."""
        kind = str(block.get("type"))
        if kind == "text":
            return self.text.cite(block)
        if kind in ("tool_use", "server_tool_use"):
            return [ToolStarted(str(block.get("id")), str(block.get("name")), block.get("input") or {})]
        if kind.endswith("_tool_result"):
            self._tell(self._server_result(block))
        return ()

    def _server_result(self, block: Mapping[str, Any]) -> Event:
        """Return the event for the result of a tool that the API ran, with a panel of what it found."""
        self.text.book.native = True
        content = block.get("content")
        code = content.get("error_code") if isinstance(content, Mapping) else None
        found = [part for part in content if isinstance(part, Mapping)] if isinstance(content, list) else []
        name = str(block.get("type", "")).removesuffix("_tool_result")
        summary = f"error: {code}" if code else plural(len(found) or 1, "result")
        self.loop.runner.context.known_urls.update(str(part["url"]) for part in found if part.get("url"))
        shown = [{k: v for k, v in part.items() if not k.startswith("encrypted")} for part in found]
        panel = self.panels.add(name, "yaml", shown or {"error": summary}, tool=name, is_error=bool(code))
        return ToolFinished(str(block.get("tool_use_id")), name, summary, bool(code), panel=panel, content=content)


# What a reader should know of why the model stopped, "" when it ended as it should.
_STOPPED = {
    **dict.fromkeys(("end_turn", "stop_sequence", "tool_use", "pause_turn"), ""),
    "max_tokens": "the answer was cut off at max_tokens; raise it with %config WebSearch.max_tokens",
    "refusal": "the model declined to answer",
    "model_context_window_exceeded": "the answer was cut off: the model's context window is full; ask anew without --follow",
}


def stop_note(reply: Reply) -> str:
    """Return why the model stopped, with what the API says of it, "" when it ended as it should."""
    reason = str(reply.stop_reason)
    note = _STOPPED.get(reason, f"the model stopped for a reason unknown here: {reason}")
    category = (reply.stop_details or {}).get("category")
    return f"{note} ({category})" if note and category else note


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
