"""What an enrichment works with: the session's parts that it borrows, and how it is to be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ipy_websearch.enrichment.legacy.store import Store
from ipy_websearch.events import Money
from ipy_websearch.extract.reader import PageReader
from ipy_websearch.model.client import ModelClient
from ipy_websearch.money.budget import Budget
from ipy_websearch.money.ledger import Ledger
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.providers.router import SearchRouter


@dataclass(frozen=True, slots=True)
class Bench:
    """What a session lends to an enrichment. `spent` is told what the run has cost (None: unknown)."""

    client: ModelClient
    model: str
    router: SearchRouter
    provider: str | None
    defaults: SearchRequest
    ledger: Ledger
    session_id: str
    notebook: str
    store: Store
    budget: Budget
    timeout_s: float
    spent: Callable[[Money], None]
    replayed_from: str = ""
    reader: PageReader | None = None
