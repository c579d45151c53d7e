"""What makes a request dearer than its model and its text say: the terms asked for, what is only named, an hour's cache."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import anthropic
import pytest

from ipy_websearch import api
from ipy_websearch.errors import BudgetExceededError
from ipy_websearch.interception import intercept
from ipy_websearch.model.media import IMAGE_TOKENS, without_images
from ipy_websearch.model.requests import caches_for_an_hour, estimate_tokens, prompt_tokens
from ipy_websearch.pricing import billed_model, model_cost, worst_case
from ipy_websearch.tariffs import context_window
from ipy_websearch.usage import USUAL, Terms, Usage
from tests.fakes.clouds import REGION, Clouds
from tests.fakes.replies import Manner, hang_up, tool_use, usage
from tests.test_pricing import write_prices

OPUS, SONNET = "claude-opus-5", "claude-sonnet-5-5"
MILLION = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}
US_SONNET = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
ASKED: dict[str, Any] = {
    "model": OPUS,
    "max_tokens": 500,
    "messages": [{"role": "user", "content": "Who wrote Ruby?"}],
    "tools": [{"type": "web_search_20250305", "name": "web_search"}],
}
BY_ADDRESS = {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}
BY_ID = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0K" * 60_000}}


@pytest.fixture
def client(messages_api: Any, brave_api: Any) -> Iterator[Any]:
    """An intercepted client."""
    with intercept(anthropic.Anthropic(timeout=20, max_retries=0), provider="brave") as made:
        yield made


def limited(usd: Decimal | float) -> Any:
    """Set the session's ceiling, and return it."""
    api.session().settings.session_budget_usd = float(usd)
    return api.session().budgets.session


def booked(kind: str = "model") -> Any:
    """Return the rows of the session's ledger."""
    api.session().ledger.write_held()
    frame = api.session().ledger.frame(session=api.session().id)
    return frame[frame.kind == kind]


def user(*blocks: Any) -> list[dict[str, Any]]:
    """Return a history of one turn."""
    return [{"role": "user", "content": [*blocks, {"type": "text", "text": "What is this?"}]}]


# --- fast mode and geography ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "fields", "usd"),
    [
        (OPUS, {"speed": "standard", "inference_geo": "global"}, "30"),
        (OPUS, {"speed": "fast"}, "60"),
        (OPUS, {"inference_geo": "us"}, "33"),
        (OPUS, {"speed": "fast", "inference_geo": "us"}, "66"),
        ("claude-opus-4-6", {"inference_geo": "us"}, "33"),
        ("claude-opus-4-5-20251101", {"inference_geo": "us"}, "30"),
        ("claude-sonnet-4-20250514", {"inference_geo": "us"}, "18"),
        (OPUS, {"speed": ["fast"], "inference_geo": {}}, "30"),
    ],
)
def test_tokens_cost_what_the_reply_says_they_were_had_at(model: str, fields: dict[str, Any], usd: str) -> None:
    """Fast mode by the price list; the US alone a tenth more, from version 4.6 on; searches cost the same."""
    counts = Usage.from_api({**MILLION, **fields, "server_tool_use": {"web_search_requests": 100}})
    assert model_cost(model, counts) == Decimal(usd) + 1


def test_a_fast_mode_without_a_known_price_is_unknown() -> None:
    """Not the usual price, which it never has; a batch has no fast mode."""
    fast = Usage.from_api({**MILLION, "speed": "fast"})
    assert model_cost("claude-haiku-4-5", fast) is None
    assert model_cost("claude-haiku-4-5", fast, batch=True) == 3 and model_cost(OPUS, fast, batch=True) == 15


def test_the_users_own_prices_rise_as_the_list_does() -> None:
    """What the file states is the usual price."""
    write_prices(f'[[model]]\nid = "{OPUS}"\ninput = 1\noutput = 2\n[[model]]\nid = "mine"\ninput = 1\noutput = 2\n')
    fast, there = (Usage.from_api({**MILLION, **more}) for more in ({"speed": "fast"}, {"inference_geo": "us"}))
    assert model_cost(OPUS, fast) == 6 and model_cost(OPUS, there) == Decimal("3.3")
    assert model_cost("mine", fast) == model_cost("mine", there) == 3


def test_a_sum_of_usages_has_the_terms_of_its_parts() -> None:
    """They are neither added nor lost."""
    fast, there = Usage(1, terms=Terms(fast=True)), Usage(2, terms=Terms(us_only=True))
    assert (fast + Usage(3)).terms == (Usage(3) + fast).terms == Terms(fast=True)
    assert fast + there == Usage(3, terms=Terms(True, True)) and (Usage() + Usage()).terms is USUAL


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


def test_a_lost_request_counts_at_the_terms_it_asked_for(client: Any, messages_api: Any) -> None:
    """Nothing came back that would say."""
    messages_api.reply(hang_up())
    with pytest.raises(anthropic.APIConnectionError):
        client.messages.create(**ASKED, extra_body={"speed": "fast"})
    booked()
    tokens = prompt_tokens(messages_api.bodies[0])
    assert api.session().spent_usd == model_cost(OPUS, Usage(tokens, terms=Terms(fast=True)))


@pytest.mark.parametrize(("asked", "factor"), [({}, 1), ({"speed": "fast"}, 2), ({"inference_geo": "us"}, Decimal("1.1"))])
def test_a_ceiling_reserves_at_the_terms_asked_for(
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


def test_a_fast_mode_without_a_price_is_not_sent_under_a_ceiling(client: Any, messages_api: Any) -> None:
    """The line says what is unknown."""
    limited(5)
    with pytest.raises(BudgetExceededError, match="the price of claude-haiku-4-5 in fast mode is unknown"):
        client.messages.create(**{**ASKED, "model": "claude-haiku-4-5"}, extra_body={"speed": "fast"})
    assert not messages_api.requests


def test_a_ceiling_reserves_for_the_searches_that_the_platform_makes_itself(brave_api: Any) -> None:
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


# --- compaction -----------------------------------------------------------------------------------------------------


def test_what_a_compaction_used_is_counted() -> None:
    """It is not in the top level; what the other iterations used is."""
    part = {"input_tokens": 180_000, "output_tokens": 3_500, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 9}
    iterations = [{"type": name, **part} for name in ("compaction", "message", "fallback_message")]
    got = Usage.from_api({"input_tokens": 20_000, "output_tokens": 1_000, "iterations": iterations, "speed": "fast"})
    assert got == Usage(200_000, 4_500, 7, 9, terms=Terms(fast=True))


@pytest.mark.parametrize(
    "odd", [None, 5, "compaction", [None, "x", {"type": "compaction", "iterations": [{}]}], {"type": "compaction"}]
)
def test_odd_iterations_count_nothing(odd: Any) -> None:
    """A server may write anything there."""
    assert Usage.from_api({"input_tokens": 3, "iterations": odd}) == Usage(3)


def test_a_ceiling_reserves_for_a_compaction_that_may_come() -> None:
    """The history is read once more then, from the size on that triggers it."""
    edit: dict[str, Any] = {"type": "compact_20260112"}
    body = {"model": OPUS, "messages": [{"role": "user", "content": "word " * 60_000}]}
    tokens = estimate_tokens(body)

    def with_edit(**more: Any) -> int:
        return estimate_tokens({**body, "context_management": {"edits": [{**edit, **more}]}})

    assert tokens < 150_000 and with_edit() == tokens
    assert with_edit(trigger={"type": "input_tokens", "value": 50_000}) == 2 * tokens
    assert with_edit(type="clear_tool_uses_20250919", trigger={"type": "input_tokens", "value": 5}) == tokens


# --- the model that is billed ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answered", "billed"),
    [
        (US_SONNET, "claude-sonnet-4-5-20250929", US_SONNET),
        (US_SONNET, "claude-sonnet-4-5", US_SONNET),
        (US_SONNET, "anthropic.claude-sonnet-4-5-20250929-v1:0", US_SONNET),
        ("us.anthropic.claude-opus-5", OPUS, "us.anthropic.claude-opus-5"),
        ("claude-haiku-4-5@20251001", "claude-haiku-4-5-20251001", "claude-haiku-4-5@20251001"),
        ("claude-haiku-4-5", "claude-haiku-4-5-20251001", "claude-haiku-4-5-20251001"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5-20260101", "claude-haiku-4-5-20260101"),
        ("us.anthropic.claude-opus-5-5", OPUS, OPUS),
        ("claude-fable-5-1", "claude-fable-5", "claude-fable-5"),
        ("us.anthropic.claude-opus-5", "claude-sonnet-5", "claude-sonnet-5"),
        (OPUS, "my-gateway-model", OPUS),
        ("my-deployment", OPUS, OPUS),
        ("my-deployment", "their-name", "their-name"),
        (OPUS, "", OPUS),
        (OPUS, "5", OPUS),
    ],
)
def test_the_id_that_is_billed_is_the_one_that_says_most(asked: str, answered: str, billed: str) -> None:
    """Another model is believed; a name without a price, or one without the region that the request named, is not."""
    assert billed_model(asked, answered) == billed


def test_a_bedrock_region_is_booked_at_its_own_price(brave_api: Any) -> None:
    """The ledger and the ceiling agree, though the reply does not name the region."""
    pytest.importorskip("botocore")
    with Clouds() as clouds:
        made = anthropic.AnthropicBedrock(api_key=clouds.key, aws_region=REGION, base_url=clouds.url)
        clouds.models[US_SONNET] = 200_000
        session = limited(5)
        bare = Manner(extra={"model": "claude-sonnet-4-5-20250929"})
        clouds.reply("Matz.", usage(input_tokens=100_000, output_tokens=1_000), bare)
        with intercept(made, provider="brave") as client:
            client.messages.create(**{**ASKED, "model": US_SONNET})
    rows = booked()
    assert list(rows["name"]) == [US_SONNET]
    assert session.spent == api.session().spent_usd == Decimal("0.3465")


@pytest.mark.parametrize("ceiling", [None, 5.0])
def test_a_reply_whose_name_has_no_price_is_booked_as_what_was_asked_for(
    client: Any, messages_api: Any, ceiling: float | None
) -> None:
    """A gateway may call a model as it likes; and a fallback is billed as the model that it is, by the ceiling too."""
    api.session().settings.session_budget_usd = ceiling
    counts = usage(input_tokens=100_000, output_tokens=0)
    for name in ("house-blend", "claude-fable-5"):
        messages_api.reply("Matz.", counts, Manner(extra={"model": name}))
        client.messages.create(**ASKED)
    assert list(booked()["name"]) == [OPUS, "claude-fable-5"]
    assert api.session().spent_usd == Decimal("1.5")
    assert ceiling is None or api.session().budgets.session.spent == Decimal("1.5")


def test_a_question_is_booked_by_the_same_rule(session: Any, messages_api: Any) -> None:
    """`%%ask` behind a gateway that has names of its own."""
    import asyncio

    messages_api.reply("Matz.", usage(input_tokens=100_000, output_tokens=0), Manner(extra={"model": "house-blend"}))
    session.settings.model = SONNET
    session.settings.session_budget_usd = 5.0
    asyncio.run(session.ask("Who wrote Ruby?"))
    assert session.spent_usd == session.budgets.session.spent == Decimal("0.2")


# --- what is only named, and images ---------------------------------------------------------------------------------


@pytest.mark.parametrize("block", [BY_ADDRESS, BY_ID], ids=["address", "file"])
@pytest.mark.parametrize("inside", [False, True], ids=["plain", "in a result"])
def test_a_document_that_is_elsewhere_counts_as_all_that_the_model_reads(block: Any, inside: bool) -> None:
    """Its size is not known before the API has read it."""
    if inside:
        block = {"type": "tool_result", "tool_use_id": "t", "content": [block]}
    body = {"messages": user(block)}
    assert estimate_tokens({**body, "model": "claude-haiku-4-5"}) == context_window("claude-haiku-4-5") == 200_000
    assert estimate_tokens({**body, "model": SONNET}) == estimate_tokens({**body, "model": "who-knows"}) == 1_000_000
    assert prompt_tokens(body) < 500


def test_what_is_in_the_request_counts_by_its_characters() -> None:
    """Texts and base64 are here, and so is what a model wrote about documents elsewhere."""
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "word " * 1_000}}
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBE" * 1_000}}
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {"a": BY_ADDRESS, "b": PICTURE}}
    for block, least, most in ((text, 1_000, 5_000), (pdf, 1_000, 10_000), (call, 200_000, 900_000)):
        assert least < estimate_tokens({"model": SONNET, "messages": user(block)}) < most


def test_an_image_counts_as_the_largest_there_is() -> None:
    """Whatever form it has and wherever it stands; what is sent is left as it was."""
    named = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    nested = {"type": "document", "source": {"type": "content", "content": [PICTURE]}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [PICTURE, named]}
    messages = user(PICTURE, nested, result)
    stripped, images = without_images(messages)
    assert images == 4 and len(str(stripped)) < 1_500 and PICTURE["source"]["data"]  # type: ignore[index]
    assert 4 * IMAGE_TOKENS < estimate_tokens({"model": SONNET, "messages": messages}) < 4 * IMAGE_TOKENS + 1_000


def test_an_image_is_sent_under_a_small_ceiling_and_a_document_elsewhere_is_not(client: Any, messages_api: Any) -> None:
    """The first costs at most a few cents, the second may cost dollars."""
    limited(0.5)
    messages_api.reply("A cat.", usage(input_tokens=4_900, output_tokens=10))
    request = {**ASKED, "model": SONNET}
    assert client.messages.create(**{**request, "messages": user(PICTURE)}).content[-1].text == "A cat."
    with pytest.raises(BudgetExceededError, match="may cost up to 2.5"):
        client.messages.create(**{**request, "messages": user(BY_ADDRESS)})
    assert len(messages_api.requests) == 1


# --- the cache of an hour -------------------------------------------------------------------------------------------

HOUR, MINUTES = {"type": "ephemeral", "ttl": "1h"}, {"type": "ephemeral", "ttl": "5m"}


@pytest.mark.parametrize("place", ["system", "tools", "messages", "result", "whole"])
def test_a_breakpoint_of_an_hour_is_found_wherever_it_stands(place: str) -> None:
    """One is enough: it may be the one that everything before it is written for."""

    def marked(mark: Any) -> dict[str, Any]:
        text = {"type": "text", "text": "x", "cache_control": mark}
        return {
            "system": {"system": [text]},
            "tools": {"tools": [{"name": "f", "input_schema": {}, "cache_control": mark}]},
            "messages": {"messages": user(text)},
            "result": {"messages": user({"type": "tool_result", "tool_use_id": "t", "content": [text]})},
            "whole": {"cache_control": mark},
        }[place]

    assert caches_for_an_hour(marked(HOUR)) and not caches_for_an_hour(marked(MINUTES))
    assert not caches_for_an_hour(marked({"type": "ephemeral"}))


def test_a_worst_case_counts_the_writes_of_an_hour() -> None:
    """Twice the price of input, as the list says or, where it does not, as the pricing page says of all models."""
    assert worst_case(SONNET, 1_000_000, 0, caching=True, hour_cache=True) == 4
    assert worst_case("claude-3-haiku", 1_000_000, 0, caching=True, hour_cache=True) == Decimal("0.5")
    assert worst_case(SONNET, 1_000_000, 0, hour_cache=True) == 2


@pytest.mark.parametrize(("mark", "usd"), [(HOUR, "4"), (MINUTES, "2.5")], ids=["1h", "5m"])
def test_a_ceiling_holds_when_all_input_is_written_for_an_hour(client: Any, messages_api: Any, mark: Any, usd: str) -> None:
    """What is held for the first request covers the writes that the caller's breakpoints may cause."""
    session, held = limited(5), []

    def reply(body: Any) -> Any:
        held.append((session.reserved, estimate_tokens(body)))
        return ["Matz.", usage(input_tokens=10, output_tokens=10)]

    messages_api.behave(reply)
    system = [{"type": "text", "text": "word " * 20_000, "cache_control": mark}]
    client.messages.create(**{**ASKED, "model": SONNET}, system=system)
    reserved, tokens = held[0]
    assert 2 < reserved / (tokens * Decimal(usd) / 1_000_000) < Decimal("2.4")


# --- the advice -----------------------------------------------------------------------------------------------------


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


def test_a_search_that_was_asked_for_runs_on_fast_terms(client: Any, messages_api: Any) -> None:
    """Both requests are booked so, and the ceiling agrees with the ledger."""
    session = limited(20)
    fast = usage(input_tokens=100_000, output_tokens=1_000, speed="fast")
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}), fast)
    messages_api.reply("Matz.", fast)
    client.messages.create(**ASKED, extra_body={"speed": "fast"})
    assert list(booked().usd) == pytest.approx([1.05, 1.05])
    assert session.spent == api.session().spent_usd == Decimal("2.1") + Decimal(str(booked("search").usd.sum()))


def test_nothing_is_counted_beforehand_without_a_ceiling(
    client: Any, messages_api: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Large bodies cost no time then: nobody looks through them."""

    def looked(*_: Any) -> Any:
        raise AssertionError("a body was looked through")

    for name in ("budgets.caches_for_an_hour", "interception.interceptor.estimate_tokens", "interception.run.estimate_tokens"):
        monkeypatch.setattr(f"ipy_websearch.{name}", looked)
    messages_api.reply(tool_use("ipy_web_search", {"query": "ruby author"}))
    messages_api.reply("Matz.")
    assert client.messages.create(**ASKED).content[-1].text == "Matz."
    limited(5)
    with pytest.raises(AssertionError, match="looked through"):
        client.messages.create(**ASKED)
