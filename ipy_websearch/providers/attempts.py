"""What is said of engines that failed: beside the answer of the one that stood in, or as the one error of a whole chain. Pure.

A refusal of the key or of the plan lasts: whoever would ask once more soon can know from here that it is no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipy_websearch.errors import ProviderError
from ipy_websearch.providers.billed import also_charged
from ipy_websearch.results import Attempt, SearchResults
from ipy_websearch.usage import Charge

_REFUSALS = (401, 402, 403, 432, 433)  # the last two are Tavily's, for a plan that is used up
_SAID = ("the key was refused", "the plan's limit")  # `Engine.explain`; Brave says it with 422 and 429, Google with 400


def lasts(status: int | None, said: str) -> bool:
    """Say whether an engine that failed so has refused the key or the plan, and would do so again.

    >>> lasts(401, "brave answered 401"), lasts(503, "brave answered 503")
    (True, False)
    """
    return status in _REFUSALS or any(words in said for words in _SAID)


def stood_in(attempt: Attempt, provider: str) -> str:
    """Return the notice that `provider` was asked instead of an engine that failed."""
    return f"{attempt.error}; {provider} was asked instead"


def with_attempts(results: SearchResults, attempts: Sequence[Attempt], charges: Sequence[Charge]) -> SearchResults:
    """Return the answer of an engine that stood in for those that failed, with what they may be billed."""
    if not attempts:
        return results
    notices = (stood_in(attempt, results.provider) for attempt in attempts)
    results = replace(results, attempts=tuple(attempts), notices=(*notices, *results.notices))
    return also_charged(results, charges)


def all_failed(attempts: Sequence[Attempt], charges: Sequence[Charge]) -> ProviderError:
    """Return the one error for a chain in which nothing answered.

    Its status is that of the last engine whose failure may pass, so that it is a refusal only where all of them refused.
    """
    said = "; ".join(attempt.error for attempt in attempts) or "no search engine can be used"
    told = [attempt for attempt in attempts if not lasts(attempt.status, attempt.error)] or attempts
    last = told[-1] if told else None
    error = ProviderError(
        f"no search engine answered: {said}",
        provider=last.provider if last else "",
        status=last.status if last else None,
    )
    error.charges = tuple(charges)
    return error
