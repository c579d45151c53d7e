"""`read_research`: a document out of a folder or a GitHub repository, and nothing from anywhere else."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ipy_websearch as web
from ipy_websearch.errors import ConfigError
from ipy_websearch.tools.base import ToolContext, ToolOutput
from ipy_websearch.tools.research import MAX_BYTES, read_research_tool
from tests.contract.helpers import results_of
from tests.fakes.replies import tool_use
from tests.fakes.scripted import Scripted
from tests.fakes.wire import context, run

TOO_LARGE = "File exceeds 50KB limit. Try a more specific path or request a summary."
CONTENTS = "/repos/acme/research/contents/"
TOKEN = "ghp_fakeTokenOfTheTests0123456789"

Read = Callable[[str], tuple[ToolOutput, dict[str, Any]]]


def reader(root: str, base: Path) -> Read:
    """Return a function that gives the output and the payload for a path below `root`."""
    made = context(base)
    tool = read_research_tool(root, made.http, made.keys, base=base)

    def read(path: str) -> tuple[ToolOutput, dict[str, Any]]:
        output = run(tool.call(tool.parsed({"path": path}), ToolContext()), made)  # type: ignore[arg-type]
        found = json.loads(output.text)
        assert output.is_error is not found["ok"] and output.passages == ()
        return output, found

    return read


def on_github(data: bytes, **changed: Any) -> dict[str, Any]:
    """Return the object that stands for a file; a value of None takes a field out."""
    found = {"type": "file", "size": len(data), "content": base64.encodebytes(data).decode(), **changed}
    return {name: value for name, value in found.items() if value is not None}


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    """The Contents API, which knows no file."""
    with Scripted() as served:
        monkeypatch.setenv("GITHUB_BASE_URL", served.url)
        yield served


@pytest.fixture(params=["folder", "github"])
def place(request: pytest.FixtureRequest, github: Scripted, tmp_path: Path) -> tuple[Read, Callable[[str, bytes], Any]]:
    """Both kinds of root: a function that reads in it, and one that puts a document there."""
    ideas = tmp_path / "ideas"
    (ideas / "market").mkdir(parents=True)
    github.answer([{"type": "file"}], path=f"{CONTENTS}docs/ideas/market")
    if request.param == "folder":
        return reader(str(ideas), tmp_path), lambda path, data: (ideas / path).write_bytes(data)
    read = reader("github:acme/research/docs/ideas@main", tmp_path)
    return read, lambda path, data: github.answer(on_github(data), path=f"{CONTENTS}docs/ideas/{path}")


@pytest.mark.parametrize(
    ("data", "content"),
    [
        ("# Märkte".encode(), "# Märkte"),
        (b"", ""),
        (b"x" * MAX_BYTES, "x" * MAX_BYTES),
        ("See\u200b https://example.org/x\U000e0041".encode(), "See https://example.org/x"),
    ],
)
def test_a_file_gives_its_content_and_its_bytes(place: Any, data: bytes, content: str) -> None:
    """Without characters that nobody can see; addresses in it may be fetched."""
    read, put = place
    put("market/2024-06.md", data)
    output, found = read(" market/2024-06.md\n")
    assert found == {"ok": True, "content": content, "bytes": len(data)}
    assert output.log["bytes"] == len(data) and output.log["path"].strip() == "market/2024-06.md"
    assert output.panel_data == content and output.urls == (("https://example.org/x",) if "https" in content else ())


@pytest.mark.parametrize(
    ("path", "error_type", "message"),
    [
        ("missing.md", "file_not_found", "File not found: missing.md"),
        ("market", "api_error", "Path is not a file: market"),
        ("large.md", "file_too_large", TOO_LARGE),
        ("latin.md", "api_error", "Failed to read file: it is not UTF-8 text"),
        ("../secrets", "path_validation", "'..' and backslashes"),
        ("/etc/passwd", "path_validation", "must be relative"),
        ("foo\\bar.md", "path_validation", "'..' and backslashes"),
        ("%2e%2e/secrets", "path_validation", "'%' is not allowed"),
        ("ideas/market.md", "path_validation", "must not start with 'ideas/'"),
        ("market/", "path_validation", "must not end with '/'"),
        ("market//file.md", "path_validation", "'//' is not allowed"),
        ("a" * 201, "path_validation", "longer than 200 characters"),
        ("a\x00b", "path_validation", "control characters"),
        (" ", "path_validation", "it is empty"),
        ("ä.md", "path_validation", "letters, digits"),
    ],
)
def test_a_failure_has_one_of_four_types_and_says_what_to_do(
    place: Any, github: Scripted, path: str, error_type: str, message: str
) -> None:
    """The cases of seed 001. The log names the type; for a path that breaks a rule nothing is looked for."""
    read, put = place
    put("large.md", b"x" * (MAX_BYTES + 1))
    put("latin.md", b"\xff\xfe")
    output, found = read(path)
    assert (found["ok"], found["error_type"]) == (False, error_type) and message in found["message"]
    assert output.log["error_type"] == error_type and (error_type != "path_validation" or github.requests == [])


def test_links_pipes_and_devices_in_a_folder_are_refused(tmp_path: Path) -> None:
    """Links neither as the file nor on the way; a pipe would keep its reader waiting for ever."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.md").write_text("text")
    (root / "away").symlink_to(tmp_path)
    (root / "out.md").symlink_to(tmp_path / "secret.md")
    os.mkfifo(root / "pipe")
    for path in ("out.md", "away/secret.md", "away", "pipe"):
        assert reader("root", tmp_path)(path)[1]["message"] == f"Path is not a file: {path}"


def test_github_is_asked_for_the_path_at_the_ref_with_a_token_that_is_never_shown(
    github: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    github.answer({"message": f"no, {TOKEN}"}, status=403, path=f"{CONTENTS}docs/a.md")
    output, found = reader("github:acme/research/docs@release/2", tmp_path)("a.md")
    assert found["error_type"] == "api_error" and "403" in found["message"] and TOKEN not in output.text
    (request,) = github.requests
    assert request.params["ref"] == "release/2" and request.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"size": None}, "did not send its size"),
        ({"type": "symlink", "target": "x"}, "not a file"),
        ({"submodule_git_url": "git://x"}, "not a file"),
        ({"size": 2_000_000, "content": "", "encoding": "none"}, TOO_LARGE),
        ({"encoding": "rot13", "content": "!"}, "0 bytes where 1 were announced"),
    ],
)
def test_what_is_no_plain_file_on_github_is_refused(github: Scripted, tmp_path: Path, changed: Any, told: str) -> None:
    github.answer(on_github(b"x", **changed), path=f"{CONTENTS}a.md")
    _, found = reader("github:acme/research", tmp_path)("a.md")
    assert not found["ok"] and told in found["message"]


def test_it_is_offered_whenever_a_root_is_set_and_its_calls_are_logged(
    messages_api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 001's log: path, bytes, error type and milliseconds of each call are in `answer.steps`."""
    (tmp_path / "market.md").write_text("The market grew by 7 %.")
    monkeypatch.setenv("IPY_WEBSEARCH_RESEARCH_ROOT", str(tmp_path))
    calls = [tool_use("read_research", {"path": path}) for path in ("market.md", "../a.md")]
    messages_api.replies(calls, "Done.")
    steps = web.ask("Who?").steps.query("name == 'read_research'").set_index("path")
    assert [tool["name"] for tool in messages_api.bodies[0]["tools"]] == ["web_search", "web_fetch", "read_research"]
    assert [result.get("is_error", False) for result in results_of(messages_api.bodies[-1])] == [False, True]
    assert steps.bytes["market.md"] == 23 and steps.error_type["../a.md"] == "path_validation"
    assert (steps.milliseconds >= 0).all()


@pytest.mark.parametrize("root", ["nowhere", "github:acme", "github:acme/../x"])
def test_a_root_that_is_none_is_a_setting_to_correct(root: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="research_root"):
        reader(root, tmp_path)
