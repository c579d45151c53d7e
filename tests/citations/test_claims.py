"""Citations are held against their passages: what `citations.check` promises, by example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ipy_websearch.citations import check

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
