"""API keys: where they come from, and how they stay out of every output.

A key is looked for in this order: set in the session, environment, `.env` beside the notebook, a file in the settings
directory (mode 0600), the system keyring where the `keyring` package is installed (asked once, and again after an error that
names it). It is stripped and checked when it is read: HTTP libraries print a key with a line break in full in their errors.

A malformed key or an unreadable file is an error for whoever needs that key, each time, and for nobody else. Redaction
(`secrets`) never raises, and covers malformed values too. A file is read again only when it has changed: each request looks
for its key.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

from ipy_websearch.errors import ConfigError, MissingKeyError

SHORTEST_SECRET = 4  # shorter values are no keys, and may be part of any word


@dataclass(frozen=True, slots=True)
class KeySpec:
    """One key: its environment variable, its short names, and where to get one."""

    variable: str
    names: tuple[str, ...]
    obtain: str

    @property
    def file_name(self) -> str:
        """The name of its file in the settings directory: `brave-api-key` for BRAVE_API_KEY."""
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

_BY_NAME = {name: spec for spec in KEYS.values() for name in (spec.variable.lower(), *spec.names)}
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_(?:API_KEY|KEY|TOKEN|SECRET|ID)")
_KEY = re.compile(r"[\x21-\x7e]+")


class Keys:
    """Looks keys up; never shows them. `settings_dir` holds the key files, `env_file` is the `.env` to read (or None).

    `session` are keys set for this session, `environ` the variables: keys, and the base addresses of providers. With `keyring`
    False the system keyring is not asked.
    """

    def __init__(
        self,
        settings_dir: Path,
        env_file: Path | None = None,
        session: Mapping[str, str] | None = None,
        environ: Mapping[str, str] = os.environ,
        keyring: bool = True,
    ) -> None:
        self.settings_dir = settings_dir
        self.env_file = env_file
        self.environ = environ
        self._keyring = keyring
        self._session = dict(session or {})
        self._secrets: tuple[object, list[str]] = (None, [])

    def spec(self, name: str) -> KeySpec:
        """Return the key that `name` means: a variable name or a short name, in any case.

        Raises:
            ConfigError: there is no key of that name; the message lists the names.
        """
        wanted = name.strip()
        if spec := _BY_NAME.get(wanted.lower()):
            return spec
        if _VARIABLE.fullmatch(wanted):  # the key of a provider from a plug-in
            return KeySpec(wanted, (wanted,), "its provider")
        raise ConfigError(f"there is no key called {name!r}; the keys are: {', '.join(key.names[0] for key in KEYS.values())}")

    def find(self, name: str) -> tuple[str, str] | None:
        """Return (key, place), or None when it is nowhere; the place is session, environment, .env, file or keyring.

        Raises:
            ConfigError: the first value found is not a key, or a file cannot be read; the message says where.
        """
        spec = self.spec(name)
        for place, value in self._places(spec):
            if _stripped(value):
                return _clean(value, spec, place), place
        return None

    def get(self, name: str) -> str | None:
        """Return the key, or None when it is nowhere. Raises: see `find`."""
        found = self.find(name)
        return found[0] if found else None

    def usable(self, name: str) -> str | None:
        """Return the key, or None when it is nowhere or malformed."""
        with suppress(ConfigError):
            return self.get(name)
        return None

    def require(self, name: str) -> str:
        """Return the key.

        Raises:
            MissingKeyError: it is nowhere; the message names every way to set it.
            ConfigError: it is malformed, or a file cannot be read.
        """
        if (key := self.get(name)) is None:
            raise self.missing(name)
        return key

    def missing(self, name: str) -> MissingKeyError:
        """Return the error for a missing key, which names every way to set it."""
        spec = self.spec(name)
        _from_keyring.cache_clear()  # so that a key stored after this message is found
        return MissingKeyError(
            f"{spec.variable} is not set: run `%websearch key {spec.names[0]}`, or set the environment variable "
            f"{spec.variable}, or put it into a .env file beside the notebook, or into {self._file(spec)}"
            f", or into the system keyring; get a key at {spec.obtain}"
        )

    def set(self, name: str, value: str) -> None:
        """Set a key for this session only; nothing is written."""
        spec = self.spec(name)
        self._session[spec.variable] = _clean(value, spec)

    def save(self, name: str, value: str) -> Path:
        """Write a key to its file in the settings directory, readable by the owner alone; return the path.

        Raises:
            ConfigError: the value is not a key, or the file cannot be written; an earlier file is then unchanged.
        """
        spec = self.spec(name)
        key, path = _clean(value, spec), self._file(spec)
        try:
            self.settings_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(dir=self.settings_dir, prefix=".new-") as folder:  # has mode 0700
                written = Path(folder, path.name)
                written.touch(mode=0o600)
                written.write_text(f"{key}\n", encoding="ascii")
                written.replace(path)
        except OSError as exc:
            raise ConfigError(f"{spec.variable} cannot be saved in {path}: {exc.strerror or exc}") from exc
        self._secrets = (None, [])
        return path

    def forget(self, name: str) -> list[str]:
        """Remove a key from the session and delete its file; return where it was found.

        Raises:
            ConfigError: the file cannot be deleted.
        """
        spec = self.spec(name)
        removed = [] if self._session.pop(spec.variable, None) is None else ["session"]
        path = self._file(spec)
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return removed
        except OSError as exc:
            raise ConfigError(f"{path} cannot be deleted: {exc.strerror or exc}") from exc
        return [*removed, str(path)]

    def secrets(self) -> list[str]:
        """Return every text to keep out of outputs, longest first: all keys that can be found, and malformed values as
        written and as they may be shown. Texts under 4 characters are left out. Files are read once a second at most."""
        state = (*self._session.values(), *map(self.environ.get, KEYS), int(time.monotonic()))
        if self._secrets[0] != state:
            values = list(self._session.values())
            for spec in KEYS.values():
                with suppress(ConfigError):
                    values.append(next((value for _, value in self._places(spec) if _stripped(value)), ""))
            forms = {form for value in values for form in _forms(value) if len(form) >= SHORTEST_SECRET}
            self._secrets = (state, sorted(forms, key=len, reverse=True))
        return self._secrets[1]

    def _places(self, spec: KeySpec) -> Iterator[tuple[str, str]]:
        """Yield each place with what is written there, in the order in which the places count."""
        yield "session", self._session.get(spec.variable, "")
        yield "environment", self.environ.get(spec.variable, "")
        if self.env_file:
            yield ".env", _assignments(_text_of(self.env_file)).get(spec.variable) or ""
        yield "file", _text_of(self._file(spec))
        if self._keyring:
            yield "keyring", _from_keyring(spec.variable)

    def _file(self, spec: KeySpec) -> Path:
        return self.settings_dir / spec.file_name


@lru_cache(maxsize=2)
def _assignments(text: str) -> dict[str | None, str | None]:
    from dotenv.parser import parse_stream  # `dotenv_values` logs every line that is none, at each look

    return {line.key: line.value for line in parse_stream(io.StringIO(text))}


def _clean(value: str, spec: KeySpec, place: str = "") -> str:
    """Return the key without white space and quotes around it; `place` is where it was found.

    Raises:
        ConfigError: nothing, or blanks, control or non-ASCII characters are left; the message never shows the value.
    """
    key = _stripped(value)
    if not _KEY.fullmatch(key):
        where = {"": "", "file": f" in the file {spec.file_name}"}.get(place, f" ({place})")
        raise ConfigError(
            f"the value of {spec.variable}{where} is empty, or holds blanks, line breaks or non-ASCII characters, so it is not "
            "a key; set it again"
        )
    return key


def _stripped(value: str) -> str:
    return value.strip().strip("'\"").strip()


def _text_of(path: Path) -> str:
    """Return the text of a file, "" when there is none.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        stat = path.stat()
        return _content(path, stat.st_mtime_ns, stat.st_size)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""
    except OSError as exc:
        raise ConfigError(f"{path} cannot be read, so no key in it is found: {exc.strerror or exc}") from exc


@lru_cache(maxsize=32)
def _content(path: Path, _changed: int, _size: int) -> str:
    """Return the text of a file that was last changed at a moment.

    PowerShell writes UTF-16 with a byte order mark, other programs without one; editors on Windows put a mark before UTF-8.
    Bytes in another encoding, in a comment for example, do not hide a key in ASCII.
    """
    data = path.read_bytes()
    return data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig", "replace").replace("\0", "")


def _forms(value: str) -> tuple[str, ...]:
    """Return the texts that give a value away: the key; for a malformed one also all of it, and it in one line."""
    key = _stripped(value)
    malformed = (value.strip(), value, " ".join(key.encode("utf-8", "ignore").decode().split()))
    return (key,) if _KEY.fullmatch(key) else (key, *malformed)


@cache
def _from_keyring(variable: str) -> str:
    """Return the key from the system keyring, "" for no package, back end or entry."""
    try:
        import keyring

        return keyring.get_password("ipy_websearch", variable) or ""
    except Exception:  # a locked or broken keyring must not hide the error that names the other places
        return ""
