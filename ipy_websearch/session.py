"""One session: settings, keys, providers, the model, the ledger and the conversation of one kernel, put together.

Nothing is opened when a session is made; each part opens at its first use, on the background loop (`background`), where all
work runs. Its coroutines can be awaited on any event loop.
"""

from __future__ import annotations

import atexit
import os
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from ipy_websearch import background
from ipy_websearch.errors import BudgetExceededError, ConfigError, WebSearchError
from ipy_websearch.http.client import Cache, HttpClient, user_agent
from ipy_websearch.keys import Keys
from ipy_websearch.model.client import ModelClient
from ipy_websearch.money.budget import Booking, Budget, Estimate, RunBudget
from ipy_websearch.money.ledger import Ledger, cost_frame
from ipy_websearch.money.prices import add_money, own_prices
from ipy_websearch.options import AskOptions, EnrichOptions, checked, options_of
from ipy_websearch.providers.base import ProviderContext, SearchRequest
from ipy_websearch.providers.brave import resolve
from ipy_websearch.providers.router import SearchRouter, provider_to_ask
from ipy_websearch.results import Answer, Money, Page, Panels, SearchResults
from ipy_websearch.settings import WebSearch, data_dir, load_settings, settings_dir, settings_in_force

if TYPE_CHECKING:
    from ipy_websearch.cassette.recording import Player, Recording
    from ipy_websearch.enrichment.run import Enrichment
    from ipy_websearch.enrichment.store import Store
    from ipy_websearch.extract.reader import PageReader
    from ipy_websearch.frames import CostFrame
    from ipy_websearch.loop.ask import AskRun
    from ipy_websearch.providers.local import LocalProvider


class Session:
    """Everything that belongs together between two restarts of a kernel.

    Its methods are coroutines: `answer = await session.ask("…")`. The module's functions of the same names block. `id` names
    it in the ledger, `answers` is the conversation, `spent_usd` what it cost (None once a price was unknown), `recording` the
    cassette that is being recorded or replayed.

    >>> import asyncio
    >>> asyncio.run(Session().search("moons of Mars", provider="local"))[0].title
    'Mars'
    """

    def __init__(self, settings: WebSearch | None = None, *, folder: Path | None = None) -> None:
        self.folder = folder or Path.cwd()
        self.settings = settings or load_settings(self.folder)
        self.data_dir = data_dir()
        self.keys = Keys(settings_dir(), self.folder / ".env")
        self.panels = Panels()
        self.answers: list[Answer] = []
        self.last_step_shown: tuple[Answer | None, int] = (None, 0)  # of `%trace --step`
        self.recording: Recording | None = None
        self.download: Any = None  # gets a page's bytes in place of `http.download.download`
        self.id = uuid.uuid4().hex[:12]
        self.started = datetime.now(UTC)
        self.spent_usd: Money = Decimal(0)
        self._counted_from: datetime | None = None

    # --- parts, opened at first use ---------------------------------------------------------------------------------

    @cached_property
    def http(self) -> HttpClient:
        """The client for search providers."""
        return HttpClient(user_agent=user_agent(), secrets=self.keys.secrets)

    @cached_property
    def cache(self) -> Cache:
        """Earlier searches and pages."""
        return Cache(self.data_dir / "cache.sqlite")

    @cached_property
    def ledger(self) -> Ledger:
        """One row for each paid call."""
        return Ledger(self.data_dir / "ledger.sqlite", redact=self.redact)

    @cached_property
    def budget(self) -> Budget:
        """What the session may spend; `for_question` gives the budget of one question."""
        return Budget(self.ledger, self.id, lambda: self.settings)

    @cached_property
    def enrich_store(self) -> Store:
        """The values that enrichments found."""
        from ipy_websearch.enrichment.store import Store

        return Store(self.ledger)

    @cached_property
    def router(self) -> SearchRouter:
        """The chain of providers."""
        return SearchRouter(
            ProviderContext(self.http, self.keys, self.data_dir),
            cache=self.cache,
            cache_ttl_s=lambda: self.settings.cache_ttl_s,
            search_tools=lambda: self.settings.search_tools,
        )

    @cached_property
    def index(self) -> LocalProvider:
        """The local index: the embedded articles and the user's folders."""
        return cast("LocalProvider", self.router.provider("local"))

    @cached_property
    def reader(self) -> PageReader:
        """Reads pages."""
        from ipy_websearch.extract.reader import PageReader
        from ipy_websearch.http.download import download, page_proxy

        return PageReader(
            cache=self.cache,
            user_agent=user_agent(),
            cache_ttl_s=self.settings.cache_ttl_s,
            local=lambda url: self.index.document(url),
            download=lambda url, **options: (self.download or download)(
                url, proxy=page_proxy(self.settings.fetch_proxy, self.settings.fetch_through_proxy), **options
            ),
        )

    @cached_property
    def claude(self) -> ModelClient:
        """The model behind the Messages API."""
        return ModelClient(
            api_key=lambda: self.keys.get("ANTHROPIC_API_KEY"),
            platform=lambda: self.settings.platform,
            redact=self.redact,
        )

    @cached_property
    def offline_model(self) -> ModelClient:
        """The built-in model."""
        return ModelClient(api_key=lambda: None, offline=True)

    def redact(self, text: str) -> str:
        """Return `text` with every key that the session can find replaced by "[key]"."""
        for secret in self.keys.secrets():
            text = text.replace(secret, "[key]")
        return text

    @property
    def has_model_key(self) -> bool:
        """Whether questions can go to a real model: there is a key, a token, or a server that wants none.

        During a replay the cassette decides: it has answers of a model, or was recorded with the built-in one.
        """
        recorded = self.recording.has_model if self.recording else None
        if recorded is not None:
            return recorded
        key = self.keys.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_AUTH_TOKEN")
        own_server = os.environ.get("ANTHROPIC_BASE_URL") and not self.claude.platform.server_tools
        return bool(key or own_server) or self.settings.platform not in ("", "anthropic")

    # --- searching and reading --------------------------------------------------------------------------------------

    def search_request(self, query: str, **options: Any) -> SearchRequest:
        """Return the request for a search; options that are None are as the settings say.

        Raises:
            ConfigError: a value is not allowed; nothing was sent.
        """
        given = {name: getattr(self.settings, name) for name in ("count", "country", "language", "safe_search")}
        given |= {name: checked(name, value) for name, value in options.items() if value is not None}
        given["goggles"] = tuple(map(resolve, given.get("goggles", ())))
        return options_of(SearchRequest, checked("query", query), **given)

    def provider_to_ask(self, provider: str | None) -> str | None:
        """Return the provider that searches go to (None: the chain).

        Raises:
            ConfigError: the provider cannot be asked.
        """
        wanted = provider_to_ask(checked("provider", provider), self.settings.provider, self.settings.search_tools)
        if wanted:
            self.router.first(wanted)  # raises for one that cannot be asked
        return wanted

    @background.on_the_loop
    async def search(self, query: str, *, provider: str | None = None, fresh: bool = False, **options: Any) -> SearchResults:
        """Search the web; see `ipy_websearch.search` for the options and errors."""
        request = self.search_request(query, **options)
        engine = provider_to_ask(checked("provider", provider), self.settings.provider, self.settings.search_tools)
        own_prices()  # a mistake in the user's price file shows here, before anything is spent
        booking = self.booking(query)
        plan = self.router.plan(request, engine, fresh=checked("fresh", fresh))
        expected = plan.expected_charges
        if expected and booking.budget.bounded:
            expected = self.router.expected_charges(engine, request.count, worst=True)
        if expected and not booking.budget.grant_call("search", expected):
            raise BudgetExceededError(f"{booking.budget.refusal}; or use --provider wikipedia, which is free")
        used: dict[str, Any] = {"charges": expected, "status": "interrupted"}
        try:
            results = await self.router.run(plan)
            used = {"charges": results.charges, "status": "ok"}
        except WebSearchError as exc:
            used = {"charges": getattr(exc, "charges", ()), "status": "error"}
            raise
        finally:
            booking.charges(**used, id="search")
            self.spent_usd = add_money(self.spent_usd, booking.cost_usd)
        results = self.recording.marked(results) if self.recording else results
        self.ledger.flush()  # now, so that what is wrong with its file is said here
        return replace(results, notices=(*results.notices, *self.ledger.news()))

    @background.on_the_loop
    async def fetch(self, url: str, *, offset: int = 1, limit: int | None = None, fresh: bool = False) -> Page:
        """Fetch a page as Markdown; see `ipy_websearch.fetch` for the arguments and errors."""
        return await self.reader.read(
            checked("url", url),
            offset=checked("offset", offset),
            limit=checked("limit", limit),
            fresh=checked("fresh", fresh),
        )

    # --- asking -----------------------------------------------------------------------------------------------------

    @background.on_the_loop
    async def ask(self, question: str, **options: Any) -> Answer:
        """Answer a question; see `ipy_websearch.ask` for the options and errors."""
        return await self.start(question, **options).answered()

    def start(self, question: str, **options: Any) -> AskRun:
        """Return a run that answers the question while its events are iterated over; the options are those of `ask`.

        Raises:
            ConfigError: an option is wrong, or the question is empty; nothing was sent.
            MissingKeyError: a model was asked for by name and there is no key for it.
        """
        from ipy_websearch.loop.ask import AnswerLoop, AskRun  # the loop and its tools: a search does without them

        return AskRun(AnswerLoop(self, options_of(AskOptions, question, **options)))

    def estimate(self, question: str, **options: Any) -> Estimate:
        """Return what a question may cost and use, with the same options as `ask`; nothing is sent.

        Raises:
            ConfigError: an option is wrong. MissingKeyError: a provider was named without a key; a model needs none here.
        """
        from ipy_websearch.loop.ask import AnswerLoop

        return AnswerLoop(self, options_of(AskOptions, question, **options), sends=False).estimated()

    # --- enriching --------------------------------------------------------------------------------------------------

    def enrichment(self, frame: Any, columns: Mapping[str, Any], **options: Any) -> Enrichment:
        """Return an enrichment, planned and not yet run; it takes the options of `enrich`."""
        from ipy_websearch.enrichment.run import start

        return start(self, options_of(EnrichOptions, frame, columns, **options))

    async def enrich(self, frame: Any, columns: Mapping[str, Any], **options: Any) -> Any:
        """Return the frame with columns filled from the web; see `ipy_websearch.enrich` for the options and errors."""
        work = self.enrichment(frame, columns, **options)
        await background.awaited(work.run)
        if work.options.progress:
            print(work.closing_text())
        return work.frame()

    # --- money ------------------------------------------------------------------------------------------------------

    def booking(self, question: str, budget_usd: Decimal | None = None, *, model: str = "", **run: Any) -> Booking:
        """Return the booking of a new question (or search) of this session, which may cost `budget_usd` (None: any amount).

        Its `budget` is for requests to `model`; `run` are further fields of `RunBudget`.
        """
        budget = self.budget.for_question(uuid.uuid4().hex[:12], budget_usd)
        names = (self.id, budget.question_id, question, self.replayed_from)
        return Booking(self.ledger, *names, budget=RunBudget(model, budget, **run))

    def cost(
        self, *, by: str | None = None, everything: bool = False, since: str | date | timedelta | None = None
    ) -> CostFrame:
        """Return the session's spending, one row for each ledger entry; see `ipy_websearch.cost`."""
        return cost_frame(self.ledger, by=checked("by", by), **self._scope(everything, since))

    def reset_cost(self) -> None:
        """Start the session's count of costs, and its budget, anew; the rows stay in the ledger."""
        self._counted_from = datetime.now(UTC)
        self.spent_usd = Decimal(0)
        self.budget.reset()

    def _scope(self, everything: bool, since: str | date | timedelta | None) -> dict[str, Any]:
        """Return session and moment for a report: of this session what came after the last reset of its count; of all sessions
        what came since a moment before this one began."""
        later = checked("since", since)
        if checked("everything", everything) or (later and later <= self.started):
            return {"session": None, "since": later}
        return {"session": self.id, "since": max(filter(None, (later, self._counted_from)), default=None)}

    # --- recording --------------------------------------------------------------------------------------------------

    def record(self, path: str | Path, *, force: bool = False) -> Recording:
        """Record everything that models, providers and pages are sent and answer, without keys, into one readable file.

        It goes on until `stop_recording()`, or the end of the `with` block (`aclose()` closes connections, not the cassette).
        `force` replaces an existing file. The built-in offline model is not recorded: a replay runs it
        again, over the recorded searches. Intercepted clients are recorded where they want the web; Message Batches are
        refused.

        >>> from ipy_websearch import Session
        >>> with Session().record("example.cassette") as recording:
        ...     print(recording)
        example.cassette is being recorded

        Raises:
            ConfigError: the file exists or cannot be written, or a cassette is running.
        """
        from ipy_websearch.cassette.recording import Recorder

        if self.recording is not None:
            raise ConfigError(f"{self.recording} already; `%websearch stop` ends that")
        self.recording = Recorder(self, path, force=force)
        return self.recording

    def replay(self, path: str | Path, *, instant: bool = False) -> Player:
        """Answer everything from a cassette, without keys, network or costs; a replay that is running starts again.

        Replies come at the recorded pace, or at once (`instant`).

        >>> from ipy_websearch import Session
        >>> with Session().record("played.cassette"), Session().replay("played.cassette", instant=True) as recording:
        ...     print(recording)
        played.cassette is being replayed

        Raises:
            ConfigError: there is no such cassette, a line of it cannot be read, or one is being recorded.
        """
        from ipy_websearch.cassette.recording import Player

        if self.recording is not None and not self.recording.replayed_from:
            raise ConfigError(f"{self.recording} already; `%websearch stop` ends that")
        self.recording = player = Player(self, path, instant=instant)
        return player

    def stop_recording(self) -> Recording | None:
        """Stop recording or replaying and put everything back as it was; return what ran, None when nothing did."""
        if stopped := self.recording:
            stopped.stop()
        return stopped

    @property
    def replayed_from(self) -> str:
        """The name of the cassette that is replayed, "" when none is."""
        return self.recording.replayed_from if self.recording else ""

    @background.on_the_loop
    async def aclose(self) -> None:
        """Close connections and files; what is used again opens again. A recording goes on."""
        for name in ("http", "claude", "offline_model"):
            if name in self.__dict__:
                await getattr(self, name).aclose()
        if "router" in self.__dict__:
            self.index.close()
        self.ledger.close()
        if "cache" in self.__dict__ and not self.recording:
            self.cache.close()


# --- the session that the module's functions and the magics share --------------------------------------------------------

_lock = threading.Lock()
_shared: dict[int, Session] = {}  # by process: a fork leaves its parent's session alone, and gets one of its own


def session() -> Session:
    """Return the shared session; made at first use."""
    with _lock:
        if os.getpid() not in _shared:
            _shared[os.getpid()] = Session(settings_in_force())
        return _shared[os.getpid()]


def use_session(made: Session | None) -> Session | None:
    """Make this the shared session (None: a new one is made when it is needed); return the one before, which stays open."""
    before = _shared.pop(os.getpid(), None)
    if made is not None:
        _shared[os.getpid()] = made
    return before


@atexit.register
def end_session() -> None:
    """End the shared session and close what it has open; the next call makes a new one. The ledger stays."""
    if (ended := use_session(None)) is not None:
        ended.stop_recording()
        if background.is_running():
            with suppress(Exception):
                background.Task(ended.aclose).future.result(background.GRACE_S)
