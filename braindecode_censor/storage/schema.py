"""Schemas of what is read from files, which may come from a stranger: one declaration per field."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, TypeAdapter, ValidationError

__all__ = ["Count", "Label", "Option", "Positive", "Schema", "Size", "read_json"]

Label = str | int | float | bool
Count = Annotated[int, Field(ge=0, le=2**53)]
Size = Annotated[int, Field(ge=1, le=2**17)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Plain = bool | Annotated[int, Field(ge=-(2**17), le=2**17)] | FiniteFloat | str | None
#: An option of a module or a penalty.
Option = _Plain | list[_Plain | list[_Plain]]


class Schema(BaseModel):
    """Fields of exactly these names and types."""

    model_config = ConfigDict(extra="forbid", strict=True)


def read_json(schema, text, name):
    """Return JSON as a schema has it; an error names the field, and calls the text `name`."""
    try:
        return TypeAdapter(schema).validate_json(text)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field, value = ".".join(map(str, first["loc"])), repr(first["input"])[:80]
        message = f"{field}={value}: {first['msg']}" if field else first["msg"]
        raise ValueError(f"{name} is damaged, or written by something else: {message}.") from None
