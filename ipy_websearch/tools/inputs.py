"""What the input models of several tools have in common: null means left out, and numbers are brought into their bounds.

A model that asks for 100 results of an engine that gives 20 gets 20, not an error and another round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic.json_schema import SkipJsonSchema


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


def whole_number(least: int, most: int) -> Any:
    """Return the type of a whole number that is brought into its bounds, which the schema names."""

    def clamp(value: int) -> int:
        return min(max(value, least), most)

    return Annotated[int, AfterValidator(clamp), Field(json_schema_extra={"minimum": least, "maximum": most})]


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
