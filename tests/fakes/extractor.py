"""A stand-in for the extraction process, for tests of what is around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from ipy_websearch.extract.formats import Extracted


@dataclass
class Extractor:
    """Stands for the extraction process: gives the body back as the page's Markdown."""

    seen: list[dict[str, Any]] = field(default_factory=list)
    error: Exception | None = None

    def warm(self) -> None:
        """Nothing has to be started."""

    async def extract(self, body: bytes, **known: Any) -> Extracted:
        """Return the body as it is, with a title, a date and a link."""
        self.seen.append(known)
        if self.error:
            raise self.error
        return Extracted(
            body.decode(), "A <b>title</b>\x07", datetime(2026, 3, 1, tzinfo=UTC), ("https://example.com/next",), "a note"
        )
