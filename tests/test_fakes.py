"""The public fakes as a user's own tests use them, the examples of the documents, and the rules of the fake Messages API."""

import builtins
import doctest
import importlib
import json
import re
import urllib.error
import urllib.request
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import ipy_websearch
from ipy_websearch import api, search
from ipy_websearch.errors import ConfigError, FetchError, MissingKeyError, ModelError, ProviderError
from ipy_websearch.providers.router import PROVIDERS
from ipy_websearch.results import SearchResult
from ipy_websearch.testing import FakeWeb
from tests.fakes.examination import Issued, examine
from tests.fakes.public_web import PublicWeb
from tests.fakes.replies import text, tool_use
from tests.fakes.server import Scripted

ACME = ("https://acme.example/", "Acme Corp", "The CEO of Acme is Jo Doe since 2019.")


def test_search_and_fetch_give_what_was_given() -> None:
    """Results in their order, up to the count; pages as Markdown; without a reply the offline model quotes the results."""
    dated = SearchResult("B", "https://b.example/", published_date=datetime(2026, 1, 2, tzinfo=UTC))
    with FakeWeb() as web:
        web.add_results("two words", ACME, dated)
        web.fail_search("broken", "no answer today")
        web.add_page(ACME[0], "<html><body><article><h1>Acme</h1><p>It makes anvils.</p></article></body></html>")
        found = ipy_websearch.search("Some TWO  Words", provider="brave")
        assert found[0].url == ACME[0] and found[1] is dated and found.provider == "fake"
        assert len(ipy_websearch.search("two words again", count=1)) == 1 and not len(ipy_websearch.search("others"))
        with pytest.raises(ProviderError, match="no answer today"):
            ipy_websearch.search("a broken one")
        with pytest.raises(ConfigError, match="did you mean 'brave'"):
            ipy_websearch.search("two words", provider="brav")
        assert "It makes anvils." in ipy_websearch.fetch("https://acme.example/").content
        with pytest.raises(FetchError, match="no such page"):
            ipy_websearch.fetch("https://other.example/")
        answer = ipy_websearch.ask("Who is the CEO of two words?", read_pages=0)
        assert "Jo Doe" in answer.text and ACME[0] in list(answer.sources.url)
        assert "published_date: '2026-01-02T00:00:00+00:00'" in answer.panels[0].content


def test_sentences_cite_what_was_found_and_searches_cost_what_was_said() -> None:
    """`cited` points to a result by its address; without one, and with a reply too many, the test fails. `start` and `stop` do
    without a block."""
    web = FakeWeb(search_usd="0.005").start()
    web.add_results("acme", ACME)
    web.reply(web.call("web_search", query="acme"))
    web.reply(web.cited("The CEO of Acme is Jo Doe since 2011.", ACME[0]))
    answer = ipy_websearch.ask("Who?", model="claude-haiku-5-5")
    web.stop()
    assert answer.citations[0].cited_text == ACME[2] and list(answer.claims.verdict) == ["unsupported"]
    assert answer.cost_usd is not None and answer.cost_usd > Decimal("0.005")
    with FakeWeb() as web:
        web.reply(web.cited("It never was.", "https://never.example/"))
        with pytest.raises(ModelError, match="never.example/ was not given to the model"):
            ipy_websearch.ask("Who?")
    with pytest.raises(AssertionError, match="1 of the model's replies were never asked for"), FakeWeb() as web:
        web.reply("too much")


def test_the_session_of_before_comes_back(brave_api: Any) -> None:
    """Its costs are as they were, and the machine's keys and engines are not used inside."""
    mine = api.session()
    with FakeWeb() as web:
        web.add_results("", ACME)
        assert ipy_websearch.search("anything").provider == "fake" and web.session.keys.get("brave") is None
        with pytest.raises(MissingKeyError):
            ipy_websearch.ask("x?", tools="brave_search")
    assert api.session() is mine and not len(ipy_websearch.cost()) and not brave_api.requests


# --- Examples that people copy are run: those of docstrings, of the README's session and of the magics' help ---------

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "ipy_websearch"
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    if re.search(r"^\s*>>> ", path.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_docstrings_give_what_they_say(name: str) -> None:
    """Each example of a module runs, without keys and without the network, and prints what stands under it."""
    done = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    vars(builtins).pop("_", None)  # where doctest keeps the last value; IPython would take it for gettext's
    assert done.attempted > 0 and done.failed == 0


def cells_of(block: str) -> list[str]:
    """Return the cells of a session: a %% cell ends at an empty line, of all else each line is one."""
    paragraphs = block.strip().split("\n\n")
    return [cell for text in paragraphs for cell in ([text] if text.startswith("%%") else text.splitlines())]


def test_the_session_of_the_readme_runs_as_it_stands(
    messages_api: Any, offline: Any, bare_shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each line byte for byte, with its comment: without a key up to the one that asks for it, then with Claude."""
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    monkeypatch.setattr("getpass.getpass", lambda prompt: messages_api.key)
    messages_api.behave(answer_of)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    cells = cells_of(blocks[0])
    assert sum(cell.startswith(("%", "df")) for cell in cells) >= 8
    for n, cell in enumerate(cells):
        if cell.startswith("%%ask"):
            bare_shell.run("import pandas as pd; shortlist = 'A or B'; df = pd.DataFrame({'company': ['Acme']})")
        ran = bare_shell.run(cell)
        assert ran.ok, (cell, ran.error)
        if not cell.startswith("#") and n + 1 < len(cells) and cells[n + 1].startswith("# ["):
            assert repr(ran.value) == cells[n + 1][2:]
        if cell.startswith("df = %search"):
            assert bare_shell.ns["df"].search.query == "moons of Mars"
    assert len(messages_api.bodies) == 3


def test_the_engine_of_the_contributing_guide_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of one's own; that entry points are found is tested with the engines."""
    guide = (ROOT / ".github" / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    (tmp_path / "hn_engine.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert 'entry-points."ipy_websearch.providers"]\nhn = "hn_engine:INFO"' in guide
    monkeypatch.setitem(PROVIDERS, "hn", importlib.import_module("hn_engine").INFO)
    with Scripted() as server:
        server.answer({"hits": [{"title": "T", "url": "https://a.example/", "story_text": "About it"}]}, path="/api/v1/search")
        monkeypatch.setenv("HN_BASE_URL", server.url)
        (found,) = search("duckdb", provider="hn", count=3)
        assert (found.title, found.description) == ("T", "About it")
        assert server.requests[0].params == {"query": "duckdb", "hitsPerPage": "3"}


def answer_of(body: Any) -> Any:
    """Return what the model says in the README's session."""
    fills = any(tool["name"] == "record" for tool in body["tools"])
    return tool_use("record", {"ceo": None, "founded": None}) if fills else text("A has.")


# --- The fakes themselves: each rule refuses the request that breaks it and takes the corrected one; engines mind their keys

JSON = dict[str, Any]


OBJECT: JSON = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": False}


def tool(name: str = "look", **more: Any) -> JSON:
    """A client's tool."""
    return {"name": name, "description": "Looks.", "input_schema": OBJECT} | more


def user(*content: Any) -> JSON:
    """A user's message: text, or blocks."""
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else list(content)}


def said(*content: Any) -> JSON:
    """An assistant's message."""
    return user(*content) | {"role": "assistant"}


def call(id: str = "toolu_1", name: str = "look", **more: Any) -> JSON:
    """A call of a client's tool."""
    return {"type": "tool_use", "id": id, "name": name, "input": {"q": "x"}} | more


def result(id: str = "toolu_1", content: Any = "found", **more: Any) -> JSON:
    """The result of a call."""
    return {"type": "tool_result", "tool_use_id": id, "content": content} | more


def found(*parts: str, on: bool = True, **more: Any) -> JSON:
    """A search result."""
    content = [{"type": "text", "text": part} for part in parts]
    return {
        "type": "search_result",
        "source": "https://a.example/",
        "title": "A",
        "content": content,
        "citations": {"enabled": on},
    } | more


def words(content: str = "hi", **more: Any) -> JSON:
    """A text block."""
    return {"type": "text", "text": content} | more


def body(*messages: JSON, **more: Any) -> JSON:
    """A request, by default one that is in order."""
    return {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": list(messages) or [user("hi")]} | more


def talk(*results: Any, calls: Any = None, **more: Any) -> JSON:
    """A request whose last message answers calls, by default one."""
    return body(user("hi"), said(*(calls or [call()])), user(*results), **({"tools": [tool()]} | more))


MARK = {"type": "ephemeral"}


SEARCH = {"type": "web_search_20250305", "name": "web_search"}


SERVER_CALL = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}


SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


BASH = {"type": "bash_20250124", "name": "bash"}


def schema(names: int = 1, required: bool = True, **kind: Any) -> JSON:
    """A closed schema with some properties of a type."""
    properties = {f"p{n}": kind or {"type": "string"} for n in range(names)}
    return OBJECT | {"properties": properties, "required": list(properties) if required else []}


OPEN_OBJECT = {"type": "object", "properties": {}}


NULLABLE = {"anyOf": [{"type": "string"}, {"type": "null"}]}


def formed(schema: JSON) -> JSON:
    """A request for structured output."""
    return body(output_config={"format": {"type": "json_schema", "schema": schema}})


FORMAT = {"format": {"type": "json_schema", "schema": OBJECT}}


FOREIGN = {"type": "web_search_result", "url": "https://a.example/", "title": "A", "encrypted_content": "made up"}


THOUGHT = {"type": "thinking", "thinking": "Let me think.", "signature": "sig1"}


TIED = THOUGHT | {"signature": "tied"}


CITED = words(citations=[{"type": "char_location", "cited_text": "a", "document_index": 0}])

CASES: list[tuple[JSON, JSON, str]] = [
    (body(temperature=1.0), body(), "temperature"),
    (body(top_k=5), body(), "top_k"),
    (body(frequency_penalty=1), body(metadata={"user_id": "u"}), "Extra inputs are not permitted"),
    (body(model=""), body(), "model"),
    (body(max_tokens=-1), body(max_tokens=1), "greater than or equal to 0"),
    (body() | {"messages": []}, body(), "at least one message"),
    (body({"role": "system", "content": "x"}, user("hi")), body(system="x"), 'must use the "user" role'),
    (body(user("hi"), said("ho"), user("")), body(user("hi"), user("you")), "non-empty content"),
    (body(user("hi"), {"role": "assistant"}), body(user("hi")), "messages.1: all messages must have non-empty content"),
    (body(system=[{"type": "image"}]), body(system="x"), "system.0.type"),
    (body(said("hi"), user("ho")), body(user("hi")), 'must use the "user" role'),
    (body(user(words(note="x"))), body(user(words())), "note: Extra inputs"),
    (body(user({"type": "video"})), body(user(words())), "Input tag 'video'"),
    (body() | {"messages": ["hi"]}, body(), "messages.0: Input should be a valid dictionary"),
    (body(tools=["look"]), body(tools=[tool()]), "tools.0.custom: Input should be a valid dictionary"),
    (
        body(user("hi"), said({"type": "document", "source": {"type": "text", "data": "x"}}), user("ho")),
        body(user({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}})),
        "Input tag 'document'",
    ),
    (body(user("hi"), said(found("x")), user("ho")), body(user(found("x"))), "search_result"),
    (body(system=[words("")]), body(system=[words()]), "system: text content blocks"),
    (body(user(words(""))), body(user(words("x"))), "must be non-empty"),
    (body(user(words(" \n"))), body(user(words("x"))), "non-whitespace"),
    (talk(result(content=[words("")])), talk(result(content="")), "must be non-empty"),
    (body(user(words("", cache_control=MARK))), body(user(words())), "cache_control cannot be set"),
    (body(user(CITED)), body(user(words(citations=[]))), "not permitted"),
    (
        talk(result(content=[found("x") | {"content": [CITED]}])),
        talk(result(content=[found("x")])),
        "not permitted on text blocks in user messages",
    ),
    (body(user("hi"), said("The answer is")), body(), "prefill"),
    (body(user("hi"), said(words("changed"), SERVER_CALL)), body(), "prefill"),
    (
        talk(result(), calls=[THOUGHT | {"thinking": "Let me thinK."}, call()]),
        talk(result(), calls=[THOUGHT, call()]),
        "cannot be modified",
    ),
    (
        talk(result(), calls=[THOUGHT | {"signature": "forged"}, call()]),
        talk(result(), calls=[THOUGHT, call()]),
        "Invalid `signature`",
    ),
    (
        talk(result("toolu_thought"), calls=[call("toolu_thought")]),
        talk(result("toolu_thought"), calls=[THOUGHT, call("toolu_thought")]),
        "left out",
    ),
    (
        body(user("ho"), said(TIED, words()), user("more")),
        body(user("hi"), said(TIED, words()), user("more")),
        "differs from the one",
    ),
    (
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT | {"content": [FOREIGN]}), user("ho"), tools=[SEARCH]),
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT), user("ho"), tools=[SEARCH]),
        "Invalid `encrypted_content`",
    ),
    (
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT | {"content": None}), user("ho"), tools=[SEARCH]),
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT), user("ho"), tools=[SEARCH]),
        "Input should be a valid",
    ),
    (body(user(found("x", title=""))), body(user(found("x"))), "title"),
    (body(user(found())), body(user(found("x"))), "at least 1 item"),
    (body(user(found("x", " "))), body(user(found("x", "y"))), "non-empty"),
    (body(tools=[SEARCH | {"type": "web_search_19990101"}]), body(tools=[SEARCH]), "match pattern"),
    (body(tools=[tool(price=1)]), body(tools=[tool()]), "price: Extra inputs"),
    (body(tools=[BASH | {"cache_control": "x"}]), body(tools=[BASH | {"cache_control": MARK}]), "cache_control"),
    (body(tools=[tool("a b")]), body(tools=[tool("a-b")]), "match pattern"),
    (body(tools=[tool(), tool()]), body(tools=[tool(), tool("b")]), "unique"),
    (body(tools=[tool(input_schema={})]), body(tools=[tool()]), "input_schema.type"),
    (
        body(tools=[tool(strict=True, input_schema=schema(items=OPEN_OBJECT, type="array"))]),
        body(tools=[tool(input_schema=OPEN_OBJECT), tool("b", strict=True, input_schema=schema(items=OBJECT, type="array"))]),
        "additionalProperties",
    ),
    (formed(OPEN_OBJECT), formed(schema()), "additionalProperties"),
    (
        body(tools=[tool(f"t{n}", strict=True) for n in range(21)]),
        body(tools=[tool(f"t{n}", strict=True) for n in range(20)]),
        "Too many strict tools (21)",
    ),
    (
        body(tools=[tool(strict=True, input_schema=schema(25, required=False))]),
        body(tools=[tool(strict=True, input_schema=schema(24, required=False))]),
        "too many optional parameters (25)",
    ),
    (
        body(tools=[tool(strict=True, input_schema=schema(17, **NULLABLE))]),
        body(tools=[tool(strict=True, input_schema=schema(16, **NULLABLE))]),
        "union types (17)",
    ),
    (formed(schema(17, type=["string", "null"])), formed(schema(16, type=["string", "null"])), "union types (17)"),
    (
        body(tools=[tool(strict=True, input_schema=schema(type="string", minLength=2))]),
        body(tools=[tool(input_schema=schema(type="string", minLength=2))]),
        "minLength are not supported",
    ),
    (formed(schema(type="integer", minimum=0)), formed(schema(type="integer")), "minimum are not supported"),
    (
        body(tools=[SEARCH | {"allowed_domains": ["https://a.example"]}]),
        body(tools=[SEARCH | {"allowed_domains": ["a.example/blog"]}]),
        "must not include a scheme",
    ),
    (
        body(tools=[SEARCH | {"allowed_domains": ["a.example"], "blocked_domains": ["b.example"]}]),
        body(tools=[SEARCH | {"allowed_domains": ["a.example"]}]),
        "Only one of",
    ),
    (body(tool_choice={"type": "auto"}), body(), "while providing tools"),
    (
        body(tools=[tool()], tool_choice={"type": "tool", "name": "other"}, model="claude-haiku-5-5"),
        body(tools=[tool()], tool_choice={"type": "none"}),
        "'other' not found",
    ),
    (
        body(tools=[tool()], tool_choice={"type": "any"}),
        body(tools=[tool()], tool_choice={"type": "any"}, model="claude-haiku-5-5"),
        'type "tool" and "any" are not supported for this model',
    ),
    (
        body(thinking={"type": "enabled", "budget_tokens": 2048}, max_tokens=2048),
        body(thinking={"type": "enabled", "budget_tokens": 2048}, max_tokens=2049),
        "must be greater than `thinking.budget_tokens`",
    ),
    (talk(result(), tools=[]), talk(result()), "must define tools"),
    (
        talk(result(), result(), calls=[call(), call()]),
        talk(result(), result("toolu_2"), calls=[call(), call("toolu_2")]),
        "ids must be unique",
    ),
    (talk(result(), result("T9")), talk(result()), "unexpected `tool_use_id`"),
    (talk(result(), result()), talk(result()), "single result"),
    (
        talk(result(), calls=[call(), call("toolu_2")]),
        talk(result(), result("toolu_2"), calls=[call(), call("toolu_2")]),
        "without `tool_result` blocks immediately after: toolu_2",
    ),
    (
        talk(words("so"), result()),
        talk(result(), words("so")),
        "immediately after: toolu_1",
    ),
    (
        body(user("hi"), said(SERVER_CALL, words()), user("ho"), tools=[SEARCH]),
        body(user("hi"), said(SERVER_CALL, SERVER_RESULT, words()), user("ho"), tools=[SEARCH]),
        "without a corresponding `web_search_tool_result`",
    ),
    (
        talk(result(), words("and"), calls=[SERVER_CALL, call()], tools=[tool(), SEARCH]),
        talk(result(), calls=[SERVER_CALL, call()], tools=[tool(), SEARCH]),
        "without a corresponding `web_search_tool_result`",
    ),
    (
        talk(result(content=[found("x"), words("a note")])),
        talk(result(content=[found("x"), found("a note")])),
        "all blocks must be",
    ),
    (
        talk(result(content=[found("x")], is_error=True)),
        talk(result(content="It failed.", is_error=True)),
        '"text" if `is_error` is true',
    ),
    (talk(result(content="", is_error=True)), talk(result(content="")), "empty if"),
    (
        talk(result(content=[found("x"), found("y", on=False)])),
        talk(result(content=[found("x", on=False), found("y", on=False)])),
        "for all `search_result` blocks",
    ),
    (
        talk(result(content=[found("x")]), output_config=FORMAT),
        talk(result(content=[found("x", on=False)]), output_config=FORMAT),
        "when citations are enabled",
    ),
    (
        body(user(*[words(str(n), cache_control=MARK) for n in range(5)])),
        body(user(*[words(str(n), cache_control=MARK) for n in range(4)])),
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
    ),
    (
        body(user(words(cache_control=MARK | {"ttl": "2h"}))),
        body(user(words(cache_control=MARK | {"ttl": "1h"}))),
        "'5m' or '1h'",
    ),
]


def examined(body: JSON) -> str:
    """Return the words of the refusal of a request, "" when it is in order."""
    issued = Issued()
    issued.note({"content": [THOUGHT]})
    issued.note({"content": [THOUGHT, call("toolu_thought")]})
    issued.note({"content": [TIED]}, {**CASES[0][1], "messages": [user("hi")]})
    issued.note({"content": [words("Let me look."), SERVER_CALL], "stop_reason": "pause_turn"})
    try:
        examine(json.loads(json.dumps(body)), issued)
    except ModelError as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize(("broken", "corrected", "says"), CASES)
def test_what_breaks_a_rule_is_refused_and_the_corrected_request_is_taken(broken: JSON, corrected: JSON, says: str) -> None:
    assert says in examined(broken)
    assert examined(corrected) == ""


def test_the_network_is_refused_but_for_the_pretended_web(offline: list[str]) -> None:
    with pytest.raises(OSError):
        urllib.request.urlopen("http://93.184.216.34/")
    assert offline == ["connection to 93.184.216.34:80"]
    with PublicWeb() as web:
        web.page("http://example.org/a", "<p>Hello</p>")
        with urllib.request.urlopen("http://example.org/a") as answer:
            assert answer.read() == b"<p>Hello</p>"
