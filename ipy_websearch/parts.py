"""The parts of a session, each opened when it is first used, and the settings and keys that they share."""

from __future__ import annotations

import os
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipy_websearch.http.cache import Cache
from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Credentials
from ipy_websearch.ledger import Ledger
from ipy_websearch.model.client import ModelClient
from ipy_websearch.options import at_least, money, positive
from ipy_websearch.price_file import PriceRow
from ipy_websearch.pricing import price_table
from ipy_websearch.providers.base import ProviderContext
from ipy_websearch.providers.router import SearchRouter
from ipy_websearch.results import PanelShelf
from ipy_websearch.settings import WebSearch, data_dir, load_settings, settings_dir
from ipy_websearch.text import plain
from ipy_websearch.usage import Limits

if TYPE_CHECKING:
    from ipy_websearch.enrichment.store import Store
    from ipy_websearch.extract.reader import PageReader
    from ipy_websearch.providers.local_index import LocalIndex

CONTACT = "a Jupyter extension; contact: the user of this notebook"


def user_agent() -> str:
    """Return how we introduce ourselves: name, version and whom to ask (Wikipedia's etiquette, meta.wikimedia.org/wiki/
    User-Agent_policy, wants both); `IPY_WEBSEARCH_CONTACT` puts an address of your own there."""
    contact = plain(os.environ.get("IPY_WEBSEARCH_CONTACT", "")) or CONTACT
    return f"ipy_websearch/{version('ipy_websearch')} ({contact}) httpx"


class Parts:
    """What a session works with. Nothing is opened when it is made; clients belong to the event loop that runs."""

    download: Any = None
    """What gets a page's bytes in place of `http.download.download`."""

    def __init__(self, settings: WebSearch | None = None, *, folder: Path | None = None) -> None:
        self.folder = folder or Path.cwd()
        self.settings = settings or load_settings(self.folder)
        self.credentials = Credentials(settings_dir(), self.folder / ".env")
        self.panels = PanelShelf()

    def limits(self, max_searches: int | None, max_steps: int | None, budget_usd: Any, timeout_s: float | None) -> Limits:
        """Return the limits of a question; what is None is as the settings say.

        Raises:
            ConfigError: one of them is not allowed.
        """
        own = self.settings
        return Limits(
            max_searches=at_least(0, "max_searches", max_searches, own.max_searches),
            max_steps=at_least(1, "max_steps", max_steps, own.max_steps),
            budget_usd=money("budget_usd", budget_usd if budget_usd is not None else own.budget_usd),
            timeout_s=positive("timeout_s", timeout_s, own.timeout_s),
        )

    @cached_property
    def http(self) -> HttpClient:
        """The client for engines."""
        return HttpClient(user_agent=user_agent(), secrets=self.credentials.secrets)

    @cached_property
    def cache(self) -> Cache:
        """Searches and pages already had."""
        return Cache(data_dir() / "cache.sqlite")

    @cached_property
    def ledger(self) -> Ledger:
        """What everything cost."""
        return Ledger(data_dir() / "ledger.sqlite", redact=self.redact)

    @cached_property
    def enrich_store(self) -> Store:
        """The values that enrichments have found."""
        from ipy_websearch.enrichment.store import Store

        return Store(data_dir() / "enrich.sqlite")

    @cached_property
    def prices(self) -> list[PriceRow]:
        """The engines' prices. A mistake in the user's own price file shows here, before anything is spent.

        Raises:
            ConfigError: the file cannot be read; the message names the line or field.
        """
        return price_table()

    @cached_property
    def router(self) -> SearchRouter:
        """The chain of engines."""
        context = ProviderContext(self.http, self.credentials, data_dir())
        return SearchRouter(
            context,
            cache=self.cache,
            cache_ttl_s=lambda: self.settings.cache_ttl_s,
            search_tools=lambda: self.settings.search_tools,
        )

    @cached_property
    def index(self) -> LocalIndex:
        """The local index: the embedded articles and the user's folders."""
        from ipy_websearch.providers.local import LocalProvider

        provider = self.router.provider("local")
        assert isinstance(provider, LocalProvider)
        return provider.index

    @cached_property
    def reader(self) -> PageReader:
        """Reads pages."""
        from ipy_websearch.extract.reader import PageReader
        from ipy_websearch.extract.worker import ExtractionWorker

        return PageReader(
            cache=self.cache,
            user_agent=user_agent(),
            cache_ttl_s=self.settings.cache_ttl_s,
            local=lambda url: self.index.document(url),
            worker=ExtractionWorker(),
            download=self.download,
        )

    @cached_property
    def claude(self) -> ModelClient:
        """The model behind the Messages API."""
        return ModelClient(
            api_key=lambda: self.credentials.get("ANTHROPIC_API_KEY"),
            platform=lambda: self.settings.platform,
            redact=self.redact,
        )

    @cached_property
    def offline_model(self) -> ModelClient:
        """The built-in extractive model."""
        return ModelClient(api_key=lambda: None, offline=True)

    def redact(self, text: str) -> str:
        """Return `text` with every key that the session can find replaced by "[key]"."""
        for secret in self.credentials.secrets():
            text = text.replace(secret, "[key]")
        return text

    async def aclose(self) -> None:
        """Close what belongs to the running event loop."""
        for name in ("http", "claude", "offline_model"):
            if name in self.__dict__:
                await getattr(self, name).aclose()
