"""The base of the fake engines that are asked by POST with JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.engine import JSON, Engine, Refusal, whole_number
from tests.fakes.server import Received


class PostEngine(Engine):
    """An engine that is asked by POST with JSON and a key in a header."""

    def check_request(self, received: Received, known: Sequence[str], required: str) -> JSON:
        """Check key, JSON and field names; return the body."""
        if not self.has_key(received.headers):
            raise Refusal(401, self.error_body(401), "the key is missing or wrong")
        if not isinstance(received.body, dict):
            raise Refusal(400, self.error_body(400), "the body is no JSON object")
        for name in received.body:
            if name not in known:
                raise self.invalid(name, "the field is not known")
        if not received.body.get(required):
            raise self.invalid(required, "the field is required")
        return received.body

    def has_key(self, headers: Mapping[str, str]) -> bool:
        """Return True when the key is there."""
        return headers.get("authorization") == f"Bearer {self.key}"

    def invalid(self, name: str, why: str) -> Refusal:
        """Return the refusal of a field."""
        return Refusal(400, self.error_body(400, f"{name}: {why}"), f"{name}: {why}")

    def number(self, body: JSON, name: str, usual: int, least: int, most: int) -> int:
        """Return a number within its bounds, or refuse."""
        value = body.get(name, usual)
        number = whole_number(value, least, most) if isinstance(value, int) else None
        if number is None:
            raise self.invalid(name, f"{value!r} is not a number from {least} to {most}")
        return number

    def one_of(self, body: JSON, name: str, choices: str) -> None:
        """Refuse a value that is not among the choices."""
        if body.get(name) is not None and body[name] not in choices.split():
            raise self.invalid(name, f"{body[name]!r} is not one of {choices}")

    def error_body(self, status: int, message: str = "") -> Any:
        """Return an error in the engine's shape."""
        raise NotImplementedError
