"""`%websearch`: the state of things, keys, the local index, help."""

from __future__ import annotations

import getpass
import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_magic, magics_class, no_var_expand

from ipy_websearch.keys import KeySpec
from ipy_websearch.settings import did_you_mean

USAGE = """\
%websearch status               engines, keys, model, folders, index
%websearch key NAME             set a key for this session, typed without being shown
%websearch key --save NAME      the same, and keep it in a file only you can read
%websearch key --forget NAME    forget a key
%websearch index FOLDER         add a folder of Markdown, text, HTML or notebooks to the local index
%websearch index --remove FOLDER   take it out again; without a folder: list the folders
%websearch cache [clear]        what is in the cache; empty it
%websearch store                what enrichments have found and kept; store clear [COLUMN] forgets it, store cancel ends batches
%websearch prices [--update]    what models and engines are charged at; fetch newer prices of models
%websearch goggles [NAME]       the goggles that --goggle knows by name; one of them in full
%websearch export FILE          the session's answers as .md, .ipynb or .html; --force replaces a file
%websearch record FILE          record what is sent and answered, without keys; --append, --force
%websearch replay FILE          answer from a recording, without keys or costs; --instant: without its rhythm
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
%config WebSearch               every setting with its value
"""

_COMMENT = re.compile(r"""((?:[^\s"'\\]|\\.|"[^"]*"|'[^']*'|\s(?!\#))*)\s\#.*""", re.DOTALL)
"""A line up to a "#" that begins a word outside of quotes."""


@magics_class
class WebSearchMagics(Magics):
    """Holds the magic; its state lives in the session."""

    @no_var_expand
    @line_magic
    def websearch(self, line: str) -> Any:
        """Show or change the state of ipy_websearch: %websearch status | key | index | …

        Examples:
            %websearch status
            %websearch key brave
            %websearch index ~/notes
        """
        commands: dict[str, Callable[[list[str]], Any]] = {
            "status": self._status,
            "key": self._key,
            "index": self._index,
            "cache": self._cache,
            "store": self._store,
            "prices": self._prices,
            "goggles": self._goggles,
            "export": self._export,
            "record": partial(self._tape, "record"),
            "replay": partial(self._tape, "replay"),
            "stop": partial(self._tape, "stop"),
            "help": self._help,
            "--help": self._help,
        }
        words = _split(line)
        if not words:
            listed = ", ".join(name for name in commands if name[0] != "-")
            raise UsageError(f"%websearch needs a command: {listed} (%websearch help)")
        if words[0] not in commands:
            hint = did_you_mean(words[0], commands)
            raise UsageError(f"%websearch has no command {words[0]!r}{hint or '; %websearch help lists them'}")
        return commands[words[0]](words[1:])

    def _help(self, words: list[str]) -> None:
        print(USAGE)

    def _status(self, words: list[str]) -> None:
        if words:
            raise UsageError(f"%websearch status takes nothing more, so not {' '.join(words)!r}")
        from ipy_websearch import api
        from ipy_websearch.magics.status import status_lines

        print("\n".join(status_lines(api.session())))

    def _key(self, words: list[str]) -> None:
        from ipy_websearch import api

        keys = api.session().keys
        flags = {word for word in words if word.startswith("-")}
        names = [word for word in words if not word.startswith("-")]
        if len(names) != 1 or flags - {"--save", "--forget"}:
            raise UsageError("%websearch key NAME [--save | --forget], with one name such as brave or anthropic")
        spec = keys.spec(names[0])
        if "--forget" in flags:
            removed = keys.forget(spec.variable)
            print(f"{spec.variable} was removed from: {', '.join(removed)}" if removed else f"{spec.variable} was not set here")
            return
        value = _typed(spec)
        keys.set(spec.variable, value)
        outcome = self._tried(spec)
        where = f" and saved in {keys.save(spec.variable, value)}" if "--save" in flags else ""
        print(f"{spec.variable} is set for this session{where}: {outcome}.")

    def _tried(self, spec: KeySpec) -> str:
        """Try a key that was just set; one that is refused is not kept."""
        from ipy_websearch import api, background
        from ipy_websearch.errors import ModelError, ProviderError
        from ipy_websearch.key_check import check_key

        try:
            return background.run(lambda: check_key(api.session(), spec))
        except (ModelError, ProviderError):
            api.session().keys.unset(spec.variable)
            raise

    def _index(self, words: list[str]) -> None:
        from ipy_websearch import api

        index = api.session().index
        folders = [Path(word).expanduser() for word in words if word != "--remove"]
        if not folders:
            listed = index.folders()
            print("\n".join(f"{count:6,}  {folder}" for folder, count in listed) or "No folder of yours is in the local index.")
            return
        for folder in folders:
            if "--remove" in words:
                print(f"{index.remove_folder(folder)} documents of {folder} were taken out of the local index.")
                continue
            if not folder.is_dir():
                raise UsageError(f"{folder} is not a folder")
            report = index.add_folder(folder)
            print(f"{folder}: {report.added} added, {report.updated} updated, {report.removed} removed")
            for path, reason in report.skipped[:10]:
                print(f"  skipped {path}: {reason}")
            if len(report.skipped) > 10:
                print(f"  … and {len(report.skipped) - 10} more")

    def _store(self, words: list[str]) -> Any:
        from ipy_websearch import api
        from ipy_websearch.magics.store import store_command

        return store_command(api.session().enrich_store, words)

    def _cache(self, words: list[str]) -> None:
        from ipy_websearch import api

        cache = api.session().cache
        if words == ["clear"]:
            print(f"{cache.clear()} entries were removed from the cache.")
        elif words:
            raise UsageError("%websearch cache [clear]")
        else:
            print("\n".join(f"{name}: {value}" for name, value in cache.stats().items()))

    def _prices(self, words: list[str]) -> None:
        from ipy_websearch import api
        from ipy_websearch.magics.prices import price_lines

        if words not in ([], ["--update"]):
            raise UsageError("%websearch prices [--update]")
        print("\n".join(price_lines(api.session(), update=bool(words))))

    def _export(self, words: list[str]) -> None:
        from ipy_websearch import api
        from ipy_websearch.magics.export import export_command

        export_command(api.session().answers, words)

    def _tape(self, command: str, words: list[str]) -> None:
        from ipy_websearch import api
        from ipy_websearch.magics.record import tape_command

        tape_command(api.session(), command, words)

    def _goggles(self, words: list[str]) -> None:
        from ipy_websearch.magics.goggles import goggle_lines

        print("\n".join(goggle_lines(" ".join(words))))


def _typed(spec: KeySpec) -> str:
    """Return a key as it was typed, without being shown."""
    try:
        return getpass.getpass(f"{spec.variable} (get one at {spec.obtain}): ")
    except (EOFError, NotImplementedError):  # as nbclient, papermill and `jupyter execute` run a notebook: nobody is there
        raise UsageError(
            f"{spec.variable} cannot be typed here, for nobody is asked for input; set the environment variable "
            f"{spec.variable} before the notebook is run, or write {spec.variable}=… in a file .env beside it"
        ) from None


def _split(line: str) -> list[str]:
    """Return the words of a line; a comment at its end, and the quotes around words, are left out."""
    if comment := _COMMENT.fullmatch(f" {line}"):
        line = comment[1]
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
