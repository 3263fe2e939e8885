"""What every block of the deployments file has in common."""

from typing import Any

from pydantic import BaseModel, ConfigDict, model_validator


class Part(BaseModel):
    """A block of the deployments file: unknown keys, infinities and NaN are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, values: Any) -> Any:
        """Pydantic takes ``yes`` for the number 1 and bytes for text: refused, nobody means that."""
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, bytes):
                raise ValueError(f"{name} must be plain text, found binary data")
            numeric = name in cls.model_fields and cls.model_fields[name].annotation in (int, float)
            if isinstance(value, bool) and numeric:
                raise ValueError(f"{name} must be a number, found {str(value).lower()}")
        return values
