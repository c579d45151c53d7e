"""Asks for one row and says what came of it: in the kernel's own process, or on a worker of a cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

from ipy_websearch.enrichment.legacy.asking import system_text
from ipy_websearch.enrichment.legacy.bench import Bench
from ipy_websearch.enrichment.legacy.chain import Chain, Recipe, RowError
from ipy_websearch.enrichment.legacy.columns import Column
from ipy_websearch.enrichment.legacy.funds import Funds, OutOfFunds
from ipy_websearch.enrichment.legacy.outcome import Cell, Status
from ipy_websearch.enrichment.legacy.searching import PoliteSearch, polite_fetch
from ipy_websearch.enrichment.legacy.sender import Account, Sender
from ipy_websearch.errors import WebSearchError
from ipy_websearch.model.tokens import estimate_tokens
from ipy_websearch.money.booking import Booking
from ipy_websearch.options import EnrichOptions
from ipy_websearch.text import plain, shorten


def make_recipe(bench: Bench, options: EnrichOptions) -> Recipe:
    """Return what all rows of a run have in common, with a search tool of its own."""
    most = options.max_searches
    tool = PoliteSearch(bench.router, bench.provider, options.concurrency).tool(bench.defaults) if most else None
    fetch = polite_fetch(bench.reader) if bench.reader is not None and options.max_fetches else None
    pages = options.max_fetches if fetch is not None else 0
    system = system_text(most, date.today(), pages)
    return Recipe(bench.model, bench.client.platform, system, tool, most, fetch, pages)


@dataclass(slots=True)
class Asked:
    """What came of a row so far; one that was cut off stays "interrupted". `account` has what it used: close it."""

    status: Status = "interrupted"
    error: str = "interrupted"
    cells: tuple[Cell, ...] = ()
    account: Account | None = None


class RowAsker:
    """Asks for rows with one sender; everything belongs to one event loop."""

    def __init__(self, recipe: Recipe, columns: Sequence[Column], sender: Sender, booking: Booking) -> None:
        self.sender = sender
        self._recipe = recipe
        self._columns = columns
        self._booking = booking
        self._tools: dict[tuple[int, ...], list[Mapping[str, Any]]] = {}

    async def ask(self, asked: Asked, numbers: tuple[int, ...], values: Mapping[str, str | None]) -> None:
        """Ask for these columns of a row; `asked` says what came of it, also when this is cancelled."""
        wanted = [self._columns[n] for n in numbers]
        if numbers not in self._tools:
            self._tools[numbers] = self._recipe.tools(wanted)
        chain = Chain(self._recipe, wanted, self._tools[numbers], values)
        funds = self.sender.funds
        try:
            asked.account = Account(self._booking, await funds.reserve(self._worst_case(chain, funds)))
            asked.cells = await chain.run(self.sender, asked.account)
            asked.status, asked.error = "ok", ""
        except OutOfFunds as exc:
            asked.status, asked.error = "budget", str(exc)
        except (RowError, WebSearchError) as exc:
            asked.status, asked.error = "error", str(exc)
        except Exception as exc:  # a bug, or a plug-in's: it costs this row, not the others
            asked.status, asked.error = "error", f"{type(exc).__name__}: {shorten(plain(str(exc)), 200)}"

    def _worst_case(self, chain: Chain, funds: Funds) -> Decimal | None:
        if not funds.bounded:
            return Decimal(0)
        body = chain.body()
        price = self._recipe.search.price if self._recipe.search else ()
        return funds.row(
            estimate_tokens(body), body["max_tokens"], self._recipe.max_searches, price, pages=self._recipe.max_fetches
        )
