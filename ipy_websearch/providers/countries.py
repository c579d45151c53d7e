"""Names of countries, for the one engine that wants names in the place of codes (Tavily, `country`)."""

from __future__ import annotations

_NAMES = """
ar argentina, at austria, au australia, be belgium, bg bulgaria, br brazil, ca canada, ch switzerland, cl chile, cn china,
co colombia, cr costa rica, cz czech republic, de germany, dk denmark, dz algeria, ec ecuador, ee estonia, eg egypt, es spain,
fi finland, fr france, gb united kingdom, gr greece, hr croatia, hu hungary, id indonesia, ie ireland, il israel, in india,
ir iran, is iceland, it italy, jp japan, ke kenya, kr south korea, lt lithuania, lu luxembourg, lv latvia, ma morocco,
mx mexico, my malaysia, ng nigeria, nl netherlands, no norway, nz new zealand, pe peru, ph philippines, pk pakistan,
pl poland, pt portugal, ro romania, rs serbia, ru russia, sa saudi arabia, se sweden, sg singapore, si slovenia, sk slovakia,
th thailand, tn tunisia, tr turkey, tw taiwan, ua ukraine, uk united kingdom, us united states, uy uruguay, ve venezuela,
vn vietnam, za south africa
"""
_BY_CODE = dict(entry.strip().split(" ", 1) for entry in _NAMES.split(","))


def country_name(code: str) -> str:
    """Return the lower-case English name of a two-letter country code, "" for one that is not in the list."""
    return _BY_CODE.get(code.lower(), "")
