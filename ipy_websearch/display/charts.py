"""The picture of `%cost --plot`: what was spent as it added up, and what it went to.

matplotlib is the extra `[plot]`; its figure is drawn without pyplot, so that no backend of the notebook's is touched. Sums
are made of exact decimals; floats come in where the picture does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib import import_module
from io import BytesIO
from itertools import accumulate
from typing import Any

from ipy_websearch.display import money
from ipy_websearch.errors import ConfigError

Step = tuple[datetime, str, Decimal]
"""A moment, the kind of call (model, search, …), and the US dollars that it added."""

EXTRA = 'a plot needs matplotlib: run %pip install "ipy_websearch[plot]" and try again'


def by_kind(steps: Sequence[Step]) -> list[tuple[str, Decimal]]:
    """Return the US dollars of each kind, the dearest first."""
    sums: dict[str, Decimal] = {}
    for _, kind, usd in steps:
        sums[kind] = sums.get(kind, Decimal(0)) + usd
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))


def cost_words(steps: Sequence[Step]) -> str:
    """Return in words what the picture shows, for those who do not see it."""
    kinds = by_kind(steps)
    total = sum((usd for _, usd in kinds), Decimal(0))
    split = ", ".join(f"{kind} {money.usd(usd)}" for kind, usd in kinds)
    first, last = steps[0][0], steps[-1][0]
    return f"Costs from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC: {money.usd(total)} ({split})"


def cost_png(steps: Sequence[Step], title: str) -> bytes:
    """Return a PNG: on the left the cumulative cost over time, on the right its split by kind. `steps` is not empty.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    figure = _figure()
    curve, split = figure.subplots(1, 2, width_ratios=(2, 1))
    moments = [moment.astimezone(UTC) for moment, _, _ in steps]
    sums = [float(total) for total in accumulate(usd for _, _, usd in steps)]
    begin = moments[0] - max((moments[-1] - moments[0]) / 50, timedelta(minutes=1))  # a single moment has width, too
    curve.step([begin, *moments], [0.0, *sums], where="post", color="#2563a8")
    curve.fill_between([begin, *moments], [0.0, *sums], step="post", color="#2563a8", alpha=0.15)
    curve.set_ylabel("USD")
    curve.set_title("cumulative (UTC)", fontsize=10)
    curve.set_ylim(bottom=0)
    curve.grid(alpha=0.3)
    dates = import_module("matplotlib.dates")
    locator = dates.AutoDateLocator(tz=UTC, minticks=3, maxticks=8)
    curve.xaxis.set_major_locator(locator)
    curve.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator, tz=UTC))
    kinds = list(reversed(by_kind(steps)))
    bars = split.barh([kind for kind, _ in kinds], [float(usd) for _, usd in kinds], color="#c2703d")
    split.bar_label(bars, [money.usd(usd) for _, usd in kinds], padding=3, fontsize=8)
    split.margins(x=0.45)
    split.set_title("by kind", fontsize=10)
    split.set_xticks([])
    split.spines[["top", "right", "bottom"]].set_visible(False)
    figure.suptitle(title, fontsize=11)
    picture = BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()


def _figure() -> Any:
    try:
        return import_module("matplotlib.figure").Figure(figsize=(9, 3.2), dpi=110, layout="constrained")
    except ImportError:
        raise ConfigError(EXTRA) from None
