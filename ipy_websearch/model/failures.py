"""What goes wrong between us and the model: one line for people, whether to try again, and whether it may be billed. Pure.

The SDK retries nothing here (`max_retries=0`): only the loop knows whether text was shown and how much time is left. The rules
are the SDK's (408, 409, 429, 5xx and lost connections; `x-should-retry` and `retry-after` obeyed; half a second, doubled, at
most eight), with two changes: `retry-after` is obeyed for at most a minute, where the SDK would sleep for hours, and a reached
spend cap (a 429 that no waiting mends) is not retried.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from ipy_websearch.errors import ModelError
from ipy_websearch.model.platforms import did_you_mean
from ipy_websearch.text import plain, shorten

if TYPE_CHECKING:
    import anthropic

MAX_RETRIES = 2
MAX_RETRY_AFTER_S = 60.0
_LONGEST_S, _DOUBLINGS = 8.0, 4
_SPEND_CAP = re.compile(r"spend|credit|billing|monthly|quota", re.IGNORECASE)
_TRANSIENT = frozenset(
    "overloaded_error api_error rate_limit_error timeout_error connection_error connection_lost truncated".split()
)
_NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "UnsupportedProtocol", "ProxyError")
_MAYBE_BILLED = ("connection_lost", "truncated", "timeout_error", "")


def retry_wait_s(error: ModelError, attempt: int, *, retries: int = MAX_RETRIES) -> float | None:
    """Return the seconds to wait before the request is sent again, None when it should not be.

    `attempt` counts the failures so far, from 1; after more than `retries` of them it is not.
    """
    if attempt > retries or not is_transient(error):
        return None
    if error.retry_after is not None:
        return min(error.retry_after, MAX_RETRY_AFTER_S)
    return float(min(0.5 * 2 ** min(attempt - 1, _DOUBLINGS), _LONGEST_S) * (1 - 0.25 * random.random()))


def is_transient(error: ModelError) -> bool:
    """Say whether the same request may succeed a moment later."""
    if error.kind == "do_not_retry":
        return False
    if error.status == 429 and error.retry_after is None and _SPEND_CAP.search(str(error)):
        return False
    if error.status in (None, 200):
        return error.kind in _TRANSIENT
    return error.status in (408, 409, 429) or error.status >= 500


def may_be_billed(error: ModelError | None) -> bool:
    """Say whether a request of which no usage came may be billed: it went out, and was not refused."""
    if error is None:
        return True
    return error.status in (None, 200) and (error.kind in _MAYBE_BILLED or (error.status == 200 and error.kind == "no_message"))


def status_error(exc: anthropic.APIStatusError, redact: Callable[[str], str]) -> ModelError:
    """Return the SDK's error for a refusal as ours."""
    detail = shorten(redact(plain(getattr(exc, "api_message", None) or str(exc))), 300)
    kind, wait_s = str(getattr(exc, "type", "") or ""), retry_after_s(exc.response.headers)
    return ModelError(
        explain(exc.status_code, detail, kind, wait_s),
        status=exc.status_code,
        request_id=exc.request_id,
        retry_after=wait_s,
        kind=kind if exc.response.headers.get("x-should-retry") != "false" else "do_not_retry",
    )


def event_error(event: Mapping[str, Any], redact: Callable[[str], str], request_id: str | None = None) -> ModelError:
    """Return what an `error` event of a stream says, as an error."""
    said = event.get("error")
    error = said if isinstance(said, Mapping) else {}
    detail = shorten(redact(plain(error.get("message")) or "no reason given"), 300)
    kind = str(error.get("type") or "")
    text = f"the model broke off its answer: {detail} ({kind or 'error'})"
    return ModelError(text, status=200, request_id=event.get("request_id") or request_id, kind=kind)


def connection_error(exc: BaseException, address: str, redact: Callable[[str], str]) -> ModelError:
    """Return the error for a connection that could not be made, or was lost."""
    cause = exc.__cause__ or exc
    name = type(cause).__name__
    said = "" if "Protocol" in name else str(cause)  # h11 quotes bytes that may be the end of somebody else's answer
    detail = shorten(redact(plain(said) or name), 160)
    kind = "no_message" if name == "TooManyRedirects" else "connection_error" if name in _NEVER_SENT else "connection_lost"
    return ModelError(f"could not reach the model at {address}: {detail}; check the network, or use --model offline", kind=kind)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a server asks to be left alone for, None when it does not say."""
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return max(0.0, float(milliseconds) / 1000)
        value = headers.get("retry-after", "")
        if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
            return float(value)
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()) if value else None
    except (ValueError, TypeError):
        return None


def explain(status: int, detail: str, kind: str, wait_s: float | None) -> str:
    """Return one line for an error status of the API, with what to do (platform.claude.com/docs/en/api/errors, 2026-11)."""
    match status:
        case 401:
            return f"the Anthropic API refused the key (401: {detail}); set a valid one with `%websearch key anthropic`"
        case 402:
            return f"the Anthropic account has no credit left (402: {detail}); add credit in the console"
        case 403:
            return f"the Anthropic key may not do this (403: {detail}); check the workspace's permissions"
        case 404:
            meant = did_you_mean(detail.removeprefix("model: "))
            return f"the Anthropic API does not know that (404: {detail}); check the model's name{meant}"
        case 413:
            return f"the question with its context is too large (413: {detail}); ask with less, or begin anew without --follow"
        case 429:
            advice = _wait("wait a moment and ask again", wait_s)
            return f"the Anthropic API is limiting requests (429: {detail}); {advice}"
        case 500 | 502 | 503 | 504 | 529:
            advice = _wait("ask again in a moment", wait_s)
            return f"the Anthropic API is overloaded or failing ({status}: {detail}); {advice}"
        case _:
            return f"the Anthropic API refused the request ({status} {kind}: {detail})".replace(" :", ":")


def _wait(advice: str, seconds: float | None) -> str:
    if seconds is None or seconds < 5:
        return advice
    steps = (
        (100, 1, ".0f", "s"),
        (5_400, 60, ".0f", "min"),
        (172_800, 3_600, ".1f", "h"),
        (float("inf"), 86_400, ".0f", "days"),
    )
    size, form, unit = next((size, form, unit) for below, size, form, unit in steps if seconds < below)
    return f"the server asks to be left alone for {seconds / size:{form}} {unit}"
