"""Tavily: a search made for language models, with the passages that fit.

Wire facts: docs.tavily.com, "Tavily Search" and "Credits & pricing", and the tavily-python SDK 0.8.5, read 2026-11. A basic
search is one credit, an advanced one two; the answer reports what was used (`include_usage`), and that is booked. Countries are
named in English, and only taken for the topic "general". `score` is from 0 to 1, comparable within one answer.
"""

from __future__ import annotations

from decimal import Decimal

from ipy_websearch.providers import base
from ipy_websearch.results import Charge

# The countries that Tavily knows, by their codes.
_COUNTRY_NAMES = dict(
    entry.strip().split(" ", 1)
    for entry in """
ar argentina, at austria, au australia, be belgium, bg bulgaria, br brazil, ca canada, ch switzerland, cl chile, cn china,
co colombia, cr costa rica, cz czech republic, de germany, dk denmark, dz algeria, ec ecuador, ee estonia, eg egypt, es spain,
fi finland, fr france, gb united kingdom, gr greece, hr croatia, hu hungary, id indonesia, ie ireland, il israel, in india,
ir iran, is iceland, it italy, jp japan, ke kenya, kr south korea, lt lithuania, lu luxembourg, lv latvia, ma morocco,
mx mexico, my malaysia, ng nigeria, nl netherlands, no norway, nz new zealand, pe peru, ph philippines, pk pakistan,
pl poland, pt portugal, ro romania, rs serbia, ru russia, sa saudi arabia, se sweden, sg singapore, si slovenia, sk slovakia,
th thailand, tn tunisia, tr turkey, tw taiwan, ua ukraine, us united states, uy uruguay, ve venezuela, vn vietnam,
za south africa
""".split(",")
)


class TavilyProvider(
    base.Engine,
    name="tavily",
    max_chars=400,
    max_count=20,
    fields={"description": "content"},  # `published_date` is RFC 1123 text, for news only
    billed=("units", "usage.credits"),
    ignores=("goggles", "place", "language", "safe_search"),
    # Tavily's own: the plan, or what pays as it goes, is used up.
    refusals=(base.Refusal("43[23]", "credit", "the plan's limit is used up"),),
):
    """Asks Tavily's search."""

    def price_for(self, count: int) -> tuple[Charge, ...]:
        """Return the credits of a search of the chosen depth."""
        credits = 2 if self.context.options.get("search_depth") == "advanced" else 1
        return (Charge("tavily", units=Decimal(credits), unit="credit"),)

    def parameters(self, request: base.SearchRequest, query: str, count: int, notices: list[str]) -> base.Json:
        """Return the body of one search."""
        country = _COUNTRY_NAMES.get(request.country_code.lower(), "")
        if request.country_code and not country:
            notices.append(f"tavily knows no country {request.country!r}; ignored")
        return base.present(
            query=query,
            max_results=count,
            search_depth="basic",
            include_usage=True,
            time_range=request.period,
            start_date=request.days and request.days[0].isoformat(),
            end_date=request.days and request.days[1].isoformat(),
            # The most it takes; others are left out of its search, not of the results.
            include_domains=list(request.allowed_domains[:300]),
            exclude_domains=list(request.blocked_domains[:150]),
            country=country if self.context.options.get("topic", "general") == "general" else "",
        )
