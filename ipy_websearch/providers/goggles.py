"""Goggles: Brave's rules for re-ranking, as addresses, inline text, or names of our catalogue.

`resolve` is the one place that turns the words of people and models into the form Brave takes. Rules are checked here, so that
a mistake is named by its line.

Brave ignores or refuses a faulty inline goggle without saying where the fault is. The form of a rule is
`[pattern][$option,option]`; limits: 100,000 rules and 2 MB (not checked), 500 characters a rule, two `*` and two `^` in a
pattern, strengths 1 to 10 (github.com/brave/goggles-quickstart, getting-started.md, read 2026-11). Precedence: `$discard` with
a pattern or site, then boosts, then downranks; a bare `$discard` drops what no other rule matched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import did_you_mean

if TYPE_CHECKING:
    from ipy_websearch.providers.base import SearchRequest

DISCOVER = "https://search.brave.com/goggles/discover"
"""Where Brave lists the goggles that people have made public (github.com/brave/goggles-quickstart, README, read 2026-11)."""

_NAME = re.compile(r"[^\W_]+(?:[ _-][^\W_]+)*")
OPTIONS = ("boost", "downrank", "discard", "site", "inurl", "intitle", "indescription", "incontent")
FORM = "pattern$option,option with boost=1…10, downrank=1…10 or discard, site=example.com, inurl, …"
MAX_RULE = 500

_ADDRESS = re.compile(r"https?://\S+")
_OPTION = r"(?:(?:boost|downrank)(?:=(?:[1-9]|10))?|discard|site=[^\s$,]+|inurl|intitle|indescription|incontent)"
_RULE = re.compile(rf"(?![=,])[^\s$]*(?:\${_OPTION}(?:,{_OPTION})*)?")


def goggle_parameters(request: SearchRequest) -> list[str]:
    """Return the values of the repeatable `goggles` parameter for a request: addresses as they are, and everything inline (the
    request's own rules and those its domain lists amount to) as one text."""
    addresses = [goggle for goggle in request.goggles if _ADDRESS.fullmatch(goggle)]
    rules = [goggle for goggle in request.goggles if goggle not in addresses]
    if request.allowed_domains:
        rules += ["$discard", *(f"$boost,site={domain}" for domain in request.allowed_domains)]
    rules += [f"$discard,site={domain}" for domain in request.blocked_domains]
    return [*addresses, "\n".join(rules)] if rules else addresses


@dataclass(frozen=True, slots=True)
class Goggle:
    """One goggle of the catalogue.

    `url` is the address of a hosted one ("": it is inline), `rules` the text of an inline one. `known` says that a hosted
    one is named by Brave or its author as submitted; inline ones need no submission.
    """

    name: str
    title: str
    about: str
    url: str = ""
    rules: str = ""
    known: bool = False

    @property
    def value(self) -> str:
        """What is sent: the address, or the rules."""
        return self.url or self.rules


@cache
def catalogue() -> dict[str, Goggle]:
    """Return every goggle by name, ours first."""
    import tomllib

    text = files("ipy_websearch.providers").joinpath("goggles.toml").read_text(encoding="utf-8")
    entries = (Goggle(**{**entry, "rules": entry.get("rules", "").strip()}) for entry in tomllib.loads(text)["goggle"])
    return {goggle.name: goggle for goggle in entries}


def resolve(goggle: str) -> str:
    """Return the address or the inline rules that `goggle` means: a name of the catalogue, an address, or rules.

    Raises:
        ConfigError: there is no goggle of that name, or a rule is faulty; the message names its line.
    """
    text = goggle.strip()
    if _NAME.fullmatch(text):
        return named(text).value
    for number, rule in enumerate(map(str.strip, [] if _ADDRESS.fullmatch(text) else text.splitlines()), 1):
        if rule and not rule.startswith("!") and (len(rule) > MAX_RULE or not _RULE.fullmatch(rule)):
            swallowed = "; was `$boost` swallowed by a shell?" if rule.startswith(("=", ",")) else ""
            option = next((name for name in re.findall(r"\w+", rule.rpartition("$")[2]) if name not in OPTIONS), "")
            hint = swallowed or did_you_mean(option, OPTIONS)
            raise ConfigError(f"goggle, line {number}, {rule[:60]!r} is no rule{hint}; write {FORM}")
    return text


def named(name: str) -> Goggle:
    """Return the goggle of that name, in any case.

    Raises:
        ConfigError: there is none; the message says which was meant, and which there are.
    """
    known = catalogue()
    wanted = re.sub(r"[ _]", "-", name.strip().casefold())
    if wanted in known:
        return known[wanted]
    raise ConfigError(
        f"there is no goggle {name!r}{did_you_mean(wanted, known)}; there are {', '.join(known)}; "
        "otherwise give an address or rules such as '$boost=3,site=docs.python.org'"
    )
