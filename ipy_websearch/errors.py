"""Every error the package raises, one tree with one base.

    WebSearchError
      ConfigError              a setting, flag or name is wrong
        MissingKeyError        names every way to set that key
      ProviderError            a search provider failed
        RateLimitedError       it answered 429
      FetchError               a page could not be fetched or read
        BlockedAddressError    the address is not the public web
      ModelError               the model's API refused or broke
      BudgetExceededError      a budget does not cover the next paid call
      EnrichmentError          an enrichment as a whole cannot go on
      ReplayError              a request is not on the cassette that is replayed

A message is one line: what happened, with which value, and what to do. In IPython it is shown as that line, without
a traceback, and the cell still fails, so that "Run All" stops; `traceback.print_exception(sys.last_value)` shows the traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ipy_websearch.results import Answer, Charge

# Why a provider failed: the key was refused; the account is empty; the plan is used up, with a reset more than a minute away;
# too many requests just now; no answer came; the provider broke or sent something unreadable; it refused this request.
FailureReason = Literal["key", "credit", "quota", "rate", "unreachable", "server", "request"]

# A 429 with a longer `retry_after` is an exhausted quota and is not waited for.
LONG_WAIT_S = 60.0


class WebSearchError(Exception):
    """The base of all errors of this package; catch it to catch them all."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython shows in place of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class ConfigError(WebSearchError):
    """A setting, a flag or a name is wrong; nothing was sent."""


class MissingKeyError(ConfigError):
    """A key that was asked for by name is not set; the message names every way to set it."""


class ProviderError(WebSearchError):
    """A search provider, or one that reads pages, failed.

    `status` is the HTTP status (None: no answer came), `retry_after` seconds to wait (None: not given), `reason` the kind of
    failure (default: derived from the status). `lost` requests were sent without a usable answer and are booked at `charges`.
    With `others_may_answer`, another provider of the chain may still find something for another query.
    """

    others_may_answer = False

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        retry_after: float | None = None,
        lost: bool = False,
        reason: FailureReason | None = None,
    ) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status
        self.retry_after = retry_after
        self.lost = lost
        self.reason: FailureReason = reason or _failure_reason(status, retry_after)
        self.charges: tuple[Charge, ...] = ()

    @property
    def permanent(self) -> bool:
        """Whether a retry is useless until the user acts or the plan's period ends."""
        return self.reason in ("key", "credit", "quota") and not self.others_may_answer


_REASONS: dict[int | None, FailureReason] = {None: "unreachable", 401: "key", 403: "key", 402: "credit"}


def _failure_reason(status: int | None, retry_after: float | None) -> FailureReason:
    """Return the reason that a status implies; providers correct it by their own codes."""
    if status == 429:
        return "quota" if (retry_after or 0) > LONG_WAIT_S else "rate"
    return _REASONS.get(status) or ("request" if status and 400 <= status < 500 else "server")


class RateLimitedError(ProviderError):
    """The provider answered 429: too many requests, or the plan is used up."""


class FetchError(WebSearchError):
    """A page could not be fetched or read; `status` is the HTTP status of an error answer, else None."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class BlockedAddressError(FetchError):
    """The address is not on the public web; the message names the rule that refused it."""


class ModelError(WebSearchError):
    """The model's API refused the request or broke off.

    `status` is the HTTP status (200 when it broke inside a stream, None when no answer came), `request_id` the
    API's own id, `partial` an `Answer` with the text that had already arrived. Its cost is in the ledger.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        partial: Answer | None = None,
        retry_after: float | None = None,
        kind: str = "",
    ) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id
        self.partial = partial
        self.retry_after = retry_after
        self.kind = kind


class BudgetExceededError(WebSearchError):
    """A budget does not cover the next paid call, so it was not sent; the message says what the call needs."""


class EnrichmentError(WebSearchError):
    """An enrichment as a whole cannot go on; finished rows are in the store."""


class ReplayError(WebSearchError):
    """A request is not on the cassette that is replayed. Nothing was sent."""
