"""What requests and calls cost: exact, from the right table, and unknown rather than wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipy_websearch.errors import ConfigError
from ipy_websearch.price_file import LOOK_S
from ipy_websearch.pricing import affordable_tokens, charge_cost, model_cost, price_table, worst_case
from ipy_websearch.usage import Charge, Usage

HAIKU, SONNET = "claude-haiku-5-5", "claude-sonnet-5-5"
NOVEMBER = datetime(2026, 11, 20, tzinfo=UTC)
NAMES = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens")


def write_prices(text: str) -> Path:
    """Write the user's own price file into the test's settings folder."""
    path = Path(os.environ["IPY_WEBSEARCH_HOME"]) / "prices.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    time.sleep(LOOK_S)  # what was looked up before is taken to hold for so long
    return path


# (model, input, output, 5 min writes, searches, US dollars): the `usage` of each recorded reply, multiplied by hand with
# the price list of November 2026. Sonnet 4: 3 / 15 / 3.75 a million, Haiku 4.5: 1 / 5, searches 0.01 each.
RECORDED = {
    "mira_cache_turn1": ("claude-sonnet-4-20250514", 4173, 415, 0, 0, "0.018744"),
    "mira_cache_turn2": ("claude-sonnet-4-20250514", 3, 588, 4597, 0, "0.02606775"),
    "pai_parallel_tool_use_json_1": ("claude-haiku-4-5-20251001", 423, 202, 0, 0, "0.001433"),
    "pai_parallel_tool_use_json_2": ("claude-haiku-4-5-20251001", 771, 77, 0, 0, "0.001156"),
    "pai_server_plus_client_tool_inflight": ("claude-sonnet-4-5-20250929", 8606, 132, 0, 1, "0.037798"),
    "pai_web_fetch_json": ("claude-sonnet-4-20250514", 7262, 171, 0, 0, "0.024351"),
    "pai_web_search_json_turn1": ("claude-sonnet-4-20250514", 8984, 520, 0, 1, "0.044752"),
    "pai_web_search_json_turn2": ("claude-sonnet-4-20250514", 19859, 544, 0, 1, "0.077737"),
    "ruby_search_result_tool_1": ("claude-haiku-4-5-20251001", 592, 58, 0, 0, "0.000882"),
    "ruby_search_result_tool_2": ("claude-haiku-4-5-20251001", 1253, 39, 0, 0, "0.001448"),
    "vercel_web_fetch_error": ("claude-sonnet-4-20250514", 1902, 214, 0, 0, "0.008916"),
    "vercel_web_search_dynamic_filtering": ("claude-sonnet-4-6", 100, 100, 0, 3, "0.0318"),
}


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_replies_cost_what_was_worked_out_by_hand(name: str) -> None:
    """Every recorded usage, priced to the last digit."""
    model, tokens_in, tokens_out, written, searches, usd = RECORDED[name]
    usage = Usage.from_api(
        {
            "input_tokens": tokens_in,
            "output_tokens": tokens_out,
            "cache_creation_input_tokens": written,
            "server_tool_use": {"web_search_requests": searches},
        }
    )
    assert model_cost(model, usage, at=NOVEMBER) == Decimal(usd)


def test_each_class_of_tokens_has_its_own_price() -> None:
    """A million Sonnet 5.5 tokens of each class cost 2, 10, 0.10, 2.50 and 4 dollars; a search costs a cent."""
    costs = [model_cost(SONNET, Usage(**{name: 1_000_000}), at=NOVEMBER) for name in NAMES]
    assert costs == [Decimal(2), Decimal(10), Decimal("0.1"), Decimal("2.5"), Decimal(4)]
    assert model_cost(SONNET, Usage(server_searches=3, server_fetches=5), at=NOVEMBER) == Decimal("0.03")


def test_a_long_prompt_costs_more_for_every_token() -> None:
    """Above 100,000 tokens of input, cached ones included, all of a Haiku 5.5 request is billed five times as high."""
    at_the_edge = Usage(input_tokens=40_000, cache_read_tokens=60_000, output_tokens=1000)
    beyond = Usage(input_tokens=40_001, cache_read_tokens=60_000, output_tokens=1000)
    assert model_cost(HAIKU, at_the_edge, at=NOVEMBER) == Decimal("0.0051")
    assert model_cost(HAIKU, beyond, at=NOVEMBER) == Decimal("0.0255005")


def test_a_batch_halves_tokens_and_not_searches() -> None:
    """One cached Haiku token costs 10 nano-dollars, 5 in a batch; a search costs the same in both."""
    one = Usage(cache_read_tokens=1)
    assert model_cost(HAIKU, one, at=NOVEMBER) == Decimal("0.00000001")
    assert model_cost(HAIKU, one, batch=True, at=NOVEMBER) == Decimal("0.000000005")
    assert model_cost(HAIKU, Usage(server_searches=1), batch=True, at=NOVEMBER) == Decimal("0.01")
    old = model_cost("claude-sonnet-4-20250514", Usage(output_tokens=1_000_000), batch=True, at=NOVEMBER)
    assert old == Decimal("7.5")


def test_an_unknown_price_is_none_and_the_built_in_model_is_free() -> None:
    """A model that no table has is not free, and asking for it is no error."""
    for model in ("claude-mythos-5-1", "claude-mythos-preview", "qwen3:8b", "gpt-5", "", "anthropic.claude-next-v1:0"):
        assert model_cost(model, Usage(input_tokens=1)) is None
        assert worst_case(model, 1, 1) is None
        assert affordable_tokens(model, 1, Decimal(1)) is None
    assert model_cost("offline", Usage(input_tokens=10, output_tokens=10)) == 0
    assert (affordable_tokens("offline", 10, Decimal(0)) or 0) > 1_000_000


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


@given(
    model=st.sampled_from([HAIKU, SONNET, "claude-sonnet-4-5", "claude-opus-4-6", "claude-fable-5-2", "claude-3-haiku"]),
    counts=st.lists(st.integers(0, 300_000), min_size=6, max_size=6),
    batch=st.booleans(),
)
def test_prices_agree_with_genai_prices(model: str, counts: list[int], batch: bool) -> None:
    """Our arithmetic gives what the library itself would say, for any usage."""
    import genai_prices

    inputs, output, read, short, long, searches = counts
    ours = model_cost(model, Usage(inputs, output, read, short, long, searches), batch=batch, at=NOVEMBER)
    theirs = genai_prices.calc_price(
        genai_prices.Usage(
            input_tokens=inputs + read + short + long,
            output_tokens=output,
            cache_read_tokens=read,
            cache_write_tokens=short + long,
            cache_write_1h_tokens=long,
            web_searches=searches,
        ),
        model,
        provider_id="anthropic",
        genai_request_timestamp=NOVEMBER,
        price_context={"processing": "batch"} if batch else None,
    ).total_price
    if model == "claude-3-haiku":  # the library has neither batch nor search prices for it
        theirs = theirs / 2 if batch else theirs
        theirs += searches * Decimal("0.01")
    assert ours == theirs


@given(
    model=st.sampled_from([HAIKU, SONNET, "claude-opus-5-5", "claude-sonnet-4-5"]),
    tokens=st.integers(0, 250_000),
    usd=st.decimals(0, 3, places=9),
)
def test_the_money_buys_exactly_as_many_tokens_as_said(model: str, tokens: int, usd: Decimal) -> None:
    """The worst case of what is affordable fits into the money, and that of one token more does not."""
    bought = affordable_tokens(model, tokens, usd)
    assert bought is not None and bought >= 0
    more = worst_case(model, tokens, bought + 1)
    assert more is not None and more > usd
    if bought:
        cost = worst_case(model, tokens, bought)
        assert cost is not None and cost <= usd


def test_the_second_price_is_quick_and_the_library_is_imported_late() -> None:
    """genai-prices is not imported with the module; once a model's prices are known, a cost takes under 0.05 ms."""
    code = "import sys, ipy_websearch.pricing; sys.exit('genai_prices' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
    usage = Usage(input_tokens=1000, output_tokens=100, cache_read_tokens=5000)
    model_cost(SONNET, usage)
    laps = []
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(100):
            model_cost(SONNET, usage)
        laps.append((time.perf_counter() - started) / 100)
    assert min(laps) < 50e-6


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
    ],
)
def test_engines_cost_what_they_report_or_what_the_table_says(charge: Charge, usd: str) -> None:
    """The answer's own figure wins over the table; a cached call costs nothing."""
    assert charge_cost(charge) == Decimal(usd)


def test_an_engine_or_unit_that_is_not_in_the_table_has_no_price() -> None:
    """Unknown is None, never 0."""
    assert charge_cost(Charge("unheard-of")) is None
    assert charge_cost(Charge("brave", unit="credit")) is None


def test_every_price_says_where_it_comes_from() -> None:
    """Each row of the table has plan, source and date."""
    table = price_table()
    assert {row.provider for row in table} >= {"brave", "google", "firecrawl", "tavily", "perplexity", "exa", "searxng"}
    assert all(row.plan and row.source and row.date.startswith("2026") for row in table)


def test_the_users_own_prices_win() -> None:
    """A row for the same provider, kind and unit is replaced, a new one added, a model priced; a change is noticed."""
    write_prices(
        '[[price]]\nprovider = "Brave"\nkind = "search"\nunit = "request"\nusd = 0.009\nplan = "old Pro"\n'
        '[[price]]\nprovider = "tavily"\nkind = "*"\nunit = "request"\nusd = 1\n'
        '[[model]]\nid = "claude-mythos-5-1"\ninput = 10\noutput = 50\ncache_read = 0.25\n'
    )
    assert charge_cost(Charge("brave")) == Decimal("0.009")
    assert charge_cost(Charge("brave", "context")) == Decimal("0.005")
    assert charge_cost(Charge("tavily", "map")) == 1
    assert [row.plan for row in price_table() if (row.provider, row.kind) == ("brave", "search")] == ["old Pro"]
    usage = Usage(1_000_000, 1_000_000, 1_000_000, 1_000_000)
    assert model_cost("claude-mythos-5-1", usage) == Decimal("70.25")
    assert model_cost("claude-mythos-5-1", usage, batch=True) == Decimal("35.125")
    write_prices('[[price]]\nprovider = "brave"\nkind = "search"\nunit = "request"\nusd = 0.25\n')
    assert charge_cost(Charge("brave")) == Decimal("0.25")
    assert model_cost("claude-mythos-5-1", usage) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[price]]\nprovider = "brave"\nkind = search', "line 3"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = "5"', r"\[\[price\]\] number 1: usd is '5'"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = -1', "usd is '-1'"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunit = "request"\nusd = nan', "usd is 'NaN'"),
        ('[[price]]\nprovider = "x"\nkind = "serch"\nunit = "request"\nusd = 1', "kind is 'serch'"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nusd = 1', "unit is missing"),
        ('[[price]]\nprovider = "x"\nkind = "search"\nunits = "request"\nusd = 1', "did you mean 'unit'"),
        ('[price]\nprovider = "x"', "two brackets"),
        ("[[models]]\nid = 1", "'models'"),
        ('[[model]]\nid = "m"\ninput = 1', "output is missing"),
    ],
)
def test_a_wrong_price_file_is_told_once_with_the_place(text: str, message: str) -> None:
    """The first question for a price raises with the line or field; after that the package's own prices count."""
    path = write_prices(text)
    with pytest.raises(ConfigError, match=message) as caught:
        charge_cost(Charge("brave"))
    assert "\n" not in str(caught.value) and path.name in str(caught.value)
    assert charge_cost(Charge("brave")) == Decimal("0.005")
    assert model_cost(HAIKU, Usage(input_tokens=1)) is not None
    path.write_text("# mended\n")
    assert charge_cost(Charge("brave")) == Decimal("0.005")


@given(text=st.text(max_size=200) | st.binary(max_size=100).map(lambda b: b.decode("latin-1")))
def test_no_text_in_a_price_file_is_more_than_a_config_error(text: str) -> None:
    """Whatever the file holds, it is read or refused in one line."""
    from ipy_websearch.price_file import parse

    try:
        parse(text, "prices.toml")
    except ConfigError as error:
        assert str(error).startswith(("the price file prices.toml", "prices.toml"))


def test_the_recorded_usages_are_those_worked_out_above() -> None:
    """The figures of `RECORDED` are the recordings' own, for those that come with the tests."""
    folder = Path(__file__).parent / "data" / "wire" / "anthropic"
    found = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json") if path.stem in RECORDED}
    assert found
    for name, reply in found.items():
        usage = Usage.from_api(reply["usage"])
        model, tokens_in, tokens_out, written, searches, _ = RECORDED[name]
        assert (reply["model"], usage.input_tokens, usage.output_tokens) == (model, tokens_in, tokens_out)
        assert (usage.cache_write_5m_tokens, usage.server_searches) == (written, searches)
