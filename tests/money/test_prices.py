"""What requests and calls cost: exact, from the right table, and unknown rather than wrong."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.errors import ConfigError
from ipy_websearch.money.prices import billed_model, charge_cost, model_cost, own_prices, worst_case
from ipy_websearch.results import Charge, Usage

HAIKU, SONNET, OPUS = "claude-haiku-5-5", "claude-sonnet-5-5", "claude-opus-5"
US_SONNET = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
NOVEMBER = datetime(2026, 11, 20, tzinfo=UTC)
MILLION = {"input_tokens": 1_000_000, "output_tokens": 1_000_000}


def write_prices(text: str) -> Path:
    """Write the user's own price file into the test's settings folder, as before a start."""
    path = Path(os.environ["IPY_WEBSEARCH_HOME"]) / "prices.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("model", "used", "batch", "usd"),
    [
        # A million Sonnet 5.5 tokens of each class cost 2, 10, 0.10, 2.50 and 4 dollars; a search costs a cent.
        (SONNET, {"input_tokens": 1_000_000}, False, "2"),
        (SONNET, {"output_tokens": 1_000_000}, False, "10"),
        (SONNET, {"cache_read_tokens": 1_000_000}, False, "0.1"),
        (SONNET, {"cache_write_5m_tokens": 1_000_000}, False, "2.5"),
        (SONNET, {"cache_write_1h_tokens": 1_000_000}, False, "4"),
        (SONNET, {"server_searches": 3, "server_fetches": 5}, False, "0.03"),
        # Above 100,000 tokens of input, cached ones included, all of a Haiku 5.5 request is billed five times as high.
        (HAIKU, {"input_tokens": 40_000, "cache_read_tokens": 60_000, "output_tokens": 1000}, False, "0.0051"),
        (HAIKU, {"input_tokens": 40_001, "cache_read_tokens": 60_000, "output_tokens": 1000}, False, "0.0255005"),
        # A batch halves tokens and not searches; a cached Haiku token costs 10 nano-dollars.
        (HAIKU, {"cache_read_tokens": 1}, False, "0.00000001"),
        (HAIKU, {"cache_read_tokens": 1}, True, "0.000000005"),
        (HAIKU, {"server_searches": 1}, True, "0.01"),
        ("claude-sonnet-4-20250514", {"output_tokens": 1_000_000}, True, "7.5"),
    ],
)
def test_a_request_costs_what_its_tokens_do(model: str, used: dict[str, int], batch: bool, usd: str) -> None:
    assert model_cost(model, Usage(**used), batch=batch, at=NOVEMBER) == Decimal(usd)


@pytest.mark.parametrize(
    ("spelling", "usd"),
    [
        ("claude-haiku-4-5@20251001", "6"),
        ("claude-haiku-4-5-20251001", "6"),
        ("Claude-Haiku-4-5", "6"),
        ("anthropic/claude-haiku-4.5", "6"),
        ("global.anthropic.claude-haiku-4-5-20251001-v1:0", "6"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "6.6"),
        ("anthropic.claude-sonnet-4-5-20250929-v1:0", "19.8"),
        ("arn:aws:bedrock:eu-west-1:1234:inference-profile/eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "19.8"),
        ("claude-sonnet-5-5[1m]", "12"),
    ],
)
def test_models_are_known_by_the_names_other_platforms_give_them(spelling: str, usd: str) -> None:
    """Bedrock's regional ids cost a tenth more than its global ones and the Claude API; Vertex has "@" before the date."""
    cost = model_cost(spelling, Usage(input_tokens=1000, output_tokens=1000), at=NOVEMBER)
    assert cost == Decimal(usd) / 1000


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
        ("claude-haiku-4-5", {"speed": "fast"}, None),
    ],
)
def test_tokens_cost_what_the_reply_says_they_were_had_at(model: str, fields: dict[str, Any], usd: str | None) -> None:
    """Fast mode by the price list, or unknown; the US alone a tenth more, from version 4.6 on; searches cost the same. A batch
    has no fast mode."""
    counts = Usage.from_api({**MILLION, **fields, "server_tool_use": {"web_search_requests": 100}})
    assert model_cost(model, counts) == (None if usd is None else Decimal(usd) + 1)
    if fields == {"speed": "fast"}:
        assert model_cost(model, counts, batch=True) == (15 if model == OPUS else 3) + 1


@pytest.mark.parametrize(
    ("asked", "answered", "billed"),
    [
        (US_SONNET, "claude-sonnet-4-5-20250929", US_SONNET),
        (US_SONNET, "claude-sonnet-4-5", US_SONNET),
        (US_SONNET, "anthropic.claude-sonnet-4-5-20250929-v1:0", US_SONNET),
        ("us.anthropic.claude-opus-5", OPUS, "us.anthropic.claude-opus-5"),
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


def test_a_worst_case_counts_cache_writes_and_native_searches() -> None:
    """A million tokens written to the cache cost 2.50 dollars with Sonnet 5.5, 4 for an hour; ten native searches ten cents."""
    assert worst_case(SONNET, 1_000_000, 0) == Decimal("2.5") and worst_case(SONNET, 1_000_000, 0, hour_cache=True) == 4
    assert worst_case(SONNET, 0, 0, server_searches=10) == Decimal("0.1")


@pytest.mark.parametrize(
    ("charge", "usd"),
    [
        (Charge("brave"), "0.005"),
        (Charge("brave", "context"), "0.005"),
        (Charge("google"), "0.005"),
        (Charge("firecrawl", "fetch", Decimal(1), "credit"), "0.00099"),
        (Charge("firecrawl", "search", Decimal(3), "credit"), "0.00297"),
        (Charge("tavily", "search", Decimal(2), "credit"), "0.016"),
        (Charge("perplexity"), "0.005"),
        (Charge("exa"), "0.007"),
        (Charge("wikipedia"), "0"),
        (Charge("searxng"), "0"),
        (Charge("local"), "0"),
        (Charge("web_fetch", "fetch"), "0"),
        (Charge("exa", usd=Decimal("0.0123")), "0.0123"),
        (Charge("unheard-of", usd=Decimal("0.5")), "0.5"),
        (Charge("brave", cached=True), "0"),
        (Charge("unheard-of"), None),
        (Charge("brave", unit="credit"), None),
    ],
)
def test_engines_cost_what_they_report_or_what_the_table_says(charge: Charge, usd: str | None) -> None:
    """The answer's own figure wins over the table; a cached call costs nothing; unknown is None, never 0."""
    assert charge_cost(charge) == (None if usd is None else Decimal(usd))


def test_the_users_own_prices_win() -> None:
    """A row for the same provider, kind and unit is replaced, a new one added, a model priced."""
    write_prices(
        '[[price]]\nprovider = "Brave"\nkind = "search"\nunit = "request"\nusd = 0.009\nplan = "old Pro"\n'
        '[[price]]\nprovider = " tavily "\nkind = "*"\nunit = "Request"\nusd = 1\nplan = 2\ndate = 2026-11-01\n'
        '[[model]]\nid = "claude-mythos-5-1"\ninput = 10\noutput = 50\ncache_read = 0.25\n'
        '[[model]]\nid = "my-gateway/claude-opus-5"\ninput = 1\noutput = 1\n'
    )
    assert billed_model("my-gateway/claude-opus-5", OPUS) == "my-gateway/claude-opus-5"
    assert billed_model("my-gateway/claude-opus-5", SONNET) == SONNET
    assert charge_cost(Charge("brave")) == Decimal("0.009")
    assert charge_cost(Charge("brave", "context")) == Decimal("0.005")
    assert charge_cost(Charge("tavily", "map")) == 1
    assert own_prices().rows["brave", "search", "request"].plan == "old Pro"
    usage = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
    assert model_cost("claude-mythos-5-1", usage) == Decimal("70.25")
    assert model_cost("claude-mythos-5-1", usage, batch=True) == Decimal("35.125")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[price]]\nprovider = "brave"\nkind = search', "line 3"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = "five"', r"price.1.usd: .* not 'five'"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = nan', "price.1.usd: .*NaN"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = -1', "price.1: .* -1 US dollars are less"),
        ('[[model]]\nid = "m"\ninput = 1e400\noutput = 1', "model.1: .* more than a million"),
        ('[[price]]\nprovider = "x"\nkind = "serch"\nunit = "request"\nusd = 1', "price.1.kind: .*'serch'"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nusd = 1', "price.1.unit: "),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunits = "request"\nusd = 1', "price.1.unit"),
        ('[price]\nprovider = "x"', "price: "),
        ("[[models]]\nid = 1", "models: "),
        ('[[model]]\nid = "m"\ninput = 1', "model.1.output: "),
    ],
)
def test_a_wrong_price_file_is_one_line_until_it_is_mended(text: str, message: str) -> None:
    """The line or field is named; nothing is priced with a file that is half understood."""
    path = write_prices(text)
    for _ in range(2):
        with pytest.raises(ConfigError, match=message) as caught:
            charge_cost(Charge("brave"))
        assert "\n" not in str(caught.value) and path.name in str(caught.value)
    path.write_text("# mended\n")
    assert charge_cost(Charge("brave")) == Decimal("0.005")
