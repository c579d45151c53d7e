"""The composition root: one session ties settings, keys, engines, the model, the ledger and the conversation together.

Nothing is opened when a session is made; each part opens at its first use. A session may be used from several event loops
(the background one behind the blocking functions, the notebook's own): clients belong to the loop that runs.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ipy_websearch.ask_run import AskRun
from ipy_websearch.booking import Booking, add_money
from ipy_websearch.config import OFFLINE_MODEL, WebSearch
from ipy_websearch.errors import BudgetExceededError, ConfigError
from ipy_websearch.events import Money
from ipy_websearch.loop.job import Job
from ipy_websearch.loop.prompts import system_prompt
from ipy_websearch.loop.run import AnswerLoop
from ipy_websearch.loop.table import TABLE_PROMPT, parse_columns
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.names import model_id
from ipy_websearch.model.server_tools import server_tools, without_native
from ipy_websearch.options import as_tuple, at_least, money, positive
from ipy_websearch.parts import Parts
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.purse import Ceiling, CeilingPurse
from ipy_websearch.results import Answer, Page, SearchResults
from ipy_websearch.tools.addresses import addresses_in, addresses_of
from ipy_websearch.tools.sets import build_tools
from ipy_websearch.usage import Charge, Limits

if TYPE_CHECKING:
    import pandas as pd


KEPT_ANSWERS = 50


class Session(Parts):
    """Everything that belongs together between two restarts of a kernel.

    Its methods are coroutines: `answer = await session.ask("…")`. The module's functions of the same names block.
    """

    def __init__(self, settings: WebSearch | None = None, *, folder: Path | None = None) -> None:
        super().__init__(settings, folder=folder)
        self.id = uuid.uuid4().hex[:12]
        self.answers: list[Answer] = []
        self.spent_usd: Money = Decimal(0)
        self._ceiling = Ceiling("session budget", None)

    # --- what it does -----------------------------------------------------------------------------------------------

    def search_request(self, query: str, **options: Any) -> SearchRequest:
        """Return the request for a search with this session's settings for all that `options` leave open (None).

        Raises:
            ConfigError: a value is not allowed; nothing was sent.
        """
        settings = self.settings
        given = {name: value for name, value in options.items() if value is not None}
        goggles = given.pop("goggles", ())
        return SearchRequest(
            query,
            count=given.pop("count", settings.count),
            country=given.pop("country", settings.country),
            language=given.pop("language", settings.language),
            safe_search=given.pop("safe_search", settings.safe_search),
            allowed_domains=as_tuple(given.pop("allowed_domains", ())),
            blocked_domains=as_tuple(given.pop("blocked_domains", ())),
            goggles=as_tuple(goggles),
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
        expected, _ = self._expected_charges(provider), self.prices
        purse = self._purse(self.settings.model, None)
        if expected and not purse.can_pay(expected):
            self._refuse_search(expected)
        charges: Sequence[Charge] = ()
        try:
            results = await self.router.search(request, provider=provider or self.settings.provider or None, fresh=fresh)
            charges = results.charges
        finally:
            if expected:
                purse.paid(expected, charges)
        booking = Booking(self.ledger, self.id, uuid.uuid4().hex[:12], query)
        booking.charges(charges)
        self.spent_usd = add_money(self.spent_usd, booking.cost_usd)
        return results

    async def fetch(self, url: str, *, offset: int = 1, limit: int | None = None, fresh: bool = False) -> Page:
        """Fetch a page as Markdown; see `ipy_websearch.fetch` for the arguments and errors."""
        return await self.reader.read(url, offset=offset, limit=limit, fresh=fresh)

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
    ) -> AskRun:
        """Return a run that answers the question while its events are iterated over.

        Raises:
            ConfigError: an option is wrong, or the question is empty; nothing was sent.
            MissingKeyError: a model was asked for by name and there is no key for it.
        """
        if not question.strip():
            raise ConfigError("there is no question; write it behind the options (in a cell: %%ask, then the question)")
        settings, _ = self.settings, self.prices
        client, name = self._client_for(model)
        limits = Limits(
            max_searches=at_least(0, "max_searches", max_searches, settings.max_searches),
            max_steps=at_least(1, "max_steps", max_steps, settings.max_steps),
            budget_usd=money("budget_usd", budget_usd if budget_usd is not None else settings.budget_usd),
            timeout_s=positive("timeout_s", timeout_s, settings.timeout_s),
        )
        wanted = provider or settings.provider or None
        if wanted:
            self.router.check(wanted)
        defaults = self.search_request("placeholder", allowed_domains=allowed_domains, blocked_domains=blocked_domains)
        history = self._history() if follow else ()
        table = parse_columns(columns) if columns is not None else None
        names, native = without_native(tools if tools is not None else settings.tools)
        server = server_tools(name, client.platform, limits.max_searches, defaults) if native else ()
        job = Job(
            question=question,
            model=name,
            system=system_prompt(date.today(), "\n\n".join(filter(None, (TABLE_PROMPT if table else "", system)))),
            tools=build_tools(names, self._tool_makers(defaults, wanted, fresh)),
            server_tools=server,
            history=history,
            limits=limits,
            max_tokens=settings.max_tokens,
            columns=table,
            known_urls=frozenset(addresses_in(question).union(*(addresses_of(message) for message in history))),
        )
        purse = self._purse(name, limits.budget_usd)
        return AskRun(AnswerLoop(client, job, self.panels, purse), self.ledger, self.id, self._keep)

    def cost(self, **options: Any) -> pd.DataFrame:
        """Return what this session spent, one row for each ledger entry; see `ipy_websearch.cost`."""
        return self.ledger.frame(session=self.id, **options)

    def reset(self) -> None:
        """Forget the conversation; the ledger and the panels stay."""
        self.answers.clear()

    # --- how --------------------------------------------------------------------------------------------------------

    def _client_for(self, model: str | None) -> tuple[ModelClient, str]:
        """Return the client and the id for a model's name; None is the setting, or the offline model without a key."""
        name = model_id(model or self.settings.model)
        if name == OFFLINE_MODEL:
            return self.offline_model, OFFLINE_MODEL
        if self.has_model_key:
            return self.claude, name
        if model:
            raise self.credentials.missing("ANTHROPIC_API_KEY")
        return self.offline_model, OFFLINE_MODEL

    @property
    def has_model_key(self) -> bool:
        """Say whether questions can go to a real model: a key, a token, or the address of a server that wants none."""
        if self.credentials.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN"):
            return True
        return bool(os.environ.get("ANTHROPIC_BASE_URL")) and not self.claude.platform.server_tools

    def _tool_makers(self, defaults: SearchRequest, provider: str | None, fresh: bool) -> dict[str, Callable[[], Any]]:
        def web_search() -> Any:
            from ipy_websearch.tools.web_search import web_search_tool

            async def search(request: SearchRequest) -> SearchResults:
                return await self.router.search(request, provider=provider, fresh=fresh)

            return web_search_tool(search, defaults, price=self._expected_charges(provider))

        def web_fetch() -> Any:
            from ipy_websearch.tools.web_fetch import web_fetch_tool

            return web_fetch_tool(
                self.reader, fresh=fresh, allowed_domains=defaults.allowed_domains, blocked_domains=defaults.blocked_domains
            )

        return {"web_search": web_search, "web_fetch": web_fetch}

    def _expected_charges(self, provider: str | None) -> tuple[Charge, ...]:
        """Return what a search is expected to be billed: that of the engine that will be asked first."""
        return self.router.expected_charges(provider or self.settings.provider or None)

    def _refuse_search(self, expected: Sequence[Charge]) -> None:
        raise BudgetExceededError(
            f"a search with {expected[0].provider} would pass the session budget of {self._ceiling.limit:f} USD; "
            "raise it with %cost --budget, or use --provider wikipedia"
        )

    def _purse(self, model: str, budget_usd: Decimal | None) -> CeilingPurse:
        limit = self.settings.session_budget_usd
        self._ceiling.limit = None if limit is None else Decimal(str(limit))
        return CeilingPurse(model, (Ceiling("question's budget", budget_usd), self._ceiling))

    def _keep(self, booking: Booking, answer: Answer | None) -> Answer | None:
        """Add a question's cost to the session's, and its answer, if there is one, to the conversation."""
        self.spent_usd = add_money(self.spent_usd, booking.cost_usd)
        if answer is None:
            return None
        answer = replace(answer, session_cost_usd=self.spent_usd)
        self.answers.append(answer)
        del self.answers[:-KEPT_ANSWERS]
        return answer

    def _history(self) -> tuple[dict[str, Any], ...]:
        if not self.answers:
            raise ConfigError("there is no earlier answer to follow up on; ask without --follow first")
        return tuple(dict(message) for message in self.answers[-1].messages)
