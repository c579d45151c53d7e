"""What a caller gets of an intercepted reply is what the SDK itself makes of it, though it is made in another way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from anthropic._models import construct_type
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.beta import BetaMessage, BetaRawMessageStreamEvent
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.model.built import built

WIRE = Path(__file__).parent / "data" / "wire" / "anthropic"


def recorded_messages() -> Iterator[Any]:
    """Yield every recorded message that came whole."""
    for path in sorted(WIRE.glob("*.json")):
        value = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(value, dict) and value.get("type") == "message":
            yield pytest.param(value, id=path.stem)


def recorded_events() -> Iterator[Any]:
    """Yield the events of every recorded stream."""
    for path in sorted(WIRE.glob("*.sse")):
        lines = [line[5:] for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("data:")]
        values = [json.loads(line) for line in lines if line.strip().startswith("{") and line.strip().endswith("}")]
        yield pytest.param([value for value in values if value.get("type") not in ("ping", "error")], id=path.stem)


def told(model: Any) -> Any:
    """Return all that can be asked of a model: its class, its fields, those that were given, and so for what is in it."""
    if isinstance(model, list):
        return [told(each) for each in model]
    if not hasattr(model, "model_fields_set"):
        return type(model), model
    values = {**model.__dict__, **(model.__pydantic_extra__ or {})}
    return type(model), model.model_fields_set, {name: told(value) for name, value in values.items()}


def the_sdks(kind: Any, value: Any) -> Any:
    """Return what the SDK makes of a JSON object."""
    return construct_type(type_=kind, value=value)


@pytest.mark.parametrize("kind", [Message, BetaMessage])
@pytest.mark.parametrize("message", list(recorded_messages()))
def test_recorded_messages_become_the_models_that_the_sdk_makes(message: Any, kind: Any) -> None:
    """To the class of every part and the names of the fields that were given; what is not of the form is left to the SDK."""
    made = built(kind, message)
    assert made is None or told(made) == told(the_sdks(kind, message))


@pytest.mark.parametrize("kind", [RawMessageStreamEvent, BetaRawMessageStreamEvent])
@pytest.mark.parametrize("events", list(recorded_events()))
def test_recorded_events_become_the_models_that_the_sdk_makes(events: list[Any], kind: Any) -> None:
    """The same for the events of streams, unknown ones among them."""
    for event in events:
        made = built(kind, event)
        assert made is None or told(made) == told(the_sdks(kind, event)), event


def test_most_of_what_was_recorded_is_made_here() -> None:
    """So the tests above are about something."""
    messages = [parameter.values[0] for parameter in recorded_messages()]
    events = [event for parameter in recorded_events() for event in parameter.values[0]]
    assert sum(built(Message, message) is not None for message in messages) > len(messages) * 0.6
    assert sum(built(RawMessageStreamEvent, event) is not None for event in events) > len(events) * 0.9


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        {},
        {"type": "message"},
        {"type": ["message"]},
        {"type": "message", "content": None},
        {"type": "message", "content": [None]},
        {"type": "message", "content": [{"type": "block_of_next_year", "x": 1}]},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "delta_of_next_year"}},
        {"type": "event_of_next_year"},
    ],
)
def test_what_is_not_of_the_form_is_left_to_the_sdk(value: Any) -> None:
    """Nothing is raised for it."""
    assert built(Message, value) is None and built(RawMessageStreamEvent, value) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
        max_leaves=6,
    ),
    st.sampled_from(["id", "model", "content", "usage", "stop_reason", "extra"]),
)
def test_a_message_with_an_odd_field_is_left_to_the_sdk_or_made_alike(odd: Any, field: str) -> None:
    """Servers that speak the Messages API leave fields out, or fill them with something else."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "usage": usage}
    value = {**whole, "content": [{"type": "text", "text": "Yes."}], field: odd}
    made = built(Message, value)
    assert made is None or made == the_sdks(Message, value)


def test_what_the_sdk_takes_as_it_is_stays_as_it_is() -> None:
    """Counts that are no whole numbers are not made such, and fields that nobody knows do not count as set."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "content": []}
    for count in ("5", 5.0, True):
        assert built(Message, {**whole, "stop_sequence": None, "usage": {**usage, "input_tokens": count}}) is None
    more = {**whole, "stop_sequence": None, "usage": {**usage, "iterations": [1]}, "next_year": {"x": 1}}
    assert told(built(Message, more)) == told(the_sdks(Message, more))
