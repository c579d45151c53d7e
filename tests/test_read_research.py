"""`read_research`: a document out of a folder or a GitHub repository, and nothing from anywhere else."""

from __future__ import annotations

import asyncio
import base64
import errno
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError
from ipy_websearch.http.client import HttpClient
from ipy_websearch.keys import Keys
from ipy_websearch.providers import research
from ipy_websearch.providers.research import MAX_BYTES, Failure
from ipy_websearch.tools.base import Tool, ToolContext, ToolOutput
from ipy_websearch.tools.read_research import ReadResearchInput, read_research_tool
from ipy_websearch.tools.research_path import checked_path
from tests.fakes.replies import tool_use
from tests.fakes.server import Server

TOKEN = "ghp_fakeTokenOfTheTests0123456789"
TOO_LARGE = "File exceeds 50KB limit. Try a more specific path or request a summary."


class GitHub(Server):
    """The Contents API of one repository, `acme/research`; `files` maps full paths to what is answered for them."""

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, Any] = {}
        self.asked: list[web.Request] = []
        self.status: int | None = None
        self.headers: dict[str, str] = {}

    def routes(self) -> list[tuple[str, str, Any]]:
        """Serve one endpoint."""
        return [("GET", "/repos/acme/research/contents/{path:.+}", self._contents)]

    async def _contents(self, request: web.Request) -> web.Response:
        self.asked.append(request)
        if self.status is not None:
            return web.json_response({"message": f"no, {TOKEN}"}, status=self.status, headers=self.headers)
        found = self.files.get(request.match_info["path"])
        if found is None:
            return web.json_response({"message": "Not Found", "status": "404"}, status=404)
        return web.json_response(found)

    @staticmethod
    def file(path: str, data: bytes, **changed: Any) -> dict[str, Any]:
        """Return the object that stands for a file; a value of None takes a field out."""
        text = base64.encodebytes(data).decode()
        found = {"type": "file", "path": path, "size": len(data), "encoding": "base64", "content": text, **changed}
        return {name: value for name, value in found.items() if value is not None}


class Place:
    """A research root of either kind, with documents in `ideas/`."""

    def __init__(self, root: str, put: Callable[[str, bytes], None], github: GitHub, tmp_path: Path) -> None:
        self.root, self.put, self.github = root, put, github
        self.ideas = tmp_path / "ideas"
        self.keys = Keys(tmp_path / "settings")

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of this machine."""
        return not self.root.startswith("github:")

    def call(self, path: str) -> ToolOutput:
        """Return what the tool gives for a path."""
        return call(read_research_tool(self.root, HttpClient(user_agent="test"), self.keys), path)

    def read(self, path: str) -> dict[str, Any]:
        """Return the payload for a path."""
        return payload(self.call(path))

    def refused(self, path: str) -> str:
        """Return the message for a path that breaks a rule; nothing must have been looked for."""
        found = self.read(path)
        assert (found["ok"], found["error_type"]) == (False, "path_validation") and self.github.asked == []
        return str(found["message"])


def call(tool: Tool, path: str) -> ToolOutput:
    async def run() -> ToolOutput:
        return await tool.call(ReadResearchInput(path=path), ToolContext())

    return asyncio.run(run())


def payload(output: ToolOutput) -> dict[str, Any]:
    found = json.loads(output.text)
    assert output.is_error is not found["ok"] and output.passages == ()
    return found


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    """The fake, with GITHUB_BASE_URL leading to it."""
    with GitHub() as fake:
        monkeypatch.setenv("GITHUB_BASE_URL", fake.url + "/")
        yield fake
    fake.check()


@pytest.fixture(params=["folder", "github"])
def place(request: pytest.FixtureRequest, github: GitHub, tmp_path: Path) -> Place:
    """Both kinds of root, each with the same documents."""
    ideas = tmp_path / "ideas"
    ideas.mkdir()

    def in_folder(path: str, data: bytes) -> None:
        (ideas / path).parent.mkdir(parents=True, exist_ok=True)
        (ideas / path).write_bytes(data)

    def on_github(path: str, data: bytes) -> None:
        github.files[f"docs/ideas/{path}"] = GitHub.file(f"docs/ideas/{path}", data)

    if request.param == "folder":
        return Place(str(ideas), in_folder, github, tmp_path)
    return Place("github:acme/research/docs/ideas@main", on_github, github, tmp_path)


# --- the fifteen cases of the specification --------------------------------------------------------------------------------


def test_returns_file_content_for_valid_path(place: Place) -> None:
    """The file below the root is given whole, as data and as a Markdown panel."""
    place.put("market/2024-06.md", "# Märkte\n\nSee https://example.org/a. And notes.md".encode())
    output = place.call("market/2024-06.md")
    assert payload(output)["content"] == "# Märkte\n\nSee https://example.org/a. And notes.md"
    assert (output.panel_kind, output.panel_title) == ("markdown", "market/2024-06.md")
    assert output.panel_data == payload(output)["content"]
    assert output.urls == ("https://example.org/a",) and output.charges == ()


def test_returns_error_for_file_not_found(place: Place) -> None:
    """A missing file is a failure of its own kind that names the path as it was given."""
    found = place.read(" missing.md ")
    assert found == {"ok": False, "error_type": "file_not_found", "message": "File not found: missing.md"}
    assert place.read("no/such/dir.md")["error_type"] == "file_not_found"


def test_returns_error_for_path_traversal_attempt(place: Place) -> None:
    """Two dots are refused wherever they stand, and so are backslashes."""
    for path in ("../secrets", "market/../../secrets", "a..b.md", "foo\\bar.md"):
        assert "'..' and backslashes" in place.refused(path)


def test_returns_error_for_absolute_path(place: Place) -> None:
    """/etc/passwd is not a path below the root."""
    assert "relative" in place.refused("/etc/passwd")


def test_returns_error_for_path_containing_percent_sign(place: Place) -> None:
    """No URL encoding, so no hidden dots."""
    assert "'%'" in place.refused("%2e%2e/secrets") and "'%'" in place.refused("a%2Fb.md")


def test_returns_error_for_path_starting_with_ideas(place: Place) -> None:
    """The root's own last part is put in front and must not be given again."""
    assert "'ideas/'" in place.refused("ideas/market.md")


def test_returns_error_for_trailing_slash(place: Place) -> None:
    """A path that ends with a slash is a directory's."""
    assert "end with '/'" in place.refused("market/")


def test_returns_error_for_double_slash(place: Place) -> None:
    """An empty part in the middle is refused."""
    assert "'//'" in place.refused("market//file.md")


def test_returns_error_for_file_exceeding_50kb(place: Place) -> None:
    """A file of 50 KB is read; one byte more is refused, not cut."""
    place.put("full.md", b"x" * MAX_BYTES)
    place.put("over.md", b"x" * (MAX_BYTES + 1))
    assert len(place.read("full.md")["content"]) == MAX_BYTES == 51_200
    assert place.read("over.md") == {"ok": False, "error_type": "file_too_large", "message": TOO_LARGE}


def test_returns_error_for_path_longer_than_200_chars(place: Place) -> None:
    """200 characters are looked for, 201 are not; blanks around them do not count."""
    assert "longer than 200" in place.refused("a" * 201)
    assert place.read(" " + "a" * 200)["error_type"] == "file_not_found"


def test_returns_error_for_control_characters_in_path(place: Place) -> None:
    """They are refused inside, and never repeated; white space around the path is taken off."""
    for path in ("a\x00b.md", "a\nb.md", "a\x1b[31m.md"):
        assert place.refused(path) == "Invalid path: control characters are not allowed."
    assert place.read("\tmissing.md\r\n")["error_type"] == "file_not_found"


def test_returns_error_for_directory_response(place: Place) -> None:
    """A directory is not a file, in both forms that GitHub has for one."""
    place.put("market/a.md", b"a")
    place.github.files["docs/ideas/market"] = [GitHub.file("docs/ideas/market/a.md", b"a")]
    place.github.files["docs/ideas/other"] = {"type": "dir", "size": 0, "path": "docs/ideas/other", "entries": []}
    (place.ideas / "other").mkdir()
    for path in ("market", "other"):
        found = place.read(path)
        assert found == {"ok": False, "error_type": "api_error", "message": f"Path is not a file: {path}"}


def test_returns_error_for_missing_size_field(github: GitHub, tmp_path: Path) -> None:
    """Without a size nothing is read, however short the content is."""
    place = Place("github:acme/research/ideas", lambda path, data: None, github, tmp_path)
    for name, size in (("none.md", None), ("text.md", "1"), ("true.md", True), ("minus.md", -1)):
        github.files[f"ideas/{name}"] = GitHub.file(f"ideas/{name}", b"x", size=size)
        found = place.read(name)
        assert found["error_type"] == "api_error" and "how large" in found["message"]


def test_returns_error_for_a_file_without_a_size_in_a_folder(tmp_path: Path) -> None:
    """What a system announces as empty and fills when it is read (/proc) has no known size either."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("there is no /proc here")
    found = payload(call(read_research_tool("/proc/self", HttpClient(user_agent="t"), Keys(tmp_path)), "status"))
    assert found["error_type"] == "api_error" and "0 were announced" in found["message"]


def test_returns_empty_string_for_empty_file(place: Place) -> None:
    """Nothing in it is not an error."""
    place.put("empty.md", b"")
    assert place.read("empty.md") == {"ok": True, "content": "", "bytes": 0}


def test_returns_bytes_count_in_successful_result(place: Place) -> None:
    """Bytes are counted as they are stored, not characters."""
    place.put("umlaut.md", "äöü".encode())
    output = place.call("umlaut.md")
    assert payload(output) == {"ok": True, "content": "äöü", "bytes": 6} and "6 bytes" in output.summary


# --- what a folder must not let through ------------------------------------------------------------------------------------


@pytest.fixture
def rooted(tmp_path: Path) -> Any:
    """A function that reads below `tmp_path/root`."""
    (tmp_path / "root" / "inside").mkdir(parents=True)
    (tmp_path / "root" / "inside" / "a.md").write_text("a")
    (tmp_path / "secret.md").write_text("the secret")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.md").write_text("the secret")

    def read(path: str) -> dict[str, Any]:
        return payload(call(read_research_tool(str(tmp_path / "root"), HttpClient(user_agent="t"), Keys(tmp_path)), path))

    return read


def test_no_symlink_in_a_folder_is_followed(rooted: Any, tmp_path: Path) -> None:
    """Neither as the file nor on the way, neither out of the root nor inside it, neither relative nor absolute."""
    root = tmp_path / "root"
    (root / "out.md").symlink_to("../secret.md")
    (root / "absolute.md").symlink_to(tmp_path / "secret.md")
    (root / "away").symlink_to(tmp_path / "outside")
    (root / "within.md").symlink_to("inside/a.md")
    (root / "broken.md").symlink_to("nowhere")
    for path in ("out.md", "absolute.md", "away/secret.md", "within.md", "broken.md", "away"):
        found = rooted(path)
        assert (found["error_type"], found["message"]) == ("api_error", f"Path is not a file: {path}")
    assert rooted("inside/a.md")["content"] == "a" and rooted("inside/./a.md")["ok"]


def test_the_root_itself_may_be_a_symlink(tmp_path: Path) -> None:
    """The user chose it; its own name is the one that paths must not repeat."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.md").write_text("a")
    (tmp_path / "notes").symlink_to("real")
    tool = read_research_tool("notes", HttpClient(user_agent="t"), Keys(tmp_path), base=tmp_path)
    assert payload(call(tool, "a.md"))["ok"] and "'notes/'" in payload(call(tool, "notes/a.md"))["message"]


def test_pipes_sockets_and_files_on_the_way_are_refused_at_once(rooted: Any, tmp_path: Path) -> None:
    """A pipe would keep its reader waiting for ever."""
    os.mkfifo(tmp_path / "root" / "pipe")
    with socket.socket(socket.AF_UNIX) as bound:
        before = os.getcwd()
        os.chdir(tmp_path / "root")  # the name of a socket may be about 100 characters long
        bound.bind("socket")
        os.chdir(before)
        start = time.monotonic()
        for path in ("pipe", "socket"):
            assert rooted(path)["message"] == f"Path is not a file: {path}"
        assert time.monotonic() - start < 1
    assert rooted("inside/a.md/b.md")["error_type"] == "file_not_found"


def test_devices_are_refused(tmp_path: Path) -> None:
    """/dev/zero never ends."""
    tool = read_research_tool("/dev", HttpClient(user_agent="t"), Keys(tmp_path))
    for path in ("zero", "null", "tty"):
        assert payload(call(tool, path))["ok"] is False


def test_a_directory_swapped_for_a_link_while_it_is_read_does_not_lead_out(tmp_path: Path) -> None:
    """Between looking at a name and opening it, somebody else may change it a thousand times a second."""
    root, secrets = tmp_path / "root", tmp_path / "secrets"
    for directory, text in ((root / "a", "fine"), (secrets, "the secret")):
        directory.mkdir(parents=True)
        (directory / "f.md").write_text(text)
    (tmp_path / "link").symlink_to(secrets)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            os.rename(root / "a", tmp_path / "kept")
            os.rename(tmp_path / "link", root / "a")
            os.rename(root / "a", tmp_path / "link")
            os.rename(tmp_path / "kept", root / "a")

    documents = research.Folder(str(root))
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        end = time.monotonic() + 0.4
        found = set()
        while time.monotonic() < end:
            outcome = documents._read("a/f.md")
            found.add(outcome.message if isinstance(outcome, Failure) else outcome.content)
    finally:
        stop.set()
        swapper.join()
    assert "the secret" not in found and "fine" in found


def test_a_file_that_may_not_be_read_says_so(rooted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the system refuses becomes one short line without a path of this machine."""

    def refuse(*_: Any, **__: Any) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", "/home/somebody/locked.md")

    monkeypatch.setattr(os, "open", refuse)
    found = rooted("inside/a.md")
    assert (found["error_type"], found["message"]) == ("api_error", "Failed to read file: Permission denied")


def test_a_file_that_is_not_text_is_an_error(place: Place) -> None:
    """A picture is not turned into replacement characters."""
    place.put("logo.png", b"\x89PNG\r\n\x1a\n\xff\xfe")
    assert place.read("logo.png")["message"] == "Failed to read file: it is not UTF-8 text"


def test_characters_that_nobody_can_see_do_not_reach_the_model(place: Place) -> None:
    """Tag characters and escapes could carry orders; the size is that of the file."""
    place.put("odd.md", "a\U000e0041\u202eb\x1b[31mc".encode())
    output = place.call("odd.md")
    assert payload(output)["content"] == "abc" and output.panel_data == "abc" and payload(output)["bytes"] == 15


# --- GitHub ----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def read_github(github: GitHub, tmp_path: Path) -> Any:
    """A function that reads a path below a GitHub root."""

    def read(path: str, root: str = "github:acme/research/docs@v1") -> dict[str, Any]:
        return payload(call(read_research_tool(root, HttpClient(user_agent="t"), Keys(tmp_path / "none")), path))

    return read


def test_github_is_asked_for_the_path_at_the_ref(github: GitHub, read_github: Any) -> None:
    """Path and ref of the root are put in; without a ref the default branch is asked for."""
    github.files["docs/a b/x.md"] = GitHub.file("docs/a b/x.md", b"x")
    github.files["x.md"] = GitHub.file("x.md", b"y")
    assert read_github("x.md", "github:acme/research/docs/a b/@feature/x@2")["content"] == "x"
    assert github.asked[0].query["ref"] == "feature/x@2" and "Authorization" not in github.asked[0].headers
    assert read_github("x.md", " github:acme/research ")["content"] == "y"
    assert "ref" not in github.asked[1].query
    assert "'research/'" in read_github("research/x.md", "github:acme/research")["message"]


def test_a_github_token_is_sent_and_never_shown(github: GitHub, read_github: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes into the header, and out of every message, even when GitHub repeats it."""
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    for status in (401, 403, 422):
        github.status = status
        found = read_github("a.md")
        assert found["error_type"] == "api_error" and found["message"].startswith("Failed to read file: github answered")
        assert TOKEN not in found["message"]
    assert github.asked[0].headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_used_up_rate_limit_says_what_helps(github: GitHub, read_github: Any) -> None:
    """60 requests an hour are allowed without a token."""
    github.status, github.headers = 403, {"x-ratelimit-remaining": "0"}
    assert "set GITHUB_TOKEN" in read_github("a.md")["message"]


def test_symlinks_and_submodules_on_github_are_refused(github: GitHub, read_github: Any) -> None:
    """A followed link that ends outside of the root's path is one too."""
    for name, found in {
        "link.md": {"type": "symlink", "target": "../x", "size": 4, "path": "docs/link.md"},
        "module": {"type": "submodule", "size": 0, "path": "docs/module", "submodule_git_url": "git://x"},
        "old": GitHub.file("docs/old", b"", submodule_git_url="git://x"),
        "away.md": GitHub.file("secrets/away.md", b"the secret"),
        "next.md": GitHub.file("docs2/next.md", b"the secret"),
        "odd": "a string",
    }.items():
        github.files[f"docs/{name}"] = found
        assert read_github(name)["message"] == f"Path is not a file: {name}"


def test_a_large_file_on_github_is_refused_by_its_size_alone(github: GitHub, read_github: Any) -> None:
    """Above 1 MB GitHub leaves the content out; a size that lies is found out too."""
    github.files["docs/big.md"] = GitHub.file("docs/big.md", b"", size=2_000_000, encoding="none")
    github.files["docs/lie.md"] = GitHub.file("docs/lie.md", b"x" * 60_000, size=10)
    github.files["docs/short.md"] = GitHub.file("docs/short.md", b"xyz", size=10)
    github.files["docs/odd.md"] = GitHub.file("docs/odd.md", b"xyz", encoding="none")
    assert read_github("big.md")["error_type"] == read_github("lie.md")["error_type"] == "file_too_large"
    assert "3 bytes where 10" in read_github("short.md")["message"]
    assert "'none'" in read_github("odd.md")["message"]


def test_a_github_that_cannot_be_reached_is_an_api_error(read_github: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message says that it is GitHub, and the question goes on."""
    monkeypatch.setenv("GITHUB_BASE_URL", "http://127.0.0.1:9")
    found = read_github("a.md")
    assert found["error_type"] == "api_error" and found["message"].startswith("Failed to read file: github could not")
    monkeypatch.setenv("GITHUB_BASE_URL", "ftp://x")
    assert "GITHUB_BASE_URL" in read_github("a.md")["message"]


# --- roots and rules -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "root",
    [
        "no/such/folder",
        "file.txt",
        "github:",
        "github:acme",
        "github:acme/..",
        "github:acme/r/../x",
        "github:a/r@",
        "github:a b/r",
    ],
)
def test_a_root_that_is_none_is_a_setting_to_correct(root: str, tmp_path: Path) -> None:
    """The error names the setting, its value and both forms."""
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(ConfigError, match="research_root") as caught:
        read_research_tool(root, HttpClient(user_agent="t"), Keys(tmp_path), base=tmp_path)
    assert "github:owner/repo/path@ref" in str(caught.value) and repr(root) in str(caught.value)


def test_the_definition_tells_the_model_what_a_path_is(tmp_path: Path) -> None:
    """Between 1 and 200 characters, relative to a directory that is named."""
    (tmp_path / "ideas").mkdir()
    tool = read_research_tool(str(tmp_path / "ideas"), HttpClient(user_agent="t"), Keys(tmp_path))
    found = tool.definition()
    assert found["name"] == "read_research" and '"ideas/"' in found["description"] and "ok: true" in found["description"]
    assert found["input_schema"]["required"] == ["path"]
    path = found["input_schema"]["properties"]["path"]
    assert (path["type"], path["minLength"], path["maxLength"]) == ("string", 1, 200)
    assert not tool.counts_as_search and tool.price == ()


@given(st.text(max_size=230) | st.from_regex(r"[a-z./%\\ ]{0,30}", fullmatch=True))
def test_a_path_that_passes_stays_below_the_root(path: str) -> None:
    """Whatever is let through is relative, has no part "..", and is made of the allowed characters only."""
    checked = checked_path(path, "ideas")
    if isinstance(checked, Failure):
        assert checked.error_type == "path_validation" and checked.message.isprintable() and len(checked.message) < 120
    else:
        assert checked.isascii() and ".." not in checked and not checked.startswith(("/", "ideas/")) and len(checked) <= 200
        assert os.path.normpath(os.path.join("/root", checked)).startswith("/root/")


def test_the_first_broken_rule_is_the_one_that_is_named() -> None:
    """The nine steps are taken in their order."""
    order = ["a\x01%..", "%..", "ideas/../", "ideas//", "x//", "x//y!", "x!"]
    words = ["control", "'%'", "'..'", "'ideas/'", "end with", "'//'", "letters"]
    for path, word in zip(order, words, strict=True):
        checked = checked_path(path, "ideas")
        assert isinstance(checked, Failure) and word in checked.message, path


def test_it_is_offered_whenever_a_root_is_set(messages_api: Any, shell: Any, tmp_path: Path) -> None:
    """The model reads a file and is told what is wrong with a path; without the setting there is no such tool."""
    (tmp_path / "ideas").mkdir()
    (tmp_path / "ideas" / "a.md").write_text("# A")
    messages_api.reply("Nothing set.")
    shell.run("%ask what do I know of A?")
    shell.run("%config WebSearch.research_root = 'ideas'")
    messages_api.reply(tool_use("read_research", {"path": "a.md"}), tool_use("read_research", {"path": "../a.md"}))
    messages_api.reply("It is A.")
    ran = shell.run("a = %ask what do I know of A?")
    offered = [[tool["name"] for tool in body["tools"]] for body in messages_api.bodies]
    assert "read_research" not in offered[0] and "read_research" in offered[1], ran.error
    good, bad = messages_api.bodies[-1]["messages"][-1]["content"]
    assert json.loads(good["content"][0]["text"]) == {"ok": True, "content": "# A", "bytes": 3}
    assert json.loads(bad["content"][0]["text"])["error_type"] == "path_validation" and bad["is_error"]
    assert [panel.content for panel in shell.ns["a"].panels] == ["# A"]


def test_a_wrong_root_fails_the_cell_before_anything_is_sent(messages_api: Any, shell: Any) -> None:
    """It is a setting that the user can correct."""
    shell.run("%config WebSearch.research_root = 'nowhere'")
    error = shell.run("%ask what do I know of A?").error
    assert isinstance(error, ConfigError) and "'nowhere'" in str(error) and messages_api.requests == []


def test_importing_the_tool_opens_no_http_library() -> None:
    """A folder is read without one."""
    import subprocess

    code = "import sys, ipy_websearch.tools.read_research; sys.exit(bool({'httpx', 'aiohttp', 'pandas'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], timeout=30).returncode == 0


def test_the_tool_is_offered_whenever_a_research_root_is_set(
    messages_api: Any, brave_api: Any, session: Any, tmp_path: Path
) -> None:
    """With the setting, every question may read the folder; without it, the tool is not there."""
    from tests.fakes.replies import tool_use
    from tests.test_ask import ask

    messages_api.reply("No.")
    ask(session)
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "market.md").write_text("The market grew by 7 %.")
    session.settings.research_root = str(tmp_path / "notes")
    messages_api.reply(tool_use("read_research", {"path": "market.md"}))
    messages_api.reply("It grew by 7 %.")
    answer = ask(session, "How did the market do?")
    names = [[tool["name"] for tool in body["tools"]] for body in messages_api.bodies]
    assert names[0] == ["web_search", "web_fetch"] and names[1] == ["web_search", "web_fetch", "read_research"]
    assert "7 %" in str(messages_api.bodies[2]["messages"][-1]) and answer.text == "It grew by 7 %."
