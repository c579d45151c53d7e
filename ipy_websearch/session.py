"""The composition root: one session ties settings, keys, engines, the model, the ledger and the conversation together.

Nothing is opened when a session is made; each part opens at its first use. A session may be used from several event loops
(the background one behind the blocking functions, the notebook's own): clients belong to the loop that runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ipy_websearch.ask_run import AskRun, paid_sleep
from ipy_websearch.booking import Booking, add_money
from ipy_websearch.errors import BudgetExceededError, ConfigError, WebSearchError
from ipy_websearch.estimate import Estimate, estimate_of
from ipy_websearch.loop.history import trimmed
from ipy_websearch.loop.job import Job
from ipy_websearch.loop.prompts import system_prompt
from ipy_websearch.loop.run import AnswerLoop
from ipy_websearch.loop.table import TABLE_PROMPT, parse_columns
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.names import context_window, model_id, unknown_note
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.options import as_tuple, text, texts, whole
from ipy_websearch.paid_tools import native_searches, offered, search_price
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.chosen import engine_to_ask
from ipy_websearch.providers.goggle_catalogue import resolve
from ipy_websearch.results import Answer, Page, SearchResults
from ipy_websearch.settings import OFFLINE_MODEL, WebSearch
from ipy_websearch.taping import Tapes
from ipy_websearch.tools.addresses import addresses_in, addresses_of
from ipy_websearch.tools.base import Tool
from ipy_websearch.tools.kit import Kit

if TYPE_CHECKING:
    import pandas as pd

    from ipy_websearch.enrichment.run import Enrichment

KEPT_ANSWERS = 50
HISTORY_SHARE = 0.6
"""The share of what a model can read that an earlier conversation may take."""


class Session(Tapes):
    """Everything that belongs together between two restarts of a kernel.

    Its methods are coroutines: `answer = await session.ask("…")`. The module's functions of the same names block.

    >>> import asyncio
    >>> asyncio.run(Session().search("moons of Mars", provider="local"))[0].title
    'Mars'
    """

    def __init__(self, settings: WebSearch | None = None, *, folder: Path | None = None) -> None:
        super().__init__(settings, folder=folder)
        self.answers: list[Answer] = []

    # --- what it does -----------------------------------------------------------------------------------------------

    def search_request(self, query: str, **options: Any) -> SearchRequest:
        """Return the request for a search with this session's settings for all that `options` leave open (None).

        Raises:
            ConfigError: a value is not allowed; nothing was sent.
        """
        settings = self.settings
        given = {name: value for name, value in options.items() if value is not None}
        goggles = given.pop("goggles", ())
        texts(**{name: given.get(name) for name in ("freshness", "country", "language", "safe_search")})
        return SearchRequest(
            text("query", query, "moons of Mars"),
            count=whole("count", given.pop("count", settings.count)),
            country=given.pop("country", settings.country),
            language=given.pop("language", settings.language),
            safe_search=given.pop("safe_search", settings.safe_search),
            allowed_domains=as_tuple(given.pop("allowed_domains", ()), "allowed_domains"),
            blocked_domains=as_tuple(given.pop("blocked_domains", ()), "blocked_domains"),
            goggles=tuple(resolve(goggle) for goggle in as_tuple(goggles, "goggles")),
            **given,
        )

    async def search(
        self,
        query: str,
        *,
        count: int | None = None,
        provider: str | None = None,
        freshness: str | None = None,
        country: str | None = None,
        language: str | None = None,
        safe_search: Literal["off", "moderate", "strict"] | None = None,
        allowed_domains: Sequence[str] = (),
        blocked_domains: Sequence[str] = (),
        goggles: str | Sequence[str] | None = None,
        fresh: bool = False,
    ) -> SearchResults:
        """Search the web; see `ipy_websearch.search` for the arguments and errors."""
        request = self.search_request(
            query,
            count=count,
            freshness=freshness,
            country=country,
            language=language,
            safe_search=safe_search,
            allowed_domains=allowed_domains,
            blocked_domains=blocked_domains,
            goggles=goggles,
        )
        (engine, said), _ = self._engine_to_ask(provider), self.prices
        purse = self.budgets.purse("", None, answers=False)
        expected = search_price(self.router, engine, request.count, worst=self.budgets.room() is not None)
        if expected and not fresh and self.router.has(request, engine):
            expected = ()
        if expected and not purse.can_pay(expected):
            raise BudgetExceededError(f"{purse.search_refusal(expected)}; or use --provider wikipedia, which is free")
        booking = self.booking(query)
        charges, status = expected, "interrupted"
        try:
            results = await self.router.search(request, provider=engine, fresh=fresh)
            charges, status = results.charges, "ok"
        except WebSearchError as exc:
            charges, status = getattr(exc, "charges", ()), "error"
            raise
        finally:
            purse.paid(expected, charges)
            booking.charges(charges, status=status)
            self.spent_usd = add_money(self.spent_usd, booking.cost_usd)
        results = self.as_replayed(results)
        return replace(results, notices=(*said, *results.notices)) if said else results

    async def fetch(self, url: str, *, offset: int = 1, limit: int | None = None, fresh: bool = False) -> Page:
        """Fetch a page as Markdown; see `ipy_websearch.fetch` for the arguments and errors."""
        text("url", url, "https://example.com/page")
        lines = None if limit is None else whole("limit", limit)
        return await self.reader.read(url, offset=whole("offset", offset), limit=lines, fresh=fresh)

    def enrichment(self, frame: pd.DataFrame, columns: Mapping[str, Any], **options: Any) -> Enrichment:
        """Return an enrichment, planned and not yet run; it takes the arguments of `enrich`."""
        from ipy_websearch.enrichment.start import start

        self.forget_miss()
        return start(self, frame, columns, **options)

    async def enrich(self, frame: pd.DataFrame, columns: Mapping[str, Any], **options: Any) -> pd.DataFrame:
        """Return the frame with columns filled from the web; see `ipy_websearch.enrich` for the arguments and errors."""
        from ipy_websearch.enrichment.start import enrich

        return await enrich(self.enrichment, frame, columns, **options)

    async def ask(self, question: str, **options: Any) -> Answer:
        """Answer a question; see `ipy_websearch.ask` for the arguments and errors."""
        run = self.start(question, **options)
        async for _ in run:
            pass
        assert run.answer is not None
        return run.answer

    def start(
        self,
        question: str,
        *,
        model: str | None = None,
        tools: str | Sequence[str] | None = None,
        provider: str | None = None,
        max_searches: int | None = None,
        max_steps: int | None = None,
        budget_usd: Decimal | float | str | None = None,
        timeout_s: float | None = None,
        allowed_domains: Sequence[str] = (),
        blocked_domains: Sequence[str] = (),
        columns: str | Mapping[str, type] | Sequence[str] | None = None,
        system: str | None = None,
        follow: bool = False,
        fresh: bool = False,
        sends: bool = True,
    ) -> AskRun:
        """Return a run that answers the question while its events are iterated over; with `sends` False, only to estimate it.

        Raises:
            ConfigError: an option is wrong, or the question is empty; nothing was sent.
            MissingKeyError: a model was asked for by name and there is no key for it.
        """
        texts(model=model, provider=provider, system=system)
        if not text("question", question, "How many moons does Mars have?").strip():
            raise ConfigError("there is no question; write it behind the options (in a cell: %%ask, then the question)")
        settings, _ = self.settings, self.prices
        client, name = self._client_for(model, sends)
        limits = self.limits(max_searches, max_steps, budget_usd, timeout_s)
        wanted, fallback = self._engine_to_ask(provider)
        defaults = self.search_request("placeholder", allowed_domains=allowed_domains, blocked_domains=blocked_domains)
        history, forgotten = self._history(name) if follow else ((), ())
        table, kit = parse_columns(columns) if columns is not None else None, self._kit(defaults, wanted, fresh)
        asked = tools if tools is not None else settings.tools
        offer = offered(kit, asked, self.credentials, client.platform, name, limits, self.budgets.room(limits.budget_usd))
        job = Job(
            question=question,
            model=name,
            system=_prompt(offer.names, TABLE_PROMPT if table else "", system or ""),
            tools=offer.tools,
            server_tools=offer.server_tools,
            history=history,
            limits=limits,
            max_tokens=settings.max_tokens,
            columns=table,
            known_urls=frozenset(addresses_in(question).union(*(addresses_of(message) for message in history))),
        )
        purse = self.budgets.purse(name, limits.budget_usd, server_searches=native_searches(offer.server_tools))
        named = "" if client.platform.other_models else unknown_note(name)
        notices = [*filter(None, [named]), *fallback, *offer.notices, *forgotten]
        loop = AnswerLoop(client, job, self.panels, purse, sleep=paid_sleep(purse), notices=notices)
        if follow:
            loop.follow(self.answers[-1])
        return AskRun(loop, self.booking(question), self._keep, purse)

    def estimate(self, question: str, **options: Any) -> Estimate:
        """Return what a question may cost and use, with the same options as `ask`; nothing is sent.

        Raises:
            ConfigError: an option is wrong. MissingKeyError: an engine was named without a key; a model needs none here.
        """
        loop = self.start(question, sends=False, **options).loop
        budget = loop.job.limits.budget_usd
        searching = next((tool.price for tool in loop.job.tools if tool.counts_as_search), ())
        purse = self.budgets.purse(loop.job.model, budget, server_searches=native_searches(loop.job.server_tools))
        return estimate_of(loop, purse, searching, self.budgets.room(budget))

    def reset(self) -> None:
        """Forget the conversation; the ledger and the panels stay."""
        self.answers.clear()

    # --- how --------------------------------------------------------------------------------------------------------

    def _client_for(self, model: str | None, sends: bool) -> tuple[ModelClient, str]:
        """Return the client and the id for a model's name; None is the setting, or the offline model without a key."""
        name = model_id(model or self.settings.model)
        if name == OFFLINE_MODEL:
            return self.offline_model, OFFLINE_MODEL
        if self.has_model_key or (model and not sends):  # what it would cost can be known without a key
            return self.claude, name
        if model:
            raise self.credentials.missing("ANTHROPIC_API_KEY")
        return self.offline_model, OFFLINE_MODEL

    def _engine_to_ask(self, provider: str | None) -> tuple[str | None, tuple[str, ...]]:
        """Return the engine that searches go to (None: the chain) and what the reader should know of the choice.

        Raises:
            ConfigError: the engine cannot be asked.
        """
        texts(provider=provider)
        wanted, notices = engine_to_ask(provider, self.settings.provider, self.settings.search_tools)
        if wanted:
            self.router.check(wanted)
        return wanted, notices

    def _kit(self, defaults: SearchRequest, provider: str | None, fresh: bool) -> Kit:
        """Return what the tools of one question are made of."""
        ttl_s = self.settings.cache_ttl_s
        research = self._research if self.settings.research_root else None
        return Kit(self.router, lambda: self.reader, self.cache, lambda: ttl_s, defaults, provider, fresh, research)

    def _research(self) -> Tool:
        from ipy_websearch.tools.read_research import read_research_tool

        return read_research_tool(self.settings.research_root, self.http, self.credentials, base=self.folder)

    def _keep(self, booking: Booking, answer: Answer | None) -> Answer | None:
        """Add a question's cost to the session's, and its answer, if there is one, to the conversation."""
        self.cache.write_held()
        self.spent_usd = add_money(self.spent_usd, booking.cost_usd)
        if answer is None:
            return None
        answer = replace(answer, session_cost_usd=self.spent_usd)
        self.answers.append(answer)
        del self.answers[:-KEPT_ANSWERS]
        return answer

    def _history(self, model: str) -> tuple[tuple[dict[str, Any], ...], tuple[str, ...]]:
        """Return the conversation so far, as much of it as the model can read, and what was left out."""
        if not self.answers:
            raise ConfigError("there is no earlier answer to follow up on; ask without --follow first")
        most = int(context_window(model) * HISTORY_SHARE)
        kept, dropped = trimmed([dict(m) for m in self.answers[-1].messages], most, lambda m: estimate_tokens({"messages": m}))
        oldest = "turn was" if dropped == 1 else f"{dropped} turns were"
        return tuple(kept), ((f"the conversation is long: its oldest {oldest} left out",) if dropped else ())


def _prompt(tools: Sequence[str], *extra: str) -> str:
    """Return the system prompt for these tools, with the further instructions at its end."""
    return system_prompt(date.today(), "\n\n".join(filter(None, extra)), tools)
