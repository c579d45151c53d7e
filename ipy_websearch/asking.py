"""A question: prepared from its options and the session's settings, and run as a stream of events."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from ipy_websearch import background
from ipy_websearch.errors import ConfigError, ModelError
from ipy_websearch.loop.ask import AnswerLoop, Job
from ipy_websearch.loop.offer import offered, parse_columns, system_prompt
from ipy_websearch.model.client import ModelClient, context_window, model_id, thinking_fields, unknown_note
from ipy_websearch.model.requests import Message, estimate_tokens, prompt_tokens, server_searches, trimmed
from ipy_websearch.money.budget import Booking, Estimate, estimate
from ipy_websearch.money.prices import add_money, is_at_hand, model_cost, own_prices
from ipy_websearch.options import AskOptions
from ipy_websearch.providers.passages import ALL_TOKENS
from ipy_websearch.results import Answer, Event, Finished, Money, Notice, Usage
from ipy_websearch.settings import OFFLINE_MODEL
from ipy_websearch.tools.base import ToolFactory
from ipy_websearch.tools.research import read_research_tool
from ipy_websearch.tools.web import addresses_in, addresses_of

if TYPE_CHECKING:
    from ipy_websearch.session import Session

KEPT_ANSWERS = 50
# The share of a model's context window that an earlier conversation may take.
HISTORY_SHARE = 0.6

# Tokens that a budget keeps for a final answer at least when the model was told an effort: it thinks before it writes.
THINKING_ANSWER_TOKENS = 2_048


# --- the preparation ----------------------------------------------------------------------------------------------------


def prepared(session: Session, asked: AskOptions, *, sends: bool = True) -> AskRun:
    """Return the run for a question; with `sends` False it is only looked at, and the model needs no key.

    Raises:
        ConfigError: an option does not fit the settings, the model or the conversation; nothing was sent.
        MissingKeyError: a model or a provider was asked for by name and there is no key for it.
    """
    own_prices()  # a mistake in the user's price file shows here, before anything is spent
    settings = session.settings
    client, model = _model_to_ask(session, asked.model, sends)
    provider, fallback = session.provider_to_ask(asked.provider)
    history, forgotten = _history(session.answers, model) if asked.follow else ([], [])
    table = parse_columns(asked.columns) if asked.columns is not None else None
    effort = asked.effort if thinking_fields(model, asked.effort) else None

    limits = asked.limits(settings)
    thinks = {"least": THINKING_ANSWER_TOKENS} if effort else {}
    booking = session.booking(asked.question, limits.budget_usd, model=model, timeout_s=limits.timeout_s, **thinks)
    budget = booking.budget

    usual_pages = 0 if client.offline else settings.read_pages
    root = settings.research_root
    factory = ToolFactory(
        session.router,
        lambda: session.reader,
        session.search_request("placeholder", allowed_domains=asked.allowed_domains, blocked_domains=asked.blocked_domains),
        provider,
        fresh=asked.fresh,
        research=partial(read_research_tool, root, session.http, session.keys, base=session.folder) if root else None,
        bounded=budget.bounded,
        read_pages=usual_pages if asked.read_pages is None else asked.read_pages,
        exact=session.recording is not None,
    )
    tools = asked.tools if asked.tools is not None else settings.tools
    offer = offered(factory, tools, session.keys, client.platform, model, limits, budget.budget.left())
    read_pages = factory.read_pages if any(tool.name == "web_search" for tool in offer.tools) else 0
    budget.result_tokens += ALL_TOKENS if read_pages else 0
    budget.server_searches = server_searches(offer.server_tools)

    marked = bool(offer.names) and not client.platform_for(model).search_results
    job = Job(
        question=asked.question,
        model=model,
        system=system_prompt(offer.names, asked.system, read_pages=read_pages, marked=marked, table=bool(table)),
        reading_system=system_prompt((), asked.system, reading=True),
        retrieve_first=settings.retrieve_first,
        tools=offer.tools,
        server_tools=offer.server_tools,
        history=tuple(history),
        limits=limits,
        max_tokens=settings.max_tokens,
        columns=table,
        check=asked.check or settings.check,
        effort=effort,
        known_urls=frozenset(addresses_in(asked.question).union(*map(addresses_of, history))),
    )
    named = "" if client.platform.other_models else unknown_note(model)
    unable = f"{model} takes no effort; it answers as usual" if asked.effort and not effort else ""
    notices = [*filter(None, [named, unable]), *fallback, *offer.notices, *forgotten]
    loop = AnswerLoop(client, job, session.panels, budget, notices=notices)
    if asked.follow:
        loop.follow(session.answers[-1])
    return AskRun(session, loop, booking)


def _model_to_ask(session: Session, model: str | None, sends: bool) -> tuple[ModelClient, str]:
    """Return the client and the id for a model's name; None is the setting, or the offline model without a key."""
    name = model_id(model or session.settings.model)
    if name != OFFLINE_MODEL:
        if session.has_model_key or (model and not sends):  # what it would cost can be known without a key
            return session.claude, name
        if model:
            raise session.keys.missing("ANTHROPIC_API_KEY")
    return session.offline_model, OFFLINE_MODEL


def _history(answers: Sequence[Answer], model: str) -> tuple[list[Message], list[str]]:
    """Return the conversation so far, as much of it as the model can read, and a notice of the part left out."""
    if not answers:
        raise ConfigError("there is no earlier answer to follow up on; ask without --follow first")
    most = int(context_window(model) * HISTORY_SHARE)
    kept, dropped = trimmed([dict(m) for m in answers[-1].messages], most, lambda m: estimate_tokens({"messages": m}))
    oldest = "turn was" if dropped == 1 else f"{dropped} turns were"
    return kept, [f"the conversation is long: its oldest {oldest} left out"] if dropped else []


def estimated(loop: AnswerLoop) -> Estimate:
    """Return what a question may cost and use, from the loop that would answer it."""
    job, body = loop.job, loop.request(final=False)
    return estimate(
        loop.budget,
        job.limits,
        prompt_tokens=prompt_tokens(body),
        input_tokens=estimate_tokens(body),
        max_tokens=job.max_tokens,
        has_tools=bool(body.get("tools")),
        native_uses=sum(int(tool.get("max_uses", 0)) for tool in job.server_tools),
        searching=next((tool.price for tool in job.tools if tool.counts_as_search), ()),
    )


# --- the run ------------------------------------------------------------------------------------------------------------


class AskRun:
    """A question under way: iterate over it for its events, with `async for` on any event loop, or with `for`.

    `question` has its variables put in, `offline` says that the built-in model answers. At the end `answer` is there. The
    iteration may be left at any moment: the answer so far is in `answer` and in the conversation, and what was spent is booked.
    """

    def __init__(self, session: Session, loop: AnswerLoop, booking: Booking) -> None:
        self.loop = loop
        self.booking = booking
        self.question = loop.job.question
        self.offline = loop.client.offline
        self.answer: Answer | None = None
        self._session = session
        self._task: background.Task[None] | None = None
        self._events: queue.SimpleQueue[Event | BaseException | None] = queue.SimpleQueue()
        self._arrived = asyncio.Event()
        self._left = False

    async def answered(self, emit: Callable[[Event], object] = lambda event: None) -> Answer:
        """Answer the question, on the background loop, and return the answer; `emit` gets each event."""

        def take(event: Event) -> None:
            self.booking.take(event)
            emit(event)

        if not is_at_hand():  # look it up while the model thinks, not on the event loop
            asyncio.get_running_loop().run_in_executor(None, model_cost, self.loop.job.model, Usage())
        try:
            await self.loop.client.prepare()
            answer = await self.loop.answer(take)
            kept = self._keep(answer)
            for line in kept.notices[len(answer.notices) :]:
                emit(Notice(line))
            emit(Finished(kept))
            return kept
        except ModelError as exc:
            if exc.partial is not None:
                exc.partial = self._keep(exc.partial)
            raise
        except asyncio.CancelledError:
            self._interrupted()
            raise
        finally:
            self._book_the_rest()
            if self.answer is None:
                self._count_cost()

    # --- events for another thread or event loop --------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[Event]:
        return _Events(self)

    async def __anext__(self) -> Event:
        self._begin()
        try:
            if not self._left and self._events.empty():
                await background.awaited(self._arrival)
        except BaseException:
            self.stop()
            raise
        event = None if self._left else self._taken(self._events.get())
        if event is None:
            raise StopAsyncIteration
        return event

    def __iter__(self) -> Iterator[Event]:
        self._begin()
        try:
            while not self._left:
                try:
                    item = self._events.get(timeout=background.POLL_S)
                except queue.Empty:
                    continue
                if (event := self._taken(item)) is not None:
                    yield event
        finally:
            self.stop()

    def stop(self) -> Answer | None:
        """Stop the run, if it is under way, and return the answer so far (None: it failed, or never began)."""
        if not self._left and self._task is not None:
            self._left = True
            if not self._task.cancel():  # it takes longer than a second to end
                self._interrupted()
        return self.answer

    async def aclose(self) -> None:
        """Stop the run, if it is under way."""
        self.stop()

    def _begin(self) -> None:
        if self._task is None:
            self._task = background.Task(self._pump)

    async def _pump(self) -> None:
        ending = None
        try:
            await self.answered(self._emit)
        except BaseException as exc:
            ending = exc
        self._emit(ending)

    def _emit(self, item: Event | BaseException | None) -> None:
        self._events.put(item)
        self._arrived.set()

    async def _arrival(self) -> None:
        """Wait, on the background loop, until there is an event."""
        while self._events.empty():
            self._arrived.clear()
            await self._arrived.wait()

    def _taken(self, item: Event | BaseException | None) -> Event | None:
        """Return an event, or None at the end; raise the error that ended the run."""
        self._left = item is None or isinstance(item, BaseException)
        if isinstance(item, BaseException):
            raise item
        return item

    # --- booking ----------------------------------------------------------------------------------------------------

    def _interrupted(self) -> None:
        """Book what a cut-off request has used and keep the answer so far, with `limit` "interrupted"."""
        if self.answer is None:
            self._keep(self.loop.partial("interrupted"))

    def _book_the_rest(self) -> None:
        """Book what was sent and has not come to its end, and give back the money that was held for it."""
        self.booking.close(self.loop.loop.cut_off())

    def _keep(self, answer: Answer) -> Answer:
        """Take the answer into the conversation, with its steps, all that was spent on it, and what the ledger has to say."""
        self._book_the_rest()
        self.answer = replace(
            answer,
            cost_usd=self.booking.cost_usd,
            session_cost_usd=self._count_cost(),
            replayed_from=self.booking.replayed_from,
            trace=tuple(self.booking.steps),
            notices=(*answer.notices, *self.booking.ledger.news()),
        )
        self._session.answers.append(self.answer)
        del self._session.answers[:-KEPT_ANSWERS]
        return self.answer

    def _count_cost(self) -> Money:
        """Add what the question cost to what the session spent, and return the sum."""
        self._session.spent_usd = add_money(self._session.spent_usd, self.booking.cost_usd)
        return self._session.spent_usd


class _Events:
    """One iteration over a run, dropped when a loop over it is left by `break`, `return` or an error: the run stops then."""

    def __init__(self, run: AskRun) -> None:
        self._run = run

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> Event:
        return await self._run.__anext__()

    def __del__(self) -> None:
        self._run.stop()
