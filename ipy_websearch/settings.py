"""Settings, and the places where the package keeps things.

Settings are traits of one Configurable, `WebSearch`. Their values come, later ones winning, from: the defaults,
`[tool.ipy_websearch]` in pyproject.toml (display settings only), the environment (`IPY_WEBSEARCH_MODEL=…`),
ipython_config.py (`c.WebSearch.model = …`) and `%config WebSearch.model = …`. A pyproject.toml comes along with a cloned
repository, so nothing in it may choose where questions and keys are sent: models, engines, keys and addresses are refused.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

from traitlets import Bool, CFloat, Dict, Enum, Float, Int, TraitError, Unicode, observe
from traitlets.config import Configurable

from ipy_websearch.errors import ConfigError, full_tracebacks

ASK_MODEL = "claude-sonnet-5-5"
ENRICH_MODEL = "claude-haiku-5-5"
OFFLINE_MODEL = "offline"


class WebSearch(Configurable):
    """Settings of `%search`, `%%ask` and their Python functions."""

    model = Unicode(ASK_MODEL, help="Model that answers questions; 'offline' is the built-in one.").tag(config=True)
    platform = Enum(
        ("", "anthropic", "bedrock", "vertex", "foundry", "ollama", "lmstudio", "llamacpp", "vllm", "litellm"),
        "",
        help="Where the model runs; empty: the Anthropic API, or the server at ANTHROPIC_BASE_URL.",
    ).tag(config=True)
    enrich_model = Unicode(ENRICH_MODEL, help="Model that fills DataFrame columns.").tag(config=True)
    provider = Unicode("", help="Search engine; empty: those with a key, then Wikipedia, then local.").tag(config=True)
    tools = Unicode("standard", help="Tools or tool sets offered to the model, separated by commas.").tag(config=True)
    count = Int(5, min=1, max=50, help="Search results to ask for.").tag(config=True)
    max_searches = Int(5, min=0, help="Searches that one question may make.").tag(config=True)
    max_steps = Int(8, min=1, help="Model requests with tools that a question may make; then it is answered.").tag(config=True)
    max_tokens = Int(16_000, min=256, help="Tokens that one model reply may have.").tag(config=True)
    timeout_s = CFloat(120.0, min=0.1, help="Seconds that one question may take.").tag(config=True)
    budget_usd = Float(None, allow_none=True, min=0.0, help="US dollars that one question may cost; None: no limit.").tag(
        config=True
    )
    session_budget_usd = Float(None, allow_none=True, min=0.0, help="US dollars that the session may cost.").tag(config=True)
    day_budget_usd = Float(None, allow_none=True, min=0.0, help="US dollars that all sessions may cost on a day (UTC).").tag(
        config=True
    )
    safe_search = Enum(("off", "moderate", "strict"), "moderate", help="Filter for adult content.").tag(config=True)
    country = Unicode("", help="Two-letter country of the results; empty: the engine's default.").tag(config=True)
    language = Unicode("en", help="Two-letter language of the results.").tag(config=True)
    cache_ttl_s = Int(900, min=0, help="Seconds for which a search is answered from the cache.").tag(config=True)
    fetch_proxy = Unicode("", help="Proxy to read pages through, http://host:port; it resolves names.").tag(config=True)
    fetch_through_proxy = Bool(False, help="Read pages through HTTPS_PROXY when there is no fetch_proxy.").tag(config=True)
    feedback = Enum((0, 1, 2), 1, help="0: results only; 1: with notices and costs; 2: every step.").tag(config=True)
    max_rows = Int(50, min=1, help="Rows of a results table that are shown.").tag(config=True)
    full_tracebacks = Bool(False, help="Show Python tracebacks for this package's errors.").tag(config=True)
    research_root = Unicode("", help="Folder or github:owner/repo/path@ref that read_research may read.").tag(config=True)
    search_tools = Dict(help="Named engines with parameters: {'my-tavily': {'provider': 'tavily', …}}.").tag(config=True)

    @observe("full_tracebacks")
    def _on_full_tracebacks(self, change: Any) -> None:
        full_tracebacks(bool(change["new"]))


_PREFIX = "IPY_WEBSEARCH_"
_TYPO = 0.8  # how alike two names are when one is surely meant for the other
_in_force: WebSearch | None = None


def use_settings(settings: WebSearch | None) -> None:
    """Make these the settings of sessions that are made without any (None: they load their own)."""
    global _in_force
    _in_force = settings


def settings_in_force() -> WebSearch | None:
    """Return the settings that the loaded extension shows in `%config WebSearch`, None when it is not loaded."""
    return _in_force


DISPLAY_SETTINGS = ("count", "feedback", "max_rows", "full_tracebacks", "max_searches", "max_steps", "timeout_s")
"""What a pyproject.toml may set: how much is shown and asked for, never where anything is sent."""


def setting_names() -> list[str]:
    """Return the names of all settings."""
    return sorted(WebSearch.class_trait_names(config=True))


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" for a close match of `name`, or "" when nothing is close."""
    import difflib

    close = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {close[0]!r}?" if close else ""


def load_settings(start: Path, *, parent: Any = None, warn: Callable[[str], None] | None = None) -> WebSearch:
    """Return the settings for a session that works in the folder `start`.

    What is wrong in a pyproject.toml goes to `warn`, and is left out: the file is the project's, and not always the user's to
    mend. Without `warn` it is an error as well.

    Raises:
        ConfigError: a file or variable holds a setting that does not exist, is not allowed there, or a wrong value.
    """

    def refuse(problem: ConfigError) -> None:
        if warn is None:
            raise problem
        warn(f"{problem} (left out)")

    try:
        settings = WebSearch(parent=parent) if parent is not None else WebSearch()
    except TraitError as exc:
        raise ConfigError(f"ipython_config.py: {exc}") from exc
    configured = set(settings.config.get("WebSearch", {})) if parent is not None else set()
    own = _environment_settings()
    for name, value in _pyproject_settings(start, refuse).items():
        if name not in configured and name not in own:
            try:
                _assign(settings, name, value, "[tool.ipy_websearch] in pyproject.toml")
            except ConfigError as exc:
                refuse(exc)
    for name, text in own.items():
        if name not in configured:
            _assign(settings, name, text, f"environment variable {_PREFIX}{name.upper()}")
    return settings


def _assign(settings: WebSearch, name: str, value: Any, source: str) -> None:
    trait = settings.traits()[name]
    try:
        setattr(settings, name, trait.from_string(value) if isinstance(value, str) else value)
    except (TraitError, ValueError, SyntaxError) as exc:
        raise ConfigError(f"{source}: {value!r} is not a value for {name}, which is {_kind(trait)} ({trait.help})") from exc


def _kind(trait: Any) -> str:
    """Return in words what a setting may be: "an int from 1 to 50"."""
    least, most = getattr(trait, "min", None), getattr(trait, "max", None)
    low = "" if least in (None, float("-inf")) else f" from {least:g}"
    high = "" if most in (None, float("inf")) else f" to {most:g}"
    return f"{trait.info()}{low}{high or (' up' if low else '')}"


def _environment_settings() -> dict[str, str]:
    """Return the settings in the environment as text; a variable that is nearly one is an error, others are not ours."""
    found = {}
    names = setting_names()
    for variable, text in os.environ.items():
        name = variable.removeprefix(_PREFIX).lower()
        if not variable.startswith(_PREFIX):
            continue
        if name in names:
            found[name] = text
        elif meant := _closest(name, names):
            raise ConfigError(f"environment variable {variable} is no setting; did you mean {_PREFIX}{meant.upper()}?")
    return found


def _closest(name: str, names: list[str]) -> str:
    """Return the name that is surely meant, "" when none is."""
    import difflib

    return next(iter(difflib.get_close_matches(name, names, 1, _TYPO)), "")


def _names_us(text: str) -> bool:
    """Say whether a pyproject.toml may have a table of ours, without reading TOML, which takes longer than all the rest."""
    bare = text.translate({ord(mark): None for mark in " \t\"'"})
    return "tool.ipy_websearch" in bare or ("[tool]" in bare and "ipy_websearch" in bare)


def _pyproject_settings(start: Path, refuse: Callable[[ConfigError], None]) -> dict[str, Any]:
    """Return the settings of the nearest pyproject.toml; what is wrong with it is refused, one problem at a time."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            break
    else:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    if not _names_us(text):
        return {}  # somebody else's file is none of our business until it names us
    import tomllib

    try:
        table = tomllib.loads(text).get("tool", {}).get("ipy_websearch", {})
    except AttributeError:
        return {}
    except tomllib.TOMLDecodeError as exc:
        refuse(ConfigError(f"{path} cannot be read: {exc}"))
        return {}
    if not isinstance(table, dict):
        refuse(ConfigError(f"ipy_websearch in {path} must be a table: [tool.ipy_websearch]"))
        return {}
    for name in (name for name in table if name not in DISPLAY_SETTINGS):
        instead = f"; use %config WebSearch.{name} instead" if name in setting_names() else ""
        refuse(
            ConfigError(
                f"[tool.ipy_websearch] in {path} may not set {name!r}{did_you_mean(name, DISPLAY_SETTINGS)} "
                f"(allowed there: {', '.join(DISPLAY_SETTINGS)}){instead}"
            )
        )
    return {name: value for name, value in table.items() if name in DISPLAY_SETTINGS}


def data_dir() -> Path:
    """Return the folder for ledger, cache, index and enrichment store (not created here)."""
    if home := os.environ.get("IPY_WEBSEARCH_HOME"):
        return Path(home).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("ipy_websearch", appauthor=False))


def settings_dir() -> Path:
    """Return the folder for key files (not created here)."""
    if home := os.environ.get("IPY_WEBSEARCH_HOME"):
        return Path(home).expanduser()
    import platformdirs

    return Path(platformdirs.user_config_dir("ipy_websearch", appauthor=False))


def base_url(variable: str, default: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return scheme, host and prefix of a service: the environment variable or the default, without a final slash.

    Raises:
        ConfigError: the value is not an http or https address, or carries a user name or a query.
    """
    value = (environ.get(variable) or default).strip().rstrip("/")
    if not _is_base(value):
        shown = re.sub(r"//.*@", "//***@", value)
        wanted = "an http:// or https:// address without a user name, ? and #"
        raise ConfigError(f"{variable} is {shown!r}; it must be {wanted}")
    return value


def _is_base(value: str) -> bool:
    parts = server_address(value)
    return parts is not None and "@" not in parts.netloc and "?" not in value and "#" not in value


def server_address(url: str) -> SplitResult | None:
    """Return the parts of an http or https address of a server; None when it is none, or has a port that cannot be one."""
    try:
        parts = urlsplit(url)
        usable = bool(parts.hostname) and (parts.port or 0) >= 0
    except ValueError:
        return None
    return parts if usable and parts.scheme in ("http", "https") else None
