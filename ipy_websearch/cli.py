"""The executables `web-search-brave-tool`, `web-search-google-tool` and `web-fetch-tool`: JSON in, JSON out.

    echo '{"query": "window functions"}' | web-search-brave-tool
    web-fetch-tool --schema

Each reads one JSON object from standard input and writes one to standard output: the result, or `{"error": …}` with an
exit status other than 0. Formats and texts are those of seed 002, with the package's own places for keys. Invariant: standard
output holds one JSON document and nothing else, whatever happens (`--help` apart). Neither pandas, pydantic,
IPython nor the SDK is imported, and an HTTP library only for a request.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ipy_websearch.errors import ConfigError, FetchError, MissingKeyError, ProviderError, WebSearchError
from ipy_websearch.settings import load_settings
from ipy_websearch.tools.schemas import SCHEMAS

if TYPE_CHECKING:
    from ipy_websearch.results import SearchResult
    from ipy_websearch.session import Session

JSON = dict[str, Any]

OK, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130  # done; it failed or the input is wrong; a wrong command line; Ctrl-C

_HELP = """\
usage: echo '{{…}}' | {command}

{description}

Reads one JSON object from standard input and writes one to standard output: the result, or {{"error": "…"}} with an exit status
other than 0. `{command} --schema` prints the fields of the input, as a tool definition for a model."""


def web_search_brave() -> NoReturn:
    """Run `web-search-brave-tool` with the arguments of the command line, and end the process."""
    sys.exit(_run("web-search-brave-tool", SCHEMAS["web_search_brave"], partial(_search, "brave")))


def web_search_google() -> NoReturn:
    """Run `web-search-google-tool` likewise."""
    sys.exit(_run("web-search-google-tool", SCHEMAS["web_search_google"], partial(_search, "google")))


def web_fetch() -> NoReturn:
    """Run `web-fetch-tool` likewise."""
    sys.exit(_run("web-fetch-tool", SCHEMAS["web_fetch"], _fetch))


def _run(command: str, schema: JSON, work: Callable[[JSON], Coroutine[Any, Any, JSON]]) -> int:
    """Run an executable, whose `work` is the function from input to output, and return its exit status."""
    usage = _HELP.format(command=command, description=schema["description"])
    try:
        match sys.argv[1:]:
            case [] if sys.stdin is None or sys.stdin.isatty():
                print(usage, file=sys.stderr)
                return WRONG_USE
            case []:
                _write(asyncio.run(work(_input(sys.stdin.buffer.read(), schema["parameters"]))))
            case ["--schema"]:
                _write(schema, indent=2)
            case ["--help" | "-h"]:
                print(usage)
            case arguments:
                _write({"error": f"Invalid arguments: {' '.join(arguments)}; see {command} --help"})
                return WRONG_USE
        return OK
    except WebSearchError as exc:
        _write({"error": str(exc)})
    except KeyboardInterrupt:
        _write({"error": "Interrupted"})
        return INTERRUPTED
    except BrokenPipeError:
        pass
    except Exception as exc:  # the reader of standard output is a program: it gets JSON, no traceback
        _write({"error": f"Internal error: {type(exc).__name__}"})
    return FAILED


def _write(value: Mapping[str, Any], indent: int | None = None) -> None:
    """Write JSON in UTF-8, whatever the terminal's encoding is."""
    # The seed writes an indented list of one text in one line.
    text = re.sub(r'\[\s+("[^"]*")\s+\]', r"[\1]", json.dumps(value, ensure_ascii=False, indent=indent))
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


def _input(raw: bytes, parameters: JSON) -> JSON:
    """Return the fields of a tool's input that are known and not null; their values are the session's to check.

    Raises:
        ConfigError: it is no JSON object, or a field is missing.
    """
    try:
        given = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise ConfigError("Invalid input: standard input must hold one JSON object")
    values = {name: given[name] for name in parameters["properties"] if given.get(name) is not None}
    for name in parameters["required"]:
        if name not in values:
            raise ConfigError(f"Invalid input: {name} is required")
    return values


def _session() -> Session:
    from ipy_websearch.session import Session

    return Session(load_settings(Path.cwd(), warn=lambda text: print(text, file=sys.stderr)))


async def _search(provider: str, given: JSON) -> JSON:
    """Return the results of one search in the seed's form, booked like any other; what the input does not say, settings do."""
    from ipy_websearch.providers.base import permitted

    session = _session()
    blocked = given.pop("blocked_domains", ()) if given.get("allowed_domains") else ()  # a provider takes only one of the two
    left = session.search_request(given["query"], blocked_domains=blocked)
    try:
        found = await session.search(**given, provider=provider, fresh=True)
    except MissingKeyError:
        raise ConfigError(_authentication(provider, session.keys, "not found")) from None
    except ProviderError as exc:
        if exc.reason == "key":
            raise ConfigError(f"{_authentication(provider, session.keys, 'refused')} ({exc})") from None
        raise
    return {"results": [_result(result) for result in permitted(found, left)]}


def _result(result: SearchResult) -> JSON:
    """Return one result with the seed's fields; the date is left out when it is not known."""
    date = {"published_date": f"{result.published_date:%Y-%m-%dT%H:%M:%SZ}"} if result.published_date else {}
    return {"title": result.title, "url": result.url, "description": result.description, **date}


def _authentication(provider: str, keys: Any, what: str) -> str:
    """Return the seed's words for a key that is missing or refused, with our places."""
    from ipy_websearch.providers.router import PROVIDERS

    specs = [keys.spec(key) for key in PROVIDERS[provider].keys]
    paths = [str(keys.settings_dir / spec.file_name) for spec in specs]
    several = len(specs) > 1
    return (
        f"Authentication required: {' or '.join(spec.variable for spec in specs)} {what}. Set environment "
        f"variable{'s' if several else ''} or create {' and '.join(paths)} file{'s' if several else ''}, or use a .env file "
        f"here or the system keyring. Get {'credentials' if several else 'API key'} from {specs[0].obtain}"
    )


async def _fetch(given: JSON) -> JSON:
    """Return a page, or lines of it, in the seed's form."""
    from ipy_websearch.tools.web import failure_text

    try:
        page = await _session().fetch(**given, fresh=True)
    except FetchError as exc:
        raise ConfigError(failure_text(exc)) from None
    return {"content": page.content, "lines_read": page.lines_read}
