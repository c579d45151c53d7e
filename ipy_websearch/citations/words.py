"""The words by which sentences are compared: those that say little, negations, opposites, marks of languages and of names."""

from __future__ import annotations

from itertools import permutations

STOP = frozenset(
    "a an the of in on at to for from by with as and or but if that this these those it its is are was were be been being "
    "has have had do does did will would can could may might shall should he she they his her their them him we our you "
    "your i my there here which who whom whose what when where while than then so such into about over under after before "
    "between during also both each other some any all more most very just only own same up out off s t re ve ll d according "
    "however further der die das und ein eine ist war von zu mit den dem des im auf für le la les et un une est de du des "
    "en que el los y es con il di che per".split()
)
NOT = frozenset(  # folded, as words are compared
    "not no never none neither nor without cannot nobody nothing nowhere hardly barely nicht kein keine keinen keinem keiner "
    "nie niemals pas jamais aucun aucune niet geen nunca jamas nao nessuno не ни никогда нет".split()
)
_SOFT = frozenset(
    "fail failed fails lack lacks lacked lacking refuse refused refuses deny denied denies unable instead rather except "
    "lost lose rejected reject declined decline few little unlike absent false untrue stopped prevent prevented avoid".split()
)
DENYING = NOT | _SOFT
OPPOSITES = tuple(
    sides
    for one, other in (
        ("more over above exceed exceeds exceeded exceeding", "less fewer under below"),
        ("higher greater larger bigger taller", "lower smaller lesser shorter"),
        ("highest greatest largest biggest tallest most", "lowest smallest least shortest fewest"),
        ("longer", "shorter"), ("longest", "shortest"), ("faster quicker", "slower"), ("fastest", "slowest"),
        ("older", "younger newer"), ("oldest", "youngest newest"), ("earlier", "later"), ("earliest", "latest"),
        ("before", "after"), ("better", "worse"), ("best", "worst"), ("stronger", "weaker"), ("cheaper", "costlier dearer"),
        ("increase increases increased increasing rise rises rose rising risen grow grows grew growing grown gain gains "
        "gained climbed",
         "decrease decreases decreased decreasing fell falling fallen decline declines declining drop drops dropped dropping "
         "shrank "
         "shrink shrinks reduced"),
        ("won win wins winning", "lost lose loses losing"), ("first", "last"), ("maximum", "minimum"), ("hotter warmer",
        "colder cooler"),
        ("accepted accept accepts approved approve", "rejected reject rejects refused refuse"), ("true", "false"),
        ("always", "never"), ("majority", "minority"), ("northern north", "southern south"), ("eastern east", "western west"),
        ("possible", "impossible"), ("legal", "illegal"), ("alive", "dead"), ("allowed allow allows permitted",
        "banned ban prohibited forbidden"),
        ("opened open opens", "closed close closes"), ("bought buy buys", "sold sell sells"),
        ("success succeeded successful", "failure failed"),
    )
    for sides in permutations((frozenset(one.split()), frozenset(other.split())))
)  # fmt: skip
OPENERS = frozenset(
    "the a an in on at by for from with as it its he she they we i you this that these those there his her their our my "
    "after before during while when since although however according both some many most each every one two no not and but "
    "or if to also then under over between among within despite because due today tonight tomorrow yesterday currently "
    "recently here what who how why where which other another all such following later early initially".split()
)
LINKS = frozenset("of the and for".split())
# Endings of nationalities, and of their countries in their place: Italian, Canadian, Egyptian, Indian, Japanese, Polish.
NATIONALITIES = (("ian", "y"), ("ian", "a"), ("ian", ""), ("n", ""), ("ese", ""), ("lish", "land"), ("nish", "land"))
COMPARING = frozenset().union(*(one for one, _ in OPPOSITES))
LANGUAGES = {
    "en": frozenset("the of and is was were are in to with by that it from has for at on an as".split()),
    "de": frozenset("der die das und ist ein eine im von mit den dem des zu auf für wurde sind nicht war hat".split()),
    "fr": frozenset("le la les et est un une des du dans de en pour sur au qui par que a ete sont".split()),
    "es": frozenset("el la los las y es un una de en del que por con para se su al fue".split()),
    "it": frozenset("il la lo gli e un una di del della che in con per nel sono stato i le da".split()),
    "pt": frozenset("o a os as e um uma de do da em que por com para no na foi sao se".split()),
    "nl": frozenset("de het een en van in is op met voor dat zijn te door werd die aan der".split()),
}
_CALENDAR = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june july august september "
    "october november december jan feb mar apr jun jul aug sep sept oct nov dec am pm".split()
)
NO_NAMES = STOP | OPENERS | _CALENDAR | {"celsius", "fahrenheit"}
