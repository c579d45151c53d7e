"""The offline model's English: words that say nothing, irregular forms, and words that may stand for one another.

Only lists, kept as text so that they can be read; `words` turns them into stems. Nothing here is about any one subject.
"""

from __future__ import annotations

STOP_WORDS = """
    a about above after again against all also am an and any are as at be because been before being below between both
    but by can could did do does doing down during each either else ever few for from further get gets got had has have
    having he her here hers him his how i if in into is it its itself just let like many may me might more much must
    my near no nor not now of off on once one ones only or other our out over own per please same she should so some such
    than that the their theirs them then there these they this those through to too under until up upon us very was we
    were what when where whether which while who whom whose why will with within without would yes yet you your yours
    s t re ve ll d m don doesn didn isn aren wasn weren won
    tell give show list find search look explain describe compare difference differences comparison versus vs
    summarise summarize briefly answer question cite
    sources source know want need info information web online internet page pages website results result according
    hello hi hey thanks thank ok okay
    name names called exactly approximately actually currently really usually
"""
"""Words that say nothing about what is asked for. "name" and "called" are here: "What is the name of …" asks for the rest."""

SOFT_WORDS = """
    point year date kind type average mean standard total exact current latest today recent official world continent use
    million billion thousand dollar euro usd eur gbp km kilometre kilometer metre meter mile degree celsius kg kilogram unit
"""
"""Words that a good answer may leave out: "melts at 1538 °C" has no "point", "in 1991" no "year"."""

FORMS = """
    writ: wrote written author authors authored
    populat: people inhabitants inhabitant residents populous populated
    discov: discovery discoveries discoverer discoverers
    colour: color colors colours
    currenc: currencies money
    high: tall height taller tallest higher highest elevation
    long: length longer longest
    wide: width wider widest
    deep: depth deeper deepest
    mass: weight weigh weighs heavy heaviest heavier
    larg: biggest big bigger larger largest size
    small: smaller smallest
    few: fewest fewer
    far: farthest further furthest distance distances distant
    fast: speed faster fastest
    hot: hotter hottest
    cold: colder coldest
    languag: spoken speak speaks
    us: use used uses using
    begin: began begun started start starts
    build: built
    sell: sold
    mak: made
    win: won
    die: died death
    birth: born birthday birthplace
    employ: employs employee employees employed employer workforce staff
    headquart: headquarters headquartered
    lead: led leader
    leav: left
    go: went gone
    tak: took taken
    giv: gave given
    com: came
    becom: became
    grow: grew grown
    meet: met
    hold: held
    keep: kept
    los: lost
    fly: flew flown flies flight
    fall: fell fallen
    ris: rose risen
    send: sent
    teach: taught
    bring: brought
    buy: bought
    catch: caught
    fight: fought
    steal: stole stolen
    break: broke broken
    choos: chose chosen choice
    draw: drew drawn
    know: knew known
    see: saw seen
    shoot: shot
    sing: sang sung
    sink: sank sunk
    stand: stood
    strik: struck
    throw: threw thrown
    wear: wore worn
    paint: painted painter painting paintings
    invas: invaded
    child: children
    man: men
    woman: women
    moon: moons satellite satellites
    area: km2
    densit: dense densest density
    elect: elected
    rul: ruled
    independent: independence
    former: former formerly
"""
"""Irregular forms and words that mean the same, each line "stem: forms"."""

NUMERIC = """
    population area diameter radius mass density temperature height length depth distance speed age gdp elevation period number
    circumference gravity price cost salary revenue percentage share count total score weight width volume rate
    populations areas temperatures heights distances numbers prices
"""
"""Nouns whose value is a figure: "What is the population of …"."""

GRADED = "larg small high long old deep light great young near dens bright clos short rich warm low"
"""Adjectives whose "-est" is dropped."""

RELATED = (
    "create design develop invent conceive devise begin write appear",
    "found establish begin create",
    "discover identify",
    "write compose author",
    "release publish appear launch introduce debut begin",
    "locate situate lie stand",
    "orbit circle revolve",
    "diameter across wide",
    "live population home",
    "lead head govern run chief executive ceo president",
    "cost price worth",
    "language speak",
    "use currency",
    "contain hold include",
    "area cover large square",
    "large diameter area across mass population",
    "begin appear",
    "found form",
    "far distance orbit",
    "period orbit take complete year",
    "die kill",
    "nickname known call",
    "extension suffix",
)
"""Words that may stand for one another in an answer: "designed" for "created"."""

COLOURS = """
    red reddish orange yellow yellowish gold golden green greenish blue bluish violet purple pink brown brownish black white
    whitish grey gray greyish silvery silver colourless colorless crimson scarlet turquoise maroon beige transparent
"""
SHADES = "pale bright dark light dull deep shiny vivid clear lustrous"

STANDS_FOR = {
    "make": "create design develop build invent write found produce",
    "most": "more",
    "temperature": "hot cold degree",
    "country": "state nation",
    "begin": "last from",
    "cost": "price",
    "hot": "temperature",
    "cold": "temperature",
    "long": "last take lasts takes",
    "happen": "take place occur",
    "red": "reddish",
    "colour": COLOURS,
}
"""Words of a question and what an answer may say instead, but not the other way round."""
