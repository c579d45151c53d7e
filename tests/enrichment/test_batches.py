"""Enrichment through the Message Batches API, against the strict fake: prices, results in any order, restarts, losses."""

import asyncio
import json
import time
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest

import ipy_websearch
from ipy_websearch import api
from ipy_websearch.enrichment import batch
from ipy_websearch.enrichment.store import Store
from ipy_websearch.errors import ConfigError, EnrichmentError
from ipy_websearch.money.ledger import Ledger
from ipy_websearch.money.prices import model_cost
from ipy_websearch.results import Usage
from tests.contract.helpers import CEO, boss as echo, companies, record, run, start
from tests.fakes.replies import Limited, server_search, text, usage, web_citation
from tests.fakes.shell import interrupted_when

BATCH: dict[str, Any] = {"progress": False, "max_searches": 0, "mode": "batch"}


@pytest.fixture(autouse=True)
def quick(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake answers with the company's boss, and its batches need not be waited for."""
    messages_api.behave(echo)
    for name in ("FIRST_POLL_S", "MAX_POLL_S"):
        monkeypatch.setattr(batch, name, 0.01)


def left(messages_api: Any, *names: str) -> pd.DataFrame:
    """Return what a call gives that is interrupted when its batch has been handed in; the batch goes on."""
    messages_api.batches.polls = 10**6
    with interrupted_when(lambda: messages_api.batches.known):
        out: pd.DataFrame = ipy_websearch.enrich(companies(*names), CEO, **BATCH)
    messages_api.batches.polls = 0
    return out


def test_a_result_that_does_not_say_what_it_used_has_no_known_price(messages_api: Any) -> None:
    """It is not taken for free."""
    messages_api.behave(lambda body: (echo(body), usage(input_tokens=None, output_tokens=-1)))
    out = ipy_websearch.enrich(companies("A"), CEO, **BATCH)
    assert out.ceo[0] == "Boss of A" and pd.isna(out.enrich_cost_usd[0])
    assert list(ipy_websearch.cost().usd.isna()) == [True]


def test_two_kernels_that_ask_for_the_same_rows_at_once_pay_for_them_once(messages_api: Any) -> None:
    messages_api.batches.polls = 10

    async def both() -> None:
        for out in await asyncio.gather(*(ipy_websearch.Session().enrich(companies(*"ABC"), CEO, **BATCH) for _ in range(2))):
            assert list(out.ceo) == ["Boss of A", "Boss of B", "Boss of C"]

    asyncio.run(both())
    assert messages_api.batches.log.count("POST ") == 1 and len(ipy_websearch.cost(everything=True)) == 3


def test_a_batch_whose_kernel_ended_while_it_was_sent_is_booked_at_its_worst(
    messages_api: Any, shell: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be at the API: the next call says so, the one after it asks again."""
    with monkeypatch.context() as patch:
        patch.setattr(batch.batches, "submit", lambda *args: 1 / 0)  # stands for the kill
        with pytest.raises(ZeroDivisionError):
            ipy_websearch.enrich(companies(*"AB"), CEO, **BATCH)
    api.end_session()
    monkeypatch.setattr(batch, "PATIENCE_S", 0.2)
    assert "2 rows in a batch without an answer yet" in shell.run("%websearch store").stdout
    lost = ipy_websearch.enrich(companies(*"ABC"), CEO, **BATCH)
    assert list(lost.enrich_status) == ["error", "error", "ok"] and "may have been created" in lost.enrich_error[0]
    assert lost.enrich_cost_usd[0] > lost.enrich_cost_usd[2] and "is booked" in lost.enrich_error[0]
    assert ipy_websearch.cost(everything=True).usd.sum() == pytest.approx(lost.enrich_cost_usd.sum())
    assert ipy_websearch.enrich(companies(*"ABC"), CEO, **BATCH).ceo.notna().all() and len(messages_api.requests) == 3


@pytest.mark.parametrize(("status", "kind"), [(404, ConfigError), (400, EnrichmentError)])
def test_a_server_that_refuses_batches_is_told_at_once_and_nothing_is_booked(
    messages_api: Any, status: int, kind: type[Exception]
) -> None:
    messages_api.batches.fail = [status]
    with pytest.raises(kind, match="no Message Batches.*leave mode='batch' out" if status == 404 else "scripted failure"):
        ipy_websearch.enrich(companies("A"), CEO, **BATCH)
    assert ipy_websearch.cost().empty and ipy_websearch.enrich(companies("A"), CEO, **BATCH).ceo.notna().all()


def test_an_interrupt_leaves_the_batch_and_the_next_call_collects_it(messages_api: Any, shell: Any) -> None:
    """■ gives the frame back and says how to go on; in a new kernel the same call waits for it and sends new rows."""
    ceiling = Limited(1.0)
    out = left(messages_api, *"ABC")
    assert "3 rows" in shell.run("%websearch store").stdout and ceiling.reserved > 0 and ceiling.spent == 0
    assert set(out.enrich_status) == {"interrupted"}
    assert "3 rows at the API go on there and will be paid for: the same call collects them" in str(out.attrs["report"])
    api.end_session()
    Limited(1.0)
    for made in messages_api.batches.known.values():
        made.polls_left = 1
    again = ipy_websearch.enrich(companies(*"CDBA"), CEO, resume=False, **BATCH)
    assert list(again.ceo) == [f"Boss of {name}" for name in "CDBA"]
    assert messages_api.batches.log.count("POST ") == 2 and len(messages_api.requests) == 4 and ceiling.reserved == 0


def test_a_killed_kernel_pays_for_nothing_twice(messages_api: Any) -> None:
    """`kill -9` when a batch has been sent, then the same call in a new process: nothing is sent again."""
    code = (
        "import pandas, ipy_websearch\nframe = pandas.DataFrame({'company': [f'C{n}' for n in range(40)]})\n"
        "out = ipy_websearch.enrich(frame, {'ceo': 'Who is the CEO of {company}?'}, mode='batch', progress=False)\n"
        "print((out.enrich_status == 'ok').sum())"
    )
    first = start(code)
    while not any(made.is_answered for made in batch.open_batches(api.session().ledger)):
        time.sleep(0.005)
    first.kill()
    first.communicate()
    assert run(code).stdout.strip() == "40" and len(messages_api.requests) == 40


def test_cost_and_values_of_a_batch_are_written_together(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", lambda *args: 1 / 0)  # stands for the kill
        with pytest.raises(ZeroDivisionError):
            ipy_websearch.enrich(companies(*"AB"), CEO, **BATCH)
    assert ipy_websearch.cost(everything=True).empty
    api.end_session()
    out = ipy_websearch.enrich(companies(*"ABC"), CEO, **BATCH)
    assert out.ceo.notna().all() and len(ipy_websearch.cost(everything=True)) == 3 == len(messages_api.requests)


def test_a_budget_holds_for_the_worst_case_of_what_is_handed_in(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What may not fit is not sent until earlier batches came back cheaper; then the rest says "budget"."""
    messages_api.behave(lambda body: (echo(body), usage(input_tokens=900, output_tokens=100)))
    messages_api.batches.polls = 1
    monkeypatch.setattr(batch, "CHUNK_ROWS", 2)
    out = ipy_websearch.enrich(companies(*(f"C{n}" for n in range(60))), CEO, budget_usd=0.002, **BATCH)
    assert set(out.enrich_status) == {"ok", "budget"} and 5 < sum(out.enrich_status == "ok") == len(messages_api.requests)
    assert messages_api.batches.log.count("POST ") > 1 and out.enrich_cost_usd.sum() <= 0.002


def test_a_batch_that_is_gone_is_asked_by_the_next_call(messages_api: Any) -> None:
    """Deleted, or another workspace's."""
    left(messages_api, *"AB")
    messages_api.batches.known.clear()
    out = ipy_websearch.enrich(companies(*"AB"), CEO, **BATCH)
    assert set(out.enrich_status) == {"error"} and "run it again" in out.enrich_error[0]
    assert ipy_websearch.enrich(companies(*"AB"), CEO, **BATCH).ceo.notna().all()


def test_nothing_is_sent_that_could_not_be_found_again(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledger, "flush", lambda ledger: False)  # stands for a full disk
    with pytest.raises(EnrichmentError, match="the ledger cannot be written.*nothing more was sent"):
        ipy_websearch.enrich(companies("A"), CEO, **BATCH)
    assert messages_api.batches.log.count("POST ") == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "offline"}, "no Message Batches"),
        ({"mode": "bath"}, "must be one of now, batch"),
        ({"provider": "brave"}, "leave provider out"),
    ],
)
def test_what_batches_cannot_do_is_said_before_anything_is_sent(
    messages_api: Any, options: dict[str, Any], message: str
) -> None:
    """One line, with what to do."""
    with pytest.raises(ConfigError, match=message):
        ipy_websearch.enrich(companies("A"), CEO, **(BATCH | options))


# --- results ------------------------------------------------------------------------------------------------------------


def ended(**result: Any) -> Any:
    """Return what gives a line of results this end."""
    return lambda line: json.dumps({"custom_id": json.loads(line)["custom_id"], "result": result})


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            ended(type="errored", error={"error": {"type": "invalid_request_error", "message": "no such thing"}}),
            "no such thing",
        ),
        (ended(type="expired"), "24 hours"),
        (ended(type="canceled"), "cancelled"),
        (lambda line: line[:-9], "no result for this row"),
        (ended(type="succeeded", message="no message"), "no result for this row"),
    ],
)
def test_each_row_has_its_own_end(messages_api: Any, changed: Any, said: str) -> None:
    """One without an answer is an error, and is asked again by the next call; what was paid for with it is kept."""
    messages_api.batches.mangle = lambda lines: [lines[0], changed(lines[1]), *lines[2:]]
    out = ipy_websearch.enrich(companies(*"ABC"), CEO, **BATCH)
    assert sorted(out.enrich_status) == ["error", "ok", "ok"] and said in out.enrich_error.max()
    messages_api.batches.mangle = list
    assert ipy_websearch.enrich(companies(*"ABC"), CEO, **BATCH).ceo.notna().all() and len(messages_api.requests) == 4


def test_a_page_in_place_of_the_results_loses_no_row(messages_api: Any) -> None:
    pages = iter([["<html>Log in</html>"], []])
    messages_api.batches.mangle = lambda lines: next(pages, lines)
    assert ipy_websearch.enrich(companies(*"AB"), CEO, **BATCH).ceo.notna().all() and len(messages_api.requests) == 2


def test_failures_that_pass_are_waited_out_and_the_bar_says_so(
    messages_api: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """How many rows are at the API, and why it takes no more for now."""
    messages_api.batches.fail, messages_api.batches.polls = [529, 500], 3
    for name, value in {"FIRST_POLL_S": 0.3, "MAX_POLL_S": 0.3, "CHUNK_ROWS": 2}.items():
        monkeypatch.setattr(batch, name, value)
    out = ipy_websearch.enrich(companies(*"ABC"), CEO, **(BATCH | {"progress": True}))
    shown = "".join(capsys.readouterr())  # in a kernel's process the bar is written to the other one
    assert "3 in 2 batches at the API" in shown and "529" in shown
    assert out.ceo.notna().all() and len(messages_api.requests) == 3
    assert messages_api.batches.log.count("POST ") == 4, "refused twice; sent; the next"


def test_without_a_network_it_ends(messages_api: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "PATIENCE_S", 0.2)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(EnrichmentError, match="could not be handed in.*the same call tries again"):
        ipy_websearch.enrich(companies("A"), CEO, **BATCH)


def test_the_search_is_the_apis_own_its_fee_is_not_halved_and_a_quote_is_what_was_cited(messages_api: Any) -> None:
    """The API's passages come encrypted; the model writes and cites a line for each value before it records."""
    url, other = "https://example.org/acme", "https://example.net/firms"
    cites = [web_citation(url, "Acme", "Jo Doe has been the CEO of Acme since 2019.")]
    head = {"value": "Al Roe", "source": other, "quote": "made up"}
    messages_api.behave(
        lambda body: (
            server_search("Acme", [(url, "Acme"), (other, "Firms")]),
            text("ceo: Jo Doe leads Acme", citations=cites),
            text("founded: Acme was founded in 1921", citations=[web_citation(other, "Firms", "founded in Ohio in 1921")]),
            record(ceo={"value": "Jo Doe", "source": url}, founded={"value": 1921, "source": other + "/"}, head=head, size=5),
            usage(input_tokens=1000, output_tokens=100, server_tool_use={"web_search_requests": 1}),
        )
    )
    columns = {**CEO, "founded": ("{company}?", int), "head": "{company}?", "size": ("How large is {company}?", int)}
    row = ipy_websearch.enrich(companies("Acme"), columns, mode="batch", progress=False).iloc[0]
    assert (row.ceo_source, row.ceo_quote) == (url, "Jo Doe has been the CEO of Acme since 2019.")
    assert (row.founded_source, row.founded_quote) == (other, "founded in Ohio in 1921")
    assert (row["head"], row.head_source, row["size"]) == ("Al Roe", other, 5)
    assert pd.isna(row.head_quote) and pd.isna(row.size_quote)
    (body,), half = messages_api.bodies, model_cost("claude-haiku-5-5", Usage(input_tokens=1000, output_tokens=100))
    assert body["tools"][0]["type"].startswith("web_search_") and body["tools"][0]["max_uses"] == 1
    assert half and row.enrich_cost_usd == float(half / 2 + Decimal("0.01")) and "tool_choice" not in body
