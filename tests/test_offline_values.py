"""The offline model invents nothing: a value is said of the asked thing, in the way it was asked, or there is none."""

from __future__ import annotations

from typing import Any

import pytest

from ipy_websearch.model.offline.clauses import clauses, said_of
from ipy_websearch.model.offline.fields import question_for, read_row
from ipy_websearch.model.offline.parts import split_questions
from ipy_websearch.model.offline.record import fill
from ipy_websearch.model.offline.sources import Source
from ipy_websearch.model.offline.values import find
from ipy_websearch.model.offline.words import stems
from tests.test_offline_model import ARTICLES, closed, nullable, pages

JSON = dict[str, Any]


def value_of(thing: str, question: str, kind: str, sentence: str, title: str = "") -> Any:
    """What one sentence gives for an enrichment's column about one thing, None when it gives nothing sure enough."""
    row = read_row(f"The row\nx: {thing}\n\nThe questions\nv: {question.replace('{x}', thing)}", ["v"])
    asked = question_for("v", nullable(kind, description=question), row)
    found = find(asked.kinds[0], asked, sentence, title)
    return found.value if found and found.strength >= 0.4 else None


def ask(thing: str, question: str, kind: str, *titles: str) -> tuple[Any, str]:
    """Value and quote of an enrichment's column about a thing of the corpus, from those pages and others of their kind."""
    cell = closed(value=nullable(kind), source={"type": "string"}, quote={"type": "string"})
    text = f"The row\nx: {thing}\n\nThe questions\nv: {question.replace('{x}', thing)}"
    filled = fill(closed(v={"description": question, **cell}), text, pages(*(titles or (thing,))))["v"]
    return filled["value"], filled["quote"]


@pytest.mark.parametrize(
    ("thing", "question", "sentence", "value"),
    [
        ("Norway", "Is {x} a member of the European Union?", "Norway is not a member of the European Union.", False),
        ("France", "Is {x} a member of the European Union?", "Norway is not a member of the European Union.", None),
        (
            "Switzerland",
            "Is {x} a member of the European Union?",
            "Switzerland joined the United Nations in 2002 and is not a member of the European Union.",
            False,
        ),
        (
            "Poland",
            "Is {x} a member of the European Union?",
            "Poland joined NATO in 1999 and the European Union in 2004.",
            True,
        ),
        ("France", "Is {x} a member of NATO?", "Norway, unlike France, is not a member of NATO.", None),
        ("Japan", "Is {x} in Europe?", "The mission of Europe and Japan left for Mercury in 2018.", None),
        ("France", "Is {x} in Europe?", "France is a country in western Europe.", True),
        ("Austria", "Is {x} in Europe?", "Austria is a country in central Europe without access to the sea.", True),
        (
            "Austria",
            "Does {x} have access to the sea?",
            "Austria is a country in central Europe without access to the sea.",
            False,
        ),
        ("Portugal", "Is {x} in Spain?", "Portugal is a country in southwestern Europe, west of Spain.", None),
        ("Egypt", "Is {x} in Asia?", "Egypt is a country of Africa, and the Sinai Peninsula of Egypt belongs to Asia.", None),
        ("United Kingdom", "Is {x} in the European Union?", "The United Kingdom left the European Union in 2020.", False),
        ("Gold", "Is {x} a gas at room temperature?", "Gold is a soft, yellow solid at room temperature.", None),
        ("Oxygen", "Is {x} a gas at room temperature?", "Oxygen is a colourless gas at room temperature.", True),
        ("Hydrogen", "Is {x} a gas?", "Hydrogen is a nonmetal and a colourless gas at room temperature.", True),
        ("Gold", "Is {x} a noble gas?", "The noble gases are the elements helium, neon and argon.", None),
        ("Gold", "Is {x} a metal?", "Gold is a transition metal with the symbol Au.", True),
        ("Oxygen", "Is {x} a metal?", "Welders use argon to keep oxygen away from hot metal.", None),
        ("Oxygen", "Is {x} a metal?", "Oxygen is a nonmetal with the symbol O.", False),
        ("Helium", "Is {x} a metal?", "Helium is used to cool hot metal.", None),
        ("Eris", "Is {x} a planet?", "Eris is a dwarf planet far beyond Neptune.", None),
        ("Neptune", "Is {x} a dwarf planet?", "Eris is a dwarf planet far beyond Neptune.", None),
        ("Ireland", "Is {x} an island country?", "Ireland is a country that covers most of the island of the same name.", None),
        ("Canada", "Is {x} the largest country?", "Canada is the second largest country of the world.", None),
        ("Mercury", "Is {x} poisonous?", "Mercury compounds are poisonous.", None),
        ("Radium", "Is {x} used in paint?", "Radium was once used in paint that glowed on watch dials.", None),
        ("Gold", "Does {x} rust?", "Gold does not rust or tarnish in air.", False),
        ("Argon", "Does {x} react with water?", "Argon hardly ever reacts with water.", None),
        ("France", "Does {x} use the euro?", "The currency of France is the euro.", True),
        ("Poland", "Does {x} use the euro?", "The currency of Poland is the złoty.", None),
        (
            "Ireland",
            "Is English an official language of {x}?",
            "The official languages of Ireland are Irish and English.",
            True,
        ),
        ("France", "Is English an official language of {x}?", "The official language of France is French.", None),
        (
            "Spain",
            "Has {x} won the World Cup?",
            "South Africa held the World Cup in 2010, when Spain beat the Netherlands.",
            None,
        ),
        ("Brazil", "Has {x} won the World Cup?", "Brazil won the World Cup in 1958 and 1962.", True),
    ],
)
def test_yes_and_no_are_said_of_the_asked_thing(thing: str, question: str, sentence: str, value: bool | None) -> None:
    """All words of the claim are said of the thing itself; only a denial of just that is a no, anything else is null."""
    assert value_of(thing, question, "boolean", sentence) is value


@pytest.mark.parametrize(
    ("thing", "question", "sentence", "value"),
    [
        (
            "Radon",
            "What is the standard atomic weight of {x}?",
            "Radon is a gas with the symbol Rn and the atomic number 86.",
            None,
        ),
        ("Iron", "What is the standard atomic weight of {x}?", "The standard atomic weight of iron is 55.845.", 55.845),
        ("Carbon", "At what temperature in °C does {x} melt?", "Carbon does not melt but turns into a gas at 3640 °C.", None),
        ("Iron", "At what temperature in °C does {x} melt?", "Iron melts at 1538 °C and boils at 2860 °C.", 1538),
        ("Iron", "What is the melting point of {x} in kelvin?", "Iron melts at 1538 °C and boils at 2860 °C.", None),
        ("France", "What is the area of {x} in square miles?", "France covers about 550,000 square kilometres.", None),
        (
            "Gold",
            "In which group of the periodic table is {x}?",
            "The periodic table has 18 groups, among them that of gold.",
            None,
        ),
        ("Neon", "Which group is {x} in?", "Neon belongs to group 18 of the periodic table.", 18),
        ("Radium", "Which period is {x} in?", "The longest-lived isotope of radium has a half-life of 1,600 years.", None),
        (
            "Italy",
            "How high is the highest mountain of {x}?",
            "Mont Blanc, near Italy, is the highest mountain of France at 4,806 m.",
            None,
        ),
        ("Carbon", "What is the half-life of {x} in years?", "The isotope carbon-14 has a half-life of 5,730 years.", None),
        ("Radon", "How many isotopes does {x} have?", "Radon has no stable isotopes.", None),
        ("Radon", "How many stable isotopes does {x} have?", "Radon has no stable isotopes.", 0),
        ("France", "What is the population of the capital of {x}?", "The population of France was about 68 million.", None),
        ("Gold", "What is the CAS number of {x}?", "Gold is a metal with the symbol Au and the atomic number 79.", None),
        ("Egypt", "How many people live in {x}?", "The population of Egypt was more than 105 million in 2024.", 105_000_000),
    ],
)
def test_a_figure_is_of_what_was_asked(thing: str, question: str, sentence: str, value: float | None) -> None:
    """The measure is said and not denied, the unit is the asked one, and a number that names is beside its noun."""
    assert value_of(thing, question, "number", sentence) == value


@pytest.mark.parametrize(
    ("thing", "question", "sentence", "value"),
    [
        ("France", "In what year did {x} become independent?", "Morocco became independent from France in 1956.", None),
        ("Morocco", "In what year did {x} become independent?", "Morocco became independent from France in 1956.", 1956),
        ("Finland", "In what year did {x} become independent?", "Finland declared independence from Russia in 1917.", 1917),
        ("Russia", "year of independence of {x}", "Finland declared independence from Russia in 1917.", None),
        ("Japan", "In what year did {x} become independent?", "Naruhito became emperor of Japan on 1 May 2019.", None),
        ("Nepal", "In what year did {x} become independent?", "Nepal became a republic in 2008.", None),
        (
            "Poland",
            "In what year did {x} join the European Union?",
            "Poland joined NATO in 1999 and the European Union in 2004.",
            2004,
        ),
        ("Poland", "In what year did {x} join NATO?", "Poland joined NATO in 1999 and the European Union in 2004.", 1999),
        ("Ireland", "In what year did {x} join NATO?", "Ireland joined the European Communities in 1973.", None),
        ("Iceland", "In what year was {x} founded?", "The parliament of Iceland, the Althing, was founded in 930.", None),
        ("Lithium", "In what year was {x} first isolated?", "Lithium was discovered by Arfwedson in 1817.", None),
        (
            "Portugal",
            "In what year did {x} host the World Cup?",
            "FIFA chose Spain and Portugal in 2024 as hosts of the World Cup.",
            None,
        ),
        ("Iron", "In what century was {x} discovered?", "Iron was discovered in 1200.", None),
    ],
)
def test_a_year_is_of_what_happened_to_the_asked_thing(thing: str, question: str, sentence: str, value: int | None) -> None:
    """All that happened is said, of the thing itself: "became independent from X" dates nothing of X."""
    assert value_of(thing, question, "integer", sentence) == value


@pytest.mark.parametrize(
    ("thing", "question", "sentence", "value"),
    [
        (
            "Norway",
            "Who is the president of {x}?",
            "Roald Amundsen from Norway led the first expedition to the South Pole.",
            None,
        ),
        ("Ghana", "Who is the president of {x}?", "Kwame Nkrumah was the first president of Ghana.", None),
        ("Ghana", "Who was the first president of {x}?", "Kwame Nkrumah was the first president of Ghana.", "Kwame Nkrumah"),
        (
            "Mexico",
            "Who was the first president of {x}?",
            "Claudia Sheinbaum became the first woman president of Mexico.",
            None,
        ),
        ("Pakistan", "Who is the president of {x}?", "Muhammad Ali Jinnah was the first governor-general of Pakistan.", None),
        ("Togo", "Who is the president of {x}?", "The president of Ghana is Ama Mensah, who was born in Togo.", None),
        ("Ghana", "Who is the president of {x}?", "The president of Ghana is Ama Mensah, who was born in Togo.", "Ama Mensah"),
        ("Spain", "Who is the king of {x}?", "The Philippines is named after King Philip II of Spain.", None),
        ("Lead", "Who is the CEO of {x}?", "Car batteries contain lead, and lead shields people from X-rays.", None),
        ("Acme", "Who is the CEO of {x}?", "Acme's chief executive Jane Roe said hello.", "Jane Roe"),
        ("Sodium", "Who named {x}?", "The symbol Na comes from natrium, the Latin name of sodium.", None),
        ("Oxygen", "Who named {x}?", "Antoine Lavoisier gave oxygen the name that is used today.", "Antoine Lavoisier"),
        ("Titanium", "Who named {x}?", "Martin Klaproth named titanium after the Titans in 1795.", "Martin Klaproth"),
        ("Titanium", "After whom is {x} named?", "Martin Klaproth named titanium after the Titans in 1795.", None),
        ("Denmark", "Who founded {x}?", "Lego was founded in Billund in Denmark in 1932.", None),
        (
            "Neon",
            "discoverer of {x}",
            "Neon was discovered by William Ramsay and Morris Travers.",
            "William Ramsay and Morris Travers",
        ),
        ("Gold", "What is the Latin name of {x}?", "The symbol Au comes from aurum, the Latin word for gold.", "aurum"),
        ("Gold", "What is the Latin name of {x}?", "Gold is a transition metal with the symbol Au.", None),
        ("Calcium", "What is the Latin name of {x}?", "The name calcium comes from calx, the Latin word for lime.", None),
        ("Gold", "Which country is the largest producer of {x}?", "Ghana is one of the largest producers of gold.", None),
        ("France", "What is the second largest city of {x}?", "Paris is the capital of France and the largest city.", None),
        ("Peru", "What is the official name of {x}?", "Spanish is the main official language of Peru.", None),
        ("Nepal", "What is the flag of {x}?", "Nepal is the only country whose national flag is not a rectangle.", None),
        ("Gold", "What colour is {x}?", "Gold is a soft, yellow solid at room temperature.", "yellow"),
        ("Uranus", "What colour is {x}?", "Methane in the upper air gives Uranus a blue-green colour.", "blue-green"),
        ("Copper", "What colour is {x}?", "Copper roofs turn green in the weather.", None),
        ("Phosphorus", "What colour is {x}?", "The name means light bearer, because white phosphorus glows in air.", None),
        (
            "France",
            "When is the national day of {x}?",
            "France celebrates the national day on 14 July, since the year 1880.",
            "14 July",
        ),
        (
            "Zinc",
            "Where was {x} discovered?",
            "Zinc was discovered by Marggraf, although zinc had been smelted in India.",
            None,
        ),
        ("Bromine", "Where was {x} discovered?", "The name bromine comes from the Greek word for stench.", None),
        ("Titanium", "Where was {x} discovered?", "Titanium was discovered by William Gregor in 1791 in Cornwall.", "Cornwall"),
    ],
)
def test_words_are_those_of_what_was_asked(thing: str, question: str, sentence: str, value: str | None) -> None:
    """An office is the asked one and of today, a verb's doer did it to the thing, a superlative is said as it was asked."""
    assert value_of(thing, question, "string", sentence) == value


@pytest.mark.parametrize(
    ("thing", "question", "choices", "value"),
    [
        ("Spain", "What is the form of government of {x}?", ["republic", "monarchy"], "monarchy"),
        ("Norway", "Which hemisphere is {x} in?", ["northern", "southern"], None),
        ("United Kingdom", "On which side of the road do people drive in {x}?", ["left", "right"], None),
        ("Argon", "Is {x} a metal, a nonmetal or a metalloid?", ["metal", "nonmetal", "metalloid"], None),
        ("Oxygen", "Is {x} a metal, a nonmetal or a metalloid?", ["metal", "nonmetal", "metalloid"], "nonmetal"),
        ("Carbon", "What is the state of {x} at 25 °C?", ["solid", "liquid", "gas"], None),
        ("Bromine", "What is the state of {x} at room temperature?", ["solid", "liquid", "gas"], "liquid"),
        ("Phosphorus", "What block is {x} in?", ["s", "p", "d", "f"], None),
    ],
)
def test_a_choice_is_said_of_the_asked_thing(thing: str, question: str, choices: list[str], value: str | None) -> None:
    """A word of the list that a sentence only has in passing is not the answer."""
    schema = closed(v={"anyOf": [{"type": "string", "enum": choices}, {"type": "null"}], "description": question})
    text = f"The row\nx: {thing}\n\nThe questions\nv: {question.replace('{x}', thing)}"
    assert fill(schema, text, pages(thing))["v"] == value


def test_who_was_once_elected_is_not_taken_for_who_is_in_office_now() -> None:
    """An election more than ten years before the newest year of the sources says nothing of today; a coronation may."""
    assert ask("South Africa", "Who is the president of {x}?", "string")[0] is None
    assert ask("Japan", "Who is the emperor of {x}?", "string")[0] == "Naruhito"
    page = Source("Mexico", "https://w.example/mexico", ("Ana Ruiz became president of Mexico in 2024. Today it is 2026.",))
    schema = closed(v=nullable("string", description="Who is the president of {x}?"))
    assert fill(schema, "The row\nx: Mexico\n\nThe questions\nv: Who is the president of Mexico?", [page])["v"] == "Ana Ruiz"


@pytest.mark.parametrize(
    ("question", "kind", "values"),
    [
        ("Is {x} a noble gas?", "boolean", {"Gold": None, "Iron": None, "Neon": True, "Radon": True}),
        ("Is {x} a metal?", "boolean", {"Oxygen": False, "Argon": None, "Gold": True, "Mercury (element)": True}),
        ("In which group of the periodic table is {x}?", "integer", {"Gold": None, "Iron": None, "Oxygen": None}),
        ("What is the standard atomic weight of {x}?", "number", {"Radon": None, "Radium": None, "Uranium": 238.03}),
        ("Is {x} a member of the European Union?", "boolean", {"France": None, "Norway": False, "Hungary": True}),
        (
            "In what year did {x} become independent?",
            "integer",
            {"France": None, "Canada": None, "Jamaica": 1962, "Ukraine": 1991},
        ),
        ("capital city of {x}", "string", {"Switzerland": "Bern", "China": "Beijing", "India": "New Delhi"}),
    ],
)
def test_a_page_about_something_else_gives_no_value(question: str, kind: str, values: dict[str, Any]) -> None:
    """Among pages about other things, also about those that the question names, each value is the row's own, or null."""
    extra = ["Periodic table", "Noble gas", "Norway", "Morocco", "Switzerland"]
    found = {name: ask(name.split(" (")[0], question, kind, name, *extra) for name in values}
    assert {name: value for name, (value, _) in found.items()} == values
    assert all((quote in " ".join(ARTICLES[name].blocks)) == bool(quote) for name, (_, quote) in found.items() if quote)


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        ("Sweden and Norway joined in 1905.", ["Sweden and Norway joined in 1905."]),
        ("Gold melts in fire but does not rust.", ["Gold melts in fire", "does not rust."]),
        ("Poland joined NATO in 1999 and the Union in 2004.", ["Poland joined NATO in 1999 and the Union in 2004."]),
        ("Bern is the capital, and Zurich is the largest city.", ["Bern is the capital", "Zurich is the largest city."]),
    ],
)
def test_a_sentence_is_cut_into_what_it_says(sentence: str, parts: list[str]) -> None:
    """A clause has a verb of its own; a shared subject belongs to both sides."""
    assert [sentence[clause.start : clause.end] for clause in clauses(sentence)] == parts


@pytest.mark.parametrize(
    ("name", "sentence", "word", "title", "said"),
    [
        ("Gold", "Gold melts in fire but does not rust.", "rust", "", True),
        ("Zurich", "Bern is the capital, and Zurich is the largest city.", "capital", "", False),
        ("Sodium", "Sodium street lamps give yellow light.", "yellow", "", False),
        ("Germany", "West Germany joined the Union.", "joined", "", False),
        ("Mozart", "Wolfgang Amadeus Mozart was born in Salzburg.", "born", "", True),
        ("Apple", "It was founded in 1976.", "founded", "Apple Inc.", True),
        ("Apple", "It was founded in 1976.", "founded", "Microsoft", False),
        ("Althing", "The parliament of Iceland, the Althing, was founded in 930.", "founded", "", True),
        ("New Zealand", "In 1893 New Zealand became the first country with it.", "first", "", True),
    ],
)
def test_a_clause_is_about_its_subject(name: str, sentence: str, word: str, title: str, said: bool) -> None:
    """A thing is the subject by its whole name at the head of the clause, or as what the page's pronoun stands for."""
    assert said_of(frozenset(stems(name)), sentence, sentence.index(word), title) is said


def test_a_question_that_only_goes_on_is_the_one_before() -> None:
    """ "moons? and?" asks nothing new and stops nothing."""
    assert [question.text for question in split_questions("moons? and?")] == ["moons?"]
