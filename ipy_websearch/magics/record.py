"""`%websearch record`, `replay` and `stop`: a lesson recorded once with a key, played back without."""

from __future__ import annotations

from typing import Any

from IPython.core.error import UsageError

_FLAGS = {"record": ("--append", "--force"), "replay": ("--instant", "--rhythm"), "stop": ()}


def tape_command(session: Any, command: str, words: list[str]) -> None:
    """Do one of the commands and say what it came to.

    Raises:
        UsageError: a word is wrong. ConfigError: the file cannot be used, or a tape is running.
    """
    flags = {word for word in words if word.startswith("--")}
    files = [word for word in words if not word.startswith("--")]
    known = _FLAGS[command]
    if flags - set(known) or len(flags) > 1 or len(files) != (command != "stop"):
        choice = f" [{' | '.join(known)}]" if known else ""
        raise UsageError(f"%websearch {command}{'' if command == 'stop' else ' FILE'}{choice}")
    if command == "stop":
        print(_stopped(session.stop_recording()))
    elif command == "record":
        tape = session.record(files[0], append="--append" in flags, force="--force" in flags).cassette
        print(f"Recording to {tape.path}; `%websearch stop` ends it. Keys are left out.")
    else:
        tape = session.replay(files[0], instant="--instant" in flags).cassette
        pace = "in the recording's rhythm" if tape.pace else "at once"
        print(f"Replaying {tape.path} {pace}: nothing is sent and nothing costs anything; `%websearch stop` ends it.")
        for warning in tape.warnings:
            print(f"note: {warning}")


def tape_lines(session: Any) -> list[str]:
    """Return what `%websearch status` says of a tape, no line when none runs."""
    if session.recording is None:
        return []
    tape = session.recording.cassette
    return [f"tape      {'replaying' if tape.replaying else 'recording to'} {tape.path} ({_count(tape)} so far)"]


def _stopped(recording: Any) -> str:
    if recording is None:
        return "No cassette is recorded or replayed."
    tape = recording.cassette
    done = "replayed from" if tape.replaying else "recorded in"
    problem = getattr(tape, "problem", "")
    return f"{_count(tape)} {done} {tape.path}." + (f"\nnote: {problem}" if problem else "")


def _count(tape: Any) -> str:
    return f"{tape.count} exchange{'' if tape.count == 1 else 's'}"
