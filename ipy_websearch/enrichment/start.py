"""Makes an enrichment from a session's parts, and runs one inside an event loop. The session's `enrich` leads here.

What a session has to have is written down in `Host`, so that this package stays below the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from ipy_websearch.budgets import Budgets
from ipy_websearch.config import OFFLINE_MODEL, WebSearch
from ipy_websearch.credentials import Credentials
from ipy_websearch.enrichment.bar import Bar
from ipy_websearch.enrichment.bench import Bench, Options
from ipy_websearch.enrichment.plan import make_plan
from ipy_websearch.enrichment.run import Enrichment
from ipy_websearch.enrichment.store import Store
from ipy_websearch.events import Money
from ipy_websearch.ledger import Ledger
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.names import model_id
from ipy_websearch.options import at_least, money
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import SearchRouter

if TYPE_CHECKING:
    import pandas as pd

TICK_S = 0.2


class Host(Protocol):
    """What an enrichment takes from its session."""

    id: str
    settings: WebSearch
    credentials: Credentials
    spent_usd: Money
    budgets: Budgets

    @property
    def router(self) -> SearchRouter: ...
    @property
    def ledger(self) -> Ledger: ...
    @property
    def enrich_store(self) -> Store: ...
    @property
    def claude(self) -> ModelClient: ...
    @property
    def offline_model(self) -> ModelClient: ...
    @property
    def has_model_key(self) -> bool: ...
    @property
    def prices(self) -> Any: ...
    @property
    def notebook_name(self) -> str: ...
    def search_request(self, query: str, **options: Any) -> SearchRequest: ...


def start(
    host: Host,
    frame: pd.DataFrame,
    columns: Mapping[str, Any],
    *,
    model: str | None = None,
    concurrency: int | None = None,
    max_searches: int | None = None,
    budget_usd: Decimal | float | str | None = None,
    resume: bool = True,
    sources: bool = True,
    sample: int | None = None,
    provider: str | None = None,
) -> Enrichment:
    """Return an enrichment, planned and not yet run; see `ipy_websearch.enrich` for arguments and errors."""
    options = Options(
        at_least(1, "concurrency", concurrency, 16), at_least(0, "max_searches", max_searches, 1), bool(resume), bool(sources)
    )
    plan = make_plan(frame, columns, sample=sample)
    client, name = _model(host, model)
    engine = provider or host.settings.provider or None
    if engine and options.max_searches:
        host.router.check(engine)
    _ = host.prices  # a mistake in the user's price file shows here, before anything is spent

    def spent(usd: Money) -> None:
        host.spent_usd = None if usd is None or host.spent_usd is None else host.spent_usd + usd

    bench = Bench(
        client=client,
        model=name,
        router=host.router,
        provider=engine,
        defaults=host.search_request("placeholder"),
        ledger=host.ledger,
        session_id=host.id,
        notebook=host.notebook_name,
        store=host.enrich_store,
        ceilings=host.budgets.ceilings(money("budget_usd", budget_usd)),
        timeout_s=host.settings.timeout_s,
        spent=spent,
    )
    return Enrichment(frame, plan, bench, options)


def _model(host: Host, model: str | None) -> tuple[ModelClient, str]:
    """Return the client and the id of the model to ask; the offline one only when it was asked for."""
    name = model_id(model or host.settings.enrich_model)
    if name == OFFLINE_MODEL:
        return host.offline_model, name
    if not host.has_model_key:
        raise host.credentials.missing("ANTHROPIC_API_KEY")
    return host.claude, name


async def enrich(
    start_: Callable[..., Enrichment], frame: pd.DataFrame, columns: Mapping[str, Any], *, progress: bool = True, **options: Any
) -> pd.DataFrame:
    """Run an enrichment in the running event loop and return its frame; the bar is drawn from the loop."""
    work = start_(frame, columns, **options)
    bar = Bar(work.tally, progress)

    async def draw() -> None:
        while True:
            bar.update()
            await asyncio.sleep(TICK_S)

    drawing = asyncio.create_task(draw())
    try:
        await work.run()
    finally:
        drawing.cancel()
        with suppress(asyncio.CancelledError):
            await drawing
        bar.close()
    if progress:
        print(closing_text(work))
    return work.frame()


def closing_text(work: Enrichment) -> str:
    """Return what is shown when a run has ended: its report, and for a sample what the whole would take."""
    text = str(work.report())
    return f"{text}\n{work.estimate()}" if work.is_sample else text
