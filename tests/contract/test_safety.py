"""Contract: text from the web is hostile, addresses are judged, and a key appears nowhere."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import ipy_websearch as web
from ipy_websearch.errors import FetchError
from tests.contract.helpers import results_of, search
from tests.fakes.engines import hit
from tests.fakes.no_network import network_guard
from tests.fakes.replies import error, text, tool_use
from tests.fakes.shown import Seen

TABLE = Path(__file__).parent.parent / "data" / "addresses.tsv"
HOSTILE = [
    '<img src="https://evil.example/i" onerror="alert(1)">',
    "<script>alert(1)</script>",
    "![x](https://evil.example/m)",
    "[x](javascript:alert(1))",
    "<javascript:alert(1)>",
    "[x](&#106;avascript:alert(1))",
    "[d](data:text/html,hello)",
    '</div></details><iframe src="https://evil.example/f"></iframe>',
    '<a href="#" data-commandlinker-command="notebook:run-all-cells">c</a>',
    '" onmouseover="alert(1)" style="position:fixed;inset:0" x="',
]

# What pandas puts into the HTML of a frame.
PANDAS = {"table border='1'", "table class='dataframe tex2jax_ignore mathjax_ignore'", "style", "style scoped=None"}


def test_private_and_odd_addresses_are_refused(monkeypatch: pytest.MonkeyPatch, offline: list[str]) -> None:
    lines = [line.split("\t") for line in TABLE.read_text(encoding="utf-8").splitlines() if line[0] != "#"]
    rows = [(json.loads(url), hosts.split()) for expected, url, _, hosts in lines if expected == "block"]
    for url, hosts in rows:
        if hosts:
            monkeypatch.setitem(network_guard.names, url.split("/")[2], hosts)

    async def fetch_all() -> list[Any]:
        session = web.Session()
        errors = await asyncio.gather(*(session.fetch(url) for url, _ in rows), return_exceptions=True)
        await session.aclose()
        return errors

    errors = asyncio.run(fetch_all())
    assert len(rows) > 100 and all(isinstance(error, FetchError) and "\n" not in str(error) for error in errors)
    passed = [(url, str(error)) for (url, _), error in zip(rows, errors, strict=True) if type(error) is FetchError]
    assert len(passed) <= 2, passed
    assert not [tried for tried in offline if "connection" in tried], "no connection was tried"


def test_a_page_is_markdown_in_windows_of_lines(public_web: Any) -> None:
    rows = "".join(f"<h2>Part {n}</h2><p>It has {n} pieces of iron and wood.</p>" for n in range(30))
    public_web.page("http://acme.example/a", f"<html><title>Acme</title><nav>Menu</nav><article>{rows}</article></html>")
    page = web.fetch("http://acme.example/a", offset=3, limit=4)
    assert page.title == "Acme" and page.lines_read == 4 < page.total_lines and page.final_url == "http://acme.example/a"
    assert "## Part 5" in web.fetch("http://acme.example/a").content
    beyond = web.fetch("http://acme.example/a", offset=10_000)
    assert (beyond.content, beyond.lines_read) == ("", 0)
    with pytest.raises(FetchError, match="404"):
        web.fetch("http://acme.example/none")


def test_the_model_reads_only_addresses_that_the_user_or_a_result_gave(
    messages_api: Any, brave_api: Any, public_web: Any
) -> None:
    public_web.page("http://acme.example/a", "<article><p>Acme makes anvils of iron for all the world.</p></article>")
    brave_api.reply([hit("http://acme.example/a", "Acme", "About Acme")])
    messages_api.reply(search("acme"))
    messages_api.reply(
        tool_use("web_fetch", {"url": "http://acme.example/a"}), tool_use("web_fetch", {"url": "http://acme.example/?d=secret"})
    )
    messages_api.reply("Anvils.")
    web.ask("What does Acme make?", provider="brave")
    read, refused = results_of(messages_api.bodies[2])
    assert "anvils of iron" in str(read["content"]) and refused["is_error"]
    assert not any("secret" in str(request.params) for request in public_web.requests)


def test_hostile_text_is_harmless_in_every_view(messages_api: Any, brave_api: Any, shell: Any) -> None:
    for n, attack in enumerate(HOSTILE):
        brave_api.behave(lambda values, attack=attack: [hit("https://a.example/", f"T {attack}", f"D {attack}")])
        messages_api.reply(search(f"query {n}"))
        messages_api.reply(text(f"See {attack} there.", citations=[(0, 0)]))
        cells = [
            "a = %ask --provider brave who?",
            f"%search --provider brave attack {n}",
            "a",
            "%trace",
            "%panels P1",
            "a.sources",
        ]
        *ours, sources = [shell.run(cell) for cell in cells]
        assert [one.error for one in (*ours, sources)] == [None] * len(cells) and ours[0].html
        assert Seen(" ".join(one.html for one in ours)).foreign == [], attack
        assert set(Seen(sources.html).foreign) <= PANDAS, attack


def test_a_key_appears_in_no_output_file_or_error(
    messages_api: Any, brave_api: Any, shell: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [messages_api.key, brave_api.key]
    brave_api.fail(403, body={"error": {"detail": f"The token {keys[1]} is not known."}})
    messages_api.reply(search("ruby author"))
    messages_api.reply("It is so.")
    messages_api.reply(error(401, message=f"invalid x-api-key {keys[0]}"))
    cells = ["%websearch record lesson.cassette", "a = %ask --provider brave who?", "a", "%trace", "%panels", "%cost"]
    cells += ["%ask who?", "%websearch stop", "%websearch status", "repr(a), str(a.steps), a.messages"]
    ran = [shell.run(cell) for cell in cells]
    shown = " ".join(f"{[output.data for output in one.outputs]} {one.error} {one.stdout} {one.stderr}" for one in ran)
    files = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and "history" not in path.name)
    assert [one.ok for one in ran] == [cell != "%ask who?" for cell in cells]
    for key in keys:
        assert key not in shown, shown[max(0, shown.index(key) - 200) :][:300]
        assert key.encode() not in files


@pytest.mark.parametrize("odd", [RuntimeError("Session is closed"), KeyError("x"), OSError(5, "io"), ValueError("two\nlines")])
@pytest.mark.parametrize("where", ["__init__", "send"])
def test_whatever_the_http_library_raises_is_one_line(
    monkeypatch: pytest.MonkeyPatch, brave_api: Any, odd: Exception, where: str
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise odd

    monkeypatch.setattr(f"httpx.AsyncClient.{where}", fail)
    monkeypatch.setenv("IPY_WEBSEARCH_FETCH_ALLOW", "127.0.0.1:80")
    for call in (lambda: web.search("moons", provider="brave"), lambda: web.fetch("http://127.0.0.1/")):
        with pytest.raises(web.WebSearchError) as caught:
            call()
        assert "\n" not in str(caught.value) and "is ''" not in str(caught.value)
