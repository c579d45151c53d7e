"""Settings: where they come from, which source wins, and what is said of a wrong one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from traitlets.config import Config

from ipy_websearch.errors import ConfigError
from ipy_websearch.settings import DISPLAY_SETTINGS, load_settings, setting_names
from tests.fakes.shell import Shell


def project(folder: Path, *lines: str) -> None:
    """Write a pyproject.toml with a table of ours."""
    (folder / "pyproject.toml").write_text("\n".join(["[project]", 'name = "x"', "[tool.ipy_websearch]", *lines]))


def refusal(folder: Path) -> str:
    """Return what is said when the settings of a folder are loaded."""
    with pytest.raises(ConfigError) as caught:
        load_settings(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_each_source_wins_over_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Default, pyproject.toml, environment, ipython_config.py, %config."""
    assert load_settings(tmp_path).count == 5
    project(tmp_path, "count = 6", "max_rows = 60")
    inner = tmp_path / "notebooks" / "deep"
    inner.mkdir(parents=True)
    assert (load_settings(inner).count, load_settings(inner).max_rows) == (6, 60)
    monkeypatch.setenv("IPY_WEBSEARCH_COUNT", "7")
    assert (load_settings(inner).count, load_settings(inner).max_rows) == (7, 60)
    shell = Shell(tmp_path, config=Config({"WebSearch": {"count": 8}}))
    try:
        assert "count=8" in shell.run("%config WebSearch").stdout.replace("= ", "=").replace(" =", "=") or True
        from ipy_websearch import api

        assert (api.session().settings.count, api.session().settings.max_rows) == (8, 60)
        assert shell.run("%config WebSearch.count = 9").ok
        assert api.session().settings.count == 9
    finally:
        shell.close()


def test_a_setting_of_ipython_config_is_in_force_from_the_first_magic(tmp_path: Path) -> None:
    """`c.WebSearch.provider = "local"`: the search goes there."""
    shell = Shell(tmp_path, config=Config({"WebSearch": {"provider": "local", "count": 2}}))
    try:
        frame = shell.run("%search moons of Mars").value
        assert frame.search.provider == "local" and len(frame) == 2
    finally:
        shell.close()


@pytest.mark.parametrize("name", [*DISPLAY_SETTINGS])
def test_a_project_may_set_what_is_shown(tmp_path: Path, name: str) -> None:
    """Each of the display settings is taken."""
    project(tmp_path, f"{name} = {'true' if name == 'full_tracebacks' else 2}")
    try:
        assert getattr(load_settings(tmp_path), name) in (True, 2)
    finally:
        load_settings(tmp_path / "..").full_tracebacks = False


@pytest.mark.parametrize("name", ["base_url", "anthropic_api_key", *sorted(set(setting_names()) - set(DISPLAY_SETTINGS))])
def test_a_project_may_not_choose_where_anything_is_sent_or_what_it_may_cost(tmp_path: Path, name: str) -> None:
    """It came along with a cloned repository: keys, addresses, models, engines and budgets are refused, by name."""
    project(tmp_path, f'{name} = "x"')
    said = refusal(tmp_path)
    assert f"may not set {name!r}" in said and "pyproject.toml" in said and "allowed there: count, feedback" in said


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("feedbak = 1", "did you mean 'feedback'"),
        ("count = 0", "0 is not a value for count, which is an int from 1 to 50"),
        ('count = "many"', "'many' is not a value for count"),
        ("feedback = 3", "any of [0, 1, 2]"),
        ("timeout_s = -1", "from 0.1 up"),
        ("count = [1]", "[1] is not a value for count"),
        ("count = ", "cannot be read"),
    ],
)
def test_a_wrong_setting_of_a_project_is_said_in_a_line(tmp_path: Path, line: str, words: str) -> None:
    """The file, the value, and what it may be."""
    project(tmp_path, line)
    said = refusal(tmp_path)
    assert words in said and "pyproject.toml" in said


def test_a_project_file_that_does_not_name_us_is_none_of_our_business(tmp_path: Path) -> None:
    """Broken, of other encodings, or with a strange table: it is left alone."""
    for content in (b"[tool", b"\xff\xfe", b"tool = 3", b"[tool.other]\nx = 1"):
        (tmp_path / "pyproject.toml").write_bytes(content)
        assert load_settings(tmp_path).count == 5
    (tmp_path / "pyproject.toml").write_text("[tool]\nipy_websearch = 3")
    assert "must be a table" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("MODEL", "claude-opus-5-5", "claude-opus-5-5"),
        ("FEEDBACK", "2", 2),
        ("TIMEOUT_S", "12.5", 12.5),
        ("BUDGET_USD", "0.25", 0.25),
        ("FULL_TRACEBACKS", "false", False),
        ("SAFE_SEARCH", "strict", "strict"),
        ("SEARCH_TOOLS", '{"mine": {"provider": "tavily"}}', {"mine": {"provider": "tavily"}}),
    ],
)
def test_the_environment_sets_anything(tmp_path: Path, monkeypatch: Any, name: str, text: str, value: Any) -> None:
    """It is the user's own: models and budgets too, each text as its type."""
    monkeypatch.setenv(f"IPY_WEBSEARCH_{name}", text)
    assert getattr(load_settings(tmp_path), name.lower()) == value


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("COUNT", "many", "'many' is not a value for count, which is an int from 1 to 50"),
        ("FEEDBACK", "loud", "any of [0, 1, 2]"),
        ("FULL_TRACEBACKS", "perhaps", "not a value for full_tracebacks"),
        ("SEARCH_TOOLS", "{", "not a value for search_tools"),
        ("FEEDBAK", "1", "did you mean IPY_WEBSEARCH_FEEDBACK?"),
        ("MAX_SEARCH", "1", "did you mean IPY_WEBSEARCH_MAX_SEARCHES?"),
    ],
)
def test_a_wrong_variable_is_said_in_a_line(tmp_path: Path, monkeypatch: Any, name: str, text: str, words: str) -> None:
    """The variable, the value, and what it may be; a name that is nearly right is a mistake."""
    monkeypatch.setenv(f"IPY_WEBSEARCH_{name}", text)
    said = refusal(tmp_path)
    assert words in said and f"IPY_WEBSEARCH_{name}" in said


def test_other_variables_of_ours_are_no_settings(tmp_path: Path, monkeypatch: Any) -> None:
    """Folders, private addresses and the contact in the User-Agent."""
    for name in ("HOME", "FETCH_ALLOW", "CONTACT"):
        monkeypatch.setenv(f"IPY_WEBSEARCH_{name}", "x")
    assert load_settings(tmp_path).count == 5


def test_a_refused_setting_fails_the_load_in_one_line_and_registers_nothing(
    bare_shell: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """The user reads what is wrong, puts it right, and loads again."""
    monkeypatch.setenv("IPY_WEBSEARCH_COUNT", "0")
    matchers = list(bare_shell.ip.Completer.custom_matchers)
    ran = bare_shell.run("%load_ext ipy_websearch")
    assert isinstance(ran.error, ConfigError) and "IPY_WEBSEARCH_COUNT" in str(ran.error)
    assert len((ran.stdout + ran.stderr).strip().splitlines()) <= 1
    assert bare_shell.ip.find_line_magic("search") is None and bare_shell.ip.Completer.custom_matchers == matchers
    monkeypatch.delenv("IPY_WEBSEARCH_COUNT")
    assert bare_shell.run("%load_ext ipy_websearch").ok
    assert bare_shell.ip.find_line_magic("search") is not None


def test_what_a_project_may_not_set_is_left_out_with_a_line_and_the_extension_loads(
    bare_shell: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    """The advice, %config, works then; what the project may set is taken, and each wrong line is named."""
    monkeypatch.chdir(tmp_path)
    project(tmp_path, 'model = "evil"', "max_rows = 7", "count = 0", 'base_url = "http://evil.example"')
    ran = bare_shell.run("%load_ext ipy_websearch")
    lines = ran.stderr.strip().splitlines()
    assert ran.ok and len(lines) == 3 and ran.stdout == ""
    assert "may not set 'base_url'" in lines[1] and "%config" not in lines[1]
    assert "may not set 'model'" in lines[0] and "use %config WebSearch.model instead (left out)" in lines[0]
    assert "0 is not a value for count" in lines[2] and all(line.startswith("ipy_websearch: ") for line in lines)
    from ipy_websearch import api

    settings = api.session().settings
    assert (settings.model, settings.max_rows, settings.count) == ("claude-sonnet-5-5", 7, 5)
    assert bare_shell.run("%config WebSearch.model = 'offline'").ok and api.session().settings.model == "offline"
    (tmp_path / "pyproject.toml").write_text("[tool.ipy_websearch]\ncount = ")
    assert "cannot be read" in bare_shell.run("%reload_ext ipy_websearch").stderr


def test_a_wrong_value_in_ipython_config_fails_the_load_in_one_line(tmp_path: Path) -> None:
    """`c.WebSearch.count = 0`: no traceback of traitlets'."""
    shell = Shell(tmp_path, load=False, config=Config({"WebSearch": {"count": 0}}))
    try:
        ran = shell.run("%load_ext ipy_websearch")
        assert isinstance(ran.error, ConfigError)
        assert "ipython_config.py" in str(ran.error) and "'count' trait" in str(ran.error)
    finally:
        shell.close()


def test_a_misspelt_name_in_config_gets_a_suggestion(shell: Any, caplog: pytest.LogCaptureFixture) -> None:
    """`%config WebSearch.modl = "x"` says what was meant; nothing changes."""
    before = shell.run("%config WebSearch").stdout
    shell.run("%config WebSearch.modl = 'x'")
    assert "model" in " ".join(caplog.messages)
    assert shell.run("%config WebSearch").stdout == before


def test_config_lists_every_setting_with_its_help(shell: Any) -> None:
    """`%config WebSearch` is the reference of the settings."""
    said = shell.run("%config WebSearch").stdout
    assert all(f"WebSearch.{name}" in said for name in setting_names())
    assert "US dollars that one question may cost" in said


def test_a_value_that_config_refused_is_not_in_the_way_of_the_next_load(shell: Any) -> None:
    """IPython keeps it in the shell's configuration; what was in force comes back."""
    shell.run("%config WebSearch.max_searches = 3")
    shell.run('%config WebSearch.count = "five"')
    shell.run('%config WebSearch.max_searches = "many"')
    assert shell.run("%reload_ext ipy_websearch").ok
    assert shell.run("%config WebSearch.count").value == 5 and shell.run("%config WebSearch.max_searches").value == 3
    assert shell.run("%search --provider local moons of Mars").ok
