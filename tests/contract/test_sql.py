"""Contract: the SQL functions in DuckDB, as seed 000 has them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import ipy_websearch
from ipy_websearch import sql
from tests.contract.helpers import results_of, search
from tests.fakes.engines import hit
from tests.fakes.replies import search_results, text

PRICE = "What is the current price?"


@pytest.fixture
def con() -> Iterator[Any]:
    with duckdb.connect() as made:
        yield made


def test_the_lines_of_seed_000(messages_api: Any, brave_api: Any, con: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "BRAVE_API_KEY"):
        monkeypatch.delenv(name)
    sql.register(con, prefix="stps_")
    con.sql(f"SELECT stps_set_api_key('{messages_api.key}')").fetchall()
    messages_api.reply("As of my training it was 60,000 USD.")
    assert con.sql(f"SELECT stps_ask_ai('Bitcoin', '{PRICE}')").fetchall() == [("As of my training it was 60,000 USD.",)]
    assert not messages_api.bodies[0].get("tools") and not brave_api.requests, "without a Brave key no search is offered"
    con.sql(f"SELECT stps_set_brave_api_key('{brave_api.key}')").fetchall()
    brave_api.reply([hit(f"https://coin.example/{n}", "Bitcoin", "The price is 95,234.15 USD. " * 30) for n in range(9)])
    messages_api.reply(search("Bitcoin price USD"))
    messages_api.reply(text("95,234.15 USD", citations=[(0, 0)]))
    assert con.sql(f"SELECT stps_ask_ai('Bitcoin', '{PRICE}')").fetchall() == [("95,234.15 USD",)]
    _, first, second = messages_api.bodies
    assert first["messages"][0]["content"][0]["text"] == f"Context: Bitcoin\n\nQuestion: {PRICE}"
    assert first["model"] == "claude-haiku-5-5" and first["max_tokens"] == 1000 and "tool_choice" not in first
    texts = [part["text"] for block in search_results(second) for part in block["content"]]
    assert second["tool_choice"] == {"type": "none"} and len(texts) == 5 and max(map(len, texts)) <= 200
    assert brave_api.queries == ["Bitcoin price USD"] and list(ipy_websearch.cost().kind) == [
        "model",
        "model",
        "search",
        "model",
    ]
    assert list(ipy_websearch.cost(by="question").question) == [f"ask_ai: {PRICE}"]


def test_a_failed_search_is_told_to_the_model_and_the_user(messages_api: Any, brave_api: Any, con: Any) -> None:
    brave_api.fail(429, times=2, headers={"Retry-After": "90000"})
    sql.register(con, provider="brave")
    for _ in range(2):  # it is not kept
        messages_api.reply(search("price of bitcoin"))
        messages_api.reply("From memory.")
        with pytest.warns(UserWarning, match="answered without a search, which failed: brave.*'Bitcoin'") as warned:
            assert con.sql("SELECT ask_ai('Bitcoin', 'Price?')").fetchall() == [("From memory.",)]
        assert "retry after" not in str(warned[0].message), "a time of day is enough"
    (result,) = results_of(messages_api.bodies[1])
    assert result["is_error"] and "Search unavailable. Please answer from your knowledge." in str(result["content"])
