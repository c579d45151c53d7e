"""Settings, and the folders where the package keeps things.

Settings are traits of one Configurable, `WebSearch`. Their values come, later ones winning, from: the defaults,
`[tool.ipy_websearch]` in pyproject.toml (`PROJECT_SETTINGS` only), the environment (`IPY_WEBSEARCH_MODEL=…`),
ipython_config.py (`c.WebSearch.model = …`) and `%config WebSearch.model = …`. A pyproject.toml comes along with a cloned
repository, so nothing in it may choose where questions and keys are sent: models, providers, keys and addresses are refused.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from traitlets import Bool, CFloat, Dict, Enum, Int, TraitError, Unicode, validate
from traitlets.config import Configurable

from ipy_websearch.errors import ConfigError

ENRICH_MODEL = "claude-haiku-5-5"
OFFLINE_MODEL = "offline"

# What may become of sentences that their sources do not support: nothing, a mark, a second try by the model.
CHECKS = ("off", "mark", "repair")


class WebSearch(Configurable):
    """Settings of `%search`, `%%ask` and their Python functions."""

    model = Unicode("claude-sonnet-5-5", help="Model that answers questions; 'offline' is the built-in one.").tag(config=True)
    platform = Enum(
        ("", "anthropic", "bedrock", "vertex", "foundry", "ollama", "lmstudio", "llamacpp", "vllm", "litellm"),
        "",
        help="Where the model runs; empty: the Anthropic API, or the server at ANTHROPIC_BASE_URL.",
    ).tag(config=True)
    enrich_model = Unicode(ENRICH_MODEL, help="Model that fills DataFrame columns.").tag(config=True)
    provider = Unicode("", help="Search provider; empty: those with a key, then Wikipedia, then local.").tag(config=True)
    tools = Unicode("standard", help="Tools or tool sets offered to the model, separated by commas.").tag(config=True)
    retrieve_first = Enum(
        ("auto", "always", "never"),
        "auto",
        help="Search before the model is asked; auto: where a server or a model turns out to call no tools.",
    ).tag(config=True)
    count = Int(5, min=1, max=50, help="Search results to ask for.").tag(config=True)
    max_searches = Int(5, min=0, help="Searches that one question may make.").tag(config=True)
    read_pages = Int(3, min=0, max=10, help="Results of each search whose pages are read for an answer; 0: none.").tag(
        config=True
    )
    max_steps = Int(8, min=1, help="Model requests with tools that a question may make; then it is answered.").tag(config=True)
    max_tokens = Int(16_000, min=256, help="Tokens that one model reply may have.").tag(config=True)
    timeout_s = CFloat(120.0, min=0.1, help="Seconds that one question may take.").tag(config=True)
    budget_usd = CFloat(None, allow_none=True, min=0.0, help="US dollars a question may cost; None: no limit.").tag(config=True)
    session_budget_usd = CFloat(None, allow_none=True, min=0.0, help="US dollars that the session may cost.").tag(config=True)
    day_budget_usd = CFloat(None, allow_none=True, min=0.0, help="US dollars that all sessions may cost a day (UTC).").tag(
        config=True
    )
    safe_search = Enum(("off", "moderate", "strict"), "moderate", help="Filter for adult content.").tag(config=True)
    country = Unicode("", help="Two-letter country of the results; empty: the provider's default.").tag(config=True)
    language = Unicode("en", help="Two-letter language of the results.").tag(config=True)
    cache_ttl_s = Int(900, min=0, help="Seconds for which a search is answered from the cache.").tag(config=True)
    fetch_proxy = Unicode("", help="Proxy to read pages through, http://host:port; it resolves names.").tag(config=True)
    fetch_through_proxy = Bool(False, help="Read pages through HTTPS_PROXY when there is no fetch_proxy.").tag(config=True)
    check = Enum(CHECKS, "mark", help="Compare answers with their sources: off, mark, or repair.").tag(config=True)
    max_rows = Int(50, min=1, help="Rows of a results table that are shown.").tag(config=True)
    research_root = Unicode("", help="Folder or github:owner/repo/path@ref that read_research may read.").tag(config=True)
    search_tools = Dict(help="Named providers with parameters: {'my-tavily': {'provider': 'tavily', …}}.").tag(config=True)

    @validate("timeout_s", "budget_usd", "session_budget_usd", "day_budget_usd")
    def _finite(self, proposal: Any) -> Any:
        if proposal.value is not None and not isfinite(proposal.value):
            raise TraitError(f"{proposal.trait.name} is {proposal.value}, which limits nothing")
        return proposal.value


# What a pyproject.toml may set: how much is shown and asked for, never where anything is sent.
PROJECT_SETTINGS = ("count", "max_rows", "max_searches", "max_steps", "timeout_s")

_PREFIX = "IPY_WEBSEARCH_"
_OTHER_VARIABLES = ("home", "fetch_allow", "contact")
_in_force: WebSearch | None = None


def use_settings(settings: WebSearch | None) -> None:
    """Make these the settings of sessions that are made without any (None: they load their own)."""
    global _in_force
    _in_force = settings


def settings_in_force() -> WebSearch | None:
    """Return the settings that the loaded extension shows in `%config WebSearch`, None when it is not loaded."""
    return _in_force


def did_you_mean(name: str, known: Iterable[str], how_close: float = 0.6) -> str:
    """Return "; did you mean 'x'?" for a close match of `name`, or "" when nothing is close."""
    import difflib

    close = difflib.get_close_matches(name, list(known), 1, how_close)
    return f"; did you mean {close[0]!r}?" if close else ""


def load_settings(start: Path, *, parent: Any = None, warn: Callable[[str], None] | None = None) -> WebSearch:
    """Return the settings for a session that works in the folder `start`.

    Mistakes in a pyproject.toml go to `warn` and the setting is left out: the file belongs to the project, and is not always
    the user's to mend. Without `warn` they are errors as well. `parent` is the IPython shell whose configuration counts.

    Raises:
        ConfigError: a file or variable holds an unknown or forbidden setting, or a wrong value; nothing else is raised.
    """
    try:
        settings = WebSearch(parent=parent)
    except Exception as exc:  # traitlets raises more than its TraitError
        raise ConfigError(f"ipython_config.py: {_line(exc)}") from exc
    configured, variables = settings.config.get("WebSearch", {}), _environment_settings()
    for problem in _take_project_settings(settings, start, {*configured, *variables}):
        if warn is None:
            raise problem
        warn(f"{problem} (left out)")
    for name, text in variables.items():
        if name not in configured:
            _assign(settings, name, text, f"environment variable {_PREFIX}{name.upper()}")
    return settings


def _assign(settings: WebSearch, name: str, value: Any, source: str) -> None:
    trait: Any = settings.traits()[name]
    try:
        value = trait.from_string(value) if isinstance(value, str) else value
        if isinstance(value, bool) and not isinstance(trait, Bool):
            raise TraitError("Python counts a bool as an int")
        setattr(settings, name, value)
    except Exception as exc:  # traitlets parses some texts as Python code, which can fail in any way
        raise ConfigError(
            f"{source}: {value!r:.90} is not a value for {name}, which is {trait.info()}: {_line(exc):.150} ({trait.help})"
        ) from exc


def _environment_settings() -> dict[str, str]:
    """Return the settings in the environment as text; empty ones count as unset.

    A name that is close to a setting's is an error; others may have another purpose, such as IPY_WEBSEARCH_HOME.
    """
    given = {name.removeprefix(_PREFIX): text for name, text in os.environ.items() if name.startswith(_PREFIX) and text}
    known = WebSearch.class_trait_names(config=True)
    for name in given:
        if name.lower() not in (*known, *_OTHER_VARIABLES) and (guess := did_you_mean(name.lower(), known, 0.8)):
            raise ConfigError(f"environment variable {_PREFIX}{name} is no setting{guess}")
    return {name.lower(): text for name, text in given.items() if name.lower() in known}


def _take_project_settings(settings: WebSearch, start: Path, set_elsewhere: Collection[str]) -> Iterator[ConfigError]:
    """Take what [tool.ipy_websearch] of the nearest pyproject.toml may set, and yield its mistakes."""
    path = next((path for folder in (start, *start.parents) if (path := folder / "pyproject.toml").is_file()), start)
    try:
        data = path.read_bytes()
        if b"ipy_websearch" not in data.replace(b"\0", b""):  # UTF-16 has zero bytes
            return  # its mistakes, if any, are not about us; importing tomllib would double the time that loading takes
        import tomllib

        table = dict(tomllib.loads(data.decode("utf-8-sig")).get("tool", {}).get("ipy_websearch", {}))
    except OSError:
        return
    except (ValueError, TypeError, AttributeError, RecursionError) as exc:
        yield ConfigError(f"[tool.ipy_websearch] in {path} cannot be read as a table of TOML in UTF-8: {_line(exc)}")
        return
    for name, value in table.items():
        if name not in PROJECT_SETTINGS:
            yield ConfigError(
                f"[tool.ipy_websearch] in {path} may not set {name!r}{did_you_mean(name, PROJECT_SETTINGS)} "
                f"(allowed there: {', '.join(PROJECT_SETTINGS)})"
            )
        elif name not in set_elsewhere:
            try:
                _assign(settings, name, value, "[tool.ipy_websearch] in pyproject.toml")
            except ConfigError as exc:
                yield exc


def _line(exc: BaseException) -> str:
    return " ".join(str(exc).split()) or type(exc).__name__


def data_dir() -> Path:
    """Return the folder for ledger, cache, index and enrichment store (not created here)."""
    return _folder("user_data_dir")


def settings_dir() -> Path:
    """Return the folder for key files (not created here)."""
    return _folder("user_config_dir")


def _folder(kind: str) -> Path:
    if home := os.environ.get("IPY_WEBSEARCH_HOME"):
        return Path(os.path.expanduser(home))
    import platformdirs

    return Path(getattr(platformdirs, kind)("ipy_websearch", appauthor=False))
