"""Tries a key once, when it has been typed: better a clear word now than a failure in the first question.

A model's key is tried on the list of models, which is free; an engine's on one search, which is booked like any other.
"""

from __future__ import annotations

from ipy_websearch.errors import ModelError, ProviderError
from ipy_websearch.keys import KeySpec
from ipy_websearch.providers.registry import PROVIDERS
from ipy_websearch.session import Session

_REFUSALS = (400, 401, 403, 422)


async def check_key(session: Session, spec: KeySpec) -> str:
    """Return what came of trying the key that is set: that it works, or why that is not known.

    Raises:
        ModelError, ProviderError: the service refused the key.
    """
    if session.replayed_from:
        return f"it was not tried, since {session.replayed_from} is being replayed"
    if spec.variable == "ANTHROPIC_API_KEY":
        return await _try_model(session)
    engine = next((info for info in PROVIDERS.values() if spec.variable in info.keys), None)
    if engine is None:
        return "it was not tried"
    if not engine.available(session.keys):
        missing = next(key for key in engine.keys if not session.keys.get(key))
        return f"it can be tried when {missing} is set as well"
    try:
        results = await session.search("python", provider=engine.name, count=1, fresh=True)
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
