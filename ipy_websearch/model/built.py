"""Messages and stream events as the SDK's models, built in one go.

The SDK builds its models leniently, field by field, and tries every member of a union: for a message with search results that
takes six times as long as what is done here, and more than sending a request does. What is not of the model's form in every
field is left to the SDK, which takes it all the same. Facts: anthropic 2.11 `_models.py`, read 2026-11.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import pydantic

Models = Mapping[str, type[pydantic.BaseModel]]


class _Mixed(NamedTuple):
    """A field that holds one of several models, or a list of them."""

    name: str
    models: Models
    is_list: bool


def built(kind: Any, value: Any) -> Any:
    """Return a JSON object as a model of `kind`, which is a model or a union of models that `type` tells apart.

    None where the SDK has to see for itself.
    """
    whole = value
    try:
        model = _models(kind)[value["type"]]
        later: dict[str, Any] = {}
        for name, models, is_list in _mixed(model):
            given = value[name]
            if is_list and isinstance(given, list):
                later[name] = [models[each["type"]].model_validate(each) for each in given]
                value = {**value, name: []}
            elif isinstance(given, Mapping):
                value = {**value, name: models[given["type"]].model_validate(given)}
        made = model.model_validate(value)
    except (pydantic.ValidationError, AttributeError, KeyError, TypeError):
        return None
    for name, models_made in later.items():
        setattr(made, name, models_made)
    return made if not isinstance(kind, type) or _is_as_given(made, whole) else None


def _is_as_given(made: pydantic.BaseModel, value: Mapping[str, Any]) -> bool:
    """Say whether a model has every value as it came, and let its further fields not count as set: so does the SDK, which
    validates members of unions alone and takes all else as it is."""
    fields = type(made).model_fields
    for name, given in value.items():
        held = getattr(made, name, None)
        if isinstance(held, pydantic.BaseModel):
            if name in fields and fields[name].annotation is type(held) and not _is_as_given(held, given):
                return False
        elif not isinstance(held, list | dict) and (type(held) is not type(given) or held != given):
            return False
    made.model_fields_set.difference_update(made.model_extra or ())
    return True


@cache
def _mixed(model: type[pydantic.BaseModel]) -> tuple[_Mixed, ...]:
    """Return the fields of a model that hold several kinds of models."""
    found = []
    for name, field in model.model_fields.items():
        kind: Any = field.annotation
        is_list = get_origin(kind) is list
        models = _models(get_args(kind)[0] if is_list else kind)
        if len(models) > 1 and field.is_required():
            found.append(_Mixed(name, models, is_list))
    return tuple(found)


@cache
def _models(kind: Any) -> Models:
    """Return models by their `type`; empty where that does not tell them apart."""
    kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    members = (kind,) if isinstance(kind, type) else get_args(kind)
    try:
        found = {get_args(member.model_fields["type"].annotation): member for member in members}
    except (AttributeError, KeyError):
        return {}
    return {words[0]: member for words, member in found.items()} if all(len(words) == 1 for words in found) else {}
