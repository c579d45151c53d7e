"""Goggles: Brave's rules for re-ranking, as addresses or inline text. Checked here, so that a slip is named by its line.

Brave ignores or refuses a faulty inline goggle without saying where the fault is. The form of a rule is
`[pattern][$option,option]`; limits: 100,000 rules, 2 MB, 500 characters a rule, two `*` and two `^` in a pattern,
strengths 1 to 10 (github.com/brave/goggles-quickstart, getting-started.md, read 2026-11). Precedence: `$discard` with a
pattern or site, then boosts, then downranks; a bare `$discard` drops what no other rule matched.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ipy_websearch.errors import ConfigError
from ipy_websearch.providers.base import SearchRequest
from ipy_websearch.settings import did_you_mean

ACTIONS = ("boost", "downrank", "discard")
OPTIONS = (*ACTIONS, "site", "inurl", "intitle", "indescription", "incontent")
MAX_RULES = 100_000
MAX_BYTES = 2_000_000
MAX_RULE = 500

_ADDRESS = re.compile(r"https?://\S+")


def is_address(goggle: str) -> bool:
    """Say whether a goggle is the address of a hosted one (else it is inline rules)."""
    return _ADDRESS.fullmatch(goggle.strip()) is not None


def goggle_parameters(request: SearchRequest) -> list[str]:
    """Return the values of the repeatable `goggles` parameter for a request: addresses as they are, and everything
    inline (the request's own rules and those its domain lists amount to) as one text.

    Raises:
        ConfigError: an inline rule is not one; the message names its line.
    """
    addresses = [goggle.strip() for goggle in request.goggles if is_address(goggle)]
    inline = [goggle.strip() for goggle in request.goggles if goggle.strip() and not is_address(goggle)]
    for goggle in inline:
        check_rules(goggle)
    rules = domain_rules(request.allowed_domains, request.blocked_domains)
    text = "\n".join([*inline, rules] if rules else inline)
    return [*addresses, text] if text else addresses


def domain_rules(allowed: Sequence[str] = (), blocked: Sequence[str] = ()) -> str:
    """Return inline rules that keep only the allowed domains, or drop the blocked ones; "" for none of either."""
    lines = ["$discard", *(f"$boost,site={domain}" for domain in allowed)] if allowed else []
    return "\n".join([*lines, *(f"$discard,site={domain}" for domain in blocked)])


def check_rules(goggle: str) -> None:
    """Check inline rules.

    Raises:
        ConfigError: a rule is not of the form above; the message names its line and what is wrong with it.
    """
    if len(goggle.encode(errors="replace")) > MAX_BYTES:
        raise ConfigError(f"the goggle is larger than {MAX_BYTES:,} bytes")
    rules = 0
    for number, line in enumerate(goggle.splitlines(), 1):
        rule = line.strip()
        if not rule or rule.startswith("!"):
            continue
        rules += 1
        if fault := _fault(rule):
            raise ConfigError(f"goggle, line {number}, {rule[:60]!r}: {fault}")
    if rules > MAX_RULES:
        raise ConfigError(f"the goggle has {rules:,} rules; at most {MAX_RULES:,} are allowed")


def _fault(rule: str) -> str:
    """Return what is wrong with a rule, "" when nothing is."""
    if len(rule) > MAX_RULE:
        return f"a rule has at most {MAX_RULE} characters"
    pattern, dollar, tail = rule.rpartition("$")
    if not dollar:
        pattern, tail = rule, ""
    if re.match(r"=\d|,site=|=\d*,", rule):
        return "it begins with what follows an action; was `$boost` swallowed by a shell?"
    if any(pattern.count(sign) > 2 for sign in "*^"):
        return "a pattern has at most two '*' and two '^'"
    if re.search(r"\s", pattern):
        return "a pattern has no blanks"
    return _options_fault(tail) if dollar else ""


def _options_fault(tail: str) -> str:
    actions = 0
    for option in tail.split(","):
        name, equals, value = option.partition("=")
        if name not in OPTIONS:
            return f"unknown option {name!r}{did_you_mean(name, OPTIONS)}; options are {', '.join(OPTIONS)}"
        if name == "site" and not re.fullmatch(r"[^\s$,]+", value):
            return "site needs a domain: site=example.com"
        if name in ("boost", "downrank") and equals and not re.fullmatch(r"[1-9]|10", value):
            return f"the strength of {name} is {value!r}; it must be 1 to 10"
        actions += name in ACTIONS
    return "a rule has one action: boost, downrank or discard" if actions > 1 else ""
