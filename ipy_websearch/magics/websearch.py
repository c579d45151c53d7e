"""`%websearch`: what works now, keys, the local index, cassettes, prices, goggles, exports."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument
from IPython.display import display

from ipy_websearch.errors import ConfigError
from ipy_websearch.magics.arguments import HELP, Call, magic
from ipy_websearch.settings import OFFLINE_MODEL, did_you_mean, settings_dir
from ipy_websearch.text import plural, usd

USAGE = """\
%websearch status               what works now, and what is missing with the command that sets it
%websearch key NAME             set a key for this session, typed without being shown
%websearch key --save NAME      the same, and keep it in a file only you can read
%websearch key --forget NAME    forget a key
%websearch index FOLDER         add a folder of Markdown, text, HTML or notebooks to the local index
%websearch index                list the folders in it; --remove FOLDER removes one again
%websearch cache clear          empty the cache of searches and pages
%websearch store                what enrichments have found, and their batches that are at the API
%websearch store clear [COLUMN] forget what was found, of one column or of all
%websearch prices               what models and providers charge
%websearch goggles              the goggles that --goggle knows by name, with their addresses or rules
%websearch export FILE          the session's answers as .md, .ipynb or .html; --force replaces a file
%websearch record FILE          record what is sent and answered, without keys; --force replaces a file
%websearch replay FILE          answer from a recording, without keys or costs; --instant: without its pauses
%websearch stop                 stop recording or replaying
%websearch help                 this, with examples of the other magics

%search moons of Mars           results as a DataFrame      (%search --help)
%ask How many moons has Mars?   an answer with its sources  (%ask --help; %%ask for longer questions)
%fetch corpus://planets/mars    a page as Markdown          (%fetch --help)
%%enrich frame                  new columns for a DataFrame (%enrich --help); in the cell, one a line:
                                    ceo: Who is the CEO of {company}?
%panels P1                      what a tool call returned   (%panels --help)
%trace 2                        a step of the last answer   (%trace --help)
%cost                           what it all cost            (%cost --help)
%config WebSearch               every setting with its value"""


@magic("line", names=True)
@argument("command", nargs="*", help="What to do, and with what; %%websearch help lists all commands.")
@argument("--save", action="store_true", help="key: Keep it in a file only you can read.")
@argument("--forget", action="store_true", help="key: Forget it.")
@argument("--remove", action="store_true", help="index: Remove the folder.")
@argument("--force", action="store_true", help="export, record: Replace the file.")
@argument("--instant", action="store_true", help="replay: Without its pauses.")
@HELP
def websearch(call: Call) -> Any:
    """Show or change the state of ipy_websearch: %websearch status | key | index | …

    Examples:
        %websearch status
        %websearch key brave
        %websearch index ~/notes
    """
    try:
        words = shlex.split(call.text, comments=True) or ["help"]
        name = next((name for name in (" ".join(words[:2]), words[0]) if name in COMMANDS), "")
        if not name:
            hint = did_you_mean(words[0], COMMANDS)
            raise UsageError(f"%websearch has no command {words[0]!r}{hint} ({', '.join(COMMANDS)})")
        words = words[len(name.split()) :]
        signature(COMMANDS[name]).bind(call, *words, **call.options)
    except (ValueError, TypeError):
        raise UsageError(f"cannot read %websearch {call.text}; %websearch help shows how each command is written") from None
    said = COMMANDS[name](call, *words, **call.options)
    if not isinstance(said, str):
        return said
    print(said)
    return None


# --- the commands: words of the line are their positional parameters, flags those by keyword -------------------------------


def _status(call: Call) -> None:
    from ipy_websearch.display.render import bundle

    display(bundle("status", {"sections": status_sections(call.session)}), raw=True)


def _key(call: Call, name: str, /, *, save: bool = False, forget: bool = False) -> str:
    import getpass

    keys = call.session.keys
    spec = keys.spec(name)
    if forget:
        removed = ", ".join(keys.forget(spec.variable))
        return f"{spec.variable} was removed from: {removed}" if removed else f"{spec.variable} was not set here"
    try:
        value = getpass.getpass(f"{spec.variable} (get one at {spec.obtain}): ")
    except (EOFError, NotImplementedError):  # nbclient, papermill and `jupyter execute` have nobody to ask
        found = keys.find(spec.variable)
        return (
            f"{spec.variable} is {f'set ({found[1]})' if found else 'not set'}, and nobody is here to type it; set the "
            f"environment variable {spec.variable} before the notebook runs, or write {spec.variable}=… to .env beside it."
        )
    keys.set(spec.variable, value)
    where = f" and saved in {keys.save(spec.variable, value)}" if save else ""
    return f"{spec.variable} is set for this session{where}."


def _index(call: Call, folder: str = "", /, *, remove: bool = False) -> str:
    index, path = call.session.index, Path(folder).expanduser()
    if not folder:
        listed = [f"{count:6,}  {name}" for name, count in index.folders()]
        return "\n".join(listed) or "No folder of yours is in the local index."
    if remove:
        return f"{path}: {plural(index.remove_folder(path), 'document')} removed from the local index"
    report = index.add_folder(path)
    counts = f"{report.added} added, {report.updated} updated, {report.removed} removed, {len(report.skipped)} skipped"
    return "\n".join([f"{path}: {counts}", *(f"  skipped {name}: {reason}" for name, reason in report.skipped[:10])])


def _clear_cache(call: Call) -> str:
    return f"{plural(call.session.cache.clear(), 'entry', 'entries')} removed from the cache."


def _store(call: Call) -> Any:
    from ipy_websearch.enrichment.batch import open_batches

    store = call.session.enrich_store
    for batch in open_batches(store.ledger):
        name = batch.id if batch.is_answered else "a batch without an answer yet"
        print(f"at the API since {batch.sent:%Y-%m-%d %H:%M} UTC: {plural(len(batch.rows), 'row')} in {name}")
    return store.listing()


def _clear_store(call: Call, column: str | None = None, /) -> str:
    return f"{plural(call.session.enrich_store.clear(column), 'value')} removed from the store."


def _prices(call: Call) -> Any:
    from importlib.metadata import version

    from ipy_websearch.frames import WebFrame
    from ipy_websearch.model.requests import model_id
    from ipy_websearch.money.prices import FILE_NAME, built_in_prices, own_price, own_prices, tariff

    rows, kinds = list[tuple[Any, ...]](), ("input", "output", "cache_read", "cache_write_5m")
    for name in dict.fromkeys(map(model_id, (call.session.settings.model, call.session.settings.enrich_model))):
        own = own_price(name)
        of = (own.source or FILE_NAME, own.date) if own else (f"genai-prices {version('genai-prices')}", "")
        for rates in tariff(name):
            plan = f"above {rates.start:,} input tokens" if rates.start > 0 else own.plan if own else ""
            rows += [(name, kind, float(getattr(rates, kind) * 1_000_000), "million tokens", plan, *of) for kind in kinds]
    table = {**built_in_prices().rows, **own_prices().rows}.values()
    rows += [(row.provider, row.kind, float(row.usd), row.unit, row.plan, row.source, row.date) for row in table]
    return WebFrame(rows, columns=["name", "kind", "usd", "unit", "plan", "source", "date"])


def _goggles(call: Call) -> Any:
    from ipy_websearch.frames import WebFrame
    from ipy_websearch.providers.brave import catalogue

    rows = [(goggle.name, goggle.about, goggle.url or goggle.rules) for goggle in catalogue().values()]
    return WebFrame(rows, columns=["goggle", "ranks", "rules"])


def _export(call: Call, file: str, /, *, force: bool = False) -> str:
    from ipy_websearch.display.export import export

    answers, path = call.session.answers, Path(file).expanduser()
    export(answers, path, force=force)
    return f"{plural(len(answers), 'answer')} written to {path}"


def _record(call: Call, file: str, /, *, force: bool = False) -> str:
    recording = call.session.record(file, force=force)
    return f"Recording to {recording.path}; `%websearch stop` ends it. Keys are left out."


def _replay(call: Call, file: str, /, *, instant: bool = False) -> str:
    recording = call.session.replay(file, instant=instant)
    note = f"\nnote: {recording.warning}" if recording.warning else ""
    return f"Replaying {recording.path}: nothing is sent and nothing costs anything; `%websearch stop` ends it.{note}"


def _stop(call: Call) -> str:
    recording = call.session.stop_recording()
    if recording is None:
        return "No cassette is recorded or replayed."
    done = "replayed from" if recording.replayed_from else "recorded in"
    problem = f"\nnote: {recording.problem}" if recording.problem else ""
    return f"{plural(recording.count, 'exchange')} {done} {recording.path}.{problem}"


COMMANDS: dict[str, Callable[..., Any]] = {
    "help": lambda call: USAGE,
    "status": _status,
    "key": _key,
    "index": _index,
    "cache clear": _clear_cache,
    "store": _store,
    "store clear": _clear_store,
    "prices": _prices,
    "goggles": _goggles,
    "export": _export,
    "record": _record,
    "replay": _replay,
    "stop": _stop,
}


# --- status ----------------------------------------------------------------------------------------------------------------


def status_sections(session: Any) -> dict[str, list[tuple[str, ...]]]:
    """Return what works, and what is missing with the command that sets it, by heading; never a key's value."""
    import ipy_websearch
    from ipy_websearch.keys import KEYS

    chain, articles, keys = session.router.chain(), session.index.coverage(), list[tuple[str, ...]]()
    for variable, spec in KEYS.items():
        try:
            found = session.keys.find(variable)
            keys.append((variable, f"set: {found[1]}") if found else (variable, "not set", f"%websearch key {spec.names[0]}"))
        except ConfigError as exc:
            keys.append((variable, str(exc), f"%websearch key {spec.names[0]}"))
    usable = {engine: why for engine, available, why in chain if available}
    now: list[tuple[str, ...]] = [
        ("answers", _answers(session)),
        ("search", f"{', '.join(usable)} (asked in this order)"),
        *(("", why) for why in usable.values() if "not asked again" in why),
        ("index", f"{sum(articles.values())} built-in articles: {', '.join(articles)}"),
        *(("index", f"{count:,} documents of {folder}") for folder, count in session.index.folders()),
        *(row for row in keys if len(row) == 2),
        *([("cassette", f"{session.recording}; %websearch stop ends it")] if session.recording else []),
        ("version", f"ipy_websearch {ipy_websearch.__version__}"),
        ("data", str(session.data_dir)),
        ("settings", str(settings_dir())),
        ("spent", f"{usd(session.spent_usd)} in this session"),
    ]
    missing: list[tuple[str, ...]] = [row for row in keys if len(row) == 3]
    of_keys = (*(row[1] for row in missing), "is not set", "are not set")  # what the rows of the keys say already
    missing += [(name, why) for name, available, why in chain if not (available or why.endswith(of_keys))]
    notes: list[tuple[str, ...]] = [
        ("note", warning) for part in (session.ledger, session.cache, session.index) for warning in part.warnings
    ]
    return {title: rows for title, rows in (("Works now", now), ("Missing", missing), ("Notes", notes)) if rows}


def _answers(session: Any) -> str:
    """Return a description of the model that answers questions."""
    from ipy_websearch.model.requests import model_id

    name = model_id(session.settings.model)
    with suppress(ConfigError):  # a malformed key, which is named below
        if name != OFFLINE_MODEL and session.has_model_key:
            return f"{name}, with the tools {session.settings.tools}"
    return "passages as found; no model is asked" if name == OFFLINE_MODEL else f"passages as found; no key for {name}"
