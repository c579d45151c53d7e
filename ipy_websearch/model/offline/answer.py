"""Answers: the sentences that answer the open question, as text blocks with citations.

Every sentence is quoted as it stands in its source. A block of a `search_result` carries the citation the Messages API
would give: the whole text block as `cited_text`, its index over the request, an exclusive end (API reference, "Search
result location citation", read 2026-11). Sentences from plain text name their source in words.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ipy_websearch.model.offline.evidence import Sentence, collect, title_core
from ipy_websearch.model.offline.question import Kind, Question
from ipy_websearch.model.offline.rank import SURE, Scored, rank
from ipy_websearch.model.offline.sources import Source
from ipy_websearch.text import shorten

MOST_BLOCKS = 6
_PRONOUN = re.compile(r"(?:It|Its|He|His|She|Her|They|Their|This|These|That|There)\b")
_AT_LENGTH = re.compile(
    r"\b(?:tell|describe|explain|summari[sz]e|overview|about|why|how\s+(?:does|do|did|is|are|can))\b", re.IGNORECASE
)
_WORTH = 0.75

NOTHING = "I found nothing in the results that answers this."
NO_TOOLS = "This is the offline model: it can only quote search results, and no search tool was offered."
NO_QUESTION = "This is the offline model: it quotes search results. There is nothing in this message to search for."


def answer_blocks(questions: Sequence[Question], sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the text blocks that answer the questions, an empty list when no sentence of the sources fits any of them."""
    collected = collect(sources)
    chosen: list[tuple[Question, list[Sentence]]] = []
    seen: set[int] = set()
    for question in questions:
        picked = [sentence for sentence in _pick(question, collected) if sentence.order not in seen]
        seen.update(sentence.order for sentence in picked)
        if picked:
            chosen.append((question, picked))
    blocks: list[dict[str, Any]] = []
    for _, picked in chosen:
        for position, sentence in enumerate(picked):
            lead = "" if not blocks else "\n\n" if position == 0 else " "
            blocks.append(_block(lead, sentence))
    return blocks[:MOST_BLOCKS]


def opening_blocks(sources: Sequence[Source]) -> list[dict[str, Any]]:
    """Return the first full sentences of the first source, for a page that was given without a question."""
    full = [s for s in collect(sources[:1]) if len(s.text.split()) > 5 and s.text[-1:] in ".!?。"]
    return [_block(" " if n else "", sentence) for n, sentence in enumerate(full[:3])]


def nothing_found(searches: Sequence[str], failures: Sequence[str]) -> str:
    """Return the words for an answer that could not be given, with what was searched and what failed."""
    parts = [NOTHING if not failures or len(failures) < len(searches) else "The search gave nothing to answer from."]
    if searches:
        queries = " and ".join(f"“{shorten(query, 100)}”" for query in dict.fromkeys(searches))
        parts.append(f"I searched for {queries}.")
    if failures:
        parts.append(f"It failed with: {shorten(' '.join(failures[-1].split()), 200)}")
    return " ".join(parts)


def _pick(question: Question, collected: Sequence[Sentence]) -> list[Sentence]:
    """Return one to three sentences for one question: the best for each kind asked, more where the question is open."""
    ranked: dict[Kind, list[Scored]] = {kind: rank(question, collected, kind) for kind in question.kinds}
    picked: list[Scored] = []
    for kind in question.kinds:
        best = ranked[kind][0] if ranked[kind] else None
        if best and all(best.sentence is not other.sentence for other in picked) and not _answered(best, kind, picked, ranked):
            picked.append(best)
    if picked and (wanted := _wanted(question)) > len(picked):
        first = picked[0]
        for other in ranked[question.kinds[0]][1:]:
            if len(picked) < wanted and other.score >= _WORTH * first.score and other.sentence.source is first.sentence.source:
                picked.append(other)
        picked = [first, *sorted(picked[1:], key=lambda s: s.sentence.order)]
    return [scored.sentence for scored in picked[:3]]


def _answered(best: Scored, kind: Kind, picked: Sequence[Scored], ranked: dict[Kind, list[Scored]]) -> bool:
    """Return whether a sentence that was picked already holds a value of this kind as good as the best one's."""
    for other in ranked[kind]:
        if any(other.sentence is chosen.sentence for chosen in picked) and other.found and other.found.strength >= SURE:
            return best.found is None or other.found.strength >= 0.8 * best.found.strength
    return False


def _wanted(question: Question) -> int:
    """Return how many sentences a question is worth: one for a fact, up to three for a description."""
    if "definition" in question.kinds:
        return 3 if _AT_LENGTH.search(question.text) else 2
    return 3 if "text" in question.kinds else 1


def _block(lead: str, sentence: Sentence) -> dict[str, Any]:
    source = sentence.source
    core = title_core(source.title)[0]
    text = sentence.text
    if core and _PRONOUN.match(text) and core.lower() not in text.lower():
        text = f"{core}: {text}"
    if source.index is None:
        named = ", ".join(part for part in (source.title, source.url) if part)
        return {"type": "text", "text": lead + text + (f" (source: {named})" if named else "")}
    return {"type": "text", "text": lead + text, "citations": [_citation(source, sentence.block)]}


def _citation(source: Source, block: int) -> dict[str, Any]:
    return {
        "type": "search_result_location",
        "cited_text": source.blocks[block],
        "source": source.url,
        "title": source.title,
        "search_result_index": source.index,
        "start_block_index": block,
        "end_block_index": block + 1,
    }
