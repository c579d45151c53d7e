"""What the input models of several tools have in common: null means left out, and numbers are brought into their bounds.

A model that asks for 100 results of an engine that gives 20 gets 20, not an error and another round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function


def _without_null_defaults(schema: dict[str, Any]) -> None:
    for parameter in schema["properties"].values():
        if "default" in parameter and parameter["default"] is None:
            del parameter["default"]


class ToolInput(BaseModel):
    """What a model gives to a tool. Unknown parameters are refused, so that it learns that they do nothing."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_without_null_defaults)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, given: Any) -> Any:
        return {k: v for k, v in given.items() if v is not None} if isinstance(given, Mapping) else given


@dataclass(frozen=True, slots=True)
class Bounded:
    """Marks a number that is brought into its bounds, which the schema names: `Annotated[int, Bounded(1, 20)]`."""

    least: int
    most: int

    def clamp(self, value: int) -> int:
        """Return the number, or the bound that it lies beyond."""
        return min(max(value, self.least), self.most)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(self.clamp, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "minimum": self.least, "maximum": self.most}


Optional = SkipJsonSchema[None]
"""The null of a parameter that may be left out; the schema does not offer it."""


class Location(BaseModel):
    """A place that a page is read from."""

    country: str = "US"
    languages: list[str] = ["en"]


LOCATION_SCHEMA = WithJsonSchema(
    {
        "type": "object",
        "description": "Where the page is read from, default US and en",
        "properties": {
            "country": {"type": "string", "description": "Two-letter country, such as US"},
            "languages": {"type": "array", "items": {"type": "string"}, "description": "Languages, such as en"},
        },
    }
)
