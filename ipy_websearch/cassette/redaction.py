"""Keys out of what is written: as they are, quoted for an address or for JSON, in base64 at any place, split over a stream.

Invariant: the text of an entry passes `Redactor.text` as the last thing before it is written, whatever was done before.
"""

from __future__ import annotations

import json
import os
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus

MARK = "[key]"
SHORTEST = 4

SECRET_PARAMETERS = frozenset("key cx api_key apikey api-key access_token auth token client_secret subscription-token".split())
"""Query parameters and JSON fields whose values are keys, whoever's they are."""

_SECRET_HEADERS = ("authorization", "x-subscription-token", "x-api-key", "api-key", "x-goog-api-key")
_VARIABLE = re.compile(r"(_API_KEY|_AUTH_TOKEN|_TOKEN|_SECRET|_SECRET_ACCESS_KEY|_PASSWORD)$")
_LONG_ENOUGH = 12  # what a variable of such a name holds may be a word that stands everywhere
# Keys by their looks: one that somebody typed into a question is known to no session.
_SHAPES = re.compile(
    r"sk-ant-[\w-]{8,}|tvly-[\w-]{12,}|pplx-\w{20,}|AIza[\w-]{30,}|gh[pousr]_\w{20,}|github_pat_\w{20,}"
    r"|(?<=Bearer )[\w.~+/-]{16,}"
)
_USER_INFO = re.compile(r"(?<=//)[^/@:\s\"']+:[^/@\s\"']+@")  # with a password: `ssh://git@host` is no secret
_PIECES = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


class Redactor:
    """Takes keys out; `secrets` gives those of the session each time, since some may be set later."""

    def __init__(self, secrets: Callable[[], Iterable[str]]) -> None:
        self._secrets = secrets
        self._forms: tuple[frozenset[str], list[str]] = (frozenset(), [])

    def text(self, text: str, sent: Iterable[str] = ()) -> str:
        """Return `text` without keys; `sent` are those that went out with this very request."""
        for form in self._all_forms(sent):
            if form in text:
                text = text.replace(form, MARK)
        return _SHAPES.sub(MARK, _USER_INFO.sub("", text))

    def data(self, data: bytes, sent: Iterable[str] = ()) -> bytes:
        """Return bytes that are no text without keys."""
        for form in self._all_forms(sent):
            data = data.replace(form.encode("utf-8", "surrogatepass"), MARK.encode())
        return data

    def stream(self, events: Sequence[tuple[float, dict[str, Any]]]) -> list[tuple[float, dict[str, Any]]]:
        """Return the events of a stream without the keys that were written in several pieces."""
        places: dict[tuple[Any, str], list[int]] = {}
        for at, (_, event) in enumerate(events):
            name = _PIECES.get(str((event.get("delta") or {}).get("type")), "")
            if event.get("type") == "content_block_delta" and name:
                places.setdefault((event.get("index"), name), []).append(at)
        clean = list(events)
        for (_, name), found in places.items():
            pieces = [str(events[at][1]["delta"].get(name) or "") for at in found]
            for at, piece, mended in zip(found, pieces, self._mended(pieces), strict=True):
                if piece != mended:
                    moment, event = events[at]
                    clean[at] = (moment, {**event, "delta": {**event["delta"], name: mended}})
        return clean

    def _mended(self, pieces: Sequence[str]) -> list[str]:
        """Return pieces of one text without the keys in it; the mark stands in the piece in which a key began."""
        text = "".join(pieces)
        forms = [re.escape(form) for form in self._all_forms(())]
        spans = [found.span() for found in re.finditer("|".join([*forms, _SHAPES.pattern]), text)]
        if not spans:
            return list(pieces)
        mended, start = [], 0
        for piece in pieces:
            end = start + len(piece)
            kept, at = "", start
            for first, last in spans:
                if last <= at or first >= end:
                    continue
                kept += text[at : max(first, at)] + (MARK if first >= at else "")
                at = min(last, end)
            mended.append(kept + text[at:end])
            start = end
        return mended

    def _all_forms(self, sent: Iterable[str]) -> list[str]:
        secrets = frozenset(s for s in (*self._secrets(), *_from_environment(), *sent) if len(s) >= SHORTEST)
        if self._forms[0] != secrets:
            forms = {form for secret in secrets for form in _forms(secret)}
            self._forms = (secrets, sorted(forms, key=len, reverse=True))
        return self._forms[1]


def sent_secrets(headers: Mapping[str, str]) -> list[str]:
    """Return the keys in a request's headers."""
    return [value.removeprefix("Bearer ") for name, value in headers.items() if name.lower() in _SECRET_HEADERS]


def _forms(secret: str) -> set[str]:
    """Return how a key may be written: plain, quoted, inside JSON, and inside any longer text in base64."""
    forms = {secret, quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace"), json.dumps(secret)[1:-1]}
    data = secret.encode("utf-8", "replace")
    for shift in range(3 if len(data) >= 8 else 0):
        for encode in (b64encode, urlsafe_b64encode):
            coded = encode(b"\0" * shift + data).decode().rstrip("=")
            # The first and the last character or two also depend on what stands beside the key.
            first = -(-shift * 8 // 6)
            last = (shift + len(data)) * 8 // 6
            forms.add(coded[first:last])
    return forms


def _from_environment() -> list[str]:
    return [value for name, value in os.environ.items() if len(value) >= _LONG_ENOUGH and _VARIABLE.search(name)]
