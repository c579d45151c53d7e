"""Settings and keys (which source wins, one line for every mistake, no output that holds a key), SQLite files, and values."""

import json
import pickle
import re
import sqlite3
import stat
import unicodedata
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf, nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given, strategies as st
from traitlets import TraitError
from traitlets.config import Config

import ipy_websearch
from ipy_websearch.database import Database
from ipy_websearch.errors import ConfigError, MissingKeyError
from ipy_websearch.http.client import Cache
from ipy_websearch.keys import Keys
from ipy_websearch.results import Answer, Citation, Panel, Panels, SearchResult, SearchResults
from ipy_websearch.settings import PROJECT_SETTINGS, WebSearch, load_settings, settings_dir
from ipy_websearch.text import plain, visible
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


# --- The SQLite files and the cache: whatever state one is in, the next use works or says in one line why not --------

SCHEMA = "CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, session TEXT NOT NULL, usd INTEGER)"


def prepare(connection: sqlite3.Connection) -> None:
    connection.execute(SCHEMA)
    connection.execute("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(title)")


def database(path: Path | None, timeout: float = 0.05) -> Database:
    return Database(path, application_id=77, prepare=prepare, purpose="ledger", busy_timeout_s=timeout)


def add(made: Database) -> None:
    made.write(lambda c: c.execute("INSERT INTO entries (session, usd) VALUES ('s', 1)"))
    made.write(lambda c: c.execute("INSERT INTO words VALUES ('a title')"))


def use(made: Database) -> tuple[int, int]:
    """Do what the package's rooms do: write and read."""
    add(made)
    sums = made.read(lambda c: c.execute("SELECT session, sum(usd) FROM entries GROUP BY session ORDER BY 2").fetchall())
    most = sums[-1][1] if sums else 0  # the file was replaced between the two
    return most, made.read(lambda c: len(c.execute("SELECT * FROM words WHERE words MATCH 'title'").fetchall()))


@pytest.fixture
def sound(tmp_path: Path) -> bytes:
    """The bytes of a file of ours."""
    made = database(tmp_path / "sound.sqlite")
    for _ in range(3):
        add(made)
    made.read(lambda c: c.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall())
    made.close()
    return (tmp_path / "sound.sqlite").read_bytes()


def test_a_file_damaged_anywhere_is_used_or_set_aside(tmp_path: Path, sound: bytes) -> None:
    """Every page zeroed or full of noise."""
    pages = [
        sound[:at] + part + sound[at + 4096 :] for at in range(0, len(sound), 4096) for part in (bytes(4096), b"\xa5" * 4096)
    ]
    replaced = 0
    for n, content in enumerate(pages):
        path = tmp_path / str(n) / "ledger.sqlite"
        path.parent.mkdir()
        path.write_bytes(content)
        made = database(path)
        use(made)
        made.close()
        kept = list(path.parent.glob("*.broken-*Z"))
        assert len(kept) == len(made.warnings) <= 1
        replaced += len(kept)
        use(database(path))
    assert replaced > len(pages) / 2


@pytest.mark.parametrize(
    "statements",
    [
        ["CREATE TABLE precious (x)"],
        ["PRAGMA application_id = 5", "CREATE TABLE entries (id)"],
    ],
)
def test_a_file_that_is_not_ours_is_set_aside_whole(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)
    made = database(path)
    assert use(made) == (1, 1) and len(made.warnings) == 1 and "another program's" in made.warnings[0]
    (kept,) = tmp_path.glob("ledger.sqlite.broken-*Z")
    with closing(sqlite3.connect(kept)) as other:
        assert statements[-1] in str(other.execute("SELECT sql FROM sqlite_master").fetchall())


def test_a_file_that_cannot_be_opened_is_replaced_by_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    for path in (tmp_path / "file" / "ledger.sqlite", tmp_path):
        made = database(path)
        assert use(made) == (1, 1) and made.in_memory
        assert len(made.warnings) == 1 and "until the kernel ends" in made.warnings[0]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "cache.sqlite"


def test_an_entry_is_kept_for_its_time_in_the_file(path: Path) -> None:
    now = 1_000_000.0
    cache = Cache(path, clock=lambda: now)
    assert not path.parent.exists()  # nothing is opened before the first use
    cache.put("search", "k", {"a": [1, None, "ä"]})
    cache.put("page", "k", "another kind")
    cache.close()
    now += 899
    assert Cache(path, clock=lambda: now).get("search", "k", 900) == ({"a": [1, None, "ä"]}, 899)
    assert Cache(path, clock=lambda: now + 1).get("search", "k", 900) is None
    assert Cache(path, clock=lambda: now - 5_000).get("search", "k", 900) is None  # the clock was set back
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in path.parent.iterdir())


def test_clearing_leaves_nothing_of_the_searches_in_the_file(path: Path) -> None:
    cache = Cache(path)
    cache.put("search", "embarrassing question", {"q": "embarrassing question" * 10_000})
    cache.put("page", "https://a.example/", {"content": "text"})
    assert cache.clear() == 2 and cache.get("page", "https://a.example/", 900) is None
    cache.close()
    assert not any(b"embarrassing" in file.read_bytes() for file in path.parent.iterdir())


# --- Results, panels and answers as the user holds them, and text from the web made harmless -------------------------

DAY = datetime(2026, 10, 2, 8, tzinfo=UTC)
BODY = json.dumps({"web": {"results": [{"title": f"Result {n} ❤️", "url": f"https://a.example/{n}"} for n in range(40)]}})


def test_results_are_a_sequence_and_a_frame_with_utc_dates() -> None:
    hits = (
        SearchResult("A\x1b[31m", "https://a.example/", "of $5", DAY, ("more",), 0.5),
        SearchResult("B", "https://b.example/"),
    )
    results = SearchResults(hits, "q", "brave", body=b'{"a": [1]}')
    assert len(results) == 2 and results[0] is hits[0] and results[1:] == hits[1:] and results.raw == {"a": [1]}
    frame = results.to_frame()
    assert list(frame.columns) == ["title", "url", "description", "published_date", "extra_snippets", "score"]
    assert list(frame.title) == ["A", "B"] and frame.extra_snippets[0] == ("more",)
    assert frame.published_date[0] == DAY and str(frame.published_date.dt.tz) == "UTC" and frame.published_date.isna()[1]
    assert frame.score.isna()[1] and isinstance(frame, pd.DataFrame)
    assert frame.head(1).search is results and type(pickle.loads(pickle.dumps(frame))) is pd.DataFrame
    empty = SearchResults((), "q", "brave").to_frame()
    assert len(empty) == 0 and str(empty.published_date.dt.tz) == "UTC"


def answer(**values: Any) -> Answer:
    return Answer("q", "Ruby [1][2].", "m", **values)


def test_sources_are_one_row_each_with_their_passages_joined() -> None:
    cited = (
        Citation(2, "B", "https://b.example/", "later"),
        Citation(1, "A", "https://a.example/", "one", DAY),
        Citation(1, "A", "https://a.example/", "two"),
        Citation(1, "A", "https://a.example/", "one"),
    )
    frame = answer(citations=cited).sources
    assert list(frame.columns) == ["n", "title", "url", "published_date", "read", "cited_text"]
    assert frame.values.tolist()[0][:3] == [1, "A", "https://a.example/"] and list(frame.cited_text) == ["one … two", "later"]
    assert frame.published_date[0] == DAY and len(answer().sources) == 0
    assert set(frame.read) == {"snippet"}


def test_rows_have_nullable_types_and_prose_has_none() -> None:
    columns = {"name": str, "price": float, "n": int, "day": date, "ok": bool, "tags": list}
    rows = ({"name": "a\x07", "price": 1.5, "n": 2, "day": "2026-10-02", "ok": True, "tags": ["x"]}, {"name": None})
    frame = answer(rows=rows, columns=columns).to_frame()
    assert [str(kind) for kind in frame.dtypes] == ["string", "Float64", "Int64", "datetime64[s]", "boolean", "object"]
    assert frame.name[0] == "a" and frame.iloc[1, :5].isna().all()
    with pytest.raises(ConfigError, match="%%ask --table"):
        answer().to_frame()
    with pytest.raises(ConfigError, match="gave no rows"):
        answer(columns=columns).to_frame()


def test_panels_are_numbered_and_come_back_as_they_were() -> None:
    panels = Panels()
    values: list[Any] = ["# Page ❤️ \ud83d", BODY.encode(), {"b": 1, "a": ["x"]}, {"when": DAY, "price": Decimal("0.5")}]
    kept = [panels.add(f"search {n}", value) for n, value in enumerate(values)]
    assert list(panels) == ["P1", "P2", "P3", "P4"] and panels["P3"] is kept[2]
    assert kept[0].data == values[0] and kept[1].data == json.loads(BODY) and kept[2].content == "b: 1\na:\n- x\n"
    assert yaml.safe_load(kept[1].content) == json.loads(BODY) and "Result 39 ❤️" in kept[1].content
    assert "2026-10-02" in kept[3].content and pickle.loads(pickle.dumps(kept[1])) == kept[1]
    assert Panel("P9", "t", {"n": 1}).content == "n: 1\n"
    assert "half" in panels.add("half", b'{"half": "\\ud83d", "deep": ' + b"[" * 400 + b"]" * 400 + b"}").content


# --- text ---


PIECES = (
    "a word, another. <b> </b> <!-- --> < > & &amp; &lt;i&gt; &#8203; &#10; &nbsp; é “ 日本 ❤️ \u200b "
    "\u00ad \ufe00 \u3164 \u2028 \u00a0 \U000e0041 \u241b[31m \x1b[0m \x1b]8;;x\x07 \x9b1m \x07 \x00 \ud800 \r\n \r \n \t"
).split(" ") + [" ", "  "]
texts = st.lists(st.sampled_from(PIECES), max_size=8).map("".join) | st.text(max_size=20)


@given(text=texts)
def test_nothing_invisible_and_no_control_character_is_left(text: str) -> None:
    shown = visible(text)
    assert visible(shown) == shown and not {unicodedata.category(c) for c in shown.replace("\u200d", "")} & {"Cs"}
    assert not set(shown) & set("\x00\x07\x1b\x9b\u200b\u00ad\u202e\u2066\ufeff\U000e0041\r")
    line = plain(text)
    assert "\n" not in line and line == line.strip() and "  " not in line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("I ❤️ 👩‍👧", "I ❤️ 👩‍👧"),
        ("می‌خواهم", "می‌خواهم"),
        ("क्‍ष", "क्‍ष"),
        ("pay‍pal u‌ser", "paypal user"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("\x1b[31mred\x1b[0m \x1b]8;;http://a\x07link\x1b]8;;\x07", "red link"),
        ("abc\u202egpj.exe", "abcgpj.exe"),
        ("❤\ufe0f\u200d🔥 a\ufe0f\u200d\ufe0f\u200c\ufe0fb", "❤\ufe0f\u200d🔥 a\ufe0f\ufe0f\ufe0fb"),
    ],
)
def test_joiners_stay_where_a_word_or_an_emoji_needs_them(text: str, shown: str) -> None:
    assert visible(text) == shown
