"""What tools gave is kept out of memory, and comes back as it was."""

from __future__ import annotations

import copy
import json
import pickle
import tempfile
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.packing import Attic, Packed, as_yaml
from ipy_websearch.results import UNPACKED_PANELS, Panel, PanelShelf
from tests.fakes.replies import tool_use

BODY = json.dumps({"web": {"results": [{"title": f"Result {n} ❤️", "url": f"https://a.example/{n}"} for n in range(40)]}})
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(value=values | st.text().map(lambda text: text * 300) | values.map(lambda value: [value] * 300))
def test_what_was_packed_comes_back_as_it_was(value: Any) -> None:
    """Texts, lone surrogates too, and structures; packed once, twice, copied and pickled."""
    packed, attic = Packed(value), Attic()
    for _ in range(2):
        assert packed.value == value and type(packed.value) is type(value)
        packed.pack(attic)
    for again in (copy.deepcopy(packed), pickle.loads(pickle.dumps(packed))):
        assert again == packed and again.value == value


@given(value=values.filter(lambda value: isinstance(value, (dict, list))))
def test_the_text_of_an_answer_is_read_when_it_is_wanted(value: Any) -> None:
    """Bytes are JSON, packed or not."""
    packed = Packed(json.dumps(value).encode())
    assert packed.value == value
    packed.pack(Attic())
    assert packed.value == value


def test_what_is_no_json_stays_as_it_is() -> None:
    """A tuple, or a key that is no text, would come back as something else."""
    for value in ({"a": (1, 2)}, {1: "x" * 600}, {"o": object()}):
        packed = Packed(value)
        packed.pack(Attic())
        assert packed.value is value


def test_old_panels_leave_memory_and_can_still_be_seen() -> None:
    """The newest stay as they are; of the others, what was kept of them in memory is a place in a file."""
    shelf = PanelShelf()
    panels = [shelf.add(f"search {n}", "yaml", BODY.encode()) for n in range(UNPACKED_PANELS + 20)]
    places = [isinstance(panel.source._kept[0], tuple) for panel in panels]
    assert places == [True] * 20 + [False] * UNPACKED_PANELS
    assert panels[0].data == panels[-1].data == json.loads(BODY) and panels[0].content == panels[-1].content
    assert "Result 39 ❤️" in panels[0].content and pickle.loads(pickle.dumps(panels[0])) == panels[0]


def test_without_a_place_for_the_file_panels_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A full or read-only disk is nobody's concern."""

    def fails(**_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", fails)
    packed = Packed(BODY.encode())
    packed.pack(Attic())
    assert packed.value == json.loads(BODY) and isinstance(packed._kept[0], bytes) and len(packed._kept[0]) < len(BODY) / 3


def test_any_structure_can_be_written_as_yaml() -> None:
    """What an engine of another package gives may hold more than plain dicts and lists."""

    class Own(dict[str, int]):
        pass

    assert as_yaml({"b": 1, "a": ["x"]}) == "b: 1\na:\n- x\n"
    assert as_yaml(Own(n=1)) == "n: 1\n" and "when: " in as_yaml({"when": object()})
    assert Panel("P1", "t", "yaml", Own(n=1)).content == "n: 1\n"


def test_a_search_keeps_the_text_of_its_answer_and_no_copy(messages_api: Any, brave_api: Any, shell: Any) -> None:
    """Its panel holds the bytes that came; the trace holds the blocks that stand in the history."""
    messages_api.reply(tool_use("web_search", {"query": "who wrote Ruby"}))
    messages_api.reply("Matz.")
    assert shell.run("a = %ask --provider brave who wrote Ruby?").ok
    answer = shell.ns["a"]
    source = answer.panels[0].source._kept[0]
    assert isinstance(source, bytes) and json.loads(source) == answer.panels[0].data
    block = answer.messages[2]["content"][0]
    assert block["type"] == "tool_result" and answer.trace[1].response is block
    assert answer.trace[0].response[0]["type"] == "tool_use" and answer.trace[1].request == {"query": "who wrote Ruby"}
