"""Builds the next request so that it stays within what may be spent.

When money does not reach for another round, the request becomes the final one; when not even that fits, the newest results
are left out of it. What is asked for last is words alone, or the table that the user wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ipy_websearch.loop.history import Message
from ipy_websearch.loop.job import Job
from ipy_websearch.loop.limits import Meter, Purse
from ipy_websearch.loop.table import TABLE_TOOL
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.requests import build_request, estimate_tokens, tool_result
from ipy_websearch.tools.base import Tool, ToolOutput


@dataclass(slots=True)
class Draft:
    """The next request: its body (None: no money is left for any), whether it is the final one, its history, its size."""

    body: dict[str, Any] | None
    final: bool
    messages: list[Message]
    input_tokens: int


@dataclass(slots=True)
class Means:
    """What the requests of one run are made from, and the purse that they are held to."""

    job: Job
    tools: Mapping[str, Tool]
    platform: Platform
    purse: Purse
    meter: Meter

    def draft(self, messages: list[Message], *, final: bool) -> Draft:
        """Return the next request for a history, made final or smaller as money demands; a granted one is reserved."""
        while True:
            body = self.body(messages, final=final)
            tokens = estimate_tokens(body) if self.purse.bounded else 0
            granted = self.purse.grant(self.job.model, tokens, self.job.max_tokens, final=final)
            if granted:
                return Draft({**body, "max_tokens": granted}, final, messages, tokens)
            self.meter.reach("budget")
            if not final:
                final = True
            elif (smaller := self._without_newest_results(messages)) is not None:
                messages = smaller
            else:
                return Draft(None, final, messages, tokens)

    def result_message(self, outputs: Iterable[tuple[str, ToolOutput]]) -> Message:
        """Return the user turn with the results of calls, in the form that the platform takes."""
        return {"role": "user", "content": [tool_result(call_id, output, self.platform) for call_id, output in outputs]}

    def body(self, messages: list[Message], *, final: bool = False) -> dict[str, Any]:
        """Return the request for a history as it would be sent without a ceiling."""
        definitions = [*(tool.definition() for tool in self.tools.values()), *self.job.server_tools]
        last = {"type": "tool", "name": TABLE_TOOL} if self.job.columns else {"type": "none"}
        return build_request(
            model=self.job.model,
            system=self.job.system,
            messages=messages,
            tools=definitions,
            max_tokens=self.job.max_tokens,
            platform=self.platform,
            tool_choice=last if final and definitions else None,
        )

    def _without_newest_results(self, messages: list[Message]) -> list[Message] | None:
        """Return the history with errors that name the ceiling in place of the newest results, None when there are none."""
        content = messages[-1]["content"]
        if not any(b.get("type") == "tool_result" and not b.get("is_error") for b in content):
            return None
        reason = f"Left out: {self.meter.explain('budget')}."
        output = ToolOutput(summary=reason, text=reason, is_error=True)
        return [*messages[:-1], self.result_message((str(b["tool_use_id"]), output) for b in content if "tool_use_id" in b)]
