"""When a failed model request is sent again, and after how long. Pure decisions; the waiting is the loop's.

The SDK's own rules (408, 409, 429, 5xx and lost connections; `x-should-retry` and `retry-after` obeyed; half a second,
doubled, at most eight), with two changes: `retry-after` is obeyed for at most a minute, where the SDK would sleep for
hours if told to, and a reached spend cap (a 429 that no waiting mends) is not retried.
"""

from __future__ import annotations

import random
import re

from ipy_websearch.errors import ModelError

MAX_RETRIES = 2
MAX_RETRY_AFTER_S = 60.0
_LONGEST_S, _DOUBLINGS = 8.0, 4
_SPEND_CAP = re.compile(r"spend|credit|billing|monthly|quota", re.IGNORECASE)
_TRANSIENT_KINDS = frozenset(
    "overloaded_error api_error rate_limit_error timeout_error connection_error connection_lost truncated".split()
)


def retry_wait_s(error: ModelError, attempt: int, *, jitter: float | None = None, retries: int = MAX_RETRIES) -> float | None:
    """Return the seconds to wait before the request is sent again, None when it should not be.

    `attempt` counts the failures so far, from 1; after more than `retries` of them it is not. `jitter` in 0..1 shortens the
    wait by up to a quarter (random when None).
    """
    if attempt > retries or not _transient(error):
        return None
    if error.retry_after is not None:
        return min(error.retry_after, MAX_RETRY_AFTER_S)
    share = random.random() if jitter is None else jitter
    return float(min(0.5 * 2 ** min(attempt - 1, _DOUBLINGS), _LONGEST_S) * (1 - 0.25 * share))


def _transient(error: ModelError) -> bool:
    if error.kind == "do_not_retry":
        return False
    if error.status == 429 and error.retry_after is None and _SPEND_CAP.search(str(error)):
        return False
    if error.status in (None, 200):
        return error.kind in _TRANSIENT_KINDS
    return error.status in (408, 409, 429) or error.status >= 500
