"""Answers a question: prepared from its options and the session's settings, asked in the tool loop, run as a stream of events.

One run of `%%ask` is one `AnswerLoop` (the face of the tool loop for people) in one `AskRun` (the object that the caller
holds). A question goes through these states:

    asked      the question, with tools; then the calls, their results, and the next request
    nudged     asked once more for words, or for the table that is wanted, since the reply has none
    final      a limit was reached: the model writes its answer from what it has
    reading    asked anew without tools, with the results of a search for it: the model calls none (`retrieve_first`)
    repairing  asked once, unseen, to repair sentences that its sources do not support (`--check repair`); the first answer
               stands until the new one is there and better

The history is legal after every way of ending, interrupts included.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import aclosing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ipy_websearch import background
from ipy_websearch.citations import AnswerText, CitationBook
from ipy_websearch.errors import BudgetExceededError, ConfigError, ModelError, WebSearchError
from ipy_websearch.loop.core import Call, CallRunner, Face, Loop, Meter, Next, Then
from ipy_websearch.loop.offer import (
    FINAL_NUDGE,
    REPAIR_NUDGE,
    RETRIEVED,
    answers_unsearched,
    needs_search,
    offered,
    refuses_tools,
    search_call,
    system_prompt,
)
from ipy_websearch.loop.table import NO_TABLE, TABLE_NUDGE, TABLE_TOOL, parse_columns, table_text, table_tool
from ipy_websearch.model.client import Event as RawEvent, ModelClient, Reply
from ipy_websearch.model.requests import (
    CALLS,
    READ_CHARACTERS,
    assistant_message,
    build_request,
    closed,
    ended_by,
    estimate_tokens,
    forces_tools,
    model_id,
    plain_results,
    prompt_tokens,
    question as last_words,
    same_frame,
    server_searches,
    thinking_fields,
    tool_result,
    user_message,
    with_nudge,
    without_thinking,
)
from ipy_websearch.money.budget import MIN_ANSWER_TOKENS, Estimate, estimate
from ipy_websearch.money.prices import add_money, own_prices, tariff
from ipy_websearch.options import AskOptions
from ipy_websearch.providers.passages import ALL_TOKENS
from ipy_websearch.results import (
    Answer,
    Claim,
    Event,
    Finished,
    LimitName,
    LimitReached,
    ModelRequested,
    Notice,
    Panel,
    Retracted,
    Rewritten,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.text import plural
from ipy_websearch.tools.base import ToolContext, ToolOutput
from ipy_websearch.tools.web import addresses_in, addresses_of

if TYPE_CHECKING:
    from ipy_websearch.session import Session

KEPT_ANSWERS = 50

# Tokens that a budget keeps for a final answer at least when the model was told an effort: it thinks before it writes.
THINKING_ANSWER_TOKENS = 2_048

# The share of the supported sentences that a mended answer must still have: an empty one has no faults either.
_LEAST_KEPT = 0.5


# --- the question ------------------------------------------------------------------------------------------------------


class AnswerLoop(Face):
    """One question under way. Await `converse()` once, then `kept()` returns the answer so far, or `close()` books its cost.

    `asked` are the settled options, `system` the instructions with the user's own at the end, `columns` the table that is
    wanted in place of prose (None: prose).
    """

    def __init__(self, session: Session, asked: AskOptions, *, sends: bool = True) -> None:
        """Prepare a question; with `sends` False it is only inspected, and the model needs no key.

        Raises:
            ConfigError: an option does not fit the settings, the model or the conversation; nothing was sent.
            MissingKeyError: a model or a provider was asked for by name and there is no key for it.
        """
        own_prices()  # a mistake in the user's price file shows here, before anything is spent
        settings = session.settings
        self.session = session
        self.client, self.model = model_to_ask(session, asked.model, sends)
        self._platform = self.client.platform_for(self.model)
        provider = session.provider_to_ask(asked.provider)
        if asked.follow and not session.answers:
            raise ConfigError("there is no earlier answer to follow up on; ask without --follow first")
        self.columns = parse_columns(asked.columns) if asked.columns is not None else None
        pages = 0 if self.client.offline else settings.read_pages
        self.asked = asked = replace(
            asked,
            check=asked.check or settings.check,
            tools=settings.tools if asked.tools is None else asked.tools,
            read_pages=pages if asked.read_pages is None else asked.read_pages,
        )

        self.limits = limits = asked.limits(settings)
        takes_effort = bool(thinking_fields(self.model, asked.effort))
        least = THINKING_ANSWER_TOKENS if takes_effort else MIN_ANSWER_TOKENS
        self.booking = session.booking(
            asked.question, limits.budget_usd, model=self.model, timeout_s=limits.timeout_s, least=least
        )
        budget = self.booking.budget
        ours, self._server_tools, self.notices = offered(session, asked, budget, limits, self.client.platform, provider)
        tools = {tool.name: tool for tool in ours}
        names = [*tools, *(str(tool["name"]) for tool in self._server_tools)]
        read_pages = asked.read_pages if "web_search" in tools else 0
        budget.result_tokens += ALL_TOKENS if read_pages else 0
        budget.server_searches = server_searches(self._server_tools)
        cites = self._platform.search_results
        how = {"read_pages": read_pages, "marked": bool(names) and not cites, "table": bool(self.columns)}
        self.system = system_prompt(names, asked.system, **how)
        if asked.effort and not takes_effort:
            self.notices.insert(0, f"{self.model} takes no effort; it answers as usual")

        self.text = AnswerText(CitationBook(native=bool(self._server_tools)), None if cites else [])
        self.rows: tuple[dict[str, Any], ...] | None = None
        self.stop_reason: str | None = None
        # The search with the question, None without a tool for it.
        self._search = search_call(tools, asked.question) if limits.max_searches else None
        self._emit: Callable[[Event], object] = repr
        self._panels: list[Panel] = []
        self._container: Mapping[str, Any] | None = None
        self._reading = False  # it answers from the results of a search for the question, without tools
        self._nudged = False
        self._repairing = ""  # the request to mend the answer, while the model is asked to
        self._limit_told = False
        if self.columns:
            tools[TABLE_TOOL] = table_tool(self.columns, partial(setattr, self, "rows"))
        context = ToolContext(set(addresses_in(asked.question)))
        runner = CallRunner(tools, context, session.panels, budget, Meter(limits), self._result)
        self.loop = Loop(self, self.client.events, runner, [user_message(asked.question)])
        if asked.follow:
            self._follow(session.answers[-1])

    def estimated(self) -> Estimate:
        """Return the estimated cost and usage of the question."""
        body = self.request(final=False)
        return estimate(
            self.booking.budget,
            self.limits,
            prompt_tokens=prompt_tokens(body),
            input_tokens=estimate_tokens(body),
            max_tokens=int(body["max_tokens"]),
            has_tools=bool(body.get("tools")),
            native_uses=sum(int(tool.get("max_uses", 0)) for tool in self._server_tools),
            searching=next((tool.price for tool in self.loop.runner.tools.values() if tool.counts_as_search), ()),
        )

    def _follow(self, answer: Answer) -> None:
        """Continue the conversation of `answer`. Its thinking stays if the API will take it back: then the request begins like
        the earlier ones, and that part is read from the prompt cache."""
        history = [dict(message) for message in answer.messages]
        self.text.book.know_history(history)
        for citation in answer.citations:
            self.text.book.know(citation.url, citation.title, citation.published_date, read=citation.read)
        # A request to mend an answer repeats the model's own words, which must make no address known.
        repairs = REPAIR_NUDGE.partition("{")[0]
        told = [message for message in history if not last_words([message]).startswith(repairs)]
        self.loop.runner.context.known_urls.update(*map(addresses_of, told))
        earlier = [step.request for step in answer.trace if step.kind == "model" and step.request]
        if not (earlier and same_frame(self.request(final=False), earlier[-1])):
            history = without_thinking(history)
        self.loop.messages = [*history, *self.loop.messages]

    async def converse(self, emit: Callable[[Event], object]) -> None:
        """Ask the question until it is answered; `emit` gets each event as it happens.

        Raises:
            ModelError: the API refused or broke. What was used is in the `ModelResponded` events.
            BudgetExceededError: not even a short answer without a search fits into what is left; nothing was sent.
        """
        self._emit = emit
        setting, lacks = self.session.settings.retrieve_first, self.model in self.client.without_tools
        reads = self._search is not None and (setting == "always" or (setting == "auto" and lacks))
        await self._run(self._read() if reads else Then.AGAIN)
        if self.columns and self.rows is None:
            self.tell(Notice(NO_TABLE))
        elif self.asked.check == "repair" and self.stop_reason == "end_turn" and not (self.columns or self.client.offline):
            await self._repair()

    async def _run(self, first: Next) -> None:
        """Run the loop from a first step on until the face is done, or no money is left for another request.

        Raises:
            BudgetExceededError: there was no money for any request.
        """
        before = self.loop.meter.steps
        async with aclosing(self.loop.run(first)) as signals:
            async for signal in signals:
                if isinstance(signal, list):
                    self._show(signal)
                else:
                    self.tell(signal)
        if self.loop.meter.steps == before:
            raise BudgetExceededError(self.booking.budget.refusal)

    def kept(self, limit: LimitName | None) -> Answer:
        """Return the answer so far, added to the conversation with a legal history, and book its cost."""
        loop, booking, text, columns = self.loop, self.booking, str(self.text), self.columns
        self.close()
        for line in booking.ledger.news():
            self.tell(Notice(line))
        if self.rows is not None and columns:
            text = f"{text}\n\n{table_text(self.rows, columns)}".strip()
        if not text:
            text = f"*There is no answer: {loop.meter.explain(limit) if limit else 'the model wrote none'}.*"
        if loop.shown:  # the running reply was not taken yet
            self._keep_reply(loop.reply)
        answer = Answer(
            question=self.asked.question,
            text=text,
            model=loop.model or self.model,
            citations=self.text.book.citations,
            panels=tuple(self._panels),
            usage=loop.usage,
            cost_usd=booking.cost_usd,
            session_cost_usd=self.session.spent_usd,
            searches=loop.meter.searches + loop.usage.server_searches,
            stop_reason=self.stop_reason,
            limit=limit,
            messages=tuple(ended_by(loop.messages, text)),
            trace=tuple(booking.steps),
            notices=tuple(self.notices),
            rows=self.rows,
            columns=columns,
            offline=self.client.offline,
            replayed_from=booking.replayed_from,
            seconds=loop.meter.seconds,
            checked=self._claims() if self.asked.check != "off" else (),
        )
        self.session.answers.append(answer)
        del self.session.answers[:-KEPT_ANSWERS]
        return answer

    def close(self) -> None:
        """Book the request under way, release the money held for it, and add the question's cost to the session's."""
        self.booking.close(self.loop.cut_off())
        self.session.spent_usd = add_money(self.session.spent_usd, self.booking.cost_usd)

    def _claims(self) -> tuple[Claim, ...]:
        """Return the checked sentences; the offline server's own words, without a source, are no claims."""
        claims = self.text.book.claims(str(self.text))
        return tuple(claim for claim in claims if claim.numbers or not self.client.offline)

    # --- what the loop asks (see `core.Face`) ------------------------------------------------------------------------

    def request(self, *, final: bool) -> dict[str, Any]:
        """Return the next request; the final one asks for words alone, or for the table that the user wanted."""
        messages, last = self.loop.messages, {"type": "none"}
        ours = [tool.definition() for tool in self.loop.runner.tools.values()]
        tools = [] if self._reading else [*ours, *self._server_tools]
        if self._repairing:
            messages = [*messages, user_message(self._repairing)]
        elif self.columns and tools:
            last = {"type": "tool", "name": TABLE_TOOL} if forces_tools(self.model) else {}
            messages = with_nudge(messages, TABLE_NUDGE) if final and not last else messages
        body = build_request(
            model=self.model,
            system=system_prompt((), self.asked.system, reading=True) if self._reading else self.system,
            messages=messages,
            tools=tools,
            max_tokens=self.session.settings.max_tokens,
            platform=self._platform,
            tool_choice=last if final and tools and last else None,
            effort=self.asked.effort,
        )
        return {**body, "container": self._container["id"]} if self._container else body

    def take(self, reply: Reply, *, final: bool) -> Next:
        """Decide by the reply's calls and its stop reason."""
        if self._repairing:
            return Then.DONE
        if not final and self._is_unsearched(reply):
            return self._read()
        self._keep_reply(reply)
        meter, calls, reason = self.loop.meter, Call.of(reply), reply.stop_reason
        if not reply.complete:
            if meter.reached != "timeout":
                self.tell(Notice("the model's answer broke off; this is what had arrived"))
            return Then.DONE
        may_run = not final or TABLE_TOOL in [call.name for call in calls]
        if calls and may_run and reason not in ("refusal", "model_context_window_exceeded"):
            return calls
        if reason == "pause_turn" and not final:
            if meter.steps < self.limits.max_steps:
                return Then.AGAIN  # the paused turn goes back as it is
            meter.reach("max_steps")
            return self._nudge(FINAL_NUDGE)
        if note := STOPPED.get(str(reason), f"the model stopped for a reason unknown here: {reason}"):
            self.tell(Notice(note))
        untabled = bool(self.columns) and not self._reading and self.rows is None and reason != "pause_turn"
        lacking = untabled or not reply.text.strip()
        if lacking and reason in ("end_turn", "tool_use", "pause_turn") and not self._nudged:
            self._nudged = True
            return self._nudge(TABLE_NUDGE if self.columns else FINAL_NUDGE, final=final or untabled)
        return Then.DONE

    def give(self, runner: CallRunner, calls: Sequence[Call]) -> Then:
        """Put the results into one user message; what a model reads stands in front of its question."""
        results = [runner.blocks[call.id] for call in calls]
        if self._reading:
            question = self.loop.messages[-1]
            self.loop.messages[-1] = {**question, "content": [*results[0]["content"], *question["content"]]}
            return Then.AGAIN
        self.loop.messages.append({"role": "user", "content": results})
        return Then.AGAIN if self.rows is None and not self.loop.final else Then.DONE

    def failed(self, error: WebSearchError) -> Next:
        """Ask without tools where the server refuses them in its first answer, or raise the error."""
        may_read = self.session.settings.retrieve_first != "never" and not self._reading and self.loop.meter.steps == 1
        if not (may_read and refuses_tools(error)):
            raise error
        self.client.without_tools.add(self.model)
        return self._read()

    def _result(self, call_id: str, output: ToolOutput) -> dict[str, Any]:
        """Return a call's result, whose passages may be cited from now on. Where the API gives no citations, passages are
        numbered for the model to cite, from 1 in each question."""
        for passage in output.passages:
            self.text.book.know(passage.url, passage.title, passage.published_date, passage.paragraphs, passage.read)
        if self.text.given is not None and output.passages and not output.is_error:
            text = plain_results(output.passages, first=len(self.text.given) + 1, most=READ_CHARACTERS)
            self.text.given += output.passages
            output = replace(output, text=text)
        return tool_result(call_id, output, self._platform)

    def _keep_reply(self, reply: Reply) -> None:
        """Take a reply into the history; of one that broke off, only its text."""
        messages, self.loop.shown = self.loop.messages, False
        self.stop_reason = reply.stop_reason
        self._container = reply.container or self._container
        turn = assistant_message(b for b in reply.content if reply.complete or b.get("type") == "text")
        if turn and messages[-1]["role"] == "assistant":  # it goes on after a pause
            turn = {**turn, "content": [*messages.pop()["content"], *turn["content"]]}
        messages += [turn] if turn else []

    def _nudge(self, text: str, *, final: bool = True) -> Then:
        """Ask once more, for the table that was wanted or for words."""
        self.loop.final = final
        history = closed(self.loop.messages)
        asks = history[-1]["role"] == "user"
        self.loop.messages = with_nudge(history, text) if asks else [*history, user_message(text)]
        return Then.AGAIN

    # --- reading: the question with what a search for it found -------------------------------------------------------

    def _is_unsearched(self, reply: Reply) -> bool:
        """Return whether a first reply should have searched: its model seems not to know how to call tools."""
        auto = self.session.settings.retrieve_first == "auto" and self._search is not None
        is_first = self.loop.meter.steps == 1 < self.limits.max_steps
        return auto and is_first and answers_unsearched(reply, self.model, self.asked.question)

    def _read(self) -> Next:
        """Start over without tools, and return the search for the question if it needs one; shown text is retracted."""
        loop, search, always = self.loop, self._search, self.session.settings.retrieve_first == "always"
        if loop.meter.steps:
            loop.shown = False
            self.text.retract()
            self.tell(Retracted())
        self._reading = loop.final = True
        loop.messages = without_thinking(loop.messages)
        if search is None or not (always or loop.reply.text or needs_search(self.asked.question)):
            return Then.AGAIN
        if loop.meter.steps:
            self.tell(Notice(RETRIEVED))
        self.tell(ToolStarted(search.id, search.name, search.input))
        return [search]

    # --- repairing: a new answer for sentences without support -------------------------------------------------------

    async def _repair(self) -> None:
        """Have the model mend the sentences that its sources do not support, once and unseen. The first answer stands until
        there is a better one; a limit that ends this is none of the answer's."""
        claims, loop = self._claims(), self.loop
        faulty = [claim for claim in claims if claim.verdict == "unsupported"]
        if not (faulty and loop.meter.seconds_left):
            return
        self._repairing, reached = repair_nudge(faulty), loop.meter.reached
        loop.final = loop.needs_results = True
        loop.retries = 0
        try:
            await self._run(Then.AGAIN)
            problem = self._replaced(loop.reply, claims)
        except WebSearchError as exc:
            problem = str(exc)
        self._repairing, loop.meter.reached = "", reached
        told = plural(len(faulty), "sentence without support", "sentences without support")
        if problem:
            self.tell(Notice(f"{told} could not be mended, and the first answer stands: {problem}"))
        else:
            self.tell(Notice(f"the model was asked to mend {told}, and wrote this answer anew"))
            self.tell(Rewritten(str(self.text), self.text.book.citations))

    def _replaced(self, reply: Reply, claims: Sequence[Claim]) -> str:
        """Replace the first answer by a new one that is whole and better; return the problem otherwise, "" without one."""
        text = AnswerText(CitationBook(like=self.text.book), self.text.given)
        for block in reply.content:
            text.write(str(block.get("text") or ""))
            text.cite(block)
        if reply.stop_reason != "end_turn":
            return f"the model's new answer ended with {reply.stop_reason or 'the time limit'}"
        if not text or not is_better(text.book.claims(str(text)), claims):
            return "the new answer was no better"
        self.text = text
        self.loop.messages += filter(None, [user_message(self._repairing), assistant_message(reply.content)])
        return ""

    # --- what people see ---------------------------------------------------------------------------------------------

    def tell(self, event: Event) -> None:
        """Book and emit an event; keep its panel or notice for the answer. A limit that was reached is told before it, once."""
        meter = self.loop.meter
        if meter.reached and not (self._limit_told or self._repairing):
            self._limit_told = True
            self._emit(LimitReached(meter.reached, meter.explain(meter.reached)))
        match event:
            case TextDelta():
                self.loop.shown = True
            case ToolFinished(panel=Panel() as panel):
                self._panels.append(panel)
            case Notice(text=text):
                if text in self.notices:
                    return
                self.notices.append(text)
            case ModelRequested():
                self.text.step()
        self.booking.take(event)
        self._emit(event)

    def _show(self, raw: Sequence[RawEvent]) -> None:
        """Emit the visible events among raw ones; pieces of text that came together become one."""
        if self._repairing:
            return
        visible: list[Event] = []
        text = ""
        for event in raw:
            kind, delta = event.get("type"), event.get("delta") or {}
            if kind == "content_block_delta" and delta.get("type") == "text_delta":
                text += delta.get("text") or ""
            elif kind == "content_block_stop" and (block := self.loop.reply.blocks.get(int(event.get("index") or 0))):
                visible += [*self.text.write(text), *self._ended(block)]
                text = ""
        for shown in (*visible, *self.text.write(text)):
            self.tell(shown)

    def _ended(self, block: Mapping[str, Any]) -> Sequence[Event]:
        """Return the visible events of a block that has ended; the result of a tool that the API ran gets a panel."""
        kind = str(block.get("type"))
        if kind == "text":
            return self.text.cite(block)
        if kind in CALLS:
            return [ToolStarted(str(block.get("id")), str(block.get("name")), block.get("input") or {})]
        if not kind.endswith("_tool_result"):
            return ()
        name, content = kind.removesuffix("_tool_result"), block.get("content")
        found = [part for part in (content if isinstance(content, list) else [content]) if isinstance(part, Mapping)]
        code = next((part["error_code"] for part in found if part.get("error_code")), "")
        for part in found:
            page = part["content"] if isinstance(part.get("content"), Mapping) else part
            if url := str(part.get("url") or ""):
                self.loop.runner.context.known_urls.add(url)
                self.text.book.know(url, str(page.get("title") or ""))
        shown = [{k: v for k, v in part.items() if not k.startswith("encrypted")} for part in found]
        panel = self.session.panels.add(name, shown, tool=name, is_error=bool(code))
        summary = f"error: {code}" if code else plural(len(found), "result")
        return [ToolFinished(str(block.get("tool_use_id")), name, summary, bool(code), panel=panel, content=content)]


def model_to_ask(session: Session, model: str | None, sends: bool = True) -> tuple[ModelClient, str]:
    """Return the client and the id for a model's name; None is the setting, or the offline model without a key."""
    name = model_id(model or session.settings.model)
    if name != OFFLINE_MODEL:
        if session.has_model_key or (model and not sends):  # what it would cost can be known without a key
            return session.claude, name
        if model:
            raise session.keys.missing("ANTHROPIC_API_KEY")
    return session.offline_model, OFFLINE_MODEL


# The notice for each stop reason, "" for the usual ones.
STOPPED = {
    **dict.fromkeys(("end_turn", "stop_sequence", "tool_use", "pause_turn"), ""),
    "max_tokens": "the answer was cut off at max_tokens; raise it with %config WebSearch.max_tokens, or raise the budget",
    "refusal": "the model declined to answer",
    "model_context_window_exceeded": "the answer was cut off: the model's context window is full; ask anew without --follow",
}


def repair_nudge(faulty: Sequence[Claim]) -> str:
    """Return the request to mend sentences, each with what its sources lack."""
    lines = [
        f"{n}. {claim.sentence}" + (f" (not in its sources: {', '.join(claim.missing)})" if claim.missing else "")
        for n, claim in enumerate(faulty, 1)
    ]
    return REPAIR_NUDGE.format(sentences="\n".join(lines))


def is_better(new: Sequence[Claim], old: Sequence[Claim]) -> bool:
    """Return whether fewer sentences lack support, and not only because marks were dropped or most was left out."""
    faulty = [claim for claim in old if claim.verdict == "unsupported"]
    known = [part for claim in faulty for part in (claim.sentence, *claim.missing)]
    left = [c for c in new if c.verdict == "unsupported" or (c.verdict == "uncited" and any(p in c.sentence for p in known))]
    kept, had = (sum(claim.verdict == "supported" for claim in claims) for claims in (new, old))
    return len(left) < len(faulty) and kept >= _LEAST_KEPT * had


# --- the run ------------------------------------------------------------------------------------------------------------


class AskRun:
    """A question under way: iterate over it for its events, with `async for` on any event loop, or with `for`.

    At the end `answer` is there. The iteration may be left at any moment: the answer so far is in `answer` and in the
    conversation, and what was spent is booked.
    """

    def __init__(self, loop: AnswerLoop) -> None:
        self.loop = loop
        self.booking = loop.booking
        self.answer: Answer | None = None
        self._task: background.Task[Answer] | None = None
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()

    async def answered(self, emit: Callable[[Event], object] = lambda event: None) -> Answer:
        """Answer the question, on the background loop, and return the answer; `emit` gets each event."""
        # The first look into the price list takes 0.2 s: while the model thinks, not on the event loop.
        asyncio.get_running_loop().run_in_executor(None, tariff, self.loop.model)
        meter = self.loop.loop.meter
        try:
            await self.loop.client.prepare()
            await self.loop.converse(emit)
            answer = self._keep(meter.reached)
            self.loop.tell(Finished(answer))
            return answer
        except ModelError as exc:
            exc.partial = self._keep(meter.reached) if self.loop.text else None
            raise
        except asyncio.CancelledError:
            self._keep("interrupted")
            raise
        finally:
            if self.answer is None:
                self.loop.close()

    def _keep(self, limit: LimitName | None) -> Answer:
        self.answer = self.answer or self.loop.kept(limit)
        return self.answer

    # --- events for another thread or event loop --------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        return _Events(self)

    async def __anext__(self) -> Event:
        try:
            if bool(self._events) or await background.awaited(self._more):
                return self._events.popleft()
        except BaseException:
            self.stop()
            raise
        raise StopAsyncIteration

    def __iter__(self) -> Iterator[Event]:
        try:
            while bool(self._events) or background.run(self._more):
                yield self._events.popleft()
        finally:
            self.stop()

    def stop(self) -> Answer | None:
        """Stop the run, if it is under way, and return the answer so far (None: it failed, or never began)."""
        if self._task is not None and not self._task.cancel():  # it takes longer than a second to end
            self._keep("interrupted")
        return self.answer

    async def aclose(self) -> None:
        """Stop the run, if it is under way."""
        self.stop()

    async def _more(self) -> bool:
        """Wait, on the background loop, for events; return whether there are any, or raise the error that ended the run. The
        first call starts the run."""
        if self._task is None:
            self._task = background.Task(partial(self.answered, self._put))
            self._task.future.add_done_callback(lambda ended: self._arrived.set())
        while not (self._events or self._task.future.done()):
            self._arrived.clear()
            await self._arrived.wait()
        if not self._events:
            with suppress(CancelledError):  # the reader's own `stop`
                self._task.future.result()
        return bool(self._events)

    def _put(self, event: Event) -> None:
        self._events.append(event)
        self._arrived.set()


class _Events:
    """One iteration over a run. Python drops it when the loop over it is left, by `break` too, and the run stops at once; a
    generator would be closed later."""

    def __init__(self, run: AskRun) -> None:
        self._run = run

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> Event:
        return await self._run.__anext__()

    def __del__(self) -> None:
        self._run.stop()
