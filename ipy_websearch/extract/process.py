"""One extraction process as its parent sees it: started, asked, watched, killed, reaped."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ipy_websearch.extract.pipe import read_frame, write_frame

_START_S = 30.0
_POLL_S = 0.05
_MB = 1024 * 1024
# Paths are appended behind the interpreter's own, so that no file of the user's can stand in for a standard module.
_BOOT = (
    "import sys; n = int(sys.argv[1]); sys.path.extend(p for p in sys.argv[2:2 + n] if p not in sys.path);"
    "sys.argv[1:] = sys.argv[2 + n:]; from ipy_websearch.extract.child import main; main()"
)
_KEPT_VARIABLES = ("PATH", "SYSTEMROOT", "WINDIR", "TEMP", "TMP", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH")


class Defeated(Exception):
    """The process gave no answer for this page; the message says why ("it took longer than 10 s")."""


class Process:
    """A running extraction process. Use it from one thread at a time; `kill` may be called from any."""

    def __init__(self, *, timeout_s: float, memory_mb: int, idle_s: float) -> None:
        self._timeout_s = timeout_s
        self._memory_mb = memory_mb
        self._deadline = time.monotonic() + _START_S
        self._why = ""
        self.answered = 0
        try:
            self._popen = _start([str(memory_mb), str(timeout_s), str(idle_s)])
        except OSError as error:
            raise Defeated(f"the extraction process cannot be started ({error.strerror})") from None
        if self._exchange(None) is None:
            self.close()
            raise Defeated(self._why or "the extraction process cannot be started")

    def ask(self, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """Return the process's answer to one page.

        Raises:
            Defeated: it took too long or too much memory and was killed, or it crashed.
        """
        self._deadline = time.monotonic() + self._timeout_s
        reply = self._exchange((header, body))
        if reply is None:
            self.close()
            raise Defeated(self._why or f"the extractor crashed (exit status {self._popen.returncode})")
        self.answered += 1
        return reply

    def hurry(self, seconds: float) -> None:
        """Give the page at work at most `seconds` more: nobody waits for it any longer."""
        self._deadline = min(self._deadline, time.monotonic() + seconds)

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._popen.pid

    @property
    def killed(self) -> bool:
        """Whether a limit, not an accident, ended the process."""
        return bool(self._why)

    @property
    def alive(self) -> bool:
        """Whether the process can be asked."""
        return self._popen.poll() is None

    def kill(self, why: str = "") -> None:
        """End the process at once; the call that waits for it sees the pipe close."""
        self._why = self._why or why
        with suppress(OSError):
            self._popen.kill()

    def close(self) -> None:
        """End the process and reap it: no zombie, no open pipe stays behind."""
        self.kill()
        for pipe in (self._popen.stdin, self._popen.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._popen.wait()

    def _exchange(self, frame: tuple[dict[str, Any], bytes] | None) -> tuple[dict[str, Any], bytes] | None:
        assert self._popen.stdin is not None and self._popen.stdout is not None
        done = threading.Event()
        watch = threading.Thread(target=self._watch, args=(done,), name="ipy_websearch-extract-watch", daemon=True)
        watch.start()
        try:
            if frame is not None:
                write_frame(self._popen.stdin, *frame)
            return read_frame(self._popen.stdout)
        except (OSError, ValueError):
            return None
        finally:
            done.set()
            watch.join()

    def _watch(self, done: threading.Event) -> None:
        while not done.wait(_POLL_S):
            if time.monotonic() > self._deadline:
                return self.kill(f"it took longer than {self._timeout_s:g} s")
            if _resident_bytes(self._popen.pid) > self._memory_mb * _MB:
                return self.kill(f"it took more than {self._memory_mb} MB of memory")


def _start(arguments: list[str]) -> subprocess.Popen[bytes]:
    paths = _import_paths()
    windows = sys.platform == "win32"
    flags = ("CREATE_NO_WINDOW", "CREATE_NEW_PROCESS_GROUP") if windows else ()
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _BOOT, str(len(paths)), *paths, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=Path(__file__).parent,
        env={name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ},
        start_new_session=not windows,  # a Ctrl-C in the terminal is the session's affair
        creationflags=sum(getattr(subprocess, flag) for flag in flags),
    )


def _import_paths() -> list[str]:
    """Return where the child may import from: this package's home and this process's path, but not the working folder."""
    home = str(Path(__file__).resolve().parents[2])
    here = os.path.realpath(os.curdir)
    paths = [p for p in sys.path if p and os.path.isabs(p) and os.path.isdir(p) and os.path.realpath(p) != here]
    return [*(p for p in paths if p != home), home]


def _resident_bytes(pid: int) -> int:
    """Return the memory that the process holds, 0 when it cannot be told."""
    try:
        with open(f"/proc/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:
        import psutil

        return int(psutil.Process(pid).memory_info().rss)
    except Exception:  # psutil is there in most notebooks, but it is no dependency
        return 0
