"""The extraction process: reads a page, writes its Markdown, until its parent closes the pipe.

It is started by `worker` and holds nothing worth stealing: no keys, no notebook, no standard input of its own. It ends by
itself when the pipe closes, after a minute without work, and when a page takes far too long even though the parent that
should have killed it is gone.
"""

from __future__ import annotations

import faulthandler
import os
import sys
from contextlib import suppress
from typing import IO, Any

from ipy_websearch.errors import FetchError
from ipy_websearch.extract.pipe import read_frame, write_frame

_MB = 1024 * 1024


def main() -> None:
    """Serve frames on the standard streams until the parent goes."""
    memory_mb, timeout_s, idle_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    source, sink, void = _private_streams()
    from ipy_websearch.extract.html import warm

    warm()
    _limit(memory_mb)
    write_frame(sink, {"ready": True})
    while True:
        # Its thread lives in C and needs no interpreter lock, so it works while a parser loops; it calls _exit.
        faulthandler.dump_traceback_later(idle_s, exit=True, file=void)
        frame = read_frame(source)
        if frame is None:
            return
        faulthandler.dump_traceback_later(2 * timeout_s + 1, exit=True, file=void)
        header, markdown = _answer(*frame)
        write_frame(sink, header, markdown)


def _private_streams() -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    """Return the pipe's two ends under private descriptors; the standard ones are void, so that no print can break in."""
    source = os.fdopen(os.dup(0), "rb")
    sink = os.fdopen(os.dup(1), "wb")
    void = open(os.devnull, "r+b", buffering=0)  # noqa: SIM115 - it lives as long as the process
    for descriptor in (0, 1, 2):
        os.dup2(void.fileno(), descriptor)
    return source, sink, void


def _limit(memory_mb: int) -> None:
    """Bound the address space where the platform can, and let the process write no file and dump no core."""
    try:
        import resource
    except ImportError:  # Windows: the parent's polling is the limit there
        return
    limits = [(resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_AS, _mapped() + memory_mb * _MB)]
    for kind, value in limits:
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (value, value))


def _mapped() -> int:
    """Return the address space that the process has mapped so far; it is far more than the memory it uses."""
    with suppress(OSError, ValueError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 512 * _MB


def _answer(header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
    from ipy_websearch.extract.html import extract

    try:
        page = extract(body, url=header["url"], content_type=header["content_type"], mode=header["mode"])
    except FetchError as error:
        return {"refused": str(error)}, b""
    except MemoryError:
        return {"defeated": "it took too much memory"}, b""
    except Exception as error:
        return {"defeated": f"the extractor failed with {type(error).__name__}"}, b""
    date = page.published_date.isoformat() if page.published_date is not None else None
    fields = {"title": page.title, "date": date, "language": page.language, "links": page.links, "note": page.note}
    return {"page": fields}, page.markdown.encode("utf-8", "replace")


if __name__ == "__main__":
    main()
