"""Where the models' prices come from, how old they are, and fetching newer ones, which happens only when asked for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import distribution
from pathlib import Path

from ipy_websearch.errors import ProviderError
from ipy_websearch.pricing import forget_prices
from ipy_websearch.settings import base_url
from ipy_websearch.text import plain, shorten

ADDRESS = "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main"
PATH = "/prices/new_data/v2/data.json"  # as genai_prices.update_prices has it, 0.2.3


@dataclass(frozen=True, slots=True)
class PriceSource:
    """A version of genai-prices and the day on which its prices came to this machine; `updated` since, when asked for."""

    version: str
    day: date
    updated: bool


def price_source() -> PriceSource:
    """Return where the models' prices in force come from."""
    from genai_prices.data_snapshot import get_snapshot

    package = distribution("genai-prices")
    snapshot = get_snapshot()
    if snapshot.from_auto_update:
        return PriceSource(package.version, snapshot.timestamp.date(), True)
    files = [Path(str(file.locate())) for file in package.files or () if file.name == "METADATA"]
    installed = max((file.stat().st_mtime for file in files if file.exists()), default=0.0)
    return PriceSource(package.version, datetime.fromtimestamp(installed, UTC).date(), False)


def update_model_prices() -> PriceSource:
    """Fetch the newest prices of genai-prices and use them until the kernel ends; return where they come from.

    `GENAI_PRICES_BASE_URL` stands for scheme, host and prefix of the address.

    Raises:
        ProviderError: they could not be had; those in force before stay in force.
    """
    from genai_prices import UpdatePrices
    from genai_prices.data_snapshot import set_custom_snapshot

    address = base_url("GENAI_PRICES_BASE_URL", ADDRESS)
    try:
        snapshot = UpdatePrices(url=address + PATH).fetch()
    except Exception as exc:  # network, status, JSON, and whatever a later form of the data brings
        reason = shorten(plain(str(exc)).splitlines()[0] if str(exc) else type(exc).__name__, 160)
        raise ProviderError(
            f"newer model prices could not be had from {address}: {reason}; those of before stay in force",
            provider="genai-prices",
        ) from exc
    if snapshot is not None:
        set_custom_snapshot(snapshot)
        forget_prices()
    return price_source()
