"""Makes an enrichment from a session's parts. `Session.enrichment` leads here."""

from __future__ import annotations

import uuid
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any

from ipy_websearch.enrichment.batch import Batches, native_search
from ipy_websearch.enrichment.dask_frame import is_dask, start_on_dask
from ipy_websearch.enrichment.frames import is_pandas, start_on_other
from ipy_websearch.enrichment.limiter import ConcurrencyLimiter
from ipy_websearch.enrichment.plan import make_plan
from ipy_websearch.enrichment.prompt import system_text
from ipy_websearch.enrichment.report import Estimate, why_no_estimate
from ipy_websearch.enrichment.row import RowConfig, Searches
from ipy_websearch.enrichment.run import Accounts, Asker, Enrichment, Rows
from ipy_websearch.errors import ConfigError, EnrichmentError
from ipy_websearch.model.platforms import model_id
from ipy_websearch.money.prices import add_money
from ipy_websearch.options import EnrichOptions, money
from ipy_websearch.providers.router import provider_to_ask
from ipy_websearch.settings import OFFLINE_MODEL, did_you_mean
from ipy_websearch.tools.web_fetch import web_fetch_tool
from ipy_websearch.tools.web_search import PageReading

if TYPE_CHECKING:
    from ipy_websearch.model.client import ModelClient
    from ipy_websearch.session import Session

MODES = ("now", "batch")
NATIVE = "anthropic"


def start(session: Session, options: EnrichOptions) -> Any:
    """Return an enrichment, planned and not yet run; see `ipy_websearch.enrich` for options and errors."""
    if options.mode not in (None, *MODES):
        hint = did_you_mean(str(options.mode), MODES)
        raise ConfigError(f"mode is {options.mode!r}{hint}; it must be {' or '.join(map(repr, MODES))}")
    if options.mode == "batch" and options.cluster is not None:
        raise ConfigError("mode='batch' needs no cluster: the API does the work; leave one of the two out")
    if not is_pandas(options.frame):
        start_on = start_on_dask if is_dask(options.frame) else start_on_other
        return start_on(partial(start, session), options)
    batch = options.mode == "batch"
    if batch and options.provider:
        raise ConfigError(
            f"mode='batch' searches with the API's own web search, not with {options.provider!r}; leave provider out"
        )
    if (options.max_fetches or options.read_pages) and (batch or options.cluster is not None):
        given = "max_fetches" if options.max_fetches else "read_pages"
        raise ConfigError(f"pages are read by this process: leave {given} out, or mode='batch' and the cluster")
    if batch and session.recording is not None:
        raise ConfigError("batches do not go onto cassettes; leave mode='batch' out, or `%websearch stop` first")
    plan = make_plan(options.frame, options.columns, sample=options.sample, sources=options.sources)
    client, model = model_to_ask(session, options.model)
    _ = session.prices  # a mistake in the user's price file shows here, before anything is spent
    settings = session.settings
    provider, notices = provider_to_ask(options.provider, settings.provider, settings.search_tools)
    usd = money("budget_usd", options.budget_usd)
    accounts = Accounts(
        session.ledger,
        session.enrich_store,
        session.budgets.for_question(uuid.uuid4().hex[:12], usd, whose="enrichment's budget"),
        session.id,
        session.notebook_name,
        session.replayed_from,
        lambda usd: setattr(session, "spent_usd", add_money(session.spent_usd, usd)),
    )
    defaults, first, searches = session.search_request("placeholder"), None, None
    if options.max_searches and not batch:
        router, bounded = session.router, accounts.budget.bounded
        router.check(provider)
        charges = router.expected_charges(provider, defaults.count, worst=bounded)
        first = router.plan(defaults, provider).target
        searches = Searches(router, provider, options.concurrency, charges)
    if batch:
        native_search(model, client, options.max_searches, defaults)  # a platform without batches is refused here
    config = RowConfig(
        client=client,
        model=model,
        system=system_text(options.max_searches, date.today(), options.max_fetches, cites=batch and options.max_searches > 0),
        limiter=ConcurrencyLimiter(options.concurrency),
        timeout_s=settings.timeout_s,
        defaults=defaults,
        searches=searches,
        max_searches=options.max_searches,
        fetch=web_fetch_tool(session.reader, robots=True) if options.max_fetches else None,
        max_fetches=options.max_fetches,
        pages=PageReading(lambda: session.reader, options.read_pages, exact=session.recording is not None)
        if options.read_pages
        else None,
        retrieve_first=settings.retrieve_first,
    )
    key = (NATIVE, {}) if batch else (first.name, first.options) if first is not None else ("", {})
    run = Enrichment(options.frame, plan, options, config, accounts, Batches() if batch else Rows(), key)
    if options.cluster is not None and session.recording is None:  # requests of workers would bypass the cassette
        run.asker = _workers(session, options.cluster, provider, options.max_searches > 0)
    run.notices.update(dict.fromkeys(notices))
    return run


def _workers(session: Session, cluster: Any, provider: str | None, searches: bool) -> Asker:
    try:
        from ipy_websearch.enrichment.dask import DaskWorkers
    except ImportError as exc:
        raise ConfigError('a Dask cluster needs distributed: pip install "ipy_websearch[dask]"') from exc
    return DaskWorkers(session, cluster, provider, searches=searches)


def model_to_ask(session: Session, model: str | None) -> tuple[ModelClient, str]:
    """Return the client and the id of the model to ask; the offline one only when it was asked for."""
    name = model_id(model or session.settings.enrich_model)
    if name == OFFLINE_MODEL:
        return session.offline_model, name
    if not session.has_model_key:
        raise session.keys.missing("ANTHROPIC_API_KEY")
    return session.claude, name


def closing_text(work: Enrichment) -> str:
    """Return what is shown when a run has ended: its report, and for a sample what the whole would take."""
    text = str(work.report())
    if work.plan.sample is None:
        return text
    return f"{text}\n{why_no_estimate(work.outcomes) or work.estimate()}"


def estimate_of(work: Enrichment) -> Estimate:
    """Return what the whole would take.

    Raises:
        EnrichmentError: the sample says nothing of it; why, in one line.
    """
    if why := why_no_estimate(work.outcomes):
        raise EnrichmentError(why)
    return work.estimate()
