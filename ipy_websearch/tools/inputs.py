"""What the input models of tools have in common: null means left out, and numbers are brought into their bounds.

Apart from `base`, which everything imports, so that a search alone does not load pydantic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core.core_schema import CoreSchema, no_info_after_validator_function


def _without_null_defaults(schema: dict[str, Any]) -> None:
    for parameter in schema["properties"].values():
        if parameter.get("default") in (None, []):
            parameter.pop("default", None)


class ToolInput(BaseModel):
    """The input of a tool: null means left out, and unknown parameters are refused, so that the model learns of it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_without_null_defaults)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, given: Any) -> Any:
        return {k: v for k, v in given.items() if v is not None} if isinstance(given, Mapping) else given


@dataclass(frozen=True, slots=True)
class Bounded:
    """Marks a number that is brought into its bounds, which the schema names: `Annotated[int, Bounded(1, 20)]`.

    A model that asks for 100 results of an engine that gives 20 gets 20, not an error and another round.
    """

    least: int
    most: int

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_after_validator_function(lambda value: min(max(value, self.least), self.most), handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core), "minimum": self.least, "maximum": self.most}


Optional = SkipJsonSchema[None]
"""The null of a parameter that may be left out; the schema does not offer it."""
