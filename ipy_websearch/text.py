"""Plain text out of hostile text: tags, entities, control and invisible characters; dates; amounts of money; addresses that are
safe as links. Pure string work.

Text from the web goes through `plain` or `visible` before it reaches a field, a prompt, a terminal or a notebook. They make
it harmless as characters; `display` makes it harmless as HTML and Markdown.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import inf, isfinite
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

# `%load_ext` imports this module; decimal, email and unicodedata, which it seldom needs, would take 1.5 ms of its 10.
if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

# All but `_SPACE` are compiled at their first use: they take 3 ms, for which loading the extension should not wait.
_TAG = r"(?s)<(?:!--(?:(?!-->|<!--).)*-->|/?[a-zA-Z][^<>]*>)"
_BREAK = r"(?i)</?(?:br|p|div|li|ul|ol|td|tr|h[1-6])\b[^<>]*>"
# A single blank is left as it is: most are, and replacing each one by itself took most of the time of a search's results.
_SPACE = re.compile(r"[ \t\r\n\f\v\u00a0\u2028\u2029]{2,}|[\t\r\n\f\v\u00a0\u2028\u2029]")

# Soft hyphen, Mongolian separators, zero-width and bidirectional marks, invisible operators, interlinear marks, the
# Hangul fillers, variation selectors and the tag block: a reader cannot see them, but a model would read them.
_INVISIBLE = (
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e"
    "\ufeff\uffa0\ufff0-\ufffc\ufffe\uffff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# U+200C and U+200D join or part emoji and the letters of Arabic, Syriac, India and its neighbours. Anywhere else they have no
# effect, and may be there to hide something.
_JOINED = "[\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\u2190-\u2bff\U0001f000-\U0001faff]"
_USELESS_JOINER = f"[\u200c\u200d](?:(?!{_JOINED})|(?<!{_JOINED}[\u200c\u200d])(?<!{_JOINED}\ufe0f[\u200c\u200d]))"
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
_ANSI = r"(?s)(?:\x1b|\u241b)\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x9b[0-?]*[ -/]*[@-~]"


def visible(text: str) -> str:
    """Return `text` without control, invisible, bidirectional and lone surrogate characters and without ANSI escapes.

    Line feeds and tabs stay; carriage returns become line feeds. Emoji variation (U+FE0F) stays, so that ❤️ survives, and so
    do the joiners inside 👩‍👧 and in words of scripts that are written with them.
    """
    if not text.isprintable() or "\u241b" in text:  # printable characters are no controls; some of the invisible ones are
        text = re.sub(_CONTROL, "", re.sub(_ANSI, "", text.replace("\r\n", "\n").replace("\r", "\n")))
    return text if text.isascii() else re.sub(_USELESS_JOINER, "", re.sub(_INVISIBLE, "", text))


def plain(value: Any) -> str:
    """Return one line of plain text from a provider's field: tags stripped, entities decoded, white space folded.

    Anything that is not a string (None, a number, a list) gives "". Entities are decoded once, after the tags have
    gone, so that an escaped tag in a snippet about HTML stays readable as text.
    """
    if not isinstance(value, str):
        return ""
    text = re.sub(_TAG, "", re.sub(_BREAK, " ", value)) if "<" in value else value
    if "&" in text:
        import html  # its table of entities takes a millisecond to load

        text = html.unescape(text)
    return _SPACE.sub(" ", visible(text)).strip()


def one_line(text: Any) -> str:
    """Return the text on one line, without control, bidirectional and invisible characters."""
    return " ".join(visible(str(text)).split())


def shorten(text: str, width: int) -> str:
    """Return `text` cut at a word to at most `width` characters, with "…" at the end when something was cut."""
    if len(text) <= width:
        return text
    at = text.rfind(" ", 0, width)
    return text[: at if at > width // 2 else width - 1].rstrip(" ,;:.-–—") + "…"


def fold(text: str) -> str:
    """Return `text` in a form for comparison, such as cache keys: NFKC, case folded, white space runs as one blank.

    Joiners are left out, because the same word is written with and without them.
    """
    if text.isascii() and text.isprintable():
        return " ".join(text.casefold().split())
    import unicodedata

    folded = _SPACE.sub(" ", unicodedata.normalize("NFKC", text).casefold())
    return re.sub("[\u200c\u200d]", "", folded).strip()


def sound(value: Any) -> Any:
    """Return a JSON value that can be sent: surrogate pairs become one character, lone surrogates U+FFFD, and NaN and
    Infinity None.

    >>> sound({"query": "\\ud83d\\ude00 \\ud83d", "score": float("nan")})
    {'query': '😀 �', 'score': None}
    """
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case dict():
            return {sound(name): sound(item) for name, item in value.items()}
        case list():
            return [sound(item) for item in value]
        case float():
            return value if isfinite(value) else None
    return value


def fenced(text: str, language: str) -> str:
    """Return `text` as a fenced code block of Markdown that nothing in it can close."""
    fence = "`" * (max(map(len, re.findall(r"(?m)^[ \t>]*(`{3,}|~{3,})", text)), default=2) + 1)
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}"


def parse_date(text: str) -> datetime | None:
    """Return the date that `text` gives in ISO 8601, as 2026/03/01 or in RFC 2822's form, as aware UTC, else None.

    A date without a time is midnight UTC; a time without a zone is read as UTC.
    """
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    text = text.strip()[:40]
    try:
        if text[:4].isdigit():
            when = datetime.fromisoformat(re.sub(r"\s+(?=[Z+-])", "", text.replace("/", "-")))
        else:
            when = parsedate_to_datetime(text)
        return when.astimezone(UTC) if when.tzinfo else when.replace(tzinfo=UTC)
    except (ValueError, TypeError, OverflowError):
        return None


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with its noun: "1 search", "1,204 rows"."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


# Below so many seconds, a time is told in units of so many seconds, in this form.
_TIMES = (
    (10, 1, ".1f", "s"),
    (100, 1, ".0f", "s"),
    (5_400, 60, ".0f", "min"),
    (172_800, 3_600, ".1f", "h"),
    (inf, 86_400, ".0f", "days"),
)


def duration(seconds: float) -> str:
    """Return a time in its largest sensible unit: "4.2 s", "41 s", "6 min", "2.5 h", "3 days"."""
    _, size, form, unit = next((row for row in _TIMES if seconds < row[0]), _TIMES[-1])
    return f"{seconds / size:{form}} {unit}"


def usd(amount: Decimal | float | None) -> str:
    """Return US dollars as "0.0123 USD", "12.50 USD", "<0.0001 USD", or "unknown" for None and NaN.

    There is never a dollar sign: two of them in one output become mathematics in Jupyter.
    """
    from decimal import ROUND_HALF_UP, Decimal

    value = Decimal("NaN" if amount is None else str(amount))
    if not value.is_finite():
        return "unknown"
    if 0 < value < Decimal("0.0001"):
        return "<0.0001 USD"
    rounded = value.quantize(Decimal("0.01" if abs(value) >= 1 else "0.0001"), ROUND_HALF_UP)
    return re.sub(r"(\.\d\d\d*?)0*$", r"\1", f"{rounded:,}") + " USD" if value else "0 USD"


# --- addresses ---------------------------------------------------------------------------------------------------------

# Addresses of the web, and what browsers and `urlsplit` drop silently (the first two of the breaks).
_WEB = r"(?i)(?P<scheme>https?)://(?P<host>[^\s:/?#@\[\]\\]+|\[[^\[\]]*\])(?P<port>(?::\d{0,5})?)(?P<rest>(?:[/?#].*)?)"
_HOST = r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]"
_BREAKS = r"[\t\n\u2028\u2029]"
_MAILTO = r"(?i)mailto:[^\s:@]+@[^\s:@]+"
_KEEP = "/?#:@!$&'()*+,;=%-._~"
MAX_ADDRESS = 4096
_SECOND_LEVEL = {"co", "com", "org", "net", "ac", "gov", "edu"}


@lru_cache(maxsize=2048)
def safe_href(url: str) -> str | None:
    """Return the address as printable ASCII without quotes, brackets and backslashes, or None when it is not safe as a link.

    Only http and https with a host and without a user name, and mailto with an address, pass. The result still needs HTML
    escaping (ampersands).
    """
    url = re.sub(_BREAKS, "", visible(url)).strip()
    href, web = quote(url, safe=_KEEP) if re.fullmatch(_MAILTO, url) else None, re.fullmatch(_WEB, url)
    if web:
        try:
            host = web["host"] if web["host"].isascii() else web["host"].encode("idna").decode("ascii")
        except UnicodeError:
            return None
        address = f"{web['scheme'].lower()}://{host}{web['port']}{quote(web['rest'], safe=_KEEP)}"
        href = address if re.fullmatch(_HOST, host) else None
    return href if href and len(href) <= MAX_ADDRESS else None  # as it is written: percent codes make it longer


def host_label(url: str) -> str:
    """Return the host of an address without "www.", or the scheme of one that has none ("corpus", "file")."""
    web = re.fullmatch(_WEB, visible(url).strip())
    return web["host"].lower().removeprefix("www.") if web else url.partition(":")[0]


def site_of(url: str) -> str:
    """Return the name of a site for a chip: "nytimes" for https://www.nytimes.com/x, "bbc" for bbc.co.uk.

    This is the registered name: "evil" for paypal.evil.example.
    """
    host = host_label(url)
    labels = host.split(".")
    if len(labels) < 2 or host.replace(".", "").isdigit():
        return host
    return labels[-3] if len(labels) > 2 and labels[-2] in _SECOND_LEVEL else labels[-2]


def place_of(url: str) -> str:
    """Return the host of an address that is safe as a link, else the whole address, as text."""
    return host_label(url) if safe_href(url) else one_line(url)


def short_address(url: str, width: int = 60) -> str:
    """Return host and path for a line of text, without a user name and password: "example.com/docs/a.html"."""
    path = re.sub(r"^[a-zA-Z][a-zA-Z0-9+.-]*://(?:[^/?#]*@)?(?:www\.)?", "", re.sub(_BREAKS, "", visible(url)).strip())
    return shorten(one_line(unquote(path.split("?")[0].split("#")[0])).rstrip("/"), width)
