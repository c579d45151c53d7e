"""What a user is told when the model's API refuses: one line, with what to do. Pure."""

from __future__ import annotations

from ipy_websearch.model.names import did_you_mean


def explain(status: int, detail: str, kind: str, retry_after_s: float | None) -> str:
    """Return one line for an error status of the API, with what to do (platform.claude.com/docs/en/api/errors, 2026-11).

    `retry_after_s` is for how long the server asked to be left alone, None when it did not say.
    """
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
            return f"the question with its context is too large (413: {detail}); ask with less, or %ask --reset"
        case 429:
            advice = _wait("wait a moment and ask again", retry_after_s)
            return f"the Anthropic API is limiting requests (429: {detail}); {advice}"
        case 500 | 502 | 503 | 504 | 529:
            advice = _wait("ask again in a moment", retry_after_s)
            return f"the Anthropic API is overloaded or failing ({status}: {detail}); {advice}"
        case _:
            return f"the Anthropic API refused the request ({status} {kind}: {detail})".replace(" :", ":")


def _wait(advice: str, seconds: float | None) -> str:
    """Return how long to wait, where that is longer than a moment."""
    if seconds is None or seconds < 5:
        return advice
    if seconds < 100:
        span = f"{seconds:.0f} s"
    elif seconds < 5_400:
        span = f"{seconds / 60:.0f} min"
    else:
        span = f"{seconds / 3_600:.1f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} days"
    return f"it asks to be left alone for {span}"
