"""What style declarations do to the text they are for: show it, or one of the many ways not to. Pure, on hostile input.

Declarations are read as a browser reads them: comments and escapes resolved, names in any case, `!important` left out. Three
kinds of hiding, from the most honest on: `FADED` is how a page begins that fades in, `CLOSED` what a reader may open, `NEVER`
what nobody does to text that is meant to be seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

FADED, CLOSED, NEVER = 1, 2, 3
Declarations = Mapping[str, str]
Color = tuple[int, int, int]

_COMMENT = re.compile(r"/\*.*?(?:\*/|$)", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))", re.DOTALL)
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))([a-z]*|%)")
# A hundred per cent of a page or of itself is as far away as a hundred pixels: out of sight, while half of it is centred.
_PIXELS = {"": 1.0, "px": 1.0, "pt": 1.33, "em": 16.0, "rem": 16.0, "ex": 8.0, "ch": 8.0, "%": 1.0, "vw": 1.0, "vh": 1.0}
_SIDES = ("left", "top", "right", "bottom", "inset", "text-indent", "translate")
_MARGINS = ("margin", "margin-left", "margin-top")
_CLIPPED = re.compile(
    r"rect\(\s*[01](?:px)?\b|inset\(\s*(?:50|100)%|circle\(\s*0|polygon\((?:\s*0[a-z%]*\s+0[a-z%]*\s*,?)+\)", re.ASCII
)
_SCALED = re.compile(r"scale(?:x|y|3d)?\(\s*0*\.?0*\s*[,)]")
_MOVED = re.compile(r"translate(?:x|y|z|3d)?\(([^)]*)\)")
_FONT_SIZE = re.compile(r"(?:^|\s)((?:\d+\.?\d*|\.\d+)(?:px|pt|em|rem|%)?)(?=[\s/])")
_TINY_PX = 2.0
_FAR_PX = 100.0
_FAR_MARGIN_PX = 500.0  # less is how boxes of a fixed width are centred
_OUT_PX = 3_000.0
_NAMED = {"white": (255, 255, 255), "black": (0, 0, 0)}
_ALIKE = 8


def hiding(style: str | None) -> int:
    """Return how a `style` attribute hides its text: `FADED`, `CLOSED`, `NEVER`, or 0 when it does not."""
    return hides(declarations(style)) if style else 0


@lru_cache(maxsize=4_096)
def declarations(style: str) -> Declarations:
    """Return the properties that a `style` attribute sets, the last of each name."""
    return parsed(style)


def parsed(style: str) -> Declarations:
    """Return the properties that a block of declarations sets; see `declarations`."""
    if "\\" in style:
        style = _ESCAPE.sub(_escaped, style)
    found: dict[str, str] = {}
    for part in _COMMENT.sub("", style).lower().split(";"):
        name, colon, value = part.partition(":")
        if colon:
            found[name.strip()] = " ".join(value.partition("!")[0].split())
    return found


def hides(given: Declarations) -> int:
    """Return how these declarations hide text: `FADED`, `CLOSED`, `NEVER`, or 0."""
    if _is_never_shown(given):
        return NEVER
    if "none" in given.get("display", "") or given.get("content-visibility") == "hidden" or _is_folded_up(given):
        return CLOSED
    if given.get("visibility") in ("hidden", "collapse") or _is_transparent_box(given) or _is_tiny(given, 1.0, all):
        return FADED
    return 0


def color(value: str) -> Color | None:
    """Return a colour that is written plainly (a name of black or white, #rgb, #rrggbb, rgb()), None for any other."""
    if value in _NAMED:
        return _NAMED[value]
    if match := re.fullmatch(r"#([0-9a-f]{3})f?|#([0-9a-f]{6})(?:ff)?", value):
        digits = match[2] or "".join(2 * digit for digit in match[1])
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    numbers = re.fullmatch(r"rgba?\(\s*(\d{1,3})[,\s]+(\d{1,3})[,\s]+(\d{1,3})\s*(?:[,/]\s*1(?:\.0)?\s*)?\)", value)
    return (int(numbers[1]), int(numbers[2]), int(numbers[3])) if numbers else None


def ground(given: Declarations) -> Color | None:
    """Return the background colour that declarations set, None when they set none that can be told."""
    value = given.get("background-color") or given.get("background", "")
    return color(value) or next((found for part in value.split(" ")[:8] if (found := color(part))), None)


def alike(one: Color | None, other: Color | None) -> bool:
    """Return whether nobody could tell text of one colour from a ground of the other."""
    return one is not None and other is not None and all(abs(a - b) <= _ALIKE for a, b in zip(one, other, strict=True))


def _escaped(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[2]
    number = int(match[1], 16)
    return chr(number) if 0 < number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"


def _is_transparent_box(given: Declarations) -> bool:
    value = given.get("opacity", "")
    faint = _number(value, 0.05, 5.0)
    return faint or re.search(r"opacity\(\s*0*\.?0*%?\s*\)", given.get("filter", "")) is not None


def _number(value: str, most: float, most_percent: float) -> bool:
    match = _NUMBER.fullmatch(value)
    return match is not None and float(match[1]) <= (most_percent if match[2] == "%" else most)


def _is_never_shown(given: Declarations) -> bool:
    return (
        _has_tiny_font(given)
        or _is_out_of_sight(given)
        or _CLIPPED.match(given.get("clip", "")) is not None
        or _CLIPPED.match(given.get("clip-path", "")) is not None
        or _has_no_color(given)
        or _is_transformed_away(given)
    )


def _has_tiny_font(given: Declarations) -> bool:
    size = given.get("font-size")
    if size is None and (short := _FONT_SIZE.search(given.get("font", ""))):
        size = short[1]
    match = _NUMBER.fullmatch(size or "")
    return match is not None and float(match[1]) * (0.16 if match[2] == "%" else _PIXELS.get(match[2], 16.0)) < _TINY_PX


def _is_out_of_sight(given: Declarations) -> bool:
    for names, far in ((_SIDES, _FAR_PX), (_MARGINS, _FAR_MARGIN_PX)):
        for name in names:
            if any(pixels <= -far or pixels >= _OUT_PX for pixels in _lengths(given.get(name, ""))):
                return True
    return False


def _lengths(value: str) -> list[float]:
    if not value or value == "0":
        return []
    if "calc(" in value:
        return [-_OUT_PX] if re.search(r"\d{4}", value) else []
    return [float(number) * _PIXELS.get(unit, 1.0) for number, unit in _NUMBER.findall(value[:200])]


def _is_folded_up(given: Declarations) -> bool:
    """Return whether the box has no width or no height and cuts off what does not fit."""
    cut = any(given.get(name, "").startswith(("hidden", "clip")) for name in ("overflow", "overflow-x", "overflow-y"))
    return cut and (_is_tiny(given, 0.0, any) or _is_tiny(given, 1.0, all))


def _is_tiny(given: Declarations, most_px: float, which: Callable[[Iterable[bool]], bool]) -> bool:
    """Return whether width or height (`any`), or both (`all`), are no more than so many pixels."""
    if any(name.startswith("flex") for name in given):
        return False  # a flexible box grows
    return which(
        any(_number(given.get(name, ""), most_px, 0.0) for name in (side, f"max-{side}")) for side in ("width", "height")
    )


def _has_no_color(given: Declarations) -> bool:
    if "text" in given.get("background-clip", "") or "text" in given.get("-webkit-background-clip", ""):
        return False  # letters that are cut out of a picture
    ink = given.get("-webkit-text-fill-color") or given.get("color", "")
    if ink == "transparent" or re.fullmatch(r"#[0-9a-f]{3}0|#[0-9a-f]{6}00|(?:rgb|hsl)a?\([^()]*[,/]\s*0*\.?0*%?\s*\)", ink):
        return ink.count(",") != 2  # rgb(0, 0, 0) is black
    return alike(color(ink), ground(given))


def _is_transformed_away(given: Declarations) -> bool:
    transform = given.get("transform") or given.get("-webkit-transform", "")
    if _SCALED.search(transform) or re.fullmatch(r"0*\.?0+", given.get("scale", "")):
        return True
    moves = _MOVED.findall(transform[:500])
    return any(length <= -_FAR_PX for move in moves for length in _lengths(move.replace(",", " ")))
