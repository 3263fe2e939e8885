"""What every block of the deployments file has in common."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    """A block of the deployments file: unknown keys, infinities and NaN are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
