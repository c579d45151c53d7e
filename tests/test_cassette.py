"""A lesson is recorded once with a key and replayed without: the same cells give the same, nothing is sent, nothing costs."""

import base64
import json
import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anthropic
import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch import api
from ipy_websearch.errors import ConfigError, MissingKeyError, ReplayError
from ipy_websearch.testing import FakeWeb
from tests.contract.helpers import boss, companies, company_in, search
from tests.fakes.engines import hit
from tests.fakes.public_web import Page
from tests.fakes.replies import Limited, broken_stream, delay, error, refusal, slow, text, tool_use, truncated
from tests.interception.conftest import ASKED, PAIR, ask

TAPE = "lesson.cassette"
COUNT = " ".join(f"number {n}" for n in range(1, 21)) + " end"
VARIABLES = "ANTHROPIC_API_KEY ANTHROPIC_BASE_URL BRAVE_API_KEY BRAVE_BASE_URL WIKIPEDIA_BASE_URL EXA_API_KEY EXA_BASE_URL"


class Lesson:
    """Cells that are run twice: with `record` against the fakes, with `replay` against nothing."""

    def __init__(self, model: Any, brave: Any, shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model, self.brave, self.shell, self._patch = model, brave, shell, monkeypatch

    def record(self, *cells: str, options: str = "") -> list[Any]:
        """Run cells while a cassette records; return what came out of each."""
        assert self.shell.run(f"%websearch record {TAPE} {options}").ok
        ran = [self.shell.run(cell) for cell in cells]
        assert self.shell.run("%websearch stop").ok
        return ran

    def replay(self, *cells: str, options: str = "--instant") -> list[Any]:
        """Run cells in a new session, as in another kernel on another machine, without any key or address."""
        api.end_session()
        for name in VARIABLES.split():
            self._patch.delenv(name, raising=False)
        self._patch.setenv("IPY_WEBSEARCH_HOME", "elsewhere")
        ran = self.shell.run(f"%websearch replay {TAPE} {options}")
        assert ran.ok and "nothing is sent" in ran.stdout, ran.error
        return [self.shell.run(cell) for cell in cells]

    def twice(self, *cells: str, names: str = "a", options: str = "--instant") -> tuple[list[Any], list[Any]]:
        """Record cells and replay them: the answers `names` are the same, and nothing is sent. Return the recorded answers, and
        what came out of the replayed cells."""
        assert all(ran.ok for ran in self.record(*cells))
        first, asked = [self.shell.ns[name] for name in names], self.asked()
        again = self.replay(*cells, options=options)
        assert all(ran.ok for ran in again) and self.asked() == asked
        assert [facts(self.shell.ns[name]) for name in names] == [*map(facts, first)]
        return first, again

    def asked(self) -> tuple[int, int]:
        """Return how many requests the fakes have got."""
        return len(self.model.requests) if self.model else 0, len(self.brave.queries)

    @property
    def entries(self) -> list[Any]:
        """The cassette's lines."""
        return [json.loads(line) for line in Path(TAPE).read_text(encoding="utf-8").splitlines()]

    def change(self, old: str, new: str) -> None:
        """Edit the cassette."""
        written = Path(TAPE).read_text(encoding="utf-8")
        assert old in written
        Path(TAPE).write_text(written.replace(old, new), encoding="utf-8")


@pytest.fixture
def lesson(messages_api: Any, brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch) -> Lesson:
    """A shell that records its cells from the fakes, and replays them in a new session without keys and addresses."""
    return Lesson(messages_api, brave_api, shell, monkeypatch)


@pytest.fixture
def pages(public_web: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Pages on loopback that may be read: `pages(path, body, headers)` puts one there and returns its address."""
    here = f"127.0.0.1:{public_web.port}"
    monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", here)

    def put(path: str, body: str | bytes, content_type: str = "text/html; charset=utf-8") -> str:
        data = body if isinstance(body, bytes) else body.encode()
        public_web.pages[f"{here}/{path}"] = Page(data, headers={"Content-Type": content_type})
        return f"http://{here}/{path}"

    return put


def facts(answer: Any) -> Any:
    """Return what has to be the same in a replayed answer."""
    told = (answer.text, answer.citations, answer.messages, answer.notices)
    return told, answer.limit, answer.stop_reason, answer.searches, answer.usage, answer.rows


# --- the same answers ---------------------------------------------------------------------------------------------------


def test_a_lesson_is_the_same_without_keys_and_network_and_costs_nothing(lesson: Any) -> None:
    lesson.brave.reply([hit("https://ruby.example/", "Ruby", "Matz wrote Ruby.", date="2026-10-01")])
    lesson.model.replies(
        ["Let me look.", search("ruby author"), search("ruby year")],
        text("Matz wrote Ruby.", citations=[(0, 0)]),
        "In 1995.",
        tool_use("answer_table", {"rows": [{"name": "Ruby", "year": 1995, "source": ""}]}),
    )
    (first, *_), (again, *_) = lesson.twice(
        "a = %ask who wrote Ruby?",
        "b = %ask --follow and when?",
        '%ask --table "name, year: int" -o c when did they appear?',
        "d = %search moons of Mars",
        names="abc",
    )
    assert first.cost_usd > 0 and first.replayed_from == ""
    answers, costs = [lesson.shell.ns[name] for name in "abc"], lesson.shell.run("%cost --rows").value
    assert answers[2].to_frame().year.tolist() == [1995] and {answer.replayed_from for answer in answers} == {TAPE}
    assert all(f"replayed from {TAPE}" in again.texts(form) for form in ("text/html", "text/plain", "text/markdown"))
    assert answers[0].session_cost_usd == 0 and f"replayed from {TAPE}" in lesson.shell.ns["d"].search.notices
    assert set(costs.status) == {"replayed"} and costs.usd.sum() == 0 and costs.kind.tolist().count("search") == 3


def test_an_enrichment_is_replayed_with_its_rows_in_any_order(lesson: Any) -> None:
    lesson.model.behave(lambda body: refusal("cyber") if company_in(body) == "C3" else boss(body))
    lesson.shell.ns["frame"] = companies(*(f"C{n}" for n in range(8)))
    cell = "%%enrich frame -o out\nceo: Who is the CEO of {company}?"
    lesson.record(cell)
    before, asked = lesson.shell.ns["out"].drop(columns="enrich_cost_usd"), lesson.asked()
    assert lesson.replay(cell)[0].ok and lesson.asked() == asked
    after = lesson.shell.ns["out"]
    pd.testing.assert_frame_equal(after[before.columns], before)
    assert after.enrich_cost_usd.sum() == 0 and (after.enrich_status == "ok").sum() == 7


# --- rhythm and failures ------------------------------------------------------------------------------------------------


def test_a_replay_streams_at_the_pace_of_the_recording_or_at_once(lesson: Any) -> None:
    lesson.model.reply(COUNT, delay(0.3), slow(0.04))
    lesson.record("%ask count")
    paced, instant = (lesson.replay("%ask count", options=options)[0].value.seconds for options in ("", "--instant"))
    last, _ = lesson.entries[1]["stream"][-1]
    assert paced > last > 0.3 and instant < paced


@pytest.mark.parametrize(
    "replies",
    [
        [error(429, headers={"retry-after": "1"}), "Done."],
        [[COUNT, truncated(1)]],
        [[COUNT, broken_stream(1)]],
        [error(400, message="no such thing")],
        [error(529), error(529), error(529)],
    ],
    ids=["limited", "truncated", "broken", "refused", "given-up"],
)
def test_what_went_wrong_goes_wrong_again_in_the_same_way(lesson: Any, replies: list[Any]) -> None:
    lesson.model.replies(*replies)
    lesson.model.allow_refusals = True
    told = []
    for run in (lesson.record, lesson.replay):
        error = run("%ask who?")[0].error
        answers = [(a.text, a.limit, a.stop_reason, a.messages) for a in api.session().answers]
        told.append((answers, type(error), str(error), getattr(error, "status", None)))
    assert told[0] == told[1]


@pytest.mark.parametrize("option", ["--max-searches 1", "--max-steps 1", "--budget 0.05"])
def test_limits_are_reached_where_they_were(lesson: Any, option: str) -> None:
    """Also after an engine that failed; a budget counts the prices although nothing is paid, and forgets them."""

    def more(body: dict[str, Any]) -> Any:
        return "From what there is." if body.get("tool_choice") else search(f"query {len(lesson.model.requests)}")

    lesson.model.behave(more)
    if "steps" not in option:
        lesson.brave.fail(429)
    lesson.twice("%cost --budget 0.50", f"a = %ask {option} --provider brave who?")
    assert lesson.shell.ns["a"].limit and Limited().spent > 0
    lesson.shell.run("%websearch stop")
    assert Limited().spent == 0


@pytest.mark.parametrize("options", ["--instant", ""])
def test_a_time_limit_cuts_a_replay_where_it_cut_the_recording(lesson: Any, options: str) -> None:
    lesson.model.reply(COUNT, slow(0.8))  # the limit falls into the middle of a pause, on a busy machine as well
    lesson.twice("a = %ask --timeout 1.2 count", options=options)
    answer = lesson.shell.ns["a"]
    assert answer.text.startswith("number 1") and "end" not in answer.text and answer.limit == "timeout"


# --- which request is which ---------------------------------------------------------------------------------------------


def test_a_request_that_was_not_recorded_is_one_line_that_names_it(lesson: Any) -> None:
    """A search of the model too: it is the error, and not its consequence."""
    lesson.model.replies("Matz.", "Guido.", "Matsumoto.", search("perl author"), "Larry Wall.")
    ruby, perl = "%ask who wrote Ruby?", "%ask who wrote Perl?"
    lesson.record(ruby, "%ask who wrote Python?", ruby, "%search moons of Mars", perl)
    lesson.change('["q", "perl author"]', '["q", "another"]')
    missed = {
        "%ask who wrote Pyton?": "claude-sonnet-5-5 (“who wrote Pyton?”); 5 recorded",
        "%ask -m haiku who wrote Ruby?": "claude-haiku-5-5 (“who wrote Ruby?”)",
        "%search moons of Saturn": "brave (“{'q': 'moons of Saturn'",
        perl: "brave (“{'q': 'perl author'",
    }
    *ran, one, two, three = lesson.replay(*missed, ruby, ruby, ruby)
    assert [r.value.text for r in (one, two, three)] == ["Matz.", "Matsumoto.", "Matz."], "in order, and then again"
    for told, words in zip(ran, missed.values(), strict=True):
        said = str(told.error)
        assert isinstance(told.error, ReplayError) and "\n" not in said
        assert f"{TAPE} has no recording of this request to {words}" in said


def test_files_of_one_name_in_several_folders_are_not_mixed_up_and_a_missing_page_is_an_error_that_says_so(
    lesson: Any, pages: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("docs/README.md", "guide/README.md"):
        said = f"This is {path}.".encode()
        fields = {"type": "file", "size": len(said), "content": base64.b64encode(said).decode(), "path": path}
        url = pages(f"repos/o/r/contents/{path}", json.dumps(fields), "application/json")
        lesson.model.replies(tool_use("read_research", {"path": path}), "Read.")
    page = pages("a", "Größe".encode("latin-1"), "text/plain; charset=latin-1")
    monkeypatch.setenv("GITHUB_BASE_URL", url.partition("/repos")[0])
    root, docs, guide = "%config WebSearch.research_root = 'github:o/r'", "%ask what is in docs?", "%ask what is in guide?"
    lesson.record(root, docs, guide, f"%fetch {page}")
    _, *ran, read, missed = lesson.replay(root, guide, docs, f"%fetch {page}", f"%fetch {page}bc")
    assert [re.findall("This is ([a-z]+)", str(r.value.messages[2])) for r in ran] == [["guide"], ["docs"]]
    assert read.value.content == "Größe" and isinstance(missed.error, ReplayError) and f"{page}bc" in str(missed.error)


def test_the_cache_neither_hides_traffic_nor_is_filled_by_it(lesson: Any) -> None:
    lesson.shell.run("%search moons of Mars")
    for run in (lesson.record, lesson.replay):
        run("a = %search moons of Mars", "b = %search moons of Mars", "c = %search --fresh moons of Mars")
        assert [lesson.shell.ns[name].search.cached for name in "abc"] == [False, True, False]
    assert sum("kind" in entry for entry in lesson.entries) == 2


def test_a_cassette_of_last_month_replays_today(lesson: Any, engine: Any) -> None:
    """ "Today is …" and the day that Exa is sent for "past week" count from the day of the request; other days stay."""
    engine("exa")
    lesson.model.reply("Matz.")
    fixed = "%search -p exa --freshness 2026-01-01to2026-02-01 ruby"
    cells = ["%ask who wrote Ruby?", "%search -p exa --freshness pw ruby news", fixed]
    assert all(ran.ok for ran in lesson.record(*cells))
    today = datetime.now(UTC).date()
    days = {day.isoformat(): (day - timedelta(days=40)).isoformat() for day in (today, today - timedelta(days=7), date.today())}
    moved = re.sub("|".join(days), lambda found: days[found[0]], Path(TAPE).read_text(encoding="utf-8"))
    Path(TAPE).write_text(moved, encoding="utf-8")
    again = lesson.replay(*cells, fixed.replace("01-01", "01-02"))
    assert [type(ran.error) for ran in again] == [type(None)] * 3 + [ReplayError]


def test_a_cassette_of_another_version_replays_with_its_own_instructions(lesson: Any) -> None:
    lesson.model.reply("Matz.")
    lesson.record("%ask who wrote Ruby?")
    lesson.change("You answer questions in a Jupyter notebook", "You are asked in a notebook")
    assert isinstance(lesson.replay("%ask who wrote Ruby?")[0].error, ReplayError)
    lesson.change(f'"version": "{lesson.entries[0]["version"]}"', '"version": "0.0.9"')
    assert lesson.replay("%ask who wrote Ruby?")[0].ok


def test_engines_are_offered_as_they_were_whatever_is_set_here(lesson: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lesson.record("%search moons of Mars", "%search -p brave phases of Venus")
    lesson.replay()
    monkeypatch.setenv("EXA_API_KEY", "exa-key-of-the-class")
    cells = ("%search moons of Mars", "%search -p brave phases of Venus", "%websearch status", "%search -p exa x2")
    *ran, refused = map(lesson.shell.run, cells)
    assert all(r.ok for r in ran) and f"set: {TAPE}" in ran[2].texts()
    assert isinstance(refused.error, MissingKeyError) and TAPE in str(refused.error)


def test_a_lesson_of_the_built_in_model_replays_it_and_refuses_a_neighbours_question(
    brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lesson = Lesson(None, brave_api, shell, monkeypatch)
    lesson.twice("a = %ask who wrote the language Ruby?")
    assert shell.ns["a"].offline and "model" not in {entry.get("kind") for entry in lesson.entries}
    assert isinstance(shell.run("%ask who wrote the language Perl?").error, ReplayError)


# --- keys and the file --------------------------------------------------------------------------------------------------


def test_no_key_is_on_the_cassette_in_any_form(lesson: Any, pages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not plain, quoted or in base64 at any place; not from a question, a page, an engine's words, or a stream in pieces."""
    key = "sk-ant-api03-k+y/of~the=tests"
    monkeypatch.setattr(lesson.model, "key", key)
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    cloud = "wJalr/XUtn+FEMI/K7MDENG"  # whose looks tell nothing
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", cloud)
    coded = (base64.b64encode(f"user:{key}!".encode()).decode(), key.encode().hex())
    quoted = pages("a", " ".join((key, quote(key, safe=""), *coded, quote(cloud), quote(cloud, safe=""))))
    binary = pages("b", b"\xff\xfe\x00" + key.encode() + b"\x00", "application/pdf")
    lesson.brave.fail(403, body={"message": f"bad key {lesson.brave.key}"})
    lesson.model.reply(f"You wrote {key}, which is a key.", slow(0.001))
    lesson.record(f"%ask is {key} a key?", f"%fetch {quoted}", f"%fetch {binary}", "%search -p brave why not")
    deltas = [event.get("delta", {}).get("text", "") for _, event in lesson.entries[1]["stream"]]
    assert "You wrote [key], which is a key." in "".join(deltas)
    data = Path(TAPE).read_bytes() + base64.b64decode(lesson.entries[-3].get("base64", ""))
    for secret in (key, cloud, lesson.brave.key):
        forms = [secret.encode(), quote(secret, safe="").encode(), quote(secret).encode()]
        forms += [secret.encode().hex().encode(), *(base64.b64encode(b"x" * n + secret.encode())[4:-4] for n in range(3))]
        assert [form for form in forms if form in data] == []
    assert data.count(b"[key]") >= 5


def test_a_file_that_is_there_is_kept_unless_told_otherwise(lesson: Any) -> None:
    lesson.record("%search moons of Mars")
    before = Path(TAPE).read_text()
    refused = lesson.shell.run(f"%websearch record {TAPE}").error
    assert isinstance(refused, ConfigError) and "--force" in str(refused) and Path(TAPE).read_text() == before
    lesson.shell.run(f"%websearch record {TAPE} --force")
    assert isinstance(lesson.shell.run(f"%websearch replay {TAPE}").error, ConfigError) and len(lesson.entries) == 1


def test_a_killed_kernel_loses_only_what_was_under_way(lesson: Any) -> None:
    for cell in (f"%websearch record {TAPE}", "%search moons of Mars", "%search moons of Saturn"):
        lesson.shell.run(cell)
    written = Path(TAPE).read_bytes()  # without `stop`: the kernel is gone
    api.end_session()
    Path(TAPE).write_bytes(written[:-40] + "é".encode()[:1])
    ran = lesson.replay("%search moons of Mars", "%search moons of Saturn", "%websearch stop")
    assert ran[0].ok and isinstance(ran[1].error, ReplayError) and ran[2].stdout == f"1 exchange replayed from {TAPE}.\n"
    assert "was left out" in lesson.shell.run(f"%websearch replay {TAPE}").stdout


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"took_s": ', '"took_s": x', "line 2: Expecting value"),
        ('"took_s": ', '"took_s": null, "took": ', "line 2: float() argument must be"),
        ('"cassette": 2', '"cassette": 9', "no cassette of format 2"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_line(lesson: Any, old: str, new: str, says: str) -> None:
    lesson.record("%search moons of Mars")
    lesson.change(old, new)
    error = lesson.shell.run(f"%websearch replay {TAPE}").error
    assert isinstance(error, ConfigError) and TAPE in str(error) and says in str(error) and api.session().recording is None


def test_an_intercepted_client_is_recorded_and_replayed(lesson: Any) -> None:
    """Blocking and asynchronous, whole and streamed, without the server, without a search, and without its key on the file."""
    lesson.model.key = "a-gateways-own-form-of-a-key"  # which no session knows
    said = f"Your key is {lesson.model.key}."
    lesson.model.behave(lambda body: search("ruby author") if len(body["messages"]) == 1 else said)
    made = {"api_key": lesson.model.key, "base_url": lesson.model.url}

    def run(question: str) -> list[Any]:
        asked = {"messages": [{"role": "user", "content": question}], "model": "claude-haiku-5-5"}
        kinds = {"": anthropic.Anthropic, "stream": anthropic.Anthropic, "async stream": anthropic.AsyncAnthropic}
        clients = {way: ipy_websearch.intercept(kind(**made), provider="brave") for way, kind in kinds.items()}
        messages = [ask(client, way, **asked) for way, client in clients.items()]
        return [[block.type for block in message.content] + [message.content[-1].text] for message in messages]

    with api.session().record(TAPE):
        assert run("who wrote Ruby?") == [[*PAIR, "text", said]] * 3
    before = lesson.asked()
    assert lesson.model.key not in Path(TAPE).read_text()
    lesson.replay()
    assert run("who wrote Ruby?") == [[*PAIR, "text", "Your key is [key]."]] * 3 and api.session().spent_usd == 0
    client = ipy_websearch.intercept(anthropic.Anthropic(**made), provider="brave")
    with pytest.raises(ReplayError, match="token counts are not on cassettes"):
        client.messages.count_tokens(**{name: ASKED[name] for name in ("model", "messages", "tools")})
    with pytest.raises(ReplayError, match="who wrote Perl"):
        run("who wrote Perl?")
    assert lesson.asked() == before


def test_a_recording_that_could_not_be_written_is_an_error_where_no_magic_tells_it() -> None:
    with pytest.raises(ConfigError, match="be written"), ipy_websearch.Session().record("/dev/full", force=True):
        pass


def test_a_recording_within_the_fake_web_asks_the_fake_web() -> None:
    page = "https://duckdb.org/docs"
    with FakeWeb() as fake:
        fake.add_results("duckdb", ("https://duckdb.org/", "DuckDB", "An in-process database."))
        fake.add_page(page, "DuckDB is a database.")
        for start in (fake.session.record, fake.session.replay):
            with start(TAPE):
                assert ipy_websearch.search("what is duckdb").provider == "fake"
                assert "database" in ipy_websearch.fetch(page).content
        assert fake.queries == ["what is duckdb"] * 2
