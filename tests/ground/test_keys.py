"""Keys: where they are found, how they are saved, and that no output ever holds one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError, MissingKeyError, ModelError
from ipy_websearch.keys import Keys
from ipy_websearch.settings import settings_dir
from tests.fakes.replies import error, text

SECRET = "BSA-typed-very-secret-key"


def typed(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr("getpass.getpass", lambda prompt: value)


def test_each_place_counts_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Session, environment, .env, file; then an error that names them all. An edited .env is read again."""
    keys = Keys(tmp_path / "settings", tmp_path / ".env")
    with pytest.raises(MissingKeyError) as missing:
        keys.require("brave")
    ways = ["%websearch key brave", "environment variable BRAVE_API_KEY", ".env file", "brave-api-key", "keyring", "https://"]
    assert all(way in str(missing.value) for way in ways)
    path = keys.save("brave", " from-the-file\n")
    assert path.stat().st_mode & 0o777 == 0o600 and keys.find("BRAVE_API_KEY") == ("from-the-file", "file")
    for value in ("first", "second"):
        (tmp_path / ".env").write_text(f"# ${{HOME}}\nexport BRAVE_API_KEY='{value}'  # a comment\n")
        assert keys.find("Brave") == (value, ".env")
    monkeypatch.setenv("BRAVE_API_KEY", "from-the-environment")
    assert keys.find("brave") == ("from-the-environment", "environment")
    keys.set("brave", "from-the-session")
    assert keys.find("brave") == ("from-the-session", "session")
    assert keys.secrets() == ["from-the-session"] and "from-the" not in repr(keys)
    assert keys.forget("brave") == ["session", str(path)] and not path.exists()
    with pytest.raises(ConfigError, match="the keys are: anthropic, brave"):
        keys.find("braev")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_files_as_windows_writes_them_are_read(tmp_path: Path, encoding: str) -> None:
    """PowerShell's `>` writes UTF-16; editors put a byte order mark in front."""
    keys = Keys(tmp_path, tmp_path / ".env")
    (tmp_path / ".env").write_bytes(f"BRAVE_API_KEY={SECRET}\r\n".encode(encoding))
    (tmp_path / "exa-api-key").write_bytes(f"{SECRET}\r\n".encode(encoding))
    assert keys.get("brave") == keys.get("exa") == SECRET


@pytest.mark.parametrize("content", [b"BRAVE_API_KEY=\xff\xfe\xfa", "BRAVE_API_KEY=x".encode("utf-16-le"), b"BRAVE_API_KEY=\0"])
def test_a_file_that_cannot_be_read_is_told_each_time_it_matters_and_only_then(tmp_path: Path, content: bytes) -> None:
    keys = Keys(tmp_path, tmp_path / ".env")
    (tmp_path / ".env").write_bytes(content)
    (tmp_path / "exa-api-key").write_text(SECRET)
    for _ in range(2):
        with pytest.raises(ConfigError, match="save it as UTF-8") as caught:
            keys.find("brave")
        assert str(tmp_path / ".env") in str(caught.value) and "\n" not in str(caught.value)
    assert keys.get("exa") == SECRET and keys.get("tavily") is None and keys.secrets() == [SECRET]
    keys.set("brave", "found-before-it")
    assert keys.get("brave") == "found-before-it"


def test_a_key_that_cannot_be_saved_is_one_line_and_leaves_no_file(
    tmp_path: Path, shell: Any, monkeypatch: pytest.MonkeyPatch, offline: list[str]
) -> None:
    """A full disk keeps the earlier file; a folder that cannot be made is told the same way."""

    def full(*_: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    path = Keys(settings_dir()).save("brave", "the-earlier-key")
    monkeypatch.setattr(Path, "write_text", full)
    typed(monkeypatch, SECRET)
    for spec in ("brave", "exa"):
        ran = shell.run(f"%websearch key {spec} --save")
        assert isinstance(ran.error, ConfigError) and str(ran.error).endswith("No space left on device")
        assert "cannot be saved" in str(ran.error) and "\n" not in str(ran.error) and SECRET not in str(ran.error)
    assert [file.name for file in settings_dir().iterdir() if "key" in file.name] == [path.name]
    assert path.read_text() == "the-earlier-key\n"
    with pytest.raises(ConfigError, match="cannot be saved in"):
        Keys(path).save("brave", SECRET)


def test_the_models_key_is_tried_on_the_free_list_of_models(
    messages_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages_api.allow_refusals = True
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    typed(monkeypatch, messages_api.key)
    assert "it works" in shell.run("%websearch key anthropic").stdout
    typed(monkeypatch, "sk-ant-wrong-secret")
    ran = shell.run("%websearch key anthropic")
    assert isinstance(ran.error, ModelError) and "wrong-secret" not in ran.stdout + ran.stderr


MALFORMED = ["my secret key", "tvly-sécret-key", "tvly-first\\nsecond", "'tvly secret' and more"]


@pytest.mark.parametrize("value", MALFORMED)
def test_a_malformed_key_stops_only_the_provider_that_needs_it(
    messages_api: Any, shell: Any, tmp_path: Path, value: str
) -> None:
    """The status says in one line where it is; texts that hold it are redacted all the same."""
    (tmp_path / ".env").write_text(f'TAVILY_API_KEY="{value}"\n', encoding="utf-8")
    plain = value.replace("\\n", "\n")
    messages_api.allow_refusals = True
    messages_api.reply(text("Paid for."))
    messages_api.reply(error(400, message=f"your key {plain} is odd"))
    assert shell.run("a = %ask --provider local who wrote Ruby?").ok and shell.ns["a"].text == "Paid for."
    assert shell.run("%search --provider local moons of Mars").ok
    status = shell.run("%websearch status")
    lines = [line for line in status.stdout.splitlines() if "TAVILY_API_KEY" in line]
    assert status.ok and lines and all(".env" in line and "set it again" in line for line in lines)
    refused = shell.run("%search --provider tavily moons of Mars")
    assert isinstance(refused.error, ConfigError) and ".env" in str(refused.error)
    failed = shell.run("from ipy_websearch import api; api.ask(" + repr(f"is {plain} a key?") + ", provider='local')")
    assert isinstance(failed.error, ModelError)
    questions = " ".join(shell.run("%cost").value.question)
    shown = " ".join([status.stdout, str(refused.error), str(failed.error), questions])
    assert "[key]" in str(failed.error) and "[key]" in questions
    assert not any(part in shown for part in ("secret", "sécret", "second"))


@pytest.mark.parametrize("value", ["a\udcff secret", "\udcff\udcfe\udcfd\udcfc", "   ", "'\"'", "x" * 100_000 + " y"])
def test_no_value_makes_redaction_fail(shell: Any, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Not even bytes that are no text; values under 4 characters stay in texts."""
    monkeypatch.setenv("EXA_API_KEY", value)
    monkeypatch.setenv("TAVILY_API_KEY", "it")
    session = shell.run("from ipy_websearch import api; api.session()").value
    for redact in (session.redact, session.http.redact):
        shown = redact(f"it says {value}!")
        assert "secret" not in shown and shown.startswith("it says") and shown.endswith("!")
    assert shell.run("%search --provider local moons of Mars").ok
