"""What makes a request dearer than its model and its text say: booked and reserved so, through an intercepted client."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.interception import intercept
from ipy_websearch.model.requests import estimate_tokens
from ipy_websearch.money.prices import worst_case
from tests.fakes.clouds import Clouds
from tests.fakes.money import Limited as limited
from tests.fakes.replies import usage

OPUS, SONNET = "claude-opus-5", "claude-sonnet-5-5"
ASKED: dict[str, Any] = {
    "model": OPUS,
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
}
BY_ADDRESS = {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}


def booked(kind: str = "model") -> Any:
    """Return the rows of the session's ledger."""
    frame = api.session().cost()
    return frame[frame.kind == kind]


def user(*blocks: Any) -> list[dict[str, Any]]:
    """Return a history of one turn."""
    return [{"role": "user", "content": [*blocks, {"type": "text", "text": "What is this?"}]}]


@pytest.mark.parametrize(
    ("asked", "told", "usd"),
    [
        ({"speed": "fast"}, {"speed": "fast"}, "1.05"),
        ({"speed": "fast"}, {"speed": "standard"}, "0.525"),
        ({"speed": "fast"}, {}, "1.05"),
        ({}, {"inference_geo": "us"}, "0.5775"),
        ({"inference_geo": "us"}, {"inference_geo": "global"}, "0.525"),
    ],
)
def test_a_call_is_booked_at_the_terms_of_its_reply(
    client: Any, messages_api: Any, asked: dict[str, Any], told: dict[str, Any], usd: str
) -> None:
    """What was asked for counts where the reply says nothing of it."""
    messages_api.reply("Matz.", usage(input_tokens=100_000, output_tokens=1_000, **told))
    client.messages.create(**ASKED, extra_body=asked)
    assert booked().usd.sum() == pytest.approx(float(usd)) and messages_api.bodies[0].items() >= asked.items()
    assert api.session().spent_usd == Decimal(usd)


@pytest.mark.parametrize(("asked", "factor"), [({}, 1), ({"speed": "fast"}, 2), ({"inference_geo": "us"}, Decimal("1.1"))])
def test_a_budget_reserves_at_the_terms_asked_for(
    client: Any, messages_api: Any, asked: dict[str, Any], factor: Decimal
) -> None:
    """What is held while a request is under way is its worst case on those terms."""
    session, held = limited(1), []

    def reply(body: Any) -> Any:
        held.append(session.reserved)
        return ["Matz.", usage(input_tokens=10, output_tokens=10, speed=body.get("speed"))]

    messages_api.behave(reply)
    client.messages.create(**ASKED, extra_body=asked)
    tokens = estimate_tokens(messages_api.bodies[0])
    first = worst_case(OPUS, tokens, 500, caching=True) or Decimal(0)
    assert first and Decimal("1.95") < held[0] / first / factor < Decimal("2.1")
    assert session.spent == api.session().spent_usd != 0 and session.reserved == 0


def test_a_budget_reserves_for_the_searches_that_the_platform_makes_itself(brave_api: Any) -> None:
    """Where only one of the tools is run here, the other's uses are billed by the API."""
    session, held = limited(5), []

    def reply(body: Any) -> Any:
        held.append((session.reserved, estimate_tokens(body)))
        return ["Matz.", usage(input_tokens=10, output_tokens=10)]

    with Clouds() as clouds:
        clouds.behave(reply)
        made = anthropic.AnthropicVertex(region="us-east5", project_id="p", access_token="t", base_url=f"{clouds.url}/v1")
        fetch = {"type": "web_fetch_20250910", "name": "web_fetch"}
        search = {**ASKED["tools"][0], "max_uses": 3}
        with intercept(made) as vertex:
            vertex.messages.create(**{**ASKED, "model": SONNET, "tools": [search, fetch]})
    reserved, tokens = held[0]
    request, answer = (worst_case(SONNET, tokens, most, caching=True) for most in (500, 256))
    assert request is not None and answer is not None and reserved >= request + answer + Decimal("0.03")


@pytest.mark.parametrize(
    "more",
    [{}, {"model": SONNET, "messages": user(BY_ADDRESS)}, {"extra_body": {"speed": "fast"}}],
    ids=["long", "document", "fast"],
)
def test_whoever_follows_the_advice_is_not_refused_again(client: Any, messages_api: Any, more: dict[str, Any]) -> None:
    """A first request that money does not reach for says what it would take, with all that it is to read."""
    limited(0.01)
    request = {**ASKED, "messages": [{"role": "user", "content": "word " * 20_000}], **more}
    with pytest.raises(BudgetExceededError) as refused:
        client.messages.create(**request)
    found = re.search(r"may cost up to ([\d.]+) USD; raise it to at least ([\d.]+) USD", str(refused.value))
    assert found and float(found[1]) == float(found[2]) > 0.1 and not messages_api.requests
    limited(float(found[2]))
    messages_api.reply("Matz.", usage(input_tokens=10, output_tokens=10))
    assert client.messages.create(**request).content[-1].text == "Matz."
