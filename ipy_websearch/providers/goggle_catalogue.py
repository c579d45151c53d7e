"""The goggles that are known by a name: a catalogue of hosted ones, and three of ours as inline rules.

`resolve` is the one place where what people and models write (a name, an address, inline rules) becomes what Brave takes.
The catalogue is data (`goggle_catalogue.toml`), read when a name is first looked up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.goggles import check_rules, is_address
from ipy_websearch.settings import did_you_mean

DISCOVER = "https://search.brave.com/goggles/discover"
"""Where Brave lists the goggles that people have made public (github.com/brave/goggles-quickstart, README, read 2026-11)."""

_NAME = re.compile(r"[^\W_]+(?:[ _-][^\W_]+)*")


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

    text = files("ipy_websearch.providers").joinpath("goggle_catalogue.toml").read_text(encoding="utf-8")
    entries = (Goggle(**{**entry, "rules": entry.get("rules", "").strip()}) for entry in tomllib.loads(text)["goggle"])
    return {goggle.name: goggle for goggle in entries}


def resolve(goggle: str) -> str:
    """Return the address or the inline rules that `goggle` means: a name of the catalogue, an address, or rules.

    Raises:
        ConfigError: there is no goggle of that name, or a rule is faulty; the message names its line.
    """
    text = goggle.strip()
    if is_address(text):
        return text
    if _NAME.fullmatch(text):
        return named(text).value
    check_rules(text)
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
