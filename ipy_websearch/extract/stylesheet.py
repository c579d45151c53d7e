"""Which elements the page's own `<style>` hides: text under a class that no reader sees is still text to a parser.

Not a browser's cascade: rules count that hold on a screen whatever its size, on elements that they match by tag, id, classes
and attributes, as far as they are not shown by another rule for the same class (a tab that is opened, a menu on a wide
screen). Style sheets elsewhere are not fetched. One linear pass over the text; what cannot be understood hides nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ipy_websearch.extract.css import NEVER, Declarations, hides, parsed
from ipy_websearch.extract.tree import is_short

_MAX_CHARACTERS = 500_000
_MAX_RULES = 5_000
_MAX_RULES_A_KEY = 50
_MAX_BLOCK = 5_000
_MAX_NESTED = 8
_MANY = 4
_Block = tuple[str, str, bool]
# What one of the hiding declarations has in it, whatever else is written; escapes may hide their names.
_SUSPECT = re.compile(
    r"display[^;]*(?:none|\\)|visibility\s*:\s*[hc]|opacity|clip(?:-path)?\s*:|scale|-\d\d\d|\d{4}|font(?:-size)?\s*:\s*[0.]"
    r"|(?:width|height)\s*:\s*[01]p?x?\s*(?:$|[;!])|(?:^|;)[^:;\"']*\\|text-fill|(?<!-)color\s*:\s*(?:transparent|rgba|hsla|#\w+0\b)"
    r"|(?<!-)color[^;]*;(?:.*;)?\s*background|background.*;\s*color",
    re.IGNORECASE | re.DOTALL,
)
_KEY = re.compile(r"[.#\[][\w-]+")
_COMMENT = re.compile(r"/\*.*?(?:\*/|$)", re.DOTALL)
_BRACE = re.compile(r"[{}]")
_ALWAYS = re.compile(r"@media\s+(?:only\s+)?(?:screen|all)\s*$|@(?:layer|supports)\b", re.IGNORECASE)
_COMPOUND = re.compile(r"([a-zA-Z][\w-]*|\*)?((?:[.#][\w-]+|\[[^\]\"'=~|^$*]+(?:=[\"']?[^\]\"']*[\"']?)?\])*)")
_PART = re.compile(r"([.#])([\w-]+)|\[\s*([^\]=\s]+)\s*(?:=\s*[\"']?([^\]\"']*)[\"']?)?\]")
_WITHOUT_SCRIPT = frozenset({"no-js", "nojs", "no_js", "js-disabled", "noscript"})
_TELLING = frozenset(
    "display visibility opacity content-visibility height max-height width max-width font-size left top clip clip-path".split()
)


@dataclass(frozen=True, slots=True)
class _Compound:
    """What one part of a selector asks of an element; `keys` are its ids and classes as ".x", "#x" and "[x"."""

    tag: str
    classes: frozenset[str]
    identity: str
    attributes: tuple[tuple[str, str | None], ...]
    keys: tuple[str, ...]

    def fits(self, element: Any) -> bool:
        if self.tag not in ("", "*", element.tag) or (self.identity and element.get("id") != self.identity):
            return False
        if self.classes and not self.classes.issubset((element.get("class") or "").split()):
            return False
        return all(
            element.get(name) is not None if value is None else element.get(name) == value for name, value in self.attributes
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Rule:
    """Which elements are hidden, and by what declarations."""

    selector: tuple[_Compound, ...]
    given: Declarations

    @property
    def stands_alone(self) -> bool:
        """Whether one class or id is all that the rule asks for."""
        return len(self.selector) == 1 and len(self.selector[0].keys) == 1

    def kind(self, element: Any) -> int:
        """Return how the rule hides an element; a font of no size is often that of a box whose parts have theirs."""
        if ("font-size" in self.given or "font" in self.given) and not (element.text or "").strip():
            return hides({name: value for name, value in self.given.items() if not name.startswith("font")})
        return hides(self.given)


@dataclass(slots=True)
class StyleSheet:
    """The hiding rules of a page, by a class, id or attribute of the elements that they are about.

    A `bare` page has no style sheet at all: what is not coloured on the spot is black on white.
    """

    bare: bool = False
    rules: dict[str, list[_Rule]] = field(default_factory=dict)

    def hidden(self, body: Any) -> dict[Any, int]:
        """Return the elements that the page's styles hide, and how (`FADED`, `CLOSED`, `NEVER`).

        What hides many parts alike is how the page folds up its answers, tabs or menus, to be opened one by one by its
        script: those stay.
        """
        found: dict[Any, int] = {}
        for rule, elements in self._hits(body).items():
            many = sum(not is_short(element, 1) for element in elements) >= _MANY
            for element in elements:
                kind = rule.kind(element)
                if kind == NEVER or (kind and not many):
                    found[element] = max(found.get(element, 0), kind)
        return found

    def _hits(self, body: Any) -> dict[_Rule, list[Any]]:
        hits: dict[_Rule, list[Any]] = {}
        for element in body.iterdescendants() if self.rules else ():
            names = [f".{name}" for name in (element.get("class") or "").split()[:50]]
            if element.attrib:
                names.append(f"#{element.get('id')}")
                names += [f"[{name}" for name in element.attrib]
            for rule in {rule: None for name in names for rule in self.rules.get(name, ())}:
                if _matches(rule.selector, element):
                    hits.setdefault(rule, []).append(element)
        return hits


def hidden_names(css: str) -> frozenset[str]:
    """Return the classes and ids (".x", "#x") that a style sheet hides by themselves, for where there is no tree to match."""
    blocks = [block for block in _blocks(_COMMENT.sub("", css[:_MAX_CHARACTERS])) if len(block[1]) < _MAX_BLOCK]
    hiding = list(islice(_hiding_rules(blocks), _MAX_RULES))
    shown = {key for _, key in _shown(blocks, {key for rule, _ in hiding for key in rule.selector[-1].keys})}
    return frozenset(rule.selector[0].keys[0] for rule, _ in hiding if rule.stands_alone) - shown


def stylesheet(root: Any) -> StyleSheet:
    """Return the hiding rules in the page's `<style>` elements."""
    linked = any("stylesheet" in (link.get("rel") or "").lower() for link in root.iter("link"))
    texts = [element.text for element in root.iter("style") if element.text and (element.get("media") or "all") != "print"]
    css = _COMMENT.sub("", "\n".join(texts)[:_MAX_CHARACTERS])
    sheet = StyleSheet(bare=not linked and not css.strip())
    if not css:
        return sheet
    names = {f".{name}" for value in root.xpath("//@class") for name in value.split()}
    names.update("#" + value for value in root.xpath("//@id"))
    blocks = [block for block in _blocks(css) if len(block[1]) < _MAX_BLOCK and _is_about(block[0], names)]
    hiding = list(islice(_hiding_rules(blocks), _MAX_RULES))
    shown = _shown(blocks, {key for rule, _ in hiding for key in rule.selector[-1].keys})
    for rule, telling in hiding:
        keys = rule.selector[-1].keys
        rules = sheet.rules.setdefault(keys[0], [])
        if len(rules) < _MAX_RULES_A_KEY and not any((name, key) in shown for name in telling for key in keys):
            rules.append(rule)
    return sheet


def _is_about(prelude: str, names: set[str]) -> bool:
    """Return whether a selector names a class or id that the page has, or an attribute."""
    return "[" in prelude or not names.isdisjoint(_KEY.findall(prelude))


def _hiding_rules(blocks: list[_Block]) -> Iterator[tuple[_Rule, frozenset[str]]]:
    """Yield the rules that hide, with the properties that do it."""
    for prelude, body, always in blocks:
        if not always or _SUSPECT.search(body) is None:
            continue
        given = parsed(body)
        if hides(given):
            names = frozenset(name for name in _TELLING & given.keys() if hides({name: given[name]})) or _TELLING & given.keys()
            for text in prelude.split(",")[:100]:
                if (selector := _selector(text)) is not None:
                    yield _Rule(selector, given), names


def _shown(blocks: list[_Block], keys: set[str]) -> set[tuple[str, str]]:
    """Return which of the properties that could hide are set otherwise, for which of the classes, ids and attributes."""
    shown: set[tuple[str, str]] = set()
    for prelude, body, _ in blocks if keys else ():
        met = keys.intersection(_KEY.findall(prelude))
        if not met:
            continue
        given = parsed(body)
        if not hides(given):
            shown.update((name, key) for name in _TELLING & given.keys() for key in met)
    return shown


def _blocks(css: str) -> Iterator[_Block]:
    """Yield prelude, declarations and whether they hold always, for each rule."""
    stack: list[tuple[str, int]] = []
    position = 0
    for brace in _BRACE.finditer(css):
        if brace[0] == "{":
            stack.append((css[position : brace.start()].rpartition(";")[2].strip(), brace.end()))
        elif stack:
            prelude, start = stack.pop()
            if len(stack) > _MAX_NESTED:
                continue
            outer = [name for name, _ in stack if name.startswith("@")]
            if not prelude.startswith("@") and len(stack) == len(outer) and not any("print" in name for name in outer):
                yield prelude, css[start : brace.start()], all(map(_ALWAYS.match, outer))
        position = brace.end()


def _selector(text: str) -> tuple[_Compound, ...] | None:
    """Return the compounds of a selector, None when it cannot be understood, or is about more than certain elements."""
    words = text.replace(">", " ").split()
    if not 0 < len(words) <= 10 or ("=" in text and "[" not in text):
        return None
    compounds = tuple(filter(None, map(_compound, words)))
    if len(compounds) < len(words) or not compounds[-1].keys:
        return None
    return None if any(not _WITHOUT_SCRIPT.isdisjoint(compound.classes) for compound in compounds) else compounds


def _compound(text: str) -> _Compound | None:
    match = _COMPOUND.fullmatch(text)
    if match is None:
        return None
    classes, identity, attributes, keys = set(), "", [], []
    for sign, name, attribute, value in _PART.findall(match[2]):
        keys.append(f"[{attribute}" if attribute else sign + name)
        if sign == ".":
            classes.add(name)
        elif sign == "#":
            identity = name
        else:
            attributes.append((attribute, value or None))
    return _Compound((match[1] or "").lower(), frozenset(classes), identity, tuple(attributes), tuple(keys))


def _matches(selector: tuple[_Compound, ...], element: Any) -> bool:
    """Return whether a selector is about an element; `>` is taken for a descendant, too."""
    if not selector[-1].fits(element):
        return False
    rest = list(selector[:-1])
    for ancestor in element.iterancestors():
        if not rest:
            break
        if rest[-1].fits(ancestor):
            rest.pop()
    return not rest
