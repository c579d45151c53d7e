"""What the model is given for a call: the same, byte for byte, when the reply is sent back as when the call was made. Pure.

The API ties thinking to everything that stands before it, so a history that is taken apart must give the requests that were
sent. Results that were packed here give their own text; for all else (errors, nothing found, a call that repeats another)
the words follow from what the native block says. What was not packed here is told in words, and is no longer the same.

A page that may not be cited is given as plain text: the model cannot cite it, so no text ever has a citation that the caller
does not see, and could not send back.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Any, NamedTuple

from ipy_websearch.interception.opaque import pack, unpack
from ipy_websearch.model.requests import plain_results
from ipy_websearch.text import plain, shorten
from ipy_websearch.tools.base import Passage, ToolOutput

Block = Mapping[str, Any]

NOTHING_FOUND, NO_TEXT = "No results.", "content: empty"
_TOLD_HITS, _TOLD_WIDTH = 20, 200
OVER = "search_over"
"""The error code of a search that failed so that no other in the same call will work; for the caller it is `unavailable`."""

_SEARCHED = "Search unavailable. Please answer from your knowledge."
_ERRORS = {
    "max_uses_exceeded": "Not run: the tool was used as often as it may be. Answer from what there is.",
    "invalid_tool_input": "Not run: the input is not as the tool's schema wants it, or it was cut off.",
    "query_too_long": "Not run: the query is too long. Use a few words.",
    "too_many_requests": f"{_SEARCHED} (too many requests)",
    "request_too_large": f"{_SEARCHED} (the request was too large)",
    "unavailable": f"{_SEARCHED} (no engine answered)",
    OVER: f"{_SEARCHED} (searching does not work in this conversation now; do not try again)",
    "url_not_in_prior_context": "Not read: only addresses that the user gave, or that results or pages contained, can be read.",
    "url_not_allowed": "Not read: this address is not allowed.",
    "url_not_accessible": "Not read: the page could not be had.",
    "unsupported_content_type": "Not read: there is no text to read.",
    "content_too_large": "Not read: the page is too large.",
}


class Read(NamedTuple):
    """What the model is given for a native result, and whether that is `same` as what it was given then.

    `rest` marks the blocks that follow in the model's reply, None where the result does not say (see `rounds`). `cited` says
    that the model could cite it.
    """

    output: ToolOutput
    same: bool
    rest: tuple[str, ...] | None = None
    cited: bool = True


def error_output(code: str) -> ToolOutput:
    """Return what the model is given for a call that failed with one of the API's codes."""
    text = _ERRORS.get(code, f"Not done: {plain(code)}.")
    return ToolOutput(summary=text, text=text, is_error=True, error_code=code)


def repeat_output(first: str) -> ToolOutput:
    """Return what the model is given for a call that repeats the call `first` of the same reply."""
    return ToolOutput(summary="already asked", text=f"Same call as {first}; its result is given there.", same_as=first)


def given_output(output: ToolOutput, native: Block, same_as: str) -> ToolOutput:
    """Return what the model is given for an output whose native block has the content `native`."""
    if isinstance(native.get("content"), Mapping) and native["content"].get("error_code"):
        return error_output(_code(native))
    passages = tuple(kept for passage in output.passages if (kept := _filled(passage)).paragraphs)
    if same_as and passages:
        return repeat_output(same_as)
    fetched = native.get("type") == "web_fetch_tool_result"
    if passages and fetched and not native["content"]["content"]["citations"]:
        return _uncited(replace(output, passages=passages))
    if passages:
        return output if passages == output.passages else replace(output, passages=passages)
    return replace(output, text=NO_TEXT if fetched else NOTHING_FOUND, passages=())


def _uncited(output: ToolOutput) -> ToolOutput:
    """Return an output whose passages are plain text."""
    return replace(output, text=plain_results(output.passages), passages=())


def _filled(passage: Passage) -> Passage:
    kept = tuple(paragraph for paragraph in passage.paragraphs if paragraph.strip())
    return passage if kept == passage.paragraphs else replace(passage, paragraphs=kept)


def packed_facts(same_as: str, rest: Sequence[str] | None, *, cited: bool = True) -> dict[str, Any]:
    """Return what opaque text says of a call beside its result: the call of the same reply that it repeats ("" for none).

    For the last call of a reply also what follows it (None for the others); and whether its request let results be cited.
    """
    facts: dict[str, Any] = ({"s": same_as} if same_as else {}) | ({} if cited else {"f": 1})
    return facts if rest is None else {**facts, "e": list(rest)}


def packed_hit(passage: Passage, facts: Mapping[str, Any]) -> str:
    """Return a result's text as opaque text."""
    return pack({"u": passage.url, "t": passage.title, "p": passage.paragraphs, **facts})


def packed_page(url: str, text: str, passage: Passage | None, facts: Mapping[str, Any], *, cited: bool) -> str:
    """Return opaque text that proves that a page with this text was read here, and how it was cut into paragraphs."""
    facts = {"u": url, "h": _hash(text), **({} if cited else {"w": 1}), **facts}
    if passage is None:
        return pack({**facts, "n": []})
    return pack({**facts, "v": passage.url, "t": passage.title, "n": [len(p) for p in passage.paragraphs if p.strip()]})


def read_result(call: Block, block: Block, there: Container[str]) -> Read:
    """Return what the model is given for a native result; `there` has the ids of the calls whose results stand before it."""
    content = block.get("content")
    if isinstance(content, Mapping):
        if content.get("error_code"):
            return Read(error_output(_code(block)), True, _rest(unpack(content.get("signature"))))
        return _read_page(content, there) or Read(_unproved(content) or _in_words(call, block), False)
    hits = [hit for hit in content or () if isinstance(hit, Mapping)]
    read = [_packed(hit) for hit in hits]
    known = [packed for packed in read if packed is not None]
    if hits and not known:
        return Read(_in_words(call, block), False)
    rest = _rest(known[0] if known else unpack(block.get("signature")))
    whole = len(known) == len(hits)
    passages = tuple(passage for packed in known if (passage := _passage(packed)).paragraphs)
    first = str(known[0].get("s") or "") if passages and whole else ""
    if first and first in there:
        return Read(repeat_output(first), True, rest)
    cited = not known or "f" not in known[0]
    output = ToolOutput(summary="", passages=passages, text="" if passages else NOTHING_FOUND)
    return Read(output, whole and not first, rest, cited)


def _code(block: Block) -> str:
    """Return why a call failed, in the API's word or as `OVER`, which only the opaque text says."""
    return OVER if (unpack(block.get("signature")) or {}).get("o") else str(block["content"]["error_code"])


def _rest(packed: Mapping[str, Any] | None) -> tuple[str, ...] | None:
    rest = (packed or {}).get("e")
    return tuple(map(str, rest)) if isinstance(rest, list) else None


def _packed(hit: Block) -> dict[str, Any] | None:
    packed = unpack(hit.get("encrypted_content"))
    return packed if packed is not None and "p" in packed and packed.get("u") == hit.get("url") else None


def _passage(packed: Mapping[str, Any]) -> Passage:
    return Passage(str(packed["u"]), str(packed.get("t") or ""), tuple(str(p) for p in packed["p"] if str(p).strip()))


def _page_text(content: Block) -> str:
    document = content.get("content")
    source = document.get("source") if isinstance(document, Mapping) else None
    return str(source.get("data") or "") if isinstance(source, Mapping) and source.get("type") == "text" else ""


def _unproved(content: Block) -> ToolOutput | None:
    """Return a page as plain text where nothing says that it was read here; None for one that was, and is another now."""
    if unpack(content.get("signature")) is not None:
        return None
    document = content.get("content")
    title = document.get("title") if isinstance(document, Mapping) else None
    text = _page_text(content)
    page = Passage(_line(content.get("url")), _line(title), (text,))
    return _uncited(ToolOutput(summary="", passages=(page,))) if text.strip() else None


def _read_page(content: Block, there: Container[str]) -> Read | None:
    text = _page_text(content)
    packed = unpack(content.get("signature"))
    if packed is None or packed.get("h") != _hash(text) or packed.get("u") != content.get("url"):
        return None
    rest = _rest(packed)
    first = str(packed.get("s") or "") if packed["n"] else ""
    if first and first in there:
        return Read(repeat_output(first), True, rest)
    paragraphs, at = [], 0
    for length in packed["n"]:
        paragraphs.append(text[at : at + length])
        at += length + 2
    if not paragraphs:
        return Read(ToolOutput(summary="", text=NO_TEXT), True, rest)
    output = ToolOutput(summary="", passages=(Passage(str(packed.get("v")), str(packed.get("t") or ""), tuple(paragraphs)),))
    return Read(_uncited(output) if packed.get("w") else output, not first, rest, "f" not in packed)


def _in_words(call: Block, block: Block) -> ToolOutput:
    text = told(call, block)
    return ToolOutput(summary=text, text=text)


def told(call: Block, block: Block) -> str:
    """Return in words what a call gave whose results cannot be read here."""
    asked = call.get("input")
    asked = asked if isinstance(asked, Mapping) else {}
    what = _line(asked.get("query")) or _line(asked.get("url")) or "the web"
    content = block.get("content")
    if isinstance(content, Mapping):
        if content.get("error_code"):
            return f"[Looked up {what!r}: {plain(content['error_code'])}]"
        return f"[Read {_line(content.get('url')) or what}]"
    hits = [hit for hit in content or () if isinstance(hit, Mapping)][:_TOLD_HITS]
    named = "; ".join(f"{_line(hit.get('title'))} ({_line(hit.get('url'))})" for hit in hits)
    return f"[Searched the web for {what!r}; found: {named or 'nothing'}]"


def _line(value: Any) -> str:
    return shorten(plain(value), _TOLD_WIDTH)


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "replace"), digest_size=20).hexdigest()
