"""Makes an enrichment from a session's parts, and runs one inside an event loop. The session's `enrich` leads here.

What a session has to have is written down in `Host`, so that this package stays below the session.
"""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ipy_websearch.enrichment.legacy.bench import Bench
from ipy_websearch.enrichment.legacy.clusters.dask_frame import is_dask, start_on_dask
from ipy_websearch.enrichment.legacy.plan import make_plan
from ipy_websearch.enrichment.legacy.report import Estimate, why_no_estimate
from ipy_websearch.enrichment.legacy.run import Enrichment
from ipy_websearch.enrichment.legacy.store import Store
from ipy_websearch.errors import ConfigError, EnrichmentError
from ipy_websearch.events import Money
from ipy_websearch.extract.reader import PageReader
from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.model.client import ModelClient
from ipy_websearch.model.platforms import model_id
from ipy_websearch.money.budget import Budgets
from ipy_websearch.money.ledger import Ledger
from ipy_websearch.options import EnrichOptions, money
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import SearchRouter
from ipy_websearch.settings import OFFLINE_MODEL, WebSearch, data_dir, did_you_mean

if TYPE_CHECKING:
    pass

MODES = ("now", "batch")


def legacy_store() -> Store:
    return Store(data_dir() / "enrich_batches.sqlite")


class Host(Protocol):
    """What an enrichment takes from its session."""

    id: str
    settings: WebSearch
    keys: Keys
    spent_usd: Money
    budgets: Budgets
    recording: Any

    @property
    def http(self) -> HttpClient: ...
    @property
    def router(self) -> SearchRouter: ...
    @property
    def reader(self) -> PageReader: ...
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
    @property
    def replayed_from(self) -> str: ...
    def search_request(self, query: str, **options: Any) -> SearchRequest: ...


def start(host: Host, options: EnrichOptions) -> Enrichment:
    """Return an enrichment, planned and not yet run; see `ipy_websearch.enrich` for options and errors."""
    mode, cluster, budget_usd = options.mode, options.cluster, money("budget_usd", options.budget_usd)
    kind = _kind(mode, options.provider)
    if mode == "batch" and cluster is not None:
        raise ConfigError("mode='batch' needs no cluster: the API does the work; leave one of the two out")
    if mode == "batch" and host.recording is not None:
        raise ConfigError("batches do not go onto cassettes; leave mode='batch' out, or `%websearch stop` first")
    if is_dask(options.frame):
        return start_on_dask(partial(start, host), options)
    if options.max_fetches and (cluster is not None or mode == "batch"):
        raise ConfigError("pages are read by this process: leave max_fetches out, or mode='batch' and the cluster")
    plan = make_plan(options.frame, options.columns, sample=options.sample, sources=options.sources)
    client, name = _model(host, options.model)
    engine = options.provider or host.settings.provider or None
    if engine and options.max_searches:
        host.router.check(engine)
    _ = host.prices  # a mistake in the user's price file shows here, before anything is spent

    bench = _bench(host, client, name, engine, budget_usd, reads=bool(options.max_fetches))
    if cluster is None or host.recording is not None:  # requests of workers would bypass the cassette
        return kind(options.frame, plan, bench, options)
    return _on_cluster(host, cluster, options.frame, plan, bench, options)


def _on_cluster(host: Host, cluster: Any, *parts: Any) -> Enrichment:
    """Return an enrichment on a Dask cluster."""
    from ipy_websearch.enrichment.legacy.clusters.cluster import connect
    from ipy_websearch.enrichment.legacy.clusters.run import ClusterEnrichment, Lent

    lent = Lent(host.keys, host.settings, host.http.user_agent)
    return ClusterEnrichment(*parts, cluster=connect(cluster), lent=lent)


def _bench(host: Host, client: ModelClient, name: str, engine: str | None, budget_usd: Money, *, reads: bool) -> Bench:
    """Return what the session lends; `reads`: pages are read too."""

    def spent(usd: Money) -> None:
        host.spent_usd = None if usd is None or host.spent_usd is None else host.spent_usd + usd

    return Bench(
        client=client,
        model=name,
        router=host.router,
        provider=engine,
        defaults=host.search_request("placeholder"),
        ledger=host.ledger,
        session_id=host.id,
        notebook=host.notebook_name,
        store=legacy_store(),
        budget=host.budgets.for_question(uuid.uuid4().hex[:12], budget_usd, whose="enrichment's budget"),
        timeout_s=host.settings.timeout_s,
        spent=spent,
        replayed_from=host.replayed_from,
        reader=host.reader if reads else None,
    )


def _kind(mode: str | None, provider: str | None) -> type[Enrichment]:
    """Return the class that runs an enrichment in this mode (None: at once)."""
    if mode in (None, *MODES[:1]):
        return Enrichment
    if mode not in MODES:
        raise ConfigError(f"mode is {mode!r}{did_you_mean(str(mode), MODES)}; it must be {' or '.join(map(repr, MODES))}")
    if provider:
        raise ConfigError(f"mode='batch' searches with the API's own web search, not with {provider!r}; leave provider out")
    return Enrichment


def _model(host: Host, model: str | None) -> tuple[ModelClient, str]:
    """Return the client and the id of the model to ask; the offline one only when it was asked for."""
    name = model_id(model or host.settings.enrich_model)
    if name == OFFLINE_MODEL:
        return host.offline_model, name
    if not host.has_model_key:
        raise host.keys.missing("ANTHROPIC_API_KEY")
    return host.claude, name


def closing_text(work: Enrichment) -> str:
    """Return what is shown when a run has ended: its report, and for a sample what the whole would take."""
    text = str(work.report())
    if not work.is_sample:
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
