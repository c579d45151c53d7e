"""Reading robots.txt as RFC 9309 has it. Pure: text in, the rules that hold for us out, and which of them refuses a path.

The longest pattern that matches decides, `Allow` among equals; groups that name us are taken together, those for `*` count
only when no group names us; `*` and a final `$` are special. Not used, and why: the standard library's parser takes the
first rule that matches (until Python 3.13.14 and 3.14.5) and knows no `*`; protego 0.7 takes minutes for 500 kB of
`User-agent` lines, and the file is written by strangers. Everything here is linear in file and address.

Sources: RFC 9309 (read 2026-11); where it is silent, Google's parser (developers.google.com/search/docs/crawling-indexing/
robots/robots_txt, read 2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote

MAX_BYTES = 512_000
"""Bytes of a file that are read, the 500 KiB that RFC 9309, section 2.5, asks for; the rest counts as not there."""

_TOKEN = re.compile(r"[A-Za-z_-]+")
_LINE_END = re.compile(r"\r\n?|\n")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


@dataclass(frozen=True, slots=True)
class Rule:
    """One `Allow` or `Disallow`; `pattern` is in the form that `comparable` gives, with `*` and a final `$` special."""

    allows: bool
    pattern: str

    def __str__(self) -> str:
        return f"{'Allow' if self.allows else 'Disallow'}: {self.pattern}"

    def matches(self, path: str) -> bool:
        """Return whether the rule is about `path`, which is in the form that `comparable` gives."""
        ends = self.pattern.endswith("$")
        first, *others = self.pattern.removesuffix("$").split("*")
        if not path.startswith(first):
            return False
        position = len(first)
        if not others:
            return not ends or position == len(path)
        last = others.pop() if ends else ""
        for part in others:
            found = path.find(part, position)
            if found < 0:
                return False
            position = found + len(part)
        return path.endswith(last) and len(path) - len(last) >= position


@dataclass(slots=True, eq=False)
class _Group:
    """The rules of all groups for one name; `named` says that there was one at all, with or without rules."""

    named: bool = False
    rules: list[Rule] = field(default_factory=list)


def product_token(user_agent: str) -> str:
    """Return the name under which robots.txt knows a User-Agent header: "ipy_websearch/1.0 (…)" is "ipy_websearch"."""
    match = _TOKEN.match(user_agent.strip())
    return match[0].lower() if match else ""


def rules_for(text: str, token: str) -> tuple[Rule, ...]:
    """Return the rules in a robots.txt that hold for the program of that name."""
    ours, anyone = _Group(), _Group()
    open_groups: list[_Group] = []
    in_head = False  # among the `User-agent` lines that begin a group; other lines than rules do not end it
    for name, value in _records(text):
        if name == "user-agent":
            if not in_head:
                open_groups = []
            in_head = True
            group = anyone if value.split(maxsplit=1)[:1] == ["*"] else ours if product_token(value) == token else None
            if group is not None and group not in open_groups:
                group.named = True
                open_groups.append(group)
        elif name in ("allow", "disallow"):
            in_head = False
            if value:
                for group in open_groups:
                    group.rules.append(Rule(name == "allow", _pattern(value)))
    return tuple(dict.fromkeys(ours.rules if ours.named else anyone.rules))


def refusing_rule(rules: Iterable[Rule], path: str) -> Rule | None:
    """Return the rule that forbids `path` (with its query, as in the address), None when it may be read."""
    path = _literal(comparable(path))
    if path == "/robots.txt":
        return None
    matching = (rule for rule in rules if rule.matches(path))
    decides = max(matching, key=lambda rule: (len(rule.pattern), rule.allows), default=None)
    return None if decides is None or decides.allows else decides


def comparable(path: str) -> str:
    """Return path and query in the form in which they are compared with a pattern (RFC 9309, section 2.2.2).

    What need not be escaped is not, what is not ASCII is, and escapes are in upper case.
    """
    plain = quote(path.encode("utf-8", "replace"), safe="".join(map(chr, range(33, 127))))
    return _ESCAPE.sub(lambda match: _unescaped(match[1]), plain)


def _unescaped(digits: str) -> str:
    character = chr(int(digits, 16))
    return character if character in _UNRESERVED else f"%{digits.upper()}"


def _literal(path: str) -> str:
    return path.replace("*", "%2A").replace("$", "%24")


def _pattern(value: str) -> str:
    """Return a rule's value as a pattern: a `$` that is not its end stands for itself."""
    pattern = comparable(value)
    end = "$" if pattern.endswith("$") else ""
    return pattern.removesuffix("$").replace("$", "%24") + end


def _records(text: str) -> Iterator[tuple[str, str]]:
    for line in _LINE_END.split(text.removeprefix("\ufeff")):
        name, colon, value = line.partition("#")[0].partition(":")
        if colon:
            yield name.strip().lower(), value.strip()
