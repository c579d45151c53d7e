"""Tells the user what a reply has no words for: why nothing is searched. Each problem once a session, one line without keys.

It is a warning, since the caller is a program and may have no screen; where warnings are errors it is logged. Telling never
fails a call.
"""

from __future__ import annotations

import logging
import re
import warnings
from weakref import WeakKeyDictionary

from ipy_websearch.session import Session
from ipy_websearch.text import shorten

MOST_TOLD = 50
"""Problems that are told in one session: what an engine says of its failures is its own, and may be new each time."""

_CHARACTERS = 600
_MODULE = "ipy_websearch.interception"
_VARYING = re.compile(r"\d+(?:\.\d+)?")  # seconds to wait, times of day: the problem is the same
_told: WeakKeyDictionary[Session, dict[str, object]] = WeakKeyDictionary()


def tell_once(session: Session, problem: str) -> None:
    """Warn of a problem that was not yet told in this session (a `UserWarning`).

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     session = Session()
    ...     tell_once(session, "brave answered 401")
    ...     tell_once(session, "brave answered 401")
    >>> [str(warning.message) for warning in told]
    ['brave answered 401']
    """
    told, mine = _told.setdefault(session, {}), object()
    key = _VARYING.sub("#", problem)
    if len(told) >= MOST_TOLD or told.setdefault(key, mine) is not mine:
        return
    line = shorten(session.http.redact(problem), _CHARACTERS)
    try:
        # Searches run in a thread of their own, where no line of the caller's is on the stack. Without a registry, so that
        # another session tells it too.
        warnings.warn_explicit(line, UserWarning, _MODULE, 1, _MODULE)
    except Exception:  # the filter "error", or a hook of the user's
        logging.getLogger(_MODULE).warning(line)
