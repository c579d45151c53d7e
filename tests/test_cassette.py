"""A lesson is recorded once with a key and replayed without: the same cells give the same, nothing is sent, nothing costs."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import pytest
from IPython.core.error import UsageError

from ipy_websearch import api, background
from ipy_websearch.errors import ConfigError, MissingKeyError, ModelError, ReplayError
from ipy_websearch.session import Session
from tests.fakes.engine import hit
from tests.fakes.github import TOKEN, GitHub
from tests.fakes.money import Limited
from tests.fakes.public_web import Page
from tests.fakes.replies import broken_stream, delay, error, refusal, slow, text, tool_use, truncated
from tests.test_enrich import company_in, record

TAPE = "lesson.cassette"
COUNT = " ".join(f"number {n}" for n in range(1, 21)) + " end"
VARIABLES = (
    "ANTHROPIC_API_KEY ANTHROPIC_BASE_URL BRAVE_API_KEY BRAVE_BASE_URL WIKIPEDIA_BASE_URL TAVILY_API_KEY TAVILY_BASE_URL"
)


@pytest.fixture
def lesson(messages_api: Any, brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell that records its cells from the fakes, and replays them in a new session without keys and addresses."""
    yield Lesson(messages_api, brave_api, shell, monkeypatch)


class Lesson:
    """Cells that are run twice: with `record` against the fakes, with `replay` against nothing."""

    def __init__(self, messages_api: Any, brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.model, self.brave, self.shell, self._patch = messages_api, brave_api, shell, monkeypatch

    def record(self, *cells: str, options: str = "") -> list[Any]:
        """Run cells while a tape records; return what came out of each."""
        assert self.shell.run(f"%websearch record {TAPE} {options}").ok
        ran = [self.shell.run(cell) for cell in cells]
        assert self.shell.run("%websearch stop").ok
        return ran

    def replay(self, *cells: str, options: str = "--instant") -> list[Any]:
        """Run cells in a new session while the tape plays, without any key or address."""
        self.forget()
        ran = self.shell.run(f"%websearch replay {TAPE} {options}")
        assert ran.ok and "nothing is sent" in ran.stdout, ran.error
        return [self.shell.run(cell) for cell in cells]

    def forget(self) -> None:
        """Begin as in a new kernel on another machine."""
        api.end_session()
        for name in VARIABLES.split():
            self._patch.delenv(name, raising=False)
        self._patch.setenv("IPY_WEBSEARCH_HOME", "elsewhere")

    @property
    def text(self) -> str:
        """The tape."""
        return Path(TAPE).read_text(encoding="utf-8")

    def change(self, old: str, new: str) -> None:
        """Edit the tape."""
        assert old in self.text
        Path(TAPE).write_text(self.text.replace(old, new), encoding="utf-8")


def search(query: str, **more: Any) -> Any:
    return tool_use("web_search", {"query": query, **more})


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
    steps = [(s.kind, s.name, s.detail, s.usage, s.is_error, s.request, s.response) for s in answer.trace]
    panels = [(p.title, p.kind, p.content, p.is_error) for p in answer.panels]
    limits = (answer.limit, answer.stop_reason, answer.searches, answer.usage, answer.notices)
    return answer.text, answer.citations, panels, limits, answer.messages, answer.rows, steps


# --- the same answers ---------------------------------------------------------------------------------------------------


def test_a_lesson_is_the_same_without_keys_and_network(lesson: Any) -> None:
    """Answer, sources, panels, steps, a follow-up and a table; nothing is asked of anybody, and the class sees what it is."""
    lesson.brave.reply([hit("https://ruby.example/", "Ruby", "Matz wrote Ruby.", date="2026-10-01")])
    lesson.model.reply("Let me look.", search("ruby author"), search("ruby year"))
    lesson.model.reply(text("Matz wrote Ruby.", citations=[(0, 0)]))
    lesson.model.reply("In 1995.")
    lesson.model.reply(tool_use("answer_table", {"rows": [{"name": "Ruby", "year": 1995, "source": ""}]}))
    cells = [
        "a = %ask who wrote Ruby?",
        "b = %ask --follow and when?",
        '%ask --table "name, year: int" -o c when did they appear?',
    ]
    assert all(ran.ok for ran in lesson.record(*cells))
    recorded = [facts(lesson.shell.ns[name]) for name in "abc"]
    asked = len(lesson.model.requests), len(lesson.brave.queries)
    ran = lesson.replay(*cells)
    assert [r.error for r in ran] == [None] * 3
    replayed = [lesson.shell.ns[name] for name in "abc"]
    assert [facts(answer) for answer in replayed] == recorded
    assert (len(lesson.model.requests), len(lesson.brave.queries)) == asked
    assert lesson.shell.ns["c"].to_frame().year.tolist() == [1995]
    assert {answer.replayed_from for answer in replayed} == {TAPE}
    for form in ("text/html", "text/plain", "text/markdown"):
        assert f"replayed from {TAPE}" in ran[0].texts(form)


def test_a_replay_costs_nothing_and_the_ledger_says_so(lesson: Any) -> None:
    """Every row is 0 USD and "replayed"; the session has spent nothing; the recording had its price."""
    lesson.model.reply(search("ruby author"))
    lesson.model.reply("Matz.")
    cells = ["a = %ask who wrote Ruby?", "df = %search moons of Mars"]
    lesson.record(*cells)
    assert lesson.shell.ns["a"].cost_usd > 0 and lesson.shell.ns["a"].replayed_from == ""
    lesson.replay(*cells, "costs = %cost --rows", "%cost --by model")
    answer, costs = lesson.shell.ns["a"], lesson.shell.ns["costs"]
    assert answer.cost_usd == 0 == answer.session_cost_usd and [step.cost_usd for step in answer.trace] == [0, 0, 0]
    assert costs.kind.tolist() == ["model", "search", "model", "search"]
    assert set(costs.status) == {"replayed"} and costs.usd.tolist() == [0.0] * 4


def test_a_search_and_a_page_are_replayed_too(lesson: Any, pages: Any, public_web: Any) -> None:
    """A frame with its mark, and a page in another encoding with its lines, without asking the web once more."""
    url = pages("a", "<p>Größe ist wichtig, sagt der Text.</p>".encode("latin-1"), "text/html; charset=latin-1")
    binary = pages("b.bin", b"%PDF-1.4 \xff\xfe\x00", "application/pdf")
    cells = ["df = %search -n 3 moons of Mars", f"p = %fetch {url}", f"%fetch {binary}", f"%fetch {url}/no"]
    first = lesson.record(*cells)
    before, page, asked = lesson.shell.ns["df"], lesson.shell.ns["p"], len(public_web.requests)
    again = lesson.replay(*cells)
    found = lesson.shell.ns["df"]
    assert found.equals(before) and found.search.cost_usd == 0 and f"replayed from {TAPE}" in found.search.notices
    assert "Größe" in page.content and lesson.shell.ns["p"].content == page.content
    assert [str(r.error) for r in again[2:]] == [str(r.error) for r in first[2:]] and "404" in str(again[3].error)
    assert len(public_web.requests) == asked and "Größe" in lesson.text


def test_documents_on_github_are_replayed(lesson: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`read_research` gets the same document, without a token."""
    with GitHub() as github:
        monkeypatch.setenv("GITHUB_BASE_URL", github.url)
        monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
        github.files["docs/a.json"] = GitHub.file(b'{"a":  1}\r\n')
        lesson.model.reply(tool_use("read_research", {"path": "a.json"}))
        lesson.model.reply("It says 1.")
        setting = "%config WebSearch.research_root = 'github:acme/research/docs'"
        lesson.record(setting, "a = %ask what does a.json say?")
        recorded = facts(lesson.shell.ns["a"])
    monkeypatch.delenv("GITHUB_BASE_URL")
    monkeypatch.delenv("GITHUB_TOKEN")
    assert lesson.replay(setting, "a = %ask what does a.json say?")[1].ok
    assert facts(lesson.shell.ns["a"]) == recorded and TOKEN not in lesson.text


def test_an_enrichment_is_replayed_with_its_rows_in_any_order(lesson: Any) -> None:
    """Sixteen rows at once, with searches, an overload and a failed row: the same frame, nothing from the store."""

    def boss(body: dict[str, Any]) -> Any:
        company = company_in(body)
        if company == "C7" and not any("C7" in str(other) for other in lesson.model.bodies[:-1]):
            return error(529)
        if company == "C3":
            return [record(ceo="x"), refusal("cyber")]
        return search(f"{company} boss") if len(body["messages"]) == 1 else record(ceo=f"Boss of {company}")

    lesson.model.behave(boss)
    lesson.shell.ns["frame"] = pd.DataFrame({"company": [f"C{n}" for n in range(12)]})
    cell = "%%enrich frame -o out\nceo: Who is the CEO of {company}?"
    first = lesson.record(cell)[0]
    assert first.ok, first.error
    before, asked = lesson.shell.ns["out"], len(lesson.model.requests)
    lesson.model.behave(None)
    again = lesson.replay(cell, "costs = %cost --rows")[0]
    assert again.ok and f"replayed from {TAPE}" in again.stdout, again.error
    after, costs = lesson.shell.ns["out"], lesson.shell.ns["costs"]
    assert after.enrich_cost_usd.sum() == 0 and (after.enrich_status == "ok").sum() == 11
    columns = [name for name in before.columns if name != "enrich_cost_usd"]
    pd.testing.assert_frame_equal(after[columns], before[columns])
    assert set(costs.status) == {"replayed"} and costs.usd.sum() == 0 and len(lesson.model.requests) == asked


# --- rhythm and failures ------------------------------------------------------------------------------------------------


def pieces(run: Any) -> tuple[list[float], float]:
    """Return when the pieces of a question's text came, and how long it took, in seconds."""
    start = time.perf_counter()
    moments = []

    async def main() -> None:
        async for event in run:
            if type(event).__name__ == "TextDelta":
                moments.append(time.perf_counter() - start)

    background.run(main)
    return moments, time.perf_counter() - start


def test_a_replay_streams_in_the_rhythm_of_the_recording_or_at_once(lesson: Any) -> None:
    """Pieces come when they came, the wait before the first one included; with --instant nothing waits."""
    lesson.model.reply(COUNT, delay(0.3), slow(0.04))
    lesson.shell.run(f"%websearch record {TAPE}")
    recorded, _ = pieces(api.session().start("count"))
    lesson.replay(options="")
    replayed, took_s = pieces(api.session().start("count"))
    assert len(replayed) == len(recorded) > 4
    assert replayed[0] > 0.28 and replayed[-1] - replayed[0] > 0.04 * (len(replayed) - 2)
    lesson.replay(options="--instant")
    at_once, took_at_once_s = pieces(api.session().start("count"))
    assert len(at_once) == len(recorded) and took_at_once_s < took_s


@pytest.mark.parametrize(
    "replies",
    [
        [error(429, headers={"retry-after": "1"}), "Done."],
        [error(529), error(529), "Done."],
        [(COUNT, truncated(1))],
        [(COUNT, broken_stream(1))],
        [error(400, message="no such thing")],
        [error(529), error(529), error(529)],
    ],
    ids=["limited", "overloaded", "truncated", "broken", "refused", "given-up"],
)
def test_what_went_wrong_goes_wrong_again_in_the_same_way(lesson: Any, replies: list[Any]) -> None:
    """Refusals, overloads and broken streams replay with their text and what the loop made of them, without the waits."""
    for reply in replies:
        lesson.model.reply(*(reply if isinstance(reply, tuple) else (reply,)))
    lesson.model.allow_refusals = True
    first = lesson.record("a = %ask who?")[0]
    expected = [(a.text, a.limit, a.stop_reason, a.messages) for a in api.session().answers]
    assert first.ok == bool(expected)
    again = lesson.replay("a = %ask who?")[0]
    assert [(a.text, a.limit, a.stop_reason, a.messages) for a in api.session().answers] == expected
    assert (again.ok, type(again.error), str(again.error)) == (first.ok, type(first.error), str(first.error))


def test_an_engine_that_failed_fails_again(lesson: Any) -> None:
    """429 goes to the model with the same words; the next engine answers as it did."""
    lesson.brave.fail(429)
    lesson.model.reply(search("ruby author"))
    lesson.model.reply("Nobody knows.")
    lesson.record("a = %ask --provider brave who?")
    recorded = facts(lesson.shell.ns["a"])
    assert "429" in str(recorded)
    assert lesson.replay("a = %ask --provider brave who?")[0].ok
    assert facts(lesson.shell.ns["a"]) == recorded


@pytest.mark.parametrize("option", ["--max-searches 1", "--max-steps 1", "--budget 0.031"])
def test_limits_are_reached_where_they_were(lesson: Any, option: str) -> None:
    """Searches, steps and money end an answer at the same place; a budget counts the prices although nothing is paid."""

    def more(body: dict[str, Any]) -> Any:
        return "From what there is." if body.get("tool_choice") else search(f"query {len(lesson.model.requests)}")

    lesson.model.behave(more)
    cell = f"a = %ask {option} who?"
    assert lesson.record(cell)[0].ok
    recorded = facts(lesson.shell.ns["a"])
    assert lesson.shell.ns["a"].limit
    again = lesson.replay(cell)[0]
    assert again.ok, again.error
    assert facts(lesson.shell.ns["a"]) == recorded and lesson.shell.ns["a"].cost_usd == 0


def test_a_time_limit_cuts_a_replay_where_it_cut_the_recording(lesson: Any) -> None:
    """What had come by then is the answer, with the limit's name."""
    lesson.model.reply(COUNT, slow(0.3))
    lesson.record("a = %ask --timeout 0.8 count")
    recorded = lesson.shell.ns["a"]
    assert recorded.limit == "timeout" and recorded.text.startswith("number 1") and "end" not in recorded.text
    for options in ("--instant", ""):
        assert lesson.replay("a = %ask --timeout 0.8 count", options=options)[0].ok
        assert (lesson.shell.ns["a"].text, lesson.shell.ns["a"].limit) == (recorded.text, "timeout")


def test_a_session_ceiling_is_where_it_was_after_a_replay(lesson: Any) -> None:
    """It counts the replayed calls while the tape plays, and has spent nothing afterwards."""
    lesson.model.reply("Yes.")
    lesson.record("%cost --budget 0.50", "%ask really?")
    lesson.replay("%cost --budget 0.50", "%ask really?")
    ceiling = Limited()
    assert ceiling.spent > 0
    lesson.shell.run("%websearch stop")
    assert ceiling.spent == 0


# --- which request is which ---------------------------------------------------------------------------------------------


def test_a_request_that_is_not_on_the_tape_is_one_line_with_the_nearest(lesson: Any) -> None:
    """The error says what was asked, which recording is nearest, and in what they differ; nothing is sent."""
    lesson.model.reply("Matz.")
    lesson.model.reply("Guido.")
    lesson.record("%ask who wrote Ruby?", "%ask who wrote Python?", "%search moons of Mars")
    ran = lesson.replay(
        "%ask who wrote Pyton?", "%ask -m haiku who wrote Ruby?", "%search moons of Saturn", "%ask who wrote Ruby?"
    )
    assert [type(r.error) for r in ran] == [ReplayError] * 3 + [type(None)]
    first, second, third = (str(r.error) for r in ran[:3])
    assert TAPE in first and "who wrote Pyton?" in first and "who wrote Python?" in first and "\n" not in first
    assert re.search(r"no\. 2 \(line \d+\)", first) and "messages[0].content[0].text" in first
    assert "the model" in second and "claude-haiku-5-5" in second and "claude-sonnet-5-5" in second
    assert "moons of Saturn" in third and "params.q (recorded “moons of Mars”" in third


def test_a_search_of_the_model_that_is_not_on_the_tape_is_the_error_and_not_its_consequence(lesson: Any) -> None:
    """The model gets no error to read: what it would answer was not recorded."""
    lesson.model.reply(search("ruby author"))
    lesson.model.reply("Matz.")
    lesson.record("%ask who wrote Ruby?")
    lesson.change('["q", "ruby author"]', '["q", "another"]')
    error = lesson.replay("%ask who wrote Ruby?")[0].error
    assert isinstance(error, ReplayError) and "ruby author" in str(error) and "another" in str(error)


def test_a_page_of_the_model_that_is_not_on_the_tape_is_the_error_too(lesson: Any, pages: Any) -> None:
    """Tools that make a result of every failure do not hide it."""
    url = pages("a", "<p>Matz wrote Ruby, as everybody knows.</p>")
    lesson.model.reply(tool_use("web_fetch", {"url": url}))
    lesson.model.reply("Matz.")
    lesson.record(f"%ask who wrote Ruby, see {url} ?")
    lesson.change(f'page: "{url}"', f'page: "{url}bc"')
    ran = lesson.replay(f"%ask who wrote Ruby, see {url} ?", f"%fetch {url}d", "%ask -m offline --provider local hello?")
    assert [type(r.error) for r in ran] == [ReplayError, ReplayError, type(None)]
    assert f"{url}bc" in str(ran[0].error)


def test_the_same_request_plays_the_first_answer_and_then_the_second(lesson: Any) -> None:
    """And the first again after the last, so that a cell may be run once more."""
    for answer in ("One.", "Two."):
        lesson.model.reply(answer)
    lesson.record("%ask how many?", "%ask how many?")
    ran = lesson.replay(*["%ask how many?"] * 3)
    assert [r.value.text for r in ran] == ["One.", "Two.", "One."]


def test_the_cache_neither_hides_traffic_nor_is_filled_by_it(lesson: Any) -> None:
    """What was cached before is asked anew for the tape; within a lesson a repeated search is cached, then as now."""
    lesson.shell.run("%search moons of Mars")
    cells = ["a = %search moons of Mars", "b = %search moons of Mars", "c = %search --fresh moons of Mars"]
    lesson.record(*cells)
    cached = [lesson.shell.ns[name].search.cached for name in "abc"]
    assert cached == [False, True, False] and lesson.text.count("\nengine:") == 2
    assert lesson.shell.run("%search moons of Mars").value.search.cached
    lesson.replay(*cells)
    assert [lesson.shell.ns[name].search.cached for name in "abc"] == cached


def test_a_tape_of_last_month_plays_today(lesson: Any, engine: Callable[[str], Any]) -> None:
    """ "Today is …" and the days that "past week" is sent as count from the day of the request; other days stay."""
    tavily = engine("tavily")
    lesson.model.reply("Matz.")
    cells = [
        "%ask who wrote Ruby?",
        "%search -p tavily --freshness pw ruby news",
        "%search -p tavily --freshness 2026-01-01to2026-02-01 ruby",
    ]
    assert all(ran.ok for ran in lesson.record(*cells)) and len(tavily.requests) == 2
    today = datetime.now(UTC).date()
    days = {day.isoformat(): (day - timedelta(days=40)).isoformat() for day in (today, today - timedelta(days=7), date.today())}
    moved = re.sub("|".join(days), lambda found: days[found[0]], lesson.text)
    Path(TAPE).write_text(moved, encoding="utf-8")
    again = lesson.replay(*cells, "%search -p tavily --freshness 2026-01-02to2026-02-01 ruby")
    assert [type(ran.error) for ran in again] == [type(None)] * 3 + [ReplayError]


def test_a_tape_of_another_version_plays_with_its_own_instructions(lesson: Any) -> None:
    """Between versions the wording of instructions and tools may differ; in the same version it may not."""
    lesson.model.reply("Matz.")
    lesson.record("%ask who wrote Ruby?")
    lesson.change("You answer questions in a Jupyter notebook", "You are asked in a notebook")
    assert "system[0].text" in str(lesson.replay("%ask who wrote Ruby?")[0].error)
    Path(TAPE).write_text(re.sub(r'version: ".*"', 'version: "0.0.9"', lesson.text), encoding="utf-8")
    assert lesson.replay("%ask who wrote Ruby?")[0].ok


def test_engines_are_offered_as_they_were_whatever_is_set_here(lesson: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of the class adds no engine, the teacher's need not be there; an engine without a key then is refused."""
    lesson.record("%search moons of Mars", "%search -p brave phases of Venus")
    lesson.forget()
    monkeypatch.setenv("TAVILY_API_KEY", "tvly-key-of-the-class")
    ran = lesson.replay("%search moons of Mars", "%search -p brave phases of Venus", "%search -p exa x2", "%websearch status")
    assert [type(r.error) for r in ran] == [type(None)] * 2 + [MissingKeyError, type(None)]
    assert TAPE in str(ran[2].error) and "replaying" in ran[3].stdout and f"set: {TAPE}" in ran[3].stdout


def test_a_lesson_without_a_key_replays_with_the_built_in_model(
    brave_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The built-in model is not recorded: it runs again over the recorded searches, and gives the same."""
    brave_api.reply([hit("https://ruby.example/", "Ruby", "Matz wrote the language Ruby in 1995.")])
    lesson = Lesson(None, brave_api, shell, monkeypatch)
    lesson.record("a = %ask who wrote the language Ruby?")
    before = shell.ns["a"]
    assert before.offline and "\nmodel:" not in lesson.text
    assert lesson.replay("a = %ask who wrote the language Ruby?")[0].ok
    assert (shell.ns["a"].text, shell.ns["a"].citations) == (before.text, before.citations) and shell.ns["a"].offline
    error = shell.run("%ask who wrote the language Perl?").error
    assert isinstance(error, ReplayError)


# --- keys ---------------------------------------------------------------------------------------------------------------


def test_no_key_is_on_the_tape_in_any_form(lesson: Any, pages: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not plain, quoted or in base64 at any place; not from a question, a page, an engine's words, or a stream in pieces."""
    key = "sk-ant-api03-k+y/of~the=tests"
    monkeypatch.setattr(lesson.model, "key", key)
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    coded = base64.b64encode(f"user:{key}!".encode()).decode()
    quoted = pages("a", f"<p>{key} {quote(key, safe='')} {coded}</p>")
    binary = pages("b", b"\xff\xfe\x00" + key.encode() + b"\x00", "application/pdf")
    lesson.brave.fail(403, body={"message": f"bad key {lesson.brave.key}"})
    lesson.model.reply(f"You wrote {key}, which is a key.", slow(0.001))
    lesson.record(f"%ask is {key} a key?", f"%fetch {quoted}", f"%fetch {binary}", "%search -p brave why not")
    data = Path(TAPE).read_bytes()
    pieces = "".join(json.loads(line[4:])[2] for line in lesson.text.split("\n") if re.match(r"  - \[[\d.]+, \d+, ", line))
    assert "which is a key" in pieces and "[key]" in pieces and "k+y" not in pieces
    for secret in (key, lesson.brave.key):
        forms = [secret.encode(), quote(secret, safe="").encode(), quote(secret).encode()]
        forms += [base64.b64encode(b"x" * n + secret.encode())[4:-4] for n in range(3)]
        assert [form for form in forms if form in data] == []
    for found in re.findall(r'^  ?"?([A-Za-z0-9+/=]{8,})"?,?$', lesson.text, re.MULTILINE):
        assert key.encode() not in base64.b64decode(found + "==")
    assert data.count(b"[key]") >= 5


# --- the file -----------------------------------------------------------------------------------------------------------


def test_the_file_is_readable_and_says_things_once(lesson: Any) -> None:
    """It is YAML with the text as lines; instructions, tools and earlier messages are named, not repeated."""
    import yaml

    lesson.model.reply("One.", search("x1"))
    lesson.model.reply("Two.\nThree.")
    lesson.record("%ask one, two?")
    entries = list(yaml.safe_load_all(lesson.text))
    assert [next(iter(entry)) for entry in entries] == ["cassette", "model", "engine", "model"]
    assert entries[3]["request"]["system"] == {"as_in": 1} == entries[3]["request"]["tools"]
    assert entries[3]["request"]["messages"][0] == {"as_in": 1, "messages": 1} and len(entries[3]["request"]["messages"]) == 3
    assert any(event[1:] == [0, "One."] for event in entries[1]["stream"])
    assert lesson.text.count("You answer questions") == 1
    lesson.change('"tools": {"as_in": 1}', '"tools": {"as_in": 7}')
    assert "names another one" in str(lesson.shell.run(f"%websearch replay {TAPE}").error)


def test_a_file_that_is_there_is_kept_unless_told_otherwise(lesson: Any) -> None:
    """Without a flag recording is refused; --append goes on, --force begins anew; two recordings at once are refused."""
    lesson.record("%search moons of Mars")
    before = lesson.text
    refused = lesson.shell.run(f"%websearch record {TAPE}").error
    assert isinstance(refused, ConfigError) and "--append" in str(refused) and lesson.text == before
    lesson.record("%search moons of Saturn", options="--append")
    assert lesson.text.startswith(before) and lesson.text.count("\nengine:") == 2
    assert all(ran.ok for ran in lesson.replay("%search moons of Mars", "%search moons of Saturn"))
    for line in ("%websearch record other.cassette", "%websearch record"):
        assert isinstance(lesson.shell.run(line).error, ConfigError | UsageError)
    lesson.shell.run("%websearch stop")
    assert "No cassette" in lesson.shell.run("%websearch stop").stdout
    lesson.shell.run(f"%websearch record {TAPE} --force")
    assert isinstance(lesson.shell.run(f"%websearch replay {TAPE}").error, ConfigError)
    assert lesson.text.count("\nengine:") == 0


def test_a_killed_kernel_loses_only_what_was_under_way(lesson: Any) -> None:
    """Entries are in the file as soon as they have ended; one that is not whole is left out, and taken off when going on."""
    lesson.shell.run(f"%websearch record {TAPE}")
    lesson.shell.run("%search moons of Mars")
    lesson.shell.run("%search moons of Saturn")
    Path(TAPE).write_text(lesson.text[:-40], encoding="utf-8")  # without `stop`: the kernel is gone
    ran = lesson.replay("%search moons of Mars", "%search moons of Saturn", "%websearch stop")
    assert ran[0].ok and isinstance(ran[1].error, ReplayError)
    assert ran[2].stdout == f"1 exchange replayed from {TAPE}.\n"
    assert "was left out" in lesson.shell.run(f"%websearch replay {TAPE}").stdout
    lesson.shell.run("%websearch stop")
    lesson.record(options="--append")
    assert "was left out" not in lesson.shell.run(f"%websearch replay {TAPE}").stdout


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("took_s: ", "took_s: x", "took_s is not JSON"),
        ('"method": "GET"', '"method": GET', "request is not JSON"),
        ("cassette: 1", "cassette: 9", "no cassette of format 1"),
        ('engine: "brave"', 'motor: "brave"', "an entry must name one of"),
        ("status: 200", "status 200", "expected `name: value`"),
        ("# A cassette", "A cassette", "this is no cassette"),
        ("status: 200", 'status: "fine"', "status must not be 'fine'"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(lesson: Any, old: str, new: str, says: str) -> None:
    """The error has the file, the line and what is wrong there."""
    lesson.record("%search moons of Mars", "%search moons of Saturn")
    lesson.change(old, new)
    number = next(n for n, line in enumerate(lesson.text.split("\n"), 1) if new in line)
    error = lesson.shell.run(f"%websearch replay {TAPE}").error
    assert isinstance(error, ConfigError) and says in str(error) and TAPE in str(error)
    assert f"line {number}:" in str(error) or says.startswith(("no cassette", "an entry"))
    assert api.session().recording is None


def test_a_file_that_is_none_is_refused(shell: Any) -> None:
    """A missing, an empty and a binary file."""
    Path("empty").write_text("")
    Path("binary").write_bytes(b"\xff\x00")
    for name, says in (("nowhere", "there is no cassette"), ("empty", "empty"), ("binary", "cannot be read")):
        error = shell.run(f"%websearch replay {name}").error
        assert isinstance(error, ConfigError) and says in str(error)


def test_a_large_tape_is_searched_to_its_end(lesson: Any) -> None:
    """Eight megabytes, and each request is found."""
    lesson.record("%search moons of Mars")
    entry = lesson.text[lesson.text.index('---\nengine: "brave"') :]
    with open(TAPE, "a", encoding="utf-8") as file:
        for n in range(8_000_000 // len(entry)):
            file.write(entry.replace("moons of Mars", f"query {n}"))
    ran = lesson.replay("%search query 17", "%search query 170")
    assert all(r.ok for r in ran)


def test_text_of_every_kind_comes_back_as_it_was(tmp_path: Path) -> None:
    """Line ends, blanks, marks of YAML, characters that nobody can see, bytes."""
    from ipy_websearch.cassette.exchange import Exchange, body_fields, body_of
    from ipy_websearch.cassette.written import exchange_text, head_text, read

    bodies = [
        b"",
        b"\n",
        b"a\r\nb\r\n",
        b"  x\n\n---\n...\n",
        "\u2028\x0b\ufeffä\u202e\n".encode(),
        b"\xff\x00",
        b"\t- a: |\n ",
        b"x\n\n",
    ]
    made = [
        Exchange("page", f"http://x/{n}", None, n=n, outcome={"status": 200, **body_fields(body, is_json=False)})
        for n, body in enumerate(bodies)
    ]
    made.append(Exchange("model", "m", {"messages": []}, n=99, outcome={"stream": [(0.1, {"type": "x", "y": "\ud800\u2028"})]}))
    path = tmp_path / "t"
    path.write_bytes((head_text({}) + "".join(exchange_text(e, e.request) for e in made)).encode("utf-8", "backslashreplace"))
    found = read(path).exchanges
    assert [body_of(e.outcome) for e in found[:-1]] == bodies
    assert found[-1].outcome["stream"] == [(0.1, {"type": "x", "y": "\ud800\u2028"})]


# --- doors --------------------------------------------------------------------------------------------------------------


def test_python_has_the_same_doors(messages_api: Any, brave_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`session.record` and `session.replay` are context managers and plain calls; afterwards all is as before."""
    messages_api.reply(search("ruby author"))
    messages_api.reply("Matz.")

    async def ask(session: Session) -> Any:
        try:
            return await session.ask("who wrote Ruby?")
        finally:
            await session.aclose()

    teacher = Session()
    parts = (teacher.http, teacher.claude, teacher.router, teacher.cache, teacher.keys)
    with teacher.record("t.cassette") as recording:
        assert recording.path == Path("t.cassette") and "recording" in repr(recording)
        recorded = asyncio.run(ask(teacher))
    assert parts == (teacher.http, teacher.claude, teacher.router, teacher.cache, teacher.keys)
    for name in VARIABLES.split():
        monkeypatch.delenv(name, raising=False)
    student = Session()
    student.replay("t.cassette", instant=True)
    assert asyncio.run(ask(student)).text == recorded.text and student.spent_usd == 0
    student.stop_recording()
    assert student.recording is None and student.replayed_from == "" and not student.has_model_key


def test_questions_at_the_same_time_find_their_own_answers(session: Session, messages_api: Any) -> None:
    """Recorded together, replayed together in another order, each with its searches and its follow-up requests."""

    def answer(body: dict[str, Any]) -> Any:
        words = body["messages"][0]["content"][0]["text"]
        return [delay(0.02), search(f"{words} x")] if len(body["messages"]) == 1 else f"About {words}"

    async def ask(*numbers: int) -> list[str]:
        try:
            return [a.text for a in await asyncio.gather(*(session.ask(f"number {n}") for n in numbers))]
        finally:
            await session.aclose()

    messages_api.behave(answer)
    with session.record(TAPE):
        recorded = asyncio.run(ask(1, 2, 3, 4))
    asked = len(messages_api.requests)
    with session.replay(TAPE):
        assert asyncio.run(ask(4, 3, 2, 1)) == recorded[::-1]
    assert len(messages_api.requests) == asked == 8


def test_unloading_and_the_end_of_a_session_stop_the_tape(lesson: Any) -> None:
    """`%reload_ext` and the end of the shared session leave no tape behind."""
    lesson.record("%search moons of Mars")
    lesson.replay("%search moons of Mars")
    session = api.session()
    lesson.shell.run("%reload_ext ipy_websearch")
    assert session.recording is None
    lesson.shell.run(f"%websearch replay {TAPE}")
    background.run(session.aclose)
    assert session.recording is not None  # connections alone were closed
    api.end_session()
    assert session.recording is None


def test_a_key_is_not_tried_and_no_other_client_is_answered_while_a_tape_plays(
    lesson: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is typed is kept for afterwards; intercepted clients would spend money and are refused."""
    import anthropic

    import ipy_websearch

    lesson.record("%search moons of Mars")
    lesson.replay()
    monkeypatch.setattr("getpass.getpass", lambda prompt: "sk-ant-api03-another")
    ran = lesson.shell.run("%websearch key anthropic")
    assert ran.ok and "it was not tried" in ran.stdout
    client = ipy_websearch.intercept(anthropic.Anthropic(api_key="k", base_url="http://127.0.0.1:9"), provider="brave")
    tools: Any = [{"type": "web_search_20250305", "name": "web_search"}]
    with pytest.raises(ConfigError, match=TAPE):
        client.messages.create(model="llama", max_tokens=9, messages=[{"role": "user", "content": "x"}], tools=tools)
    lesson.shell.run("%websearch stop")
    assert api.session().keys.get("ANTHROPIC_API_KEY") == "sk-ant-api03-another"


def test_a_model_error_that_was_recorded_is_a_model_error(lesson: Any) -> None:
    """With its status and kind, so that whoever handles it does so as before."""
    lesson.model.allow_refusals = True
    lesson.model.reply(error(400, message="no such thing"))
    lesson.record("%ask who?")
    caught = lesson.replay("%ask who?")[0].error
    assert isinstance(caught, ModelError) and caught.status == 400 and "no such thing" in str(caught)
