"""Where keys come from, and how they stay out of sight.

A key is looked for in this order: set in the session, environment, `.env` beside the notebook, a file in the settings
directory (mode 0600), the system keyring where the `keyring` package is installed. It is stripped and checked when it
is read: HTTP libraries print a key with a stray newline in full in their error text.

A value that is no key fails whoever needs that key, and nobody else. Redaction takes it as it stands: `secrets` never raises.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ipy_websearch.errors import ConfigError, MissingKeyError

KEYRING_SERVICE = "ipy_websearch"


@dataclass(frozen=True, slots=True)
class KeySpec:
    """One key: its environment variable, the short names people say, and where to get one."""

    variable: str
    names: tuple[str, ...]
    obtain: str

    @property
    def file_name(self) -> str:
        """The file in the settings directory: BRAVE_API_KEY is kept in `brave-api-key`."""
        return self.variable.lower().replace("_", "-")


KEYS: dict[str, KeySpec] = {
    spec.variable: spec
    for spec in (
        KeySpec("ANTHROPIC_API_KEY", ("anthropic", "claude"), "https://platform.claude.com/settings/keys"),
        KeySpec("BRAVE_API_KEY", ("brave",), "https://brave.com/search/api/"),
        KeySpec("GOOGLE_SEARCH_API_KEY", ("google",), "https://developers.google.com/custom-search"),
        KeySpec("GOOGLE_SEARCH_ENGINE_ID", ("google-engine",), "https://programmablesearchengine.google.com/"),
        KeySpec("FIRECRAWL_API_KEY", ("firecrawl",), "https://www.firecrawl.dev/app/api-keys"),
        KeySpec("TAVILY_API_KEY", ("tavily",), "https://app.tavily.com/"),
        KeySpec("PERPLEXITY_API_KEY", ("perplexity",), "https://www.perplexity.ai/settings/api"),
        KeySpec("EXA_API_KEY", ("exa",), "https://dashboard.exa.ai/api-keys"),
        KeySpec("GITHUB_TOKEN", ("github",), "https://github.com/settings/tokens"),
    )
}

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_(?:API_KEY|KEY|TOKEN|SECRET|ID)")
_FORBIDDEN = re.compile(r"[^\x21-\x7e]")
SHORTEST_SECRET = 4
"""Shorter values are no keys, and may stand in any text."""


def clean_key(value: str, variable: str, where: str = "") -> str:
    """Return the key without white space and quotes around it; `where` says in an error where the value came from.

    Raises:
        ConfigError: what is left holds white space, control or non-ASCII characters (the message never shows it).
    """
    key = _stripped(value)
    if _FORBIDDEN.search(key):
        place = f" ({where})" if where else ""
        raise ConfigError(
            f"the value of {variable}{place} holds blanks, line breaks or non-ASCII characters, so it is not a key; "
            "set it again"
        )
    return key


def _stripped(value: str) -> str:
    return value.strip().strip("'\"").strip()


@dataclass(slots=True)
class Keys:
    """Looks keys up; never shows them. `settings_dir` holds the key files, `env_file` is the `.env` to read (or None).

    `environ` has the variables: keys, and the base addresses of providers.
    """

    settings_dir: Path
    env_file: Path | None = None
    _session: dict[str, str] = field(default_factory=dict, repr=False)
    _dotenv: Mapping[str, str | None] | None = field(default=None, repr=False)
    _secrets: tuple[tuple[str | None, ...], float, list[str]] | None = field(default=None, repr=False)
    _keyring: dict[str, tuple[float, str | None]] = field(default_factory=dict, repr=False)
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def spec(self, name: str) -> KeySpec:
        """Return the key that `name` means: a variable name or a short name, in any case.

        Raises:
            ConfigError: no key is called that; the message lists those there are.
        """
        if name in KEYS:
            return KEYS[name]
        wanted = name.strip()
        for spec in KEYS.values():
            if wanted.upper() == spec.variable or wanted.lower() in spec.names:
                return spec
        if _VARIABLE.fullmatch(wanted):  # the key of an engine that a plug-in brought along
            return KeySpec(wanted, (wanted,), "its provider")
        known = ", ".join(spec.names[0] for spec in KEYS.values())
        raise ConfigError(f"there is no key called {name!r}; the keys are: {known}")

    def set(self, name: str, value: str) -> None:
        """Set a key for this session only; nothing is written."""
        spec = self.spec(name)
        key = clean_key(value, spec.variable)
        if not key:
            raise ConfigError(f"{spec.variable}: no key was given, so nothing was changed")
        self._session[spec.variable] = key

    def unset(self, name: str) -> None:
        """Take back a key that was set for this session; files and environment stay as they are."""
        self._session.pop(self.spec(name).variable, None)

    def forget(self, name: str) -> list[str]:
        """Forget a key of the session and its file; return where it was found and removed."""
        spec, removed = self.spec(name), []
        if self._session.pop(spec.variable, None) is not None:
            removed.append("session")
        path = self.settings_dir / spec.file_name
        if path.exists():
            path.unlink()
            removed.append(str(path))
        return removed

    def save(self, name: str, value: str) -> Path:
        """Write a key to its file in the settings directory, readable by the owner alone; return the path."""
        spec = self.spec(name)
        key = clean_key(value, spec.variable)
        self.settings_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.settings_dir / spec.file_name
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
            file.write(key + "\n")
        path.chmod(0o600)
        self._secrets = None
        return path

    def find(self, name: str) -> tuple[str, str] | None:
        """Return (key, where it was found), or None when it is nowhere; where is one of session, environment, .env,
        file, keyring.

        Raises:
            ConfigError: what was found is no key; the message says where it stands.
        """
        spec = self.spec(name)
        for where, look in _PLACES:
            if (value := look(self, spec)) and (key := clean_key(value, spec.variable, self._place(where, spec))):
                return key, where
        return None

    def usable(self, name: str) -> str | None:
        """Return the key, or None when it is nowhere or what is there is no key."""
        try:
            return self.get(name)
        except ConfigError:
            return None

    def get(self, name: str) -> str | None:
        """Return the key, or None when it is nowhere."""
        found = self.find(name)
        return found[0] if found else None

    def require(self, name: str) -> str:
        """Return the key.

        Raises:
            MissingKeyError: it is nowhere; the message names every way to set it.
        """
        key = self.get(name)
        if key is None:
            raise self.missing(name)
        return key

    def missing(self, name: str) -> MissingKeyError:
        """Return the error that says a key is missing and names every way to set it."""
        spec = self.spec(name)
        return MissingKeyError(
            f"{spec.variable} is not set: run `%websearch key {spec.names[0]}`, or set the environment variable "
            f"{spec.variable}, or put it into a .env file beside the notebook, or into {self.settings_dir / spec.file_name}"
            f", or into the system keyring; get a key at {spec.obtain}"
        )

    def secrets(self) -> list[str]:
        """Return every text to be kept out of sight, longest first: each key that can be found, and what stands in the place of
        one although it is no key, as it was written and as it may be shown. None has less than 4 characters.

        What the files hold is looked up once a second: texts are redacted many times in a question.
        """
        state = (*self._session.values(), *map(self.environ.get, KEYS))
        if self._secrets is None or self._secrets[0] != state or time.monotonic() > self._secrets[1]:
            values = [*self._session.values(), *(self._first_value(spec) for spec in KEYS.values())]
            forms = {form for value in values for form in _forms(value) if len(form) >= SHORTEST_SECRET}
            self._secrets = (state, time.monotonic() + 1.0, sorted(forms, key=len, reverse=True))
        return self._secrets[2]

    def _first_value(self, spec: KeySpec) -> str:
        """Return what `find` finds, key or not, "" when there is nothing."""
        values = (look(self, spec) for _, look in _PLACES)
        return next((value for value in values if value and _stripped(value)), "")

    def _place(self, where: str, spec: KeySpec) -> str:
        """Return the words for where a key was found."""
        if where == "file":
            return f"file {self.settings_dir / spec.file_name}"
        return ".env beside the notebook" if where == ".env" else where

    def _from_env_file(self, spec: KeySpec) -> str | None:
        if self.env_file is None:
            return None
        if self._dotenv is None:
            self._dotenv = {}
            if self.env_file.is_file():
                from dotenv import dotenv_values

                self._dotenv = dotenv_values(self.env_file, interpolate=False)
        return self._dotenv.get(spec.variable)

    def _from_file(self, spec: KeySpec) -> str | None:
        path = os.path.join(self.settings_dir, spec.file_name)
        if not os.path.isfile(path):
            return None
        try:
            return Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def _from_keyring(self, spec: KeySpec) -> str | None:
        """Return what the keyring has; it is asked once a second, since asking can take milliseconds."""
        if not _keyring_installed():
            return None
        now = time.monotonic()
        until, value = self._keyring.get(spec.variable, (0.0, None))
        if now >= until:
            value = _keyring_password(spec.variable)
            self._keyring[spec.variable] = (now + 1.0, value)
        return value


def _forms(value: str) -> tuple[str, ...]:
    """Return the texts that give a value away: the key; of what is no key, also all of it, and it in one line."""
    key = _stripped(value)
    if not _FORBIDDEN.search(key):
        return (key,)
    shown = " ".join(key.encode("utf-8", "ignore").decode().split())  # without lone surrogates
    return key, value.strip(), value, shown


# Where a key may be, in the order in which the places count.
_PLACES: tuple[tuple[str, Callable[[Keys, KeySpec], str | None]], ...] = (
    ("session", lambda keys, spec: keys._session.get(spec.variable)),
    ("environment", lambda keys, spec: keys.environ.get(spec.variable)),
    (".env", Keys._from_env_file),
    ("file", Keys._from_file),
    ("keyring", Keys._from_keyring),
)


def _keyring_password(variable: str) -> str | None:
    """Return the key from the system keyring; a missing package, back end or entry is simply no key."""
    import keyring

    try:
        return keyring.get_password(KEYRING_SERVICE, variable)
    except Exception:  # a locked or absent keyring is no reason to stop: the other places may hold the key
        return None


@cache
def _keyring_installed() -> bool:
    """Say whether the package is there; looked up once, since looking costs a third of a millisecond."""
    import importlib.util

    return importlib.util.find_spec("keyring") is not None
