"""Settings and keys: which source wins, one line for every mistake, and no output that holds a key."""

import re
from contextlib import closing
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError
from traitlets.config import Config

import ipy_websearch
from ipy_websearch.errors import ConfigError, MissingKeyError
from ipy_websearch.keys import Keys
from ipy_websearch.settings import PROJECT_SETTINGS, WebSearch, load_settings, settings_dir
from tests.fakes.replies import error, text
from tests.fakes.shell import Shell

# A project may not choose where anything is sent, nor what it may cost.
NOT_OF_A_PROJECT = ["base_url", "anthropic_api_key", *sorted({*WebSearch.class_trait_names(config=True)} - {*PROJECT_SETTINGS})]
TABLE = "[tool.ipy_websearch]\n"


def project(folder: Path, text: str | bytes) -> None:
    (folder / "pyproject.toml").write_bytes(text if isinstance(text, bytes) else text.encode())


def refusal(folder: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        load_settings(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_source_wins_over_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default, pyproject.toml in a folder above, environment, ipython_config.py, %config."""
    assert load_settings(tmp_path).count == 5
    project(tmp_path, TABLE + "count = 6\nmax_rows = 60")
    inner = tmp_path / "notebooks" / "deep"
    inner.mkdir(parents=True)
    assert (load_settings(inner).count, load_settings(inner).max_rows) == (6, 60)
    monkeypatch.setenv("IPY_WEBSEARCH_COUNT", "7")
    assert (load_settings(inner).count, load_settings(inner).max_rows) == (7, 60)
    with closing(Shell(tmp_path, config=Config({"WebSearch": {"count": 8, "provider": "local"}}))) as shell:
        assert len(shell.run("%search moons of Mars").value) == 8
        assert shell.run("%config WebSearch.count = 9").ok
        assert len(shell.run("%search moons of Jupiter").value) == 9


@pytest.mark.parametrize(
    ("content", "words"),
    [
        *((f'{TABLE}{name} = "x"', f"may not set {name!r}") for name in NOT_OF_A_PROJECT),
        (TABLE + "max_row = 1", "did you mean 'max_rows'? (allowed there: count, max_rows"),
        (
            TABLE + "count = 0",
            "should not be less than 1",
        ),
        (TABLE + "max_steps = 'abc'", "'abc' is not a value for max_steps"),
        (TABLE + "count = true", "True is not a value for count"),
        (TABLE + "timeout_s = nan", "nan is not a value for timeout_s"),
        (TABLE + "timeout_s = -1", "should not be less than 0.1"),
        (TABLE + "count = [1]", "[1] is not a value for count"),
        (TABLE + "count = 2026-01-01", "is not a value for count"),
        (TABLE + "count = ", "cannot be read"),
        (TABLE + "count = " + "[" * 5000, "cannot be read"),
        ((TABLE + "# ü").encode("latin-1"), "cannot be read"),
        ((TABLE + "count = 3").encode("utf-16"), "cannot be read"),
        (TABLE + "[tool.ipy_websearch", "cannot be read"),
        ("[tool]\nipy_websearch = 3", "cannot be read"),
        ("[[tool.ipy_websearch]]\ncount = 3", "cannot be read"),
    ],
)
def test_a_mistake_in_a_project_file_is_one_line(tmp_path: Path, content: str | bytes, words: str) -> None:
    project(tmp_path, content)
    said = refusal(tmp_path)
    assert words in said and "pyproject.toml" in said


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        (
            "COUNT",
            "0",
            "should not be less than 1",
        ),
        ("COUNT", "many", "'many' is not a value for count"),
        ("COUNT", "9" * 6000, "is not a value for count"),
        ("TIMEOUT_S", "inf", "inf is not a value for timeout_s"),
        ("BUDGET_USD", "nan", "nan is not a value for budget_usd"),
        ("DAY_BUDGET_USD", "-1", "-1.0 is not a value for day_budget_usd"),
        ("FETCH_THROUGH_PROXY", "perhaps", "not a value for fetch_through_proxy"),
        ("PLATFORM", "azure", "not a value for platform"),
        ("SEARCH_TOOLS", "{", "not a value for search_tools"),
        ("SEARCH_TOOLS", "(" * 5000, "not a value for search_tools"),
        ("MAX_ROW", "1", "did you mean 'max_rows'?"),
    ],
)
def test_a_wrong_variable_is_one_line_at_once(tmp_path: Path, monkeypatch: Any, name: str, text: str, words: str) -> None:
    monkeypatch.setenv(f"IPY_WEBSEARCH_{name}", text)
    said = refusal(tmp_path)
    assert words in said and f"IPY_WEBSEARCH_{name}" in said and len(said) < 450
    with pytest.raises(ConfigError):
        ipy_websearch.search("moons of Mars", provider="local")


@pytest.mark.parametrize("value", [nan, inf])
def test_a_budget_that_limits_nothing_is_refused_in_a_configuration(value: float) -> None:
    with pytest.raises(TraitError, match="limits nothing"):
        WebSearch(day_budget_usd=value)


def test_what_a_project_may_not_set_is_left_out_with_a_line_and_the_extension_loads(bare_shell: Any, tmp_path: Path) -> None:
    project(tmp_path, TABLE + 'model = "evil"\nmax_rows = 7\ncount = 0\nbase_url = "http://evil.example"')
    ran = bare_shell.run("%load_ext ipy_websearch")
    lines = ran.stderr.strip().splitlines()
    assert ran.ok and len(lines) == 3 and ran.stdout == "" and all(line.startswith("ipy_websearch: ") for line in lines)
    assert "may not set 'model'" in lines[0] and lines[0].endswith("(left out)")
    assert "0 is not a value for count" in lines[1] and "may not set 'base_url'" in lines[2]
    values = [bare_shell.run(f"%config WebSearch.{name}").value for name in ("model", "max_rows", "count")]
    assert values == ["claude-sonnet-5-5", 7, 5]


@pytest.mark.parametrize("address", ["ftp://a.example", "http://", "http://user:secret@a.example", "http://a.example:99999"])
def test_a_wrong_base_address_is_one_line_without_its_password(monkeypatch: Any, address: str) -> None:
    monkeypatch.setenv("BRAVE_API_KEY", "fake-key-of-the-tests")
    monkeypatch.setenv("BRAVE_BASE_URL", address)
    with pytest.raises(ConfigError, match="BRAVE_BASE_URL is") as caught:
        ipy_websearch.search("ruby", provider="brave")
    assert "secret" not in str(caught.value)


# --- keys ---


SECRET = "BSA-typed-very-secret-key"


def test_each_place_counts_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Session, environment, .env, file; then an error that names them all. An edited .env is read again."""
    keys = Keys(tmp_path / "settings", tmp_path / ".env")
    ways = ["%websearch key brave", "environment variable BRAVE_API_KEY", ".env file", "brave-api-key", "keyring", "https://"]
    with pytest.raises(MissingKeyError, match=".*".join(map(re.escape, ways))):
        keys.require("brave")
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
    with pytest.raises(ConfigError, match="the keys are: anthropic, brave"):
        keys.find("braev")


def test_a_folder_or_odd_bytes_in_a_dotenv_hide_no_key(tmp_path: Path) -> None:
    keys = Keys(tmp_path / "settings", tmp_path / ".env")
    (tmp_path / ".env").mkdir()  # a virtual environment of that name
    assert keys.get("brave") is None
    (tmp_path / ".env").rmdir()
    for content in (
        f"# Stra\xdfe\nBRAVE_API_KEY={SECRET}".encode("latin-1"),
        f"BRAVE_API_KEY={SECRET}  #\n".encode("utf-16-le"),
    ):
        (tmp_path / ".env").write_bytes(content)
        assert keys.get("brave") == SECRET


def test_a_key_that_cannot_be_saved_is_one_line_and_leaves_no_file(
    tmp_path: Path, shell: Any, monkeypatch: pytest.MonkeyPatch, offline: list[str]
) -> None:
    """A full disk keeps the earlier file."""

    def full(*_: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    path = Keys(settings_dir()).save("brave", "the-earlier-key")
    monkeypatch.setattr(Path, "write_text", full)
    monkeypatch.setattr("getpass.getpass", lambda prompt: SECRET)
    for spec in ("brave", "exa"):
        ran = shell.run(f"%websearch key {spec} --save")
        assert isinstance(ran.error, ConfigError) and str(ran.error).endswith("No space left on device")
        assert "cannot be saved" in str(ran.error) and "\n" not in str(ran.error) and SECRET not in str(ran.error)
    assert [file.name for file in settings_dir().iterdir() if "key" in file.name] == [path.name]
    assert path.read_text() == "the-earlier-key\n"


MALFORMED = ["my secret key", "tvly-sécret-key", "tvly-first\\nsecond", "'tvly secret' and more"]


@pytest.mark.parametrize("value", MALFORMED)
def test_a_malformed_key_stops_only_the_provider_that_needs_it(
    messages_api: Any, shell: Any, tmp_path: Path, value: str
) -> None:
    """The status says in one line where it is; texts that hold it are redacted all the same."""
    (tmp_path / ".env").write_text(f'TAVILY_API_KEY="{value}"\n', encoding="utf-8")
    plain = value.replace("\\n", "\n")
    messages_api.allow_refusals = True
    messages_api.replies(text("Paid for."), error(400, message=f"your key {plain} is odd"))
    assert shell.run("a = %ask --provider local who wrote Ruby?").ok and shell.ns["a"].text == "Paid for."
    assert shell.run("%search --provider local moons of Mars").ok
    status = shell.run("%websearch status").texts()
    lines = [line for line in status.splitlines() if "TAVILY_API_KEY" in line]
    assert lines and all(".env" in line and "set it again: %websearch key" in line for line in lines)
    refused = str(shell.run("%search --provider tavily moons of Mars").error)
    failed = str(shell.run(f"import ipy_websearch; ipy_websearch.ask({f'is {plain} a key?'!r}, provider='local')").error)
    questions = " ".join(shell.run("%cost").value.question)
    assert ".env" in refused and "[key]" in failed and "[key]" in questions
    assert not any(part in f"{status} {refused} {failed} {questions}" for part in ("secret", "sécret", "second"))


@pytest.mark.parametrize("value", ["a\udcff secret", "\udcff\udcfe\udcfd\udcfc", "'\"'", "x" * 100_000 + " secret"])
def test_no_value_makes_redaction_fail(session: Any, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Not even bytes that are no text; values under 4 characters stay in texts."""
    monkeypatch.setenv("EXA_API_KEY", value)
    monkeypatch.setenv("TAVILY_API_KEY", "it")
    shown = session.redact(f"it says {value}!")
    assert "secret" not in shown and shown.startswith("it says") and shown.endswith("!")
