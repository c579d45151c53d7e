"""Tries a key once when it is typed, so that a wrong one fails now and not in the first question.

A model's key is tried on the list of models, which is free; a provider's on one search, which is booked like any other.
"""

from __future__ import annotations

from ipy_websearch.errors import ModelError, ProviderError
from ipy_websearch.keys import KeySpec
from ipy_websearch.providers.base import PROVIDERS
from ipy_websearch.session import Session

_REFUSALS = (400, 401, 403, 422)


async def check_key(session: Session, spec: KeySpec) -> str:
    """Return in words whether the key that is set works, or why that is unknown.

    Raises:
        ModelError, ProviderError: the service refused the key.
    """
    if session.replayed_from:
        return f"it was not tried, since {session.replayed_from} is being replayed"
    if spec.variable == "ANTHROPIC_API_KEY":
        return await _try_model(session)
    provider = next((info for info in PROVIDERS.values() if spec.variable in info.keys), None)
    if provider is None:
        return "it was not tried"
    if provider.hindrance(session.keys):
        missing = next(key for key in provider.keys if not session.keys.get(key))
        return f"it can be tried when {missing} is set as well"
    try:
        results = await session.search("python", provider=provider.name, count=1, fresh=True)
    except ProviderError as exc:
        if exc.status in _REFUSALS:
            raise
        return f"it could not be tried: {exc}"
    cost = "free" if results.cost_usd == 0 else "booked in %cost"
    return f"it works (tried with one search, {cost})"


async def _try_model(session: Session) -> str:
    try:
        await session.claude.check()
    except ModelError as exc:
        if exc.status in _REFUSALS:
            raise
        return f"it could not be tried: {exc}"
    return "it works"
