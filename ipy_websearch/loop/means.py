"""Builds the next request so that it stays within what may be spent.

When money does not reach for another round, the request becomes the final one; when not even that fits, the newest results
are left out of it. What is asked for last is words alone, or the table that the user wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ipy_websearch.loop.history import Message, with_nudge, without_newest_results
from ipy_websearch.loop.job import Job
from ipy_websearch.loop.limits import Meter
from ipy_websearch.loop.table import TABLE_NUDGE, TABLE_TOOL
from ipy_websearch.model.names import forces_tools
from ipy_websearch.model.platforms import Platform
from ipy_websearch.model.requests import build_request, estimate_tokens, tool_result
from ipy_websearch.money.budget import RunBudget
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
    """What the requests of one run are made from, and the budget that they are held to.

    `container` is what the platform ran code in last: code that waits goes on nowhere else.
    """

    job: Job
    tools: Mapping[str, Tool]
    platform: Platform
    budget: RunBudget
    meter: Meter
    container: Mapping[str, Any] | None = None
    _definitions: list[Mapping[str, Any]] = field(default_factory=list)

    def draft(self, messages: list[Message], *, final: bool) -> Draft:
        """Return the next request for a history, made final or smaller as money demands; a granted one is reserved."""
        while True:
            if final and self.job.columns and not forces_tools(self.job.model):
                messages = with_nudge(messages, TABLE_NUDGE)
            body = self.body(messages, final=final)
            tokens = estimate_tokens(body) if self.budget.bounded else 0
            granted = self.budget.grant(self.job.model, tokens, self.job.max_tokens, final=final)
            if granted:
                body["max_tokens"] = granted
                return Draft(body, final, messages, tokens)
            self.meter.reach("budget")
            if not final:
                final = True
            elif (smaller := without_newest_results(messages, self._left_out)) is not None:
                messages = smaller
            else:
                return Draft(None, final, messages, tokens)

    def result(self, call_id: str, output: ToolOutput) -> dict[str, Any]:
        """Return the result of a call in the form that the platform takes."""
        return tool_result(call_id, output, self.platform)

    def body(self, messages: list[Message], *, final: bool = False) -> dict[str, Any]:
        """Return the request for a history as it would be sent without a budget."""
        if not self._definitions:
            self._definitions = [*(tool.definition() for tool in self.tools.values()), *self.job.server_tools]
        last: dict[str, str] | None = {"type": "none"}
        if self.job.columns:
            last = {"type": "tool", "name": TABLE_TOOL} if forces_tools(self.job.model) else None
        body = build_request(
            model=self.job.model,
            system=self.job.system,
            messages=messages,
            tools=self._definitions,
            max_tokens=self.job.max_tokens,
            platform=self.platform,
            tool_choice=last if final and self._definitions else None,
        )
        return {**body, "container": self.container["id"]} if self.container else body

    def _left_out(self, call_id: str) -> dict[str, Any]:
        """Return an error that names the budget, in place of a result."""
        reason = f"Left out: {self.meter.explain('budget')}."
        return self.result(call_id, ToolOutput(summary=reason, text=reason, is_error=True))
